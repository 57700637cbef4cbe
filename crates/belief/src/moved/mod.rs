//! [`Moved`]: sectors that a drive serves from elsewhere, found by the angles at which they pass.
//!
//! A sector that went bad lives on a spare; a damaged region may have been moved as a whole, some
//! thousand sectors one after the other. Such a sector passes at an angle of its own, not at that
//! of its address. A retry, or a report that came late, shows that once and never again; a place
//! shows it each time. What was seen is kept as *angle samples* in the order of addresses, of sectors that
//! are elsewhere and, next to those, of sectors that are at home. A angle sample is *confirmed* when
//! - its sectors are read again and pass at the same angle, or
//! - it lies on one line with two others within a track: angles that rise from sector to sector by
//!   as much as on some track of the drive.
//!
//! Between two angle samples that such a line links every address is believed to lie on the line. Between
//! angle samples of moved sectors that no line links (the border of two tracks of the new place, or too
//! little seen so far) nobody knows: half a revolution is expected there, and no deadline relies on
//! more. Where the arm has to go shows in how long it took ([`Whereabouts`]).
//!
//! Worked example, tracks of 500 sectors: reads that end at LBA 7,000,100, 7,000,180 and 7,000,300
//! pass 0.31, 0.47 and 0.71 turn behind the index, though the layout says 0.90, 0.06 and 0.30. 80
//! sectors are 0.16 turn, 200 are 0.40: one line. LBA 7,000,250 is believed to pass at 0.61, LBA
//! 7,000,301 where the layout says.
//!
//! Guarantees: a single odd angle changes no estimate; a sector that is read at home and in time is
//! believed to be at home from then on; at most [`MAX_ANGLE_SAMPLES`] angle samples and [`MAX_RUNS`] places are
//! kept, of those on one line the outer ones suffice, then the longest unseen go first. Where a
//! sector's two places pass at the same angle by chance (one in twenty) only whole turns tell them
//! apart, and that takes longer. Does not find anything while several completions in a row are odd:
//! then it is the platter that is rejected. Cost: nothing while nothing is kept; two binary searches
//! and a few comparisons then; up to 50 KiB, and 2 KiB for each place. Source: ours, on P1 section
//! III-A (the map follows the drive) and P2 section 3.1 (remapped sectors).

mod arm;
mod keep;

use headtime_sched::{Position, Target};
use headtime_units::{Angle, Extent, Lba, Nanos, RotationPeriod};

use crate::angles::angle_of_turns;
pub(crate) use arm::{Trip, Whereabouts};
pub(crate) use keep::ANGLE_SAMPLE_NUMBERS;

/// Angle samples kept at most (guess: 5,000 sectors lie on some ten tracks, a track takes two to eight).
const MAX_ANGLE_SAMPLES: usize = 1_024;
/// Places of moved sectors told apart at most (guess: drives are replaced before they have more
/// regions moved).
const MAX_RUNS: usize = 128;
/// Angle samples this far off a line are not on it, in turns (guess: 160 us at 7,200 rpm, for two late
/// reports and a track that is not quite where it should be).
const ON_LINE: f64 = 0.02;
/// An angle closer than this to the one believed is as believed, in turns.
const AS_MODELLED: f64 = 0.025;
/// Where angles are known less well than this, in turns, nothing is odd (guess: by chance one in
/// four is as believed).
const MAX_TOLERANCE: f64 = 0.125;
/// More odd completions in a row than this speak of the platter, not of places.
const MAX_IN_A_ROW: u32 = 4;
/// Neighbors on either side that are looked at for a line.
const NEIGHBOURS: usize = 3;
/// Weight of a further angle sample of the same sectors, at the least.
const STEADY: f64 = 0.125;
/// Surfaces from this number on are none of the drive's: places of moved sectors, on one line the
/// same number.
const FIRST_SURFACE: u16 = 0x8000;
/// The surface of a place elsewhere of which the angle is not known.
pub(crate) const UNKNOWN_LOCATION: u16 = 0xFFFE;

