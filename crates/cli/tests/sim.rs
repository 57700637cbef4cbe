//! `headtime sim`, `policies` and `profiles`: what they print, and what they say to nonsense.

#[path = "common/program.rs"]
mod program;

use clap::Parser as _;
use headtime_cli::{Cli, Verb};
use headtime_lab::{StudyCommand, commands};
use headtime_mechanics::catalog::CATALOG;
use headtime_sched::POLICIES;
use program::{check_refusal, headtime, stderr, stdout, words};
use serde_json::Value;

/// Runs a simulation within this process; the answer as the program would print it, but for the
/// time it took.
fn simulated(arguments: &[&str]) -> Value {
    let line = ["headtime", "sim"].iter().chain(arguments).copied();
    let Verb::Study(StudyCommand::Sim(parsed)) =
        Cli::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).verb
    else {
        unreachable!("the verb is sim")
    };
    let answer = commands::sim::simulate(&parsed).unwrap_or_else(|failure| {
        panic!("headtime sim {}: {}", arguments.join(" "), failure.message())
    });
    serde_json::to_value(answer).expect("the answer is JSON")
}

#[test]
fn the_json_has_the_keys_that_were_promised_and_their_values_are_of_the_right_kind() {
    let output = headtime(&words(
        "sim --drive atlas10k --policy sptf --clients 4 --requests 300 --deadline \
            40ms --seed 5 --json",
    ));
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("exactly one JSON object");
    for key in ["policy", "drive"] {
        assert!(answer[key].is_string(), "{key}: {}", answer[key]);
    }
    for key in ["seed", "requests", "deadline_requests", "deadline_misses"] {
        assert!(answer[key].is_u64(), "{key}: {}", answer[key]);
    }
    for key in ["simulated_seconds", "wall_seconds", "iops", "mib_per_second", "queue_depth_mean"] {
        assert!(answer[key].is_f64(), "{key}: {}", answer[key]);
    }
    for times in ["response_ms", "service_ms"] {
        let figures: Vec<f64> = ["p50", "p95", "p99", "p999", "max"]
            .iter()
            .map(|key| {
                answer[times][key].as_f64().unwrap_or_else(|| panic!("{times}.{key} is missing"))
            })
            .collect();
        assert!(figures.is_sorted(), "{times}: {figures:?}");
        assert!(answer[times]["mean"].is_f64());
        assert_eq!(
            answer[times].as_object().map(|object| object.len()),
            Some(6),
            "{times} has the six figures and no other"
        );
    }
    let shares: f64 = ["seek", "rotate", "transfer", "overhead", "idle", "background"]
        .iter()
        .map(|key| {
            answer["disk_time"][key]
                .as_f64()
                .unwrap_or_else(|| panic!("disk_time.{key} is missing"))
        })
        .sum();
    assert!((shares - 1.0).abs() < 1e-9, "the shares of disk time add up to {shares}");
    assert_eq!(
        (
            answer["seed"].as_u64(),
            answer["requests"].as_u64(),
            answer["deadline_requests"].as_u64()
        ),
        (Some(5), Some(300), Some(300))
    );
    assert_eq!(
        (answer["policy"].as_str(), answer["drive"].as_str(), answer["noise"].as_str()),
        (Some("sptf"), Some("atlas10k"), Some("typical"))
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_gives_others() {
    let run = |seed: &str| {
        let output =
            headtime(&["sim", "--requests", "500", "--reads", "0.6", "--seed", seed, "--json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let lines = stdout(&output).lines().filter(|line| !line.contains("\"wall_seconds\""));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn every_policy_runs_on_every_profile_and_states_its_noise() {
    for policy in POLICIES {
        for drive in CATALOG {
            for noise in ["off", "typical", "harsh"] {
                if policy.oracle && drive.load().expect("it ships").actuators() > 1 {
                    let refused =
                        stderr(&headtime(&["sim", "--drive", drive.name, "--policy", policy.name]))
                            .to_string();
                    assert!(
                        refused.contains("is an oracle of one arm")
                            && refused.contains("`firmware`"),
                        "{refused}"
                    );
                    continue;
                }
                let answer = simulated(&words(&format!(
                    "--drive {} --policy {} --requests 120 --clients 6 --noise {noise}",
                    drive.name, policy.name
                )));
                assert_eq!(answer["requests"], 120, "{} on {}", policy.name, drive.name);
                assert_eq!(
                    (&answer["policy"], &answer["noise"]),
                    (&Value::from(policy.name), &Value::from(noise))
                );
                assert!(
                    (answer["queue_depth_mean"].as_f64().unwrap_or(0.0) - 6.0).abs() < 0.1,
                    "a closed loop without think time holds its clients"
                );
            }
        }
    }
}

#[test]
fn what_is_asked_for_reaches_the_simulation() {
    let base = ["--drive", "atlas10k", "--policy", "clook", "--requests", "400", "--noise", "off"];
    let with = |more: &[&str]| simulated(&[&base, more].concat());
    let random = with(&[]);
    let sequential = with(&["--clients", "1", "--run-length", "200"]);
    assert!(
        sequential["disk_time"]["seek"].as_f64() < random["disk_time"]["seek"].as_f64(),
        "sequential runs seek less"
    );
    let open = with(&["--rate", "20", "--pacing", "constant"]);
    assert!(
        (open["iops"].as_f64().unwrap_or(0.0) - 20.0).abs() < 0.5,
        "an open loop below the drive's rate is served at its rate: {}",
        open["iops"]
    );
    assert!(open["disk_time"]["idle"].as_f64() > Some(0.5));
    let thinking = with(&["--clients", "2", "--think", "100ms"]);
    assert!(thinking["queue_depth_mean"].as_f64() < Some(1.0), "clients that think ask less");
    let large = with(&["--size", "1MiB"]);
    assert!(large["mib_per_second"].as_f64() > random["mib_per_second"].as_f64());
    let writes = with(&["--reads", "0", "--outstanding", "1", "--warmup", "0"]);
    assert_eq!(
        (&writes["parameters"]["outstanding"], &writes["parameters"]["warmup"]),
        (&Value::from(1), &Value::from(0))
    );
}

#[test]
fn a_table_for_people_says_what_ran_with_which_noise() {
    let output = headtime(&words("sim --drive atlas10k --requests 200 --noise off --deadline 1s"));
    let default = headtime_io::PolicyChoice::default().name();
    let first = format!("{default} on atlas10k, noise off, seed 1");
    for expected in
        [first.as_str(), "IOPS", "p99.9", "deadlines missed  0 of 200 (0 %)", "disk time: seek"]
    {
        assert!(
            stdout(&output).contains(expected),
            "{expected} is missing from\n{}",
            stdout(&output)
        );
    }
}

#[test]
fn nonsense_is_refused_with_code_2_and_a_remedy() {
    let cases: &[(&[&str], &str)] = &[
        (&["sim", "--policy", "fastest"], "known are fcfs"),
        (&["sim", "--policy", "sptf-expected:ageing=3"], "ageing_power"),
        (&["sim", "--drive", "wd40"], "atlas10k, barracuda-2tb"),
        (&["sim", "--drive", "atlas10k@fast"], "recorded"),
        (&["sim", "--drive", "./nowhere.toml"], "profile ./nowhere.toml cannot be read"),
        (&["sim", "--size", "4 fortnights"], "KiB"),
        (&["sim", "--size", "100"], "512"),
        (&["sim", "--reads", "70%"], "from 0 to 1"),
        (&["sim", "--requests", "0"], "--requests"),
        (&["sim", "--clients", "0"], "--clients"),
        (&["sim", "--outstanding", "0"], "whole number from 1"),
        (&["sim", "--rate", "0"], "above 0"),
        (&["sim", "--rate", "5", "--clients", "3"], "cannot be used with"),
        (&["sim", "--deadline", "0"], "such as 100ms"),
        (&["sim", "--deadline", "100"], "ms"),
        (&["profiles", "wd40"], "atlas10k, barracuda-2tb"),
        (&["fly"], "unrecognized subcommand"),
    ];
    for (arguments, expected) in cases {
        let output = headtime(arguments);
        check_refusal(&output, 2, expected, arguments);
    }
}

#[test]
fn the_lists_are_the_tables() {
    let policies: Value =
        serde_json::from_slice(&headtime(&["policies", "--json"]).stdout).expect("JSON");
    let names: Vec<&str> = policies
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(|policy| policy["name"].as_str())
        .collect();
    assert_eq!(names, POLICIES.iter().map(|entry| entry.name).collect::<Vec<_>>());
    let profiles: Value =
        serde_json::from_slice(&headtime(&["profiles", "--json"]).stdout).expect("JSON");
    let names: Vec<&str> = profiles
        .as_array()
        .expect("an array")
        .iter()
        .filter_map(|profile| profile["name"].as_str())
        .collect();
    assert_eq!(names, CATALOG.iter().map(|entry| entry.name).collect::<Vec<_>>());
    for entry in CATALOG {
        assert_eq!(
            stdout(&headtime(&["profiles", entry.name])),
            entry.toml,
            "a profile is shown as it is written"
        );
        assert!(stdout(&headtime(&["profiles"])).contains(entry.name));
    }
    for entry in POLICIES {
        assert!(stdout(&headtime(&["policies"])).contains(entry.name));
        assert!(
            !entry.summary.is_empty() && !entry.source.is_empty(),
            "{} has no summary or source",
            entry.name
        );
    }
}

#[test]
fn a_profile_from_a_file_is_the_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, CATALOG[0].toml).expect("the folder is ours");
    let file = path.to_str().expect("a path in UTF-8");
    let (mine, theirs) = (
        simulated(&["--drive", file, "--requests", "100"]),
        simulated(&["--drive", CATALOG[0].name, "--requests", "100"]),
    );
    assert_eq!(mine["response_ms"], theirs["response_ms"]);
    std::fs::write(&path, CATALOG[0].toml.replace("[geometry]", "color = 3\n[geometry]"))
        .expect("the folder is ours");
    let output = headtime(&["sim", "--drive", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("color") && stderr(&output).contains("line"),
        "{}",
        stderr(&output)
    );
}
