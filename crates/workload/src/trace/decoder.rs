//! [`Decoder`]: decodes the bytes of a trace to records, in steps, without holding the whole file.
//!
//! The caller owns the buffer. It passes its bytes and whether the input ends there, and follows
//! the [`Step`]: drop the consumed bytes, use the record, or call again with more bytes. A buffer
//! of [`MAX_NEEDED`] bytes is enough for every format: anything longer is damaged and is skipped in
//! pieces.
//!
//! ```
//! use headtime_workload::trace::{self, Reading, Step};
//!
//! let format = trace::format("alibaba").expect("the format is in the table");
//! let mut decoder = (format.decoder)(&Reading::of("two.csv"));
//! let mut bytes: &[u8] = b"3,R,4096,512,1577808000000046\nnonsense\n";
//! let Step::Record { record, consumed } = decoder.step(bytes, true) else {
//!     panic!("the first line is a record")
//! };
//! assert_eq!((record.device, record.offset_bytes), (3, 4096));
//! bytes = &bytes[consumed..];
//! let Step::Damaged { error, .. } = decoder.step(bytes, true) else {
//!     panic!("the second line is damaged")
//! };
//! assert!(error.to_string().starts_with("two.csv:2: 1 fields"));
//! ```

use alloc::string::{String, ToString};

use super::{Format, TraceError, TraceRecord};

/// The maximum length of a line; a longer one is damaged.
pub const LONGEST_LINE: usize = 64 * 1024;

/// A decoder that has this many bytes never asks for more.
pub const MAX_NEEDED: usize = LONGEST_LINE + 2;

/// A decoder of one format.
pub trait Decoder {
    /// The next step over `bytes`, which follow the bytes consumed so far; `ends` when they are the
    /// last.
    ///
    /// Every step but [`Step::NeedMore`] consumes at least one byte, or is the second of two
    /// records of one line or event. With `ends`, `NeedMore` is returned only for no bytes at all:
    /// the trace is over.
    fn step(&mut self, bytes: &[u8], ends: bool) -> Step;
}

/// The records of a trace in memory and the damage between them, in order.
pub fn decode(
    format: &Format,
    reading: &Reading,
    bytes: &[u8],
) -> impl Iterator<Item = Result<TraceRecord, TraceError>> {
    let mut decoder = (format.decoder)(reading);
    let mut rest = bytes;
    core::iter::from_fn(move || {
        loop {
            let (found, consumed) = match decoder.step(rest, true) {
                Step::NeedMore => return None,
                Step::Record { record, consumed } => (Some(Ok(record)), consumed),
                Step::Passed { consumed } | Step::Blank { consumed } => (None, consumed),
                Step::Damaged { error, consumed } => (Some(Err(error)), consumed),
            };
            rest = &rest[consumed..];
            if found.is_some() {
                return found;
            }
        }
    })
}

/// One step of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    NeedMore,
    /// A request.
    Record {
        /// The request.
        record: TraceRecord,
        /// Bytes to drop.
        consumed: usize,
    },
    /// An entry of this format without a request: another event of the same request, a message, the
    /// opening of a file.
    Passed {
        /// Bytes to drop.
        consumed: usize,
    },
    /// Bytes without an entry: an empty line, a comment, a header, the rest of damaged bytes.
    Blank {
        /// Bytes to drop.
        consumed: usize,
    },
    /// Bytes that are not of this format; decoding continues after them.
    Damaged {
        /// The error and its position.
        error: TraceError,
        /// Bytes to drop.
        consumed: usize,
    },
}

/// The event that gives a request its time, in formats that record several events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// The submission to the block layer: the order of the applications.
    #[default]
    Queue,
    /// The dispatch to the drive, after merging and sorting by the scheduler of the recorded
    /// system.
    Issue,
}

/// The options of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The name of the file in errors.
    pub file: String,
    /// The event that counts.
    pub action: Action,
}

impl Reading {
    /// The default options for a file of this name.
    #[must_use]
    pub fn of(file: &str) -> Self {
        Self { file: file.to_string(), action: Action::default() }
    }
}
