//! What a [`ProfileBelief`] takes from a completion, and which completions teach what.
//!
//! ```text
//! what it was (hits.rs)       period, phase, angles   arm   places that lose turns   error counted
//! the medium                  yes                     yes   yes                      yes
//! the medium, a known place   –                       –     yes                      –
//! the medium, moved sectors   yes, where known        –     –                        yes, where known
//! elsewhere                   yes                     –     if late                  –
//! a hit, in the buffer        –                       –     –                        –
//! no head before it           yes                     –     –                        –
//! ```
//!
//! The arm is judged only where it is the arm that decides: it moved, no data were waited for, the
//! angle was known well, the angle at the end was the right one, and the drive had neither time to
//! read on elsewhere nor written data to bring to the medium. A turn lost with ample time for the
//! arm is the place's (`remaps.rs`), the first time nobody's.
//!
//! A hit is answered as such, and the head stays, with one exception: a read that goes on where the
//! last one ended was read ahead, so the head is there or further.

use headtime_mechanics::HeadPosition;
use headtime_sched::{AccessKind, Belief, BeliefReport, Head, MeasuredAccess, Op, Positioning};
use headtime_units::{Extent, Instant, Nanos, Sectors};

use crate::hits::{Seen, Verdict};
use crate::moved::{Moved, NOWHERE, Reading, Trip};
use crate::profile::{ProfileBelief, arm_time, direction, position};
use crate::seeks::Movement;

/// A wait so many deviations long is not missed by the arm.
const AMPLE_SPREADS: u64 = 6;
/// Above this deviation, in turns, the angle is not known well enough to hold anything against it.
const VAGUE_TURNS: f64 = 0.1;

/// How predictions have fared lately: slow means over about 256 completions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    samples: u64,
    judged: u64,
    squared_us: f64,
    missed: f64,
}

/// What was made of a completion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lesson {
    pub(crate) learned: AccessKind,
    /// How far from the believed angle it ended, in turns; `None` where that says nothing about
    /// whether the belief is right.
    pub(crate) error_turns: Option<f64>,
}

impl ProfileBelief {
    pub(crate) fn take_in(&mut self, measured: &MeasuredAccess) -> Lesson {
        let nothing = Lesson { learned: AccessKind::Media, error_turns: None };
        let extent = measured.target.extent;
        if !measured.succeeded || !measured.target.op.moves_head() {
            return nothing;
        }
        self.hits.ended(measured.target.op, extent);
        let media_end = self.media_end(&measured.target, measured.finished);
        // Where the ends are known to lie elsewhere, what was lost there is explained.
        let ends_at_home =
            !Moved::holds(measured.target.start) && !Moved::holds(measured.target.end);
        let lost = if ends_at_home { self.remaps.lost(extent) } else { Nanos::ZERO };
        // When the target was made the place may not have been known.
        let transfer = if lost.is_zero() {
            measured.target.transfer
        } else {
            self.target(measured.target.op, extent).transfer.saturating_sub(lost)
        };
        let seen = self.judge(measured, media_end, transfer);
        let verdict = match &seen {
            Some(seen) => seen.verdict,
            None => self.verdict_by_time(measured, measured.dispatched).unwrap_or(Verdict::Medium),
        };
        match verdict {
            Verdict::Hit => {
                self.hits.note(measured.target.op);
                let goes_on = measured.target.op == Op::Read
                    && measured.head_before.is_some_and(|head| head.next_lba == extent.start);
                return Lesson {
                    learned: if goes_on { AccessKind::Media } else { AccessKind::CacheHit },
                    ..nothing
                };
            }
            Verdict::InBuffer => {
                self.hits.to_be_written = true;
                return Lesson { learned: AccessKind::Uncertain, ..nothing };
            }
            Verdict::Medium | Verdict::Elsewhere => {}
        }
        self.errors.samples += 1;
        if !lost.is_zero() && seen.as_ref().is_none_or(|seen| seen.fits) {
            if let Some(seen) = &seen {
                self.judge_place(measured, seen, lost / 2);
            }
            return nothing;
        }
        let Some(seen) = seen else {
            self.read_phase(measured, media_end, None);
            return nothing;
        };
        let known = self.spindle.deviation_turns(media_end) < VAGUE_TURNS;
        let (much, target) = (self.revolution * 3 / 4, &measured.target);
        let elsewhere =
            [Some(target.start), Some(target.end), measured.head_before.map(|head| head.place)]
                .into_iter()
                .flatten()
                .any(Moved::holds);
        if !elsewhere {
            self.judge_place(measured, &seen, much);
            if seen.verdict == Verdict::Medium {
                self.judge_arm(measured, &seen);
            }
        }
        let there = self.head_was_there(measured, &seen);
        self.hits.to_be_written = false;
        let by_known_ways = there
            && seen.way.known
            && !measured.head_before.is_some_and(|head| Moved::holds(head.place));
        let reading =
            self.read_phase(measured, media_end, by_known_ways.then_some(seen.slips == 0.0));
        if there && reading != Reading::Home {
            self.judge_trip(measured, &seen, media_end);
        }
        let error_turns = seen.late_ns / self.revolution.as_ns() as f64 - seen.slips;
        Lesson {
            learned: if seen.verdict == Verdict::Medium {
                AccessKind::Media
            } else {
                AccessKind::Uncertain
            },
            error_turns: (known && seen.way.moves && reading != Reading::Nothing)
                .then_some(error_turns),
        }
    }

