//! `headtime sim --workload`, `headtime sim --seconds` and `headtime workload`: what they print,
//! and what they say to nonsense.

#[path = "common/program.rs"]
mod program;

use std::path::{Path, PathBuf};

use headtime_lab::workloads::WorkloadChoice;
use headtime_workload::BUILTINS;
use program::{headtime, stderr, stdout, words};
use serde_json::Value;

/// Runs a simulation, on a small drive unless the arguments name one.
fn simulated(arguments: &[&str]) -> Value {
    let drive: &[&str] =
        if arguments.contains(&"--drive") { &[] } else { &["--drive", "atlas10k"] };
    let output = headtime(&[&["sim", "--json"], drive, arguments].concat());
    assert!(output.status.success(), "headtime sim {}: {}", arguments.join(" "), stderr(&output));
    serde_json::from_slice(&output.stdout).expect("exactly one JSON object")
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate stands in crates/ of the workspace")
        .to_path_buf()
}

#[test]
fn streams_and_classes_are_answered_with_their_names() {
    let answer =
        simulated(&words("--workload recorder-beside-scrub --requests 600 --drive nearline-20tb"));
    let streams = answer["streams"].as_array().expect("a list");
    let names: Vec<(&str, &str)> = streams
        .iter()
        .map(|stream| {
            (stream["name"].as_str().unwrap_or(""), stream["class"].as_str().unwrap_or(""))
        })
        .collect();
    assert_eq!(names, [("cameras", "realtime"), ("player", "realtime"), ("scrub", "background")]);
    let classes = answer["classes"].as_array().expect("a list");
    assert_eq!(
        classes.iter().map(|class| class["class"].as_str().unwrap_or("")).collect::<Vec<_>>(),
        ["realtime", "background"]
    );
    assert_eq!(classes[0]["streams"], serde_json::json!(["cameras", "player"]));
    let requests = |of: &Value| of["requests"].as_u64().expect("a number");
    assert_eq!(requests(&classes[0]), requests(&streams[0]) + requests(&streams[1]));
    assert_eq!(streams.iter().map(requests).sum::<u64>(), 600);
    for key in ["iops", "mib_per_second", "disk_time_share"] {
        assert!(streams[0][key].is_f64(), "{key}: {}", streams[0][key]);
    }
    for times in ["response_ms", "service_ms"] {
        assert_eq!(streams[0][times].as_object().map(serde_json::Map::len), Some(6), "{times}");
    }
    assert_eq!(streams[0]["deadline_requests"], streams[0]["requests"]);
    assert_eq!(
        (&answer["parameters"]["workload"], &answer["parameters"]["clients"]),
        (&Value::from("recorder-beside-scrub"), &Value::Null)
    );

    let output = headtime(&["sim", "--workload", "recorder-beside-scrub", "--requests", "600"]);
    for expected in
        ["cameras", "player", "scrub", "all 2", "realtime", "disk time", "deadlines missed"]
    {
        assert!(
            stdout(&output).contains(expected),
            "{expected} is missing from\n{}",
            stdout(&output)
        );
    }
}

#[test]
fn one_stream_answers_as_it_did_and_depth_is_its_number_of_clients() {
    let flags = simulated(&["--clients", "5", "--requests", "500"]);
    let workload = simulated(&["--workload", "random", "--depth", "5", "--requests", "500"]);
    for key in ["requests", "iops", "response_ms", "service_ms", "disk_time", "queue_depth_mean"] {
        assert_eq!(flags[key], workload[key], "{key}");
    }
    assert_eq!(
        (flags["streams"].as_array().map(Vec::len), &workload["parameters"]["depth"]),
        (Some(0), &Value::from(5))
    );
    assert_eq!(
        (&flags["parameters"]["size_bytes"], &flags["parameters"]["warmup"]),
        (&Value::from(4096), &Value::from(50))
    );
    let open = simulated(&["--workload", "random:rate=20,size=8KiB", "--requests", "200"]);
    assert!((open["iops"].as_f64().unwrap_or(0.0) - 20.0).abs() < 4.0, "{}", open["iops"]);
    assert_eq!(open["parameters"]["depth"], Value::Null);
}

