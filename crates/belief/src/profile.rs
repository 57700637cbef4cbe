//! A belief from a drive's profile: the nominal mechanics, with period, phase and arrival fitted to
//! what the drive does.
//!
//! A [`DriveProfile`] says where every sector is, how long the arm takes and how fast the platter
//! should turn. It does not say where the platter is now, how fast this unit really turns, where
//! its defects moved its sectors, or how late its head arrives. Those are fitted from measured
//! completions: period and phase by the spindle filter, angles by region, lateness and its spread
//! by the turns missed and caught, the same by where the arm goes, places that cost more than they
//! should, and sectors that lie elsewhere.
//!
//! Worked example, 20 TB 7,200 rpm: the head is free at t = 0 on cylinder 1,000; a request waits on
//! cylinder 51,000 at angle 0.25. The arm takes 4.7 ms, so the head arrives at the believed angle
//! of t = 4.7 ms, say 0.20, and waits 0.05 turns = 417 us: positioning 5.1 ms. With a spread of 100
//! us the chance of missing is Φ(−4.17) ≈ 0: expected equals most likely. At angle 0.205 the wait
//! would be 42 us, the chance of missing 0.34, and the expected cost 2.8 ms more.
//!
//! Guarantees: before the first completion estimates count half a revolution, never a guessed
//! angle. Does not learn the angle of single tracks of a large drive: that stays as spread. Assumes
//! that a command has the bus for itself: where a large write's data cross it while a read's
//! should, the read looks late by up to a millisecond. Cost: an estimate is a seek look-up, three
//! look-ups of what was learned of the arm, two multiplications, and near the edge two error
//! functions. What is learned from a completion, and from which not, stands in `learning.rs`; the
//! tracks in `tracks.rs`. Source: P2 sections 3.2 and 3.3; docs/limits.md 4.

use std::sync::Arc;

use headtime_mechanics::{
    Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism, ProfileError, Spot,
};
use headtime_sched::{
    Certainty, Estimate, Head, Likely, Op, Overhead, PairCost, Position, Positioning, Target,
    TrackMap, pairs_one_by_one, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, RotationPeriod, Sectors};

use crate::angles::AngleMap;
use crate::arrival::Arrival;
use crate::hits::Hits;
use crate::learning::Errors;
use crate::moved::{Moved, NOWHERE, Whereabouts};
use crate::remaps::Remaps;
use crate::seeks::{Movement, SeekResiduals};
use crate::spindle::Spindle;

/// What is believed of one unit of a known model.
#[derive(Clone, Debug)]
pub struct ProfileBelief {
    pub(crate) mechanism: Mechanism,
    pub(crate) interface: InterfaceTimes,
    nominal: RotationPeriod,
    pub(crate) revolution: Nanos,
    pub(crate) spindle: Spindle,
    /// Whether the spindle filter has seen the platter at all.
    pub(crate) phase_known: bool,
    /// Until when the angle is known better than the arrival spreads.
    pub(crate) sharp_until: Instant,
    pub(crate) arrival: Arrival,
    pub(crate) seeks: SeekResiduals,
    pub(crate) angles: AngleMap,
    pub(crate) remaps: Remaps,
    pub(crate) moved: Moved,
    pub(crate) hits: Hits,
    pub(crate) errors: Errors,
    /// By how many nanoseconds each completion was later than predicted, where that is recorded.
    pub(crate) recorded_errors: Option<Vec<i64>>,
}

