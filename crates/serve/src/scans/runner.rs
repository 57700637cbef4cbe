//! The thread of one scan: takes what the drive has read for it, hands it to the task, writes,
//! saves, and does as it is told.
//!
//! ```text
//! feed ─► scan (books, task) ─► output file ─► journal ─► kept ─► the engine may let overwrites go
//! ```
//! What is in the way of a scan (no room for its image or its state, a drive that does not answer)
//! makes it wait, not fail; it tries again by itself. Only the loss of a point in time ends one.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headtime_io::{DriveHandle, ScanEvent, ScanFeed, ScanStart, WriteMarks};
use headtime_sched::{FillSource, PendingSectors};
use headtime_tasks::{BackupForm, Output, Scan, Source};
use headtime_units::{Extent, Sectors};
use rustix::io::Errno;

use super::files::{Journal, StateFile};
use super::output::OutputFile;
use super::status::{ScanState, ScanStatus};

/// What a scan is told.
pub(super) enum ScanCommand {
    Pause,
    Resume,
    /// Another pass over what is complete.
    Again,
    /// End and forget everything.
    Cancel,
    /// The server ends: remember everything.
    Close,
}

/// A wish, and whom to tell when it was seen to.
pub(super) struct CommandMessage {
    pub(super) wish: ScanCommand,
    pub(super) done: Sender<()>,
}

pub(super) struct Runner {
    pub(super) handle: DriveHandle,
    pub(super) scan: Scan,
    pub(super) marks: Option<Arc<WriteMarks>>,
    pub(super) output: Option<OutputFile>,
    pub(super) files: Option<StateFile>,
    pub(super) status: Arc<Mutex<ScanStatus>>,
    pub(super) told: Receiver<CommandMessage>,
    /// Raised when it is to end, so that a pipe that takes nothing does not hold it up.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) phase: Phase,
    /// Whether nobody but the scan uses the drive: then nothing can be written that it does not
    /// know of.
    pub(super) alone: bool,
    pub(super) work: Work,
}

/// What a runner has besides what it was made with.
#[derive(Default)]
pub(super) struct Work {
    feed: Option<ScanFeed>,
    journal: Option<Journal>,
    /// Reads that failed one after the other: errors of the medium if another succeeds, otherwise
    /// the drive is gone.
    suspects: Vec<(Extent, i32, bool, Source)>,
    unsaved: bool,
    saved: Option<Instant>,
    save_took: Duration,
    shown: Option<Instant>,
    /// Bytes done at moments of the last seconds.
    rate: VecDeque<(Instant, u64)>,
    /// What was done when everything had been told the last time and something was missing.
    told_with: Option<u64>,
    /// What was told and has to come again, because it could not be kept or the drive was away.
    lost: Vec<Extent>,
}

/// What a runner is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Paused,
    Waiting { reason: String, until: Instant },
    Complete,
    Broken { reason: String },
}

impl Phase {
    /// As it is remembered: what waits goes on by itself.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Running | Self::Waiting { .. } => "running",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Broken { .. } => "broken",
        }
    }
}

impl Runner {
    /// Writes what comes first, remembers that it is at work, and wants what is missing: from then
    /// on nothing is overwritten that a point in time needs.
    pub(super) fn begin_with(&mut self, first: &[Output]) {
        if let Err(error) = self.write(first) {
            self.cannot_write(&error);
        }
        if matches!(self.phase, Phase::Running | Phase::Paused | Phase::Waiting { .. }) {
            self.open_feed();
        }
        self.save(false);
        self.show();
    }

