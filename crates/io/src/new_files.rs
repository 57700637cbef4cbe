//! [`NewFiles`]: the files that opening a drive has created.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Files that did not exist before a drive was opened. They are removed when this is dropped, so
/// that an attempt that fails leaves nothing. Until then their locks are held, so that no other
/// server uses a file that is removed. The drive has to be closed before: it cannot make the data
/// of a removed file durable.
#[derive(Debug, Default)]
pub struct NewFiles(Vec<NewFile>);

#[derive(Debug)]
struct NewFile {
    path: PathBuf,
    /// Shares its lock with the file of the drive.
    _locked: Option<OwnedFd>,
}

impl NewFiles {
    /// Adds a file that is locked.
    pub(crate) fn add_locked(&mut self, path: &Path, file: &OwnedFd) {
        self.0.push(NewFile { path: path.to_owned(), _locked: file.try_clone().ok() });
    }

    /// Adds a file that nobody locks.
    pub(crate) fn add(&mut self, path: &Path) {
        self.0.push(NewFile { path: path.to_owned(), _locked: None });
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the files.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for NewFile { path, .. } in &self.0 {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove the new file");
                }
                _ => {}
            }
        }
    }
}
