//! [`Terms`]: the reservation and the limits of a tenant, with their changes and the reasons to
//! refuse a change.
//!
//! Worked example, all of the drive reservable: volume 1 has a reservation of 50 %, volume 2
//! requests 60 %. It is refused, because 50 % are available. In one change volume 1 is reduced to
//! 40 % and volume 2 gets 60 %: that is valid, because a change is checked by its result.

use headtime_units::{Nanos, Share};

use crate::request::{ClassId, VolumeId};
use crate::tunables::PriorityClass;

/// The owner of disk time: a volume, or a class of it. Each tenant has terms, buckets and a queue
/// of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant {
    /// The volume.
    pub volume: VolumeId,
    /// The class; 0 for a volume without classes.
    pub class: ClassId,
}

/// The reservation and the limits of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The guaranteed share of disk time, if its requests need that much.
    pub reserve: Share,
    /// The maximum share of disk time, even while others are idle; the whole for no limit. At least
    /// the reservation and [`Terms::MIN_LIMIT`].
    pub limit: Share,
    /// The time for which unused shares and caps can be saved up, and overdrawn: the papers'
    /// period. From [`Terms::MIN_BURST`] to [`Terms::MAX_BURST`].
    pub burst: Nanos,
    /// The precedence among entitled tenants and for slack: real time first, idle last.
    pub priority: PriorityClass,
    /// Its part of slack beside tenants of the same priority; from 1 to [`Terms::MAX_WEIGHT`].
    pub weight: u16,
    /// The maximum number of requests a second; at least 1.
    pub requests_per_second: Option<u32>,
    /// It does not exceed so many sectors a second, which is how a rate in bytes is written here;
    /// from 1 to [`Terms::MAX_SECTORS`].
    pub sectors_per_second: Option<u64>,
}

/// One change of terms. Several are made together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareChange {
    /// A tenant gets these terms, whether or not it had others.
    Set(Tenant, Terms),
    /// Removes the terms of a tenant: no reservation, no limits. Its queued requests stay.
    Remove(Tenant),
    /// Reservations may come to so much together.
    Reservable(Share),
}

/// Why a change of terms was not made. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ShareRefusal {
    /// The reservations would exceed the reservable share.
    #[error(
        "{tenant} asks for {requested} of disk time; {available} are left of the {reservable} that \
            may be reserved; ask for no more, or lower another reservation first"
    )]
    TooMuch { tenant: Tenant, requested: Share, available: Share, reservable: Share },
    /// Less would be reservable than is reserved.
    #[error(
        "{requested} cannot be all that may be reserved, because {reserved} are reserved already; \
            lower a reservation first"
    )]
    Reserved { requested: Share, reserved: Share },
    #[error(
        "{tenant}: a limit of {limit} is below its reservation of {reserve}; raise the limit or \
            lower the reservation"
    )]
    LimitBelowReserve { tenant: Tenant, limit: Share, reserve: Share },
    /// A limit that lets next to nothing through.
    #[error(
        "{tenant}: a limit of {limit} would hold a single request back for minutes; choose at \
            least {}",
        Terms::MIN_LIMIT
    )]
    LimitTooSmall { tenant: Tenant, limit: Share },
    #[error(
        "{tenant}: a burst of {burst} is out of range; choose {} to {}",
        Terms::MIN_BURST,
        Terms::MAX_BURST
    )]
    Burst { tenant: Tenant, burst: Nanos },
    #[error("{tenant}: a weight of {weight} is out of range; choose 1 to {}", Terms::MAX_WEIGHT)]
    Weight { tenant: Tenant, weight: u16 },
    /// A cap of nothing.
    #[error(
        "{tenant}: a cap of 0 requests a second would hold everything back for ever; choose at \
            least 1, or no cap"
    )]
    NoRequests { tenant: Tenant },
    /// A cap of nothing, or beyond all drives.
    #[error(
        "{tenant}: a cap of {sectors} sectors a second is out of range; choose 1 to {}, or no cap",
        Terms::MAX_SECTORS
    )]
    Sectors { tenant: Tenant, sectors: u64 },
    /// Terms are removed from a tenant without any.
    #[error("{tenant} has no terms that could be removed")]
    Unknown { tenant: Tenant },
    /// As many tenants have terms as there may be.
    #[error(
        "{tenant}: {} tenants have terms already, which is as many as may have; remove one first",
        Terms::MAX_TENANTS
    )]
    TooMany { tenant: Tenant },
}

impl Tenant {
    /// A volume without classes.
    #[must_use]
    pub const fn of(volume: VolumeId) -> Self {
        Self { volume, class: ClassId(0) }
    }

    /// One class of a volume.
    #[must_use]
    pub const fn class_of(volume: VolumeId, class: ClassId) -> Self {
        Self { volume, class }
    }
}

impl core::fmt::Display for Tenant {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.class.0 {
            0 => write!(f, "volume {}", self.volume.0),
            class => write!(f, "class {class} of volume {}", self.volume.0),
        }
    }
}

impl Default for Terms {
    /// Nothing reserved, nothing limited, a burst of one second (P5: the period), best effort, the
    /// weight 1.
    fn default() -> Self {
        Self {
            reserve: Share::NONE,
            limit: Share::WHOLE,
            burst: Nanos::from_secs(1),
            priority: PriorityClass::BestEffort,
            weight: 1,
            requests_per_second: None,
            sectors_per_second: None,
        }
    }
}

impl Terms {
    /// The smallest limit: 1 ms of disk time a second.
    pub const MIN_LIMIT: Share = match Share::from_billionths(1_000_000) {
        Some(share) => share,
        None => Share::WHOLE,
    };
    /// The shortest burst.
    pub const MIN_BURST: Nanos = Nanos::from_ms(10);
    /// The longest burst.
    pub const MAX_BURST: Nanos = Nanos::from_secs(60);
    /// The largest weight.
    pub const MAX_WEIGHT: u16 = 1_000;
    /// The largest cap in sectors a second.
    pub const MAX_SECTORS: u64 = 1_000_000_000_000;
    /// The maximum number of tenants with terms on one drive.
    pub const MAX_TENANTS: usize = 4_096;

    /// Nothing but a reservation.
    #[must_use]
    pub fn reserving(reserve: Share) -> Self {
        Self { reserve, ..Self::default() }
    }

    /// Checks the terms by themselves, whatever others have.
    ///
    /// # Errors
    /// [`ShareRefusal`] for `tenant`.
    pub fn check(&self, tenant: Tenant) -> Result<(), ShareRefusal> {
        let Self { reserve, limit, burst, weight, .. } = *self;
        if limit < Self::MIN_LIMIT {
            return Err(ShareRefusal::LimitTooSmall { tenant, limit });
        }
        if limit < reserve {
            return Err(ShareRefusal::LimitBelowReserve { tenant, limit, reserve });
        }
        if !(Self::MIN_BURST..=Self::MAX_BURST).contains(&burst) {
            return Err(ShareRefusal::Burst { tenant, burst });
        }
        if !(1..=Self::MAX_WEIGHT).contains(&weight) {
            return Err(ShareRefusal::Weight { tenant, weight });
        }
        if self.requests_per_second == Some(0) {
            return Err(ShareRefusal::NoRequests { tenant });
        }
        match self.sectors_per_second {
            Some(sectors) if !(1..=Self::MAX_SECTORS).contains(&sectors) => {
                Err(ShareRefusal::Sectors { tenant, sectors })
            }
            _ => Ok(()),
        }
    }
}
