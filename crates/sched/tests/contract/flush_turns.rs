//! Flushes where volumes have terms: they take turns as requests do, so that a tenant with flushes
//! alone takes no other tenant's share.

use headtime_sched::{Op, Outcome, VolumeId};
use headtime_units::{Instant, Nanos};

use crate::session::{Session, Setup, flush, fua, read, write};
use crate::shares::{of_volume, reserving, tenant};
use crate::tiny::CAPACITY;

/// Volume 0 always has eight random reads and volume 1 as many flushes; the share of volume 0 over
/// this many seconds, after one to settle.
fn reads_beside_flushes(session: &mut Session, flushes: usize, secs: u64) -> f64 {
    let (mut id, mut began) = (0, None);
    let end = session.now + Nanos::from_secs(secs + 1);
    while session.now < end {
        let of = |session: &Session, volume| {
            session.scheduler.accounts().volume(VolumeId(volume)).disk_time
        };
        if began.is_none() && session.now >= Instant::ORIGIN + Nanos::from_secs(1) {
            began = Some((of(session, 0), session.now));
        }
        while session.scheduler.queue().len() < 8 {
            session.accept(of_volume(
                0,
                read(id, id.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (CAPACITY / 2) * 2, 1),
            ));
            id += 1;
        }
        let waiting = |session: &Session| {
            session
                .scheduler
                .shares()
                .report(tenant(1), session.now)
                .map_or(0, |report| report.waiting + report.at_drive)
        };
        while waiting(session) < flushes {
            session.accept(of_volume(1, flush(id)));
            id += 1;
        }
        session.step();
    }
    let (before, at) = began.expect("longer than a second");
    let time = session.scheduler.accounts().volume(VolumeId(0)).disk_time - before;
    time.as_secs_f64() / session.now.saturating_since(at).as_secs_f64()
}

/// A flush takes 2 ms here and a read anywhere some 8 ms: every other command would be more than a
/// fifth of the time.
#[test]
fn a_tenant_with_flushes_alone_takes_nothing_of_another_reservation() {
    for policy in ["utilization", "headtime"] {
        for (reserved, rest) in [(95.0, 0.0), (90.0, 10.0), (30.0, 70.0)] {
            for flushes in [1, 8] {
                let mut session = Setup::of(policy).start();
                session
                    .scheduler
                    .set_share(session.now, tenant(0), reserving(reserved))
                    .expect("free");
                if rest > 0.0 {
                    session
                        .scheduler
                        .set_share(session.now, tenant(1), reserving(rest))
                        .expect("free");
                }
                let share = reads_beside_flushes(&mut session, flushes, 5) * 100.0;
                assert!(
                    share > reserved - 1.0,
                    "{policy}, {flushes} flushes beside {reserved} %: {share:.1} %"
                );
                // A tenant that always waits has its own share too; with one flush at a time it
                // loses its run with each.
                assert!(
                    rest == 0.0 || flushes == 1 || share < reserved + 1.5,
                    "{policy}, {flushes} flushes beside {reserved} %: {share:.1} %"
                );
                session.run_to_end();
            }
        }
    }
}

/// The flush goes in its turn, although all of the drive is reserved and busy: it is not starved,
/// and it covers the earlier writes.
#[test]
fn a_flush_comes_to_its_turn() {
    for policy in ["utilization", "headtime", "throughput"] {
        let mut session = Setup::of(policy).fua(false).start();
        session.scheduler.set_share(session.now, tenant(0), reserving(80.0)).expect("free");
        session.scheduler.set_share(session.now, tenant(1), reserving(20.0)).expect("free");
        // On other sectors than the writes, which would wait for them.
        for id in 0..400 {
            session.accept(of_volume(0, read(id, 24 + id * 7 % (CAPACITY - 24), 1)));
        }
        session.pass(Nanos::from_ms(300));
        session.accept(of_volume(1, write(1_000, 3, 1)));
        session.accept(of_volume(1, fua(write(1_001, 9, 1))));
        session.pass(Nanos::from_ms(1_100));
        session.accept(of_volume(1, flush(1_002)));
        session.pass(Nanos::from_ms(1_100));
        for id in 1_000..=1_002 {
            assert_eq!(session.end_of(id).outcome, Outcome::Success, "{policy}");
        }
        assert_eq!(
            session.dispatched.iter().filter(|command| command.op == Op::Flush).count(),
            2,
            "{policy}"
        );
        session.run_to_end();
    }
}

/// A tenant's own requests and flushes do not delay each other.
#[test]
fn flushes_and_requests_of_one_tenant_alternate() {
    for policy in ["utilization", "headtime"] {
        let mut session = Setup::of(policy).start();
        session.scheduler.set_share(session.now, tenant(0), reserving(50.0)).expect("free");
        let share = |session: &Session, op| {
            session.dispatched.iter().filter(|command| command.op == op).count()
        };
        for id in 0..2_000_u64 {
            while session.scheduler.queue().len() < 4 {
                let id =
                    10_000 + session.dispatched.len() as u64 * 8 + session.scheduler.held() as u64;
                session.accept(of_volume(0, read(id, id * 31 % CAPACITY, 1)));
            }
            if session.scheduler.held() < 6 {
                session.accept(of_volume(0, flush(id)));
            }
            session.step();
        }
        let (reads, flushes) = (share(&session, Op::Read), share(&session, Op::Flush));
        assert!(reads.abs_diff(flushes) < 20, "{policy}: {reads} reads and {flushes} flushes");
        session.run_to_end();
    }
}
