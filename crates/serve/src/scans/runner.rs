//! The thread of one scan: it passes data from the drive to the task, writes the output, saves the
//! state, and carries out commands.
//!
//! ```text
//! feed ─► scan (records, task) ─► output file ─► journal ─► kept ─► engine allows overwrites
//! ```
//! An obstacle (no space for the image or the state, a drive that does not answer) makes a scan
//! wait and retry, not fail. Only the loss of its point in time ends a scan.

mod timing;

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

use headtime_io::{DriveHandle, ScanEvent, ScanFeed, ScanStart, WriteMarks};
use headtime_sched::{FillSource, PendingSectors};
use headtime_tasks::{BackupForm, Output, ReadSource, Scan};
use headtime_units::{Extent, Sectors};
use parking_lot::Mutex;

use super::WallClock;
use super::addresses::Addresses;
use super::files::{Journal, StateFile};
use super::output::OutputFile;
use super::status::{ScanState, ScanStatus};
use super::terms::{ScanTerms, TermsChange};
use crate::disk::is_gone;

/// A command for a scan.
pub(super) enum ScanCommand {
    Pause,
    Resume,
    /// Change the terms.
    Set(TermsChange),
    /// Follow a section of the configuration from now on.
    Adopt,
    /// Follow it no longer, and change the terms.
    Release(TermsChange),
    /// Start another pass of a complete scan.
    Again,
    /// End the scan and remove its state.
    Cancel,
    /// Save the state, because the server ends.
    Close,
}

/// A command, and the channel that acknowledges it.
pub(super) struct CommandMessage {
    pub(super) command: ScanCommand,
    pub(super) done: Sender<()>,
}

pub(super) struct Runner {
    pub(super) handle: DriveHandle,
    pub(super) scan: Scan,
    pub(super) addresses: Addresses,
    pub(super) marks: Option<Arc<WriteMarks>>,
    pub(super) output: Option<OutputFile>,
    pub(super) files: Option<StateFile>,
    pub(super) status: Arc<Mutex<ScanStatus>>,
    pub(super) commands: Receiver<CommandMessage>,
    /// Set when the scan has to end, so that a blocked pipe does not delay it.
    pub(super) stop: Arc<AtomicBool>,
    pub(super) phase: Phase,
    /// No clients use the drive, so the state covers every write.
    pub(super) alone: bool,
    /// The last sign that the drive is awake.
    pub(super) awake: Awake,
    /// The terms, as in the notes of the scan.
    pub(super) terms: ScanTerms,
    pub(super) clock: WallClock,
    pub(super) state: RunnerState,
}

/// The last sign that the drive is awake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awake {
    at: Instant,
    /// The finished requests of clients at that time.
    requests: u64,
}

/// The working state of a runner.
#[derive(Default)]
pub(super) struct RunnerState {
    feed: Option<ScanFeed>,
    journal: Option<Journal>,
    /// Consecutive failed reads: medium errors if a later read succeeds, otherwise the drive is
    /// gone.
    suspects: Vec<(Extent, i32, bool, ReadSource)>,
    /// The time of the last look at the timetable.
    clock_read: Option<Instant>,
    /// The time of the last attempt to begin the next backup.
    repeat_tried: Option<Instant>,
    unsaved: bool,
    saved: Option<Instant>,
    save_took: Duration,
    status_updated: Option<Instant>,
    /// Bytes done at recent times.
    rate: VecDeque<(Instant, u64)>,
    /// The progress when the feed was last exhausted with sectors missing.
    exhausted_at: Option<u64>,
    /// Sectors to read again, because their data could not be kept or the drive was gone.
    lost: Vec<Extent>,
}

/// The phase of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Paused,
    Waiting { reason: String, until: Instant },
    Complete,
    Broken { reason: String },
}

impl Phase {
    /// The stored name of the phase: a waiting scan resumes by itself.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Running | Self::Waiting { .. } => "running",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Broken { .. } => "broken",
        }
    }
}

impl Awake {
    /// Nothing is known of the drive.
    pub(super) fn unknown() -> Self {
        Self { at: Instant::now(), requests: 0 }
    }
}

