//! The search of a gap: the sectors that can be read for scans between the end of one command A and
//! the start of the next, B, without delaying B.
//!
//! The head is free at A's end and must be at B's first sector when that passes, as without the
//! fill. On the way it can rest on a track T: it arrives there after the arm time from A's end, and
//! must leave in time for the arm time to B. Both arm times are assumed to be longer than most
//! likely by the margin `conservatism`. The pending sectors that pass in between are the track's
//! value. The track of the greatest *worth* is chosen: its value as a fraction of a revolution, and
//! more if little remains on the track afterwards ([`Gap::worth`]). So late in a scan there are
//! whole tracks left for gaps of all lengths, and no leftovers.
//!
//! Worked example, 6 ms a revolution, 300 sectors a track, a margin of 0.3 ms: A ends at 0, B's
//! sector passes at 5.2 ms, the arm takes 2 ms from A to B. On B's own track the head arrives at
//! 2.3 ms and stays: 145 sectors pass, and those right before B are read with it as one command. On
//! A's track the head rests from 0.04 to 5.2 − 2.3 = 2.9 ms: 143 sectors. On a track half-way, 1.3
//! ms from both, it rests from 1.6 to 3.6 ms: 100 sectors.
//!
//! If the drive may read ahead nothing is read on A's track, and on B's track only as part of B's
//! command: two reads of one track look like a stream, and the drive would read on (P2, sections
//! 3.2 and 3.3). Of two runs on a track only one is read then.
//!
//! Tracks are visited in this order: B's and A's; the others of their cylinders; those of
//! neighboring cylinders outward; those with the next pending addresses after A and B; all that can
//! be reached at all, each time half-way between those visited before. For a track without pending
//! sectors the next one by address is visited instead. A track that could not win even if all its
//! passing sectors were pending is skipped. The search ends after the number of tracks that the
//! caller allows; the best so far is the result.
//!
//! Of two runs on a track the first is read first, and the second is found again while it is in
//! service. If the first ends before another command could reach the drive, only the longer one
//! counts.
//!
//! *Passing sectors.* A track is a circle of sectors of one angle each. A head that arrives at one
//! angle and leaves a while later sees an arc. The sectors that lie wholly on that arc are one run
//! of addresses, or two where the arc passes the end of the track's addresses: the run up to the
//! last address comes first, and the run from the first address on second. Example, 8 sectors that
//! start at 0.0: from 0.70 on for half a revolution, the arc ends at 1.20. Sector 6 starts at 0.75,
//! so 6 and 7 are the first run. At 1.0 sector 0 passes; it ends at 1.125, and sector 1 would end
//! at 1.25. So 0 is the second run.
//!
//! Guarantees: with as many visits as there are tracks it finds the result of a visit to every
//! track. The drive model confirms the best: its own estimate of B after the piece must be in time,
//! or the track is rejected and the search continues with its remaining visits. Unknown slipped
//! sectors displace the sectors of a track, so that its ends may lie on the next one: they are read
//! if there is time to go there too, and otherwise that many sectors are left out. Cost: 0.1–0.3 µs
//! a track.
//!
//! Source: P2, sections 2 and 4.2; docs/limits.md 7.

use core::ops::RangeInclusive;

use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use super::scans::Reading;
use crate::positioning::{Head, Position, Positioning, Target, TrackMap, TrackSpan};
use crate::request::Op;

/// Cylinders visited outward of A and of B each, before tracks in between (guess).
const NEIGHBOURS: u32 = 6;

/// The number of look-ups of the next pending addresses after A and after B (guess: late in a scan
/// they find leftovers nearby).
const JUMPS: u32 = 6;

/// The additional weight of the last third of a track (measured on a simulated Atlas 10K under P2's
/// load: with 3 a scan is slower, with 0 leftovers remain).
const LEFTOVER: u64 = 1;

/// A gap between two requests.
#[derive(Clone, Copy)]
pub(crate) struct Gap<'a> {
    pub(crate) map: &'a dyn TrackMap,
    pub(crate) belief: &'a dyn Positioning,
    pub(crate) scans: Reading<'a>,
    pub(crate) rules: Rules,
    pub(crate) now: Instant,
    /// The head at the start of the gap.
    pub(crate) head: Head,
    /// The time at which it can depart.
    pub(crate) ready: Instant,
    /// The approximate dispatch of the request after the gap.
    pub(crate) next_sent: Instant,
    /// The request after the gap, and the time at which its first sector passes.
    pub(crate) next: &'a Target,
    pub(crate) begin: Instant,
}

