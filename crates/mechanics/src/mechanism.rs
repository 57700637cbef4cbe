//! [`Mechanism`]: how long an access takes, from a track and a moment.
//!
//! An access seeks (arm, head switch, write settle), waits for its first sector to come round, and
//! passes over its sectors, over as many tracks as they lie on. Example, Atlas 10K, a read of 8
//! sectors 100 cylinders away: the arm takes 2.011 ms; the turn takes 5.985 ms, so the wait is
//! anything up to that; 8 of 334 sectors pass in 0.143 ms. A remapped sector within an extent costs
//! the trip to its spare and back.
//!
//! **Zero latency.** Where the profile's firmware says so, sectors are taken as they come by. What
//! an access wants of a track is a *stretch* that takes the angle `W`; the head arrives `a` behind
//! the stretch's beginning. With `a ≥ W` (nothing wanted under the head) it waits for the beginning
//! as ever. With `0 < a < W` it takes what follows, waits until the beginning comes round, and
//! takes what it missed; the sector on which it arrived comes last, so that the stretch costs one
//! revolution from the first border of a sector after the arrival. Example: a turn of 6 ms, 300
//! sectors, a stretch of 200 (4 ms), arrival in the middle of its sector 149, 2.99 ms behind its
//! beginning. Without zero latency: 3.01 ms until the beginning and 4 ms of transfer, 7.01 ms.
//! With: 0.01 ms to the next border, 1 ms for sectors 150 to 199, 2 ms until the beginning, 3 ms
//! for sectors 0 to 149: 6.01 ms. The extent's first sector has passed at 3.03 ms either way, and
//! what is read early waits in the buffer for it. [`Mechanism::positioning`] is the way to the
//! first sector in any case: the whole access ends earlier than that says by less than `W`, and
//! only when the head arrives within the stretch, so that an order by positioning is off by at most
//! what the transfer takes.
//!
//! **Rounding.** Times are whole nanoseconds, angles 2⁻³² turn. Every wait is rounded down, so the
//! head is at most one nanosecond early and never late: what follows without a gap on the track
//! never costs a revolution by rounding, and errors do not add up, because every wait is computed
//! from the angle at its beginning.
//!
//! - Modelled: seek, head switch, write settle, rotation, transfer over track, cylinder and zone
//!   ends, trips to remapped sectors, zero latency, data that arrive late (`not_before`).
//! - Not modelled: caches and read-ahead, retries, spin-up, thermal recalibration.
//! - Differs from a drive: time passed over a slipped sector counts as transfer, and zero latency
//!   treats it as wanted; a zero-latency write finds the data of whichever sector comes first
//!   already there; tracks are served one after the other, remapped sectors in the order of
//!   addresses.
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

/// The way to a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PositioningTime {
    /// Arm, head switch and settle.
    pub seek: Nanos,
    /// Waiting for the sector to come round, less than a revolution.
    pub rotate: Nanos,
}

/// One access to the media. `seek + rotate + transfer` is exactly the time from departure to
/// `finish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Arm, head switches and settles, those between the tracks of the access included.
    pub seek: Nanos,
    /// Waiting for sectors to come round (with zero latency also in the midst of a track), and for
    /// a write's data to arrive.
    pub rotate: Nanos,
    /// Sectors passing under the head.
    pub transfer: Nanos,
    /// When the extent's first sector had passed.
    pub first_sector: Instant,
    /// The track of the extent's last sector.
    pub end: HeadPosition,
    /// When all sectors had passed; with zero latency the last one to pass need not be the extent's
    /// last.
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
    /// The mechanism as the profile describes it, at phase zero.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn nominal(profile: &DriveProfile) -> Result<Self, ProfileError> {
        Self::new(profile, Arc::new(Layout::new(profile)?), Nominal)
    }
}

impl<V: Variation> Mechanism<V> {
    /// A mechanism with the profile's arm and spindle, the given layout of the same profile, and a
    /// unit's variation; at phase zero.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
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

    /// What is different about this unit.
    #[must_use]
    pub fn variation(&self) -> &V {
        &self.variation
    }

    /// Sets the spindle: the time of a turn, and the angle at [`Instant::ORIGIN`].
    pub fn set_rotation(&mut self, period: RotationPeriod, phase: Angle) {
        self.period = period;
        self.phase = phase;
    }

    /// Switching heads within a cylinder.
    #[must_use]
    pub fn head_switch(&self) -> Nanos {
        self.head_switch
    }

    /// What a write adds to an arm time that is not zero.
    #[must_use]
    pub fn write_settle(&self) -> Nanos {
        self.write_settle
    }

    /// The angle under the head at `at`.
    #[must_use]
    pub fn angle_at(&self, at: Instant) -> Angle {
        self.period.angle_at(at, self.phase)
    }

