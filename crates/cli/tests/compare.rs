//! `headtime compare`: what it writes, that it goes on where it was cut off, that nothing but plan
//! and seed decides the figures, and what it says to nonsense.

#[path = "common/program.rs"]
mod program;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use headtime_lab::compare::{COLUMNS, ColumnKind};
use program::{check_refusal, headtime_in, stderr, stdout, words};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[path = "common/markup.rs"]
mod markup;

/// Runs the real program in `folder` to its end.
fn headtime(folder: &Path, arguments: &[&str]) -> Output {
    headtime_in(folder, &[&["compare"], arguments].concat())
}

fn done(folder: &Path, arguments: &[&str]) -> Output {
    let output = headtime(folder, arguments);
    assert!(
        output.status.success(),
        "headtime compare {}: {}",
        arguments.join(" "),
        stderr(&output)
    );
    output
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a CSV, each by the names of its columns.
fn lines(path: PathBuf) -> Vec<std::collections::HashMap<String, String>> {
    let text = read(path);
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .map(|line| line.expect("every line has every column"))
        .collect()
}

fn cells(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("cells")).expect("a run made it");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("it can be read").path()).collect();
    paths.sort();
    paths
}

/// The cells of the policies themselves: not of a stream alone, and not at equal load.
fn own_cells(folder: &Path) -> usize {
    let is_own = |path: &PathBuf| {
        let cell: Value = serde_json::from_str(&read(path.clone())).expect("JSON");
        cell["decisive"]["stream"].is_null() && cell["decisive"]["rates"].is_null()
    };
    cells(folder).iter().filter(|path| is_own(path)).count()
}

/// The cells that were there already, and all of them, of both passes.
fn reused(output: &Output) -> (u64, u64) {
    let counts = stderr(output).lines().filter(|line| line.contains(" are there already in "));
    counts.fold((0, 0), |(reused, all), line| {
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        (reused + numbers[0], all + numbers[1])
    })
}

/// Everything that is promised to be the same, as one text.
fn results(folder: &Path) -> String {
    ["results.csv", "summary.csv", "results.json", "report.html"]
        .map(|name| read(folder.join(name)))
        .concat()
}

/// Eight runs that take no time.
const TINY: &str = "--policies fcfs,sptf-expected --drives atlas10k --depths 1,8 \
    --replicas 2 --requests 200 --seed 5";

#[test]
fn a_comparison_is_written_in_every_form_and_printed_as_a_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = done(folder.path(), &[&words(TINY)[..], &["--out", "x"]].concat());
    for expected in
        ["against fcfs", "sptf-expected", "Student's over 2 replicas", "written: x/report.html"]
    {
        assert!(
            stdout(&output).contains(expected),
            "{expected} is missing from\n{}",
            stdout(&output)
        );
    }
    let out = folder.path().join("x");
    let table = lines(out.join("results.csv"));
    let first = read(out.join("results.csv")).lines().next().expect("a heading").to_string();
    assert_eq!(first, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(","));
    let totals: Vec<_> = table.iter().filter(|line| line["stream"] == "total").collect();
    assert_eq!(
        (totals.len(), table.len()),
        (8, 16),
        "two policies, two depths, two replicas; each with its one stream"
    );
    assert!(totals.iter().all(|line| line["requests"] == "200"
        && !line["policy"].is_empty()
        && (line["seed"] == "5" || line["seed"] == "6")));
    let shares = |line: &std::collections::HashMap<String, String>| -> f64 {
        ["seek", "rotate", "transfer", "overhead", "idle", "background"]
            .iter()
            .map(|part| line[&format!("{part}_share")].parse::<f64>().unwrap())
            .sum()
    };
    assert!(totals.iter().all(|line| (shares(line) - 1.0).abs() < 1e-4));

    let json: Value = serde_json::from_str(&read(out.join("results.json"))).expect("JSON");
    assert_eq!(
        (&json["version"], &json["baseline"], &json["plan"]["seed"]),
        (&env!("CARGO_PKG_VERSION").into(), &"fcfs".into(), &5.into())
    );
    let command = json["command"].as_str().expect("a text");
    assert_eq!(
        command,
        "headtime compare --policies fcfs sptf-expected --drives atlas10k --workloads random \
            --depths 1,8 --seed 5 --replicas 2 --requests 200"
    );
    assert_eq!(json["cases"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["cases"][1]["best"]["iops"]["policies"][0], "sptf-expected");
    assert_eq!(
        lines(out.join("summary.csv")).iter().filter(|line| line["metric"] == "iops").count(),
        4
    );

    let elements = markup::check_well_formed(&read(out.join("report.html")));
    assert!(elements.iter().filter(|name| *name == "svg").count() >= 4, "{elements:?}");
    let printed = done(folder.path(), &[&words(TINY)[..], &["--out", "x", "--json"]].concat());
    assert_eq!(stdout(&printed), read(out.join("results.json")), "what is printed is the file");
}

