//! [`Benchmark`]: threads that read, write, create, extend and delete small files.
//!
//! Each thread draws an operation and a file, looks the file up, and carries the operation out by
//! calls. A look-up reads the block of the file's directory entry and the block of its inode,
//! unless they are in the cache. Reads of files that are not in the cache wait for the drive, with
//! read-ahead. Everything else dirties pages; a thread then waits only for the hard limit. Changes
//! of metadata are made durable by the [`Journal`].
//!
//! Worked example of creating a file of 20 KiB: the file gets an extent of its directory's space;
//! the thread reads the blocks of entry and inode if needed and dirties five pages. The entry, the
//! inode and two bitmaps change. Within 5 s a commit writes the data, then the four blocks to the
//! journal. 30 s later the flusher writes the four blocks to their places.
//!
//! The benchmark follows FFSB's profiles in Seelam and others, Enhancements to Linux I/O
//! scheduling, 2005, section 5.1. *Not modelled*: access times, locks of directories and inodes,
//! names.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Common;
use super::file_system::{FileId, FileSystem};
use super::journal::{Journal, owner_of_block};
use super::output::Output;
use super::read_ahead::{FileRead, WAKE_UP, Windows};
use super::resident::Resident;
use super::write_back::WriteBack;
use crate::arrivals::ThinkTime;
use crate::check::Check;
use crate::dice;
use crate::error::StreamFault;
use crate::process::{FileBenchmark, FileOperations};
use crate::sizes::SectorSizes;
use crate::source::{ClientId, Operation};

/// The threads of one stream, their files and their page cache.
#[derive(Clone, Debug)]
pub(crate) struct Benchmark {
    calls: SectorSizes,
    think: ThinkTime,
    windows: Windows,
    sizes: SectorSizes,
    /// The cumulative shares of the operations.
    shares: [(FileOp, f64); 5],
    page: u64,
    system: FileSystem,
    resident: Resident,
    /// Blocks of metadata in the cache.
    blocks: BTreeSet<u64>,
    cache: WriteBack,
    journal: Option<Journal>,
    starts: Vec<Instant>,
    threads: Vec<Thread>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileOp {
    Read,
    Write,
    Create,
    Append,
    Delete,
}

#[derive(Clone, Debug)]
struct Thread {
    client: Option<ClientId>,
    rng: ChaCha8Rng,
    operations_left: u64,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// The next operation is due at a wake-up.
    Next,
    /// A block of metadata is read before the operation on the file.
    Lookup { op: FileOp, file: FileId, block: u64 },
    /// An extent of a file is read.
    Read { file: FileId, extent: usize, process: FileRead },
    /// The thread waits for the hard limit, and thinks for this time after it.
    Limit(Nanos),
}

impl Benchmark {
    pub(crate) fn new(
        benchmark: &FileBenchmark,
        common: &mut Common<'_>,
    ) -> Result<Self, StreamFault> {
        let Common { config, check, rng, .. } = common;
        let (clients, think) = super::closed(config, check)?;
        let sizes = SectorSizes::new(&benchmark.file_sizes, check)?;
        check.some("operations", benchmark.operations, "leave it out for no limit")?;
        let windows = Windows::checked(benchmark.read_ahead_bytes, check)?;
        let cache = WriteBack::new(&benchmark.cache, clients, check)?;
        let memory = check.length("memory", benchmark.cache.memory_bytes)?;
        let page = check.page();
        let journal_len = match benchmark.commit {
            Some(_) => check.length("journal", benchmark.journal_bytes)? / page * page,
            None => 0,
        };
        let (start, len) = (common.range.start.get(), common.range.len.get());
        let rest = len.saturating_sub(journal_len);
        let mut draws = ChaCha8Rng::seed_from_u64(rng.next_u64());
        let system = FileSystem::new(
            Extent::from_numbers(start + journal_len, rest),
            benchmark.directories,
            // Twice the files, so that the benchmark can create more than it deletes.
            benchmark.files.div_ceil(benchmark.directories) * 2,
            page,
        );
        let filled = system.and_then(|mut system| {
            for number in 0..benchmark.files {
                system.create(number % benchmark.directories, sizes.draw(&mut draws))?;
            }
            Some(system)
        });
        let Some(system) = filled else {
            return Err(check.value(
                "files",
                benchmark.files,
                alloc::format!(
                    "as many as fit into the range of {} bytes with a journal of {} bytes",
                    check.bytes(len),
                    check.bytes(journal_len)
                ),
                "widen the range, or lower files, file or journal",
            ));
        };
        let journal = benchmark.commit.map(|interval| {
            let area = Extent::from_numbers(start, journal_len);
            let max_request = cache.max_request();
            Journal::new(area, interval, page, max_request, clients + 1)
        });
        let starts = think.first_times(Instant::ORIGIN + config.start, clients, rng);
        let thread = |_| Thread {
            client: None,
            rng: ChaCha8Rng::seed_from_u64(rng.next_u64()),
            operations_left: benchmark.operations.unwrap_or(u64::MAX),
            work: Work::Next,
        };
        Ok(Self {
            calls: SectorSizes::new(&config.sizes, check)?,
            think,
            windows,
            sizes,
            shares: shares(&benchmark.mix, check)?,
            page,
            system,
            resident: Resident::new(memory),
            blocks: BTreeSet::new(),
            cache,
            journal,
            starts,
            threads: (0..clients).map(thread).collect(),
        })
    }

