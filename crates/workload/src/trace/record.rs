//! [`TraceRecord`]: one request of a trace, independent of the format.

use headtime_units::{Instant, Nanos};

use crate::source::Operation;

/// One request of a trace, in bytes and nanoseconds, as it was recorded: nothing is shifted, scaled
/// or fitted to a drive yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// The line of a text, or the number of the record in a binary file, from 1.
    pub place: u64,
    /// The time of issue, from the origin of the format (its start, 1970, 1601); 0 in formats
    /// without times.
    pub at: Instant,
    /// The drive or volume; 0 where the format knows only one. See the format for how it is
    /// numbered.
    pub device: u32,
    /// The process; 0 when unknown.
    pub process: u32,
    /// The operation.
    pub operation: Operation,
    /// The first byte; 0 for a flush.
    pub offset_bytes: u64,
    /// The number of bytes; 0 for a flush. Offset and length together are below 2^64.
    pub len_bytes: u64,
    /// True for a write with force unit access.
    pub fua: bool,
    /// The measured time from issue to completion, where the format has it.
    pub response: Option<Nanos>,
    /// The time from this completion to the next issue, where the format has it.
    pub think: Option<Nanos>,
}

impl TraceRecord {
    /// A request of `len_bytes` from `offset_bytes` with no other information; `None` when it ends
    /// past 2^64.
    #[must_use]
    pub fn new(
        place: u64,
        at: Instant,
        operation: Operation,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Option<Self> {
        offset_bytes.checked_add(len_bytes)?;
        Some(Self {
            place,
            at,
            device: 0,
            process: 0,
            operation,
            offset_bytes,
            len_bytes,
            fua: false,
            response: None,
            think: None,
        })
    }

    /// A flush; it has no address.
    #[must_use]
    pub fn flush(place: u64, at: Instant) -> Self {
        Self {
            place,
            at,
            device: 0,
            process: 0,
            operation: Operation::Flush,
            offset_bytes: 0,
            len_bytes: 0,
            fua: false,
            response: None,
            think: None,
        }
    }

    /// The byte after the last one.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }
}
