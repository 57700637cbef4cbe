//! Combing: looking for the teeth of a strip, near those of other strips first, and whether what is
//! found is believed.

use super::super::budget::{Budget, EVALUATION};
use super::super::pairs;
use super::super::scan::{STEPS_PER_TURN, Scan, Score};
use super::super::strips::{Strip, Tooth};
use super::super::teeth::{Fitting, MAX_TEETH, Point, deviation, misfit, residual, with_tooth};
use super::{CLOSE, COMB_AGAIN, Grown, REPETITIONS, Survey, Task};

/// A tooth is looked for this close to where those of other strips say it is: tracks are whole
/// sectors.
const NEAR_TOOTH: f64 = 0.01;
/// Teeth whose periods differ by less are the same.
const SAME_TOOTH: f64 = 0.05;
/// A tooth is believed whose sureness is above the logarithm of how many were tried by this: where
/// another strip says that there is one, and anywhere. A false one spoils little, and has to bring
/// the misfit down besides.
const SURE_NEAR: f64 = 6.0;
const SURE_ANYWHERE: f64 = 9.0;
/// So many strips have to have a tooth before it is held against theirs.
const USUAL: usize = 3;
/// What holding a tooth against those of all strips takes for each of these, in operations.
pub(super) const OF_STRIPS: u64 = 16;
/// Operations that looking for a tooth may take, near one of another strip and anywhere: as many
/// points are taken as that allows, and no more than these.
const NEAR_WORK: f64 = 4e6;
const ANYWHERE_WORK: f64 = 5e7;
pub(super) const COMBED_POINTS: usize = 512;
/// A tooth has to bring the misfit down to this part at least.
const WORTH: f64 = 0.85;

/// Where the next tooth is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comb {
    /// Near that tooth of the strip that knows most.
    Near(usize),
    Anywhere,
    Done,
}

impl Comb {
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
    /// The strips that were found, and those that stay as they were.
    pub(super) fn all_strips(&self) -> impl Iterator<Item = (usize, &Strip)> {
        let grown = self.strips.iter().map(|grown| (grown.to - grown.from, &grown.strip));
        grown.chain(self.carried.iter().map(|strip| (strip.sights as usize, strip)))
    }

    /// The strip that is known best, by its points and how near they are.
    pub(super) fn model(&self) -> Option<&Strip> {
        let known_by = |(points, strip): &(usize, &Strip)| {
            *points as f64 / (strip.spread * strip.spread).max(CLOSE * CLOSE)
        };
        let toothed = self.all_strips().filter(|(_, strip)| !strip.teeth.is_empty());
        toothed.max_by(|a, b| known_by(a).total_cmp(&known_by(b))).map(|(_, strip)| strip)
    }

    /// Looks for one more tooth, if there is need and room.
    pub(super) fn comb(&mut self, mut grown: Grown, budget: &mut Budget) -> Task {
        let (slope, model) = (grown.strip.slope, self.model());
        let known = model.map_or(&[][..], |model| &model.teeth);
        if grown.strip.teeth.len() >= MAX_TEETH || grown.strip.spread < CLOSE {
            grown.comb = Comb::Done;
        }
        let scale = slope / model.map_or(slope, |model| model.slope);
        // Sectors from point to point.
        let apart = (self.points[grown.to - 1].lba - self.points[grown.from].lba) as f64
            / (grown.to - grown.from) as f64;
        while let Comb::Near(number) = grown.comb {
            let Some(tooth) = known.get(number) else {
                // Beyond what the others know nothing is looked for but in the strip of which most
                // is known, and again when it has grown.
                let most = combed_points(slope, apart, ANYWHERE_WORK).min(grown.to - grown.from);
                let leads = grown.strip.teeth.len() >= known.len()
                    && COMB_AGAIN * self.combed as f64 <= most as f64;
                grown.comb = if leads { Comb::Anywhere } else { Comb::Done };
                break;
            };
            let period = tooth.period / scale;
            if !grown.strip.teeth.iter().any(|own| (own.period / period - 1.0).abs() < SAME_TOOTH) {
                break;
            }
            grown.comb = Comb::Near(number + 1);
        }
        let near = |number: usize| known[number].period / scale;
        let (width, work) = match grown.comb {
            Comb::Done => return Task::Grow(grown),
            Comb::Near(number) => (2.0 * NEAR_TOOTH / near(number), NEAR_WORK),
            Comb::Anywhere => (slope, ANYWHERE_WORK),
        };
        let most = combed_points(width, apart, work);
        let middle = grown.from.midpoint(grown.to);
        let (from, to) =
            (middle.saturating_sub(most / 2).max(grown.from), (middle + most / 2).min(grown.to));
        let points: Vec<Point> =
            (from..to).map(|number| self.point(&grown.strip, number)).collect();
        let lowest = REPETITIONS
            / (points.last().map_or(1.0, |point| point.0)
                - points.first().map_or(0.0, |point| point.0))
            .max(1.0);
        let (low, high) = match grown.comb {
            Comb::Near(number) if 1.0 / near(number) < lowest => {
                return self.comb(Grown { comb: Comb::Near(number + 1), ..grown }, budget);
            }
            Comb::Near(number) => {
                ((1.0 - NEAR_TOOTH) / near(number), (1.0 + NEAR_TOOTH) / near(number))
            }
            // From a few repetitions in all to one each track, which is no longer than a turn.
            _ => (lowest, slope * 1.02),
        };
        grown.combed = grown.to - grown.from;
        if grown.comb == Comb::Anywhere {
            self.combed = to - from;
        }
        let bound = 4.0 * grown.strip.spread;
        let left: Vec<(f64, f64, f64)> = points
            .iter()
            .map(|point| (point.0, 0.0, residual(&grown.strip, *point).clamp(-bound, bound)))
            .collect();
        budget.spend(EVALUATION * left.len() as u64);
        Task::Comb { scan: Scan::new(Score::Length, &left, low, high, budget), grown, from, to }
    }

