//! Combing: looking for the skew terms of a segment, near those of other segments first, and whether what is
//! found is believed.

use super::super::budget::{Budget, EVALUATION};
use super::super::pairs;
use super::super::scan::{STEPS_PER_TURN, Scan, Score};
use super::super::segments::{Segment, SkewTerm};
use super::super::skew_terms::{
    Fitting, MAX_SKEW_TERMS, Point, deviation, misfit, residual, with_skew_term,
};
use super::{CLOSE, Grown, REPETITIONS, SKEW_FIT_AGAIN, Survey, Task};

/// A skew term is looked for this close to where those of other segments say it is: tracks are whole
/// sectors.
const NEAR_SKEW_TERM: f64 = 0.01;
/// Teeth whose periods differ by less are the same.
const SAME_SKEW_TERM: f64 = 0.05;
/// A skew term is believed whose sureness is above the logarithm of how many were tried by this: where
/// another segment says that there is one, and anywhere. A false one spoils little, and has to bring
/// the misfit down besides.
const SURE_NEAR: f64 = 6.0;
const SURE_ANYWHERE: f64 = 9.0;
/// So many segments have to have a skew term before it is held against theirs.
const USUAL: usize = 3;
/// What holding a skew term against those of all segments takes for each of these, in operations.
pub(super) const OF_SEGMENTS: u64 = 16;
/// Operations that looking for a skew term may take, near one of another segment and anywhere: as many
/// points are taken as that allows, and no more than these.
const NEAR_WORK: f64 = 4e6;
const ANYWHERE_WORK: f64 = 5e7;
pub(super) const COMBED_POINTS: usize = 512;
/// A skew term has to bring the misfit down to this part at least.
const WORTH: f64 = 0.85;

/// Where the next skew term is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkewFit {
    /// Near that skew term of the segment that knows most.
    Near(usize),
    Anywhere,
    Done,
}

impl SkewFit {
    /// Where to look next; anywhere as long as that finds something.
    pub(super) fn next(self, found: bool) -> Self {
        match self {
            Self::Near(number) => Self::Near(number + 1),
            Self::Anywhere if found => Self::Anywhere,
            Self::Anywhere | Self::Done => Self::Done,
        }
    }
}

impl Survey {
    /// The segments that were found, and those that stay as they were.
    pub(super) fn all_segments(&self) -> impl Iterator<Item = (usize, &Segment)> {
        let grown = self.segments.iter().map(|grown| (grown.to - grown.from, &grown.segment));
        grown.chain(self.carried.iter().map(|segment| (segment.angle_samples as usize, segment)))
    }

    /// The segment that is known best, by its points and how near they are.
    pub(super) fn model(&self) -> Option<&Segment> {
        let known_by = |(points, segment): &(usize, &Segment)| {
            *points as f64 / (segment.spread * segment.spread).max(CLOSE * CLOSE)
        };
        let toothed = self.all_segments().filter(|(_, segment)| !segment.skew_terms.is_empty());
        toothed.max_by(|a, b| known_by(a).total_cmp(&known_by(b))).map(|(_, segment)| segment)
    }

    /// Looks for one more skew term, if there is need and room.
    pub(super) fn skew_fit(&mut self, mut grown: Grown, budget: &mut Budget) -> Task {
        let (slope, model) = (grown.segment.slope, self.model());
        let known = model.map_or(&[][..], |model| &model.skew_terms);
        if grown.segment.skew_terms.len() >= MAX_SKEW_TERMS || grown.segment.spread < CLOSE {
            grown.skew_fit = SkewFit::Done;
        }
        let scale = slope / model.map_or(slope, |model| model.slope);
        // Sectors from point to point.
        let apart = (self.points[grown.to - 1].lba - self.points[grown.from].lba) as f64
            / (grown.to - grown.from) as f64;
        while let SkewFit::Near(number) = grown.skew_fit {
            let Some(skew_term) = known.get(number) else {
                // Beyond what the others know nothing is looked for but in the segment of which most
                // is known, and again when it has grown.
                let most = combed_points(slope, apart, ANYWHERE_WORK).min(grown.to - grown.from);
                let leads = grown.segment.skew_terms.len() >= known.len()
                    && SKEW_FIT_AGAIN * self.combed as f64 <= most as f64;
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
            SkewFit::Done => return Task::Grow(grown),
            SkewFit::Near(number) => (2.0 * NEAR_SKEW_TERM / near(number), NEAR_WORK),
            SkewFit::Anywhere => (slope, ANYWHERE_WORK),
        };
        let most = combed_points(width, apart, work);
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
            // From a few repetitions in all to one each track, which is no longer than a turn.
            _ => (lowest, slope * 1.02),
        };
        grown.combed = grown.to - grown.from;
        if grown.skew_fit == SkewFit::Anywhere {
            self.combed = to - from;
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
            return self.skew_fit(Grown { skew_fit: grown.skew_fit.next(false), ..grown }, budget);
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
        let toothed = segment.skew_terms.len() > grown.segment.skew_terms.len();
        let matters = segment.skew_terms.last().is_some_and(|skew_term| {
            let again = segment
                .skew_terms
                .iter()
                .filter(|own| (own.period / skew_term.period - 1.0).abs() < SAME_SKEW_TERM)
                .count();
            skew_term.height.abs() > 2.0 * CLOSE && again == 1 && self.is_usual(&segment, skew_term)
        });
        let worth = if toothed { after < WORTH * before && matters } else { after < before };
        if worth {
            grown.segment = segment;
        }
        if toothed {
            let skew_fit = grown.skew_fit.next(worth);
            if worth {
                // One more, and the next is looked for as thoroughly; from where it was found the
                // segment grows again.
                if grown.skew_fit == SkewFit::Anywhere {
                    self.combed = 0;
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
        Task::Grow(grown)
    }

    /// Whether a skew term is about as high as most of its kind: skews are the same angle in all zones.
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

/// How many points that lie `apart` sectors apart may be asked for a skew term among frequencies
/// `width` wide.
fn combed_points(width: f64, apart: f64, work: f64) -> usize {
    let most = libm::sqrt(work / (STEPS_PER_TURN * width * apart.max(1.0))) as usize;
    most.clamp(pairs::MAX_POINTS, COMBED_POINTS)
}
