//! One slot of the metadata area: a table of volumes as bytes.
//!
//! All integers are little-endian; all bytes not named are zero. The header keeps its meaning in
//! every future version, so that an old program can distinguish a newer table from a damaged one.
//!
//! | offset | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic `HEADTIME` |
//! | 8 | 4 | format version: 2, 3 with several extents, 4 with weights; 1 is read as well |
//! | 12 | 4 | bytes of header and entries together |
//! | 16 | 4 | CRC-32C of those bytes, this field taken as zero |
//! | 20 | 4 | bytes of a logical sector |
//! | 24 | 8 | generation, from 1 |
//! | 32 | 8 | sectors of the drive |
//! | 40 | 16 | UUID of the drive |
//! | 56 | 4 | number the next new volume gets |
//! | 60 | 4 | number of entries |
//! | 256 | 256 each | entries |
//!
//! | offset | bytes | entry |
//! |---|---|---|
//! | 0 | 4 | number of the volume |
//! | 4 | 2 | bit 0: read-only; bit 1: served always (version 2) |
//! | 6 | 2 | weight, 0 = none (version 4; zero before) |
//! | 8 | 8 | first sector |
//! | 16 | 8 | sectors |
//! | 24 | 8 | deadline in nanoseconds, 0 = none |
//! | 32 | 1 | bytes of the name |
//! | 33 | 1 | bytes of the description |
//! | 34 | 1 | I/O priority (version 2), 0 = none; see below |
//! | 35 | 1 | kind (version 2): class 0 ordinary, 1 realtime, 2 bulk; 3 extents; see below |
//! | 36 | 4 | reserve in billionths of the drive's time (version 2) |
//! | 40 | 4 | limit in billionths of the drive's time, 0 = none (version 2) |
//! | 44 | 4 | requests a second, 0 = no limit (version 2) |
//! | 48 | 64 | name |
//! | 112 | 128 | description |
//! | 240 | 8 | burst in nanoseconds, 0 = none given (version 2) |
//! | 248 | 8 | bytes a second, 0 = no limit (version 2) |
//!
//! A priority is 8 × class + level + 1 with the classes real time (0), best effort and idle. The
//! entry of an optional class follows the entry of its volume and has the same number; of its
//! fields before the priority only the weight and the deadline are used.
//!
//! The entry of a volume has its first extent. If it has more, an entry with the others and the
//! same number follows at once (version 3):
//!
//! | offset | bytes | entry of extents |
//! |---|---|---|
//! | 0 | 4 | number of the volume |
//! | 32 | 1 | number of extents, 1 to 7 |
//! | 35 | 1 | 3 |
//! | 48 | 16 each | first sector and sectors of each |
//!
//! A table of version 1 has zeroes in the fields of version 2. The next change writes it as version
//! 2, which programs for version 1 refuse to read. Versions 3 and 4 are written only while a volume
//! has several extents or a weight, so that earlier programs read all other tables.

use headtime_sched::{IoPriority, PriorityClass, VolumeId};
use headtime_units::{Extent, Nanos, SectorSize, Sectors, Share};

use super::errors::TableError;
use super::extents::{Extents, MAX_EXTENTS};
use super::settings::{ClassSettings, VolumeClass, VolumeSettings};
use super::space::DriveShape;
use super::table::{Volume, VolumeOrigin, VolumeTable};
use super::uuid::DriveUuid;

/// Bytes of one slot; a multiple of every sector size.
pub const SLOT_BYTES: usize = 256 << 10;
/// The maximum number of entries (volumes and classes) of a table: as many as fit a slot.
pub const MAX_ENTRIES: usize = (SLOT_BYTES - HEADER_BYTES) / ENTRY_BYTES;
/// The maximum length of a name in bytes.
pub const NAME_BYTES: usize = 64;
/// The maximum length of a description in bytes.
pub const DESCRIPTION_BYTES: usize = 128;
/// The format of tables with weights; this program reads all from [`OLDEST_VERSION`] on.
pub const FORMAT_VERSION: u32 = 4;
/// The oldest format this program reads.
pub const OLDEST_VERSION: u32 = 1;

/// Bytes of the physical blocks of today's drives, whatever their logical sectors.
pub const BLOCK_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"HEADTIME";
const HEADER_BYTES: usize = 256;
const ENTRY_BYTES: usize = 256;
const CRC_AT: usize = 16;
const READ_ONLY: u16 = 1;
const ALWAYS_SERVED: u16 = 2;
/// The format of tables without weights whose volumes have one extent each.
const SINGLE_EXTENT_VERSION: u32 = 2;
/// The format of tables without weights, with volumes of several extents.
const EXTENTS_VERSION: u32 = 3;
/// The kind of an entry of extents.
const EXTENTS: u8 = 3;
const EXTENTS_AT: usize = 48;
const EXTENT_BYTES: usize = 16;

