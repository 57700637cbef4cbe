//! A drive whose bytes are in memory: it answers at once and forgets everything when it is closed.
//!
//! For measurements of the layers above a drive, and for experiments. Only written data takes
//! memory, in chunks of 64 KiB. Chunks that a discard or a zeroing clears are freed.
//!
//! *Differs from a drive*: no time passes, nothing is ever durable (a flush has nothing to do), and
//! the queue is never longer than what one iteration of the engine hands over.

use std::collections::BTreeMap;

use bytes::Bytes;
use headtime_sched::Op;
use headtime_units::{Instant, SectorSize};

use crate::backend::OpenedDrive;
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::locator::MemoryLocator;

/// Opens an empty drive.
pub(crate) fn open(locator: &MemoryLocator) -> OpenedDrive {
    let (capacity, sector_size) = (locator.capacity(), locator.sector);
    let backend = Box::new(MemoryDrive::new(sector_size));
    OpenedDrive {
        physical_block: PHYSICAL_BLOCK.max(sector_size.bytes()),
        ..OpenedDrive::new(backend, capacity, sector_size, QUEUE_DEPTH)
    }
}

/// The drive of the engine.
struct MemoryDrive {
    sector_size: SectorSize,
    bytes: SparseBytes,
    /// Completed commands that were not collected yet.
    done: Vec<BackendCompletion>,
}

impl MemoryDrive {
    fn new(sector_size: SectorSize) -> Self {
        Self { sector_size, bytes: SparseBytes::default(), done: Vec::new() }
    }
}

impl Backend for MemoryDrive {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn start(&mut self, _now: Instant, work: BackendCommand) {
        let read = self.bytes.carry_out(&work, self.sector_size);
        self.done.push(BackendCompletion { command: work.command.id, due: None, result: Ok(read) });
    }

    fn collect(&mut self, _now: Instant, ended: &mut Vec<BackendCompletion>) {
        ended.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Instant> {
        (!self.done.is_empty()).then_some(Instant::ORIGIN)
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn abandon(self: Box<Self>) {}
}

/// Bytes of which most are zero; offsets are bounded by the caller.
#[derive(Debug, Default)]
pub(crate) struct SparseBytes {
    /// Groups of [`GROUP`] chunks each, by the number of their first chunk / [`GROUP`]. With a tree
    /// of chunks, finding one took as long as copying a page.
    groups: BTreeMap<u64, Group>,
}

/// The chunks of a group; `None` for zeroes.
type Group = Box<[Option<Box<[u8]>>]>;

impl SparseBytes {
    /// Executes a command on a drive with sectors of this size; returns the data of a read.
    pub(crate) fn carry_out(&mut self, work: &BackendCommand, sector_size: SectorSize) -> Bytes {
        let BackendCommand { command, pieces } = work;
        let (offset, len) = (
            command.extent.start.get() * u64::from(sector_size.bytes()),
            sector_size.bytes_of(command.extent.len),
        );
        match command.op {
            Op::Read => return self.read(offset, len as usize),
            Op::Write => {
                let mut at = offset;
                for piece in pieces {
                    self.write(at, piece);
                    at += piece.len() as u64;
                }
            }
            Op::Zero | Op::Discard => self.clear(offset, len),
            Op::Flush => {}
        }
        Bytes::new()
    }

    /// `len` bytes from `offset`.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Bytes {
        let mut read = Vec::with_capacity(len);
        for Part { chunk, from, len } in parts(offset, len as u64) {
            match self.chunk(chunk) {
                Some(bytes) => read.extend_from_slice(&bytes[from..from + len]),
                None => read.resize(read.len() + len, 0),
            }
        }
        Bytes::from(read)
    }

    /// Puts `data` at `offset`.
    pub(crate) fn write(&mut self, offset: u64, mut data: &[u8]) {
        for Part { chunk, from, len } in parts(offset, data.len() as u64) {
            let (now, later) = data.split_at(len);
            data = later;
            let (group, index) = place(chunk);
            let group = self.groups.entry(group).or_insert_with(|| vec![None; GROUP].into());
            group[index].get_or_insert_with(|| vec![0; CHUNK].into())[from..from + len]
                .copy_from_slice(now);
        }
    }

    fn chunk(&self, chunk: u64) -> Option<&[u8]> {
        let (group, index) = place(chunk);
        self.groups.get(&group)?[index].as_deref()
    }

    /// Makes `len` bytes from `offset` zero.
    pub(crate) fn clear(&mut self, offset: u64, len: u64) {
        let Some(last) = offset.checked_add(len).filter(|_| len > 0).map(|end| end - 1) else {
            return;
        };
        let ((first, _), (last_group, _)) =
            (place(offset / CHUNK as u64), place(last / CHUNK as u64));
        for (number, group) in self.groups.range_mut(first..=last_group) {
            for (index, chunk) in group.iter_mut().enumerate() {
                let begin = (number * GROUP as u64 + index as u64) * CHUNK as u64;
                if begin > last || begin + CHUNK as u64 <= offset {
                    continue;
                }
                let (from, to) = (
                    offset.saturating_sub(begin) as usize,
                    (last - begin + 1).min(CHUNK as u64) as usize,
                );
                match chunk {
                    Some(bytes) if to - from < CHUNK => bytes[from..to].fill(0),
                    _ => *chunk = None,
                }
            }
        }
        let untouched = |number: &u64| !(first..=last_group).contains(number);
        let kept = |number: &u64, group: &mut Group| {
            untouched(number) || group.iter().any(Option::is_some)
        };
        self.groups.retain(kept);
    }
}

/// The group of a chunk, and its index there.
fn place(chunk: u64) -> (u64, usize) {
    (chunk / GROUP as u64, (chunk % GROUP as u64) as usize)
}

/// The part of a range in one chunk.
struct Part {
    chunk: u64,
    from: usize,
    len: usize,
}

/// Cuts a range at the ends of chunks.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let mut at = offset;
    let mut left = len;
    std::iter::from_fn(move || {
        let from = (at % CHUNK as u64) as usize;
        let len = left.min((CHUNK - from) as u64);
        let part = Part { chunk: at / CHUNK as u64, from, len: len as usize };
        at += len;
        left -= len;
        (len > 0).then_some(part)
    })
}

