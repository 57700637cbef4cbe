//! The scans of a drive: start, pause, resume, cancel and status. Their state survives restarts.
//!
//! There is one scan for each target (a volume or the whole drive) and task. Each has its own
//! thread (`runner`) between the drive's feed and its files (`files`). A scan that was running when
//! the server ended resumes when the server starts, before any client connects; those of the
//! configuration start with it (`sections`).
//!
//! [`ScanAlone`] scans a drive without a server: the same scans, files and commands, for one task
//! and without clients.

mod addresses;
mod alone;
mod files;
mod identity;
mod output;
mod range;
mod resized;
mod runner;
mod sections;
mod status;
mod terms;
#[cfg(test)]
mod tests;
mod timetable;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headtime_io::{DriveHandle, SubmitError, WriteMarks};
use headtime_sched::FillSettings;
use headtime_tasks::{
    BackupForm, LoadedScan, Output, Scan, ScanStateError, ScanSubject, TASKS, TaskKind,
    TaskSettings,
};
use headtime_units::{ByteRange, Extent, Lba, Sectors, Share};
use jiff::Zoned;

use addresses::{Addresses, EXTENTS};
pub use alone::{AloneError, AloneOptions, Remembered, ScanAlone};
use files::StateFile;
pub(crate) use identity::by_name as identity_by_name;
use output::{OutputFile, dated_output};
use range::RANGE;
pub use range::{RangeError, ScanRange};
use runner::{
    Awake, CommandMessage, PATTERN, Phase, Runner, RunnerState, STARTED, ScanCommand, UNREAD,
    this_boot, words_of,
};
pub use status::{
    DEFAULT_PRIORITY, DigestFigures, GapFigures, ImpactFigures, RangeList, ScanState, ScanStatus,
    SourceBytes,
};
use terms::ScanTerms;
pub use terms::TermsChange;
pub use timetable::{Repetition, RepetitionError, Timetable, TimetableError};

use crate::volumes::Extents;

/// The name of the whole drive as a target; no volume can have this name.
pub const WHOLE_DRIVE: &str = "@drive";

/// A request to start or resume a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartScan {
    /// A volume's name, or [`WHOLE_DRIVE`].
    pub target: String,
    /// The task.
    pub task: TaskKind,
    /// The bytes of the target to read; all of them if absent.
    pub range: Option<ByteRange>,
    /// A scrub compares digests.
    pub digests: bool,
    /// The output of a backup: a new file or a named pipe.
    pub to: Option<PathBuf>,
    /// Discard the state of an earlier scan.
    pub again: bool,
    /// Other settings, where they are not the default or are to change.
    pub terms: TermsChange,
}

impl StartScan {
    fn check_output(&self) -> Result<(), ScanError> {
        match (self.task, &self.to) {
            (TaskKind::Backup, _) | (_, None) => Ok(()),
            (task, Some(_)) => {
                Err(ScanError::Output(format!("a {task} writes no output; leave the output out")))
            }
        }
    }
}

/// The scans of one drive.
pub struct Scans {
    handle: DriveHandle,
    drive: [u8; 16],
    /// Volumes come and go.
    targets: Mutex<Vec<(String, Extents)>>,
    directory: Option<PathBuf>,
    slots: Mutex<BTreeMap<(String, TaskKind), Slot>>,
    fill: Mutex<FillSettings>,
    /// No clients use the drive.
    alone: bool,
    clock: WallClock,
    /// The scans of the configuration.
    sections: Mutex<Vec<StartScan>>,
}

/// The local time; tests have one of their own.
type WallClock = Arc<dyn Fn() -> Zoned + Send + Sync>;

struct Slot {
    status: Arc<Mutex<ScanStatus>>,
    stop: Arc<AtomicBool>,
    /// `None` for a scan whose state cannot be read.
    thread: Option<(Sender<CommandMessage>, JoinHandle<()>)>,
}

