//! Flush and FUA. The model cuts the power in thought after every event of every session; here are
//! the cases worth naming.

use headtime_sched::{Op, Outcome, POLICIES, RequestId};

use crate::merging::Merging;
use crate::session::{Session, Setup, flush, fua, read, request, write};

fn commands(session: &Session) -> Vec<(Op, Vec<u64>, bool)> {
    session
        .dispatched
        .iter()
        .map(|command| (command.op, command.requests.iter().map(|id| id.0).collect(), command.fua))
        .collect()
}

#[test]
fn a_flush_goes_before_everything_that_is_queued_and_does_not_wait_for_it() {
    for entry in POLICIES {
        let mut session = Setup::with(entry.build_default()).start();
        session.accept(write(0, 0, 1));
        session.accept(write(1, 50, 1));
        session.accept(flush(2));
        session.run_to_end();
        assert_eq!(session.dispatched[0].op, Op::Flush, "{}", entry.name);
        assert_eq!(session.finished[0].request.id, RequestId(2), "{}", entry.name);
    }
}

#[test]
fn flushes_that_wait_share_one_command_and_one_that_comes_while_it_runs_gets_its_own() {
    let mut session = Setup::of("fcfs").start();
    for id in 0..3 {
        session.accept(flush(id));
    }
    session.pump();
    session.accept(flush(3));
    session.accept(flush(4));
    session.pump();
    assert_eq!(
        commands(&session),
        [(Op::Flush, vec![0, 1, 2], false)],
        "two flushes at the drive at once would promise nothing more"
    );
    session.run_to_end();
    assert_eq!(commands(&session)[1], (Op::Flush, vec![3, 4], false));
}

#[test]
fn requests_go_beside_a_flush() {
    for policy in ["headtime", "sptf-expected"] {
        let mut session = Setup::of(policy).start();
        session.accept(flush(0));
        for id in 1..8 {
            session.accept(read(id, 9 * id, 1));
        }
        session.pump();
        let beside = session.dispatched.iter().filter(|command| command.op == Op::Read).count();
        assert!((2..7).contains(&beside), "{policy}: {beside} reads beside the flush");
    }
}

#[test]
fn a_drive_with_fua_is_told_and_needs_no_flush() {
    let mut session = Setup::of("fcfs").fua(true).start();
    session.accept(fua(write(0, 0, 1)));
    session.accept(write(1, 9, 1));
    session.run_to_end();
    assert_eq!(commands(&session), [(Op::Write, vec![0], true), (Op::Write, vec![1], false)]);
}

#[test]
fn on_a_drive_without_fua_the_write_is_over_only_after_a_flush() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(fua(write(0, 0, 1)));
    session.step();
    assert!(session.finished.is_empty(), "the write is in the cache and not durable");
    session.run_to_end();
    assert_eq!(commands(&session), [(Op::Write, vec![0], false), (Op::Flush, vec![0], false)]);
    assert_eq!(session.end_of(0).outcome, Outcome::Success);
}

#[test]
fn zeroes_and_discards_are_made_durable_by_a_flush_on_every_drive() {
    for op in [Op::Zero, Op::Discard] {
        let mut session = Setup::of("fcfs").fua(true).start();
        session.accept(fua(request(0, op, 0, 8)));
        session.run_to_end();
        assert_eq!(commands(&session), [(op, vec![0], false), (Op::Flush, vec![0], false)]);
    }
}

#[test]
fn fua_on_a_read_means_nothing() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(fua(read(0, 0, 1)));
    session.run_to_end();
    assert_eq!(commands(&session), [(Op::Read, vec![0], false)]);
}

#[test]
fn a_write_that_completes_while_a_flush_runs_waits_for_the_next_one() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(fua(write(0, 0, 1)));
    session.pump();
    // The flush reaches the drive while the write is still there: it need not cover it.
    session.accept(flush(1));
    session.pump();
    session.run_to_end();
    let flushes: Vec<Vec<u64>> = commands(&session)
        .into_iter()
        .filter(|(op, ..)| *op == Op::Flush)
        .map(|(_, ids, _)| ids)
        .collect();
    assert_eq!(flushes, [vec![1], vec![0]]);
}

#[test]
fn a_later_write_of_the_same_sectors_need_not_wait_until_the_earlier_is_durable() {
    let mut session = Setup::of("fcfs").fua(false).start();
    session.accept(fua(write(0, 0, 1)));
    session.accept(write(1, 0, 1));
    session.step();
    session.pump();
    assert_eq!(
        commands(&session),
        [(Op::Write, vec![0], false), (Op::Flush, vec![0], false), (Op::Write, vec![1], false)]
    );
    session.run_to_end();
}

