//! Windows: the selection of the next one, and the slope of its points (and the speed, while that
//! is not known).

use super::super::budget::{Budget, EVALUATION, SLICE};
use super::super::gather::Seen;
use super::super::pairs::{self, Agreed, Pairs};
use super::super::scan::{Scan, Score};
use super::super::segments::Segment;
use super::super::skew_terms::{Point, residual};
use super::skew_fit::SkewFit;
use super::{Grown, MIN_POINTS, Survey, Task};

/// The number of windows that a small set of points is divided into (guess: a drive has some ten to
/// thirty zones), and the minimum number of points of a window.
const WINDOWS: usize = 16;
const MIN_WINDOW: usize = 48;
/// The first window may take as many completions as there are angle samples, divided by this, so
/// that the search does not last much longer than the collection of its samples.
const PATIENCE: u64 = 2;
/// Tracks hold between √(capacity / 8,000) and √(8 · capacity) sectors (guess: from few long tracks
/// on a surface to many short ones), within these bounds.
const SECTORS_OF_TRACK: (f64, f64) = (40.0, 16_000.0);
/// The maximum ratio of the slopes of neighboring zones (guess).
const NEAR: f64 = 1.25;
/// The maximum relative deviation of the speed from the nominal one while no segment is known
/// (vendors state 0.1 to 0.5 %; measured drives lie within a few hundred parts per million).
const REACH: f64 = 500e-6;
/// The number of steps, per turn over the time of a window, in which the speed is refined.
const SHARPENING: f64 = 8.0;

/// The refinement of the slope and speed of a window, one speed after another.
#[derive(Clone, Debug)]
pub(super) struct Sharpening {
    from: usize,
    to: usize,
    around: Agreed,
    speeds: Vec<f64>,
    speed: f64,
    scan: Scan,
    best: Agreed,
}

/// The range of slopes that a window is searched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlopeRange {
    /// Near the slope of the nearest known segment.
    Near,
    /// All slopes of drives of this size.
    Full,
}

impl Sharpening {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        self.scan.memory()
    }
}

impl Survey {
    /// Returns the search in the middle of the longest row of unassigned points; `None` if that is
    /// short, or if the search would take longer than waiting for more angle samples.
    pub(super) fn next_window(&mut self, budget: &mut Budget) -> Option<Task> {
        budget.spend(self.points.len() as u64);
        let (mut best, mut begun) = ((0, 0), 0);
        for number in 0..=self.points.len() {
            if number == self.points.len() || self.owned[number] || self.rejected[number] {
                if number - begun > best.1 - best.0 {
                    best = (begun, number);
                }
                begun = number + 1;
            }
        }
        let (from, to) = best;
        if to - from < MIN_POINTS {
            return None;
        }
        let middle = from.midpoint(to);
        let window = (self.points.len() / WINDOWS).clamp(MIN_WINDOW, pairs::MAX_POINTS);
        let (from, to) =
            (middle.saturating_sub(window / 2).max(from), (middle + window / 2).min(to));
        let range = if self.speed_known { SlopeRange::Near } else { SlopeRange::Full };
        match self.slope_of(from, to, range, budget) {
            // With more angle samples the search takes no longer and finds more.
            Task::Slope { pairs, .. }
                if !self.speed_known
                    && pairs.work() > (self.points.len() as u64 / PATIENCE * SLICE) as f64 =>
            {
                None
            }
            task => Some(task),
        }
    }

    /// The range of slopes of the tracks of any drive of this size.
    fn all_slopes(&self) -> (f64, f64) {
        let capacity = self.capacity as f64;
        let least = libm::sqrt(capacity / 8_000.0).max(SECTORS_OF_TRACK.0);
        let most = libm::sqrt(capacity * 8.0).min(SECTORS_OF_TRACK.1);
        (1.0 / most, 1.6 / least)
    }

    fn slope_of(&mut self, from: usize, to: usize, range: SlopeRange, budget: &mut Budget) -> Task {
        let lba = self.points[from.midpoint(to)].lba;
        let known = self
            .segments
            .iter()
            .map(|grown| (self.points[grown.from].lba.abs_diff(lba), &grown.segment));
        let known =
            known.chain(self.carried.iter().map(|segment| (segment.first.abs_diff(lba), segment)));
        let slopes = match known.min_by_key(|(apart, _)| *apart) {
            Some((_, segment)) if range == SlopeRange::Near => {
                (segment.slope / NEAR, segment.slope * NEAR)
            }
            _ => self.all_slopes(),
        };
        let row: Vec<pairs::Moment> = (from..to)
            .map(|number| {
                let Seen { lba, turns, time } = self.points[number];
                (lba.wrapping_sub(self.points[from].lba) as f64, turns + self.speed * time, time)
            })
            .collect();
        match Pairs::new(&row, slopes, if self.speed_known { 0.0 } else { REACH }, budget) {
            Some(pairs) => Task::Slope { from, to, range, pairs },
            None => self.give_up(from, to),
        }
    }

