//! [`Remaps`]: remapped sectors, learned from repeated losses of whole turns at the same place.
//!
//! A sector that failed while the drive was in use is served from a spare. An access across it
//! moves to the spare and back, which costs two seeks and some turns. A single loss may have
//! another cause (a retry, an interrupt), so it only records a *suspect*. An access that covers the
//! suspect in time clears it. A second loss makes it *known*: the common sectors of both accesses,
//! with the smaller of the two losses. Accesses that touch a known place are then expected to take
//! that much longer.
//!
//! Worked example: a read of sectors 800 to 807 comes 16.7 ms late, two turns; later one of 804 to
//! 819 does. Sectors 804 to 807 are known to cost 16.7 ms. A read of 806 to 809 in time leaves 804
//! and 805.
//!
//! Guarantees: a single loss changes no estimate; at most [`MAX_KNOWN`] places and
//! [`MAX_SUSPECTS`] suspects are kept, the oldest are dropped first. Does not learn the location of
//! the spare. Cost: none while nothing is known, otherwise a binary search. Source: P2 sections 3.1
//! and 3.3.

use std::collections::VecDeque;

use headtime_units::{Extent, Lba, Nanos, Sectors};

/// Maximum number of known places (guess: a drive with more remapped sectors is replaced).
const MAX_KNOWN: usize = 256;
/// Maximum number of suspects (guess).
const MAX_SUSPECTS: usize = 64;
/// Maximum loss of a remapped sector; a longer one is a spin-up or a reset (guess).
const MAX_LOST: Nanos = Nanos::from_ms(200);

/// The known and suspected places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remaps {
    /// In the order of addresses, without overlap.
    known: Vec<Remapped>,
    /// In the order in which they were recorded.
    suspects: VecDeque<Remapped>,
    /// The number of losses, by which the place with the oldest loss is found.
    losses: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remapped {
    extent: Extent,
    lost: Nanos,
    last_loss: u64,
}

impl Remaps {
    /// The expected loss of an access to `extent`.
    #[inline]
    pub(crate) fn lost(&self, extent: Extent) -> Nanos {
        if self.known.is_empty() {
            return Nanos::ZERO;
        }
        self.known[self.touched(extent)].iter().fold(Nanos::ZERO, |sum, known| sum + known.lost)
    }

    /// Observes that an access to `extent` took `lost` longer than without remapped sectors, and
    /// that the arm was not the cause.
    pub(crate) fn late(&mut self, extent: Extent, lost: Nanos) {
        if lost > MAX_LOST {
            return;
        }
        self.losses += 1;
        let touched = self.touched(extent);
        if let [known] = &mut self.known[touched.clone()] {
            // The smallest loss at this place; anything above it had another cause.
            known.lost = known.lost.min(lost);
            known.extent = known.extent.intersection(extent).unwrap_or(known.extent);
            known.last_loss = self.losses;
        }
        if !touched.is_empty() {
            return;
        }
        let here = Remapped { extent, lost, last_loss: self.losses };
        let Some(place) = self.suspects.iter().position(|suspect| suspect.extent.overlaps(extent))
        else {
            if self.suspects.len() == MAX_SUSPECTS {
                self.suspects.pop_front();
            }
            return self.suspects.push_back(here);
        };
        let suspect = self.suspects.remove(place).unwrap_or(here);
        let common = suspect.extent.intersection(extent).unwrap_or(extent);
        if self.known.len() == MAX_KNOWN {
            let oldest = (0..MAX_KNOWN).min_by_key(|place| self.known[*place].last_loss);
            oldest.map(|oldest| self.known.remove(oldest));
        }
        let place = self.known.partition_point(|known| known.extent.start < common.start);
        self.known.insert(
            place,
            Remapped { extent: common, lost: suspect.lost.min(lost), last_loss: self.losses },
        );
    }

    /// Observes that an access to `extent` took no longer than without remapped sectors.
    pub(crate) fn in_time(&mut self, extent: Extent) {
        if self.suspects.iter().any(|suspect| suspect.extent.overlaps(extent)) {
            self.suspects =
                self.suspects.iter().filter_map(|suspect| suspect.without(extent)).collect();
        }
        if !self.known.is_empty() {
            let touched = self.touched(extent);
            if touched.is_empty() {
                return;
            }
            let left: Vec<Remapped> = self.known[touched.clone()]
                .iter()
                .filter_map(|known| known.without(extent))
                .collect();
            self.known.splice(touched, left);
        }
    }

