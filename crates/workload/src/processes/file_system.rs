//! [`FileSystem`]: where the files of a benchmark are on the drive.
//!
//! The range is divided into a journal and one group for each directory. A group has, in this
//! order: a bitmap of blocks and one of inodes, blocks of directory entries, blocks of inodes, and
//! data. Files are laid out in the order of their creation, first fit after the last file of the
//! group, from the start of the data again at its end. Appended data is another extent. The layout
//! is that of ext2 and ext3 with directories that are spread over the block groups.
//!
//! Worked example with 1,000 files of a directory: two bitmaps, 16 blocks of 128 entries, 63 blocks
//! of 32 inodes, then data. The 40th file has its entry in the first directory block and its inode
//! in the second inode block.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::Extent;

/// Inodes of 128 bytes in a block of 4 KiB.
const INODES_PER_BLOCK: u64 = 32;
/// Directory entries of 32 bytes in a block of 4 KiB: names of 20 letters or so.
const ENTRIES_PER_BLOCK: u64 = 128;

/// A file's number, which is used again after the file is deleted.
pub(super) type FileId = u32;

/// The files and the free space. Addresses and lengths are in sectors.
#[derive(Clone, Debug)]
pub(super) struct FileSystem {
    page: u64,
    groups: Vec<Group>,
    files: Vec<File>,
    /// The existing files, and the numbers of those that are deleted.
    living: Vec<FileId>,
    deleted: Vec<FileId>,
}

/// One directory and the space for its files.
#[derive(Clone, Debug)]
struct Group {
    start: u64,
    entry_blocks: u64,
    inode_blocks: u64,
    /// The number of inodes that were ever used, and those that are free again.
    inodes: u64,
    free_inodes: Vec<u32>,
    /// Free extents: length by start.
    free: BTreeMap<u64, u64>,
    /// The end of the last allocation.
    goal: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    group: u32,
    inode: u32,
    extents: Vec<Extent>,
    /// Its place among the living.
    position: u32,
}

impl FileSystem {
    /// An empty file system of `groups` directories, each for up to `max_files` files, in `range`.
    /// `None` if the metadata leaves no space.
    pub(super) fn new(range: Extent, groups: u64, max_files: u64, page: u64) -> Option<Self> {
        let len = range.len.get() / groups / page * page;
        let (entry_blocks, inode_blocks) =
            (max_files.div_ceil(ENTRIES_PER_BLOCK), max_files.div_ceil(INODES_PER_BLOCK));
        let metadata = (2 + entry_blocks + inode_blocks) * page;
        let free = len.checked_sub(metadata).filter(|free| *free > 0)?;
        let group = |number: u64| {
            let start = range.start.get() + number * len;
            let data = start + metadata;
            Group {
                start,
                entry_blocks,
                inode_blocks,
                inodes: 0,
                free_inodes: Vec::new(),
                free: BTreeMap::from([(data, free)]),
                goal: data,
            }
        };
        Some(Self {
            page,
            groups: (0..groups).map(group).collect(),
            files: Vec::new(),
            living: Vec::new(),
            deleted: Vec::new(),
        })
    }

    /// The number of directories.
    pub(super) fn groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// The number of files.
    pub(super) fn len(&self) -> u64 {
        self.living.len() as u64
    }

    /// The file at `position` among all files, below [`FileSystem::len`].
    pub(super) fn file(&self, position: u64) -> FileId {
        self.living[position as usize]
    }

    /// Returns true if the file has not been deleted.
    pub(super) fn exists(&self, file: FileId) -> bool {
        !self.extents(file).is_empty()
    }

    /// The extents of a file.
    pub(super) fn extents(&self, file: FileId) -> &[Extent] {
        &self.files[file as usize].extents
    }

    /// Sectors of a file.
    pub(super) fn size(&self, file: FileId) -> u64 {
        self.extents(file).iter().map(|extent| extent.len.get()).sum()
    }

    /// Creates a file of `len` sectors in the directory `group`, or in the next that has space for
    /// it. `None` if none has.
    pub(super) fn create(&mut self, group: u64, len: u64) -> Option<FileId> {
        let count = self.groups();
        let (group, inode, extent) =
            (group..group + count).map(|group| group % count).find_map(|number| {
                let group = &mut self.groups[number as usize];
                let inode = group.inode()?;
                let extent = group.allocate(len);
                if extent.is_none() {
                    group.free_inodes.push(inode);
                }
                Some((number as u32, inode, extent?))
            })?;
        let id = self.deleted.pop().unwrap_or_else(|| {
            self.files.push(File::default());
            (self.files.len() - 1) as FileId
        });
        let position = self.living.len() as u32;
        self.living.push(id);
        self.files[id as usize] = File { group, inode, extents: Vec::from([extent]), position };
        Some(id)
    }

    /// Appends `len` sectors to a file. `None` if its directory's space is used up.
    pub(super) fn append(&mut self, file: FileId, len: u64) -> Option<Extent> {
        let file = &mut self.files[file as usize];
        let extent = self.groups[file.group as usize].allocate(len)?;
        file.extents.push(extent);
        Some(extent)
    }

    pub(super) fn delete(&mut self, id: FileId) {
        let file = core::mem::take(&mut self.files[id as usize]);
        let group = &mut self.groups[file.group as usize];
        group.free_inodes.push(file.inode);
        for extent in file.extents {
            group.release(extent);
        }
        self.living.swap_remove(file.position as usize);
        if let Some(moved) = self.living.get(file.position as usize) {
            self.files[*moved as usize].position = file.position;
        }
        self.deleted.push(id);
    }

