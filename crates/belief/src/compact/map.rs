//! [`CompactMap`]: what a map of a whole drive knows, in megabytes: structure instead of cells.
//!
//! The published map answers "how long from here to there" from a table of pairs, which grows with
//! the square of the drive. The same question has an answer in parts that grow with the drive's
//! *zones*: where the two sectors lie around the platter (and so how far it turns from the one to
//! the other), how long the arm takes over the distance, and how much longer it has taken before.
//! Each part is learned from the same completions that would have filled the table.
//!
//! Worked example, 8 ms a turn: A ends at 0.20 turn, B begins at 0.55, the arm takes 4.1 ms over
//! that distance. The platter turns by 0.35 or 1.35 or …: 2.8 ms is too soon for the arm, so 10.8
//! ms. The arm's spread is 0.1 ms and the sector 6.7 ms behind its arrival: nothing is added for
//! just missing it, 10.8 ms are expected. In B's region one access in ten thousand was a revolution
//! late: the worst is 18.8 ms.
//!
//! Guarantees: a pair whose angles are not known is answered as unknown. What it takes of memory is
//! bounded ([`CompactSettings::memory`]). Not guaranteed: that the worst is never exceeded; it is a
//! quantile of what was seen in the region. Source: the task is P1's stated future work (section
//! 3.1); the parts are ours.

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

/// What the user may set of a compact map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactSettings {
    /// What map and what it learns from may take of memory together. Default 64 MiB (the target of
    /// M4).
    pub memory: ByteSize,
    /// The share of accesses that take no longer than the worst says, ½ to 1; 1 is the longest ever
    /// seen, as in the published map. Default 0.9999 (guess).
    pub worst_share: f64,
    /// Media time of a sector where nothing is known, in ns. Default 2,560 (guess: 200 MB/s in
    /// sectors of 512 bytes).
    pub sector_ns: f64,
}

impl Default for CompactSettings {
    fn default() -> Self {
        Self { memory: ByteSize::new(64 << 20), worst_share: 0.9999, sector_ns: 2_560.0 }
    }
}

/// Why there is no compact map of a drive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompactError {
    /// The profile is at fault.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Two arms are two drives.
    #[error(
        "profile {profile} has {arms} arms, a compact map is of one; map each half of the drive"
    )]
    Arms {
        /// The profile.
        profile: String,
        /// Its arms.
        arms: u16,
    },
    /// The settings allow less than the map takes at the least.
    #[error("a compact map may take {memory}, it needs {least} at the least; allow more")]
    Memory {
        /// What is set.
        memory: ByteSize,
        /// What it takes.
        least: ByteSize,
    },
    /// A drive without sectors.
    #[error("the drive has no sectors")]
    Empty,
}

/// What is known of how long accesses take on a drive.
#[derive(Clone, Debug)]
pub struct CompactMap {
    pub(super) drive: MappedDrive,
    pub(crate) settings: CompactSettings,
    pub(crate) period: RotationPeriod,
    pub(crate) locations: Locations,
    /// The differences of angles by region from what the locations say.
    pub(crate) angles: AngleMap,
    pub(crate) arm: ArmTimes,
    /// Bias and spread of arrivals, over all distances.
    pub(crate) arrival: Arrival,
    /// The worst cases by region; `None` where the bound of a profile is used, which is not kept.
    pub(crate) tails: Option<Tails>,
    /// Sectors that lie elsewhere than the locations say.
    pub(crate) moved: Moved,
}

/// Arm times.
#[derive(Clone, Debug)]
pub(crate) enum ArmTimes {
    /// The profile's curve, and what was learned on top of it.
    Curve(Box<SeekResiduals>),
    /// Votes of accesses, without a curve.
    Votes(Box<ArmVotes>),
}

/// Whether the arm moves or a head is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    Yes,
    No,
}

/// What it takes to get from one sector to another: from the end of the one to the start of the
/// other, the head's way and the platter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairTime {
    /// On average over how late the arm may be.
    pub expected: Nanos,
    /// What as large a share of accesses as set does not exceed.
    pub worst: Nanos,
}

impl CompactMap {
    /// What a profile says of the drive, nothing learned.
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

    /// What a profile says, for a model that is not kept: without worst cases by region.
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

    /// Nothing known of a drive but its size and how fast it turns according to its maker, right to
    /// within 500 ppm.
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

    /// Forgets what was learned on top of a profile.
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

    /// The drive that the map is of.
    #[must_use]
    pub fn drive(&self) -> &MappedDrive {
        &self.drive
    }

    /// The time of a revolution, as far as it is known.
    #[must_use]
    pub fn period(&self) -> RotationPeriod {
        self.period
    }

    /// Whether it started from a profile.
    #[must_use]
    pub fn is_of_profile(&self) -> bool {
        self.locations.profile().is_some()
    }

    /// Stretches of addresses that were found to lie otherwise than a profile says, or whose angles
    /// were found without one.
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

