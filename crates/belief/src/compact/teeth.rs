//! [`Fitting`]: a line with sawteeth through points, by least squares; what a strip is made of.
//!
//! Line and heights are found by linear least squares. Period and beginning of a tooth are not linear: they are moved by ever smaller steps as long as that makes the points fit better. What a
//! point can be off is bounded, so that one that is wrong pulls little.

use super::strips::{Strip, Tooth};

/// A point: sectors from the origin, and turns.
pub(super) type Point = (f64, f64);

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
    let squares = points.iter().map(|point| residual(strip, *point).abs().min(bound)).map(|off| off * off);
    squares.sum::<f64>() / points.len().max(1) as f64
}

/// A robust deviation of the points about the strip: 1.48 times the median.
pub(super) fn deviation(strip: &Strip, points: &[Point]) -> f64 {
    let mut off: Vec<f64> = points.iter().map(|point| residual(strip, *point).abs()).collect();
    off.sort_unstable_by(f64::total_cmp);
    (1.48 * off.get(off.len() / 2).copied().unwrap_or(0.0)).max(LEAST)
}

/// Phase, slope and heights by least squares, periods and beginnings as they are.
pub(super) fn level(strip: &mut Strip, points: &[Point]) {
    for _ in 0..3 {
        let bound = BOUND * deviation(strip, points);
        let size = 2 + strip.teeth.len();
        let span = points.iter().map(|point| point.0.abs()).fold(1.0, f64::max);
        let mut matrix = vec![vec![0.0; size + 1]; size];
        for point in points {
            let off = residual(strip, *point);
            // Points that are further off count as if they were this far off.
            let weight = if off.abs() <= bound { 1.0 } else { bound / off.abs() };
            let mut row = vec![1.0, point.0 / span];
            row.extend(strip.teeth.iter().map(|tooth| tooth.shape(point.0)));
            for i in 0..size {
                for j in 0..size {
                    matrix[i][j] += weight * row[i] * row[j];
                }
                matrix[i][size] += weight * row[i] * off;
            }
        }
        let Some(solved) = solve(matrix) else { return };
        strip.phase += solved[0];
        strip.slope += solved[1] / span;
        for (tooth, more) in strip.teeth.iter_mut().zip(&solved[2..]) {
            tooth.height += more;
        }
    }
}

/// Moves periods and beginnings of all teeth as long as points fit better, levelling in between.
pub(super) fn settle(strip: &mut Strip, points: &[Point]) {
    let span = points.last().map_or(1.0, |point| point.0) - points.first().map_or(0.0, |point| point.0);
    let middle = (points.last().map_or(0.0, |point| point.0) + points.first().map_or(0.0, |point| point.0)) / 2.0;
    let bound = BOUND * deviation(strip, points);
    let mut least = misfit(strip, points, bound);
    for number in 0..strip.teeth.len() {
        // Parts of a tooth by which the beginning is moved, or the last tooth of the span against the first.
        let mut part = 0.25;
        while part > 0.002 {
            let Tooth { period, offset, height } = strip.teeth[number];
            let teeth = (span / period).max(1.0);
            // Turned about the middle, so that period and beginning do not undo each other.
            let about = |period_now: f64| middle - (middle - offset) * period_now / period;
            let longer = [1.0 + part / teeth, 1.0 - part / teeth].map(|by| Tooth { period: period * by, offset: about(period * by), height });
            let later = [part, -part].map(|by| Tooth { period, offset: offset + by * period, height });
            let mut better = false;
            for tooth in longer.into_iter().chain(later) {
                let mut tried = strip.clone();
                tried.teeth[number] = tooth;
                let misfit = misfit(&tried, points, bound);
                if misfit < least {
                    (least, better) = (misfit, true);
                    *strip = tried;
                    break;
                }
            }
            if !better {
                part *= 0.6;
            }
        }
    }
    level(strip, points);
    strip.spread = deviation(strip, points);
}

/// The strip with one more tooth, of which only the frequency is known; the better of rising and falling.
pub(super) fn with_tooth(strip: &Strip, points: &[Point], frequency: f64) -> Strip {
    let period = 1.0 / frequency;
    let (cosine, sine) = points.iter().fold((0.0, 0.0), |sum, point| {
        let (sine, cosine) = libm::sincos(core::f64::consts::TAU * (point.0 * frequency - libm::floor(point.0 * frequency)));
        let off = residual(strip, *point);
        (sum.0 + off * cosine, sum.1 + off * sine)
    });
    let height = core::f64::consts::PI * 2.0 * libm::hypot(cosine, sine) / points.len().max(1) as f64;
    // A rising tooth is −sin: it passes zero downwards where it begins.
    let rising = (libm::atan2(sine, cosine) / core::f64::consts::TAU + 0.25) * period;
    let tried = [(rising, height), (rising + period / 2.0, -height)].map(|(offset, height)| {
        let mut tried = strip.clone();
        tried.teeth.push(Tooth { period, offset, height });
        level(&mut tried, points);
        settle(&mut tried, points);
        let misfit = misfit(&tried, points, 0.5);
        (misfit, tried)
    });
    let [one, other] = tried;
    if one.0 <= other.0 { one.1 } else { other.1 }
}

/// Gauss with pivots; `None` where the points do not say.
fn solve(mut matrix: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = matrix.len();
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        matrix.swap(column, pivot);
        if matrix[column][column].abs() < 1e-9 {
            return None;
        }
        for row in 0..size {
            if row != column {
                let factor = matrix[row][column] / matrix[column][column];
                let above = matrix[column].clone();
                matrix[row].iter_mut().zip(above).skip(column).for_each(|(number, above)| *number -= factor * above);
            }
        }
    }
    Some((0..size).map(|row| matrix[row][size] / matrix[row][row]).collect())
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
            let tooth = Tooth { period: 1_234.5, offset: rng.random_range(0.0..1_234.0), height: rng.random_range(-0.3..-0.1) };
            let truth = Strip { first: 0, end: 0, origin: 0, phase: 0.3, slope: 0.0009, teeth: vec![tooth], spread: 0.0, sights: 0 };
            let mut xs: Vec<f64> = (0..100).map(|_| rng.random_range(-1e6..1e6)).collect();
            xs.sort_unstable_by(f64::total_cmp);
            let points: Vec<Point> = xs.iter().map(|x| (*x, truth.turns(*x) + rng.random_range(-0.003..0.003))).collect();
            let mut line = Strip { teeth: Vec::new(), phase: 0.29, ..truth.clone() };
            level(&mut line, &points);
            let fitted = with_tooth(&line, &points, 1.0 / 1_234.4);
            let (before, after) = (deviation(&line, &points), deviation(&fitted, &points));
            assert!(
                before > 0.02 && after < 0.006,
                "seed {seed}: {before} turns off with the line, {after} with the tooth {:?} of {tooth:?}",
                fitted.teeth
            );
        }
    }
}
