//! [`SortedSet`]: ordered keys in a few blocks of contiguous memory.
//!
//! A queue of some dozens of requests is one block: finding a key is a binary search in an array,
//! and inserting or removing moves the later keys by one. That is several times as fast as a tree
//! of nodes. A long queue has many blocks of at most [`BLOCK`] keys, so that a move stays short; a
//! full block is split in halves, and two small neighbors are joined.
//!
//! Worked example with blocks of 4: 1 3 5 7 | 8 9. Inserting 6 splits the first: 1 3 | 5 6 7 | 8 9.
//! After removing 5 and 6, 7 and 8 9 are joined: 1 3 | 7 8 9.
//!
//! Cost: O(log n + block) to insert and remove, O(log n) to find, O(1) to advance; no allocation
//! while the number of keys stays about the same.

use alloc::vec::Vec;
use core::slice;

/// The maximum number of keys in a block: moving a kilobyte or two takes the time of a cache miss
/// or two.
const BLOCK: usize = 64;

/// Unique keys in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet<K> {
    /// No block is empty, but for the only one of an empty set.
    blocks: Vec<Vec<K>>,
    len: usize,
}

/// Keys from one place on, ascending.
pub(crate) struct Ascending<'a, K> {
    block: slice::Iter<'a, K>,
    after: slice::Iter<'a, Vec<K>>,
}

/// Keys before one place, descending.
pub(crate) struct Descending<'a, K> {
    block: slice::Iter<'a, K>,
    before: slice::Iter<'a, Vec<K>>,
}

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        Self { blocks: Vec::new(), len: 0 }
    }
}

impl<K: Copy + Ord> SortedSet<K> {
    /// The set of these keys, which are distinct, in any order.
    pub(crate) fn of(keys: impl Iterator<Item = K>) -> Self {
        let mut keys: Vec<K> = keys.collect();
        keys.sort_unstable();
        let blocks = keys.chunks(BLOCK / 2).map(|chunk| {
            let mut block = Vec::with_capacity(BLOCK);
            block.extend_from_slice(chunk);
            block
        });
        Self { blocks: blocks.collect(), len: keys.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The smallest key.
    pub(crate) fn first(&self) -> Option<K> {
        self.blocks.first().and_then(|block| block.first()).copied()
    }

    /// The greatest key.
    pub(crate) fn last(&self) -> Option<K> {
        self.blocks.last().and_then(|block| block.last()).copied()
    }

    /// Takes a key in that is not there yet.
    pub(crate) fn insert(&mut self, key: K) {
        if self.blocks.is_empty() {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        // A new greatest key is appended to the last block, not to a block of its own.
        let number = self.block_of(&key).min(self.blocks.len() - 1);
        let block = &mut self.blocks[number];
        if block.last().is_none_or(|last| *last < key) {
            block.push(key);
        } else {
            let place = place_of(block, &key);
            debug_assert!(block[place] != key, "a key is there already");
            block.insert(place, key);
        }
        self.len += 1;
        if self.blocks[number].len() == BLOCK {
            let upper = &self.blocks[number][BLOCK / 2..];
            let mut after = Vec::with_capacity(BLOCK);
            after.extend_from_slice(upper);
            self.blocks[number].truncate(BLOCK / 2);
            self.blocks.insert(number + 1, after);
        }
    }

    /// Removes a key; returns whether it was present.
    pub(crate) fn remove(&mut self, key: &K) -> bool {
        self.take_from(key, |found| found == key).is_some()
    }

    /// Removes and returns the first key that is `key` or greater, if `matches` accepts it.
    pub(crate) fn take_from(&mut self, key: &K, matches: impl FnOnce(&K) -> bool) -> Option<K> {
        let number = self.block_of(key);
        let block = self.blocks.get_mut(number)?;
        let place = place_of(block, key);
        if !block.get(place).is_some_and(matches) {
            return None;
        }
        let taken = block.remove(place);
        self.len -= 1;
        if self.blocks.len() > 1 {
            self.join(number);
        }
        Some(taken)
    }

    /// Returns whether the key is present.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.from(key).next() == Some(key)
    }

    /// Removes all keys and keeps the memory of one block.
    pub(crate) fn clear(&mut self) {
        self.blocks.truncate(1);
        self.blocks.iter_mut().for_each(Vec::clear);
        self.len = 0;
    }

    /// All keys, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &K> + '_ {
        self.blocks.iter().flatten()
    }

    /// The keys that are `key` or greater, ascending.
    pub(crate) fn from(&self, key: &K) -> Ascending<'_, K> {
        let number = self.block_of(key);
        let Some(block) = self.blocks.get(number) else {
            return Ascending { block: [].iter(), after: [].iter() };
        };
        Ascending {
            block: block[place_of(block, key)..].iter(),
            after: self.blocks[number + 1..].iter(),
        }
    }

