//! [`Fitting`]: the least-squares fit of a segment, a line with sawtooth terms, to points.
//!
//! The line and the heights are found by linear least squares. The period and offset of a skew term
//! are not linear: they are moved by ever smaller steps as long as the fit improves. The error of a
//! point is bounded, so that an outlier has little weight. Several segments may be fitted to the
//! same points, one after the other, and the best of them is kept.
//!
//! Cost: at most [`MAX_POINTS`] points, in pieces of one attempt at a skew term.

use super::budget::{Budget, EVALUATION};
use super::segments::{Segment, SkewTerm};

/// A point: sectors from the origin, turns, and the time of the sample in turns of the platter.
pub(super) type Point = (f64, f64, f64);

/// The maximum number of points of a fit: the noise is then reduced to a thirteenth.
pub(super) const MAX_POINTS: usize = 160;
/// The maximum number of skew terms of a segment: track, surface or cylinder, band, group of
/// spares.
pub(super) const MAX_SKEW_TERMS: usize = 4;
/// The number of rounds of the linear fit, and its cost per point: two evaluations, sorting, and a
/// row of the equations.
const ROUNDS: u64 = 3;
const LEVELLING: u64 = 10 * ROUNDS * EVALUATION;
/// The bound of the error of a point, in deviations of the rest.
const BOUND: f64 = 3.0;
/// The minimum deviation, in turns.
const LEAST: f64 = 0.001;

/// The distance of a point from the line of the segment, −½ to ½ turn.
pub(super) fn residual(segment: &Segment, point: Point) -> f64 {
    let off = point.1 - segment.turns(point.0);
    off - libm::round(off)
}

/// The mean square of the bounded errors.
pub(super) fn misfit(segment: &Segment, points: &[Point], bound: f64) -> f64 {
    let squares =
        points.iter().map(|point| residual(segment, *point).abs().min(bound)).map(|off| off * off);
    squares.sum::<f64>() / points.len().max(1) as f64
}

/// A robust deviation of the points about the segment: 1.48 times the median.
pub(super) fn deviation(segment: &Segment, points: &[Point]) -> f64 {
    let mut off: Vec<f64> = points.iter().map(|point| residual(segment, *point).abs()).collect();
    off.sort_unstable_by(f64::total_cmp);
    (1.48 * off.get(off.len() / 2).copied().unwrap_or(0.0)).max(LEAST)
}

