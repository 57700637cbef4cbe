//! Reads that the drive's cache probably answers.

use headtime_units::{Extent, Nanos};

use crate::session::{Session, Setup, due, read};
use crate::tiny::SECTORS_PER_CYLINDER;

/// A session whose drive model predicts the first cylinder in the drive's cache, with a read of the
/// last cylinder at the drive.
fn with_a_seek_at_the_drive(policy: &str) -> Session {
    let mut setup = Setup::of(policy);
    setup.belief.cached = Some(Extent::from_numbers(0, SECTORS_PER_CYLINDER));
    let mut session = setup.start();
    session.accept(read(0, 7 * SECTORS_PER_CYLINDER, 1));
    session.pump();
    session.pass(Nanos::from_us(300));
    session
}

fn sent(session: &Session) -> Vec<u64> {
    session.dispatched.iter().map(|command| command.requests[0].0).collect()
}

#[test]
fn a_read_that_is_probably_cached_does_not_wait_for_a_seek() {
    let mut session = with_a_seek_at_the_drive("headtime");
    session.accept(read(1, 6 * SECTORS_PER_CYLINDER, 1));
    session.accept(read(2, 4, 1));
    session.pump();
    assert_eq!(sent(&session), [0, 2], "1 has to wait, 2 needs no arm");
    let mut without = with_a_seek_at_the_drive("sptf-expected");
    without.accept(read(1, 6 * SECTORS_PER_CYLINDER, 1));
    without.accept(read(2, 4, 1));
    without.pump();
    assert_eq!(sent(&without), [0]);
}

/// In case the prediction is wrong.
#[test]
fn a_read_that_is_probably_cached_waits_where_its_seek_would_cause_a_miss() {
    let mut session = with_a_seek_at_the_drive("headtime");
    session.accept(due(read(1, 7 * SECTORS_PER_CYLINDER + 4, 1), 35));
    session.accept(read(2, 4, 1));
    session.pump();
    assert_eq!(sent(&session), [0]);
    session.run_to_end();
    assert!(session.finished.iter().all(|finished| !finished.missed()));
}

#[test]
fn reads_that_are_probably_cached_starve_no_other() {
    let mut setup = Setup::of("headtime").queue_depth(4);
    setup.belief.cached = Some(Extent::from_numbers(0, SECTORS_PER_CYLINDER));
    let mut session = setup.start();
    for id in 1..=8 {
        session.accept(read(id, 4, 1));
    }
    session.pump();
    session.accept(read(0, 7 * SECTORS_PER_CYLINDER, 1));
    for id in 9..40 {
        session.accept(read(id, 4, 1));
        session.step();
    }
    assert!(sent(&session).contains(&0), "{:?}", sent(&session));
}
