//! What the scheduler knows of the drive beside positions: its [`DriveTraits`], the caller's
//! [`QueueLimits`], and what is [`Outstanding`].

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use crate::command::CommandId;
use crate::positioning::Target;
use crate::queue::{Queued, Ticket};
use crate::shares::Charge;

/// What the scheduler has to know of the drive beside positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveTraits {
    /// The most commands the drive holds at once; at least 1.
    pub queue_depth: usize,
    /// Whether the drive honors force unit access on writes itself; otherwise a flush follows each
    /// such write. Zeroes and discards have no such bit on any drive and are always followed by a
    /// flush.
    pub fua: bool,
}

/// Bounds the caller sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The most requests held, queued and at the drive together.
    pub requests: usize,
    /// How many commands the drive holds, whatever the policy would like, flushes included; `None`
    /// leaves it to the policy.
    pub outstanding: Option<usize>,
}

impl Default for QueueLimits {
    /// 65,536 requests (about 20 MiB), the depth left to the policy.
    fn default() -> Self {
        Self { requests: 65_536, outstanding: None }
    }
}

/// What a command is believed to take at the drive, most likely, when it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictedService {
    /// Until the head departs, from the dispatch or, if that is later, from when it is free.
    pub overhead: Nanos,
    /// Moving the arm, at the least.
    pub seek: Nanos,
    /// The rest of positioning: rotation, and what the arm takes beyond the least.
    pub rotation: Nanos,
    /// Sectors passing.
    pub transfer: Nanos,
}

/// A command at the drive.
#[derive(Clone, Debug)]
pub struct Outstanding {
    /// Its name.
    pub command: CommandId,
    /// Its sectors; for a flush those of an empty run at the start of the drive.
    pub target: Target,
    /// When it was sent.
    pub dispatched: Instant,
    /// The requests it serves; none where everything is read for scans.
    pub requests: SmallVec<[Queued; 1]>,
    /// The run of sectors that is read for scans, if any.
    pub background: Option<Extent>,
    /// What it was believed to take; kept only where somebody wants to know
    /// ([`Scheduler::record_predictions`](crate::Scheduler::record_predictions)), and of no flush or discard.
    pub predicted: Option<PredictedService>,
    /// What each of `requests` was charged when it was sent; empty where no books of shares were
    /// kept.
    pub(crate) charges: SmallVec<[Charge; 1]>,
    /// The background job it belongs to, where `background` says that there is one.
    pub(crate) job: Option<Ticket>,
}
