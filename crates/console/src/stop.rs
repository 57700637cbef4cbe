//! The request to stop: SIGINT, SIGTERM, or a key.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Signals within this time of the first one are the same request: `timeout` signals its child and
/// then its group, and a wrapper may pass on the Ctrl-C that its child has from the terminal, too.
/// No person presses a key twice as fast (a guess).
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// The requests that signals make.
#[derive(Default)]
struct Requests {
    first: Option<Instant>,
}

impl Requests {
    /// Returns true if a signal at `now` is not part of the first request.
    fn is_second(&mut self, now: Instant) -> bool {
        let first = *self.first.get_or_insert(now);
        now.saturating_duration_since(first) >= SAME_REQUEST
    }
}

/// A flag that the first signal raises. The second signal ends the program at once, without a
/// drain, with the exit code that a shell reports for a signal.
#[derive(Clone, Default)]
pub struct Stop {
    raised: Arc<(Mutex<bool>, Condvar)>,
}

impl Stop {
    /// Listens to SIGINT and SIGTERM from here on, for the rest of the program's life.
    ///
    /// # Errors
    /// When the system does not let signals be caught.
    pub fn on_signals() -> anyhow::Result<Self> {
        let stop = Self { raised: Arc::new((Mutex::new(false), Condvar::new())) };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("signals cannot be caught")?;
        let (mut interrupt, mut terminate) = {
            let _inside = runtime.enter();
            let interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
            (interrupt, signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?)
        };
        let raised = stop.clone();
        let listen = move || {
            runtime.block_on(async {
                let mut requests = Requests::default();
                loop {
                    let code = tokio::select! {
                        _ = interrupt.recv() => 130,
                        _ = terminate.recv() => 143,
                    };
                    if requests.is_second(Instant::now()) {
                        tracing::error!(
                            "a second signal ends the program before it has stopped: requests in \
                             flight are not finished, and unflushed writes may be lost"
                        );
                        crate::view::give_back();
                        std::process::exit(code);
                    }
                    raised.raise();
                }
            });
        };
        std::thread::Builder::new()
            .name("signals".to_string())
            .spawn(listen)
            .context("a thread for signals cannot be started")?;
        Ok(stop)
    }

    /// Raises it.
    pub fn raise(&self) {
        *self.raised.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.raised.1.notify_all();
    }

    /// Returns true if the flag was raised.
    pub fn is_raised(&self) -> bool {
        *self.raised.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is raised.
    pub fn wait_for_it(&self) {
        let raised = self.raised.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            self.raised
                .1
                .wait_while(raised, |raised| !*raised)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Waits until it is raised, or `patience` is over; whether it was raised.
    pub fn wait(&self, patience: Duration) -> bool {
        let raised = self.raised.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (raised, _) = self
            .raised
            .1
            .wait_timeout_while(raised, patience, |raised| !*raised)
            .unwrap_or_else(PoisonError::into_inner);
        *raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_at_once_are_one_request() {
        let (mut requests, first) = (Requests::default(), Instant::now());
        let later = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(199)];
        assert!(later.iter().all(|after| !requests.is_second(first + *after)));
        assert!(requests.is_second(first + SAME_REQUEST));
    }

    #[test]
    fn waiting_ends_when_it_is_raised() {
        let stop = Stop { raised: Arc::new((Mutex::new(false), Condvar::new())) };
        assert!(!stop.wait(Duration::ZERO));
        let other = stop.clone();
        let raiser = std::thread::spawn(move || other.raise());
        assert!(
            stop.wait(Duration::from_secs(600)),
            "the test would take ten minutes if it were not woken"
        );
        raiser.join().expect("it only raises");
        assert!(stop.is_raised());
    }
}
