//! [`Survey`]: a search for segments, which locates sectors around the platter from angle samples
//! alone. The work is done in slices.
//!
//! Angle samples in the order of their addresses are points in a plane: the address is the
//! abscissa, turns are the ordinate, and whole turns are unknown ([`Gather`]). Where no segment is
//! known, the survey selects a *window* of up to 128 neighboring points. Pairs of points that lie
//! near each other vote on its slope and speed ([`Pairs`]), and the whole window refines the result
//! ([`Scan`]). The residual repeats from track to track, from surface to surface and so on; it is
//! described by skew terms ([`super::skew_terms`]). The segment is then *extended* over the
//! adjacent points as long as they match its prediction. The next window is selected where most
//! points are unassigned. Its slope and skew terms are searched near those of known segments first,
//! because all zones of a drive have the same surfaces, bands and skews and differ only in their
//! tracks.
//!
//! *Acceptance*: the result of each step must exceed what chance achieves in all of the c ways
//! tried so far in this search. A slope needs a sureness of ln c + 12 ([`Scan::sureness`]). A
//! segment needs odds of c · e¹² that its points belong to it. Chance passes the n-th step of m
//! with e^−12 times the share of c that the step tried itself. A search is therefore fooled at most
//! e^−12 · (1 + ln c) of the time, one in some ten thousand. A skew term needs less, because a
//! false one moves little and must also reduce the misfit. A segment is extended to where the odds
//! of its points are best. It stops where they have fallen by e⁹ since, or where it would have to
//! bend, and its ends are trimmed where they do not belong to it. Known segments are compared with
//! the new points first and dropped where those contradict them. Later samples are compared as well
//! ([`super::recheck`]).
//!
//! Worked example, 20 TB in 24 zones, 8,192 angle samples: 340 per zone. The slope of a window of
//! 128 points in the middle of a zone is found from 64 pairs in 30 million operations, which are
//! 500 completions. Each further zone takes some dozen completions, and its skew terms some
//! hundred.
//!
//! Limits: segments of fewer than 32 points are not found, nor is a zone that differs from its
//! neighbor by less than the noise. Cost: no completion does more than [`super::budget::MOST`]
//! operations; the whole search lasts from some hundred to some ten thousand completions.

use headtime_units::{RotationPeriod, Sectors};

use super::angle_samples::AngleSamples;
use super::budget::{Budget, EVALUATION};
use super::gather::{Gather, Seen};
use super::pairs::Pairs;
use super::scan::{SURE, Scan};
use super::segments::{SEGMENT_BYTES, Segment, Segments};
use super::skew_terms::{Fitting, MAX_POINTS, Point, SpeedFit, deviation, level};
pub(super) use odds::odds_of;
use odds::{belongs, odds, weights};
use skew_fit::{MAX_SKEW_POINTS, OF_SEGMENTS, SkewFit};
use windows::{Sharpening, SlopeRange};

mod odds;
mod skew_fit;
mod windows;

/// The minimum number of points of a new segment.
const MIN_POINTS: usize = 32;
/// The factor by which a segment must have gained points before its skews are fitted again.
const SKEW_FIT_AGAIN: f64 = 1.4;
/// The growth of the deviation at which a segment counts as bent.
const BENT: f64 = 2.0;
/// The minimum number of points of one extension.
const MIN_GROWTH: usize = 8;
/// The number of repetitions within the points below which a skew term is not detectable.
const REPETITIONS: f64 = 6.0;
/// The deviation, in turns, below which a segment needs no further skew terms.
const CLOSE: f64 = 0.003;
/// The drop of the logarithm of the odds at which a segment ends.
const ENDED: f64 = 9.0;
/// The maximum number of points of one extension.
const GROWTH: usize = 256;
/// The factor by which a segment must have gained points before it is fitted again.
const FIT_AGAIN: f64 = 1.5;
/// The number of newest angle samples searched while no segment is known. Over a short time a wrong
/// or drifting speed has the least effect.
const FIRST_ANGLE_SAMPLES: usize = 8_192;
/// The maximum number of angle samples in one search.
const MAX_ANGLE_SAMPLES: usize = 16_384;
/// The number of rejected windows after which the search waits for more angle samples: while no
/// segment is known, and afterwards.
const MAX_FRUITLESS_WINDOWS: (u32, u32) = (4, 48);
/// The number of points after the end of a segment that are compared with it.
const AFTER: usize = 24;
/// A segment whose deviation is this many times that of the best known one is searched again.
const REJECTED: f64 = 3.0;
/// The number of points in the middle of a known segment that are compared with it, and the
/// minimum.
const CHECKED: usize = 128;
const MIN_CHECKED: usize = 8;

