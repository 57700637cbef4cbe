//! Conversion of a map to bytes and back. Files are the caller's task: it saves by writing a
//! temporary file, syncing and renaming.
//!
//! ```text
//! header   "HTLATMAP" · version · bytes of the header · drive, cells, scale, counts · model name
//!          · checksum of the header
//! body     numbers of the touched cells (unless a region is covered) · entries
//!          · samples and table of exceedances (if counted) · checksum of the body
//! ```
//! Numbers are little endian, checksums CRC-32C. Magic, version, length and checksum of the header
//! keep their position in every version, so that a newer file is distinguished from a damaged one.
//!
//! Guarantees: a decoded map answers every query like the encoded one. Truncated, damaged or newer
//! data, and maps of another drive or of other cells, are refused before anything is changed. No
//! memory is allocated for data that the bytes do not contain. Source: P1 section 4 (save and
//! restore).

use headtime_units::{ByteSize, Extent, Nanos, SectorSize, Sectors};

use super::cells::Cells;
use super::exceedance::Exceedance;
use super::map::LatencyMatrix;
use super::merge::{MergeError, same_cells};
use super::plane;
use super::scale::{EntryBits, Scale};
use super::shape::{
    Coverage, CoveredCells, Directions, MODEL_BYTES, MappedDrive, MatrixSettings, MatrixShape,
    ShapeError, entries_of,
};

/// Reasons why bytes are not a valid map. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum DecodeError {
    /// The magic number is missing.
    #[error(
        "this is no latency map: it does not begin with '{}'; name a file that `headtime map save` \
            wrote",
        MAGIC.escape_ascii()
    )]
    NotAMap,
    #[error(
        "the latency map has format {version}, this program knows {VERSION}; use a newer program, \
            or start empty"
    )]
    Newer { version: u32 },
    /// The data is truncated.
    #[error(
        "the latency map ends after {bytes} bytes, expected are at least {expected}: it was cut \
            off; save it again, or start empty"
    )]
    Truncated { bytes: u64, expected: u64 },
    /// The data is inconsistent.
    #[error("the latency map is damaged: {what}; restore it from a copy, or start empty")]
    Damaged { what: String },
    #[error(
        "the latency map takes {needs} of memory and may take {memory}; allow more, or start empty"
    )]
    Memory { needs: ByteSize, memory: ByteSize },
}

/// Reasons why a map is not restored from bytes. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum RestoreError {
    /// The bytes are not a valid map.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The map is of another drive, or in cells of another size.
    #[error(transparent)]
    Foreign(#[from] MergeError),
    /// The map differs from the settings.
    #[error(
        "the latency map has {setting} {theirs}, set is {ours}; set {setting} as the map has it, \
            merge the map instead, or start empty"
    )]
    OtherLayout { setting: &'static str, ours: String, theirs: String },
}

