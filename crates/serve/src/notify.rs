//! Notifies systemd when the server is ready and when it stops (`Type=notify`). Without
//! `NOTIFY_SOCKET` nothing happens.

use sd_notify::NotifyState;

/// The sockets accept connections, and the drive is open.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

/// A reload has begun; [`ready`] follows.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell_all(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("systemd could not be notified: {error}"),
    }
}

/// Draining has begun.
pub(crate) fn stopping() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState<'_>) {
    tell_all(&[state]);
}

fn tell_all(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("systemd could not be notified: {error}");
    }
}
