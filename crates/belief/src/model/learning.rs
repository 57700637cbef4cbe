//! The lessons of an arm's model from a completion, by the kind of the completion.
//!
//! ```text
//! kind (cache.rs)           period, phase, angles  arm   locations that lose turns   error counted
//! the medium                yes                    yes   yes                         yes
//! the medium, a known loss  –                      –     yes                         –
//! the medium, moved sectors yes, where known       –     –                           where known
//! elsewhere                 yes                    –     if late                     –
//! a hit, in the buffer      –                      –     –                           –
//! no head before it         yes                    –     –                           –
//! ```
//!
//! The arm is judged only if the arm decides about the time: it moved, no data had to arrive, the
//! angle was known well, the angle at the end was right, and the drive had neither time to read
//! ahead elsewhere nor data to destage. A turn lost with ample time for the arm counts for the
//! location (`remaps.rs`).
//!
//! After a hit the head is assumed to stay, with one exception: a read that continues the last one
//! was read ahead, so the head is at its end or further.
//!
//! A map also learns the maximum lateness of accesses to each region, and the angle of each sector
//! for its search. If three of four angles are wrong for a while, the drive was changed or
//! replaced: angles become unknown, and the search starts again.

use headtime_sched::{AccessKind, BeliefReport, MeasuredAccess, Op, Position};
use headtime_units::{Angle, Instant, Nanos};

use super::actuator::{Actuator, Approach};
use crate::cache::{Compared, CompletionKind};
use crate::cached_rows::Prediction;
use crate::compact::{AngleSample, ArmTimes, Learning, is_unknown, share};
use crate::moved::{Moved, Reading, Trip, UNKNOWN_LOCATION};
use crate::seeks::Movement;
use crate::spindle::Evidence;

/// A wait so many deviations long is not missed by the arm.
const AMPLE_SPREADS: u64 = 6;
/// Above this deviation, in turns, the angle is not known well enough to compare anything with it.
const VAGUE_TURNS: f64 = 0.1;

/// The errors of recent predictions: slow means over about 256 completions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PredictionErrors {
    samples: u64,
    predicted: u64,
    squared_us: f64,
    missed: f64,
}

/// The result of a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lesson {
    pub(crate) learned: AccessKind,
    /// Error of the predicted angle, in turns; `None` if it is no evidence for or against the
    /// model.
    pub(crate) error_turns: Option<f64>,
}

impl Actuator {
    /// Learns from a completion.
    pub(crate) fn observe(&mut self, measured: &MeasuredAccess) -> Lesson {
        if !measured.succeeded || !measured.target.op.moves_head() {
            return Lesson { learned: AccessKind::Media, error_turns: None };
        }
        let lesson = self.observe_access(measured);
        self.note_report(measured);
        let answered = matches!(lesson.learned, AccessKind::CacheHit);
        if self.search.is_some() && self.learns() && !answered {
            self.advance_search();
        }
        lesson
    }

    /// Returns true if anything but the rotation is learned.
    fn learns(&self) -> bool {
        self.search.as_ref().is_none_or(|search| search.learning == Learning::All)
    }

