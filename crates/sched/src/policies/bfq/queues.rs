//! The queues of BFQ: the requests of a process or of a group of cooperating processes.

use headtime_units::{Instant, Lba};

use crate::policies::elevator::{DecayingMean, Process, process_of};
use crate::policy::View;
use crate::queue::Queued;
use crate::request::RequestId;
use crate::shares::Tenant;
use crate::tunables::{IoPriority, PriorityClass};

/// A request this far from the one before it is a seek, in sectors (Linux 6).
pub(super) const SEEK: u64 = 800;

/// With more seeks than this among its last 32 requests a queue is seeky (Linux 6).
pub(super) const SEEKS_OF_SEEKY: u32 = 19;

/// A drive that took no second command at so many occasions has no queue (Linux 6: fewer than four
/// at once).
pub(super) const OCCASIONS: u32 = 32;

/// The owner of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// The synchronous requests of a process.
    Process(Process),
    /// All other requests of a tenant and priority.
    Async(Tenant, IoPriority),
}

/// The number of a service queue.
pub(super) type QueueId = u32;

/// The requests of a process or of a group of cooperating processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceQueue {
    pub(super) sync: bool,
    pub(super) priority: IoPriority,
    /// The tenant, if it has a reservation.
    pub(super) group: Option<Tenant>,
    /// The weight of the group: a thousandth of the drive for each.
    pub(super) group_weight: f64,
    /// Requests that wait.
    pub(super) backlog: usize,
    /// True from its first waiting request until it has been served them all.
    pub(super) busy: bool,
    /// The next budget, by feedback.
    pub(super) budget: u64,
    /// The rest of this budget; the charged part of it.
    pub(super) entity_budget: u64,
    pub(super) charged: u64,
    /// The virtual times at which its service starts and would end with the budget used up.
    pub(super) start: f64,
    pub(super) finish: f64,
    /// True if it was left with budget, because nothing waited and the drive did not wait either.
    pub(super) may_resume: bool,
    /// The last 32 requests, a bit for each that was a seek.
    pub(super) seeks: u32,
    pub(super) position: Option<Lba>,
    pub(super) think: DecayingMean,
    pub(super) latest: Option<RequestId>,
    pub(super) idle_since: Option<Instant>,
    pub(super) last_end: Option<Instant>,
    /// Living processes.
    pub(super) processes: usize,
    /// The time of its creation or of its last split.
    pub(super) created: Instant,
    pub(super) used: Instant,
}

/// The observation of the drive's own queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DriveQueue {
    /// Occasions for a second command since it last took one.
    pub(super) occasions: u32,
}

impl ServiceQueue {
    pub(super) fn class(&self) -> PriorityClass {
        self.priority.class()
    }

    /// The weight by the level of its priority.
    pub(super) fn own_weight(&self) -> f64 {
        f64::from(8 - self.priority.level()) * 10.0
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKS_OF_SEEKY
    }
}

impl DriveQueue {
    /// Observes that a command is sent, after which so many requests of its queue still wait.
    pub(super) fn observe(&mut self, view: &View<'_>, waiting: usize) {
        if !view.outstanding.is_empty() {
            self.occasions = 0;
        } else if waiting > 0 {
            self.occasions += 1;
        }
    }

    /// Returns whether it takes one command at a time.
    pub(super) fn is_absent(self) -> bool {
        self.occasions >= OCCASIONS
    }
}

pub(super) fn owner_of(queued: &Queued) -> Owner {
    match queued.request.is_synchronous() {
        true => Owner::Process(process_of(&queued.request)),
        false => Owner::Async(queued.request.tenant(), queued.priority),
    }
}
