//! [`Plane`]: a long array of small numbers, four, eight or sixteen bits each, that is extended in
//! blocks.
//!
//! Extending a map of half a gigabyte must neither copy it nor take twice its memory: blocks of a
//! MiB are added with the rows. The last block is no longer than the maximum size needs.

use super::scale::EntryBits;

/// Numbers by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plane {
    bits: EntryBits,
    /// Bytes of a plane with every entry there can be.
    max_bytes: u64,
    len: u64,
    blocks: Vec<Vec<u8>>,
}

impl Plane {
    /// An empty plane with a capacity of `most` entries.
    pub(super) fn new(bits: EntryBits, most: u64) -> Self {
        Self { bits, max_bytes: bytes_of(most, bits), len: 0, blocks: Vec::new() }
    }

    /// The number of entries.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the entries.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(self.len, self.bits)
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }

    /// Extends the plane to `len` entries; new ones are zero. A plane never shrinks and never
    /// exceeds its capacity.
    pub(super) fn extend(&mut self, len: u64) {
        self.len = self.len.max(len);
        debug_assert!(self.bytes() <= self.max_bytes, "a plane exceeds its capacity");
        while (self.blocks.len() as u64) < self.bytes().div_ceil(BLOCK) {
            let before = self.blocks.len() as u64 * BLOCK;
            self.blocks.push(vec![0; (self.max_bytes - before).min(BLOCK) as usize]);
        }
    }

    /// The number at `index`.
    #[inline]
    pub(super) fn get(&self, index: u64) -> u16 {
        match self.bits {
            EntryBits::Four => u16::from(self.byte(index / 2) >> (index % 2 * 4) & 0xF),
            EntryBits::Eight => u16::from(self.byte(index)),
            EntryBits::Sixteen => {
                u16::from_le_bytes([self.byte(index * 2), self.byte(index * 2 + 1)])
            }
        }
    }

    /// Writes `number`, which fits, at `index`.
    pub(super) fn set(&mut self, index: u64, number: u16) {
        debug_assert!(number <= self.bits.top(), "{number} has more than {} bits", self.bits.get());
        let [low, high] = number.to_le_bytes();
        match self.bits {
            EntryBits::Four => {
                let shift = index % 2 * 4;
                let byte = self.byte_mut(index / 2);
                *byte = *byte & !(0xF << shift) | low << shift;
            }
            EntryBits::Eight => *self.byte_mut(index) = low,
            EntryBits::Sixteen => {
                *self.byte_mut(index * 2) = low;
                *self.byte_mut(index * 2 + 1) = high;
            }
        }
    }

    /// The bytes of the entries, piece by piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = self.bytes();
        self.blocks.iter().map(move |block| {
            let here = left.min(block.len() as u64);
            left -= here;
            &block[..here as usize]
        })
    }

    /// Replaces all entries by `bytes`, which has the same length.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len() as u64, self.bytes(), "as many bytes as the entries have");
        for (block, piece) in self.blocks.iter_mut().zip(bytes.chunks(BLOCK as usize)) {
            block[..piece.len()].copy_from_slice(piece);
        }
    }

    /// The number of entries that are not zero.
    pub(super) fn count_set(&self) -> u64 {
        let set = |piece: &[u8]| match self.bits {
            EntryBits::Four => piece
                .iter()
                .map(|byte| u64::from(byte & 0xF != 0) + u64::from(byte >> 4 != 0))
                .sum::<u64>(),
            EntryBits::Eight => piece.iter().filter(|byte| **byte != 0).count() as u64,
            EntryBits::Sixteen => piece.chunks(2).filter(|entry| **entry != [0, 0]).count() as u64,
        };
        self.pieces().map(set).sum()
    }

    #[inline]
    fn byte(&self, byte: u64) -> u8 {
        self.blocks[(byte / BLOCK) as usize][(byte % BLOCK) as usize]
    }

    fn byte_mut(&mut self, byte: u64) -> &mut u8 {
        &mut self.blocks[(byte / BLOCK) as usize][(byte % BLOCK) as usize]
    }
}

/// Bytes that so many entries take.
pub(super) fn bytes_of(entries: u64, bits: EntryBits) -> u64 {
    match bits {
        EntryBits::Four => entries.div_ceil(2),
        EntryBits::Eight => entries,
        EntryBits::Sixteen => entries * 2,
    }
}

/// Bytes of a block: zeroed memory of this size costs nothing until it is written.
const BLOCK: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn memory_is_taken_in_blocks_and_never_beyond_the_room() {
        let mut plane = Plane::new(EntryBits::Eight, BLOCK + 10);
        plane.extend(1);
        assert_eq!((plane.bytes(), plane.memory()), (1, BLOCK));
        plane.extend(BLOCK + 3);
        assert_eq!((plane.len(), plane.memory()), (BLOCK + 3, BLOCK + 10));
        plane.set(BLOCK + 2, 7);
        assert_eq!((plane.get(BLOCK + 2), plane.get(BLOCK + 1), plane.get(0)), (7, 0, 0));
        let pieces: Vec<usize> = plane.pieces().map(<[u8]>::len).collect();
        assert_eq!(pieces, [BLOCK as usize, 3]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_changes(
            writes in proptest::collection::vec((0_u64..200, any::<u16>()), 0..60),
        ) {
            for bits in EntryBits::ALL {
                let (mut plane, mut model) = (Plane::new(bits, 201), BTreeMap::new());
                plane.extend(201);
                for (index, number) in &writes {
                    let number = number & bits.top();
                    plane.set(*index, number);
                    model.insert(*index, number);
                }
                for index in 0..201 {
                    prop_assert_eq!(plane.get(index), model.get(&index).copied().unwrap_or(0));
                }
                let bytes: Vec<u8> = plane.pieces().flatten().copied().collect();
                let mut copy = Plane::new(bits, 201);
                copy.extend(201);
                copy.fill(&bytes);
                prop_assert_eq!(&copy, &plane);
                prop_assert_eq!(
                    plane.count_set(),
                    model.values().filter(|number| **number != 0).count() as u64
                );
            }
        }
    }
}