impl ProfileBelief {
    /// What the profile says, nothing learned yet.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let mechanism = Mechanism::nominal(profile)?;
        let period = mechanism.period();
        Ok(Self {
            interface: InterfaceTimes::from_profile(profile)?,
            nominal: period,
            revolution: period.as_nanos(),
            spindle: Spindle::new(period),
            phase_known: false,
            sharp_until: Instant::ORIGIN,
            arrival: Arrival::new(),
            seeks: SeekResiduals::new(mechanism.layout().cylinders()),
            angles: AngleMap::new(mechanism.layout().capacity()),
            remaps: Remaps::default(),
            moved: Moved::of_layout(mechanism.layout()),
            hits: Hits::of(profile),
            errors: Errors::default(),
            recorded_errors: None,
            mechanism,
        })
    }

    /// Records the error of each prediction from now on.
    #[must_use]
    pub fn recording_errors(self) -> Self {
        Self { recorded_errors: Some(Vec::new()), ..self }
    }

    /// The nanoseconds by which completions were later than predicted, in their order: the media
    /// end of the report less the media end that was estimated from the end of the command before.
    /// Empty without [`ProfileBelief::recording_errors`].
    #[must_use]
    pub fn recorded_errors(&self) -> &[i64] {
        self.recorded_errors.as_deref().unwrap_or_default()
    }

    /// Forgets what was learned of the unit.
    pub(crate) fn forget(&mut self) {
        let (capacity, cylinders) = (self.capacity(), self.mechanism.layout().cylinders());
        self.mechanism.set_rotation(self.nominal, Angle::ZERO);
        self.revolution = self.nominal.as_nanos();
        self.spindle = Spindle::new(self.nominal);
        (self.phase_known, self.sharp_until) = (false, Instant::ORIGIN);
        self.arrival = Arrival::new();
        self.seeks = SeekResiduals::new(cylinders);
        self.angles = AngleMap::new(capacity);
        self.remaps = Remaps::default();
        self.moved = Moved::of_layout(self.mechanism.layout());
        self.errors = Errors::default();
    }

    /// The layout that places are computed with.
    #[must_use]
    pub fn layout(&self) -> &Arc<headtime_mechanics::Layout> {
        self.mechanism.layout()
    }

    /// When the drive can turn to the command, and when a write's data are there.
    pub(crate) fn ready(&self, dispatch: Instant, target: &Target) -> (Instant, Instant) {
        let direction = direction(target.op);
        let started = dispatch + self.interface.command_overhead(direction, None);
        if target.op != Op::Write {
            return (started, Instant::ORIGIN);
        }
        let len = target.extent.len;
        (started, self.interface.write_media_start(started, len, per_sector(target)))
    }

    /// The most likely time of the arm, and whether it moves or heads are switched at all.
    #[inline]
    pub(crate) fn arm(
        &self,
        from: HeadPosition,
        to: HeadPosition,
        direction: Direction,
    ) -> (Nanos, bool) {
        arm_time(&self.mechanism, &self.arrival, &self.seeks, from, to, direction)
    }

    /// Departure, arrival and the wait that follows.
    #[inline]
    pub(crate) fn way(&self, head: &Head, dispatch: Instant, target: &Target) -> Way {
        self.way_under(head, dispatch, target, |arrival| self.mechanism.angle_at(arrival))
    }

    /// The same, with `under` saying which angle is under the head at its arrival.
    #[inline]
    fn way_under(
        &self,
        head: &Head,
        dispatch: Instant,
        target: &Target,
        under: impl Fn(Instant) -> Angle,
    ) -> Way {
        let (started, data_there) = self.ready(dispatch, target);
        let depart = started.max(head.free_at);
        let from = HeadPosition { cylinder: head.place.cylinder, head: head.place.head };
        let to = HeadPosition { cylinder: target.start.cylinder, head: target.start.head };
        let (arm, moves) = self.arm(from, to, direction(target.op));
        let arrival = (depart + arm).max(data_there);
        let by_arm = moves && arrival > data_there;
        // The sector right behind the last one comes right behind it: whatever is unknown about the
        // angle is the same for both.
        if !moves && target.extent.start == head.next_lba && arrival == head.free_at {
            return Way {
                depart,
                arrival,
                wait: Nanos::ZERO,
                moves,
                by_arm,
                known: self.phase_known,
            };
        }
        let wait = self.mechanism.period().time_of(under(arrival).until(target.start.angle));
        Way {
            depart,
            arrival,
            wait,
            moves,
            by_arm,
            known: self.phase_known && target.start.head != NOWHERE,
        }
    }

    /// Positioning time from departure on: most likely, expected and at worst.
    #[inline]
    fn priced(&self, way: &Way) -> [Nanos; 3] {
        let before_wait = way.arrival.saturating_since(way.depart);
        if !way.known {
            let half = before_wait + self.revolution / 2;
            return [half, half, before_wait + self.revolution];
        }
        let spread = self.spread_at(way.arrival);
        let positioning = before_wait + way.wait;
        // Without a movement of the arm nothing arrives late, and nothing is missed or caught by
        // surprise.
        let slip =
            if way.moves { Arrival::expected_slip(way.wait, self.revolution, spread) } else { 0.0 };
        let slip_ns = slip * self.revolution.as_ns() as f64;
        let expected = Nanos::from_ns(positioning.as_ns().saturating_add_signed(slip_ns as i64));
        // One revolution more than arriving exactly on time can cost, and the tail of the arrival.
        [positioning, expected.max(before_wait), before_wait + self.revolution + spread * 4]
    }

    /// The same for a target whose sectors lie elsewhere, on one of several cylinders: expected on
    /// average over them, at worst on the furthest.
    fn priced_elsewhere(
        &self,
        way: &Way,
        head: &Head,
        target: &Target,
        way_to: impl Fn(&Target) -> Way,
    ) -> [Nanos; 3] {
        let [positioning, expected, worst] = self.priced(way);
        if !way.moves {
            return [positioning, expected, worst];
        }
        let at = |cylinder: u32| Target { start: Position { cylinder, ..target.start }, ..*target };
        let whereabouts = self.moved.arm_of(target.extent.start);
        let (first, last) = whereabouts
            .map_or((0, self.mechanism.layout().cylinders().saturating_sub(1)), Whereabouts::span);
        let furthest = if head.place.cylinder.abs_diff(first) > head.place.cylinder.abs_diff(last) {
            first
        } else {
            last
        };
        let longest = way_to(&at(furthest)).arrival.saturating_since(way.depart)
            + self.revolution
            + self.spread_at(way.arrival) * 4;
        let average = whereabouts
            .filter(|whereabouts| whereabouts.cylinder() == target.start.cylinder)
            .map_or(expected, |whereabouts| {
                let likely = whereabouts.likely();
                likely
                    .into_iter()
                    .fold(Nanos::ZERO, |sum, cylinder| sum + self.priced(&way_to(&at(cylinder)))[1])
                    / likely.len() as u64
            });
        [positioning, average.max(way.arrival.saturating_since(way.depart)), worst.max(longest)]
    }

    /// How long after its media end an access is reported.
    fn reported_after(&self, target: &Target) -> Nanos {
        let overhead = self.interface.media_overhead(direction(target.op), target.extent.len);
        if target.op != Op::Read {
            return overhead;
        }
        // On a bus slower than the media the burst starts with the first sector and outlasts the
        // media.
        let but_the_first = target.transfer.saturating_sub(per_sector(target));
        let late = self
            .interface
            .bus_time(target.extent.len)
            .saturating_sub(self.interface.bus_time(Sectors::new(1)) + but_the_first);
        overhead + late
    }

    /// The spread of the arrival at `at`, wider where the angle itself is in reject.
    pub(crate) fn spread_at(&self, at: Instant) -> Nanos {
        let arrival = self.arrival.spread();
        if at <= self.sharp_until {
            return arrival;
        }
        let angle_ns = self.spindle.deviation_turns(at) * self.revolution.as_ns() as f64;
        let both = libm::hypot(arrival.as_ns() as f64, angle_ns);
        Nanos::from_ns(both as u64).min(self.revolution / 3)
    }
}

