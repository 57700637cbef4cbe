//! [`Recording`]: consecutive accesses of one drive, with the times that a host measured.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};

use crate::source::Operation;

/// One access of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAccess {
    /// The line of the file it was read from, from 1.
    pub line: usize,
    /// The operation: [`Operation::Read`] or [`Operation::Write`].
    pub operation: Operation,
    /// The sectors, at least one.
    pub extent: Extent,
    /// From issue to completion, as the host measured it.
    pub response: Nanos,
    /// From this completion to the next issue.
    pub think: Nanos,
    /// The cache label of the recorder.
    pub label: Label,
}

/// The recorder's label of the cache behavior. It is guessed from the response time, and often
/// constant: both public recordings label every access a hit, including writes to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// Found in the cache.
    Hit,
    /// Not found in the cache.
    Miss,
    /// Not found, and the bus was released twice.
    DoubleDisconnect,
    /// Not found, and the bus was released three times.
    TripleDisconnect,
}

/// Consecutive accesses of one drive, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    accesses: Vec<RecordedAccess>,
}

impl Recording {
    /// A recording of these accesses, in the order of their times; `None` when there are none, or
    /// when they last longer than [`Recording::LONGEST`] together.
    #[must_use]
    pub fn new(accesses: Vec<RecordedAccess>) -> Option<Self> {
        let total = accesses.iter().try_fold(0_u64, |sum, access| {
            sum.checked_add(access.response.as_ns())?.checked_add(access.think.as_ns())
        })?;
        (!accesses.is_empty() && total <= Self::LONGEST.as_ns()).then_some(Self { accesses })
    }

    /// A hundred years; longer times could overflow in computations.
    pub const LONGEST: Nanos = Nanos::from_secs(100 * 365 * 86_400);

    /// The accesses.
    #[must_use]
    pub fn accesses(&self) -> &[RecordedAccess] {
        &self.accesses
    }

    /// The issue time of each access: the first at the origin, each other after the response and
    /// think times of all accesses before it.
    pub fn issue_times(&self) -> impl Iterator<Item = Instant> + '_ {
        self.accesses.iter().scan(Instant::ORIGIN, |next, access| {
            let issued = *next;
            *next = issued + access.response + access.think;
            Some(issued)
        })
    }

    /// The completion time of each access.
    pub fn completion_times(&self) -> impl Iterator<Item = Instant> + '_ {
        self.issue_times().zip(&self.accesses).map(|(issued, access)| issued + access.response)
    }
}
