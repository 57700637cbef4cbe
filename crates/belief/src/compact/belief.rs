//! [`CompactBelief`]: what a scheduler believes that has a compact map.
//!
//! The map says where sectors lie around the platter and how long the arm takes; which angle is
//! under the head at the moment is followed from completion to completion by the same filter as
//! that of a profile's belief. From both follow departure, arrival, and how long the platter turns
//! until the sector comes by.
//!
//! *What is learned from a completion*: when its last sector passed (a *sight*: angles, by a search
//! from time to time, and by region at once), how long the arm took at most and at least, and how
//! late it was against the prediction. From a hit in the drive's cache nothing. Where three of four
//! angles are wrong for a while, the drive is another or has been changed: angles count as unknown,
//! what was seen before is forgotten, and the search begins again with what is seen from then on.
//!
//! Guarantees: before an angle is known, estimates count half a revolution. `worst` is never below
//! `expected`. Cost: an estimate is two or three look-ups and a division; what a completion costs
//! stands with the searches (`refit.rs`; `grow.rs` and `budget.rs`). Source: P1 (the question),
//! ours (the answer).

use headtime_mechanics::DriveProfile;
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Position, Positioning, Target, TrackMap, likely_by_estimate,
    pairs_one_by_one,
};
use headtime_units::{Angle, ByteSize, Extent, Instant, Lba, Nanos, RotationPeriod, Sectors};

use super::map::{Arm, CompactError, CompactMap, CompactSettings, PairTime, share};
use super::places::{BANDS, Places, is_unknown};
use super::recheck::Recheck;
use super::searching::{FIRST_SEARCH, FIRST_SURVEY, Work};
use super::sights::{Sight, Sights};
use crate::matrix::MappedDrive;
use crate::moved::Reading;
use crate::profile::direction;
use crate::seeks::Movement;
use crate::spindle::Spindle;

/// What is learned from completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learning {
    /// Everything.
    #[default]
    All,
    /// Where the platter is, and nothing of the drive: to judge what the map knew before.
    Phase,
}

/// A belief that has a compact map.
#[derive(Clone, Debug)]
pub struct CompactBelief {
    pub(super) map: CompactMap,
    pub(super) learning: Learning,
    pub(super) spindle: Spindle,
    pub(super) sights: Sights,
    pub(super) work: Work,
    /// After how many sights angles are searched for next.
    pub(super) next_search: u64,
    /// The share of angles that were as believed, lately.
    pub(super) agreement: f64,
    pub(super) judged: u64,
    /// Whether angles were as believed at some time since they were last searched for.
    pub(super) proven: bool,
    /// Of strips, whether what is seen since speaks for them.
    pub(super) recheck: Recheck,
    /// Operations of a search with the newest completion.
    pub(super) searched: u64,
    samples: u64,
    cache_hits: u64,
    squared_us: f64,
    missed: f64,
}

/// Departure, arrival, and the wait behind it; no wait where an angle is not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) depart: Instant,
    arm: Nanos,
    pub(super) arrival: Instant,
    pub(super) wait: Option<Nanos>,
    pub(super) moves: bool,
}

impl CompactBelief {
    /// A belief with `map`, of a drive that was not seen since the map was made.
    #[must_use]
    pub fn new(map: CompactMap) -> Self {
        Self {
            spindle: Spindle::new(map.period),
            sights: Sights::new(map.max_sights()),
            learning: Learning::All,
            work: Work::None,
            next_search: if map.is_of_profile() { FIRST_SEARCH } else { FIRST_SURVEY },
            agreement: 1.0,
            judged: 0,
            proven: false,
            recheck: match &map.places {
                Places::Strips(strips) => Recheck::begin(strips),
                Places::Profile(_) => Recheck::default(),
            },
            searched: 0,
            samples: 0,
            cache_hits: 0,
            squared_us: 0.0,
            missed: 0.0,
            map,
        }
    }

