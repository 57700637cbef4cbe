//! [`Survey`]: finding out from sights alone where sectors lie around the platter, strip by strip, in small steps.
//!
//! Sights in the order of their addresses are points in a plane: address across, turns up, whole turns unknown. Where nothing is known a *window* of some dozens of neighbouring
//! points is taken, and the slope is looked for at which they agree ([`Scan`]): even if they lie millions of sectors apart, only one slope fits all of them. What is left over the line
//! repeats from track to track and from cylinder to cylinder: the strongest repetition is the first tooth, the strongest of the rest the second ([`super::teeth`]). Then the strip *grows*
//! over the points beside the window as long as they lie where it says, and is fitted again whenever it has grown by a fifth; where four of six do not, it ends: a zone's border,
//! or a jump. The next window is taken where most points are left.
//!
//! Worked example, 270 million sectors in ten zones, 512 sights: a window of 64 spans 34 million sectors. Slopes between 1/200 and 1/5,000 in steps of a quarter turn over the window are
//! 650,000; chance would not bring 64 points to a coherence of 0.6 with any of them, a track's skew of a tenth of a turn leaves 0.97.
//!
//! Does not find strips of fewer than 32 points, nor a zone that is told from its neighbour by less than the noise. Cost: bounded with each completion ([`Survey::step`]: about half a
//! millisecond, but for fitting, which takes some milliseconds now and then); the whole search lasts some hundred to some ten thousand completions.

use headtime_units::{Angle, RotationPeriod, Sectors};

use super::frame::Frame;
use super::scan::Scan;
use super::sights::Sight;
use super::strips::{STRIP_BYTES, Strip, Strips};
use super::teeth::{Point, deviation, level, misfit, residual, settle, with_tooth};

/// Points of a window, and the fewest that a strip is found from.
const WINDOW: usize = 56;
const LEAST_POINTS: usize = 32;
/// A drive's tracks hold between √(capacity / 8,000) and √(8 · capacity) sectors (guess: from few long tracks on a surface to many short ones), and never fewer or more than these.
const SECTORS_OF_TRACK: (f64, f64) = (40.0, 16_000.0);
/// The most teeth that are looked for: track, surface or cylinder, band, group of spares.
const MOST_TEETH: usize = 4;
/// A tooth has to bring the misfit down to this part at least.
const WORTH: f64 = 0.85;
/// A strip whose points are this close, in turns, has no more teeth that matter.
const CLOSE: f64 = 0.003;
/// A point further off than this many deviations, within these bounds in turns, does not belong to a strip: of points anywhere three of five are further off than the upper one.
const BELONGS: (f64, f64, f64) = (5.0, 0.03, 0.2);
/// Of this many points in a row at the end of a strip, this many may not belong to it.
const END: (usize, usize) = (6, 3);
/// While no strip is known, so many of the newest sights are looked at: within them a speed that is wrong shows least.
const FIRST_SIGHTS: usize = 2_048;
/// And so many windows are tried before the next speed is.
const FIRST_WINDOWS: usize = 4;
/// The unit's speed is tried this far from the nominal one while no strip is known, in parts per million.
const REACH_PPM: f64 = 500.0;

/// A search for strips.
#[derive(Clone, Debug)]
pub(super) struct Survey {
    capacity: u64,
    nominal: RotationPeriod,
    sights: Vec<Sight>,
    /// Address and turns, by address; and which sight each is.
    points: Vec<(u64, f64)>,
    /// Points that are done with: in a strip, or tried in vain.
    done: Vec<bool>,
    strips: Vec<Grown>,
    known: Vec<Strip>,
    /// Speeds that are tried as long as nothing is found, the likeliest last.
    speeds: Vec<f64>,
    period: RotationPeriod,
    /// Windows in which nothing was found at this speed.
    in_vain: usize,
    task: Task,
}

/// A strip and its points, from the first up to but not including the last.
#[derive(Clone, Debug)]
struct Grown {
    strip: Strip,
    from: usize,
    to: usize,
    /// Points when a further tooth was last looked for.
    combed: usize,
}

#[derive(Clone, Debug)]
enum Task {
    Window,
    Slope { from: usize, to: usize, wide: bool, scan: Scan },
    Comb { grown: Grown, scan: Scan },
    Grow(Grown),
}

/// What a survey found.
#[derive(Clone, Debug)]
pub(super) struct FoundStrips {
    pub(super) strips: Strips,
    pub(super) period: RotationPeriod,
}