/// The rules of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The assumed maximum delay of the arm.
    pub(crate) conservatism: Nanos,
    /// The assumed maximum delay between two commands on one track.
    pub(crate) follow: Nanos,
    /// The maximum number of sectors left out at the ends of a track with displaced sectors.
    /// Without arm movement at most one of them is left out at the ends of the passing sectors.
    pub(crate) edge: u64,
    /// True if several commands on one track are allowed.
    pub(crate) several_per_track: bool,
    /// True if the rest of A's track may be read.
    pub(crate) after: bool,
    /// True if sectors right before B may be read with it.
    pub(crate) merge: bool,
    /// True if a command of its own may be sent.
    pub(crate) alone: bool,
}

/// The extent to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// From the first to the last pending sector; if merged, up to the request's first sector.
    pub(crate) extent: Extent,
    /// True if it is read with the request, as one command.
    pub(crate) merged: bool,
    /// Pending sectors of the track that pass in the gap.
    pub(crate) value: u64,
    /// Its worth; see [`Gap::worth`].
    worth: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SearchCounts {
    /// Tracks visited.
    pub(crate) tracks: u64,
    /// Pieces that the drive model did not confirm.
    pub(crate) rejected: u64,
}

/// Finds the best piece to read in a gap, and counts the visits.
pub(crate) fn search(gap: &Gap<'_>, effort: u32, counts: &mut SearchCounts) -> Option<Piece> {
    let mut search = Search {
        gap,
        revolution: gap.belief.revolution(),
        best: None,
        left: effort,
        counts,
        rejected: None,
    };
    search.run();
    let best = search.best?;
    let confirmed = gap.confirmed(best);
    if confirmed.is_some() {
        return confirmed;
    }
    search.counts.rejected += 1;
    (search.rejected, search.best) = (Some(best.extent.last()), None);
    search.run();
    search.best.and_then(|piece| gap.confirmed(piece))
}

