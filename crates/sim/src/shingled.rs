//! [`ShingledDrive`]: a drive that records in shingles and hides it from the host.
//!
//! Tracks overlap within a *band*, so that a band can only be written from its start on. A
//! translation layer around a [`SimulatedDrive`] turns random writes into sequential ones: it
//! appends them to the *media cache* at the inner end of the drive, and rewrites the bands they
//! belong to when the media cache is full or the drive is idle.
//!
//! Worked example, a media cache of 16 MiB and bands of 32 MiB at 150 MB/s: 4,096 random writes of
//! 4 KiB take well below a millisecond each. The next one waits until the band of the oldest cached
//! block is rewritten: 0.2 s to read it, some milliseconds for its cached blocks, 0.2 s for a copy
//! that survives a power cut, and 0.2 s to write it. That made room for one block, if no other
//! block of that band was cached. From now on nearly every random write takes 0.7 s, until the host
//! pauses.
//!
//! - Modelled: one media cache; its map by blocks of 4 KiB; bands rewritten in the order in which
//!   they got their oldest block, in steps between which the drive serves commands; rewriting from
//!   [`IDLE`] after the last command on; sequential writes from the start of a band on, which need
//!   no media cache; reads that are scattered because their blocks are cached; discards.
//! - Not modelled: writes of the map; bands that move; what a power cut leaves.
//! - Differs from a drive: an overwritten block in the media cache is free at once; a sequential
//!   run that ends within a band leaves the rest of the band as it was; a band is rewritten to its
//!   end although the host has sent commands.
//!
//! Sources: Aghayev and Desnoyers, Skylight (FAST 2015) for the structure; the times of pauses and
//! steps and the copy are guesses.

use std::collections::{BTreeMap, VecDeque};

use headtime_mechanics::{DiskTime, Shingles};
use headtime_sched::{Command, CommandId, Op};
use headtime_units::{ByteSize, Extent, Instant, Nanos, SectorSize, Sectors};
use smallvec::SmallVec;

use crate::device::{Device, DriveCompletion};
use crate::drive::SimulatedDrive;

/// A drive-managed shingled drive.
#[derive(Clone, Debug)]
pub struct ShingledDrive {
    inner: SimulatedDrive,
    /// Sectors of a block, of a band and of the host's addresses; the media cache and the place of
    /// a band's copy follow.
    block: u64,
    band: u64,
    capacity: u64,
    cache_blocks: u64,
    now: Instant,
    /// The cached blocks, and the number of the write that brought each.
    cached: BTreeMap<u64, u64>,
    writes: u64,
    /// Bands that got a cached block, the oldest first.
    dirty: VecDeque<u64>,
    cleaning: Option<Cleaning>,
    /// The end of a sequential run that began with a band.
    run_end: Option<u64>,
    /// The commands of the host, with the inner commands that each still waits for.
    held: BTreeMap<CommandId, HeldCommand>,
    /// Writes that wait for room in the media cache.
    stalled: VecDeque<Command>,
    /// Inner commands that wait for a slot or for one that they overlap, and those at the inner
    /// drive.
    waiting: VecDeque<InnerCommand>,
    at_inner: BTreeMap<CommandId, InnerCommand>,
    inner_commands: u64,
    /// The time from which no command of the host was held.
    idle_since: Instant,
    reported: Vec<DriveCompletion>,
    from_inner: Vec<DriveCompletion>,
}

/// Sectors of a block and of a band, and blocks of the media cache.
struct Sizes {
    block: u64,
    band: u64,
    cache_blocks: u64,
}

impl Sizes {
    fn of(shingles: Shingles, sector: SectorSize) -> Self {
        let sectors = |size: ByteSize| size.get() / u64::from(sector.bytes());
        let block = (BLOCK_BYTES / u64::from(sector.bytes())).max(1);
        let cache_blocks = sectors(shingles.media_cache) / block;
        Self { block, band: sectors(shingles.band) / block * block, cache_blocks }
    }
}

#[derive(Clone, Copy, Debug)]
struct HeldCommand {
    submitted: Instant,
    parts_left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Host(CommandId),
    Cleaning,
}

#[derive(Clone, Copy, Debug)]
struct InnerCommand {
    purpose: Purpose,
    op: Op,
    extent: Extent,
    fua: bool,
}

impl InnerCommand {
    fn conflicts(&self, other: &Self) -> bool {
        self.extent.overlaps(other.extent)
            && (self.op.changes_sectors() || other.op.changes_sectors())
    }
}

