//! [`Inbox`]: messages from any thread to the engine.
//!
//! `tests/hand_over.rs` runs this file under every interleaving of its threads.

use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering, PoisonError};

/// Messages that the engine has not taken.
pub(crate) struct Inbox<M> {
    messages: Mutex<Vec<M>>,
    /// `messages` is not empty; read without the lock.
    posted: AtomicBool,
    closed: AtomicBool,
}

impl<M> Inbox<M> {
    pub(crate) fn new() -> Self {
        Self {
            messages: Mutex::new(Vec::new()),
            posted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Adds a message unless there are `most`. Returns true if there was none before, and the
    /// message itself if it is not accepted.
    pub(crate) fn send(&self, message: M, most: usize) -> Result<bool, M> {
        let mut messages = self.lock();
        // Check under the lock: no message can arrive after `close` and the engine's last check.
        if messages.len() >= most || self.is_closed() {
            return Err(message);
        }
        messages.push(message);
        self.posted.store(true, Ordering::Release);
        Ok(messages.len() == 1)
    }

    /// Moves all messages into an empty vector.
    pub(crate) fn take(&self, into: &mut Vec<M>) {
        debug_assert!(into.is_empty(), "earlier messages are processed");
        self.posted.store(false, Ordering::Release);
        std::mem::swap(&mut *self.lock(), into);
    }

    /// Returns true if a message arrived since the last [`Inbox::take`].
    pub(crate) fn has_messages(&self) -> bool {
        self.posted.load(Ordering::Acquire)
    }

    /// Refuses all messages from now on.
    pub(crate) fn close(&self) {
        let messages = self.lock();
        self.closed.store(true, Ordering::Release);
        drop(messages);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<M>> {
        // Every statement leaves a consistent state.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
