//! [`Readers`]: processes that read files from start to end.
//!
//! Worked example of a chain with two files for each lookup and a spawn time of 1 ms: the parent
//! reads a block of 4 KiB; 1 ms after that a process begins and reads the first file, which lies
//! after the block. It ends with its last call. 1 ms later another process begins and reads the
//! second file, after the first. Then the parent reads the next block.
//!
//! Every process is a client of its own, as a process has an I/O context of its own. The parent is
//! one client for the whole chain.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::output::Output;
use super::read_ahead::{FileRead, WAKE_UP, Windows};
use super::{Common, fits, parts};
use crate::arrivals::ThinkTime;
use crate::error::StreamFault;
use crate::process::FilesRead;
use crate::sizes::SectorSizes;
use crate::source::{ClientId, Operation};

/// The readers or chains of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    calls: SectorSizes,
    think: ThinkTime,
    windows: Windows,
    files: Files,
    starts: Vec<Instant>,
    readers: Vec<Reader>,
}

/// The files of each reader.
#[derive(Clone, Debug)]
enum Files {
    /// One file of this length.
    One(u64),
    Tree(Tree),
}

/// The files of a chain, which follow each other.
#[derive(Clone, Debug)]
struct Tree {
    sizes: SectorSizes,
    max_files: u64,
    per_lookup: u64,
    /// The length of a lookup's block.
    block: u64,
    spawn: Nanos,
}

/// One reader or chain.
#[derive(Clone, Debug)]
struct Reader {
    part: Extent,
    rng: ChaCha8Rng,
    /// The random numbers of the sizes, the same in every pass.
    sizes: ChaCha8Rng,
    passes_left: u64,
    parent: Option<ClientId>,
    pass: Pass,
    work: Work,
}

/// The position in a tree.
#[derive(Clone, Debug)]
struct Pass {
    sizes: ChaCha8Rng,
    files: u64,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// The parent reads a block; then a process reads this file.
    Lookup(Extent),
    File(ClientId, FileRead),
    Over,
}

impl Readers {
    pub(crate) fn new(
        files: &FilesRead,
        passes: Option<u64>,
        read_ahead_bytes: Option<u64>,
        common: &mut Common<'_>,
    ) -> Result<Self, StreamFault> {
        let Common { config, check, rng, .. } = common;
        let (clients, think) = super::closed(config, check)?;
        let windows = Windows::checked(read_ahead_bytes, check)?;
        check.some("passes", passes, "leave it out for no limit")?;
        let parts = parts(common.range, clients, check);
        let part = parts[0].len.get();
        let files = match files {
            FilesRead::One { bytes: None } => {
                fits("a page", check.page(), part, check)?;
                Files::One(part)
            }
            FilesRead::One { bytes: Some(bytes) } => {
                let len = check.length("file", *bytes)?;
                fits("file", len, part, check)?;
                Files::One(len)
            }
            FilesRead::Chain { sizes, count, per_lookup, spawn } => {
                check.some("files", *count, "leave it out for as many as the range holds")?;
                check.some("per_lookup", Some(*per_lookup), "32 files share a block of inodes")?;
                let (sizes, block) = (SectorSizes::new(sizes, check)?, check.page());
                fits("largest file with the parent's block", sizes.largest() + block, part, check)?;
                let max_files = count.unwrap_or(u64::MAX);
                Files::Tree(Tree {
                    sizes,
                    max_files,
                    per_lookup: *per_lookup,
                    block,
                    spawn: *spawn,
                })
            }
        };
        let starts = think.first_times(Instant::ORIGIN + config.start, clients, *rng);
        let reader = |part: Extent| {
            let sizes = ChaCha8Rng::seed_from_u64(rng.next_u64());
            Reader {
                part,
                rng: ChaCha8Rng::seed_from_u64(rng.next_u64()),
                pass: Pass { sizes: sizes.clone(), files: 0, next: part.start.get() },
                sizes,
                passes_left: passes.unwrap_or(u64::MAX),
                parent: None,
                work: Work::Over,
            }
        };
        Ok(Self {
            calls: SectorSizes::new(&config.sizes, check)?,
            think,
            windows,
            files,
            starts,
            readers: parts.into_iter().map(reader).collect(),
        })
    }

