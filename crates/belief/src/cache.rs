//! [`CacheModel`]: the rules of the drive's cache, and the classification of completions by time.
//!
//! An access to the medium ends when the angle of its last sector is under the head, and not before
//! the arm can have arrived and its sectors have passed. A response from the cache ends at any
//! angle, as soon as the command is decoded and the data have crossed the bus. Hence:
//!
//! - *A hit* ends within the time of a hit plus 0.4 ms ([`HIT_SLACK`]) after the drive could begin.
//!   It may have waited while data of other commands crossed the bus; that time is added. It also
//!   ends sooner than predicted or at another angle. Exception: if the angle of the platter is well
//!   known, a sector on the head's track that arrives as predicted is no hit. A busy host sees
//!   reports late, so a read that is probably held is a hit at any time, unless the angle is well
//!   known and is that of its end. One that the arm could not have reached, or that moves the arm
//!   and ends sooner than predicted at another angle, is one up to 2 ms late ([`LATE_HIT_SLACK`]).
//! - *Elsewhere* ends later than a hit but before the arm could have arrived, or two or more
//!   revolutions late at its own angle. The head was not at the predicted place, because the drive
//!   reordered commands or had read ahead; or a retry delayed the access.
//! - *In the buffer*: a write to a drive with a write-back cache that had to wait until other
//!   writes were destaged.
//! - Everything else is an access to *the medium*.
//!
//! Without a profile there are no interface times. A hit is then a response within 0.4 ms over more
//! than a neighboring band of addresses. No access is classified as sooner than the arm, because
//! the arm times are learned from the same completions.
//!
//! Worked example, 20 TB 7,200 rpm: a read 50,000 cylinders away is sent at 0; the arm alone takes
//! 4.7 ms. It is reported at 0.09 ms. A hit takes 0.06 ms and the bus 7 us: a hit. Reported at 3
//! ms, with its angle under the head: the head was nearer than predicted.
//!
//! Does not distinguish a hit on the head's own track from an access that ends as predicted.
//! Source: P2 section 3.3.

use std::collections::VecDeque;

use headtime_mechanics::DriveProfile;
use headtime_mechanics::cache::CacheTimes;
use headtime_sched::{Head, MeasuredAccess, Op};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::cached_rows::{CachedRows, Prediction};
use crate::compact::Locations;
use crate::model::actuator::{Actuator, Approach, direction};
use crate::moved::Moved;

/// The time by which a hit may exceed the computed one: a bus in use, a slow report (guess).
const HIT_SLACK: Nanos = Nanos::from_us(400);
/// The same on a busy host, for a read whose angle or arm time shows that it is a hit (guess).
const LATE_HIT_SLACK: Nanos = Nanos::from_ms(2);
/// The maximum number of reports in memory: more than commands are at a drive.
const MAX_REPORTS: usize = 256;
/// An access this much sooner than predicted is not the one that was predicted (guess).
const SOONER_NS: f64 = 100_000.0;
/// Being sooner than possible by less than this is an error of the profile (guess).
const MIN_MARGIN: Nanos = Nanos::from_us(20);
/// Maximum deviation of the angle, in turns, for which a sector in time is distinguished from a hit
/// (guess).
const SHARP_TURNS: f64 = 0.01;
/// Maximum deviation of the angle, in turns, for which angles tell turns apart: five deviations to
/// both sides are half a turn.
const DISTINCT_TURNS: f64 = 0.05;

/// The kind of access that a completion was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    Medium,
    Hit,
    Elsewhere,
    InBuffer,
}

/// A completion compared with its prediction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) kind: CompletionKind,
    pub(crate) approach: Approach,
    /// Later than predicted, in ns.
    pub(crate) late_ns: f64,
    /// Whole turns of it.
    pub(crate) slips: f64,
    /// The angle is that of the end, as far as the angle is known.
    pub(crate) fits: bool,
    /// The angle is known well.
    pub(crate) sharp: bool,
    /// The angle is known well enough to tell in which turn the sector was met.
    pub(crate) distinct: bool,
}

