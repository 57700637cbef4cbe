//! [`Mechanism`]: the duration of an access from a track and a time.
//!
//! An access seeks (arm, head switch, write settle), waits for its first sector, and passes over
//! its sectors on one or more tracks. Example, Atlas 10K, a read of 8 sectors 100 cylinders away:
//! the arm takes 2.011 ms; a revolution takes 5.985 ms, so the wait is anything up to that; 8 of
//! 334 sectors pass in 0.143 ms. A remapped sector within an extent costs the trip to its spare and
//! back.
//!
//! **Zero latency.** If the profile's firmware has it, sectors are transferred as they come by. The
//! sectors of an access on one track are a *stretch* of angle `W`; the head arrives `a` after the
//! start of the stretch. With `a ≥ W` (no requested sector under the head) it waits for the start
//! as usual. With `0 < a < W` it transfers the rest, waits for the start, and transfers the part
//! that it missed; the sector under the head at arrival comes last, so the stretch costs one
//! revolution from the first sector border after the arrival. Example: a revolution of 6 ms, 300
//! sectors, a stretch of 200 (4 ms), arrival in the middle of its sector 149, 2.99 ms after its
//! start. Without zero latency: 3.01 ms until the start and 4 ms of transfer, 7.01 ms. With: 0.01
//! ms to the next border, 1 ms for sectors 150 to 199, 2 ms until the start, 3 ms for sectors 0 to
//! 149: 6.01 ms. The extent's first sector has passed at 3.03 ms either way; earlier data wait in
//! the buffer. [`Mechanism::positioning`] is the positioning to the first sector in any case. The
//! whole access ends earlier by less than `W`, and only if the head arrives within the stretch, so
//! an order by positioning errs by at most the transfer time.
//!
//! **Rounding.** Times are whole nanoseconds, angles 2⁻³² revolution. Every wait is rounded down,
//! so the head is at most one nanosecond early and never late: rounding never costs a revolution
//! between adjacent sectors. Errors do not accumulate, because every wait is computed from the
//! angle at its start.
//!
//! - Modelled: seek, head switch, write settle, rotation, transfer over track, cylinder and zone
//!   ends, trips to remapped sectors, zero latency, late data (`not_before`).
//! - Not modelled: caches and read-ahead, retries, spin-up, thermal recalibration.
//! - Differs from a drive: time over a slipped sector counts as transfer, and zero latency treats
//!   it as requested; a zero-latency write has the data of every sector from the start; tracks are
//!   served one after the other, remapped sectors in address order.
//!
//! Cost: some 35 ns for a positioning, 50 ns for an access, 25 ns for each further track of it;
//! nothing is allocated.

use alloc::sync::Arc;

use headtime_units::{Angle, Extent, Instant, Lba, Nanos, RotationPeriod};

use crate::layout::{Layout, Located, TrackStretch};
use crate::mean;
use crate::place::{Direction, HeadPosition, Spot, Track};
use crate::profile::{DriveProfile, ProfileError};
use crate::seek::SeekCurve;
use crate::variation::{Nominal, Variation};

/// The moving parts of one drive.
#[derive(Clone, Debug)]
pub struct Mechanism<V = Nominal> {
    layout: Arc<Layout>,
    seek: Arc<SeekCurve>,
    period: RotationPeriod,
    phase: Angle,
    head_switch: Nanos,
    write_settle: Nanos,
    zero_latency_read: bool,
    zero_latency_write: bool,
    variation: V,
}

/// The positioning time to a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PositioningTime {
    /// Arm, head switch and settle.
    pub seek: Nanos,
    /// Rotational latency, less than a revolution.
    pub rotate: Nanos,
}

/// One access to the media. `seek + rotate + transfer` is exactly the time from departure to
/// `finish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Arm, head switches and settles, including those between the tracks of the access.
    pub seek: Nanos,
    /// Waits for rotation (with zero latency also within a track) and for a write's data.
    pub rotate: Nanos,
    /// Sectors passing under the head.
    pub transfer: Nanos,
    /// The time at which the extent's first sector had passed.
    pub first_sector: Instant,
    /// The track of the extent's last sector.
    pub end: HeadPosition,
    /// The time at which all sectors had passed; with zero latency the last one to pass need not be
    /// the extent's last.
    pub finish: Instant,
}

impl PositioningTime {
    /// Seek and rotation together.
    #[must_use]
    pub fn total(self) -> Nanos {
        self.seek + self.rotate
    }
}

impl Mechanism<Nominal> {
    /// The mechanism of the profile, at phase zero.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn nominal(profile: &DriveProfile) -> Result<Self, ProfileError> {
        Self::new(profile, Arc::new(Layout::new(profile)?), Nominal)
    }
}

