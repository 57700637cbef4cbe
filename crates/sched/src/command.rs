//! Commands to the drive and their results: [`Command`], [`Done`], [`Finished`], and the
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
    /// The operation.
    pub op: Op,
    /// The sectors, one run; empty for [`Op::Flush`].
    pub extent: Extent,
    /// True if the drive must make the write durable before it completes; only ever set on
    /// [`Op::Write`], and only for a drive that honors it.
    pub fua: bool,
    /// The run of sectors within `extent` read for scans, if any; it may include sectors that no
    /// scan needs. The rest of `extent` belongs to `requests`.
    pub background: Option<Extent>,
    /// The requests it serves, by address; each lies within `extent`. Empty for a command that
    /// reads for scans alone.
    pub requests: SmallVec<[RequestId; 1]>,
}

/// A completion as measured at the drive. Report completions by ascending `finished`: the drive
/// model learns from that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command.
    pub command: CommandId,
    /// The time at which the drive reported it, at the latest the `now` it is handed in with.
    pub finished: Instant,
    /// True if the drive succeeded.
    pub outcome: Outcome,
}

/// The outcome of a command or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The drive succeeded.
    Success,
    /// The drive reported an error, or its command timed out; the number is the system's error code
    /// (5, an I/O error, when nothing better is known).
    Failed(i32),
}

/// A finished request. Each accepted request is reported exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request as it was submitted.
    pub request: Request,
    /// The time at which it was submitted.
    pub submitted: Instant,
    /// The time at which it was sent to the drive for the last time.
    pub dispatched: Instant,
    /// The time at which the drive reported it.
    pub finished: Instant,
    /// Disk time charged for it (completion − max(previous completion, dispatch), split by sectors
    /// where a command served several), with that of earlier commands that failed and were sent
    /// again in parts, and of the flush that a write had to wait for.
    pub disk_time: Nanos,
    /// The time before that, since the previous completion of this arm, in which other arms of the
    /// drive completed commands.
    pub other_arms: Nanos,
    /// The time before these in which the drive took writes into its cache while the arm served
    /// this request; it is charged for those writes.
    pub overlapped: Nanos,
    /// True for a write that the drive has completed on the medium (force unit access).
    pub forced: bool,
    /// The outcome.
    pub outcome: Outcome,
}

impl Finished {
    /// Queue and service together: submission to completion.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.finished.saturating_since(self.submitted)
    }

    /// The time for which the arm served it, also while the drive took writes into its cache.
    pub(crate) fn arm_time(&self) -> Nanos {
        self.disk_time + self.other_arms + self.overlapped
    }

    /// Dispatch to completion.
    #[must_use]
    pub fn service(&self) -> Nanos {
        self.finished.saturating_since(self.dispatched)
    }

    /// The record of a request that was divided: of this part, or of several joined before, and of
    /// another one. The request stays that of this record. Of several failures the first is kept.
    #[must_use]
    pub fn joined_with(self, part: Self) -> Self {
        Self {
            submitted: self.submitted.min(part.submitted),
            dispatched: self.dispatched.min(part.dispatched),
            finished: self.finished.max(part.finished),
            disk_time: self.disk_time + part.disk_time,
            other_arms: self.other_arms + part.other_arms,
            overlapped: self.overlapped + part.overlapped,
            forced: self.forced && part.forced,
            outcome: match self.outcome {
                Outcome::Success => part.outcome,
                failed @ Outcome::Failed(_) => failed,
            },
            ..self
        }
    }

    /// Returns whether the request had a deadline and completed after it.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.request.deadline.is_some_and(|deadline| self.finished > deadline)
    }
}

/// The scheduler's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Send this command, then call [`Scheduler::next`](crate::Scheduler::next) again.
    Dispatch(Command),
    /// Send nothing before `at`, unless an event occurs first.
    WaitUntil {
        /// The time of the next call.
        at: Instant,
        /// The reason to wait.
        reason: HoldReason,
    },
    /// Nothing to do until the next submission or completion.
    Idle,
}

/// The reason for an idle drive although requests are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// A near request of the same stream is expected, the end of a flush, or a write of another
    /// arm, for which the drive's cache is to have room.
    Anticipation,
    /// Another command now would endanger the deadline of one outstanding.
    Deadline,
    /// The tenants of all queued requests have used up their shares.
    Throttled,
    /// Scans have pending sectors, but a client may still send a request.
    Idleness,
}

/// The waits for a request that was expected soon, while others were queued (P3, anticipation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits that began.
    pub begun: u64,
    /// Waits during which the expected request came.
    pub came: u64,
    /// The time that the drive was idle because of them.
    pub time: Nanos,
}

impl core::ops::Add for Waits {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            begun: self.begun + other.begun,
            came: self.came + other.came,
            time: self.time + other.time,
        }
    }
}

/// The result of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The request was still queued: it is gone and will not be reported.
    Removed,
    /// The request is at the drive or has been there: its effect may show, but it will not be
    /// reported.
    AtDrive,
    /// No such request is held.
    Unknown,
}
