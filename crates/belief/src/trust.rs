//! [`Trust`]: a running test of prediction errors against chance.
//!
//! If the drive differs from its profile (another model in the same slot, a wrongly measured
//! layout), its sectors pass at any angle: prediction errors, without whole turns, are uniform
//! within half a turn. If the model is right, most errors are near zero. Each error scores the
//! logarithm of its likelihood ratio of these two cases. The sum of the scores against the present
//! state, never below zero, is the evidence (a cumulative sum test). Enough evidence changes the
//! state.
//!
//! Worked example: an error of 0.01 turns counts 2.1 − 0.2 = 1.9 for the model, one of 0.25 turns
//! 1.4 against it. Uniform errors count 0.7 against it on average: trust is lost after some 80 of
//! them. Errors of 0.02 turns count 1.7 for it: trust returns after some 25 of them.
//!
//! Guarantees: a share of outliers below a third never ends trust. Errors of the arm and of
//! overheads are not detected: they cost whole turns, and a model with only such errors is still
//! better than distance. Cost: a logarithm and an exponential per completion. Source: ours; the
//! test is Page's.

/// Share of errors with another cause while the model is right (guess).
const OUTLIERS: f64 = 0.2;
/// The mean error of a right model, in half turns (guess: between that of a drive with many unknown
/// slips, 0.1, and chance, 0.5).
const MEAN_HALVES: f64 = 0.1;
/// Evidence that ends trust, and evidence that restores it: by chance one in e^60 and one in e^40
/// (guess: safe for years, and fast within a second or two).
const AGAINST: f64 = 60.0;
const FOR: f64 = 40.0;

/// The trust in a drive model, and the evidence for changing it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trust {
    holds: bool,
    evidence: f64,
}

impl Trust {
    /// The initial state: a profile is trusted until errors contradict it.
    pub(crate) fn new() -> Self {
        Self { holds: true, evidence: 0.0 }
    }

    /// Returns true if the drive model is trusted.
    pub(crate) fn holds(self) -> bool {
        self.holds
    }

    /// Observes an error in turns, −0.5 to 0.5. Returns true if it ended or restored trust.
    pub(crate) fn note(&mut self, error_turns: f64) -> bool {
        let halves = (2.0 * error_turns.abs()).min(1.0);
        let score =
            libm::log(OUTLIERS + (1.0 - OUTLIERS) / MEAN_HALVES * libm::exp(-halves / MEAN_HALVES));
        self.evidence = (self.evidence + if self.holds { -score } else { score }).max(0.0);
        let changes = self.evidence > if self.holds { AGAINST } else { FOR };
        if changes {
            *self = Self { holds: !self.holds, evidence: 0.0 };
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The number of errors after which trust changes, if it does within `most`.
    fn changes_after(trust: &mut Trust, most: u32, mut error: impl FnMut() -> f64) -> Option<u32> {
        (1..=most).find(|_| trust.note(error()))
    }

    #[test]
    fn chance_loses_trust_soon_and_errors_near_nothing_win_it_back() {
        for seed in 0..50 {
            let (mut trust, mut rng) = (Trust::new(), ChaCha8Rng::seed_from_u64(seed));
            let lost = changes_after(&mut trust, 1_000, || rng.random_range(-0.5..0.5));
            assert!(
                lost.is_some_and(|lost| (40..200).contains(&lost)) && !trust.holds(),
                "seed {seed}: lost after {lost:?}"
            );
            let back = changes_after(&mut trust, 1_000, || rng.random_range(-0.03..0.03));
            assert!(
                back.is_some_and(|back| (20..60).contains(&back)) && trust.holds(),
                "seed {seed}: back after {back:?}"
            );
        }
    }

    #[test]
    fn chance_does_not_win_trust_back() {
        for seed in 0..10 {
            let (mut trust, mut rng) =
                (Trust { holds: false, evidence: 0.0 }, ChaCha8Rng::seed_from_u64(seed));
            assert_eq!(
                changes_after(&mut trust, 200_000, || rng.random_range(-0.5..0.5)),
                None,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn a_quarter_of_outliers_and_errors_of_slips_do_not_lose_trust() {
        for seed in 0..10 {
            let (mut trust, mut rng) = (Trust::new(), ChaCha8Rng::seed_from_u64(seed));
            let error = || {
                if rng.random_bool(0.25) {
                    rng.random_range(-0.5..0.5)
                } else {
                    rng.random_range(-0.1..0.1)
                }
            };
            assert_eq!(changes_after(&mut trust, 200_000, error), None, "seed {seed}");
        }
    }
}
