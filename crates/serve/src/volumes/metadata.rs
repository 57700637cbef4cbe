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
    /// The drive has shrunk.
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
mod tests {
    use super::*;
    use crate::volumes::{SettingsChange, VolumeOrigin, VolumeSpec};
    use headtime_units::{ByteSize, Extent, Nanos, SectorSize};
    use proptest::prelude::*;

    const SHAPE: DriveShape =
        DriveShape { sector: SectorSize::B512, capacity: Sectors::new(64 * 2048) };
    const UUID: DriveUuid = DriveUuid([9; 16]);

    /// A drive that can lose power: its first MiB, and after it its last.
    #[derive(Clone)]
    struct Platter(Vec<u8>);

    impl Platter {
        fn new() -> Self {
            Self(vec![0; 2 * AREA_BYTES as usize])
        }

        fn open(&self, initialize: bool) -> Result<OpenedMetadata, MetadataError> {
            self.open_as(SHAPE, initialize)
        }

        fn open_as(
            &self,
            shape: DriveShape,
            initialize: bool,
        ) -> Result<OpenedMetadata, MetadataError> {
            let (first, last) = self.0.split_at(AREA_BYTES as usize);
            let [first, last] =
                [first, last].map(|part| Area { bytes: part.to_vec(), unreadable: Vec::new() });
            Metadata::open(&first, &last, shape, initialize, UUID)
        }

        fn carry_out(&mut self, steps: &[MetadataStep]) {
            self.carry_out_until(steps, usize::MAX, |_| true);
        }

        /// Carries out `steps` up to sector number `sectors`. For the interrupted write, `lands`
        /// selects the later sectors that were written all the same. Returns whether everything was
        /// carried out.
        fn carry_out_until(
            &mut self,
            steps: &[MetadataStep],
            mut sectors: usize,
            mut lands: impl FnMut(usize) -> bool,
        ) -> bool {
            for step in steps {
                let (offset, bytes) = match step {
                    MetadataStep::Write { offset, bytes } => (*offset, bytes),
                    MetadataStep::WriteCopy { offset, bytes } => {
                        assert_eq!(*offset, SHAPE.sector.bytes_of(SHAPE.capacity) - AREA_BYTES);
                        (AREA_BYTES, bytes)
                    }
                    MetadataStep::Flush => continue,
                };
                let torn = bytes.len() / 512 > sectors;
                for (index, sector) in bytes.chunks(512).enumerate() {
                    if index < sectors || lands(index) {
                        self.0[offset as usize + index * 512..][..512].copy_from_slice(sector);
                    }
                }
                if torn {
                    return false;
                }
                sectors -= bytes.len() / 512;
            }
            true
        }
    }

    fn spec(name: &str, mebibytes: u64, deadline_ms: u64) -> VolumeSpec {
        let deadline = (deadline_ms > 0).then(|| Nanos::from_ms(deadline_ms));
        VolumeSpec {
            name: name.to_string(),
            size: Some(ByteSize::new(mebibytes << 20)),
            settings: SettingsChange { deadline: Some(deadline), ..SettingsChange::default() },
        }
    }

    fn with_volume(metadata: &Metadata, name: &str) -> (Metadata, Vec<MetadataStep>) {
        let mut table = metadata.table().clone();
        table.ensure(&spec(name, 3, 0)).unwrap();
        metadata.plan(table)
    }

    fn drive_with_volume() -> (Platter, Metadata) {
        let mut platter = Platter::new();
        let opened = platter.open(false).unwrap();
        assert_eq!(opened.opening, TableState::Fresh);
        platter.carry_out(&opened.steps);
        let (metadata, steps) = with_volume(&opened.metadata, "rec");
        platter.carry_out(&steps);
        (platter, metadata)
    }

    #[test]
    fn a_fresh_drive_gets_a_table_that_is_whole_when_opened_again() {
        let (platter, metadata) = drive_with_volume();
        let again = platter.open(false).unwrap();
        assert_eq!(
            again,
            OpenedMetadata {
                metadata,
                steps: vec![MetadataStep::Flush],
                opening: TableState::Whole
            }
        );
        assert_eq!(again.metadata.table().uuid(), UUID);
    }

    #[test]
    fn every_write_is_followed_by_a_flush_and_the_slot_that_counts_is_never_written_first() {
        let (_, metadata) = drive_with_volume();
        let (_, steps) = with_volume(&metadata, "more");
        let [
            MetadataStep::Write { offset: first, .. },
            MetadataStep::Flush,
            MetadataStep::Write { offset: second, .. },
            MetadataStep::Flush,
            MetadataStep::WriteCopy { .. },
            MetadataStep::Flush,
        ] = &steps[..]
        else {
            panic!("{steps:?}")
        };
        assert_eq!(
            (*first, *second),
            (slot_offset(1 - metadata.current), slot_offset(metadata.current))
        );
    }