    /// Begins all readers.
    pub(crate) fn start(&mut self, out: &mut Output<'_>) {
        for place in 0..self.readers.len() {
            let at = self.starts[place];
            if matches!(self.files, Files::Tree(_)) {
                self.readers[place].parent = Some(out.begin(place as u32));
            }
            self.next_file(place, at, out);
        }
    }

    /// A read of reader `place` is complete.
    pub(crate) fn finished(&mut self, now: Instant, place: u32, out: &mut Output<'_>) {
        let place = place as usize;
        match self.readers[place].work {
            Work::Lookup(file) => self.begin(place, file, now + WAKE_UP + self.files.spawn(), out),
            Work::File(client, process) => self.step(place, client, process, now, out),
            Work::Over => {}
        }
    }

    /// Chooses the next file of a reader whose last process ended at `at`.
    fn next_file(&mut self, place: usize, at: Instant, out: &mut Output<'_>) {
        let reader = &mut self.readers[place];
        let file = match &self.files {
            Files::One(len) if reader.passes_left > 0 => {
                reader.passes_left -= 1;
                Some(Extent::from_numbers(reader.part.start.get(), *len))
            }
            Files::One(_) => None,
            Files::Tree(tree) => {
                if let Some((block, file)) = reader.next_in(tree) {
                    let Some(block) = block else {
                        return self.begin(place, file, at + self.files.spawn(), out);
                    };
                    reader.work = Work::Lookup(file);
                    let parent = reader.parent.expect("a chain has a parent from its start");
                    if !out.request(at, parent, Operation::Read, block) {
                        self.end(place, at, out);
                    }
                    return;
                }
                None
            }
        };
        match file {
            Some(file) => self.begin(place, file, at, out),
            None => self.end(place, at, out),
        }
    }

    fn begin(&mut self, place: usize, file: Extent, at: Instant, out: &mut Output<'_>) {
        let client = out.begin(place as u32);
        self.step(place, client, FileRead::new(file, self.windows, at), at, out);
    }

    fn step(
        &mut self,
        place: usize,
        client: ClientId,
        mut process: FileRead,
        now: Instant,
        out: &mut Output<'_>,
    ) {
        let Self { readers, calls, think, .. } = self;
        let reader = &mut readers[place];
        let step =
            process.advance(now, || (calls.draw(&mut reader.rng), think.draw(&mut reader.rng)));
        reader.work = Work::File(client, process);
        if let Some((at, extent)) = step.request
            && !out.request(at, client, Operation::Read, extent)
        {
            out.end(at, client);
            self.end(place, at, out);
        }
        if let Some(at) = step.done {
            out.end(at, client);
            self.next_file(place, at, out);
        }
    }

    /// Ends a reader for good.
    fn end(&mut self, place: usize, at: Instant, out: &mut Output<'_>) {
        let reader = &mut self.readers[place];
        reader.work = Work::Over;
        if let Some(parent) = reader.parent.take() {
            out.end(at, parent);
        }
    }
}

impl Files {
    fn spawn(&self) -> Nanos {
        match self {
            Self::One(_) => Nanos::ZERO,
            Self::Tree(tree) => tree.spawn,
        }
    }
}

impl Reader {
    /// The next file, and the block that the parent reads before it; from the start of the tree
    /// again after its last file. `None` after the last pass.
    fn next_in(&mut self, tree: &Tree) -> Option<(Option<Extent>, Extent)> {
        loop {
            if self.passes_left == 0 {
                return None;
            }
            let pass = &mut self.pass;
            let looks_up = pass.files.is_multiple_of(tree.per_lookup);
            let block = if looks_up { tree.block } else { 0 };
            let len = tree.sizes.draw(&mut pass.sizes);
            let file = Extent::from_numbers(pass.next + block, len);
            if pass.files < tree.max_files && file.end() <= self.part.end() {
                let block = looks_up.then(|| Extent::from_numbers(pass.next, block));
                pass.files += 1;
                pass.next = file.end().get();
                return Some((block, file));
            }
            self.passes_left -= 1;
            *pass = Pass { sizes: self.sizes.clone(), files: 0, next: self.part.start.get() };
        }
    }
}