/// The reason why a command for a scan failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ScanError {
    /// An unknown target.
    #[error(
        "there is no volume {target} on this drive; expected {known}, or {WHOLE_DRIVE} for the \
            whole drive"
    )]
    UnknownTarget { target: String, known: String },
    /// No such scan.
    #[error("there is no {task} of {target}; start one first")]
    NotThere { target: String, task: TaskKind },
    /// The scan is running.
    #[error("the {task} of {target} is running already; cancel it first to start another")]
    Running { target: String, task: TaskKind },
    /// The scan cannot be resumed.
    #[error(
        "the {task} of {target} cannot be resumed: {reason}; start it with --again, which discards \
            its state"
    )]
    Broken { target: String, task: TaskKind, reason: String },
    /// A range that the target does not have.
    #[error("{0}")]
    Range(#[from] RangeError),
    /// The scan has another range.
    #[error(
        "the {task} of {target} reads {known}, not {requested}; start it with the same range, or \
            with --again, which discards its state"
    )]
    OtherRange { target: String, task: TaskKind, known: String, requested: String },
    /// A scan of the configuration that exists already with other settings.
    #[error(
        "there is a {task} of {target} that was started by hand with another range, output or \
            digests; cancel it, and reload the configuration"
    )]
    ByHand { target: String, task: TaskKind },
    /// A missing output of a backup, or an output of another task.
    #[error("{0}")]
    Output(String),
    /// The output of a backup cannot be opened.
    #[error(
        "{}: {error}; name a new file, or a named pipe (mkfifo) that another program reads",
        path.display()
    )]
    OutputFile { path: PathBuf, error: std::io::Error },
    /// The drive is closing.
    #[error("the drive rejects the change: {0}")]
    Drive(#[from] SubmitError),
    /// A thread cannot be started.
    #[error("the thread of a scan cannot be started: {0}; raise the limit on threads")]
    Thread(std::io::Error),
}

/// The longest wait until a scan has carried out a command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The granularity at which writes between two passes are recorded: that of digests.
const REGION_BYTES: u64 = 1 << 20;

impl Scans {
    /// Opens the scans of a drive, resumes those with state in `directory`, and starts those of the
    /// configuration, `sections`. `targets` are the volumes, `drive` is the identity of the drive.
    ///
    /// The status of a scan reports unreadable state; starting it again discards the state.
    pub(crate) fn open(
        handle: DriveHandle,
        drive: [u8; 16],
        targets: Vec<(String, Extents)>,
        directory: Option<PathBuf>,
        max_impact: Share,
        sections: Vec<StartScan>,
    ) -> Self {
        let clock = Arc::new(Zoned::now);
        Self::open_at(handle, drive, targets, directory, max_impact, sections, clock)
    }