    fn observe_access(&mut self, measured: &MeasuredAccess) -> Lesson {
        let nothing = Lesson { learned: AccessKind::Media, error_turns: None };
        let (target, extent) = (&measured.target, measured.target.extent);
        self.cache.ended(target.op, extent);
        let media_end = self.media_end(target, measured.finished);
        // Where the ends are known to lie elsewhere, the time lost there is explained.
        let ends_at_home = !Moved::holds(target.start) && !Moved::holds(target.end);
        let lost = if ends_at_home { self.remaps.lost(extent) } else { Nanos::ZERO };
        // When the target was made the loss may not have been known.
        let transfer = if lost.is_zero() {
            target.transfer
        } else {
            self.target(target.op, extent).transfer.saturating_sub(lost)
        };
        let approach =
            measured.head_before.map(|head| self.approach(&head, measured.dispatched, target));
        let compared = approach
            .filter(|_| self.phase.is_some())
            .map(|approach| self.compare(measured, approach, media_end, transfer));
        let kind = match &compared {
            Some(compared) => compared.kind,
            None => self.kind_of_unpredicted(measured),
        };
        let goes_on = target.op == Op::Read
            && measured.head_before.is_some_and(|head| head.next_lba == extent.start);
        let held = !goes_on && target.op == Op::Read && self.rows_hold(extent, measured.dispatched);
        let is_hit = kind == CompletionKind::Hit && !goes_on;
        if held {
            let outcome = if is_hit { Prediction::Right } else { Prediction::Wrong };
            self.cache.rows.predicted(outcome);
        }
        // A busy host sees reports late. So a read that is probably held, and does not surely end
        // at its angle, is a hit.
        let at_angle = compared.as_ref().is_some_and(|compared| {
            compared.fits && (compared.sharp || kind == CompletionKind::Elsewhere)
        });
        let is_late_hit = held && !at_angle && self.cache.rows.are_trusted();
        let kind = if is_late_hit { CompletionKind::Hit } else { kind };
        let was_held = kind == CompletionKind::Hit && self.rows_hold(extent, measured.dispatched);
        // One much later may have needed the arm, so that the drive has not read on as predicted.
        match target.op {
            Op::Read if (is_hit || was_held) && self.is_in_time_for_hit(measured) => {
                self.note_hit_read(extent, measured.finished);
            }
            Op::Read => {
                // A report may be late, but most accesses to the medium take longer (guess).
                let taken = measured.finished.saturating_since(measured.dispatched);
                let answered = was_held && taken < self.revolution * 3 / 4;
                let held = if answered { Prediction::Right } else { Prediction::Wrong };
                self.note_read(extent, [measured.dispatched, media_end], held);
            }
            _ => self.cache.rows.written(extent, measured.dispatched),
        }
        match kind {
            CompletionKind::Hit => {
                self.cache.note_hit(target.op);
                let learned = if goes_on { AccessKind::Media } else { AccessKind::CacheHit };
                return Lesson { learned, ..nothing };
            }
            CompletionKind::InBuffer => {
                self.cache.to_be_written = true;
                return Lesson { learned: AccessKind::Uncertain, ..nothing };
            }
            CompletionKind::Medium | CompletionKind::Elsewhere => {}
        }
        self.errors.samples += 1;
        if !lost.is_zero() && compared.as_ref().is_none_or(|compared| compared.fits) {
            if let Some(compared) = &compared {
                self.judge_place(measured, compared, lost / 2);
            }
            return nothing;
        }
        if let Some(approach) = &approach {
            self.vote(measured, approach, media_end);
        }
        let as_predicted = compared.as_ref().is_some_and(|_| kind == CompletionKind::Medium);
        let evidence = match target.op {
            Op::Read if !as_predicted => Evidence::MayBeHit,
            _ => Evidence::Access,
        };
        let Some(compared) = compared else {
            self.read_phase(measured, media_end, None, evidence);
            return nothing;
        };
        let known = self.spindle.deviation_turns(media_end) < VAGUE_TURNS;
        // Without a curve an unknown angle leaves nothing to compare.
        let comparable = compared.approach.known || self.has_curve();
        if !is_relocated(measured) && comparable && self.learns() {
            self.judge_place(measured, &compared, self.revolution * 3 / 4);
            if let Some(tails) = self.map.tails.as_mut().filter(|_| compared.approach.known) {
                let late = Nanos::from_ns(compared.late_ns.max(0.0) as u64);
                tails.take(extent.start, late, self.revolution);
            }
            if compared.kind == CompletionKind::Medium {
                self.judge_arm(measured, &compared);
            }
        }
        let there = self.head_was_there(measured, &compared);
        (self.cache.to_be_written, self.cache.read_on) = (false, false);
        let from_known = there
            && compared.approach.known
            && !measured.head_before.is_some_and(|head| {
                Moved::holds(head.place) || !self.map.is_of_profile() && is_unknown(head.place)
            });
        let reading = self.read_phase(
            measured,
            media_end,
            from_known.then_some(compared.slips == 0.0),
            evidence,
        );
        if there && reading != Reading::Home && self.learns() {
            self.judge_trip(measured, &compared.approach, media_end);
        }
        let error_turns = compared.late_ns / self.revolution.as_ns() as f64 - compared.slips;
        let medium = compared.kind == CompletionKind::Medium;
        Lesson {
            learned: if medium { AccessKind::Media } else { AccessKind::Uncertain },
            error_turns: (known && compared.approach.moves && reading != Reading::Nothing)
                .then_some(error_turns),
        }
    }

