//! What a probe asks for and what it is told: [`Ask`], [`Outcome`], [`Answer`].

use headtime_units::{Extent, Instant, Nanos};
use serde::{Deserialize, Serialize};

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Read these sectors, nothing else being outstanding, at once but not before a time; then [`Probe::completed`](crate::Probe::completed). What the
    /// sectors hold is of no interest. Issue it as soon as the last one completed: the drive's state between two reads is part of what is measured.
    Read {
        /// What to read.
        extent: Extent,
        /// The earliest time to issue it; the origin is at once.
        not_before: Instant,
    },
    /// Nothing more: [`Probe::finding`](crate::Probe::finding) says what was found.
    Done,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The drive delivered the sectors.
    Read,
    /// The drive reported an error, or did not answer and was given up.
    Failed,
}

/// One read, as it went. A list of them is all the state that an experiment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was read.
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

    /// Whether the drive delivered.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Read
    }
}