    /// The known places that an extent touches.
    fn touched(&self, extent: Extent) -> std::ops::Range<usize> {
        let first = self.known.partition_point(|known| known.extent.end() <= extent.start);
        let count = self.known[first..].partition_point(|known| known.extent.start < extent.end());
        first..first + count
    }
}

impl Remapped {
    /// The remaining part of the place without `extent`: the larger part if there are two.
    fn without(self, extent: Extent) -> Option<Self> {
        let (start, end) = (self.extent.start.get(), self.extent.end().get());
        let (from, to) =
            (extent.start.get().clamp(start, end), extent.end().get().clamp(start, end));
        if from >= to {
            return Some(self);
        }
        let (first, last) = ((start, from), (to, end));
        let (start, end) = if first.1 - first.0 >= last.1 - last.0 { first } else { last };
        (start < end).then(|| Self {
            extent: Extent::new(Lba::new(start), Sectors::new(end - start)),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const TWO_TURNS: Nanos = Nanos::from_us(16_700);

    fn extent(start: u64, len: u64) -> Extent {
        Extent::from_numbers(start, len)
    }

    #[test]
    fn the_worked_example_holds() {
        let mut remaps = Remaps::default();
        remaps.late(extent(800, 8), TWO_TURNS + Nanos::from_us(20));
        assert_eq!(remaps.lost(extent(800, 8)), Nanos::ZERO, "a single loss changes nothing");
        remaps.late(extent(804, 16), TWO_TURNS);
        assert_eq!(
            [800, 804, 807, 808].map(|start| remaps.lost(extent(start, 1))),
            [Nanos::ZERO, TWO_TURNS, TWO_TURNS, Nanos::ZERO]
        );
        remaps.in_time(extent(806, 4));
        assert_eq!(
            [804, 805, 806].map(|start| remaps.lost(extent(start, 1))),
            [TWO_TURNS, TWO_TURNS, Nanos::ZERO]
        );
    }

    #[test]
    fn a_place_that_was_read_in_time_in_between_is_no_suspect_any_more() {
        let mut remaps = Remaps::default();
        for _ in 0..5 {
            remaps.late(extent(800, 8), TWO_TURNS);
            remaps.in_time(extent(796, 16));
        }
        assert_eq!(remaps.known.len(), 0);
    }

    #[test]
    fn retries_all_over_a_drive_make_no_place_known() {
        for seed in 1..=5 {
            let (mut remaps, mut rng) = (Remaps::default(), ChaCha8Rng::seed_from_u64(seed));
            for _ in 0..200_000 {
                let place = extent(rng.random_range(0..10_000) * 8, 8);
                if rng.random_bool(0.001) {
                    remaps.late(place, TWO_TURNS)
                } else {
                    remaps.in_time(place)
                }
            }
            // Two retries at one place without an access in time between them: one in a thousand of
            // the two hundred.
            assert!(remaps.known.len() <= 1, "seed {seed}: {} places", remaps.known.len());
        }
    }

    #[test]
    fn lists_are_bounded_in_order_and_without_overlap() {
        for seed in 1..=5 {
            let (mut remaps, mut rng) = (Remaps::default(), ChaCha8Rng::seed_from_u64(seed));
            for _ in 0..20_000 {
                let place = extent(rng.random_range(0..20_000), rng.random_range(1..40));
                if rng.random_bool(0.9) {
                    remaps.late(place, TWO_TURNS)
                } else {
                    remaps.in_time(place)
                }
                assert!(
                    remaps.known.len() <= MAX_KNOWN && remaps.suspects.len() <= MAX_SUSPECTS,
                    "seed {seed}"
                );
                let in_order = remaps
                    .known
                    .windows(2)
                    .all(|pair| pair[0].extent.end() <= pair[1].extent.start);
                assert!(in_order, "seed {seed}: {:?}", remaps.known);
            }
        }
    }
}
