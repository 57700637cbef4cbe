//! [`Slot`]: the place where the engine leaves the result of a request for the task that waits.
//!
//! `tests/hand_over.rs` runs this file under every interleaving of its threads.

use std::task::{Poll, Waker};

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// A result that one thread leaves and another takes.
#[derive(Debug)]
pub(crate) struct Slot<T>(Mutex<SlotState<T>>);

#[derive(Debug)]
enum SlotState<T> {
    Waiting(Option<Waker>),
    Over(T),
    Taken,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(SlotState::Waiting(None)))
    }

    /// Stores the result and wakes the waiting task.
    pub(crate) fn fill(&self, result: T) {
        let before = std::mem::replace(&mut *self.state(), SlotState::Over(result));
        // Wake outside of the lock: a waker may do anything.
        if let SlotState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Returns true once there is a result, also after it was taken.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(*self.state(), SlotState::Waiting(_))
    }

    /// Takes the result, or remembers the waker.
    ///
    /// # Panics
    /// When the result was taken before.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        let mut state = self.state();
        match &mut *state {
            SlotState::Waiting(Some(remembered)) => remembered.clone_from(waker),
            SlotState::Waiting(remembered) => *remembered = Some(waker.clone()),
            SlotState::Over(_) => match std::mem::replace(&mut *state, SlotState::Taken) {
                SlotState::Over(result) => return Poll::Ready(result),
                _ => unreachable!("the state was checked under the same lock"),
            },
            SlotState::Taken => panic!("a request's result is awaited once"),
        }
        Poll::Pending
    }

    fn state(&self) -> MutexGuard<'_, SlotState<T>> {
        // Every statement leaves a consistent state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
