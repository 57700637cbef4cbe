//! [`Cascade`]: the arrivals of the b-model, drawn one by one in memory proportional to the number
//! of levels.
//!
//! Worked example: 8 requests a second, bias 0.75, a window of 1 s, two levels. The window has a
//! mass of 8; a coin gives 6 to its first half and 2 to its second; within the first half another
//! gives 4.5 to the second quarter and 1.5 to the first. Fractions are carried over: the first
//! quarter has 1 request and leaves 0.5, the second has 5. Those five come at 0.275, 0.325, 0.375,
//! 0.425 and 0.475 s.
//!
//! Cost: at most the number of smallest parts per request, amortized; ranges with less than one
//! request are skipped in one step.

use alloc::vec::Vec;

use headtime_units::Nanos;
use rand::Rng;

/// Arrivals of the b-model.
#[derive(Clone, Debug)]
pub(crate) struct Cascade {
    bias: f64,
    window_ns: u64,
    levels: u32,
    /// Requests of one window.
    mass: f64,
    /// The remaining parts of the window, the next one last: the number of halvings, and the mass.
    parts: Vec<(u32, f64)>,
    /// The number of the next smallest part, counted from the start.
    slot: u64,
    /// Accumulated mass that is not yet a whole request.
    due: f64,
    /// The current part: first slot, number of requests, and number of requests returned so far.
    handing: (u64, u64, u64),
    /// The time of the last request.
    last_ns: u64,
}

impl Cascade {
    pub(crate) fn new(per_second: f64, bias: f64, window: Nanos, levels: u32) -> Self {
        let mass = per_second * window.as_secs_f64();
        Self {
            bias,
            window_ns: window.as_ns(),
            levels,
            mass,
            parts: Vec::new(),
            slot: 0,
            due: 0.0,
            handing: (0, 0, 0),
            last_ns: 0,
        }
    }

    /// The time to the next arrival.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> Nanos {
        while self.handing.1 == self.handing.2 {
            self.advance(rng);
        }
        let (slot, requests, handed) = self.handing;
        self.handing.2 += 1;
        // The middle of the request's share of the slot.
        let at = u128::from(slot) * 2 * u128::from(requests) + 2 * u128::from(handed) + 1;
        let at_ns = ((at * u128::from(self.window_ns) / (2 * u128::from(requests))) >> self.levels)
            .min(u128::from(u64::MAX)) as u64;
        let gap = Nanos::from_ns(at_ns.saturating_sub(self.last_ns));
        self.last_ns = at_ns;
        gap
    }

    /// Skips or divides the next part.
    fn advance(&mut self, rng: &mut impl Rng) {
        let (level, mass) = self.parts.pop().unwrap_or((0, self.mass));
        if level < self.levels && self.due + mass >= 1.0 {
            let coin = if rng.next_u64() >> 63 == 0 { self.bias } else { 1.0 - self.bias };
            self.parts.push((level + 1, mass * (1.0 - coin)));
            self.parts.push((level + 1, mass * coin));
            return;
        }
        self.due += mass;
        let requests = if level < self.levels { 0.0 } else { libm::floor(self.due) };
        self.due -= requests;
        self.handing = (self.slot, requests as u64, 0);
        self.slot += 1 << (self.levels - level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Arrivals of one window of a second, in nanoseconds.
    fn window(requests: u32, bias: f64, levels: u32, seed: u64) -> Vec<u64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut cascade = Cascade::new(f64::from(requests), bias, Nanos::from_secs(1), levels);
        let mut at = 0;
        let arrivals = (0..requests).map(|_| {
            at += cascade.next(&mut rng).as_ns();
            at
        });
        arrivals.collect()
    }

    #[test]
    fn a_bias_of_a_half_is_a_constant_rate() {
        assert_eq!(window(4, 0.5, 2, 1), [125_000_000, 375_000_000, 625_000_000, 875_000_000]);
    }

    /// The masses of the parts at one level are the same set for all coins, so the sum of their
    /// squares is (b² + (1 − b)²)^level of the square of the total. Rounding to whole requests
    /// changes each of the 64 counts by less than one, and the sum by less than twice the requests
    /// plus 64.
    #[test]
    fn counts_are_as_uneven_as_the_bias_says() {
        for seed in 0..4 {
            let (requests, bias) = (200_000, 0.7);
            let mut counts = [0_u64; 64];
            for at in window(requests, bias, 12, seed) {
                counts[(at * 64 / 1_000_000_000).min(63) as usize] += 1;
            }
            let squares: f64 = counts.iter().map(|count| (*count * *count) as f64).sum();
            let expected =
                libm::pow(bias * bias + 0.09, 6.0) * f64::from(requests) * f64::from(requests);
            assert!(
                (squares - expected).abs() <= f64::from(2 * requests + 64),
                "seed {seed}: {squares}, expected {expected}"
            );
        }
    }

    #[test]
    fn every_window_has_its_requests_whatever_the_fractions() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut cascade = Cascade::new(2.5, 0.8, Nanos::from_secs(1), 10);
        let mut at = 0;
        let arrivals: Vec<u64> = (0..1_000)
            .map(|_| {
                at += cascade.next(&mut rng).as_ns();
                at
            })
            .collect();
        for seconds in [2, 100, 398] {
            let by_then =
                arrivals.iter().filter(|at| **at < seconds * 1_000_000_000).count() as f64;
            assert!(
                (by_then - 2.5 * seconds as f64).abs() <= 1.0,
                "{by_then} requests in {seconds} s"
            );
        }
        assert!(arrivals.is_sorted());
    }
}
