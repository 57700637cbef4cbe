//! A scan without a server: this program has the drive for itself, reads it as fast as it goes, and
//! takes orders over a control socket as a server does.
//!
//! ```text
//! control socket ─► drive ─► which drive is it ─► its state, locked ─► goes on, or begins ─► … ─► remembers, closes
//! ```
//! It is the same scan as a server's over `@drive`, with the same state: one that a server has
//! begun goes on without it, and the other way round. What differs comes of nobody writing through
//! this program: its state knows of every write at any moment, so that a program that is killed has
//! lost nothing but a few seconds of reading, digests are compared on, and no journal is needed.
//! What other programs write to the drive meanwhile, or between two runs, nobody sees.
//!
//! Two of them at one drive are kept apart by the drive's own lock, by the control socket, and by a
//! lock beside the state. An NBD server's export has no lock of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headtime_io::{DriveOptions, IoError, Locator, OpenError, ProfileSource};
use headtime_tasks::{Scan, TASKS, TaskKind};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::files::{StateFile, StateLock};
use super::status::{ScanState, ScanStatus};
use super::{ScanError, Scans, StartScan, WHOLE_DRIVE, identity};
use crate::config::{Listen, PathChoice};
use crate::control::{ControlClient, ControlHandler, ScanArguments, answer_clients};
use crate::default_paths::{control_socket_alone, state_directory_alone};
use crate::listener::{BindError, Listener};
use crate::server::{CONTROL_MODE, LEAVING, open_drive};

/// Which drive is scanned without a server, and how.
#[derive(Clone, Debug)]
pub struct AloneOptions {
    /// The drive.
    pub drive: Locator,
    /// What is believed of it.
    pub profile: Option<ProfileSource>,
    /// Where the scan is remembered.
    pub state: PathChoice,
}

/// A scan at work, with a drive of its own.
pub struct ScanAlone {
    scans: Arc<Scans>,
    task: TaskKind,
    runtime: Runtime,
    control: Option<JoinHandle<()>>,
    drive: headtime_io::Drive,
    /// Let go of last.
    _lock: Option<StateLock>,
}

/// Why a drive is not scanned.
#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    /// A server has it.
    #[error(
        "{drive} is served by a running headtime, which has it for itself; let that one scan it: \
            `headtime scan start VOLUME --task {task} --control {}`, with {WHOLE_DRIVE} as VOLUME \
            for all of it",
        control.display()
    )]
    Served {
        /// The drive.
        drive: String,
        /// What was to be done.
        task: TaskKind,
        /// The server's control socket.
        control: PathBuf,
    },
    /// Another scan has it.
    #[error(
        "{drive} is being scanned already; see `headtime scan status {drive}`, and wait for its \
            end or cancel it"
    )]
    Scanned {
        /// The drive.
        drive: String,
    },
    /// The state is used by another program, which has the drive by another name, perhaps.
    #[error("{} is used by another headtime that scans the same drive; wait for its end, or remember this scan elsewhere with --state", path.display())]
    StateInUse {
        /// The state.
        path: PathBuf,
    },
    /// The state cannot be locked.
    #[error("{}: {error}; name a directory that can be written with --state, or remember nothing with --state off", path.display())]
    State {
        /// The state.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The drive cannot be opened.
    #[error("drive {drive}: {error}{}", if error.may_pass_soon() { "; if a `headtime serve` has it, scan its volumes there (headtime scan start VOLUME --control SOCKET)" } else { "" })]
    Drive {
        /// The drive.
        drive: String,
        /// Why.
        error: OpenError,
    },
    /// The drive does not answer.
    #[error("drive {drive}: its beginning cannot be read: {error}; look after the drive")]
    Silent {
        /// The drive.
        drive: String,
        /// Why.
        error: IoError,
    },
    /// Which drive it is cannot be found out.
    #[error("drive {drive}: {error}; is it there, and may you read it?")]
    Unknown {
        /// The drive.
        drive: String,
        /// Why.
        error: io::Error,
    },
    /// What is remembered is of a scan with other settings.
    #[error(
        "the {task} of {drive} that is under way {how}; go on with it as it was started, or forget \
            it with --again"
    )]
    OtherSettings {
        /// The drive.
        drive: String,
        /// The task.
        task: TaskKind,
        /// In what it differs.
        how: String,
    },
    /// The scan itself.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// Threads were refused.
    #[error("the threads of the scan cannot be started: {0}; raise the limit on threads")]
    Threads(io::Error),
}