/// The rewriting of a band.
#[derive(Clone, Debug)]
struct Cleaning {
    band: u64,
    /// Its cached blocks at the start.
    blocks: Vec<(u64, u64)>,
    /// The rest of the work.
    steps: VecDeque<(Op, Extent)>,
}

impl ShingledDrive {
    /// The sectors that a host may address on a drive of `sectors`. `None` if the media cache, a
    /// band and its copy do not fit, or are smaller than a block.
    #[must_use]
    pub fn room(sectors: Sectors, shingles: Shingles, sector: SectorSize) -> Option<Sectors> {
        let Sizes { block, band, cache_blocks } = Sizes::of(shingles, sector);
        let room = sectors.get().checked_sub(cache_blocks * block + band)?;
        (cache_blocks > 0 && band > 0 && room >= band).then(|| Sectors::new(room / block * block))
    }

    /// A shingled drive with an empty media cache. `None` if there is no [`ShingledDrive::room`].
    #[must_use]
    pub fn new(inner: SimulatedDrive, shingles: Shingles, sector: SectorSize) -> Option<Self> {
        let Sizes { block, band, cache_blocks } = Sizes::of(shingles, sector);
        Self::room(inner.capacity(), shingles, sector).map(|room| Self {
            inner,
            block,
            band,
            capacity: room.get(),
            cache_blocks,
            now: Instant::ORIGIN,
            cached: BTreeMap::new(),
            writes: 0,
            dirty: VecDeque::new(),
            cleaning: None,
            run_end: None,
            held: BTreeMap::new(),
            stalled: VecDeque::new(),
            waiting: VecDeque::new(),
            at_inner: BTreeMap::new(),
            inner_commands: 0,
            idle_since: Instant::ORIGIN,
            reported: Vec::new(),
            from_inner: Vec::new(),
        })
    }

    /// The bands that wait to be rewritten.
    #[must_use]
    pub fn dirty_bands(&self) -> usize {
        self.dirty.len() + usize::from(self.cleaning.is_some())
    }

    /// Processes the events before `until`, or also those at it.
    fn run(&mut self, until: Instant, including: bool) {
        while let Some(at) = self.next_internal()
            && (at < until || (including && at == until))
        {
            self.now = self.now.max(at);
            let mut from_inner = std::mem::take(&mut self.from_inner);
            self.inner.advance(self.now, &mut from_inner);
            from_inner.drain(..).for_each(|completion| self.inner_done(completion));
            self.from_inner = from_inner;
            if self.cleans_at().is_some_and(|at| at <= self.now) {
                self.clean_next();
            }
            self.send_waiting();
        }
        self.now = self.now.max(until);
    }

    fn next_internal(&self) -> Option<Instant> {
        [self.inner.next_event(), self.cleans_at()].into_iter().flatten().min()
    }

    /// The time at which the idle drive begins to rewrite a band.
    fn cleans_at(&self) -> Option<Instant> {
        let waits = self.held.is_empty() && self.cleaning.is_none() && !self.dirty.is_empty();
        waits.then(|| (self.idle_since + IDLE).max(self.now))
    }

    fn inner_done(&mut self, completion: DriveCompletion) {
        let inner = self.at_inner.remove(&completion.command);
        match inner.map(|inner| inner.purpose) {
            Some(Purpose::Host(command)) => self.part_done(command, completion),
            Some(Purpose::Cleaning) => self.clean_on(),
            None => {}
        }
    }

    /// Reports the command of the host with its last part.
    fn part_done(&mut self, command: CommandId, part: DriveCompletion) {
        let Some(held) = self.held.get_mut(&command) else { return };
        held.parts_left -= 1;
        if held.parts_left > 0 {
            return;
        }
        let mut completion = DriveCompletion { command, ..part };
        let total = part.finished.saturating_since(held.submitted);
        completion.breakdown.waited += total.saturating_sub(part.breakdown.total());
        self.reported.push(completion);
        self.leave(command);
    }

    fn leave(&mut self, command: CommandId) {
        self.held.remove(&command);
        if self.held.is_empty() {
            self.idle_since = self.now;
        }
    }

    /// Begins to rewrite the band that was dirty first.
    fn clean_next(&mut self) {
        while let Some(band) = self.dirty.pop_front() {
            let whole = self.extent_of(band);
            let blocks: Vec<(u64, u64)> = self.cached_in(whole).collect();
            if blocks.is_empty() {
                continue;
            }
            let copy = self.capacity + self.cache_blocks * self.block;
            let copy = Extent::from_numbers(copy, whole.len.get());
            let mut steps: VecDeque<(Op, Extent)> = steps_of(Op::Read, whole).collect();
            for (block, _) in &blocks {
                let extent = Extent::from_numbers(block * self.block, self.block);
                steps.extend(self.pieces(extent).into_iter().map(|piece| (Op::Read, piece)));
            }
            steps.extend(steps_of(Op::Write, copy).chain(steps_of(Op::Write, whole)));
            self.cleaning = Some(Cleaning { band, blocks, steps });
            return self.clean_on();
        }
    }

