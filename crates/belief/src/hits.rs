//! What a completion was, as far as its time tells: an access to the medium, an answer from the
//! drive's cache, or something else.
//!
//! An access to the medium cannot end before the arm can have come to its track and its sectors
//! have passed, and ends when the angle of its last sector is under the head. An answer from the
//! cache ends as soon as the command is understood and the data have crossed the bus, at whatever
//! angle. So:
//!
//! - *A hit* ends as soon as hits do, and either sooner than predicted or at an angle that is not
//!   its own. As soon as hits do: within their time and 0.4 ms ([`HIT_SLACK`]) from when the drive
//!   could begin. Where the platter's angle is well known, a sector on the head's own track that is
//!   caught just in time is none.
//! - *Elsewhere* ends sooner than the arm could have come, but not as soon as a hit; or two turns
//!   late and more, at its own angle. The head was not where it was believed to be, because the
//!   drive took commands in an order of its own or had read on behind the last one; or a retry held
//!   it up.
//! - *In the buffer*: a write that a drive with a write-back cache took, but not at once. It had to
//!   wait until others had been brought to the medium.
//! - Everything else is an access to *the medium*.
//!
//! Worked example, 20 TB 7,200 rpm: a read 50,000 cylinders away is sent at 0; the arm alone takes
//! 4.7 ms. It is reported at 0.09 ms. A hit takes 0.06 ms and the bus 7 us: a hit. Reported at 3
//! ms, with its angle under the head: the head was nearer than believed.
//!
//! Does not tell a hit on the head's own track from an access there when it comes just as
//! predicted. Source: P2 section 3.3.

use headtime_mechanics::cache::CacheTimes;
use headtime_mechanics::{DriveProfile, InterfaceTimes};
use headtime_sched::{MeasuredAccess, Op};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::moved::Moved;
use crate::profile::{ProfileBelief, Way, direction};

/// How much longer than computed a hit may take: a bus in use, a slow report (guess).
const HIT_SLACK: Nanos = Nanos::from_us(400);
/// An access this much sooner than predicted is not the one that was predicted (guess).
const SOONER_NS: f64 = 100_000.0;
/// Less than this sooner than possible is an error of the profile's (guess).
const MIN_MARGIN: Nanos = Nanos::from_us(20);
/// With a deviation below this the angle is known well enough to tell a sector that was caught from
/// a hit, in turns (guess).
const SHARP_TURNS: f64 = 0.01;

/// What a completion was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Medium,
    Hit,
    Elsewhere,
    InBuffer,
}

/// A completion against its prediction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) verdict: Verdict,
    pub(crate) way: Way,
    /// Later than predicted, in ns.
    pub(crate) late_ns: f64,
    /// Whole turns of it.
    pub(crate) slips: f64,
    /// Whether the angle is that of the end, as far as the angle is known.
    pub(crate) fits: bool,
}

/// The times of the drive's cache, and what it did.
#[derive(Clone, Debug)]
pub(crate) struct Hits {
    times: Option<CacheTimes>,
    write_back: bool,
    /// How far the head goes on behind a read, off its track; zero where it does not.
    reads_on: Sectors,
    /// Where the last access ended, if it was a read.
    read_to: Option<Lba>,
    pub(crate) count: u64,
    /// A write was answered and has still to be brought to the medium, so the head's next way is
    /// not the one believed.
    pub(crate) to_be_written: bool,
}

impl Hits {
    pub(crate) fn of(profile: &DriveProfile) -> Self {
        let cache = profile.cache.as_ref();
        let goes_on = cache.filter(|cache| !cache.whole_track && !cache.read_ahead_within_track);
        let reads_on = Sectors::new(
            goes_on
                .map_or(0, |cache| u64::from(cache.read_ahead_sectors.min(cache.segment_sectors))),
        );
        let write_back = cache.is_some_and(|cache| cache.write_back);
        Self {
            times: cache.map(CacheTimes::new),
            write_back,
            reads_on,
            read_to: None,
            count: 0,
            to_be_written: false,
        }
    }

    /// Whether commands of this kind end in the cache.
    pub(crate) fn takes(&self, op: Op) -> bool {
        self.write_back && op == Op::Write
    }

    pub(crate) fn note(&mut self, op: Op) {
        self.count += 1;
        self.to_be_written |= op != Op::Read;
    }

    /// Notes where an access ended.
    pub(crate) fn ended(&mut self, op: Op, extent: Extent) {
        self.read_to = (op == Op::Read).then_some(extent.end());
    }

