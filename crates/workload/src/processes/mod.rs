//! [`Processes`]: a stream of processes, which emits requests, and the ends of processes.

mod benchmark;
mod file_system;
mod journal;
mod output;
mod read_ahead;
mod readers;
mod resident;
mod write_back;
mod writers;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Sectors};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::arrivals::{Arrivals, ThinkTime};
use crate::check::Check;
use crate::config::StreamConfig;
use crate::error::StreamFault;
use crate::limits::Limits;
use crate::process::Process;
use crate::source::SourceEvent;
use benchmark::Benchmark;
pub(crate) use output::Clients;
use output::Output;
use readers::Readers;
use writers::Writers;

/// The processes of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    stream: u32,
    limits: Limits,
    model: Model,
}

#[derive(Clone, Debug)]
enum Model {
    Readers(Readers),
    Writers(Writers),
    Files(Box<Benchmark>),
}

impl Processes {
    /// The processes of stream `stream` on a drive of `capacity`.
    pub(crate) fn new(
        stream: u32,
        process: &Process,
        config: &StreamConfig,
        check: &Check,
        capacity: Sectors,
        seed: u64,
    ) -> Result<Self, StreamFault> {
        config.check_limits(check)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(stream));
        let range = config.range_on(capacity)?;
        let mut common = Common { config, range, check, rng: &mut rng };
        let model = match process {
            Process::Reads { files, passes, read_ahead_bytes } => {
                Model::Readers(Readers::new(files, *passes, *read_ahead_bytes, &mut common)?)
            }
            Process::Writes { file_bytes, passes, cache } => {
                Model::Writers(Writers::new(*file_bytes, *passes, cache, &mut common)?)
            }
            Process::Files(benchmark) => {
                Model::Files(Box::new(Benchmark::new(benchmark, &mut common)?))
            }
        };
        Ok(Self { stream, limits: Limits::new(config, check.sector), model })
    }

    /// Begins the processes.
    pub(crate) fn start(&mut self, clients: &mut Clients, events: &mut VecDeque<SourceEvent>) {
        let Self { stream, limits, model } = self;
        let mut out = Output { stream: *stream, limits, clients, events };
        match model {
            Model::Readers(readers) => readers.start(&mut out),
            Model::Writers(writers) => writers.start(&mut out),
            Model::Files(benchmark) => benchmark.start(&mut out),
        }
    }

    /// A request of the process at `place` is complete.
    pub(crate) fn finished(
        &mut self,
        now: Instant,
        place: u32,
        clients: &mut Clients,
        events: &mut VecDeque<SourceEvent>,
    ) {
        let Self { stream, limits, model } = self;
        let mut out = Output { stream: *stream, limits, clients, events };
        match model {
            Model::Readers(readers) => readers.finished(now, place, &mut out),
            Model::Writers(writers) => writers.finished(now, &mut out),
            Model::Files(benchmark) => benchmark.finished(now, place, &mut out),
        }
    }

    /// The wake-up of the process at `place` is due.
    pub(crate) fn wake(
        &mut self,
        now: Instant,
        place: u32,
        clients: &mut Clients,
        events: &mut VecDeque<SourceEvent>,
    ) {
        let Self { stream, limits, model } = self;
        let mut out = Output { stream: *stream, limits, clients, events };
        match model {
            // The progress of a reader depends on its own reads only.
            Model::Readers(_) => {}
            Model::Writers(writers) => writers.wake(now, place, &mut out),
            Model::Files(benchmark) => benchmark.wake(now, place, &mut out),
        }
    }
}

/// The settings that all processes have, and the random numbers of the stream.
struct Common<'a> {
    config: &'a StreamConfig,
    range: Extent,
    check: &'a Check,
    rng: &'a mut ChaCha8Rng,
}

/// The number and think time of the processes of a stream.
fn closed(config: &StreamConfig, check: &Check) -> Result<(u32, ThinkTime), StreamFault> {
    config.arrivals.check(check)?;
    match config.arrivals {
        Arrivals::Closed { clients, think } => Ok((clients, think)),
        _ => Err(check.value(
            "arrivals",
            "an open or paced loop",
            "a closed loop for a stream of processes",
            "choose clients and a think time",
        )),
    }
}

/// The part of the range of each of `count` processes, in whole pages.
fn parts(range: Extent, count: u32, check: &Check) -> Vec<Extent> {
    let (page, count) = (check.page(), u64::from(count));
    let part = range.len.get() / count / page * page;
    let start = |number: u64| range.start.get() + number * part;
    (0..count).map(|number| Extent::from_numbers(start(number), part)).collect()
}

/// Checks that `len` sectors fit into a client's part of the range.
fn fits(key: &'static str, len: u64, part: u64, check: &Check) -> Result<(), StreamFault> {
    if len <= part {
        return Ok(());
    }
    Err(check.value(
        key,
        alloc::format!("{} bytes", check.bytes(len)),
        alloc::format!("at most a client's part of the range, {} bytes", check.bytes(part)),
        "widen the range, or lower clients or the size",
    ))
}
