//! Where clients and orders come in: connections are accepted as long as there are places, and each
//! is served by a task of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use headtime_io::Locator;
use headtime_nbd::server::TlsPolicy;
use headtime_sched::StreamId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::arrivals::Arrivals;
use crate::config::{Config, Listen, PathChoice};
use crate::connection::{Hub, serve};
use crate::default_paths::default_control_socket;
use crate::listener::{BindError, Listener};

/// After the system refused a connection for want of descriptors or memory, the time until the next
/// try.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection that is told to make room may take. It has nothing under way and leaves at
/// once, so only a machine that stands still takes as long.
const MAKING_ROOM: Duration = Duration::from_secs(2);
/// Orders are for the server's own user.
pub(crate) const CONTROL_MODE: u32 = 0o600;

/// The door for orders, if there is to be one. One that nobody asked for is done without when it
/// cannot be had.
pub(super) fn open_control_socket(
    config: &Config,
    locator: &Locator,
) -> Result<Option<(PathBuf, Listener)>, BindError> {
    let Some(path) = config.control.path(default_control_socket(locator)) else { return Ok(None) };
    let asked_for = matches!(config.control, PathChoice::At(_));
    if let Some(directory) =
        path.parent().filter(|directory| !asked_for && directory.starts_with("/run"))
    {
        // What comes of it is seen when the socket is made.
        let _ = std::fs::create_dir_all(directory);
    }
    match Listener::bind(&Listen::Unix { path: path.clone(), mode: CONTROL_MODE, tls: None }) {
        Ok(listener) => Ok(Some((path, listener))),
        Err(error) if asked_for => Err(error),
        Err(error) => {
            tracing::warn!(
                "there is no control socket, so that scans cannot be started: {error}; set control \
                    to another path, or to off"
            );
            Ok(None)
        }
    }
}

/// A place for a connection; if need be, that of the one that has been about opening an export for
/// the longest.
async fn slot(slots: &Arc<Semaphore>, arrivals: &Arrivals) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    if !arrivals.show_out_oldest() {
        return None;
    }
    timeout(MAKING_ROOM, Arc::clone(slots).acquire_owned()).await.ok()?.ok()
}

/// Lets clients in at one address, for ever.
pub(super) async fn accept(
    listener: Listener,
    tls: TlsPolicy,
    hub: Arc<Hub>,
    slots: Arc<Semaphore>,
    streams: Arc<AtomicU32>,
) {
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(
                    "{}: a connection could not be accepted: {error}",
                    listener.address()
                );
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(slot) = slot(&slots, &hub.arrivals).await else {
            tracing::warn!(
                "{peer} was turned away: {} connections have an export open, the limit; raise \
                    connections",
                hub.limits.connections
            );
            continue;
        };
        let stream = StreamId(streams.fetch_add(1, Ordering::Relaxed));
        let hub = Arc::clone(&hub);
        // Here and not in the task: when the next one comes, the task may not have begun.
        let arrival = hub.arrivals.begin();
        tokio::spawn(async move {
            tracing::debug!("{peer} connected");
            let end = serve(hub, arrival, socket, stream, tls).await;
            tracing::info!("{peer}: {end}");
            drop(slot);
        });
    }
}
