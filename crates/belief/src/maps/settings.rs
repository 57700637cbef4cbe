//! [`MapSettings`]: the kind and size of a drive's map, and the drive model that begins with it.
//!
//! A matrix begins empty. A compact map begins with the profile if there is one, otherwise with the
//! drive's size and nominal speed. The speed cannot be guessed: a drive of 5,400 rpm and one of
//! 7,200 rpm look alike until many reads have been timed. A saved map is resumed with its own cells
//! and entries.

use std::fmt;
use std::str::FromStr;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::Belief;
use headtime_units::{ByteRange, ByteSize, RotationPeriod};

use super::kept::{KeptMap, KeptMapError};
use crate::DriveModel;
use crate::compact::{CompactError, CompactMap, CompactSettings};
use crate::matrix::{
    Coverage, LatencyMatrix, MappedDrive, MatrixBelief, MatrixOptions, MatrixSettings, MatrixShape,
    ShapeError, SharedMatrix, WhenFull,
};

/// The kind of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// The published matrix: the worst time of each pair of cells.
    Matrix,
    /// The compact map: angles, arm times, residuals.
    Compact,
}

/// Settings of a map, beside its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct MapSettings {
    /// Settings of a matrix that begins empty; its `memory` and `coverage` are not used.
    pub matrix: MatrixSettings,
    /// Settings of a compact map; its `memory` is not used.
    pub compact: CompactSettings,
    /// The bytes of the drive that a new matrix covers; `None` for the cells that requests touch.
    pub region: Option<ByteRange>,
    /// The treatment of cells that a full matrix has no room for.
    pub full: WhenFull,
    /// Memory limit of the map, including the samples that it learns from.
    pub memory: ByteSize,
    /// True if a compact map begins with the profile, where there is one. Otherwise it begins with
    /// the size and the speed alone.
    pub from_profile: bool,
    /// The nominal speed in revolutions per minute, for a compact map without a profile; right to
    /// within 500 ppm.
    pub rpm: Option<f64>,
}

/// The reason why a drive cannot be modelled by a map. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BeginError {
    /// The saved map is invalid, or of another drive or kind.
    #[error(transparent)]
    Kept(#[from] KeptMapError),
    /// The matrix cannot have this shape.
    #[error(transparent)]
    Matrix(#[from] ShapeError),
    /// The compact map cannot have these settings.
    #[error(transparent)]
    Compact(#[from] CompactError),
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The rotational speed is not known.
    #[error(
        "a compact map that begins with nothing has to know how fast the platter turns: give rpm \
            (such as rpm=7200, from the drive's data sheet), or a profile"
    )]
    NoSpeed,
    /// The speed is out of range.
    #[error("rpm = {rpm}: no platter turns so; expected a number from 1000 to 30000")]
    Speed {
        /// The speed, as given.
        rpm: f64,
    },
}

impl Default for MapSettings {
    /// 64 MiB (as the compact map's target has it), cells and entries as published, the speed
    /// unknown.
    fn default() -> Self {
        Self {
            matrix: MatrixSettings::default(),
            compact: CompactSettings::default(),
            region: None,
            full: WhenFull::default(),
            memory: CompactSettings::default().memory,
            from_profile: true,
            rpm: None,
        }
    }
}

impl MapKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Matrix, Self::Compact];

    /// The name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Compact => "compact",
        }
    }
}

impl fmt::Display for MapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MapKind {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or(())
    }
}

