//! [`Turns`]: the choice of the thread that runs an engine, one at a time.
//!
//! A thread that submits a request and finds the engine idle runs it. No message is lost: a thread
//! that finds the engine busy notifies the engine's own thread, and a thread that leaves the engine
//! checks for messages before and after.
//!
//! `tests/hand_over.rs` runs this file under every interleaving of its threads.

use crate::sync::{AtomicU64, Mutex, Ordering, PoisonError, TryLockError};

/// An engine that several threads run, one at a time.
pub(crate) struct Turns<E> {
    /// `None` once the engine has ended.
    engine: Mutex<Option<E>>,
    /// The time until which the engine's thread sleeps without a notification.
    asleep_until: AtomicU64,
}

/// The messages to an engine, and its sleeping thread.
pub(crate) trait Signals {
    /// Returns true if a message arrived since the engine last took all.
    fn has_messages(&self) -> bool;

    /// Wakes the engine's thread, now or when it next sleeps.
    fn notify(&self);
}

/// The result of an iteration.
pub(crate) enum Turn<W> {
    /// There may be work until this time in nanoseconds, with the details for the thread that
    /// sleeps.
    Sleep(u64, W),
    /// The engine has ended.
    Over,
}

impl<E> Turns<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self { engine: Mutex::new(Some(engine)), asleep_until: AtomicU64::new(0) }
    }

    /// Has the messages processed: on this thread if the engine is idle, otherwise by the thread
    /// that runs it.
    pub(crate) fn offer<W>(&self, signals: &impl Signals, iterate: impl Fn(&mut E) -> Turn<W>) {
        for _ in 0..MAX_ITERATIONS {
            if !signals.has_messages() {
                return;
            }
            let mut engine = match self.engine.try_lock() {
                Ok(engine) => engine,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => break,
            };
            let Some(engine) = engine.as_mut() else { return };
            match iterate(engine) {
                Turn::Sleep(until, _) if until >= self.asleep_until.load(Ordering::Acquire) => {}
                _ => signals.notify(),
            }
        }
        signals.notify();
    }

    /// Runs an iteration on the engine's own thread. Returns how long it may sleep, `None` if there
    /// are messages, and the engine at its end.
    pub(crate) fn serve<W>(
        &self,
        signals: &impl Signals,
        iterate: impl Fn(&mut E) -> Turn<W>,
    ) -> Result<Option<W>, E> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let running = engine.as_mut().expect("only the engine's thread takes it, at its end");
        let Turn::Sleep(until, work) = iterate(running) else {
            return Err(engine.take().expect("it was there"));
        };
        self.asleep_until.store(until, Ordering::Release);
        drop(engine);
        // Callbacks of this iteration send messages without a notification.
        Ok((!signals.has_messages()).then_some(work))
    }
}

/// The maximum iterations of one submission. Without a bound, it might never return while other
/// threads submit.
const MAX_ITERATIONS: u32 = 8;
