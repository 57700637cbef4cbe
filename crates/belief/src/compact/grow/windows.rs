//! Windows: where the next one is taken, and what slope (and speed, while that is not known) its
//! points agree on.

use super::super::budget::{Budget, EVALUATION, SLICE};
use super::super::gather::Seen;
use super::super::pairs::{self, Agreed, Pairs};
use super::super::scan::{Scan, Score};
use super::super::segments::Segment;
use super::super::skew_terms::{Point, residual};
use super::skew_fit::SkewFit;
use super::{Grown, MIN_POINTS, Survey, Task};

/// Windows that the points are cut into while they are few (guess: a drive has some ten to thirty
/// zones), and their least points.
const WINDOWS: usize = 16;
const MIN_WINDOW: usize = 48;
/// The first window may take as many completions as there are angle samples, divided by this: a search is
/// not to outlast by much what it began with.
const PATIENCE: u64 = 2;
/// A drive's tracks hold between √(capacity / 8,000) and √(8 · capacity) sectors (guess: from few
/// long tracks on a surface to many short ones), and never fewer or more than these.
const SECTORS_OF_TRACK: (f64, f64) = (40.0, 16_000.0);
/// Zones differ from their neighbors by no more than this (guess).
const NEAR: f64 = 1.25;
/// The unit's speed is looked for this far from the nominal one while no segment is known (vendors
/// state 0.1 to 0.5 %; measured units lie within a few hundred parts per million).
const REACH: f64 = 500e-6;
/// Steps in which the speed is sharpened, to one turn over the time of a window.
const SHARPENING: f64 = 8.0;

/// Slope and speed of a window, sharpened speed by speed.
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

impl Sharpening {
    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        self.scan.memory()
    }
}

impl Survey {
    /// The middle of the longest row of points that are left; nothing where that is short, or would
    /// take longer than to wait for more angle samples.
    pub(super) fn next_window(&mut self, budget: &mut Budget) -> Option<Task> {
        budget.spend(self.points.len() as u64);
        let (mut best, mut begun) = ((0, 0), 0);
        for number in 0..=self.points.len() {
            if number == self.points.len() || self.owned[number] || self.vain[number] {
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
        match self.slope_of(from, to, !self.speed_known, budget) {
            // With more angle samples it takes no longer, and finds more.
            Task::Slope { pairs, .. }
                if !self.speed_known
                    && pairs.work() > (self.points.len() as u64 / PATIENCE * SLICE) as f64 =>
            {
                None
            }
            task => Some(task),
        }
    }

    /// Slopes that tracks of any drive of this size may have.
    fn all_slopes(&self) -> (f64, f64) {
        let capacity = self.capacity as f64;
        let least = libm::sqrt(capacity / 8_000.0).max(SECTORS_OF_TRACK.0);
        let most = libm::sqrt(capacity * 8.0).min(SECTORS_OF_TRACK.1);
        (1.0 / most, 1.6 / least)
    }

    fn slope_of(&mut self, from: usize, to: usize, wide: bool, budget: &mut Budget) -> Task {
        let lba = self.points[from.midpoint(to)].lba;
        let known = self
            .segments
            .iter()
            .map(|grown| (self.points[grown.from].lba.abs_diff(lba), &grown.segment));
        let known =
            known.chain(self.carried.iter().map(|segment| (segment.first.abs_diff(lba), segment)));
        let slopes = match known.min_by_key(|(apart, _)| *apart) {
            Some((_, segment)) if !wide => (segment.slope / NEAR, segment.slope * NEAR),
            _ => self.all_slopes(),
        };
        let row: Vec<pairs::Moment> = (from..to)
            .map(|number| {
                let Seen { lba, turns, time } = self.points[number];
                (lba.wrapping_sub(self.points[from].lba) as f64, turns + self.speed * time, time)
            })
            .collect();
        match Pairs::new(&row, slopes, if self.speed_known { 0.0 } else { REACH }, budget) {
            Some(pairs) => Task::Slope { from, to, wide, pairs },
            None => self.give_up(from, to),
        }
    }

    /// No window begins at the middle of these points again.
    pub(super) fn give_up(&mut self, from: usize, to: usize) -> Task {
        // At least one, so that the search comes to an end.
        let quarter = (to - from).saturating_sub(1) / 4;
        let to = to.max(from + 1).min(self.points.len());
        self.vain[(from + quarter).min(to - 1)..to - quarter].fill(true);
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
        wide: bool,
        agreed: Agreed,
        tried: f64,
        budget: &mut Budget,
    ) -> Task {
        if !self.is_sure(agreed.sureness, tried) {
            return if wide {
                self.give_up(from, to)
            } else {
                self.slope_of(from, to, true, budget)
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
        // A border may lie inside.
        let (from, to) = self.trimmed(&segment, from, to, budget);
        if to - from < MIN_POINTS {
            return self.give_up(from, to);
        }
        self.skew_fit(Grown::new(segment, from, to, SkewFit::Near(0)), budget)
    }
}

/// The phase that points agree on, given the rest of the segment.
fn mean_phase(segment: &Segment, points: &[Point]) -> f64 {
    let (cosine, sine) = points.iter().fold((0.0, 0.0), |sum, point| {
        let (sine, cosine) = libm::sincos(core::f64::consts::TAU * residual(segment, *point));
        (sum.0 + cosine, sum.1 + sine)
    });
    segment.phase + libm::atan2(sine, cosine) / core::f64::consts::TAU
}