impl Survey {
    /// Begins with the strips known so far.
    pub(super) fn begin(capacity: Sectors, period: RotationPeriod, known: Strips, mut sights: Vec<Sight>) -> Self {
        let capacity = capacity.get();
        if known.strips().is_empty() {
            sights.drain(..sights.len().saturating_sub(FIRST_SIGHTS));
        }
        let span = sights.last().zip(sights.first()).map_or(0.0, |(last, first)| last.at.saturating_since(first.at).as_ns() as f64);
        let mut survey = Self {
            capacity,
            nominal: period,
            sights,
            points: Vec::new(),
            done: Vec::new(),
            strips: Vec::new(),
            known: known.strips().to_vec(),
            speeds: Vec::new(),
            period,
            in_vain: 0,
            task: Task::Window,
        };
        if known.strips().is_empty() {
            // So many speeds that with one of them the last sight is off by a sixth of a turn at most.
            let step = 0.3 * period.as_ns_f64() / span.max(period.as_ns_f64());
            let steps = (libm::ceil(REACH_PPM * 1e-6 / step) as i64).min(24);
            survey.speeds = (-steps..=steps).map(|number| number as f64 * step).collect();
            survey.speeds.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
            survey.next_speed();
        } else {
            survey.frame(&known);
        }
        survey
    }

    /// Bytes of memory, about: strips and their teeth are a few kilobytes.
    pub(super) fn memory(&self) -> u64 {
        let points = self.sights.capacity() * size_of::<Sight>() + self.points.capacity() * size_of::<(u64, f64)>() + self.done.capacity();
        let scan = match &self.task {
            Task::Slope { scan, .. } | Task::Comb { scan, .. } => scan.memory(),
            Task::Window | Task::Grow(_) => 0,
        };
        points as u64 + scan + (self.strips.len() + self.known.len()) as u64 * STRIP_BYTES
    }

    /// Takes the points' turns from the next speed; whether there was one.
    fn next_speed(&mut self) -> bool {
        let Some(off) = self.speeds.pop() else { return false };
        self.in_vain = 0;
        let femtos = self.nominal.as_fs() as f64 * (1.0 + off);
        self.period = RotationPeriod::from_fs(femtos as u64).unwrap_or(self.nominal);
        let begin = self.sights.first().map_or(headtime_units::Instant::ORIGIN, |sight| sight.at);
        let turns = self.sights.iter().map(|sight| self.period.angle_of(sight.at.saturating_since(begin))).collect();
        self.take_points(turns);
        true
    }

    /// Takes the points' turns from what is known of the strips.
    fn frame(&mut self, known: &Strips) {
        let believed: Vec<Option<Angle>> = self.sights.iter().map(|sight| known.end(sight.last)).collect();
        let frame = Frame::fit(self.nominal, &self.sights, |number| believed[number]);
        self.period = frame.period;
        let turns = frame.followed(&self.sights, |number| believed[number]);
        self.take_points(turns);
    }

    fn take_points(&mut self, turns: Vec<Angle>) {
        // A point is where the sector behind the last one begins.
        self.points = self.sights.iter().zip(turns).map(|(sight, turns)| (sight.last.get() + 1, turns.as_turns())).collect();
        self.points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        self.done = vec![false; self.points.len()];
        self.strips.clear();
    }

    /// Goes on a little; the answer when there is one.
    pub(super) fn step(&mut self) -> Option<FoundStrips> {
        let task = std::mem::replace(&mut self.task, Task::Window);
        self.task = match task {
            Task::Window => match self.next_window() {
                Some(task) => task,
                None if self.strips.is_empty() && self.known.is_empty() && self.next_speed() => Task::Window,
                None => return Some(self.finish()),
            },
            Task::Slope { from, to, wide, mut scan } => {
                if scan.go_on() {
                    self.take_slope(from, to, wide, &scan)
                } else {
                    Task::Slope { from, to, wide, scan }
                }
            }
            Task::Comb { grown, mut scan } => {
                if scan.go_on() {
                    self.take_comb(grown, &scan)
                } else {
                    Task::Comb { grown, scan }
                }
            }
            Task::Grow(grown) => self.grow(grown),
        };
        None
    }

    /// The middle of the longest row of points that are left; those of known strips first.
    fn next_window(&mut self) -> Option<Task> {
        while let Some(strip) = self.known.pop() {
            let from = self.points.partition_point(|point| point.0 < strip.first);
            let to = self.points.partition_point(|point| point.0 < strip.end);
            if to - from < LEAST_POINTS || self.done[from..to].contains(&true) {
                continue;
            }
            // From its middle on, so that a border inside it is found again.
            let middle = from.midpoint(to);
            let (start, end) = (middle.saturating_sub(WINDOW / 2).max(from), (middle + WINDOW / 2).min(to));
            let points = self.points_of(&strip, start, end);
            if deviation(&strip, &points) < BELONGS.1 {
                return Some(Task::Grow(Grown { strip, from: start, to: end, combed: to - from }));
            }
        }
        let (mut best, mut begun) = ((0, 0), 0);
        for number in 0..=self.done.len() {
            if self.done.get(number).copied().unwrap_or(true) {
                if number - begun > best.1 - best.0 {
                    best = (begun, number);
                }
                begun = number + 1;
            }
        }
        let (from, to) = best;
        if to - from < LEAST_POINTS {
            return None;
        }
        let middle = from.midpoint(to);
        let (from, to) = (middle.saturating_sub(WINDOW / 2).max(from), (middle + WINDOW / 2).min(to));
        Some(self.slope_of(from, to, self.strips.is_empty()))
    }

