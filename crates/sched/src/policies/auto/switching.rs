//! [`Switching`]: when a better expected score leads to a switch, and [`PolicySwitch`], its record.

use alloc::string::String;
use core::fmt;

use headtime_units::{Instant, Nanos};

use super::load::LoadFeatures;
use super::table;

/// A switch of `auto` from one policy to another.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySwitch {
    /// The time.
    pub at: Instant,
    /// The policy before.
    pub from: &'static str,
    /// The policy from then on.
    pub to: &'static str,
    /// The reason.
    pub cause: SwitchCause,
}

/// The reason for a switch.
#[derive(Clone, Debug, PartialEq)]
pub enum SwitchCause {
    /// The load.
    Load {
        /// The observed features.
        observed: LoadFeatures,
        /// The nearest load of the table.
        nearest: String,
        /// The expected gain over the policy before, as a share.
        gain: f64,
    },
    /// A tenant has terms, which only the default policy enforces.
    Shares,
    /// Another table is in use.
    Table,
}

impl fmt::Display for SwitchCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { observed, nearest, gain } => write!(
                f,
                "expected gain {:.0} %; nearest measured load `{nearest}`; observed {observed}",
                gain * 100.0
            ),
            Self::Shares => f.write_str("a volume has shares, which only this policy enforces"),
            Self::Table => f.write_str("another table is in use"),
        }
    }
}

/// The hysteresis.
///
/// A policy must be better by a margin in two windows in a row, and the last switch must be a
/// *dwell time* ago. A switch within four dwell times of the one before doubles the dwell time; a
/// later one resets it. So a load at the boundary of two policies leads to at most
/// 1 + log₂(t ÷ dwell time) switches in a time t, up to the maximum dwell time.
#[derive(Clone, Debug)]
pub(super) struct Switching {
    margin: f64,
    initial_dwell: Nanos,
    dwell: Nanos,
    last: Option<Instant>,
    /// The better policy of the last window.
    candidate: Option<usize>,
}

/// The maximum dwell time (guess: a load that changes its mind for longer has changed).
const MAX_DWELL: Nanos = Nanos::from_secs(600);

impl Switching {
    pub(super) fn new(margin: f64, dwell: Nanos) -> Self {
        Self { margin, initial_dwell: dwell, dwell, last: None, candidate: None }
    }

    /// The policy to switch to from `current`, given the expected scores after a window.
    pub(super) fn decide(&mut self, now: Instant, current: usize, scores: &[f64]) -> Option<usize> {
        let best = table::best(scores)?;
        let is_better = scores[best] > scores[current] * (1.0 + self.margin);
        let before = core::mem::replace(&mut self.candidate, is_better.then_some(best));
        let rests = self.last.is_some_and(|last| now < last + self.dwell);
        if !is_better || before != Some(best) || rests {
            return None;
        }
        let soon = self.last.is_some_and(|last| now < last + self.dwell * 4);
        self.dwell = if soon { (self.dwell * 2).min(MAX_DWELL) } else { self.initial_dwell };
        self.last = Some(now);
        self.candidate = None;
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The times of switches, in seconds, with two windows in each second.
    fn switches(seconds: u64, scores: impl Fn(u64) -> [f64; 2]) -> Vec<u64> {
        let mut switching = Switching::new(0.03, Nanos::from_secs(2));
        let (mut current, mut at) = (0, Vec::new());
        for window in 1..seconds * 2 {
            let now = Instant::ORIGIN + Nanos::from_ms(500 * window);
            if let Some(next) = switching.decide(now, current, &scores(window)) {
                assert_ne!(next, current);
                current = next;
                at.push(window / 2);
            }
        }
        at
    }

    #[test]
    fn a_better_policy_is_switched_to_after_two_windows_and_a_slightly_better_one_never() {
        assert_eq!(switches(60, |_| [0.8, 1.0]), [1]);
        assert_eq!(switches(60, |_| [0.98, 1.0]), []);
        // One window alone is an accident.
        assert_eq!(
            switches(60, |window| if window % 5 == 0 { [0.8, 1.0] } else { [1.0, 0.8] }),
            []
        );
        // The load changes every 20 s.
        let phases = |window| if window / 40 % 2 == 0 { [1.0, 0.5] } else { [0.5, 1.0] };
        assert_eq!(switches(100, phases), [20, 40, 60, 80]);
    }

    /// A load that changes with the policy, so that always the other one seems better.
    #[test]
    fn what_always_seems_better_elsewhere_leads_to_ever_fewer_switches() {
        let mut switching = Switching::new(0.03, Nanos::from_secs(2));
        let (mut current, mut at) = (0, Vec::new());
        for window in 1..1_200 {
            let now = Instant::ORIGIN + Nanos::from_ms(500 * window);
            let scores = if current == 0 { [0.5, 1.0] } else { [1.0, 0.5] };
            if let Some(next) = switching.decide(now, current, &scores) {
                current = next;
                at.push(window / 2);
            }
        }
        assert_eq!(at, [1, 3, 7, 15, 31, 63, 127, 255, 511]);
    }

    proptest! {
        /// Whatever the scores, no more switches than the bound.
        #[test]
        fn switches_are_bounded_whatever_the_scores(
            scores in proptest::collection::vec(proptest::array::uniform3(0.0_f64..1.0), 1..400),
        ) {
            let mut switching = Switching::new(0.03, Nanos::from_secs(2));
            let (mut current, mut count) = (0, 0);
            let mut last: Option<Instant> = None;
            for (window, scores) in (1..).zip(&scores) {
                let now = Instant::ORIGIN + Nanos::from_ms(500 * window);
                if let Some(next) = switching.decide(now, current, scores) {
                    prop_assert!(next != current && scores[next] > scores[current] * 1.03);
                    prop_assert!(last.is_none_or(|last| now >= last + Nanos::from_secs(2)));
                    (current, count, last) = (next, count + 1, Some(now));
                }
            }
            // At most half of them reset the dwell time, each after eight seconds.
            let seconds = scores.len() as f64 / 2.0;
            prop_assert!(f64::from(count) <= 2.0 + seconds / 4.0, "{count} in {seconds} s");
        }
    }
}