/// The content of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// Zeroes only.
    Blank,
    /// Data that is not a slot.
    Foreign,
    /// A torn or corrupted slot.
    Damaged(SlotError),
    /// A slot with an unreadable sector and without a valid table before it.
    Unreadable {
        /// The sector, counted from the start of the drive.
        sector: u64,
    },
    /// An undamaged slot of an unknown format.
    Unsupported {
        /// Its format version.
        version: u32,
    },
    /// A valid table.
    Table {
        /// The larger generation is the later table.
        generation: u64,
        /// The table.
        table: VolumeTable,
    },
}

/// The damage of a slot that starts with a valid magic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum SlotError {
    /// An impossible length.
    #[error("its length of {length} bytes does not fit the slot of {SLOT_BYTES}")]
    Length { length: u32 },
    /// A wrong checksum, the usual sign of a torn write.
    #[error("its checksum is {computed:#010x}; expected {stored:#010x}")]
    Checksum { stored: u32, computed: u32 },
    /// A field with an impossible value.
    #[error("its {0} cannot be")]
    Field(&'static str),
    /// An inconsistent table.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Encodes a table: header and entries, padded with zeroes to whole blocks of [`BLOCK_BYTES`]. A
/// drive writes whole blocks, and writing a block makes an unreadable one readable again.
///
/// # Panics
/// If the table has more than [`MAX_ENTRIES`], which [`VolumeTable::ensure`] prevents.
#[must_use]
pub fn encode(table: &VolumeTable, generation: u64) -> Vec<u8> {
    let volumes = table.volumes();
    let count = volumes.iter().map(|of| entries_of(&of.settings, &of.extents)).sum::<usize>();
    let version = version_of(table);
    assert!(count <= MAX_ENTRIES, "a table never has more than {MAX_ENTRIES} entries");
    let shape = table.shape();
    let length = HEADER_BYTES + count * ENTRY_BYTES;
    let mut bytes =
        vec![0; length.next_multiple_of(BLOCK_BYTES.max(shape.sector.bytes() as usize))];
    put(&mut bytes, 0, &MAGIC);
    put(&mut bytes, 8, &version.to_le_bytes());
    put(&mut bytes, 12, &(length as u32).to_le_bytes());
    put(&mut bytes, 20, &shape.sector.bytes().to_le_bytes());
    put(&mut bytes, 24, &generation.to_le_bytes());
    put(&mut bytes, 32, &shape.capacity.get().to_le_bytes());
    put(&mut bytes, 40, &table.uuid().0);
    put(&mut bytes, 56, &table.next_id().to_le_bytes());
    put(&mut bytes, 60, &(count as u32).to_le_bytes());
    let mut entries = bytes[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES);
    let mut next = || entries.next().expect("there is room for all entries");
    for volume in volumes {
        for (class, settings) in volume.settings.classes() {
            let entry = next();
            encode_class(volume, class, &settings, entry);
            if class == VolumeClass::Ordinary {
                encode_volume(volume, entry);
                let further = &volume.extents.as_slice()[1..];
                if !further.is_empty() {
                    encode_extents(volume, further, next());
                }
            }
        }
    }
    let checksum = checksum(&bytes[..length]);
    put(&mut bytes, CRC_AT, &checksum.to_le_bytes());
    bytes
}

/// Decodes a slot of [`SLOT_BYTES`] bytes. Never panics, whatever the bytes.
#[must_use]
pub fn decode(bytes: &[u8]) -> SlotContent {
    decode_as(bytes, VolumeOrigin::Own)
}

/// The same for volumes of this origin.
pub(super) fn decode_as(bytes: &[u8], origin: VolumeOrigin) -> SlotContent {
    if bytes.iter().all(|byte| *byte == 0) {
        return SlotContent::Blank;
    }
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
        return SlotContent::Foreign;
    }
    let length = u32_at(bytes, 12);
    if (length as usize) < HEADER_BYTES || length as usize > bytes.len().min(SLOT_BYTES) {
        return SlotContent::Damaged(SlotError::Length { length });
    }
    let bytes = &bytes[..length as usize];
    let (stored, computed) = (u32_at(bytes, CRC_AT), checksum(bytes));
    if stored != computed {
        return SlotContent::Damaged(SlotError::Checksum { stored, computed });
    }
    let version = u32_at(bytes, 8);
    if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
        return SlotContent::Unsupported { version };
    }
    match decode_table(bytes, version, origin) {
        Ok((generation, table)) => SlotContent::Table { generation, table },
        Err(error) => SlotContent::Damaged(error),
    }
}

