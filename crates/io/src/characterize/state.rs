//! The state file of a characterization: what a probe writes out, replaced whole every few seconds.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use headtime_probe::{LoadError, Probe};

use super::Identity;
use crate::files::{Existing, write_atomically};

/// The state file of one drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    path: PathBuf,
    drive: Identity,
}

/// The reason why a state cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The system refused.
    #[error("{doing} {} failed: {error}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The operation.
        doing: &'static str,
        /// The system's answer.
        error: io::Error,
    },
    /// It is no state of this drive.
    #[error("{}: {error}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: LoadError,
    },
}

impl State {
    /// The file at `path`, which need not be there.
    #[must_use]
    pub fn new(path: PathBuf, drive: Identity) -> Self {
        Self { path, drive }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what is known under another name, makes it durable and renames it: a crash leaves the
    /// old state or the new one.
    ///
    /// # Errors
    /// [`StateFileError::System`]; the old state is still there then.
    pub fn write(&self, probe: &Probe) -> Result<(), StateFileError> {
        let text = probe.save(&self.drive.name());
        write_atomically(&self.path, Existing::Replace, |mut file| file.write_all(text.as_bytes()))
            .map_err(|error| StateFileError::System {
                path: self.path.clone(),
                doing: "writing",
                error,
            })
    }

    /// Takes a characterization up again; `None` when there is no file.
    ///
    /// # Errors
    /// See [`StateFileError`].
    pub fn read(&self) -> Result<Option<Probe>, StateFileError> {
        let text = match std::fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(StateFileError::System {
                    path: self.path.clone(),
                    doing: "reading",
                    error,
                });
            }
        };
        let content = |error| StateFileError::Content { path: self.path.clone(), error };
        let Identity { capacity, sector_size, .. } = self.drive;
        Probe::load(&text, &self.drive.name(), capacity, sector_size.bytes())
            .map(Some)
            .map_err(content)
    }

    /// Removes the file, if it is there.
    ///
    /// # Errors
    /// [`StateFileError::System`].
    pub fn remove(&self) -> Result<(), StateFileError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StateFileError::System { path: self.path.clone(), doing: "removing", error })
            }
            _ => Ok(()),
        }
    }
}
