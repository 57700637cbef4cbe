//! What a drive's surface holds when the power is off: [`Platter`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use headtime_units::{Extent, Lba, SectorSize, Sectors};

/// The sectors of a drive at rest.
///
/// Sectors never written read as zeroes and take no memory. A clone shares what it has in common
/// with the original until one of them is written, so that thousands of platters that differ in a
/// few sectors take little more than one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platter {
    sector: SectorSize,
    capacity: Sectors,
    /// Runs of [`CHUNK_SECTORS`] sectors, by number.
    chunks: BTreeMap<u64, Arc<Vec<u8>>>,
    unreadable: BTreeSet<u64>,
}

/// A sector that cannot be read until it is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{lba} was being written when the power failed and cannot be read; write it again")]
pub struct Unreadable {
    /// The first such sector of those asked for.
    pub lba: Lba,
}

impl Platter {
    /// A platter of zeroes.
    pub fn blank(sector: SectorSize, capacity: Sectors) -> Self {
        Self { sector, capacity, chunks: BTreeMap::new(), unreadable: BTreeSet::new() }
    }

    /// The size of a logical sector.
    pub fn sector_size(&self) -> SectorSize {
        self.sector
    }

    /// Its size in logical sectors.
    pub fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Reads sectors.
    ///
    /// # Errors
    /// [`Unreadable`] for the first sector that cannot be read.
    ///
    /// # Panics
    /// When `extent` does not lie on the platter.
    pub fn read(&self, extent: Extent) -> Result<Bytes, Unreadable> {
        self.expect_on_platter(extent);
        let (first, end) = (extent.start.get(), extent.end().get());
        if let Some(bad) = self.unreadable.range(first..end).next() {
            return Err(Unreadable { lba: Lba::new(*bad) });
        }
        let mut bytes = vec![0; self.bytes_of(extent.len.get())];
        for (chunk, within, at) in parts(first, end) {
            let Some(content) = self.chunks.get(&chunk) else { continue };
            let (from, len, to) = (
                self.bytes_of(within.start),
                self.bytes_of(within.end - within.start),
                self.bytes_of(at),
            );
            bytes[to..to + len].copy_from_slice(&content[from..from + len]);
        }
        Ok(Bytes::from(bytes))
    }

    /// Writes sectors; those that could not be read can be again.
    ///
    /// # Panics
    /// When `extent` does not lie on the platter, or `bytes` are not as long as it.
    pub fn write(&mut self, extent: Extent, bytes: &[u8]) {
        assert_eq!(
            bytes.len(),
            self.bytes_of(extent.len.get()),
            "{extent} needs as many bytes as its sectors have"
        );
        self.put(extent, Some(bytes));
    }

    /// Fills sectors with zeroes.
    ///
    /// # Panics
    /// When `extent` does not lie on the platter.
    pub fn zero(&mut self, extent: Extent) {
        self.put(extent, None);
    }

    /// Makes sectors unreadable until they are written, as one that the head was on when the power
    /// failed.
    ///
    /// # Panics
    /// When `extent` does not lie on the platter.
    pub fn spoil(&mut self, extent: Extent) {
        self.expect_on_platter(extent);
        self.unreadable.extend(extent.start.get()..extent.end().get());
    }

    fn put(&mut self, extent: Extent, bytes: Option<&[u8]>) {
        self.expect_on_platter(extent);
        let (first, end) = (extent.start.get(), extent.end().get());
        if !self.unreadable.is_empty() {
            self.unreadable.retain(|sector| !(first..end).contains(sector));
        }
        let whole = self.bytes_of(CHUNK_SECTORS);
        for (chunk, within, at) in parts(first, end) {
            let (to, len, from) = (
                self.bytes_of(within.start),
                self.bytes_of(within.end - within.start),
                self.bytes_of(at),
            );
            match bytes {
                None if len == whole => drop(self.chunks.remove(&chunk)),
                None if !self.chunks.contains_key(&chunk) => {}
                _ => {
                    let content = Arc::make_mut(
                        self.chunks.entry(chunk).or_insert_with(|| Arc::new(vec![0; whole])),
                    );
                    match bytes {
                        Some(bytes) => {
                            content[to..to + len].copy_from_slice(&bytes[from..from + len])
                        }
                        None => content[to..to + len].fill(0),
                    }
                }
            }
        }
    }

    fn bytes_of(&self, sectors: u64) -> usize {
        self.sector.bytes_of(Sectors::new(sectors)) as usize
    }

    fn expect_on_platter(&self, extent: Extent) {
        let on_platter = extent.checked_end().is_some_and(|end| end.get() <= self.capacity.get());
        assert!(on_platter, "{extent} does not lie on the platter, which has {}", self.capacity);
    }
}

/// The chunks that sectors `first..end` touch: number, sectors within the chunk, and where that
/// part begins counted from `first`.
fn parts(first: u64, end: u64) -> impl Iterator<Item = (u64, std::ops::Range<u64>, u64)> {
    (first / CHUNK_SECTORS..end.div_ceil(CHUNK_SECTORS)).map(move |chunk| {
        let base = chunk * CHUNK_SECTORS;
        let (from, to) = (first.max(base), end.min(base + CHUNK_SECTORS));
        (chunk, from - base..to - base, from - first)
    })
}

/// Sectors that are copied together when a shared platter is written: few enough to copy quickly,
/// enough that a clone has few to share (guess).
const CHUNK_SECTORS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn platter() -> Platter {
        Platter::blank(SectorSize::B512, Sectors::new(1000))
    }

    fn sectors(value: u8, count: usize) -> Vec<u8> {
        vec![value; count * 512]
    }

    #[test]
    fn what_is_written_across_chunks_is_read_and_its_neighbors_are_zeroes() {
        let mut platter = platter();
        platter.write(Extent::from_numbers(60, 140), &sectors(7, 140));
        platter.zero(Extent::from_numbers(64, 64));
        platter.zero(Extent::from_numbers(130, 2));
        let read = platter.read(Extent::from_numbers(59, 142)).unwrap();
        let expected = [
            sectors(0, 1),
            sectors(7, 4),
            sectors(0, 64),
            sectors(7, 2),
            sectors(0, 2),
            sectors(7, 68),
            sectors(0, 1),
        ]
        .concat();
        assert!(read == expected);
    }

    #[test]
    fn a_clone_does_not_see_what_is_written_to_the_original() {
        let mut original = platter();
        original.write(Extent::from_numbers(0, 2), &sectors(1, 2));
        let copy = original.clone();
        original.write(Extent::from_numbers(1, 1), &sectors(2, 1));
        assert!(copy.read(Extent::from_numbers(0, 2)).unwrap() == sectors(1, 2));
    }

    #[test]
    fn a_spoilt_sector_cannot_be_read_until_it_is_written() {
        let mut platter = platter();
        platter.spoil(Extent::from_numbers(8, 8));
        assert_eq!(platter.read(Extent::from_numbers(0, 20)), Err(Unreadable { lba: Lba::new(8) }));
        platter.write(Extent::from_numbers(8, 4), &sectors(1, 4));
        assert!(platter.read(Extent::from_numbers(0, 12)).is_ok());
        assert_eq!(
            platter.read(Extent::from_numbers(0, 20)),
            Err(Unreadable { lba: Lba::new(12) })
        );
        platter.zero(Extent::from_numbers(12, 4));
        assert!(platter.read(Extent::from_numbers(0, 20)).is_ok());
    }
}
