//! [`Resident`]: the files that a page cache holds, the least recently used replaced first.

use alloc::collections::BTreeMap;

use super::file_system::FileId;

/// Files in the cache, whole or not at all. Lengths are in sectors.
#[derive(Clone, Debug)]
pub(super) struct Resident {
    capacity: u64,
    used: u64,
    /// The files by their last use, and the last use and length of each.
    by_use: BTreeMap<u64, FileId>,
    files: BTreeMap<FileId, (u64, u64)>,
    uses: u64,
}

impl Resident {
    /// An empty cache.
    pub(super) fn new(capacity: u64) -> Self {
        let (by_use, files) = (BTreeMap::new(), BTreeMap::new());
        Self { capacity, used: 0, by_use, files, uses: 0 }
    }

    /// Returns true if the file is in the cache, and counts its use.
    pub(super) fn use_file(&mut self, file: FileId) -> bool {
        let Some((used, _)) = self.files.get_mut(&file) else { return false };
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, file);
        self.uses += 1;
        true
    }

    /// Puts a file of this length into the cache, or updates its length. Files for which `is_dirty`
    /// is true are kept.
    pub(super) fn insert(&mut self, file: FileId, len: u64, is_dirty: impl Fn(FileId) -> bool) {
        self.remove(file);
        self.files.insert(file, (self.uses, len));
        self.by_use.insert(self.uses, file);
        self.uses += 1;
        self.used += len;
        for _ in 0..self.files.len() {
            let Some((_, oldest)) = self.by_use.first_key_value().filter(|_| self.is_over()) else {
                return;
            };
            let oldest = *oldest;
            if is_dirty(oldest) {
                self.use_file(oldest);
            } else {
                self.remove(oldest);
            }
        }
    }

    pub(super) fn remove(&mut self, file: FileId) {
        if let Some((used, len)) = self.files.remove(&file) {
            self.by_use.remove(&used);
            self.used -= len;
        }
    }

    fn is_over(&self) -> bool {
        self.used > self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_clean_file_goes_first() {
        let mut cache = Resident::new(30);
        for file in 0..3 {
            cache.insert(file, 10, |_| false);
        }
        assert!(cache.use_file(0));
        cache.insert(3, 10, |_| false);
        assert!(!cache.use_file(1) && cache.use_file(0) && cache.use_file(2));
        // Of 3, 0 and 2 the first is the oldest, but dirty.
        cache.insert(4, 10, |file| file == 3);
        assert!(cache.use_file(3) && !cache.use_file(0));
    }

    #[test]
    fn a_longer_file_takes_more() {
        let mut cache = Resident::new(30);
        cache.insert(0, 10, |_| false);
        cache.insert(1, 10, |_| false);
        cache.insert(1, 25, |_| false);
        assert!(cache.use_file(1) && !cache.use_file(0));
        cache.remove(1);
        cache.insert(2, 30, |_| false);
        assert!(cache.use_file(2));
    }
}