/// The most likely way to a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) depart: Instant,
    pub(crate) arrival: Instant,
    pub(crate) wait: Nanos,
    /// Whether the arm moves or a head is switched.
    pub(crate) moves: bool,
    /// Whether the arm moves, and nothing else holds the access up.
    pub(crate) by_arm: bool,
    /// Whether the wait is: of a platter that was never seen, and of sectors that nobody knows
    /// where to look for, it is not.
    pub(crate) known: bool,
}

impl Positioning for ProfileBelief {
    fn capacity(&self) -> Sectors {
        self.mechanism.layout().capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let start = self.mechanism.spot(extent.start);
        // From the start of its first sector an access seeks and waits only between tracks, and
        // that is part of the transfer.
        let access = self.mechanism.access(
            start.position,
            Instant::ORIGIN,
            direction(op),
            extent,
            Instant::ORIGIN,
        );
        let wait = self
            .mechanism
            .positioning_to(start.position, Instant::ORIGIN, direction(op), &start)
            .rotate;
        let transfer = access.finish.saturating_since(Instant::ORIGIN + wait);
        let mut target = Target {
            op,
            extent,
            start: place(start),
            end: place(self.mechanism.end_spot(extent)),
            transfer,
        };
        target.start.angle += self.angles.offset(extent.start);
        target.end.angle += self.angles.offset(extent.last());
        let mut target = self.moved.corrected(target, self.mechanism.period(), |from, to| {
            self.mechanism.arm_time(position(from), position(to), direction(op))
        });
        if !Moved::holds(target.start) && !Moved::holds(target.end) {
            target.transfer += self.remaps.lost(extent);
        }
        target
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let way = self.way(head, dispatch, target);
        let [positioning, expected, worst] = if Moved::holds(target.start) {
            self.priced_elsewhere(&way, head, target, |target| self.way(head, dispatch, target))
        } else {
            self.priced(&way)
        };
        Estimate { depart: way.depart, positioning, expected, worst, transfer: target.transfer }
    }

