//! [`OraclePositioning`]: places and times as they truly are, for policies that are marked *oracle*
//! and for nobody else.
//!
//! It knows the unit's phase, period, track angles, slips and seek residuals, so that
//! `positioning`, `expected` and `worst` are one number. What it does not know is chance: report
//! jitter and outliers; and what the scheduler does not tell it: whether the bus is busy, and which
//! way the command before went (the command overhead taken is that of two commands of the same kind
//! in a row). With two commands outstanding overhead hides, and the estimates are exact to a
//! nanosecond.
//!
//! Its tracks are rows of addresses at their true angles, but for slipped sectors between them:
//! what lies behind one on its track comes by a sector later.
//!
//! It is right for a drive with one arm and without a cache. It knows nothing of what a cache holds
//! or reads ahead (hits come earlier than it says, and the head may be a track further), of writes
//! of parts of physical sectors, of a spindle's drift since the beginning, nor of sectors that are
//! remapped later.

use headtime_mechanics::{
    Direction, HeadPosition, InterfaceTimes, Mechanism, ProfileError, Spot, Track, TrackRow,
    Variation as _,
};
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Position, Positioning, Target, TrackMap, TrackSpan, likely_by_estimate,
    pair_by_estimate, pairs_one_by_one, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::truth::{DriveTruth, InstanceVariation};

/// The truth as a belief.
#[derive(Clone, Debug)]
pub struct OraclePositioning {
    mechanism: Mechanism<InstanceVariation>,
    interface: InterfaceTimes,
    samples: u64,
}

impl OraclePositioning {
    /// The oracle of one unit.
    ///
    /// # Errors
    /// Whatever is wrong with the truth's profile.
    pub fn new(truth: &DriveTruth) -> Result<Self, ProfileError> {
        let interface = InterfaceTimes::from_profile(truth.profile())?;
        Ok(Self { mechanism: truth.mechanism().clone(), interface, samples: 0 })
    }

    fn overhead(&self, direction: Direction) -> Nanos {
        self.interface.command_overhead(direction, Some(direction))
    }

    /// When a write's first sector may pass if its data start over the bus at `burst`; the origin
    /// for what brings no data.
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
        // The access as it runs once the head is there: the first wait is taken off again.
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
            // Where the head arrives within the extent the whole access is known, and what of it is
            // positioning is a matter of counting.
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

    fn tracks(&self) -> Option<&dyn TrackMap> {
        Some(self)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    fn known(&self, _head: &Head, _dispatch: Instant, _target: &Target) -> Certainty {
        Certainty::Known
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        pair_by_estimate(self, from, to, near, overhead)
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

    fn takes_into_cache(&self, _op: Op) -> bool {
        false
    }

    fn reads_on(&self, _from: Lba) -> Sectors {
        Sectors::ZERO
    }

    fn arms(&self) -> usize {
        1
    }
}

impl TrackMap for OraclePositioning {
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

    fn write_extra(&self) -> Nanos {
        self.mechanism.write_settle()
    }

    fn angle_at(&self, at: Instant) -> Option<Angle> {
        Some(self.mechanism.angle_at(at))
    }

    fn time_of(&self, angle: Angle) -> Nanos {
        self.mechanism.period().time_of(angle)
    }

    /// None: arrivals are known.
    fn spread(&self) -> Nanos {
        Nanos::ZERO
    }

    fn read_overhead(&self) -> Nanos {
        self.overhead(Direction::Read)
    }

    fn displaced(&self, _track: &TrackSpan) -> u64 {
        0
    }

    fn may_stray(&self) -> bool {
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

fn direction_of(op: Op) -> Direction {
    match op {
        Op::Read | Op::Flush | Op::Discard => Direction::Read,
        Op::Write | Op::Zero => Direction::Write,
    }
}

fn place_of(spot: Spot) -> Position {
    Position { cylinder: spot.position.cylinder, head: spot.position.head, angle: spot.angle }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::draw;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    proptest! {
        /// On any drive, from any track at any time: what the oracle says is what the mechanism
        /// does, for any length.
        #[test]
        fn the_oracle_predicts_every_access_to_the_nanosecond(seed in any::<u64>()) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let profile = draw::random_profile(&mut rng);
            let truth = DriveTruth::draw(&profile, seed).unwrap();
            let oracle = OraclePositioning::new(&truth).unwrap();
            let capacity = oracle.capacity().get();
            let mut head = Head::UNKNOWN;
            for step in 0..20_u64 {
                let start = rng.random_range(0..capacity);
                let extent = Extent::from_numbers(start, rng.random_range(1..=(capacity - start).min(40)));
                let op = [Op::Read, Op::Zero][rng.random_range(0..2)];
                let target = oracle.target(op, extent);
                let dispatch = Instant::from_ns(step * 3_000_000);
                let estimate = oracle.estimate(&head, dispatch, &target);
                let from = HeadPosition { cylinder: head.place.cylinder, head: head.place.head };
                let access = truth.mechanism().access(from, estimate.depart, direction_of(op), extent, Instant::ORIGIN);
                let difference = estimate.finish().signed_since(access.finish);
                // One nanosecond of rounding for each track the extent lies on.
                prop_assert!(difference.abs() <= 45, "seed {}: {} {} predicted {} ns off", seed, op.name(), extent, difference);
                let distance = from.cylinder.abs_diff(target.start.cylinder);
                prop_assert!(oracle.seek_lower_bound(distance) <= estimate.positioning);
                head = Head::after(&target, estimate.finish());
            }
        }
    }

    #[test]
    fn the_sectors_that_a_track_tells_are_those_that_pass_there_in_truth() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut profile = draw::random_profile(&mut rng);
            // A row tells the homes of its sectors, remapped ones with the others.
            profile.zones.iter_mut().for_each(|zone| zone.remaps.clear());
            let truth = DriveTruth::draw(&profile, seed).unwrap();
            let oracle = OraclePositioning::new(&truth).unwrap();
            let mut seen = 0;
            for (cylinder, head) in (0..oracle.cylinders())
                .flat_map(|cylinder| (0..oracle.heads()).map(move |head| (cylinder, head)))
            {
                let Some(span) = oracle.track_at(cylinder, head) else { continue };
                let first = truth.mechanism().layout().lba_to_physical(span.extent.start);
                for index in 0..span.extent.len.get() {
                    let lba = Lba::new(span.extent.start.get() + index);
                    let spot = truth.mechanism().spot(lba);
                    assert_eq!(
                        (spot.position.cylinder, spot.position.head),
                        (cylinder, head),
                        "drawn drive {seed}: {lba}"
                    );
                    let places = u64::from(
                        truth.mechanism().layout().lba_to_physical(lba).sector - first.sector,
                    );
                    let turn = (u64::from(span.start.angle.as_raw()) << 32)
                        .wrapping_add(span.sector.wrapping_mul(places));
                    let off = Angle::from_raw((turn >> 32) as u32).signed_turns_from(spot.angle);
                    assert!(
                        off.abs() < 4.0 / 4_294_967_296.0,
                        "drawn drive {seed}: {lba} told {off} turns off"
                    );
                    assert!(oracle.track_of(lba).extent.contains(lba), "drawn drive {seed}: {lba}");
                    seen += 1;
                }
            }
            assert!(seen > 0, "drawn drive {seed} tells no sector");
        }
    }
}
