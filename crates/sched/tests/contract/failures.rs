//! Errors reach those they belong to.

use headtime_sched::{Cancelled, Command, Op, Outcome, POLICIES, Request, RequestId};

use crate::merging::Merging;
use crate::session::{Session, Setup, flush, fua, read, request, write};

const EIO: Outcome = Outcome::Failed(5);

fn merging(faults: impl FnMut(&Command) -> bool + 'static) -> Session {
    Setup::with(Box::new(Merging { depth: 1 })).failing(faults).start()
}

/// A sector that cannot be read or written.
fn bad_sector(lba: u64) -> impl FnMut(&Command) -> bool {
    move |command| command.extent.contains(headtime_units::Lba::new(lba))
}

fn outcomes(session: &Session, requests: &[Request]) -> Vec<Outcome> {
    requests.iter().map(|request| session.end_of(request.id.0).outcome).collect()
}

#[test]
fn a_bad_sector_fails_the_one_request_it_belongs_to() {
    let requests = [read(0, 0, 2), read(1, 2, 2), read(2, 4, 2)];
    let mut session = merging(bad_sector(3));
    requests.into_iter().for_each(|request| session.accept(request));
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 2, 0, 1, 2]);
    assert_eq!(outcomes(&session, &requests), [Outcome::Success, EIO, Outcome::Success]);
}

#[test]
fn a_request_that_fails_alone_is_not_tried_again() {
    for entry in POLICIES {
        let mut session = Setup::with(entry.build_default()).failing(|_| true).start();
        session.accept(write(0, 0, 1));
        session.accept(read(1, 0, 1));
        session.run_to_end();
        assert_eq!(
            session.served(),
            [0, 1],
            "{}: who waited for the failed one goes all the same",
            entry.name
        );
        assert!(session.finished.iter().all(|finished| finished.outcome == EIO));
    }
}

#[test]
fn parts_keep_the_order_of_overlapping_requests() {
    // The write overlaps the second part, so it waits until that part is over, not until the merged
    // command is.
    let mut session = merging(bad_sector(3));
    session.accept(read(0, 0, 2));
    session.accept(read(1, 2, 2));
    session.accept(write(2, 2, 1));
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 0, 1, 2]);
    assert_eq!(session.end_of(2).outcome, Outcome::Success);
}

#[test]
fn a_flush_passes_the_parts_that_wait_and_does_not_cover_them() {
    let mut session = merging(|command| command.requests.len() > 1);
    session.accept(write(0, 0, 1));
    session.accept(write(1, 1, 1));
    session.step();
    session.accept(flush(2));
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 2, 0, 1]);
    assert!(session.finished.iter().all(|finished| finished.outcome == Outcome::Success));
}

#[test]
fn a_part_that_must_be_durable_is_made_so() {
    for drive_fua in [true, false] {
        let setup = Setup::with(Box::new(Merging { depth: 1 })).fua(drive_fua);
        let mut session =
            setup.failing(|command| command.requests.len() > 1 && command.op == Op::Write).start();
        session.accept(write(0, 0, 1));
        session.accept(fua(write(1, 1, 1)));
        session.run_to_end();
        let last = session.dispatched.last().expect("four or five were sent");
        assert_eq!(
            (last.requests[0], last.fua, last.op == Op::Flush),
            (RequestId(1), drive_fua, !drive_fua)
        );
        assert_eq!(session.end_of(1).outcome, Outcome::Success);
    }
}

#[test]
fn a_cancelled_part_of_a_failed_command_is_not_sent_again() {
    let mut session = merging(|command| command.requests.len() > 1);
    for id in 0..3 {
        session.accept(write(id, id, 1));
    }
    session.accept(read(3, 1, 1));
    session.pump();
    assert_eq!(session.cancel(1), Cancelled::AtDrive);
    session.run_to_end();
    assert_eq!(
        session.served(),
        [0, 1, 2, 0, 3, 2],
        "the read that waited for the cancelled write goes too, in its turn"
    );
}

#[test]
fn when_all_parts_of_a_failed_command_are_cancelled_nothing_is_left() {
    let mut session = merging(|_| true);
    session.accept(write(0, 0, 1));
    session.accept(write(1, 1, 1));
    session.pump();
    for id in 0..2 {
        assert_eq!(session.cancel(id), Cancelled::AtDrive);
    }
    session.run_to_end();
    assert_eq!((session.served(), session.finished.len()), (vec![0, 1], 0));
}

#[test]
fn a_part_that_waits_to_be_sent_again_can_be_cancelled() {
    let mut session = merging(|command| command.requests.len() > 1);
    session.accept(write(0, 0, 1));
    session.accept(write(1, 1, 1));
    session.step();
    assert_eq!(
        session.cancel(1),
        Cancelled::AtDrive,
        "it has been at the drive, so its effect may show"
    );
    session.accept(write(1, 1, 1));
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 0, 1], "the id was free again");
}

#[test]
fn parts_and_discards_take_turns_with_what_the_policy_chooses() {
    let mut session = Setup::of("fcfs").outstanding(1).start();
    for id in 0..4 {
        session.accept(request(id, Op::Discard, id * 8, 8));
        session.accept(read(10 + id, 100 + id * 8, 1));
    }
    session.run_to_end();
    assert_eq!(session.served(), [0, 10, 1, 11, 2, 12, 3, 13]);
}

#[test]
fn parts_are_bound_by_the_depth_the_policy_wants() {
    let mut session = Setup::with(Box::new(Merging { depth: 2 }))
        .failing(|command| command.requests.len() > 1)
        .start();
    for id in 0..6 {
        session.accept(read(id, id, 1));
    }
    session.step();
    session.pump();
    assert_eq!(session.drive.len(), 2, "six parts wait, two go");
    session.run_to_end();
}
