//! Every policy × every arrival order of up to five conflicting requests.

use headtime_sched::{Cancelled, Command, Op, POLICIES, PolicyEntry, Request};
use headtime_units::Nanos;

use crate::session::{Session, Setup, due, flush, fua, read, request, write};

/// Eight requests: overlapping reads and changes, a flush, FUA, deadlines, and some without
/// conflicts.
fn cast() -> [Request; 8] {
    [
        write(0, 0, 8),
        read(1, 4, 8),
        due(fua(write(2, 6, 4)), 5),
        flush(3),
        due(read(4, 100, 1), 50),
        write(5, 150, 2),
        request(6, Op::Discard, 8, 4),
        fua(request(7, Op::Zero, 100, 1)),
    ]
}

/// The arrival of requests.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    /// All at one instant.
    Burst,
    /// One every 3 ms, while the earlier ones are served.
    Spaced,
}

/// Calls `with` for every order of up to `longest` of the cast.
pub(crate) fn every_order(longest: usize, with: &mut impl FnMut(&[Request])) {
    fn extend(order: &mut Vec<Request>, longest: usize, with: &mut impl FnMut(&[Request])) {
        if !order.is_empty() {
            with(order);
        }
        if order.len() == longest {
            return;
        }
        for next in cast() {
            if !order.contains(&next) {
                order.push(next);
                extend(order, longest, with);
                order.pop();
            }
        }
    }
    extend(&mut Vec::new(), longest, with);
}

fn run(entry: &PolicyEntry, order: &[Request], arrival: Arrival, fua: bool) -> Session {
    let mut session = Setup::with(entry.build_default()).fua(fua).start();
    for request in order {
        session.accept(*request);
        if let Arrival::Spaced = arrival {
            session.pass(Nanos::from_ms(3));
        }
    }
    session.run_to_end();
    session
}

/// The session checks its invariants after every event: see `Session` and `Model`.
fn every_order_keeps_the_contract(arrival: Arrival, fua: bool) {
    for entry in POLICIES {
        let mut orders = 0;
        every_order(5, &mut |order| {
            let session = run(entry, order, arrival, fua);
            assert_eq!(session.finished.len(), order.len());
            orders += 1;
        });
        assert_eq!(orders, 8 + 56 + 336 + 1_680 + 6_720, "{}", entry.name);
    }
}

#[test]
fn every_burst_of_up_to_five_requests_keeps_the_contract_under_every_policy() {
    every_order_keeps_the_contract(Arrival::Burst, true);
}

#[test]
fn every_burst_keeps_the_contract_on_a_drive_without_fua() {
    every_order_keeps_the_contract(Arrival::Burst, false);
}

#[test]
fn every_order_of_arrivals_during_service_keeps_the_contract_under_every_policy() {
    every_order_keeps_the_contract(Arrival::Spaced, false);
}

#[test]
fn every_request_may_be_cancelled_at_every_moment() {
    for entry in POLICIES {
        every_order(3, &mut |order| {
            for (victim, _) in order.iter().enumerate() {
                // Cancelled after so many events, from the moment of submission until all is over.
                for moment in 0.. {
                    let mut session = Setup::with(entry.build_default()).fua(false).start();
                    for request in order {
                        session.accept(*request);
                    }
                    let over_before = (0..moment).any(|_| !session.step());
                    session.pump();
                    let answer = session.cancel(order[victim].id.0);
                    let reported =
                        session.finished.iter().any(|finished| finished.request == order[victim]);
                    assert_eq!(
                        answer == Cancelled::Unknown,
                        reported,
                        "{}: {order:?} at {moment}",
                        entry.name
                    );
                    session.run_to_end();
                    if over_before {
                        break;
                    }
                }
            }
        });
    }
}

#[test]
fn the_same_arrivals_are_sent_in_the_same_order_every_time() {
    for entry in POLICIES {
        every_order(4, &mut |order| {
            let once: Vec<Command> = run(entry, order, Arrival::Spaced, true).dispatched;
            assert_eq!(once, run(entry, order, Arrival::Spaced, true).dispatched, "{}", entry.name);
        });
    }
}

#[test]
fn no_policy_gives_the_drive_more_commands_than_it_is_to_hold() {
    for entry in POLICIES {
        let at_drive = |takes: usize, allowed: Option<usize>| {
            let mut setup = Setup::with(entry.build_default()).queue_depth(takes);
            setup.limits.outstanding = allowed;
            let mut session = setup.start();
            for id in 0..20 {
                session.accept(read(id, id * 9, 1));
            }
            session.pump();
            let at_drive = session.drive.len();
            session.run_to_end();
            at_drive
        };
        let preferred = at_drive(32, None);
        assert!((1..=20).contains(&preferred), "{}: {preferred} commands of 20", entry.name);
        for (takes, allowed) in [(3, None), (1, None), (32, Some(1)), (32, Some(5)), (3, Some(5))] {
            assert_eq!(
                at_drive(takes, allowed),
                allowed.unwrap_or(preferred).min(takes),
                "{}: the drive takes {takes}, the caller allows {allowed:?}",
                entry.name
            );
        }
    }
}

#[test]
fn a_policy_changed_while_running_loses_nothing() {
    for from in POLICIES {
        for to in POLICIES {
            for moment in 0..8 {
                let mut session = Setup::with(from.build_default()).fua(false).start();
                for request in cast() {
                    session.accept(request);
                }
                for _ in 0..moment {
                    session.step();
                }
                session.scheduler.set_policy(to.build_default());
                assert_eq!(session.scheduler.policy_name(), to.name);
                session.run_to_end();
                assert_eq!(session.finished.len(), 8, "{} to {} at {moment}", from.name, to.name);
            }
        }
    }
}
