//! One slot of the metadata area: a table of volumes as bytes.
//!
//! All integers little-endian, everything not named zero. The header keeps its meaning in every future version, so that an old program can tell a
//! newer table from a damaged one.
//!
//! | offset | bytes | header |
//! |---|---|---|
//! | 0 | 8 | magic `HEADTIME` |
//! | 8 | 4 | format version, 1 |
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
//! | 4 | 4 | bit 0: read-only |
//! | 8 | 8 | first sector |
//! | 16 | 8 | sectors |
//! | 24 | 8 | deadline in nanoseconds, 0 = none |
//! | 32 | 1 | bytes of the name |
//! | 33 | 1 | bytes of the description |
//! | 48 | 64 | name |
//! | 112 | 128 | description |

use headtime_sched::VolumeId;
use headtime_units::{Extent, Nanos, SectorSize, Sectors};

use super::table::{DriveShape, DriveUuid, Settings, TableError, Volume, VolumeTable};

/// Bytes of one slot; a multiple of every sector size.
pub const SLOT_BYTES: usize = 256 << 10;
/// Most volumes a table holds: what fits a slot behind the header.
pub const MAX_VOLUMES: usize = (SLOT_BYTES - HEADER_BYTES) / ENTRY_BYTES;
/// Longest name in bytes.
pub const NAME_BYTES: usize = 64;
/// Longest description in bytes.
pub const DESCRIPTION_BYTES: usize = 128;
/// The format this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of the physical blocks of today's drives, whatever their logical sectors.
pub const BLOCK_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"HEADTIME";
const HEADER_BYTES: usize = 256;
const ENTRY_BYTES: usize = 256;
const CRC_AT: usize = 16;
const READ_ONLY: u32 = 1;

/// What stands in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// Zeroes only.
    Blank,
    /// Something else than a slot.
    Foreign,
    /// A slot that was not written whole, or has rotted.
    Damaged(DecodeError),
    /// A slot with a sector that the drive cannot read, and no whole table in front of it.
    Unreadable {
        /// The sector, counted from the start of the drive.
        sector: u64,
    },
    /// An undamaged slot of a format this program does not know.
    Unsupported {
        /// Its format version.
        version: u32,
    },
    /// A table.
    Table {
        /// Which of two tables is the later.
        generation: u64,
        /// The table.
        table: VolumeTable,
    },
}