    /// A belief that starts from a profile.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn of_profile(
        profile: &DriveProfile,
        settings: CompactSettings,
    ) -> Result<Self, CompactError> {
        Ok(Self::new(CompactMap::of_profile(profile, settings)?))
    }

    /// A belief that starts from nothing but the drive's size and nominal speed.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn unknown(
        drive: MappedDrive,
        period: RotationPeriod,
        settings: CompactSettings,
    ) -> Result<Self, CompactError> {
        Ok(Self::new(CompactMap::unknown(drive, period, settings)?))
    }

    /// The map, to be looked at or saved.
    #[must_use]
    pub fn map(&self) -> &CompactMap {
        &self.map
    }

    /// What map, sights and a search at work take of memory at the moment; the layout of a profile
    /// left out, which is the profile's.
    #[must_use]
    pub fn memory(&self) -> ByteSize {
        ByteSize::new(
            self.map.memory().get()
                + self.sights.memory()
                + self.recheck.memory()
                + self.work.memory(),
        )
    }

    /// How many operations of a search the newest completion took, one complex multiplication each:
    /// never more than [`CompactBelief::MAX_SEARCHED`].
    #[must_use]
    pub fn searched(&self) -> u64 {
        self.searched
    }

    /// The most operations of a search that one completion takes.
    pub const MAX_SEARCHED: u64 = super::budget::MOST;

    /// Chooses what is learned from now on.
    pub fn set_learning(&mut self, learning: Learning) {
        self.learning = learning;
    }

    /// Whether angles are believed at the moment.
    pub(super) fn trusted(&self) -> bool {
        self.judged < MIN_JUDGED || self.agreement > MISTRUSTED
    }

    fn place(&self, of: Position, lba: Lba) -> Position {
        Position { angle: of.angle + self.map.angles.offset(lba), ..of }
    }

    /// When the drive can turn to the command, and when a write's data are there.
    fn ready(&self, dispatch: Instant, target: &Target) -> (Instant, Instant) {
        let Places::Profile(of) = &self.map.places else { return (dispatch, Instant::ORIGIN) };
        let started = dispatch + of.interface.command_overhead(direction(target.op), None);
        if target.op != Op::Write {
            return (started, Instant::ORIGIN);
        }
        let sectors = target.extent.len;
        (
            started,
            of.interface.write_media_start(
                started,
                sectors,
                target.transfer / sectors.get().max(1),
            ),
        )
    }

    fn way(&self, head: &Head, dispatch: Instant, target: &Target) -> Way {
        let phase = self.spindle.phase();
        self.way_under(head, dispatch, target, |arrival| {
            phase.map(|phase| self.spindle.period().angle_at(arrival, phase))
        })
    }

    /// The same, with `under` saying which angle is under the head at its arrival, where that is
    /// known.
    fn way_under(
        &self,
        head: &Head,
        dispatch: Instant,
        target: &Target,
        under: impl Fn(Instant) -> Option<Angle>,
    ) -> Way {
        let (started, data_there) = self.ready(dispatch, target);
        let depart = started.max(head.free_at);
        let (arm, moves) = self.map.arm_time(head.place, target.start, target.op == Op::Write);
        let arrival = (depart + arm).max(data_there);
        let stays = !moves
            || (!self.map.is_of_profile()
                && head.place.cylinder.abs_diff(target.start.cylinder) <= 1);
        if target.extent.start == head.next_lba && dispatch <= head.free_at && stays {
            // The sector right behind the last one comes right behind it.
            return Way {
                depart,
                arm: Nanos::ZERO,
                arrival: depart,
                wait: Some(Nanos::ZERO),
                moves: false,
            };
        }
        let known = !is_unknown(target.start) && self.trusted();
        let angle = if known { under(arrival) } else { None };
        let wait =
            angle.map(|angle| self.spindle.period().time_of(angle.until(target.start.angle)));
        Way { depart, arm, arrival, wait, moves }
    }

    /// How long after its media end an access is reported.
    fn reported_after(&self, target: &Target) -> Nanos {
        match &self.map.places {
            Places::Profile(of) => {
                of.interface.media_overhead(direction(target.op), target.extent.len)
            }
            Places::Strips(_) => Nanos::ZERO,
        }
    }

    /// The spread of the arrival, wider where the angle is in reject.
    pub(super) fn spread_at(&self, at: Instant) -> Nanos {
        let (arrival, turn) = (self.map.arrival.spread(), self.revolution());
        let both = libm::hypot(
            arrival.as_ns() as f64,
            self.spindle.deviation_turns(at) * turn.as_ns() as f64,
        );
        Nanos::from_ns(both as u64).min(turn / 3)
    }

    /// Whether the access was too fast for the medium.
    fn is_hit(&self, way: &Way, measured: &MeasuredAccess, media_end: Instant) -> bool {
        let took = media_end.saturating_since(way.depart);
        // To where sectors were moved the arm may be faster.
        let least = if self.map.is_of_profile() && !self.is_elsewhere(measured) {
            way.arm / 2
        } else {
            MIN_ACCESS
        };
        let apart = measured
            .head_before
            .is_some_and(|head| head.place.cylinder.abs_diff(measured.target.start.cylinder) > 1);
        apart && took < least
    }

    /// Follows the platter by one sight, and learns what the angle differs by region. The error in
    /// turns, where an angle was believed.
    pub(super) fn read_angle(&mut self, sight: Sight, reading: Reading) -> Option<f64> {
        let angle = match reading {
            Reading::Home | Reading::Odd => {
                self.map.places.end_angle(sight.last)? + self.map.angles.offset(sight.last)
            }
            Reading::Moved(angle) => angle,
            Reading::Nothing => return None,
        };
        let before =
            self.spindle.phase().map(|phase| self.spindle.period().angle_at(sight.at, phase));
        let bounded = self.spindle.observe(sight.at, angle);
        if let (Some(bounded), Learning::All, Reading::Home | Reading::Odd) =
            (bounded, self.learning, reading)
        {
            self.map.angles.observe(sight.last, -bounded);
        }
        before.map(|before| angle.signed_turns_from(before))
    }

    /// What the completion says of the arm and of the worst.
    fn judge(&mut self, measured: &MeasuredAccess, way: &Way, media_end: Instant) {
        let turn = self.revolution();
        let passed =
            media_end.signed_since(way.depart) as f64 - measured.target.transfer.as_ns() as f64;
        let moves = way.moves && !self.is_elsewhere(measured);
        if let (Arm::Votes(votes), Some(head), true) =
            (&mut self.map.arm, measured.head_before, moves)
        {
            // An arm that waited long stood still: then the drive, not the arm, decided when.
            votes.vote(share(head.place, measured.target.start), passed.max(0.0));
        }
        let Some(wait) = way.wait else { return };
        let late = passed - (way.arrival.saturating_since(way.depart) + wait).as_ns() as f64;
        if self.is_elsewhere(measured) {
            return;
        }
        self.map.tails.take(
            measured.target.extent.start,
            Nanos::from_ns(late.max(0.0) as u64),
            turn,
        );
        self.samples += 1;
        let slips = libm::round(late / turn.as_ns() as f64);
        let weight = (1.0 / self.samples as f64).max(1.0 / 256.0);
        let rest_us = (late - slips * turn.as_ns() as f64) / 1e3;
        self.squared_us += weight * (rest_us * rest_us - self.squared_us);
        self.missed += weight * (f64::from(u8::from(slips != 0.0)) - self.missed);
        let sharp = self.spindle.deviation_turns(way.arrival) < SHARP_TURNS
            && rest_us.abs() < AGREES_TURNS * turn.as_us_f64();
        let (Some(head), true, true) =
            (measured.head_before, sharp, way.moves && way.arrival == way.depart + way.arm)
        else {
            return;
        };
        let (spread, sure) = (self.map.arrival.spread(), self.map.arrival.sure());
        self.map.arrival.observe(wait, turn, slips as i32);
        if let (Arm::Profile(seeks), true) = (&mut self.map.arm, slips.abs() <= 1.0) {
            let high = wait.as_ns() as f64 + slips * turn.as_ns() as f64;
            let writes = measured.target.op == Op::Write;
            let movement = Movement {
                from_cylinder: head.place.cylinder,
                to_cylinder: measured.target.start.cylinder,
                writes,
            };
            seeks.observe(movement, high - turn.as_ns() as f64, high, spread.as_ns() as f64, sure);
        }
    }
}

