//! [`Survey`]: finding out from angle samples alone where sectors lie around the platter, segment by segment,
//! in slices.
//!
//! AngleSamples in the order of their addresses are points in a plane: address across, turns up, whole
//! turns unknown ([`Gather`]). Where nothing is known a *window* of up to 128 neighboring points
//! is taken, and slope and speed are looked for on which those of them agree that lie near each
//! other ([`Pairs`]); the whole window sharpens them ([`Scan`]). What is left over the line repeats
//! from track to track, from surface to surface and so on: skew terms ([`super::skew_terms`]). Then the segment
//! *grows* over the points beside the window as long as they lie where it says. The next window is
//! taken where most points are left; slope and skew terms are looked for near those of the segments that
//! there are, because all zones of a drive have the same surfaces, bands and skews, only other
//! tracks.
//!
//! *What is believed*: each step asks for more than chance would do in any of the ways tried so far
//! in this search, c of them: a slope for a sureness of ln c + 12 ([`Scan::sureness`]), a segment for
//! odds of c · e¹² that its points lie by it rather than anywhere. Chance passes the n-th step of m
//! with e^−12 times what share of c it tried itself, so a search is fooled at most e^−12 · (1 + ln
//! c) of the time, one in some ten thousand. A skew term needs less, because a false one moves little
//! and has to bring the misfit down besides. A segment grows to where the odds that points belong to
//! it are best, stops where they have fallen by e⁹ since or where it would have to bend, and is
//! trimmed where its ends do not belong to it. Segments that were known are held against the new
//! points first, and dropped where those speak against them; what is seen later speaks as well
//! ([`super::recheck`]).
//!
//! Worked example, 20 TB in 24 zones, 8,192 angle samples: 340 to a zone. A window of 128 in the middle of
//! one of them has its slope found by 64 pairs in 30 million operations, 500 completions; each
//! further zone takes some dozen completions, and its skew terms some hundred.
//!
//! Does not find segments of fewer than 32 points, nor a zone that is told from its neighbor by less
//! than the noise. Cost: no completion does more than [`super::budget::MOST`] operations; the whole
//! search lasts some hundred to some ten thousand completions.

use headtime_units::{RotationPeriod, Sectors};

use super::angle_samples::AngleSamples;
use super::budget::{Budget, EVALUATION};
use super::gather::{Gather, Seen};
use super::pairs::Pairs;
use super::scan::{SURE, Scan};
use super::segments::{SEGMENT_BYTES, Segment, Segments};
use super::skew_terms::{Fitting, MAX_POINTS, Point, deviation, level};
pub(super) use odds::odds_of;
use odds::{belongs, odds, weights};
use skew_fit::{COMBED_POINTS, OF_SEGMENTS, SkewFit};
use windows::Sharpening;

mod odds;
mod skew_fit;
mod windows;

/// The fewest points that a segment is found from.
const MIN_POINTS: usize = 32;
/// Teeth are looked for again in a segment that has grown to so many times its points.
const SKEW_FIT_AGAIN: f64 = 1.4;
/// A segment has bent whose points are so many times as far off as they were.
const BENT: f64 = 2.0;
/// The fewest points that it grows by at once.
const MIN_GROWTH: usize = 8;
/// So few repetitions of a skew term within the points show none.
const REPETITIONS: f64 = 6.0;
/// A segment whose points are this close, in turns, has no more skew terms that matter.
const CLOSE: f64 = 0.003;
/// A segment has ended where the odds have fallen by e to this.
const ENDED: f64 = 9.0;
/// The most points that a segment grows by at once.
const GROWTH: usize = 256;
/// A segment is fitted again when it has grown to so many times the points that it was fitted to.
const FIT_AGAIN: f64 = 1.5;
/// While no segment is known, so many of the newest angle samples are looked at: within them a speed that is
/// wrong or wanders shows least.
const FIRST_ANGLE_SAMPLES: usize = 8_192;
/// No search looks at more angle samples.
const MAX_ANGLE_SAMPLES: usize = 16_384;
/// So many windows are tried in vain before more angle samples are waited for: while no segment is known,
/// and afterwards.
const MAX_FRUITLESS_WINDOWS: (u32, u32) = (4, 48);
/// Points behind the end of a segment that it is held against.
const AFTER: usize = 24;
/// A segment that is so many times as far off as the one that is known best is looked for again.
const REJECTED: f64 = 3.0;
/// Points in the middle of a known segment that it is held against, and at least so many.
const CHECKED: usize = 128;
const MIN_CHECKED: usize = 8;

