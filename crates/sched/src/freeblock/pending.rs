//! [`PendingSectors`]: the pending sectors of a scan, as a bitmap with sums.
//!
//! One bit represents a *grain*, a run of sectors that is read and delivered as a whole. Above the
//! bits are two levels of sums: the pending grains in each block of 64 words, and in each 64
//! blocks. So a count over any extent and the next pending sector are found without a scan of the
//! bitmap.
//!
//! Worked example, grains of 8 sectors on 100 sectors: there are 13 grains, the last of 4 sectors.
//! Inserting 10..20 adds the grains 1 and 2, sectors 8..24. The extent 9..24 contains only 16..24
//! wholly, so 8 sectors count. Of 96..100 all 4 count.
//!
//! Choose grains of at most a sixteenth of the shortest track: a grain that lies on two tracks is
//! never read in a gap. 20 TB at 64 KiB take 39 MB, and a 9 GB drive at one sector takes 2.3 MB.
//!
//! Cost: inserting and removing O(words touched); counting O(64 words at either end + blocks
//! between); the next pending grain O(64 words + blocks in between).

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::{Extent, Lba, Sectors};

/// Grains per word.
const WORD: u64 = 64;
/// Words per block, and blocks per region.
const BLOCK: u64 = 64;

/// The pending sectors of a scan, in grains. The capacity and the grain are fixed at creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSectors {
    capacity: u64,
    grain: u64,
    words: Vec<u64>,
    /// Pending grains of each block of words.
    blocks: Vec<u16>,
    /// Pending grains of each region of blocks.
    regions: Vec<u32>,
    /// The total of pending grains.
    grains: u64,
}

impl PendingSectors {
    /// An empty set for a drive of `capacity`, in grains of `grain` sectors; the last grain ends
    /// where the drive ends.
    ///
    /// # Panics
    /// When `grain` is zero.
    #[must_use]
    pub fn new(capacity: Sectors, grain: Sectors) -> Self {
        assert!(!grain.is_zero(), "a grain has at least one sector");
        let words = capacity.get().div_ceil(grain.get()).div_ceil(WORD);
        let blocks = words.div_ceil(BLOCK);
        let room =
            |count: u64| usize::try_from(count).expect("a bitmap of a drive fits the memory");
        Self {
            capacity: capacity.get(),
            grain: grain.get(),
            words: vec![0; room(words)],
            blocks: vec![0; room(blocks)],
            regions: vec![0; room(blocks.div_ceil(BLOCK))],
            grains: 0,
        }
    }

    /// The full set.
    ///
    /// # Panics
    /// When `grain` is zero.
    #[must_use]
    pub fn all(capacity: Sectors, grain: Sectors) -> Self {
        let mut pending = Self::new(capacity, grain);
        pending.insert(Extent::new(Lba::new(0), capacity));
        pending
    }

    /// The set of the words of [`PendingSectors::words`]; `None` for a wrong length, or for grains
    /// after the end.
    ///
    /// # Panics
    /// When `grain` is zero.
    #[must_use]
    pub fn from_words(capacity: Sectors, grain: Sectors, words: &[u64]) -> Option<Self> {
        let mut pending = Self::new(capacity, grain);
        if words.len() != pending.words.len() {
            return None;
        }
        let after = pending.len() % WORD;
        if after != 0 && words.last().is_some_and(|last| last >> after != 0) {
            return None;
        }
        for (place, word) in words.iter().enumerate() {
            pending.set(place, *word);
        }
        Some(pending)
    }