    /// Begins all threads.
    pub(crate) fn start(&mut self, out: &mut Output<'_>) {
        for (place, (thread, at)) in self.threads.iter_mut().zip(&self.starts).enumerate() {
            let client = out.begin(place as u32);
            thread.client = Some(client);
            out.wake(*at, client);
        }
        self.cache.start(out);
        if let Some(journal) = &mut self.journal {
            journal.start(out);
        }
    }

    /// A thread's next operation, a commit or the flusher is due.
    pub(crate) fn wake(&mut self, now: Instant, place: u32, out: &mut Output<'_>) {
        let threads = self.threads.len();
        if (place as usize) < threads {
            self.begin_operation(place as usize, now, out);
        } else if place as usize > threads
            && let Some(journal) = &mut self.journal
        {
            journal.wake();
        }
        self.settle(now, out);
    }

    /// A request of a thread, the flusher or the journal is complete.
    pub(crate) fn finished(&mut self, now: Instant, place: u32, out: &mut Output<'_>) {
        let (place, threads) = (place as usize, self.threads.len());
        if place < threads {
            match self.threads[place].work {
                Work::Lookup { op, file, block } => {
                    self.blocks.insert(block);
                    self.look_up(place, op, file, now, out);
                }
                Work::Read { file, extent, process } => {
                    self.read(place, file, extent, process, now, out);
                }
                Work::Next | Work::Limit(_) => {}
            }
        } else if place == threads {
            self.cache.finished();
        } else if let Some(journal) = &mut self.journal {
            journal.finished(now, &mut self.cache);
        }
        self.settle(now, out);
    }

    /// Lets journal and flusher do what they can, and threads continue that wait for them.
    fn settle(&mut self, now: Instant, out: &mut Output<'_>) {
        if let Some(journal) = &mut self.journal {
            journal.advance(now, &mut self.cache, out);
        }
        self.cache.advance(now, out);
        if !self.cache.is_over_limit() {
            for thread in &mut self.threads {
                if let (Work::Limit(think), Some(client)) = (thread.work, thread.client) {
                    thread.work = Work::Next;
                    out.wake(now + WAKE_UP + think, client);
                }
            }
        }
        let over = self.threads.iter().all(|thread| thread.client.is_none());
        if over && self.journal.as_ref().is_none_or(Journal::is_idle) {
            if let Some(journal) = &mut self.journal {
                journal.end(now, out);
            }
            self.cache.end_if_idle(now, out);
        }
    }