/// What is wrong with a slot that starts like one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The length cannot be.
    #[error("its length of {length} bytes does not fit the slot of {SLOT_BYTES}")]
    Length {
        /// The length as read.
        length: u32,
    },
    /// The checksum does not match: the ordinary sign of a torn write.
    #[error("its checksum is {computed:#010x}, not {stored:#010x} as it says")]
    Checksum {
        /// The checksum as read.
        stored: u32,
        /// The checksum of what was read.
        computed: u32,
    },
    /// A field that could not have been written.
    #[error("its {0} cannot be")]
    Field(&'static str),
    /// A table that cannot be.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The table as bytes: header and entries, filled up with zeroes to whole blocks of [`BLOCK_BYTES`]: a drive writes no less at once, and a block that was left
/// unreadable is made readable again.
///
/// # Panics
/// When the table has more than [`MAX_VOLUMES`], which [`VolumeTable::ensure`] prevents.
#[must_use]
pub fn encode(table: &VolumeTable, generation: u64) -> Vec<u8> {
    let count = table.volumes().len();
    assert!(count <= MAX_VOLUMES, "a table never has more than {MAX_VOLUMES} volumes");
    let shape = table.shape();
    let length = HEADER_BYTES + count * ENTRY_BYTES;
    let mut bytes = vec![0; length.next_multiple_of(BLOCK_BYTES.max(shape.sector.bytes() as usize))];
    put(&mut bytes, 0, &MAGIC);
    put(&mut bytes, 8, &FORMAT_VERSION.to_le_bytes());
    put(&mut bytes, 12, &(length as u32).to_le_bytes());
    put(&mut bytes, 20, &shape.sector.bytes().to_le_bytes());
    put(&mut bytes, 24, &generation.to_le_bytes());
    put(&mut bytes, 32, &shape.capacity.get().to_le_bytes());
    put(&mut bytes, 40, &table.uuid().0);
    put(&mut bytes, 56, &table.next_id().to_le_bytes());
    put(&mut bytes, 60, &(count as u32).to_le_bytes());
    for (volume, entry) in table.volumes().iter().zip(bytes[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
        encode_entry(volume, entry);
    }
    let checksum = checksum(&bytes[..length]);
    put(&mut bytes, CRC_AT, &checksum.to_le_bytes());
    bytes
}

/// What stands in a slot of [`SLOT_BYTES`] bytes. Never panics, whatever the bytes.
#[must_use]
pub fn decode(bytes: &[u8]) -> SlotContent {
    if bytes.iter().all(|byte| *byte == 0) {
        return SlotContent::Blank;
    }
    if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
        return SlotContent::Foreign;
    }
    let length = u32_at(bytes, 12);
    if (length as usize) < HEADER_BYTES || length as usize > bytes.len().min(SLOT_BYTES) {
        return SlotContent::Damaged(DecodeError::Length { length });
    }
    let bytes = &bytes[..length as usize];
    let (stored, computed) = (u32_at(bytes, CRC_AT), checksum(bytes));
    if stored != computed {
        return SlotContent::Damaged(DecodeError::Checksum { stored, computed });
    }
    let version = u32_at(bytes, 8);
    if version != FORMAT_VERSION {
        return SlotContent::Unsupported { version };
    }
    match decode_table(bytes) {
        Ok((generation, table)) => SlotContent::Table { generation, table },
        Err(error) => SlotContent::Damaged(error),
    }
}

fn decode_table(bytes: &[u8]) -> Result<(u64, VolumeTable), DecodeError> {
    let count = u32_at(bytes, 60) as usize;
    if count.checked_mul(ENTRY_BYTES).and_then(|entries| entries.checked_add(HEADER_BYTES)) != Some(bytes.len()) {
        return Err(DecodeError::Field("number of entries"));
    }
    let sector = SectorSize::new(u32_at(bytes, 20)).ok_or(DecodeError::Field("sector size"))?;
    let shape = DriveShape { sector, capacity: Sectors::new(u64_at(bytes, 32)) };
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&bytes[40..56]);
    let volumes = bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(decode_entry).collect::<Result<_, _>>()?;
    let table = VolumeTable::from_parts(DriveUuid(uuid), shape, u32_at(bytes, 56), volumes)?;
    Ok((u64_at(bytes, 24), table))
}

fn encode_entry(volume: &Volume, entry: &mut [u8]) {
    let Settings { deadline, read_only, description } = &volume.settings;
    put(entry, 0, &volume.id.0.to_le_bytes());
    put(entry, 4, &(if *read_only { READ_ONLY } else { 0 }).to_le_bytes());
    put(entry, 8, &volume.extent.start.get().to_le_bytes());
    put(entry, 16, &volume.extent.len.get().to_le_bytes());
    put(entry, 24, &deadline.map_or(0, Nanos::as_ns).to_le_bytes());
    // Both lengths are below 256: names and descriptions were checked when they entered the table.
    put(entry, 32, &[volume.name.len() as u8, description.len() as u8]);
    put(entry, 48, volume.name.as_bytes());
    put(entry, 112, description.as_bytes());
}

fn decode_entry(entry: &[u8]) -> Result<Volume, DecodeError> {
    let text = |at: usize, length: u8, most: usize, field: &'static str| {
        let length = usize::from(length);
        let bytes = (length <= most).then(|| entry[at..at + length].to_vec());
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(DecodeError::Field(field))
    };
    let flags = u32_at(entry, 4);
    if flags & !READ_ONLY != 0 {
        return Err(DecodeError::Field("volume flags"));
    }
    let deadline = u64_at(entry, 24);
    Ok(Volume {
        id: VolumeId(u32_at(entry, 0)),
        name: text(48, entry[32], NAME_BYTES, "volume name")?,
        extent: Extent::from_numbers(u64_at(entry, 8), u64_at(entry, 16)),
        settings: Settings {
            deadline: (deadline != 0).then(|| Nanos::from_ns(deadline)),
            read_only: flags & READ_ONLY != 0,
            description: text(112, entry[33], DESCRIPTION_BYTES, "volume description")?,
        },
    })
}

