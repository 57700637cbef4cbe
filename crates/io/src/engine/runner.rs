//! [`EngineRunner`]: the threads that run the engine.
//!
//! Handing a request to another thread and the answer back costs two wake-ups of some 20 us each.
//! That is nothing beside the milliseconds of a disk's arm, and most of the time of a fast drive.
//! Therefore a thread that submits a request and finds the engine idle runs the iteration itself.
//! The engine's own thread does the rest: completions, and timers.
//!
//! This applies only if no part of an iteration waits for the system
//! ([`Backend::is_prompt`](crate::backend::Backend::is_prompt)), because a submitting thread has
//! other work. [`Turns`] is the choice of the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headtime_units::Instant;

use crate::clock::RealClock;
use crate::engine::mailbox::{Mailbox, Message, Position};
use crate::engine::turns::{Signals, Turn, Turns};
use crate::engine::{DrainReport, Engine, EngineEnd, NextWork};

/// An engine that several threads run, one at a time.
pub(crate) struct EngineRunner {
    turns: Turns<Engine>,
    mailbox: Arc<Mailbox>,
    /// A submitting thread may run an iteration.
    shared: bool,
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
            turns: Turns::new(engine),
            mailbox,
            shared: threads == EngineThreads::OwnAndSubmitting,
            failed: AtomicBool::new(false),
        }
    }

    /// Sends a message and has it processed.
    ///
    /// # Errors
    /// The message, if the drive is closing or the mailbox is full.
    #[expect(clippy::result_large_err, reason = "a box would cost every request an allocation")]
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        let position = self.mailbox.send(message)?;
        self.process(position);
        Ok(())
    }

    /// Processes the messages on this thread, or wakes the engine's thread. `position` is that of
    /// the first message that the caller has sent.
    pub(crate) fn process(&self, position: Position) {
        if self.mailbox.on_engine_thread() {
            // A callback during an iteration: the thread that runs it checks for messages again
            // before it leaves or sleeps.
            return;
        }
        if !self.shared {
            // The sender of the first message has notified the engine already.
            return if position == Position::First {
                self.mailbox.notifier.notify()
            };
        }
        self.turns.offer(&*self.mailbox, |engine| self.iterate(engine));
    }

    /// Serves the mailbox until it is closed and everything is over, or the time to drain has
    /// passed.
    pub(crate) fn run(&self, clock: RealClock) -> DrainReport {
        loop {
            let waits = match self.turns.serve(&*self.mailbox, |engine| self.iterate(engine)) {
                Ok(Some(waits)) => waits,
                Ok(None) => continue,
                Err(engine) => {
                    let failed = self.failed.load(Ordering::Acquire);
                    let end = if failed { EngineEnd::Failed } else { EngineEnd::Closed };
                    return self.mailbox.as_engine(|| engine.give_up(end));
                }
            };
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
    fn iterate(&self, engine: &mut Engine) -> Turn<NextWork> {
        if self.failed.load(Ordering::Acquire) {
            return Turn::Over;
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
        let waits = outcome.unwrap_or_else(|_| {
            self.failed.store(true, Ordering::Release);
            tracing::error!(
                "the engine of a drive failed on a fault of this program; its requests \
                are answered with an error"
            );
            NextWork::OVER
        });
        if waits.over { Turn::Over } else { Turn::Sleep(waits.earliest().as_ns(), waits) }
    }
}

impl Signals for Mailbox {
    fn has_messages(&self) -> bool {
        self.has_messages()
    }

    fn notify(&self) {
        self.notifier.notify();
    }
}

impl NextWork {
    const OVER: Self = Self { event: None, coarse: None, over: true };

    fn earliest(&self) -> Instant {
        [self.event, self.coarse].into_iter().flatten().min().unwrap_or(Instant::NEVER)
    }
}