    /// Works until it is told to end.
    pub(super) fn run(mut self) {
        loop {
            match self.told.try_recv() {
                Ok(told) => {
                    if self.obey(told) {
                        return;
                    }
                    continue;
                }
                Err(TryRecvError::Disconnected) => {
                    self.close();
                    return;
                }
                Err(TryRecvError::Empty) => {}
            }
            match self.work.feed.as_ref().map(|feed| feed.next(LOOK_UP)) {
                Some(Some(event)) => self.take(event),
                Some(None) => {}
                None => match self.told.recv_timeout(LOOK_UP_IDLE) {
                    Ok(told) => {
                        if self.obey(told) {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                },
            }
            self.look_after();
        }
    }

    /// Does what is due by the clock.
    fn look_after(&mut self) {
        let now = Instant::now();
        if matches!(&self.phase, Phase::Waiting { until, .. } if now >= *until) {
            self.go_on();
        }
        let pause = SAVE_EVERY.max(self.work.save_took * SAVE_SHARE);
        if self.work.unsaved && self.work.saved.is_none_or(|saved| now >= saved + pause) {
            self.save(false);
        }
        if self.work.shown.is_none_or(|shown| now >= shown + SHOW_EVERY) {
            self.show();
        }
    }

    /// Whether that was the end.
    fn obey(&mut self, CommandMessage { wish, done }: CommandMessage) -> bool {
        let over = match wish {
            ScanCommand::Pause if matches!(self.phase, Phase::Running | Phase::Waiting { .. }) => {
                self.phase = Phase::Paused;
                self.work.feed.iter().for_each(ScanFeed::pause);
                self.save(false);
                false
            }
            ScanCommand::Resume if matches!(self.phase, Phase::Paused | Phase::Waiting { .. }) => {
                self.go_on();
                self.save(false);
                false
            }
            ScanCommand::Again if self.phase == Phase::Complete => {
                self.scan.again();
                self.phase = Phase::Running;
                self.work.rate.clear();
                self.open_feed();
                self.save(false);
                false
            }
            ScanCommand::Pause | ScanCommand::Resume | ScanCommand::Again => false,
            ScanCommand::Cancel => {
                self.work.feed = None;
                self.work.journal = None;
                if let Some(Err(error)) = self.files.as_ref().map(StateFile::remove) {
                    tracing::warn!(%error, "the state of a cancelled scan cannot be removed");
                }
                true
            }
            ScanCommand::Close => {
                self.close();
                true
            }
        };
        self.show();
        // Nobody waits any more, perhaps.
        let _ = done.send(());
        over
    }

    /// The server ends: what was told and not taken yet is read again after the restart, unless its
    /// point in time would be lost.
    fn close(&mut self) {
        if let Some(feed) = self.work.feed.take() {
            // What is there already is a matter of memory, and may have taken the word that it was
            // written with it; what is at the drive comes again.
            feed.stop();
            while let Some(event) =
                feed.next(Duration::ZERO).filter(|event| *event != ScanEvent::Closed)
            {
                self.take(event);
            }
        }
        if self.is_stream() && !matches!(self.phase, Phase::Complete | Phase::Broken { .. }) {
            self.break_off(
                "the program ended while the backup went into a pipe, whose reader has \
                a part of it only",
            );
        }
        self.work.unsaved = true;
        self.save(true);
    }

    fn take(&mut self, event: ScanEvent) {
        match event {
            ScanEvent::Read { extent, bytes, source, written } => {
                self.believe_suspects();
                self.deliver(extent, Ok(&bytes), written, source_of(source));
            }
            ScanEvent::Failed { extent, errno, source, written } => {
                let gone = GONE.iter().any(|gone| gone.raw_os_error() == errno);
                if self.work.suspects.is_empty() && !gone {
                    tracing::warn!(
                        "a scan of {} cannot read {extent}: {}",
                        self.scan.subject().target,
                        io::Error::from_raw_os_error(errno)
                    );
                }
                self.work.suspects.push((extent, errno, written, source_of(source)));
                if gone || self.work.suspects.len() >= MAX_SUSPECTS {
                    self.reject_drive(errno);
                }
            }
            ScanEvent::Exhausted => {
                self.believe_suspects();
                self.end_of_pass();
            }
            ScanEvent::Overtaken { extent } => {
                self.break_off(&format!(
                    "{extent} was overwritten before what it held was kept, so \
                    that the copy would not be of one moment"
                ));
            }
            ScanEvent::Closed => {
                self.work.feed = None;
                if !matches!(self.phase, Phase::Complete | Phase::Broken { .. }) {
                    self.phase = Phase::Waiting {
                        reason: "the drive is closed".to_owned(),
                        until: Instant::now() + TRY_AGAIN,
                    };
                }
            }
        }
    }

    /// Another read has succeeded, or there is none left: what failed before lies with the medium.
    fn believe_suspects(&mut self) {
        for (extent, errno, written, source) in std::mem::take(&mut self.work.suspects) {
            self.deliver(extent, Err(errno), written, source);
        }
    }

    /// Nothing can be read: those sectors are not counted as unreadable, and tried again.
    fn reject_drive(&mut self, errno: i32) {
        let suspects = std::mem::take(&mut self.work.suspects);
        for (extent, ..) in &suspects {
            self.lose(*extent);
        }
        let error = io::Error::from_raw_os_error(errno);
        self.wait_for(&format!("the drive does not answer: {error}; look after the drive"));
    }

    /// These sectors were told in vain.
    fn lose(&mut self, extent: Extent) {
        self.work.feed.iter().for_each(|feed| feed.not_kept(extent));
        self.work.lost.push(extent);
    }

    fn deliver(&mut self, extent: Extent, read: Result<&[u8], i32>, written: bool, source: Source) {
        let mut out = Vec::new();
        self.scan.deliver(extent, read, written, source, &mut out);
        match self.write(&out) {
            Ok(()) => {
                self.scan.keep();
                let Self { scan, work, .. } = self;
                if let Some(feed) = work.feed.as_ref().filter(|_| work.journal.is_some()) {
                    feed.keep(|extent| scan.is_kept(extent));
                }
                self.work.unsaved = true;
            }
            Err(error) => {
                self.scan.forget();
                self.lose(extent);
                self.cannot_write(&error);
            }
        }
    }

    fn write(&mut self, out: &[Output]) -> io::Result<()> {
        if let Some(output) = &mut self.output {
            output.write(out, &self.stop)?;
        }
        if self.keeps_a_journal() && self.work.journal.is_none() {
            let begun = self.begun();
            self.work.journal =
                self.files.as_ref().map(|files| files.journal(begun)).transpose()?;
        }
        self.work.journal.as_mut().map_or(Ok(()), |journal| journal.write(&self.scan))
    }

    fn cannot_write(&mut self, error: &io::Error) {
        let path = self
            .output
            .as_ref()
            .map(|output| output.path().display().to_string())
            .unwrap_or_default();
        let path = if self.work.journal.is_none() && self.keeps_a_journal() {
            format!("the journal of {path}")
        } else {
            path
        };
        if self.is_stream() {
            self.break_off(&format!("the pipe {path} takes nothing more: {error}"));
        } else {
            self.wait_for(&format!(
                "{path} cannot be written: {error}; make room, or see to its file system"
            ));
        }
    }

    /// Everything that was wanted has been told.
    fn end_of_pass(&mut self) {
        if matches!(self.phase, Phase::Complete | Phase::Broken { .. }) {
            return;
        }
        if self.scan.is_complete() {
            let mut out = Vec::new();
            self.scan.end(&mut out);
            let written = self
                .write(&out)
                .and_then(|()| self.output.as_ref().map_or(Ok(()), OutputFile::sync));
            match written {
                Ok(()) => {
                    self.phase = Phase::Complete;
                    self.work.feed = None;
                    self.output = None;
                    self.save(false);
                    self.show();
                }
                Err(error) => self.cannot_write(&error),
            }
            return;
        }
        // What is missing could not be kept, or was left over of incomplete grains.
        let done = self.scan.sectors_done().get();
        if self.phase == Phase::Running {
            if self.work.told_with == Some(done) {
                self.wait_for("what is missing was read and did not come; it is tried again");
            } else {
                self.want_missing();
            }
            self.work.told_with = Some(done);
        }
    }

    /// Tries what was in the way again.
    fn go_on(&mut self) {
        self.phase = Phase::Running;
        if self.work.feed.is_none() {
            self.open_feed();
            return;
        }
        self.work.told_with = None;
        self.want_lost();
        self.work.feed.iter().for_each(ScanFeed::resume);
    }

    /// Wants again what was told in vain; the rest of what is missing is wanted already.
    fn want_lost(&mut self) {
        let lost = std::mem::take(&mut self.work.lost);
        let Some(feed) = self.work.feed.as_ref().filter(|_| !lost.is_empty()) else { return };
        let mut wanted =
            PendingSectors::new(self.handle.capacity(), Sectors::new(self.scan.grain()));
        lost.into_iter()
            .filter(|extent| !self.scan.is_kept(*extent))
            .for_each(|extent| wanted.insert(extent));
        feed.again(wanted);
    }

    /// Everything that was wanted has been told, and yet this is missing.
    fn want_missing(&mut self) {
        self.work.lost.clear();
        if let Some(feed) = &self.work.feed {
            feed.again(self.missing());
        }
    }

    fn missing(&self) -> PendingSectors {
        let mut wanted =
            PendingSectors::new(self.handle.capacity(), Sectors::new(self.scan.grain()));
        self.scan.missing().for_each(|extent| wanted.insert(extent));
        wanted
    }

    fn open_feed(&mut self) {
        self.work.lost.clear();
        let kind = self.scan.kind();
        let start = ScanStart {
            wanted: self.missing(),
            point_in_time: kind.is_point_in_time(),
            hold_writes: self.keeps_a_journal(),
            paused: self.phase != Phase::Running,
            marks: self.marks.clone(),
            queue_bytes: QUEUE_BYTES,
        };
        match self.handle.start_scan(start) {
            Ok(feed) => self.work.feed = Some(feed),
            Err(error) => self.wait_for(&format!("the drive takes no scan: {error}")),
        }
    }

    /// Something is in the way: reads nothing more for a while.
    fn wait_for(&mut self, reason: &str) {
        let new = !matches!(&self.phase, Phase::Waiting { reason: before, .. } if before == reason);
        if new {
            tracing::warn!(
                "the {} of {} waits: {reason}",
                self.scan.kind(),
                self.scan.subject().target
            );
        }
        self.work.feed.iter().for_each(ScanFeed::pause);
        if !matches!(self.phase, Phase::Paused | Phase::Complete | Phase::Broken { .. }) {
            self.phase =
                Phase::Waiting { reason: reason.to_owned(), until: Instant::now() + TRY_AGAIN };
        }
        self.show();
    }

    fn break_off(&mut self, reason: &str) {
        tracing::error!(
            "the {} of {} cannot be finished: {reason}",
            self.scan.kind(),
            self.scan.subject().target
        );
        self.phase = Phase::Broken { reason: format!("{reason}; begin it again") };
        self.work.feed = None;
        self.output = None;
        self.save(false);
        self.show();
    }

    /// Remembers the scan. What a running backup has written need not be durable: after a power
    /// failure its point in time is lost anyway.
    fn save(&mut self, closed: bool) {
        let Some(files) = &self.files else { return };
        // Alone there is no write that the state does not know of, whenever the program ends.
        let closed = closed || self.alone;
        let began = Instant::now();
        self.scan.set_note("phase", self.phase.word());
        if let Phase::Broken { reason } = &self.phase {
            self.scan.set_note("reason", reason.clone());
        }
        let marks = self.marks.as_ref().filter(|_| closed).map(|marks| hex_of(&marks.words()));
        self.scan.set_note("marks", marks.unwrap_or_default());
        let synced = self.output.as_ref().filter(|_| closed).map_or(Ok(()), OutputFile::sync);
        let saved = synced
            .and_then(|()| files.save(&self.scan, closed))
            .and_then(|()| self.work.journal.as_mut().map_or(Ok(()), Journal::empty));
        self.work.saved = Some(Instant::now());
        self.work.save_took = began.elapsed();
        match saved {
            Ok(()) => self.work.unsaved = false,
            Err(error) => {
                let path = files.path().display().to_string();
                self.wait_for(&format!(
                    "{path} cannot be written: {error}; make room, or see to its file system"
                ));
            }
        }
    }

    fn show(&mut self) {
        let now = Instant::now();
        self.work.shown = Some(now);
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = ScanStatus::of(&self.scan, status.clone());
        (next.state, next.reason) = match &self.phase {
            Phase::Running => (ScanState::Running, String::new()),
            Phase::Paused => (ScanState::Paused, String::new()),
            Phase::Waiting { reason, .. } => (ScanState::Waiting, reason.clone()),
            Phase::Complete => (ScanState::Complete, String::new()),
            Phase::Broken { reason } => (ScanState::Broken, reason.clone()),
        };
        let rate = &mut self.work.rate;
        rate.push_back((now, next.bytes_done));
        while rate.front().is_some_and(|(then, _)| now - *then > RATE_OVER) && rate.len() > 2 {
            rate.pop_front();
        }
        let (then, before) = rate.front().copied().unwrap_or((now, next.bytes_done));
        let seconds = (now - then).as_secs_f64();
        let running = self.phase == Phase::Running && seconds > 0.0;
        next.bytes_per_second =
            if running { next.bytes_done.saturating_sub(before) as f64 / seconds } else { 0.0 };
        next.seconds_left = (next.bytes_per_second > 0.0)
            .then(|| (next.bytes - next.bytes_done) as f64 / next.bytes_per_second);
        *status = next;
    }

    /// What distinguishes this scan from others of the same target and task, for the journal.
    fn begun(&self) -> u64 {
        self.scan.note("begun").and_then(|begun| begun.parse().ok()).unwrap_or(0)
    }

    fn keeps_a_journal(&self) -> bool {
        !self.alone
            && self.files.is_some()
            && self.output.as_ref().is_some_and(|output| output.form() == BackupForm::Image)
    }

    fn is_stream(&self) -> bool {
        self.scan.kind().is_point_in_time() && self.scan.settings().form == BackupForm::Stream
    }
}

/// The words of a bitmap as text.
pub(super) fn hex_of(words: &[u64]) -> String {
    words.iter().map(|word| format!("{word:016x}")).collect()
}

/// And back; `None` when it is none.
pub(super) fn words_of(hex: &str) -> Option<Vec<u64>> {
    let words = hex
        .as_bytes()
        .chunks(16)
        .map(|word| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    words.collect()
}

/// This boot of the machine: what the page cache held is there as long as it lasts.
pub(super) fn this_boot() -> String {
    std::fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn source_of(source: FillSource) -> Source {
    match source {
        FillSource::Gap => Source::Gap,
        FillSource::Merged => Source::Merged,
        FillSource::Idle => Source::Idle,
        FillSource::Share => Source::Share,
        FillSource::BeforeWrite => Source::BeforeWrite,
    }
}

/// Errors of a drive that is not there, rather than of its medium.
const GONE: [Errno; 7] = [
    Errno::NODEV,
    Errno::NXIO,
    Errno::NOTCONN,
    Errno::CONNRESET,
    Errno::TIMEDOUT,
    Errno::SHUTDOWN,
    Errno::NOMEDIUM,
];
/// Blocks that fail one after the other, with nothing read in between: 16 MiB in blocks of 4 KiB,
/// more than a scratch, less than a drive.
const MAX_SUSPECTS: usize = 4096;
/// What waits for the task at most, about.
const QUEUE_BYTES: u64 = 4 << 20;
/// How often a runner looks whether it was told something.
const LOOK_UP: Duration = Duration::from_millis(20);
const LOOK_UP_IDLE: Duration = Duration::from_millis(200);
const SHOW_EVERY: Duration = Duration::from_millis(200);
const RATE_OVER: Duration = Duration::from_secs(10);
/// How often state is saved, and at most this part of the time is spent on it.
const SAVE_EVERY: Duration = Duration::from_secs(2);
const SAVE_SHARE: u32 = 20;
/// How long something is in the way before it is looked at again.
const TRY_AGAIN: Duration = Duration::from_secs(5);
