//! What a probe asks for and what it is told: [`Ask`], [`Outcome`], [`Answer`].
//!
//! Whoever answers is the *driver*: it issues what is asked for to a real, emulated or simulated
//! drive, with a clock, and tells the probe when each command was issued and when its completion
//! was seen.

use headtime_units::{Extent, Instant, Nanos};
use serde::{Deserialize, Serialize};

/// What the driver does next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Read these sectors, nothing else being outstanding, at once but not before a time; then
    /// [`Probe::completed`](crate::Probe::completed). What the sectors hold is of no interest.
    /// Issue it as soon as the last one completed: the drive's state between two reads is part of
    /// what is measured.
    Read {
        /// What to read.
        extent: Extent,
        /// The earliest time to issue it; the origin is at once.
        not_before: Instant,
    },
    /// Read some sectors and write the same bytes back; then
    /// [`Probe::completed_all`](crate::Probe::completed_all). Asked only where
    /// [`Settings::allow_writes`](crate::Settings::allow_writes) is set.
    Rewrite(Rewrite),
    /// Read many extents with several of them outstanding; then
    /// [`Probe::completed_all`](crate::Probe::completed_all).
    Together(Together),
    /// Nothing more: [`Probe::finding`](crate::Probe::finding) says what was found.
    Done,
}

/// A write that changes nothing.
///
/// The driver reads `extent` and keeps its bytes; then, if there is a `via`, it reads that; then,
/// at once, it writes the kept bytes back to `extent`, one command outstanding at a time. The
/// contents of the drive are the same before and after, wherever this is interrupted, as long as
/// nobody else writes to `extent` meanwhile: a driver must have the drive for itself (an unmounted
/// device, opened exclusively).
///
/// The answers are two or three, in the order of the commands; a command that failed is the last,
/// and if it was a read nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// What is read, kept and written back.
    pub extent: Extent,
    /// What is read in between, so that the arm comes from there.
    pub via: Option<Extent>,
    /// Whether the write must be on the media before it completes (force unit access). A driver
    /// that cannot ask for that answers the write as failed without sending it.
    pub fua: bool,
}

/// Reads with several outstanding.
///
/// The driver issues the first reads of each lane, as many as the lane's `outstanding`, in the
/// order of the list; whenever one of a lane's reads completes it issues the lane's next. When all
/// reads of the *first* lane have completed, or `time_limit` has passed since the first issue, it
/// issues nothing more and waits for what is outstanding. The answers are all reads that were
/// issued, in the order of their completion.
///
/// The outstanding reads of all lanes together are never more than
/// [`Settings::max_outstanding`](crate::Settings::max_outstanding).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// Rows of reads, side by side.
    pub lanes: Vec<Lane>,
    /// How long reads are issued at the longest.
    pub time_limit: Nanos,
}

/// Reads one after the other, some of them outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// What to read, in the order of issue.
    pub extents: Vec<Extent>,
    /// How many of them are outstanding at a time, at least one.
    pub outstanding: u32,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The drive did it: it delivered the sectors, or took them.
    Read,
    /// The drive reported an error, or did not answer and was given up.
    Failed,
}

/// One command, as it went. A list of them is all the state that an experiment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was read or written.
    pub extent: Extent,
    /// When it was handed to the drive.
    pub issued: Instant,
    /// When its completion was seen.
    pub completed: Instant,
    /// How it ended.
    pub outcome: Outcome,
}

impl Answer {
    /// From issue to completion.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.completed.saturating_since(self.issued)
    }

    /// Whether the drive did it.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Read
    }
}

impl Together {
    /// How many reads there are at the most.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.lanes.iter().map(|lane| lane.extents.len()).sum()
    }
}