fn decode_table(
    bytes: &[u8],
    version: u32,
    origin: VolumeOrigin,
) -> Result<(u64, VolumeTable), SlotError> {
    let count = u32_at(bytes, 60) as usize;
    if count.checked_mul(ENTRY_BYTES).and_then(|entries| entries.checked_add(HEADER_BYTES))
        != Some(bytes.len())
    {
        return Err(SlotError::Field("number of entries"));
    }
    let sector = SectorSize::new(u32_at(bytes, 20)).ok_or(SlotError::Field("sector size"))?;
    let shape = DriveShape { sector, capacity: Sectors::new(u64_at(bytes, 32)) };
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[40..56]);
    let mut volumes: Vec<Volume> = Vec::new();
    let mut last_is_volume = false;
    for entry in bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES) {
        let follows_volume = std::mem::take(&mut last_is_volume);
        if version > SINGLE_EXTENT_VERSION && entry[35] == EXTENTS {
            let id = VolumeId(u32_at(entry, 0));
            let volume = volumes.last_mut().filter(|volume| follows_volume && volume.id == id);
            let volume = volume.ok_or(SlotError::Field("extents of another volume"))?;
            volume.extents = decode_extents(volume.extents.last(), entry)?;
            continue;
        }
        let class = VolumeClass::ALL
            .into_iter()
            .find(|class| class.number() == entry[35])
            .filter(|_| version > OLDEST_VERSION || entry[35] == 0);
        match class.ok_or(SlotError::Field("class"))? {
            VolumeClass::Ordinary => {
                volumes.push(decode_volume(entry, version)?);
                last_is_volume = true;
            }
            class => {
                let id = VolumeId(u32_at(entry, 0));
                let volume = volumes
                    .last_mut()
                    .filter(|volume| volume.id == id && volume.settings.of_class(class).is_none());
                let settings = decode_class(entry, version)?;
                volume
                    .ok_or(SlotError::Field("class of another volume"))?
                    .settings
                    .set_class(class, Some(settings));
            }
        }
    }
    let table =
        VolumeTable::from_parts(origin, DriveUuid(uuid), shape, u32_at(bytes, 56), volumes)?;
    Ok((u64_at(bytes, 24), table))
}

/// The oldest version of the format that has all of the table.
pub(super) fn version_of(table: &VolumeTable) -> u32 {
    let volumes = table.volumes();
    let has_weight = |of: &Volume| of.settings.classes().any(|(_, class)| class.weight.is_some());
    if volumes.iter().any(has_weight) {
        FORMAT_VERSION
    } else if volumes.iter().any(|volume| volume.extents.as_slice().len() > 1) {
        EXTENTS_VERSION
    } else {
        SINGLE_EXTENT_VERSION
    }
}

/// The number of entries of a volume with these settings and extents.
pub(super) fn entries_of(settings: &VolumeSettings, extents: &Extents) -> usize {
    settings.classes().count() + usize::from(extents.as_slice().len() > 1)
}

/// Encodes the fields of the volume that its classes do not have.
fn encode_volume(volume: &Volume, entry: &mut [u8]) {
    let VolumeSettings { read_only, description, always_served, .. } = &volume.settings;
    let flags: u16 =
        if *read_only { READ_ONLY } else { 0 } | if *always_served { ALWAYS_SERVED } else { 0 };
    put(entry, 4, &flags.to_le_bytes());
    put_extent(entry, 8, volume.extents.as_slice()[0]);
    // Both lengths are below 256: the table checked names and descriptions.
    put(entry, 32, &[volume.name.len() as u8, description.len() as u8]);
    put(entry, 48, volume.name.as_bytes());
    put(entry, 112, description.as_bytes());
}

/// Encodes the extents of a volume after its first.
fn encode_extents(volume: &Volume, further: &[Extent], entry: &mut [u8]) {
    put(entry, 0, &volume.id.0.to_le_bytes());
    put(entry, 32, &[further.len() as u8]);
    put(entry, 35, &[EXTENTS]);
    for (index, extent) in further.iter().enumerate() {
        put_extent(entry, EXTENTS_AT + index * EXTENT_BYTES, *extent);
    }
}

/// Decodes the extents of a volume with this first one.
fn decode_extents(first: Extent, entry: &[u8]) -> Result<Extents, SlotError> {
    let count = usize::from(entry[32]);
    if !(1..MAX_EXTENTS).contains(&count) {
        return Err(SlotError::Field("number of extents"));
    }
    let further = (0..count).map(|index| extent_at(entry, EXTENTS_AT + index * EXTENT_BYTES));
    Ok(Extents::new(std::iter::once(first).chain(further).collect()))
}