/// A search for segments.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    capacity: u64,
    /// What it began with.
    known: Segments,
    period: RotationPeriod,
    /// The part by which the platter turns faster than that.
    speed: f64,
    speed_known: bool,
    points: Vec<Seen>,
    /// Points in a segment, and points at which a window was tried in vain.
    owned: Vec<bool>,
    vain: Vec<bool>,
    unchecked: Vec<Segment>,
    /// Known segments of which too few points speak, or whose points lie far apart: they stay as they
    /// are where nothing else is found.
    carried: Vec<Segment>,
    segments: Vec<Grown>,
    /// Ends of segments, to the right or to the left, behind which nothing was looked for yet.
    ends: Vec<(usize, bool)>,
    fruitless: u32,
    /// In how many points a skew term was looked for anywhere, in vain.
    combed: usize,
    /// In how many ways it was tried to fit something so far.
    tried: f64,
    task: Task,
}

/// A segment and its points, from the first up to but not including the last.
#[derive(Clone, Debug)]
struct Grown {
    segment: Segment,
    from: usize,
    to: usize,
    /// How many points it had when it was fitted last.
    fitted: usize,
    skew_fit: SkewFit,
    /// How many points it had when skew terms were looked for.
    combed: usize,
    /// How far off its points were when its skew terms were found.
    core: f64,
    /// The most points that it grows by at once; none when it has ended.
    most: usize,
    /// What it was before it grew last.
    before: Option<Box<(Segment, usize, usize)>>,
}

#[derive(Clone, Debug)]
enum Task {
    Gather(Gather),
    Window,
    Slope { from: usize, to: usize, wide: bool, pairs: Pairs },
    Sharpen(Box<Sharpening>),
    SkewFit { grown: Grown, scan: Scan, from: usize, to: usize },
    Fit { grown: Grown, fitting: Fitting, from: usize, to: usize },
    Grow(Grown),
}

