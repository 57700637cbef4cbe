//! `headtime plan`: what it reserves, held against the simulator, and what it says to what cannot
//! be.

#[path = "common/program.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::process::Output;

use headtime_workload::file::{NEED_KEYS, NeedsFile};
use program::{headtime, stderr, stdout, words};
use serde_json::Value;

struct Needs(tempfile::TempDir);

impl Needs {
    fn of(toml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file");
        std::fs::write(folder.path().join("need.toml"), toml).expect("the file is written");
        Self(folder)
    }

    fn plan(&self, more: &[&str]) -> Output {
        let file = self.0.path().join("need.toml");
        headtime(&[&["plan", file.to_str().expect("UTF-8")], more].concat())
    }

    fn planned(&self, drive: &str) -> Value {
        let output = self.plan(&["--drive", drive, "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("exactly one JSON object")
    }

    fn refused(&self, drive: &str) -> String {
        let output = self.plan(&["--drive", drive]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{}", stderr(&output));
        stderr(&output).to_owned()
    }
}

fn sample() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate stands in crates/ of the workspace");
    workspace.join("docs/need.toml")
}

#[test]
fn the_sample_is_planned_with_one_command_for_each_volume_and_what_is_left() {
    let file = sample();
    let file = file.to_str().expect("UTF-8");
    let output = headtime(&["plan", file, "--drive", "nearline-20tb", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("exactly one JSON object");
    let hundredths = |value: &Value| (value.as_f64().expect("a number") * 100.0).round() as i64;
    let needs = answer["needs"].as_array().expect("a list");
    let of = |volume: &str| {
        needs
            .iter()
            .filter(|need| need["volume"] == volume)
            .map(|need| hundredths(&need["reserve_percent"]))
            .sum::<i64>()
    };
    let volumes = answer["volumes"].as_array().expect("a list");
    assert_eq!(
        volumes.iter().map(|volume| &volume["volume"]).collect::<Vec<_>>(),
        ["recorder@realtime", "recorder", "vm1"]
    );
    for volume in volumes {
        let (name, sum) =
            (volume["volume"].as_str().expect("a name"), hundredths(&volume["reserve_percent"]));
        assert_eq!(sum, of(name), "{name}");
        assert_eq!(
            volume["command"],
            format!("headtime volume set {name} reserve={}%", sum as f64 / 100.0)
        );
    }
    let reserved: i64 = needs.iter().map(|need| hundredths(&need["reserve_percent"])).sum();
    assert_eq!(
        (hundredths(&answer["reserved_percent"]), hundredths(&answer["left_percent"])),
        (reserved, 10_000 - reserved)
    );

    let output = headtime(&["plan", file, "--drive", "nearline-20tb"]);
    let shown = stdout(&output);
    for expected in
        ["cameras", "RESERVE", "headtime volume set recorder@realtime reserve=", "% left"]
    {
        assert!(shown.contains(expected), "{expected} is missing from\n{shown}");
    }
}

/// The reservation must suffice without being much larger than needed: the simulated drive gets
/// exactly the planned requests, one at a time, so that no queue shortens the seeks.
#[test]
fn what_is_reserved_is_what_the_simulated_drive_takes() {
    for (drive, rate, size, run, reads, most) in [
        ("deskstar34gxp@papers", 20.0, "4KiB", 1, 1.0, 1.15),
        ("deskstar34gxp@papers", 20.0, "4KiB", 1, 0.0, 1.15),
        ("deskstar34gxp@papers", 200.0, "4KiB", 32, 1.0, 1.4),
        // Without read-ahead each request of a run misses its sector.
        ("deskstar34gxp@nocache", 40.0, "4KiB", 16, 1.0, 1.9),
        ("deskstar34gxp@nocache", 40.0, "4KiB", 16, 0.0, 1.9),
        ("atlas10k", 40.0, "8KiB", 1, 1.0, 1.15),
        ("atlas10k", 60.0, "64KiB", 16, 1.0, 1.6),
    ] {
        let needs = Needs::of(&format!(
            "[[need]]\nname = \"a\"\nrate = {rate}\nsize = \"{size}\"\nrun = {run}\nreads = \
                {reads}\n"
        ));
        let planned = needs.planned(drive)["reserved_percent"].as_f64().expect("a number") / 100.0;
        let workload = format!(
            "random:rate={rate},size={size},reads={reads},run={{kind=\"fixed\",requests={run}}}"
        );
        let output = headtime(&words(&format!(
            "sim --json --policy fcfs --drive {drive} --workload {workload} --seconds \
                60 --outstanding 1"
        )));
        assert!(output.status.success(), "{}", stderr(&output));
        let answer: Value =
            serde_json::from_slice(&output.stdout).expect("exactly one JSON object");
        let served = answer["iops"].as_f64().expect("a number") / rate;
        assert!((served - 1.0).abs() < 0.1, "{workload}: {served} of it was served");
        let taken = rate * answer["service_ms"]["mean"].as_f64().expect("a number") / 1e3;
        assert!(
            planned > 0.95 * taken && planned < most * taken,
            "{drive}, {workload}: planned {planned}, taken {taken}"
        );
    }
}

#[test]
fn more_than_the_drive_has_is_refused_with_the_volume_and_the_free_share() {
    let needs = Needs::of(
        "[[need]]\nname = \"a\"\nrate = 40\n\n[[need]]\nname = \"b\"\nrate = 40\n\n[[need]]\nname \
            = \"c\"\nrate = 200\n\n[[need]]\nname = \"d\"\nrate = 1\n",
    );
    let said = needs.refused("deskstar34gxp");
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].contains("need.toml:5: need b: it takes ")
            && lines[0].contains(" % are left after the others; ask for fewer requests"),
        "{said}"
    );
    assert!(
        lines[1].contains("need.toml:9: need c: that takes 2")
            && lines[1].contains("% of the drive's time, more than it has"),
        "{said}"
    );
    assert_eq!(lines.len(), 2, "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_with_file_line_key_and_remedy() {
    let said =
        Needs::of("[[need]]\nname = \"a\"\nrate = 40\nblock = \"4KiB\"\nsize = \"4 apples\"\n")
            .refused("deskstar34gxp");
    assert!(
        said.contains(
            "need.toml:4:1: need a: unknown key `block`; known are name, volume, \
        rate, size, run, reads"
        ),
        "{said}"
    );
    assert!(said.contains("need.toml:5:8: need a: size: "), "{said}");
    let said = Needs::of(
        "[[need]]\nvolume = \"vm1@fast\"\nrate = 1\n[[need]]\nvolume = \"a \
        b\"\nrate = 1\n[[need]]\nrate = 1\nsize = \"1TiB\"\n",
    )
    .refused("deskstar34gxp");
    assert!(
        said.contains(
            ":1: need need-1: volume vm1@fast: a volume has the classes realtime and \
        bulk; write vm1@realtime or vm1@bulk"
        ),
        "{said}"
    );
    assert!(said.contains(":4: need need-2: ") && said.contains("a b"), "{said}");
    assert!(
        said.contains(
            ":7: need need-3: a run of 1 requests of 1099511627776 bytes is longer than the drive"
        ),
        "{said}"
    );
    let one = Needs::of("[[need]]\nrate = 1\n");
    assert!(one.refused("no-such-drive").contains("see `headtime profiles`"));
    let missing = headtime(&["plan", "/nowhere/need.toml", "--drive", "atlas10k"]);
    assert!(
        missing.status.code() == Some(2)
            && stderr(&missing).contains("/nowhere/need.toml cannot be read"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn help_names_every_key_and_the_sample_uses_them_all() {
    let help = headtime(&["plan", "--help"]);
    let sample = std::fs::read_to_string(sample()).expect("the sample is there");
    for key in NEED_KEYS {
        assert!(stdout(&help).contains(&format!("  {} = {}", key.name, key.takes)), "{}", key.name);
        assert!(sample.contains(&format!("\n{} = ", key.name)), "{}", key.name);
    }
    assert!(NeedsFile::from_toml("need.toml", &sample).is_ok_and(|file| file.needs.len() == 4));
}