/// The interval of a paired difference, from the replicas that stand beside it.
#[test]
fn a_difference_to_the_baseline_is_that_of_the_replicas_one_by_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = words(
        "--policies clook,fcfs --drives atlas10k --depths 8 --replicas 3 --requests 300 \
            --baseline fcfs --json",
    );
    let json: Value =
        serde_json::from_slice(&done(folder.path(), &arguments).stdout).expect("JSON");
    let policies = json["cases"][0]["policies"].as_array().expect("two policies");
    assert_eq!((&policies[0]["policy"], &policies[1]["policy"]), (&"clook".into(), &"fcfs".into()));
    let rates = |policy: &Value| -> Vec<f64> {
        policy["replicas"]
            .as_array()
            .expect("three replicas")
            .iter()
            .map(|replica| replica["total"]["iops"].as_f64().expect("a number"))
            .collect()
    };
    let by: Vec<f64> = rates(&policies[0])
        .iter()
        .zip(rates(&policies[1]))
        .map(|(mine, theirs)| mine - theirs)
        .collect();
    let mean = (by[0] + by[1] + by[2]) / 3.0;
    let variance = by.iter().map(|by| (by - mean).powi(2)).sum::<f64>() / 2.0;
    // Student's quantile for two degrees of freedom and 95 %, by any printed table.
    let half_width = 4.303 * (variance / 3.0).sqrt();
    let answer = &policies[0]["against_baseline"]["iops"];
    let near = |key: &str, expected: f64| {
        let value = answer[key].as_f64().expect("a number");
        assert!(
            (value - expected).abs() < 1e-4 * expected.abs().max(1.0),
            "{key}: {value}, and by hand {expected}"
        );
    };
    near("value", mean);
    near("low", mean - half_width);
    near("high", mean + half_width);
    assert_eq!(
        (&answer["paired"], policies[1]["against_baseline"].as_object().map(serde_json::Map::len)),
        (&true.into(), Some(0))
    );
}

#[test]
fn every_policy_is_compared_by_every_belief_and_what_was_run_before_is_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let by = |beliefs: &str| {
        done(
            folder.path(),
            &[
                &words(TINY)[..],
                &["--out", "x", "--models", beliefs, "--baseline", "sptf-expected"],
            ]
            .concat(),
        )
    };
    let rate = |json: &Value, place: usize| {
        json["cases"][1]["policies"][place]["metrics"]["iops"]["value"].as_f64().expect("a number")
    };
    let answer = || -> Value { serde_json::from_str(&read(path("x/results.json"))).expect("JSON") };
    by("profile");
    let by_profile = rate(&answer(), 1);

    let output = by("profile,compact,matrix");
    assert!(stderr(&output).contains("12 of 28 cells are there already"), "{}", stderr(&output));
    for expected in
        ["fcfs by matrix", "sptf-expected by compact", "against sptf-expected by profile"]
    {
        assert!(
            stdout(&output).contains(expected),
            "{expected} is missing from\n{}",
            stdout(&output)
        );
    }
    let several = answer();
    assert_eq!(rate(&several, 3), by_profile, "a belief more changes nothing of another");
    assert_ne!(
        rate(&several, 5),
        by_profile,
        "a matrix that knows nothing yet orders in another way"
    );
    assert_eq!(
        (
            &several["cases"][0]["policies"][4]["policy"],
            &several["cases"][0]["policies"][4]["belief"]
        ),
        (&"sptf-expected".into(), &"compact".into())
    );
    assert!(
        several["command"]
            .as_str()
            .is_some_and(|command| command.contains("--models profile compact matrix"))
    );
    let totals: Vec<_> =
        lines(path("x/results.csv")).into_iter().filter(|line| line["stream"] == "total").collect();
    let of = |belief: &str| {
        totals.iter().filter(|line| line["belief"] == belief && line["policy"] == "fcfs").count()
    };
    assert_eq!((of("profile"), of("compact"), of("matrix"), totals.len()), (4, 4, 4, 24));
    assert_eq!(lines(path("x/summary.csv"))[0]["belief"], "profile");
    let page = read(path("x/report.html"));
    markup::check_well_formed(&page);
    assert!(
        page.contains("sptf-expected by matrix") && page.contains("2 policies by 3 drive models")
    );

    // A map in a file is known by what it holds.
    let learn = |seed: &str| {
        let line = format!(
            "sim --drive atlas10k --model compact --requests 500 --seed {seed} --map-out found.map \
                --force"
        );
        let learned = headtime_in(folder.path(), &words(&line));
        assert!(learned.status.success(), "{}", stderr(&learned));
    };
    learn("1");
    assert!(!stderr(&by("profile,compact:found.map")).contains("20 of 20"));
    assert!(stderr(&by("compact:found.map,profile")).contains("20 of 20 cells are there already"));
    learn("2");
    by("compact:found.map");
    assert_eq!(
        own_cells(&path("x")),
        8 + 16 + 8 + 8,
        "of each belief and each map, and none twice"
    );

    let foreign = headtime(
        folder.path(),
        &words("--drives deskstar34gxp --models compact:found.map --depths 1 --out y"),
    );
    assert_eq!(foreign.status.code(), Some(2), "{}", stderr(&foreign));
    assert!(
        stderr(&foreign).contains("nothing is left to compare")
            && stderr(&foreign).contains("found.map"),
        "{}",
        stderr(&foreign)
    );
}