#[test]
fn a_failed_flush_fails_the_requests_that_waited_for_it_and_no_others() {
    let mut session =
        Setup::of("fcfs").fua(false).failing(|command| command.op == Op::Flush).start();
    session.accept(fua(write(0, 0, 1)));
    session.accept(write(1, 20, 1));
    session.accept(flush(2));
    session.run_to_end();
    assert_eq!(
        (session.end_of(0).outcome, session.end_of(2).outcome),
        (Outcome::Failed(5), Outcome::Failed(5))
    );
    assert_eq!(session.end_of(1).outcome, Outcome::Success);
    assert_eq!(session.finished.len(), 3);
}

#[test]
fn a_fua_write_that_fails_needs_no_flush() {
    let mut session = Setup::of("fcfs").fua(false).failing(|_| true).start();
    session.accept(fua(write(0, 0, 1)));
    session.run_to_end();
    assert_eq!(commands(&session), [(Op::Write, vec![0], false)]);
    assert_eq!(session.end_of(0).outcome, Outcome::Failed(5));
}

#[test]
fn only_the_durable_part_of_a_merged_write_waits_for_the_flush() {
    let mut session = Setup::with(Box::new(Merging { depth: 2 })).fua(false).start();
    session.accept(write(0, 0, 1));
    session.accept(fua(write(1, 1, 1)));
    session.run_to_end();
    assert_eq!(commands(&session), [(Op::Write, vec![0, 1], false), (Op::Flush, vec![1], false)]);
    assert!(session.end_of(0).finished < session.end_of(1).finished);
}

#[test]
fn a_merged_write_is_durable_as_a_whole_when_one_part_must_be() {
    let mut session = Setup::with(Box::new(Merging { depth: 2 })).fua(true).start();
    session.accept(write(0, 0, 1));
    session.accept(fua(write(1, 1, 1)));
    session.run_to_end();
    assert_eq!(commands(&session), [(Op::Write, vec![0, 1], true)]);
}

#[test]
fn a_flush_waits_for_a_place_at_a_full_drive_and_is_the_next_to_go() {
    for entry in POLICIES {
        let mut session = Setup::with(entry.build_default()).outstanding(1).start();
        for id in 0..4 {
            session.accept(write(id, id * 20, 1));
        }
        session.pump();
        session.accept(flush(9));
        session.pump();
        assert_eq!(session.dispatched.len(), 1, "{}: the caller allows one command", entry.name);
        session.step();
        session.pump();
        assert_eq!(session.dispatched[1].op, Op::Flush, "{}", entry.name);
        session.run_to_end();
    }
}

#[test]
fn flushes_without_end_do_not_keep_others_waiting() {
    for entry in POLICIES {
        for outstanding in [1, 2] {
            let mut session = Setup::with(entry.build_default()).outstanding(outstanding).start();
            session.accept(flush(1_000));
            session.pump();
            for id in 0..4 {
                session.accept(read(id, 40 * id, 1));
            }
            // A flush waits at every moment; a read goes between two of them.
            for id in 1_001..1_010 {
                session.accept(flush(id));
                session.step();
                session.pump();
            }
            for id in 0..4 {
                assert!(
                    session
                        .dispatched
                        .iter()
                        .any(|command| command.requests.contains(&RequestId(id))),
                    "{}: read {id} starves",
                    entry.name
                );
            }
            session.run_to_end();
        }
    }
}

#[test]
fn flushes_discards_and_the_policy_take_turns() {
    let mut session = Setup::of("fcfs").outstanding(1).start();
    for id in 0..3 {
        session.accept(read(id, 40 * id, 1));
        session.accept(request(100 + id, Op::Discard, 9 + id, 1));
    }
    for id in 1_000..1_008 {
        session.accept(flush(id));
        session.step();
    }
    session.run_to_end();
    assert_eq!(
        session.served()[..10],
        [1_000, 100, 1_001, 1_002, 0, 1_003, 1_004, 101, 1_005, 1_006]
    );
}

#[test]
fn a_flush_follows_another_when_nobody_else_may_go() {
    let mut session = Setup::of("sptf").start();
    for id in 0..4 {
        session.accept(read(id, 40 * id, 1));
    }
    session.pump();
    session.accept(flush(10));
    session.pump();
    session.accept(flush(11));
    session.pump();
    assert_eq!(session.drive.len(), 3, "two reads, as the policy wants, and a flush");
    while session.dispatched.len() < 4 {
        session.step();
        session.pump();
    }
    session.run_to_end();
    assert_eq!(session.finished.len(), 6);
}
