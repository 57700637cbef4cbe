//! [`Placement`]: maps bytes of a trace's devices to sectors of one drive.
//!
//! A request is always widened to whole sectors of the drive. The mappings of addresses
//! ([`Remap`]):
//! - *none*: unchanged, all devices at the same addresses; requests past the end of the drive do
//!   not fit.
//! - *wrap*: modulo the drive's size. Neighbors stay neighbors; far places may meet.
//! - *scale*: devices follow each other, are cut into about a thousand equal pieces (a
//!   power of two, at least 1 MiB), and the pieces spread evenly over the drive; within a piece
//!   addresses stay as they are. A sequential run breaks only where a piece ends, and 4 KiB
//!   alignment is kept. When the trace reaches further than the drive, pieces overlap.
//! - *compact*: only pieces (of 1 MiB, or larger powers of two where many are touched) that are
//!   read or written anywhere in the trace are kept, packed from the drive's beginning in the order
//!   of their addresses. Seeks become shorter than they were.
//!
//! Worked example of *scale*: a device of 1 GiB on a drive of 10 GB makes 1024 pieces of 1 MiB, one
//! every 9,765,625 bytes; piece 1 starts at 9,764,864, the multiple of 4096 below. A read of byte 1
//! MiB + 8192 becomes one of byte 9,773,056.
//!
//! Cost: a division, and for *compact* a binary search, for each record.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headtime_units::{Extent, SectorSize, Sectors};

use super::counts::{Counts, Misfit};
use super::record::TraceRecord;
use super::survey::{MIN_PIECE_BYTES, Survey};
use crate::source::Operation;

/// The mapping of addresses of a trace to addresses of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remap {
    /// Unchanged.
    #[default]
    None,
    /// Modulo the drive's size.
    Wrap,
    /// Spread over the drive in proportion.
    Scale,
    /// The accessed pieces, packed.
    Compact,
}

impl Remap {
    /// Returns true if a [`Survey`] of the whole trace is needed first.
    #[must_use]
    pub fn needs_survey(self) -> bool {
        matches!(self, Self::Scale | Self::Compact)
    }

    /// The survey that this mapping needs.
    #[must_use]
    pub fn survey(self) -> Survey {
        Survey::new(self == Self::Compact)
    }
}

/// The reason why addresses cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum PlaceError {
    /// The accessed pieces are larger than the drive.
    #[error(
        "the trace touches {touched_bytes} bytes in pieces of {piece_bytes}, more than the drive's \
            {capacity_bytes}; scale addresses or let them wrap"
    )]
    Touched { touched_bytes: u64, piece_bytes: u64, capacity_bytes: u64 },
    /// The mapping needs to know the whole trace.
    #[error("scaling and packing addresses need a first pass over the trace; survey it")]
    NotSurveyed,
    /// A drive without sectors.
    #[error("the drive has no sectors; a trace needs at least one")]
    NoSectors,
}

/// A mapping onto one drive.
#[derive(Clone, Debug)]
pub struct Placement {
    sector: SectorSize,
    capacity: Sectors,
    map: Map,
}

#[derive(Clone, Debug)]
enum Map {
    Stay,
    Wrap,
    Scale { piece_bytes: u64, pieces: u64, first_piece: Vec<(u32, u64)> },
    Compact { piece_bits: u32, pieces: Vec<(u32, u64)> },
}

/// Pieces start at multiples of this address of the drive, so that pages stay aligned.
const ALIGNMENT_BYTES: u64 = 4096;

/// The minimum number of pieces for scaling, except for small traces. A guess between long runs and
/// even spreading.
const PIECES: u64 = 1024;

impl Placement {
    /// A mapping onto a drive of `capacity` sectors of `sector` bytes.
    ///
    /// # Errors
    /// See [`PlaceError`].
    pub fn new(
        remap: Remap,
        sector: SectorSize,
        capacity: Sectors,
        survey: Option<&Survey>,
    ) -> Result<Self, PlaceError> {
        if capacity.is_zero() {
            return Err(PlaceError::NoSectors);
        }
        let capacity_bytes = bytes_of(sector, capacity);
        let map = match remap {
            Remap::None => Map::Stay,
            Remap::Wrap => Map::Wrap,
            Remap::Scale => scale(survey.ok_or(PlaceError::NotSurveyed)?),
            Remap::Compact => {
                let (pieces, piece_bits) =
                    survey.and_then(Survey::pieces).ok_or(PlaceError::NotSurveyed)?;
                let piece_bytes = 1_u64.checked_shl(piece_bits).unwrap_or(u64::MAX);
                let touched_bytes = (pieces.len() as u64).saturating_mul(piece_bytes);
                if touched_bytes > capacity_bytes {
                    return Err(PlaceError::Touched { touched_bytes, piece_bytes, capacity_bytes });
                }
                Map::Compact { piece_bits, pieces }
            }
        };
        Ok(Self { sector, capacity, map })
    }