/// Fits phase, slope and heights by least squares; periods and offsets are fixed. Returns the
/// relative excess of the speed if that is fitted too, otherwise zero.
pub(super) fn level(
    segment: &mut Segment,
    points: &[Point],
    speed: SpeedFit,
    budget: &mut Budget,
) -> f64 {
    budget.spend(LEVELLING * points.len() as u64);
    let skew_terms = segment.skew_terms.len().min(MAX_SKEW_TERMS);
    let size = 2 + skew_terms + usize::from(speed == SpeedFit::Fitted);
    let span = points.iter().map(|point| point.0.abs()).fold(1.0, f64::max);
    let time = points.iter().map(|point| point.2.abs()).fold(1.0, f64::max);
    let mut faster = 0.0;
    for _ in 0..ROUNDS {
        let moved = |point: &Point| (point.0, point.1 + faster * point.2, point.2);
        let at: Vec<Point> = points.iter().map(moved).collect();
        let bound = BOUND * deviation(segment, &at);
        let mut matrix = Matrix::default();
        for point in &at {
            let off = residual(segment, *point);
            // Errors beyond the bound count as the bound.
            let weight = if off.abs() <= bound { 1.0 } else { bound / off.abs() };
            let mut row = [0.0; SIZE];
            (row[0], row[1]) = (1.0, point.0 / span);
            segment
                .skew_terms
                .iter()
                .zip(&mut row[2..])
                .for_each(|(skew_term, shape)| *shape = skew_term.shape(point.0));
            if speed == SpeedFit::Fitted {
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
        segment.phase += solved[0];
        segment.slope += solved[1] / span;
        segment
            .skew_terms
            .iter_mut()
            .zip(&solved[2..])
            .for_each(|(skew_term, more)| skew_term.height += more);
        if speed == SpeedFit::Fitted {
            faster += solved[size - 1] / time;
        }
    }
    segment.phase -= libm::floor(segment.phase);
    faster
}

/// The treatment of the platter speed in a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpeedFit {
    Fixed,
    Fitted,
}

/// Segments that are fitted to the same points one after the other; the best is kept.
#[derive(Clone, Debug)]
pub(super) struct Fitting {
    points: Vec<Point>,
    waiting: Vec<Segment>,
    at: Option<(Segment, Settling)>,
    best: Option<(f64, Segment)>,
    tried: f64,
}

/// One segment whose skew terms are moved. `part` is the step, as a share of the period: by it the
/// offset moves, or the last repetition within the span relative to the first.
#[derive(Clone, Debug)]
struct Settling {
    skew_term: usize,
    part: f64,
    bound: f64,
    least: f64,
}

impl Fitting {
    /// Begins with at least one segment.
    pub(super) fn new(points: Vec<Point>, segments: Vec<Segment>) -> Self {
        assert!(
            !segments.is_empty() && points.len() <= MAX_POINTS,
            "{} segments, {} points",
            segments.len(),
            points.len()
        );
        Self { points, waiting: segments, at: None, best: None, tried: 0.0 }
    }

    /// Bytes of memory, without the few segments.
    pub(super) fn memory(&self) -> u64 {
        (self.points.capacity() * size_of::<Point>()) as u64
    }

    /// Advances as far as the budget allows. Returns the best segment and the number of candidates
    /// once all are fitted.
    pub(super) fn advance(&mut self, budget: &mut Budget) -> Option<(Segment, f64)> {
        while budget.is_left() {
            let Some((mut segment, mut settling)) = self.at.take() else {
                let Some(mut segment) = self.waiting.pop() else {
                    return self.best.take().map(|(_, segment)| (segment, self.tried));
                };
                level(&mut segment, &self.points, SpeedFit::Fixed, budget);
                let bound = BOUND * deviation(&segment, &self.points);
                let least = misfit(&segment, &self.points, bound);
                budget.spend(2 * EVALUATION * self.points.len() as u64);
                self.at =
                    Some((segment, Settling { skew_term: 0, part: FIRST_PART, bound, least }));
                continue;
            };
            if settling.skew_term < segment.skew_terms.len() {
                self.tried += 4.0;
                settling.advance(&mut segment, &self.points, budget);
                self.at = Some((segment, settling));
                continue;
            }
            level(&mut segment, &self.points, SpeedFit::Fixed, budget);
            segment.spread = deviation(&segment, &self.points);
            let misfit = misfit(&segment, &self.points, 0.5);
            budget.spend(2 * EVALUATION * self.points.len() as u64);
            if self.best.as_ref().is_none_or(|best| misfit < best.0) {
                self.best = Some((misfit, segment));
            }
        }
        None
    }
}

const FIRST_PART: f64 = 0.25;
const LAST_PART: f64 = 0.002;

impl Settling {
    /// Moves the skew term once if that improves the fit; otherwise reduces the step, or continues
    /// with the next skew term.
    fn advance(&mut self, segment: &mut Segment, points: &[Point], budget: &mut Budget) {
        let (first, last) = (
            points.first().map_or(0.0, |point| point.0),
            points.last().map_or(1.0, |point| point.0),
        );
        let (span, middle) = (last - first, f64::midpoint(first, last));
        let before = segment.skew_terms[self.skew_term];
        let SkewTerm { period, offset, height } = before;
        let skew_terms = (span / period).max(1.0);
        // Scaled about the middle, so that period and offset are independent.
        let about = |period_now: f64| middle - (middle - offset) * period_now / period;
        let longer = [1.0 + self.part / skew_terms, 1.0 - self.part / skew_terms]
            .map(|by| SkewTerm { period: period * by, offset: about(period * by), height });
        let later = [self.part, -self.part].map(|by| SkewTerm {
            period,
            offset: offset + by * period,
            height,
        });
        for skew_term in longer.into_iter().chain(later) {
            segment.skew_terms[self.skew_term] = skew_term;
            let misfit = misfit(segment, points, self.bound);
            budget.spend(EVALUATION * points.len() as u64);
            if misfit < self.least {
                self.least = misfit;
                return;
            }
        }
        segment.skew_terms[self.skew_term] = before;
        self.part *= 0.6;
        if self.part <= LAST_PART {
            (self.skew_term, self.part) = (self.skew_term + 1, FIRST_PART);
        }
    }
}

/// Returns the segment with one more skew term of the given frequency: a rising and a falling
/// candidate.
pub(super) fn with_skew_term(
    segment: &Segment,
    points: &[Point],
    frequency: f64,
    budget: &mut Budget,
) -> Vec<Segment> {
    budget.spend(2 * EVALUATION * points.len() as u64);
    let period = 1.0 / frequency;
    let (cosine, sine) = points.iter().fold((0.0, 0.0), |sum, point| {
        let (sine, cosine) = libm::sincos(
            core::f64::consts::TAU * (point.0 * frequency - libm::floor(point.0 * frequency)),
        );
        let off = residual(segment, *point);
        (sum.0 + off * cosine, sum.1 + off * sine)
    });
    let height =
        core::f64::consts::PI * 2.0 * libm::hypot(cosine, sine) / points.len().max(1) as f64;
    // A rising skew term is −sin: it passes zero downwards at its offset.
    let rising = (libm::atan2(sine, cosine) / core::f64::consts::TAU + 0.25) * period;
    let tried = [(rising + period / 2.0, -height), (rising, height)].map(|(offset, height)| {
        let mut tried = segment.clone();
        tried.skew_terms.push(SkewTerm { period, offset, height });
        tried
    });
    tried.to_vec()
}

/// Unknowns of the largest fit: phase, slope, skew terms and speed.
const SIZE: usize = 3 + MAX_SKEW_TERMS;
type Matrix = [[f64; SIZE + 1]; SIZE];

/// Gaussian elimination with pivots; `None` if the points do not determine the unknowns.
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
    fn a_skew_term_of_known_frequency_is_fitted_to_points_with_noise() {
        for seed in 1..=6 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let skew_term = SkewTerm {
                period: 1_234.5,
                offset: rng.random_range(0.0..1_234.0),
                height: rng.random_range(-0.3..-0.1),
            };
            let truth = Segment {
                first: 0,
                end: 0,
                origin: 0,
                phase: 0.3,
                slope: 0.0009,
                skew_terms: vec![skew_term],
                spread: 0.0,
                angle_samples: 0,
            };
            let mut xs: Vec<f64> = (0..100).map(|_| rng.random_range(-1e6..1e6)).collect();
            xs.sort_unstable_by(f64::total_cmp);
            let points: Vec<Point> = xs
                .iter()
                .map(|x| (*x, truth.turns(*x) + rng.random_range(-0.003..0.003), 0.0))
                .collect();
            let mut line = Segment { skew_terms: Vec::new(), phase: 0.29, ..truth.clone() };
            level(&mut line, &points, SpeedFit::Fixed, &mut Budget::slice());
            let candidates = with_skew_term(&line, &points, 1.0 / 1_234.4, &mut Budget::slice());
            let mut fitting = Fitting::new(points.clone(), candidates);
            let fitted = loop {
                let mut budget = Budget::slice();
                let fitted = fitting.advance(&mut budget);
                assert!(budget.spent() <= super::super::budget::MOST, "seed {seed}: {budget:?}");
                if let Some((fitted, _)) = fitted {
                    break fitted;
                }
            };
            let (before, after) = (deviation(&line, &points), deviation(&fitted, &points));
            assert!(
                before > 0.02 && after < 0.006,
                "seed {seed}: {before} turns off with the line, {after} with the skew terms {:?} \
                    for {skew_term:?}",
                fitted.skew_terms
            );
        }
    }

    #[test]
    fn a_speed_error_is_fitted_together_with_the_line() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let truth = Segment {
            first: 0,
            end: 0,
            origin: 0,
            phase: 0.3,
            slope: 0.0009,
            skew_terms: Vec::new(),
            spread: 0.0,
            angle_samples: 0,
        };
        let points: Vec<Point> = (0..100)
            .map(|_| {
                let (x, time): (f64, f64) =
                    (rng.random_range(-1e4..1e4), rng.random_range(0.0..3_000.0));
                (x, truth.turns(x) - 3e-5 * time + rng.random_range(-0.003..0.003), time)
            })
            .collect();
        let mut line = Segment { phase: 0.25, ..truth };
        let faster = level(&mut line, &points, SpeedFit::Fitted, &mut Budget::slice());
        assert!(
            (faster - 3e-5).abs() < 1e-6 && (line.phase - 0.3).abs() < 3e-3,
            "{faster} and {line:?}"
        );
    }
}
