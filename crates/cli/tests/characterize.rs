//! `headtime characterize` as a program: in virtual time, over NBD, interrupted, killed, refused.
//!
//! `cargo test -p headtime-cli --test characterize`. What is found is held against the truth in the
//! tests of `headtime-probe`; here it is whether the program carries it out, keeps it, and says
//! what it should.

#[path = "common/program.rs"]
mod program;

use std::path::Path;
use std::process::Output;

use headtime_mechanics::{DriveProfile, catalog};
use headtime_testkit::nbdkit::{self, Nbdkit};
use program::{Program, headtime, text};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// A drive that is found out quickly, with the truth at hand.
const DRIVE: &str = "simulated:deskstar34gxp@nocache?noise=off";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a place for files")
}

fn characterize(arguments: &[&str]) -> Output {
    headtime(&[&["characterize"], arguments].concat())
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("killed: {}", said(output)))
}

fn read_profile(path: &Path) -> DriveProfile {
    let toml = std::fs::read_to_string(path).expect("the profile is there");
    DriveProfile::from_toml("found", &toml).unwrap_or_else(|error| panic!("{error}\n{toml}"))
}

fn period_us(profile: &DriveProfile) -> f64 {
    profile.rotation_period().expect("it turns").as_ns_f64() / 1e3
}

#[test]
fn a_simulated_drive_is_found_out_and_its_profile_can_be_simulated_at_once() {
    let folder = folder();
    let out = folder.path().join("Found Drive.toml");
    let output = characterize(&[DRIVE, "-o", text(&out), "--json"]);
    assert_eq!(code(&output), 0, "{}", said(&output));

    let answer = json(&output);
    assert_eq!(answer["kind"], "characterized", "{answer:#}");
    assert_eq!(answer["out"], text(&out));
    assert!(answer["check"]["reads"].as_u64().expect("a number") >= 1_900, "{answer:#}");
    let cost = &answer["cost"];
    assert!(
        cost["drive_seconds"].as_f64() <= cost["bound_seconds"].as_f64().map(|bound| bound + 5.0),
        "{cost}"
    );

    let (found, real) =
        (read_profile(&out), catalog::load("deskstar34gxp@nocache").expect("a profile that ships"));
    assert_eq!(found.name, "found-drive");
    // The instance's spindle differs from its model's by some 100 ppm. The test does not see the
    // truth and uses the stated error of the figure.
    assert!((period_us(&found) / period_us(&real) - 1.0).abs() < 1e-3);
    let period = &answer["figures"][0];
    assert!(
        period["name"] == "period (us)"
            && period["error"].as_f64() < period["value"].as_f64().map(|value| value * 1e-6),
        "{period}"
    );
    assert_eq!((found.geometry.heads, found.capacity()), (real.geometry.heads, real.capacity()));
    let toml = std::fs::read_to_string(&out).expect("it was read before");
    assert!(
        toml.starts_with("# Found by `headtime characterize`")
            && toml.contains("Self-check")
            && toml.contains("period (us): "),
        "{toml}"
    );

    let check = headtime(&["profile", "check", text(&out)]);
    assert!(check.status.success(), "{}", said(&check));
    let sim = headtime(&["sim", "--drive", text(&out), "--requests", "500", "--json"]);
    assert!(sim.status.success(), "{}", said(&sim));
    let names: Vec<String> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["Found Drive.toml"], "no state is left");
}

#[test]
fn the_table_names_what_was_found_and_what_it_cost() {
    let folder = folder();
    let (out, page) = (folder.path().join("a.toml"), folder.path().join("a.html"));
    let output =
        characterize(&[DRIVE, "-o", text(&out), "--report", text(&page), "--seconds", "40"]);
    // With so little time the profile may be poor; the report must list what is missing.
    assert!([0, 3].contains(&code(&output)), "{}", said(&output));
    let table = String::from_utf8(output.stdout).expect("text");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("the time was too short for") && said.contains("--seconds 80"), "{said}");
    for row in ["drive ", "verdict ", "rotation ", "cost ", "remarks"] {
        assert!(
            table.lines().any(|line| line.starts_with(row.trim_end())),
            "{row} is missing in\n{table}"
        );
    }
    assert!(
        table.contains("simulated deskstar34gxp@nocache, unit 0, 40088160 sectors of 512 bytes"),
        "{table}"
    );
    let page = std::fs::read_to_string(page).expect("it was written beside the profile");
    assert!(page.contains("Transfer rate") && page.contains("simulated deskstar34gxp@nocache"));
}

