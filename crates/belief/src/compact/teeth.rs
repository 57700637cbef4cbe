//! [`Fitting`]: a line with sawteeth through points, by least squares; what a strip is made of.
//!
//! Line and heights are found by linear least squares. Period and beginning of a tooth are not
//! linear: they are moved by ever smaller steps as long as that makes the points fit better. What a
//! point can be off is bounded, so that one that is wrong pulls little. Several strips may be
//! fitted to the same points, one after the other, and the best of them is kept.
//!
//! Cost: at most [`MAX_POINTS`] points, in pieces of one attempt at a tooth.

use super::budget::{Budget, EVALUATION};
use super::strips::{Strip, Tooth};

/// A point: sectors from the origin, turns, and when it was seen, in turns of the platter.
pub(super) type Point = (f64, f64, f64);

/// No more points are fitted: what is left of the noise is a thirteenth then.
pub(super) const MAX_POINTS: usize = 160;
/// The most teeth of a strip: track, surface or cylinder, band, group of spares.
pub(super) const MAX_TEETH: usize = 4;
/// Levelling goes over the points so often, and what it does with each of them in all: two
/// evaluations, sorting, and a row of the equations.
const ROUNDS: u64 = 3;
const LEVELLING: u64 = 10 * ROUNDS * EVALUATION;
/// The most that a point counts as off, in deviations of the rest.
const BOUND: f64 = 3.0;
/// The least deviation that is believed, in turns.
const LEAST: f64 = 0.001;

/// What of a turn a point lies behind the strip's line, −½ to ½.
pub(super) fn residual(strip: &Strip, point: Point) -> f64 {
    let off = point.1 - strip.turns(point.0);
    off - libm::round(off)
}

/// The mean of squares of what points are off, each bounded.
pub(super) fn misfit(strip: &Strip, points: &[Point], bound: f64) -> f64 {
    let squares =
        points.iter().map(|point| residual(strip, *point).abs().min(bound)).map(|off| off * off);
    squares.sum::<f64>() / points.len().max(1) as f64
}

/// A robust deviation of the points about the strip: 1.48 times the median.
pub(super) fn deviation(strip: &Strip, points: &[Point]) -> f64 {
    let mut off: Vec<f64> = points.iter().map(|point| residual(strip, *point).abs()).collect();
    off.sort_unstable_by(f64::total_cmp);
    (1.48 * off.get(off.len() / 2).copied().unwrap_or(0.0)).max(LEAST)
}

/// Phase, slope and heights by least squares, periods and beginnings as they are; where the speed
/// is not sure, also the part by which the platter turns faster, which is answered.
pub(super) fn level(
    strip: &mut Strip,
    points: &[Point],
    speed_too: bool,
    budget: &mut Budget,
) -> f64 {
    budget.spend(LEVELLING * points.len() as u64);
    let teeth = strip.teeth.len().min(MAX_TEETH);
    let size = 2 + teeth + usize::from(speed_too);
    let span = points.iter().map(|point| point.0.abs()).fold(1.0, f64::max);
    let time = points.iter().map(|point| point.2.abs()).fold(1.0, f64::max);
    let mut faster = 0.0;
    for _ in 0..ROUNDS {
        let moved = |point: &Point| (point.0, point.1 + faster * point.2, point.2);
        let at: Vec<Point> = points.iter().map(moved).collect();
        let bound = BOUND * deviation(strip, &at);
        let mut matrix = Matrix::default();
        for point in &at {
            let off = residual(strip, *point);
            // Points that are further off count as if they were this far off.
            let weight = if off.abs() <= bound { 1.0 } else { bound / off.abs() };
            let mut row = [0.0; SIZE];
            (row[0], row[1]) = (1.0, point.0 / span);
            strip
                .teeth
                .iter()
                .zip(&mut row[2..])
                .for_each(|(tooth, shape)| *shape = tooth.shape(point.0));
            if speed_too {
                row[size - 1] = -point.2 / time;
            }
            for i in 0..size {
                for j in 0..size {
                    matrix[i][j] += weight * row[i] * row[j];
                }
                matrix[i][SIZE] += weight * row[i] * off;
            }
        }
        let Some(solved) = solve(matrix, size) else { break };
        strip.phase += solved[0];
        strip.slope += solved[1] / span;
        strip.teeth.iter_mut().zip(&solved[2..]).for_each(|(tooth, more)| tooth.height += more);
        if speed_too {
            faster += solved[size - 1] / time;
        }
    }
    strip.phase -= libm::floor(strip.phase);
    faster
}

