//! What goes to the drive and what comes back: [`Command`], [`Done`], [`Finished`], and the
//! scheduler's [`Decision`].

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use crate::request::{Op, Request, RequestId};

/// The scheduler's name for a command at the drive; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// One command for the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name until it is done.
    pub id: CommandId,
    /// What the drive does.
    pub op: Op,
    /// The sectors, one run; empty for [`Op::Flush`].
    pub extent: Extent,
    /// Whether the drive must make the write durable before it completes; only ever set on
    /// [`Op::Write`], and only for a drive that honors it.
    pub fua: bool,
    /// The run of sectors within `extent` that is read for scans, if any; sectors that no scan
    /// wants may lie between. The rest of `extent` belongs to `requests`.
    pub background: Option<Extent>,
    /// The requests it serves, by address; each lies within `extent`. Empty where everything is
    /// read for scans.
    pub requests: SmallVec<[RequestId; 1]>,
}

/// A completion as measured at the drive. Hand completions in by ascending `finished`: what the
/// head did before is learned from that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which command.
    pub command: CommandId,
    /// When the drive reported it, at the latest the `now` it is handed in with.
    pub finished: Instant,
    /// Whether the drive did it.
    pub outcome: Outcome,
}

/// How a command or request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The drive did it.
    Success,
    /// The drive reported an error, or did not answer and was given up; the number is the system's
    /// error code (5, an I/O error, when nothing better is known).
    Failed(i32),
}

/// A request that is over. Each accepted request is reported exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request as it was submitted.
    pub request: Request,
    /// When it was submitted.
    pub submitted: Instant,
    /// When it was sent to the drive for the last time.
    pub dispatched: Instant,
    /// When the drive reported it.
    pub finished: Instant,
    /// Disk time charged for it (completion − max(previous completion, dispatch), split by sectors
    /// where a command served several), with that of earlier commands that failed and were sent
    /// again in parts, and of the flush that a write had to wait for.
    pub disk_time: Nanos,
    /// How it ended.
    pub outcome: Outcome,
}

impl Finished {
    /// Queue and service together: submission to completion.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.finished.saturating_since(self.submitted)
    }

    /// Dispatch to completion.
    #[must_use]
    pub fn service(&self) -> Nanos {
        self.finished.saturating_since(self.dispatched)
    }

    /// Whether the request had a deadline and completed after it.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.request.deadline.is_some_and(|deadline| self.finished > deadline)
    }
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send this command, then ask again.
    Dispatch(Command),
    /// Nothing before `at`, unless something happens first.
    WaitUntil {
        /// When to ask again.
        at: Instant,
        /// Why it is worth waiting.
        reason: HoldReason,
    },
    /// Nothing to do until the next submission or completion.
    Idle,
}

/// Why a policy lets the drive wait although requests are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// A near request of the same stream is expected.
    Anticipation,
    /// Another command now would endanger the deadline of one outstanding.
    Deadline,
    /// Those who wait have used up their share.
    Throttled,
    /// Scans want sectors, and it is not certain yet that nobody else will ask for anything.
    Idleness,
}

/// What became of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The request was still queued: it is gone and will not be reported.
    Removed,
    /// The request is at the drive or has been there: what it does may show, but it will not be
    /// reported.
    AtDrive,
    /// No such request is held.
    Unknown,
}
