//! SIGHUP, by which administrators and systemd say that files have changed.

use anyhow::Context as _;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches SIGHUP, which would end the program, from when it is made.
pub(crate) struct Hangups {
    runtime: Runtime,
    signal: Signal,
}

impl Hangups {
    /// Catches it from here on, for the rest of the program's life; those that come until
    /// [`Hangups::answer`] are answered then, as one.
    pub(crate) fn caught() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .context("signals cannot be caught")?;
        let signal = {
            let _inside = runtime.enter();
            signal(SignalKind::hangup()).context("SIGHUP cannot be caught")?
        };
        Ok(Self { runtime, signal })
    }

    /// Answers each with `act`, on a thread of its own.
    pub(crate) fn answer(self, act: impl Fn() + Send + 'static) -> anyhow::Result<()> {
        let Self { runtime, mut signal } = self;
        let answer = move || {
            while runtime.block_on(signal.recv()).is_some() {
                act()
            }
        };
        std::thread::Builder::new()
            .name("hangups".to_owned())
            .spawn(answer)
            .context("a thread for signals cannot be started")?;
        Ok(())
    }
}