#[test]
fn a_device_that_does_not_turn_is_said_to_be_none_and_leaves_no_profile() {
    let folder = folder();
    let out = folder.path().join("memory.toml");
    let output = characterize(&["memory:64MiB", "-o", text(&out), "--json"]);
    assert_eq!(code(&output), 3, "{}", said(&output));
    assert_eq!(json(&output)["kind"], "no_rotating_drive");
    assert!(said(&output).contains("no rotating drive"), "{}", said(&output));
    assert!(!out.exists() && std::fs::read_dir(folder.path()).expect("a folder").next().is_none());
}

#[test]
fn a_run_that_is_interrupted_or_killed_goes_on_and_finds_the_same_drive() {
    let folder = folder();
    let out = folder.path().join("a.toml");
    let state = folder.path().join("a.toml.state");
    // In real time, so that there is something to interrupt.
    let drive = format!(
        "emulated:deskstar34gxp@nocache?backing={}&noise=off",
        text(&folder.path().join("disk.img"))
    );
    for (signal, exit) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let mut arguments = vec!["characterize", &drive, "-o", text(&out), "--log", "off"];
        if state.exists() {
            arguments.push("--resume");
        }
        let program = Program::start(&arguments);
        // The state is there before the first read, and is kept from the first second on.
        while !state.exists() {
            std::thread::yield_now();
        }
        program.signal(signal);
        let (status, _, said) = program.end();
        assert_eq!(status.code(), exit, "{said}");
        if exit.is_some() {
            assert!(said.contains("--resume continues"), "{said}");
        }
        let kept = std::fs::read_to_string(&state).expect("a state is left");
        assert!(kept.starts_with("headtime-probe 6\n"), "{kept:.80}");
    }
    // Another drive's state, or a damaged one, is not mixed into this one.
    let other = characterize(&["simulated:maxtor-20gb@nocache", "-o", text(&out), "--resume"]);
    assert_eq!(code(&other), 2);
    assert!(
        said(&other).contains("saved characterization is of drive")
            && said(&other).contains("maxtor-20gb"),
        "{}",
        said(&other)
    );
    let fresh = characterize(&[&drive, "-o", text(&out)]);
    assert_eq!(code(&fresh), 2);
    assert!(said(&fresh).contains("--resume"), "{}", said(&fresh));
    let text_of = std::fs::read_to_string(&state).expect("still there");
    std::fs::write(&state, &text_of[..text_of.len() / 2]).expect("writable");
    let damaged = characterize(&[&drive, "-o", text(&out), "--resume"]);
    assert_eq!(code(&damaged), 2);
    assert!(said(&damaged).contains("damaged"), "{}", said(&damaged));
}