#[test]
fn the_same_plan_gives_the_same_bytes_with_one_thread_and_with_two() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    done(folder.path(), &[&words(TINY)[..], &["--out", "one", "--threads", "1"]].concat());
    done(folder.path(), &[&words(TINY)[..], &["--out", "two", "--threads", "2"]].concat());
    assert_eq!(results(&folder.path().join("one")), results(&folder.path().join("two")));
    done(folder.path(), &[&words(TINY)[..11], &["6", "--out", "other"]].concat());
    assert_ne!(results(&folder.path().join("one")), results(&folder.path().join("other")));
}

#[test]
fn what_is_missing_or_damaged_is_computed_again_and_nothing_else_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = [&words(TINY)[..], &["--out", "x"]].concat();
    done(folder.path(), &arguments);
    let out = folder.path().join("x");
    let (before, paths) = (results(&out), cells(&out));
    assert_eq!(paths.len(), 8 + 4 + 8, "policies, their one stream alone, and at equal load");
    std::fs::remove_file(&paths[0]).expect("it is there");
    std::fs::write(&paths[1], &read(paths[1].clone()).as_bytes()[..100]).expect("it is there");
    let changed = read(paths[2].clone()).replacen("\"requests\":200", "\"requests\":201", 1);
    std::fs::write(&paths[2], changed).expect("it is there");
    // A cell as another build of the program would have left it: all is right but the build.
    let text = read(paths[3].clone());
    let (body, _) = text.rsplit_once(",\"crc32c\":\"").expect("a cell ends in its checksum");
    let body = body.replacen("\"build\":\"", "\"build\":\"0.0.1-", 1);
    std::fs::write(
        &paths[3],
        format!("{body},\"crc32c\":\"{:08x}\"}}\n", crc32c::crc32c(body.as_bytes())),
    )
    .expect("it is there");

    let again = done(folder.path(), &arguments);
    for (path, expected) in [
        (&paths[1], "is damaged: it ends too early"),
        (&paths[2], "is damaged: its checksum is wrong"),
        (&paths[3], "was written by build 0.0.1-"),
    ] {
        let name = path.file_name().expect("a file").to_string_lossy();
        let line = stderr(&again)
            .lines()
            .find(|line| line.contains(&*name))
            .unwrap_or_else(|| panic!("nothing of {name} in\n{}", stderr(&again)));
        assert!(line.contains(expected) && line.ends_with("it is computed again"), "{line}");
    }
    assert_eq!(reused(&again), (16, 20), "{}", stderr(&again));
    assert_eq!(results(&out), before, "what was computed again differs");
    let nothing_to_do = done(folder.path(), &arguments);
    assert_eq!(reused(&nothing_to_do), (20, 20), "{}", stderr(&nothing_to_do));
    assert_eq!(results(&out), before);
}

