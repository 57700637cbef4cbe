//! [`BesideError`]: the reasons why a characterization beside clients does not begin.

use std::io;
use std::path::PathBuf;

#[cfg(feature = "characterize")]
use headtime_io::characterize::StateFileError;

use super::BesideState;

/// The reason why a characterization beside clients was not changed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum BesideError {
    #[error(
        "the drive has a {state} characterization; see headtime status. Continue it with \
            --beside=resume, end it with --beside=cancel, or start over with --force"
    )]
    There { state: BesideState },
    #[error("the drive has no characterization beside clients; start one first")]
    NotThere,
    /// There is nothing to resume.
    #[error("the characterization cannot be resumed: {reason}; start over with --force")]
    NothingLeft { reason: String },
    /// An array has no mechanics of its own.
    #[error("{drive}: an array is not characterized; characterize each of its members alone")]
    Array { drive: String },
    /// The bound is no share.
    #[error("max_impact: {fraction} is out of range (0 to 1); write a share")]
    Impact { fraction: f64 },
    /// The program has no characterization.
    #[error(
        "this server was built without characterization; use one with the feature characterize"
    )]
    NotBuilt,
    #[error("the drive is closing; start the server again first")]
    Closed,
    #[error("this server keeps no state, so that the profile would be lost; name a file with -o")]
    NoPlace,
    /// The profile would serve nothing.
    #[error("--keep-model without -o leaves no result; name a file, or leave --keep-model out")]
    NoUse,
    #[error(
        "{} is not an absolute path, and the server has its own working directory; write the \
            whole path",
        path.display()
    )]
    Relative { path: PathBuf },
    /// A directory in place of a file.
    #[error("{} is a directory; expected the name of a file", path.display())]
    Directory { path: PathBuf },
    #[error(
        "{} exists; choose another file, or add --force to replace it",
        path.display()
    )]
    Exists { path: PathBuf },
    #[error(
        "the server cannot write {}: {error}; name a file in a directory that it may write, or \
            leave -o out",
        path.display()
    )]
    File { path: PathBuf, error: io::Error },
    /// The state directory cannot be used.
    #[error("{}: {error}; the characterization was not changed", path.display())]
    Stored { path: PathBuf, error: io::Error },
    /// A file in the state directory is damaged.
    #[error("{}: {fault}; remove the file, or start over with --force", path.display())]
    Damaged { path: PathBuf, fault: String },
    /// The state of the probe cannot be read or saved.
    #[cfg(feature = "characterize")]
    #[error(transparent)]
    State(#[from] StateFileError),
    /// There is no thread to be had.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

impl BesideError {
    /// Returns whether the command was invalid, as opposed to having failed.
    #[must_use]
    pub fn is_bad_request(&self) -> bool {
        match self {
            Self::File { .. } | Self::Stored { .. } | Self::Damaged { .. } | Self::Thread(_) => {
                false
            }
            #[cfg(feature = "characterize")]
            Self::State(_) => false,
            _ => true,
        }
    }
}
