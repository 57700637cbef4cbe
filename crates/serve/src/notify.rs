//! Tells systemd, if it asked, when the server is ready and when it stops (`Type=notify`). Without `NOTIFY_SOCKET` nothing happens.

use sd_notify::NotifyState;

/// Sockets accept, the drive is open.
pub(crate) fn ready() {
    tell(NotifyState::Ready);
}

/// Draining has begun.
pub(crate) fn stopping() {
    tell(NotifyState::Stopping);
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("systemd could not be told: {error}");
    }
}
