//! [`Moved`]: remapped sectors, detected by the angles at which they pass the head.
//!
//! A defective sector is served from a spare. A damaged region may have been moved as a whole,
//! several thousand consecutive sectors. Such a sector passes at an angle of its own, not at that
//! of its address. A retry or a late report shows an odd angle once; a moved sector shows it each
//! time. Observations are kept as *angle samples* in address order: samples of moved sectors and,
//! next to them, of sectors at home. An angle sample is *confirmed* when
//! - its sectors are read again and pass at the same angle, or
//! - it lies on one line with two others within a track. A line has the slope, in turns per
//!   sector, of some track of the drive.
//!
//! All addresses between two linked angle samples are modelled on their common line. Between moved
//! samples without a link (the border of two tracks, or too few samples so far) the angle is
//! unknown: half a revolution is expected, and no deadline depends on more. The duration of the arm
//! movement shows the cylinder of the new place ([`Whereabouts`]).
//!
//! Worked example, tracks of 500 sectors: reads that end at LBA 7,000,100, 7,000,180 and 7,000,300
//! pass 0.31, 0.47 and 0.71 turns after the index. The layout predicts 0.90, 0.06 and 0.30. 80
//! sectors are 0.16 turns, 200 are 0.40: one line. LBA 7,000,250 is modelled at 0.61, LBA 7,000,301
//! at the angle of the layout.
//!
//! Guarantees: a single odd angle changes no estimate. A sector that is read at home and in time is
//! modelled at home from then on. At most [`MAX_ANGLE_SAMPLES`] angle samples and [`MAX_RUNS`]
//! places are kept: inner samples of a line are dropped first, then the oldest. If both places of a
//! sector pass at the same angle by chance (one in twenty), only whole turns tell them apart, which
//! takes longer. Nothing is detected while several consecutive completions are odd: the model of
//! the rotation is then rejected. Cost: nothing while no sample is kept; otherwise two binary
//! searches and a few comparisons. Memory: up to 50 KiB, and 2 KiB for each place. Source: ours, on
//! P1 section III-A (the map follows the drive) and P2 section 3.1 (remapped sectors).

mod arm;
mod keep;

use headtime_sched::{Position, Target};
use headtime_units::{Angle, Extent, Lba, Nanos, RotationPeriod};

use crate::angles::angle_of_turns;
pub(crate) use arm::{Trip, Whereabouts};
pub(crate) use keep::ANGLE_SAMPLE_NUMBERS;

/// Maximum number of angle samples (guess: 5,000 sectors lie on some ten tracks, and a track takes
/// two to eight).
const MAX_ANGLE_SAMPLES: usize = 1_024;
/// Maximum number of places of moved sectors (guess: drives are replaced before they have more
/// regions moved).
const MAX_RUNS: usize = 128;
/// Maximum distance of an angle sample from its line, in turns (guess: 160 us at 7,200 rpm, for two
/// late reports and a track slightly off its modelled angle).
const ON_LINE: f64 = 0.02;
/// Maximum distance of an angle from the modelled one that still counts as equal, in turns.
const AS_MODELLED: f64 = 0.025;
/// Maximum uncertainty of angles at which an odd angle counts, in turns (guess: by chance one in
/// four is as modelled).
const MAX_TOLERANCE: f64 = 0.125;
/// Maximum number of consecutive odd completions. More of them indicate a wrong model of the
/// rotation, not moved sectors.
const MAX_IN_A_ROW: u32 = 4;
/// Neighbors on either side that are checked for a line.
const NEIGHBOURS: usize = 3;
/// Minimum weight of a further angle sample of the same sectors.
const STEADY: f64 = 0.125;
/// First surface number that stands for moved sectors. Samples on one line share a number.
const FIRST_SURFACE: u16 = 0x8000;
/// The surface of a moved sector at an unknown angle.
pub(crate) const UNKNOWN_LOCATION: u16 = 0xFFFE;

/// The moved sectors of a drive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moved {
    /// Sorted by last sector.
    angle_samples: Vec<AngleSample>,
    runs: Vec<Run>,
    /// Turns from sector to sector on the tracks of this drive, ascending.
    slopes: Vec<f64>,
    /// Sectors of the longest track.
    reach: u64,
    cylinders: u32,
    /// Number of angle samples observed.
    taken: u64,
    next_run: u32,
    in_a_row: u32,
    /// True if any address is, or may be, elsewhere.
    any: bool,
}

