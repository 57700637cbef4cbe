//! The only unsafe code of the crate: an io_uring that owns the memory that the kernel works on,
//! the scheduling class of a thread, and the ioctls of a block device.
#![allow(unsafe_code)]

mod block;
mod operation;
mod realtime;
mod ring;

pub(crate) use block::{discard, is_read_only};
pub(crate) use operation::{Call, Operation, ZERO_CHUNK};
pub(crate) use realtime::run_first_in_first_out;
pub(crate) use ring::Ring;
