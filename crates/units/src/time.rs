//! Time: points ([`Instant`]) and spans ([`Nanos`]) in integer nanoseconds.
//!
//! The origin of instants is chosen by the caller: virtual time starts at zero, real time is
//! `CLOCK_MONOTONIC_RAW`. No function here reads a clock.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A point in time, in nanoseconds since an origin that the owner of the clock chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Instant(u64);

/// A span of time in nanoseconds; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Nanos(u64);

impl Instant {
    /// The origin of the clock.
    pub const ORIGIN: Self = Self(0);
    /// Later than every instant that a clock can show; stands for "never" in comparisons.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `ns` nanoseconds after the origin.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Seconds since the origin, for text and plots only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to here, zero when `earlier` is in fact later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The span from `earlier` to here, `None` when `earlier` is in fact later.
    #[must_use]
    pub const fn checked_since(self, earlier: Self) -> Option<Nanos> {
        match self.0.checked_sub(earlier.0) {
            Some(ns) => Some(Nanos(ns)),
            None => None,
        }
    }

    /// Signed nanoseconds from `other` to here (negative when `other` is later); saturates at the
    /// ends of `i64`.
    #[must_use]
    pub fn signed_since(self, other: Self) -> i64 {
        let difference = i128::from(self.0) - i128::from(other.0);
        difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// `span` before here, the origin at the earliest.
    #[must_use]
    pub const fn saturating_back(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// `signed_ns` after (or, negative, before) here; saturates at the origin and at
    /// [`Instant::NEVER`].
    #[must_use]
    pub const fn offset_by_ns(self, signed_ns: i64) -> Self {
        Self(self.0.saturating_add_signed(signed_ns))
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span there is.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A span of `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A span of `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// A span of `secs` seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The nearest whole nanosecond to `ms` milliseconds, `None` when that is negative, not a
    /// number or too long.
    #[must_use]
    pub fn from_ms_f64(ms: f64) -> Option<Self> {
        let ns = libm::round(ms * 1e6);
        (ns >= 0.0 && ns < u64::MAX as f64).then_some(Self(ns as u64))
    }

    /// The span in nanoseconds.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span in microseconds, for text and plots only.
    #[must_use]
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// The span in milliseconds, for text and plots only.
    #[must_use]
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span in seconds, for text and plots only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span less `other`, zero at the least.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This span and `other` together, [`Nanos::MAX`] at the most.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This span `times` over, [`Nanos::MAX`] at the most.
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    /// Returns whether the span is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Nanos> for Instant {
    fn add_assign(&mut self, span: Nanos) {
        *self = *self + span;
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// Panics when `other` is longer: a negative span is a programmer's error.
    fn sub(self, other: Self) -> Self {
        Self(
            self.0
                .checked_sub(other.0)
                .expect("the span subtracted is no longer than the span it is subtracted from"),
        )
    }
}

impl SubAssign for Nanos {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Div<u64> for Nanos {
    type Output = Self;
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Instant {
    /// Seconds to the microsecond, as in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}

impl fmt::Display for Nanos {
    /// The largest unit that keeps three digits before or after the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0 s"),
            ns if ns < 1_000 => write!(f, "{ns} ns"),
            ns if ns < 1_000_000 => write!(f, "{:.3} us", ns as f64 / 1e3),
            ns if ns < 1_000_000_000 => write!(f, "{:.3} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.3} s", ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn points_and_spans_meet_only_where_it_makes_sense() {
        let start = Instant::from_ns(1_000);
        assert_eq!(start + Nanos::from_us(2), Instant::from_ns(3_000));
        assert_eq!(Instant::from_ns(3_000).checked_since(start), Some(Nanos::from_ns(2_000)));
        assert_eq!(start.checked_since(Instant::from_ns(3_000)), None);
        assert_eq!(start.signed_since(Instant::from_ns(3_000)), -2_000);
    }

    #[test]
    fn never_stays_never_whatever_is_added() {
        assert_eq!(Instant::NEVER + Nanos::from_secs(5), Instant::NEVER);
    }

    #[test]
    #[should_panic(expected = "no longer than")]
    fn a_negative_span_is_a_programmers_error() {
        let _ = Nanos::from_ns(1) - Nanos::from_ns(2);
    }

    #[test]
    fn spans_print_in_the_unit_a_reader_would_choose() {
        assert_eq!(Nanos::from_ns(999).to_string(), "999 ns");
        assert_eq!(Nanos::from_ns(4_166_667).to_string(), "4.167 ms");
        assert_eq!(Nanos::from_ms_f64(5.985_037), Some(Nanos::from_ns(5_985_037)));
        assert_eq!(Nanos::from_ms_f64(-1.0), None);
        assert_eq!(Nanos::from_ms_f64(f64::NAN), None);
    }
}
