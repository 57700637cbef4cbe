//! The search for the skew terms of a segment, near those of other segments first, and the criteria
//! by which a term is accepted.

use super::super::budget::{Budget, EVALUATION};
use super::super::pairs;
use super::super::scan::{STEPS_PER_TURN, Scan, Score};
use super::super::segments::{Segment, SkewTerm};
use super::super::skew_terms::{
    Fitting, MAX_SKEW_TERMS, Point, deviation, misfit, residual, with_skew_term,
};
use super::{CLOSE, Grown, REPETITIONS, SKEW_FIT_AGAIN, Survey, Task};

/// The relative distance from the period in other segments within which a skew term is searched:
/// tracks hold whole numbers of sectors.
const NEAR_SKEW_TERM: f64 = 0.01;
/// Skew terms whose periods differ by less are the same.
const SAME_SKEW_TERM: f64 = 0.05;
/// The margin of sureness over the logarithm of the number of candidates: near a term of another
/// segment, and anywhere. A false skew term does little harm and must also reduce the misfit.
const SURE_NEAR: f64 = 6.0;
const SURE_ANYWHERE: f64 = 9.0;
/// The number of segments that must have a skew term before its height is compared with theirs.
const USUAL: usize = 3;
/// The cost of comparing a skew term with those of all segments, per segment, in operations.
pub(super) const OF_SEGMENTS: u64 = 16;
/// The maximum cost of one search for a skew term, in operations: near a term of another segment,
/// and anywhere. It bounds the number of points, as does `MAX_SKEW_POINTS`.
const NEAR_WORK: f64 = 4e6;
const ANYWHERE_WORK: f64 = 5e7;
pub(super) const MAX_SKEW_POINTS: usize = 512;
/// The factor to which a new skew term must reduce the misfit.
const WORTH: f64 = 0.85;

/// The place of the next search for a skew term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkewFit {
    /// Near the skew term with this number of the best known segment.
    Near(usize),
    Anywhere,
    Done,
}

/// The outcome of a search for a skew term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Accepted,
    Rejected,
}

impl SkewFit {
    /// The place of the next search. The unrestricted search repeats while it succeeds.
    pub(super) fn next(self, outcome: Outcome) -> Self {
        match self {
            Self::Near(number) => Self::Near(number + 1),
            Self::Anywhere if outcome == Outcome::Accepted => Self::Anywhere,
            Self::Anywhere | Self::Done => Self::Done,
        }
    }
}

impl Survey {
    /// The segments that were found, and those that were kept unchanged.
    pub(super) fn all_segments(&self) -> impl Iterator<Item = (usize, &Segment)> {
        let grown = self.segments.iter().map(|grown| (grown.to - grown.from, &grown.segment));
        grown.chain(self.carried.iter().map(|segment| (segment.angle_samples as usize, segment)))
    }

    /// The best known segment, by the number of its points and their deviation.
    pub(super) fn model(&self) -> Option<&Segment> {
        let certainty = |(points, segment): &(usize, &Segment)| {
            *points as f64 / (segment.spread * segment.spread).max(CLOSE * CLOSE)
        };
        let with_skews = self.all_segments().filter(|(_, segment)| !segment.skew_terms.is_empty());
        with_skews.max_by(|a, b| certainty(a).total_cmp(&certainty(b))).map(|(_, segment)| segment)
    }

