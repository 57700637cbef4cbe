//! [`CompactMap`]: a map of a whole drive in megabytes, made of structure instead of cells.
//!
//! The published map answers "how long from here to there" from a table of pairs, which increases
//! with the square of the drive. The compact map computes the answer from parts that increase with
//! the *zones* of the drive: the angles of both sectors, the arm time over the distance, and the
//! excess of earlier accesses. Each part is learned from the same completions that would have
//! filled the table.
//!
//! Worked example, 8 ms a turn: A ends at 0.20 turn, B begins at 0.55, and the arm takes 4.1 ms
//! over that distance. The platter turns by 0.35 or 1.35 or …: 2.8 ms is too soon for the arm, so
//! the access takes 10.8 ms. The spread of the arm is 0.1 ms and the sector passes 6.7 ms after its
//! arrival: the risk of just missing it adds nothing, and 10.8 ms are expected. In the region of B,
//! one access in ten thousand was a revolution late: the worst case is 18.8 ms.
//!
//! Guarantees: a pair with an unknown angle is reported as unknown. Memory is bounded
//! ([`CompactSettings::memory`]). Not guaranteed: the worst case may be exceeded; it is a quantile
//! of the observations in the region. Source: the task is future work named in P1 (section 3.1);
//! the parts are ours.

use headtime_mechanics::{Direction, DriveProfile, ProfileError};
use headtime_sched::{Op, Position};
use headtime_units::{Angle, ByteSize, Extent, Lba, Nanos, RotationPeriod, Sectors};

use super::arm::ArmVotes;
use super::locations::{BANDS, LayoutLocations, Locations, is_unknown, position};
use super::segments::Segments;
use super::worst::Tails;
use crate::angles::AngleMap;
use crate::arrival::Arrival;
use crate::matrix::MappedDrive;
use crate::model::actuator::direction;
use crate::moved::Moved;
use crate::seeks::{Movement, SeekResiduals};

/// The settings of a compact map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactSettings {
    /// The maximum memory of the map and its learning state together. Default 64 MiB (the target of
    /// M4).
    pub memory: ByteSize,
    /// The share of accesses that take no longer than the worst case, ½ to 1; 1 is the longest
    /// observed, as in the published map. Default 0.9999 (guess).
    pub worst_share: f64,
    /// Media time of a sector outside known segments, in ns. Default 2,560 (guess: 200 MB/s in
    /// sectors of 512 bytes).
    pub sector_ns: f64,
}

impl Default for CompactSettings {
    fn default() -> Self {
        Self { memory: ByteSize::new(64 << 20), worst_share: 0.9999, sector_ns: 2_560.0 }
    }
}

/// The reasons for which a compact map cannot be created.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum CompactError {
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The drive has several arms; a map describes one.
    #[error(
        "profile {profile} has {arms} arms, a compact map describes one; map each half of the drive"
    )]
    Arms { profile: String, arms: u16 },
    /// The memory limit is below the minimum.
    #[error("a compact map may take {memory}, it needs at least {least}; allow more")]
    Memory { memory: ByteSize, least: ByteSize },
    /// A drive without sectors.
    #[error("the drive has no sectors")]
    Empty,
}

/// The access times of a drive.
#[derive(Clone, Debug)]
pub struct CompactMap {
    pub(super) drive: MappedDrive,
    pub(crate) settings: CompactSettings,
    pub(crate) period: RotationPeriod,
    pub(crate) locations: Locations,
    /// The angle corrections by region, relative to the locations.
    pub(crate) angles: AngleMap,
    pub(crate) arm: ArmTimes,
    /// Bias and spread of arm arrivals, over all distances.
    pub(crate) arrival: Arrival,
    /// The worst cases by region; `None` for a map that is not kept, which uses the bound of the
    /// profile.
    pub(crate) tails: Option<Tails>,
    /// Relocated sectors.
    pub(crate) moved: Moved,
}

#[derive(Clone, Debug)]
pub(crate) enum ArmTimes {
    /// The curve of the profile, with learned residuals.
    Curve(Box<SeekResiduals>),
    /// Votes of accesses, without a curve.
    Votes(Box<ArmVotes>),
}

/// The presence of an arm movement or a head switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    Yes,
    No,
}

/// The positioning time from the end of one sector to the start of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairTime {
    /// The mean over the lateness of the arm.
    pub expected: Nanos,
    /// The time that the set share of accesses does not exceed.
    pub worst: Nanos,
}