/// Strips that are fitted to the same points one after the other; the best is kept.
#[derive(Clone, Debug)]
pub(super) struct Fitting {
    points: Vec<Point>,
    waiting: Vec<Strip>,
    at: Option<(Strip, Settling)>,
    best: Option<(f64, Strip)>,
    tried: f64,
}

/// One strip whose teeth are moved. Parts of a tooth by which the beginning is moved, or the last
/// tooth of the span against the first.
#[derive(Clone, Debug)]
struct Settling {
    tooth: usize,
    part: f64,
    bound: f64,
    least: f64,
}

impl Fitting {
    /// Begins with at least one strip.
    pub(super) fn new(points: Vec<Point>, strips: Vec<Strip>) -> Self {
        assert!(
            !strips.is_empty() && points.len() <= MAX_POINTS,
            "{} strips, {} points",
            strips.len(),
            points.len()
        );
        Self { points, waiting: strips, at: None, best: None, tried: 0.0 }
    }

    /// Bytes of memory, the few strips left out.
    pub(super) fn memory(&self) -> u64 {
        (self.points.capacity() * size_of::<Point>()) as u64
    }

    /// Goes on as far as the budget allows; the best strip when all are fitted, and how many ways
    /// were tried.
    pub(super) fn go_on(&mut self, budget: &mut Budget) -> Option<(Strip, f64)> {
        while budget.is_left() {
            let Some((mut strip, mut settling)) = self.at.take() else {
                let Some(mut strip) = self.waiting.pop() else {
                    return self.best.take().map(|(_, strip)| (strip, self.tried));
                };
                level(&mut strip, &self.points, false, budget);
                let bound = BOUND * deviation(&strip, &self.points);
                let least = misfit(&strip, &self.points, bound);
                budget.spend(2 * EVALUATION * self.points.len() as u64);
                self.at = Some((strip, Settling { tooth: 0, part: FIRST_PART, bound, least }));
                continue;
            };
            if settling.tooth < strip.teeth.len() {
                self.tried += 4.0;
                settling.go_on(&mut strip, &self.points, budget);
                self.at = Some((strip, settling));
                continue;
            }
            level(&mut strip, &self.points, false, budget);
            strip.spread = deviation(&strip, &self.points);
            let misfit = misfit(&strip, &self.points, 0.5);
            budget.spend(2 * EVALUATION * self.points.len() as u64);
            if self.best.as_ref().is_none_or(|best| misfit < best.0) {
                self.best = Some((misfit, strip));
            }
        }
        None
    }
}

const FIRST_PART: f64 = 0.25;
const LAST_PART: f64 = 0.002;

impl Settling {
    /// Moves the tooth once if that makes points fit better, or goes to smaller steps, or to the
    /// next tooth.
    fn go_on(&mut self, strip: &mut Strip, points: &[Point], budget: &mut Budget) {
        let (first, last) = (
            points.first().map_or(0.0, |point| point.0),
            points.last().map_or(1.0, |point| point.0),
        );
        let (span, middle) = (last - first, f64::midpoint(first, last));
        let before = strip.teeth[self.tooth];
        let Tooth { period, offset, height } = before;
        let teeth = (span / period).max(1.0);
        // Turned about the middle, so that period and beginning do not undo each other.
        let about = |period_now: f64| middle - (middle - offset) * period_now / period;
        let longer = [1.0 + self.part / teeth, 1.0 - self.part / teeth].map(|by| Tooth {
            period: period * by,
            offset: about(period * by),
            height,
        });
        let later = [self.part, -self.part].map(|by| Tooth {
            period,
            offset: offset + by * period,
            height,
        });
        for tooth in longer.into_iter().chain(later) {
            strip.teeth[self.tooth] = tooth;
            let misfit = misfit(strip, points, self.bound);
            budget.spend(EVALUATION * points.len() as u64);
            if misfit < self.least {
                self.least = misfit;
                return;
            }
        }
        strip.teeth[self.tooth] = before;
        self.part *= 0.6;
        if self.part <= LAST_PART {
            (self.tooth, self.part) = (self.tooth + 1, FIRST_PART);
        }
    }
}

