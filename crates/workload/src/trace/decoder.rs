//! [`Decoder`]: from the bytes of a trace to its records, a step at a time, without ever holding
//! the file.
//!
//! The caller owns the buffer. It hands in the bytes it has and whether the input ends there, and
//! does what the [`Step`] says: forget the consumed bytes, take the record, or come back with more.
//! A buffer of [`MAX_NEEDED`] bytes is enough for every format: whatever would need more is
//! damaged, and is stepped over in pieces.
//!
//! ```
//! use headtime_workload::trace::{self, Reading, Step};
//!
//! let format = trace::format("alibaba").expect("it stands in the table");
//! let mut decoder = (format.decoder)(&Reading::of("two.csv"));
//! let mut bytes: &[u8] = b"3,R,4096,512,1577808000000046\nnonsense\n";
//! let Step::Record { record, consumed } = decoder.step(bytes, true) else { panic!("the first line is one") };
//! assert_eq!((record.device, record.offset_bytes), (3, 4096));
//! bytes = &bytes[consumed..];
//! let Step::Damaged { error, .. } = decoder.step(bytes, true) else { panic!("the second line is none") };
//! assert!(error.to_string().starts_with("two.csv:2: 1 fields"));
//! ```

use alloc::string::{String, ToString};

use super::{Format, Record, TraceError};

/// The longest line that is read; a longer one is damaged.
pub const LONGEST_LINE: usize = 64 * 1024;

/// A decoder that is handed this many bytes never asks for more.
pub const MAX_NEEDED: usize = LONGEST_LINE + 2;

/// Reads one format.
pub trait Decoder {
    /// The next step over `bytes`, which follow what was consumed so far; `ends` when no byte
    /// follows them.
    ///
    /// Every answer but [`Step::NeedMore`] consumes at least one byte, or is the second of two
    /// records that one line or event stands for. With `ends`, `NeedMore` is answered only to no
    /// bytes at all: the trace is over.
    fn step(&mut self, bytes: &[u8], ends: bool) -> Step;
}

/// The records of a trace that is all in memory, and what is damaged between them, in their order.
pub fn decode(
    format: &Format,
    reading: &Reading,
    bytes: &[u8],
) -> impl Iterator<Item = Result<Record, TraceError>> {
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

/// What a decoder made of the bytes it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing yet: hand in more bytes behind these.
    NeedMore,
    /// A request.
    Record {
        /// The request.
        record: Record,
        /// Bytes to forget.
        consumed: usize,
    },
    /// Something of this format that asks for nothing: another action of the same request, a
    /// message, a file that is opened.
    Passed {
        /// Bytes to forget.
        consumed: usize,
    },
    /// Nothing of any format: an empty line, a comment, a header, the rest of what was damaged.
    Blank {
        /// Bytes to forget.
        consumed: usize,
    },
    /// Not of this format; reading goes on behind it.
    Damaged {
        /// What is wrong with it, and where.
        error: TraceError,
        /// Bytes to forget.
        consumed: usize,
    },
}

/// Which of a request's events is its time, in formats that write down several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// When it was handed to the block layer: what applications asked for.
    #[default]
    Queue,
    /// When it was sent to the drive, merged and sorted by the scheduler of that time.
    Issue,
}

/// What a decoder is told before it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The name that messages give the file.
    pub file: String,
    /// Which event counts.
    pub action: Action,
}

impl Reading {
    /// Of a file of this name, by the usual event.
    #[must_use]
    pub fn of(file: &str) -> Self {
        Self { file: file.to_string(), action: Action::default() }
    }
}
