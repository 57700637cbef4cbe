//! [`Pace`]: the media time per sector of long requests, by region of the drive.
//!
//! A request longer than a cell is split for estimates: its first cell forms a pair with the
//! previous cell, and the following cells are read from the media in sequence. Their time per
//! sector is learned from long requests with a predicted start: a slow mean in each of sixteen
//! regions, because outer tracks hold more.
//!
//! Worked example, 2.56 us per sector guessed: a MiB, 2,048 sectors, in cells of 256, whose start
//! was predicted to take 6 ms, takes 13.17 ms. 7.17 ms for 1,792 sectors after the first cell are 4
//! us per sector. It is the first observation of its region, so its pace becomes 4 us.
//!
//! Not learned: the pace within a cell. It must not change, because an entry of the map is an
//! observation less this media time. Cost: O(1). Source: ours, on P1 section 3.1.

use headtime_units::{Lba, Nanos, Sectors};

/// Time per sector, by region.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    capacity: u64,
    guess_ns: f64,
    regions: [Region; REGIONS],
}

#[derive(Clone, Copy, Debug)]
struct Region {
    seen: f64,
    sector_ns: f64,
}

impl Pace {
    /// Creates the regions of a drive, with a guess of the time per sector.
    pub(super) fn new(capacity: Sectors, sector_ns: f64) -> Self {
        Self {
            capacity: capacity.get().max(1),
            guess_ns: sector_ns,
            regions: [Region { seen: 0.0, sector_ns }; REGIONS],
        }
    }

    /// The media time of `sectors` from `start` on.
    pub(super) fn time(&self, start: Lba, sectors: Sectors) -> Nanos {
        Nanos::from_ns((self.regions[self.region(start)].sector_ns * sectors.get() as f64) as u64)
    }

    /// Observes that `sectors` from `start` on took `time`; zero sectors are ignored.
    pub(super) fn observe(&mut self, start: Lba, sectors: Sectors, time: Nanos) {
        if sectors.is_zero() {
            return;
        }
        let observed = (time.as_ns() as f64 / sectors.get() as f64)
            .clamp(self.guess_ns / FURTHEST, self.guess_ns * FURTHEST);
        let region = self.region(start);
        let region = &mut self.regions[region];
        region.seen += 1.0;
        region.sector_ns += (observed - region.sector_ns) * (1.0 / region.seen).max(STEADY_WEIGHT);
    }

    fn region(&self, lba: Lba) -> usize {
        let region = u128::from(lba.get()) * REGIONS as u128 / u128::from(self.capacity);
        (region as usize).min(REGIONS - 1)
    }
}

/// Regions of the drive (guess: about as many as it has zones).
const REGIONS: usize = 16;
/// Minimum weight of an observation (guess).
const STEADY_WEIGHT: f64 = 1.0 / 64.0;
/// Maximum ratio of the pace to the guess, either way: other values have another cause, a cache hit
/// or a retry (guess).
const FURTHEST: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_has_its_own_pace_within_bounds() {
        let mut pace = Pace::new(Sectors::new(16_000_000), 2_560.0);
        let of = |pace: &Pace, lba: u64| pace.time(Lba::new(lba), Sectors::new(1_000)).as_ns();
        assert_eq!(of(&pace, 0), 2_560_000);
        pace.observe(Lba::new(100), Sectors::new(1_792), Nanos::from_us(7_168));
        assert_eq!((of(&pace, 999_999), of(&pace, 1_000_000)), (4_000_000, 2_560_000));
        pace.observe(Lba::new(15_999_999), Sectors::new(10), Nanos::from_secs(1));
        assert_eq!(of(&pace, u64::MAX), 8 * 2_560_000);
        pace.observe(Lba::new(0), Sectors::ZERO, Nanos::from_secs(1));
        assert_eq!(of(&pace, 0), 4_000_000);
    }
}