    fn open_at(
        handle: DriveHandle,
        drive: [u8; 16],
        targets: Vec<(String, Extents)>,
        directory: Option<PathBuf>,
        max_impact: Share,
        sections: Vec<StartScan>,
        clock: WallClock,
    ) -> Self {
        let fill = FillSettings { max_impact: max_impact.as_fraction(), ..handle.usual_fill() };
        let mut scans = Self::new(handle, drive, targets, directory, fill, false);
        scans.clock = clock;
        scans.sections.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&sections);
        for (target, task) in scans.possible_scans() {
            if let Err(error) = scans.restore(&target, task) {
                tracing::warn!("the {task} of {target} cannot be resumed: {error}");
            }
        }
        scans.follow(sections);
        scans
    }

    fn new(
        handle: DriveHandle,
        drive: [u8; 16],
        targets: Vec<(String, Extents)>,
        directory: Option<PathBuf>,
        fill: FillSettings,
        alone: bool,
    ) -> Self {
        // A client that reads the path in a status may have another working directory.
        let directory =
            directory.map(|directory| std::path::absolute(&directory).unwrap_or(directory));
        let mut targets = targets;
        targets
            .push((WHOLE_DRIVE.to_owned(), Extent::new(Lba::default(), handle.capacity()).into()));
        if handle.set_fill(fill).is_err() {
            tracing::warn!("the drive was closed before its scans were set up");
        }
        Self {
            handle,
            drive,
            targets: Mutex::new(targets),
            directory,
            slots: Mutex::default(),
            fill: Mutex::new(fill),
            alone,
            clock: Arc::new(Zoned::now),
            sections: Mutex::default(),
        }
    }

    /// Resumes a scan with stored state, if there is one.
    fn restore(&self, target: &str, task: TaskKind) -> Result<(), ScanError> {
        if let Some(slot) = self.remembered(target, task)? {
            self.lock().insert((target.to_owned(), task), slot);
        }
        Ok(())
    }

    /// Returns whether no clients use the drive.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    fn possible_scans(&self) -> Vec<(String, TaskKind)> {
        let tasks = || TASKS.iter().map(|entry| entry.kind);
        self.targets()
            .iter()
            .flat_map(|(target, _)| tasks().map(move |task| (target.clone(), task)))
            .collect()
    }

    /// Starts a scan, resumes a paused one, or repeats a complete one.
    pub fn start(&self, start: &StartScan) -> Result<ScanStatus, ScanError> {
        let StartScan { target, task, .. } = start;
        let (target, task) = (target.clone(), *task);
        let range = self.range_of(start)?;
        start.check_output()?;
        let known = self.lock().get(&(target.clone(), task)).map(|slot| slot.status());
        if let Some(status) = known.filter(|_| !start.again) {
            let other_range = status.range != range;
            let another = other_range
                || task == TaskKind::Backup
                || (start.digests && status.digests.is_none());
            let other_range_error = || ScanError::OtherRange {
                target: target.clone(),
                task,
                known: ScanRange::name(status.range),
                requested: ScanRange::name(range),
            };
            let change = |terms: &TermsChange| match terms.is_empty() {
                true => Ok(()),
                false => self.tell(&target, task, ScanCommand::Set(terms.clone())).map(drop),
            };
            match status.state {
                ScanState::Running | ScanState::Paused | ScanState::Waiting if other_range => {
                    return Err(other_range_error());
                }
                // The digests are for comparison with the next scan of these sectors.
                ScanState::Complete if other_range && status.digests.is_some() => {
                    return Err(other_range_error());
                }
                ScanState::Running if start.terms.is_empty() => {
                    return Err(ScanError::Running { target, task });
                }
                ScanState::Running | ScanState::Paused | ScanState::Waiting => {
                    change(&start.terms)?;
                    return self.tell(&target, task, ScanCommand::Resume);
                }
                ScanState::Broken => {
                    return Err(ScanError::Broken { target, task, reason: status.reason });
                }
                ScanState::Complete if !another => {
                    change(&start.terms)?;
                    return self.tell(&target, task, ScanCommand::Again);
                }
                ScanState::Complete | ScanState::Stopped => {}
            }
        }
        let runner = self.new_runner(start)?;
        self.forget(&target, task);
        let slot = self.launch(runner)?;
        let status = slot.status();
        self.lock().insert((target, task), slot);
        Ok(status)
    }

    /// Changes settings of a scan, whatever its state.
    pub fn set(
        &self,
        target: &str,
        task: TaskKind,
        terms: &TermsChange,
    ) -> Result<ScanStatus, ScanError> {
        let once = |status: &ScanStatus| {
            let pipe = OutputFile::form_of(Path::new(&status.output)) == BackupForm::Stream;
            status.to == status.output && !pipe
        };
        let known = self.lock().get(&(target.to_owned(), task)).map(Slot::status);
        let once = task == TaskKind::Backup && known.is_some_and(|status| once(&status));
        if let Some(Some(every)) = terms.every.as_ref().filter(|_| once) {
            return Err(ScanError::Output(format!(
                "the {task} of {target} has an output for one pass; to repeat it, start it with \
                    --every {every} and a date in --to"
            )));
        }
        self.tell(target, task, ScanCommand::Set(terms.clone()))
    }

    /// Stops reading for a scan until it is resumed.
    pub fn pause(&self, target: &str, task: TaskKind) -> Result<ScanStatus, ScanError> {
        self.tell(target, task, ScanCommand::Pause)
    }

    /// Resumes a paused scan, or retries at once what another waits for.
    pub fn resume(&self, target: &str, task: TaskKind) -> Result<ScanStatus, ScanError> {
        let status = self.tell(target, task, ScanCommand::Resume)?;
        match status.state {
            ScanState::Broken => {
                Err(ScanError::Broken { target: target.to_owned(), task, reason: status.reason })
            }
            _ => Ok(status),
        }
    }

    /// Ends a scan and removes its state. The file of a backup stays, incomplete.
    pub fn cancel(&self, target: &str, task: TaskKind) -> Result<ScanStatus, ScanError> {
        let Some(slot) = self.lock().get(&(target.to_owned(), task)).map(Slot::status) else {
            return Err(ScanError::NotThere { target: target.to_owned(), task });
        };
        self.forget(target, task);
        Ok(slot)
    }

    /// All scans, by target and task.
    #[must_use]
    pub fn status(&self) -> Vec<ScanStatus> {
        self.lock().values().map(Slot::status).collect()
    }

    /// The largest allowed growth of the mean response time of clients, as a share.
    #[must_use]
    pub fn max_impact(&self) -> f64 {
        self.fill.lock().unwrap_or_else(PoisonError::into_inner).max_impact
    }

    /// Changes the allowed growth for all scans of the drive.
    pub fn set_max_impact(&self, share: Share) -> Result<(), ScanError> {
        let mut fill = self.fill.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = FillSettings { max_impact: share.as_fraction(), ..*fill };
        self.handle.set_fill(changed)?;
        *fill = changed;
        Ok(())
    }

    /// The measured growth of the mean response time of clients since the first scan, as a share.
    #[must_use]
    pub fn impact(&self) -> f64 {
        self.handle.snapshot().fill.impact()
    }

    /// The growth as clients see it; `None` if it is not known yet.
    #[must_use]
    pub fn measured_impact(&self) -> Option<ImpactFigures> {
        let measured = self.handle.snapshot().fill.measured;
        measured.map(|of| ImpactFigures { mean: of.mean, lower: of.lower, upper: of.upper })
    }

    /// The use of the gaps before clients' requests since the first scan.
    #[must_use]
    pub fn gaps(&self) -> GapFigures {
        GapFigures::of(&self.handle.snapshot().fill)
    }

    /// Sets or removes the sectors of a target. The caller must have ended its scans. Those of the
    /// configuration start.
    pub(crate) fn set_target(&self, target: &str, extents: Option<Extents>) {
        let is_there = extents.is_some();
        let mut targets = self.targets();
        targets.retain(|(name, _)| name != target);
        targets.extend(extents.map(|extents| (target.to_owned(), extents)));
        drop(targets);
        if is_there {
            self.follow_sections_of(target);
        }
    }

    /// The unfinished scans of a target.
    pub(crate) fn unfinished(&self, target: &str) -> Vec<TaskKind> {
        let unfinished = |slot: &Slot| {
            matches!(
                slot.status().state,
                ScanState::Running | ScanState::Paused | ScanState::Waiting
            )
        };
        self.lock()
            .iter()
            .filter(|((name, _), slot)| name == target && unfinished(slot))
            .map(|((_, task), _)| *task)
            .collect()
    }

    /// Ends all scans of a target and removes their state.
    pub(crate) fn forget_all(&self, target: &str) {
        TASKS.iter().for_each(|entry| self.forget(target, entry.kind));
    }

    /// Saves all scans and ends their threads. Nothing may be written to the drive afterwards.
    pub(crate) fn close(&self) {
        let slots = std::mem::take(&mut *self.lock());
        for slot in slots.values() {
            slot.stop.store(true, Ordering::Release);
        }
        for slot in slots.into_values() {
            slot.end(ScanCommand::Close);
        }
    }

    fn tell(
        &self,
        target: &str,
        task: TaskKind,
        command: ScanCommand,
    ) -> Result<ScanStatus, ScanError> {
        let key = (target.to_owned(), task);
        let not_there = || ScanError::NotThere { target: target.to_owned(), task };
        let (sender, status) = {
            let slots = self.lock();
            let slot = slots.get(&key).ok_or_else(not_there)?;
            (slot.thread.as_ref().map(|(sender, _)| sender.clone()), Arc::clone(&slot.status))
        };
        if let Some(sender) = sender {
            let (done, acknowledged) = mpsc::channel();
            if sender.send(CommandMessage { command, done }).is_ok() {
                // A busy scan carries the command out later.
                let _ = acknowledged.recv_timeout(TIMEOUT);
            }
        }
        let status = status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(status)
    }

    /// Ends a scan, if there is one, and removes its files.
    fn forget(&self, target: &str, task: TaskKind) {
        if let Some(slot) = self.lock().remove(&(target.to_owned(), task)) {
            slot.stop.store(true, Ordering::Release);
            slot.end(ScanCommand::Cancel);
        }
        if let Some(Err(error)) = self.files(target, task).map(|files| files.remove()) {
            tracing::warn!(%error, "the state of an earlier scan cannot be removed; remove the \
                file");
        }
    }

    fn new_runner(&self, start: &StartScan) -> Result<NewRunner, ScanError> {
        let range = self.range_of(start)?;
        let subject = self.subject(&start.target, range)?;
        let addresses = self.addresses_of(&start.target)?;
        let bytes = subject.sector_size.bytes_of(subject.extent.len);
        let mut settings = TaskSettings { digests: start.digests, ..start.task.into() };
        let mut output = None;
        let (mut path, mut pattern) = (String::new(), String::new());
        let now = (self.clock)();
        if start.task == TaskKind::Backup {
            let to = start.to.as_ref().ok_or_else(|| {
                ScanError::Output("a backup needs an output; add --to FILE".to_owned())
            })?;
            pattern = to.display().to_string();
            let repeats = matches!(start.terms.every, Some(Some(_)));
            let to = &if repeats { dated_output(&pattern, &now)? } else { to.clone() };
            let file = OutputFile::create(to, bytes)
                .map_err(|error| ScanError::OutputFile { path: to.clone(), error })?;
            settings.form = file.form();
            output = Some(file);
            path = to.display().to_string();
        }
        let mut scan = Scan::start(subject, settings, self.handle.physical_block());
        let begun =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        scan.set_note(EXTENTS, addresses.note());
        scan.set_note("begun", begun.to_string());
        scan.set_note("boot", this_boot());
        scan.set_note("output", path);
        scan.set_note(PATTERN, pattern);
        scan.set_note(STARTED, now.timestamp().to_string());
        scan.set_note(UNREAD, "yes");
        start.terms.note_in(&mut scan);
        if let Some(range) = range {
            scan.set_note(RANGE, range.to_string());
        }
        let mut first = Vec::new();
        scan.begin(&mut first);
        let marks = self.marks_of(&scan, &addresses);
        Ok(NewRunner { scan, addresses, marks, output, first, phase: Phase::Running })
    }

    /// Loads the stored state of a scan, if there is one.
    fn remembered(&self, target: &str, task: TaskKind) -> Result<Option<Slot>, ScanError> {
        let Some(files) = self.files(target, task) else { return Ok(None) };
        let unreadable = |reason: String| {
            let status = ScanStatus {
                state: ScanState::Broken,
                reason,
                state_file: files.path().display().to_string(),
                ..ScanStatus::empty(target, task.name())
            };
            Ok(Some(Slot {
                status: Arc::new(Mutex::new(status)),
                stop: Arc::default(),
                thread: None,
            }))
        };
        let bytes = match files.read() {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => bytes,
            Err(error) => {
                return unreadable(format!("{} cannot be read: {error}", files.path().display()));
            }
        };
        let addresses = self.addresses_of(target)?;
        let whole = self.subject(target, None)?;
        let loaded = Scan::inspect(&bytes).and_then(|loaded| {
            // A range that the target no longer has is not of these sectors.
            let range = ScanRange::of(&loaded.scan);
            let subject = self.subject(target, range).unwrap_or(whole);
            loaded.scan.must_be_of(&subject, task).map(|()| loaded)
        });
        let LoadedScan { mut scan, closed } = match loaded {
            Ok(loaded) => loaded,
            Err(
                error @ (ScanStateError::Damaged { .. }
                | ScanStateError::Newer { .. }
                | ScanStateError::Foreign { .. }),
            ) => {
                return unreadable(format!("{}: {error}", files.path().display()));
            }
        };
        if scan.note(EXTENTS).unwrap_or_default() != addresses.note() {
            let path = files.path().display();
            return unreadable(format!("{path}: it is of other extents of the volume"));
        }
        let marks = self.marks_of(&scan, &addresses);
        if let Some(marks) = &marks {
            let known = closed.then(|| words_of(scan.note("marks").unwrap_or_default())).flatten();
            if !known.is_some_and(|words| marks.set_words(&words)) {
                // Writes since the last save were not recorded.
                marks.mark_all();
            }
        }
        let mut phase = match scan.note("phase") {
            Some("paused") => Phase::Paused,
            Some("complete") => Phase::Complete,
            Some("broken") => {
                Phase::Broken { reason: scan.note("reason").unwrap_or_default().to_owned() }
            }
            _ => Phase::Running,
        };
        let mut output = None;
        if task == TaskKind::Backup && matches!(phase, Phase::Running | Phase::Paused) {
            match self.reopen(&files, &mut scan, closed) {
                Ok(file) => output = Some(file),
                Err(reason) => phase = Phase::Broken { reason },
            }
        }
        scan.set_note("boot", this_boot());
        self.note_section(&mut scan);
        let first = Vec::new();
        self.launch(NewRunner { scan, addresses, marks, output, first, phase }).map(Some)
    }

    /// Opens the image of an interrupted backup and replays its journal.
    fn reopen(
        &self,
        files: &StateFile,
        scan: &mut Scan,
        closed: bool,
    ) -> Result<OutputFile, String> {
        if scan.settings().form == BackupForm::Stream {
            return Err(
                "the program ended while the backup was written to a pipe, and its reader has a \
                part of it only"
                    .to_owned(),
            );
        }
        // Before the first window of its timetable a backup has no point in time to lose.
        let begun_reading = scan.note(UNREAD) != Some("yes");
        if begun_reading && !closed && scan.note("boot") != Some(&this_boot()) {
            return Err("the machine went down during the backup, and data overwritten near the \
                end may be missing in it"
                .to_owned());
        }
        let begun = scan.note("begun").and_then(|begun| begun.parse().ok()).unwrap_or(0);
        files
            .replay(begun, scan)
            .map_err(|error| format!("its journal cannot be read: {error}"))?;
        let path = PathBuf::from(scan.note("output").unwrap_or_default());
        let bytes = scan.subject().sector_size.bytes_of(scan.subject().extent.len);
        OutputFile::reopen(&path, bytes)
            .map_err(|error| format!("{} cannot be opened again: {error}", path.display()))
    }

    fn launch(&self, new: NewRunner) -> Result<Slot, ScanError> {
        let NewRunner { scan, addresses, marks, output, first, phase } = new;
        let (target, task) = (scan.subject().target.clone(), scan.kind());
        let files = self.files(&target, task);
        let status = ScanStatus {
            output: scan.note("output").unwrap_or_default().to_owned(),
            state_file: files
                .as_ref()
                .map(|files| files.path().display().to_string())
                .unwrap_or_default(),
            ..ScanStatus::empty(&target, task.name())
        };
        let status = Arc::new(Mutex::new(status));
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, commands) = mpsc::channel();
        let terms = ScanTerms::of(&scan);
        if let Some(marks) = &marks {
            self.handle.watch_writes(marks)?;
        }
        let handle = self.handle.clone();
        let mut runner = Runner {
            handle,
            scan,
            addresses,
            marks,
            output,
            files,
            status: Arc::clone(&status),
            commands,
            stop: Arc::clone(&stop),
            phase,
            alone: self.alone,
            awake: Awake::unknown(),
            terms,
            clock: Arc::clone(&self.clock),
            state: RunnerState::default(),
        };
        // All sectors are requested before this returns, so that the point in time of a backup
        // begins or continues before a client connects.
        runner.begin_with(&first);
        let thread = std::thread::Builder::new()
            .name(format!("scan-{task}"))
            .spawn(move || runner.run())
            .map_err(ScanError::Thread)?;
        Ok(Slot { status, stop, thread: Some((sender, thread)) })
    }

    /// The requested range within the target; `None` for all of it.
    fn range_of(&self, start: &StartScan) -> Result<Option<ScanRange>, ScanError> {
        let extent = self.addresses_of(&start.target)?.extent();
        let range = start.range.map(|range| {
            ScanRange::within(range, &start.target, extent.len, self.handle.sector_size())
        });
        Ok(range.transpose()?.flatten())
    }

    fn subject(&self, target: &str, range: Option<ScanRange>) -> Result<ScanSubject, ScanError> {
        let (whole, sector) = (self.addresses_of(target)?.extent(), self.handle.sector_size());
        let extent = range.map_or(Ok(whole), |range| range.extent(target, whole, sector))?;
        Ok(ScanSubject {
            drive: self.drive,
            target: target.to_owned(),
            extent,
            sector_size: self.handle.sector_size(),
        })
    }

    fn addresses_of(&self, target: &str) -> Result<Addresses, ScanError> {
        let targets = self.targets();
        let found = targets.iter().find(|(name, _)| name == target);
        found.map(|(_, extents)| Addresses::new(extents.clone())).ok_or_else(|| {
            let known: Vec<&str> = targets
                .iter()
                .map(|(name, _)| name.as_str())
                .filter(|name| *name != WHOLE_DRIVE)
                .collect();
            let known = if known.is_empty() { "no volumes".to_owned() } else { known.join(", ") };
            ScanError::UnknownTarget { target: target.to_owned(), known }
        })
    }

    fn sections(&self) -> MutexGuard<'_, Vec<StartScan>> {
        self.sections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn targets(&self) -> MutexGuard<'_, Vec<(String, Extents)>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self, target: &str, task: TaskKind) -> Option<StateFile> {
        self.directory
            .as_deref()
            .map(|directory: &Path| StateFile::new(directory, self.drive, target, task.name()))
    }

    /// The record of writes for a scan with digests; other scans need none.
    fn marks_of(&self, scan: &Scan, addresses: &Addresses) -> Option<Arc<WriteMarks>> {
        let region = Sectors::new(REGION_BYTES / u64::from(scan.subject().sector_size.bytes()));
        scan.digests()
            .map(|_| Arc::new(WriteMarks::new(addresses.on_drive(scan.subject().extent), region)))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, TaskKind), Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of a new runner.
struct NewRunner {
    scan: Scan,
    addresses: Addresses,
    marks: Option<Arc<WriteMarks>>,
    output: Option<OutputFile>,
    /// Output that precedes everything else.
    first: Vec<Output>,
    phase: Phase,
}

impl Slot {
    fn status(&self) -> ScanStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(self, command: ScanCommand) {
        let Some((sender, thread)) = self.thread else { return };
        let (done, _) = mpsc::channel();
        // A thread that has ended needs no command.
        let _ = sender.send(CommandMessage { command, done });
        drop(sender);
        if thread.join().is_err() {
            tracing::error!(
                "the thread of a scan failed; data read since its last save is read again"
            );
        }
    }
}

impl Drop for Scans {
    fn drop(&mut self) {
        self.close();
    }
}
