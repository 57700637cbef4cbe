//! [`Scan`]: a periodogram of points at arbitrary addresses, computed in small steps. It finds the
//! frequency at which numbers repeat over the addresses.
//!
//! Each point has a direction, which turns by a constant angle from one frequency to the next: a
//! step costs one complex multiplication per point and no sine. The result is the frequency with
//! the longest sum of directions ([`Score::Length`]). If the phase is known to be zero, it is the
//! one with the greatest real part ([`Score::Along`]).
//!
//! *Sureness*: for n independent random points, the squared length of the sum, over n, exceeds L
//! with a chance of at most e^−L. The same bound applies to the real part (the mean of e^(λ·cos) is
//! I₀(λ) ≤ e^(λ²/4)). [`Scan::sureness`] is that L. A search over c frequencies in all accepts none
//! below ln c + [`SURE`].

use core::f64::consts::TAU;

use super::budget::Budget;

/// The measure of the sum of directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Score {
    Length,
    Along,
}

/// The number of points in a vectorized row.
const LANES: usize = 4;
type Lanes = [f64; LANES];

/// Directions of some points, and their rotation from step to step.
#[derive(Clone, Debug)]
struct Row {
    cosine: Lanes,
    sine: Lanes,
    turn_cosine: Lanes,
    turn_sine: Lanes,
}

/// A search over frequencies.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    rows: Vec<Row>,
    score: Score,
    power: f64,
    lowest: f64,
    step: f64,
    steps: u64,
    at: u64,
    best: (f64, f64),
}

/// Steps of frequency per turn over the whole span of the points.
pub(super) const STEPS_PER_TURN: f64 = 4.0;
/// The margin of sureness over the logarithm of the number of candidates: one search in 160,000 is
/// fooled by chance.
pub(super) const SURE: f64 = 12.0;
/// The cost of the direction of a point, in operations.
const SETTING_OUT: u64 = 48;

impl Scan {
    /// Searches for the frequency f, in cycles per sector between two bounds, at which `weight` ·
    /// e^(2πi(`turns` − f·x)) agree best, over points `(x, turns, weight)`. For [`Score::Along`], x
    /// counts from where the phase is zero.
    pub(super) fn new(
        score: Score,
        points: &[(f64, f64, f64)],
        lowest: f64,
        highest: f64,
        budget: &mut Budget,
    ) -> Self {
        let (first, last) =
            points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), point| {
                (low.min(point.0), high.max(point.0))
            });
        let (middle, reach) = match score {
            Score::Length => ((first + last) / 2.0, last - first),
            Score::Along => (0.0, last.abs().max(first.abs())),
        };
        let step = 1.0 / (STEPS_PER_TURN * reach.max(1.0));
        let steps = (libm::ceil((highest - lowest).max(0.0) / step) as u64 + 1).min(MAX_STEPS);
        let rows = points.chunks(LANES).map(|points| {
            let mut row = Row {
                cosine: [0.0; LANES],
                sine: [0.0; LANES],
                turn_cosine: [1.0; LANES],
                turn_sine: [0.0; LANES],
            };
            for (lane, (x, turns, weight)) in points.iter().enumerate() {
                let ([cosine, sine], turn) =
                    (direction(turns - lowest * (x - middle)), direction(-step * (x - middle)));
                (row.cosine[lane], row.sine[lane]) = (weight * cosine, weight * sine);
                (row.turn_cosine[lane], row.turn_sine[lane]) = (turn[0], turn[1]);
            }
            row
        });
        budget.spend(SETTING_OUT * points.len() as u64);
        Self {
            rows: rows.collect(),
            score,
            power: points.iter().map(|point| point.2 * point.2).sum(),
            lowest,
            step,
            steps,
            at: 0,
            best: (0.0, lowest),
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.rows.capacity() * size_of::<Row>()) as u64
    }

    /// The total number of frequencies.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The total cost in operations.
    pub(super) fn work(&self) -> f64 {
        self.steps as f64 * (self.rows.len() * LANES) as f64
    }

    /// Tries as many frequencies as the budget allows; returns true once all have been tried.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> bool {
        let of_one = (self.rows.len() * LANES) as u64;
        let until = (self.at + budget.pieces(of_one)).min(self.steps);
        budget.spend((until - self.at) * of_one);
        while self.at < until {
            let (mut cosines, mut sines) = ([0.0; LANES], [0.0; LANES]);
            for row in &mut self.rows {
                for lane in 0..LANES {
                    let (cosine, sine) = (row.cosine[lane], row.sine[lane]);
                    cosines[lane] += cosine;
                    sines[lane] += sine;
                    row.cosine[lane] = cosine * row.turn_cosine[lane] - sine * row.turn_sine[lane];
                    row.sine[lane] = cosine * row.turn_sine[lane] + sine * row.turn_cosine[lane];
                }
            }
            let (cosine, sine): (f64, f64) = (cosines.iter().sum(), sines.iter().sum());
            let square = match self.score {
                Score::Length => cosine * cosine + sine * sine,
                Score::Along => cosine.max(0.0) * cosine,
            };
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

    /// The sureness of the best frequency: the negative logarithm of the chance that one random
    /// frequency does as well.
    pub(super) fn sureness(&self) -> f64 {
        if self.power > 0.0 { self.best.0 / self.power } else { 0.0 }
    }
}

