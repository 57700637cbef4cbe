//! The only unsafe code of the crate: an io_uring that owns what the kernel works on, and the scheduling class of a thread.
#![allow(unsafe_code)]

mod realtime;
mod ring;

pub(crate) use realtime::run_first_in_first_out;
pub(crate) use ring::{Operation, Reaped, Ring};
