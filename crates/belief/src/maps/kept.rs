//! [`KeptMap`]: a map of either kind, as it is saved in a file.

use headtime_sched::Belief;
use headtime_units::ByteSize;

use super::settings::MapKind;
use crate::DriveModel;
use crate::compact::{COMPACT_MAGIC, CompactDecodeError, CompactMap};
use crate::matrix::{DecodeError, LatencyMatrix, MappedDrive, MatrixBelief};

/// A map of either kind.
#[derive(Clone, Debug)]
pub enum KeptMap {
    /// The published matrix.
    Matrix(Box<LatencyMatrix>),
    /// The compact map.
    Compact(Box<CompactMap>),
}

/// The reason why bytes are not a map, or not one of the expected drive.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum KeptMapError {
    /// The bytes are neither a matrix nor a compact map.
    #[error(transparent)]
    Matrix(#[from] DecodeError),
    /// The bytes begin as a compact map and are invalid.
    #[error(transparent)]
    Compact(#[from] CompactDecodeError),
    /// The map is of another drive.
    #[error(
        "it is of drive model '{}' with {} of {} bytes, expected is '{}' with {} of {}; use a map \
            of the same model and size",
        theirs.model,
        theirs.capacity,
        theirs.sector.bytes(),
        ours.model,
        ours.capacity,
        ours.sector.bytes()
    )]
    OtherDrive { ours: Box<MappedDrive>, theirs: Box<MappedDrive> },
    #[error(
        "it is a {theirs} map, and the drive is modelled by a {ours} map; use one of that kind"
    )]
    OtherKind { ours: MapKind, theirs: MapKind },
}

impl KeptMap {
    /// A copy of the map of a drive model, with all its entries; `None` for a model without a map.
    #[must_use]
    pub fn of(belief: &dyn Belief) -> Option<Self> {
        let belief = belief.as_any();
        if let Some(model) = belief.downcast_ref::<DriveModel>() {
            return model.map().map(|map| Self::Compact(Box::new(map.clone())));
        }
        let belief = belief.downcast_ref::<MatrixBelief>()?;
        Some(Self::Matrix(Box::new(belief.map().inspect(LatencyMatrix::clone))))
    }

    /// Decodes a map of either kind, if it takes no more than `memory`.
    ///
    /// # Errors
    /// See [`KeptMapError`]; no memory is allocated for data that the bytes do not contain.
    pub fn decode(bytes: &[u8], memory: ByteSize) -> Result<Self, KeptMapError> {
        if bytes.starts_with(&COMPACT_MAGIC) {
            return Ok(Self::Compact(Box::new(CompactMap::decode(bytes, memory)?)));
        }
        Ok(Self::Matrix(Box::new(LatencyMatrix::decode(bytes, memory)?)))
    }

    /// Encodes the map piece by piece, so that a large matrix is not in memory twice.
    pub fn encode_in_pieces(&self, mut take: impl FnMut(&[u8])) {
        match self {
            Self::Matrix(map) => map.encode_in_pieces(take),
            Self::Compact(map) => take(&map.encode()),
        }
    }

    /// The drive of the map.
    #[must_use]
    pub fn drive(&self) -> &MappedDrive {
        match self {
            Self::Matrix(map) => map.shape().drive(),
            Self::Compact(map) => map.drive(),
        }
    }

    /// The kind of the map.
    #[must_use]
    pub fn kind(&self) -> MapKind {
        match self {
            Self::Matrix(_) => MapKind::Matrix,
            Self::Compact(_) => MapKind::Compact,
        }
    }

    /// Refuses a map of another drive.
    ///
    /// # Errors
    /// [`KeptMapError::OtherDrive`].
    pub fn check_drive(&self, ours: &MappedDrive) -> Result<(), KeptMapError> {
        let theirs = self.drive();
        if theirs == ours {
            Ok(())
        } else {
            Err(KeptMapError::OtherDrive {
                ours: Box::new(ours.clone()),
                theirs: Box::new(theirs.clone()),
            })
        }
    }
}