/// The times of the drive's cache, and its state.
#[derive(Clone, Debug)]
pub(crate) struct CacheModel {
    times: Option<CacheTimes>,
    write_back: bool,
    /// It keeps more than what was read: sectors read ahead, or whole tracks.
    keeps_more: bool,
    /// The sectors that the head reads ahead, off its track; zero where it does not.
    read_ahead: Sectors,
    /// The end of the last access, if it was a read.
    read_to: Option<Lba>,
    /// The latest reports, each with the time for which data crossed the bus up to it.
    reports: VecDeque<(Instant, Nanos)>,
    pub(crate) hits: u64,
    /// A write was acknowledged and has still to be destaged, so the head's next way is not the
    /// predicted one.
    pub(crate) to_be_written: bool,
    /// The cache has answered a read since the last access, so the drive may have gone to read on
    /// there.
    pub(crate) read_on: bool,
    pub(crate) rows: CachedRows,
}

impl CacheModel {
    pub(crate) fn of(profile: &DriveProfile) -> Self {
        let cache = profile.cache.as_ref();
        let goes_on = cache.filter(|cache| !cache.whole_track && !cache.read_ahead_within_track);
        let read_ahead = goes_on
            .map_or(0, |cache| u64::from(cache.read_ahead_sectors.min(cache.segment_sectors)));
        Self {
            times: cache.map(CacheTimes::new),
            write_back: cache.is_some_and(|cache| cache.write_back),
            keeps_more: cache
                .is_some_and(|cache| cache.whole_track || cache.read_ahead_sectors > 0),
            read_ahead: Sectors::new(read_ahead),
            rows: CachedRows::of(profile),
            ..Self::unknown()
        }
    }

    /// A drive without a profile.
    pub(crate) fn unknown() -> Self {
        Self {
            times: None,
            write_back: false,
            keeps_more: false,
            read_ahead: Sectors::ZERO,
            read_to: None,
            reports: VecDeque::new(),
            hits: 0,
            to_be_written: false,
            read_on: false,
            rows: CachedRows::default(),
        }
    }

    /// As [`Positioning::reads_ahead`](headtime_sched::Positioning::reads_ahead).
    pub(crate) fn reads_ahead(&self) -> bool {
        self.keeps_more
    }

    /// Returns true if commands of this kind end in the cache.
    pub(crate) fn takes(&self, op: Op) -> bool {
        self.write_back && op == Op::Write
    }

    pub(crate) fn note_hit(&mut self, op: Op) {
        self.hits += 1;
        self.to_be_written |= op != Op::Read;
        self.read_on |= op == Op::Read && !self.read_ahead.is_zero();
    }

    /// Notes where an access ended.
    pub(crate) fn ended(&mut self, op: Op, extent: Extent) {
        self.read_to = (op == Op::Read).then_some(extent.end());
    }

    /// Notes a report of data that crossed the bus in `bus_time`.
    fn reported(&mut self, at: Instant, bus_time: Nanos) {
        let (before, crossed) = self.reports.back().copied().unwrap_or_default();
        if self.reports.len() == MAX_REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back((before.max(at), crossed + bus_time));
    }

    /// The time for which data crossed the bus that were reported after `begin`: a hit may have
    /// waited as long.
    fn crossed_since(&self, begin: Instant) -> Nanos {
        let crossed = |report: Option<&(Instant, Nanos)>| report.map_or(Nanos::ZERO, |(_, t)| *t);
        let before = self.reports.iter().rev().find(|(at, _)| *at <= begin);
        crossed(self.reports.back()) - crossed(before.or(self.reports.front()))
    }

    /// The sectors from `from` on that the drive reads ahead: after a read up to there, if no other
    /// access came since, or after hits, as far as the rows tell.
    pub(crate) fn reads_on_from(&self, from: Lba) -> Sectors {
        if self.read_to == Some(from) {
            return self.read_ahead;
        }
        self.rows.reads_on(from.get())
    }