/// What is known of sectors that lie elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moved {
    /// By last sector.
    angle_samples: Vec<AngleSample>,
    runs: Vec<Run>,
    /// Turns from sector to sector on the tracks of this drive, rising.
    slopes: Vec<f64>,
    /// Sectors of the longest track.
    reach: u64,
    cylinders: u32,
    /// Angle samples taken in.
    taken: u64,
    next_run: u32,
    in_a_row: u32,
    /// Whether any address is believed to lie elsewhere, or may.
    any: bool,
}

/// Some sectors that were read, and the angle at which the last of them passed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AngleSample {
    first: u64,
    last: u64,
    end: Angle,
    at_home: bool,
    /// Angle samples that agree, this one counted.
    agreed: u8,
    /// Whether a line goes on to the next confirmed one.
    linked: bool,
    /// When it was last seen to be right, in angle samples.
    seen: u64,
    /// Of moved sectors that follow each other, the same.
    run: u32,
}

/// Where the sectors of a run are, as far as the arm shows.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    number: u32,
    whereabouts: Whereabouts,
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LocationState {
    Home,
    /// Elsewhere, at an angle that nobody knows.
    Somewhere {
        run: u32,
    },
    /// Where its end passes at an angle, on a track with so many turns to the sector; sectors on
    /// one line have one surface.
    At {
        end: Angle,
        slope: f64,
        run: u32,
        surface: u16,
    },
}

/// What to make of the angle of a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// It shows the platter, by the sector's place at home.
    Home,
    /// It is not that of the sector's place at home, and nothing else is known of it: an outlier, a
    /// moved sector, or a platter that was lost.
    Odd,
    /// It shows the platter, by this angle.
    Moved(Angle),
    /// Nothing: nobody knows where the sector is.
    Nothing,
}

impl Moved {
    /// Nothing seen of a drive with so many cylinders, whose tracks have these numbers of sectors.
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

    /// The tracks of the layout's zones.
    pub(crate) fn of_layout(layout: &headtime_mechanics::Layout) -> Self {
        Self::new(layout.cylinders(), layout.zones().map(|zone| f64::from(zone.sectors_per_track)))
    }

    /// Whether a place is one of moved sectors.
    #[inline]
    pub(crate) fn holds(place: Position) -> bool {
        (FIRST_SURFACE..=UNKNOWN_LOCATION).contains(&place.head)
    }

    /// Where the sector ends, which would end at `home`.
    #[inline]
    pub(crate) fn end(&self, lba: Lba, home: Position) -> Position {
        if self.any { self.place(lba, home, false) } else { home }
    }

    /// Where the sector begins, which would begin at `home`.
    #[inline]
    pub(crate) fn start(&self, lba: Lba, home: Position) -> Position {
        if self.any { self.place(lba, home, true) } else { home }
    }

