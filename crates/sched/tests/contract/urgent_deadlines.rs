//! The differences between `headtime` and `sptf-expected`: deadlines alone.

use headtime_sched::Finished;
use headtime_units::{Instant, Nanos};
use proptest::prelude::*;

use crate::expected::order_of;
use crate::session::{Session, Setup, due, read};

proptest! {
    /// No two of the reads abut, so that they are no sequential run.
    #[test]
    fn without_runs_and_deadlines_the_order_is_that_of_sptf_expected(
        places in proptest::collection::vec((0_u64..96, 0_u64..20_000), 1..40),
    ) {
        let arrivals: Vec<(u64, u64)> =
            places.into_iter().map(|(place, gap_us)| (2 * place, gap_us)).collect();
        prop_assert_eq!(order_of("headtime", &arrivals), order_of("sptf-expected", &arrivals));
    }
}

/// Every other sector of the head's own cylinder twice, and one seven cylinders away that is due.
fn with_one_due_in(policy: &str, ms: u64) -> Session {
    let mut session = Setup::of(policy).start();
    for id in 0..24 {
        session.accept(read(id, id % 12 * 2, 1));
    }
    session.accept(due(read(24, 7 * 24 + 2, 1), ms));
    session.run_to_end();
    session
}

#[test]
fn a_deadline_far_off_changes_nothing() {
    assert_eq!(
        with_one_due_in("headtime", 1_000).served(),
        with_one_due_in("sptf-expected", 1_000).served()
    );
}

#[test]
fn a_deadline_that_presses_is_served_in_time() {
    for ms in [20, 30, 40, 60] {
        let session = with_one_due_in("headtime", ms);
        let finished = session
            .finished
            .iter()
            .find(|finished| finished.request.id.0 == 24)
            .expect("it was served");
        assert!(!finished.missed(), "due in {ms} ms, done at {}", finished.finished);
    }
    let unconstrained = with_one_due_in("sptf-expected", 20);
    assert!(
        unconstrained.finished.iter().any(|finished| finished.missed()),
        "without pressing it would be missed"
    );
}

/// Requests with deadlines keep arriving next to the head, more than the drive can serve; one far
/// away is late and must not starve.
#[test]
fn a_late_request_is_not_passed_by_for_ever() {
    let mut session = Setup::of("headtime").start();
    session.accept(due(read(0, 7 * 24, 1), 5));
    for id in 1..400 {
        session.accept(due(read(id, id % 24, 1), 5 + id / 4));
        session.pass(Nanos::from_ms(1));
    }
    session.run_to_end();
    let at = session.served().iter().position(|id| *id == 0).expect("it was served");
    assert!(at < 300, "it was the {at}th to be served");
}

/// The disk time of requests with and without a deadline in five seconds, with so many of each
/// always held.
fn disk_times(due_ms: u64, with: usize, without: usize) -> [f64; 2] {
    let mut session = Setup::of("headtime").start();
    let place = |id: u64| (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 80 * 2;
    let (mut id, mut submitted) = (0, [0; 2]);
    while session.now < Instant::ORIGIN + Nanos::from_secs(5) {
        let done = |has: bool| {
            let of_kind = |done: &&Finished| done.request.deadline.is_some() == has;
            session.finished.iter().filter(of_kind).count()
        };
        let missing = [with + done(true) - submitted[0], without + done(false) - submitted[1]];
        for (kind, missing) in missing.into_iter().enumerate() {
            for _ in 0..missing {
                let request = read(id, place(id), 1);
                let due_at = session.now.saturating_since(Instant::ORIGIN) + Nanos::from_ms(due_ms);
                let due_at = due_at.as_ns() / 1_000_000;
                session.accept(if kind == 0 { due(request, due_at) } else { request });
                id += 1;
            }
            submitted[kind] += missing;
        }
        session.step();
    }
    let of_kind = |has: bool| {
        let done = session.finished.iter().filter(|done| done.request.deadline.is_some() == has);
        done.map(|done| done.disk_time.as_secs_f64()).sum::<f64>()
    };
    [of_kind(true), of_kind(false)]
}

/// Six requests that are always due in 20 ms need more than the drive has.
#[test]
fn requests_without_a_deadline_keep_a_quarter_of_the_time_beside_too_many_with_one() {
    let [with, without] = disk_times(20, 6, 6);
    let share = without / (with + without);
    assert!((0.2..0.3).contains(&share), "{share:.3}");
    let [with, without] = disk_times(20, 6, 0);
    assert!(with > 4.9 && without == 0.0, "{with} {without}");
}
