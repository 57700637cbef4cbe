//! The differences between `headtime` and `sptf-expected`: deadlines alone.

use headtime_units::Nanos;
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
