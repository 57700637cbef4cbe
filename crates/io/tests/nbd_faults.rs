//! A drive of an NBD server in this process that misbehaves on command: it hangs up, breaks the
//! protocol, returns as another drive, or holds back requests.
//!
//! Time limits here are short where something never happens, and waits for what does happen are a
//! minute long: nothing depends on the machine's speed.

mod common;

use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_io::{DriveIdentity, DriveOptions, Io, IoError, LinkState};
use headtime_nbd::{BlockSizes, Errno, ExportInfo};
use headtime_units::Nanos;

use common::nbd_place::{
    AWAY, LOST, NbdPlace, SIZE, TIMED_OUT, at, eager, fails, flush, is_away, patient, read,
    succeeds, wait_until, write,
};
use common::puppet_server::Rule;
use common::{answer, holds, pattern, submit};

#[test]
fn a_server_that_hangs_up_fails_what_it_had_and_nothing_else() {
    let place = NbdPlace::new();
    let server = place.puppet();
    server.set_rule(|_| Rule::Keep);
    let drive = place.open("&queue_depth=2", patient());
    let there = [read(&drive, 0), write(&drive, 100, 1)];
    server.wait_until("two requests are there", |script| script.log.len() == 2);
    let waiting = read(&drive, 200);
    server.set_rule(|command| if command.range().0 == 0 { Rule::HangUp } else { Rule::Keep });
    // It comes back to a server that answers.
    server.wait_until("it is connected again", |script| script.opened == 2);
    server.set_rule(|_| Rule::Answer);
    for receiver in &there {
        fails(
            receiver,
            LOST,
            &["was lost before it was answered", &place.uri(""), "may or may not have happened"],
        );
    }
    succeeds(&waiting);
    let link = drive.snapshot().link.expect("it has a link");
    assert_eq!((link.state, link.losses), (LinkState::Connected, 1));
    assert_eq!(drive.snapshot().errors.by_errno.get(&LOST), Some(&2));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn the_first_flush_after_a_loss_fails_when_something_was_not_flushed_and_only_then() {
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("", patient());
    let lose = || {
        server.set_rule(
            |command| if command.spec().name == "READ" { Rule::HangUp } else { Rule::Answer },
        );
        fails(&read(&drive, 0), LOST, &[]);
        server.set_rule(|_| Rule::Answer);
    };
    lose();
    assert_eq!(flush(&drive), Ok(Bytes::new()), "nothing was written");
    succeeds(&write(&drive, 100, 1));
    lose();
    let error = flush(&drive).expect_err("the write may be gone");
    assert_eq!(error.errno(), 5);
    assert!(error.to_string().contains("may have lost writes that had been answered"), "{error}");
    assert_eq!(flush(&drive), Ok(Bytes::new()), "the loss was reported");
    succeeds(&write(&drive, 100, 2));
    assert_eq!(flush(&drive), Ok(Bytes::new()));
    lose();
    assert_eq!(flush(&drive), Ok(Bytes::new()), "it was flushed");
    succeeds(&submit(&drive, Io { fua: true, ..Io::write(at(0), pattern(at(0), 3)) }));
    lose();
    assert_eq!(flush(&drive), Ok(Bytes::new()), "it was durable by itself");
    succeeds(&write(&drive, 100, 4));
    lose();
    assert!(!drive.shutdown().synced, "the loss was not reported before the end");
}

#[test]
fn answers_that_break_the_protocol_end_the_connection_and_the_next_one_works() {
    let simple =
        |handle: u64| [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &handle.to_be_bytes()].concat();
    let chunk = |flags: u16, kind: u16, handle: u64, payload: &[u8]| {
        let length = payload.len() as u32;
        let head = [
            &0x668e_33ef_u32.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &handle.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        [&head.concat()[..], payload].concat()
    };
    let data = |offset: u64, bytes: usize| [&offset.to_be_bytes()[..], &vec![7; bytes]].concat();
    let broken = [
        ("noise", vec![0xaa; 4096], "not the start of a reply"),
        ("an unknown request", chunk(1, 0, 77, &[]), "not in flight"),
        (
            "a simple reply where structured ones were agreed",
            simple(0),
            "a simple reply where a structured one was agreed",
        ),
        ("more than was requested", chunk(1, 1, 0, &data(0, 8192)), "does not fit its request"),
        ("bytes from elsewhere", chunk(1, 1, 0, &data(1 << 20, 512)), "lies outside of it"),
        ("less than was requested", chunk(1, 1, 0, &data(0, 512)), "with bytes missing"),
        (
            "a chunk of 4 GiB",
            [&chunk(1, 1, 0, &[])[..16], &[0xff; 4]].concat(),
            "does not fit its request",
        ),
    ];
    for (name, bytes, said) in broken {
        let place = NbdPlace::new();
        let server = place.puppet();
        let drive = place.open("", patient());
        // Requests are numbered from 0 on each connection; this is the first.
        server.set_rule(
            move |_| if bytes.is_empty() { Rule::Answer } else { Rule::Say(bytes.clone()) },
        );
        let lied_to = read(&drive, 0);
        fails(&lied_to, LOST, &["was lost before it was answered", said]);
        server.set_rule(|_| Rule::Answer);
        succeeds(&write(&drive, 0, 1));
        assert!(holds(&drive, at(0), 1), "{name}");
        assert!(drive.shutdown().is_clean(), "{name}");
    }
}

#[test]
fn while_the_drive_is_away_requests_wait_and_then_fail_at_once_until_it_is_back() {
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("&reconnect_timeout=300ms", patient());
    succeeds(&write(&drive, 0, 1));
    // What comes back has another size and is refused.
    server.script().export = ExportInfo::disk("", 2 * SIZE);
    server.set_rule(|_| Rule::HangUp);
    let began = Instant::now();
    fails(&read(&drive, 0), LOST, &[]);
    fails(&read(&drive, 0), AWAY, &["has been away for", &place.uri("")]);
    assert!(began.elapsed() >= Duration::from_millis(300), "it waited for the drive");
    wait_until("the other drive was checked", || {
        let LinkState::Away { cause, .. } = drive.snapshot().link.expect("it has a link").state
        else {
            return false;
        };
        assert!(!cause.contains(&place.uri("")), "the server is named beside it: {cause}");
        cause.contains("another drive")
    });
    fails(
        &read(&drive, 0),
        AWAY,
        &["it has 16 MiB (16777216 bytes) and had 8 MiB (8388608 bytes)"],
    );
    server.set_rule(|_| Rule::Answer);
    server.script().export = ExportInfo::disk("", SIZE);
    wait_until("the drive is back", || !is_away(&drive));
    assert!(holds(&drive, at(0), 1));
    assert!(flush(&drive).is_err() && flush(&drive).is_ok());
    assert!(drive.shutdown().is_clean());
}

#[test]
fn a_drive_that_comes_back_with_larger_sectors_is_refused() {
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("&reconnect_timeout=0", patient());
    let block_sizes = BlockSizes { minimum: 4096, ..BlockSizes::default() };
    server.script().export = ExportInfo { block_sizes, ..ExportInfo::disk("", SIZE) };
    server.set_rule(|_| Rule::HangUp);
    fails(&read(&drive, 0), LOST, &[]);
    wait_until("the other drive was checked", || {
        let state = drive.snapshot().link.expect("it has a link").state;
        matches!(state, LinkState::Away { cause, .. } if cause.contains("sector of 4096"))
    });
    fails(
        &read(&drive, 0),
        AWAY,
        &["its smallest block is a sector of 4096 bytes and was one of 512"],
    );
}

#[test]
fn a_drive_that_starts_otherwise_than_the_one_that_went_away_is_refused_before_anything_is_written()
{
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("&reconnect_timeout=300ms", patient());
    succeeds(&write(&drive, 0, 1));
    let mark = pattern(at(0), 1);
    let is_it = move |start: &[u8]| {
        if start[..mark.len()] == mark { Ok(()) } else { Err("it has another mark".to_owned()) }
    };
    // More than is read at a time, and more than a piece that cannot be read.
    drive.handle().identify_by(DriveIdentity::from_start(200 << 10, is_it)).unwrap();
    server.set_rule(|_| Rule::HangUp);
    fails(&read(&drive, 0), LOST, &[]);
    // Another drive of the same size is put in its place.
    let home = std::mem::replace(&mut server.script().bytes, vec![0; SIZE as usize]);
    server.script().log.clear();
    server.set_rule(|_| Rule::Answer);
    wait_until("the other drive was checked", || {
        let state = drive.snapshot().link.expect("it has a link").state;
        matches!(state, LinkState::Away { cause, .. } if cause.contains("it has another mark"))
    });
    fails(&write(&drive, 100, 2), AWAY, &["another drive: it has another mark"]);
    assert!(
        server.script().log.iter().all(|(_, name, ..)| *name == "READ"),
        "nothing but reads came there"
    );
    server.script().bytes = home;
    wait_until("the drive is back", || !is_away(&drive));
    succeeds(&write(&drive, 100, 3));
    assert!(holds(&drive, at(0), 1) && holds(&drive, at(100), 3));
    // A start that cannot be read counts as zeroes, and then as another drive.
    server.set_rule(|command| {
        if command.range().0 == 100 * 512 { Rule::HangUp } else { Rule::Fail(Errno::Io) }
    });
    fails(&read(&drive, 100), LOST, &[]);
    wait_until("its start was requested", || {
        let state = drive.snapshot().link.expect("it has a link").state;
        matches!(state, LinkState::Away { cause, .. } if cause.contains("it has another mark"))
    });
    server.set_rule(|_| Rule::Answer);
    wait_until("the drive is back", || !is_away(&drive));
    assert!(holds(&drive, at(0), 1));
}

#[test]
fn a_server_that_hangs_up_on_every_connection_is_not_called_without_pause() {
    let place = NbdPlace::new();
    let server = place.puppet();
    server.set_rule(|_| Rule::HangUp);
    let drive = place.open("", patient());
    let began = Instant::now();
    for _ in 0..4 {
        fails(&read(&drive, 0), LOST, &[]);
    }
    // Pauses of 100, 200 and 400 ms lie between the four.
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
}

#[test]
fn a_hung_write_that_lands_late_lands_before_what_was_written_since() {
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("", eager(3000));
    server.set_rule(|_| Rule::Keep);
    let hung = write(&drive, 0, 1);
    server.wait_until("the write is there", |script| script.log.len() == 1);
    fails(&hung, TIMED_OUT, &["did not answer within", "may or may not happen"]);
    wait_until("the command is given up", || drive.snapshot().hung.came_back == 1);
    let newer = write(&drive, 0, 2);
    server.wait_until("it is connected again", |script| script.opened == 2);
    // Were it sent, it would be here within a moment; after 5 s it may be.
    let connected = Instant::now();
    while connected.elapsed() < Duration::from_millis(50) {
        let seen = server.script().log.len();
        assert!(
            seen == 1 || connected.elapsed() > Duration::from_secs(4),
            "nothing is sent while the old connection may still be read"
        );
    }
    server.set_rule(|_| Rule::Answer);
    succeeds(&newer);
    assert!(holds(&drive, at(0), 2), "the old write landed on the new one");
    assert_eq!(server.script().log.iter().filter(|entry| entry.0 == 1).count(), 1);
}

#[test]
fn a_server_that_says_it_shuts_down_is_left_and_called_again() {
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("", patient());
    server.set_rule(|_| Rule::Fail(Errno::Shutdown));
    fails(&read(&drive, 0), 108, &["server is shutting down"]);
    server.wait_until("it is connected again", |script| script.opened == 2);
    server.set_rule(|_| Rule::Answer);
    succeeds(&write(&drive, 0, 1));
    assert!(holds(&drive, at(0), 1));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn closing_while_the_server_hangs_or_is_away_ends_in_time() {
    let place = NbdPlace::new();
    let server = place.puppet();
    let drive = place.open("", DriveOptions { drain_timeout: Nanos::from_ms(50), ..patient() });
    server.set_rule(|_| Rule::Keep);
    let hung = read(&drive, 0);
    server.wait_until("the request is there", |script| script.log.len() == 1);
    let report = drive.shutdown();
    assert_eq!((report.given_up_queued, report.given_up_at_drive, report.synced), (0, 1, false));
    assert!(matches!(answer(&hung).result, Err(IoError::Closed)));

    let drive = place.open("", DriveOptions { drain_timeout: Nanos::from_ms(50), ..patient() });
    server.set_rule(|_| Rule::HangUp);
    server.script().accepting = false;
    fails(&read(&drive, 0), LOST, &[]);
    let report = drive.shutdown();
    assert!(!report.synced && report.given_up_at_drive == 0, "{report:?}");
}