impl MapSettings {
    /// Returns a drive model that uses a new map of this kind. The map begins with `profile` if
    /// there is one and the kind can use it.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn begin(
        &self,
        kind: MapKind,
        drive: &MappedDrive,
        profile: Option<&DriveProfile>,
    ) -> Result<Box<dyn Belief + Send>, BeginError> {
        match kind {
            MapKind::Matrix => Ok(self.begin_with(LatencyMatrix::new(self.shape(drive)?))),
            MapKind::Compact => {
                let settings = CompactSettings {
                    memory: self.memory,
                    sector_ns: self.compact.sector_ns * in_512(drive),
                    ..self.compact
                };
                let map = match profile {
                    Some(profile) if self.from_profile => {
                        CompactMap::of_profile(profile, settings)?
                    }
                    _ => CompactMap::unknown(drive.clone(), self.period(profile)?, settings)?,
                };
                Ok(Box::new(DriveModel::of_map(map)))
            }
        }
    }

    /// Returns a drive model that resumes a saved map, which must be of this kind and drive.
    ///
    /// # Errors
    /// [`BeginError::Kept`].
    pub fn resume(
        &self,
        kind: MapKind,
        drive: &MappedDrive,
        map: KeptMap,
    ) -> Result<Box<dyn Belief + Send>, BeginError> {
        if map.kind() != kind {
            return Err(KeptMapError::OtherKind { ours: kind, theirs: map.kind() }.into());
        }
        map.check_drive(drive)?;
        Ok(match map {
            KeptMap::Matrix(map) => self.begin_with(*map),
            KeptMap::Compact(map) => Box::new(DriveModel::of_map(*map)),
        })
    }

    /// The shape of a new matrix.
    fn shape(&self, drive: &MappedDrive) -> Result<MatrixShape, ShapeError> {
        let coverage = self.region.map(|range| Coverage::of_bytes(range, drive));
        let settings = MatrixSettings {
            memory: self.memory,
            coverage: coverage.unwrap_or_default(),
            ..self.matrix
        };
        MatrixShape::new(drive.clone(), &settings)
    }

    /// The first setting that a resumed map keeps otherwise than these settings request; `None` if
    /// it is as they request, or a compact map.
    #[must_use]
    pub fn ignored_for(&self, map: &KeptMap) -> Option<String> {
        let KeptMap::Matrix(map) = map else { return None };
        match self.shape(map.shape().drive()) {
            Ok(shape) => shape.check_same(map.shape()).err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn begin_with(&self, map: LatencyMatrix) -> Box<dyn Belief + Send> {
        Self::by_matrix(SharedMatrix::new(map.when_full(self.full)))
    }

    /// Returns a drive model that looks up and learns in a matrix, which others may share.
    #[must_use]
    pub fn by_matrix(map: SharedMatrix) -> Box<dyn Belief + Send> {
        let usual = MatrixOptions::default();
        let options =
            MatrixOptions { sector_ns: usual.sector_ns * in_512(map.shape().drive()), ..usual };
        Box::new(MatrixBelief::new(map, options))
    }

    fn period(&self, profile: Option<&DriveProfile>) -> Result<RotationPeriod, BeginError> {
        let rpm = match (self.rpm, profile) {
            (None, Some(profile)) => return Ok(profile.rotation_period()?),
            (rpm, _) => rpm.ok_or(BeginError::NoSpeed)?,
        };
        let possible = (1_000.0..=30_000.0).contains(&rpm);
        RotationPeriod::from_rpm(rpm).filter(|_| possible).ok_or(BeginError::Speed { rpm })
    }
}

/// The size of the drive's sectors in units of 512 bytes, for which media times are set.
fn in_512(drive: &MappedDrive) -> f64 {
    f64::from(drive.sector.bytes()) / 512.0
}

/// The drive of a profile, as maps name it.
///
/// # Errors
/// The profile's sector size is invalid.
pub fn mapped_drive(profile: &DriveProfile) -> Result<MappedDrive, ProfileError> {
    Ok(MappedDrive {
        model: profile.model.clone(),
        capacity: profile.capacity(),
        sector: profile.sector_size()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog;

    fn small() -> MapSettings {
        MapSettings { memory: ByteSize::new(16 << 20), ..MapSettings::default() }
    }

    fn bytes_of(map: &KeptMap) -> Vec<u8> {
        let mut bytes = Vec::new();
        map.encode_in_pieces(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn a_map_of_either_kind_is_created_saved_and_resumed() {
        let profile = catalog::load("atlas10k").expect("it ships");
        let drive = mapped_drive(&profile).expect("it has sectors");
        for kind in MapKind::ALL {
            let belief = small().begin(kind, &drive, Some(&profile)).expect("it can be mapped");
            let map = KeptMap::of(&*belief).expect("the belief has a map");
            assert_eq!((map.kind(), map.drive()), (kind, &drive));
            let bytes = bytes_of(&map);
            let kept = KeptMap::decode(&bytes, small().memory).expect("it was encoded");
            let again = small().resume(kind, &drive, kept.clone()).expect("it is of this drive");
            assert_eq!(bytes_of(&KeptMap::of(&*again).expect("the belief has a map")), bytes);
            let other =
                MapKind::ALL.into_iter().find(|other| *other != kind).expect("there are two");
            let message = small()
                .resume(other, &drive, kept.clone())
                .err()
                .expect("another kind")
                .to_string();
            assert!(message.contains(kind.name()) && message.contains(other.name()), "{message}");
            let elsewhere = MappedDrive { model: "another".into(), ..drive.clone() };
            let message =
                small().resume(kind, &elsewhere, kept).err().expect("another drive").to_string();
            assert!(message.contains("'another'") && message.contains(&drive.model), "{message}");
        }
        assert!(
            KeptMap::of(&*crate::of_profile(&profile).expect("it ships")).is_none(),
            "a profile is no map"
        );
        assert_eq!(crate::LinearBelief::new(profile.capacity()).report().samples, 0);
    }

    #[test]
    fn a_compact_map_without_a_profile_requires_the_speed() {
        let profile = catalog::load("atlas10k").expect("it ships");
        let drive = mapped_drive(&profile).expect("it has sectors");
        assert_eq!(small().begin(MapKind::Compact, &drive, None).err(), Some(BeginError::NoSpeed));
        let of =
            |rpm| MapSettings { rpm: Some(rpm), ..small() }.begin(MapKind::Compact, &drive, None);
        assert!(of(10_025.0).is_ok());
        let bare = MapSettings { from_profile: false, ..small() }
            .begin(MapKind::Compact, &drive, Some(&profile))
            .expect("the profile has a speed");
        assert!(matches!(KeptMap::of(&*bare), Some(KeptMap::Compact(map)) if !map.is_of_profile()));
        assert!(of(0.0).err().expect("it stands still").to_string().contains("1000 to 30000"));
        assert!(of(f64::NAN).is_err());
    }
}
