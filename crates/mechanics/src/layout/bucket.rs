//! [`BucketIndex`]: where in a rising row of numbers another number belongs, with a search of a few
//! steps at most.
//!
//! The numbers are cut into equal buckets by a shift; each bucket remembers how many of the row lie
//! at or before its first number. Two neighboring buckets bound the answer, and what is left
//! between them is searched. With as many buckets as numbers that is one or two comparisons where
//! the row is spread evenly, and a binary search within the bucket where it is not.

use alloc::vec::Vec;

/// Most buckets made: 1 MiB.
const MAX_BUCKETS: usize = 1 << 18;
/// So many are compared one by one, which for none or one of them, the usual case, costs less than
/// to set up a binary search.
const FEW: usize = 6;

/// An index over a rising row of numbers that is kept elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct BucketIndex {
    shift: u32,
    /// For each bucket the count of numbers at or below its first; one entry more at the end.
    at_or_below: Vec<u32>,
}

impl BucketIndex {
    /// `row` rises (equal numbers may follow each other) and has fewer than 2³² members. `fewest`
    /// buckets are made of a short row.
    pub(crate) fn new(row: &[u64], fewest: usize) -> Self {
        let most = (2 * row.len()).clamp(fewest, MAX_BUCKETS.max(fewest)) as u64;
        let top = row.last().copied().unwrap_or(0);
        let shift = (0..u64::BITS).find(|shift| top >> shift < most).unwrap_or(0);
        let count = |number: u64| row.partition_point(|member| *member <= number) as u32;
        let mut at_or_below: Vec<u32> =
            (0..=top >> shift).map(|bucket| count(bucket << shift)).collect();
        at_or_below.push(row.len() as u32);
        Self { shift, at_or_below }
    }

    /// How many members of `row`, which the index was made from, are at most `number`.
    #[inline(always)]
    pub(crate) fn at_or_below(&self, row: &[u64], number: u64) -> usize {
        let bucket = (number >> self.shift) as usize;
        let Some([low, high, ..]) = self.at_or_below.get(bucket..) else { return row.len() };
        let (low, high) = (*low as usize, *high as usize);
        if high - low > FEW {
            return low + row[low..high].partition_point(|member| *member <= number);
        }
        let mut count = low;
        while count < high && row[count] <= number {
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_row_has_nothing_below_any_number() {
        let index = BucketIndex::new(&[], 16);
        assert_eq!([0, 1, u64::MAX].map(|number| index.at_or_below(&[], number)), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn the_index_counts_as_counting_does(
            steps in proptest::collection::vec(prop_oneof![Just(0_u64), 0_u64..3, 0_u64..3_000, Just(1_u64 << 40)], 0..60),
            near in 0_usize..60,
            offset in -2_i64..=2,
            fewest in 1_usize..2_000,
        ) {
            let row: Vec<u64> = steps.iter().scan(0, |sum, step| { *sum += step; Some(*sum) }).collect();
            let number = row.get(near).copied().unwrap_or(5).saturating_add_signed(offset);
            let counted = row.iter().filter(|member| **member <= number).count();
            prop_assert_eq!(BucketIndex::new(&row, fewest).at_or_below(&row, number), counted);
        }
    }
}