    fn begin_operation(&mut self, place: usize, now: Instant, out: &mut Output<'_>) {
        let thread = &mut self.threads[place];
        let over = thread.operations_left == 0 || self.cache.is_closed() || !out.limits.allow(now);
        if over {
            return self.end(place, now, out);
        }
        thread.operations_left -= 1;
        let point = dice::above_zero(&mut thread.rng);
        let op = self.shares.iter().find(|(_, up_to)| point <= *up_to);
        let op = op.map_or(FileOp::Read, |(op, _)| *op);
        let pick = thread.rng.next_u64();
        let below = |count: u64| ((u128::from(pick) * u128::from(count)) >> 64) as u64;
        let file = match (op, self.system.len()) {
            (FileOp::Create, _) => {
                let len = self.sizes.draw(&mut thread.rng);
                self.system.create(below(self.system.groups()), len)
            }
            (_, 0) => None,
            (_, files) => Some(self.system.file(below(files))),
        };
        match file {
            Some(file) => self.look_up(place, op, file, now, out),
            // No file to use, or no space for one: the call fails.
            None => self.next(place, 0, now, out),
        }
    }

    /// Reads the next block of metadata that the operation lacks, or carries it out.
    fn look_up(
        &mut self,
        place: usize,
        op: FileOp,
        file: FileId,
        now: Instant,
        out: &mut Output<'_>,
    ) {
        if !self.system.exists(file) {
            // Another thread has deleted it.
            return self.next(place, 0, now, out);
        }
        let missing =
            self.system.lookup_blocks(file).into_iter().find(|block| !self.blocks.contains(block));
        match missing {
            Some(block) => {
                self.threads[place].work = Work::Lookup { op, file, block };
                self.submit(place, now, Extent::from_numbers(block, self.page), out);
            }
            None => self.carry_out(place, op, file, now, out),
        }
    }

    fn carry_out(
        &mut self,
        place: usize,
        op: FileOp,
        file: FileId,
        now: Instant,
        out: &mut Output<'_>,
    ) {
        let [entry, inode] = self.system.lookup_blocks(file);
        let [blocks, inodes] = self.system.bitmaps(file);
        let len = match op {
            FileOp::Read if self.resident.use_file(file) => self.system.size(file),
            FileOp::Read => {
                let first = self.system.extents(file)[0];
                let process = FileRead::new(first, self.windows, now);
                return self.read(place, file, 0, process, now, out);
            }
            FileOp::Write => {
                self.dirty(file, now);
                self.change(now, &[inode], out);
                self.system.size(file)
            }
            FileOp::Create => {
                self.dirty(file, now);
                self.change(now, &[entry, inode, blocks, inodes], out);
                self.system.size(file)
            }
            FileOp::Append => {
                let len = self.sizes.draw(&mut self.threads[place].rng);
                if let Some(extent) = self.system.append(file, len) {
                    self.cache.dirty(now, u64::from(file), extent);
                    if self.resident.use_file(file) {
                        self.keep(file);
                    }
                    self.change(now, &[inode, blocks], out);
                }
                len
            }
            FileOp::Delete => {
                self.cache.forget(u64::from(file));
                self.resident.remove(file);
                self.system.delete(file);
                self.change(now, &[entry, inode, blocks, inodes], out);
                0
            }
        };
        self.next(place, len, now, out);
    }

