//! [`Hub`]: what all connections of a server share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use headtime_nbd::ServerLimits;
use tokio::sync::watch;

use crate::arrivals::Arrivals;
use crate::config::ServeLimits;
use crate::disk::Disk;
use crate::export::Exports;
use crate::fair_semaphore::FairSemaphore;
use crate::tls::{Permissions, Tls};

/// What all connections of a server share.
pub(crate) struct Hub {
    pub(crate) exports: Arc<Exports>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) permissions: Permissions,
    pub(crate) limits: ServeLimits,
    pub(crate) nbd_limits: ServerLimits,
    /// Pages of memory ([`crate::memory`]).
    pub(crate) pool: Arc<FairSemaphore>,
    /// Places at the scheduler.
    pub(crate) places: Arc<FairSemaphore>,
    /// Connections that have an export open.
    pub(crate) doors: Arc<FairSemaphore>,
    /// Connections that have none open yet.
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// Connections being served.
    pub(crate) connections: AtomicUsize,
}

/// What the server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serving.
    Running,
    /// Answering what is in flight, refusing what is new.
    Draining,
    /// Leaving at once.
    Leaving,
}

impl Hub {
    /// Limits of a hub, as the protocol machine wants them.
    pub(crate) fn nbd_limits(limits: &ServeLimits) -> ServerLimits {
        ServerLimits {
            max_request_bytes: limits.request.get().min(1 << 30) as u32,
            max_in_flight: limits.connection_requests,
            // What no connection could ever be given memory for would wait in vain.
            max_in_flight_bytes: limits.connection_bytes.get().min(limits.grantable_bytes()),
            // One extent is all there ever is to say: everything is allocated.
            max_extents: 16,
            ..ServerLimits::default()
        }
    }
}
