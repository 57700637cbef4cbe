//! Workloads drawn at random: mixtures for comparisons, which no scheduler was made for.
//!
//! A workload has one to four streams, each of one kind:
//!
//! | kind | share | what is drawn |
//! |---|---|---|
//! | random requests | 30 % | 1–32 clients, 4–64 KiB, popularity, think time, flushes |
//! | sequential runs | 20 % | 1–8 runs or requests outstanding, 4 KiB–1 MiB, reads or writes |
//! | short runs | 20 % | 1–16 clients, runs of 4–64 requests, 4–256 KiB, think time |
//! | timed requests | 15 % | random or in a run, at most 30 a second, some with a deadline |
//! | processes | 15 % | readers, chains, writers through a page cache, small files |
//!
//! Half of the streams are confined to a part of the drive; parts may overlap. The proportions are
//! guesses: they have to cover what users may have, and stand for no user.

use alloc::format;
use alloc::string::String;

use headtime_config::TextErrors;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::dice::below;
use crate::file::WorkloadFile;

/// The form of the names that [`drawn`] accepts.
pub const DRAWN: &str = "drawn-SEED";

/// The workload that a name of the form [`DRAWN`] stands for, the same on every machine; none of
/// another name.
///
/// # Errors
/// Never: a test reads many of them.
pub fn drawn(name: &str) -> Option<Result<WorkloadFile, TextErrors>> {
    let seed = name.strip_prefix("drawn-")?.parse().ok()?;
    Some(WorkloadFile::from_toml(name, &toml(seed)))
}

fn toml(seed: u64) -> String {
    let mut draw = Draw(ChaCha8Rng::seed_from_u64(seed));
    let mut text = format!("description = \"a mixture drawn at random from seed {seed}\"\n");
    for number in 1..=draw.whole(1, 4) {
        let (kind, keys) = draw.stream();
        text += &format!("\n[[stream]]\nname = \"{kind}-{number}\"\n{keys}");
    }
    text
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn whole(&mut self, from: u32, to: u32) -> u32 {
        from + below(&mut self.0, u64::from(to - from + 1)) as u32
    }

    fn power_of_two(&mut self, from: u32, to: u32) -> u32 {
        1 << self.whole(from.ilog2(), to.ilog2())
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.whole(1, 100) <= percent
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[below(&mut self.0, of.len() as u64) as usize]
    }

    /// A stream's kind, and its keys in TOML.
    fn stream(&mut self) -> (&'static str, String) {
        let (kind, mut keys) = match self.whole(0, 99) {
            0..30 => ("random", self.random()),
            30..50 => ("sequential", self.sequential()),
            50..70 => ("short-runs", self.short_runs()),
            70..85 => ("timed", self.timed()),
            _ => ("process", self.process()),
        };
        if self.chance(50) {
            let share = self.one_of(&[2, 10, 30]);
            let first = self.whole(0, 100 - share);
            keys += &format!("range = \"{first}%..{}%\"\n", first + share);
        }
        (kind, keys)
    }

    fn random(&mut self) -> String {
        let mut keys = format!(
            "clients = {}\nsize = \"{}KiB\"\nreads = {:?}\n",
            self.power_of_two(1, 32),
            self.power_of_two(4, 64),
            self.one_of(&[1.0, 1.0, 0.7, 0.5, 0.0])
        );
        if self.chance(30) {
            keys += "place = { kind = \"zipf\", theta = 0.9 }\n";
        }
        if self.chance(15) {
            keys += &format!("flush_every = {}\n", self.power_of_two(1, 32));
        }
        keys + &self.think()
    }

    fn sequential(&mut self) -> String {
        let (runs, depth) = (self.power_of_two(1, 8), self.power_of_two(1, 8));
        let reads = self.one_of(&[1.0, 1.0, 0.0]);
        // Clients share one run where it has several outstanding.
        let (clients, positions) = if self.chance(50) { (depth, 1) } else { (runs, runs) };
        format!(
            "clients = {clients}\npositions = {positions}\nsize = \"{}KiB\"\nreads = \
                {reads:?}\nrun = \"sequential\"\n",
            self.power_of_two(4, 1024)
        )
    }

    fn short_runs(&mut self) -> String {
        let keys = format!(
            "clients = {}\nsize = \"{}KiB\"\nreads = {:?}\nrun = {{ kind = \"geometric\", mean = \
                {} }}\n",
            self.power_of_two(1, 16),
            self.power_of_two(4, 256),
            self.one_of(&[1.0, 1.0, 0.7, 0.0]),
            self.power_of_two(4, 64)
        );
        keys + &self.think()
    }

    fn timed(&mut self) -> String {
        let rate = self.whole(1, 30);
        let kind = self.one_of(&["constant", "poisson"]);
        let mut keys = format!(
            "arrivals = {{ kind = \"{kind}\", rate = {rate}.0 }}\nsize = \"{}KiB\"\nreads = {:?}\n",
            self.power_of_two(4, 256),
            self.one_of(&[1.0, 0.0])
        );
        if self.chance(50) {
            keys += "run = \"sequential\"\n";
        }
        if self.chance(50) {
            keys += &format!("deadline = \"{}ms\"\n", self.one_of(&[100, 250, 1_000]));
        }
        keys
    }

    fn process(&mut self) -> String {
        let size = self.power_of_two(8, 256);
        let process = match self.whole(0, 3) {
            0 => "\"reader\"".into(),
            1 => format!("{{ kind = \"chain\", file = \"{size}KiB\" }}"),
            2 => "{ kind = \"writer\", file = \"1GiB\", memory = \"256MiB\" }".into(),
            _ => "{ kind = \"files\", reads = 0.6, creates = 0.2, deletes = 0.2, files = 5000, \
                  memory = \"50MiB\" }"
                .into(),
        };
        format!(
            "clients = {}\nprocess = {process}\nsize = \"64KiB\"\nthink = \"{}us\"\n",
            self.power_of_two(1, 4),
            self.one_of(&[20, 1_000])
        )
    }

    /// The clients of two streams in five think.
    fn think(&mut self) -> String {
        if !self.chance(40) {
            return String::new();
        }
        let mean = self.one_of(&[1, 5, 20, 100]);
        format!("think = {{ kind = \"exponential\", mean = \"{mean}ms\" }}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_workloads_are_workloads() {
        for seed in 0..2_000 {
            let file = drawn(&format!("drawn-{seed}")).expect("a name of the form");
            let file = file.unwrap_or_else(|errors| panic!("{errors}\n{}", toml(seed)));
            assert!((1..=4).contains(&file.streams.len()), "{seed}");
        }
        assert!(drawn("drawn-x").is_none() && drawn("random").is_none());
    }
}
