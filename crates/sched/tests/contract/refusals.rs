//! Refused requests, and faults of the caller.

use headtime_sched::{Admission, CommandId, Done, Op, Outcome, QueueLimits, Request};
use headtime_units::{Extent, Instant, Nanos};

use crate::session::{Session, Setup, flush, read, request, write};

fn refusal(session: &mut Session, request: Request) -> String {
    let held = session.scheduler.held();
    let admission = session.submit(request);
    assert_eq!(session.scheduler.held(), held, "a refusal changes nothing");
    match admission {
        Admission::Refused(refusal) => refusal.to_string(),
        Admission::Accepted => panic!("{request:?} was accepted"),
    }
}

/// The message with which a debug build ends when this is submitted.
#[cfg(debug_assertions)]
fn fault(request: Request) -> String {
    let submitted = std::panic::catch_unwind(|| Setup::of("fcfs").start().submit(request));
    *submitted.expect_err("the caller checks extents").downcast::<String>().expect("a message")
}

#[test]
#[cfg(debug_assertions)]
fn submitting_a_request_that_does_not_lie_on_the_drive_is_a_fault_of_the_caller() {
    for (start, len) in [(192, 1), (191, 2), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let extent = Extent::from_numbers(start, len);
        let expected = format!("{extent} does not lie on the drive, which has 192 sectors");
        assert_eq!(fault(read(0, start, len)), expected);
    }
    let mut session = Setup::of("fcfs").start();
    session.accept(read(0, 191, 1));
    session.run_to_end();
}

#[test]
#[cfg(debug_assertions)]
fn only_a_flush_has_no_sectors() {
    for op in [Op::Read, Op::Write, Op::Zero, Op::Discard] {
        let expected = format!("a {} request of 0 sectors is submitted", op.name());
        assert_eq!(fault(request(0, op, 5, 0)), expected);
    }
    let expected = "a flush request of 3 sectors is submitted";
    assert_eq!(fault(request(0, Op::Flush, 5, 3)), expected);
}

#[test]
fn an_id_in_use_is_refused_wherever_its_request_is() {
    let mut session = Setup::of("fcfs").fua(false).outstanding(1).start();
    session.accept(read(0, 0, 1));
    session.pump();
    session.accept(write(1, 0, 1));
    session.accept(read(2, 50, 1));
    session.accept(flush(3));
    for id in 0..4 {
        let expected = format!(
            "request id {id} is already in use by a request that has not finished; use a fresh id"
        );
        assert_eq!(refusal(&mut session, read(id, 9, 1)), expected);
    }
    session.run_to_end();
    session.accept(read(0, 0, 1));
    session.run_to_end();
}

#[test]
fn the_queue_is_bounded_and_takes_more_when_something_is_over() {
    let mut setup = Setup::of("sptf");
    setup.limits = QueueLimits { requests: 3, outstanding: None };
    let mut session = setup.start();
    for id in 0..3 {
        session.accept(read(id, id, 1));
    }
    session.pump();
    let expected = "the queue holds 3 requests, its limit; wait for completions before submitting \
        more, or raise the queue limit";
    assert_eq!(refusal(&mut session, read(3, 0, 1)), expected);
    assert_eq!(refusal(&mut session, flush(3)), expected);
    session.step();
    session.accept(read(3, 0, 1));
    session.set_limits(QueueLimits { requests: 4, outstanding: None });
    session.accept(flush(4));
    session.run_to_end();
}

#[test]
fn limits_change_while_running_and_what_is_at_the_drive_stays_there() {
    let mut session = Setup::of("firmware").start();
    for id in 0..10 {
        session.accept(read(id, id * 9, 1));
    }
    session.set_limits(QueueLimits { outstanding: Some(6), ..QueueLimits::default() });
    session.pump();
    assert_eq!(session.drive.len(), 6);
    session.set_limits(QueueLimits { outstanding: Some(2), ..QueueLimits::default() });
    for left in (1..6).rev() {
        session.step();
        assert_eq!(session.scheduler.outstanding().len(), left);
        if left >= 2 {
            session.pump();
            assert_eq!(
                session.scheduler.outstanding().len(),
                left,
                "nothing is sent while more are at the drive than allowed"
            );
        }
    }
    session.run_to_end();
}

mod the_callers_fault {
    use super::*;

    fn later(session: &mut Session) -> Instant {
        session.pass(Nanos::from_ms(5));
        session.scheduler.next(session.now);
        Instant::from_ns(4_999_999)
    }

    #[test]
    #[should_panic(expected = "time ran back from 0.005000 s to 0.004999 s")]
    fn submitting_in_the_past() {
        let mut session = Setup::of("fcfs").start();
        let before = later(&mut session);
        let _ = session.scheduler.submit(before, read(0, 0, 1));
    }

    #[test]
    #[should_panic(expected = "time ran back")]
    fn asking_in_the_past() {
        let mut session = Setup::of("fcfs").start();
        let before = later(&mut session);
        session.scheduler.next(before);
    }