    #[test]
    fn other_content_is_refused_until_initialize_allows_it() {
        let mut platter = Platter::new();
        platter.0[700_000] = 1;
        assert_eq!(platter.open(false), Err(MetadataError::Foreign { at: "first" }));
        let opened = platter.open(true).unwrap();
        assert_eq!(opened.opening, TableState::Initialized);
        platter.carry_out(&opened.steps);
        assert_eq!(platter.open(false).unwrap().opening, TableState::Whole);
    }

    #[test]
    fn initialize_leaves_a_valid_table_alone() {
        let (platter, metadata) = drive_with_volume();
        assert_eq!(platter.open(true).unwrap().metadata, metadata);
    }

    #[test]
    fn one_rotten_slot_is_repaired_two_are_restored_from_the_copy_and_three_are_refused() {
        let (whole, metadata) = drive_with_volume();
        for index in 0..2 {
            let mut platter = Platter(whole.0.clone());
            platter.0[slot_offset(index) as usize + 300] ^= 4;
            let opened = platter.open(false).unwrap();
            assert_eq!(opened.metadata.table(), metadata.table());
            assert!(
                matches!(&opened.opening, TableState::Repaired(text) if text.contains("checksum")),
                "{:?}",
                opened.opening
            );
            platter.carry_out(&opened.steps);
            assert_eq!(platter.open(false).unwrap().opening, TableState::Whole);
        }
        let mut platter = whole;
        platter.0[300] ^= 4;
        platter.0[slot_offset(1) as usize + 300] ^= 4;
        assert!(matches!(platter.open(false).unwrap().opening, TableState::Restored(_)));
        platter.0[AREA_BYTES as usize + 300] ^= 4;
        let text = platter.open(false).unwrap_err().to_string();
        assert!(text.starts_with("all copies") && text.contains("initialize"), "{text}");
        assert_eq!(platter.open(true).unwrap().metadata.table().volumes(), []);
    }

    #[test]
    fn a_drive_of_another_shape_is_refused_and_a_grown_one_accepted() {
        let (platter, _) = drive_with_volume();
        let open = |shape| platter.open_as(shape, false);
        let sectors = |capacity| DriveShape { capacity: Sectors::new(capacity), ..SHAPE };
        assert!(matches!(open(sectors(63 * 2048)), Err(MetadataError::Shrunk { .. })));
        assert!(matches!(open(sectors(6143)), Err(MetadataError::TooSmall { bytes: 3_145_216 })));
        assert!(matches!(
            open(DriveShape { sector: SectorSize::B4096, ..SHAPE }),
            Err(MetadataError::SectorSize { .. })
        ));
        let grown = open(sectors(65 * 2048)).unwrap();
        assert_eq!(grown.metadata.table().free().total, ByteSize::new(60 << 20));
    }

    #[test]
    fn a_zeroed_first_mib_is_restored_from_the_copy_and_foreign_content_is_not_overwritten() {
        let (mut platter, metadata) = drive_with_volume();
        platter.0[..AREA_BYTES as usize].fill(0);
        let mut foreign = platter.clone();
        let opened = platter.open(false).unwrap();
        assert!(matches!(opened.opening, TableState::Restored(_)), "{:?}", opened.opening);
        assert_eq!(opened.metadata.table(), metadata.table());
        platter.carry_out(&opened.steps);
        assert_eq!(platter.open(false).unwrap().opening, TableState::Whole);

        foreign.0[1_080] = 0x53;
        assert_eq!(foreign.open(false), Err(MetadataError::ForeignWithCopy { volumes: 1 }));
        let opened = foreign.open(true).unwrap();
        assert_eq!(
            (opened.opening, opened.metadata.table().volumes()),
            (TableState::Initialized, &[][..])
        );
    }

    #[test]
    fn content_at_the_end_alone_is_foreign_too() {
        let mut platter = Platter::new();
        platter.0[2 * AREA_BYTES as usize - 512] = 1;
        assert_eq!(platter.open(false), Err(MetadataError::Foreign { at: "last" }));
        assert_eq!(platter.open(true).unwrap().opening, TableState::Initialized);
    }

    #[test]
    fn a_lost_copy_is_written_again() {
        let (mut platter, metadata) = drive_with_volume();
        platter.0[AREA_BYTES as usize..].fill(0);
        let opened = platter.open(false).unwrap();
        assert_eq!((&opened.metadata, &opened.opening), (&metadata, &TableState::Whole));
        platter.carry_out(&opened.steps);
        platter.0[..AREA_BYTES as usize].fill(0);
        assert_eq!(platter.open(false).unwrap().metadata.table(), metadata.table());
    }