impl Gap<'_> {
    /// The piece, or its part away from the ends of its track if there is no time for displaced
    /// ends, provided that the drive model also predicts the next request in time.
    fn confirmed(&self, piece: Piece) -> Option<Piece> {
        if !self.in_time(&piece) {
            return None;
        }
        let track = self.map.track_of(piece.extent.start);
        let edge = self.rules.edge.min(self.map.displaced(&track));
        if edge == 0 {
            return Some(piece);
        }
        let first = track.extent.start + Sectors::new(edge);
        let after = Lba::new(track.extent.end().get().saturating_sub(edge));
        let padded = self.padded(
            piece.extent,
            first,
            if piece.merged { piece.extent.end() } else { after },
            edge,
        );
        if padded == piece.extent || self.in_time(&Piece { extent: padded, ..piece }) {
            return Some(piece);
        }
        let end = if piece.merged { piece.extent.end() } else { piece.extent.end().min(after) };
        let inner = part(piece.extent, piece.extent.start.max(first), end)?;
        let pending = self.scans.hull_in(inner)?;
        let end = if piece.merged { inner.end() } else { pending.end() };
        let extent = Extent::new(pending.start, end - pending.start);
        Some(Piece { extent, value: self.scans.count_in(extent), ..piece })
    }

    /// The worth of reading `taken` of the `left` pending sectors of a track, in units of 2⁻¹⁶
    /// revolutions.
    ///
    /// A gap is limited by time, and tracks with fewer sectors take as many gaps as others: so
    /// fractions of a revolution count, not sectors. Each gap reaches one track, however little is
    /// left there: so the last third of the pending sectors of a track counts [`LEFTOVER`] times
    /// more, and is read before other tracks are begun.
    fn worth(track: &TrackSpan, left: u64, taken: u64) -> u64 {
        let len = track.extent.len.get();
        let last = |left: u64| left.min(len / 3);
        ((taken + LEFTOVER * (last(left) - last(left.saturating_sub(taken)))) << 16) / len
    }

    /// The extent with its ends extended by the possible displacement, where they lie outside of
    /// `first` to `after`.
    fn padded(&self, extent: Extent, first: Lba, after: Lba, edge: u64) -> Extent {
        let start = if extent.start < first {
            extent.start.get().saturating_sub(edge).max(self.map.addresses().start.get())
        } else {
            extent.start.get()
        };
        let end = if extent.end() > after {
            (extent.end().get() + edge).min(self.map.addresses().end().get())
        } else {
            extent.end().get()
        };
        Extent::from_numbers(start, end - start)
    }

    /// Returns whether the drive model also predicts the next request in time, with some tolerance.
    fn in_time(&self, piece: &Piece) -> bool {
        let revolution = self.belief.revolution();
        let tolerance = revolution / 16;
        let due = self.begin + tolerance;
        if piece.merged {
            let extent =
                Extent::new(piece.extent.start, self.next.extent.end() - piece.extent.start);
            let target = self.belief.target(Op::Read, extent);
            let margin = self.margin(&self.head.place, &self.next.start);
            let late = Head { free_at: self.head.free_at.max(self.now) + margin, ..self.head };
            let likely = self.belief.likely(&late, self.now, &target);
            return likely.depart + likely.positioning + target.transfer
                <= due + self.next.transfer;
        }
        let target = self.belief.target(Op::Read, piece.extent);
        let likely = self.belief.likely(&self.head, self.now, &target);
        let end = likely.depart + likely.positioning + target.transfer;
        let margin = self.margin(&target.end, &self.next.start);
        let after =
            self.belief.likely(&Head::after(&target, end + margin), self.next_sent, self.next);
        after.depart + after.positioning <= due
    }

    /// The latest arrival of the head on a track.
    fn arrival(&self, track: &TrackSpan) -> Instant {
        let from_a = same_track(&track.start, &self.head.place);
        self.ready
            + if from_a {
                self.rules.follow
            } else {
                self.map.arm_time(self.head.place, track.start) + self.rules.conservatism
            }
    }

    /// The arrival on a track, and the time the head can rest there.
    fn rest(&self, track: &TrackSpan) -> Option<(Instant, Nanos)> {
        let to_b = same_track(&track.start, &self.next.start);
        let settle = if self.next.op == Op::Read { Nanos::ZERO } else { self.map.write_extra() };
        let leave = if to_b {
            self.rules.follow
        } else {
            self.map.arm_time(track.start, self.next.start) + self.rules.conservatism
        };
        let leave_by = self.begin.saturating_back(leave + settle);
        // A piece that ends before the next request is at the drive would delay that request.
        let too_late = leave_by < self.next_sent + self.map.read_overhead();
        let arrive = self.arrival(track);
        (!too_late && arrive < leave_by).then(|| (arrive, leave_by.saturating_since(arrive)))
    }

    /// The sectors that pass while the head rests on a track. On the tracks of the two requests
    /// their own addresses are more exact than any angle.
    fn seen(&self, track: &TrackSpan, arrive: Instant, span: Nanos) -> Option<Passing> {
        let revolution = self.belief.revolution();
        let (from_a, to_b) = (
            same_track(&track.start, &self.head.place),
            same_track(&track.start, &self.next.start),
        );
        let arc_edge = if from_a || to_b { self.rules.edge.min(1) } else { 0 };
        let mut seen = passing(track, self.map.angle_at(arrive)?, span, revolution, arc_edge);
        let apart =
            Sectors::new(most(track, self.rules.follow, revolution) + 1 + self.rules.edge.min(1));
        if from_a && track.extent.contains(self.head.next_lba) {
            let from = self.head.next_lba;
            seen.first = seen.first.and_then(|run| {
                if run.end() > from {
                    part(run, run.start.max(from + apart), run.end())
                } else {
                    Some(run)
                }
            });
            seen.second = seen.second.and_then(|run| part(run, run.start, run.end().min(from)));
        }
        if to_b && track.extent.contains(self.next.extent.start) {
            let upto = Lba::new(self.next.extent.start.get().saturating_sub(apart.get()));
            let before = |run: Extent| {
                if run.start < self.next.extent.start {
                    part(run, run.start, run.end().min(upto))
                } else {
                    Some(run)
                }
            };
            (seen.first, seen.second) = (seen.first.and_then(before), seen.second.and_then(before));
        }
        Some(seen)
    }

    /// The assumed delay between two positions.
    fn margin(&self, from: &Position, to: &Position) -> Nanos {
        if same_track(from, to) { self.rules.follow } else { self.rules.conservatism }
    }

    /// The maximum time the head can rest `from_a` cylinders from A's end and `from_b` from B's
    /// start.
    fn rest_at_most(&self, from_a: u32, from_b: u32) -> Nanos {
        let arm = self.map.arm_lower_bound(from_a) + self.map.arm_lower_bound(from_b);
        self.begin.saturating_since(self.ready).saturating_sub(arm)
    }
}

