//! [`EngineRunner`]: the engine, and who turns it: its own thread, or whoever has just left a message for
//! it.
//!
//! Handing a request to another thread and the answer back costs two wake-ups, some 20 us each
//! where processors sleep: nothing beside the milliseconds of a disk's arm, and most of the time
//! that a fast drive takes. So whoever leaves a message, and finds nobody at the engine, does the
//! turn himself. The engine's own thread does what nobody is there for: completions, and times that
//! come.
//!
//! Only where no part of a turn waits for the system
//! ([`Backend::is_prompt`](crate::backend::Backend::is_prompt)): a thread that submits has other
//! things to do. Nothing is forgotten: who finds the engine busy rings for its thread, and who
//! leaves it looks for messages before and after.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use headtime_units::Instant;

use crate::clock::RealClock;
use crate::engine::mailbox::{Mailbox, Message};
use crate::engine::{DrainReport, Engine, NextWork};

/// An engine that several threads turn, one at a time.
pub(crate) struct EngineRunner {
    /// `None` once it has given up what was left.
    engine: Mutex<Option<Engine>>,
    mailbox: Arc<Mailbox>,
    /// Whether anybody but the engine's thread may do a turn.
    shared: bool,
    /// Until when the engine's thread sleeps if nothing rings.
    asleep_until: AtomicU64,
    failed: AtomicBool,
}

impl EngineRunner {
    pub(crate) fn new(engine: Engine, mailbox: Arc<Mailbox>, shared: bool) -> Self {
        Self {
            engine: Mutex::new(Some(engine)),
            mailbox,
            shared,
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
            // Of the others, the first has rung.
            return if first {
                self.mailbox.notifier.notify()
            };
        }
        if self.mailbox.on_engine_thread() {
            // A callback in the middle of a turn: whoever does the turn looks for messages once more
            // before going away.
            return;
        }
        for _ in 0..MAX_TURNS {
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
                return self
                    .mailbox
                    .as_engine(|| engine.give_up(self.failed.load(Ordering::Acquire)));
            }
            self.asleep_until.store(waits.earliest().as_ns(), Ordering::Release);
            drop(engine);
            // Left by callbacks of this turn, which do not ring.
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

    /// One turn, and those that follow at once.
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

/// EngineRunner that one submission does at most: with others submitting all the time, it would never come
/// back.
const MAX_TURNS: u32 = 8;
