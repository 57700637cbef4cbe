//! Characterizing the drive of a server: paused, killed, resumed, refused, complete, and the
//! remembered profile at the next start.

mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::Sandbox;
use headtime_mechanics::DriveProfile;
use headtime_serve::beside::{BesideState, BesideStatus};
use headtime_serve::control::{ControlClient, ControlError};
use headtime_serve::status::ServerStatus;
use serde_json::{Value, json};

const VOLUME: &str = "[[volume]]\nname = \"rec\"\nsize = \"64MiB\"\n";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn control(sandbox: &Sandbox) -> ControlClient {
    ControlClient::connect(&sandbox.path("drive.img.control")).expect("the server listens")
}

fn ask(sandbox: &Sandbox, verb: &str, arguments: Value) -> BesideStatus {
    control(sandbox).ask_for(verb, &arguments).unwrap_or_else(|error| panic!("{verb}: {error}"))
}

fn refusal(sandbox: &Sandbox, verb: &str, arguments: Value) -> String {
    match control(sandbox).ask(verb, arguments) {
        Err(ControlError::ErrorReply(refused)) => refused.message,
        other => panic!("{verb}: {other:?}"),
    }
}

fn server_status(sandbox: &Sandbox) -> ServerStatus {
    control(sandbox).ask_for("status", &json!({})).expect("it answers")
}

fn start() -> Value {
    json!({"name": "disk", "seed": 1, "seconds": 300})
}

