//! The metadata area: the input fills both slots and the copy at the end of the drive. Optionally
//! the checksums are corrected, so that the fields after them are reached.

use headtime_serve::volumes::{
    AREA_BYTES, Area, DriveShape, DriveUuid, Metadata, MetadataStep, slot,
};
use headtime_units::{SectorSize, Sectors};

use crate::Memory;

/// Two areas, and tables of a thousand volumes.
pub(super) const MEMORY: Memory = Memory { base: 8 << 20, per_byte: 200 };

const SECOND_SLOT: usize = AREA_BYTES as usize / 2;

/// The first byte selects the slots that get the rest, and those with a corrected checksum.
pub(super) fn area(input: &[u8]) {
    let Some((choice, contents)) = input.split_first() else { return };
    let contents = &contents[..contents.len().min(slot::SLOT_BYTES)];
    // The first MiB of the drive, and after it the last.
    let mut ends = vec![0; 2 * AREA_BYTES as usize];
    for (bit, offset) in [(0, 0), (1, SECOND_SLOT), (2, AREA_BYTES as usize)] {
        if choice >> bit & 1 == 1 {
            ends[offset..offset + contents.len()].copy_from_slice(contents);
        }
        if choice >> (bit + 3) & 1 == 1 {
            put_checksum_right(&mut ends[offset..offset + slot::SLOT_BYTES]);
        }
    }
    for (sector, initialize) in [(SectorSize::B512, false), (SectorSize::B4096, true)] {
        let shape = DriveShape { sector, capacity: Sectors::new(1 << 24) };
        let open = |ends: &[u8], initialize, uuid| {
            let (first, last) = ends.split_at(AREA_BYTES as usize);
            let [first, last] =
                [first, last].map(|bytes| Area { bytes: bytes.to_vec(), unreadable: Vec::new() });
            Metadata::open(&first, &last, shape, initialize, DriveUuid([uuid; 16]))
        };
        let Ok(opened) = open(&ends, initialize, 7) else { continue };
        // An accepted area, with its repairs carried out, is accepted again and valid.
        let mut after = ends.clone();
        for step in &opened.steps {
            let (from, bytes) = match step {
                MetadataStep::Write { offset, bytes } => (*offset as usize, bytes),
                MetadataStep::WriteCopy { bytes, .. } => (AREA_BYTES as usize, bytes),
                MetadataStep::Flush => continue,
            };
            after[from..from + bytes.len()].copy_from_slice(bytes);
        }
        let again = open(&after, false, 8).expect("what was repaired opens");
        assert_eq!(again.metadata.table(), opened.metadata.table(), "and is the same table");
    }
}

/// Offsets 12 and 16 are the length and the checksum in the header of a slot.
fn put_checksum_right(slot: &mut [u8]) {
    let length = u32::from_le_bytes([slot[12], slot[13], slot[14], slot[15]]) as usize;
    if let Some(counted) = slot.get_mut(..length).filter(|counted| counted.len() >= 20) {
        counted[16..20].fill(0);
        let checksum = crc32c::crc32c(counted);
        counted[16..20].copy_from_slice(&checksum.to_le_bytes());
    }
}
