//! The reasons why a command for a scan failed.

use std::path::PathBuf;

use headtime_io::SubmitError;
use headtime_tasks::TaskKind;

use super::{RangeError, WHOLE_DRIVE};

/// The reason why a command for a scan failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ScanError {
    #[error(
        "there is no volume {target} on this drive, which has {known}; name a volume that it has, \
            or {WHOLE_DRIVE} for the whole drive"
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
    #[error(transparent)]
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
    #[error("the thread of a scan cannot be started: {0}; raise the limit on threads")]
    Thread(std::io::Error),
}