fn encode_class(volume: &Volume, class: VolumeClass, settings: &ClassSettings, entry: &mut [u8]) {
    let ClassSettings { deadline, reserve, limit, burst, weight, iops_limit, .. } = *settings;
    let ClassSettings { bandwidth_limit, priority, .. } = *settings;
    put(entry, 0, &volume.id.0.to_le_bytes());
    put(entry, 6, &weight.unwrap_or(0).to_le_bytes());
    put(entry, 24, &deadline.map_or(0, Nanos::as_ns).to_le_bytes());
    put(entry, 34, &[priority.map_or(0, priority_code), class.number()]);
    put(entry, 36, &reserve.as_billionths().to_le_bytes());
    put(entry, 40, &limit.map_or(0, Share::as_billionths).to_le_bytes());
    put(entry, 44, &iops_limit.unwrap_or(0).to_le_bytes());
    put(entry, 240, &burst.map_or(0, Nanos::as_ns).to_le_bytes());
    put(entry, 248, &bandwidth_limit.unwrap_or(0).to_le_bytes());
}

fn decode_volume(entry: &[u8], version: u32) -> Result<Volume, SlotError> {
    let text = |at: usize, length: u8, most: usize, field: &'static str| {
        let length = usize::from(length);
        let bytes = (length <= most).then(|| entry[at..at + length].to_vec());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(SlotError::Field(field))
    };
    let flags = u16_at(entry, 4);
    let known = if version == OLDEST_VERSION { READ_ONLY } else { READ_ONLY | ALWAYS_SERVED };
    if flags & !known != 0 {
        return Err(SlotError::Field("volume flags"));
    }
    let ordinary = if version == OLDEST_VERSION {
        ClassSettings {
            deadline: some(u64_at(entry, 24)).map(Nanos::from_ns),
            ..ClassSettings::default()
        }
    } else {
        decode_class(entry, version)?
    };
    Ok(Volume {
        id: VolumeId(u32_at(entry, 0)),
        name: text(48, entry[32], NAME_BYTES, "volume name")?,
        extents: extent_at(entry, 8).into(),
        settings: VolumeSettings {
            read_only: flags & READ_ONLY != 0,
            description: text(112, entry[33], DESCRIPTION_BYTES, "volume description")?,
            always_served: flags & ALWAYS_SERVED != 0,
            ordinary,
            ..VolumeSettings::default()
        },
    })
}

fn decode_class(entry: &[u8], version: u32) -> Result<ClassSettings, SlotError> {
    let weight = u16_at(entry, 6);
    if weight != 0 && version < FORMAT_VERSION {
        return Err(SlotError::Field("weight before version 4"));
    }
    let share =
        |at: usize, field| Share::from_billionths(u32_at(entry, at)).ok_or(SlotError::Field(field));
    Ok(ClassSettings {
        deadline: some(u64_at(entry, 24)).map(Nanos::from_ns),
        reserve: share(36, "reserve")?,
        limit: Some(share(40, "limit")?).filter(|limit| *limit != Share::NONE),
        burst: some(u64_at(entry, 240)).map(Nanos::from_ns),
        weight: (weight != 0).then_some(weight),
        iops_limit: some(u64::from(u32_at(entry, 44))).map(|iops| iops as u32),
        bandwidth_limit: some(u64_at(entry, 248)),
        priority: priority_of(entry[34]).ok_or(SlotError::Field("I/O priority"))?,
    })
}

fn some(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

fn priority_code(priority: IoPriority) -> u8 {
    let class = CLASSES.iter().position(|class| *class == priority.class()).unwrap_or_default();
    class as u8 * 8 + priority.level() + 1
}

/// The priority of a code, if the code is valid; 0 is no priority.
fn priority_of(code: u8) -> Option<Option<IoPriority>> {
    let Some(code) = code.checked_sub(1) else { return Some(None) };
    let class = CLASSES.get(usize::from(code / 8))?;
    IoPriority::new(*class, code % 8).map(Some)
}

const CLASSES: [PriorityClass; 3] =
    [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];

fn checksum(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(&bytes[..CRC_AT]);
    let field = crc32c::crc32c_append(before, &[0; 4]);
    crc32c::crc32c_append(field, &bytes[CRC_AT + 4..])
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn put_extent(bytes: &mut [u8], at: usize, extent: Extent) {
    put(bytes, at, &extent.start.get().to_le_bytes());
    put(bytes, at + 8, &extent.len.get().to_le_bytes());
}

fn extent_at(bytes: &[u8], at: usize) -> Extent {
    Extent::from_numbers(u64_at(bytes, at), u64_at(bytes, at + 8))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | (u64::from(u32_at(bytes, at + 4)) << 32)
}

#[cfg(test)]
mod tests;