/// The strip with one more tooth, of which only the frequency is known: a rising and a falling one.
pub(super) fn with_tooth(
    strip: &Strip,
    points: &[Point],
    frequency: f64,
    budget: &mut Budget,
) -> Vec<Strip> {
    budget.spend(2 * EVALUATION * points.len() as u64);
    let period = 1.0 / frequency;
    let (cosine, sine) = points.iter().fold((0.0, 0.0), |sum, point| {
        let (sine, cosine) = libm::sincos(
            core::f64::consts::TAU * (point.0 * frequency - libm::floor(point.0 * frequency)),
        );
        let off = residual(strip, *point);
        (sum.0 + off * cosine, sum.1 + off * sine)
    });
    let height =
        core::f64::consts::PI * 2.0 * libm::hypot(cosine, sine) / points.len().max(1) as f64;
    // A rising tooth is −sin: it passes zero downwards where it begins.
    let rising = (libm::atan2(sine, cosine) / core::f64::consts::TAU + 0.25) * period;
    let tried = [(rising + period / 2.0, -height), (rising, height)].map(|(offset, height)| {
        let mut tried = strip.clone();
        tried.teeth.push(Tooth { period, offset, height });
        tried
    });
    tried.to_vec()
}

/// Unknowns of the largest fit: phase, slope, teeth and speed.
const SIZE: usize = 3 + MAX_TEETH;
type Matrix = [[f64; SIZE + 1]; SIZE];

/// Gauss with pivots; `None` where the points do not say.
fn solve(mut matrix: Matrix, size: usize) -> Option<[f64; SIZE]> {
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        if matrix[column][column].abs() < 1e-9 {
            return None;
        }
        let above = matrix[column];
        for row in (0..size).filter(|row| *row != column) {
            let factor = matrix[row][column] / above[column];
            matrix[row]
                .iter_mut()
                .zip(above)
                .skip(column)
                .for_each(|(number, above)| *number -= factor * above);
        }
    }
    let mut solved = [0.0; SIZE];
    (0..size).for_each(|row| solved[row] = matrix[row][SIZE] / matrix[row][row]);
    Some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn a_tooth_of_known_frequency_is_fitted_to_points_with_noise() {
        for seed in 1..=6 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let tooth = Tooth {
                period: 1_234.5,
                offset: rng.random_range(0.0..1_234.0),
                height: rng.random_range(-0.3..-0.1),
            };
            let truth = Strip {
                first: 0,
                end: 0,
                origin: 0,
                phase: 0.3,
                slope: 0.0009,
                teeth: vec![tooth],
                spread: 0.0,
                sights: 0,
            };
            let mut xs: Vec<f64> = (0..100).map(|_| rng.random_range(-1e6..1e6)).collect();
            xs.sort_unstable_by(f64::total_cmp);
            let points: Vec<Point> = xs
                .iter()
                .map(|x| (*x, truth.turns(*x) + rng.random_range(-0.003..0.003), 0.0))
                .collect();
            let mut line = Strip { teeth: Vec::new(), phase: 0.29, ..truth.clone() };
            level(&mut line, &points, false, &mut Budget::slice());
            let toothed = with_tooth(&line, &points, 1.0 / 1_234.4, &mut Budget::slice());
            let mut fitting = Fitting::new(points.clone(), toothed);
            let fitted = loop {
                let mut budget = Budget::slice();
                let fitted = fitting.go_on(&mut budget);
                assert!(budget.spent() <= super::super::budget::MOST, "seed {seed}: {budget:?}");
                if let Some((fitted, _)) = fitted {
                    break fitted;
                }
            };
            let (before, after) = (deviation(&line, &points), deviation(&fitted, &points));
            assert!(
                before > 0.02 && after < 0.006,
                "seed {seed}: {before} turns off with the line, {after} with the tooth {:?} of \
                    {tooth:?}",
                fitted.teeth
            );
        }
    }

    #[test]
    fn a_speed_that_is_off_is_found_beside_the_line() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let truth = Strip {
            first: 0,
            end: 0,
            origin: 0,
            phase: 0.3,
            slope: 0.0009,
            teeth: Vec::new(),
            spread: 0.0,
            sights: 0,
        };
        let points: Vec<Point> = (0..100)
            .map(|_| {
                let (x, time): (f64, f64) =
                    (rng.random_range(-1e4..1e4), rng.random_range(0.0..3_000.0));
                (x, truth.turns(x) - 3e-5 * time + rng.random_range(-0.003..0.003), time)
            })
            .collect();
        let mut line = Strip { phase: 0.25, ..truth };
        let faster = level(&mut line, &points, true, &mut Budget::slice());
        assert!(
            (faster - 3e-5).abs() < 1e-6 && (line.phase - 0.3).abs() < 3e-3,
            "{faster} and {line:?}"
        );
    }
}
