//! [`Shared`]: the state that all connections of a server share.

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

/// The state that all connections of a server share.
pub(crate) struct Shared {
    pub(crate) exports: Arc<Exports>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) permissions: Permissions,
    pub(crate) limits: ServeLimits,
    pub(crate) nbd_limits: ServerLimits,
    /// Pages of memory ([`crate::memory`]).
    pub(crate) pool: Arc<FairSemaphore>,
    /// Pieces at the scheduler.
    pub(crate) piece_permits: Arc<FairSemaphore>,
    /// Connections with an open export.
    pub(crate) export_permits: Arc<FairSemaphore>,
    /// Connections without an open export.
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// The number of connections.
    pub(crate) connections: AtomicUsize,
    /// The number of connections that ended since free memory was returned to the system.
    pub(crate) ended: AtomicUsize,
}

/// The phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serving.
    Running,
    /// Answering requests in flight and rejecting new ones.
    Draining,
    /// Closing connections at once.
    Leaving,
}

impl Shared {
    /// The limits for the protocol's state machine.
    pub(crate) fn nbd_limits(limits: &ServeLimits) -> ServerLimits {
        ServerLimits {
            max_request_bytes: limits.request.get().min(1 << 30) as u32,
            max_in_flight: limits.connection_requests,
            // A larger request would never get its memory.
            max_in_flight_bytes: limits.connection_bytes.get().min(limits.grantable_bytes()),
            // One extent describes every export: all of it is allocated.
            max_extents: 16,
            ..ServerLimits::default()
        }
    }
}