/// A range of sectors that was read, and the angle at which its last sector passed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AngleSample {
    first: u64,
    last: u64,
    end: Angle,
    at_home: bool,
    /// Number of samples that agree, this one included.
    agreed: u8,
    /// True if a line continues to the next confirmed sample.
    linked: bool,
    /// Time of the last agreement, in angle samples.
    seen: u64,
    /// The number of the run; consecutive moved sectors have the same.
    run: u32,
}

/// The cylinders of a run, as far as arm times show them.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    number: u32,
    whereabouts: Whereabouts,
}

/// The modelled location of a sector.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LocationState {
    Home,
    /// Elsewhere, at an unknown angle.
    Somewhere {
        run: u32,
    },
    /// Elsewhere, at a known angle of its end, on a track with `slope` turns per sector. Sectors on
    /// one line share a surface.
    At {
        end: Angle,
        slope: f64,
        run: u32,
        surface: u16,
    },
}

/// The interpretation of the angle of a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// The angle is that of the sector at home, and shows the rotation.
    Home,
    /// The angle is not that of the sector at home, and no sample explains it: an outlier, a moved
    /// sector, or a wrong model of the rotation.
    Odd,
    /// The angle is that of the moved sector, and shows the rotation.
    Moved(Angle),
    /// The location of the sector is unknown; the angle shows nothing.
    Nothing,
}

impl Moved {
    /// No samples of a drive with `cylinders` cylinders and tracks of these numbers of sectors.
    pub(crate) fn new(cylinders: u32, sectors_per_track: impl IntoIterator<Item = f64>) -> Self {
        let mut slopes: Vec<f64> = sectors_per_track
            .into_iter()
            .filter(|sectors| *sectors >= 1.0)
            .map(|sectors| 1.0 / sectors)
            .collect();
        slopes.sort_unstable_by(f64::total_cmp);
        slopes.dedup();
        let reach = slopes.first().map_or(0, |least| (1.0 / least) as u64);
        Self {
            angle_samples: Vec::new(),
            runs: Vec::new(),
            slopes,
            reach,
            cylinders: cylinders.max(1),
            taken: 0,
            next_run: 0,
            in_a_row: 0,
            any: false,
        }
    }

    /// No samples of a drive with the tracks of a layout.
    pub(crate) fn of_layout(layout: &headtime_mechanics::Layout) -> Self {
        Self::new(layout.cylinders(), layout.zones().map(|zone| f64::from(zone.sectors_per_track)))
    }

    /// Returns true if a position is one of moved sectors.
    #[inline]
    pub(crate) fn holds(place: Position) -> bool {
        (FIRST_SURFACE..=UNKNOWN_LOCATION).contains(&place.head)
    }

    /// The modelled end of the sector, which ends at `home` in the layout.
    #[inline]
    pub(crate) fn end(&self, lba: Lba, home: Position) -> Position {
        if self.any { self.place(lba, home, false) } else { home }
    }

    /// The modelled start of the sector, which starts at `home` in the layout.
    #[inline]
    pub(crate) fn start(&self, lba: Lba, home: Position) -> Position {
        if self.any { self.place(lba, home, true) } else { home }
    }

    fn place(&self, lba: Lba, home: Position, start: bool) -> Position {
        let cylinder = |run| {
            self.whereabouts(run)
                .map_or(home.cylinder, |whereabouts| whereabouts.cylinder_near(home.cylinder))
        };
        match self.location(lba.get()) {
            LocationState::Home => home,
            LocationState::Somewhere { run } => {
                Position { cylinder: cylinder(run), head: UNKNOWN_LOCATION, angle: home.angle }
            }
            LocationState::At { end, slope, run, surface } => {
                let angle = if start { end - angle_of_turns(slope) } else { end };
                Position { cylinder: cylinder(run), head: surface, angle }
            }
        }
    }

