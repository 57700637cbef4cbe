//! Batch means and the demerit.

use headtime_sim::BatchMeans;
use headtime_sim::validate::demerit_ms;
use headtime_units::Nanos;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[test]
fn the_mean_counts_every_value_whole_batch_or_not() {
    let mut batches = BatchMeans::default();
    assert_eq!((batches.mean(), batches.half_width()), (None, None));
    (1..=1_001).for_each(|value| batches.push(f64::from(value)));
    assert_eq!(batches.mean(), Some(501.0));
}

#[test]
fn about_95_in_100_intervals_hold_the_true_mean() {
    for memory in [0.0, 0.8] {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let holding = (0..400).filter(|_| {
            let mut batches = BatchMeans::default();
            let mut value = 0.0;
            for _ in 0..5_000 {
                value = memory * value + f64::from(rng.next_u32()) / 4_294_967_296.0 - 0.5;
                batches.push(value);
            }
            batches.mean().unwrap().abs() <= batches.half_width().unwrap()
        });
        let holding = holding.count();
        assert!((364..=396).contains(&holding), "{holding} of 400 at memory {memory}");
    }
}

#[test]
fn the_demerit_compares_distributions_and_not_pairs() {
    let ms = |pairs: &[(u64, u64)]| {
        demerit_ms(pairs.iter().map(|(a, b)| (Nanos::from_ms(*a), Nanos::from_ms(*b))))
    };
    assert_eq!(ms(&[(1, 3), (2, 1), (3, 2)]), 0.0);
    // Everything 2 ms later: the distributions are 2 ms apart at every height.
    assert_eq!(ms(&[(1, 3), (5, 7), (9, 11)]), 2.0);
    // One of four 6 ms off: √(36 / 4).
    assert_eq!(ms(&[(1, 1), (2, 2), (3, 3), (4, 10)]), 3.0);
    assert_eq!(ms(&[]), 0.0);
}
