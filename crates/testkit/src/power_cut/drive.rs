//! The drive: [`PowerCutDrive`] opens it, [`PowerSwitch`] cuts its power.
//!
//! Commands under way are reported in random order and number, drawn by seed, as soon as the engine
//! asks. How they interleave with submissions depends on the threads of the machine, so that two
//! runs with one seed have different histories; cuts of one history repeat.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use headtime_io::custom::{Backend, BackendCommand, BackendCompletion, Notifier, OpenedDrive};
use headtime_io::{Drive, DriveOptions, OpenError};
use headtime_sched::{Command, Op};
use headtime_units::{Extent, Instant, Sectors};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cache::WriteCache;
use super::failure::PowerFailure;
use super::history::{Event, History};
use super::platter::Platter;

/// The writes that a failed flush should have covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedFlush {
    /// A later flush covers them.
    #[default]
    Retries,
    /// No later flush covers them. The drive drops what it cannot write and reports that once, as
    /// ATA drives and the page cache of Linux do.
    Forgets,
}

/// The guarantees that a drive gives and breaks, as some drives do. Software on top cannot notice
/// before the power fails; a test with such a drive shows that it can fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokenPromises {
    /// Flushes are reported and settle nothing.
    pub flush: bool,
    /// Force unit access is promised and does nothing.
    pub fua: bool,
}

/// The configuration of a power-cut drive before it is opened.
#[derive(Clone, Debug)]
pub struct PowerCutDrive {
    platter: Platter,
    physical_block: u32,
    queue_depth: usize,
    fua: bool,
    seed: u64,
    records: bool,
    promises: BrokenPromises,
    write_error_share: f64,
    flush_error_share: f64,
    failed_flush: FailedFlush,
}

/// Cuts the power of a drive, and makes it stand still. Outlives the drive.
#[derive(Clone)]
pub struct PowerSwitch {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    notifier: Arc<Notifier>,
    physical_sectors: u64,
}

struct State {
    /// The contents that a read returns: everything that was reported.
    live: Platter,
    cache: WriteCache,
    history: Option<History>,
    events: usize,
    stalled: bool,
}

/// The drive as the engine sees it.
struct PowerCutBackend {
    shared: Arc<Shared>,
    traits: PowerCutDrive,
    rng: ChaCha8Rng,
    in_progress: Vec<(Command, Bytes)>,
}

impl PowerCutDrive {
    /// A drive with these sectors: 4 KiB physical blocks, 32 commands at once, force unit access,
    /// no history, no faults, seed 0.
    pub fn new(platter: Platter) -> Self {
        Self {
            physical_block: platter.sector_size().bytes().max(4096),
            platter,
            queue_depth: 32,
            fua: true,
            seed: 0,
            records: false,
            promises: BrokenPromises::default(),
            write_error_share: 0.0,
            flush_error_share: 0.0,
            failed_flush: FailedFlush::Retries,
        }
    }

    /// Sets the seed of the completion order and of the failures.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Keeps every event and every byte written, for [`PowerSwitch::history`]; grows without bound.
    #[must_use]
    pub fn record(mut self) -> Self {
        self.records = true;
        self
    }

    /// Bytes of a physical block.
    ///
    /// # Panics
    /// When that is no whole number of sectors.
    #[must_use]
    pub fn physical_block(mut self, bytes: u32) -> Self {
        let sector = self.platter.sector_size().bytes();
        assert!(
            bytes > 0 && bytes.is_multiple_of(sector),
            "a physical block of {bytes} bytes is no whole number of sectors of {sector} bytes"
        );
        self.physical_block = bytes;
        self
    }

    /// The most commands it holds at once.
    ///
    /// # Panics
    /// When that is none.
    #[must_use]
    pub fn queue_depth(mut self, commands: usize) -> Self {
        assert!(commands > 0, "a drive holds at least one command");
        self.queue_depth = commands;
        self
    }

    /// Sets whether the drive honors force unit access. If it does not, the scheduler flushes after
    /// such writes.
    #[must_use]
    pub fn fua(mut self, fua: bool) -> Self {
        self.fua = fua;
        self
    }

    /// Sets the guarantees that the drive breaks.
    #[must_use]
    pub fn breaks(mut self, promises: BrokenPromises) -> Self {
        self.promises = promises;
        self
    }

