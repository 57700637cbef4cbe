//! [`EngineRunner`]: the threads that run the engine.
//!
//! Handing a request to another thread and the answer back costs two wake-ups of some 20 us each.
//! That is nothing beside the milliseconds of a disk's arm, and most of the time of a fast drive.
//! Therefore a thread that submits a request and finds the engine idle runs the iteration itself.
//! The engine's own thread does the rest: completions, and timers.
//!
//! This applies only if no part of an iteration waits for the system
//! ([`Backend::is_prompt`](crate::backend::Backend::is_prompt)), because a submitting thread has
//! other work. No message is lost: a thread that finds the engine busy notifies the engine's
//! thread, and a thread that leaves the engine checks for messages before and after.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use headtime_units::Instant;

use crate::clock::RealClock;
use crate::engine::mailbox::{Mailbox, Message};
use crate::engine::{DrainReport, Engine, EngineEnd, NextWork};

/// An engine that several threads run, one at a time.
pub(crate) struct EngineRunner {
    /// `None` once the engine has ended.
    engine: Mutex<Option<Engine>>,
    mailbox: Arc<Mailbox>,
    /// A submitting thread may run an iteration.
    shared: bool,
    /// The time until which the engine's thread sleeps without a notification.
    asleep_until: AtomicU64,
    failed: AtomicBool,
}

/// The threads that run an engine's iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineThreads {
    /// Only the engine's own thread.
    Own,
    /// Also a thread that submits a request while the engine is idle.
    OwnAndSubmitting,
}

impl EngineRunner {
    pub(crate) fn new(engine: Engine, mailbox: Arc<Mailbox>, threads: EngineThreads) -> Self {
        Self {
            engine: Mutex::new(Some(engine)),
            mailbox,
            shared: threads == EngineThreads::OwnAndSubmitting,
            asleep_until: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Sends a message and has it processed.
    ///
    /// # Errors
    /// The message, if the drive is closing or the mailbox is full.
    #[expect(clippy::result_large_err, reason = "a box would cost every request an allocation")]
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        let first = self.mailbox.send(message)?;
        self.process(first);
        Ok(())
    }

    /// Processes the messages on this thread, or wakes the engine's thread. `first` is set if the
    /// mailbox was empty before.
    fn process(&self, first: bool) {
        if !self.shared {
            // The sender of the first message has notified the engine already.
            return if first {
                self.mailbox.notifier.notify()
            };
        }
        if self.mailbox.on_engine_thread() {
            // A callback during an iteration: the thread that runs it checks for messages again
            // before it leaves.
            return;
        }
        for _ in 0..MAX_ITERATIONS {
            if !self.mailbox.has_messages() {
                return;
            }
            let mut engine = match self.engine.try_lock() {
                Ok(engine) => engine,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => break,
            };
            let Some(engine) = engine.as_mut() else { return };
            let waits = self.iterate(engine);
            if waits.over || waits.earliest().as_ns() < self.asleep_until.load(Ordering::Acquire) {
                self.mailbox.notifier.notify();
            }
        }
        self.mailbox.notifier.notify();
    }

    /// Serves the mailbox until it is closed and everything is over, or the time to drain has
    /// passed.
    pub(crate) fn run(&self, clock: RealClock) -> DrainReport {
        loop {
            let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            let waits = engine.as_mut().map_or(NextWork::OVER, |engine| self.iterate(engine));
            if waits.over {
                let engine = engine.take().expect("only the engine's thread takes it, at its end");
                let failed = self.failed.load(Ordering::Acquire);
                let end = if failed { EngineEnd::Failed } else { EngineEnd::Closed };
                return self.mailbox.as_engine(|| engine.give_up(end));
            }
            self.asleep_until.store(waits.earliest().as_ns(), Ordering::Release);
            drop(engine);
            // Callbacks of this iteration send messages without a notification.
            if self.mailbox.has_messages() {
                continue;
            }
            match (waits.event, waits.coarse) {
                (Some(event), coarse) if coarse.is_none_or(|coarse| event <= coarse) => {
                    self.mailbox
                        .notifier
                        .wait_precise(clock, event, || self.mailbox.has_messages());
                }
                (_, coarse) => self.mailbox.notifier.wait(clock, coarse),
            }
        }
    }

    /// One iteration, and those that follow at once.
    fn iterate(&self, engine: &mut Engine) -> NextWork {
        if self.failed.load(Ordering::Acquire) {
            return NextWork::OVER;
        }
        let outcome = self.mailbox.as_engine(|| {
            catch_unwind(AssertUnwindSafe(|| {
                loop {
                    let waits = engine.iterate();
                    if waits.over || waits.event != Some(Instant::ORIGIN) {
                        return waits;
                    }
                }
            }))
        });
        outcome.unwrap_or_else(|_| {
            self.failed.store(true, Ordering::Release);
            tracing::error!(
                "the engine of a drive failed on a fault of this program; its requests \
                are answered with an error"
            );
            NextWork::OVER
        })
    }
}

impl NextWork {
    const OVER: Self = Self { event: None, coarse: None, over: true };

    fn earliest(&self) -> Instant {
        [self.event, self.coarse].into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }
}

/// The maximum iterations of one submission. Without a bound, it might never return while other
/// threads submit.
const MAX_ITERATIONS: u32 = 8;
