//! The making of a scan: a new one or one with stored state, and its thread.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{SystemTime, UNIX_EPOCH};

use headtime_io::WriteMarks;
use headtime_tasks::{
    BackupForm, LoadedScan, Output, Scan, ScanStateError, TaskKind, TaskSettings,
};
use headtime_units::Sectors;
use parking_lot::Mutex;

use super::addresses::{Addresses, EXTENTS};
use super::files::StateFile;
use super::output::{OutputFile, dated_output};
use super::range::{RANGE, ScanRange};
use super::runner::{
    Awake, PATTERN, Phase, Runner, RunnerState, STARTED, UNREAD, this_boot, words_of,
};
use super::terms::ScanTerms;
use super::{ScanError, ScanState, ScanStatus, Scans, Slot, StartScan};

/// The parts of a new runner.
pub(super) struct NewRunner {
    scan: Scan,
    addresses: Addresses,
    marks: Option<Arc<WriteMarks>>,
    output: Option<OutputFile>,
    /// Output that precedes everything else.
    first: Vec<Output>,
    phase: Phase,
}

/// The granularity at which writes between two passes are recorded: that of digests.
const REGION_BYTES: u64 = 1 << 20;

impl Scans {
    /// The parts of a scan that starts from scratch.
    pub(super) fn new_runner(&self, start: &StartScan) -> Result<NewRunner, ScanError> {
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
    pub(super) fn remembered(
        &self,
        target: &str,
        task: TaskKind,
    ) -> Result<Option<Slot>, ScanError> {
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

    /// Starts the thread of a scan.
    pub(super) fn launch(&self, new: NewRunner) -> Result<Slot, ScanError> {
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

    /// The record of writes for a scan with digests; other scans need none.
    fn marks_of(&self, scan: &Scan, addresses: &Addresses) -> Option<Arc<WriteMarks>> {
        let region = Sectors::new(REGION_BYTES / u64::from(scan.subject().sector_size.bytes()));
        scan.digests()
            .map(|_| Arc::new(WriteMarks::new(addresses.on_drive(scan.subject().extent), region)))
    }
}