/// Forty runs of policies, twenty of a stream alone and forty at equal load. The last takes a while
/// yet when the first lines are printed.
const LONGER: &str = "--policies fcfs,clook --drives atlas10k --depths 2,16 --replicas 10 \
    --requests 4000 --threads 1";

/// Starts `arguments` and waits until the program says that a cell is finished.
fn started(folder: &Path, arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headtime"));
    command
        .arg("compare")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built");
    let mut messages = BufReader::new(child.stderr.take().expect("its messages are piped"));
    let mut line = String::new();
    messages.read_line(&mut line).expect("it prints UTF-8");
    assert!(line.contains(" of 60 cells: "), "it says `{line}`");
    Running { child, messages }
}

/// A running program that does not outlive its test.
struct Running {
    child: Child,
    messages: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it still runs");
    }

    /// Its exit code, if any, and the rest of its messages.
    fn end(&mut self) -> (Option<i32>, String) {
        let said: Vec<String> = self.messages.by_ref().lines().map_while(Result::ok).collect();
        (self.child.wait().expect("it can be waited for").code(), said.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was_and_ends_with_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    done(folder.path(), &[&words(LONGER)[..], &["--out", "whole"]].concat());
    let arguments = [&words(LONGER)[..], &["--out", "cut"]].concat();
    let mut running = started(folder.path(), &arguments);
    running.signal(Signal::KILL);
    let (code, _) = running.end();
    assert_eq!(code, None, "it was killed");
    let kept = cells(&folder.path().join("cut"))
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .count();
    assert!((1..60).contains(&kept), "{kept} of 60 cells are kept");
    assert!(!folder.path().join("cut/results.csv").exists(), "results of a part are no results");
    let again = done(folder.path(), &arguments);
    assert!(
        stderr(&again).contains(&format!("{kept} of 60 cells are there already in cut")),
        "{}",
        stderr(&again)
    );
    assert_eq!(results(&folder.path().join("cut")), results(&folder.path().join("whole")));
    assert!(
        cells(&folder.path().join("cut"))
            .iter()
            .all(|path| path.extension().is_some_and(|end| end == "json")),
        "nothing half-written is left"
    );
}

#[test]
fn a_stopped_comparison_keeps_finished_runs_and_prints_how_to_continue() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = [&words(LONGER)[..], &["--out", "my results"]].concat();
    let mut running = started(folder.path(), &arguments);
    // Meanwhile no other process may write there.
    let other = headtime(folder.path(), &arguments);
    assert_eq!(other.status.code(), Some(1), "{}", stderr(&other));
    assert!(stderr(&other).contains(
        "another `headtime compare` writes into my results; wait for \
        its end, or choose another folder with --out"
    ));
    running.signal(Signal::INT);
    let (code, said) = running.end();
    assert_eq!(code, Some(130), "{said}");
    let kept = cells(&folder.path().join("my results")).len();
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with(&format!(
            "headtime: stopped; {kept} of 100 runs are stored. Continue with: "
        )),
        "{said}"
    );
    assert!(
        last.ends_with(
            "compare --policies fcfs,clook --drives atlas10k --depths 2,16 --replicas \
            10 --requests 4000 --threads 1 --out 'my results'"
        ),
        "{said}"
    );
}