struct Search<'a> {
    gap: &'a Gap<'a>,
    revolution: Nanos,
    best: Option<Piece>,
    /// The remaining visits.
    left: u32,
    counts: &'a mut SearchCounts,
    /// A sector of a rejected track.
    rejected: Option<Lba>,
}

impl Search<'_> {
    fn run(&mut self) {
        let (a, b) = (self.gap.head.place, self.gap.next.start);
        self.visit(b.cylinder, b.head);
        if !same_track(&a, &b) {
            self.visit(a.cylinder, a.head);
        }
        if !self.gap.rules.alone {
            return;
        }
        self.visit_cylinder(b.cylinder, &[a, b]);
        if a.cylinder != b.cylinder {
            self.visit_cylinder(a.cylinder, &[a, b]);
        }
        self.visit_outward(a.cylinder, b.cylinder);
        self.visit_next_pending();
        self.visit_everywhere(a.cylinder, b.cylinder);
    }

    /// Visits the tracks of a cylinder, except those already visited.
    fn visit_cylinder(&mut self, cylinder: u32, but: &[Position]) {
        for head in 0..self.gap.map.heads() {
            if !but.iter().any(|place| (place.cylinder, place.head) == (cylinder, head)) {
                self.visit(cylinder, head);
            }
        }
    }

    fn visit_outward(&mut self, a: u32, b: u32) {
        let cylinders = self.gap.map.cylinders();
        for distance in 1..=NEIGHBOURS {
            for middle in [b, a] {
                for cylinder in [middle.checked_add(distance), middle.checked_sub(distance)]
                    .into_iter()
                    .flatten()
                {
                    if cylinder < cylinders
                        && !self
                            .gap
                            .rest_at_most(cylinder.abs_diff(a), cylinder.abs_diff(b))
                            .is_zero()
                    {
                        // Any of its tracks is as good as another while all sectors are pending.
                        self.visit(
                            cylinder,
                            (distance % u32::from(self.gap.map.heads().max(1))) as u16,
                        );
                    }
                }
            }
        }
    }

    /// Visits the tracks with the next pending sectors, rather than tracks that may hold none.
    fn visit_next_pending(&mut self) {
        for from in [self.gap.next.extent.end(), self.gap.head.next_lba] {
            let mut at = from;
            for _ in 0..JUMPS {
                let Some(run) = self.next_pending(at) else { break };
                let track = self.gap.map.track_of(run.start);
                self.visit_track(&track);
                at = track.extent.end().max(run.end());
            }
        }
    }

    /// Visits every cylinder that can be reached in time, each time half-way between those visited
    /// before; one track of each, then the next track of each.
    fn visit_everywhere(&mut self, a: u32, b: u32) {
        let (near, far) = (a.min(b), a.max(b));
        let beyond = self.reach(far - near);
        let first = near.saturating_sub(beyond);
        let last = far.saturating_add(beyond).min(self.gap.map.cylinders().saturating_sub(1));
        let count = last.saturating_sub(first) + 1;
        let bits = count.next_power_of_two().trailing_zeros();
        let heads = u32::from(self.gap.map.heads());
        for pass in 0..heads {
            for number in 0..1_u64 << bits {
                if self.left == 0 {
                    return;
                }
                let number = number as u32;
                let place = if bits == 0 { 0 } else { number.reverse_bits() >> (32 - bits) };
                if place < count {
                    self.visit_from(first + place, ((pass + number) % heads) as u16, first..=last);
                }
            }
        }
    }

    /// The number of cylinders beyond A and B, which are `apart`, that the head can reach in time.
    fn reach(&self, apart: u32) -> u32 {
        let (mut near, mut far) = (0, self.gap.map.cylinders());
        while near < far {
            let middle = near + (far - near).div_ceil(2);
            if self.gap.rest_at_most(middle, apart + middle).is_zero() {
                far = middle - 1
            } else {
                near = middle
            }
        }
        near
    }

    fn visit(&mut self, cylinder: u32, head: u16) {
        if self.left == 0 {
            return;
        }
        if let Some(track) = self.gap.map.track_at(cylinder, head) {
            self.visit_track(&track);
        }
    }

    /// Visits a track, or the next one by address with pending sectors.
    fn visit_from(&mut self, cylinder: u32, head: u16, within: RangeInclusive<u32>) {
        let Some(track) = self.gap.map.track_at(cylinder, head) else { return };
        let left = self.gap.scans.count_in(track.extent);
        if left > 0 {
            return self.visit_track(&track);
        }
        self.left -= 1;
        self.counts.tracks += 1;
        let Some(run) = self.next_pending(track.extent.end()) else { return };
        let track = self.gap.map.track_of(run.start);
        if within.contains(&track.start.cylinder) {
            self.visit_track(&track);
        }
    }

    /// The next pending sector of the arm.
    fn next_pending(&self, from: Lba) -> Option<Extent> {
        let run = self.gap.scans.next_from(from, Sectors::new(1));
        run.filter(|run| self.gap.map.addresses().contains(run.start))
    }

    /// Visits a track; a track without pending sectors costs nothing.
    fn visit_track(&mut self, track: &TrackSpan) {
        let left = self.gap.scans.count_in(track.extent);
        if self.left == 0 || left == 0 {
            return;
        }
        self.left -= 1;
        self.counts.tracks += 1;
        if self.rejected.is_some_and(|lba| track.extent.contains(lba)) {
            return;
        }
        let Gap { rules, head, next, .. } = self.gap;
        let (from_a, to_b) =
            (same_track(&track.start, &head.place), same_track(&track.start, &next.start));
        if to_b && rules.merge && next.op == Op::Read {
            self.visit_before(track, left, self.gap.arrival(track), from_a);
        }
        let one_command = (from_a || to_b) && !rules.several_per_track;
        if !rules.alone || one_command || (from_a && !rules.after) {
            return;
        }
        let Some((arrive, span)) =
            self.gap.rest(track).filter(|(_, span)| !self.cannot_win(track, left, *span))
        else {
            return;
        };
        if let Some(seen) = self.gap.seen(track, arrive, span) {
            self.consider(track, left, &seen);
        }
    }

    /// Considers the sectors right before the request on its track.
    fn visit_before(&mut self, track: &TrackSpan, left: u64, arrive: Instant, from_a: bool) {
        let Gap { rules, next, begin, .. } = self.gap;
        let span = begin.saturating_since(arrive);
        if !track.extent.contains(next.extent.start) || self.cannot_win(track, left, span) {
            return;
        }
        let upto = next.extent.start - track.extent.start;
        let arc_edge = if from_a { rules.edge.min(1) } else { 0 };
        let Some(seen) = right_before(track, upto.get(), span, self.revolution, arc_edge) else {
            return;
        };
        let value = self.gap.scans.count_in(seen);
        let Some(pending) = self.gap.scans.hull_in(seen) else { return };
        let extent = Extent::new(pending.start, next.extent.start - pending.start);
        self.keep(Piece { extent, merged: true, value, worth: Gap::worth(track, left, value) });
    }

    fn consider(&mut self, track: &TrackSpan, left: u64, seen: &Passing) {
        let worth = |run: Option<Extent>| run.map_or(0, |run| self.gap.scans.count_in(run));
        let (first, second) = (worth(seen.first), worth(seen.second));
        let both = self.gap.rules.several_per_track
            && seen.first.is_some_and(|run| self.outlasts_a_dispatch(track, run));
        let (run, value) = match (seen.first, seen.second) {
            (Some(run), _) if first > 0 && (both || first >= second) => {
                (run, first + if both { second } else { 0 })
            }
            (_, Some(run)) if second > 0 => (run, second),
            _ => return,
        };
        if let Some(extent) = self.gap.scans.hull_in(run) {
            self.keep(Piece {
                extent,
                merged: false,
                value,
                worth: Gap::worth(track, left, value),
            });
        }
    }

    /// Returns whether a run lasts until another command can be at the drive: its predecessor is
    /// reported, and the next is sent.
    fn outlasts_a_dispatch(&self, track: &TrackSpan, run: Extent) -> bool {
        most(track, self.gap.map.read_overhead() * 2, self.revolution) < run.len.get()
    }

    fn cannot_win(&self, track: &TrackSpan, left: u64, span: Nanos) -> bool {
        let most =
            most(track, span, self.revolution).saturating_mul(self.gap.scans.len()).min(left);
        Gap::worth(track, left, most) <= self.best.map_or(0, |best| best.worth)
    }

    fn keep(&mut self, piece: Piece) {
        if self.best.is_none_or(|best| piece.worth > best.worth) {
            self.best = Some(piece);
        }
    }
}