/// A search for segments.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    capacity: u64,
    /// The segments known at the beginning.
    known: Segments,
    period: RotationPeriod,
    /// The relative excess of the platter speed over that period.
    speed: f64,
    speed_known: bool,
    points: Vec<Seen>,
    /// Points that belong to a segment, and points at which a window was rejected.
    owned: Vec<bool>,
    rejected: Vec<bool>,
    unchecked: Vec<Segment>,
    /// Known segments with too few points, or with a large deviation. They are kept where no other
    /// segment is found.
    carried: Vec<Segment>,
    segments: Vec<Grown>,
    /// Ends of segments, right (`true`) or left, after which no continuation was searched yet.
    ends: Vec<(usize, bool)>,
    fruitless: u32,
    /// The number of points in the last unsuccessful unrestricted search for a skew term.
    skew_fitted: usize,
    /// The number of candidates tried so far.
    tried: f64,
    task: Task,
}

/// A segment and its points, from `from` up to but not including `to`.
#[derive(Clone, Debug)]
struct Grown {
    segment: Segment,
    from: usize,
    to: usize,
    /// The number of points at the last fit.
    fitted: usize,
    skew_fit: SkewFit,
    /// The number of points at the last search for skew terms.
    skew_fitted: usize,
    /// The deviation of the points when the skew terms were found.
    core: f64,
    /// The maximum number of points of the next extension; zero at the end of the segment.
    most: usize,
    /// The state before the last extension.
    before: Option<Box<(Segment, usize, usize)>>,
}

#[derive(Clone, Debug)]
enum Task {
    Gather(Gather),
    Window,
    Slope { from: usize, to: usize, range: SlopeRange, pairs: Pairs },
    Sharpen(Box<Sharpening>),
    SkewFit { grown: Grown, scan: Scan, from: usize, to: usize },
    Fit { grown: Grown, fitting: Fitting, from: usize, to: usize },
    Extend(Grown),
}

/// The result of a survey.
#[derive(Clone, Debug)]
pub(super) struct FoundSegments {
    pub(super) segments: Segments,
    pub(super) period: RotationPeriod,
}

impl Grown {
    fn new(segment: Segment, from: usize, to: usize, skew_fit: SkewFit) -> Self {
        Self {
            core: segment.spread,
            segment,
            from,
            to,
            fitted: to - from,
            skew_fit,
            skew_fitted: 0,
            most: GROWTH,
            before: None,
        }
    }

    /// Returns true if the deviation has increased so much that the segment does not continue
    /// straight.
    fn is_bent(&self) -> bool {
        self.segment.spread > BENT * self.core.max(CLOSE)
    }

    /// Reverts the last extension, and limits the next ones.
    fn unbend(&mut self) {
        if let Some(before) = self.before.take() {
            self.most = (self.to - self.from).saturating_sub(before.2 - before.1) / 4;
            if self.most < MIN_GROWTH {
                self.most = 0;
            }
            (self.segment, self.from, self.to) = *before;
        }
    }
}

impl Survey {
    /// Begins a search with the known segments.
    pub(super) fn begin(
        capacity: Sectors,
        period: RotationPeriod,
        known: Segments,
        angle_samples: &AngleSamples,
    ) -> Self {
        let count =
            if known.segments().is_empty() { FIRST_ANGLE_SAMPLES } else { MAX_ANGLE_SAMPLES };
        let mut unchecked = known.segments().to_vec();
        // The best known segment is checked first; the others are compared with it.
        unchecked.sort_by_key(|segment| (segment.skew_terms.len(), segment.angle_samples));
        Self {
            capacity: capacity.get(),
            period,
            speed: 0.0,
            speed_known: !known.segments().is_empty(),
            points: Vec::new(),
            owned: Vec::new(),
            rejected: Vec::new(),
            unchecked,
            carried: Vec::new(),
            segments: Vec::new(),
            ends: Vec::new(),
            fruitless: 0,
            skew_fitted: 0,
            tried: 1.0,
            task: Task::Gather(Gather::new(period, &known, angle_samples, count)),
            known,
        }
    }

