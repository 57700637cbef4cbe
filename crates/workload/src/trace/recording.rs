//! [`Recording`]: accesses of one drive, one after the other, with the times a host measured.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};

use crate::source::Operation;

/// One access of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAccess {
    /// The line of the file it was read from, from 1.
    pub line: usize,
    /// What was asked; [`Operation::Read`] or [`Operation::Write`].
    pub operation: Operation,
    /// Of which sectors, at least one.
    pub extent: Extent,
    /// From issue to completion, as the host measured it.
    pub response: Nanos,
    /// From this completion to the next issue.
    pub think: Nanos,
    /// What the recorder made of it.
    pub label: Label,
}

/// What the recorder thought the drive's cache did. A guess made from the response time, and often
/// none at all: both public recordings that this was tried on call every access a hit, writes to
/// the media included.
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

/// Accesses of one drive, one after the other: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    accesses: Vec<RecordedAccess>,
}

impl Recording {
    /// A recording of these accesses, in the order of their times; `None` when there is none, or
    /// they last longer than [`Recording::LONGEST`] together.
    #[must_use]
    pub fn new(accesses: Vec<RecordedAccess>) -> Option<Self> {
        let total = accesses.iter().try_fold(0_u64, |sum, access| {
            sum.checked_add(access.response.as_ns())?.checked_add(access.think.as_ns())
        })?;
        (!accesses.is_empty() && total <= Self::LONGEST.as_ns()).then_some(Self { accesses })
    }

    /// A hundred years: times of a longer recording would not leave room for what is computed from
    /// them.
    pub const LONGEST: Nanos = Nanos::from_secs(100 * 365 * 86_400);

    /// The accesses.
    #[must_use]
    pub fn accesses(&self) -> &[RecordedAccess] {
        &self.accesses
    }

    /// When each access was issued: the first at the origin, each other when the response and think
    /// times of all before it were over.
    pub fn issue_times(&self) -> impl Iterator<Item = Instant> + '_ {
        self.accesses.iter().scan(Instant::ORIGIN, |next, access| {
            let issued = *next;
            *next = issued + access.response + access.think;
            Some(issued)
        })
    }

    /// When each access completed.
    pub fn completion_times(&self) -> impl Iterator<Item = Instant> + '_ {
        self.issue_times().zip(&self.accesses).map(|(issued, access)| issued + access.response)
    }
}