    /// Sends the next step, or ends the rewriting.
    fn clean_on(&mut self) {
        let Some(cleaning) = &mut self.cleaning else { return };
        if let Some((op, extent)) = cleaning.steps.pop_front() {
            return self.send(Purpose::Cleaning, op, extent, false);
        }
        let Some(Cleaning { band, blocks, .. }) = self.cleaning.take() else { return };
        for (block, number) in blocks {
            // A block that was written in the meantime stays cached.
            if self.cached.get(&block) == Some(&number) {
                self.cached.remove(&block);
            }
        }
        if self.cached_in(self.extent_of(band)).next().is_some() {
            self.dirty.push_back(band);
        }
        while let Some(write) = self.stalled.pop_front() {
            if !self.has_room(&write) {
                self.stalled.push_front(write);
                return self.clean_next();
            }
            self.write_to_cache(&write);
        }
    }

    /// The sectors of a band that the host addresses.
    fn extent_of(&self, band: u64) -> Extent {
        let start = band * self.band;
        Extent::from_numbers(start, self.band.min(self.capacity - start))
    }

    /// The cached blocks of an extent, and their numbers.
    fn cached_in(&self, extent: Extent) -> impl Iterator<Item = (u64, u64)> {
        let blocks = extent.start.get() / self.block..extent.end().get().div_ceil(self.block);
        self.cached.range(blocks).map(|(block, number)| (*block, *number))
    }

    /// The places of an extent's sectors, in runs.
    fn pieces(&self, extent: Extent) -> SmallVec<[Extent; 1]> {
        if self.cached_in(extent).next().is_none() {
            return SmallVec::from_buf([extent]);
        }
        let mut pieces: SmallVec<[Extent; 1]> = SmallVec::new();
        let (mut at, end) = (extent.start.get(), extent.end().get());
        while at < end {
            let block = at / self.block;
            let next = end.min((block + 1) * self.block);
            let place = self.cached.get(&block).map_or(at, |number| {
                self.capacity + number % self.cache_blocks * self.block + at % self.block
            });
            match pieces.last_mut().filter(|last| last.end().get() == place) {
                Some(last) => last.len = Sectors::new(last.len.get() + next - at),
                None => pieces.push(Extent::from_numbers(place, next - at)),
            }
            at = next;
        }
        pieces
    }

    fn blocks_of(&self, extent: Extent) -> std::ops::Range<u64> {
        extent.start.get() / self.block..extent.end().get().div_ceil(self.block)
    }

    fn has_room(&self, write: &Command) -> bool {
        let new = self.blocks_of(write.extent).filter(|block| !self.cached.contains_key(block));
        self.cached.len() as u64 + new.count() as u64 <= self.cache_blocks
    }

    /// Returns whether a write goes to its band: it starts a band, or continues a run that did.
    fn is_sequential(&self, extent: Extent) -> bool {
        let (start, end) = (extent.start.get(), extent.end().get());
        let bands = start / self.band..end.div_ceil(self.band);
        let cleaned = self.cleaning.as_ref().is_some_and(|now| bands.contains(&now.band));
        let blocks = self.blocks_of(extent);
        let starts_or_continues = start.is_multiple_of(self.band) || self.run_end == Some(start);
        (starts_or_continues && !cleaned) || blocks.end - blocks.start > self.cache_blocks
    }

    fn write(&mut self, command: &Command) {
        if self.is_sequential(command.extent) {
            self.run_end = Some(command.extent.end().get());
            self.forget(command.extent);
            return self.send_parts(command, &[command.extent]);
        }
        if self.stalled.is_empty() && self.has_room(command) {
            return self.write_to_cache(command);
        }
        self.stalled.push_back(command.clone());
        if self.cleaning.is_none() {
            self.clean_next();
        }
    }

    fn write_to_cache(&mut self, command: &Command) {
        let blocks = self.blocks_of(command.extent);
        let whole = Extent::from_numbers(
            blocks.start * self.block,
            (blocks.end - blocks.start) * self.block,
        );
        for block in blocks {
            let band = block * self.block / self.band;
            if self.cached_in(self.extent_of(band)).next().is_none() {
                self.dirty.push_back(band);
            }
            self.cached.insert(block, self.writes);
            self.writes += 1;
        }
        let pieces = self.pieces(whole);
        self.send_parts(command, &pieces);
    }

