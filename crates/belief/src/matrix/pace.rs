//! [`Pace`]: how fast long requests go on once they have begun, by region of the drive.
//!
//! A request longer than a cell is split for estimates: its first cell is a pair with the cell
//! before it, the cells behind it follow on the media. What these take per sector is learned from
//! long requests whose beginning could be predicted: a slow mean in each of sixteen regions,
//! because outer tracks hold more.
//!
//! Worked example, 2.56 us per sector guessed: a MiB, 2,048 sectors, in cells of 256, of which the
//! beginning was predicted to take 6 ms, takes 13.17 ms. 7.17 ms for 1,792 sectors behind the first
//! cell are 4 us per sector; it is the first of its region, so 4 us is what is believed there.
//!
//! Not learned: the pace within a cell. It must stay as it is, because an entry of the map is an
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
    /// A drive of this size that is guessed to take so long for a sector.
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

    /// Takes in that `sectors` from `start` on took `time`; none teach nothing.
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
/// Weight of an observation once much has been seen (guess).
const STEADY_WEIGHT: f64 = 1.0 / 64.0;
/// How many times faster or slower than the guess a drive can be: what is beyond was something
/// else, a hit or a retry (guess).
const FURTHEST: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_has_its_own_pace_and_nothing_is_believed_that_no_medium_does() {
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
