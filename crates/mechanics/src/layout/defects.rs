//! Defects: [`SlipTable`], sectors that the mapping skips, and [`RemapTable`], sectors whose
//! contents are on a spare.
//!
//! Slips shift: the `y`-th usable place of a zone lies on physical sector `y + s`, with `s` slipped
//! sectors before it. With slips at the physical sectors 3 and 4, the places 0 1 2 3 4 … lie on 0 1
//! 2 5 6 …. For the search the table also keeps each slip's *key*, the number of places before it
//! (3 and 3): `s` is the number of keys that are at most `y`. In a zone of several groups the
//! spares of each group absorb its slips, so every group starts from scratch: keys continue from
//! group to group, and the slips of earlier groups are subtracted.
//!
//! Remaps move single sectors: an LBA whose place is defective (its *home*) is read from a spare.
//! All other sectors stay.

use alloc::vec::Vec;

use super::bucket::BucketIndex;

/// Slipped physical sectors of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlipTable {
    /// Ascending.
    sectors: Vec<u64>,
    keys: Vec<u64>,
    by_key: BucketIndex,
    /// Slips of all groups before each group; empty for one group.
    before_group: Vec<u32>,
}

impl SlipTable {
    /// Builds the table from distinct, ascending `sectors`.
    pub(crate) fn new(sectors: Vec<u64>, groups: &SpareGroups) -> Self {
        if sectors.is_empty() {
            return Self::default();
        }
        let before_group: Vec<u32> = if groups.count == 1 {
            Vec::new()
        } else {
            (0..groups.count)
                .map(|group| sectors.partition_point(|slip| *slip < group * groups.sectors) as u32)
                .collect()
        };
        let key = |(number, slip): (u64, &u64)| {
            let group = slip / groups.sectors;
            let before =
                number - before_group.get(group as usize).map_or(0, |before| u64::from(*before));
            // A slip among a group's spares comes after all of its places, but before those of the
            // next group.
            group * groups.places + (slip - group * groups.sectors - before).min(groups.places)
        };
        let keys: Vec<u64> = (0..).zip(&sectors).map(key).collect();
        Self { by_key: BucketIndex::new(&keys, 16), sectors, keys, before_group }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// Slips of all groups before `group`.
    #[inline]
    pub(crate) fn before_group(&self, group: u64) -> usize {
        self.before_group.get(group as usize).map_or(0, |before| *before as usize)
    }

    /// Slips before the `place`-th usable place of the zone, in all groups.
    #[inline]
    pub(crate) fn before_place(&self, place: u64) -> usize {
        if self.keys.is_empty() { 0 } else { self.by_key.at_or_below(&self.keys, place) }
    }

    /// Slips before a physical sector, in all groups.
    pub(crate) fn before_sector(&self, physical: u64) -> usize {
        self.sectors.partition_point(|slip| *slip < physical)
    }

    pub(crate) fn contains(&self, physical: u64) -> bool {
        self.sectors.binary_search(&physical).is_ok()
    }

    /// The slips from the `number`-th on.
    pub(crate) fn from(&self, number: usize) -> &[u64] {
        self.sectors.get(number..).unwrap_or(&[])
    }

    /// The slips up to but not including the `number`-th.
    pub(crate) fn until(&self, number: usize) -> &[u64] {
        self.sectors.get(..number).unwrap_or(&self.sectors)
    }
}

/// The division of a zone into groups with their own spares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpareGroups {
    /// The number of groups.
    pub(crate) count: u64,
    /// Physical sectors of each; the last may have fewer.
    pub(crate) sectors: u64,
    /// Usable places of each: its sectors minus its spares.
    pub(crate) places: u64,
}

/// Remapped physical sectors of one zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemapTable {
    /// Home and spare, by home.
    by_home: Vec<(u64, u64)>,
    /// Spare and home, by spare.
    by_spare: Vec<(u64, u64)>,
    /// Spares that were in use and became defective, ascending.
    dead: Vec<u64>,
}

impl RemapTable {
    pub(crate) fn new(pairs: &[(u64, u64)]) -> Self {
        let mut remaps = Self::default();
        for (home, spare) in pairs {
            remaps.insert(*home, *spare);
        }
        remaps
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_home.is_empty()
    }

    /// The spare of a home.
    pub(crate) fn spare_of(&self, home: u64) -> Option<u64> {
        self.by_home
            .binary_search_by_key(&home, |pair| pair.0)
            .ok()
            .map(|found| self.by_home[found].1)
    }

    /// The home of a spare.
    pub(crate) fn home_of(&self, spare: u64) -> Option<u64> {
        self.by_spare
            .binary_search_by_key(&spare, |pair| pair.0)
            .ok()
            .map(|found| self.by_spare[found].1)
    }

    /// The first remapped home from a physical sector on.
    pub(crate) fn next_home(&self, physical: u64) -> Option<u64> {
        self.by_home.get(self.by_home.partition_point(|pair| pair.0 < physical)).map(|pair| pair.0)
    }

    /// The spares in use from one physical sector up to but not including another, with their
    /// homes.
    pub(crate) fn spares_within(&self, from: u64, until: u64) -> &[(u64, u64)] {
        let place = |physical: u64| self.by_spare.partition_point(|pair| pair.0 < physical);
        &self.by_spare[place(from)..place(until)]
    }

    /// True if a spare is in use, or became defective.
    pub(crate) fn taken(&self, spare: u64) -> bool {
        self.home_of(spare).is_some() || self.dead.binary_search(&spare).is_ok()
    }

    /// Remaps `home` to a free `spare`; a previous spare is not used again.
    pub(crate) fn insert(&mut self, home: u64, spare: u64) {
        match self.by_home.binary_search_by_key(&home, |pair| pair.0) {
            Ok(found) => {
                let old = core::mem::replace(&mut self.by_home[found].1, spare);
                self.by_spare.retain(|pair| pair.0 != old);
                self.dead.insert(self.dead.partition_point(|dead| *dead < old), old);
            }
            Err(place) => self.by_home.insert(place, (home, spare)),
        }
        self.by_spare.insert(self.by_spare.partition_point(|pair| pair.0 < spare), (spare, home));
    }
}