    #[test]
    #[should_panic(expected = "time ran back")]
    fn cancelling_in_the_past() {
        let mut session = Setup::of("fcfs").start();
        let before = later(&mut session);
        session.scheduler.cancel(before, headtime_sched::RequestId(0));
    }

    #[test]
    #[should_panic(expected = "time ran back")]
    fn completing_in_the_past() {
        let mut session = Setup::of("fcfs").start();
        session.accept(read(0, 0, 1));
        session.pump();
        let before = later(&mut session);
        session.scheduler.complete(
            before,
            Done { command: CommandId(0), finished: before, outcome: Outcome::Success },
        );
    }

    #[test]
    #[should_panic(expected = "is reported at 0.000000 s to finish only at 0.001000 s")]
    fn completing_what_finishes_in_the_future() {
        let mut session = Setup::of("fcfs").start();
        session.accept(read(0, 0, 1));
        session.pump();
        let done = Done {
            command: CommandId(0),
            finished: Instant::from_ns(1_000_000),
            outcome: Outcome::Success,
        };
        session.scheduler.complete(Instant::ORIGIN, done);
    }

    #[test]
    #[should_panic(expected = "command 7 completed but is not outstanding")]
    fn completing_what_was_never_sent() {
        let mut session = Setup::of("fcfs").start();
        session.scheduler.complete(
            session.now,
            Done { command: CommandId(7), finished: session.now, outcome: Outcome::Success },
        );
    }

    #[test]
    #[should_panic(expected = "a drive holds at least one command")]
    fn allowing_no_command_at_all() {
        let _ = Setup::of("fcfs").outstanding(0).start();
    }
}

mod the_policys_fault {
    use super::*;
    use headtime_sched::{Choice, Decision, HoldReason, Policy, Ticket, View};

    /// A policy that returns the given tickets.
    struct Faulty(Vec<Ticket>);

    impl Policy for Faulty {
        fn name(&self) -> &'static str {
            "faulty"
        }

        fn depth(&self, _view: &View<'_>) -> usize {
            1
        }

        fn choose(&mut self, _view: &View<'_>) -> Choice {
            Choice::Send(self.0.iter().copied().collect())
        }
    }

    fn choosing(tickets: &[u64]) -> Session {
        let mut session =
            Setup::with(Box::new(Faulty(tickets.iter().map(|ticket| Ticket(*ticket)).collect())))
                .start();
        session.accept(read(0, 0, 2));
        session.accept(read(1, 3, 1));
        session.accept(write(2, 2, 1));
        session
    }

    #[test]
    #[should_panic(expected = "policy faulty chose ticket 9, which is not eligible")]
    fn choosing_a_request_that_is_not_eligible() {
        choosing(&[9]).pump();
    }

    #[test]
    #[should_panic(expected = "policy faulty chose to send nothing at all")]
    fn sending_nobody() {
        choosing(&[]).pump();
    }

    #[test]
    #[should_panic(
        expected = "policy faulty merged read of LBA 0..+2 with read of LBA 3..+1, which is no one \
            run of one operation"
    )]
    fn merging_over_a_gap() {
        choosing(&[0, 1]).pump();
    }

    #[test]
    #[should_panic(expected = "policy faulty merged read of LBA 0..+2 with write of LBA 2..+1")]
    fn merging_a_read_with_a_write() {
        choosing(&[0, 2]).pump();
    }

    /// A policy that waits until a time that has passed.
    struct Holding;

    impl Policy for Holding {
        fn name(&self) -> &'static str {
            "holding"
        }

        fn depth(&self, _view: &View<'_>) -> usize {
            1
        }

        fn choose(&mut self, view: &View<'_>) -> Choice {
            if view.now >= Instant::from_ns(1_000_000) {
                return Choice::one(view.queue.oldest().map(|queued| queued.ticket));
            }
            Choice::Hold { until: Instant::from_ns(999_999), reason: HoldReason::Anticipation }
        }
    }

    #[test]
    fn holding_until_now_still_advances_time() {
        let mut session = Setup::with(Box::new(Holding)).start();
        session.accept(read(0, 0, 1));
        session.pass(Nanos::from_ns(999_999));
        let decision = session.scheduler.next(session.now);
        assert_eq!(
            decision,
            Decision::WaitUntil {
                at: Instant::from_ns(1_000_000),
                reason: HoldReason::Anticipation
            }
        );
        session.run_to_end();
    }

    #[test]
    fn a_policy_that_holds_does_not_hold_discards() {
        let mut session = Setup::with(Box::new(Holding)).start();
        session.accept(read(0, 0, 1));
        session.accept(request(1, Op::Discard, 50, 1));
        session.accept(request(2, Op::Discard, 60, 1));
        session.step();
        session.pump();
        assert_eq!(session.served(), [1, 2]);
        session.run_to_end();
    }
}