    /// What the completion says of where the arm goes for sectors that lie elsewhere.
    fn judge_trip(&mut self, measured: &MeasuredAccess, seen: &Seen, media_end: Instant) {
        let Some(head) = measured
            .head_before
            .filter(|head| !Moved::holds(head.place) && measured.target.op == Op::Read)
        else {
            return;
        };
        let took_ns = media_end.signed_since(seen.way.depart + measured.target.transfer) as f64;
        let trip = Trip {
            took_ns,
            turn_ns: self.revolution.as_ns() as f64,
            spread_ns: self.arrival.spread().as_ns() as f64,
        };
        let (mechanism, arrival, seeks, from) =
            (&self.mechanism, &self.arrival, &self.seeks, position(head.place));
        self.moved.take_trip(measured.target.extent, &trip, |cylinder| {
            let to = HeadPosition { cylinder, head: NOWHERE };
            arm_time(mechanism, arrival, seeks, from, to, headtime_mechanics::Direction::Read)
                .0
                .as_ns() as f64
        });
    }

    /// Whether the place lost time that it should not have: `much` or more. What ends at another
    /// angle is not late but elsewhere (`moved/`).
    fn judge_place(&mut self, measured: &MeasuredAccess, seen: &Seen, much: Nanos) {
        let extent = measured.target.extent;
        if seen.late_ns < much.as_ns() as f64 {
            self.remaps.in_time(extent);
        } else if seen.fits
            && self.head_was_there(measured, seen)
            && (!seen.way.moves || seen.way.wait > self.arrival.spread() * AMPLE_SPREADS)
        {
            self.remaps.late(extent, Nanos::from_ns(seen.late_ns as u64));
        }
    }

    /// What the completion says of the arm.
    fn judge_arm(&mut self, measured: &MeasuredAccess, seen: &Seen) {
        let turn_ns = self.revolution.as_ns() as f64;
        let rest_ns = seen.late_ns - seen.slips * turn_ns;
        // While the angle is in reject a missed turn says nothing about the arm.
        let angle_known = seen.way.arrival <= self.sharp_until && seen.fits;
        if let (true, true, true, Some(head)) = (
            angle_known,
            seen.way.by_arm,
            self.head_was_there(measured, seen),
            measured.head_before,
        ) {
            let (spread_ns, sure) = (self.arrival.spread().as_ns() as f64, self.arrival.sure());
            self.arrival.observe(seen.way.wait, self.revolution, seen.slips as i32);
            if seen.slips.abs() <= 1.0 {
                let high_ns = seen.way.wait.as_ns() as f64 + seen.slips * turn_ns;
                self.seeks.observe(
                    movement(&head, measured),
                    high_ns - turn_ns,
                    high_ns,
                    spread_ns,
                    sure,
                );
            }
        }
        self.errors.note(rest_ns / 1e3, seen.slips != 0.0);
    }

