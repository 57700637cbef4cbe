//! The odds that points lie by a segment rather than anywhere.

use super::super::segments::Segment;
use super::super::skew_terms::{Point, residual};

/// A point further off than this many deviations, within these bounds in turns, does not belong to
/// a segment: of points anywhere a quarter are nearer than the upper one.
const BELONGS: (f64, f64, f64) = (4.0, 0.03, 0.12);
/// The share of a segment's own points that belong to it by that measure (guess: some are retried,
/// some were moved).
const OWN: f64 = 0.9;

/// How near points have to be to belong to a segment, in turns.
fn nearness(segment: &Segment) -> f64 {
    (BELONGS.0 * segment.spread).clamp(BELONGS.1, BELONGS.2)
}

pub(super) fn belongs(segment: &Segment, point: Point) -> bool {
    residual(segment, point).abs() < nearness(segment)
}

/// What a point that is near enough, and one that is not, adds to the logarithm of the odds that
/// points lie by the segment rather than anywhere.
pub(super) fn weights(segment: &Segment) -> (f64, f64) {
    let (_, nearer, further) = odds_of(segment, 0.0);
    (nearer, further)
}

/// How near a point has to be, in turns and at least `least`, and what it adds to the logarithm of
/// the odds if it is and if it is not.
pub(in super::super) fn odds_of(segment: &Segment, least: f64) -> (f64, f64, f64) {
    let near = nearness(segment).max(least);
    (near, libm::log(OWN / (2.0 * near)), libm::log((1.0 - OWN) / (1.0 - 2.0 * near)))
}

/// The logarithm of the odds that these points lie by the segment rather than anywhere.
pub(super) fn odds(segment: &Segment, points: &[Point]) -> f64 {
    let (nearer, further) = weights(segment);
    points.iter().map(|point| if belongs(segment, *point) { nearer } else { further }).sum()
}