    /// Continues to read a file, extent by extent.
    fn read(
        &mut self,
        place: usize,
        file: FileId,
        mut extent: usize,
        mut process: FileRead,
        now: Instant,
        out: &mut Output<'_>,
    ) {
        loop {
            let Self { threads, calls, think, .. } = self;
            let rng = &mut threads[place].rng;
            let step = process.advance(now, || (calls.draw(rng), think.draw(rng)));
            if let Some((at, read)) = step.request {
                self.threads[place].work = Work::Read { file, extent, process };
                return self.submit(place, at, read, out);
            }
            let Some(at) = step.done else { return };
            extent += 1;
            match self.system.extents(file).get(extent) {
                Some(next) => process = FileRead::new(*next, self.windows, at),
                None => {
                    if self.system.exists(file) {
                        self.keep(file);
                    }
                    return self.wake_at(place, at, out);
                }
            }
        }
    }

    /// Dirties all pages of a file that are not dirty.
    fn dirty(&mut self, file: FileId, now: Instant) {
        if !self.cache.is_dirty(u64::from(file)) {
            for extent in self.system.extents(file) {
                self.cache.dirty(now, u64::from(file), *extent);
            }
        }
        self.keep(file);
    }

    /// Keeps a file in the cache.
    fn keep(&mut self, file: FileId) {
        let cache = &self.cache;
        self.resident.insert(file, self.system.size(file), |file| cache.is_dirty(u64::from(file)));
    }

    /// Blocks of metadata have changed.
    fn change(&mut self, now: Instant, blocks: &[u64], out: &mut Output<'_>) {
        self.blocks.extend(blocks);
        if let Some(journal) = &mut self.journal {
            return journal.change(now, blocks.iter().copied(), out);
        }
        for block in blocks {
            if !self.cache.is_dirty(owner_of_block(*block)) {
                let extent = Extent::from_numbers(*block, self.page);
                self.cache.dirty(now, owner_of_block(*block), extent);
            }
        }
    }

    /// Ends an operation that called for `len` sectors in the cache; at least one call.
    fn next(&mut self, place: usize, len: u64, now: Instant, out: &mut Output<'_>) {
        let thread = &mut self.threads[place];
        let (mut done, mut think) = (0, Nanos::ZERO);
        loop {
            done += self.calls.draw(&mut thread.rng);
            think += self.think.draw(&mut thread.rng);
            if done >= len {
                break;
            }
        }
        if self.cache.is_over_limit() {
            thread.work = Work::Limit(think);
        } else {
            self.wake_at(place, now + think, out);
        }
    }

    fn wake_at(&mut self, place: usize, at: Instant, out: &mut Output<'_>) {
        let thread = &mut self.threads[place];
        thread.work = Work::Next;
        if let Some(client) = thread.client {
            out.wake(at, client);
        }
    }

    fn submit(&mut self, place: usize, at: Instant, read: Extent, out: &mut Output<'_>) {
        if let Some(client) = self.threads[place].client
            && !out.request(at, client, Operation::Read, read)
        {
            self.end(place, at, out);
        }
    }

    fn end(&mut self, place: usize, at: Instant, out: &mut Output<'_>) {
        let thread = &mut self.threads[place];
        thread.work = Work::Next;
        if let Some(client) = thread.client.take() {
            out.end(at, client);
        }
    }
}

/// The cumulative shares of the operations, which make one together.
fn shares(mix: &FileOperations, check: &Check) -> Result<[(FileOp, f64); 5], StreamFault> {
    let shares = [
        ("reads", FileOp::Read, mix.reads),
        ("writes", FileOp::Write, mix.writes),
        ("creates", FileOp::Create, mix.creates),
        ("appends", FileOp::Append, mix.appends),
        ("deletes", FileOp::Delete, mix.deletes),
    ];
    let mut sum = 0.0;
    for (key, _, share) in shares {
        check.share(key, share)?;
        sum += share;
    }
    if (sum - 1.0).abs() > 1e-6 {
        return Err(check.value(
            "sum of reads, writes, creates, appends and deletes",
            sum,
            "1",
            "correct one of the shares",
        ));
    }
    let mut up_to = 0.0;
    Ok(shares.map(|(_, op, share)| {
        up_to += share;
        (op, up_to)
    }))
}