    /// The sectors of a request that has any, and whether it was shortened or moved to fit.
    ///
    /// # Errors
    /// When it does not fit: past the end of the drive where addresses stay unchanged, or in no
    /// piece of the survey.
    pub fn place(&self, record: &TraceRecord) -> Result<(Extent, bool), Misfit> {
        let sector = u64::from(self.sector.bytes());
        let misfit = || Misfit::of(record, bytes_of(self.sector, self.capacity));
        let offset = self.offset(record).ok_or_else(misfit)?;
        let start = offset / sector;
        let len = (u128::from(offset % sector) + u128::from(record.len_bytes))
            .div_ceil(u128::from(sector));
        let capacity = self.capacity.get();
        let fits = u128::from(start) + len <= u128::from(capacity);
        if matches!(self.map, Map::Stay) && !fits {
            return Err(misfit());
        }
        let start = if matches!(self.map, Map::Wrap) { start % capacity } else { start };
        let requested = len;
        let len = u64::try_from(len).unwrap_or(u64::MAX).min(capacity);
        let moved = start.min(capacity - len);
        Ok((Extent::from_numbers(moved, len), u128::from(len) != requested || moved != start))
    }

    /// The address of the request's first byte on the drive, before wrapping.
    fn offset(&self, record: &TraceRecord) -> Option<u64> {
        let offset = record.offset_bytes;
        match &self.map {
            Map::Stay | Map::Wrap => Some(offset),
            Map::Scale { piece_bytes, pieces, first_piece } => {
                let device =
                    first_piece.binary_search_by_key(&record.device, |(device, _)| *device).ok()?;
                let piece = first_piece[device].1.checked_add(offset / piece_bytes)?;
                let spread = u128::from(bytes_of(self.sector, self.capacity)) * u128::from(piece)
                    / u128::from(*pieces);
                let start = u64::try_from(spread).ok()? / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
                start.checked_add(offset % piece_bytes)
            }
            Map::Compact { piece_bits, pieces } => {
                let piece = offset.checked_shr(*piece_bits).unwrap_or(0);
                let place = pieces.binary_search(&(record.device, piece)).ok()? as u64;
                Some((place << piece_bits) + (offset - (piece << piece_bits)))
            }
        }
    }
}

/// The bytes of the drive, at most 2^64 − 1.
fn bytes_of(sector: SectorSize, capacity: Sectors) -> u64 {
    capacity.get().saturating_mul(u64::from(sector.bytes()))
}

fn scale(survey: &Survey) -> Map {
    let total = survey.reaches().fold(0_u64, |sum, (_, reach)| sum.saturating_add(reach));
    let piece_bytes = (total / PIECES)
        .checked_ilog2()
        .map_or(MIN_PIECE_BYTES, |bits| 1 << bits)
        .max(MIN_PIECE_BYTES);
    let mut pieces = 0;
    let mut first_piece = Vec::new();
    for (device, reach) in survey.reaches() {
        first_piece.push((device, pieces));
        pieces += reach.div_ceil(piece_bytes);
    }
    Map::Scale { piece_bytes, pieces: pieces.max(1), first_piece }
}

/// A record with its sectors on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The record.
    pub record: TraceRecord,
    /// The sectors; empty only for a flush.
    pub extent: Extent,
}

/// Records with their sectors. A record that does not fit ends the iteration and is stored in the
/// counts, or such records are dropped.
#[derive(Debug)]
pub struct Placing<I> {
    records: I,
    placement: Placement,
    drop_misfits: bool,
    counts: Arc<Counts>,
    over: bool,
}

impl<I: Iterator<Item = TraceRecord>> Placing<I> {
    /// Places `records` and counts the changes in `counts`.
    pub fn new(records: I, placement: Placement, drop_misfits: bool, counts: Arc<Counts>) -> Self {
        Self { records, placement, drop_misfits, counts, over: false }
    }
}

impl<I: Iterator<Item = TraceRecord>> Iterator for Placing<I> {
    type Item = Placed;

    fn next(&mut self) -> Option<Placed> {
        while !self.over {
            let record = self.records.next()?;
            if record.operation == Operation::Flush {
                return Some(Placed { record, extent: Extent::from_numbers(0, 0) });
            }
            if record.len_bytes == 0 {
                self.counts.empty.add();
                continue;
            }
            match self.placement.place(&record) {
                Ok((extent, clipped)) => {
                    let sector = u64::from(self.placement.sector.bytes());
                    if record.offset_bytes % sector != 0 || record.len_bytes % sector != 0 {
                        self.counts.widened.add();
                    }
                    if clipped {
                        self.counts.clipped.add();
                    }
                    return Some(Placed { record, extent });
                }
                Err(_) if self.drop_misfits => self.counts.dropped.add(),
                Err(misfit) => {
                    self.counts.refuse(misfit);
                    self.over = true;
                }
            }
        }
        None
    }
}
