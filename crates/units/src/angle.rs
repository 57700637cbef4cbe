//! Angle and rotation: where the head is within a turn.
//!
//! An [`Angle`] is a wrapping 32-bit part of one turn (2 ps of a 120 Hz spindle). A
//! [`RotationPeriod`] is kept in femtoseconds, because a period rounded to a nanosecond is wrong by
//! a whole turn after 8 million turns, which is less than a day.
//!
//! The angle at a time is `t × (2⁹⁶ / period)`, of which the 32 bits below the binary point of the
//! turn are kept; the product may wrap, because whole turns are what is thrown away. One
//! multiplication, and no error that grows.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

use crate::{Instant, Nanos};

/// A fraction of one revolution in units of 2⁻³² revolution; arithmetic wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Angle(u32);

impl Angle {
    /// The start of the revolution.
    pub const ZERO: Self = Self(0);
    /// Half a revolution.
    pub const HALF: Self = Self(1 << 31);

    /// An angle from its raw units of 2⁻³² turn.
    #[must_use]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The raw units of 2⁻³² turn.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self.0
    }

    /// `numerator / denominator` of a turn, whole turns dropped.
    ///
    /// Sector `s` of a track of `n` starts at `from_fraction(s, n)`: computed from the index each
    /// time, so that rounding never adds up.
    ///
    /// # Panics
    /// When `denominator` is zero.
    #[must_use]
    pub const fn from_fraction(numerator: u64, denominator: u64) -> Self {
        assert!(denominator != 0, "a fraction of a turn needs a denominator");
        let part = numerator % denominator;
        if part < 1 << 32 {
            Self(((part << 32) / denominator) as u32)
        } else {
            Self((((part as u128) << 32) / denominator as u128) as u32)
        }
    }

    /// The nearest angle to `turns` (whole turns dropped, negative turns go backwards).
    #[must_use]
    pub fn from_turns(turns: f64) -> Self {
        let part = turns - libm::floor(turns);
        Self(libm::round(part * 4_294_967_296.0) as u64 as u32)
    }

    /// The part of a turn, from 0 up to but not including 1.
    #[must_use]
    pub fn as_turns(self) -> f64 {
        f64::from(self.0) / 4_294_967_296.0
    }

    /// Returns the angle by which the platter turns until `target` passes: from 0 up to one
    /// revolution.
    #[must_use]
    pub const fn until(self, target: Self) -> Self {
        Self(target.0.wrapping_sub(self.0))
    }

    /// The shorter way from `other` to here in turns: −0.5 up to but not including 0.5.
    #[must_use]
    pub fn signed_turns_from(self, other: Self) -> f64 {
        f64::from(self.0.wrapping_sub(other.0) as i32) / 4_294_967_296.0
    }
}

impl Add for Angle {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl AddAssign for Angle {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Angle {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Angle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} turn", self.as_turns())
    }
}

/// The time of one revolution, in femtoseconds, with the reciprocal that converts times into
/// angles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RotationPeriod {
    femtos: u64,
    /// 2⁹⁶ / period in nanoseconds.
    turns_per_ns: u128,
}

impl RotationPeriod {
    /// The fastest spindle accepted: 100 µs a revolution (600,000 rpm).
    pub const SHORTEST_FS: u64 = 100_000_000_000;
    /// The slowest spindle accepted: 1 s a revolution (60 rpm).
    pub const LONGEST_FS: u64 = 1_000_000_000_000_000;

    /// A period of `femtos` femtoseconds; `None` outside 100 µs … 1 s, the range of disks.
    #[must_use]
    pub const fn from_fs(femtos: u64) -> Option<Self> {
        if femtos < Self::SHORTEST_FS || femtos > Self::LONGEST_FS {
            return None;
        }
        // 2⁹⁶ · 10⁶ needs 116 bits, so the quotient is exact to the last bit.
        Some(Self { femtos, turns_per_ns: ((1_u128 << 96) * 1_000_000) / femtos as u128 })
    }

    /// The period of a spindle of `rpm` revolutions per minute; `None` outside 60 … 600,000 rpm.
    #[must_use]
    pub fn from_rpm(rpm: f64) -> Option<Self> {
        let femtos = libm::round(60e15 / rpm);
        if femtos.is_finite() && femtos >= 0.0 { Self::from_fs(femtos as u64) } else { None }
    }

    /// The period in femtoseconds.
    #[must_use]
    pub const fn as_fs(self) -> u64 {
        self.femtos
    }

    /// The period rounded to a nanosecond: good for bounds, not for phase.
    #[must_use]
    pub const fn as_nanos(self) -> Nanos {
        Nanos::from_ns((self.femtos + 500_000) / 1_000_000)
    }

