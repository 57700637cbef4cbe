//! The odds that points belong to a segment rather than to a uniform distribution.

use super::super::segments::Segment;
use super::super::skew_terms::{Point, residual};

/// A point that is off by more than this many deviations, within these bounds in turns, does not
/// belong to a segment. Of uniformly distributed points a quarter is nearer than the upper bound.
const BELONGS: (f64, f64, f64) = (4.0, 0.03, 0.12);
/// The share of the points of a segment that pass this test (guess: some are retried, some were
/// moved).
const OWN: f64 = 0.9;

/// The maximum distance, in turns, of points that belong to a segment.
fn nearness(segment: &Segment) -> f64 {
    (BELONGS.0 * segment.spread).clamp(BELONGS.1, BELONGS.2)
}

pub(super) fn belongs(segment: &Segment, point: Point) -> bool {
    residual(segment, point).abs() < nearness(segment)
}

/// The contributions of a near point and of a distant point to the logarithm of the odds.
pub(super) fn weights(segment: &Segment) -> (f64, f64) {
    let (_, nearer, further) = odds_of(segment, 0.0);
    (nearer, further)
}

/// The maximum distance of a near point, in turns and at least `least`, and the contributions of a
/// near and of a distant point to the logarithm of the odds.
pub(in super::super) fn odds_of(segment: &Segment, least: f64) -> (f64, f64, f64) {
    let near = nearness(segment).max(least);
    (near, libm::log(OWN / (2.0 * near)), libm::log((1.0 - OWN) / (1.0 - 2.0 * near)))
}

/// The logarithm of the odds that these points belong to the segment.
pub(super) fn odds(segment: &Segment, points: &[Point]) -> f64 {
    let (nearer, further) = weights(segment);
    points.iter().map(|point| if belongs(segment, *point) { nearer } else { further }).sum()
}