    /// Excludes the middle of these points from later windows.
    pub(super) fn give_up(&mut self, from: usize, to: usize) -> Task {
        // Excludes at least one point, so that the search terminates.
        let quarter = (to - from).saturating_sub(1) / 4;
        let to = to.max(from + 1).min(self.points.len());
        self.rejected[(from + quarter).min(to - 1)..to - quarter].fill(true);
        self.fruitless += 1;
        if !self.speed_known {
            self.speed = 0.0;
        }
        Task::Window
    }

    pub(super) fn take_slope(
        &mut self,
        from: usize,
        to: usize,
        range: SlopeRange,
        agreed: Agreed,
        tried: f64,
        budget: &mut Budget,
    ) -> Task {
        if !self.is_sure(agreed.sureness, tried) {
            return if range == SlopeRange::Full {
                self.give_up(from, to)
            } else {
                self.slope_of(from, to, SlopeRange::Full, budget)
            };
        }
        let times = self.points[from..to].iter().map(|point| point.time);
        let (first, last) = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), time| {
            (low.min(time), high.max(time))
        });
        let (step, steps) = if self.speed_known {
            (0.0, 0)
        } else {
            let step = 1.0 / (SHARPENING * (last - first).max(1.0));
            (step, libm::ceil(agreed.speed_within / step).min(64.0) as i64)
        };
        let mut speeds: Vec<f64> =
            (-steps..=steps).map(|number| agreed.speed + number as f64 * step).collect();
        let speed = speeds.pop().unwrap_or(agreed.speed);
        let scan = self.sharpening_at(from, to, &agreed, speed, budget);
        Task::Sharpen(Box::new(Sharpening {
            from,
            to,
            around: agreed,
            speeds,
            speed,
            scan,
            best: Agreed::default(),
        }))
    }

    fn sharpening_at(
        &self,
        from: usize,
        to: usize,
        around: &Agreed,
        speed: f64,
        budget: &mut Budget,
    ) -> Scan {
        let origin = self.points[from].lba;
        let points: Vec<(f64, f64, f64)> = self.points[from..to]
            .iter()
            .map(|point| {
                ((point.lba - origin) as f64, point.turns + (self.speed + speed) * point.time, 1.0)
            })
            .collect();
        Scan::new(
            Score::Length,
            &points,
            around.slope - around.slope_within,
            around.slope + around.slope_within,
            budget,
        )
    }

    pub(super) fn sharpen(&mut self, mut at: Box<Sharpening>, budget: &mut Budget) -> Task {
        if !at.scan.advance(budget) {
            return Task::Sharpen(at);
        }
        self.tried += at.scan.steps() as f64;
        if at.scan.sureness() > at.best.sureness {
            at.best = Agreed {
                slope: at.scan.frequency(),
                speed: at.speed,
                sureness: at.scan.sureness(),
                ..at.around
            };
        }
        if let Some(speed) = at.speeds.pop() {
            at.speed = speed;
            at.scan = self.sharpening_at(at.from, at.to, &at.around, speed, budget);
            return Task::Sharpen(at);
        }
        let Sharpening { from, to, best, .. } = *at;
        if !self.is_sure(best.sureness, 0.0) {
            return self.give_up(from, to);
        }
        let middle = from.midpoint(to);
        self.speed += best.speed;
        let origin = self.points[middle].lba;
        let mut segment = Segment {
            first: 0,
            end: 0,
            origin,
            phase: 0.0,
            slope: best.slope,
            skew_terms: Vec::new(),
            spread: 0.5,
            angle_samples: 0,
        };
        let points = self.sample(&segment, from, to, budget);
        segment.phase = mean_phase(&segment, &points);
        budget.spend(4 * EVALUATION * points.len() as u64);
        self.level(&mut segment, from, to, budget);
        // A zone border may lie inside.
        let (from, to) = self.trimmed(&segment, from, to, budget);
        if to - from < MIN_POINTS {
            return self.give_up(from, to);
        }
        self.skew_fit(Grown::new(segment, from, to, SkewFit::Near(0)), budget)
    }
}

/// The mean phase of the points, given the rest of the segment.
fn mean_phase(segment: &Segment, points: &[Point]) -> f64 {
    let (cosine, sine) = points.iter().fold((0.0, 0.0), |sum, point| {
        let (sine, cosine) = libm::sincos(core::f64::consts::TAU * residual(segment, *point));
        (sum.0 + cosine, sum.1 + sine)
    });
    segment.phase + libm::atan2(sine, cosine) / core::f64::consts::TAU
}