    /// Returns `target` with the modelled positions of its ends, if one of them is elsewhere. `arm`
    /// returns the arm time between two lines.
    #[inline]
    pub(crate) fn corrected(
        &self,
        target: Target,
        period: RotationPeriod,
        arm: impl Fn(Position, Position) -> Nanos,
    ) -> Target {
        if !self.any {
            return target;
        }
        let (start, end) = (
            self.place(target.extent.start, target.start, true),
            self.place(target.extent.last(), target.end, false),
        );
        if !Self::holds(start) && !Self::holds(end) {
            return target;
        }
        let mut transfer = target.transfer;
        if start.head != UNKNOWN_LOCATION && end.head != UNKNOWN_LOCATION {
            // The angles give the transfer time except for whole turns: none on one line, otherwise
            // as many as the arm needs.
            transfer = period.time_of(start.angle.until(end.angle));
            let (least, turn) = (
                if start.head == end.head { Nanos::ZERO } else { arm(start, end) },
                period.as_nanos(),
            );
            while transfer < least {
                transfer += turn;
            }
        }
        Target { start, end, transfer, ..target }
    }

    /// The possible cylinders of a moved sector; `None` if they are unknown.
    pub(crate) fn arm_of(&self, lba: Lba) -> Option<&Whereabouts> {
        match self.location(lba.get()) {
            LocationState::Home => None,
            LocationState::Somewhere { run } | LocationState::At { run, .. } => {
                self.whereabouts(run)
            }
        }
    }

    fn whereabouts(&self, run: u32) -> Option<&Whereabouts> {
        self.runs.iter().find(|of| of.number == run).map(|of| &of.whereabouts)
    }

    /// Observes that the last sector of `extent` passed at the angle `seen`; angles are known to
    /// within `tolerance_turns`. `home` returns the angle of a sector at home. `predicted` is true
    /// if the sector passed in the predicted turn, and `None` if no prediction was possible.
    pub(crate) fn take(
        &mut self,
        extent: Extent,
        seen: Angle,
        home: impl Fn(Lba) -> Angle,
        tolerance_turns: f64,
        predicted: Option<bool>,
    ) -> Reading {
        self.taken += 1;
        let near = |one: Angle, other: Angle| {
            one.signed_turns_from(other).abs() < tolerance_turns.max(AS_MODELLED)
        };
        let (first, last, at_home) =
            (extent.start.get(), extent.last().get(), near(seen, home(extent.last())));
        match if self.any { self.location(last) } else { LocationState::Home } {
            LocationState::At { end, .. } if near(seen, end) => {
                self.in_a_row = 0;
                // Both places have the same angle: only the arm tells them apart.
                if !at_home
                    || predicted != Some(false)
                    || !self.forget_where(last, |angle_sample| {
                        near(angle_sample.end, home(Lba::new(angle_sample.last)))
                    })
                {
                    self.agree(first, last, seen);
                    return Reading::Moved(end);
                }
            }
            _ => {}
        }
        if at_home {
            self.in_a_row = 0;
            if predicted == Some(false) && self.is_moved_beside(last) {
                self.odd(first, last, seen);
            } else {
                self.at_home(if predicted == Some(true) { first } else { last }, last, seen);
            }
            return Reading::Home;
        }
        self.in_a_row += 1;
        if self.in_a_row > MAX_IN_A_ROW || tolerance_turns > MAX_TOLERANCE {
            return Reading::Home;
        }
        let beside = self.is_moved_beside(last);
        self.odd(first, last, seen);
        if beside { Reading::Nothing } else { Reading::Odd }
    }

    /// Observes the arm movement to the last sector of `extent`.
    pub(crate) fn take_trip(&mut self, extent: Extent, trip: &Trip, arm_ns: impl Fn(u32) -> f64) {
        let next = self.next(extent.last().get());
        let candidates = [Some(next), next.checked_sub(1)].into_iter().flatten();
        let Some(at) =
            candidates.into_iter().find(|at| self.moved_within(*at, extent.last().get()))
        else {
            return;
        };
        let (run, lonely) =
            (self.angle_samples[at].run, self.angle_samples[at].agreed < 2 && self.alone(at));
        if lonely {
            return;
        }
        let place = match self.runs.iter().position(|of| of.number == run) {
            Some(place) => place,
            None => {
                if self.runs.len() == MAX_RUNS {
                    let oldest = self.runs[0].number;
                    self.drop_run(oldest);
                }
                self.runs.push(Run { number: run, whereabouts: Whereabouts::new(self.cylinders) });
                self.runs.len() - 1
            }
        };
        self.runs[place].whereabouts.take(trip, arm_ns);
    }

