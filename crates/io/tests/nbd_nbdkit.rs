//! nbdkit as a drive that fails, is slow, hangs, dies and returns.
//!
//! Time limits here are short where something never happens, and waits for what does happen are a
//! minute long: nothing depends on the machine's speed.

mod common;

use std::sync::mpsc::Receiver;

use bytes::Bytes;
use headtime_io::{DriveOptions, Io, IoDone, LinkState, PolicyChoice};
use headtime_sched::{Op, PolicyEntry};
use headtime_testkit::merge_runs::MERGE_RUNS;
use headtime_testkit::nbdkit::{Nbdkit, installed};

use common::nbd_place::{
    AWAY, LOST, NbdPlace, TIMED_OUT, at, eager, fails, flush, is_away, patient, read, succeeds,
    wait_until, write,
};
use common::{answer, holds, pattern, submit};

#[test]
fn an_error_of_nbdkit_reaches_the_one_request_it_belongs_to_also_out_of_a_merged_command() {
    if !installed(&["eval"]) {
        return;
    }
    let place = NbdPlace::new();
    // Fails whatever touches byte 102,400 (sector 200), by a script.
    let bad = "if [ $4 -le 102400 ] && [ 102400 -lt $(($4 + $3)) ]; then echo EIO >&2; exit 1; fi";
    let scripts = [
        "get_size=echo 8M".to_owned(),
        format!("pread={bad}; head -c $3 /dev/zero"),
        format!("pwrite={bad}; cat >/dev/null"),
        "can_write=exit 0".to_owned(),
        "can_flush=exit 0".to_owned(),
        "flush=exit 0".to_owned(),
    ];
    let arguments: Vec<&str> =
        ["eval"].into_iter().chain(scripts.iter().map(String::as_str)).collect();
    let _nbdkit = Nbdkit::start(&place.socket(), &arguments);
    let (_, no_parameters) = PolicyEntry::parse("fcfs").expect("a policy");
    let policy = PolicyChoice::new(&MERGE_RUNS, no_parameters).expect("no oracle");
    let drive = place.open("", DriveOptions { policy, outstanding: None, ..patient() });
    for op in [Op::Read, Op::Write] {
        // While the first is under way the others gather, and go together.
        let io = |start| {
            if op == Op::Read {
                Io::read(at(start))
            } else {
                Io::write(at(start), pattern(at(start), 1))
            }
        };
        let first = submit(&drive, io(1000));
        let gathered: Vec<(u64, Receiver<IoDone>)> =
            (184..224).step_by(8).map(|start| (start, submit(&drive, io(start)))).collect();
        succeeds(&first);
        for (start, receiver) in &gathered {
            if *start == 200 {
                fails(
                    receiver,
                    5,
                    &[
                        &format!("{} of LBA 200..+8", op.name()),
                        "answered: input/output error (EIO)",
                    ],
                );
            } else {
                succeeds(receiver);
            }
        }
    }
    assert_eq!(drive.snapshot().errors.by_errno.get(&5), Some(&2));
    assert_eq!(drive.snapshot().link.map(|link| link.losses), Some(0));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn errors_that_nbdkit_injects_end_when_they_are_switched_off() {
    if !installed(&["file", "error"]) {
        return;
    }
    let place = NbdPlace::new();
    let switch = place.path("inject");
    let file = format!("error-pwrite-file={}", switch.display());
    let _nbdkit =
        place.nbdkit(&["error"], &["error-pwrite=ENOSPC", "error-pwrite-rate=100%", &file]);
    let drive = place.open("", patient());
    succeeds(&write(&drive, 0, 1));
    std::fs::write(&switch, "").expect("writable");
    let (failing, reading) = (write(&drive, 0, 2), read(&drive, 100));
    fails(&failing, 28, &["write of LBA 0..+8", "no space left"]);
    succeeds(&reading);
    assert!(holds(&drive, at(0), 1));
    std::fs::remove_file(&switch).expect("it is there");
    succeeds(&write(&drive, 0, 3));
    assert!(holds(&drive, at(0), 3));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_slow_drive_works_and_one_that_is_slower_than_the_limit_is_given_up() {
    if !installed(&["file", "delay"]) {
        return;
    }
    let place = NbdPlace::new();
    let _nbdkit = place.nbdkit(&["delay"], &["delay-read=200ms", "delay-write=3600"]);
    let drive = place.open("", eager(30_000));
    let slow: Vec<_> = (0..8).map(|number| read(&drive, number * 100)).collect();
    slow.iter().for_each(succeeds);
    assert_eq!(drive.snapshot().hung.given_up_ever, 0);
    drop(drive);

    let drive = place.open("", eager(500));
    fails(
        &write(&drive, 0, 1),
        TIMED_OUT,
        &["write of LBA 0..+8", "did not answer within 500.000 ms"],
    );
    wait_until("the command came back with its connection", || {
        drive.snapshot().hung.came_back == 1
    });
    let health = drive.snapshot();
    assert_eq!((health.hung.given_up, health.outstanding), (0, 0));
    assert_eq!(health.link.map(|link| link.losses), Some(1));
    drop(drive);
}

#[test]
fn nbdkit_killed_and_started_again_fails_what_was_under_way_and_serves_the_rest() {
    if !installed(&["file", "delay", "log"]) {
        return;
    }
    let place = NbdPlace::new();
    let log = place.path("log");
    let nbdkit = place
        .nbdkit(&["log", "delay"], &["delay-read=3600", &format!("logfile={}", log.display())]);
    let drive = place.open("&reconnect_timeout=3600s&queue_depth=3", patient());
    succeeds(&write(&drive, 0, 1));
    let under_way: Vec<_> = (0..3).map(|number| read(&drive, 1000 + number * 100)).collect();
    wait_until("nbdkit has three of them", || {
        std::fs::read_to_string(&log).unwrap_or_default().matches("Read id=").count() >= 3
    });
    let queued: Vec<_> = (0..5).map(|number| write(&drive, 2000 + number * 100, 2)).collect();
    nbdkit.kill_9();
    under_way
        .iter()
        .for_each(|receiver| fails(receiver, LOST, &["was lost before it was answered"]));
    assert!(is_away(&drive));
    let _nbdkit = place.nbdkit(&[], &[]);
    queued.iter().for_each(succeeds);
    assert!(holds(&drive, at(0), 1) && holds(&drive, at(2400), 2));
    assert_eq!(flush(&drive).expect_err("the first write was not flushed").errno(), 5);
    assert_eq!(flush(&drive), Ok(Bytes::new()));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_stopped_nbdkit_is_noticed_answered_for_and_used_again_when_it_goes_on() {
    if !installed(&["file"]) {
        return;
    }
    let place = NbdPlace::new();
    let nbdkit = place.nbdkit(&[], &[]);
    let drive = place.open("&reconnect_timeout=0&connect_timeout=300ms", eager(3000));
    succeeds(&write(&drive, 0, 1));
    nbdkit.stop();
    let (hung, reading) = (write(&drive, 100, 1), read(&drive, 0));
    let failed = [&hung, &reading]
        .map(|receiver| answer(receiver).result.expect_err("the server is stopped"));
    // The first to be given up takes the connection, and so the other with it, unless that was
    // given up or on its way in the same moment.
    assert!(failed.iter().any(|error| error.errno() == TIMED_OUT), "{failed:?}");
    assert!(
        failed.iter().all(|error| [TIMED_OUT, LOST, AWAY].contains(&error.errno())),
        "{failed:?}"
    );
    wait_until("the silence is noticed", || {
        let state = drive.snapshot().link.expect("it has a link").state;
        matches!(state, LinkState::Away { cause, .. } if cause.contains("did not open the export"))
    });
    fails(&read(&drive, 0), AWAY, &["did not open the export within 300.000 ms"]);
    nbdkit.resume();
    wait_until("the drive is back", || !is_away(&drive));
    assert!(holds(&drive, at(0), 1));
    // Overlaps the write that hung, which has happened or not, but not after this.
    succeeds(&write(&drive, 100, 2));
    assert!(holds(&drive, at(100), 2));
    assert_eq!(flush(&drive).expect_err("the first write was not flushed").errno(), 5);
    assert!(drive.shutdown().is_clean());
}
