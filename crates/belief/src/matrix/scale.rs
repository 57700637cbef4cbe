//! [`Scale`]: times in a few bits, rounded up.
//!
//! An entry is a *code*. Code 0 means that the pair has never been observed. Codes 1 to top − 1
//! stand for steps of equal length: code q says "no longer than q steps". The top code says "longer
//! than all of these": how much longer is kept once for the whole map, as the longest time ever
//! seen.
//!
//! Worked example, 4 bits for times up to 20 ms: 14 steps of 1.429 ms. An observation of 4.0 ms is
//! code 3, which answers 4.286 ms; one of 4.3 ms is code 4, 5.714 ms. One of 26 ms is code 15,
//! which answers the longest ever seen: 26 ms, until something takes longer.
//!
//! Guarantees: what a code answers is never below the time it was made from, and never more than
//! one step above it, unless the time is beyond the steps. Source: P1 section 3.1 (4 bits); equal
//! steps are ours (guess: an order is decided by differences, and those weigh the same wherever
//! they are).

use headtime_units::Nanos;

/// The width of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryBits {
    /// 14 steps; two entries to a byte. The paper's.
    #[default]
    Four,
    /// 254 steps.
    Eight,
    /// 65,534 steps.
    Sixteen,
}

impl EntryBits {
    /// Every width.
    pub const ALL: [Self; 3] = [Self::Four, Self::Eight, Self::Sixteen];

    /// The number of bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
            Self::Sixteen => 16,
        }
    }

    /// The width of so many bits, if there is one.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.get() == bits)
    }

    /// The code beyond the last step.
    pub(super) const fn top(self) -> u16 {
        ((1_u32 << self.get()) - 1) as u16
    }
}

/// The meaning of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    bits: EntryBits,
    step_ns: u64,
}

impl Scale {
    /// Codes of this width in steps that reach `longest`; a step is a nanosecond at least.
    #[must_use]
    pub fn reaching(longest: Nanos, bits: EntryBits) -> Self {
        Self { bits, step_ns: longest.as_ns().div_ceil(u64::from(bits.top() - 1)).max(1) }
    }

    /// Codes of this width in steps of `step`; `None` where that is no time at all, or so long that
    /// the steps reach beyond an hour.
    #[must_use]
    pub fn in_steps_of(step: Nanos, bits: EntryBits) -> Option<Self> {
        let reach = step.as_ns().checked_mul(u64::from(bits.top()))?;
        (!step.is_zero() && reach <= LONGEST.as_ns())
            .then_some(Self { bits, step_ns: step.as_ns() })
    }

    /// The width of an entry.
    #[must_use]
    pub const fn bits(self) -> EntryBits {
        self.bits
    }

    /// The length of a step.
    #[must_use]
    pub const fn step(self) -> Nanos {
        Nanos::from_ns(self.step_ns)
    }

    /// The longest time that a step stands for.
    #[must_use]
    pub const fn reach(self) -> Nanos {
        Nanos::from_ns(self.step_ns * (self.bits.top() as u64 - 1))
    }

    /// The code of an observed time: never [`UNKNOWN`], and never one that answers less.
    pub(super) fn code(self, time: Nanos) -> u16 {
        let steps = time.as_ns().div_ceil(self.step_ns).max(1);
        steps.min(u64::from(self.bits.top())) as u16
    }

    /// The time that a code says is not exceeded, `None` for an unknown pair; `longest_seen` is the
    /// longest time of which a code was made.
    pub(super) fn time(self, code: u16, longest_seen: Nanos) -> Option<Nanos> {
        match code {
            UNKNOWN => None,
            code if code < self.bits.top() => Some(Nanos::from_ns(self.step_ns * u64::from(code))),
            _ => Some(self.reach().max(longest_seen)),
        }
    }
}

/// The code of a pair that has never been observed.
pub(super) const UNKNOWN: u16 = 0;
/// No access takes longer, so nobody has use for steps that reach further.
pub(super) const LONGEST: Nanos = Nanos::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example_holds() {
        let scale = Scale::reaching(Nanos::from_ms(20), EntryBits::Four);
        assert_eq!(scale.step(), Nanos::from_ns(1_428_572));
        let answer =
            |us| scale.time(scale.code(Nanos::from_us(us)), Nanos::from_ms(26)).map(Nanos::as_ns);
        assert_eq!(answer(4_000), Some(3 * 1_428_572));
        assert_eq!(answer(4_300), Some(4 * 1_428_572));
        assert_eq!((scale.code(Nanos::from_ms(26)), answer(26_000)), (15, Some(26_000_000)));
        assert_eq!(scale.time(UNKNOWN, Nanos::from_ms(26)), None);
    }

    #[test]
    fn a_time_of_nothing_is_known_and_not_unknown() {
        for bits in EntryBits::ALL {
            assert_eq!(Scale::reaching(Nanos::from_ms(20), bits).code(Nanos::ZERO), 1);
            assert_eq!(EntryBits::from_bits(bits.get()), Some(bits));
        }
        assert_eq!(EntryBits::from_bits(12), None);
    }

    #[test]
    fn steps_without_length_or_beyond_an_hour_are_no_scale() {
        assert_eq!(Scale::in_steps_of(Nanos::ZERO, EntryBits::Eight), None);
        assert_eq!(Scale::in_steps_of(Nanos::from_ns(u64::MAX), EntryBits::Four), None);
        let scale = Scale::reaching(Nanos::from_ms(20), EntryBits::Sixteen);
        assert_eq!(Scale::in_steps_of(scale.step(), scale.bits()), Some(scale));
    }

    proptest! {
        #[test]
        fn a_code_never_says_less_than_what_was_observed_and_hardly_more(
            time_ns in prop_oneof![0_u64..40_000_000, any::<u64>()],
            longest_us in 1_u64..60_000,
            seen_ns in any::<u64>(),
            bits in prop_oneof![
                Just(EntryBits::Four),
                Just(EntryBits::Eight),
                Just(EntryBits::Sixteen),
            ],
        ) {
            let (scale, time) =
                (Scale::reaching(Nanos::from_us(longest_us), bits), Nanos::from_ns(time_ns));
            prop_assert!(scale.reach() >= Nanos::from_us(longest_us));
            let answer = scale.time(scale.code(time), time.max(Nanos::from_ns(seen_ns))).unwrap();
            prop_assert!(answer >= time, "{} for {}", answer, time);
            if time <= scale.reach() {
                prop_assert!(answer.as_ns() - time.as_ns() <= scale.step().as_ns());
                prop_assert_eq!(
                    scale.code(answer),
                    scale.code(time),
                    "made a code again it is the same code"
                );
            }
        }

        #[test]
        fn a_longer_time_never_has_a_lesser_code(
            one in 0_u64..50_000_000,
            more in 0_u64..50_000_000,
        ) {
            for bits in EntryBits::ALL {
                let scale = Scale::reaching(Nanos::from_ms(25), bits);
                prop_assert!(
                    scale.code(Nanos::from_ns(one))
                        <= scale.code(Nanos::from_ns(one.saturating_add(more)))
                );
            }
        }
    }
}
