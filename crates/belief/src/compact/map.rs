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

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_units::{ByteSize, Extent, Lba, Nanos, RotationPeriod, Sectors};

use super::arm::ArmVotes;
use super::places::{OfProfile, Places, is_unknown, position};
use super::strips::Strips;
use super::worst::Tails;
use crate::angles::AngleMap;
use crate::arrival::Arrival;
use crate::matrix::MappedDrive;
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
    pub(super) settings: CompactSettings,
    pub(super) period: RotationPeriod,
    pub(super) places: Places,
    /// What angles differ by region from what places say.
    pub(super) angles: AngleMap,
    pub(super) arm: Arm,
    /// Bias and spread of arrivals, over all distances.
    pub(super) arrival: Arrival,
    pub(super) tails: Tails,
    /// Sectors that lie elsewhere than places say.
    pub(super) moved: Moved,
}

/// Arm times.
#[derive(Clone, Debug)]
pub(super) enum Arm {
    /// What differs from the profile's curve.
    Profile(Box<SeekResiduals>),
    Votes(Box<ArmVotes>),
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
        let of = OfProfile::new(profile)?;
        let drive = MappedDrive {
            model: profile.model.clone(),
            capacity: profile.capacity(),
            sector: profile.sector_size()?,
        };
        let (period, cylinders) = (of.mechanism.period(), of.layout().cylinders());
        Self::with(
            drive,
            settings,
            period,
            Places::Profile(Box::new(of)),
            Arm::Profile(Box::new(SeekResiduals::new(cylinders))),
        )
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
        let arm = Arm::Votes(Box::new(ArmVotes::new(period.as_nanos())));
        Self::with(drive, settings, period, Places::Strips(Strips::default()), arm)
    }

    fn with(
        drive: MappedDrive,
        settings: CompactSettings,
        period: RotationPeriod,
        places: Places,
        arm: Arm,
    ) -> Result<Self, CompactError> {
        if drive.capacity.is_zero() {
            return Err(CompactError::Empty);
        }
        if settings.memory < MIN_MEMORY {
            return Err(CompactError::Memory { memory: settings.memory, least: MIN_MEMORY });
        }
        let (angles, tails, moved) =
            (AngleMap::new(drive.capacity), Tails::new(drive.capacity), places.none_moved());
        Ok(Self {
            drive,
            settings,
            period,
            places,
            angles,
            arm,
            arrival: Arrival::new(),
            tails,
            moved,
        })
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
        self.places.is_profile()
    }

    /// Stretches of addresses that were found to lie otherwise than a profile says, or whose angles
    /// were found without one.
    #[must_use]
    pub fn regions(&self) -> usize {
        match &self.places {
            Places::Profile(of) => of.shifts.rows().len(),
            Places::Strips(strips) => strips.strips().len(),
        }
    }

    /// The share of addresses whose angle is known.
    #[must_use]
    pub fn known_share(&self) -> f64 {
        match &self.places {
            Places::Profile(_) => 1.0,
            Places::Strips(strips) => {
                strips.strips().iter().map(|strip| (strip.end - strip.first) as f64).sum::<f64>()
                    / self.drive.capacity.get() as f64
            }
        }
    }

    /// By how many sectors addresses from `.0` on lie further on than the profile says, by `.1`;
    /// empty for a map without one.
    pub fn shifts(&self) -> impl Iterator<Item = (Lba, i64)> + '_ {
        let rows = match &self.places {
            Places::Profile(of) => of.shifts.rows(),
            Places::Strips(_) => &[],
        };
        rows.iter().map(|row| (Lba::new(row.first), row.sectors))
    }

    /// Reads of sectors that lie elsewhere than a profile, or what was found without one, says; for
    /// each row of sectors of which it is known a few are kept.
    #[must_use]
    pub fn moved_sights(&self) -> usize {
        self.moved.sights()
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
            (self.places.end(from, capacity), self.places.start(to, capacity));
        here.angle += self.angles.offset(from);
        there.angle += self.angles.offset(to);
        (here, there) = (self.moved.end(from, here), self.moved.start(to, there));
        if is_unknown(here) || is_unknown(there) {
            return None;
        }
        let turn = self.period.as_nanos();
        let (arm, moves) = self.arm_time(here, there, false);
        let mut wait = self.period.time_of(here.angle.until(there.angle)).as_ns() as i128
            - i128::from(arm.as_ns());
        if wait < 0 {
            let turn = i128::from(turn.as_ns().max(1));
            wait += turn * (-wait + turn - 1).div_euclid(turn);
        }
        let wait = Nanos::from_ns(wait as u64);
        Some(self.priced(to, arm, wait, moves, self.arrival.spread()))
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
            self.moved.end(from, self.places.end(from, capacity)),
            self.moved.start(to, self.places.start(to, capacity)),
        );
        self.arm_time(here, there, false).0
    }

    /// What an arm time and a wait are expected to be and at worst.
    pub(super) fn priced(
        &self,
        to: Lba,
        arm: Nanos,
        wait: Nanos,
        moves: bool,
        spread: Nanos,
    ) -> PairTime {
        let turn = self.period.as_nanos();
        let positioning = arm + wait;
        let slip = if moves { Arrival::expected_slip(wait, turn, spread) } else { 0.0 };
        let expected = Nanos::from_ns(
            positioning.as_ns().saturating_add_signed((slip * turn.as_ns() as f64) as i64),
        )
        .max(arm);
        let worst = match self.tails.quantile(to, self.settings.worst_share, turn) {
            Some(late) => positioning + late,
            None => arm + turn + spread * 4,
        };
        PairTime { expected, worst: worst.max(positioning).max(expected) }
    }

    /// The most likely time of the arm, and whether it moves at all.
    pub(super) fn arm_time(
        &self,
        from: headtime_sched::Position,
        to: headtime_sched::Position,
        writes: bool,
    ) -> (Nanos, bool) {
        match (&self.places, &self.arm) {
            (Places::Profile(of), Arm::Profile(seeks)) => {
                let direction = if writes {
                    headtime_mechanics::Direction::Write
                } else {
                    headtime_mechanics::Direction::Read
                };
                let nominal = of.mechanism.arm_time(position(from), position(to), direction);
                if nominal.is_zero() {
                    return (nominal, false);
                }
                let movement =
                    Movement { from_cylinder: from.cylinder, to_cylinder: to.cylinder, writes };
                let learned = self.arrival.bias_ns() + seeks.offset_ns(movement);
                (Nanos::from_ns(nominal.as_ns().saturating_add_signed(learned as i64)), true)
            }
            (_, Arm::Votes(votes)) => (self.voted(votes, share(from, to)), true),
            (Places::Strips(_), Arm::Profile(_)) => {
                unreachable!("a map without a profile has no residuals against one")
            }
        }
    }

    /// What votes say of a share of the stroke, with the bias of arrivals.
    pub(super) fn voted(&self, votes: &ArmVotes, share: f64) -> Nanos {
        Nanos::from_ns((votes.time_ns(share) + self.arrival.bias_ns()).max(0.0) as u64)
    }

    /// No estimate from this share of the stroke on is less, nor with the bias of arrivals.
    pub(super) fn floor(&self, votes: &ArmVotes, share: f64) -> Nanos {
        Nanos::from_ns((votes.floor_ns(share) + self.arrival.bias_ns()).max(0.0) as u64)
    }

    /// The transfer time of the sectors.
    pub(super) fn transfer(&self, extent: Extent) -> Nanos {
        self.places.transfer(extent, self.period.as_nanos(), self.settings.sector_ns)
    }

    /// What the map takes of memory; the layout of a profile left out, which is the profile's.
    #[must_use]
    pub fn memory(&self) -> ByteSize {
        let places = match &self.places {
            Places::Profile(of) => size_of_val(of.shifts.rows()),
            Places::Strips(strips) => strips.strips().len() * super::strips::STRIP_BYTES as usize,
        };
        let arm = match &self.arm {
            Arm::Profile(seeks) => seeks.memory(),
            Arm::Votes(votes) => votes.memory(),
        };
        ByteSize::new(
            places as u64 + arm + self.angles.memory() + self.tails.memory() + self.moved.memory(),
        )
    }

    /// Sights that may be kept beside the map, at 64 bytes each with what a search for their
    /// meaning takes.
    pub(super) fn max_sights(&self) -> usize {
        ((self.settings.memory.get() - MIN_MEMORY.get()) / 2 / 64).clamp(4_096, 1 << 20) as usize
    }

    /// The drive's size.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.drive.capacity
    }
}

/// The part of the stroke between two places of a drive without geometry.
pub(super) fn share(from: headtime_sched::Position, to: headtime_sched::Position) -> f64 {
    f64::from(from.cylinder.abs_diff(to.cylinder)) / f64::from(super::places::BANDS)
}

/// Tables of angles, votes and tails, and a search at work.
const MIN_MEMORY: ByteSize = ByteSize::new(8 << 20);