    fn place(&self, lba: Lba, home: Position, start: bool) -> Position {
        let cylinder = |run| {
            self.whereabouts(run)
                .map_or(home.cylinder, |whereabouts| whereabouts.cylinder_near(home.cylinder))
        };
        match self.lies(lba.get()) {
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

    /// `target` with its ends where they are believed to be, as far as one of them lies elsewhere.
    /// From one line to another the arm takes `arm`.
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
            // The angles say how long it takes but for whole turns: none on one line, otherwise as
            // many as the arm needs.
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

    /// Where the arm may have to go for a sector that lies elsewhere; `None` where nothing is known
    /// of that.
    pub(crate) fn arm_of(&self, lba: Lba) -> Option<&Whereabouts> {
        match self.lies(lba.get()) {
            LocationState::Home => None,
            LocationState::Somewhere { run } | LocationState::At { run, .. } => {
                self.whereabouts(run)
            }
        }
    }

    fn whereabouts(&self, run: u32) -> Option<&Whereabouts> {
        self.runs.iter().find(|of| of.number == run).map(|of| &of.whereabouts)
    }

    /// Takes in that the last sector of `extent` passed at the angle `seen`; angles are known to
    /// within `tolerance_turns`. `home` says at which angle a sector passes at home, and `predicted`
    /// whether it was in the turn in which it was believed to; `None` where nobody could know.
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
        match if self.any { self.lies(last) } else { LocationState::Home } {
            LocationState::At { end, .. } if near(seen, end) => {
                self.in_a_row = 0;
                // At the angle of both places: which it is only the arm tells.
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

    /// Takes in how the arm got to the last sector of `extent`.
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

    /// Takes over what was known when angles were counted from another place on the platter: by now
    /// they are `by` more.
    pub(crate) fn take_over(&mut self, known: Self, by: Angle) {
        let Self { slopes, reach, cylinders, .. } = core::mem::replace(self, known);
        (self.slopes, self.reach, self.cylinders) = (slopes, reach, cylinders);
        self.angle_samples.iter_mut().for_each(|angle_sample| angle_sample.end += by);
    }

    /// Angles of addresses are believed again: forgets what was seen once, and what is now where it
    /// should be.
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

    /// Places known to hold moved sectors, and angle samples that stand for them: for people and tests.
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

    /// Where a sector lies.
    fn lies(&self, lba: u64) -> LocationState {
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
            return self.lies_among_outliers(next);
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
            None => self.lies_among_outliers(next),
        }
    }

    /// Elsewhere, if among three moved angle samples that follow each other; otherwise at home.
    fn lies_among_outliers(&self, next: usize) -> LocationState {
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

    /// Whether both are of moved sectors, not further apart than a track is long.
    fn advance(&self, one: &AngleSample, other: &AngleSample) -> bool {
        !one.at_home && !other.at_home && other.last - one.last <= self.reach
    }

    /// The first angle sample that ends at `lba` or behind it.
    fn next(&self, lba: u64) -> usize {
        self.angle_samples.partition_point(|angle_sample| angle_sample.last < lba)
    }

    /// The confirmed angle sample before the one numbered `next` with nothing at home between, and how
    /// many unconfirmed ones are.
    fn confirmed_before(&self, next: usize) -> Option<(usize, usize)> {
        let moved =
            (0..next).rev().take_while(|at| !self.angle_samples[*at].at_home).take(2 * NEIGHBOURS);
        moved.zip(0..).find(|(at, _)| self.angle_samples[*at].agreed >= 2)
    }

    /// The same from that one on.
    fn confirmed_from(&self, next: usize) -> Option<(usize, usize)> {
        let moved = (next..self.angle_samples.len())
            .take_while(|at| !self.angle_samples[*at].at_home)
            .take(2 * NEIGHBOURS);
        moved.zip(0..).find(|(at, _)| self.angle_samples[*at].agreed >= 2)
    }

    /// The turns from sector to sector with which one angle sample leads to another behind it, if the
    /// tracks of the drive have such.
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
        // As it was seen: both ends are on it.
        (best.1.abs() < ON_LINE).then(|| best.0 + best.1 / sectors as f64)
    }

    fn is_on(&self, from: &AngleSample, slope: f64, angle_sample: &AngleSample) -> bool {
        let end = from.end + angle_of_turns(slope * (angle_sample.last - from.last) as f64);
        angle_sample.end.signed_turns_from(end).abs() < ON_LINE
    }

    /// Turns from sector to sector about a confirmed angle sample.
    fn slope_at(&self, at: usize) -> f64 {
        let here = &self.angle_samples[at];
        let ahead = here
            .linked
            .then(|| self.confirmed_from(at + 1))
            .flatten()
            .and_then(|(right, _)| self.line(here, &self.angle_samples[right]));
        let behind = || {
            self.confirmed_before(at)
                .filter(|(left, _)| self.angle_samples[*left].linked)
                .and_then(|(left, _)| self.line(&self.angle_samples[left], here))
        };
        ahead
            .or_else(behind)
            .unwrap_or_else(|| self.slopes.get(self.slopes.len() / 2).copied().unwrap_or(0.0))
    }

    /// A number for the line that a confirmed angle sample is on.
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

    /// Whether the angle sample is of moved sectors, not further than a track from `lba`.
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

    /// Whether no angle sample of moved sectors follows the one or goes before it.
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