    /// Removes the blocks that lie within an extent from the media cache.
    fn forget(&mut self, extent: Extent) {
        let blocks = extent.start.get().div_ceil(self.block)..extent.end().get() / self.block;
        let gone: Vec<u64> = if blocks.is_empty() {
            Vec::new()
        } else {
            self.cached.range(blocks).map(|(block, _)| *block).collect()
        };
        for block in gone {
            self.cached.remove(&block);
        }
    }

    fn send_parts(&mut self, command: &Command, parts: &[Extent]) {
        let Some(held) = self.held.get_mut(&command.id) else { return };
        held.parts_left = parts.len();
        for part in parts {
            self.send(Purpose::Host(command.id), command.op, *part, command.fua);
        }
    }

    fn send(&mut self, purpose: Purpose, op: Op, extent: Extent, fua: bool) {
        self.waiting.push_back(InnerCommand { purpose, op, extent, fua });
    }

    /// Sends waiting commands in order.
    fn send_waiting(&mut self) {
        while self.inner.held() < self.inner.queue_depth()
            && let Some(next) = self.waiting.front().copied()
            && !self.at_inner.values().any(|sent| sent.conflicts(&next))
        {
            self.waiting.pop_front();
            let id = CommandId(self.inner_commands);
            self.inner_commands += 1;
            self.at_inner.insert(id, next);
            let InnerCommand { op, extent, fua, .. } = next;
            let requests = SmallVec::new();
            self.inner
                .submit(self.now, &Command { id, op, extent, fua, background: None, requests });
        }
    }
}

fn steps_of(op: Op, extent: Extent) -> impl Iterator<Item = (Op, Extent)> {
    let (start, end) = (extent.start.get(), extent.end().get());
    (start..end)
        .step_by(STEP_SECTORS as usize)
        .map(move |at| (op, Extent::from_numbers(at, STEP_SECTORS.min(end - at))))
}

impl Device for ShingledDrive {
    fn queue_depth(&self) -> usize {
        self.inner.queue_depth()
    }

    fn capacity(&self) -> Sectors {
        Sectors::new(self.capacity)
    }

    fn arms(&self) -> usize {
        self.inner.arms()
    }

    fn submit(&mut self, now: Instant, command: &Command) {
        self.run(now, false);
        assert!(
            self.held.len() < self.queue_depth(),
            "command {} is one more than the drive holds, {}",
            command.id.0,
            self.held.len()
        );
        assert!(
            command.extent.end().get() <= self.capacity,
            "command {} to {} lies past {}",
            command.id.0,
            command.extent,
            self.capacity()
        );
        self.held.insert(command.id, HeldCommand { submitted: now, parts_left: 1 });
        match command.op {
            Op::Write | Op::Zero => self.write(command),
            Op::Read => {
                let pieces = self.pieces(command.extent);
                self.send_parts(command, &pieces);
            }
            Op::Discard => {
                self.forget(command.extent);
                self.send_parts(command, &[command.extent]);
            }
            Op::Flush => self.send_parts(command, &[command.extent]),
        }
        self.send_waiting();
    }

    fn next_event(&self) -> Option<Instant> {
        if self.reported.is_empty() { self.next_internal() } else { Some(self.now) }
    }

    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>) {
        self.run(now, true);
        completions.append(&mut self.reported);
    }

    fn abort(&mut self, now: Instant, command: CommandId) {
        self.run(now, true);
        self.stalled.retain(|stalled| stalled.id != command);
        let purpose = Purpose::Host(command);
        self.waiting.retain(|waiting| waiting.purpose != purpose);
        let parts = self.at_inner.iter().filter(|(_, inner)| inner.purpose == purpose);
        let parts: Vec<CommandId> = parts.map(|(part, _)| *part).collect();
        for part in parts {
            self.inner.abort(now, part);
            self.at_inner.remove(&part);
        }
        self.reported.retain(|completion| completion.command != command);
        self.leave(command);
        self.send_waiting();
    }

    fn disk_time(&self, now: Instant) -> DiskTime {
        self.inner.disk_time(now)
    }
}

/// Bytes of a block of the media cache's map: a physical sector.
const BLOCK_BYTES: u64 = 4_096;
/// The time without commands after which bands are rewritten (guess).
const IDLE: Nanos = Nanos::from_secs(1);
/// Sectors of a step of the rewriting, between which commands of the host are served (guess: 8 MiB
/// of 512-byte sectors, some 50 ms).
const STEP_SECTORS: u64 = 16_384;
