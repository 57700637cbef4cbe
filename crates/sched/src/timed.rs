//! Timed reads as their owner sees them: reads that a characterization requests beside clients, one
//! after the other, each alone at the drive. Their content is of no use; their times are.

use headtime_units::{Extent, Instant};

use crate::command::Outcome;

/// A read whose times are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRead {
    /// The sectors.
    pub extent: Extent,
    /// The earliest time to send it.
    pub not_before: Instant,
    /// The relation of the next timed read to this one.
    pub next: TimedSuccessor,
}

/// The relation of a timed read to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedSuccessor {
    /// Requests of clients may come between the two.
    Independent,
    /// The drive waits some milliseconds for the next one, as far as the bound on impact allows.
    Follows,
}

/// A timed read that the drive has carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedReadDone {
    /// The time at which it was sent.
    pub dispatched: Instant,
    /// The time of its measured completion.
    pub finished: Instant,
    /// Its outcome.
    pub outcome: Outcome,
    /// The completion that the drive model predicted; none for a model without tracks.
    pub predicted: Option<Instant>,
    /// The number of other commands that the drive carried out since the timed read before. None
    /// was at the drive together with it.
    pub others: u32,
}

/// The reason why a requested timed read is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedWait {
    /// Requests of clients are at the drive, or have just been, and the bound on impact does not
    /// yet allow to take time from them.
    Clients,
    /// Earlier reads have used up what the bound on impact allows.
    Bound,
    /// It is a stretch without reads, in which the impact of reads is measured.
    Measuring,
    /// Requests with deadlines are served, from which no time is taken.
    Deadlines,
}

impl TimedWait {
    /// Every reason, for tables and tests.
    pub const ALL: [Self; 4] = [Self::Clients, Self::Bound, Self::Measuring, Self::Deadlines];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Bound => "bound",
            Self::Measuring => "measuring",
            Self::Deadlines => "deadlines",
        }
    }
}

/// The timed reads in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimedReads {
    /// The next one.
    pub(crate) requested: Option<TimedRead>,
    /// The one at the drive.
    pub(crate) at_drive: Option<TimedAtDrive>,
    /// The result that was not fetched yet.
    pub(crate) done: Option<TimedReadDone>,
    /// Other commands completed since the last one.
    pub(crate) others: u32,
    /// The time until which the drive waits for the one that has to follow.
    pub(crate) held_until: Option<Instant>,
    /// The time since which clients wait for timed reads and were not yet counted.
    pub(crate) since: Option<Instant>,
    /// The reason why the requested one is not sent.
    pub(crate) wait: Option<TimedWait>,
}

/// A timed read at the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedAtDrive {
    pub(crate) command: crate::command::CommandId,
    pub(crate) next: TimedSuccessor,
    pub(crate) others: u32,
    /// Its time was taken from clients.
    pub(crate) taken: bool,
}