    /// From the end of the one the platter turns on from the angle that ends it, whenever that is.
    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        let head = Head::after(from, near);
        let dispatch = match overhead {
            Overhead::Overlapped => Instant::ORIGIN,
            Overhead::Exposed => near + self.reported_after(from),
        };
        let period = self.mechanism.period();
        let way_to = |to: &Target| {
            self.way_under(&head, dispatch, to, |arrival| {
                from.end.angle + period.angle_of(arrival.saturating_since(near))
            })
        };
        let way = way_to(to);
        let [_, expected, worst] = if Moved::holds(to.start) {
            self.priced_elsewhere(&way, &head, to, way_to)
        } else {
            self.priced(&way)
        };
        let lost = way.depart.saturating_since(near) + to.transfer;
        PairCost { expected: lost + expected, worst: lost + worst, known: Certainty::Known }
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let way = self.way(head, dispatch, target);
        let wait = if way.known { way.wait } else { self.revolution / 2 };
        Likely { depart: way.depart, positioning: way.arrival.saturating_since(way.depart) + wait }
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        let learned_ns = (self.arrival.bias_ns() + self.seeks.lowest_ns()).min(0.0);
        // One nanosecond for the rounding of a sum of several parts.
        Nanos::from_ns(
            self.mechanism
                .arm_lower_bound(cylinders)
                .as_ns()
                .saturating_add_signed(learned_ns as i64 - 1),
        )
    }

    fn revolution(&self) -> Nanos {
        self.revolution
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        finished.saturating_back(self.reported_after(target))
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.hits.takes(op)
    }

    fn reads_on(&self, from: Lba) -> Sectors {
        self.hits.reads_on_from(from)
    }

    fn tracks(&self) -> Option<&dyn TrackMap> {
        Some(self)
    }

    fn known(&self, _head: &Head, _dispatch: Instant, _target: &Target) -> Certainty {
        Certainty::Known
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        near: Instant,
        overhead: Overhead,
        each: &mut dyn FnMut(PairCost, PairCost),
    ) {
        pairs_one_by_one(self, hub, others, near, overhead, each);
    }

    fn arms(&self) -> usize {
        1
    }
}

/// Which way the bytes go.
pub(crate) fn direction(op: Op) -> Direction {
    if op == Op::Read { Direction::Read } else { Direction::Write }
}

/// The most likely time of the arm, and whether it moves or heads are switched at all.
#[inline]
pub(crate) fn arm_time(
    mechanism: &Mechanism,
    arrival: &Arrival,
    seeks: &SeekResiduals,
    from: HeadPosition,
    to: HeadPosition,
    direction: Direction,
) -> (Nanos, bool) {
    let nominal = mechanism.arm_time(from, to, direction);
    if nominal.is_zero() {
        // Where the arm does not move there is nothing to arrive late: only the angle is in
        // question.
        return (nominal, false);
    }
    let movement = Movement {
        from_cylinder: from.cylinder,
        to_cylinder: to.cylinder,
        writes: direction == Direction::Write,
    };
    let learned_ns = arrival.bias_ns() + seeks.offset_ns(movement);
    (Nanos::from_ns(nominal.as_ns().saturating_add_signed(learned_ns as i64)), true)
}

/// The track of a place.
pub(crate) fn position(place: Position) -> HeadPosition {
    HeadPosition { cylinder: place.cylinder, head: place.head }
}

fn place(spot: Spot) -> Position {
    Position { cylinder: spot.position.cylinder, head: spot.position.head, angle: spot.angle }
}

/// Media time of one of the target's sectors, on average over its tracks.
pub(crate) fn per_sector(target: &Target) -> Nanos {
    target.transfer / target.extent.len.get().max(1)
}
