//! What the scheduler is asked to do: a [`Request`] of one client, and why it may be refused.

use headtime_units::{Extent, Instant, Sectors};

use crate::shares::Tenant;

/// The caller's name for a request; unique among the requests the scheduler holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The volume a request belongs to; disk time is charged to volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

impl VolumeId {
    /// Nobody's volume: what whoever serves volumes asks for on its own account, such as writing
    /// the table of them. It is rare and small, and others wait for it, so it goes before all
    /// tenants of shares: where they have reserved the whole drive between them, it would never come
    /// to its turn.
    pub const INTERNAL: Self = Self(u32::MAX);
}

/// A class of a volume: what is asked under another name of the same volume, with terms of its own.
/// 0 is the volume itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

/// Requests of one stream come from one process or connection, so that their order says something
/// about the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What a request does to its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads the sectors.
    Read,
    /// Writes the sectors.
    Write,
    /// Writes zeroes without moving them over the bus; for the head a write like any other.
    Zero,
    /// Gives the sectors up; what they hold afterwards is undefined. Costs a rotating drive no head
    /// time worth planning.
    Discard,
    /// Makes every write that completed before this request was submitted durable. Has no sectors.
    Flush,
}

impl Op {
    /// Every operation, for tables and tests.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Zero, Self::Discard, Self::Flush];

    /// Whether the operation changes what the sectors hold, so that it may not pass others on the
    /// same sectors.
    #[must_use]
    pub const fn changes_sectors(self) -> bool {
        matches!(self, Self::Write | Self::Zero | Self::Discard)
    }

    /// Whether the head has to come to the sectors.
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
    /// The caller's name for it.
    pub id: RequestId,
    /// Who pays for it.
    pub volume: VolumeId,
    /// Under which class of the volume; shares are kept by class, accounts by volume.
    pub class: ClassId,
    /// Which process or connection it comes from.
    pub stream: StreamId,
    /// What it does.
    pub op: Op,
    /// The sectors, by the drive's addresses; empty for [`Op::Flush`] and only for it.
    pub extent: Extent,
    /// Whether a write must be durable when it completes (force unit access).
    pub fua: bool,
    /// The absolute time by which it should have completed, if any.
    pub deadline: Option<Instant>,
}

impl Request {
    /// Whose terms it goes by.
    #[must_use]
    pub const fn tenant(&self) -> Tenant {
        Tenant::class_of(self.volume, self.class)
    }
}

/// The scheduler's answer to a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a refused request will never complete"]
pub enum Admission {
    /// The request is taken and will be finished exactly once.
    Accepted,
    /// The request is not taken; nothing changed.
    Refused(Refusal),
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many requests are held as the caller allowed.
    #[error(
        "the queue holds {held} requests, its limit; wait for completions before submitting more, \
            or raise the queue limit"
    )]
    QueueFull {
        /// Requests held.
        held: usize,
    },
    /// The extent does not lie on the drive.
    #[error("{extent} does not lie on the drive, which has {capacity}; keep requests within LBA 0..{}", capacity.get())]
    OutOfRange {
        /// The extent asked for.
        extent: Extent,
        /// The drive's size.
        capacity: Sectors,
    },
    /// A read or write without sectors, or a flush with some.
    #[error("a {} request of {len} makes no sense; flush takes no sectors, everything else at least one", op.name())]
    WrongLength {
        /// The operation.
        op: Op,
        /// The length asked for.
        len: Sectors,
    },
    /// Another request with the same id is held.
    #[error("request id {} is already in use by a request that has not finished; use a fresh id", id.0)]
    DuplicateId {
        /// The id.
        id: RequestId,
    },
}