    /// Whether nothing speaks against the head having been where the command before left it.
    fn head_was_there(&self, measured: &MeasuredAccess, seen: &Seen) -> bool {
        let idle = measured
            .head_before
            .map_or(Nanos::ZERO, |head| seen.way.depart.saturating_since(head.free_at));
        !self.hits.to_be_written && !self.hits.strayed(idle, self.revolution)
    }

    /// What the completion says of the platter, and of where its last sector is; `predicted` says
    /// whether that was in the turn in which it was believed to come, where anybody could know.
    fn read_phase(
        &mut self,
        measured: &MeasuredAccess,
        media_end: Instant,
        predicted: Option<bool>,
    ) -> Reading {
        // AccessKind since the target was computed, perhaps; the newest offset is the better one.
        let last = measured.target.extent.last();
        let home = self.mechanism.end_angle(measured.target.extent) + self.angles.offset(last);
        let tolerance = 5.0 * self.spindle.expected_error_turns(media_end);
        let reading = if self.phase_known {
            let (mechanism, angles) = (&self.mechanism, &self.angles);
            let at_home =
                |lba| mechanism.end_angle(Extent::new(lba, Sectors::new(1))) + angles.offset(lba);
            self.moved.take(
                measured.target.extent,
                mechanism.angle_at(media_end),
                at_home,
                tolerance,
                predicted,
            )
        } else {
            Reading::Home
        };
        let angle = match reading {
            Reading::Home | Reading::Odd => home,
            Reading::Moved(angle) => angle,
            Reading::Nothing => return reading,
        };
        if let (Some(error), Reading::Home | Reading::Odd) =
            (self.spindle.observe(media_end, angle), reading)
        {
            // Seen earlier in the turn than believed means that the sector lies earlier.
            self.angles.observe(last, -error);
        }
        if let Some(phase) = self.spindle.phase() {
            self.take_phase(self.spindle.period(), phase);
        }
        let sharp_turns =
            0.5 * self.arrival.spread().as_ns() as f64 / self.revolution.as_ns() as f64;
        self.sharp_until = self.spindle.sharp_until(sharp_turns);
        reading
    }

    /// The platter turns like this.
    pub(crate) fn take_phase(
        &mut self,
        period: headtime_units::RotationPeriod,
        phase: headtime_units::Angle,
    ) {
        self.mechanism.set_rotation(period, phase);
        self.revolution = period.as_nanos();
        self.phase_known = true;
    }
}

impl Belief for ProfileBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let head = measured.head_before.filter(|_| measured.succeeded);
        if let (true, Some(head)) = (self.recorded_errors.is_some(), head) {
            let predicted = self.estimate(&head, measured.dispatched, &measured.target).finish();
            let media_end = self.media_end(&measured.target, measured.finished);
            let late_ns = media_end.signed_since(predicted);
            self.recorded_errors.get_or_insert_default().push(late_ns);
        }
        self.take_in(measured).learned
    }

    fn report(&self) -> BeliefReport {
        let judged = self.errors.judged > 0;
        BeliefReport {
            samples: self.errors.samples,
            period_ns: Some(self.spindle.period().as_ns_f64()),
            error_rms_us: judged.then(|| libm::sqrt(self.errors.squared_us)),
            missed_revolutions: judged.then_some(self.errors.missed),
            cache_hits: self.hits.count,
            ..BeliefReport::default()
        }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

impl Errors {
    fn note(&mut self, error_us: f64, missed: bool) {
        self.judged += 1;
        let weight = (1.0 / self.judged as f64).max(1.0 / 256.0);
        self.squared_us += weight * (error_us * error_us - self.squared_us);
        self.missed += weight * (f64::from(u8::from(missed)) - self.missed);
    }
}

fn movement(head: &Head, measured: &MeasuredAccess) -> Movement {
    let from = HeadPosition { cylinder: head.place.cylinder, head: head.place.head };
    let writes = direction(measured.target.op) == headtime_mechanics::Direction::Write;
    Movement { from_cylinder: from.cylinder, to_cylinder: measured.target.start.cylinder, writes }
}
