//! [`Scan`]: at which frequency over the addresses numbers repeat: a periodogram of points that lie anywhere, taken in small steps.
//!
//! Each point has a direction, which turns by the same amount from one frequency tried to the next, so that a step costs one complex multiplication a point and no sine. The frequency with
//! the longest sum of directions wins. By chance alone the square of its length over n stays below the logarithm of how many frequencies were tried, give or take a few
//! ([`Scan::is_more_than_chance`]).

use core::f64::consts::TAU;

/// A search over frequencies.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// Direction and its turn from step to step, of each point.
    points: Vec<([f64; 2], [f64; 2])>,
    power: f64,
    lowest: f64,
    step: f64,
    steps: u64,
    at: u64,
    best: (f64, f64),
}

/// Steps of frequency to one turn over the whole span of the points.
const STEPS_PER_TURN: f64 = 4.0;
/// Points times frequencies that are tried with each completion: about half a millisecond.
const WORK: usize = 200_000;
/// The logarithm of how unlikely chance is to do as well.
const SURE: f64 = 9.0;

impl Scan {
    /// Looks for the frequency f, in cycles per sector between two bounds, at which `weight` · e^(2πi(`turns` − f·x)) agree best, over points `(x, turns, weight)`.
    pub(super) fn new(points: &[(f64, f64, f64)], lowest: f64, highest: f64) -> Self {
        let (first, last) = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), point| (low.min(point.0), high.max(point.0)));
        let step = 1.0 / (STEPS_PER_TURN * (last - first).max(1.0));
        let steps = (libm::ceil((highest - lowest).max(0.0) / step) as u64 + 1).min(MOST_STEPS);
        let middle = (first + last) / 2.0;
        let of = |&(x, turns, weight): &(f64, f64, f64)| {
            let [cosine, sine] = direction(turns - lowest * (x - middle));
            ([weight * cosine, weight * sine], direction(-step * (x - middle)))
        };
        let power = points.iter().map(|point| point.2 * point.2).sum();
        Self { points: points.iter().map(of).collect(), power, lowest, step, steps, at: 0, best: (0.0, lowest) }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.points.capacity() * size_of::<([f64; 2], [f64; 2])>()) as u64
    }

    /// Tries some frequencies; whether all have been tried.
    pub(super) fn go_on(&mut self) -> bool {
        let until = (self.at + (WORK / self.points.len().max(1)).max(1) as u64).min(self.steps);
        while self.at < until {
            let (mut cosine, mut sine) = (0.0, 0.0);
            for (direction, turn) in &mut self.points {
                cosine += direction[0];
                sine += direction[1];
                *direction = [direction[0] * turn[0] - direction[1] * turn[1], direction[0] * turn[1] + direction[1] * turn[0]];
            }
            let square = cosine * cosine + sine * sine;
            if square > self.best.0 {
                self.best = (square, self.lowest + self.at as f64 * self.step);
            }
            self.at += 1;
        }
        self.at == self.steps
    }

    /// The best frequency so far.
    pub(super) fn frequency(&self) -> f64 {
        self.best.1
    }

    /// Whether chance would hardly have done as well.
    pub(super) fn is_more_than_chance(&self) -> bool {
        self.power > 0.0 && self.best.0 / self.power > libm::log(self.steps.max(1) as f64) + SURE
    }
}

fn direction(turns: f64) -> [f64; 2] {
    let (sine, cosine) = libm::sincos(TAU * (turns - libm::floor(turns)));
    [cosine, sine]
}

/// No scan tries more: some seconds of work in all.
const MOST_STEPS: u64 = 8_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn run(points: &[(f64, f64, f64)]) -> Scan {
        let mut scan = Scan::new(points, 1e-4, 2e-3);
        while !scan.go_on() {}
        scan
    }

    #[test]
    fn a_slope_is_found_among_points_anywhere_and_none_where_there_is_none() {
        for seed in 1..=5 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let slope = rng.random_range(2e-4..1.9e-3);
            let xs: Vec<f64> = (0..64).map(|_| f64::from(rng.random_range(0..20_000_000_u32))).collect();
            let points: Vec<(f64, f64, f64)> = xs.iter().map(|x| (*x, slope * x + rng.random_range(-0.1..0.1), 1.0)).collect();
            let scan = run(&points);
            assert!(scan.is_more_than_chance() && (scan.frequency() - slope).abs() < 3e-8, "seed {seed}: {} instead of {slope}", scan.frequency());
            let points: Vec<(f64, f64, f64)> = xs.iter().map(|x| (*x, rng.random(), 1.0)).collect();
            assert!(!run(&points).is_more_than_chance(), "seed {seed}: found in noise");
        }
    }
}
