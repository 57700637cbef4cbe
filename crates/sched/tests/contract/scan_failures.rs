//! Errors of background reads: they affect scans alone, and of those only the unreadable sectors.

use std::collections::BTreeSet;

use headtime_sched::{
    Command, FillSettings, FillSource, Outcome, POLICIES, ReadAhead, ScanId, ScanOptions,
};
use headtime_units::{Extent, Lba, Sectors};

use crate::scans::{POINT_IN_TIME, eager, everything, knowing, not_idle};
use crate::session::{Session, Setup, read, write};
use crate::tiny::CAPACITY;

fn bad(sectors: &'static [u64]) -> impl FnMut(&Command) -> bool {
    move |command| sectors.iter().any(|lba| command.extent.contains(Lba::new(*lba)))
}

fn failed(session: &Session, scan: u32) -> BTreeSet<u64> {
    session.model.scan_remaining(ScanId(scan)).1.clone()
}

#[test]
fn only_the_blocks_that_cannot_be_read_are_reported_as_failed() {
    for entry in POLICIES {
        let mut setup = Setup::with(entry.build_default()).failing(bad(&[9, 100, 101]));
        setup.belief.knows_tracks = true;
        let mut session = setup.start();
        session.scan(1, eager(), everything(4), ScanOptions::default());
        for id in 0..12 {
            session.accept(read(id, id * 53 % CAPACITY, 1));
        }
        session.run_to_end();
        assert_eq!(
            failed(&session, 1),
            BTreeSet::from([8, 9, 100, 101]),
            "{}: blocks are of two sectors",
            entry.name
        );
        assert_eq!(session.scheduler.scan_remaining(ScanId(1)), Some(Sectors::ZERO));
        assert_eq!(session.scheduler.fill_report().failed.get(), 4);
        assert!(
            session.finished.iter().all(|finished| finished.outcome == Outcome::Success),
            "{}: none of them is a client's",
            entry.name
        );
    }
}

#[test]
fn a_request_that_was_merged_is_sent_again_alone() {
    let mut session = knowing("fcfs").failing(bad(&[76])).start();
    session.accept(read(0, 72, 1));
    session.accept(read(1, 79, 1));
    session.scan(
        1,
        FillSettings { read_ahead: ReadAhead::On, ..not_idle(eager()) },
        everything(1),
        ScanOptions::default(),
    );
    session.run_to_end();
    let sent: Vec<(Extent, usize)> =
        session.dispatched.iter().map(|command| (command.extent, command.requests.len())).collect();
    let merged = sent
        .iter()
        .position(|(extent, requests)| extent.contains(Lba::new(76)) && *requests == 1)
        .expect("the two go together");
    assert!(sent[merged + 1..].contains(&(Extent::from_numbers(79, 1), 1)), "{sent:?}");
    assert_eq!(session.end_of(1).outcome, Outcome::Success);
}

#[test]
fn a_bad_sector_of_the_request_fails_the_request_and_not_the_scan() {
    let mut session = knowing("fcfs").failing(bad(&[79])).start();
    session.accept(read(0, 72, 1));
    session.accept(read(1, 79, 1));
    session.scan(
        1,
        FillSettings { read_ahead: ReadAhead::On, ..eager() },
        everything(1),
        ScanOptions::default(),
    );
    session.run_to_end();
    assert_eq!(session.end_of(1).outcome, Outcome::Failed(5));
    assert_eq!(failed(&session, 1), BTreeSet::from([79]));
}

/// An unreadable sector does not delay a write: a scan of a point in time loses the sectors it
/// overwrites, another scan reads them afterwards.
#[test]
fn a_write_that_waits_for_a_bad_sector_goes_at_once() {
    let mut attempts = 0;
    let mut session = knowing("fcfs")
        .failing(move |command| {
            let hit = command.requests.is_empty() && command.extent.contains(Lba::new(41));
            attempts += u32::from(hit);
            hit && attempts <= 1
        })
        .start();
    session.scan(1, not_idle(eager()), everything(1), POINT_IN_TIME);
    session.scan(2, not_idle(eager()), everything(1), ScanOptions::default());
    session.accept(write(0, 40, 4));
    session.run_to_end();
    assert_eq!(session.end_of(0).outcome, Outcome::Success);
    assert_eq!(session.dispatched.len(), 2, "one attempt, then the write");
    assert_eq!(failed(&session, 1), BTreeSet::from([40, 41, 42, 43]));
    assert!(session.read.iter().all(|read| read.source == FillSource::BeforeWrite));
    session.scheduler.set_fill(eager());
    session.run_to_end();
    assert_eq!(
        (failed(&session, 2).len(), session.scheduler.scan_remaining(ScanId(2))),
        (0, Some(Sectors::ZERO))
    );
}

#[test]
fn what_failed_is_tried_again_when_there_is_time_and_not_before() {
    let mut first = true;
    let mut session = knowing("fcfs")
        .failing(move |command| command.requests.is_empty() && std::mem::take(&mut first))
        .start();
    session.scan(1, FillSettings { tail: 0.0, ..eager() }, everything(1), ScanOptions::default());
    for id in 0..10 {
        session.accept(read(id, id * 53 % CAPACITY, 1));
    }
    session.run_to_end();
    assert_eq!(
        (failed(&session, 1).len(), session.scheduler.scan_remaining(ScanId(1))),
        (0, Some(Sectors::ZERO))
    );
    assert_eq!(session.finished.len(), 10);
}