impl Runner {
    /// Writes the first output, saves the state and requests the missing sectors. From then on no
    /// sector is overwritten that a point in time needs.
    pub(super) fn begin_with(&mut self, first: &[Output]) {
        if let Err(error) = self.write(first) {
            self.cannot_write(&error);
        }
        if matches!(self.phase, Phase::Running | Phase::Paused | Phase::Waiting { .. }) {
            // The point in time of a backup begins with its first window.
            let unread = self.scan.note(UNREAD) == Some("yes");
            match self.outside().filter(|_| unread) {
                Some(reason) => self.hold(reason, TIMETABLE_EVERY),
                None => self.open_feed(),
            }
        }
        self.save(false);
        self.update_status();
    }

    /// Runs until a command ends the scan.
    pub(super) fn run(mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(commands) => {
                    if self.carry_out(commands) {
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
            self.follow_timetable();
            self.wait_while_asleep();
            match self.state.feed.as_ref().map(|feed| feed.next(POLL)) {
                Some(Some(event)) => {
                    self.awake.at = Instant::now();
                    self.handle_event(event);
                }
                Some(None) => {}
                None => match self.commands.recv_timeout(POLL_IDLE) {
                    Ok(commands) => {
                        if self.carry_out(commands) {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                },
            }
            self.periodic_work();
        }
    }

    /// Performs periodic state.
    fn periodic_work(&mut self) {
        let now = Instant::now();
        if matches!(&self.phase, Phase::Waiting { until, .. } if now >= *until) {
            self.continue_scan();
        }
        let pause = SAVE_EVERY.max(self.state.save_took * SAVE_SHARE);
        if self.state.unsaved && self.state.saved.is_none_or(|saved| now >= saved + pause) {
            self.save(false);
        }
        if self
            .state
            .status_updated
            .is_none_or(|status_updated| now >= status_updated + STATUS_EVERY)
        {
            self.update_status();
        }
    }

    /// Carries out a command; returns whether it ends the scan.
    fn carry_out(&mut self, CommandMessage { command, done }: CommandMessage) -> bool {
        let over = match command {
            ScanCommand::Pause if matches!(self.phase, Phase::Running | Phase::Waiting { .. }) => {
                self.phase = Phase::Paused;
                self.state.feed.iter().for_each(ScanFeed::pause);
                self.save(false);
                false
            }
            ScanCommand::Resume if matches!(self.phase, Phase::Paused | Phase::Waiting { .. }) => {
                self.continue_scan();
                self.save(false);
                false
            }
            ScanCommand::Set(change) => {
                self.change_terms(&change);
                false
            }
            ScanCommand::Adopt => {
                self.scan.set_note(CONFIGURED, "yes");
                self.save(false);
                false
            }
            ScanCommand::Release(change) => {
                self.scan.set_note(CONFIGURED, "no");
                self.change_terms(&change);
                false
            }
            ScanCommand::Again if self.phase == Phase::Complete => {
                self.begin_pass();
                false
            }
            ScanCommand::Pause | ScanCommand::Resume | ScanCommand::Again => false,
            ScanCommand::Cancel => {
                self.state.feed = None;
                self.state.journal = None;
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
        self.update_status();
        // The sender may have stopped waiting.
        let _ = done.send(());
        over
    }

    /// Ends the scan for a shutdown. Sectors that were read and not processed are read again after
    /// the restart, unless that would mark_lost the point in time.
    fn close(&mut self) {
        if let Some(feed) = self.state.feed.take() {
            // Process the data in memory, which may carry the only record of a write. Reads at the
            // drive are repeated later.
            feed.stop();
            while let Some(event) =
                feed.next(Duration::ZERO).filter(|event| *event != ScanEvent::Closed)
            {
                self.handle_event(event);
            }
        }
        if self.is_stream() && !matches!(self.phase, Phase::Complete | Phase::Broken { .. }) {
            self.fail(
                "the program ended while the backup was written to a pipe, and its reader has \
                a part of it only",
            );
        }
        self.state.unsaved = true;
        self.save(true);
    }

    fn handle_event(&mut self, event: ScanEvent) {
        match event {
            ScanEvent::Read { extent, bytes, source, written } => {
                self.deliver_suspects();
                self.deliver(extent, Ok(&bytes), written, source_of(source));
            }
            ScanEvent::Failed { extent, errno, source, written } => {
                let gone = is_gone(errno);
                if self.state.suspects.is_empty() && !gone {
                    tracing::warn!(
                        "a scan of {} cannot read {extent}: {}",
                        self.scan.subject().target,
                        io::Error::from_raw_os_error(errno)
                    );
                }
                self.state.suspects.push((extent, errno, written, source_of(source)));
                if gone || self.state.suspects.len() >= MAX_SUSPECTS {
                    self.reject_drive(errno);
                }
            }
            ScanEvent::Exhausted => {
                self.deliver_suspects();
                self.end_of_pass();
            }
            ScanEvent::Overtaken { extent } => {
                self.fail(&format!(
                    "{extent} was overwritten before its data was kept, so \
                    that the copy would not be of one moment"
                ));
            }
            ScanEvent::Closed => {
                self.state.feed = None;
                if !matches!(self.phase, Phase::Complete | Phase::Broken { .. }) {
                    self.phase = Phase::Waiting {
                        reason: "the drive is closed".to_owned(),
                        until: Instant::now() + RETRY_AFTER,
                    };
                }
            }
        }
    }

    /// A later read succeeded, or none is left: the earlier failures are medium errors.
    fn deliver_suspects(&mut self) {
        for (extent, errno, written, source) in std::mem::take(&mut self.state.suspects) {
            self.deliver(extent, Err(errno), written, source);
        }
    }

    /// Nothing can be read: the failed sectors do not count as unreadable and are read again.
    fn reject_drive(&mut self, errno: i32) {
        let suspects = std::mem::take(&mut self.state.suspects);
        for (extent, ..) in &suspects {
            self.mark_lost(*extent);
        }
        let error = io::Error::from_raw_os_error(errno);
        self.wait_for(&format!("the drive does not answer: {error}; check the drive"));
    }

    /// Marks sectors as not kept, to be read again.
    fn mark_lost(&mut self, extent: Extent) {
        self.state.feed.iter().for_each(|feed| feed.not_kept(extent));
        self.state.lost.push(extent);
    }

    fn deliver(
        &mut self,
        extent: Extent,
        read: Result<&[u8], i32>,
        written: bool,
        source: ReadSource,
    ) {
        let mut out = Vec::new();
        let sector = self.handle.sector_size();
        for (of_scan, part) in self.addresses.in_scan(extent) {
            let bytes = |sectors: Sectors| sector.bytes_of(sectors) as usize;
            let from = bytes(part.start - extent.start);
            let read = read.map(|all| &all[from..from + bytes(part.len)]);
            self.scan.deliver(of_scan, read, written, source, &mut out);
        }
        match self.write(&out) {
            Ok(()) => {
                self.scan.keep();
                if self.state.journal.is_some()
                    && let Some(feed) = &self.state.feed
                {
                    feed.keep(|extent| self.is_kept(extent));
                }
                self.state.unsaved = true;
            }
            Err(error) => {
                self.scan.forget();
                self.mark_lost(extent);
                self.cannot_write(&error);
            }
        }
    }

    /// Returns whether all sectors of the scan in this extent of the drive are kept.
    fn is_kept(&self, extent: Extent) -> bool {
        self.addresses.in_scan(extent).all(|(of_scan, _)| self.scan.is_kept(of_scan))
    }

    fn write(&mut self, out: &[Output]) -> io::Result<()> {
        if let Some(output) = &mut self.output {
            output.write(out, &self.stop)?;
        }
        if self.keeps_a_journal() && self.state.journal.is_none() {
            let begun = self.begun();
            self.state.journal =
                self.files.as_ref().map(|files| files.journal(begun)).transpose()?;
        }
        self.state.journal.as_mut().map_or(Ok(()), |journal| journal.write(&self.scan))
    }

    fn cannot_write(&mut self, error: &io::Error) {
        let path = self
            .output
            .as_ref()
            .map(|output| output.path().display().to_string())
            .unwrap_or_default();
        let path = if self.state.journal.is_none() && self.keeps_a_journal() {
            format!("the journal of {path}")
        } else {
            path
        };
        if self.is_stream() {
            self.fail(&format!("the pipe {path} accepts no more data: {error}"));
        } else {
            self.wait_for(&format!(
                "{path} cannot be written: {error}; free space, or check its file system"
            ));
        }
    }

    /// The feed is exhausted: every requested sector was delivered.
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
                    self.state.feed = None;
                    self.output = None;
                    self.save(false);
                    self.update_status();
                }
                Err(error) => self.cannot_write(&error),
            }
            return;
        }
        // The data of missing sectors could not be kept, or was part of incomplete grains.
        let done = self.scan.sectors_done().get();
        if self.phase == Phase::Running {
            if self.state.exhausted_at == Some(done) {
                self.wait_for("missing sectors were read without data; they are read again");
            } else {
                self.request_missing();
            }
            self.state.exhausted_at = Some(done);
        }
    }

    /// Retries after an obstacle.
    fn continue_scan(&mut self) {
        if let Some(reason) = self.outside() {
            if self.phase == Phase::Paused {
                self.phase = Phase::Running;
            }
            self.hold(reason, TIMETABLE_EVERY);
            return;
        }
        if self.is_asleep() {
            if self.phase == Phase::Paused {
                self.phase = Phase::Running;
            }
            self.wait_for(ASLEEP);
            return;
        }
        self.phase = Phase::Running;
        if self.state.feed.is_none() {
            self.open_feed();
            return;
        }
        self.state.exhausted_at = None;
        self.request_lost();
        self.state.feed.iter().for_each(ScanFeed::resume);
    }

    /// Requests lost sectors again; the feed has the other missing ones.
    fn request_lost(&mut self) {
        let lost = std::mem::take(&mut self.state.lost);
        let Some(feed) = self.state.feed.as_ref().filter(|_| !lost.is_empty()) else { return };
        let mut sectors =
            PendingSectors::new(self.handle.capacity(), Sectors::new(self.scan.grain()));
        lost.into_iter()
            .filter(|extent| !self.is_kept(*extent))
            .for_each(|extent| sectors.insert(extent));
        feed.again(sectors);
    }

    /// Requests all missing sectors after the feed was exhausted.
    fn request_missing(&mut self) {
        self.state.lost.clear();
        if let Some(feed) = &self.state.feed {
            feed.again(self.missing());
        }
    }

    fn missing(&self) -> PendingSectors {
        let mut sectors =
            PendingSectors::new(self.handle.capacity(), Sectors::new(self.scan.grain()));
        let missing = self.scan.missing();
        let on_drive = missing.flat_map(|extent| self.addresses.on_drive(extent));
        on_drive.for_each(|extent| sectors.insert(extent));
        sectors
    }

    fn open_feed(&mut self) {
        self.state.lost.clear();
        if self.scan.note(UNREAD) == Some("yes") {
            self.begin_reading();
        }
        if self.phase == Phase::Running {
            match self.outside() {
                Some(reason) => self.hold(reason, TIMETABLE_EVERY),
                None if self.is_asleep() => self.wait_for(ASLEEP),
                None => {}
            }
        }
        let kind = self.scan.kind();
        let start = ScanStart {
            requested: self.missing(),
            point_in_time: kind.is_point_in_time(),
            hold_writes: self.keeps_a_journal(),
            paused: self.phase != Phase::Running,
            priority: self.terms.priority,
            marks: self.marks.clone(),
            queue_bytes: QUEUE_BYTES,
        };
        match self.handle.start_scan(start) {
            Ok(feed) => self.state.feed = Some(feed),
            Err(error) => self.wait_for(&format!("the drive rejects the scan: {error}")),
        }
    }

    /// Pauses reading for a while because of an obstacle.
    fn wait_for(&mut self, reason: &str) {
        let new = !matches!(&self.phase, Phase::Waiting { reason: before, .. } if before == reason);
        if new {
            tracing::warn!(
                "the {} of {} waits: {reason}",
                self.scan.kind(),
                self.scan.subject().target
            );
        }
        self.hold(reason.to_owned(), RETRY_AFTER);
    }

    /// Pauses reading, to look again after a while.
    fn hold(&mut self, reason: String, again: Duration) {
        self.state.feed.iter().for_each(ScanFeed::pause);
        if !matches!(self.phase, Phase::Paused | Phase::Complete | Phase::Broken { .. }) {
            self.phase = Phase::Waiting { reason, until: Instant::now() + again };
        }
        self.update_status();
    }

    fn fail(&mut self, reason: &str) {
        tracing::error!(
            "the {} of {} cannot be finished: {reason}",
            self.scan.kind(),
            self.scan.subject().target
        );
        self.phase = Phase::Broken { reason: format!("{reason}; start it again") };
        self.state.feed = None;
        self.output = None;
        self.save(false);
        self.update_status();
    }

    /// Saves the state. The output of a running backup need not be durable, because a power failure
    /// loses its point in time anyway.
    fn save(&mut self, closed: bool) {
        let Some(files) = &self.files else { return };
        // Without clients the state covers every write, whenever the program ends.
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
            .and_then(|()| self.state.journal.as_mut().map_or(Ok(()), Journal::empty));
        self.state.saved = Some(Instant::now());
        self.state.save_took = began.elapsed();
        match saved {
            Ok(()) => self.state.unsaved = false,
            Err(error) => {
                let path = files.path().display().to_string();
                self.wait_for(&format!(
                    "{path} cannot be written: {error}; free space, or check its file system"
                ));
            }
        }
    }

    fn update_status(&mut self) {
        let now = Instant::now();
        self.state.status_updated = Some(now);
        let next_start = self.next_start(&(self.clock)());
        let next_start = next_start.map(|at| at.strftime("%FT%T%:z").to_string());
        let mut status = self.status.lock();
        let mut next = ScanStatus::of(&self.scan, &self.addresses, status.clone());
        (next.state, next.reason) = match &self.phase {
            Phase::Running => (ScanState::Running, String::new()),
            Phase::Paused => (ScanState::Paused, String::new()),
            Phase::Waiting { reason, .. } => (ScanState::Waiting, reason.clone()),
            Phase::Complete => (ScanState::Complete, String::new()),
            Phase::Broken { reason } => (ScanState::Broken, reason.clone()),
        };
        next.next_start = next_start;
        let rate = &mut self.state.rate;
        rate.push_back((now, next.bytes_done));
        while rate.front().is_some_and(|(then, _)| now - *then > RATE_WINDOW) && rate.len() > 2 {
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

    /// The start time, which distinguishes this scan from others of the same target and task in the
    /// journal.
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

/// Formats the words of a bitmap as hexadecimal text.
pub(super) fn hex_of(words: &[u64]) -> String {
    words.iter().map(|word| format!("{word:016x}")).collect()
}

/// Parses the text of [`hex_of`].
pub(super) fn words_of(hex: &str) -> Option<Vec<u64>> {
    let words = hex
        .as_bytes()
        .chunks(16)
        .map(|word| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    words.collect()
}

/// The boot id of the machine: the page cache survives a crash of the program, but not a reboot.
pub(super) fn this_boot() -> String {
    std::fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn source_of(source: FillSource) -> ReadSource {
    match source {
        FillSource::Gap => ReadSource::Gap,
        FillSource::Merged => ReadSource::Merged,
        FillSource::Idle => ReadSource::Idle,
        FillSource::Share => ReadSource::Share,
        FillSource::BeforeWrite => ReadSource::BeforeWrite,
    }
}

/// The maximum number of consecutive failed blocks: 16 MiB in blocks of 4 KiB, more than a scratch,
/// less than a drive.
const MAX_SUSPECTS: usize = 4096;
/// The approximate bound on data that waits for the task.
const QUEUE_BYTES: u64 = 4 << 20;
/// The interval at which a runner checks for commands.
const POLL: Duration = Duration::from_millis(20);
const POLL_IDLE: Duration = Duration::from_millis(200);
const STATUS_EVERY: Duration = Duration::from_millis(200);
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// The interval between saves, and the divisor of the share of time spent on saving.
const SAVE_EVERY: Duration = Duration::from_secs(2);
const SAVE_SHARE: u32 = 20;
/// The note of the time at which the pass was started.
pub(super) const STARTED: &str = "started";
/// The note of the output of a backup as it was ordered, with a date to be filled in if it repeats.
pub(super) const PATTERN: &str = "to";
/// The note of a scan that follows a section of the configuration.
pub(super) const CONFIGURED: &str = "configured";
/// The note of a scan that has not requested its sectors yet.
pub(super) const UNREAD: &str = "unread";
/// The interval at which the clock is read.
const TIMETABLE_EVERY: Duration = Duration::from_millis(500);
const ASLEEP: &str = "the drive is in standby, and the scan does not wake it; it continues when a \
    client has woken the drive, or at once with `headtime scan start … --wake`";
/// The time until an obstacle is checked again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