/// The part of a run from `start` to `end`, if not empty.
fn part(run: Extent, start: Lba, end: Lba) -> Option<Extent> {
    (start < end && run.contains(start)).then(|| Extent::new(start, end - start))
}

fn same_track(one: &Position, other: &Position) -> bool {
    (one.cylinder, one.head) == (other.cylinder, other.head)
}

/// One revolution in the units of [`TrackSpan::sector`].
const TURN: u128 = 1 << 64;

/// The runs of a track that pass within an arc, in the order in which they come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) first: Option<Extent>,
    pub(crate) second: Option<Extent>,
}

/// The sectors that pass within `span` when the head arrives at angle `arrival`, without `edge`
/// sectors at either end of the arc; all of them after a revolution.
pub(crate) fn passing(
    track: &TrackSpan,
    arrival: Angle,
    span: Nanos,
    revolution: Nanos,
    edge: u64,
) -> Passing {
    let (sector, sectors) = (u128::from(track.sector.max(1)), u128::from(track.extent.len.get()));
    let edge = u128::from(edge);
    let begin = offset(track, arrival);
    let end = begin + turns(span, revolution);
    // Only whole sectors: the first that starts on the arc, and the last that ends on it.
    let from = begin.div_ceil(sector) + edge;
    let upto = (end / sector).saturating_sub(edge).min(sectors);
    let again = (end.saturating_sub(TURN) / sector)
        .saturating_sub(edge)
        .min(sectors)
        .min(begin.div_ceil(sector));
    let again = if end > TURN { again } else { 0 };
    Passing { first: run(track, from, upto), second: run(track, 0, again) }
}

