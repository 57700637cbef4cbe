//! The ioctls of block devices.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Setter, ioctl, opcode};

/// Returns true if the device refuses writes (`BLKROGET`).
///
/// # Errors
/// The system's, such as "not a typewriter" for a file that is no block device.
pub(crate) fn is_read_only(device: impl AsFd) -> Result<bool, Errno> {
    // SAFETY: BLKROGET writes one C int through its argument, and a `Getter` of that type gives it
    // the address of one.
    let flag = unsafe { ioctl(device, Getter::<BLKROGET, std::ffi::c_int>::new()) }?;
    Ok(flag != 0)
}

/// Discards the `len` bytes from `offset` (`BLKDISCARD`) and waits for the device.
///
/// # Errors
/// The system's: "not supported" by the device, "invalid argument" for a range that is not aligned
/// to its sectors.
pub(crate) fn discard(device: impl AsFd, offset: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKDISCARD reads two 64-bit numbers through its argument, and a `Setter` of that type
    // gives it the address of two.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([offset, len])) }
}

const BLKROGET: rustix::ioctl::Opcode = opcode::none(0x12, 94);
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);
