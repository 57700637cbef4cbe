//! The signals that end or reload a server.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP. It is created once, so that no signal is lost between two waits.
pub(super) struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
    hangup: Option<Signal>,
}

/// The action for a signal.
#[derive(PartialEq, Eq)]
pub(super) enum SignalAction {
    End,
    Reload,
}

impl Signals {
    /// Starts to listen. A signal that cannot be received is logged and never arrives.
    pub(super) fn new() -> Self {
        let listen = |kind: SignalKind| {
            let stream = signal(kind);
            let log_error = |error| {
                tracing::error!("signal {} cannot be received: {error}", kind.as_raw_value())
            };
            stream.map_err(log_error).ok()
        };
        let (terminate, interrupt, hangup) =
            (SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup());
        Self { terminate: listen(terminate), interrupt: listen(interrupt), hangup: listen(hangup) }
    }

    pub(super) async fn next_or_hangup(&mut self) -> SignalAction {
        let Self { terminate, interrupt, hangup } = self;
        tokio::select! {
            () = came(terminate) => SignalAction::End,
            () = came(interrupt) => SignalAction::End,
            () = came(hangup) => SignalAction::Reload,
        }
    }

    pub(super) async fn next(&mut self) {
        let Self { terminate, interrupt, .. } = self;
        tokio::select! { () = came(terminate) => {}, () = came(interrupt) => {} }
    }
}

async fn came(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
}
