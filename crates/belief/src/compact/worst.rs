//! [`Tails`]: how much longer than predicted accesses took, by region: what the worst case is
//! computed from.
//!
//! For each of [`REGIONS`] regions of the drive accesses are counted by how late they were, in
//! quarters of a revolution, and the longest is kept exactly. The worst that is answered is the
//! prediction and the asked quantile of lateness on top, rounded up to the end of its quarter; the
//! longest itself where the quantile asks for more accesses than were seen.
//!
//! Worked example, 8 ms a turn: of 1,000 accesses 980 came as predicted or sooner, 19 a revolution
//! late, one 9.3 ms late. The 0.9-quantile is 0, the 0.99-quantile would be 10 ms, the end of the
//! quarter that begins at 8, but nothing was longer than 9.3 ms: 9.3.
//!
//! Guarantees: a quantile is never below the time of the access that it is of. Cost: O(1) to take
//! in, some 40 additions to look up. 10 KiB. Source: P1 section 3.3 (the worst ever observed),
//! docs/limits.md 6 (a quantile of the completion time).

use headtime_units::{Lba, Nanos, Sectors};

/// Regions of the drive (guess: each is visited within some hundred accesses).
pub(super) const REGIONS: usize = 64;
/// Classes of lateness: none, and each quarter of a revolution up to eight.
pub(super) const CLASSES: usize = 33;
/// Fewer accesses say nothing of a region's worst.
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

    /// Takes in that an access to `lba` was `late` (zero: not at all), on a drive that turns once
    /// in `turn`.
    pub(crate) fn take(&mut self, lba: Lba, late: Nanos, turn: Nanos) {
        let region = self.region(lba);
        let tail = &mut self.regions[region];
        tail.counts[class(late, turn)] += 1;
        tail.longest = tail.longest.max(late);
    }

    /// How late nine in ten, 99 in a hundred, … of the accesses to the region of `lba` at most
    /// were; `None` where too few were seen.
    pub(super) fn quantile(&self, lba: Lba, share: f64, turn: Nanos) -> Option<Nanos> {
        let tail = self.of(lba);
        let seen: u64 = tail.counts.iter().sum();
        if seen < LEAST {
            return None;
        }
        let wanted = libm::ceil(seen as f64 * share) as u64;
        let mut below = 0;
        for (class, count) in tail.counts.iter().enumerate() {
            below += count;
            if below >= wanted && class < CLASSES - 1 {
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

/// None is 0, up to a quarter turn 1, and so on.
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
    fn the_worked_example_holds() {
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
            "the quarter ends at 10 ms, and nothing was longer than 9.3"
        );
        assert_eq!(quantile(0.9999), Some(Nanos::from_us(9_300)));
        assert_eq!(tails.quantile(Lba::new(999), 0.5, TURN), None, "nothing was seen there");
    }

    proptest! {
        #[test]
        fn no_quantile_is_below_the_access_that_it_is_of(late_ns in proptest::collection::vec(0_u64..100_000_000, 64..200), share in 0.5_f64..1.0) {
            let mut tails = Tails::new(CAPACITY);
            late_ns.iter().for_each(|ns| tails.take(Lba::new(0), Nanos::from_ns(*ns), TURN));
            let mut sorted = late_ns.clone();
            sorted.sort_unstable();
            let of = sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1];
            prop_assert!(tails.quantile(Lba::new(0), share, TURN) >= Some(Nanos::from_ns(of)));
            prop_assert_eq!(tails.quantile(Lba::new(0), 1.0, TURN), sorted.last().map(|ns| Nanos::from_ns(*ns)), "all of them: the longest");
        }
    }
}