#[test]
fn progress_is_measured_against_each_stream_alone_and_tails_at_equal_load() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let reader = |name: &str| format!("[[stream]]\nname = \"{name}\"\nclients = 1\n");
    let open = "[[stream]]\nname = \"open\"\nrate = 20.0\n";
    for (file, text) in [
        ("one.toml", reader("one")),
        ("two.toml", reader("one") + &reader("other")),
        ("open.toml", open.to_string()),
    ] {
        std::fs::write(folder.path().join(file), text).expect("the folder is ours");
    }
    let arguments = words(
        "--policies firmware,fcfs --drives atlas10k --workloads one.toml two.toml open.toml \
            --requests 2000 --out x",
    );
    let output = done(folder.path(), &arguments);
    assert!(stdout(&output).contains("harmonic mean"), "{}", stdout(&output));
    let table = lines(folder.path().join("x/results.csv"));
    let value = |workload: &str, policy: &str, stream: &str, column: &str| -> f64 {
        let line = table.iter().find(|line| {
            line["workload"] == workload && line["policy"] == policy && line["stream"] == stream
        });
        let text = &line.expect("the stream was measured")[column];
        text.parse().unwrap_or_else(|_| panic!("{workload}, {policy}, {stream}: `{text}`"))
    };
    // The drive's own queue is the reference itself.
    for column in ["progress", "progress_sum", "progress_harmonic_mean"] {
        assert_eq!(value("one", "firmware", "total", column), 1.0, "{column}");
    }
    // First come, first served, of two readers that wait for one request each.
    for stream in ["one", "other"] {
        let progress = value("two", "fcfs", stream, "progress");
        assert!((progress - 0.5).abs() < 0.03, "{stream}: {progress}");
    }
    let sum = value("two", "fcfs", "total", "progress_sum");
    let harmonic = value("two", "fcfs", "total", "progress_harmonic_mean");
    assert!((sum - 1.0).abs() < 0.05 && (harmonic - sum / 2.0).abs() < 0.005, "{sum} {harmonic}");
    // Every policy gets four fifths of what the slower one served.
    for workload in ["one", "two"] {
        let slower = ["firmware", "fcfs"]
            .map(|policy| value(workload, policy, "total", "iops"))
            .into_iter()
            .fold(f64::MAX, f64::min);
        for policy in ["firmware", "fcfs"] {
            let rate = value(workload, policy, "total", "equal_load_iops");
            assert!((rate / slower - 0.8).abs() < 0.04, "{workload}, {policy}: {rate} of {slower}");
            let tail = value(workload, policy, "total", "equal_load_response_ms_p99");
            assert!(tail > value(workload, policy, "total", "service_ms_mean"), "{tail}");
        }
    }
    assert_eq!(
        value("open", "fcfs", "total", "equal_load_response_ms_p99"),
        value("open", "fcfs", "total", "response_ms_p99"),
        "an open loop has the same load under every policy"
    );
    let page = read(folder.path().join("x/report.html"));
    assert!(page.contains("at equal load") && page.contains("progress of streams"));
}

/// Two readers in sequence, each in its half of the drive: 2,000 requests are less than a turn.
#[test]
fn runs_of_the_same_time_tell_of_turns_what_runs_of_few_requests_do_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let readers = [0, 50].map(|start| {
        format!(
            "[[stream]]\nname = \"from-{start}\"\nclients = 1\nsize = \"64KiB\"\nrange = \
                \"{start}%..{}%\"\nrun = \"sequential\"\n",
            start + 50
        )
    });
    std::fs::write(folder.path().join("readers.toml"), readers.concat()).expect("it is ours");
    let slowest = |length: [&str; 2], out: &str| -> f64 {
        let plan = ["--policies", "headtime", "--workloads", "readers.toml", "--out", out];
        done(folder.path(), &[&plan[..], &length].concat());
        let lines = lines(folder.path().join(out).join("results.csv"));
        let of_streams = lines.iter().filter(|line| line["stream"] != "total");
        of_streams.map(|line| line["progress"].parse().unwrap_or(0.0)).fold(1.0, f64::min)
    };
    assert!(slowest(["--requests", "300"], "requests") < 0.2);
    assert!(slowest(["--seconds", "10"], "seconds") > 0.4);
    let seconds = lines(folder.path().join("seconds/results.csv"));
    let window: f64 = seconds[0]["simulated_seconds"].parse().expect("it is a number");
    assert!((window - 10.0).abs() < 0.01 && seconds[0]["ended"] == "full", "{:?}", seconds[0]);
}

#[test]
fn terms_scans_and_tunables_reach_every_policy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "[[stream]]\nname = \"one\"\nclients = 8\nreserve = \"75%\"\n[[stream]]\nname = \
        \"other\"\nclients = 8\n[[scan]]\n";
    std::fs::write(folder.path().join("mine.toml"), text).expect("the folder is ours");
    let arguments = words(
        "--policies headtime,fcfs --drives atlas10k --workloads mine.toml --requests 2000 \
            --set deadlines=be=500ms --out x",
    );
    done(folder.path(), &arguments);
    let table = lines(folder.path().join("x/results.csv"));
    let value = |policy: &str, stream: &str, column: &str| -> f64 {
        let line = table.iter().find(|line| line["policy"] == policy && line["stream"] == stream);
        line.expect("it was measured")[column].parse().expect("a number")
    };
    for policy in ["headtime", "fcfs"] {
        assert!(value(policy, "total", "scan_mb_per_second") > 0.0);
        assert_eq!(value(policy, "total", "deadline_requests"), 2_000.0);
    }
    let ratio = |policy| value(policy, "one", "progress") / value(policy, "other", "progress");
    assert!(ratio("headtime") > 2.0 && ratio("fcfs") < 1.2, "{}", ratio("headtime"));
    let again = done(folder.path(), &arguments);
    let (reused, all) = reused(&again);
    assert_eq!(reused, all);
}

