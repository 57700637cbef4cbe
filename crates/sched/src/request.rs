//! A [`Request`] of one client, and the reasons to refuse it.

use headtime_units::{Extent, Instant};

use crate::shares::Tenant;

/// The caller's id of a request; unique among the requests the scheduler holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The volume a request belongs to; disk time is charged to volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

impl VolumeId {
    /// The volume of the server's own requests, such as writing the volume table. They are rare and
    /// small, and others wait for them, so they go before all tenants: if the tenants have reserved
    /// the whole drive, they would otherwise never be served.
    pub const INTERNAL: Self = Self(u32::MAX);
}

/// A class of a volume: requests under another name of the same volume, with terms of their own. 0
/// is the volume itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// The process or connection that requests come from: the order of one stream helps predict its
/// next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads the sectors.
    Read,
    /// Writes the sectors.
    Write,
    /// Writes zeroes without moving them over the bus; for the head a write like any other.
    Zero,
    /// Discards the sectors; their content is undefined afterwards. Costs a rotating drive no head
    /// time worth planning.
    Discard,
    /// Makes every write that completed before this request was submitted durable. Has no sectors.
    Flush,
}

impl Op {
    /// Every operation, for tables and tests.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Zero, Self::Discard, Self::Flush];

    /// Returns whether the operation changes sectors, so that it may not overtake others on the
    /// same sectors.
    #[must_use]
    pub const fn changes_sectors(self) -> bool {
        matches!(self, Self::Write | Self::Zero | Self::Discard)
    }

    /// Returns whether the head has to move to the sectors.
    #[must_use]
    pub const fn moves_head(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Zero)
    }

    /// The name in tables and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Zero => "zero",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }
}

/// One request of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's id.
    pub id: RequestId,
    /// The volume that is charged.
    pub volume: VolumeId,
    /// The class of the volume; shares are tracked by class, accounts by volume.
    pub class: ClassId,
    /// The process or connection that it comes from.
    pub stream: StreamId,
    /// The operation.
    pub op: Op,
    /// The sectors, by the drive's addresses; empty for [`Op::Flush`] and only for it.
    pub extent: Extent,
    /// True if a write must be durable when it completes (force unit access).
    pub fua: bool,
    /// The absolute time by which it should have completed, if any.
    pub deadline: Option<Instant>,
}

impl Request {
    /// The tenant whose terms apply.
    #[must_use]
    pub const fn tenant(&self) -> Tenant {
        Tenant::class_of(self.volume, self.class)
    }

    /// Returns whether its process waits for it before it goes on: reads, and writes that must be
    /// durable. Other writes come from a cache that has answered its process already.
    #[must_use]
    pub const fn is_synchronous(&self) -> bool {
        matches!(self.op, Op::Read) || self.fua
    }
}

/// The answer to a deadline at submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The policy meets the deadline, and those guaranteed before, as long as no access takes
    /// longer than its worst case.
    Guaranteed,
    /// Nothing is promised, and the deadline delays no request that is guaranteed.
    BestEffort,
}

/// The treatment of a deadline that cannot be guaranteed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfInfeasible {
    /// The request is accepted, and answered [`Promise::BestEffort`].
    #[default]
    BestEffort,
    /// The request is refused.
    Refuse,
}

/// The result of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a refused request will never complete"]
pub enum Admission {
    /// The request is accepted and will be finished exactly once.
    Accepted,
    /// The request is refused; nothing changed.
    Refused(Refusal),
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum Refusal {
    /// The queue holds as many requests as the caller allows.
    #[error(
        "the queue holds {held} requests, its limit; wait for completions before submitting more, \
            or raise the queue limit"
    )]
    QueueFull { held: usize },
    /// The deadline cannot be guaranteed, and the caller wants no less.
    #[error(
        "the deadline in {} cannot be guaranteed beside the requests held; allow more time, wait \
            for completions, or accept best effort",
        within
    )]
    Infeasible { within: headtime_units::Nanos },
    /// No deadline can be guaranteed, because the request has none.
    #[error("it has no deadline that could be guaranteed; give it one, or accept best effort")]
    NoDeadline,
    /// Another request with the same id is held.
    #[error(
        "request id {} is already in use by a request that has not finished; use a fresh id",
        id.0
    )]
    DuplicateId { id: RequestId },
}
