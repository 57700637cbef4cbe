//! A drive with two arms: the time of requests on each, and shares of it.

use headtime_sched::ScanOptions;
use headtime_units::Nanos;

use crate::drive::ServiceOrder;
use crate::scans::{eager, everything};
use crate::session::{Setup, flush, read, write};
use crate::shares::{of_volume, reserving, saturated, tenant};
use crate::tiny::{CAPACITY, TinyBelief};

fn two_arms() -> TinyBelief {
    TinyBelief::default().with_two_arms()
}

#[test]
fn the_time_of_a_read_goes_on_while_the_other_arm_completes_commands() {
    let mut setup = Setup::of("firmware").order(ServiceOrder::Picks(vec![1, 1, 0, 0]));
    setup.belief = two_arms();
    let mut session = setup.start();
    session.accept(read(0, 9, 1));
    session.accept(read(1, CAPACITY / 2 + 1, 1));
    session.accept(read(2, CAPACITY / 2 + 2, 1));
    session.run_to_end();
    let (first, last) = (session.end_of(0), session.end_of(2));
    assert!(last.finished < first.finished && first.disk_time < first.service());
    assert_eq!(first.disk_time + first.other_arms, first.service());
    assert_eq!(last.other_arms, Nanos::ZERO, "the command before was on the same arm");
}

#[test]
fn reservations_are_kept_on_two_arms() {
    let mut setup = Setup::of("headtime");
    setup.belief = two_arms();
    let mut session = setup.start();
    session.scheduler.set_share(session.now, tenant(0), reserving(80.0)).expect("free");
    session.scheduler.set_share(session.now, tenant(1), reserving(20.0)).expect("free");
    saturated(&mut session, 2, 2_000);
    let share = saturated(&mut session, 2, 10_000)[0];
    session.run_to_end();
    assert!((0.76..0.84).contains(&share), "{share}");
}

/// The shares of new arms know the commands at the drive and the flushes that wait.
#[test]
fn the_number_of_arms_changes_while_volumes_with_shares_have_requests_everywhere() {
    for steps in 0..24 {
        let mut session = Setup::of("headtime").start();
        for volume in 0..2 {
            let terms = reserving(40.0);
            session.scheduler.set_share(session.now, tenant(volume), terms).expect("free");
        }
        for id in 0..24 {
            let at = id * 37 % (CAPACITY - 2);
            let request = match id % 4 {
                0 => write(id, at, 2),
                1 => flush(id),
                _ => read(id, at, 2),
            };
            session.accept(of_volume(id as u32 % 3, request));
        }
        for belief in [two_arms(), TinyBelief::default(), two_arms()] {
            for _ in 0..steps {
                session.step();
                session.pump();
            }
            let _ = session.scheduler.set_belief(Box::new(belief));
            session.scheduler.self_check();
        }
        session.run_to_end();
        assert_eq!(session.finished.len(), 24, "after {steps} steps");
    }
}

/// A policy that uses shares has them tracked before any volume has terms.
#[test]
fn volumes_get_shares_while_requests_that_were_charged_are_at_the_drive() {
    for policy in ["utilization", "throughput"] {
        let mut setup = Setup::of(policy);
        setup.belief = two_arms();
        let mut session = setup.start();
        for id in 0..8 {
            session.accept(of_volume(id as u32 % 2, read(id, id * 23, 1)));
        }
        session.pump();
        assert!(!session.scheduler.outstanding().is_empty());
        session.scheduler.set_share(session.now, tenant(0), reserving(40.0)).expect("free");
        session.run_to_end();
    }
}

/// Nothing is queued on any arm, and the scan does not take the turn of the flush.
#[test]
fn a_flush_of_a_volume_with_shares_is_sent_beside_a_scan() {
    let mut setup = Setup::of("headtime");
    setup.belief = TinyBelief { knows_tracks: true, ..two_arms() };
    let mut session = setup.start();
    session.scheduler.set_share(session.now, tenant(0), reserving(40.0)).expect("free");
    session.scan(1, eager(), everything(1), ScanOptions::default());
    for id in 0..8 {
        session.accept(of_volume(0, flush(id)));
        while session.finished.len() as u64 <= id {
            assert!(session.step(), "flush {id} was not sent");
        }
    }
    session.run_to_end();
}