#[test]
fn what_was_stopped_in_the_middle_in_virtual_time_ends_with_a_profile_when_it_is_resumed() {
    let folder = folder();
    let out = folder.path().join("a.toml");
    let state = folder.path().join("a.toml.state");
    let program = Program::start(&["characterize", DRIVE, "-o", text(&out)]);
    // Until it has saved more than the empty state that it begins with.
    while std::fs::metadata(&state).map_or(0, |state| state.len()) < 4_000 && !out.exists() {
        std::thread::yield_now();
    }
    if !out.exists() {
        program.signal(Signal::KILL);
    }
    drop(program);
    if out.exists() {
        println!("skipped: the machine was through before it could be interrupted");
        return;
    }
    let output = characterize(&[DRIVE, "-o", text(&out), "--resume", "--json"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(json(&output)["kind"], "characterized", "{:#}", json(&output));
    assert!(!state.exists() && out.exists());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_read() {
    let folder = folder();
    let there = folder.path().join("there.toml");
    std::fs::write(&there, "kept").expect("writable");
    let new = folder.path().join("new.toml");
    let (there_text, new_text) = (text(&there), text(&new));
    let missing = folder.path().join("no/such/folder/a.toml");
    for (arguments, exit, expected) in [
        (vec![DRIVE, "-o", there_text], 2, "exists; choose another file, or add --force"),
        (vec![DRIVE, "-o", new_text, "--report", there_text], 2, "there.toml exists; choose"),
        (vec![DRIVE, "-o", new_text, "--resume"], 2, "no run can be resumed"),
        (vec![DRIVE, "-o", text(&missing)], 1, "was not started"),
        (vec!["simulated:no-such-drive", "-o", new_text], 2, "no-such-drive"),
        (vec!["memory:1MiB", "-o", new_text, "--virtual"], 2, "--virtual needs"),
        (vec![DRIVE, "-o", new_text, "--name", "Ümlaut"], 2, "lower-case letters"),
        (vec![DRIVE, "-o", new_text, "--allow-writes"], 2, "--yes"),
        (vec!["/no/such/device", "-o", new_text], 2, "does not exist"),
        (vec!["nbd+unix:///x?socket=/no/such/socket", "-o", new_text], 1, "connecting failed"),
    ] {
        let output = characterize(&arguments);
        assert_eq!(code(&output), exit, "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
        assert!(output.stdout.is_empty() && !new.exists(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(&there).expect("still there"), "kept");
}

#[test]
fn an_emulated_drive_runs_in_virtual_time_as_the_unit_of_its_backing() {
    let folder = folder();
    let backing = folder.path().join("disk.img");
    // The seed of the instance is stored beside the backing file once it was served.
    let drive = format!("emulated:maxtor-20gb@nocache?backing={}", text(&backing));
    let mut server = Program::start(&[
        "emulate",
        &drive,
        "--seed",
        "7",
        "--listen",
        &format!("unix:{}", text(&folder.path().join("s"))),
    ]);
    server.line();
    server.signal(Signal::TERM);
    server.end();
    let out = folder.path().join("a.toml");
    let output = characterize(&[&drive, "--virtual", "-o", text(&out), "--seconds", "2", "--json"]);
    assert!([0, 3].contains(&code(&output)), "{}", said(&output));
    assert!(
        json(&output)["drive"].as_str().is_some_and(|drive| drive.contains("unit 7")),
        "{:#}",
        json(&output)
    );
}

#[test]
fn an_nbd_server_that_goes_away_is_waited_for_and_then_given_up_with_its_state_kept() {
    let folder = folder();
    let socket = folder.path().join("s");
    let emulate = || {
        let backing = folder.path().join("disk.img");
        let mut server = Program::start(&[
            "emulate",
            "deskstar34gxp@nocache",
            "--backing",
            text(&backing),
            "--listen",
            &format!("unix:{}", text(&socket)),
        ]);
        server.line();
        server
    };
    let server = emulate();
    let uri = format!("nbd+unix:///?socket={}&reconnect_timeout=3s", text(&socket));
    let (out, state) = (folder.path().join("a.toml"), folder.path().join("a.toml.state"));
    let program = Program::start(&["characterize", &uri, "-o", text(&out)]);
    while !state.exists() {
        std::thread::yield_now();
    }
    // Killed and started again: it goes on. Killed for good: it ends, and says how to go on.
    drop(server);
    let server = emulate();
    drop(server);
    let (status, _, said) = program.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("connection") && said.contains("--resume continues"), "{said}");
    assert!(state.exists() && !out.exists());
}

#[test]
fn help_names_the_exit_codes_and_the_page_names_the_flags() {
    let help = headtime(&["characterize", "--help"]);
    let help = String::from_utf8(help.stdout).expect("text");
    for expected in ["Exit codes", "--resume", "--allow-writes", "130"] {
        assert!(help.contains(expected), "{expected} is missing in\n{help}");
    }
    let page = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/characterize.md"),
    )
    .expect("the page is there");
    for flag in help
        .split_whitespace()
        .filter(|word| word.starts_with("--"))
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_lowercase() && c != '-'))
    {
        let flag = flag.trim_end_matches(',');
        if !["--help", "--json", "--log", "--drive"].contains(&flag) {
            assert!(page.contains(flag), "docs/characterize.md does not name {flag}");
        }
    }
}

#[test]
fn a_drive_that_fails_every_read_is_given_up_and_what_it_said_is_told() {
    if !nbdkit::installed(&["error", "memory"]) {
        return;
    }
    let folder = folder();
    let socket = folder.path().join("s");
    let failing = ["--filter=error", "memory", "64M", "error-pread=EIO", "error-pread-rate=100%"];
    let nbdkit = Nbdkit::start(&socket, &failing);
    let uri = format!("nbd+unix:///?socket={}", text(&socket));
    let out = folder.path().join("a.toml");
    let output = characterize(&[&uri, "-o", text(&out)]);
    drop(nbdkit);
    assert_eq!(code(&output), 1, "{}", said(&output));
    assert!(
        said(&output).contains("commands failed") && said(&output).contains("the drive reported"),
        "{}",
        said(&output)
    );
    assert!(!out.exists());
}
