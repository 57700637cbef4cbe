//! Accepts clients and control connections. Each client is served by its own task, up to the
//! maximum number of connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use headtime_io::Locator;
use headtime_nbd::server::TlsPolicy;
use headtime_sched::StreamId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::arrivals::Arrivals;
use crate::config::{Config, Listen, PathChoice};
use crate::connection::{End, Shared, serve};
use crate::default_paths::default_control_socket;
use crate::listener::{BindError, Bound, Listener};

/// The pause after the system refused a connection for lack of descriptors or memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for a connection that has to make room. It has no requests, so only a stalled
/// machine takes this long.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Only the server's own user may use the control socket.
pub(crate) const CONTROL_MODE: u32 = 0o600;

/// Binds the control socket, if there is one.
pub(super) fn bind_control_socket(
    config: &Config,
    locator: &Locator,
) -> Result<Option<(PathBuf, Bound)>, BindError> {
    let Some(path) = config.control.path(default_control_socket(locator)) else { return Ok(None) };
    let usual = !control_is_required(config);
    if let Some(directory) =
        path.parent().filter(|directory| usual && directory.starts_with("/run"))
    {
        // An error shows when the socket is bound.
        let _ = std::fs::create_dir_all(directory);
    }
    let bound = Bound::new(&Listen::Unix { path: path.clone(), mode: CONTROL_MODE, tls: None })?;
    Ok(Some((path, bound)))
}

/// Returns whether a server does not start without its control socket: one at an explicit path.
pub(super) fn control_is_required(config: &Config) -> bool {
    matches!(config.control, PathChoice::At(_))
}

/// Acquires a connection permit, if necessary by closing the oldest connection without an export.
async fn slot(slots: &Arc<Semaphore>, arrivals: &Arrivals) -> Option<OwnedSemaphorePermit> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Some(slot);
    }
    if !arrivals.evict_oldest() {
        return None;
    }
    timeout(EVICTION_TIMEOUT, Arc::clone(slots).acquire_owned()).await.ok()?.ok()
}

/// Logs clients that were refused, the first few of each second: a hostile one comes as fast as it
/// can.
#[derive(Default)]
struct Refusals(Mutex<(Option<Instant>, u32)>);

impl Refusals {
    fn say(&self, peer: &str, end: &End) {
        const LOGGED: u32 = 5;
        let mut state = self.0.lock();
        let (since, count) = &mut *state;
        if since.is_none_or(|since| since.elapsed() >= Duration::from_secs(1)) {
            (*since, *count) = (Some(Instant::now()), 0);
        }
        *count += 1;
        if *count <= LOGGED {
            tracing::warn!("{peer} was refused: {end}");
        }
    }
}

/// Accepts clients at one address. Does not return.
pub(super) async fn accept(
    listener: Listener,
    tls: TlsPolicy,
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    streams: Arc<AtomicU32>,
) {
    let refusals = Arc::new(Refusals::default());
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
        let Some(slot) = slot(&slots, &shared.arrivals).await else {
            shared.exports.refusals.connections.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "{peer} was rejected: {} connections have an export open, the maximum; raise \
                    connections",
                shared.limits.connections
            );
            continue;
        };
        let stream = StreamId(streams.fetch_add(1, Ordering::Relaxed));
        let (shared, refusals) = (Arc::clone(&shared), Arc::clone(&refusals));
        // Register it here: the task may not run before the next connection is accepted.
        let arrival = shared.arrivals.begin();
        tokio::spawn(async move {
            tracing::debug!("{peer} connected");
            let end = serve(shared, arrival, socket, stream, tls).await;
            if matches!(end, End::Tls(_)) {
                refusals.say(&peer, &end);
            } else {
                tracing::info!("{peer}: {end}");
            }
            drop(slot);
        });
    }
}
