//! [`Process`]: streams of processes that use files through the page cache of an operating system.
//!
//! A stream of requests has clients that submit what the stream draws. A stream of processes has
//! processes that call read and write; the page cache turns the calls into requests. Each process
//! is a client of its own, from its first request to its end, which the source reports as
//! [`SourceEvent::Ended`](crate::SourceEvent::Ended).
//!
//! *Modelled*: read-ahead, think time between calls, processes that end and are replaced. *Not
//! modelled*: processor contention, other users of the memory, access times.

use headtime_units::Nanos;

use crate::sizes::Sizes;

/// The kind of a stream's processes. The stream's `sizes` are the bytes of a read or write call,
/// its think time is the time between a process's calls, its clients are the processes that run at
/// the same time, each on an equal part of the range.
#[derive(Clone, Debug, PartialEq)]
pub enum Process {
    /// Processes read files from start to end.
    Reads {
        /// The files of each of the stream's clients.
        files: FilesRead,
        /// The number of passes over the files. `None`: no limit.
        passes: Option<u64>,
        /// The largest read-ahead window. `None`: no read-ahead.
        read_ahead_bytes: Option<u64>,
    },
}

/// The files that a client reads.
#[derive(Clone, Debug, PartialEq)]
pub enum FilesRead {
    /// One file; a new process reads it in each pass.
    One {
        /// Its size. `None`: the client's part of the range.
        bytes: Option<u64>,
    },
    /// A chain: files that follow each other, each read by a process of its own, which then ends
    /// (`find … -exec cat`). A parent reads a block before each group of files.
    Chain {
        /// The sizes of the files.
        sizes: Sizes,
        /// The number of files. `None`: as many as the client's part of the range holds.
        count: Option<u64>,
        /// The number of files for each block that the parent reads, at least 1.
        per_lookup: u64,
        /// The time from the end of a process, or of the parent's read, to the start of the next.
        spawn: Nanos,
    },
}