    pub(super) fn take_comb(
        &mut self,
        grown: Grown,
        scan: &Scan,
        from: usize,
        to: usize,
        budget: &mut Budget,
    ) -> Task {
        let sure = match grown.comb {
            Comb::Near(_) => SURE_NEAR,
            Comb::Anywhere | Comb::Done => SURE_ANYWHERE,
        };
        if scan.sureness() < libm::log(scan.steps() as f64) + sure {
            return self.comb(Grown { comb: grown.comb.next(false), ..grown }, budget);
        }
        let points = self.sample(&grown.strip, from, to, budget);
        let strips = with_tooth(&grown.strip, &points, scan.frequency(), budget);
        Task::Fit { grown, fitting: Fitting::new(points, strips), from, to }
    }

    pub(super) fn take_fit(
        &mut self,
        mut grown: Grown,
        strip: Strip,
        tried: f64,
        (from, to): (usize, usize),
        budget: &mut Budget,
    ) -> Task {
        self.tried += tried;
        budget.spend(OF_STRIPS * (self.known.strips().len() + self.strips.len()) as u64);
        let points = self.sample(&grown.strip, from, to, budget);
        budget.spend(2 * EVALUATION * points.len() as u64);
        let (before, after) = (misfit(&grown.strip, &points, 0.1), misfit(&strip, &points, 0.1));
        let toothed = strip.teeth.len() > grown.strip.teeth.len();
        let matters = strip.teeth.last().is_some_and(|tooth| {
            let again = strip
                .teeth
                .iter()
                .filter(|own| (own.period / tooth.period - 1.0).abs() < SAME_TOOTH)
                .count();
            tooth.height.abs() > 2.0 * CLOSE && again == 1 && self.is_usual(&strip, tooth)
        });
        let worth = if toothed { after < WORTH * before && matters } else { after < before };
        if worth {
            grown.strip = strip;
        }
        if toothed {
            let comb = grown.comb.next(worth);
            if worth {
                // One more, and the next is looked for as thoroughly; from where it was found the
                // strip grows again.
                if grown.comb == Comb::Anywhere {
                    self.combed = 0;
                }
                grown = Grown::new(grown.strip, from, to, comb);
            }
            return self.comb(Grown { comb, ..grown }, budget);
        }
        grown.fitted = to - from;
        grown.strip.spread = deviation(&grown.strip, &points);
        if grown.before.is_none() {
            grown.core = grown.strip.spread;
        } else if grown.is_bent() {
            grown.unbend();
        }
        Task::Grow(grown)
    }

    /// Whether a tooth is about as high as most of its kind: skews are the same angle in all zones.
    pub(super) fn is_usual(&self, strip: &Strip, tooth: &Tooth) -> bool {
        let turns = tooth.period * strip.slope;
        let same = |strip: &Strip| {
            strip
                .teeth
                .iter()
                .find(|other| (other.period * strip.slope / turns - 1.0).abs() < SAME_TOOTH)
                .map(|other| other.height)
        };
        let mut heights: Vec<f64> = self
            .all_strips()
            .map(|(_, strip)| strip)
            .chain(self.known.strips())
            .filter_map(same)
            .collect();
        heights.sort_unstable_by(f64::total_cmp);
        heights.len() < USUAL || (0.5..2.0).contains(&(tooth.height / heights[heights.len() / 2]))
    }
}

/// How many points that lie `apart` sectors apart may be asked for a tooth among frequencies
/// `width` wide.
fn combed_points(width: f64, apart: f64, work: f64) -> usize {
    let most = libm::sqrt(work / (STEPS_PER_TURN * width * apart.max(1.0))) as usize;
    most.clamp(pairs::MAX_POINTS, COMBED_POINTS)
}