impl Positioning for CompactBelief {
    fn capacity(&self) -> Sectors {
        self.map.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let capacity = self.map.capacity();
        let start = self.place(self.map.places.start(extent.start, capacity), extent.start);
        let end = self.place(self.map.places.end(extent.last(), capacity), extent.last());
        let target = Target { op, extent, start, end, transfer: self.map.transfer(extent) };
        self.map.moved.corrected(target, self.spindle.period(), |from, to| {
            self.map.arm_time(from, to, op == Op::Write).0
        })
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let way = self.way(head, dispatch, target);
        let (positioning, PairTime { expected, worst }) =
            self.timed(&way, head, target, |target| self.way(head, dispatch, target));
        Estimate { depart: way.depart, positioning, expected, worst, transfer: target.transfer }
    }

    /// From the end of the one the platter turns on from the angle that ends it, whenever that is.
    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        let head = Head::after(from, near);
        let dispatch = match overhead {
            Overhead::Overlapped => Instant::ORIGIN,
            Overhead::Exposed => near + self.reported_after(from),
        };
        let (known, period) =
            (!is_unknown(from.end) && self.spindle.is_seen(), self.spindle.period());
        let way_to = |to: &Target| {
            self.way_under(&head, dispatch, to, |arrival| {
                known.then(|| from.end.angle + period.angle_of(arrival.saturating_since(near)))
            })
        };
        let way = way_to(to);
        let (_, times) = self.timed(&way, &head, to, way_to);
        let lost = way.depart.saturating_since(near) + to.transfer;
        PairCost {
            expected: lost + times.expected,
            worst: lost + times.worst,
            known: if way.wait.is_some() { Certainty::Known } else { Certainty::Unknown },
        }
    }

    /// Where an angle is not known, one access does not change that.
    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        if self.way(head, dispatch, target).wait.is_some() {
            Certainty::Known
        } else {
            Certainty::Unknown
        }
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        let period = self.spindle.period();
        let turned = self
            .spindle
            .phase()
            .filter(|_| self.trusted())
            .map(|phase| period.time_of(period.angle_at(from, phase).until(angle)));
        from + turned.unwrap_or_default()
    }

    /// Of a profile what its curve and the residuals say; without one the least that votes say from
    /// there on. What follows in the neighboring band of addresses may need no arm.
    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        match (&self.map.places, &self.map.arm) {
            (Places::Profile(of), Arm::Profile(seeks)) => {
                let learned = (self.map.arrival.bias_ns() + seeks.lowest_ns()).min(0.0);
                // One nanosecond for the rounding of a sum of several parts.
                Nanos::from_ns(
                    of.mechanism
                        .arm_lower_bound(cylinders)
                        .as_ns()
                        .saturating_add_signed(learned as i64 - 1),
                )
            }
            (_, Arm::Votes(_)) if cylinders <= 1 => Nanos::ZERO,
            (_, Arm::Votes(votes)) => {
                self.map.floor(votes, f64::from(cylinders.min(BANDS)) / f64::from(BANDS))
            }
            (Places::Strips(_), Arm::Profile(_)) => {
                unreachable!("a map without a profile has no residuals against one")
            }
        }
    }

    fn revolution(&self) -> Nanos {
        self.spindle.period().as_nanos()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        finished.saturating_back(self.reported_after(target))
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
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

    fn tracks(&self) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for CompactBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        if !measured.succeeded || !measured.target.op.moves_head() {
            return AccessKind::Media;
        }
        let media_end = self.media_end(&measured.target, measured.finished);
        let way =
            measured.head_before.map(|head| self.way(&head, measured.dispatched, &measured.target));
        if way.is_some_and(|way| self.is_hit(&way, measured, media_end)) {
            self.cache_hits += 1;
            // What a cache took of a write is written some time later, wherever the head is then.
            return if measured.target.op == Op::Read {
                AccessKind::CacheHit
            } else {
                AccessKind::Uncertain
            };
        }
        let sight = Sight { at: media_end, last: measured.target.extent.last() };
        if let (Some(way), Learning::All) = (way, self.learning) {
            self.judge(measured, &way, media_end);
        }
        let predicted = way.and_then(|way| self.is_predicted(&way, measured, media_end));
        let reading = self.look(measured.target.extent, media_end, predicted);
        let error = self.read_angle(sight, reading);
        if self.learning == Learning::Phase {
            return AccessKind::Media;
        }
        if let (Some(way), Reading::Odd | Reading::Moved(_) | Reading::Nothing) = (way, reading) {
            self.judge_trip(measured, &way, media_end);
        }
        // What lies elsewhere says nothing of where the drive's other sectors are.
        let at_home = matches!(reading, Reading::Home | Reading::Odd);
        if at_home {
            self.sights.take(sight);
        }
        if let Some(error) = error {
            self.note_agreement(error);
            if at_home {
                self.hold_against(sight, error);
            }
        }
        self.go_on();
        self.begin_if_due();
        AccessKind::Media
    }

    fn report(&self) -> BeliefReport {
        let judged = self.samples > 0;
        BeliefReport {
            samples: self.sights.taken(),
            period_ns: Some(self.spindle.period().as_ns_f64()),
            error_rms_us: judged.then(|| libm::sqrt(self.squared_us)),
            missed_revolutions: judged.then_some(self.missed),
            cache_hits: self.cache_hits,
            mistrusted: !self.trusted(),
            ..BeliefReport::default()
        }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

/// An angle this far from the believed one is another (guess), in turns: chance alone makes a tenth
/// agree.
pub(super) const AGREES_TURNS: f64 = 0.05;
/// Below this share of agreement angles count as unknown (guess: well above chance, well below a
/// drive with two thirds of its slips unknown).
const MISTRUSTED: f64 = 0.25;
/// Weight of a completion in that share, and how many are needed to judge.
pub(super) const AGREEMENT_WEIGHT: f64 = 1.0 / 128.0;
pub(super) const MIN_JUDGED: u64 = 128;
/// With a deviation below this the platter is known well enough to hold a missed turn against the
/// arm, in turns.
const SHARP_TURNS: f64 = 0.02;
/// Without a profile: no access elsewhere takes less (guess: half of the shortest seek and settle).
const MIN_ACCESS: Nanos = Nanos::from_us(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_an_angle_passes_is_known_once_the_platter_was_seen() {
        let profile = headtime_mechanics::catalog::load("atlas10k").expect("it ships");
        let mut belief =
            CompactBelief::of_profile(&profile, CompactSettings::default()).expect("it ships");
        let target = belief.target(Op::Read, Extent::from_numbers(9_000_000, 8));
        let head = Head::after(&target, Instant::from_ns(1_000_000_000));
        assert_eq!(
            belief.passes_at(target.end.angle, head.free_at),
            head.free_at,
            "nobody knows how far the platter has turned"
        );
        assert_eq!(belief.known(&head, head.free_at, &target), Certainty::Unknown);
        // The same sectors, a hundred times, ten turns after each other.
        let turn = belief.revolution();
        let at = |round: u64| Instant::from_ns(1_000_000_000) + turn * (10 * round);
        for round in 1..=100 {
            let (dispatched, finished) = (at(round - 1) + turn * 8, at(round));
            let head_before = Some(Head::after(&target, at(round - 1)));
            belief.learn(&MeasuredAccess {
                target,
                dispatched,
                finished,
                head_before,
                succeeded: true,
            });
        }
        assert_eq!(belief.known(&head, at(100), &target), Certainty::Known);
        let passes = |from: Instant| {
            belief.passes_at(target.end.angle, from).saturating_since(from).as_ns() as f64
                / turn.as_ns() as f64
        };
        let (whole, later) = (
            passes(belief.media_end(&target, at(101))),
            passes(belief.media_end(&target, at(101)) + turn / 4),
        );
        assert!(
            whole.min(1.0 - whole) < 0.02 && (later - 0.75).abs() < 0.02,
            "{whole} and {later} turns"
        );
    }
}