    fn slope_of(&self, from: usize, to: usize, wide: bool) -> Task {
        let capacity = self.capacity as f64;
        let least = libm::sqrt(capacity / 8_000.0).max(SECTORS_OF_TRACK.0);
        let most = libm::sqrt(capacity * 8.0).min(SECTORS_OF_TRACK.1);
        let (mut low, mut high) = (1.0 / most, 1.6 / least);
        if !wide {
            // Zones differ by little from their neighbours.
            let near = self.strips.iter().min_by_key(|grown| grown.from.abs_diff(from).min(grown.to.abs_diff(to)));
            if let Some(grown) = near {
                (low, high) = (grown.strip.slope / 1.25, grown.strip.slope * 1.25);
            }
        }
        let origin = self.points[from.midpoint(to)].0;
        let points: Vec<(f64, f64, f64)> = self.points[from..to].iter().map(|point| (place(point.0, origin), point.1, 1.0)).collect();
        Task::Slope { from, to, wide, scan: Scan::new(&points, low, high) }
    }

    fn take_slope(&mut self, from: usize, to: usize, wide: bool, scan: &Scan) -> Task {
        if !scan.is_more_than_chance() {
            if !wide {
                return self.slope_of(from, to, true);
            }
            self.done[from..to].fill(true);
            self.in_vain += 1;
            if self.strips.is_empty() && self.in_vain >= FIRST_WINDOWS {
                // At this speed nothing agrees.
                self.done.fill(true);
            }
            return Task::Window;
        }
        let origin = self.points[from.midpoint(to)].0;
        let mut strip = Strip { first: 0, end: 0, origin, phase: 0.0, slope: scan.frequency(), teeth: Vec::new(), spread: 0.5, sights: 0 };
        let points = self.points_of(&strip, from, to);
        strip.phase = mean_phase(&strip, &points);
        level(&mut strip, &points);
        strip.spread = deviation(&strip, &points);
        self.comb(Grown { strip, from, to, combed: 0 })
    }

    /// Looks for one more tooth, if there is need and room.
    fn comb(&self, mut grown: Grown) -> Task {
        let points = self.points_of(&grown.strip, grown.from, grown.to);
        grown.combed = points.len();
        if grown.strip.teeth.len() >= MOST_TEETH || deviation(&grown.strip, &points) < CLOSE {
            return Task::Grow(grown);
        }
        let bound = 4.0 * deviation(&grown.strip, &points);
        let left: Vec<(f64, f64, f64)> = points.iter().map(|point| (point.0, 0.0, residual(&grown.strip, *point).clamp(-bound, bound))).collect();
        let span = points.last().map_or(1.0, |point| point.0) - points.first().map_or(0.0, |point| point.0);
        // From a few repetitions in all to one each track, which is no longer than a turn.
        Task::Comb { scan: Scan::new(&left, 6.0 / span.max(1.0), grown.strip.slope * 1.02), grown }
    }

    fn take_comb(&self, grown: Grown, scan: &Scan) -> Task {
        if !scan.is_more_than_chance() {
            return Task::Grow(grown);
        }
        let points = self.points_of(&grown.strip, grown.from, grown.to);
        let mut toothed = with_tooth(&grown.strip, &points, scan.frequency());
        settle(&mut toothed, &points);
        if misfit(&toothed, &points, 0.1) > WORTH * misfit(&grown.strip, &points, 0.1) {
            return Task::Grow(grown);
        }
        self.comb(Grown { strip: toothed, ..grown })
    }

    /// Takes points beside the strip in, as long as they belong to it and it has not grown by a fifth.
    fn grow(&mut self, mut grown: Grown) -> Task {
        let most = (grown.to - grown.from) / 5 + 8;
        let tolerance = (BELONGS.0 * grown.strip.spread).clamp(BELONGS.1, BELONGS.2);
        let right = self.reach(&grown, tolerance, most, true);
        let left = self.reach(&grown, tolerance, most, false);
        let done = left + right == 0;
        (grown.from, grown.to) = (grown.from - left, grown.to + right);
        let points = self.points_of(&grown.strip, grown.from, grown.to);
        level(&mut grown.strip, &points);
        settle(&mut grown.strip, &points);
        if points.len() >= 2 * grown.combed {
            return self.comb(grown);
        }
        if !done {
            return Task::Grow(grown);
        }
        if points.len() > grown.combed * 5 / 4 && grown.strip.spread > CLOSE {
            return self.comb(grown);
        }
        self.done[grown.from..grown.to].fill(true);
        if grown.strip.spread < 0.1 {
            self.strips.push(grown);
        }
        Task::Window
    }