    /// Bytes of memory. Segments and their skew terms are a few kilobytes.
    pub(super) fn memory(&self) -> u64 {
        let points = self.points.capacity() * size_of::<Seen>()
            + self.owned.capacity()
            + self.rejected.capacity();
        let task = match &self.task {
            Task::Gather(gather) => gather.memory(),
            Task::Slope { pairs, .. } => pairs.memory(),
            Task::Sharpen(sharpening) => sharpening.memory(),
            Task::SkewFit { scan, .. } => scan.memory(),
            Task::Fit { fitting, .. } => fitting.memory(),
            Task::Window | Task::Extend(_) => 0,
        };
        let segments = self.segments.len()
            + self.unchecked.len()
            + self.carried.len()
            + self.known.segments().len();
        points as u64 + task + segments as u64 * SEGMENT_BYTES
    }

    /// Runs one slice; returns the result once it is complete.
    pub(super) fn step(
        &mut self,
        angle_samples: &AngleSamples,
        budget: &mut Budget,
    ) -> Option<FoundSegments> {
        while budget.is_left() {
            let task = std::mem::replace(&mut self.task, Task::Window);
            self.task = match task {
                Task::Gather(mut gather) => {
                    if let Some((points, period)) =
                        gather.advance(&self.known, angle_samples, budget)
                    {
                        (self.owned, self.rejected) =
                            (vec![false; points.len()], vec![false; points.len()]);
                        (self.points, self.period) = (points, period);
                        Task::Window
                    } else {
                        Task::Gather(gather)
                    }
                }
                Task::Window => match self.next_task(angle_samples, budget) {
                    Some(task) => task,
                    None => return Some(self.finish()),
                },
                Task::Slope { from, to, range, mut pairs } => match pairs.advance(budget) {
                    Some((agreed, tried)) => {
                        self.take_slope(from, to, range, agreed, tried, budget)
                    }
                    None => Task::Slope { from, to, range, pairs },
                },
                Task::Sharpen(sharpening) => self.sharpen(sharpening, budget),
                Task::SkewFit { grown, mut scan, from, to } => {
                    if scan.advance(budget) {
                        self.take_skew_fit(grown, &scan, from, to, budget)
                    } else {
                        Task::SkewFit { grown, scan, from, to }
                    }
                }
                Task::Fit { grown, mut fitting, from, to } => match fitting.advance(budget) {
                    Some((segment, tried)) => {
                        self.take_fit(grown, segment, tried, (from, to), budget)
                    }
                    None => Task::Fit { grown, fitting, from, to },
                },
                Task::Extend(grown) => self.extend(grown, budget),
            };
        }
        None
    }

    /// Returns the next task: a known segment to check or continue, or the middle of the longest
    /// row of unassigned points; `None` if there is none.
    fn next_task(&mut self, angle_samples: &AngleSamples, budget: &mut Budget) -> Option<Task> {
        if let Some(segment) = self.unchecked.pop() {
            return Some(self.check(segment, budget));
        }
        if let Some((number, right)) = self.ends.pop() {
            return Some(self.resume_past_end(number, right, budget));
        }
        if self.segments.is_empty() && self.carried.is_empty() && !self.known.segments().is_empty()
        {
            // All known segments were refuted: the search restarts without any.
            self.known = Segments::default();
            self.speed_known = false;
            return Some(Task::Gather(Gather::new(
                self.period,
                &self.known,
                angle_samples,
                FIRST_ANGLE_SAMPLES,
            )));
        }
        let most = if self.speed_known { MAX_FRUITLESS_WINDOWS.1 } else { MAX_FRUITLESS_WINDOWS.0 };
        if self.fruitless >= most { None } else { self.next_window(budget) }
    }