#[test]
fn a_run_of_so_many_seconds_has_so_many_seconds() {
    let answer = simulated(&["--workload", "oltp", "--seconds", "5"]);
    assert_eq!(
        (&answer["simulated_seconds"], &answer["parameters"]["seconds"]),
        (&Value::from(5.0), &Value::from(5.0))
    );
    assert_eq!(
        (&answer["parameters"]["warmup_seconds"], &answer["parameters"]["warmup"]),
        (&Value::from(0.5), &Value::Null)
    );
    let whole = simulated(&["--workload", "oltp:requests=100", "--warmup", "0"]);
    assert_eq!(whole["requests"], 100, "a workload that ends is counted to its end");
}

/// Streams with terms, written into a file of a folder of its own.
fn written(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).expect("the folder is ours");
    let path = path.to_str().expect("a path in UTF-8").to_string();
    (folder, path)
}

#[test]
fn streams_get_the_shares_that_a_file_gives_them() {
    let reader =
        |name: &str, terms: &str| format!("[[stream]]\nname = \"{name}\"\nclients = 8\n{terms}\n");
    let share = |answer: &Value, stream: usize| {
        answer["streams"][stream]["disk_time_share"].as_f64().expect("a share")
    };
    let near = |answer: &Value, expected: [f64; 2]| {
        for (stream, expected) in expected.into_iter().enumerate() {
            let share = share(answer, stream);
            assert!((share - expected).abs() < 0.03, "{stream}: {share} and not {expected}");
        }
    };
    let run = |policy: &str, terms: [&str; 2]| {
        let (_folder, path) = written(&(reader("one", terms[0]) + &reader("other", terms[1])));
        simulated(&["--workload", &path, "--seconds", "20", "--policy", policy])
    };
    let reserved = ["reserve = \"75%\"", "reserve = \"25%\""];
    near(&run("headtime", reserved), [0.75, 0.25]);
    near(&run("utilization", ["weight = 3", "weight = 1"]), [0.75, 0.25]);
    near(&run("headtime", ["weight = 3", ""]), [0.75, 0.25]);
    let limited = run("headtime", ["limit = 0.2", "limit = 0.3"]);
    assert!(share(&limited, 0) < 0.22 && share(&limited, 1) < 0.32, "{limited}");
    let unaware = run("fcfs", reserved);
    let note = unaware["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("policy fcfs does not enforce the shares and limits"), "{note}");
    assert_eq!(run("headtime", reserved)["notes"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_scan_runs_beside_streams_and_deadlines_follow_priorities() {
    let (_folder, path) = written(
        "[[stream]]\nname = \"recorder\"\nclients = 2\npriority = \"rt\"\n[[stream]]\nname = \
            \"guest\"\nclients = 6\n[[scan]]\n",
    );
    // The default policy would serve nothing but the priority `rt`.
    let run = ["--workload", &path, "--seconds", "20", "--policy", "sptf"];
    let answer = simulated(&[&run[..], &["--set", "deadlines=rt=90ms"]].concat());
    let with_deadlines = |answer: &Value, stream: usize| {
        answer["streams"][stream]["deadline_requests"] == answer["streams"][stream]["requests"]
    };
    assert!(with_deadlines(&answer, 0) && answer["streams"][1]["deadline_requests"] == 0);
    let scan = |answer: &Value| answer["scan"]["mb_per_second"].as_f64().expect("there is a scan");
    assert!(scan(&answer) > 0.3, "{}", answer["scan"]);
    let own = simulated(&["--clients", "4", "--requests", "500", "--set", "deadlines=be=50ms"]);
    assert_eq!(own["deadline_requests"], 500);
    let none = simulated(&["--clients", "4", "--requests", "500", "--set", "deadlines=rt=50ms"]);
    assert_eq!(none["deadline_requests"], 0);
    assert!(own["scan"].is_null(), "no scan without one in the file");
}

#[test]
fn the_sample_files_run() {
    let folder = workspace().join("workloads");
    let mut tried = 0;
    for entry in
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
    {
        let path = entry.expect("the folder can be read").path();
        let path = path.to_str().expect("a path in UTF-8");
        let answer = simulated(&["--workload", path, "--drive", "nearline-20tb", "--seconds", "2"]);
        assert!(answer["requests"].as_u64() > Some(10), "{path}: {}", answer["requests"]);
        let commands = std::fs::read_to_string(path).expect("it was read a moment ago");
        assert!(
            commands.contains("headtime sim --workload workloads/"),
            "{path} says how it is run"
        );
        tried += 1;
    }
    assert!(tried >= 3, "only {tried} samples were found in {}", folder.display());
}

#[test]
fn a_fio_job_file_runs_and_what_is_left_out_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("jobs.fio");
    std::fs::write(
        &path,
        "[global]\nfilename=/dev/sdx\nioengine=libaio\ndirect=1\nramp_time=5\n\
         [r]\nrw=randread\niodepth=4\n[w]\nrw=write\nbs=64k\nrate_iops=10\n",
    )
    .expect("the folder is ours");
    let file = path.to_str().expect("a path in UTF-8");
    let answer = simulated(&["--workload", file, "--requests", "300"]);
    assert_eq!(answer["streams"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        answer["notes"],
        serde_json::json!([
            "jobs: line 5: ramp_time is ignored: leave requests uncounted at the start with \
                --warmup"
        ])
    );
    let shown = headtime(&["workload", "show", file]);
    assert!(stderr(&shown).contains("ramp_time") && stdout(&shown).contains("name = \"r\""));
    let toml = folder.path().join("mine.toml");
    std::fs::write(&toml, &shown.stdout).expect("the folder is ours");
    let again =
        simulated(&["--workload", toml.to_str().expect("a path in UTF-8"), "--requests", "300"]);
    assert_eq!(again["response_ms"], answer["response_ms"], "what is shown is what runs");
    assert_eq!(
        again["parameters"]["workload_fingerprint"],
        answer["parameters"]["workload_fingerprint"]
    );
}

#[test]
fn nonsense_is_refused_with_code_2_and_a_remedy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, "[[stream]]\nname = \"a\"\nsise = 3\nreads = 7\n")
        .expect("the folder is ours");
    let file = path.to_str().expect("a path in UTF-8");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--workload", "nope"], &["random, sequential, oltp", "headtime workload list"]),
        (&["--workload", "./nowhere.toml"], &["workload ./nowhere.toml cannot be read"]),
        (
            &["--workload", file],
            &["mine.toml:3:1: stream a: unknown key `sise`", "mine.toml:4:9: stream a: reads is 7"],
        ),
        (&["--workload", "random", "--size", "4KiB"], &["cannot be used with"]),
        (&["--workload", "random", "--rate", "4"], &["cannot be used with"]),
        (&["--workload", "random", "--deadline", "4ms"], &["cannot be used with"]),
        (&["--workload", "random", "--trace", "x"], &["cannot be used with"]),
        (&["--depth", "3"], &["--workload"]),
        (&["--workload", "random:rate=3", "--depth", "3"], &["--depth has no meaning"]),
        (&["--workload", "random:size=100"], &["multiple of the drive's sector of 512 bytes"]),
        (
            &["--workload", "random:size=4 fortnights"],
            &["workload random:size=4 fortnights: stream random: size"],
        ),
        (&["--seconds", "0"], &["above 0"]),
        (&["--seconds", "5", "--requests", "3"], &["cannot be used with"]),
        (&["--warmup", "soon"], &["a number of requests such as 2000, or a time such as 5s"]),
        (&["--strict"], &["add --trace FILE"]),
    ];
    for (arguments, expected) in cases {
        let output = headtime(&[&["sim"], *arguments].concat());
        assert_eq!(
            output.status.code(),
            Some(2),
            "headtime sim {}: {}",
            arguments.join(" "),
            stderr(&output)
        );
        for part in *expected {
            assert!(
                stderr(&output).contains(part),
                "headtime sim {} says `{}`, without `{part}`",
                arguments.join(" "),
                stderr(&output)
            );
        }
    }
    let early = headtime(&["sim", "--workload", "random:requests=5", "--warmup", "10"]);
    assert_eq!(early.status.code(), Some(1));
    assert!(stderr(&early).contains("lower --warmup"), "{}", stderr(&early));
}

#[test]
fn the_list_is_the_table_and_each_is_shown_as_toml_that_is_the_same_workload() {
    let listed: Value =
        serde_json::from_slice(&headtime(&["workload", "list", "--json"]).stdout).expect("JSON");
    let names: Vec<&str> = listed
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, BUILTINS.iter().map(|builtin| builtin.name).collect::<Vec<_>>());
    let table = headtime(&["workload", "list"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for builtin in BUILTINS {
        assert!(stdout(&table).contains(builtin.name));
        let path = folder.path().join("shown.toml");
        std::fs::write(&path, &headtime(&["workload", "show", builtin.name]).stdout)
            .expect("the folder is ours");
        let of = |name: &str| {
            WorkloadChoice::parse(name)
                .unwrap_or_else(|failure| panic!("{}", failure.message()))
                .fingerprint()
        };
        assert_eq!(
            of(path.to_str().expect("a path in UTF-8")),
            of(builtin.name),
            "{}",
            builtin.name
        );
    }
}

#[test]
fn a_trace_is_counted_from_its_first_request_to_its_last() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("some.msr");
    // MSR Cambridge: timestamp in 100 ns, host, disk, type, offset and size in bytes, response
    // time.
    let lines: Vec<String> = (0..40_u64)
        .map(|n| {
            format!(
                "{},host,{},Read,{},4096,1000\n",
                128_166_372_000_000_000 + n * 100_000,
                n % 2,
                n * 1_048_576
            )
        })
        .collect();
    std::fs::write(&path, lines.concat()).expect("the folder is ours");
    let file = path.to_str().expect("a path in UTF-8");
    let answer = simulated(&["--trace", file, "--streams", "device"]);
    assert_eq!(
        (&answer["requests"], &answer["parameters"]["requests"]),
        (&Value::from(40), &Value::Null)
    );
    assert_eq!(answer["streams"].as_array().map(Vec::len), Some(2), "{}", answer["streams"]);
    assert_eq!(answer["trace"]["asked"], 40);
    let with_deadline = simulated(&["--trace", file, "--deadline", "1s"]);
    assert_eq!(
        (&with_deadline["deadline_requests"], with_deadline["streams"].as_array().map(Vec::len)),
        (&Value::from(40), Some(0))
    );
    assert_eq!(simulated(&["--workload", file])["requests"], 40, "a trace is a workload too");
}

/// The figures in docs/embedding.md are those of the load that stands there.
#[test]
fn the_effect_of_deadlines_is_as_the_docs_say() {
    let page = std::fs::read_to_string(workspace().join("docs/embedding.md")).expect("it is there");
    let load = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let load = load.expect("the page has a load");
    assert!(page.contains("`headtime sim --workload FILE --seconds 60 --seed 1`"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let without = load.replace("deadline = \"50ms\"\n", "");
    for (name, load) in [("without deadlines", &*without), ("with a deadline of 50 ms", load)] {
        let file = folder.path().join("load.toml");
        std::fs::write(&file, load).expect("the folder is ours");
        let file = file.to_str().expect("UTF-8");
        let drive = ["--drive", "nearline-20tb"];
        let answer = simulated(
            &[&["--workload", file, "--seconds", "60", "--seed", "1"][..], &drive].concat(),
        );
        let ms = |key: &str| answer["streams"][0]["response_ms"][key].as_f64().expect("a time");
        let reads = answer["streams"][1]["iops"].as_f64().expect("a rate");
        let [median, tail, slowest] = ["p50", "p99", "max"].map(ms);
        let row =
            format!("| {name} | {median:.0} ms | {tail:.0} ms | {slowest:.0} ms | {reads:.0} |");
        assert!(page.contains(&row), "docs/embedding.md should have:\n{row}");
    }
}
