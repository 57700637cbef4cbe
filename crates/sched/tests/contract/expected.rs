//! The differences between `sptf-expected` and `sptf`.

use headtime_sched::RequestId;
use headtime_units::Nanos;
use proptest::prelude::*;

use crate::session::{Session, Setup, read, write};

/// Reads, each so long after the one before it.
pub(crate) fn order_of(policy: &str, arrivals: &[(u64, u64)]) -> Vec<u64> {
    let mut session = Setup::of(policy).start();
    for (id, (lba, gap_us)) in arrivals.iter().enumerate() {
        session.pass(Nanos::from_us(*gap_us));
        session.accept(read(id as u64, *lba, 1));
    }
    session.run_to_end();
    session.served()
}

proptest! {
    /// On the tiny drive expected and most likely times are equal unless a test sets a risk.
    #[test]
    fn with_certain_estimates_and_without_ageing_the_order_is_that_of_sptf(
        arrivals in proptest::collection::vec((0_u64..192, 0_u64..20_000), 1..40),
    ) {
        let without_ageing =
            order_of("sptf-expected:ageing_power=0,two_from_requests=1", &arrivals);
        prop_assert_eq!(order_of("sptf", &arrivals), without_ageing);
    }

    /// All of one age: every cost shrinks alike, so the order stays.
    #[test]
    fn in_a_burst_nobody_is_older_and_the_order_is_that_of_sptf(
        lbas in proptest::collection::vec(0_u64..192, 1..12),
    ) {
        let burst: Vec<(u64, u64)> = lbas.into_iter().map(|lba| (lba, 0)).collect();
        prop_assert_eq!(
            order_of("sptf", &burst),
            order_of("sptf-expected:two_from_requests=1", &burst)
        );
    }
}

/// A read of sector 0 that ends at 1 ms in a revolution, then a choice between two on the same
/// cylinder: 1 is on another head, reached after 0.5 ms with 0.5 ms to spare (sector 2), 2 is on
/// the same track with 2 ms to wait (sector 3).
fn after_a_narrow_choice(policy: &str, risky_wait: Nanos) -> Vec<u64> {
    let mut setup = Setup::of(policy);
    setup.belief.risky_wait = risky_wait;
    let mut session = setup.start();
    session.accept(read(0, 0, 1));
    session.pump();
    session.accept(read(1, 8 + 2, 1));
    session.accept(read(2, 3, 1));
    session.run_to_end();
    session.served()
}

#[test]
fn a_sector_that_would_probably_be_missed_is_avoided_when_the_estimate_says_so() {
    let expected = "sptf-expected:two_from_requests=1";
    let narrow = Nanos::from_us(600);
    assert_eq!(
        after_a_narrow_choice("sptf", narrow),
        [0, 1, 2],
        "the most likely time says 1 ms against 2 ms"
    );
    assert_eq!(
        after_a_narrow_choice(expected, narrow),
        [0, 2, 1],
        "expected are 1 + 4 ms against 2 ms"
    );
    assert_eq!(
        after_a_narrow_choice(expected, Nanos::from_us(400)),
        [0, 1, 2],
        "0.5 ms to spare are enough"
    );
}

/// On an idle drive at time 0 a read of sector 2 is reached at 2 ms: 0.2 ms overhead and 1.8 ms to
/// wait. A write of sector 3 with 2.5 ms of overhead departs at 2.5 ms and waits 0.5 ms from there,
/// but the decisive time is that it is reached at 3 ms.
#[test]
fn overhead_that_nothing_hides_counts() {
    for policy in ["sptf", "sptf-expected"] {
        let mut setup = Setup::of(policy).outstanding(1);
        setup.belief.write_overhead = Nanos::from_us(2_300);
        let mut session = setup.start();
        session.accept(write(0, 3, 1));
        session.accept(read(1, 2, 1));
        session.run_to_end();
        assert_eq!(session.served(), [1, 0], "{policy}");
    }
}

/// Eight clients read the eight sectors of a track repeatedly; one request waits seven cylinders
/// away. Returns the number of reads that overtake it, up to `most`.
fn passed_by(policy: &str, most: usize) -> usize {
    let mut session = Setup::of(policy).start();
    for id in 0..8 {
        session.accept(read(id, id, 1));
    }
    let far = 1_000_000;
    session.accept(write(far, 7 * 24 + 3, 1));
    let mut next = 8;
    while session.finished.len() < most
        && session.finished.iter().all(|finished| finished.request.id != RequestId(far))
    {
        let before = session.finished.len();
        session.step();
        for index in before..session.finished.len() {
            let again = session.finished[index].request.extent.start.get();
            session.accept(read(next, again, 1));
            next += 1;
        }
    }
    session.finished.len()
}

#[test]
fn sptf_starves_the_one_far_away_and_ageing_does_not() {
    assert_eq!(passed_by("sptf", 1_000), 1_000, "there is always one that costs less");
    assert_eq!(passed_by("sptf-expected:ageing_power=0,two_from_requests=1", 1_000), 1_000);
    let with_ageing = passed_by("sptf-expected", 1_000);
    // Nine are held, so a request that is not passed by waits for about nine services; M is twelve
    // mean responses.
    assert!((9..12 * 9).contains(&with_ageing), "{with_ageing} reads passed the aged one by");
    let late = passed_by("sptf-expected:ageing_horizon_responses=36", 1_000);
    assert!(late > with_ageing, "a longer horizon ages later: {late} against {with_ageing}");
}

#[test]
fn one_command_is_outstanding_with_few_requests_and_two_with_more() {
    let at_drive = |policy: &str, requests: u64| {
        let mut session: Session = Setup::of(policy).start();
        for id in 0..requests {
            session.accept(read(id, id * 20, 1));
        }
        session.pump();
        session.drive.len()
    };
    assert_eq!((at_drive("sptf-expected", 8), at_drive("sptf-expected", 9)), (1, 2));
    assert_eq!(
        (
            at_drive("sptf-expected:two_from_requests=3", 2),
            at_drive("sptf-expected:two_from_requests=3", 3)
        ),
        (1, 2)
    );
    assert_eq!(at_drive("sptf-expected:two_from_requests=1", 2), 2);
}
