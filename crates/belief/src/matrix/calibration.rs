//! [`Calibration`]: the expected time of a pair with a known worst time.
//!
//! A map keeps worst times, but an order needs expected ones. Their ratio is learned: for each code
//! of an entry the slow mean of *observed ÷ entry*. The entry of a pair that missed its sector once
//! is a revolution longer than usual. If all pairs of this code took 0.6 of their entries, 0.6 of
//! the entry is expected.
//!
//! Worked example: pairs with an entry of 10 ms took 10, 4, 6 and 8 ms: a mean of 0.7, which four
//! guesses of 1 pull to 0.85. The next pair with an entry of 10 ms is expected to take 8.5.
//!
//! Guarantees: never above the entry. Cost: O(1), 4 KiB. Source: ours; the paper orders by the
//! worst time itself.

use super::scale::EntryBits;
use headtime_units::Nanos;

/// The ratio of observed time to entry, by code.
#[derive(Clone, Debug)]
pub(super) struct Calibration {
    /// Codes of sixteen bits share a class by their upper eight.
    shift: u32,
    classes: Vec<Class>,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    seen: f64,
    ratio: f64,
}

impl Calibration {
    pub(super) fn new(bits: EntryBits) -> Self {
        let shift = bits.get().saturating_sub(8);
        Self {
            shift,
            classes: vec![Class { seen: 0.0, ratio: 1.0 }; usize::from(bits.top() >> shift) + 1],
        }
    }

    /// The expected time of a pair whose entry is `said`.
    pub(super) fn expected(&self, code: u16, said: Nanos) -> Nanos {
        let ratio = self.classes[usize::from(code >> self.shift)].ratio;
        Nanos::from_ns((said.as_ns() as f64 * ratio) as u64).min(said)
    }

    /// Observes that a pair whose entry is `said` took `observed`.
    pub(super) fn observe(&mut self, code: u16, said: Nanos, observed: Nanos) {
        let class = &mut self.classes[usize::from(code >> self.shift)];
        let ratio = observed.as_ns() as f64 / said.as_ns().max(1) as f64;
        class.seen += 1.0;
        class.ratio += (ratio.min(MAX_RATIO) - class.ratio)
            * (1.0 / (class.seen + GUESS_WEIGHT)).max(STEADY_WEIGHT);
    }
}

/// Weight of the guess that the worst time is usual, in observations (guess).
const GUESS_WEIGHT: f64 = 4.0;
/// Minimum weight of an observation (guess).
const STEADY_WEIGHT: f64 = 1.0 / 512.0;
/// Maximum ratio of an observation: a retry must not move a class far (guess).
const MAX_RATIO: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_holds() {
        let mut calibration = Calibration::new(EntryBits::Four);
        let said = Nanos::from_ms(10);
        assert_eq!(calibration.expected(7, said), said);
        for ms in [10, 4, 6, 8] {
            calibration.observe(7, said, Nanos::from_ms(ms));
        }
        assert!(calibration.expected(7, said).as_ns().abs_diff(8_500_000) < 10);
        assert_eq!(calibration.expected(8, said), said, "another code has seen nothing");
    }

    #[test]
    fn the_expected_time_never_exceeds_the_entry() {
        let mut calibration = Calibration::new(EntryBits::Sixteen);
        for _ in 0..10_000 {
            calibration.observe(u16::MAX, Nanos::from_ms(1), Nanos::from_ms(900));
        }
        assert_eq!(calibration.expected(u16::MAX, Nanos::from_ms(1)), Nanos::from_ms(1));
        // The usual ratio returns within some thousand observations.
        for _ in 0..4_000 {
            calibration.observe(u16::MAX, Nanos::from_ms(1), Nanos::from_us(500));
        }
        assert!(calibration.expected(u16::MAX, Nanos::from_ms(1)) < Nanos::from_us(510));
    }
}
