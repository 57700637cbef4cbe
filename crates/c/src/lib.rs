//! The C interface: drives, requests, batches and completion queues for programs in C and in every
//! language that calls C.
//!
//! The header is `include/headtime.h`, and docs/c.md describes the interface. Every function is
//! called with pointers that this library has returned, or that the header describes. Data is
//! copied between the program's buffers and the drive by the calling thread: no thread of a drive
//! touches memory of the program.

#![allow(unsafe_code, reason = "a C interface takes pointers")]
#![allow(non_camel_case_types, reason = "the types have the names of C")]

pub mod drive;
pub mod error;
pub mod io;
pub mod queue;