    /// By how many sectors addresses from `.0` on lie further on than the profile says, by `.1`;
    /// empty for a map without one.
    pub fn shifts(&self) -> impl Iterator<Item = (Lba, i64)> + '_ {
        let rows = match &self.locations {
            Locations::Layout(layout) => layout.shifts.rows(),
            Locations::Segments(_) => &[],
        };
        rows.iter().map(|row| (Lba::new(row.first), row.sectors))
    }

    /// Reads of sectors that lie elsewhere than a profile, or what was found without one, says; for
    /// each row of sectors of which it is known a few are kept.
    #[must_use]
    pub fn moved_angle_samples(&self) -> usize {
        self.moved.angle_samples()
    }

    /// How long it takes from the end of the sector `from` to the start of `to`, read back to back;
    /// `None` where an angle is not known.
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

    /// How long the arm takes from the end of the sector `from` to the start of `to`, most likely,
    /// for a read.
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

    /// The positioning time of an access to `to` by the time before its wait and the wait: most
    /// likely, expected and at worst.
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
        // Without a movement of the arm nothing arrives late, and no sector is missed or caught by
        // chance.
        let slip = match moves {
            Moves::Yes => Arrival::expected_slip(wait, revolution, spread),
            Moves::No => 0.0,
        };
        let slip_ns = slip * revolution.as_ns() as f64;
        let expected = Nanos::from_ns(positioning.as_ns().saturating_add_signed(slip_ns as i64))
            .max(before_wait);
        // One revolution more than arriving exactly on time can cost, and the tail of the arrival.
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

    /// The most likely time of the arm, and whether it moves or heads are switched at all.
    #[inline]
    pub(crate) fn arm_time(&self, from: Position, to: Position, op: Op) -> (Nanos, bool) {
        let seeks = match &self.arm {
            ArmTimes::Curve(seeks) => seeks,
            ArmTimes::Votes(votes) => return (self.voted(votes, share(from, to)), true),
        };
        let nominal = self.nominal_arm_time(from, to, op);
        if nominal.is_zero() {
            // Where the arm does not move there is nothing to arrive late: only the angle is in
            // question.
            return (nominal, false);
        }
        let writes = direction(op) == Direction::Write;
        let movement = Movement { from_cylinder: from.cylinder, to_cylinder: to.cylinder, writes };
        let learned_ns = self.arrival.bias_ns() + seeks.offset_ns(movement);
        (Nanos::from_ns(nominal.as_ns().saturating_add_signed(learned_ns as i64)), true)
    }

    /// The time of the arm by the profile's curve, or by votes where there is none.
    #[inline]
    pub(crate) fn nominal_arm_time(&self, from: Position, to: Position, op: Op) -> Nanos {
        match (&self.locations, &self.arm) {
            (Locations::Layout(layout), _) => {
                layout.mechanism.arm_time(position(from), position(to), direction(op))
            }
            (Locations::Segments(_), ArmTimes::Votes(votes)) => self.voted(votes, share(from, to)),
            (Locations::Segments(_), ArmTimes::Curve(_)) => {
                unreachable!("a map without a profile has no residuals against one")
            }
        }
    }

    /// A positioning time that no target so many cylinders away can beat: by the curve and the
    /// residuals, or the least that votes say from there on. An access to the neighboring band of
    /// addresses may need no arm.
    pub(crate) fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        match (&self.locations, &self.arm) {
            (Locations::Layout(layout), ArmTimes::Curve(seeks)) => {
                let learned_ns = (self.arrival.bias_ns() + seeks.lowest_ns()).min(0.0);
                // One nanosecond for the rounding of a sum of several parts.
                let bound = layout.mechanism.arm_lower_bound(cylinders).as_ns();
                Nanos::from_ns(bound.saturating_add_signed(learned_ns as i64 - 1))
            }
            (_, ArmTimes::Votes(_)) if cylinders <= 1 => Nanos::ZERO,
            (_, ArmTimes::Votes(votes)) => {
                self.floor(votes, f64::from(cylinders.min(BANDS)) / f64::from(BANDS))
            }
            (Locations::Segments(_), ArmTimes::Curve(_)) => {
                unreachable!("a map without a profile has no residuals against one")
            }
        }
    }

    /// Start and end of an extent with what was learned of their angles, and its media time.
    pub(crate) fn locate(&self, op: Op, extent: Extent) -> (Position, Position, Nanos) {
        let (mut start, mut end, transfer) = self.locations.locate(
            op,
            extent,
            self.drive.capacity,
            self.period.as_nanos(),
            self.settings.sector_ns,
        );
        start.angle += self.angles.offset(extent.start);
        end.angle += self.angles.offset(extent.last());
        (start, end, transfer)
    }

    /// The angle at which the sector has passed, with what was learned of it; `None` where it is
    /// not known.
    pub(crate) fn end_angle(&self, lba: Lba) -> Option<Angle> {
        Some(self.locations.end_angle(lba)? + self.angles.offset(lba))
    }

    /// What votes say of a share of the stroke, with the bias of arrivals.
    pub(super) fn voted(&self, votes: &ArmVotes, share: f64) -> Nanos {
        Nanos::from_ns((votes.time_ns(share) + self.arrival.bias_ns()).max(0.0) as u64)
    }

    /// No estimate from this share of the stroke on is less, nor with the bias of arrivals.
    pub(super) fn floor(&self, votes: &ArmVotes, share: f64) -> Nanos {
        Nanos::from_ns((votes.floor_ns(share) + self.arrival.bias_ns()).max(0.0) as u64)
    }

    /// What the map takes of memory; the layout of a profile left out, which is the profile's.
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

    /// AngleSamples that may be kept beside the map, at 64 bytes each with what a search for their
    /// meaning takes.
    pub(super) fn max_angle_samples(&self) -> usize {
        ((self.settings.memory.get() - MIN_MEMORY.get()) / 2 / 64).clamp(4_096, 1 << 20) as usize
    }

    /// The drive's size.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.drive.capacity
    }
}

/// The part of the stroke between two places of a drive without geometry.
pub(crate) fn share(from: Position, to: Position) -> f64 {
    f64::from(from.cylinder.abs_diff(to.cylinder)) / f64::from(BANDS)
}

/// Tables of angles, votes and tails, and a search at work.
const MIN_MEMORY: ByteSize = ByteSize::new(8 << 20);