impl LatencyMatrix {
    /// Encodes the map.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // The capacity is reserved in advance, because repeated reallocation of a large map is
        // slow. Header and cells are small in comparison.
        let entries = self.entries.bytes()
            + self.samples.as_ref().map_or(0, |samples| samples.bytes() + Exceedance::BYTES);
        let mut bytes =
            Vec::with_capacity(entries as usize + self.cells.len() as usize * 4 + 2 * MODEL_BYTES);
        self.encode_in_pieces(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// Encodes the map piece by piece, so that a large map is written without a second copy in
    /// memory.
    pub fn encode_in_pieces(&self, mut take: impl FnMut(&[u8])) {
        take(&self.header());
        let mut checksum = 0;
        let mut body = |piece: &[u8]| {
            checksum = crc32c::crc32c_append(checksum, piece);
            take(piece);
        };
        if let Cells::Touched { cells, .. } = &self.cells {
            for some in cells.chunks(4_096) {
                body(&some.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>());
            }
        }
        self.entries.pieces().for_each(&mut body);
        if let Some(samples) = &self.samples {
            samples.pieces().for_each(&mut body);
            body(&self.exceedance.encode());
        }
        take(&checksum.to_le_bytes());
    }

    fn header(&self) -> Vec<u8> {
        let MatrixShape { drive, cell_sectors, scale, cells, count_samples, directions, .. } =
            &self.shape;
        let (coverage, first) = match cells {
            CoveredCells::Touched { .. } => (TOUCHED, 0),
            CoveredCells::Region { first, .. } => (REGION, *first),
        };
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend((FIXED_BYTES + drive.model.len() as u32 + 4).to_le_bytes());
        for number in [
            *cell_sectors,
            drive.capacity.get(),
            scale.step().as_ns(),
            self.longest_seen.as_ns(),
            self.observations,
        ] {
            header.extend(number.to_le_bytes());
        }
        for number in [drive.sector.bytes(), first, self.cells.len()] {
            header.extend(number.to_le_bytes());
        }
        header.extend([
            scale.bits().get() as u8,
            coverage,
            u8::from(*count_samples),
            u8::from(*directions == Directions::Both),
        ]);
        debug_assert_eq!(header.len(), FIXED_BYTES as usize);
        header.extend(drive.model.as_bytes());
        let checksum = crc32c::crc32c(&header);
        header.extend(checksum.to_le_bytes());
        header
    }

    /// Decodes a map, if it takes no more than `memory`.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8], memory: ByteSize) -> Result<Self, DecodeError> {
        let (header, body) = Header::split(bytes, memory)?;
        let expected = header.body_bytes() + 4;
        if (body.len() as u64) < expected {
            let before = (bytes.len() - body.len()) as u64;
            return Err(DecodeError::Truncated {
                bytes: bytes.len() as u64,
                expected: before + expected,
            });
        }
        if body.len() as u64 > expected {
            return Err(damaged(format!("{} bytes follow its end", body.len() as u64 - expected)));
        }
        let (mut body, checksum) = body.split_at(body.len() - 4);
        if crc32c::crc32c(body).to_le_bytes() != checksum {
            return Err(damaged("the checksum of its entries does not agree"));
        }
        let mut map = Self::new(header.shape);
        if let Cells::Touched { .. } = map.cells {
            let (numbers, rest) = body.split_at(header.rows as usize * 4);
            body = rest;
            for (row, number) in numbers.chunks_exact(4).enumerate() {
                let cell = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
                if cell >= map.shape.cells_on_drive()
                    || map.cells.row_or_new(cell) != Some(row as u32)
                {
                    return Err(damaged(format!(
                        "its cell number {row} is {cell}, which is not on the drive or there twice"
                    )));
                }
            }
            map.extend();
        }
        let (entries, counts) = body.split_at(map.entries.bytes() as usize);
        map.entries.fill(entries);
        if let Some(samples) = &mut map.samples {
            let (counts, exceedances) = counts.split_at(samples.bytes() as usize);
            samples.fill(counts);
            map.exceedance = Exceedance::decode(exceedances).ok_or_else(|| {
                damaged("its table of exceedances has more exceedances than trials")
            })?;
        }
        map.known = map.entries.count_set();
        (map.longest_seen, map.observations) = (header.longest_seen, header.observations);
        Ok(map)
    }

    /// Replaces this map by the decoded `bytes`, which must be of the same drive and layout. To add
    /// to this map, decode and [`LatencyMatrix::merge`].
    ///
    /// # Errors
    /// See [`RestoreError`]; nothing is changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        let restored = Self::decode(bytes, self.shape.memory).map_err(RestoreError::Decode)?;
        self.shape.check_same(&restored.shape)?;
        *self = restored.succeeding(self);
        Ok(())
    }
}

/// The fields before the entries.
struct Header {
    shape: MatrixShape,
    rows: u32,
    longest_seen: Nanos,
    observations: u64,
}

