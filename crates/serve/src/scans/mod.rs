//! The scans of a drive: start, pause, resume, cancel and status. Their state survives restarts.
//!
//! There is one scan for each target (a volume or the whole drive) and task. Each has its own
//! thread (`runner`, started by `launch`) between the drive's feed and its files (`files`). A scan
//! that was running when the server ended resumes when the server starts, before any client
//! connects; those of the configuration start with it (`sections`).
//!
//! [`ScanAlone`] scans a drive without a server: the same scans, files and commands, for one task
//! and without clients.

mod addresses;
mod alone;
mod bound;
mod error;
mod files;
mod identity;
mod launch;
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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use headtime_io::DriveHandle;
use headtime_sched::FillSettings;
use headtime_tasks::{BackupForm, ScanSubject, TASKS, TaskKind};
use headtime_units::{ByteRange, Extent, Lba, Share};
use jiff::Zoned;

use addresses::Addresses;
pub use alone::{AloneError, AloneOptions, Remembered, ScanAlone};
pub(crate) use bound::BoundedWork;
use bound::ImpactBound;
pub use error::ScanError;
use files::StateFile;
pub(crate) use identity::by_name as identity_by_name;
use output::OutputFile;
use parking_lot::Mutex;
pub use range::{RangeError, ScanRange};
use runner::{CommandMessage, ScanCommand};
pub use status::{
    DEFAULT_PRIORITY, DigestFigures, GapFigures, ImpactFigures, RangeList, ScanState, ScanStatus,
    SourceBytes,
};
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
    bound: Mutex<ImpactBound>,
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

/// The longest wait until a scan has carried out a command.
const TIMEOUT: Duration = Duration::from_secs(10);
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
        scans.sections.lock().clone_from(&sections);
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
            bound: Mutex::new(ImpactBound::new(fill)),
            alone,
            clock: Arc::new(Zoned::now),
            sections: Mutex::default(),
        }
    }

    /// Resumes a scan with stored state, if there is one.
    fn restore(&self, target: &str, task: TaskKind) -> Result<(), ScanError> {
        if let Some(slot) = self.remembered(target, task)? {
            self.slots.lock().insert((target.to_owned(), task), slot);
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
        self.targets
            .lock()
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
        let known = self.slots.lock().get(&(target.clone(), task)).map(|slot| slot.status());
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
        self.slots.lock().insert((target, task), slot);
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
        let known = self.slots.lock().get(&(target.to_owned(), task)).map(Slot::status);
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
        let Some(slot) = self.slots.lock().get(&(target.to_owned(), task)).map(Slot::status) else {
            return Err(ScanError::NotThere { target: target.to_owned(), task });
        };
        self.forget(target, task);
        Ok(slot)
    }

    /// All scans, by target and task.
    #[must_use]
    pub fn status(&self) -> Vec<ScanStatus> {
        self.slots.lock().values().map(Slot::status).collect()
    }

    /// The largest allowed growth of the mean response time of clients, as a share.
    #[must_use]
    pub fn max_impact(&self) -> f64 {
        self.bound.lock().max_impact()
    }

    /// Changes the allowed growth for all background work of the drive, also for work that has a
    /// bound of its own.
    pub fn set_max_impact(&self, share: Share) -> Result<(), ScanError> {
        self.bound.lock().set(&self.handle, share)
    }

    /// Sets the allowed growth while some work runs, or ends this.
    pub(crate) fn set_bound_of(
        &self,
        work: BoundedWork,
        share: Option<Share>,
    ) -> Result<(), ScanError> {
        self.bound.lock().set_of(&self.handle, work, share)
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
        let mut targets = self.targets.lock();
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
        self.slots
            .lock()
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
        let slots = std::mem::take(&mut *self.slots.lock());
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
            let slots = self.slots.lock();
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
        let status = status.lock().clone();
        Ok(status)
    }

    /// Ends a scan, if there is one, and removes its files.
    fn forget(&self, target: &str, task: TaskKind) {
        if let Some(slot) = self.slots.lock().remove(&(target.to_owned(), task)) {
            slot.stop.store(true, Ordering::Release);
            slot.end(ScanCommand::Cancel);
        }
        if let Some(Err(error)) = self.files(target, task).map(|files| files.remove()) {
            tracing::warn!(%error, "the state of an earlier scan cannot be removed; remove the \
                file");
        }
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
        let targets = self.targets.lock();
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

    fn files(&self, target: &str, task: TaskKind) -> Option<StateFile> {
        self.directory
            .as_deref()
            .map(|directory: &Path| StateFile::new(directory, self.drive, target, task.name()))
    }
}

impl Slot {
    fn status(&self) -> ScanStatus {
        self.status.lock().clone()
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
