//! [`BucketIndex`]: the position of a number in an ascending list, in a few steps.
//!
//! The numbers are divided into equal buckets by a shift; each bucket stores the count of list
//! members up to its first number. Two neighboring buckets bound the result, and the rest is
//! searched. With as many buckets as numbers that is one or two comparisons for an even list, and a
//! binary search within the bucket otherwise.

use alloc::vec::Vec;

/// Maximum number of buckets: 1 MiB.
const MAX_BUCKETS: usize = 1 << 18;
/// Up to this many members are compared one by one, which is faster than a binary search in the
/// usual case of none or one.
const FEW: usize = 6;

/// An index over an ascending list that is stored elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct BucketIndex {
    shift: u32,
    /// The count of numbers up to the first of each bucket; one more entry at the end.
    at_or_below: Vec<u32>,
}

impl BucketIndex {
    /// Builds the index. `row` is ascending (equal numbers are allowed) and has fewer than 2³²
    /// members. A short list gets at least `fewest` buckets.
    pub(crate) fn new(row: &[u64], min_buckets: usize) -> Self {
        let max_buckets = (2 * row.len()).clamp(min_buckets, MAX_BUCKETS.max(min_buckets)) as u64;
        let top = row.last().copied().unwrap_or(0);
        let shift = (0..u64::BITS).find(|shift| top >> shift < max_buckets).unwrap_or(0);
        let count = |number: u64| row.partition_point(|member| *member <= number) as u32;
        let mut at_or_below: Vec<u32> =
            (0..=top >> shift).map(|bucket| count(bucket << shift)).collect();
        at_or_below.push(row.len() as u32);
        Self { shift, at_or_below }
    }

    /// The number of members of `row`, from which the index was made, that are at most `number`.
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
            steps in proptest::collection::vec(
                prop_oneof![Just(0_u64), 0_u64..3, 0_u64..3_000, Just(1_u64 << 40)],
                0..60,
            ),
            near in 0_usize..60,
            offset in -2_i64..=2,
            min_buckets in 1_usize..2_000,
        ) {
            let mut sum = 0;
            let row: Vec<u64> = steps
                .iter()
                .map(|step| {
                    sum += step;
                    sum
                })
                .collect();
            let number = row.get(near).copied().unwrap_or(5).saturating_add_signed(offset);
            let counted = row.iter().filter(|member| **member <= number).count();
            prop_assert_eq!(BucketIndex::new(&row, min_buckets).at_or_below(&row, number), counted);
        }
    }
}