impl Header {
    /// Splits `bytes` into the header and the rest.
    fn split(bytes: &[u8], memory: ByteSize) -> Result<(Self, &[u8]), DecodeError> {
        let begun = bytes.len().min(MAGIC.len());
        if bytes[..begun] != MAGIC[..begun] || bytes.is_empty() {
            return Err(DecodeError::NotAMap);
        }
        let truncated = |expected: u32| DecodeError::Truncated {
            bytes: bytes.len() as u64,
            expected: u64::from(expected),
        };
        let number = |at: usize| {
            bytes
                .get(at..at + 4)
                .map(|number| u32::from_le_bytes([number[0], number[1], number[2], number[3]]))
        };
        let (Some(version), Some(length)) = (number(8), number(12)) else {
            return Err(truncated(FIXED_BYTES + 4));
        };
        if !(FIXED_BYTES + 4..=MAX_HEADER_BYTES).contains(&length) {
            return Err(damaged(format!("its header has a stated length of {length} bytes")));
        }
        let Some((header, body)) = bytes.split_at_checked(length as usize) else {
            return Err(truncated(length));
        };
        let (header, checksum) = header.split_at(header.len() - 4);
        if crc32c::crc32c(header).to_le_bytes() != checksum {
            return Err(damaged("the checksum of its header does not agree"));
        }
        if version > VERSION {
            return Err(DecodeError::Newer { version });
        }
        if version != VERSION {
            return Err(damaged(format!("its format is {version}, which has never been")));
        }
        Ok((Self::read(&header[16..], memory)?, body))
    }

    /// Reads the fields after magic, version and length; `fields` contains all fields of fixed
    /// length.
    fn read(fields: &[u8], memory: ByteSize) -> Result<Self, DecodeError> {
        let long = |place: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&fields[place * 8..][..8]);
            u64::from_le_bytes(number)
        };
        let short = |place: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&fields[40 + place * 4..][..4]);
            u32::from_le_bytes(number)
        };
        let (cell_sectors, capacity, step, longest_seen, observations) =
            (long(0), long(1), long(2), long(3), long(4));
        let (sector, first, rows) = (short(0), short(1), short(2));
        let [bits, coverage, count_samples, both_directions] =
            [fields[52], fields[53], fields[54], fields[55]];
        let model =
            std::str::from_utf8(&fields[56..]).map_err(|_| damaged("its model name is no text"))?;

        let sector = SectorSize::new(sector)
            .ok_or_else(|| damaged(format!("its sectors have {sector} bytes")))?;
        let bits = EntryBits::from_bits(u32::from(bits))
            .ok_or_else(|| damaged(format!("its entries have {bits} bits")))?;
        let scale = Scale::in_steps_of(Nanos::from_ns(step), bits)
            .ok_or_else(|| damaged(format!("its steps are {step} ns long")))?;
        let cell = cell_sectors
            .checked_mul(u64::from(sector.bytes()))
            .ok_or_else(|| damaged(format!("its cells have {cell_sectors} sectors")))?;
        if count_samples > 1 || both_directions > 1 {
            return Err(damaged("it says that it holds what is not known here"));
        }
        let coverage = match coverage {
            TOUCHED if first == 0 => Coverage::Touched,
            REGION => {
                let start = u64::from(first).saturating_mul(cell_sectors);
                let end = start
                    .saturating_add(u64::from(rows).saturating_mul(cell_sectors))
                    .min(capacity);
                Coverage::Region(Extent::from_numbers(start, end.saturating_sub(start)))
            }
            other => {
                return Err(damaged(format!(
                    "it covers cells in a way ({other}) that is not known here"
                )));
            }
        };
        let drive =
            MappedDrive { model: model.to_string(), capacity: Sectors::new(capacity), sector };
        let directions = if both_directions == 1 { Directions::Both } else { Directions::Worse };
        let (cell, longest, count_samples) =
            (ByteSize::new(cell), scale.reach(), count_samples == 1);
        let settings =
            MatrixSettings { cell, bits, longest, directions, coverage, count_samples, memory };
        let shape = MatrixShape::new(drive, &settings).map_err(|error| match error {
            ShapeError::Memory { needs, memory, .. } => DecodeError::Memory { needs, memory },
            other => damaged(other.to_string()),
        })?;
        match shape.cells {
            CoveredCells::Touched { most } if rows > most && rows <= shape.cells_on_drive() => {
                return Err(DecodeError::Memory { needs: shape.memory_of(rows), memory });
            }
            CoveredCells::Touched { most } if rows > most => {
                return Err(damaged(format!("it covers {rows} cells, more than the drive has")));
            }
            CoveredCells::Region { count, .. } if rows != count => {
                return Err(damaged(format!("it covers {rows} cells, more than its region has")));
            }
            _ => {}
        }
        Ok(Self { shape, rows, longest_seen: Nanos::from_ns(longest_seen), observations })
    }

    /// Bytes between the header and the checksum at the end.
    fn body_bytes(&self) -> u64 {
        let entries = entries_of(self.rows, self.shape.directions);
        let cells = if matches!(self.shape.cells, CoveredCells::Touched { .. }) {
            u64::from(self.rows) * 4
        } else {
            0
        };
        let samples = if self.shape.count_samples {
            plane::bytes_of(entries, EntryBits::Eight) + Exceedance::BYTES
        } else {
            0
        };
        cells + plane::bytes_of(entries, self.shape.scale.bits()) + samples
    }
}