impl CompactMap {
    /// Creates a map from a profile, without learned data.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn of_profile(
        profile: &DriveProfile,
        settings: CompactSettings,
    ) -> Result<Self, CompactError> {
        if profile.actuators() > 1 {
            return Err(CompactError::Arms {
                profile: profile.name.clone(),
                arms: profile.actuators(),
            });
        }
        Self::check(profile.capacity(), settings)?;
        Ok(Self::of_layout(profile, LayoutLocations::with_spares(profile)?, settings)?)
    }

    /// Creates a map from a profile for a model that is not kept: without worst cases by region.
    pub(crate) fn nominal(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let locations = LayoutLocations::new(profile)?;
        Ok(Self { tails: None, ..Self::of_layout(profile, locations, CompactSettings::default())? })
    }

    fn of_layout(
        profile: &DriveProfile,
        locations: LayoutLocations,
        settings: CompactSettings,
    ) -> Result<Self, ProfileError> {
        let drive = MappedDrive {
            model: profile.model.clone(),
            capacity: locations.layout().capacity().min(profile.capacity()),
            sector: profile.sector_size()?,
        };
        let (period, cylinders) = (locations.mechanism.period(), locations.layout().cylinders());
        let arm = ArmTimes::Curve(Box::new(SeekResiduals::new(cylinders)));
        Ok(Self::with(drive, settings, period, Locations::Layout(Box::new(locations)), arm))
    }

    /// Creates a map of an unknown drive from its size and its nominal period, which must be right
    /// to within 500 ppm.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn unknown(
        drive: MappedDrive,
        period: RotationPeriod,
        settings: CompactSettings,
    ) -> Result<Self, CompactError> {
        Self::check(drive.capacity, settings)?;
        let arm = ArmTimes::Votes(Box::new(ArmVotes::new(period.as_nanos())));
        Ok(Self::with(drive, settings, period, Locations::Segments(Segments::default()), arm))
    }

    fn check(capacity: Sectors, settings: CompactSettings) -> Result<(), CompactError> {
        if capacity.is_zero() {
            return Err(CompactError::Empty);
        }
        if settings.memory < MIN_MEMORY {
            return Err(CompactError::Memory { memory: settings.memory, least: MIN_MEMORY });
        }
        Ok(())
    }

    fn with(
        drive: MappedDrive,
        settings: CompactSettings,
        period: RotationPeriod,
        locations: Locations,
        arm: ArmTimes,
    ) -> Self {
        Self {
            angles: AngleMap::new(drive.capacity),
            arrival: Arrival::new(),
            tails: Some(Tails::new(drive.capacity)),
            moved: locations.none_moved(),
            drive,
            settings,
            period,
            locations,
            arm,
        }
    }

    /// Drops the data learned in addition to a profile.
    pub(crate) fn forget(&mut self) {
        if let Locations::Layout(layout) = &mut self.locations {
            layout.mechanism.set_rotation(self.period, Angle::ZERO);
            let cylinders = layout.layout().cylinders();
            self.arm = ArmTimes::Curve(Box::new(SeekResiduals::new(cylinders)));
        }
        self.angles = AngleMap::new(self.drive.capacity);
        self.arrival = Arrival::new();
        self.moved = self.locations.none_moved();
    }

    /// The mapped drive.
    #[must_use]
    pub fn drive(&self) -> &MappedDrive {
        &self.drive
    }

    /// The period of a revolution, as far as it is known.
    #[must_use]
    pub fn period(&self) -> RotationPeriod {
        self.period
    }

    /// Returns true if the map started from a profile.
    #[must_use]
    pub fn is_of_profile(&self) -> bool {
        self.locations.profile().is_some()
    }

    /// The number of address ranges that are shifted against the profile, or whose angles were
    /// found without one.
    #[must_use]
    pub fn regions(&self) -> usize {
        match &self.locations {
            Locations::Layout(layout) => layout.shifts.rows().len(),
            Locations::Segments(segments) => segments.segments().len(),
        }
    }

    /// The share of addresses whose angle is known.
    #[must_use]
    pub fn known_share(&self) -> f64 {
        match &self.locations {
            Locations::Layout(_) => 1.0,
            Locations::Segments(segments) => {
                segments
                    .segments()
                    .iter()
                    .map(|segment| (segment.end - segment.first) as f64)
                    .sum::<f64>()
                    / self.drive.capacity.get() as f64
            }
        }
    }

    /// The shifts against the profile: from address `.0` on, sectors are `.1` positions ahead;
    /// empty for a map without a profile.
    pub fn shifts(&self) -> impl Iterator<Item = (Lba, i64)> + '_ {
        let rows = match &self.locations {
            Locations::Layout(layout) => layout.shifts.rows(),
            Locations::Segments(_) => &[],
        };
        rows.iter().map(|row| (Lba::new(row.first), row.sectors))
    }

    /// The positioning time from the end of the sector `from` to the start of `to` for back-to-back
    /// reads; `None` if an angle is not known.
    ///
    /// # Panics
    /// When the drive has no such sectors.
    #[must_use]
    pub fn time(&self, from: Lba, to: Lba) -> Option<PairTime> {
        let capacity = self.drive.capacity;
        assert!(
            from.get() < capacity.get() && to.get() < capacity.get(),
            "LBA {from:?} and {to:?} of a drive with {capacity}"
        );
        let (mut here, mut there) =
            (self.locations.end(from, capacity), self.locations.start(to, capacity));
        here.angle += self.angles.offset(from);
        there.angle += self.angles.offset(to);
        (here, there) = (self.moved.end(from, here), self.moved.start(to, there));
        if is_unknown(here) || is_unknown(there) {
            return None;
        }
        let turn = self.period.as_nanos();
        let (arm, moves) = self.arm_time(here, there, Op::Read);
        let mut wait = self.period.time_of(here.angle.until(there.angle)).as_ns() as i128
            - i128::from(arm.as_ns());
        if wait < 0 {
            let turn = i128::from(turn.as_ns().max(1));
            wait += turn * (-wait + turn - 1).div_euclid(turn);
        }
        let wait = Nanos::from_ns(wait as u64);
        let moves = if moves { Moves::Yes } else { Moves::No };
        let [_, expected, worst] = self.price(to, arm, wait, moves, self.arrival.spread(), turn);
        Some(PairTime { expected, worst })
    }

    /// The most likely arm time from the end of the sector `from` to the start of `to`, for a read.
    ///
    /// # Panics
    /// When the drive has no such sectors.
    #[must_use]
    pub fn arm(&self, from: Lba, to: Lba) -> Nanos {
        let capacity = self.drive.capacity;
        assert!(
            from.get() < capacity.get() && to.get() < capacity.get(),
            "LBA {from:?} and {to:?} of a drive with {capacity}"
        );
        let (here, there) = (
            self.moved.end(from, self.locations.end(from, capacity)),
            self.moved.start(to, self.locations.start(to, capacity)),
        );
        self.arm_time(here, there, Op::Read).0
    }

    /// The positioning time of an access to `to`, computed from the time before its wait and the
    /// wait: most likely, expected and worst.
    #[inline]
    pub(crate) fn price(
        &self,
        to: Lba,
        before_wait: Nanos,
        wait: Nanos,
        moves: Moves,
        spread: Nanos,
        revolution: Nanos,
    ) -> [Nanos; 3] {
        let positioning = before_wait + wait;
        // Without an arm movement nothing arrives late, and no sector is missed or caught by
        // chance.
        let slip = match moves {
            Moves::Yes => Arrival::expected_slip(wait, revolution, spread),
            Moves::No => 0.0,
        };
        let slip_ns = slip * revolution.as_ns() as f64;
        let expected = Nanos::from_ns(positioning.as_ns().saturating_add_signed(slip_ns as i64))
            .max(before_wait);
        // One revolution more than an arrival exactly on time can cost, and the tail of the
        // arrival.
        let bound = before_wait + revolution + spread * 4;
        let worst = self.tails.as_ref().map_or(bound, |tails| {
            tails
                .quantile(to, self.settings.worst_share, revolution)
                .map_or(bound, |late| positioning + late)
                .max(positioning)
                .max(expected)
        });
        [positioning, expected, worst]
    }

    /// The most likely arm time, and true if the arm moves or heads are switched.
    #[inline(always)]
    pub(crate) fn arm_time(&self, from: Position, to: Position, op: Op) -> (Nanos, bool) {
        let (layout, seeks) = match (&self.locations, &self.arm) {
            (Locations::Layout(layout), ArmTimes::Curve(seeks)) => (layout, seeks),
            (_, ArmTimes::Votes(votes)) => return (self.voted(votes, share(from, to)), true),
            (Locations::Segments(_), ArmTimes::Curve(_)) => {
                unreachable!("a map without a profile has no residuals")
            }
        };
        let nominal = layout.mechanism.arm_time(position(from), position(to), direction(op));
        if nominal.is_zero() {
            // Without an arm movement nothing can arrive late: only the angle is uncertain.
            return (nominal, false);
        }
        let writes = direction(op) == Direction::Write;
        let movement = Movement { from_cylinder: from.cylinder, to_cylinder: to.cylinder, writes };
        let learned_ns = self.arrival.bias_ns() + seeks.offset_ns(movement);
        (Nanos::from_ns(nominal.as_ns().saturating_add_signed(learned_ns as i64)), true)
    }

    /// The arm time from the curve of the profile, or from votes where there is none.
    #[inline]
    pub(crate) fn nominal_arm_time(&self, from: Position, to: Position, op: Op) -> Nanos {
        match (&self.locations, &self.arm) {
            (Locations::Layout(layout), _) => {
                layout.mechanism.arm_time(position(from), position(to), direction(op))
            }
            (Locations::Segments(_), ArmTimes::Votes(votes)) => self.voted(votes, share(from, to)),
            (Locations::Segments(_), ArmTimes::Curve(_)) => {
                unreachable!("a map without a profile has no residuals")
            }
        }
    }

    /// A lower bound of the positioning time over a distance of at least so many cylinders: from
    /// the curve and the residuals, or the minimum of the votes from there on. An access to the
    /// neighboring band of addresses may need no arm movement.
    #[inline]
    pub(crate) fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        match (&self.locations, &self.arm) {
            (Locations::Layout(layout), ArmTimes::Curve(seeks)) => {
                let learned_ns = (self.arrival.bias_ns() + seeks.lowest_ns()).min(0.0);
                // One nanosecond for the rounding of a sum of several terms.
                let bound = layout.mechanism.arm_lower_bound(cylinders).as_ns();
                Nanos::from_ns(bound.saturating_add_signed(learned_ns as i64 - 1))
            }
            (_, ArmTimes::Votes(_)) if cylinders <= 1 => Nanos::ZERO,
            (_, ArmTimes::Votes(votes)) => {
                self.floor(votes, f64::from(cylinders.min(BANDS)) / f64::from(BANDS))
            }
            (Locations::Segments(_), ArmTimes::Curve(_)) => {
                unreachable!("a map without a profile has no residuals")
            }
        }
    }

    /// Start and end of an extent with the learned angle corrections, and its media time.
    #[inline]
    pub(crate) fn locate(&self, op: Op, extent: Extent) -> (Position, Position, Nanos) {
        let (mut start, mut end, transfer) = self.locations.locate(
            op,
            extent,
            self.drive.capacity,
            self.period.as_nanos(),
            self.settings.sector_ns,
        );
        let [first, last] = self.angles.offsets(extent);
        start.angle += first;
        end.angle += last;
        (start, end, transfer)
    }

    /// The angle at which the sector has passed, with the learned correction; `None` where it is
    /// not known.
    pub(crate) fn end_angle(&self, lba: Lba) -> Option<Angle> {
        Some(self.locations.end_angle(lba)? + self.angles.offset(lba))
    }

    /// The arm time from votes over a share of the stroke, with the bias of arrivals.
    pub(super) fn voted(&self, votes: &ArmVotes, share: f64) -> Nanos {
        Nanos::from_ns((votes.time_ns(share) + self.arrival.bias_ns()).max(0.0) as u64)
    }

    /// The minimum of the estimates from this share of the stroke on, with the bias of arrivals.
    pub(super) fn floor(&self, votes: &ArmVotes, share: f64) -> Nanos {
        Nanos::from_ns((votes.floor_ns(share) + self.arrival.bias_ns()).max(0.0) as u64)
    }

    /// The memory of the map, without the layout of a profile, which belongs to the profile.
    #[must_use]
    pub fn memory(&self) -> ByteSize {
        let locations = match &self.locations {
            Locations::Layout(layout) => size_of_val(layout.shifts.rows()),
            Locations::Segments(segments) => {
                segments.segments().len() * super::segments::SEGMENT_BYTES as usize
            }
        };
        let arm = match &self.arm {
            ArmTimes::Curve(seeks) => seeks.memory(),
            ArmTimes::Votes(votes) => votes.memory(),
        };
        ByteSize::new(
            locations as u64
                + arm
                + self.angles.memory()
                + self.tails.as_ref().map_or(0, Tails::memory)
                + self.moved.memory(),
        )
    }

    /// The maximum number of angle samples kept with the map, at 64 bytes each including the state
    /// of a search.
    pub(super) fn max_angle_samples(&self) -> usize {
        ((self.settings.memory.get() - MIN_MEMORY.get()) / 2 / 64).clamp(4_096, 1 << 20) as usize
    }

    /// The size of the drive.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.drive.capacity
    }
}

/// The share of the stroke between two positions of a drive without geometry.
pub(crate) fn share(from: Position, to: Position) -> f64 {
    f64::from(from.cylinder.abs_diff(to.cylinder)) / f64::from(BANDS)
}

/// The memory of the tables of angles, votes and tails, and of a search in progress.
const MIN_MEMORY: ByteSize = ByteSize::new(8 << 20);