    /// Without a curve of the arm, the completion votes for the time that it took.
    fn vote(&mut self, measured: &MeasuredAccess, approach: &Approach, media_end: Instant) {
        let moved = approach.moves && !is_relocated(measured) && self.learns();
        let (ArmTimes::Votes(votes), Some(head), true) =
            (&mut self.map.arm, measured.head_before, moved)
        else {
            return;
        };
        let passed_ns = media_end.signed_since(approach.depart) as f64
            - measured.target.transfer.as_ns() as f64;
        votes.vote(share(head.place, measured.target.start), passed_ns.max(0.0));
    }

    /// Updates the cylinder of relocated sectors.
    fn judge_trip(&mut self, measured: &MeasuredAccess, approach: &Approach, media_end: Instant) {
        let Some(head) = measured
            .head_before
            .filter(|head| !Moved::holds(head.place) && measured.target.op == Op::Read)
        else {
            return;
        };
        let trip = Trip {
            took_ns: media_end.signed_since(approach.depart + measured.target.transfer) as f64,
            turn_ns: self.revolution.as_ns() as f64,
            spread_ns: self.map.arrival.spread().as_ns() as f64,
        };
        let mut moved = std::mem::replace(&mut self.map.moved, Moved::new(1, []));
        moved.take_trip(measured.target.extent, &trip, |cylinder| {
            let to = Position { cylinder, head: UNKNOWN_LOCATION, ..head.place };
            self.map.arm_time(head.place, to, Op::Read).0.as_ns() as f64
        });
        self.map.moved = moved;
    }

    /// Returns true if the location lost `much` or more. An access that ends at another angle is
    /// not late but relocated (`moved/`).
    fn judge_place(&mut self, measured: &MeasuredAccess, compared: &Compared, much: Nanos) {
        let extent = measured.target.extent;
        let approach = &compared.approach;
        if compared.late_ns < much.as_ns() as f64 {
            self.remaps.in_time(extent);
        } else if compared.fits
            && self.head_was_there(measured, compared)
            && (!approach.moves || approach.wait > self.map.arrival.spread() * AMPLE_SPREADS)
        {
            self.remaps.late(extent, Nanos::from_ns(compared.late_ns as u64));
        }
    }

    /// Updates the arm.
    fn judge_arm(&mut self, measured: &MeasuredAccess, compared: &Compared) {
        let (approach, slips) = (&compared.approach, compared.slips);
        let turn_ns = self.revolution.as_ns() as f64;
        // While the angle is uncertain a missed turn says nothing about the arm.
        let angle_known =
            approach.arrival <= self.sharp_until && compared.fits && compared.distinct;
        if let (true, true, true, Some(head)) = (
            angle_known,
            approach.by_arm,
            self.head_was_there(measured, compared),
            measured.head_before,
        ) {
            let arrival = &mut self.map.arrival;
            let (spread_ns, sure) = (arrival.spread().as_ns() as f64, arrival.sure());
            arrival.observe(approach.wait, self.revolution, slips as i32);
            if let (ArmTimes::Curve(seeks), true) = (&mut self.map.arm, slips.abs() <= 1.0) {
                let high_ns = approach.wait.as_ns() as f64 + slips * turn_ns;
                let movement = Movement {
                    from_cylinder: head.place.cylinder,
                    to_cylinder: measured.target.start.cylinder,
                    writes: measured.target.op != Op::Read,
                };
                seeks.observe(movement, high_ns - turn_ns, high_ns, spread_ns, sure);
            }
        }
        self.errors.note((compared.late_ns - slips * turn_ns) / 1e3, slips != 0.0);
    }

    /// Returns true if the head was probably at the end of the previous command.
    fn head_was_there(&self, measured: &MeasuredAccess, compared: &Compared) -> bool {
        let idle = measured
            .head_before
            .map_or(Nanos::ZERO, |head| compared.approach.depart.saturating_since(head.free_at));
        let went_on = self.cache.read_on || self.cache.strayed(idle, self.revolution);
        !self.cache.to_be_written && !went_on
    }