impl ScanAlone {
    /// Takes the drive and starts, or goes on with what is remembered of an earlier scan. `order`
    /// names [`WHOLE_DRIVE`].
    ///
    /// # Errors
    /// See [`AloneError`]. Nothing was read or begun then.
    pub fn start(options: &AloneOptions, order: &StartScan) -> Result<Self, AloneError> {
        let AloneOptions { drive: locator, profile, state } = options;
        let (name, task) = (locator.to_string(), order.task);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("headtime-scan")
            .enable_all()
            .build();
        let runtime = runtime.map_err(AloneError::Threads)?;
        let door = {
            let _inside = runtime.enter();
            open_door(locator, task)?
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
        let lock = files.as_ref().map(taken).transpose()?;
        let scans = Arc::new(Scans::alone(handle, uuid, directory));
        if order.again {
            scans.start(order)?;
        } else {
            scans.take_up(WHOLE_DRIVE, task)?;
            match scans.status().into_iter().next() {
                Some(status)
                    if matches!(
                        status.state,
                        ScanState::Running | ScanState::Paused | ScanState::Waiting
                    ) =>
                {
                    must_fit(&status, order, &name)?;
                    scans.resume(WHOLE_DRIVE, task)?;
                }
                _ => drop(scans.start(order)?),
            }
        }
        let control = door.map(|listener| {
            runtime.spawn(answer_clients(
                listener,
                Arc::new(ControlHandler::of_scans(Arc::clone(&scans))),
            ))
        });
        Ok(Self { scans, task, runtime, control, drive, _lock: lock })
    }

    /// How it is getting on; `None` when somebody has cancelled it.
    #[must_use]
    pub fn status(&self) -> Option<ScanStatus> {
        self.scans.status().into_iter().find(|status| status.task == self.task.name())
    }

    /// Remembers the scan and lets go of the drive.
    pub fn end(self) {
        let Self { scans, runtime, control, drive, .. } = self;
        if let Some(door) = control {
            door.abort();
            // Waited for, so that the socket's file is gone.
            let _cancelled = runtime.block_on(door);
        }
        scans.close();
        // Nothing was written, so that nothing can be left undurable.
        let _report = drive.shutdown();
        runtime.shutdown_timeout(LEAVING);
    }
}

/// What is remembered of the scans of a drive that nobody is at.
#[derive(Debug)]
pub struct Remembered {
    directory: PathBuf,
    drive: [u8; 16],
}

impl Remembered {
    /// Looks which drive it is; `None` for one whose scans are remembered nowhere.
    ///
    /// # Errors
    /// [`AloneError::Unknown`].
    pub fn of(drive: &Locator, state: &PathChoice) -> Result<Option<Self>, AloneError> {
        let Some(directory) = state.path(state_directory_alone(drive)) else { return Ok(None) };
        let uuid = identity::of_closed_drive(drive)
            .map_err(|error| AloneError::Unknown { drive: drive.to_string(), error })?;
        Ok(Some(Self { directory, drive: uuid }))
    }

    /// The scans of the whole drive. One that was at work is [stopped](ScanState::Stopped) now.
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
        Some(ScanStatus { state, reason, output: note("output"), ..ScanStatus::of(&scan, empty) })
    }

    /// Forgets a scan; how it was.
    ///
    /// # Errors
    /// [`AloneError::Scan`] when there is none, [`AloneError::StateInUse`], [`AloneError::State`].
    pub fn cancel(&self, task: TaskKind) -> Result<ScanStatus, AloneError> {
        let not_there = || ScanError::NotThere { target: WHOLE_DRIVE.to_owned(), task };
        let status = self.status_of(task).ok_or_else(not_there)?;
        let files = self.files(task);
        let _lock = taken(&files)?;
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
    /// The scans of a drive that nobody else uses; nothing is taken up yet.
    fn alone(
        handle: headtime_io::DriveHandle,
        drive: [u8; 16],
        directory: Option<PathBuf>,
    ) -> Self {
        let fill = handle.usual_fill();
        Self::new(handle, drive, Vec::new(), directory, fill, true)
    }
}

/// The door for orders. Where somebody else is behind it already, says who.
fn open_door(locator: &Locator, task: TaskKind) -> Result<Option<Listener>, AloneError> {
    let Some(path) = control_socket_alone(locator) else { return Ok(None) };
    if let Some(directory) = path.parent() {
        // What comes of it is seen when the socket is made.
        let _ = std::fs::create_dir_all(directory);
    }
    match Listener::bind(&Listen::Unix { path: path.clone(), mode: CONTROL_MODE, tls: None }) {
        Ok(listener) => Ok(Some(listener)),
        Err(BindError::Live { .. }) => Err(who_is_there(locator, task, &path)),
        Err(error) => {
            tracing::warn!(
                "{error}; there is no control socket, so that nobody can ask after this scan or \
                    end it from elsewhere"
            );
            Ok(None)
        }
    }
}

fn who_is_there(locator: &Locator, task: TaskKind, path: &Path) -> AloneError {
    let answer = ControlClient::connect(path)
        .and_then(|mut client| client.scan("scan.status", &ScanArguments::default()));
    if answer.is_ok_and(|answer| answer.alone) {
        return AloneError::Scanned { drive: locator.to_string() };
    }
    AloneError::Served { drive: locator.to_string(), task, control: path.to_owned() }
}

fn taken(files: &StateFile) -> Result<StateLock, AloneError> {
    let path = || files.path().to_owned();
    let lock = files.lock().map_err(|error| AloneError::State { path: path(), error })?;
    lock.ok_or_else(|| AloneError::StateInUse { path: path() })
}

/// Whether a scan that goes on is the one that is asked for.
fn must_fit(status: &ScanStatus, order: &StartScan, drive: &str) -> Result<(), AloneError> {
    let other = |how: String| {
        Err(AloneError::OtherSettings { drive: drive.to_owned(), task: order.task, how })
    };
    match &order.to {
        Some(to) if to.display().to_string() != status.output => {
            other(format!("goes into {}", status.output))
        }
        _ if order.digests && order.task == TaskKind::Scrub && status.digests.is_none() => {
            other("makes no digests".to_owned())
        }
        _ => Ok(()),
    }
}
