//! [`GrownDefects`]: sectors that become defective at run time and are remapped to a spare.
//!
//! Defects are a Poisson process: exponentially distributed intervals around the profile's mean,
//! each at a uniformly drawn sector. The contents move to the spare; later accesses make a trip
//! there. Without a free spare nothing happens. Worked example, 0.5 an hour: after a day about 12
//! sectors have moved, each costing an access that passes over it up to two seeks and revolutions.
//!
//! - Modelled: time and place; remapping by [`Layout::remap`](headtime_mechanics::Layout::remap).
//! - Not modelled: the errors and retries by which a drive detects a defect, and the time of the
//!   move.
//! - Differs from a drive: real defects come in scratches, side by side.

use headtime_units::{Instant, Lba, Nanos};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The time and place of the next defect.
#[derive(Clone, Debug)]
pub(super) struct GrownDefects {
    rng: ChaCha8Rng,
    mean: Nanos,
    sectors: u64,
    next: Instant,
}

impl GrownDefects {
    /// Defects at a rate on a drive of `sectors` sectors; none at a rate of zero.
    pub(super) fn new(per_hour: f64, sectors: u64, seed: u64) -> Option<Self> {
        if per_hour <= 0.0 || sectors == 0 {
            return None;
        }
        let mean = Nanos::from_ms_f64(MS_OF_AN_HOUR / per_hour)?;
        let mut defects =
            Self { rng: ChaCha8Rng::seed_from_u64(seed), mean, sectors, next: Instant::ORIGIN };
        defects.next = Instant::ORIGIN + defects.wait();
        Some(defects)
    }

    /// The next sector that became defective by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Lba> {
        if self.next > now {
            return None;
        }
        let wait = self.wait();
        self.next += wait;
        Some(Lba::new(self.rng.random_range(0..self.sectors)))
    }

    fn wait(&mut self) -> Nanos {
        // 53 bits, never 0.
        let even = ((self.rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        // At least one nanosecond, so that the loop over due defects ends.
        Nanos::from_ns(1 + (-libm::log(even) * self.mean.as_ns() as f64) as u64)
    }
}

const MS_OF_AN_HOUR: f64 = 3_600_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_as_often_as_the_profile_says_and_all_over_the_drive() {
        let mut defects = GrownDefects::new(2.0, 1_000, 5).expect("two an hour");
        let hours = 5_000;
        let sectors: Vec<u64> = std::iter::from_fn(|| {
            defects.take_due(Instant::ORIGIN + Nanos::from_secs(3_600 * hours))
        })
        .map(Lba::get)
        .collect();
        assert!((9_600..10_400).contains(&sectors.len()), "{} in {hours} hours", sectors.len());
        let outer =
            sectors.iter().filter(|sector| **sector < 500).count() as f64 / sectors.len() as f64;
        assert!((outer - 0.5).abs() < 0.03, "{outer} in the outer half");
        assert!(GrownDefects::new(0.0, 1_000, 5).is_none());
    }
}
