//! [`Usage`]: the recent use of the drive, as an exponential moving average; and [`Recent`], the
//! mean of the last times.
//!
//! Time used `t` ago counts with e^(−t / T). A constant use of a share `s` adds up to `s · T`, so
//! the average divided by T is the share.
//!
//! Worked example, T = 3 s: a second of disk time at once is a share of 33 %, three seconds later
//! of 12 %.

use headtime_units::{Instant, Nanos};

/// Time used, weighed by age.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    used_ns: f64,
    at: Instant,
}

/// The time T of the average (P5, section 4.4: "a window of a few seconds").
pub(crate) const WINDOW: Nanos = Nanos::from_secs(3);

impl Usage {
    /// Nothing used by `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { used_ns: 0.0, at: now }
    }

    /// Notes that so much was used, or, below zero, that so much less was used than had been noted.
    pub(crate) fn note(&mut self, now: Instant, ns: i64) {
        self.used_ns = self.weighed(now) + ns as f64;
        self.at = now;
    }

    /// The recent share of the drive; briefly negative after a correction.
    pub(crate) fn share(&self, now: Instant) -> f64 {
        self.weighed(now) / WINDOW.as_ns() as f64
    }

    fn weighed(&self, now: Instant) -> f64 {
        let age = now.saturating_since(self.at).as_ns();
        if age == 0 {
            self.used_ns
        } else {
            self.used_ns * libm::exp(-(age as f64) / WINDOW.as_ns() as f64)
        }
    }
}

/// The mean of a number of recent times, the last with the highest weight; of all of them while
/// there are fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    mean_ns: f64,
    count: u32,
    most: u32,
}

impl Recent {
    /// Of so many, none of which was noted so far.
    pub(crate) fn of(most: u32) -> Self {
        Self { mean_ns: 0.0, count: 0, most }
    }

    /// Notes another.
    pub(crate) fn note(&mut self, time: Nanos) {
        self.count = (self.count + 1).min(self.most);
        self.mean_ns += (time.as_ns() as f64 - self.mean_ns) / f64::from(self.count);
    }

    /// The mean; zero before the first.
    pub(crate) fn mean(&self) -> Nanos {
        Nanos::from_ns(self.mean_ns as u64)
    }

    /// The number of times recorded, at most the size of the mean.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_header_holds() {
        let mut usage = Usage::new(Instant::ORIGIN);
        let at = |secs| Instant::ORIGIN + Nanos::from_secs(secs);
        usage.note(at(1), 1_000_000_000);
        assert!((usage.share(at(1)) - 1.0 / 3.0).abs() < 1e-9);
        assert!((usage.share(at(4)) - 0.1226).abs() < 1e-4);
    }

    #[test]
    fn constant_use_of_a_share_averages_to_that_share() {
        let mut usage = Usage::new(Instant::ORIGIN);
        for ms in (0..30_000).step_by(10) {
            usage.note(Instant::ORIGIN + Nanos::from_ms(ms), 4_000_000);
        }
        assert!((usage.share(Instant::ORIGIN + Nanos::from_ms(29_990)) - 0.4).abs() < 0.001);
    }

    #[test]
    fn the_first_few_times_count_alike_and_later_ones_more_than_those_before() {
        let mut recent = Recent::of(4);
        assert_eq!((recent.mean(), recent.count()), (Nanos::ZERO, 0));
        for (ms, mean) in [(6, 6_000), (2, 4_000), (7, 5_000), (1, 4_000), (8, 5_000)] {
            recent.note(Nanos::from_ms(ms));
            assert_eq!(recent.mean(), Nanos::from_us(mean));
        }
        assert_eq!(recent.count(), 4);
    }
}
