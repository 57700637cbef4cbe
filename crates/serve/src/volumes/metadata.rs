//! The choice between the slots, and the writes that replace a table. No I/O: bytes in,
//! [`MetadataStep`]s out.
//!
//! A change from table T to T′, with slot A holding (generation 6, T) and slot B (generation 7, T):
//!
//! ```text
//! write A (8, T′) · flush · write B (9, T′) · flush
//!   torn here ▲ B still says (7, T)    ▲ from here on A says (8, T′)
//! ```
//! A crash during the first write leaves T, a later crash leaves T′. The guarantee needs only that
//! a completed flush makes all earlier writes durable. Sectors of one write may reach the disk in
//! any order.
//!
//! Data read at startup may be in the drive's cache only, because the program that wrote it may
//! have died before its flush. Therefore a flush comes before the first write; without it a power
//! failure could leave both slots torn.
//!
//! The copy at the end of the drive is written last, when both slots are durable, and read only if
//! neither slot has a table. It restores a metadata area that was zeroed or damaged. An area with
//! foreign content is refused all the same: the drive may be in use for something else.
//!
//! The first table of a drive goes to slot B. A power failure may leave the block being written
//! unreadable, and a drive with an unreadable first sector cannot be recognized as empty.

use super::slot::{self, SLOT_BYTES, SlotContent};
use super::space::DriveShape;
use super::table::VolumeTable;
use super::uuid::DriveUuid;
use super::{AREA_BYTES, slot::SlotError};
use headtime_units::Sectors;

/// The current table and the slot of the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    table: VolumeTable,
    /// The highest generation on the drive.
    generation: u64,
    /// The slot that holds this generation.
    current: usize,
}

/// One operation on the drive. Each starts only after the previous one has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataStep {
    /// Writes `bytes`, a whole number of sectors, at byte `offset` of the drive.
    Write {
        /// The position in bytes.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
    /// As `Write`, but a failure loses the copy of the table only.
    WriteCopy {
        /// The position in bytes.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
    /// Makes all earlier writes durable.
    Flush,
}

/// An end of a drive, as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// [`AREA_BYTES`] bytes, with zeroes for unreadable sectors.
    pub bytes: Vec<u8>,
    /// The numbers of the unreadable sectors, counted from the start of the drive.
    pub unreadable: Vec<u64>,
}

/// An opened metadata area. Carry out the steps before any other use of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedMetadata {
    /// The metadata after the steps.
    pub metadata: Metadata,
    /// The steps; a single flush if both slots and the copy were valid.
    pub steps: Vec<MetadataStep>,
    /// The state of the table before the steps.
    pub opening: TableState,
}

/// The state of the table on a drive that could be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableState {
    /// All zeroes: a new drive.
    Fresh,
    /// Other content, which `initialize` allows to be overwritten.
    Initialized,
    /// A valid table in both slots.
    Whole,
    /// A valid table in one slot; the other is repaired. The text describes the damage.
    Repaired(String),
    /// No valid table in either slot; both are restored from the copy at the end of the drive. The
    /// text describes the damage.
    Restored(String),
}

/// The reason why a drive is not opened. Nothing has been written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum MetadataError {
    /// The drive is too small for the metadata and one volume.
    #[error(
        "the drive has {bytes} bytes; expected at least {} (1 MiB for the table of volumes, 1 MiB \
            for volumes, 1 MiB for the copy of the table); use a larger drive",
        MIN_DRIVE_BYTES
    )]
    TooSmall { bytes: u64 },
    /// The drive holds foreign data.
    #[error(
        "the drive holds other content: its {at} MiB is neither empty nor a table of volumes; \
         serve it as it is with `existing`; or check that it is the right drive, then allow \
         overwriting it with `initialize` (everything on it is lost)"
    )]
    Foreign { at: &'static str },
    /// The drive holds foreign data, and the copy of a table at its end.
    #[error(
        "the first MiB of the drive holds other content, but its last MiB has a copy of a table \
         with {volumes} volumes. To get these back, fill the first MiB with zeroes and start \
         again; to lose them, allow overwriting them with `initialize`"
    )]
    ForeignWithCopy { volumes: usize },
    /// Both slots and the copy are damaged.
    #[error(
        "all copies of the drive's table of volumes are damaged (copy A: {a}; copy B: {b}; copy at \
         the end: {end}); nothing was changed. Restore the first MiB of the drive from a backup, \
         or start over with `initialize` (all volumes are lost)"
    )]
    Damaged { a: String, b: String, end: String },
    /// A newer program wrote the table.
    #[error(
        "the drive's table of volumes has format {version}; this program knows format {}; use a \
            newer program",
        slot::FORMAT_VERSION
    )]
    Unsupported { version: u32 },
    /// The sector size has changed.
    #[error(
        "the drive has sectors of {drive} bytes, but its table of volumes was written for \
            sectors of {table}; serve it with the sector size of its initialization"
    )]
    SectorSize { drive: u32, table: u32 },
    #[error(
        "the drive has {drive} sectors, but its table of volumes was written for {table}: it was \
            truncated, or copied incompletely; serve it at its full size"
    )]
    Shrunk { drive: u64, table: u64 },
}