fn direction(turns: f64) -> [f64; 2] {
    let (sine, cosine) = libm::sincos(TAU * (turns - libm::floor(turns)));
    [cosine, sine]
}

/// The maximum number of frequencies of a scan: some seconds of work in all.
const MAX_STEPS: u64 = 8_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn run(points: &[(f64, f64, f64)]) -> Scan {
        let mut scan = Scan::new(Score::Length, points, 1e-4, 2e-3, &mut Budget::slice());
        while !scan.advance(&mut Budget::slice()) {}
        scan
    }

    fn is_sure(scan: &Scan) -> bool {
        scan.sureness() > libm::log(scan.steps() as f64) + SURE
    }

    #[test]
    fn a_slope_is_found_in_scattered_points_and_none_in_noise() {
        for seed in 1..=5 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let slope = rng.random_range(2e-4..1.9e-3);
            let xs: Vec<f64> =
                (0..64).map(|_| f64::from(rng.random_range(0..20_000_000_u32))).collect();
            let points: Vec<(f64, f64, f64)> =
                xs.iter().map(|x| (*x, slope * x + rng.random_range(-0.1..0.1), 1.0)).collect();
            let scan = run(&points);
            assert!(
                is_sure(&scan) && (scan.frequency() - slope).abs() < 3e-8,
                "seed {seed}: {} instead of {slope}",
                scan.frequency()
            );
            let points: Vec<(f64, f64, f64)> = xs.iter().map(|x| (*x, rng.random(), 1.0)).collect();
            assert!(!is_sure(&run(&points)), "seed {seed}: found in noise");
        }
    }

    /// Scans over noise respect the bound: the share that exceeds L is at most the number of
    /// frequencies times e^−L.
    #[test]
    fn noise_exceeds_a_sureness_no_more_often_than_the_bound() {
        let mut rng = ChaCha8Rng::seed_from_u64(17);
        for score in [Score::Length, Score::Along] {
            let mut sureness: Vec<f64> = Vec::new();
            let mut steps = 0;
            for _ in 0..400 {
                let points: Vec<(f64, f64, f64)> =
                    (0..48).map(|_| (rng.random_range(1.0..3e4), rng.random(), 1.0)).collect();
                let mut scan = Scan::new(score, &points, 1e-4, 6e-3, &mut Budget::slice());
                while !scan.advance(&mut Budget::slice()) {}
                steps = steps.max(scan.steps());
                sureness.push(scan.sureness());
            }
            for level in [7.0_f64, 8.0, 9.0, 10.0] {
                let passed = sureness.iter().filter(|sure| **sure > level).count() as f64 / 400.0;
                let bound = steps as f64 * (-level).exp();
                assert!(
                    passed <= bound + 3.0 * (bound.min(1.0) / 400.0).sqrt(),
                    "{score:?}: {passed} exceed {level}, expected at most {bound}"
                );
            }
            assert!(sureness.iter().any(|sure| *sure > 5.0), "the bound is reached");
        }
    }

    #[test]
    fn a_slice_stays_within_the_budget() {
        let points: Vec<(f64, f64, f64)> =
            (0..100).map(|number| (f64::from(number) * 1e5, 0.3, 1.0)).collect();
        let mut scan = Scan::new(Score::Length, &points, 1e-4, 2e-3, &mut Budget::slice());
        let mut slices = 0;
        loop {
            let mut budget = Budget::slice();
            let done = scan.advance(&mut budget);
            assert!(budget.spent() <= super::super::budget::SLICE, "{budget:?}");
            slices += 1;
            if done {
                break;
            }
        }
        assert!(slices > 100, "{slices}");
    }
}