    /// Compares a known segment with the points. It is extended again from its middle, so that a
    /// border inside it is found. It is kept where few points lie in it, and dropped where they
    /// contradict it.
    fn check(&mut self, segment: Segment, budget: &mut Budget) -> Task {
        budget.spend(OF_SEGMENTS * self.known.segments().len() as u64);
        let (from, to) = (
            self.points.partition_point(|point| point.lba < segment.first),
            self.points.partition_point(|point| point.lba < segment.end),
        );
        if to - from < MIN_CHECKED {
            self.carried.push(segment);
            return Task::Window;
        }
        if self.model().is_some_and(|model| segment.spread > REJECTED * model.spread.max(CLOSE)) {
            // Its skew terms may be wrong: it is deferred until its neighbors have been extended
            // past their ends.
            self.carried.push(segment);
            return Task::Window;
        }
        let middle = from.midpoint(to);
        let (from, to) =
            (middle.saturating_sub(CHECKED / 2).max(from), (middle + CHECKED / 2).min(to));
        let points = self.sample(&segment, from, to, budget);
        budget.spend(EVALUATION * points.len() as u64);
        if odds(&segment, &points) < SURE.min(points.len() as f64)
            || self.owned[from..to].contains(&true)
        {
            return Task::Window;
        }
        let grown = Grown::new(segment, from, to, SkewFit::Near(0));
        if to - from < MIN_POINTS {
            return Task::Extend(grown);
        }
        // A fit to so few points may end at a small step that the segment crossed before.
        let mut segment = grown.segment.clone();
        let span = (self.points[to - 1].lba - self.points[from].lba) as f64;
        segment.skew_terms.retain(|skew_term| {
            span > REPETITIONS * skew_term.period && self.is_usual(&grown.segment, skew_term)
        });
        Task::Fit {
            grown: Grown { segment: segment.clone(), ..grown },
            fitting: Fitting::new(points, vec![segment]),
            from,
            to,
        }
    }