    /// The keys that are less than `key`, descending.
    pub(crate) fn below(&self, key: &K) -> Descending<'_, K> {
        let number = self.block_of(key);
        let block = self.blocks.get(number).map_or(&[][..], |block| &block[..place_of(block, key)]);
        Descending { block: block.iter(), before: self.blocks[..number].iter() }
    }

    /// The first block with a key that is `key` or greater; the number of blocks if none has.
    fn block_of(&self, key: &K) -> usize {
        match self.blocks.as_slice() {
            [only] => usize::from(only.last().is_some_and(|last| last < key)),
            blocks => blocks.partition_point(|block| block.last().is_some_and(|last| last < key)),
        }
    }

    /// Removes block `number` when it is empty, and joins it to the next one when both together are
    /// half a block.
    fn join(&mut self, number: usize) {
        if self.blocks[number].is_empty() {
            self.blocks.remove(number);
        } else if self
            .blocks
            .get(number + 1)
            .is_some_and(|after| self.blocks[number].len() + after.len() <= BLOCK / 2)
        {
            let after = self.blocks.remove(number + 1);
            self.blocks[number].extend_from_slice(&after);
        }
    }
}

/// The number of smaller keys of a block.
fn place_of<K: Ord>(block: &[K], key: &K) -> usize {
    // The first key of all is the most frequent query: the oldest request.
    if block.first().is_none_or(|first| first >= key) {
        0
    } else {
        block.partition_point(|other| other < key)
    }
}

impl<'a, K> Iterator for Ascending<'a, K> {
    type Item = &'a K;

    fn next(&mut self) -> Option<&'a K> {
        loop {
            if let Some(key) = self.block.next() {
                return Some(key);
            }
            self.block = self.after.next()?.iter();
        }
    }
}

impl<'a, K> Iterator for Descending<'a, K> {
    type Item = &'a K;

    fn next(&mut self) -> Option<&'a K> {
        loop {
            if let Some(key) = self.block.next_back() {
                return Some(key);
            }
            self.block = self.before.next_back()?.iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    impl<K: Copy + Ord> SortedSet<K> {
        fn check(&self) {
            assert_eq!(self.len, self.blocks.iter().map(Vec::len).sum::<usize>());
            assert!(
                self.blocks
                    .iter()
                    .all(|block| block.len() < BLOCK
                        && (!block.is_empty() || self.blocks.len() == 1))
            );
            assert!(self.iter().is_sorted_by(|a, b| a < b));
        }
    }

    fn assert_same(set: &SortedSet<u32>, tree: &BTreeSet<u32>, at: u32) {
        set.check();
        assert!(set.iter().eq(tree) && set.iter().rev().eq(tree.iter().rev()));
        assert!(set.from(&at).eq(tree.range(at..)), "from {at}");
        assert!(set.below(&at).eq(tree.range(..at).rev()), "below {at}");
        assert_eq!((set.len(), set.is_empty()), (tree.len(), tree.is_empty()));
        assert_eq!((set.first(), set.last()), (tree.first().copied(), tree.last().copied()));
    }

    proptest! {
        /// Long enough for many blocks; the second half removes most of the keys again.
        #[test]
        fn a_sorted_set_is_what_a_tree_is(
            keys in proptest::collection::vec((0_u32..700, any::<bool>()), 0..600),
            order in prop_oneof![Just(0_u8), Just(1), Just(2)],
            at in 0_u32..720,
        ) {
            let mut keys = keys;
            match order {
                1 => keys.sort_unstable(),
                2 => keys.sort_unstable_by(|a, b| b.cmp(a)),
                _ => {}
            }
            let (mut set, mut tree) = (SortedSet::default(), BTreeSet::new());
            for (key, _) in &keys {
                if tree.insert(*key) {
                    set.insert(*key);
                }
            }
            assert_same(&set, &tree, at);
            assert_same(&SortedSet::of(tree.iter().rev().copied()), &tree, at);
            for (key, stays) in &keys {
                if !stays {
                    prop_assert_eq!(set.remove(key), tree.remove(key));
                    set.check();
                }
            }
            assert_same(&set, &tree, at);
            for (key, _) in &keys {
                prop_assert_eq!(set.remove(key), tree.remove(key));
            }
            assert_same(&set, &tree, at);
            set.insert(at);
            prop_assert_eq!(set.first(), Some(at));
            set.clear();
            assert_same(&set, &BTreeSet::new(), at);
        }
    }
}
