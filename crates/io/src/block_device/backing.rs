//! Loop devices and the files that they show.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use super::system::{names_in, word};
use super::{BlockDevice, DeviceUser, SystemPaths};
use crate::sys::is_written_by_qemu;

/// The file of a loop device.
pub(super) fn backing_of(device: &str, system: &SystemPaths) -> Option<PathBuf> {
    word(&system.sys.join("class/block").join(device).join("loop/backing_file")).map(PathBuf::from)
}

/// The loop device that a file is attached to, such as `/dev/loop0`.
pub(crate) fn loop_device_of(file: &Path, system: &SystemPaths) -> Option<String> {
    let file = std::fs::canonicalize(file).ok()?;
    let devices = names_in(&system.sys.join("class/block")).into_iter();
    let attached = |device: &String| {
        device.starts_with("loop") && backing_of(device, system).is_some_and(|path| path == file)
    };
    devices.filter(attached).map(|device| format!("/dev/{device}")).next()
}

/// Locks the file of a loop device that is a drive, so that no other drive uses it; `None` if the
/// file is not visible from here.
///
/// # Errors
/// The user of the file.
pub(crate) fn lock_backing(
    device: &BlockDevice,
    system: &SystemPaths,
) -> Result<Option<OwnedFd>, DeviceUser> {
    let Some(path) = backing_of(device.disk_name(), system) else { return Ok(None) };
    let Ok(file) = open(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    else {
        return Ok(None);
    };
    // Partitions of one loop device are drives of their own.
    let operation = match device.disk {
        Some(_) => FlockOperation::NonBlockingLockShared,
        None => FlockOperation::NonBlockingLockExclusive,
    };
    // Without locks there is nothing to find.
    let locked = matches!(flock(&file, operation), Err(Errno::WOULDBLOCK));
    if locked || is_written_by_qemu(&file) {
        let by = if locked { "another headtime" } else { "a program of QEMU" };
        return Err(DeviceUser::OfFile { device: device.disk_name().to_owned(), file: path, by });
    }
    Ok(Some(file))
}