/// Bytes of a chunk: large enough that finding one costs less than copying a page, small enough
/// that scattered writes take little memory.
const CHUNK: usize = 1 << 16;
/// Chunks of a group: few groups for a drive of some GiB, and a table of 8 KiB for each.
const GROUP: usize = 512;
/// The block size of file systems.
const PHYSICAL_BLOCK: u32 = 4096;
/// As a deep SAS drive; it only bounds how many are handed over before the engine looks again.
const QUEUE_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: usize = 4 * CHUNK;

    fn range() -> impl Strategy<Value = (usize, usize)> {
        // Mistakes are most likely at the ends of chunks.
        let place = prop_oneof![
            0..LONGEST,
            (0..4_usize, 0..3_usize)
                .prop_map(|(chunk, near)| (chunk * CHUNK + near).saturating_sub(1))
        ];
        (place.clone(), place).prop_map(|(a, b)| (a.min(b), a.max(b)))
    }

    proptest! {
        #[test]
        fn sparse_bytes_are_the_bytes_of_a_plain_vector(
            steps in proptest::collection::vec((range(), any::<Option<u8>>()), 1..20),
            visit in range(),
        ) {
            let mut plain = vec![0_u8; LONGEST];
            let mut sparse = SparseBytes::default();
            for ((from, to), value) in steps {
                match value {
                    Some(value) => sparse.write(from as u64, &vec![value; to - from]),
                    None => sparse.clear(from as u64, (to - from) as u64),
                }
                plain[from..to].fill(value.unwrap_or(0));
            }
            let (from, to) = visit;
            prop_assert!(sparse.read(from as u64, to - from) == plain[from..to]);
            prop_assert!(sparse.read(0, LONGEST) == plain);
        }
    }

    #[test]
    fn only_what_was_written_takes_memory_and_discarding_gives_it_back() {
        let mut bytes = SparseBytes::default();
        bytes.write(1 << 50, &[1; 100]);
        assert_eq!(bytes.groups.len(), 1);
        bytes.clear(0, 1 << 60);
        assert!(bytes.groups.is_empty());
    }
}