    /// Searches after the end of a segment for a continuation that is shifted by some sectors:
    /// after a run of slipped sectors, or after spares.
    fn resume_past_end(&mut self, number: usize, right: bool, budget: &mut Budget) -> Task {
        let grown = &self.segments[number];
        let free = |number: &usize| !self.owned[*number];
        let (from, to) = if right {
            (
                grown.to,
                (grown.to..self.points.len())
                    .take(AFTER)
                    .take_while(free)
                    .last()
                    .map_or(grown.to, |last| last + 1),
            )
        } else {
            (
                (grown.from.saturating_sub(AFTER)..grown.from)
                    .rev()
                    .take_while(free)
                    .last()
                    .unwrap_or(grown.from),
                grown.from,
            )
        };
        if to - from < AFTER / 2 {
            return Task::Window;
        }
        let mut segment = grown.segment.clone();
        let points: Vec<Point> = (from..to).map(|number| self.point(&segment, number)).collect();
        let moved = |sixty_fourths: i32| f64::from(sixty_fourths) / (64.0 * segment.slope);
        let at = |by: f64| {
            points.iter().map(|point| (point.0 + by, point.1, point.2)).collect::<Vec<Point>>()
        };
        let odds_at = |by: f64| odds(&segment, &at(by));
        let best = (-64..=64)
            .map(|by| (odds_at(moved(by)), by))
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.abs().cmp(&a.1.abs())));
        let (odds, by) = best.unwrap_or_default();
        budget.spend(129 * EVALUATION * points.len() as u64);
        if !self.is_sure(odds, 129.0) {
            return Task::Window;
        }
        // Moving the points forward equals moving the origin back.
        let by = libm::round(moved(by));
        segment.origin = segment.origin.wrapping_add_signed(-(by as i64));
        self.level(&mut segment, from, to, budget);
        Task::Extend(Grown::new(segment, from, to, SkewFit::Done))
    }

    /// Points of a segment, evenly spaced where there are many.
    fn sample(&self, segment: &Segment, from: usize, to: usize, budget: &mut Budget) -> Vec<Point> {
        let apart = (to - from).div_ceil(MAX_POINTS).max(1);
        let points: Vec<Point> =
            (from..to).step_by(apart).map(|number| self.point(segment, number)).collect();
        budget.spend(2 * points.len() as u64);
        points
    }

    fn point(&self, segment: &Segment, number: usize) -> Point {
        let Seen { lba, turns, time } = self.points[number];
        (segment.place(lba), turns + self.speed * time, time)
    }

    /// Returns true if chance is unlikely to reach this sureness in all candidates tried, `more` of
    /// which are new.
    fn is_sure(&mut self, sureness: f64, more: f64) -> bool {
        self.tried += more;
        sureness > libm::log(self.tried) + SURE
    }

    /// Fits the line of a segment to its points, and the speed with it while that is not known.
    fn level(&mut self, segment: &mut Segment, from: usize, to: usize, budget: &mut Budget) {
        let points = self.sample(segment, from, to, budget);
        let speed = if self.speed_known { SpeedFit::Fixed } else { SpeedFit::Fitted };
        let faster = level(segment, &points, speed, budget);
        if !self.speed_known {
            self.speed += faster;
        }
        let points = self.sample(segment, from, to, budget);
        segment.spread = deviation(segment, &points);
        budget.spend(EVALUATION * points.len() as u64);
    }

    /// Adds adjacent points to the segment while they belong to it and it continues straight. Fits
    /// it again after a large extension.
    fn extend(&mut self, mut grown: Grown, budget: &mut Budget) -> Task {
        let most = ((grown.to - grown.from) / 2 + MIN_GROWTH).min(grown.most);
        let right = self.reach(&grown, most, true, budget);
        let left = self.reach(&grown, most, false, budget);
        let again = |grown: &Grown| {
            !grown.segment.skew_terms.is_empty()
                && (grown.to - grown.from) as f64 > FIT_AGAIN * grown.fitted as f64
        };
        if right + left > 0 {
            grown.before = Some(Box::new((grown.segment.clone(), grown.from, grown.to)));
            (grown.from, grown.to) = (grown.from - left, grown.to + right);
            self.level(&mut grown.segment, grown.from, grown.to, budget);
            if !grown.is_bent() && !again(&grown) {
                return Task::Extend(grown);
            }
            if grown.segment.skew_terms.is_empty() {
                grown.unbend();
                return Task::Extend(grown);
            }
            let points = self.sample(&grown.segment, grown.from, grown.to, budget);
            let segments = vec![grown.segment.clone()];
            return Task::Fit {
                from: grown.from,
                to: grown.to,
                grown,
                fitting: Fitting::new(points, segments),
            };
        }
        if grown.skew_fit == SkewFit::Done
            && (grown.to - grown.from) as f64 > SKEW_FIT_AGAIN * grown.skew_fitted as f64
            && grown.skew_fitted < MAX_SKEW_POINTS
        {
            (grown.skew_fit, grown.skew_fitted) = (SkewFit::Near(0), grown.to - grown.from);
        }
        if grown.skew_fit != SkewFit::Done {
            return self.skew_fit(grown, budget);
        }
        (grown.from, grown.to) = self.trimmed(&grown.segment, grown.from, grown.to, budget);
        let points = self.sample(&grown.segment, grown.from, grown.to, budget);
        budget.spend(EVALUATION * points.len() as u64);
        if !self.is_sure(odds(&grown.segment, &points), 0.0) {
            return self.give_up(grown.from, grown.to);
        }
        self.owned[grown.from..grown.to].fill(true);
        self.ends.extend([true, false].map(|right| (self.segments.len(), right)));
        self.segments.push(grown);
        (self.speed_known, self.fruitless) = (true, 0);
        Task::Window
    }

    /// The range of a segment that has the best odds: all of it, unless many points at an end do
    /// not belong to it.
    fn trimmed(
        &self,
        segment: &Segment,
        from: usize,
        to: usize,
        budget: &mut Budget,
    ) -> (usize, usize) {
        let (nearer, further) = weights(segment);
        let apart = (to - from).div_ceil(MAX_POINTS).max(1);
        let points = self.sample(segment, from, to, budget);
        budget.spend(EVALUATION * points.len() as u64);
        let (mut sum, mut begun, mut best, mut part) = (0.0, 0, 0.0, (0, 0));
        for (number, point) in points.iter().enumerate() {
            sum += if belongs(segment, *point) { nearer } else { further };
            if sum <= 0.0 {
                (sum, begun) = (0.0, number + 1);
            }
            if sum > best {
                (best, part) = (sum, (begun, number + 1));
            }
        }
        (from + part.0 * apart, (from + part.1 * apart).min(to))
    }

    /// The number of further points on one side that belong to the segment, up to where the odds
    /// are best.
    fn reach(&self, grown: &Grown, most: usize, right: bool, budget: &mut Budget) -> usize {
        let (nearer, further) = weights(&grown.segment);
        let (mut odds, mut best, mut taken) = (0.0, 0.0, 0);
        for number in 0..most {
            let next =
                if right { Some(grown.to + number) } else { grown.from.checked_sub(number + 1) };
            let Some(next) = next.filter(|next| *next < self.points.len() && !self.owned[*next])
            else {
                break;
            };
            odds += if belongs(&grown.segment, self.point(&grown.segment, next)) {
                nearer
            } else {
                further
            };
            budget.spend(EVALUATION);
            if odds > best {
                (best, taken) = (odds, number + 1);
            }
            if odds < best - ENDED {
                break;
            }
        }
        taken
    }

    /// Returns the segments, with the addresses between neighbors divided between them.
    fn finish(&mut self) -> FoundSegments {
        let mut grown = std::mem::take(&mut self.segments);
        grown.sort_by_key(|grown| grown.from);
        let count = grown.len();
        let ends: Vec<(u64, u64)> = grown
            .iter()
            .map(|grown| (self.points[grown.from].lba, self.points[grown.to - 1].lba))
            .collect();
        let segments = grown.into_iter().enumerate().map(|(number, grown)| {
            let Grown { mut segment, from, to, .. } = grown;
            // The margin after the last point is at most twice the spacing of points.
            let apart = (ends[number].1 - ends[number].0) / (to - from).max(1) as u64 * 2;
            let first = if number == 0 { 0 } else { ends[number - 1].1.midpoint(ends[number].0) };
            let end = if number + 1 == count {
                self.capacity
            } else {
                ends[number].1.midpoint(ends[number + 1].0)
            };
            segment.first = first.max(ends[number].0.saturating_sub(apart));
            segment.end = end.min(ends[number].1.saturating_add(apart));
            segment.angle_samples = (to - from) as u64;
            segment
        });
        // Where many angle samples are of one address, the range between two neighbors may be
        // empty.
        let mut segments: Vec<Segment> =
            segments.filter(|segment| segment.first < segment.end).collect();
        let found = segments.len();
        for segment in std::mem::take(&mut self.carried) {
            let next = segments[..found].partition_point(|other| other.end <= segment.first);
            if segments[..found].get(next).is_none_or(|other| segment.end <= other.first) {
                segments.push(segment);
            }
        }
        let femtos = self.period.as_fs() as f64 / (1.0 + self.speed);
        let period = RotationPeriod::from_fs(libm::round(femtos) as u64).unwrap_or(self.period);
        FoundSegments { segments: Segments::new(segments, self.capacity), period }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::Lba;

    /// Regression: angle samples of one sector between two segments were taken for a third segment.
    #[test]
    fn segments_never_overlap_with_many_angle_samples_of_one_sector() {
        let lbas = [10, 20, 30, 30, 30, 30, 30, 40, 50];
        let period = RotationPeriod::from_rpm(7_200.0).expect("a disk's speed");
        let mut survey =
            Survey::begin(Sectors::new(100), period, Segments::default(), &AngleSamples::new(1));
        survey.points =
            lbas.iter().map(|lba| Seen { lba: lba + 1, turns: 0.0, time: 0.0 }).collect();
        let segment = Segment {
            first: 0,
            end: 0,
            origin: 0,
            phase: 0.0,
            slope: 0.001,
            skew_terms: Vec::new(),
            spread: 0.0,
            angle_samples: 0,
        };
        let ranges = [(0, 3), (3, 5), (5, 6), (6, 9)];
        survey.segments =
            ranges.map(|(from, to)| Grown::new(segment.clone(), from, to, SkewFit::Done)).to_vec();
        let found = survey.finish().segments;
        assert!(found.segments().iter().all(|segment| segment.first < segment.end), "{found:?}");
        assert!(found.segments().windows(2).all(|two| two[0].end <= two[1].first), "{found:?}");
        assert!(found.of(Lba::new(12)).is_some() && found.of(Lba::new(45)).is_some());
    }
}