impl Metadata {
    /// Opens the metadata of a drive of `shape` from its first and its last [`AREA_BYTES`].
    /// `initialize` allows content without a valid table in the first to be overwritten. `fresh` is
    /// the UUID for a drive that gets its first table.
    ///
    /// # Errors
    /// [`MetadataError`]; nothing is written then.
    ///
    /// # Panics
    /// If an area has another length and the drive is large enough.
    pub fn open(
        first: &Area,
        last: &Area,
        shape: DriveShape,
        initialize: bool,
        fresh: DriveUuid,
    ) -> Result<OpenedMetadata, MetadataError> {
        let drive_bytes = shape.sector.bytes_of(shape.capacity);
        if drive_bytes < MIN_DRIVE_BYTES {
            return Err(MetadataError::TooSmall { bytes: drive_bytes });
        }
        let slots = [0, 1].map(|index| first.slot(0, slot_offset(index), shape));
        let copy_at = drive_bytes - AREA_BYTES;
        let copy = last.slot(copy_at, copy_at, shape);
        if let Some(version) = slots.iter().find_map(unsupported) {
            return Err(MetadataError::Unsupported { version });
        }
        let newest = (0..2).filter_map(|index| Some((generation(&slots[index])?, index))).max();
        let Some((newest_generation, current)) = newest else {
            return Self::without_slots(first, last, &slots, copy, shape, initialize, fresh);
        };
        let [a, b] = &slots;
        let (own, other) = if current == 0 { (a, b) } else { (b, a) };
        let SlotContent::Table { table, .. } = own else {
            unreachable!("only tables have a generation")
        };
        let mut metadata = Self {
            table: checked_shape(table.clone(), shape)?,
            generation: newest_generation,
            current,
        };
        let mut steps = vec![MetadataStep::Flush];
        let opening = match other {
            SlotContent::Table { table: same, .. } if same == table => TableState::Whole,
            other => {
                let (repaired, repair) = metadata.repair();
                metadata = repaired;
                steps.extend(repair);
                TableState::Repaired(fault(other))
            }
        };
        if !matches!(&copy, SlotContent::Table { table, .. } if *table == metadata.table) {
            steps.extend(metadata.write_copy());
        }
        Ok(OpenedMetadata { metadata, steps, opening })
    }

    /// Opens a drive without a valid table in either slot.
    fn without_slots(
        first: &Area,
        last: &Area,
        slots: &[SlotContent; 2],
        copy: SlotContent,
        shape: DriveShape,
        initialize: bool,
        fresh: DriveUuid,
    ) -> Result<OpenedMetadata, MetadataError> {
        // A drive is also blank if the power failed during the write of its first table to slot B.
        let first_table = slot_bytes(1);
        let readable = first
            .unreadable
            .iter()
            .all(|sector| first_table.contains(&shape.sector.bytes_of(Sectors::new(*sector))));
        let first_is_blank = readable && first.is_zero();
        let nothing = Self { table: VolumeTable::empty(fresh, shape), generation: 0, current: 0 };
        let (opening, before) = match copy {
            _ if initialize => (TableState::Initialized, nothing),
            SlotContent::Unsupported { version } => {
                return Err(MetadataError::Unsupported { version });
            }
            SlotContent::Table { generation, table } => {
                if !first_is_blank && !slots.iter().any(is_damaged) {
                    return Err(MetadataError::ForeignWithCopy { volumes: table.volumes().len() });
                }
                let [a, b] = slots.each_ref().map(fault);
                let table = checked_shape(table, shape)?;
                let damage = format!("copy A: {a}; copy B: {b}");
                (TableState::Restored(damage), Self { table, generation, current: 0 })
            }
            _ if first_is_blank && last.is_zero() => (TableState::Fresh, nothing),
            copy if slots.iter().any(is_damaged) || (first_is_blank && is_damaged(&copy)) => {
                let [a, b] = slots.each_ref().map(fault);
                return Err(MetadataError::Damaged { a, b, end: fault(&copy) });
            }
            _ => {
                let at = if first_is_blank { "last" } else { "first" };
                return Err(MetadataError::Foreign { at });
            }
        };
        let opening = match opening {
            TableState::Initialized if first_is_blank && last.is_zero() => TableState::Fresh,
            other => other,
        };
        let (metadata, steps) = before.plan(before.table.clone());
        Ok(OpenedMetadata { metadata, steps, opening })
    }

    /// The current table, to set what is not on the drive.
    pub(super) fn table_mut(&mut self) -> &mut VolumeTable {
        &mut self.table
    }

    /// The current table.
    #[must_use]
    pub fn table(&self) -> &VolumeTable {
        &self.table
    }