/// The status once it is as expected.
fn once(sandbox: &Sandbox, is_so: impl Fn(&BesideStatus) -> bool) -> BesideStatus {
    let began = Instant::now();
    loop {
        let status = ask(sandbox, "characterize.status", json!({}));
        if is_so(&status) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "{status:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The files of the state directory with this ending.
fn state_files(sandbox: &Sandbox, ending: &str) -> Vec<PathBuf> {
    let directory = std::fs::read_dir(sandbox.path("drive.img.scans")).expect("it is there");
    directory
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

#[test]
fn it_is_paused_and_killed_and_goes_on_and_a_cancelled_one_leaves_nothing() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.spawn(VOLUME);
    assert!(refusal(&sandbox, "characterize.status", json!({})).contains("start one first"));
    ask(&sandbox, "characterize.start", start());
    once(&sandbox, |status| status.reads > 20);
    let refused = refusal(&sandbox, "characterize.start", start());
    assert!(refused.contains("has a running characterization"), "{refused}");

    let paused = ask(&sandbox, "characterize.pause", json!({}));
    assert_eq!(paused.state, BesideState::Paused);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(once(&sandbox, |_| true).reads, paused.reads, "it reads no more");
    server.kill_9();

    let server = sandbox.spawn(VOLUME);
    let restored = once(&sandbox, |_| true);
    assert_eq!(restored.state, BesideState::Paused, "{restored:?}");
    assert!(restored.progress > 0.0, "the drive time spent is remembered: {restored:?}");
    let resumed = ask(&sandbox, "characterize.resume", json!({"max_impact": 0.03}));
    assert_eq!(resumed.state, BesideState::Running);
    once(&sandbox, |status| status.reads > 20);
    server.kill_9();

    let server = sandbox.spawn(VOLUME);
    once(&sandbox, |status| status.state == BesideState::Running && status.reads > 20);
    let status = server_status(&sandbox);
    assert!(status.characterization.is_some());
    assert!((status.max_impact - 0.03).abs() < 1e-9, "its bound is remembered");
    ask(&sandbox, "characterize.pause", json!({}));
    assert!((server_status(&sandbox).max_impact - 0.01).abs() < 1e-9, "and of no effect otherwise");
    ask(&sandbox, "characterize.resume", json!({}));
    assert!((server_status(&sandbox).max_impact - 0.03).abs() < 1e-9);
    assert_eq!(state_files(&sandbox, ".probe").len(), 1);
    let cancelled = ask(&sandbox, "characterize.cancel", json!({}));
    assert_eq!(cancelled.state, BesideState::Cancelled);
    assert_eq!((cancelled.saved_in, cancelled.out), (None, None), "no file is left or written");
    assert!(state_files(&sandbox, ".probe").is_empty());
    assert!(state_files(&sandbox, ".characterize").is_empty());
    assert!(server.terminate().success());
}

#[test]
fn wrong_requests_change_nothing_and_damaged_state_is_reported_and_kept() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.spawn(VOLUME);
    std::fs::write(sandbox.path("there.toml"), "x").expect("writable");
    let with = |key: &str, value: Value| {
        let mut arguments = start();
        arguments[key] = value;
        arguments
    };
    for (arguments, expected) in [
        (with("out", json!("disk.toml")), "is not an absolute path"),
        (with("out", json!(sandbox.path("there.toml"))), "add --force to replace it"),
        (with("out", json!(sandbox.path(""))), "is a directory"),
        (with("out", json!(sandbox.path("none/disk.toml"))), "the server cannot write"),
        (with("keep_model", json!(true)), "--keep-model without -o leaves no result"),
        (with("max_impact", json!(1.5)), "out of range (0 to 1)"),
        (with("speed", json!(1)), "unknown field `speed`"),
    ] {
        let refused = refusal(&sandbox, "characterize.start", arguments);
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(refusal(&sandbox, "characterize.pause", json!({})).contains("start one first"));

    ask(&sandbox, "characterize.start", start());
    once(&sandbox, |status| status.reads > 20);
    assert!(server.terminate().success());
    let probe = state_files(&sandbox, ".probe").remove(0);
    let whole = std::fs::read(&probe).expect("it is there");
    std::fs::write(&probe, &whole[..whole.len() / 2]).expect("writable");
    let server = sandbox.spawn(VOLUME);
    let failed = once(&sandbox, |status| status.state == BesideState::Failed);
    assert!(failed.reason.contains("damaged"), "{failed:?}");
    assert!(refusal(&sandbox, "characterize.resume", json!({})).contains("cannot be resumed"));
    assert_eq!(std::fs::read(&probe).expect("it is there"), whole[..whole.len() / 2]);
    ask(&sandbox, "characterize.start", with("force", json!(true)));
    once(&sandbox, |status| status.reads > 20);
    assert!(server.terminate().success());
}

#[test]
fn an_array_is_refused_by_name_with_either_schedule() {
    for schedule in ["member", "whole"] {
        let drive = format!("array:schedule={schedule},memory:64MiB,memory:64MiB");
        let sandbox = Sandbox::with_drive(|_| drive.clone());
        let control = format!("control = {:?}\n", sandbox.path("drive.img.control"));
        let server = sandbox.serve(&format!("{control}{VOLUME}"));
        let mut arguments = start();
        arguments["out"] = json!(sandbox.path("disk.toml"));
        let refused = refusal(&sandbox, "characterize.start", arguments);
        assert!(
            refused.contains("array:") && refused.contains("an array is not characterized"),
            "{refused}"
        );
        assert!(refusal(&sandbox, "characterize.status", json!({})).contains("start one first"));
        drop(server);
    }
}

#[test]
fn a_file_is_no_rotating_drive_and_its_model_stays() {
    let sandbox = Sandbox::with_file_drive(128);
    let server = sandbox.spawn(VOLUME);
    let mut arguments = start();
    arguments["out"] = json!(sandbox.path("disk.toml"));
    ask(&sandbox, "characterize.start", arguments);
    let status = once(&sandbox, |status| status.state == BesideState::Complete);
    let result = status.result.expect("it is complete");
    assert!(!result.reliable && !result.used, "{result:?}");
    assert!(!sandbox.path("disk.toml").exists());
    assert_eq!(server_status(&sandbox).model.by, "distance");
    assert!(state_files(&sandbox, ".probe").is_empty());
    assert!(server.terminate().success());
}

#[test]
fn a_remembered_profile_is_the_drive_model_unless_it_is_damaged_or_another_is_named() {
    let sandbox = Sandbox::with_file_drive(128);
    let server = sandbox.spawn(VOLUME);
    ask(&sandbox, "characterize.start", start());
    ask(&sandbox, "characterize.pause", json!({}));
    let request = state_files(&sandbox, ".characterize").remove(0);
    ask(&sandbox, "characterize.cancel", json!({}));
    assert!(server.terminate().success());

    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tiny.toml");
    let profile = DriveProfile::from_toml("tiny", &std::fs::read_to_string(tiny).expect("there"));
    let body = profile.expect("a profile").to_toml().trim_end().to_owned();
    let sealed = format!("{body}\n# crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()));
    let remembered = request.with_extension("profile.toml");
    let model = |content: &str, more: &str| {
        std::fs::write(&remembered, content).expect("writable");
        let server = sandbox.spawn(&format!("{more}{VOLUME}"));
        let by = server_status(&sandbox).model.by;
        assert!(server.terminate().success());
        assert_eq!(std::fs::read_to_string(&remembered).expect("it stays"), content);
        by
    };
    assert_eq!(model(&sealed, ""), "profile");
    assert_eq!(model(&sealed, "model = \"matrix\"\n"), "matrix");
    assert_eq!(model(&sealed.replace("60000", "60001"), ""), "distance");
    let other = body.replace("262144", "262152");
    assert_ne!(other, body);
    let other = format!("{other}\n# crc32c {:08x}\n", crc32c::crc32c(other.as_bytes()));
    assert_eq!(model(&other, ""), "distance", "a profile of another size");
}
