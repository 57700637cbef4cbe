//! The output of a backup: a sparse image or a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use headtime_tasks::{BackupForm, Output};
use jiff::Zoned;
use jiff::fmt::strtime;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::ScanError;

/// An open output.
#[derive(Debug)]
pub(super) struct OutputFile {
    file: File,
    path: PathBuf,
    form: BackupForm,
}

/// The output of a backup that repeats: the path with the date in it, or a pipe.
pub(super) fn dated_output(pattern: &str, now: &Zoned) -> Result<PathBuf, ScanError> {
    let path = strtime::format(pattern, now).map_err(|error| {
        ScanError::Output(format!("{pattern} is no pattern of a date: {error}"))
    })?;
    let path = PathBuf::from(path);
    if path.as_os_str() == pattern && OutputFile::form_of(&path) == BackupForm::Image {
        return Err(ScanError::Output(format!(
            "{pattern} would be the same file each time; write the date into the name of a backup \
                that repeats, such as vol0-%Y-%m-%d.img"
        )));
    }
    Ok(path)
}

/// The interval at which a write to a blocked pipe checks for the end of the scan.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

impl OutputFile {
    /// The form of the output at `path`.
    pub(super) fn form_of(path: &Path) -> BackupForm {
        let pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        if pipe { BackupForm::Stream } else { BackupForm::Image }
    }

    /// Creates an image of `bytes` bytes, or opens a pipe that has a reader.
    pub(super) fn create(path: &Path, bytes: u64) -> io::Result<Self> {
        let form = Self::form_of(path);
        let file = match form {
            BackupForm::Image => {
                let file =
                    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
                file.set_len(bytes)?;
                file
            }
            BackupForm::Stream => OpenOptions::new()
                .write(true)
                .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
                .open(path)?,
        };
        Ok(Self { file, path: path.to_owned(), form })
    }

    /// Opens the image of an earlier run.
    pub(super) fn reopen(path: &Path, bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        let len = file.metadata()?.len();
        if len != bytes {
            return Err(io::Error::other(format!("it has {len} bytes; expected {bytes}")));
        }
        Ok(Self { file, path: path.to_owned(), form: BackupForm::Image })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames an image, unless there is a file of the new name.
    pub(super) fn rename(&mut self, path: PathBuf) -> io::Result<()> {
        if self.form == BackupForm::Image && path != self.path {
            renameat_with(CWD, &self.path, CWD, &path, RenameFlags::NOREPLACE)?;
            self.path = path;
        }
        Ok(())
    }

    pub(super) fn form(&self) -> BackupForm {
        self.form
    }

    /// Writes all outputs. If `stop` is set meanwhile, fails with `Interrupted`.
    pub(super) fn write(&mut self, outputs: &[Output], stop: &AtomicBool) -> io::Result<()> {
        outputs.iter().try_for_each(|output| match output {
            Output::At { offset, bytes } => self.file.write_all_at(bytes, *offset),
            Output::Append { bytes } => self.append(bytes, stop),
        })
    }

    fn append(&mut self, bytes: &[u8], stop: &AtomicBool) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if stop.load(Ordering::Acquire) {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    // An interrupted or failed wait only ends early.
                    let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&POLL));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the image durable; no effect on a pipe.
    pub(super) fn sync(&self) -> io::Result<()> {
        match self.form {
            BackupForm::Image => self.file.sync_data(),
            BackupForm::Stream => Ok(()),
        }
    }
}