    /// The steps that make `table` current, and the metadata after them.
    #[must_use]
    pub fn plan(&self, table: VolumeTable) -> (Self, Vec<MetadataStep>) {
        let older = 1 - self.current;
        let next = Self { table, generation: self.generation + 1, current: older };
        let (after, mut rest) = next.repair();
        let mut steps = next.write();
        steps.append(&mut rest);
        steps.extend(after.write_copy());
        (after, steps)
    }

    /// The metadata after a [plan](Metadata::plan) failed at `step` and this table stays current. A
    /// new plan then writes the slot first that may be damaged, with a generation above all that
    /// may be on the drive.
    #[must_use]
    pub fn after_failure(&self, step: usize) -> Self {
        let first_slot_is_whole = step > FIRST_FLUSH;
        let current = if first_slot_is_whole { 1 - self.current } else { self.current };
        Self {
            table: self.table.clone(),
            generation: self.generation + if first_slot_is_whole { 2 } else { 1 },
            current,
        }
    }

    /// The steps that update the other slot.
    fn repair(&self) -> (Self, Vec<MetadataStep>) {
        let after = Self {
            table: self.table.clone(),
            generation: self.generation + 1,
            current: 1 - self.current,
        };
        let steps = after.write();
        (after, steps)
    }

    /// The steps that write the copy at the end of the drive, if it has room.
    fn write_copy(&self) -> impl Iterator<Item = MetadataStep> {
        let copy = self.table.copy_offset().map(|offset| MetadataStep::WriteCopy {
            offset,
            bytes: slot::encode(&self.table, self.generation),
        });
        let flush = copy.as_ref().map(|_| MetadataStep::Flush);
        copy.into_iter().chain(flush)
    }

    fn write(&self) -> Vec<MetadataStep> {
        vec![
            MetadataStep::Write {
                offset: slot_offset(self.current),
                bytes: slot::encode(&self.table, self.generation),
            },
            MetadataStep::Flush,
        ]
    }
}

impl Area {
    /// The content of the slot at byte `offset` of the drive; the area starts at byte `start`.
    fn slot(&self, start: u64, offset: u64, shape: DriveShape) -> SlotContent {
        assert_eq!(self.bytes.len() as u64, AREA_BYTES, "the whole area is read");
        let from = (offset - start) as usize;
        match slot::decode(&self.bytes[from..from + SLOT_BYTES]) {
            // The checksum and length are valid, so the unreadable sectors lie after the table.
            whole @ (SlotContent::Table { .. } | SlotContent::Unsupported { .. }) => whole,
            other => {
                let inside = |sector: &u64| {
                    (offset..offset + SLOT_BYTES as u64)
                        .contains(&shape.sector.bytes_of(Sectors::new(*sector)))
                };
                let lost = self.unreadable.iter().copied().find(inside);
                lost.map_or(other, |sector| SlotContent::Unreadable { sector })
            }
        }
    }

    fn is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }
}

/// The smallest drive: the metadata, one volume of a mebibyte, and the copy.
const MIN_DRIVE_BYTES: u64 = 3 * AREA_BYTES;

/// The index of the step after which the first written slot is durable.
const FIRST_FLUSH: usize = 1;

/// The byte range of a slot on the drive.
fn slot_bytes(index: usize) -> std::ops::Range<u64> {
    slot_offset(index)..slot_offset(index) + SLOT_BYTES as u64
}

/// The byte offset of a slot on the drive.
fn slot_offset(index: usize) -> u64 {
    index as u64 * (AREA_BYTES / 2)
}

fn generation(content: &SlotContent) -> Option<u64> {
    if let SlotContent::Table { generation, .. } = content { Some(*generation) } else { None }
}

fn unsupported(content: &SlotContent) -> Option<u32> {
    if let SlotContent::Unsupported { version } = content { Some(*version) } else { None }
}

fn is_damaged(content: &SlotContent) -> bool {
    matches!(content, SlotContent::Damaged(_) | SlotContent::Unreadable { .. })
}

fn fault(content: &SlotContent) -> String {
    match content {
        SlotContent::Blank => "empty".to_string(),
        SlotContent::Foreign => "overwritten by something else".to_string(),
        SlotContent::Damaged(SlotError::Checksum { stored, computed }) => {
            format!("torn or corrupted: checksum {computed:#010x}, not {stored:#010x}")
        }
        SlotContent::Damaged(error) => error.to_string(),
        SlotContent::Unreadable { sector } => format!("sector {sector} cannot be read"),
        SlotContent::Unsupported { version } => format!("format {version}"),
        SlotContent::Table { generation, .. } => format!("older: generation {generation}"),
    }
}

fn checked_shape(table: VolumeTable, shape: DriveShape) -> Result<VolumeTable, MetadataError> {
    let known = table.shape();
    if known.sector != shape.sector {
        return Err(MetadataError::SectorSize {
            drive: shape.sector.bytes(),
            table: known.sector.bytes(),
        });
    }
    if known.capacity > shape.capacity {
        return Err(MetadataError::Shrunk {
            drive: shape.capacity.get(),
            table: known.capacity.get(),
        });
    }
    Ok(table.with_capacity(shape.capacity))
}

#[cfg(test)]
mod tests;
