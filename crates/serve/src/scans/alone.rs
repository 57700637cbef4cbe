//! [`ScanAlone`]: a scan without a server. The program has the drive to itself, reads at full
//! speed, and accepts commands over a control socket like a server.
//!
//! ```text
//! control socket ─► drive ─► identity ─► state, locked ─► resume or start ─► … ─► save, close
//! ```
//! It uses the same state as a server's scan of `@drive`: either can continue what the other began.
//! No client writes through this program, so its state covers every write at any moment. A killed
//! program therefore loses only a few seconds of reading, digests stay comparable, and no journal
//! is needed. Writes of other programs, during the scan or between two runs, go unnoticed.
//!
//! The drive's own lock, the control socket, and a lock file next to the state keep two such
//! programs apart. An export of an NBD server has no lock of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headtime_io::{DriveOptions, IoError, Locator, OpenError, ProfileSource};
use headtime_tasks::{Scan, TASKS, TaskKind};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::addresses::Addresses;
use super::files::{StateFile, StateLock};
use super::status::{ScanState, ScanStatus};
use super::{ScanError, ScanRange, Scans, StartScan, WHOLE_DRIVE, identity};
use crate::config::{Listen, PathChoice};
use crate::control::{Answering, ControlClient, ControlHandler, ScanArguments, answer_clients};
use crate::default_paths::{control_socket_alone, state_directory_alone};
use crate::listener::{BindError, Listener};
use crate::server::{CLOSE_TIMEOUT, CONTROL_MODE, open_drive};

/// The drive and settings of a scan without a server.
#[derive(Clone, Debug)]
pub struct AloneOptions {
    /// The drive.
    pub drive: Locator,
    /// The drive's profile.
    pub profile: Option<ProfileSource>,
    /// The location of the state.
    pub state: PathChoice,
}

/// A running scan with a drive of its own.
pub struct ScanAlone {
    scans: Arc<Scans>,
    task: TaskKind,
    runtime: Runtime,
    control: Option<JoinHandle<()>>,
    answering: Answering,
    drive: headtime_io::Drive,
    /// Released last.
    _lock: Option<StateLock>,
}

/// The remedy if the drive may be in use by a server.
const SERVED_HINT: &str = "; if a `headtime serve` has it, scan its volumes there (headtime scan \
    start VOLUME --control SOCKET)";

/// The reason why a drive is not scanned.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum AloneError {
    #[error(
        "{drive} is served by a running headtime, which uses it exclusively; start the scan there: \
            `headtime scan start VOLUME --task {task} --control {}`, with {WHOLE_DRIVE} as VOLUME \
            for all of it",
        control.display()
    )]
    Served { drive: String, task: TaskKind, control: PathBuf },
    /// Another scan has the drive.
    #[error(
        "{drive} is being scanned already; see `headtime scan status {drive}`, and wait for its \
            end or cancel it"
    )]
    Scanned { drive: String },
    /// Another program uses the state, perhaps with the drive under another name.
    #[error(
        "{} is used by another headtime that scans the same drive; wait for its end, or choose \
            another directory with --state",
        path.display()
    )]
    StateInUse { path: PathBuf },
    /// The state cannot be locked.
    #[error(
        "{}: {error}; name a directory that can be written with --state, or keep no state with \
            --state off",
        path.display()
    )]
    State { path: PathBuf, error: io::Error },
    #[error("drive {drive}: {error}{}", if error.may_pass_soon() { SERVED_HINT } else { "" })]
    Drive { drive: String, error: OpenError },
    /// The drive does not answer.
    #[error("drive {drive}: its first MiB cannot be read: {error}; check the drive")]
    Silent { drive: String, error: IoError },
    /// The drive cannot be identified.
    #[error("drive {drive}: {error}; does it exist, and may you read it?")]
    Unknown { drive: String, error: io::Error },
    /// The stored scan has other settings.
    #[error(
        "the {task} of {drive} in progress {how}; resume it with the same settings, or discard \
            it with --again"
    )]
    OtherSettings { drive: String, task: TaskKind, how: String },
    /// The scan itself.
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error("the threads of the scan cannot be started: {0}; raise the limit on threads")]
    Threads(io::Error),
}

