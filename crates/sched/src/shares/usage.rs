//! [`Usage`]: how much of the drive somebody has used of late, as a moving average that weighs by age.
//!
//! What was used `t` ago counts with e^(−t / T). Somebody who uses a share `s` of the drive all the time comes to `s · T`, so that the average divided by T is the share.
//!
//! Worked example, T = 3 s: a second of disk time at once is a share of 33 %, three seconds later of 12 %.

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

    /// The share of the drive used of late; for a moment after a correction it may be below zero.
    pub(crate) fn share(&self, now: Instant) -> f64 {
        self.weighed(now) / WINDOW.as_ns() as f64
    }

    fn weighed(&self, now: Instant) -> f64 {
        let age = now.saturating_since(self.at).as_ns();
        if age == 0 { self.used_ns } else { self.used_ns * libm::exp(-(age as f64) / WINDOW.as_ns() as f64) }
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
    fn who_uses_a_share_all_the_time_comes_to_that_share() {
        let mut usage = Usage::new(Instant::ORIGIN);
        for ms in (0..30_000).step_by(10) {
            usage.note(Instant::ORIGIN + Nanos::from_ms(ms), 4_000_000);
        }
        assert!((usage.share(Instant::ORIGIN + Nanos::from_ms(29_990)) - 0.4).abs() < 0.001);
    }
}