/// The sectors before sector `upto` of the track that a head sees without a break from its arrival
/// until that sector begins, `span` after it, without `edge` at the beginning of the arc.
pub(crate) fn right_before(
    track: &TrackSpan,
    upto: u64,
    span: Nanos,
    revolution: Nanos,
    edge: u64,
) -> Option<Extent> {
    let seen = turns(span, revolution) / u128::from(track.sector.max(1));
    let from = u128::from(upto).saturating_sub(seen.saturating_sub(u128::from(edge)));
    run(track, from, u128::from(upto))
}

/// The maximum number of sectors of the track that pass within `span`.
pub(crate) fn most(track: &TrackSpan, span: Nanos, revolution: Nanos) -> u64 {
    let seen = turns(span, revolution) / u128::from(track.sector.max(1));
    seen.min(u128::from(track.extent.len.get())) as u64
}

/// The angle from the start of the track's addresses to `angle`.
fn offset(track: &TrackSpan, angle: Angle) -> u128 {
    u128::from(track.start.angle.until(angle).as_raw()) << 32
}

/// The fraction of a revolution within `span`, at most one.
fn turns(span: Nanos, revolution: Nanos) -> u128 {
    let (span, revolution) =
        (u128::from(span.min(revolution).as_ns()), u128::from(revolution.as_ns().max(1)));
    span * TURN / revolution
}

fn run(track: &TrackSpan, from: u128, upto: u128) -> Option<Extent> {
    let start =
        track.extent.start + Sectors::new(from.min(u128::from(track.extent.len.get())) as u64);
    (from < upto).then(|| Extent::new(start, Sectors::new((upto - from) as u64)))
}

#[cfg(test)]
mod tests;
