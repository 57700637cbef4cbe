//! The ioctls of block devices.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Setter, Updater, ioctl, opcode};

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

/// The answer to a SCSI command.
pub(crate) struct ScsiAnswer {
    /// The number of bytes that the device returned.
    pub(crate) data_len: usize,
    /// The sense bytes; empty if there are none.
    pub(crate) sense: Vec<u8>,
}

/// Sends a SCSI command (`SG_IO`) that returns at most as many bytes as `data` has, and waits for
/// the answer.
///
/// # Errors
/// The system's: "not a typewriter" for a device that takes no SCSI commands, "not permitted" for a
/// command that needs `CAP_SYS_RAWIO`.
pub(crate) fn scsi(
    device: impl AsFd,
    command: &[u8],
    data: &mut [u8],
    timeout_ms: u32,
) -> Result<ScsiAnswer, Errno> {
    let mut sense = [0_u8; MAX_SENSE];
    let mut header = SgIoHeader {
        interface_id: i32::from(b'S'),
        direction: if data.is_empty() { NO_DATA } else { FROM_DEVICE },
        command_len: command.len() as u8,
        max_sense_len: sense.len() as u8,
        iovec_count: 0,
        data_len: data.len() as u32,
        data: data.as_mut_ptr(),
        command: command.as_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms,
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_len: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: SG_IO reads and writes one `sg_io_hdr` through its argument, and an `Updater` of that
    // layout gives it the address of one. The three buffers outlive the call, which returns when
    // the command is over, and their lengths are in the header.
    unsafe { ioctl(device, Updater::<SG_IO, SgIoHeader>::new(&mut header)) }?;
    if header.host_status != 0 {
        return Err(Errno::IO);
    }
    let data_len = data.len().saturating_sub(usize::try_from(header.residual).unwrap_or(0));
    let sense_len = usize::from(header.sense_len).min(sense.len());
    Ok(ScsiAnswer { data_len, sense: sense[..sense_len].to_vec() })
}

/// `struct sg_io_hdr` of `<scsi/sg.h>`.
#[repr(C)]
struct SgIoHeader {
    interface_id: i32,
    direction: i32,
    command_len: u8,
    max_sense_len: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

const SG_IO: rustix::ioctl::Opcode = 0x2285;
const NO_DATA: i32 = -1;
const FROM_DEVICE: i32 = -3;
/// The most sense bytes that are taken (guess: more than any answer that is read here).
const MAX_SENSE: usize = 64;