    /// Replaces the samples by `known`, with `by` added to each angle: the index of the angles has
    /// changed.
    pub(crate) fn take_over(&mut self, known: Self, by: Angle) {
        let Self { slopes, reach, cylinders, .. } = core::mem::replace(self, known);
        (self.slopes, self.reach, self.cylinders) = (slopes, reach, cylinders);
        self.angle_samples.iter_mut().for_each(|angle_sample| angle_sample.end += by);
    }

    /// Rechecks all samples after the angles of addresses changed: drops unconfirmed samples and
    /// those that the layout now explains.
    pub(crate) fn reconsider(&mut self, home: impl Fn(Lba) -> Option<Angle>) {
        let explained = |angle_sample: &AngleSample| {
            home(Lba::new(angle_sample.last))
                .is_some_and(|home| angle_sample.end.signed_turns_from(home).abs() < AS_MODELLED)
        };
        self.angle_samples.retain(|angle_sample| {
            angle_sample.at_home || angle_sample.agreed >= 2 && !explained(angle_sample)
        });
        for at in (0..self.angle_samples.len()).rev() {
            if self.angle_samples[at].at_home && self.is_redundant(at) {
                self.angle_samples.remove(at);
            }
        }
        self.angle_samples.iter_mut().for_each(|angle_sample| angle_sample.linked = false);
        (0..self.angle_samples.len()).for_each(|at| self.find_line(at));
        self.tidy();
    }

    /// Number of confirmed samples of moved sectors.
    #[cfg(test)]
    pub(crate) fn angle_samples(&self) -> usize {
        self.angle_samples
            .iter()
            .filter(|angle_sample| !angle_sample.at_home && angle_sample.agreed >= 2)
            .count()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        (self.angle_samples.capacity() * size_of::<AngleSample>()
            + self.runs.len() * Whereabouts::BYTES) as u64
    }

    /// Returns the modelled location of a sector.
    fn location(&self, lba: u64) -> LocationState {
        let next = self.next(lba);
        if let Some(here) = self.angle_samples.get(next).filter(|here| here.first <= lba) {
            if here.at_home {
                return LocationState::Home;
            }
            if here.agreed >= 2 {
                let slope = self.slope_at(next);
                return LocationState::At {
                    end: here.end - angle_of_turns(slope * (here.last - lba) as f64),
                    slope,
                    run: here.run,
                    surface: self.surface(next),
                };
            }
        }
        let (Some((left, outliers_left)), Some((right, outliers_right))) =
            (self.confirmed_before(next), self.confirmed_from(next))
        else {
            return self.location_among_outliers(next);
        };
        let (one, other) = (self.angle_samples[left], self.angle_samples[right]);
        let linked = one.linked && outliers_left + outliers_right < 2;
        match self.line(&one, &other).filter(|_| linked) {
            Some(slope) => LocationState::At {
                end: one.end + angle_of_turns(slope * (lba - one.last) as f64),
                slope,
                run: one.run,
                surface: self.surface(left),
            },
            None => self.location_among_outliers(next),
        }
    }

    /// Returns an unknown location between three consecutive moved samples; otherwise home.
    fn location_among_outliers(&self, next: usize) -> LocationState {
        let moved = |at: usize, from: usize| {
            self.angle_samples
                .get(at)
                .zip(self.angle_samples.get(from))
                .is_some_and(|(one, other)| self.advance(one, other))
        };
        let Some(left) = next.checked_sub(1) else { return LocationState::Home };
        if moved(left, next) && (moved(next, next + 1) || left > 0 && moved(left - 1, left)) {
            return LocationState::Somewhere { run: self.angle_samples[left].run };
        }
        LocationState::Home
    }

    /// Returns true if both are of moved sectors and at most a track apart.
    fn advance(&self, one: &AngleSample, other: &AngleSample) -> bool {
        !one.at_home && !other.at_home && other.last - one.last <= self.reach
    }

    /// The index of the first angle sample that ends at or after `lba`.
    fn next(&self, lba: u64) -> usize {
        self.angle_samples.partition_point(|angle_sample| angle_sample.last < lba)
    }

