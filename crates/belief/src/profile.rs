//! A belief from a drive's profile: the nominal mechanics, with period, phase and arrival fitted to what the drive does.
//!
//! A [`DriveProfile`] says where every sector is, how long the arm takes and how fast the platter should turn. It does not say where the
//! platter is now, how fast this unit really turns, where its defects moved its sectors, or how late its head arrives. Those are fitted from measured
//! completions: period and phase by the spindle filter, angles by region, lateness and its spread by the turns missed and caught.
//!
//! Worked example, 20 TB 7,200 rpm: the head is free at t = 0 on cylinder 1,000; a request waits on cylinder 51,000 at angle 0.25. The arm takes 4.7 ms, so
//! the head arrives at the believed angle of t = 4.7 ms, say 0.20, and waits 0.05 turns = 417 us: positioning 5.1 ms. With a spread of 100 us the chance of
//! missing is Φ(−4.17) ≈ 0: expected equals most likely. At angle 0.205 the wait would be 42 us, the chance of missing 0.34, and the expected cost 2.8 ms more.
//!
//! Guarantees: before the first completion estimates count half a revolution, never a guessed angle. Does not learn seek residuals by region, the angle of single
//! tracks of a large drive, remapped sectors or cache hits yet: they appear as spread. Assumes that a
//! command has the bus for itself: where a large write's data cross it while a read's should, the read looks late by up to a millisecond. Cost: an estimate is a seek look-up, two multiplications, and near the edge two error functions.
//! Source: P2 sections 3.2 and 3.3; docs/limits.md 4.

use std::sync::Arc;

use headtime_mechanics::{Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism, ProfileError, Spot};
use headtime_sched::{Belief, BeliefReport, Estimate, Head, Likely, Measured, Op, Place, Positioning, Target};
use headtime_units::{Extent, Instant, Nanos, Sectors};

use crate::angles::AngleMap;
use crate::arrival::Arrival;
use crate::spindle::Spindle;

/// What is believed of one unit of a known model.
#[derive(Clone, Debug)]
pub struct ProfileBelief {
    mechanism: Mechanism,
    interface: InterfaceTimes,
    revolution: Nanos,
    spindle: Spindle,
    /// Whether the spindle filter has seen the platter at all.
    phase_known: bool,
    /// Until when the angle is known better than the arrival spreads.
    sharp_until: Instant,
    arrival: Arrival,
    angles: AngleMap,
    errors: Errors,
}

/// How predictions have fared lately: slow means over about 256 completions.
#[derive(Clone, Copy, Debug, Default)]
struct Errors {
    samples: u64,
    judged: u64,
    squared_us: f64,
    missed: f64,
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
            revolution: period.as_nanos(),
            spindle: Spindle::new(period),
            phase_known: false,
            sharp_until: Instant::ORIGIN,
            arrival: Arrival::new(),
            angles: AngleMap::new(mechanism.layout().capacity()),
            errors: Errors::default(),
            mechanism,
        })
    }

    /// The layout that places are computed with.
    #[must_use]
    pub fn layout(&self) -> &Arc<headtime_mechanics::Layout> {
        self.mechanism.layout()
    }

    /// When the drive can turn to the command, and when a write's data are there.
    fn ready(&self, dispatch: Instant, target: &Target) -> (Instant, Instant) {
        let direction = direction(target.op);
        let started = dispatch + self.interface.command_overhead(direction, None);
        if target.op != Op::Write {
            return (started, Instant::ORIGIN);
        }
        let len = target.extent.len;
        (started, self.interface.write_media_start(started, len, per_sector(target)))
    }

    /// Departure, arrival (with the bias) and the wait that follows.
    fn way(&self, head: &Head, dispatch: Instant, target: &Target) -> Way {
        let (started, data_there) = self.ready(dispatch, target);
        let depart = started.max(head.free_at);
        let from = HeadPosition { cylinder: head.place.cylinder, head: head.place.head };
        let to = HeadPosition { cylinder: target.start.cylinder, head: target.start.head };
        let seek = self.mechanism.arm_time(from, to, direction(target.op));
        // Where the arm does not move there is nothing to arrive late: only the angle is in question.
        let bias_ns = if seek.is_zero() { 0 } else { self.arrival.bias_ns() as i64 };
        let arrival = (depart + seek).offset_by_ns(bias_ns).max(depart).max(data_there);
        // The sector right behind the last one comes right behind it: whatever is unknown about the angle is the same for both.
        if seek.is_zero() && target.extent.start == head.next_lba && arrival == head.free_at {
            return Way { depart, arrival, wait: Nanos::ZERO, moves: false };
        }
        let wait = self.mechanism.period().time_of(self.mechanism.angle_at(arrival).until(target.start.angle));
        Way { depart, arrival, wait, moves: !seek.is_zero() }
    }

    /// The spread of the arrival at `at`, wider where the angle itself is in doubt.
    fn spread(&self, at: Instant) -> Nanos {
        let arrival = self.arrival.spread();
        if at <= self.sharp_until {
            return arrival;
        }
        let angle_ns = self.spindle.deviation_turns(at) * self.revolution.as_ns() as f64;
        let both = libm::hypot(arrival.as_ns() as f64, angle_ns);
        Nanos::from_ns(both as u64).min(self.revolution / 3)
    }
}

struct Way {
    depart: Instant,
    arrival: Instant,
    wait: Nanos,
    /// Whether the arm moves or a head is switched.
    moves: bool,
}

