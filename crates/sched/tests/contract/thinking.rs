//! Tenants that think between requests: their reservations survive it.

use headtime_sched::{Request, VolumeId};
use headtime_units::{Instant, Nanos};

use crate::session::{Session, Setup, read};
use crate::shares::{of_volume, reserving, tenant};
use crate::tiny::CAPACITY;

/// A random address of which no two abut, so that they are no sequential run.
fn place(id: u64) -> u64 {
    let mixed = (id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33) % (CAPACITY / 2) * 2
}

/// Disk time per second of volume 0, with one request at a time and this think time in between, and
/// of volume 1, with `greedy` requests always.
fn shares_of(session: &mut Session, think: impl Fn(u64) -> Nanos, greedy: usize) -> [f64; 2] {
    let (mut id, mut submitted) = (0, [0, 0_usize]);
    let mut asks_at = Some(Instant::ORIGIN);
    let mut measured = None;
    let end = Instant::ORIGIN + Nanos::from_secs(22);
    let disk_time = |session: &Session| {
        [0, 1].map(|volume| session.scheduler.accounts().volume(VolumeId(volume)).disk_time)
    };
    while session.now < end {
        if measured.is_none() && session.now >= Instant::ORIGIN + Nanos::from_secs(2) {
            measured = Some((session.now, disk_time(session)));
        }
        let done = |session: &Session, volume: u32| {
            let of = |request: Request| request.volume == VolumeId(volume);
            session.finished.iter().filter(|finished| of(finished.request)).count()
        };
        let asks = usize::from(asks_at.take_if(|at| *at <= session.now).is_some());
        let missing = [asks, greedy + done(session, 1) - submitted[1]];
        for (volume, missing) in (0..).zip(missing) {
            for _ in 0..missing {
                session.accept(of_volume(volume, read(id, place(id), 1)));
                id += 1;
            }
            submitted[volume as usize] += missing;
        }
        session.pump();
        let next = session.next_event().into_iter().chain(asks_at).min().expect("clients go on");
        session.pass(next.saturating_since(session.now));
        if asks_at.is_none() && done(session, 0) == submitted[0] {
            asks_at = Some(session.now + think(submitted[0] as u64));
        }
    }
    let (began, before) = measured.expect("it lasts longer");
    let seconds = session.now.saturating_since(began).as_secs_f64();
    let after = disk_time(session);
    [0, 1].map(|volume| (after[volume] - before[volume]).as_secs_f64() / seconds)
}

/// Exponentially distributed times, in sixteen steps.
fn exponential(mean_ms: f64) -> impl Fn(u64) -> Nanos {
    move |number| {
        let part = (place(number) as f64 / CAPACITY as f64 * 16.0).floor() / 16.0 + 1.0 / 32.0;
        Nanos::from_us((-part.ln() * mean_ms * 1e3) as u64)
    }
}

/// The published figure to beat: 80 % reserved, one request at a time with 3 ms of think time, got
/// 39.6 % beside a greedy neighbor where it gets 67 % alone.
#[test]
fn a_reservation_survives_think_time_beside_a_greedy_neighbor() {
    for mean_ms in [1.0, 3.0, 10.0] {
        let constant = |_| Nanos::from_ms(mean_ms as u64);
        for (kind, think) in [
            ("constant", &constant as &dyn Fn(u64) -> Nanos),
            ("exponential", &exponential(mean_ms)),
        ] {
            let [alone, _] = shares_of(&mut Setup::of("headtime").start(), think, 0);
            for reserved in [80.0, 30.0] {
                let mut session = Setup::of("headtime").start();
                session
                    .scheduler
                    .set_share(session.now, tenant(0), reserving(reserved))
                    .expect("free");
                let [share, rest] = shares_of(&mut session, think, 8);
                let promised = alone.min(reserved / 100.0);
                let what = format!(
                    "{kind} {mean_ms} ms, {reserved} % reserved: {share:.3} of {alone:.3}, the \
                        neighbor {rest:.3}"
                );
                assert!(share > 0.95 * promised, "{what}");
                assert!(rest > 0.02, "{what}");
            }
        }
    }
}

/// Waits are counted, and end when the tenant does not come back.
#[test]
fn waits_are_counted_and_do_not_last_when_nobody_comes() {
    let mut session = Setup::of("headtime").start();
    session.scheduler.set_share(session.now, tenant(0), reserving(80.0)).expect("free");
    let _ = shares_of(&mut session, |_| Nanos::from_ms(3), 8);
    let waits = session.scheduler.waits();
    assert!(waits.begun > 1_000 && waits.came * 10 > waits.begun * 9, "{waits:?}");
    let (before, began) = (session.finished.len(), session.now);
    let mut id = 1 << 32;
    while session.now < began + Nanos::from_secs(2) {
        while session.scheduler.queue().len() < 8 {
            session.accept(of_volume(1, read(id, place(id), 1)));
            id += 1;
        }
        session.step();
    }
    let rate = (session.finished.len() - before) as f64 / 2.0;
    assert!(rate > 100.0, "the neighbor has the drive for itself: {rate} a second");
    assert!(session.scheduler.waits().begun < waits.begun + 3);
    session.run_to_end();
}
