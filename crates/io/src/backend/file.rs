//! Opens the files with a drive's bytes: checks that they can be a drive, locks them, also for QEMU
//! and its tools, and bypasses the page cache where possible.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    FileType, FlockOperation, Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, flock, fstat,
    ftruncate, open,
};
use rustix::io::{Errno, pread};

use crate::block_device::{SystemPaths, loop_device_of};
use crate::buffer::AlignedBuffer;
use crate::locator::setting_key;
use crate::new_files::NewFiles;
use crate::open_error::OpenError;
use crate::options::DriveAccess;
use crate::sys::lock_as_qemu;

/// An open, locked file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// This file, if it did not exist before.
    pub(crate) new_files: NewFiles,
    pub(crate) file: OwnedFd,
    pub(crate) bytes: u64,
}

impl OpenFile {
    /// Opens `path` for a drive. A missing file is created with `create_bytes`, if given.
    ///
    /// # Errors
    /// See [`OpenError`]: not there, no regular file, in use by another process, or the system's.
    pub(crate) fn open(
        path: &Path,
        create_bytes: Option<u64>,
        access: DriveAccess,
    ) -> Result<Self, OpenError> {
        let flags = access.flags() | OFlags::CLOEXEC | OFlags::NOCTTY;
        // Check before opening: others notice a device that is opened for writing, even without a
        // write.
        match rustix::fs::stat(path) {
            Ok(status) => check_kind(path, &status)?,
            Err(Errno::NOENT) => check_missing(path, create_bytes)?,
            Err(errno) => return Err(OpenError::system(path, "looking at")(errno)),
        }
        let (file, created) = match open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) if create_bytes.is_some() => {
                let new = open(
                    path,
                    flags | OFlags::CREATE | OFlags::EXCL,
                    Mode::RUSR | Mode::WUSR | Mode::RGRP,
                );
                (new.map_err(OpenError::system(path, "creating"))?, true)
            }
            Err(errno @ (Errno::ACCESS | Errno::ROFS | Errno::PERM))
                if access == DriveAccess::ReadWrite =>
            {
                return Err(OpenError::ReadOnlyFile { path: path.to_owned(), error: errno.into() });
            }
            outcome => (outcome.map_err(OpenError::system(path, "opening"))?, false),
        };
        let status = fstat(&file).map_err(OpenError::system(path, "looking at"))?;
        check_kind(path, &status)?;
        lock(path, &file, access)?;
        let (mut bytes, mut new_files) = (status.st_size as u64, NewFiles::default());
        if let (true, Some(requested)) = (created, create_bytes) {
            new_files.add_locked(path, &file);
            ftruncate(&file, requested)
                .map_err(OpenError::system(path, "making as long as requested"))?;
            bytes = requested;
        }
        Ok(Self { file, bytes, new_files })
    }
}

/// Locks a file of a drive: against other drives, and against QEMU and its tools.
fn lock(path: &Path, file: &OwnedFd, access: DriveAccess) -> Result<(), OpenError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse { path: path.to_owned() }),
        Err(errno) => return Err(OpenError::system(path, "locking")(errno)),
    }
    let by = |by: String| OpenError::InUseBy { path: path.to_owned(), by };
    match lock_as_qemu(file, access.file_use()) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::ACCESS) => {
            return Err(by("a program of QEMU (qemu-nbd, a virtual machine)".to_owned()));
        }
        Err(errno) => return Err(OpenError::system(path, "locking")(errno)),
    }
    match loop_device_of(path, &SystemPaths::default()) {
        Some(device) => Err(by(format!(
            "the loop device {device}, which may be mounted (`losetup -d {device}` detaches it)"
        ))),
        None => Ok(()),
    }
}

/// Checks that `path`, where no file is, may be created. A name that ends like a setting is more
/// likely a locator with the wrong separator.
pub(super) fn check_missing(path: &Path, create_bytes: Option<u64>) -> Result<(), OpenError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let setting = name.split(',').skip(1).find(|part| setting_key(part).is_some());
    match setting {
        Some(setting) => {
            Err(OpenError::SettingInName { path: path.to_owned(), setting: setting.to_owned() })
        }
        None if create_bytes.is_none() => Err(OpenError::NotThere { path: path.to_owned() }),
        None => Ok(()),
    }
}

pub(super) fn check_kind(path: &Path, status: &Stat) -> Result<(), OpenError> {
    let kind = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::BlockDevice => return Err(OpenError::BlockDevice { path: path.to_owned() }),
        FileType::Directory => "a directory",
        _ => "a socket, pipe or character device",
    };
    Err(OpenError::NoFile { path: path.to_owned(), kind })
}

/// Switches the file to direct I/O if single sectors can then be read; returns whether it did.
///
/// Tested by a read of one sector at an offset of one sector, which works on every kernel and file
/// system.
pub(crate) fn try_direct(file: &OwnedFd, sector_bytes: u64) -> bool {
    let Ok(flags) = fcntl_getfl(file) else { return false };
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return false;
    }
    let mut sector = AlignedBuffer::zeroed(sector_bytes as usize);
    if pread(file, sector.as_mut_slice(), sector_bytes).is_ok() {
        return true;
    }
    if let Err(errno) = fcntl_setfl(file, flags) {
        tracing::warn!(%errno, "direct I/O cannot be switched off again");
    }
    false
}
