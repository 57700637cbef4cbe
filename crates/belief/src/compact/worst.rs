//! [`Tails`]: the excess of access times over predictions, by region; the basis of the worst case.
//!
//! For each of [`REGIONS`] regions of the drive, accesses are counted by lateness in quarters of a
//! revolution, and the maximum is kept exactly. The worst case is the prediction plus the requested
//! quantile of lateness, rounded up to the end of its quarter. It is the maximum if the quantile
//! needs more accesses than were observed.
//!
//! Worked example, 8 ms a turn: of 1,000 accesses 980 completed as predicted or sooner, 19 a
//! revolution late, one 9.3 ms late. The 0.9-quantile is 0. The 0.99-quantile would be 10 ms, the
//! end of the quarter that begins at 8, but the maximum is 9.3 ms.
//!
//! Guarantees: a quantile is never below the lateness of the access at that rank. Cost: O(1) per
//! access, some 40 additions per lookup. 10 KiB. Source: P1 section 3.3 (the worst ever observed),
//! docs/limits.md 6 (a quantile of the completion time).

use headtime_units::{Lba, Nanos, Sectors};

/// Regions of the drive (guess: each is visited within some hundred accesses).
pub(super) const REGIONS: usize = 64;
/// Classes of lateness: none, and each quarter of a revolution up to eight.
pub(super) const CLASSES: usize = 33;
/// The number of accesses below which the worst case of a region is unknown.
pub(super) const LEAST: u64 = 64;

/// Lateness by region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tails {
    capacity: u64,
    regions: Vec<Tail>,
}

/// Lateness of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) counts: [u64; CLASSES],
    pub(super) longest: Nanos,
}

impl Tails {
    pub(super) fn new(capacity: Sectors) -> Self {
        Self {
            capacity: capacity.get().max(1),
            regions: vec![Tail { counts: [0; CLASSES], longest: Nanos::ZERO }; REGIONS],
        }
    }

    /// The tails of a saved map.
    pub(super) fn restored(capacity: Sectors, regions: Vec<Tail>) -> Option<Self> {
        (regions.len() == REGIONS).then(|| Self { capacity: capacity.get().max(1), regions })
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.regions.len() * size_of::<Tail>()) as u64
    }

    pub(super) fn regions(&self) -> &[Tail] {
        &self.regions
    }

    /// Records that an access to `lba` was `late` (zero: not at all), on a drive with a revolution
    /// of `turn`.
    pub(crate) fn take(&mut self, lba: Lba, late: Nanos, turn: Nanos) {
        let region = self.region(lba);
        let tail = &mut self.regions[region];
        tail.counts[class(late, turn)] += 1;
        tail.longest = tail.longest.max(late);
    }

    /// The lateness that the given share of accesses to the region of `lba` does not exceed; `None`
    /// if too few were observed.
    pub(super) fn quantile(&self, lba: Lba, share: f64, turn: Nanos) -> Option<Nanos> {
        let tail = self.of(lba);
        let seen: u64 = tail.counts.iter().sum();
        if seen < LEAST {
            return None;
        }
        let rank = libm::ceil(seen as f64 * share) as u64;
        let mut below = 0;
        for (class, count) in tail.counts.iter().enumerate() {
            below += count;
            if below >= rank && class < CLASSES - 1 {
                let end = Nanos::from_ns((turn.as_ns() * class as u64).div_ceil(4));
                return Some(end.min(tail.longest));
            }
        }
        Some(tail.longest)
    }

    fn of(&self, lba: Lba) -> &Tail {
        &self.regions[self.region(lba)]
    }

    fn region(&self, lba: Lba) -> usize {
        let region = u128::from(lba.get()) * REGIONS as u128 / u128::from(self.capacity);
        (region as usize).min(REGIONS - 1)
    }
}

/// The class of a lateness: 0 for none, 1 up to a quarter turn, and so on.
fn class(late: Nanos, turn: Nanos) -> usize {
    let quarters = (u128::from(late.as_ns()) * 4).div_ceil(u128::from(turn.as_ns().max(1)));
    quarters.min(CLASSES as u128 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TURN: Nanos = Nanos::from_us(8_000);
    const CAPACITY: Sectors = Sectors::new(1_000);

    #[test]
    fn the_worked_example_is_reproduced() {
        let mut tails = Tails::new(CAPACITY);
        let here = Lba::new(7);
        (0..980).for_each(|_| tails.take(here, Nanos::ZERO, TURN));
        (0..19).for_each(|_| tails.take(here, Nanos::from_us(8_100), TURN));
        tails.take(here, Nanos::from_us(9_300), TURN);
        let quantile = |share| tails.quantile(here, share, TURN);
        assert_eq!(quantile(0.9), Some(Nanos::ZERO));
        assert_eq!(
            quantile(0.99),
            Some(Nanos::from_us(9_300)),
            "the quarter ends at 10 ms, but the maximum is 9.3 ms"
        );
        assert_eq!(quantile(0.9999), Some(Nanos::from_us(9_300)));
        assert_eq!(tails.quantile(Lba::new(999), 0.5, TURN), None, "no access was observed there");
    }

    proptest! {
        #[test]
        fn no_quantile_is_below_the_access_at_its_rank(
            late_ns in proptest::collection::vec(0_u64..100_000_000, 64..200),
            share in 0.5_f64..1.0,
        ) {
            let mut tails = Tails::new(CAPACITY);
            late_ns.iter().for_each(|ns| tails.take(Lba::new(0), Nanos::from_ns(*ns), TURN));
            let mut sorted = late_ns.clone();
            sorted.sort_unstable();
            let of =
                sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1];
            prop_assert!(tails.quantile(Lba::new(0), share, TURN) >= Some(Nanos::from_ns(of)));
            prop_assert_eq!(
                tails.quantile(Lba::new(0), 1.0, TURN),
                sorted.last().map(|ns| Nanos::from_ns(*ns)),
                "the quantile of all accesses is the maximum"
            );
        }
    }
}