fn checksum(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(&bytes[..CRC_AT]);
    let field = crc32c::crc32c_append(before, &[0; 4]);
    crc32c::crc32c_append(field, &bytes[CRC_AT + 4..])
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | (u64::from(u32_at(bytes, at + 4)) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::Wanted;
    use headtime_units::ByteSize;
    use proptest::prelude::*;

    fn table() -> VolumeTable {
        let shape = DriveShape { sector: SectorSize::B4096, capacity: Sectors::new(1 << 32) };
        let mut table = VolumeTable::empty(DriveUuid([3; 16]), shape);
        let settings = Settings { deadline: Some(Nanos::from_ms(100)), read_only: true, description: "four häuser".to_string() };
        table.ensure(&Wanted { name: "rec".to_string(), size: Some(ByteSize::new(1 << 30)), settings }).unwrap();
        table.ensure(&Wanted { name: "x".repeat(64), size: Some(ByteSize::new(4096)), settings: Settings::default() }).unwrap();
        table
    }

    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(SLOT_BYTES, 0);
        bytes
    }

    #[test]
    fn a_table_comes_back_as_it_went() {
        let bytes = encode(&table(), 42);
        assert_eq!(bytes.len(), 4096);
        assert_eq!(decode(&padded(bytes)), SlotContent::Table { generation: 42, table: table() });
    }

    #[test]
    fn the_bytes_of_the_format_are_fixed() {
        let bytes = encode(&table(), 42);
        assert_eq!(&bytes[..12], b"HEADTIME\x01\0\0\0");
        assert_eq!(u32_at(&bytes, 12), 768);
        assert_eq!(&bytes[256 + 48..256 + 51], b"rec");
        // A change of the format has to change the version: this checksum pins every byte of version 1.
        assert_eq!(u32_at(&bytes, CRC_AT), 0xa74f_66fc, "{:#010x}", u32_at(&bytes, CRC_AT));
    }

    #[test]
    fn the_largest_table_fits_a_slot_exactly() {
        assert_eq!(MAX_VOLUMES, 1023);
        assert_eq!(HEADER_BYTES + MAX_VOLUMES * ENTRY_BYTES, SLOT_BYTES);
    }

    #[test]
    fn blank_foreign_and_newer_slots_are_told_apart() {
        assert_eq!(decode(&padded(vec![])), SlotContent::Blank);
        assert_eq!(decode(&padded(b"\xeb\x3c\x90mkfs".to_vec())), SlotContent::Foreign);
        let mut newer = encode(&table(), 1);
        newer[8] = 2;
        assert!(matches!(decode(&padded(newer.clone())), SlotContent::Damaged(DecodeError::Checksum { .. })));
        let crc = checksum(&newer[..768]);
        put(&mut newer, CRC_AT, &crc.to_le_bytes());
        assert_eq!(decode(&padded(newer)), SlotContent::Unsupported { version: 2 });
    }

    proptest! {
        #[test]
        fn one_changed_bit_never_passes_for_another_table(at in 0_usize..768, bit in 0_u8..8) {
            let mut bytes = padded(encode(&table(), 42));
            bytes[at] ^= 1 << bit;
            let passes = matches!(decode(&bytes), SlotContent::Table { .. } | SlotContent::Blank);
            prop_assert!(!passes);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(
            changes in proptest::collection::vec((0_usize..768, any::<u8>()), 0..20), cut in 0_usize..=768, reseal in any::<bool>(),
        ) {
            let mut bytes = encode(&table(), 42);
            for (at, value) in changes {
                bytes[at] = value;
            }
            if reseal {
                let crc = checksum(&bytes[..768]);
                put(&mut bytes, CRC_AT, &crc.to_le_bytes());
            }
            bytes.truncate(cut);
            let _ = decode(&bytes);
            let _ = decode(&padded(bytes));
        }
    }
}
