//! [`Calibration`]: what is to be expected of a pair of which the worst is known.
//!
//! A map keeps worst times, an order wants expected ones. How far the two are apart is learned: for
//! each code of an entry the slow mean of *observed ÷ said*. A pair that was once just missed says
//! a revolution more than it usually takes; that all pairs of this code took 0.6 of what they said
//! makes 0.6 of it expected.
//!
//! Worked example: pairs that said 10 ms took 10, 4, 6 and 8 ms: seven tenths, which four guesses
//! of 1 pull to 0.85. The next one that says 10 ms is expected to take 8.5.
//!
//! Guarantees: never above what is said. Cost: O(1), 4 KiB. Source: ours; the paper orders by the
//! worst itself.

use super::scale::EntryBits;
use headtime_units::Nanos;

/// Observed ÷ said, by code.
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

    /// What is expected of a pair whose code says `said`.
    pub(super) fn expected(&self, code: u16, said: Nanos) -> Nanos {
        let ratio = self.classes[usize::from(code >> self.shift)].ratio;
        Nanos::from_ns((said.as_ns() as f64 * ratio) as u64).min(said)
    }

    /// Takes in that a pair whose code said `said` took `observed`.
    pub(super) fn observe(&mut self, code: u16, said: Nanos, observed: Nanos) {
        let class = &mut self.classes[usize::from(code >> self.shift)];
        let ratio = observed.as_ns() as f64 / said.as_ns().max(1) as f64;
        class.seen += 1.0;
        class.ratio += (ratio.min(MAX_RATIO) - class.ratio)
            * (1.0 / (class.seen + GUESS_WEIGHT)).max(STEADY_WEIGHT);
    }
}

/// How many observations the guess that the worst is usual is worth (guess).
const GUESS_WEIGHT: f64 = 4.0;
/// Weight of an observation once much has been seen (guess).
const STEADY_WEIGHT: f64 = 1.0 / 512.0;
/// One access that took many times as long (a retry) must not move a class far (guess).
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
    fn nothing_is_expected_to_exceed_what_is_said() {
        let mut calibration = Calibration::new(EntryBits::Sixteen);
        for _ in 0..10_000 {
            calibration.observe(u16::MAX, Nanos::from_ms(1), Nanos::from_ms(900));
        }
        assert_eq!(calibration.expected(u16::MAX, Nanos::from_ms(1)), Nanos::from_ms(1));
        // Back to what is usual within some thousand observations.
        for _ in 0..4_000 {
            calibration.observe(u16::MAX, Nanos::from_ms(1), Nanos::from_us(500));
        }
        assert!(calibration.expected(u16::MAX, Nanos::from_ms(1)) < Nanos::from_us(510));
    }
}
