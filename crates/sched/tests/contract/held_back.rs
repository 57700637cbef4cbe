//! Scans while all tenants are at a limit: the drive is idle then, and the limited tenants lose
//! nothing.

use headtime_sched::{FillSettings, FillSource, ScanId, ScanOptions, Terms, VolumeId};
use headtime_units::{Nanos, Sectors};

use crate::scans::{eager, everything, knowing};
use crate::session::{Session, flush, read};
use crate::shares::{limited, of_volume, tenant};
use crate::tiny::CAPACITY;

/// No reads in gaps, with requests, or of the tail: only in idle time.
fn idle_only() -> FillSettings {
    FillSettings { waiting_needed: usize::MAX, tail: 0.0, ..eager() }
}

/// Volume 0 has eight random reads for this long, the same ones whatever else happens; `next` is
/// the number of the next. No two abut, so that they are no sequential run.
fn hold_eight(session: &mut Session, next: &mut u64, ms: u64) {
    let end = session.now + Nanos::from_ms(ms);
    while session.now < end {
        while session.scheduler.queue().len() < 8 {
            let mixed = (*next + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            session.accept(of_volume(0, read(*next, (mixed >> 33) % (CAPACITY / 2) * 2, 1)));
            *next += 1;
        }
        session.step();
    }
}

/// A volume with these terms that always has eight reads, for a minute, beside successive scans of
/// the whole drive, or none: its share, its requests a second, the 99th percentile of their
/// responses in ms, and sectors read for scans.
fn beside_scans(policy: &str, terms: Terms, scans: bool) -> (f64, f64, f64, u64) {
    let mut session = knowing(policy).start();
    session.scheduler.set_share(session.now, tenant(0), terms).expect("nothing is reserved");
    let mut next = 0;
    hold_eight(&mut session, &mut next, 3_000);
    let (before, charged, began) = (
        session.finished.len(),
        session.scheduler.accounts().volume(VolumeId(0)).disk_time,
        session.now,
    );
    let mut scan = 0;
    while session.now < began + Nanos::from_secs(60) {
        if scans && session.scheduler.scan_remaining(ScanId(scan)).is_none() {
            if scan > 0 {
                session.scan_stop(scan - 1);
            }
            session.scan(scan, idle_only(), everything(4), ScanOptions::default());
        }
        scan += u32::from(
            scans && session.scheduler.scan_remaining(ScanId(scan)) == Some(Sectors::ZERO),
        );
        hold_eight(&mut session, &mut next, 50);
    }
    let time = session.scheduler.accounts().volume(VolumeId(0)).disk_time - charged;
    let share = time.as_secs_f64() / session.now.saturating_since(began).as_secs_f64();
    let mut responses: Vec<u64> =
        session.finished[before..].iter().map(|finished| finished.response().as_ns()).collect();
    responses.sort_unstable();
    let p99 = responses[responses.len() * 99 / 100] as f64 / 1e6;
    let read = session.scheduler.fill_report().from(FillSource::Idle).get();
    let rate = (session.finished.len() - before) as f64
        / session.now.saturating_since(began).as_secs_f64();
    session.run_to_end();
    (share, rate, p99, read)
}

#[test]
fn while_all_tenants_are_at_a_limit_scans_read_and_the_tenants_lose_nothing() {
    let capped =
        Terms { requests_per_second: Some(20), burst: Nanos::from_ms(500), ..Terms::default() };
    for policy in ["utilization", "headtime"] {
        for terms in [limited(20.0), limited(50.0), capped] {
            let (share, rate, p99, none) = beside_scans(policy, terms, false);
            let (share_beside, rate_beside, p99_beside, read) = beside_scans(policy, terms, true);
            let what = format!(
                "{policy}, {terms:?}: {share:.3} {rate:.1} {p99:.0} ms alone, {share_beside:.3} \
                    {rate_beside:.1} {p99_beside:.0} ms beside {read} sectors"
            );
            assert_eq!(none, 0);
            // At least half of a minute is available, and two sectors take half a revolution and a
            // seek.
            assert!(read > 5_000, "{what}");
            assert!((share_beside - share).abs() < 0.01, "{what}");
            assert!(rate_beside > 0.96 * rate, "{what}");
            assert!(p99_beside < 1.05 * p99, "{what}");
        }
    }
}

/// A read while tenants are at their limit ends before the limit opens, and an unexpected request
/// waits only for the commands at the drive.
#[test]
fn what_is_read_meanwhile_keeps_nobody_waiting() {
    for policy in ["utilization", "headtime"] {
        let mut session = knowing(policy).start();
        session
            .scheduler
            .set_share(session.now, tenant(0), limited(20.0))
            .expect("nothing is reserved");
        let mut next = 0;
        hold_eight(&mut session, &mut next, 3_000);
        session.scan(1, idle_only(), everything(4), ScanOptions::default());
        hold_eight(&mut session, &mut next, 300);
        assert!(session.scheduler.fill_report().from(FillSource::Idle).get() > 0, "{policy}");
        assert_eq!(
            session.scheduler.fill_report().delay,
            Nanos::ZERO,
            "{policy}: who is at a limit waits for that"
        );
        while session.scheduler.outstanding().iter().all(|command| command.background.is_none()) {
            session.step();
        }
        session.accept(of_volume(1, read(1 << 40, 5, 1)));
        session.run_to_end();
        // Two commands of two sectors, and its own.
        assert!(
            session.end_of(1 << 40).response() < Nanos::from_ms(60),
            "{policy}: {}",
            session.end_of(1 << 40).response()
        );
    }
}

/// One that waits for nothing but a flush, at its limit.
#[test]
fn flushes_at_a_limit_leave_the_drive_to_scans() {
    for policy in ["utilization", "headtime"] {
        let mut session = knowing(policy).start();
        session
            .scheduler
            .set_share(session.now, tenant(0), Terms { burst: Nanos::from_ms(100), ..limited(5.0) })
            .expect("nothing is reserved");
        session.scan(1, idle_only(), everything(4), ScanOptions::default());
        let (mut id, end) = (0, session.now + Nanos::from_secs(2));
        while session.now < end {
            if session.scheduler.held() == 0 {
                session.accept(of_volume(0, flush(id)));
                id += 1;
            }
            session.step();
        }
        assert_eq!(
            session.scheduler.fill_report().from(FillSource::Idle).get(),
            CAPACITY,
            "{policy}"
        );
        let share = session.scheduler.accounts().volume(VolumeId(0)).disk_time.as_secs_f64() / 2.0;
        assert!((0.03..0.06).contains(&share), "{policy}: {share}");
        session.run_to_end();
    }
}
