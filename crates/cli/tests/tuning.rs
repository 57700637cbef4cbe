//! `headtime get`, `set`, `status` and `map` against a running `headtime serve`, through the real
//! program.

#[path = "common/program.rs"]
mod program;

use std::path::PathBuf;
use std::process::Output;

use program::{Program, headtime, text, words};
use rustix::process::Signal;
use serde_json::Value;

/// A server of an emulated drive in a folder of its own.
struct Served {
    program: Program,
    folder: tempfile::TempDir,
    drive: String,
}

impl Served {
    fn start(folder: tempfile::TempDir, more: &[&str]) -> Self {
        let drive = format!("emulated:atlas10k?backing={}", text(&folder.path().join("drive.img")));
        let line = format!(
            "serve --drive {drive} --volume rec=16MiB,priority=rt/1 --listen unix:{} --print-uri",
            text(&folder.path().join("nbd.sock"))
        );
        let mut program = Program::start(&[&words(&line)[..], more].concat());
        program.line();
        Self { program, folder, drive }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        headtime(&[arguments, &["--drive", &self.drive]].concat())
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("it prints UTF-8")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.said(&[arguments, &["--json"]].concat()))
            .expect("one JSON value")
    }

    /// The exit code and the message of what is refused.
    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments);
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn end(self) -> tempfile::TempDir {
        self.program.signal(Signal::TERM);
        let (status, _, said) = self.program.end();
        assert!(status.success(), "{status}: {said}");
        self.folder
    }
}