    /// Returns true if the head had time to leave the track on which it ended.
    pub(crate) fn strayed(&self, idle: Nanos, revolution: Nanos) -> bool {
        !self.read_ahead.is_zero() && idle > revolution / 4
    }
}

impl Actuator {
    /// As [`Positioning::probably_cached`](headtime_sched::Positioning::probably_cached).
    pub(crate) fn probably_cached(&self, extent: Extent, until: Instant) -> bool {
        self.cache.rows.are_trusted() && self.rows_hold(extent, until)
    }

    /// Returns whether the rows of the cache probably hold a read, trusted or not.
    pub(crate) fn rows_hold(&self, extent: Extent, until: Instant) -> bool {
        self.cache.rows.holds(extent, until, |extent| self.target(Op::Read, extent).transfer)
    }

    /// Notes a read from the medium, by the times at which it was sent and ended there; `held` is
    /// right if the cache may have answered it late.
    pub(crate) fn note_read(&mut self, extent: Extent, times: [Instant; 2], held: Prediction) {
        let mut rows = std::mem::take(&mut self.cache.rows);
        rows.read(extent, times, held, |extent| self.target(Op::Read, extent).transfer);
        self.cache.rows = rows;
    }

    /// Notes a read that the cache answered, by the time at which that was reported.
    pub(crate) fn note_hit_read(&mut self, extent: Extent, at: Instant) {
        let mut rows = std::mem::take(&mut self.cache.rows);
        let last = self.capacity().get() - 1;
        let sector = |lba: u64| self.target(Op::Read, Extent::from_numbers(lba.min(last), 1));
        let time_of = |extent| self.target(Op::Read, extent).transfer;
        rows.hit(extent, at, time_of, |[from, to]| {
            let likely = self.likely(&Head::after(&sector(from - 1), at), at, &sector(to));
            likely.depart + likely.positioning
        });
        self.cache.rows = rows;
    }

    /// Notes the report of a completion that was learned from.
    pub(crate) fn note_report(&mut self, measured: &MeasuredAccess) {
        if let Locations::Layout(layout) = &self.map.locations {
            let bus_time = layout.interface.bus_time(measured.target.extent.len);
            self.cache.reported(measured.finished, bus_time);
        }
    }

    /// Returns whether a read ended as soon as the cache answers on a busy host.
    pub(crate) fn is_in_time_for_hit(&self, measured: &MeasuredAccess) -> bool {
        let kind = self.kind_by_time(measured, begin_of(measured), LATE_HIT_SLACK);
        kind == Some(CompletionKind::Hit)
    }

    /// The kind of access where nothing was predicted.
    pub(crate) fn kind_of_unpredicted(&self, measured: &MeasuredAccess) -> CompletionKind {
        let kind = self.kind_by_time(measured, measured.dispatched, HIT_SLACK);
        kind.unwrap_or(CompletionKind::Medium)
    }