impl MatrixShape {
    /// Checks that a map of shape `theirs` is of the same drive model, in the same cells and
    /// entries.
    ///
    /// # Errors
    /// [`RestoreError::Foreign`] and [`RestoreError::OtherLayout`].
    pub fn check_same(&self, theirs: &Self) -> Result<(), RestoreError> {
        same_cells(self, theirs).map_err(RestoreError::Foreign)?;
        same_layout(self, theirs)
    }
}

/// Checks that a map has the layout that is set, so that it can replace an empty one.
fn same_layout(ours: &MatrixShape, theirs: &MatrixShape) -> Result<(), RestoreError> {
    let covers = |shape: &MatrixShape| match shape.cells {
        CoveredCells::Touched { .. } => "the cells touched".to_string(),
        CoveredCells::Region { first, count } => format!("{count} cells from cell {first}"),
    };
    let counts = |shape: &MatrixShape| if shape.count_samples { "yes" } else { "no" }.to_string();
    let directions = |shape: &MatrixShape| {
        if shape.directions == Directions::Both { "both" } else { "worse" }.to_string()
    };
    let settings: [(&'static str, String, String); 5] = [
        ("bits", ours.scale.bits().get().to_string(), theirs.scale.bits().get().to_string()),
        ("step", ours.scale.step().to_string(), theirs.scale.step().to_string()),
        ("directions", directions(ours), directions(theirs)),
        ("coverage", covers(ours), covers(theirs)),
        ("count_samples", counts(ours), counts(theirs)),
    ];
    match settings.into_iter().find(|(_, ours, theirs)| ours != theirs) {
        Some((setting, ours, theirs)) => Err(RestoreError::OtherLayout { setting, ours, theirs }),
        None => Ok(()),
    }
}

fn damaged(what: impl Into<String>) -> DecodeError {
    DecodeError::Damaged { what: what.into() }
}

const MAGIC: [u8; 8] = *b"HTLATMAP";
/// The format version that is written.
const VERSION: u32 = 1;
/// Bytes of a header up to the model name.
const FIXED_BYTES: u32 = 72;
/// Maximum length of a header, in all versions.
const MAX_HEADER_BYTES: u32 = 65_536;
const TOUCHED: u8 = 0;
const REGION: u8 = 1;

#[cfg(test)]
mod tests;