    #[test]
    fn a_volume_of_an_older_table_at_the_end_of_the_drive_keeps_its_sectors() {
        let extent = Extent::from_numbers(2048, 63 * 2048);
        let settings = crate::volumes::VolumeSettings::default();
        let id = headtime_sched::VolumeId(1);
        let extents = crate::volumes::Extents::from(extent);
        let volume = crate::volumes::Volume { id, name: "all".to_string(), extents, settings };
        let table =
            VolumeTable::from_parts(VolumeOrigin::Own, UUID, SHAPE, 2, vec![volume]).unwrap();
        let (_, steps) = Metadata { table, generation: 5, current: 0 }.repair();
        let mut platter = Platter::new();
        platter.carry_out(&steps);
        platter.0[AREA_BYTES as usize..].fill(7);
        let opened = platter.open(false).unwrap();
        platter.carry_out(&opened.steps);
        assert!(platter.0[AREA_BYTES as usize..].iter().all(|byte| *byte == 7));
        let table = opened.metadata.table();
        assert_eq!(
            (table.volumes()[0].extents.last(), table.free().total),
            (extent, ByteSize::new(0))
        );
    }

    /// A random change of the table.
    #[derive(Clone, Debug)]
    enum Change {
        Ensure { name: u8, mebibytes: u64, deadline_ms: u64 },
        Resize { name: u8, mebibytes: u64, cut_data: bool },
        Remove { name: u8 },
    }

    impl Change {
        /// The changed table; an invalid change leaves it unchanged.
        fn apply(&self, table: &VolumeTable) -> VolumeTable {
            let mut table = table.clone();
            let _refused = match self {
                Self::Ensure { name, mebibytes, deadline_ms } => {
                    table.ensure(&spec(&format!("v{name}"), *mebibytes, *deadline_ms)).is_err()
                }
                Self::Resize { name, mebibytes, cut_data } => {
                    table.change(&spec(&format!("v{name}"), *mebibytes, 0), *cut_data).is_err()
                }
                Self::Remove { name } => table.remove(&format!("v{name}")).is_err(),
            };
            table
        }
    }

    /// A change, and the number of sectors before the power failure, if there is one. `lands`
    /// selects sectors of the torn write that were written out of order.
    #[derive(Clone, Debug)]
    struct Round {
        change: Change,
        crash_after: Option<usize>,
        lands: u64,
    }

    fn rounds() -> impl Strategy<Value = Vec<Round>> {
        let change = prop_oneof![
            3 => (0_u8..8, 1_u64..20, 0_u64..3).prop_map(|(name, mebibytes, deadline_ms)| {
                Change::Ensure { name, mebibytes, deadline_ms }
            }),
            2 => (0_u8..8, 1_u64..40, any::<bool>()).prop_map(|(name, mebibytes, cut_data)| {
                Change::Resize { name, mebibytes, cut_data }
            }),
            1 => (0_u8..8).prop_map(|name| Change::Remove { name }),
        ];
        let round = (change, proptest::option::of(0_usize..24), prop_oneof![Just(0), any::<u64>()]);
        proptest::collection::vec(
            round.prop_map(|(change, crash_after, lands)| Round { change, crash_after, lands }),
            1..30,
        )
    }

    proptest! {
        #[test]
        fn a_crash_between_any_two_sector_writes_leaves_the_table_before_or_after(
            rounds in rounds(),
            first_crash in 0_usize..3,
        ) {
            let mut platter = Platter::new();
            let opened = platter.open(false).unwrap();
            platter.carry_out_until(&opened.steps, first_crash, |_| false);
            let mut metadata = reopen(&mut platter, Some(opened.metadata.table()), None)?;
            for Round { change, crash_after, lands } in rounds {
                let before = metadata.table().clone();
                let after = change.apply(&before);
                let (planned, steps) = metadata.plan(after.clone());
                let sectors = crash_after.unwrap_or(usize::MAX);
                let lands = |index: usize| lands >> (index % 64) & 1 == 1;
                let done = platter.carry_out_until(&steps, sectors, lands);
                metadata = reopen(&mut platter, (!done).then_some(&before), Some(&after))?;
                prop_assert!(!done || metadata == planned);
            }
        }
    }

    /// Opens and repairs the drive. It must find one of the tables, and never an older one after a
    /// repair.
    fn reopen(
        platter: &mut Platter,
        before: Option<&VolumeTable>,
        after: Option<&VolumeTable>,
    ) -> Result<Metadata, TestCaseError> {
        let opened = platter.open(false).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let table = opened.metadata.table();
        prop_assert!(
            before.into_iter().chain(after).any(|expected| expected == table),
            "{table:?}"
        );
        table.check().map_err(|error| TestCaseError::fail(error.to_string()))?;
        platter.carry_out(&opened.steps);
        let again = platter.open(false).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&again.opening, &TableState::Whole);
        prop_assert_eq!(again.metadata.table(), opened.metadata.table());
        Ok(opened.metadata)
    }
}