    /// The last confirmed sample before `next` without a sample at home between, and the number of
    /// unconfirmed ones between.
    fn confirmed_before(&self, next: usize) -> Option<(usize, usize)> {
        let moved =
            (0..next).rev().take_while(|at| !self.angle_samples[*at].at_home).take(2 * NEIGHBOURS);
        moved.zip(0..).find(|(at, _)| self.angle_samples[*at].agreed >= 2)
    }

    /// The first confirmed sample from `next` on, with the same conditions.
    fn confirmed_from(&self, next: usize) -> Option<(usize, usize)> {
        let moved = (next..self.angle_samples.len())
            .take_while(|at| !self.angle_samples[*at].at_home)
            .take(2 * NEIGHBOURS);
        moved.zip(0..).find(|(at, _)| self.angle_samples[*at].agreed >= 2)
    }

    /// Turns from sector to sector on the line from one sample to a later one, if the drive has
    /// such tracks.
    fn line(&self, one: &AngleSample, other: &AngleSample) -> Option<f64> {
        let sectors = other.last - one.last;
        if sectors == 0 || sectors > self.reach || self.slopes.is_empty() {
            return None;
        }
        let seen = (other.end - one.end).as_turns();
        let off = |slope: f64| {
            let off = seen - slope * sectors as f64;
            off - libm::round(off)
        };
        let best = self
            .slopes
            .iter()
            .map(|slope| (*slope, off(*slope)))
            .min_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        // The observed slope: both ends are on the line.
        (best.1.abs() < ON_LINE).then(|| best.0 + best.1 / sectors as f64)
    }

    fn is_on(&self, from: &AngleSample, slope: f64, angle_sample: &AngleSample) -> bool {
        let end = from.end + angle_of_turns(slope * (angle_sample.last - from.last) as f64);
        angle_sample.end.signed_turns_from(end).abs() < ON_LINE
    }

    /// Turns from sector to sector around a confirmed angle sample.
    fn slope_at(&self, at: usize) -> f64 {
        let here = &self.angle_samples[at];
        let ahead = here
            .linked
            .then(|| self.confirmed_from(at + 1))
            .flatten()
            .and_then(|(right, _)| self.line(here, &self.angle_samples[right]));
        let before = || {
            self.confirmed_before(at)
                .filter(|(left, _)| self.angle_samples[*left].linked)
                .and_then(|(left, _)| self.line(&self.angle_samples[left], here))
        };
        ahead
            .or_else(before)
            .unwrap_or_else(|| self.slopes.get(self.slopes.len() / 2).copied().unwrap_or(0.0))
    }

    /// The surface number of the line of a confirmed angle sample.
    fn surface(&self, at: usize) -> u16 {
        let mut begin = at;
        while let Some((left, _)) = self.confirmed_before(begin).filter(|(left, _)| {
            self.angle_samples[*left].linked
                && self.line(&self.angle_samples[*left], &self.angle_samples[begin]).is_some()
        }) {
            begin = left;
        }
        FIRST_SURFACE
            | (self.angle_samples[begin].last % u64::from(UNKNOWN_LOCATION - FIRST_SURFACE)) as u16
    }

    /// Returns true if the sample is of moved sectors and within a track of `lba`.
    fn moved_within(&self, at: usize, lba: u64) -> bool {
        self.angle_samples.get(at).is_some_and(|angle_sample| {
            !angle_sample.at_home
                && angle_sample.last.abs_diff(lba)
                    <= self.reach.max(angle_sample.last - angle_sample.first)
        })
    }

    fn is_moved_beside(&self, lba: u64) -> bool {
        let next = self.next(lba);
        self.moved_within(next, lba)
            || next.checked_sub(1).is_some_and(|before| self.moved_within(before, lba))
    }

    /// Returns true if no moved sample is adjacent.
    fn alone(&self, at: usize) -> bool {
        let advance = |one: usize| {
            self.angle_samples
                .get(one + 1)
                .is_some_and(|other| self.advance(&self.angle_samples[one], other))
        };
        !advance(at) && !at.checked_sub(1).is_some_and(advance)
    }
}

#[cfg(test)]
mod tests;