    /// Updates the rotation, and the location of the last sector. `predicted` is true if it passed
    /// in the predicted revolution, if that is known.
    fn read_phase(
        &mut self,
        measured: &MeasuredAccess,
        media_end: Instant,
        predicted: Option<bool>,
        evidence: Evidence,
    ) -> Reading {
        // The offset may have been learned since the target was computed; the newest is the best.
        let (extent, last) = (measured.target.extent, measured.target.extent.last());
        let home = self.map.end_angle(last);
        let reading = match (home, self.phase) {
            (Some(home), Some(phase)) if self.trusts_angles() => {
                if self.learns() {
                    let tolerance = 5.0 * self.spindle.expected_error_turns(media_end);
                    let (locations, angles) = (&self.map.locations, &self.map.angles);
                    let at_home = |lba| {
                        let other = if lba == last { None } else { locations.end_angle(lba) };
                        other.map_or(home, |angle| angle + angles.offset(lba))
                    };
                    let seen = self.period.angle_at(media_end, phase);
                    self.map.moved.take(extent, seen, at_home, tolerance, predicted)
                } else {
                    let place =
                        self.map.moved.end(last, Position { angle: home, ..Position::default() });
                    match place.head {
                        UNKNOWN_LOCATION => Reading::Nothing,
                        _ if Moved::holds(place) => Reading::Moved(place.angle),
                        _ => Reading::Home,
                    }
                }
            }
            _ => Reading::Home,
        };
        let sample = AngleSample { at: media_end, last };
        let angle = match reading {
            Reading::Home | Reading::Odd => home,
            Reading::Moved(angle) => Some(angle),
            Reading::Nothing => None,
        };
        let error = angle.and_then(|angle| self.follow(sample, reading, angle, evidence));
        if self.search.is_some() && self.learns() {
            self.note_angle(sample, reading, error);
        }
        reading
    }

    /// Follows the rotation by one sample, which passed at `angle` by the model, and learns by how
    /// much the angles of its region differ. Returns the error in turns, where one was predicted.
    pub(crate) fn follow(
        &mut self,
        AngleSample { at, last }: AngleSample,
        reading: Reading,
        angle: Angle,
        evidence: Evidence,
    ) -> Option<f64> {
        let before = self.phase.map(|phase| self.period.angle_at(at, phase));
        if let (Some(error), Reading::Home | Reading::Odd, true) =
            (self.spindle.observe(at, angle, evidence), reading, self.learns())
        {
            // Seen earlier in the turn than predicted means that the sector lies earlier.
            self.map.angles.observe(last, -error);
        }
        if let Some(phase) = self.spindle.phase() {
            self.set_rotation(self.spindle.period(), phase);
        }
        let sharp_turns =
            0.5 * self.map.arrival.spread().as_ns() as f64 / self.revolution.as_ns() as f64;
        self.sharp_until = self.spindle.sharp_until(sharp_turns);
        before.map(|before| angle.signed_turns_from(before))
    }

    pub(crate) fn report(&self) -> BeliefReport {
        let predicted = self.errors.predicted > 0;
        BeliefReport {
            samples: self.errors.samples,
            period_ns: Some(self.spindle.period().as_ns_f64()),
            error_rms_us: predicted.then(|| libm::sqrt(self.errors.squared_us)),
            missed_revolutions: predicted.then_some(self.errors.missed),
            cache_hits: self.cache.hits,
            mistrusted: !self.trusts_angles(),
            ..BeliefReport::default()
        }
    }
}

/// Returns true if the head came from relocated sectors, or went there.
fn is_relocated(measured: &MeasuredAccess) -> bool {
    let (target, head) = (&measured.target, measured.head_before.map(|head| head.place));
    [Some(target.start), Some(target.end), head].into_iter().flatten().any(Moved::holds)
}

impl PredictionErrors {
    fn note(&mut self, error_us: f64, missed: bool) {
        self.predicted += 1;
        let weight = (1.0 / self.predicted as f64).max(1.0 / 256.0);
        self.squared_us += weight * (error_us * error_us - self.squared_us);
        self.missed += weight * (f64::from(u8::from(missed)) - self.missed);
    }
}
