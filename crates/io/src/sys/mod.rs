//! The only unsafe code of the crate: an io_uring that owns what the kernel works on, the
//! scheduling class of a thread, and what a block device is requested by ioctl.
#![allow(unsafe_code)]

mod block;
mod realtime;
mod ring;

pub(crate) use block::{discard, is_read_only};
pub(crate) use realtime::run_first_in_first_out;
pub(crate) use ring::{Operation, Reaped, Ring};
