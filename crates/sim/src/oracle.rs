//! [`OraclePositioning`]: true positions and times, only for policies marked *oracle*.
//!
//! It knows the phase, period, track angles, slips and seek residuals of the simulated drive, so
//! `positioning`, `expected` and `worst` are equal. It knows neither report jitter and outliers,
//! nor the state of the bus, nor the direction of the previous command (it assumes the same
//! direction). With two commands outstanding the overhead is overlapped, and the estimates are
//! exact to a nanosecond.
//!
//! Its tracks are rows of addresses at their true angles, except for slipped sectors between them:
//! the sectors after one come by a sector later.
//!
//! It is right for a drive with one arm and without a cache. It does not model cache hits and
//! read-ahead (hits come earlier, and the head may be a track further), writes of partial physical
//! sectors, spindle drift, and sectors remapped at run time.

use headtime_mechanics::{
    Direction, HeadPosition, InterfaceTimes, Mechanism, ProfileError, Spot, Track, TrackRow,
    Variation as _,
};
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Estimate, Head, Likely, MeasuredAccess, Op, Position,
    Positioning, Target, TrackMap, TrackSpan, likely_by_estimate, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::drive::direction_of;
use crate::truth::{DriveTruth, InstanceVariation};

/// The truth as a drive model.
#[derive(Clone, Debug)]
pub struct OraclePositioning {
    mechanism: Mechanism<InstanceVariation>,
    interface: InterfaceTimes,
    samples: u64,
}

impl OraclePositioning {
    /// The oracle of one simulated drive.
    ///
    /// # Errors
    /// Any error in the truth's profile.
    pub fn new(truth: &DriveTruth) -> Result<Self, ProfileError> {
        let interface = InterfaceTimes::from_profile(truth.profile())?;
        Ok(Self { mechanism: truth.mechanism().clone(), interface, samples: 0 })
    }

    fn overhead(&self, direction: Direction) -> Nanos {
        self.interface.command_overhead(direction, Some(direction))
    }

    /// The earliest time for a write's first sector if its data start over the bus at `burst`; the
    /// origin for operations without data.
    fn data_arrive(&self, target: &Target, burst: Instant) -> Instant {
        if target.op != Op::Write {
            return Instant::ORIGIN;
        }
        let sector_time = self.mechanism.sector_time(target.start.cylinder);
        self.interface.write_media_start(burst, target.extent.len, sector_time)
    }

    fn span(&self, row: TrackRow) -> TrackSpan {
        let angle = row.angle + self.mechanism.variation().track_angle(row.track);
        let start = Position { cylinder: row.track.cylinder, head: row.track.head, angle };
        TrackSpan { extent: row.extent, start, sector: row.sector_turn() }
    }
}

impl Positioning for OraclePositioning {
    fn capacity(&self) -> Sectors {
        self.mechanism.layout().capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let (start, end) = (self.mechanism.spot(extent.start), self.mechanism.end_spot(extent));
        // The access with the head in place; the first wait is subtracted again.
        let access = self.mechanism.access(
            start.position,
            Instant::ORIGIN,
            direction_of(op),
            extent,
            Instant::ORIGIN,
        );
        let wait = self
            .mechanism
            .positioning_to(start.position, Instant::ORIGIN, direction_of(op), &start)
            .total();
        let transfer = access.finish.saturating_since(Instant::ORIGIN).saturating_sub(wait);
        Target { op, extent, start: place_of(start), end: place_of(end), transfer }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let direction = direction_of(target.op);
        let ready = dispatch + self.overhead(direction);
        let depart = ready.max(head.free_at);
        let from = HeadPosition { cylinder: head.place.cylinder, head: head.place.head };
        let to = HeadPosition { cylinder: target.start.cylinder, head: target.start.head };
        let settled = depart + self.mechanism.arm_time(from, to, direction);
        let set_out = settled.max(self.data_arrive(target, ready));
        let wait = self
            .mechanism
            .period()
            .time_of(self.mechanism.angle_at(set_out).until(target.start.angle));
        let positioning = (set_out + wait).saturating_since(depart);
        if self.mechanism.zero_latency(direction) {
            // If the head arrives within the extent, the whole access is known, and its split into
            // positioning and transfer is a convention.
            let access = self.mechanism.access(
                from,
                depart,
                direction,
                target.extent,
                self.data_arrive(target, ready),
            );
            let total = access.finish.saturating_since(depart);
            let positioning = total
                .saturating_sub(target.transfer)
                .max(settled.saturating_since(depart))
                .min(total);
            return Estimate {
                depart,
                positioning,
                expected: positioning,
                worst: positioning,
                transfer: total - positioning,
            };
        }
        Estimate {
            depart,
            positioning,
            expected: positioning,
            worst: positioning,
            transfer: target.transfer,
        }
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.mechanism.arm_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.mechanism.period().as_nanos()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.interface.media_end(direction_of(target.op), target.extent.len, finished)
    }

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        Some(self)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    headtime_sched::costs_by_estimate!();

    headtime_sched::without_cache!();
}

impl TrackMap for OraclePositioning {
    fn addresses(&self) -> Extent {
        Extent::new(Lba::new(0), self.capacity())
    }

    fn cylinders(&self) -> u32 {
        self.mechanism.layout().cylinders()
    }

    fn heads(&self) -> u16 {
        self.mechanism.layout().heads()
    }

    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan> {
        self.mechanism.layout().row_at(Track { cylinder, head }).map(|row| self.span(row))
    }

    fn track_of(&self, lba: Lba) -> TrackSpan {
        self.span(self.mechanism.layout().row_of(lba))
    }

    fn arm_time(&self, from: Position, to: Position) -> Nanos {
        let position =
            |place: Position| HeadPosition { cylinder: place.cylinder, head: place.head };
        self.mechanism.arm_time(position(from), position(to), Direction::Read)
    }

    fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        self.seek_lower_bound(cylinders)
    }

    fn write_extra(&self) -> Nanos {
        self.mechanism.write_settle()
    }

    fn angle_at(&self, at: Instant) -> Option<Angle> {
        Some(self.mechanism.angle_at(at))
    }

    fn time_of(&self, angle: Angle) -> Nanos {
        self.mechanism.period().time_of(angle)
    }

    /// Zero: arrivals are known.
    fn spread(&self) -> Nanos {
        Nanos::ZERO
    }

    fn read_overhead(&self) -> Nanos {
        self.overhead(Direction::Read)
    }

    fn displaced(&self, _track: &TrackSpan) -> u64 {
        0
    }

    fn may_destage(&self) -> bool {
        false
    }
}

impl Belief for OraclePositioning {
    fn learn(&mut self, _measured: &MeasuredAccess) -> AccessKind {
        self.samples += 1;
        AccessKind::Media
    }

    fn report(&self) -> BeliefReport {
        BeliefReport {
            samples: self.samples,
            period_ns: Some(self.mechanism.period().as_ns_f64()),
            ..BeliefReport::default()
        }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

fn place_of(spot: Spot) -> Position {
    Position { cylinder: spot.position.cylinder, head: spot.position.head, angle: spot.angle }
}
