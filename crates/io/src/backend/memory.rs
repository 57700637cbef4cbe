//! A drive whose bytes are in memory: it answers at once and forgets everything when it is closed.
//!
//! For measurements of the layers above a drive, and for experiments. Only written data takes
//! memory, in chunks of 64 KiB. Chunks that a discard or a zeroing clears are freed.
//!
//! *Differs from a drive*: no time passes, nothing is ever durable (a flush has nothing to do), and
//! the queue is never longer than what one iteration of the engine hands over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
    /// The chunks by offset / [`CHUNK`].
    chunks: BTreeMap<u64, Box<[u8]>>,
}

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
            match self.chunks.get(&chunk) {
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
            self.chunks.entry(chunk).or_insert_with(|| vec![0; CHUNK].into_boxed_slice())
                [from..from + len]
                .copy_from_slice(now);
        }
    }

    /// Makes `len` bytes from `offset` zero.
    pub(crate) fn clear(&mut self, offset: u64, len: u64) {
        let Some(last) = offset.checked_add(len).filter(|_| len > 0).map(|end| end - 1) else {
            return;
        };
        let touched: Vec<u64> = self
            .chunks
            .range(offset / CHUNK as u64..=last / CHUNK as u64)
            .map(|(chunk, _)| *chunk)
            .collect();
        for chunk in touched {
            let begin = chunk * CHUNK as u64;
            let (from, to) = (
                offset.saturating_sub(begin) as usize,
                (last - begin + 1).min(CHUNK as u64) as usize,
            );
            if let Entry::Occupied(mut bytes) = self.chunks.entry(chunk) {
                if from == 0 && to == CHUNK {
                    bytes.remove();
                } else {
                    bytes.get_mut()[from..to].fill(0);
                }
            }
        }
    }
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
        assert_eq!(bytes.chunks.len(), 1);
        bytes.clear(0, 1 << 60);
        assert!(bytes.chunks.is_empty());
    }
}
