//! [`Bitmap`]: a bit for each grain, with the count of those set.

/// A fixed number of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    len: u64,
    set: u64,
}

impl Bitmap {
    /// `len` bits, none of them set.
    pub(crate) fn new(len: u64) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len, set: 0 }
    }

    /// The bits of words as [`Bitmap::words`] returns them; `None` if their number does not fit
    /// `len` bits, or bits after the end are set.
    pub(crate) fn from_words(len: u64, words: Vec<u64>) -> Option<Self> {
        let after_the_end =
            words.last().is_some_and(|last| !len.is_multiple_of(64) && last >> (len % 64) != 0);
        if words.len() as u64 != len.div_ceil(64) || after_the_end {
            return None;
        }
        let set = words.iter().map(|word| u64::from(word.count_ones())).sum();
        Some(Self { words, len, set })
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The number of bits that are set.
    pub(crate) fn count(&self) -> u64 {
        self.set
    }

    pub(crate) fn is_full(&self) -> bool {
        self.set == self.len
    }

    pub(crate) fn contains(&self, bit: u64) -> bool {
        self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, bit: u64) {
        assert!(bit < self.len, "bit {bit} of a bitmap of {}", self.len);
        let word = &mut self.words[(bit / 64) as usize];
        self.set += u64::from(*word >> (bit % 64) & 1 == 0);
        *word |= 1 << (bit % 64);
    }

    /// The runs of bits that are not set: first bit and length.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = self.next(at, false)?;
            let end = self.next(first, true).unwrap_or(self.len);
            at = end;
            Some((first, end - first))
        })
    }

    /// The first bit from `from` on that is set, or that is not.
    fn next(&self, from: u64, set: bool) -> Option<u64> {
        if from >= self.len {
            return None;
        }
        let mut index = (from / 64) as usize;
        let mut mask = u64::MAX << (from % 64);
        while index < self.words.len() {
            let word = if set { self.words[index] } else { !self.words[index] } & mask;
            if word != 0 {
                let bit = index as u64 * 64 + u64::from(word.trailing_zeros());
                return (bit < self.len).then_some(bit);
            }
            mask = u64::MAX;
            index += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn gaps_and_counts_are_those_of_a_set(
            len in 0_u64..300, bits in proptest::collection::vec(0_u64..300, 0..200),
        ) {
            let mut bitmap = Bitmap::new(len);
            let set: BTreeSet<u64> = bits.into_iter().filter(|bit| *bit < len).collect();
            set.iter().for_each(|bit| bitmap.insert(*bit));
            set.iter().for_each(|bit| bitmap.insert(*bit));
            prop_assert_eq!(bitmap.count(), set.len() as u64);
            let gaps = bitmap.gaps();
            let in_gaps: Vec<u64> = gaps.flat_map(|(first, len)| first..first + len).collect();
            let expected: Vec<u64> = (0..len).filter(|bit| !set.contains(bit)).collect();
            prop_assert_eq!(in_gaps, expected);
            prop_assert_eq!(Bitmap::from_words(len, bitmap.words().to_vec()), Some(bitmap));
        }
    }

    #[test]
    fn words_that_do_not_fit_are_refused() {
        assert!(Bitmap::from_words(65, vec![0]).is_none());
        assert!(Bitmap::from_words(65, vec![0, 2]).is_none());
        assert!(Bitmap::from_words(64, vec![u64::MAX]).is_some_and(|bitmap| bitmap.is_full()));
    }
}