impl<V: Variation> Mechanism<V> {
    /// A mechanism with the profile's arm and spindle, a layout of the same profile, and a
    /// variation; at phase zero.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn new(
        profile: &DriveProfile,
        layout: Arc<Layout>,
        variation: V,
    ) -> Result<Self, ProfileError> {
        profile.validate()?;
        // Validated times are finite and not negative, so the conversion cannot fail.
        let nanos = |ms: f64| Nanos::from_ms_f64(ms).unwrap_or(Nanos::ZERO);
        Ok(Self {
            layout,
            seek: Arc::new(SeekCurve::from_profile(profile)),
            period: profile.rotation_period()?,
            phase: Angle::ZERO,
            head_switch: nanos(profile.seek.head_switch_ms),
            write_settle: nanos(profile.seek.write_settle_ms),
            zero_latency_read: profile.firmware.zero_latency_read,
            zero_latency_write: profile.firmware.zero_latency_write,
            variation,
        })
    }

    /// The map of addresses.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The arm's read curve, without variation.
    #[must_use]
    pub fn seek_curve(&self) -> &SeekCurve {
        &self.seek
    }

    /// The time of one revolution.
    #[must_use]
    pub fn period(&self) -> RotationPeriod {
        self.period
    }

    /// The angle under the head at [`Instant::ORIGIN`].
    #[must_use]
    pub fn phase(&self) -> Angle {
        self.phase
    }

    /// The deviation of this drive from the model.
    #[must_use]
    pub fn variation(&self) -> &V {
        &self.variation
    }

    /// Sets the rotation period and the angle at [`Instant::ORIGIN`].
    pub fn set_rotation(&mut self, period: RotationPeriod, phase: Angle) {
        self.period = period;
        self.phase = phase;
    }

    /// The head switch time within a cylinder.
    #[must_use]
    pub fn head_switch(&self) -> Nanos {
        self.head_switch
    }

    /// The write settle time, added to an arm time that is not zero.
    #[must_use]
    pub fn write_settle(&self) -> Nanos {
        self.write_settle
    }

    /// The angle under the head at `at`.
    #[must_use]
    pub fn angle_at(&self, at: Instant) -> Angle {
        self.period.angle_at(at, self.phase)
    }

    /// The track of `lba` and the start angle of its sector, with variation.
    ///
    /// # Panics
    /// If `lba` is past the capacity.
    #[must_use]
    pub fn spot(&self, lba: Lba) -> Spot {
        let spot = self.layout.spot(lba);
        Spot { angle: spot.angle + self.variation.track_angle(spot.position.track()), ..spot }
    }

    /// The track of the extent's last sector and the angle at its end, with variation.
    ///
    /// # Panics
    /// If the extent is empty or ends past the capacity.
    #[must_use]
    pub fn end_spot(&self, extent: Extent) -> Spot {
        assert!(!extent.len.is_zero(), "an extent without sectors ends nowhere");
        let last = self.layout.locate(extent.last());
        let position = last.position();
        Spot { position, angle: last.angle_after(1) + self.variation.track_angle(position.track()) }
    }

    /// The angle at the end of the extent's last sector. A completion at a known time and angle
    /// measures the phase, except for an access with zero latency that arrived within its last
    /// stretch.
    ///
    /// # Panics
    /// As [`Mechanism::end_spot`].
    #[must_use]
    pub fn end_angle(&self, extent: Extent) -> Angle {
        self.end_spot(extent).angle
    }

    /// The arm time between two tracks: the greater of seek and head switch, plus the settle when
    /// writing after any movement.
    #[must_use]
    pub fn arm_time(&self, from: HeadPosition, to: HeadPosition, op: Direction) -> Nanos {
        let distance = from.cylinder.abs_diff(to.cylinder);
        let mut ns = self.seek.time(distance).as_ns();
        if distance != 0 {
            ns = ns
                .saturating_add_signed(self.variation.seek_residual_ns(from.cylinder, to.cylinder));
        }
        if from.head != to.head {
            ns = ns.max(self.head_switch.as_ns());
        }
        if op == Direction::Write && ns != 0 {
            ns += self.write_settle.as_ns();
        }
        Nanos::from_ns(ns)
    }

    /// A lower bound of all arm times over `cylinders` or more, reads or writes; it never decreases
    /// with distance.
    #[must_use]
    pub fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        self.seek.lower_bound(cylinders).saturating_sub(self.variation.seek_residual_bound())
    }

    /// The positioning from a track to a sector, departing at `depart`. With zero latency an access
    /// may transfer other sectors before; see the head of this file.
    ///
    /// # Panics
    /// If `lba` is past the capacity.
    #[must_use]
    pub fn positioning(
        &self,
        from: HeadPosition,
        depart: Instant,
        op: Direction,
        lba: Lba,
    ) -> PositioningTime {
        self.positioning_to(from, depart, op, &self.spot(lba))
    }

    /// The positioning to a known [`Mechanism::spot`]; the cheap part of
    /// [`Mechanism::positioning`].
    #[must_use]
    pub fn positioning_to(
        &self,
        from: HeadPosition,
        depart: Instant,
        op: Direction,
        to: &Spot,
    ) -> PositioningTime {
        let seek = self.arm_time(from, to.position, op);
        let rotate = self.period.time_of(self.angle_at(depart + seek).until(to.angle));
        PositioningTime { seek, rotate }
    }

    /// True if accesses of this direction transfer sectors as they come by.
    #[must_use]
    pub fn zero_latency(&self, op: Direction) -> bool {
        match op {
            Direction::Read => self.zero_latency_read,
            Direction::Write => self.zero_latency_write,
        }
    }

    /// Serves `extent`, departing from a track at `depart`; the first sector passes no earlier than
    /// `not_before` (a write's data must have arrived).
    ///
    /// # Panics
    /// If the extent is empty or ends past the capacity.
    #[must_use]
    pub fn access(
        &self,
        from: HeadPosition,
        depart: Instant,
        op: Direction,
        extent: Extent,
        not_before: Instant,
    ) -> Access {
        assert!(!extent.len.is_zero(), "an access needs at least one sector");
        let zero_latency = self.zero_latency(op);
        let mut access = Access {
            seek: Nanos::ZERO,
            rotate: Nanos::ZERO,
            transfer: Nanos::ZERO,
            first_sector: depart,
            end: from,
            finish: depart,
        };
        let mut lba = extent.start;
        let mut left = extent.len.get();
        while left > 0 {
            let stretch = self.layout.stretch(lba, left);
            let position = stretch.at.position();
            let seek = self.arm_time(access.end, position, op);
            let settled = access.finish + seek;
            let ready = settled.max(not_before);
            let start = stretch.at.angle() + self.variation.track_angle(position.track());
            let wait = self.angle_at(ready).until(start);
            if left == extent.len.get() {
                access.first_sector =
                    ready + self.time_of(u64::from(wait.as_raw()) + span_angle(&stretch.at, 1));
            }
            // From `ready`, not from the rounded start: one rounding for the whole track.
            let (rotate, passed) = self.pass(&stretch, wait, zero_latency);
            access.seek += seek;
            access.rotate += ready.saturating_since(settled) + rotate;
            access.transfer += passed - rotate;
            access.finish = ready + passed;
            access.end = position;
            left -= stretch.lbas;
            lba = Lba::new(lba.get() + stretch.lbas);
        }
        access
    }

    /// Passes over a stretch whose start is `wait` ahead. Returns the time spent waiting, and the
    /// total.
    #[inline]
    fn pass(&self, stretch: &TrackStretch, wait: Angle, zero_latency: bool) -> (Nanos, Nanos) {
        let (wait, span) = (u64::from(wait.as_raw()), span_angle(&stretch.at, stretch.span));
        // The distance of the head after the start: 0 if it is there exactly in time.
        let after_start = (WHOLE_TURN - wait) % WHOLE_TURN;
        if zero_latency && after_start != 0 && after_start < span {
            let to_border = to_next_border(&stretch.at, after_start);
            let passed = self.time_of(to_border + WHOLE_TURN);
            return (self.time_of(to_border + WHOLE_TURN - span), passed);
        }
        (self.time_of(wait), self.time_of(wait + span))
    }

    /// The mean arm time of reads between two independent uniform sectors, without variation.
    /// Spares, slips and reserved sectors count as others, and a measured layout is averaged over
    /// segments of cylinders. It sums over all distances: milliseconds on a large drive.
    #[must_use]
    pub fn mean_arm_time(&self) -> Nanos {
        mean::arm_time(&self.layout, &self.seek, self.head_switch)
    }

    /// The time that one sector of head 0's track at `cylinder` takes to pass.
    ///
    /// # Panics
    /// If the drive has no such cylinder.
    #[must_use]
    pub fn sector_time(&self, cylinder: u32) -> Nanos {
        let track = Track { cylinder, head: 0 };
        self.period.time_of_turns(1, u64::from(self.layout.sectors_per_track(track)))
    }

    /// The time of `raw` units of 2⁻³² revolution, possibly more than one revolution, rounded down.
    fn time_of(&self, raw: u64) -> Nanos {
        Nanos::from_ns(
            ((u128::from(raw) * u128::from(self.period.as_fs())) >> 32) as u64 / 1_000_000,
        )
    }
}

/// The angle of `span` sectors from a located one on, in units of 2⁻³² revolution; a whole track is
/// a whole revolution.
#[inline]
fn span_angle(from: &Located, span: u64) -> u64 {
    if span == u64::from(from.sectors_per_track) {
        return WHOLE_TURN;
    }
    u64::from((from.angle_after(span) - from.angle()).as_raw())
}

/// The angle from `after_start`, a distance after a located sector's start, to the start of the
/// next sector, both in units of 2⁻³² revolution; 0 on a border.
fn to_next_border(from: &Located, after_start: u64) -> u64 {
    let sectors = u64::from(from.sectors_per_track);
    // The last border that was passed or, rounded, met; compared with the next one.
    let passed = (after_start * sectors) >> 32;
    let border = |number: u64| span_angle(from, number);
    (passed..=sectors).map(border).find(|border| *border >= after_start).unwrap_or(WHOLE_TURN)
        - after_start
}

/// One revolution in units of 2⁻³² revolution.
const WHOLE_TURN: u64 = 1 << 32;
