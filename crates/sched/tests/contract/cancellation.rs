//! Cancellation of requests: from the queue, while they block others, or at the drive, unreported.

use headtime_sched::{Admission, Cancelled, Outcome, POLICIES, Refusal, RequestId};

use crate::session::{Setup, flush, fua, read, write};

#[test]
fn a_queued_request_is_gone_at_once() {
    for entry in POLICIES {
        let mut session = Setup::with(entry.build_default()).start();
        session.accept(read(0, 0, 1));
        session.accept(read(1, 50, 1));
        assert_eq!(session.cancel(0), Cancelled::Removed);
        assert_eq!(session.cancel(0), Cancelled::Unknown);
        session.run_to_end();
        assert_eq!(session.served(), [1], "{}", entry.name);
    }
}

#[test]
fn a_request_at_the_drive_completes_unreported_and_keeps_its_id_until_then() {
    let mut session = Setup::of("fcfs").start();
    session.accept(write(0, 0, 1));
    session.pump();
    assert_eq!(session.cancel(0), Cancelled::AtDrive);
    assert_eq!(session.cancel(0), Cancelled::Unknown, "it was cancelled before");
    assert_eq!(
        session.submit(read(0, 5, 1)),
        Admission::Refused(Refusal::DuplicateId { id: RequestId(0) })
    );
    session.run_to_end();
    assert!(session.finished.is_empty());
    session.accept(read(0, 5, 1));
    session.run_to_end();
    assert_eq!(session.finished.len(), 1);
}

#[test]
fn a_cancelled_error_is_not_reported_either() {
    let mut session = Setup::of("fcfs").failing(|_| true).start();
    session.accept(write(0, 0, 1));
    session.pump();
    let _ = session.cancel(0);
    session.run_to_end();
    assert!(session.finished.is_empty());
}

#[test]
fn taking_back_the_middle_of_a_chain_leaves_the_order_of_its_ends() {
    let mut session = Setup::of("fcfs").start();
    session.accept(write(0, 0, 8));
    session.accept(write(1, 0, 8));
    session.accept(read(2, 4, 1));
    session.pump();
    assert_eq!(session.cancel(1), Cancelled::Removed);
    session.pump();
    assert_eq!(session.served(), [0], "the read now waits for the first write");
    session.run_to_end();
    assert_eq!(session.served(), [0, 2]);
}

#[test]
fn taking_back_the_one_others_wait_for_frees_them() {
    for entry in POLICIES {
        let mut session = Setup::with(entry.build_default()).start();
        session.accept(write(0, 0, 8));
        session.accept(read(1, 0, 1));
        session.accept(read(2, 7, 1));
        assert_eq!(session.cancel(0), Cancelled::Removed);
        assert_eq!(session.scheduler.queue().len(), 2);
        session.run_to_end();
        assert_eq!(session.finished.len(), 2, "{}", entry.name);
    }
}

#[test]
fn a_flush_that_waits_is_gone_at_once_and_one_at_the_drive_is_not() {
    let mut session = Setup::of("fcfs").start();
    session.accept(flush(0));
    session.pump();
    session.accept(flush(1));
    assert_eq!((session.cancel(0), session.cancel(1)), (Cancelled::AtDrive, Cancelled::Removed));
    session.run_to_end();
    assert_eq!((session.dispatched.len(), session.finished.len()), (1, 0));
}

#[test]
fn a_write_that_only_waits_for_its_flush_is_on_the_drive_already() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(fua(write(0, 0, 1)));
    session.step();
    assert_eq!(session.cancel(0), Cancelled::AtDrive);
    session.run_to_end();
    assert_eq!(session.dispatched.len(), 1, "nobody waits for a flush any more");
    session.accept(fua(write(0, 0, 1)));
    session.run_to_end();
    assert_eq!(session.end_of(0).outcome, Outcome::Success);
}

#[test]
fn a_write_cancelled_at_the_drive_needs_no_flush() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(fua(write(0, 0, 1)));
    session.pump();
    let _ = session.cancel(0);
    session.run_to_end();
    assert_eq!((session.dispatched.len(), session.finished.len()), (1, 0));
}

#[test]
fn nobody_knows_a_request_that_was_never_submitted() {
    let mut session = Setup::of("fcfs").start();
    assert_eq!(session.cancel(7), Cancelled::Unknown);
}