    /// Searches for one more skew term, if it is needed and the maximum is not reached.
    pub(super) fn skew_fit(&mut self, mut grown: Grown, budget: &mut Budget) -> Task {
        let (slope, model) = (grown.segment.slope, self.model());
        let known = model.map_or(&[][..], |model| &model.skew_terms);
        if grown.segment.skew_terms.len() >= MAX_SKEW_TERMS || grown.segment.spread < CLOSE {
            grown.skew_fit = SkewFit::Done;
        }
        let scale = slope / model.map_or(slope, |model| model.slope);
        // Mean distance of the points in sectors.
        let apart = (self.points[grown.to - 1].lba - self.points[grown.from].lba) as f64
            / (grown.to - grown.from) as f64;
        while let SkewFit::Near(number) = grown.skew_fit {
            let Some(skew_term) = known.get(number) else {
                // Further terms are searched only in the segment with the most known terms, and
                // again after it has been extended.
                let most = skew_points(slope, apart, ANYWHERE_WORK).min(grown.to - grown.from);
                let leads = grown.segment.skew_terms.len() >= known.len()
                    && SKEW_FIT_AGAIN * self.skew_fitted as f64 <= most as f64;
                grown.skew_fit = if leads { SkewFit::Anywhere } else { SkewFit::Done };
                break;
            };
            let period = skew_term.period / scale;
            if !grown
                .segment
                .skew_terms
                .iter()
                .any(|own| (own.period / period - 1.0).abs() < SAME_SKEW_TERM)
            {
                break;
            }
            grown.skew_fit = SkewFit::Near(number + 1);
        }
        let near = |number: usize| known[number].period / scale;
        let (width, work) = match grown.skew_fit {
            SkewFit::Done => return Task::Extend(grown),
            SkewFit::Near(number) => (2.0 * NEAR_SKEW_TERM / near(number), NEAR_WORK),
            SkewFit::Anywhere => (slope, ANYWHERE_WORK),
        };
        let most = skew_points(width, apart, work);
        let middle = grown.from.midpoint(grown.to);
        let (from, to) =
            (middle.saturating_sub(most / 2).max(grown.from), (middle + most / 2).min(grown.to));
        let points: Vec<Point> =
            (from..to).map(|number| self.point(&grown.segment, number)).collect();
        let lowest = REPETITIONS
            / (points.last().map_or(1.0, |point| point.0)
                - points.first().map_or(0.0, |point| point.0))
            .max(1.0);
        let (low, high) = match grown.skew_fit {
            SkewFit::Near(number) if 1.0 / near(number) < lowest => {
                return self
                    .skew_fit(Grown { skew_fit: SkewFit::Near(number + 1), ..grown }, budget);
            }
            SkewFit::Near(number) => {
                ((1.0 - NEAR_SKEW_TERM) / near(number), (1.0 + NEAR_SKEW_TERM) / near(number))
            }
            // From a few repetitions in all to one per track, which is no longer than a turn.
            _ => (lowest, slope * 1.02),
        };
        grown.skew_fitted = grown.to - grown.from;
        if grown.skew_fit == SkewFit::Anywhere {
            self.skew_fitted = to - from;
        }
        let bound = 4.0 * grown.segment.spread;
        let left: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|point| (point.0, 0.0, residual(&grown.segment, *point).clamp(-bound, bound)))
            .collect();
        budget.spend(EVALUATION * left.len() as u64);
        Task::SkewFit { scan: Scan::new(Score::Length, &left, low, high, budget), grown, from, to }
    }

    pub(super) fn take_skew_fit(
        &mut self,
        grown: Grown,
        scan: &Scan,
        from: usize,
        to: usize,
        budget: &mut Budget,
    ) -> Task {
        let sure = match grown.skew_fit {
            SkewFit::Near(_) => SURE_NEAR,
            SkewFit::Anywhere | SkewFit::Done => SURE_ANYWHERE,
        };
        if scan.sureness() < libm::log(scan.steps() as f64) + sure {
            return self.skew_fit(
                Grown { skew_fit: grown.skew_fit.next(Outcome::Rejected), ..grown },
                budget,
            );
        }
        let points = self.sample(&grown.segment, from, to, budget);
        let segments = with_skew_term(&grown.segment, &points, scan.frequency(), budget);
        Task::Fit { grown, fitting: Fitting::new(points, segments), from, to }
    }

    pub(super) fn take_fit(
        &mut self,
        mut grown: Grown,
        segment: Segment,
        tried: f64,
        (from, to): (usize, usize),
        budget: &mut Budget,
    ) -> Task {
        self.tried += tried;
        budget.spend(OF_SEGMENTS * (self.known.segments().len() + self.segments.len()) as u64);
        let points = self.sample(&grown.segment, from, to, budget);
        budget.spend(2 * EVALUATION * points.len() as u64);
        let (before, after) =
            (misfit(&grown.segment, &points, 0.1), misfit(&segment, &points, 0.1));
        let added = segment.skew_terms.len() > grown.segment.skew_terms.len();
        let matters = segment.skew_terms.last().is_some_and(|skew_term| {
            let again = segment
                .skew_terms
                .iter()
                .filter(|own| (own.period / skew_term.period - 1.0).abs() < SAME_SKEW_TERM)
                .count();
            skew_term.height.abs() > 2.0 * CLOSE && again == 1 && self.is_usual(&segment, skew_term)
        });
        let worth = if added { after < WORTH * before && matters } else { after < before };
        if worth {
            grown.segment = segment;
        }
        if added {
            let outcome = if worth { Outcome::Accepted } else { Outcome::Rejected };
            let skew_fit = grown.skew_fit.next(outcome);
            if worth {
                // The term is accepted and the next is searched as thoroughly. The segment is
                // extended again from the range in which the term was found.
                if grown.skew_fit == SkewFit::Anywhere {
                    self.skew_fitted = 0;
                }
                grown = Grown::new(grown.segment, from, to, skew_fit);
            }
            return self.skew_fit(Grown { skew_fit, ..grown }, budget);
        }
        grown.fitted = to - from;
        grown.segment.spread = deviation(&grown.segment, &points);
        if grown.before.is_none() {
            grown.core = grown.segment.spread;
        } else if grown.is_bent() {
            grown.unbend();
        }
        Task::Extend(grown)
    }

    /// Returns true if the height of a skew term is near the median of its kind: skews are the same
    /// angle in all zones.
    pub(super) fn is_usual(&self, segment: &Segment, skew_term: &SkewTerm) -> bool {
        let turns = skew_term.period * segment.slope;
        let same = |segment: &Segment| {
            segment
                .skew_terms
                .iter()
                .find(|other| (other.period * segment.slope / turns - 1.0).abs() < SAME_SKEW_TERM)
                .map(|other| other.height)
        };
        let mut heights: Vec<f64> = self
            .all_segments()
            .map(|(_, segment)| segment)
            .chain(self.known.segments())
            .filter_map(same)
            .collect();
        heights.sort_unstable_by(f64::total_cmp);
        heights.len() < USUAL
            || (0.5..2.0).contains(&(skew_term.height / heights[heights.len() / 2]))
    }
}

/// The number of points at a distance of `apart` sectors that a search among frequencies `width`
/// wide may use.
fn skew_points(width: f64, apart: f64, work: f64) -> usize {
    let most = libm::sqrt(work / (STEPS_PER_TURN * width * apart.max(1.0))) as usize;
    most.clamp(pairs::MAX_POINTS, MAX_SKEW_POINTS)
}
