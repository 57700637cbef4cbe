//! Notifies systemd when the server is ready and when it stops (`Type=notify`), reports its state
//! in one line (`systemctl status`), and feeds the watchdog (`WatchdogSec=`) while the drive's
//! engine responds. Without `NOTIFY_SOCKET` nothing happens.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch::Receiver;

use crate::connection::Phase;
use crate::metrics::{engine_responds, problems};
use crate::stats::{Stats, StatsSnapshot};

/// The longest time between two reports of the state.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

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

/// Reports the state and feeds the watchdog until the runtime ends. While the server drains, its
/// drive closes, so the watchdog is fed whether or not the engine responds.
pub(crate) async fn report_state(stats: Arc<Stats>, phase: Receiver<Phase>) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let watchdog = sd_notify::watchdog_enabled();
    let interval = watchdog.map_or(REPORT_INTERVAL, |time| (time / 2).min(REPORT_INTERVAL));
    let mut reported = String::new();
    loop {
        let stats = Arc::clone(&stats);
        // A snapshot may wait for the engine.
        let snapshot = tokio::task::spawn_blocking(move || stats.snapshot()).await;
        let Ok(snapshot) = snapshot else { return };
        if watchdog.is_some() && (engine_responds(&snapshot) || *phase.borrow() != Phase::Running) {
            tell(NotifyState::Watchdog);
        }
        let text = status_text(&snapshot);
        if text != reported {
            tell(NotifyState::Status(&text));
            reported = text;
        }
        tokio::time::sleep(interval).await;
    }
}

/// The state of the server in one line.
fn status_text(snapshot: &StatsSnapshot) -> String {
    let problems = problems(snapshot);
    if !problems.is_empty() {
        return problems.join("; ");
    }
    let counted = |count: usize, thing: &str| match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    };
    format!(
        "{}, {}, {} in the queue, {}",
        counted(snapshot.volumes.len(), "export"),
        counted(snapshot.connections, "client"),
        counted(snapshot.drive.queued, "request"),
        counted(snapshot.drive.scans, "unfinished scan"),
    )
}

fn tell(state: NotifyState<'_>) {
    tell_all(&[state]);
}

fn tell_all(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("systemd could not be notified: {error}");
    }
}
