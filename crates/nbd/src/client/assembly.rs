//! A read's data, put together from however many pieces the server chose.
//!
//! Usually a read is one piece of the whole length, which is passed on without copying. Otherwise a
//! buffer of the request's length is filled. The covered ranges are sorted, and adjacent ones
//! joined, so that pieces in order need one range. The protocol forbids overlapping pieces, and
//! success with missing ones; both are detected.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

/// The data received for a read.
#[derive(Debug)]
pub(super) struct Assembly {
    length: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Nothing,
    Whole(Bytes),
    Pieces { buffer: Vec<u8>, covered: Vec<(u32, u32)> },
}

/// A piece that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    Overlap,
    TooScattered,
}

impl Assembly {
    /// For a read of `length` bytes.
    pub(super) fn new(length: u32) -> Assembly {
        Assembly { length, content: Content::Nothing }
    }

    /// Adds bytes at `start`, which with them lies within the read.
    pub(super) fn put(&mut self, start: u32, data: Bytes, max_ranges: u32) -> Result<(), Misfit> {
        if let (Content::Nothing, true) = (&self.content, data.len() == self.length as usize) {
            self.content = Content::Whole(data);
            return Ok(());
        }
        let buffer = self.cover(start, data.len() as u32, max_ranges)?;
        buffer[start as usize..start as usize + data.len()].copy_from_slice(&data);
        Ok(())
    }

    /// Adds `count` zeroes at `start`, within the read.
    pub(super) fn put_hole(
        &mut self,
        start: u32,
        count: u32,
        max_ranges: u32,
    ) -> Result<(), Misfit> {
        // The buffer starts as zeroes and no range is written twice.
        self.cover(start, count, max_ranges).map(|_| ())
    }

    /// Returns true if every byte has been received.
    pub(super) fn is_complete(&self) -> bool {
        match &self.content {
            Content::Whole(_) => true,
            Content::Pieces { covered, .. } => covered[..] == [(0, self.length)],
            Content::Nothing => false,
        }
    }

    /// The data, if every byte has arrived.
    pub(super) fn finish(self) -> Option<Bytes> {
        match self.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Pieces { buffer, covered } => {
                (covered[..] == [(0, self.length)]).then(|| buffer.into())
            }
            Content::Nothing => None,
        }
    }

    /// Memory in use, bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        match &self.content {
            Content::Nothing => 0,
            Content::Whole(bytes) => bytes.len() as u64,
            Content::Pieces { buffer, covered } => {
                (buffer.capacity() + 8 * covered.capacity()) as u64
            }
        }
    }

    /// Marks `start..start + count` as covered, joins it with its neighbors, and gives the buffer.
    fn cover(&mut self, start: u32, count: u32, max_ranges: u32) -> Result<&mut [u8], Misfit> {
        if let Content::Nothing = self.content {
            self.content =
                Content::Pieces { buffer: vec![0; self.length as usize], covered: Vec::new() };
        }
        let Content::Pieces { buffer, covered } = &mut self.content else {
            return Err(Misfit::Overlap);
        };
        let end = start + count;
        let at = covered.partition_point(|range| range.0 < start);
        let touches_before = at > 0 && covered[at - 1].1 >= start;
        let touches_after = at < covered.len() && covered[at].0 <= end;
        if touches_before && covered[at - 1].1 > start || touches_after && covered[at].0 < end {
            return Err(Misfit::Overlap);
        }
        match (touches_before, touches_after) {
            (true, true) => {
                covered[at - 1].1 = covered[at].1;
                covered.remove(at);
            }
            (true, false) => covered[at - 1].1 = end,
            (false, true) => covered[at].0 = start,
            (false, false) if covered.len() as u64 >= u64::from(max_ranges) => {
                return Err(Misfit::TooScattered);
            }
            (false, false) => covered.insert(at, (start, end)),
        }
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to cut six bytes into pieces, in every order: same bytes, and one range at the
    /// end.
    #[test]
    fn all_cuts_of_six_bytes_in_all_orders_give_the_same_bytes() {
        for cuts in 0..32_u32 {
            let mut pieces = vec![(0_u32, 0_u32)];
            for at in 0..6 {
                pieces.last_mut().unwrap().1 = at + 1;
                if at < 5 && cuts & (1 << at) != 0 {
                    pieces.push((at + 1, 0));
                }
            }
            permute(&mut pieces, 0, &mut |order| {
                let mut assembly = Assembly::new(6);
                for (index, (start, end)) in order.iter().enumerate() {
                    if index % 2 == 0 || *start != 2 {
                        assembly.put(*start, (*start as u8 + 1..=*end as u8).collect(), 6).unwrap();
                    } else {
                        assembly.put_hole(*start, end - start, 6).unwrap();
                    }
                }
                let bytes = assembly.finish().unwrap();
                for (index, byte) in bytes.iter().enumerate() {
                    assert!(
                        *byte == index as u8 + 1 || *byte == 0 && index >= 2,
                        "{order:?} gave {bytes:?}"
                    );
                }
            });
        }
    }

    fn permute(items: &mut Vec<(u32, u32)>, from: usize, visit: &mut impl FnMut(&[(u32, u32)])) {
        if from == items.len() {
            return visit(items);
        }
        for other in from..items.len() {
            items.swap(from, other);
            permute(items, from + 1, visit);
            items.swap(from, other);
        }
    }

    #[test]
    fn one_piece_is_not_copied() {
        let mut assembly = Assembly::new(3);
        let data = vec![1, 2, 3];
        let place = data.as_ptr();
        assembly.put(0, data.into(), 1).unwrap();
        assert_eq!(assembly.finish().unwrap().as_ptr(), place);
    }

    #[test]
    fn overlaps_gaps_and_scatter_are_found() {
        let mut assembly = Assembly::new(10);
        assembly.put(2, vec![1; 3].into(), 2).unwrap();
        assert_eq!(assembly.put(4, vec![1; 1].into(), 2), Err(Misfit::Overlap));
        assert_eq!(assembly.put(1, vec![1; 2].into(), 2), Err(Misfit::Overlap));
        assert_eq!(assembly.put(1, vec![1; 8].into(), 2), Err(Misfit::Overlap));
        assert_eq!(assembly.put(2, vec![1; 3].into(), 2), Err(Misfit::Overlap));
        assembly.put_hole(9, 1, 2).unwrap();
        assert_eq!(assembly.put(7, vec![1; 1].into(), 2), Err(Misfit::TooScattered));
        assert_eq!(assembly.finish(), None);
        let mut whole = Assembly::new(2);
        whole.put(0, vec![1, 2].into(), 1).unwrap();
        assert_eq!(whole.put_hole(0, 1, 1), Err(Misfit::Overlap));
        assert_eq!(Assembly::new(2).finish(), None);
    }
}