#[test]
fn combinations_that_make_no_sense_are_left_out_with_a_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = words(
        "--policies fcfs,sptf-oracle --drives exos-2x18 atlas10k --workloads random \
            recorder-beside-scrub --depths 1,4 --requests 120 --out x",
    );
    let output = done(folder.path(), &arguments);
    assert!(
        stdout(&output).contains(
            "left out: sptf-oracle, exos-2x18: policy sptf-oracle is an oracle of one arm"
        ),
        "{}",
        stdout(&output)
    );
    assert!(
        stdout(&output)
            .contains("recorder-beside-scrub, depth 1, 4: the workload sets its own queue depth"),
        "{}",
        stdout(&output)
    );
    let table = lines(folder.path().join("x/results.csv"));
    let runs = |drive: &str, workload: &str, policy: &str| -> Vec<String> {
        let of = table.iter().filter(|line| {
            line["stream"] == "total"
                && line["drive"] == drive
                && line["workload"] == workload
                && line["policy"] == policy
        });
        of.map(|line| line["depth"].clone()).collect()
    };
    assert_eq!(runs("exos-2x18", "random", "fcfs"), ["1", "4"]);
    assert!(runs("exos-2x18", "random", "sptf-oracle").is_empty());
    assert_eq!(runs("atlas10k", "random", "sptf-oracle"), ["1", "4"]);
    assert_eq!(runs("atlas10k", "recorder-beside-scrub", "fcfs"), [""]);
    assert!(
        table
            .iter()
            .filter(|line| line["oracle"] == "true")
            .all(|line| line["policy"] == "sptf-oracle")
    );
    // Streams add up to the whole.
    let of = |stream: &str| -> u64 {
        let line = table.iter().find(|line| {
            line["workload"] == "recorder-beside-scrub"
                && line["drive"] == "atlas10k"
                && line["stream"] == stream
        });
        line.map_or(0, |line| line["requests"].parse().unwrap())
    };
    assert_eq!(of("cameras") + of("player") + of("scrub"), of("total"));
    let page = read(folder.path().join("x/report.html"));
    markup::check_well_formed(&page);
    let left_out = stdout(&output).lines().filter(|line| line.starts_with("left out: ")).count();
    let left_out = format!("{left_out} combinations are left out");
    for expected in
        ["class=\"name oracle\"", "of the deadlines", "Stream by stream", "cameras", &left_out]
    {
        assert!(page.contains(expected), "{expected} is missing from the page");
    }
}

#[test]
fn a_drive_that_cannot_keep_up_is_a_result() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let load = "[[stream]]\nname = \"flood\"\narrivals = { kind = \"poisson\", rate = 5000.0 \
        }\ndeadline = \"50ms\"\n";
    std::fs::write(folder.path().join("flood.toml"), load).expect("the folder is ours");
    let arguments =
        words("--policies fcfs,clook --drives atlas10k --workloads flood.toml --requests 400");
    for more in [&["--queue-limit", "300"][..], &[]] {
        let output = done(folder.path(), &[&arguments[..], more, &["--out", "x"]].concat());
        assert!(stdout(&output).contains("overloaded"), "{}", stdout(&output));
        for line in lines(folder.path().join("x/results.csv")) {
            let ended = if more.is_empty() { "full" } else { "queue full" };
            assert_eq!(
                (line["status"].as_str(), line["ended"].as_str()),
                ("overloaded", ended),
                "{line:?}"
            );
        }
        let page = read(folder.path().join("x/report.html"));
        markup::check_well_formed(&page);
        assert!(
            page.contains(
                "<b>Overloaded</b> – requests came faster than the drive could serve them"
            )
        );
    }
}