    /// The share of writes, zeroes and discards that fail with EIO, from 0 to 1; a part of each is
    /// taken in.
    ///
    /// # Panics
    /// When `share` is not within 0 to 1.
    #[must_use]
    pub fn write_errors(mut self, share: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&share),
            "a share of {share} writes cannot fail; it must be from 0 to 1"
        );
        self.write_error_share = share;
        self
    }

    /// The share of flushes that fail with EIO, from 0 to 1. `then` says what becomes of the writes
    /// that it should have covered.
    ///
    /// # Panics
    /// When `share` is not within 0 to 1.
    #[must_use]
    pub fn flush_errors(mut self, share: f64, then: FailedFlush) -> Self {
        assert!(
            (0.0..=1.0).contains(&share),
            "a share of {share} flushes cannot fail; it must be from 0 to 1"
        );
        self.flush_error_share = share;
        self.failed_flush = then;
        self
    }

    /// Opens the drive.
    ///
    /// # Errors
    /// [`OpenError::BadOption`] and [`OpenError::Engine`]. What `options` say of files does not
    /// matter here.
    pub fn open(self, options: DriveOptions) -> Result<(Drive, PowerSwitch), OpenError> {
        let mut switch = None;
        let drive = Drive::open_custom("power-cut", options, |notifier| {
            let (opened, its_switch) = self.into_opened(notifier);
            switch = Some(its_switch);
            Ok(opened)
        })?;
        Ok((drive, switch.expect("the drive was opened with its switch")))
    }

    fn into_opened(self, notifier: &Arc<Notifier>) -> (OpenedDrive, PowerSwitch) {
        let (sector_size, capacity) = (self.platter.sector_size(), self.platter.capacity());
        let physical_sectors = u64::from(self.physical_block / sector_size.bytes());
        let history = self.records.then(|| History {
            before: self.platter.clone(),
            events: Vec::new(),
            physical_sectors,
            failed_flush: self.failed_flush,
        });
        let cache = WriteCache::new(self.platter.clone(), self.failed_flush);
        let state = State { live: self.platter.clone(), cache, history, events: 0, stalled: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            notifier: Arc::clone(notifier),
            physical_sectors,
        });
        let switch = PowerSwitch { shared: Arc::clone(&shared) };
        let (physical_block, queue_depth, fua) = (self.physical_block, self.queue_depth, self.fua);
        let backend = PowerCutBackend {
            shared,
            rng: ChaCha8Rng::seed_from_u64(self.seed),
            in_progress: Vec::new(),
            traits: self,
        };
        let opened = OpenedDrive {
            physical_block,
            fua,
            ..OpenedDrive::new(Box::new(backend), capacity, sector_size, queue_depth)
        };
        (opened, switch)
    }
}

impl PowerSwitch {
    /// The contents after a power cut now. The drive itself continues to work.
    pub fn cut(&self, failure: PowerFailure, rng: &mut impl Rng) -> Platter {
        failure.strike(&self.shared.state().cache, self.shared.physical_sectors, rng)
    }

    /// The moment it is now: how many events there were.
    pub fn moment(&self) -> usize {
        self.shared.state().events
    }

    /// Everything so far; `None` when the drive was not made to [`record`](PowerCutDrive::record)
    /// it.
    pub fn history(&self) -> Option<History> {
        self.shared.state().history.clone()
    }

    /// Makes the drive stand still: it takes commands and reports none, until
    /// [`PowerSwitch::resume`].
    pub fn stall(&self) {
        self.shared.state().stalled = true;
    }

    /// Lets the drive go on.
    pub fn resume(&self) {
        self.shared.state().stalled = false;
        self.shared.notifier.notify();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics between two statements that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn happened(&mut self, event: Event) {
        self.events += 1;
        self.cache.take(&event);
        if let Some(history) = &mut self.history {
            history.events.push(event);
        }
    }
}

impl PowerCutBackend {
    /// Carries a command out as far as it goes, and says how it ended.
    fn report(
        &mut self,
        command: &Command,
        content: &Bytes,
        state: &mut State,
    ) -> Result<Bytes, i32> {
        let Command { id, op, extent, fua, .. } = *command;
        if op == Op::Read {
            return state.live.read(extent).map_err(|_unreadable| EIO);
        }
        let share = if op == Op::Flush {
            self.traits.flush_error_share
        } else {
            self.traits.write_error_share
        };
        let failed = self.rng.random_bool(share);
        let landed = if failed && op != Op::Flush {
            Sectors::new(self.rng.random_range(0..extent.len.get()))
        } else {
            extent.len
        };
        if !landed.is_zero() {
            let taken_in = Extent::new(extent.start, landed);
            match op {
                Op::Write => state.live.write(
                    taken_in,
                    &content[..state.live.sector_size().bytes_of(landed) as usize],
                ),
                _ => state.live.zero(taken_in),
            }
        }
        let lied = !failed
            && (op == Op::Flush && self.traits.promises.flush || fua && self.traits.promises.fua);
        let result = if failed { Err(EIO) } else { Ok(()) };
        state.happened(Event::Reported { command: id, result, lied, landed });
        result.map(|()| Bytes::new())
    }
}

impl Backend for PowerCutBackend {
    fn describe(&self) -> String {
        "memory, power may be cut".to_owned()
    }

    fn start(&mut self, _now: Instant, work: BackendCommand) {
        let BackendCommand { command, pieces } = work;
        let content = match pieces.as_slice() {
            [only] => only.clone(),
            several => Bytes::from(several.concat()),
        };
        if command.op != Op::Read {
            let Command { id, op, extent, fua, .. } = command;
            self.shared.state().happened(Event::Sent {
                command: id,
                op,
                extent,
                fua,
                content: content.clone(),
            });
        }
        self.in_progress.push((command, content));
    }

    fn collect(&mut self, _now: Instant, ended: &mut Vec<BackendCompletion>) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        if self.in_progress.is_empty() || state.stalled {
            return;
        }
        for _ in 0..self.rng.random_range(0..=self.in_progress.len()) {
            let (command, content) =
                self.in_progress.swap_remove(self.rng.random_range(0..self.in_progress.len()));
            let result = self.report(&command, &content, &mut state);
            ended.push(BackendCompletion { command: command.id, due: None, result });
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let idle = self.in_progress.is_empty() || self.shared.state().stalled;
        (!idle).then_some(Instant::ORIGIN)
    }

    fn abandon(self: Box<Self>) {}
}

/// The system's number of an I/O error.
const EIO: i32 = 5;
