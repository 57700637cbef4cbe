//! [`RangeIndex`]: which of a few consecutive ranges holds a number, without a search.
//!
//! The numbers are cut into at most 1,024 equal buckets by a shift; each bucket remembers the range of its first number. The right range
//! is that one or one of the next few, as there are far fewer ranges than buckets.

use alloc::vec::Vec;

const BUCKETS: u64 = 1_024;

/// An index over consecutive ranges that start at 0.
#[derive(Clone, Debug)]
pub(crate) struct RangeIndex {
    shift: u32,
    first: Vec<u16>,
}

impl RangeIndex {
    /// `ends` are the exclusive ends of the ranges, rising; fewer than 65,536.
    pub(crate) fn new(ends: &[u64]) -> Self {
        let total = ends.last().copied().unwrap_or(0);
        let shift = (0..u64::BITS).find(|shift| total >> shift < BUCKETS).unwrap_or(0);
        let range_of = |number: u64| ends.partition_point(|end| *end <= number) as u16;
        Self { shift, first: (0..=total >> shift).map(|bucket| range_of(bucket << shift)).collect() }
    }

    /// The range of `number`, which lies below the last end; `end_of` answers the ends that the index was made from.
    pub(crate) fn find(&self, number: u64, end_of: impl Fn(usize) -> u64) -> usize {
        let mut range = usize::from(self.first[(number >> self.shift) as usize]);
        while end_of(range) <= number {
            range += 1;
        }
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_is_found_in_its_range(lengths in proptest::collection::vec(1_u64..3_000, 1..30), share in 0.0_f64..1.0) {
            let ends: Vec<u64> = lengths.iter().scan(0, |end, length| { *end += length; Some(*end) }).collect();
            let number = (share * ends[ends.len() - 1] as f64) as u64;
            let found = RangeIndex::new(&ends).find(number, |range| ends[range]);
            prop_assert!(number < ends[found] && (found == 0 || ends[found - 1] <= number));
        }
    }
}
