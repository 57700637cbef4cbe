//! The only unsafe code of the crate: an io_uring that owns the memory that the kernel works on,
//! the scheduling class of a thread, the ioctls of a block device, locks of bytes of a file, and
//! the allocator's free memory.
#![allow(unsafe_code)]

mod block;
mod locks;
mod memory;
mod operation;
mod realtime;
mod ring;

pub(crate) use block::{discard, is_read_only, scsi};
pub(crate) use locks::{FileUse, is_written_by_qemu, lock_as_qemu};
pub use memory::release_free_memory;
pub(crate) use operation::{Call, Operation, ZERO_CHUNK};
pub(crate) use realtime::run_first_in_first_out;
pub(crate) use ring::Ring;