    /// The blocks that a look-up of the file reads: its directory's and its inode's.
    pub(super) fn lookup_blocks(&self, file: FileId) -> [u64; 2] {
        let File { group, inode, .. } = self.files[file as usize];
        let Group { start, entry_blocks, .. } = self.groups[group as usize];
        let inode = u64::from(inode);
        let entry = start + (2 + inode / ENTRIES_PER_BLOCK) * self.page;
        [entry, start + (2 + entry_blocks + inode / INODES_PER_BLOCK) * self.page]
    }

    /// The bitmaps that an allocation of the file changes: of blocks, and of inodes.
    pub(super) fn bitmaps(&self, file: FileId) -> [u64; 2] {
        let start = self.groups[self.files[file as usize].group as usize].start;
        [start, start + self.page]
    }
}

impl Group {
    fn inode(&mut self) -> Option<u32> {
        self.free_inodes.pop().or_else(|| {
            let inode = self.inodes;
            let fits = inode < self.inode_blocks * INODES_PER_BLOCK;
            self.inodes += u64::from(fits);
            fits.then_some(inode as u32)
        })
    }

    /// The first free extent of `len` from the goal on, or from the start.
    fn allocate(&mut self, len: u64) -> Option<Extent> {
        let fits = |(_, free): &(&u64, &u64)| **free >= len;
        let (start, free) = self
            .free
            .range(self.goal..)
            .find(fits)
            .or_else(|| self.free.iter().find(fits))
            .map(|(start, free)| (*start, *free))?;
        self.free.remove(&start);
        if free > len {
            self.free.insert(start + len, free - len);
        }
        self.goal = start + len;
        Some(Extent::from_numbers(start, len))
    }

    /// Frees an extent and joins it to its neighbors.
    fn release(&mut self, extent: Extent) {
        let (mut start, mut len) = (extent.start.get(), extent.len.get());
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        if let Some((before, before_len)) = self.free.range(..start).next_back()
            && before + before_len == start
        {
            (start, len) = (*before, len + before_len);
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    const PAGE: u64 = 8;

    fn small() -> FileSystem {
        FileSystem::new(Extent::from_numbers(1_000, 80_000), 4, 64, PAGE).expect("it fits")
    }

    #[test]
    fn files_of_a_directory_follow_each_other_after_its_metadata() {
        let mut system = small();
        let ids: Vec<FileId> = (0..3).map(|_| system.create(1, 24).expect("space")).collect();
        // Two bitmaps, one block of entries, two of inodes.
        let data = 1_000 + 20_000 + 5 * PAGE;
        for (number, id) in (0..).zip(&ids) {
            assert_eq!(system.extents(*id), [Extent::from_numbers(data + 24 * number, 24)]);
        }
        assert_eq!(system.lookup_blocks(ids[2]), [21_000 + 2 * PAGE, 21_000 + 3 * PAGE]);
        assert_eq!(system.bitmaps(ids[2]), [21_000, 21_000 + PAGE]);
    }

    #[test]
    fn space_and_numbers_of_deleted_files_are_used_again() {
        let mut system = small();
        let ids: Vec<FileId> = (0..60).map(|_| system.create(0, 320).expect("space")).collect();
        let first = system.extents(ids[0])[0];
        for id in ids.iter().take(10) {
            system.delete(*id);
        }
        let again: Vec<FileId> = (0..10).map(|_| system.create(0, 320).expect("space")).collect();
        assert!(again.iter().any(|id| system.extents(*id)[0] == first));
        let freed: BTreeSet<FileId> = ids[..10].iter().copied().collect();
        assert_eq!(again.into_iter().collect::<BTreeSet<_>>(), freed);
        assert_eq!(system.len(), 60);
    }

    #[test]
    fn a_full_directory_lets_the_next_one_have_the_file_until_all_are_full() {
        let mut system = small();
        let mut count = 0;
        while system.create(3, 1_024).is_some() {
            count += 1;
        }
        assert_eq!(count, 4 * ((20_000 - 5 * PAGE) / 1_024));
    }

    /// No two files overlap after many changes, and freed space is joined: without files there is
    /// one free extent in each group.
    #[test]
    fn extents_never_overlap() {
        let mut system = small();
        let mut next = 7_u64;
        let mut draw = |below: u64| {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (next >> 33) % below
        };
        for _ in 0..3_000 {
            match draw(4) {
                0 if system.len() > 0 => system.delete(system.file(draw(system.len()))),
                1 if system.len() > 0 => {
                    system.append(system.file(draw(system.len())), PAGE * (1 + draw(4)));
                }
                _ => {
                    system.create(draw(4), PAGE * (1 + draw(16)));
                }
            }
            assert!((0..system.len()).all(|position| {
                system.files[system.file(position) as usize].position == position as u32
            }));
        }
        let mut all: Vec<Extent> =
            system.living.iter().flat_map(|id| system.extents(*id)).copied().collect();
        all.sort_unstable_by_key(|extent| extent.start);
        assert!(all.len() > 50 && all.windows(2).all(|pair| pair[0].end() <= pair[1].start));
        while system.len() > 0 {
            system.delete(system.file(0));
        }
        assert!(system.groups.iter().all(|group| group.free.len() == 1));
    }
}