    /// The bitmap, for storage: bit `g % 64` of word `g / 64` is set if grain `g` is pending.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The drive's size.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.capacity)
    }

    /// Sectors per grain.
    #[must_use]
    pub fn grain(&self) -> Sectors {
        Sectors::new(self.grain)
    }

    /// The number of pending sectors.
    #[must_use]
    pub fn remaining(&self) -> Sectors {
        self.sectors_of(self.grains, self.len())
    }

    /// Returns whether no sector is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grains == 0
    }

    /// Returns whether the sector is pending.
    #[must_use]
    pub fn contains(&self, lba: Lba) -> bool {
        lba.get() < self.capacity && self.has(lba.get() / self.grain)
    }

    /// Adds every grain that `extent` touches; sectors after the end of the drive are ignored.
    pub fn insert(&mut self, extent: Extent) {
        let end = extent.end().get().min(self.capacity).div_ceil(self.grain);
        let start = extent.start.get() / self.grain;
        if !extent.len.is_zero() {
            self.change(start, end, |word, mask| word | mask);
        }
    }

    /// Removes every grain that lies wholly within `extent`.
    pub fn remove(&mut self, extent: Extent) {
        let (start, end) = self.within(extent);
        self.change(start, end, |word, mask| word & !mask);
    }

    /// The number of pending sectors in grains that lie wholly within `extent`.
    #[must_use]
    pub fn count_in(&self, extent: Extent) -> Sectors {
        let (start, end) = self.within(extent);
        self.sectors_of(self.count(start, end), end)
    }

    /// The next pending run that starts at `from` or after it, at most `most` sectors of it, but at
    /// least a grain.
    #[must_use]
    pub fn next_from(&self, from: Lba, most: Sectors) -> Option<Extent> {
        let start = self.next_pending(from.get().div_ceil(self.grain), self.len())?;
        let limit = self.len().min(start + (most.get() / self.grain).max(1));
        Some(self.extent_of(start, self.run_end(start, limit)))
    }

    /// The shortest extent of all pending grains that lie wholly within `extent`; `None` if there
    /// are none.
    #[must_use]
    pub fn hull_in(&self, extent: Extent) -> Option<Extent> {
        let (start, end) = self.within(extent);
        let first = self.next_pending(start, end)?;
        Some(self.extent_of(first, self.last_pending(first, end) + 1))
    }

    /// The runs of pending grains that lie wholly within `extent`, by address.
    pub fn runs_in(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        let (mut at, end) = self.within(extent);
        core::iter::from_fn(move || {
            let start = self.next_pending(at, end)?;
            at = self.run_end(start, end);
            Some(self.extent_of(start, at))
        })
    }

    /// `extent` extended on both sides to whole grains.
    #[must_use]
    pub fn whole_grains(&self, extent: Extent) -> Extent {
        self.extent_of(
            extent.start.get() / self.grain,
            extent.end().get().min(self.capacity).div_ceil(self.grain),
        )
    }

    /// Checks the sums against the bits.
    ///
    /// # Panics
    /// When they do not agree: a fault of this module.
    pub fn self_check(&self) {
        let ones =
            |words: &[u64]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let step = BLOCK as usize;
        let blocks: Vec<u64> = self.words.chunks(step).map(ones).collect();
        assert!(
            blocks.iter().copied().eq(self.blocks.iter().map(|sum| u64::from(*sum))),
            "the sums of the blocks are not those of the bits"
        );
        let regions = blocks.chunks(step).map(|blocks| blocks.iter().sum::<u64>());
        assert!(
            regions.eq(self.regions.iter().map(|sum| u64::from(*sum))),
            "the sums of the regions are not those of the bits"
        );
        assert_eq!(
            self.grains,
            blocks.iter().sum::<u64>(),
            "the sum of all is not that of the bits"
        );
    }

    /// The number of grains.
    fn len(&self) -> u64 {
        self.capacity.div_ceil(self.grain)
    }

    /// The grains that lie wholly within `extent`: the first, and the one after the last.
    fn within(&self, extent: Extent) -> (u64, u64) {
        let end = extent.end().get();
        let end = if end >= self.capacity { self.len() } else { end / self.grain };
        let start = extent.start.get().div_ceil(self.grain).min(end);
        (start, end)
    }

    fn extent_of(&self, start: u64, end: u64) -> Extent {
        let (first, after) = (start * self.grain, (end * self.grain).min(self.capacity));
        Extent::from_numbers(first, after.saturating_sub(first))
    }

    /// The sectors of `grains` pending grains before `end`; the drive's last grain may be shorter.
    fn sectors_of(&self, grains: u64, end: u64) -> Sectors {
        let short = (self.len() * self.grain - self.capacity)
            * u64::from(end == self.len() && grains > 0 && self.has(end - 1));
        Sectors::new(grains * self.grain - short)
    }

    fn has(&self, grain: u64) -> bool {
        self.words[(grain / WORD) as usize] >> (grain % WORD) & 1 == 1
    }

    fn set(&mut self, place: usize, word: u64) {
        let before = u64::from(self.words[place].count_ones());
        let after = u64::from(word.count_ones());
        self.words[place] = word;
        let block = place / BLOCK as usize;
        // Subtracted first: a sum never falls below zero, because the old value was counted.
        self.blocks[block] = self.blocks[block] - before as u16 + after as u16;
        let region = &mut self.regions[block / BLOCK as usize];
        *region = *region - before as u32 + after as u32;
        self.grains = self.grains - before + after;
    }

    fn change(&mut self, start: u64, end: u64, change: impl Fn(u64, u64) -> u64) {
        let mut at = start;
        while at < end {
            let place = at / WORD;
            let upto = end.min((place + 1) * WORD);
            let mask = mask(at % WORD, upto - at);
            let word = change(self.words[place as usize], mask);
            if word != self.words[place as usize] {
                self.set(place as usize, word);
            }
            at = upto;
        }
    }

    fn count(&self, start: u64, end: u64) -> u64 {
        const BLOCK_GRAINS: u64 = WORD * BLOCK;
        const REGION_GRAINS: u64 = BLOCK_GRAINS * BLOCK;
        let (mut at, mut sum) = (start, 0);
        while at < end {
            let left = end - at;
            if at % REGION_GRAINS == 0 && left >= REGION_GRAINS {
                sum += u64::from(self.regions[(at / REGION_GRAINS) as usize]);
                at += REGION_GRAINS;
            } else if at % BLOCK_GRAINS == 0 && left >= BLOCK_GRAINS {
                sum += u64::from(self.blocks[(at / BLOCK_GRAINS) as usize]);
                at += BLOCK_GRAINS;
            } else {
                let upto = end.min((at / WORD + 1) * WORD);
                sum += u64::from(
                    (self.words[(at / WORD) as usize] & mask(at % WORD, upto - at)).count_ones(),
                );
                at = upto;
            }
        }
        sum
    }

    /// The first pending grain in `start..end`.
    fn next_pending(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end {
            return None;
        }
        let mut place = (start / WORD) as usize;
        let mut word = self.words[place] & (u64::MAX << (start % WORD));
        let step = BLOCK as usize;
        while word == 0 {
            place += 1;
            // Empty blocks and regions are skipped.
            while place.is_multiple_of(step)
                && self.blocks.get(place / step).is_some_and(|sum| *sum == 0)
            {
                let block = place / step;
                let empty_region = block.is_multiple_of(step) && self.regions[block / step] == 0;
                place += if empty_region { step * step } else { step };
            }
            if place as u64 * WORD >= end {
                return None;
            }
            word = self.words[place];
        }
        let found = place as u64 * WORD + u64::from(word.trailing_zeros());
        (found < end).then_some(found)
    }

    /// The last pending grain before `end`, which is not before the pending grain `first`.
    fn last_pending(&self, first: u64, end: u64) -> u64 {
        let mut place = ((end - 1) / WORD) as usize;
        let mut word = self.words[place] & mask(0, (end - 1) % WORD + 1);
        while word == 0 && place as u64 > first / WORD {
            place -= 1;
            word = self.words[place];
        }
        place as u64 * WORD + u64::from(word.checked_ilog2().unwrap_or(0))
    }

    /// The end of the run of pending grains from `start` on, at most `end`.
    fn run_end(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        while at < end {
            let ones =
                u64::from((!(self.words[(at / WORD) as usize] >> (at % WORD))).trailing_zeros());
            let left = WORD - at % WORD;
            at += ones.min(left);
            if ones < left {
                break;
            }
        }
        at.min(end)
    }
}