    /// How many more points to one side belong to the strip.
    fn reach(&self, grown: &Grown, tolerance: f64, most: usize, right: bool) -> usize {
        let (mut taken, mut misses, mut good) = (0, [false; END.0], 0);
        while taken < most {
            let next = if right { Some(grown.to + taken) } else { grown.from.checked_sub(taken + 1) };
            let Some(next) = next.filter(|next| *next < self.points.len() && !self.done[*next]) else { break };
            let (lba, turns) = self.points[next];
            let belongs = residual(&grown.strip, (place(lba, grown.strip.origin), turns)).abs() < tolerance;
            misses[taken % END.0] = !belongs;
            taken += 1;
            if belongs {
                good = taken;
            }
            if misses.iter().filter(|miss| **miss).count() > END.1 {
                break;
            }
        }
        good
    }

    fn points_of(&self, strip: &Strip, from: usize, to: usize) -> Vec<Point> {
        self.points[from..to].iter().map(|point| (place(point.0, strip.origin), point.1)).collect()
    }

    /// Strips with the addresses between their points and those of their neighbours shared out.
    fn finish(&mut self) -> FoundStrips {
        let mut grown = std::mem::take(&mut self.strips);
        grown.sort_by_key(|grown| grown.from);
        let count = grown.len();
        let ends: Vec<(u64, u64)> = grown.iter().map(|grown| (self.points[grown.from].0, self.points[grown.to - 1].0)).collect();
        let strips = grown.into_iter().enumerate().map(|(number, grown)| {
            let Grown { mut strip, from, to, .. } = grown;
            // Not further beyond the last point than points are apart.
            let apart = (ends[number].1 - ends[number].0) / (to - from).max(1) as u64 * 2;
            let first = if number == 0 { 0 } else { ends[number - 1].1.midpoint(ends[number].0) };
            let end = if number + 1 == count { self.capacity } else { ends[number].1.midpoint(ends[number + 1].0) };
            strip.first = first.max(ends[number].0.saturating_sub(apart));
            strip.end = end.min(ends[number].1.saturating_add(apart));
            strip.sights = (to - from) as u64;
            strip
        });
        // Where many sights are of one address nothing may be left between two neighbours.
        let strips = strips.filter(|strip| strip.first < strip.end);
        FoundStrips { strips: Strips::new(strips.collect(), self.capacity), period: self.period }
    }
}

fn place(lba: u64, origin: u64) -> f64 {
    lba.wrapping_sub(origin) as i64 as f64
}

/// The phase that points agree on, given the rest of the strip.
fn mean_phase(strip: &Strip, points: &[Point]) -> f64 {
    let (cosine, sine) = points.iter().fold((0.0, 0.0), |sum, point| {
        let (sine, cosine) = libm::sincos(core::f64::consts::TAU * residual(strip, *point));
        (sum.0 + cosine, sum.1 + sine)
    });
    strip.phase + libm::atan2(sine, cosine) / core::f64::consts::TAU
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::{Instant, Lba};

    /// Sights of one and the same sector lie between those of two strips, and were taken for a third.
    #[test]
    fn strips_never_overlap_however_many_sights_are_of_one_sector() {
        let lbas = [10, 20, 30, 30, 30, 30, 30, 40, 50];
        let sights = lbas.iter().zip(1..).map(|(lba, number)| Sight { at: Instant::from_ns(number * 1_000_000), last: Lba::new(*lba) }).collect();
        let period = RotationPeriod::from_rpm(7_200.0).expect("a disk's speed");
        let mut survey = Survey::begin(Sectors::new(100), period, Strips::default(), sights);
        let strip = Strip { first: 0, end: 0, origin: 0, phase: 0.0, slope: 0.001, teeth: Vec::new(), spread: 0.0, sights: 0 };
        let ranges = [(0, 3), (3, 5), (5, 6), (6, 9)];
        survey.strips = ranges.map(|(from, to)| Grown { strip: strip.clone(), from, to, combed: 0 }).to_vec();
        let found = survey.finish().strips;
        assert!(found.strips().iter().all(|strip| strip.first < strip.end), "{found:?}");
        assert!(found.strips().windows(2).all(|two| two[0].end <= two[1].first), "{found:?}");
        assert!(found.of(Lba::new(12)).is_some() && found.of(Lba::new(45)).is_some());
    }
}