    /// The track of `lba` and the angle at which its sector starts, the unit's variation included.
    ///
    /// # Panics
    /// When `lba` is past the capacity.
    #[must_use]
    pub fn spot(&self, lba: Lba) -> Spot {
        let spot = self.layout.spot(lba);
        Spot { angle: spot.angle + self.variation.track_angle(spot.position.track()), ..spot }
    }

    /// The track on which the extent ends and the angle at which its last sector has passed, the
    /// unit's variation included.
    ///
    /// # Panics
    /// When the extent has no sector or one past the capacity.
    #[must_use]
    pub fn end_spot(&self, extent: Extent) -> Spot {
        assert!(!extent.len.is_zero(), "an extent without sectors ends nowhere");
        let last = self.layout.locate(extent.last());
        let position = last.position();
        Spot { position, angle: last.angle_after(1) + self.variation.track_angle(position.track()) }
    }

    /// The angle at which the extent's last sector has passed. A completion at a known time with a
    /// known angle is a reading of the phase, but for an access with zero latency that arrived
    /// within its last stretch: that ends elsewhere in the turn.
    ///
    /// # Panics
    /// As [`Mechanism::end_spot`].
    #[must_use]
    pub fn end_angle(&self, extent: Extent) -> Angle {
        self.end_spot(extent).angle
    }

    /// The arm's time between two tracks: the greater of seek and head switch, and the settle when
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

    /// An arm time that never falls with distance and that no arm time over `cylinders` or more
    /// beats, reads or writes.
    #[must_use]
    pub fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        self.seek.lower_bound(cylinders).saturating_sub(self.variation.seek_residual_bound())
    }

    /// The way from a track to a sector, departing at `depart`. With zero latency an access may
    /// take other sectors before; see the head of this file.
    ///
    /// # Panics
    /// When `lba` is past the capacity.
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

    /// The way to a spot that is known already ([`Mechanism::spot`]); the cheap part of
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

    /// Whether accesses of this direction take sectors as they come by.
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
    /// When the extent has no sector or one past the capacity.
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

    /// Passes over a stretch whose beginning is `wait` ahead: what is spent waiting, and all of it.
    #[inline]
    fn pass(&self, stretch: &TrackStretch, wait: Angle, zero_latency: bool) -> (Nanos, Nanos) {
        let (wait, span) = (u64::from(wait.as_raw()), span_angle(&stretch.at, stretch.span));
        // The head is `behind` the beginning: 0 when it is there exactly in time.
        let behind = (WHOLE_TURN - wait) % WHOLE_TURN;
        if zero_latency && behind != 0 && behind < span {
            let to_border = to_next_border(&stretch.at, behind);
            let passed = self.time_of(to_border + WHOLE_TURN);
            return (self.time_of(to_border + WHOLE_TURN - span), passed);
        }
        (self.time_of(wait), self.time_of(wait + span))
    }

    /// The mean arm time of reads between two sectors drawn evenly and independently from the
    /// drive, without variation; exact but for spares, slips and reserved sectors, which count like
    /// others, and averaged over strips of cylinders on a measured layout. Sums over all distances,
    /// so it costs milliseconds on a large drive.
    #[must_use]
    pub fn mean_arm_time(&self) -> Nanos {
        mean::arm_time(&self.layout, &self.seek, self.head_switch)
    }

    /// The time that one sector of head 0's track at `cylinder` takes to pass.
    ///
    /// # Panics
    /// When the drive has no such cylinder.
    #[must_use]
    pub fn sector_time(&self, cylinder: u32) -> Nanos {
        let track = Track { cylinder, head: 0 };
        self.period.time_of_turns(1, u64::from(self.layout.sectors_per_track(track)))
    }

    /// The time of `raw` units of 2⁻³² turn, which may be more than a turn, rounded down.
    fn time_of(&self, raw: u64) -> Nanos {
        Nanos::from_ns(
            ((u128::from(raw) * u128::from(self.period.as_fs())) >> 32) as u64 / 1_000_000,
        )
    }
}

/// The angle that `span` sectors from a located one on take, in units of 2⁻³² turn; a whole track
/// is a whole turn.
#[inline]
fn span_angle(from: &Located, span: u64) -> u64 {
    if span == u64::from(from.sectors_per_track) {
        return WHOLE_TURN;
    }
    u64::from((from.angle_after(span) - from.angle()).as_raw())
}

/// From `behind` a located sector's start, both in units of 2⁻³² turn, to the start of the next
/// sector; 0 on a border.
fn to_next_border(from: &Located, behind: u64) -> u64 {
    let sectors = u64::from(from.sectors_per_track);
    // The last border that is passed or, rounded, met; with the one behind it that is met or still
    // to come.
    let passed = (behind * sectors) >> 32;
    let border = |number: u64| span_angle(from, number);
    (passed..=sectors).map(border).find(|border| *border >= behind).unwrap_or(WHOLE_TURN) - behind
}

/// In units of 2⁻³² turn.
const WHOLE_TURN: u64 = 1 << 32;
