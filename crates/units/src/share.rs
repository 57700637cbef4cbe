//! A share of a whole, such as of a drive's time, in billionths.

use core::fmt;

use crate::Nanos;

/// A share from 0 to 1 in units of 10⁻⁹, so that one unit is one nanosecond of disk time per
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Share(u32);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The whole.
    pub const WHOLE: Self = Self(1_000_000_000);

    /// A share of `billionths`; `None` above the whole.
    #[must_use]
    pub const fn from_billionths(billionths: u32) -> Option<Self> {
        if billionths <= Self::WHOLE.0 { Some(Self(billionths)) } else { None }
    }

    /// A share from a fraction of one; `None` outside 0 … 1.
    #[must_use]
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        (0.0..=1.0).contains(&fraction).then(|| Self(libm::round(fraction * 1e9) as u32))
    }

    /// The share in billionths.
    #[must_use]
    pub const fn as_billionths(self) -> u32 {
        self.0
    }

    /// The share as a fraction of one.
    #[must_use]
    pub fn as_fraction(self) -> f64 {
        f64::from(self.0) / 1e9
    }

    /// This share of `span`, rounded down.
    #[must_use]
    pub const fn of(self, span: Nanos) -> Nanos {
        Nanos::from_ns((span.as_ns() as u128 * self.0 as u128 / 1_000_000_000) as u64)
    }

    /// Both shares together, `None` above the whole.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        Self::from_billionths(self.0 + other.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.as_fraction() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_between_nothing_and_the_whole() {
        assert_eq!(Share::from_fraction(1.0), Some(Share::WHOLE));
        assert_eq!(Share::from_fraction(1.001), None);
        assert_eq!(Share::from_fraction(f64::NAN), None);
        assert_eq!(
            Share::WHOLE.checked_add(Share::from_billionths(1).expect("one billionth is a share")),
            None
        );
        assert_eq!(
            Share::from_fraction(0.25).map(|share| share.of(Nanos::from_secs(2))),
            Some(Nanos::from_ms(500))
        );
    }
}