impl ScanAlone {
    /// Opens the drive and starts or resumes a scan. `order` names [`WHOLE_DRIVE`].
    ///
    /// # Errors
    /// See [`AloneError`]. Nothing was read or started then.
    pub fn start(options: &AloneOptions, order: &StartScan) -> Result<Self, AloneError> {
        let AloneOptions { drive: locator, profile, state } = options;
        let (name, task) = (locator.to_string(), order.task);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("headtime-scan")
            .enable_all()
            .build();
        let runtime = runtime.map_err(AloneError::Threads)?;
        let socket = {
            let _inside = runtime.enter();
            bind_control_socket(locator, task)?
        };
        let drive_options = DriveOptions { profile: profile.clone(), ..DriveOptions::default() };
        let drive = open_drive(locator, &drive_options)
            .map_err(|error| AloneError::Drive { drive: name.clone(), error })?;
        let handle = drive.handle();
        let uuid = identity::of_open_drive(&handle, locator)
            .map_err(|error| AloneError::Silent { drive: name.clone(), error })?;
        let directory = state.path(state_directory_alone(locator));
        let files = directory
            .as_deref()
            .map(|directory| StateFile::new(directory, uuid, WHOLE_DRIVE, task.name()));
        let lock = files.as_ref().map(lock_state).transpose()?;
        let scans = Arc::new(Scans::alone(handle, uuid, directory));
        if order.again {
            scans.start(order)?;
        } else {
            scans.restore(WHOLE_DRIVE, task)?;
            match scans.status().into_iter().next() {
                Some(status)
                    if matches!(
                        status.state,
                        ScanState::Running | ScanState::Paused | ScanState::Waiting
                    ) =>
                {
                    check_same_settings(&status, order, &name, scans.range_of(order)?)?;
                    scans.set(WHOLE_DRIVE, task, &order.terms)?;
                    scans.resume(WHOLE_DRIVE, task)?;
                }
                _ => drop(scans.start(order)?),
            }
        }
        let answering = Answering::default();
        let control = socket.map(|listener| {
            let handler = Arc::new(ControlHandler { scans: Arc::clone(&scans), server: None });
            runtime.spawn(answer_clients(listener, handler, answering.clone()))
        });
        Ok(Self { scans, task, runtime, control, answering, drive, _lock: lock })
    }

    /// The status; `None` after a cancellation.
    #[must_use]
    pub fn status(&self) -> Option<ScanStatus> {
        self.scans.status().into_iter().find(|status| status.task == self.task.name())
    }

    /// Saves the scan and closes the drive.
    pub fn end(self) {
        let Self { scans, runtime, control, answering, drive, .. } = self;
        if let Some(task) = control {
            task.abort();
            // Wait, so that the file of the socket is removed.
            let _cancelled = runtime.block_on(task);
            // The command that ended the scan gets its answer.
            runtime.block_on(answering.finish(CLOSE_TIMEOUT));
        }
        scans.close();
        // Nothing was written, so nothing needs to be durable.
        let _report = drive.shutdown();
        runtime.shutdown_timeout(CLOSE_TIMEOUT);
    }
}

/// The stored scans of a drive without a running program.
#[derive(Debug)]
pub struct Remembered {
    directory: PathBuf,
    drive: [u8; 16],
}

impl Remembered {
    /// Identifies the drive; `None` if its scans have no state.
    pub fn of(drive: &Locator, state: &PathChoice) -> Result<Option<Self>, AloneError> {
        let Some(directory) = state.path(state_directory_alone(drive)) else { return Ok(None) };
        let uuid = identity::of_closed_drive(drive)
            .map_err(|error| AloneError::Unknown { drive: drive.to_string(), error })?;
        Ok(Some(Self { directory, drive: uuid }))
    }

    /// The scans of the whole drive. An interrupted one is [stopped](ScanState::Stopped).
    #[must_use]
    pub fn status(&self) -> Vec<ScanStatus> {
        TASKS.iter().filter_map(|entry| self.status_of(entry.kind)).collect()
    }

