//! Fractions of a revolution as wrapping integers: 2⁻⁶⁴ for look-ups, 2⁻¹²⁸ for their preparation
//! ([`FineTurns`]).
//!
//! A skew of `n` sectors on a track of `s` is `n·2¹²⁸/s`, rounded down; a sum of such skews wraps,
//! and is rounded *up* to 2⁻⁶⁴ revolution once, at the end. The angle of a sector is then a sum of
//! a few products (bands, surfaces, steps, sectors) and exceeds the exact one by less than 2⁻⁶⁴
//! revolution for each counted step. The exact angle of whole sectors is a multiple of 1/s
//! revolution, so its first 32 bits are exact as long as fewer than 2³²/s steps are counted:
//! 800,000 with 5,000 sectors on a track.

/// A fraction of a revolution in units of 2⁻¹²⁸.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FineTurns(u128);

impl FineTurns {
    /// `sectors` (fractions allowed) of a track of `sectors_per_track`; not negative, less than a
    /// revolution.
    pub(crate) fn of_sectors(sectors: f64, sectors_per_track: u32) -> Self {
        let track = u128::from(sectors_per_track);
        let whole = libm::floor(sectors);
        let part = ((sectors - whole) * 18_446_744_073_709_551_616.0) as u64;
        let whole = u128::from(whole as u64) << 64;
        let whole_turns = ((whole / track) << 64).wrapping_add(((whole % track) << 64) / track);
        Self(whole_turns.wrapping_add((u128::from(part) << 64) / track))
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    pub(crate) fn times(self, count: u64) -> Self {
        Self(self.0.wrapping_mul(u128::from(count)))
    }

    /// In units of 2⁻⁶⁴ revolution, rounded up.
    pub(crate) fn rounded_up(self) -> u64 {
        (self.0.wrapping_add(u128::from(u64::MAX)) >> 64) as u64
    }
}

/// The angle of one sector in units of 2⁻⁶⁴ revolution, rounded up; 0, a whole revolution, for a
/// track of one sector.
pub(crate) const fn of_one_sector(sectors_per_track: u32) -> u64 {
    (u64::MAX / sectors_per_track as u64).wrapping_add(1)
}

/// A measured angle, 0 up to but not including 1 revolution, in units of 2⁻⁶⁴ revolution.
pub(crate) fn from_turns(turns: f64) -> u64 {
    (turns * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::Angle;
    use proptest::prelude::*;

    #[test]
    fn parts_of_a_sector_count() {
        assert_eq!(FineTurns::of_sectors(0.5, 2).rounded_up(), 1 << 62);
        assert_eq!(FineTurns::of_sectors(1.25, 4).rounded_up(), (1 << 62) + (1 << 60));
        assert_eq!(FineTurns::of_sectors(0.5, 1).rounded_up(), 1 << 63);
        assert_eq!(of_one_sector(1), 0);
        assert_eq!(from_turns(0.75), 3 << 62);
    }

    proptest! {
        #[test]
        fn many_steps_of_whole_sectors_are_exact_to_the_last_bit(
            spt in 1_u32..65_536,
            skew in 0.0_f64..1.0,
            counts in (0_u64..60_000, 1_u64..300),
        ) {
            let skew = (skew * f64::from(spt)) as u64;
            let step = FineTurns::of_sectors(skew as f64, spt);
            let row = step.times(counts.1).rounded_up();
            let sum = row
                .wrapping_mul(counts.0)
                .wrapping_add(step.rounded_up().wrapping_mul(counts.1));
            let exact = Angle::from_fraction(skew * counts.1 * (counts.0 + 1), u64::from(spt));
            prop_assert_eq!(Angle::from_raw((sum >> 32) as u32), exact);
        }
    }
}
