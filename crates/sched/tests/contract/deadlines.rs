//! A request that blocks a deadline inherits it.

use headtime_sched::{Command, Op};
use headtime_units::{Instant, Nanos};

use crate::merging::Merging;
use crate::session::{Session, Setup, due, read, request, write};

fn at_ms(ms: u64) -> Option<Instant> {
    Some(Instant::ORIGIN + Nanos::from_ms(ms))
}

/// The deadlines that count, of those the policy may choose from, by arrival.
fn queued_deadlines(session: &Session) -> Vec<(u64, Option<Instant>)> {
    session
        .scheduler
        .queue()
        .by_arrival()
        .map(|queued| (queued.request.id.0, queued.deadline))
        .collect()
}

#[test]
fn a_blocking_request_inherits_the_deadline_of_the_waiting_one() {
    let mut session = Setup::of("edf").outstanding(1).start();
    session.accept(due(read(0, 150, 1), 40));
    session.accept(write(1, 0, 8));
    session.accept(due(read(2, 4, 1), 20));
    session.run_to_end();
    assert_eq!(session.served(), [1, 2, 0]);
    assert_eq!(
        session.end_of(1).request.deadline,
        None,
        "the promise is the waiter's, not the writer's"
    );
    assert!(!session.end_of(1).missed());
}

#[test]
fn a_deadline_goes_through_a_chain_to_its_first_link() {
    let mut session = Setup::of("edf").start();
    session.accept(write(0, 0, 8));
    session.accept(write(1, 4, 8));
    session.accept(write(2, 10, 8));
    session.accept(due(read(3, 16, 1), 30));
    assert_eq!(queued_deadlines(&session), [(0, at_ms(30))]);
    session.accept(due(read(4, 12, 1), 50));
    assert_eq!(queued_deadlines(&session), [(0, at_ms(30))], "a later deadline changes nothing");
    session.run_to_end();
    assert_eq!(session.served()[..3], [0, 1, 2]);
}

#[test]
fn an_own_deadline_that_is_earlier_stays() {
    let mut session = Setup::of("edf").start();
    session.accept(due(write(0, 0, 8), 10));
    session.accept(due(read(1, 0, 1), 30));
    assert_eq!(queued_deadlines(&session), [(0, at_ms(10))]);
    session.run_to_end();
}

#[test]
fn what_a_cancelled_request_handed_on_is_taken_back() {
    let mut session = Setup::of("edf").start();
    session.accept(due(write(0, 0, 8), 90));
    session.accept(write(1, 4, 8));
    session.accept(due(read(2, 8, 1), 60));
    session.accept(due(read(3, 9, 1), 30));
    assert_eq!(queued_deadlines(&session), [(0, at_ms(30))]);
    let _ = session.cancel(3);
    assert_eq!(queued_deadlines(&session), [(0, at_ms(60))]);
    let _ = session.cancel(2);
    assert_eq!(queued_deadlines(&session), [(0, at_ms(90))]);
    session.run_to_end();
}

#[test]
fn a_link_taken_out_of_the_chain_hands_its_waiters_deadline_to_the_one_before() {
    let mut session = Setup::of("edf").start();
    session.accept(write(0, 0, 8));
    session.accept(due(write(1, 0, 8), 20));
    session.accept(due(read(2, 0, 1), 40));
    assert_eq!(queued_deadlines(&session), [(0, at_ms(20))]);
    let _ = session.cancel(1);
    assert_eq!(queued_deadlines(&session), [(0, at_ms(40))]);
    session.run_to_end();
    assert_eq!(session.served(), [0, 2]);
}

#[test]
fn requests_at_the_drive_and_parts_of_failed_commands_inherit_too() {
    let merged_writes = |command: &Command| command.op == Op::Write && command.requests.len() > 1;
    let mut session = Setup::with(Box::new(Merging { depth: 1 })).failing(merged_writes).start();
    session.accept(write(0, 0, 1));
    session.accept(write(1, 1, 1));
    session.pump();
    session.accept(due(read(2, 0, 1), 70));
    let deadlines = |session: &Session| {
        let at_drive =
            session.scheduler.outstanding().iter().flat_map(|command| command.requests.iter());
        at_drive.map(|queued| (queued.request.id.0, queued.deadline)).collect::<Vec<_>>()
    };
    assert_eq!(deadlines(&session), [(0, at_ms(70)), (1, None)]);
    session.step();
    session.accept(due(read(3, 1, 1), 80));
    session.accept(due(read(4, 0, 2), 60));
    session.pump();
    assert_eq!(deadlines(&session), [(0, at_ms(60))]);
    session.run_to_end();
    assert_eq!(
        session.served(),
        [0, 1, 0, 2, 1, 4, 3],
        "parts take turns with what the policy chooses"
    );
}

#[test]
fn a_discard_in_the_way_inherits_and_hands_on() {
    let mut session = Setup::of("edf").start();
    session.accept(write(0, 0, 8));
    session.accept(request(1, Op::Discard, 4, 8));
    session.accept(due(read(2, 8, 1), 30));
    assert_eq!(queued_deadlines(&session), [(0, at_ms(30))]);
    session.run_to_end();
    assert_eq!(session.served(), [0, 1, 2]);
}