    fn status_of(&self, task: TaskKind) -> Option<ScanStatus> {
        let files = self.files(task);
        let empty = ScanStatus {
            state_file: files.path().display().to_string(),
            ..ScanStatus::empty(WHOLE_DRIVE, task.name())
        };
        let broken =
            |reason: String| Some(ScanStatus { state: ScanState::Broken, reason, ..empty.clone() });
        let bytes = match files.read() {
            Ok(bytes) => bytes?,
            Err(error) => {
                return broken(format!("{} cannot be read: {error}", files.path().display()));
            }
        };
        let scan = match Scan::inspect(&bytes) {
            Ok(loaded) => loaded.scan,
            Err(error) => return broken(format!("{}: {error}", files.path().display())),
        };
        let note = |name| scan.note(name).unwrap_or_default().to_owned();
        let state = match scan.note("phase") {
            Some("complete") => ScanState::Complete,
            Some("broken") => ScanState::Broken,
            Some("paused") => ScanState::Paused,
            _ => ScanState::Stopped,
        };
        let reason = if state == ScanState::Broken { note("reason") } else { String::new() };
        let addresses = Addresses::new(scan.subject().extent.into());
        let of_scan = ScanStatus::of(&scan, &addresses, empty);
        Some(ScanStatus { state, reason, output: note("output"), ..of_scan })
    }

    /// Removes the state of a scan and returns its last status.
    ///
    /// # Errors
    /// [`AloneError::Scan`] if there is none, [`AloneError::StateInUse`], [`AloneError::State`].
    pub fn cancel(&self, task: TaskKind) -> Result<ScanStatus, AloneError> {
        let not_there = || ScanError::NotThere { target: WHOLE_DRIVE.to_owned(), task };
        let status = self.status_of(task).ok_or_else(not_there)?;
        let files = self.files(task);
        let _lock = lock_state(&files)?;
        files
            .remove()
            .map_err(|error| AloneError::State { path: files.path().to_owned(), error })?;
        Ok(status)
    }

    fn files(&self, task: TaskKind) -> StateFile {
        StateFile::new(&self.directory, self.drive, WHOLE_DRIVE, task.name())
    }
}

impl Scans {
    /// The scans of a drive without clients; no stored scan is resumed yet.
    fn alone(
        handle: headtime_io::DriveHandle,
        drive: [u8; 16],
        directory: Option<PathBuf>,
    ) -> Self {
        let fill = handle.usual_fill();
        Self::new(handle, drive, Vec::new(), directory, fill, true)
    }
}

/// Binds the control socket. If another program listens there, the error names it.
fn bind_control_socket(locator: &Locator, task: TaskKind) -> Result<Option<Listener>, AloneError> {
    let Some(path) = control_socket_alone(locator) else { return Ok(None) };
    if let Some(directory) = path.parent() {
        // An error shows when the socket is bound.
        let _ = std::fs::create_dir_all(directory);
    }
    match Listener::bind(&Listen::Unix { path: path.clone(), mode: CONTROL_MODE, tls: None }) {
        Ok(listener) => Ok(Some(listener)),
        Err(BindError::Live { .. }) => Err(socket_owner_error(locator, task, &path)),
        Err(error) => {
            tracing::warn!(
                "{error}; without a control socket, no other program can query or end this scan"
            );
            Ok(None)
        }
    }
}

fn socket_owner_error(locator: &Locator, task: TaskKind, path: &Path) -> AloneError {
    let answer = ControlClient::connect(path)
        .and_then(|mut client| client.scan("scan.status", &ScanArguments::default()));
    if answer.is_ok_and(|answer| answer.alone) {
        return AloneError::Scanned { drive: locator.to_string() };
    }
    AloneError::Served { drive: locator.to_string(), task, control: path.to_owned() }
}

fn lock_state(files: &StateFile) -> Result<StateLock, AloneError> {
    let path = || files.path().to_owned();
    let lock = files.lock().map_err(|error| AloneError::State { path: path(), error })?;
    lock.ok_or_else(|| AloneError::StateInUse { path: path() })
}

/// Checks that the stored scan has the requested settings.
fn check_same_settings(
    status: &ScanStatus,
    order: &StartScan,
    drive: &str,
    range: Option<ScanRange>,
) -> Result<(), AloneError> {
    let other = |how: String| {
        Err(AloneError::OtherSettings { drive: drive.to_owned(), task: order.task, how })
    };
    match &order.to {
        Some(to) if to.display().to_string() != status.output => {
            other(format!("goes into {}", status.output))
        }
        _ if status.range != range => other(format!("reads {}", ScanRange::name(status.range))),
        _ if order.digests && order.task == TaskKind::Scrub && status.digests.is_none() => {
            other("makes no digests".to_owned())
        }
        _ => Ok(()),
    }
}