    /// Compares a completion with its prediction, where the phase is known; `transfer` is its media
    /// time if nothing is remapped.
    pub(crate) fn compare(
        &self,
        measured: &MeasuredAccess,
        approach: Approach,
        media_end: Instant,
        transfer: Nanos,
    ) -> Compared {
        let predicted = approach.arrival + approach.wait + transfer;
        let turn_ns = self.revolution.as_ns() as f64;
        let late_ns = media_end.signed_since(predicted) as f64;
        let slips = libm::round(late_ns / turn_ns);
        let deviation_ns = self.spindle.expected_error_turns(media_end) * turn_ns;
        let fits = (late_ns - slips * turn_ns).abs() < 5.0 * deviation_ns;

        let tail = self.map.arrival.spread() * 4;
        let reach = if approach.moves {
            approach.arrival.saturating_back(tail).max(approach.depart)
        } else {
            approach.depart
        };
        let margin = MIN_MARGIN + Nanos::from_ns((3.0 * deviation_ns) as u64);
        // The place of a moved sector is too uncertain for a lower bound of the arm time.
        let places = [
            Some(measured.target.start),
            Some(measured.target.end),
            measured.head_before.map(|head| head.place),
        ];
        let relocated = places.into_iter().flatten().any(Moved::holds);
        let sooner = self.has_curve() && media_end + margin < reach + transfer && !relocated;
        let begin = begin_of(measured);
        let sharp = deviation_ns < SHARP_TURNS * turn_ns;
        let caught = fits && !approach.moves && sharp;
        // An unknown wait is compared only with the time of a hit.
        let angle_known = approach.known || self.has_curve();
        let distinct = deviation_ns < DISTINCT_TURNS * turn_ns;
        let looks_answered = sooner || approach.moves && distinct && !fits && late_ns < -SOONER_NS;
        let may_hit = measured.target.op == Op::Read && self.cache.times.is_some();
        let slack = if may_hit && looks_answered { LATE_HIT_SLACK } else { HIT_SLACK };
        let kind = match self.kind_by_time(measured, begin, slack) {
            Some(CompletionKind::Hit)
                if angle_known && (late_ns > -SOONER_NS || caught) && fits =>
            {
                CompletionKind::Medium
            }
            Some(kind) => kind,
            None if sooner || angle_known && slips >= 2.0 && fits => CompletionKind::Elsewhere,
            None => CompletionKind::Medium,
        };
        Compared { kind, approach, late_ns, slips, fits, sharp, distinct }
    }

    /// The kind of access by the time that it took from when the drive could `begin`; `None` where
    /// that does not tell. A hit may take longer than computed by `slack`.
    fn kind_by_time(
        &self,
        measured: &MeasuredAccess,
        begin: Instant,
        slack: Nanos,
    ) -> Option<CompletionKind> {
        let MeasuredAccess { target, finished, head_before, forced, .. } = measured;
        if *forced {
            return None;
        }
        let least = match &self.map.locations {
            Locations::Layout(layout) => {
                let (interface, direction) = (&layout.interface, direction(target.op));
                let decoded = self.cache.times.map_or_else(
                    || interface.command_overhead(direction, None),
                    |times| times.hit_overhead(direction, None),
                );
                decoded + interface.bus_time(target.extent.len) + interface.completion_overhead()
            }
            // In a neighboring band the arm may not have moved.
            Locations::Segments(_) => head_before
                .filter(|head| !self.map.locations.may_share_track(head.place, target.start))
                .map(|_| Nanos::ZERO)?,
        };
        if *finished <= begin + least + slack + self.cache.crossed_since(begin) {
            return Some(CompletionKind::Hit);
        }
        (self.cache.write_back && target.op != Op::Read).then_some(CompletionKind::InBuffer)
    }
}

/// The time from which the drive could serve a command.
fn begin_of(measured: &MeasuredAccess) -> Instant {
    let free_at = measured.head_before.map_or(measured.dispatched, |head| head.free_at);
    measured.dispatched.max(free_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_reads_ahead_after_a_read_only_within_its_profile() {
        let load =
            |name| headtime_mechanics::catalog::load(name).expect("a profile of the catalog");
        let mut cache = CacheModel::of(&load("deskstar34gxp@papers"));
        let (extent, end) = (Extent::from_numbers(800, 8), Lba::new(808));
        assert_eq!(cache.reads_on_from(end), Sectors::ZERO, "nothing was read yet");
        cache.ended(Op::Read, extent);
        assert_eq!(cache.reads_on_from(end), Sectors::new(261));
        assert_eq!(cache.reads_on_from(Lba::new(816)), Sectors::ZERO);
        cache.ended(Op::Write, extent);
        assert_eq!(cache.reads_on_from(end), Sectors::ZERO);
        let mut none = CacheModel::of(&load("deskstar34gxp@nocache"));
        none.ended(Op::Read, extent);
        assert_eq!(none.reads_on_from(end), Sectors::ZERO);
    }
}