#[test]
fn a_running_server_is_asked_and_changed_and_remembers() {
    let served = Served::start(tempfile::tempdir().expect("a folder"), &["--set", "lookahead_k=5"]);
    let all = served.said(&["get"]);
    for (name, value) in [
        ("policy", "headtime"),
        ("lookahead_k", "5"),
        ("latency_matrix", "use"),
        ("timesource", "clock"),
    ] {
        let has_value = |line: &str| line.split_whitespace().nth(1) == Some(value);
        assert!(
            all.lines().any(|line| line.starts_with(name) && has_value(line)),
            "{name} in\n{all}"
        );
    }
    assert_eq!(served.said(&["get", "lookahead_k"]).trim(), "5");
    let dry = served.said(&["set", "policy=g-matrix", "deadlines=rt=50ms", "--dry-run"]);
    assert!(dry.contains("policy would be g-matrix, was headtime"), "{dry}");
    assert_eq!(served.json(&["get", "policy"])[0]["value"], "headtime");
    let (code, message) = served.refused(&["set", "policy=g-matrix", "lookahead_k=12"]);
    assert!(
        code == Some(2)
            && message.contains("`12`")
            && message.contains("from 1 to 8")
            && message.contains("nothing was changed"),
        "{message}"
    );
    let (code, message) = served.refused(&["set", "policy"]);
    assert!(code == Some(2) && message.contains("NAME=VALUE"), "{message}");
    assert_eq!(served.json(&["get", "policy"])[0]["source"], "default");
    let changed = served.json(&["set", "policy=g-matrix", "deadlines=rt=50ms", "lookahead_k=6"]);
    assert_eq!(
        (&changed["changed"][0]["remembered"], &changed["changed"][2]["remembered"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
    assert!(
        changed["notes"][0].as_str().is_some_and(|note| note.contains("lookahead_k = 5")),
        "{changed}"
    );
    let status = served.json(&["status"]);
    assert_eq!(
        (&status["drive"]["policy"], &status["model"]["by"], &status["volumes"][0]["priority"]),
        (&"g-matrix".into(), &"profile".into(), &"rt/1".into())
    );
    assert!(served.said(&["status"]).contains("drive model: profile"));
    assert_eq!(served.refused(&["map", "show"]).0, Some(2), "there is no map");
    let folder = served.end();
    // Without the flag, what was set counts.
    let served = Served::start(folder, &[]);
    assert_eq!(
        (served.said(&["get", "policy"]).trim(), served.said(&["get", "lookahead_k"]).trim()),
        ("g-matrix", "6")
    );
    served.said(&["set", "--reset", "policy", "--reset", "lookahead_k"]);
    assert_eq!(served.said(&["get", "policy"]).trim(), "headtime");
    drop(served);
    let nobody = headtime(&["get", "--control", "/nowhere/drive.control"]);
    assert!(
        nobody.status.code() == Some(1)
            && String::from_utf8_lossy(&nobody.stderr).contains("is `headtime serve` running")
    );
    assert_eq!(headtime(&["status"]).status.code(), Some(2), "no server is named");
}

#[test]
fn the_map_of_a_running_server_is_saved_loaded_and_used_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = folder.path().join("atlas.map");
    // Learned in virtual time, which takes no time.
    let learn = |more: &[&str]| {
        let few = words(
            "sim --drive atlas10k --policy satf-map --clients 8 --requests 1500 --belief \
                compact --json",
        );
        headtime(&[&few[..], more].concat())
    };
    assert!(learn(&["--map-out", text(&map)]).status.success());
    let again = learn(&["--map-out", text(&map)]);
    assert!(
        again.status.code() == Some(2)
            && String::from_utf8_lossy(&again.stderr).contains("--force")
    );
    let served = Served::start(folder, &["--belief", "compact"]);
    assert!(served.said(&["map", "load", text(&map)]).contains("started from a profile"));
    assert_eq!(served.json(&["map", "show"])["kind"], "compact");
    let copy = served.path("copy.map");
    assert!(served.said(&["map", "save", text(&copy)]).contains("copy.map"));
    let (code, message) = served.refused(&["map", "save", text(&copy)]);
    assert!(code == Some(2) && message.contains("exists"), "{message}");
    let (code, message) = served.refused(&["map", "save"]);
    assert!(code == Some(2) && message.contains("has no file"), "{message}");
    let checked = headtime(&["map", "load", text(&copy), "--profile", "atlas10k"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let matrix = served.path("matrix.map");
    let learned = headtime(&words(&format!(
        "sim --drive atlas10k --belief matrix --map cell=1MiB --requests 300 \
            --map-out {}",
        text(&matrix)
    )));
    assert!(learned.status.success(), "{}", String::from_utf8_lossy(&learned.stderr));
    let (code, message) = served.refused(&["map", "load", text(&matrix)]);
    assert!(
        code == Some(2) && message.contains("matrix map") && message.contains("compact map"),
        "{message}"
    );
    assert_eq!(served.json(&["status"])["model"]["map"]["from_profile"], true);
    drop(served.end());
}

fn iops(arguments: &[&str]) -> f64 {
    let output = headtime(
        &[
            &["sim", "--drive", "atlas10k", "--clients", "16", "--requests", "3000", "--json"],
            arguments,
        ]
        .concat(),
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    answer["iops"].as_f64().expect("a number")
}

/// A map is no profile: what it was told is used, the same run gives the same, and what it kept
/// helps the next.
#[test]
fn a_simulation_goes_by_a_map() {
    let folder = tempfile::tempdir().expect("a folder");
    let map = folder.path().join("atlas.map");
    let nothing = ["--policy", "sptf-expected", "--belief", "compact", "--map", "from=nothing"];
    let first = iops(&[&nothing[..], &["--map-out", text(&map), "--seed", "3"]].concat());
    assert_eq!(
        iops(&[&nothing[..], &["--seed", "3"]].concat()),
        first,
        "the same seed, the same run"
    );
    let by_profile = iops(&["--policy", "sptf-expected", "--belief", "compact", "--seed", "3"]);
    assert!(by_profile > 1.1 * first, "{by_profile} with the profile, {first} with nothing");
    let ignored =
        iops(&words("--policy satf-map --belief compact --set latency_matrix=ignore --seed 3"));
    let used = iops(&["--policy", "satf-map", "--belief", "compact", "--seed", "3"]);
    assert!(used > ignored, "{used} by the map, {ignored} by address");
    let refused = |arguments: &[&str]| {
        let output = headtime(&[&["sim", "--drive", "atlas10k"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = format!("compact:{}", text(&map));
    let foreign = headtime(&["sim", "--drive", "cheetah15k5", "--belief", &file]);
    let message = String::from_utf8_lossy(&foreign.stderr).into_owned();
    assert!(
        foreign.status.code() == Some(2)
            && message.contains("atlas.map")
            && message.contains("drive model"),
        "{message}"
    );
    for (arguments, says) in [
        (&["--belief", "compact:/nowhere.map"][..], "cannot be read"),
        (&["--belief", "truth"], "matrix:FILE"),
        (&["--belief", "matrix", "--policy", "sptf-oracle"], "uses no latency map"),
        (&["--map", "cell=4KiB"], "--model matrix"),
        (&["--belief", "matrix", "--map", "bits=5"], "4, 8 or 16"),
        (&["--set", "lookahead_k=0"], "from 1 to 8"),
        (&["--profile", "nearline-20tb"], "the same size"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(says), "{arguments:?}: {message}");
    }
}

/// The page has a line for each, with its default.
#[test]
fn the_page_of_tunables_has_every_one_of_them() {
    let page = include_str!("../../../docs/tunables.md");
    for tunable in headtime_serve::tuner::changeables() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", tunable.name)));
        let row = row.unwrap_or_else(|| panic!("{} is not on the page", tunable.name));
        let default = if tunable.default.is_empty() {
            "none".to_owned()
        } else {
            format!("`{}`", tunable.default)
        };
        assert_eq!(
            row.split('|').nth(3).map(str::trim),
            Some(default.as_str()),
            "{}",
            tunable.name
        );
    }
}
