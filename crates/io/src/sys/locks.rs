//! The byte locks by which QEMU's programs keep out of each other's files (its `file-posix`
//! driver): byte 100 + *p* of a file is locked for reading by a program that uses permission *p*,
//! and byte 200 + *p* by one that does not let others use it. They are locks of the open file, not
//! of the process.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

/// The permissions of QEMU that matter here: consistent reads, writes, resizing.
const CONSISTENT_READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

const USED: i64 = 100;
const NOT_SHARED: i64 = 200;

/// The use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// Reads and writes.
    ReadWrite,
    /// Reads only.
    Read,
}

/// Locks the file as QEMU's programs do; no other program may write to it.
///
/// # Errors
/// "Resource temporarily unavailable" if one of them uses it, and the system's. A file system
/// without locks is no error.
pub(crate) fn lock_as_qemu(file: impl AsFd, mode: FileUse) -> Result<(), Errno> {
    let file = file.as_fd();
    let used: &[i64] =
        if mode == FileUse::ReadWrite { &[CONSISTENT_READ, WRITE] } else { &[CONSISTENT_READ] };
    let not_shared = [WRITE, RESIZE];
    let own = used.iter().map(|bit| USED + bit).chain(not_shared.map(|bit| NOT_SHARED + bit));
    for byte in own {
        match set(file, byte) {
            Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(()),
            outcome => outcome?,
        }
    }
    match is_free(file, used, &not_shared)? {
        true => Ok(()),
        false => Err(Errno::AGAIN),
    }
}

/// Returns whether a program of QEMU writes to the file.
pub(crate) fn is_written_by_qemu(file: impl AsFd) -> bool {
    is_free(file.as_fd(), &[], &[WRITE]).is_ok_and(|free| !free)
}

/// Returns whether no other program excludes a permission of `used`, or uses one of `not_shared`.
fn is_free(file: BorrowedFd<'_>, used: &[i64], not_shared: &[i64]) -> Result<bool, Errno> {
    let others = used.iter().map(|bit| NOT_SHARED + bit);
    for byte in others.chain(not_shared.iter().map(|bit| USED + bit)) {
        if is_locked(file, byte)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn set(file: BorrowedFd<'_>, byte: i64) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte).map(drop)
}

fn is_locked(file: BorrowedFd<'_>, byte: i64) -> Result<bool, Errno> {
    let found = control(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte)?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

fn control(
    file: BorrowedFd<'_>,
    command: libc::c_int,
    kind: libc::c_int,
    byte: i64,
) -> Result<libc::flock, Errno> {
    // SAFETY: `flock` is a struct of integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (byte, 1);
    // SAFETY: the descriptor is open, and both commands read and write one `flock` through their
    // argument, which lives until the call returns.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if answer < 0 { Err(last_error()) } else { Ok(lock) }
}

fn last_error() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    code.map_or(Errno::IO, Errno::from_raw_os_error)
}
