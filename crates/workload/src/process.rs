//! [`Process`]: streams of processes that use files through the page cache of an operating system.
//!
//! A stream of requests has clients that submit what the stream draws. A stream of processes has
//! processes that call read and write; the page cache turns the calls into requests. Each process
//! is a client of its own, from its first request to its end, which the source reports as
//! [`SourceEvent::Ended`](crate::SourceEvent::Ended).
//!
//! *Modelled*: read-ahead, think time between calls, processes that end and are replaced, dirty
//! pages with limits. *Not modelled*: processor contention, other users of the memory, access
//! times.

use alloc::boxed::Box;

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
    /// Processes write files from start to end (`dd of=file`). The pages they dirty are written by
    /// a flusher, which is a client of its own.
    Writes {
        /// The size of each client's file. `None`: the client's part of the range.
        file_bytes: Option<u64>,
        /// The number of passes. `None`: no limit.
        passes: Option<u64>,
        /// The page cache of all clients of the stream.
        cache: PageCache,
    },
    /// Threads read, write, create, extend and delete small files of one file system.
    Files(Box<FileBenchmark>),
}

/// A benchmark of small files.
#[derive(Clone, Debug, PartialEq)]
pub struct FileBenchmark {
    /// The number of files at the start.
    pub files: u64,
    /// The number of directories, at least 1, over which they are spread.
    pub directories: u64,
    /// The sizes of files, and of what is appended.
    pub file_sizes: Sizes,
    /// The number of operations of each client. `None`: no limit.
    pub operations: Option<u64>,
    /// The operations.
    pub mix: FileOperations,
    /// The largest read-ahead window. `None`: no read-ahead.
    pub read_ahead_bytes: Option<u64>,
    /// The time from a change of metadata to its commit. `None`: no journal.
    pub commit: Option<Nanos>,
    /// The size of the journal.
    pub journal_bytes: u64,
    /// The page cache of all clients of the stream.
    pub cache: PageCache,
}

/// Shares of the operations of a [`FileBenchmark`], which make one together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FileOperations {
    /// A whole file is read.
    pub reads: f64,
    /// A whole file is written again in its place.
    pub writes: f64,
    /// A file is created and written.
    pub creates: f64,
    /// A file is extended.
    pub appends: f64,
    /// A file is deleted.
    pub deletes: f64,
}

/// A page cache: when dirty pages are written and when processes wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageCache {
    /// The memory of the cache.
    pub memory_bytes: u64,
    /// The share of the memory that may be dirty before the flusher writes.
    pub background: f64,
    /// The share of the memory that may be dirty, or on its way to the drive, before processes that
    /// write wait.
    pub limit: f64,
    /// The flusher writes this much at a time.
    pub batch_bytes: u64,
    /// The largest request of the flusher.
    pub request_bytes: u64,
    /// The maximum number of pending requests of the flusher.
    pub queue: u32,
    /// The age at which dirty pages are written whatever their number is.
    pub expire: Nanos,
}

impl Default for PageCache {
    /// Linux 2.6 with 1 GiB of memory on an IDE drive: shares of 10 and 40 %, batches of 1,024
    /// pages, 128 requests of 256 sectors, 30 s.
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            background: 0.1,
            limit: 0.4,
            batch_bytes: 4 << 20,
            request_bytes: 128 << 10,
            queue: 128,
            expire: Nanos::from_secs(30),
        }
    }
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