    /// How far the drive reads on by itself behind the last access, where that was a read up to
    /// `from`.
    pub(crate) fn reads_on_from(&self, from: Lba) -> Sectors {
        if self.read_to == Some(from) { self.reads_on } else { Sectors::ZERO }
    }

    /// Whether the head may have left the track on which it ended, because it had time for it.
    pub(crate) fn strayed(&self, idle: Nanos, revolution: Nanos) -> bool {
        !self.reads_on.is_zero() && idle > revolution / 4
    }

    /// The latest that an answer from the cache is reported when the drive can begin at `from`.
    fn latest(
        &self,
        interface: &InterfaceTimes,
        op: Op,
        sectors: Sectors,
        from: Instant,
    ) -> Instant {
        let direction = direction(op);
        let understood = self.times.map_or_else(
            || interface.command_overhead(direction, None),
            |times| times.hit_overhead(direction, None),
        );
        from + understood
            + interface.bus_time(sectors)
            + interface.completion_overhead()
            + HIT_SLACK
    }
}

impl ProfileBelief {
    /// Holds a completion against what was to be expected; `transfer` is its media time if nothing
    /// is remapped. None while no phase or no place of the head is known.
    pub(crate) fn judge(
        &self,
        measured: &MeasuredAccess,
        media_end: Instant,
        transfer: Nanos,
    ) -> Option<Seen> {
        let head = measured.head_before.filter(|_| self.phase_known)?;
        let way = self.way(&head, measured.dispatched, &measured.target);
        let predicted = way.arrival + way.wait + transfer;
        let turn_ns = self.revolution.as_ns() as f64;
        let late_ns = media_end.signed_since(predicted) as f64;
        let slips = libm::round(late_ns / turn_ns);
        let deviation_ns = self.spindle.expected_error_turns(media_end) * turn_ns;
        let fits = (late_ns - slips * turn_ns).abs() < 5.0 * deviation_ns;

        let tail = self.arrival.spread() * 4;
        let reach =
            if way.moves { way.arrival.saturating_back(tail).max(way.depart) } else { way.depart };
        let margin = MIN_MARGIN + Nanos::from_ns((3.0 * deviation_ns) as u64);
        // Where the arm came from or went to is known too badly to say what it could not have done.
        let elsewhere = Moved::holds(head.place)
            || Moved::holds(measured.target.start)
            || Moved::holds(measured.target.end);
        let sooner = media_end + margin < reach + transfer && !elsewhere;
        let begin = measured.dispatched.max(head.free_at);
        let caught = fits && !way.moves && deviation_ns < SHARP_TURNS * turn_ns;
        let verdict = match self.verdict_by_time(measured, begin) {
            Some(Verdict::Hit) if (late_ns > -SOONER_NS || caught) && fits => Verdict::Medium,
            Some(verdict) => verdict,
            None if sooner || slips >= 2.0 && fits => Verdict::Elsewhere,
            None => Verdict::Medium,
        };
        Some(Seen { verdict, way, late_ns, slips, fits })
    }

    /// What a completion is by the time that it took from when the drive could `begin`; `None`
    /// where that does not tell.
    pub(crate) fn verdict_by_time(
        &self,
        measured: &MeasuredAccess,
        begin: Instant,
    ) -> Option<Verdict> {
        let MeasuredAccess { target, finished, .. } = measured;
        if *finished <= self.hits.latest(&self.interface, target.op, target.extent.len, begin) {
            return Some(Verdict::Hit);
        }
        (self.hits.write_back && target.op != Op::Read).then_some(Verdict::InBuffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_reads_on_behind_a_read_and_nothing_else_as_far_as_its_profile_says() {
        let load =
            |name| headtime_mechanics::catalog::load(name).expect("a profile of the catalog");
        let mut hits = Hits::of(&load("deskstar34gxp@papers"));
        let (extent, end) = (Extent::from_numbers(800, 8), Lba::new(808));
        assert_eq!(hits.reads_on_from(end), Sectors::ZERO, "nothing was read yet");
        hits.ended(Op::Read, extent);
        assert_eq!(hits.reads_on_from(end), Sectors::new(261));
        assert_eq!(hits.reads_on_from(Lba::new(816)), Sectors::ZERO);
        hits.ended(Op::Write, extent);
        assert_eq!(hits.reads_on_from(end), Sectors::ZERO);
        let mut none = Hits::of(&load("deskstar34gxp@nocache"));
        none.ended(Op::Read, extent);
        assert_eq!(none.reads_on_from(end), Sectors::ZERO);
    }
}
