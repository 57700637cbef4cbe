//! [`RandomTimes`]: events of a Poisson process, such as growing defects and recalibrations.
//!
//! The intervals are exponentially distributed around the mean. [`GrownDefects`] adds a uniformly
//! drawn sector to each: its contents move to a spare, and later accesses make a trip there.
//! Without a free spare nothing happens. Worked example, 0.5 an hour: after a day about 12 sectors
//! have moved, each costing an access that passes over it up to two seeks and revolutions.
//!
//! - Modelled: time and place; remapping by [`Layout::remap`](headtime_mechanics::Layout::remap).
//! - Not modelled: the errors and retries by which a drive detects a defect, and the time of the
//!   move.
//! - Differs from a drive: real defects come in scratches, side by side.

use headtime_units::{Instant, Lba, Nanos};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::exponential;

/// The time of the next event.
#[derive(Clone, Debug)]
pub(super) struct RandomTimes {
    rng: ChaCha8Rng,
    mean_ns: f64,
    next: Instant,
}

impl RandomTimes {
    /// Events at a rate; none at a rate of zero.
    pub(super) fn new(per_hour: f64, seed: u64) -> Option<Self> {
        let mean_ns = Nanos::from_ms_f64(MS_OF_AN_HOUR / per_hour)?.as_ns() as f64;
        let mut times =
            Self { rng: ChaCha8Rng::seed_from_u64(seed), mean_ns, next: Instant::ORIGIN };
        times.advance();
        Some(times)
    }

    /// True if an event is due by `now`; each is due once.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let due = self.next <= now;
        if due {
            self.advance();
        }
        due
    }

    fn advance(&mut self) {
        // At least one nanosecond, so that a loop over due events ends.
        self.next += exponential(&mut self.rng, self.mean_ns) + Nanos::from_ns(1);
    }
}

/// The time and place of the next defect.
#[derive(Clone, Debug)]
pub(super) struct GrownDefects {
    times: RandomTimes,
    sectors: u64,
}

impl GrownDefects {
    /// Defects at a rate on a drive of `sectors` sectors; none at a rate of zero.
    pub(super) fn new(per_hour: f64, sectors: u64, seed: u64) -> Option<Self> {
        let times = RandomTimes::new(per_hour, seed)?;
        (sectors > 0).then_some(Self { times, sectors })
    }

    /// The next sector that became defective by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Lba> {
        let due = self.times.take_due(now);
        due.then(|| Lba::new(self.times.rng.random_range(0..self.sectors)))
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