impl Positioning for ProfileBelief {
    fn capacity(&self) -> Sectors {
        self.mechanism.layout().capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let start = self.mechanism.spot(extent.start);
        // From the start of its first sector an access seeks and waits only between tracks, and that is part of the transfer.
        let access = self.mechanism.access(start.position, Instant::ORIGIN, direction(op), extent, Instant::ORIGIN);
        let wait = self.mechanism.positioning_to(start.position, Instant::ORIGIN, direction(op), &start).rotate;
        let transfer = access.finish.saturating_since(Instant::ORIGIN + wait);
        let mut target = Target { op, extent, start: place(start), end: place(self.mechanism.end_spot(extent)), transfer };
        target.start.angle += self.angles.offset(extent.start);
        target.end.angle += self.angles.offset(extent.last());
        target
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let way = self.way(head, dispatch, target);
        let before_wait = way.arrival.saturating_since(way.depart);
        if !self.phase_known {
            let half = before_wait + self.revolution / 2;
            return Estimate {
                depart: way.depart,
                positioning: half,
                expected: half,
                worst: before_wait + self.revolution,
                transfer: target.transfer,
            };
        }
        let spread = self.spread(way.arrival);
        let positioning = before_wait + way.wait;
        // Without a movement of the arm nothing arrives late, and nothing is missed or caught by surprise.
        let slip = if way.moves { Arrival::expected_slip(way.wait, self.revolution, spread) } else { 0.0 };
        let slip_ns = slip * self.revolution.as_ns() as f64;
        let expected = Nanos::from_ns(positioning.as_ns().saturating_add_signed(slip_ns as i64));
        // One revolution more than arriving exactly on time can cost, and the tail of the arrival.
        let worst = before_wait + self.revolution + spread * 4;
        Estimate { depart: way.depart, positioning, expected: expected.max(before_wait), worst, transfer: target.transfer }
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let way = self.way(head, dispatch, target);
        let wait = if self.phase_known { way.wait } else { self.revolution / 2 };
        Likely { depart: way.depart, positioning: way.arrival.saturating_since(way.depart) + wait }
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        let bias_ns = (self.arrival.bias_ns() as i64).min(0);
        Nanos::from_ns(self.mechanism.arm_lower_bound(cylinders).as_ns().saturating_add_signed(bias_ns))
    }

    fn revolution(&self) -> Nanos {
        self.revolution
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        let media_end = self.interface.media_end(direction(target.op), target.extent.len, finished);
        if target.op != Op::Read {
            return media_end;
        }
        // On a bus slower than the media the burst starts with the first sector and outlasts the media.
        let but_the_first = target.transfer.saturating_sub(per_sector(target));
        let late = self.interface.bus_time(target.extent.len).saturating_sub(self.interface.bus_time(Sectors::new(1)) + but_the_first);
        media_end.saturating_back(late)
    }
}

impl Belief for ProfileBelief {
    fn learn(&mut self, measured: &Measured) {
        if !measured.succeeded || !measured.target.op.moves_head() {
            return;
        }
        let media_end = self.media_end(&measured.target, measured.finished);
        if let (Some(head), true) = (measured.head_before, self.phase_known) {
            let way = self.way(&head, measured.dispatched, &measured.target);
            let predicted = way.arrival + way.wait + measured.target.transfer;
            let turn_ns = self.revolution.as_ns() as f64;
            let late_ns = media_end.signed_since(predicted) as f64;
            let slips = libm::round(late_ns / turn_ns);
            // While the angle is in doubt a missed turn says nothing about the arm.
            if way.arrival <= self.sharp_until && way.moves {
                self.arrival.observe(way.wait, self.revolution, slips as i32);
            }
            self.errors.note((late_ns - slips * turn_ns) / 1e3, slips != 0.0);
        }
        self.errors.samples += 1;
        // Learned since the target was computed, perhaps; the newest offset is the better one.
        let last = measured.target.extent.last();
        let angle = self.mechanism.end_angle(measured.target.extent) + self.angles.offset(last);
        if let Some(error) = self.spindle.observe(media_end, angle) {
            // Seen earlier in the turn than believed means that the sector lies earlier.
            self.angles.observe(last, -error);
        }
        if let Some(phase) = self.spindle.phase() {
            self.mechanism.set_rotation(self.spindle.period(), phase);
            self.revolution = self.spindle.period().as_nanos();
            self.phase_known = true;
        }
        let sharp_turns = 0.5 * self.arrival.spread().as_ns() as f64 / self.revolution.as_ns() as f64;
        self.sharp_until = self.spindle.sharp_until(sharp_turns);
    }

    fn report(&self) -> BeliefReport {
        BeliefReport {
            samples: self.errors.samples,
            period_ns: Some(self.spindle.period().as_ns_f64()),
            error_rms_us: (self.errors.judged > 0).then(|| libm::sqrt(self.errors.squared_us)),
            missed_revolutions: (self.errors.judged > 0).then_some(self.errors.missed),
        }
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

fn direction(op: Op) -> Direction {
    if op == Op::Read { Direction::Read } else { Direction::Write }
}

fn place(spot: Spot) -> Place {
    Place { cylinder: spot.position.cylinder, head: spot.position.head, angle: spot.angle }
}

/// Media time of one of the target's sectors, on average over its tracks.
fn per_sector(target: &Target) -> Nanos {
    target.transfer / target.extent.len.get().max(1)
}