#[test]
fn a_workload_that_ends_within_the_warm_up_says_so_and_a_short_one_counts_what_it_has() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // One request every 20 ms, in microseconds: device, operation, offset, length, time.
    let trace: String = (0..50)
        .map(|number| {
            format!("1,R,{},4096,{}\n", (number * 7_919 % 1_000) * 4_096, number * 20_000)
        })
        .collect();
    std::fs::write(folder.path().join("short.csv"), trace).expect("the folder is ours");
    let run = |warmup: &str| {
        let output = done(
            folder.path(),
            &words(&format!(
                "--policies fcfs --drives atlas10k --workloads short.csv --requests 400 \
                    --warmup {warmup} --out x"
            )),
        );
        markup::check_well_formed(&read(folder.path().join("x/report.html")));
        let line = lines(folder.path().join("x/results.csv")).remove(0);
        (
            line["status"].clone(),
            line["requests"].clone(),
            line["ended"].clone(),
            stdout(&output).to_string(),
        )
    };
    let (status, requests, ended, _) = run("10");
    assert_eq!((status.as_str(), requests.as_str(), ended.as_str()), ("fine", "40", "drained"));
    let (status, requests, _, table) = run("60");
    assert_eq!((status.as_str(), requests.as_str()), ("nothing counted", "0"));
    assert!(table.contains("nothing counted"), "{table}");
}

#[test]
fn a_trace_is_replayed_as_the_options_say() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // One request a second, in microseconds: device, operation, offset, length, time.
    let trace: String = (0..300)
        .map(|number| {
            format!("1,R,{},4096,{}\n", (number * 7_919 % 1_000) * 4_096, number * 1_000_000)
        })
        .collect();
    std::fs::write(folder.path().join("slow.csv"), trace).expect("the folder is ours");
    let plan = "workloads = [\"slow.csv\"]\ntime_scale = 0.5\n";
    std::fs::write(folder.path().join("plan.toml"), plan).expect("the folder is ours");
    let run = |more: &[&str]| -> Value {
        let common = ["--policies", "fcfs", "--drives", "atlas10k", "--requests", "200", "--json"];
        serde_json::from_slice(&done(folder.path(), &[&common[..], more].concat()).stdout)
            .expect("JSON")
    };
    let rate = |json: &Value| {
        json["cases"][0]["policies"][0]["metrics"]["iops"]["value"].as_f64().expect("a number")
    };
    let trace = ["--workloads", "slow.csv"];
    let near = |json: &Value, expected: f64| {
        assert!((rate(json) / expected - 1.0).abs() < 0.02, "{} and {expected}", rate(json));
    };
    near(&run(&trace), 1.0);
    near(&run(&["--plan", "plan.toml"]), 2.0);
    let twice = run(&[&trace[..], &["--time-scale", "0.5", "--remap", "scale"]].concat());
    near(&twice, 2.0);
    let command = twice["command"].as_str().expect("a text");
    assert!(command.ends_with("--remap scale --time-scale 0.5"), "{command}");
    let closed = run(&[&trace[..], &["--replay", "closed:1", "--remap", "compact"]].concat());
    assert!(rate(&closed) > 50.0, "as fast as it is served: {}", rate(&closed));
    let metrics = &closed["cases"][0]["policies"][0]["metrics"];
    assert!(metrics["progress_sum"]["value"].as_f64().is_some_and(|sum| (0.5..1.5).contains(&sum)));
}

#[test]
fn a_plan_file_says_the_same_as_flags_and_flags_go_before_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = "policies = [\"fcfs\", \"sptf-expected\"]\ndrives = [\"atlas10k\"]\ndepths = [1, \
        8]\nreplicas = 2\nrequests = 999\nseed = 5\n";
    std::fs::write(folder.path().join("plan.toml"), plan).expect("the folder is ours");
    done(folder.path(), &[&words(TINY)[..], &["--out", "flags"]].concat());
    done(
        folder.path(),
        &["--plan", "plan.toml", "--requests", "2000", "--scale", "0.1", "--out", "plan"],
    );
    assert_eq!(results(&folder.path().join("flags")), results(&folder.path().join("plan")));
}