/// `len` bits from bit `from` on; together within a word.
fn mask(from: u64, len: u64) -> u64 {
    if len == WORD { u64::MAX } else { ((1 << len) - 1) << from }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Change {
        Insert(Extent),
        Remove(Extent),
    }

    /// Long extents beside short ones, so that blocks are filled and emptied.
    fn extent(capacity: u64) -> impl Strategy<Value = Extent> {
        (0..capacity, prop_oneof![0_u64..40, 0..capacity])
            .prop_map(move |(start, len)| Extent::from_numbers(start, len))
    }

    fn changes() -> impl Strategy<Value = (u64, u64, Vec<Change>, Extent)> {
        (1_u64..30_000, 1_u64..9).prop_flat_map(|(capacity, grain)| {
            let change = (any::<bool>(), extent(capacity)).prop_map(|(insert, extent)| {
                if insert { Change::Insert(extent) } else { Change::Remove(extent) }
            });
            (
                Just(capacity),
                Just(grain),
                proptest::collection::vec(change, 0..12),
                extent(capacity),
            )
        })
    }

    /// The grains wholly within, by looking at each.
    fn within(capacity: u64, grain: u64, extent: Extent) -> Vec<u64> {
        let end = |one: u64| ((one + 1) * grain).min(capacity);
        (0..capacity.div_ceil(grain))
            .filter(|one| one * grain >= extent.start.get() && end(*one) <= extent.end().get())
            .collect()
    }

    fn sectors(capacity: u64, grain: u64, grains: impl Iterator<Item = u64>) -> u64 {
        grains.map(|one| ((one + 1) * grain).min(capacity) - one * grain).sum()
    }

    proptest! {
        #[test]
        fn counts_and_runs_are_those_of_a_set_of_grains(
            (capacity, grain, changes, requested) in changes(),
        ) {
            let mut pending = PendingSectors::new(Sectors::new(capacity), Sectors::new(grain));
            let mut set = BTreeSet::new();
            for change in changes {
                match change {
                    Change::Insert(extent) => {
                        pending.insert(extent);
                        let touched =
                            |one: &u64| extent.overlaps(Extent::from_numbers(one * grain, grain));
                        set.extend((0..capacity.div_ceil(grain)).filter(touched));
                    }
                    Change::Remove(extent) => {
                        pending.remove(extent);
                        for one in within(capacity, grain, extent) {
                            set.remove(&one);
                        }
                    }
                }
                pending.self_check();
            }
            prop_assert_eq!(
                pending.remaining().get(),
                sectors(capacity, grain, set.iter().copied())
            );
            let inside: Vec<u64> = within(capacity, grain, requested)
                .into_iter()
                .filter(|one| set.contains(one))
                .collect();
            prop_assert_eq!(
                pending.count_in(requested).get(),
                sectors(capacity, grain, inside.iter().copied())
            );
            let mut runs: Vec<Extent> = Vec::new();
            for one in &inside {
                let len = ((one + 1) * grain).min(capacity) - one * grain;
                match runs.last_mut() {
                    Some(last) if last.end().get() == one * grain => last.len += Sectors::new(len),
                    _ => runs.push(Extent::from_numbers(one * grain, len)),
                }
            }
            prop_assert_eq!(pending.runs_in(requested).collect::<Vec<_>>(), runs.clone());
            let hull = runs
                .first()
                .zip(runs.last())
                .map(|(first, last)| Extent::new(first.start, last.end() - first.start));
            prop_assert_eq!(pending.hull_in(requested), hull);
            let next = set.iter().copied().find(|one| one * grain >= requested.start.get());
            prop_assert_eq!(
                pending.next_from(requested.start, Sectors::new(grain)).map(|run| run.start.get()),
                next.map(|one| one * grain)
            );
            prop_assert_eq!(
                pending.contains(requested.start),
                set.contains(&(requested.start.get() / grain))
            );
            prop_assert_eq!(
                PendingSectors::from_words(pending.capacity(), pending.grain(), pending.words()),
                Some(pending)
            );
        }
    }

    #[test]
    fn the_last_grain_ends_where_the_drive_ends() {
        let mut pending = PendingSectors::new(Sectors::new(100), Sectors::new(8));
        pending.insert(Extent::from_numbers(10, 10));
        pending.insert(Extent::from_numbers(99, 50));
        assert_eq!(pending.remaining().get(), 16 + 4);
        assert_eq!(pending.count_in(Extent::from_numbers(9, 15)).get(), 8);
        assert_eq!(pending.count_in(Extent::from_numbers(96, 4)).get(), 4);
        assert_eq!(
            pending.next_from(Lba::new(17), Sectors::new(64)),
            Some(Extent::from_numbers(96, 4))
        );
        assert_eq!(pending.whole_grains(Extent::from_numbers(95, 4)), Extent::from_numbers(88, 12));
        assert_eq!(
            PendingSectors::from_words(Sectors::new(100), Sectors::new(8), &[1 << 13]),
            None,
            "there is no grain 13"
        );
        assert_eq!(PendingSectors::from_words(Sectors::new(100), Sectors::new(8), &[0, 0]), None);
    }

    #[test]
    fn twenty_terabytes_are_searched_without_walking_them() {
        let capacity = Sectors::new(20_000_000_000_000 / 512);
        let mut pending = PendingSectors::all(capacity, Sectors::new(128));
        assert_eq!((pending.remaining(), pending.words().len() * 8 / 1_000_000), (capacity, 38));
        pending.remove(Extent::new(Lba::new(0), Sectors::new(39_000_000_000)));
        let next = pending.next_from(Lba::new(5), Sectors::new(256));
        assert_eq!(next, Some(Extent::from_numbers(39_000_000_000, 256)));
        pending.remove(Extent::new(Lba::new(0), capacity));
        assert_eq!(
            (pending.is_empty(), pending.next_from(Lba::new(0), Sectors::new(1))),
            (true, None)
        );
    }
}