    /// The period in nanoseconds, unrounded.
    #[must_use]
    pub fn as_ns_f64(self) -> f64 {
        self.femtos as f64 / 1e6
    }

    /// Revolutions per minute.
    #[must_use]
    pub fn as_rpm(self) -> f64 {
        60e15 / self.femtos as f64
    }

    /// Returns the angle by which the platter turns in `span`, whole revolutions dropped.
    #[must_use]
    pub const fn angle_of(self, span: Nanos) -> Angle {
        Angle((self.turns_per_ns.wrapping_mul(span.as_ns() as u128) >> 64) as u32)
    }

    /// The angle under the head at `at` when the angle at the origin of the clock was `phase`.
    #[must_use]
    pub fn angle_at(self, at: Instant, phase: Angle) -> Angle {
        phase + self.angle_of(Nanos::from_ns(at.as_ns()))
    }

    /// The time in which the platter turns by `angle` (less than one revolution), rounded down to a
    /// nanosecond.
    #[must_use]
    pub const fn time_of(self, angle: Angle) -> Nanos {
        Nanos::from_ns(((angle.0 as u128 * self.femtos as u128) >> 32) as u64 / 1_000_000)
    }

    /// The time of `numerator / denominator` revolutions, which may be many, rounded to the nearest
    /// nanosecond.
    ///
    /// # Panics
    /// When `denominator` is zero.
    #[must_use]
    pub const fn time_of_turns(self, numerator: u64, denominator: u64) -> Nanos {
        let per = denominator as u128 * 1_000_000;
        Nanos::from_ns(((numerator as u128 * self.femtos as u128 + per / 2) / per) as u64)
    }
}

impl fmt::Debug for RotationPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RotationPeriod({} fs)", self.femtos)
    }
}

impl fmt::Display for RotationPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} ms ({:.2} rpm)", self.femtos as f64 / 1e12, self.as_rpm())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_quarter_of_a_7200_rpm_turn_takes_a_quarter_of_8_333_ms() {
        let period = RotationPeriod::from_rpm(7_200.0).expect("7,200 rpm is a drive's speed");
        assert_eq!(period.time_of(Angle::from_fraction(1, 4)), Nanos::from_ns(2_083_333));
        assert!(
            period
                .angle_of(Nanos::from_ns(2_083_333))
                .signed_turns_from(Angle::from_fraction(1, 4))
                .abs()
                < 1e-6
        );
    }

    #[test]
    fn speeds_that_no_disk_turns_at_are_refused() {
        for rpm in [0.0, -7_200.0, 59.0, 600_001.0, f64::NAN, f64::INFINITY] {
            assert_eq!(RotationPeriod::from_rpm(rpm), None, "{rpm} rpm");
        }
    }

    #[test]
    fn the_way_until_a_target_wraps_over_the_start_of_the_turn() {
        let late = Angle::from_fraction(9, 10);
        let early = Angle::from_fraction(1, 10);
        assert!((late.until(early).as_turns() - 0.2).abs() < 1e-9);
        assert!((early.until(late).as_turns() - 0.8).abs() < 1e-9);
        assert!((early.signed_turns_from(late) - 0.2).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn the_angle_after_a_year_is_still_exact(
            rpm in 3_000.0_f64..20_000.0,
            ns in 0_u64..31_536_000_000_000_000,
        ) {
            let period = RotationPeriod::from_rpm(rpm).expect("within the accepted range");
            let exact = (u128::from(ns) * 1_000_000 % u128::from(period.as_fs())) as f64
                / period.as_fs() as f64;
            let got = period.angle_of(Nanos::from_ns(ns));
            prop_assert!(got.signed_turns_from(Angle::from_turns(exact)).abs() < 1e-8);
        }

        #[test]
        fn time_and_angle_undo_each_other_to_a_nanosecond(
            rpm in 3_000.0_f64..20_000.0,
            raw in any::<u32>(),
        ) {
            let period = RotationPeriod::from_rpm(rpm).expect("within the accepted range");
            let angle = Angle::from_raw(raw);
            let there_and_back = period.angle_of(period.time_of(angle));
            let error_ns = angle.signed_turns_from(there_and_back) * period.as_ns_f64();
            prop_assert!((-0.01..1.01).contains(&error_ns), "{error_ns} ns");
        }

        #[test]
        fn sector_angles_never_run_back(sectors in 1_u64..5_000, index in 0_u64..4_999) {
            prop_assume!(index + 1 < sectors);
            prop_assert!(
                Angle::from_fraction(index, sectors) < Angle::from_fraction(index + 1, sectors)
            );
        }
    }
}