#[test]
fn nonsense_is_refused_with_its_place_and_a_remedy_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "").expect("the folder is ours");
    for (name, text) in [
        ("key.toml", "seed = 1\nreqests = 100\n"),
        ("policy.toml", "policies = [\n  \"fcfs\",\n  \"fastest\",\n]\n"),
        ("number.toml", "depths = [1]\n\nreplicas = 0\n"),
    ] {
        std::fs::write(folder.path().join(name), text).expect("the folder is ours");
    }
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["--plan", "key.toml"],
            2,
            "key.toml:2: unknown field `reqests`, expected one of `policies`",
        ),
        (
            &["--plan", "policy.toml"],
            2,
            "policy.toml:3: there is no policy `fastest`; known are fcfs",
        ),
        (&["--plan", "number.toml"], 2, "number.toml:3: replicas 0 is not a whole number from 1"),
        (&["--plan", "none.toml"], 2, "plan none.toml cannot be read"),
        (
            &["--policies", "fcfs,elevator"],
            2,
            "--policies: there is no policy `elevator`; known are fcfs",
        ),
        (&["--drives", "wd40"], 2, "atlas10k, barracuda-2tb"),
        (&["--workloads", "nothing"], 2, "--workloads: workload nothing is neither"),
        (&["--remap", "scale"], 2, "--remap: remap applies to traces, and no workload is one"),
        (&["--replay", "closed"], 2, "--replay: replay closed is out of range; expected open"),
        (&["--depths", "0"], 2, "--depths: depth 0 is not a whole number from 1"),
        (
            &["--baseline", "edf"],
            2,
            "--baseline: the baseline edf is not among the policies compared, which are fcfs",
        ),
        (
            &["--policies", "sptf-oracle", "--drives", "exos-2x18"],
            2,
            "nothing is left to compare: policy sptf-oracle is an oracle of one arm",
        ),
        (&["--scale", "0"], 2, "such as 0.1"),
        (&["--seconds", "0"], 2, "--seconds: seconds 0 is not from 0.01 to 10000000"),
        (&["--seconds", "5", "--warmup", "9"], 2, "'--seconds <S>' cannot be used with"),
        (&["--threads", "0"], 2, "--threads"),
        (&["--out", "file/below"], 1, "file/below; choose another with --out"),
    ];
    for (arguments, code, expected) in cases {
        let output = headtime(folder.path(), arguments);
        check_refusal(&output, *code, expected, arguments);
    }
}

#[test]
fn every_policy_together_makes_a_page_that_is_well_formed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    done(
        folder.path(),
        &words(
            "--policies all,firmware:depth=2 --drives atlas10k --workloads random \
                vm-mix --depths 2,8 --requests 150 --out x",
        ),
    );
    let page = read(folder.path().join("x/report.html"));
    let elements = markup::check_well_formed(&page);
    assert!(elements.iter().filter(|name| *name == "figure").count() >= 8);
    assert!(
        !page.contains("http://") && !page.contains("https://") && !page.contains("<script"),
        "the page fetches nothing"
    );
    for policy in headtime_sched::POLICIES {
        assert!(
            page.contains(&format!("\">{}</text>", policy.name)),
            "{} is not named in a plot",
            policy.name
        );
    }
}

#[test]
fn docs_name_every_column() {
    let docs = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compare.md"));
    for column in COLUMNS {
        assert!(
            docs.contains(&format!("`{}`", column.name)),
            "docs/compare.md does not say what the column {} is",
            column.name
        );
    }
    assert!(COLUMNS.iter().any(|column| column.kind == ColumnKind::YesNo));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_holds_the_columns_and_values_of_the_csv() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    let folder = tempfile::tempdir().expect("a temporary folder");
    done(folder.path(), &[&words(TINY)[..], &["--out", "x"]].concat());
    let file =
        std::fs::File::open(folder.path().join("x/results.parquet")).expect("it was written");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    let columns: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.name().to_string())
        .collect();
    assert_eq!(columns, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
    let table = lines(folder.path().join("x/results.csv"));
    let mut count = 0;
    for (row, line) in reader.get_row_iter(None).expect("it has rows").zip(&table) {
        for (name, field) in row.expect("a row can be read").get_column_iter() {
            let text = match field {
                Field::Null => String::new(),
                Field::Str(text) => text.clone(),
                Field::Long(number) => number.to_string(),
                Field::Double(number) => number.to_string(),
                Field::Bool(yes) => yes.to_string(),
                other => panic!("{name} holds {other}"),
            };
            assert_eq!(text, line[name], "{name}");
        }
        count += 1;
    }
    assert_eq!(count, table.len());
}