/// What a survey found.
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
            combed: 0,
            most: GROWTH,
            before: None,
        }
    }

    /// Whether its points are so much further off than they were that it does not go on straight.
    fn is_bent(&self) -> bool {
        self.segment.spread > BENT * self.core.max(CLOSE)
    }

    /// Takes back what it grew by last, and grows by less from now on.
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
    /// Begins with the segments known so far.
    pub(super) fn begin(
        capacity: Sectors,
        period: RotationPeriod,
        known: Segments,
        angle_samples: &AngleSamples,
    ) -> Self {
        let count =
            if known.segments().is_empty() { FIRST_ANGLE_SAMPLES } else { MAX_ANGLE_SAMPLES };
        let mut unchecked = known.segments().to_vec();
        // The one that is known best is checked first, so that the others can be held against it.
        unchecked.sort_by_key(|segment| (segment.skew_terms.len(), segment.angle_samples));
        Self {
            capacity: capacity.get(),
            period,
            speed: 0.0,
            speed_known: !known.segments().is_empty(),
            points: Vec::new(),
            owned: Vec::new(),
            vain: Vec::new(),
            unchecked,
            carried: Vec::new(),
            segments: Vec::new(),
            ends: Vec::new(),
            fruitless: 0,
            combed: 0,
            tried: 1.0,
            task: Task::Gather(Gather::new(period, &known, angle_samples, count)),
            known,
        }
    }

    /// Bytes of memory: segments and their skew terms are a few kilobytes.
    pub(super) fn memory(&self) -> u64 {
        let points = self.points.capacity() * size_of::<Seen>()
            + self.owned.capacity()
            + self.vain.capacity();
        let task = match &self.task {
            Task::Gather(gather) => gather.memory(),
            Task::Slope { pairs, .. } => pairs.memory(),
            Task::Sharpen(sharpening) => sharpening.memory(),
            Task::SkewFit { scan, .. } => scan.memory(),
            Task::Fit { fitting, .. } => fitting.memory(),
            Task::Window | Task::Grow(_) => 0,
        };
        let segments = self.segments.len()
            + self.unchecked.len()
            + self.carried.len()
            + self.known.segments().len();
        points as u64 + task + segments as u64 * SEGMENT_BYTES
    }

    /// Goes on by one slice; the answer when there is one.
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
                        (self.owned, self.vain) =
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
                Task::Slope { from, to, wide, mut pairs } => match pairs.advance(budget) {
                    Some((agreed, tried)) => self.take_slope(from, to, wide, agreed, tried, budget),
                    None => Task::Slope { from, to, wide, pairs },
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
                Task::Grow(grown) => self.grow(grown, budget),
            };
        }
        None
    }

    /// A known segment to be gone on with, or the middle of the longest row of points that are left;
    /// nothing where there is none.
    fn next_task(&mut self, angle_samples: &AngleSamples, budget: &mut Budget) -> Option<Task> {
        if let Some(segment) = self.unchecked.pop() {
            return Some(self.check(segment, budget));
        }
        if let Some((number, right)) = self.ends.pop() {
            return Some(self.extend(number, right, budget));
        }
        if self.segments.is_empty() && self.carried.is_empty() && !self.known.segments().is_empty()
        {
            // Nothing of what was known holds: as if nothing had been.
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

    /// Holds a known segment against the points: it goes on from its middle, so that a border inside
    /// it is found again, stays where few points speak of it, and is gone where they speak against
    /// it.
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
            // Its skew terms may have been taken wrong: it waits until its neighbors were looked
            // behind.
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
            return Task::Grow(grown);
        }
        // Fitted to so few points again it may end where it was grown over a small step before.
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

    /// Looks behind the end of a segment whether it goes on there some sectors further on or back:
    /// behind a row of slipped sectors, or behind spares.
    fn extend(&mut self, number: usize, right: bool, budget: &mut Budget) -> Task {
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
        // As many sectors further on is an origin as many sectors back.
        let by = libm::round(moved(by));
        segment.origin = segment.origin.wrapping_add_signed(-(by as i64));
        self.level(&mut segment, from, to, budget);
        Task::Grow(Grown::new(segment, from, to, SkewFit::Done))
    }

    /// Points of a segment, evenly chosen where there are many.
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

    /// Whether chance would hardly have done as well in all that was tried, `more` of which now.
    fn is_sure(&mut self, sureness: f64, more: f64) -> bool {
        self.tried += more;
        sureness > libm::log(self.tried) + SURE
    }

    /// Levels a segment by its points, and the speed with it while that is not known.
    fn level(&mut self, segment: &mut Segment, from: usize, to: usize, budget: &mut Budget) {
        let points = self.sample(segment, from, to, budget);
        let faster = level(segment, &points, !self.speed_known, budget);
        if !self.speed_known {
            self.speed += faster;
        }
        let points = self.sample(segment, from, to, budget);
        segment.spread = deviation(segment, &points);
        budget.spend(EVALUATION * points.len() as u64);
    }

    /// Takes points beside the segment in as long as they belong to it and it goes on straight, and
    /// fits it again when it has grown much.
    fn grow(&mut self, mut grown: Grown, budget: &mut Budget) -> Task {
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
                return Task::Grow(grown);
            }
            if grown.segment.skew_terms.is_empty() {
                grown.unbend();
                return Task::Grow(grown);
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
            && (grown.to - grown.from) as f64 > SKEW_FIT_AGAIN * grown.combed as f64
            && grown.combed < COMBED_POINTS
        {
            (grown.skew_fit, grown.combed) = (SkewFit::Near(0), grown.to - grown.from);
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

    /// The part of a segment that has the best odds: all of it, unless many points at an end do not
    /// belong to it.
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

    /// How many more points to one side belong to the segment: up to where the odds that they do are
    /// best.
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

    /// Segments with the addresses between their points and those of their neighbors shared out.
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
            // Not further beyond the last point than points are apart.
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
        // Where many angle samples are of one address nothing may be left between two neighbors.
        let mut segments: Vec<Segment> =
            segments.filter(|segment| segment.first < segment.end).collect();
        let found = segments.len();
        for segment in std::mem::take(&mut self.carried) {
            let behind = segments[..found].partition_point(|other| other.end <= segment.first);
            if segments[..found].get(behind).is_none_or(|other| segment.end <= other.first) {
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

    /// AngleSamples of one and the same sector lie between those of two segments, and were taken for a
    /// third.
    #[test]
    fn segments_never_overlap_however_many_angle_samples_are_of_one_sector() {
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
