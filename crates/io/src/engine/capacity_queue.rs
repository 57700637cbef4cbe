//! Waiting for room when a drive holds as much as its bounds allow: a line of waiters, first come,
//! first served.
//!
//! Whoever finds no room puts itself in the line and looks again; whoever gives a place back wakes
//! the first. The two cannot miss each other: the waiter is in the line before it looks, and the
//! place is back before the line is looked at, with a fence between on either side. Requests
//! submitted without waiting do not stand in line, so that a large one may wait long while others
//! submit small ones that way.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Those who wait for room at one drive.
#[derive(Default)]
pub(crate) struct CapacityQueue {
    /// The number of waiting requests; read without the lock.
    waiting: AtomicUsize,
    line: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    tickets: u64,
    waiters: VecDeque<(u64, Waker)>,
}

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePosition(u64);

impl CapacityQueue {
    /// Puts somebody in the line, or, when there already, remembers whom to wake. Says whether it
    /// is the first, who may look for room now.
    pub(crate) fn enqueue(&self, ticket: &mut Option<QueuePosition>, waker: &Waker) -> bool {
        let mut line = self.line();
        let QueuePosition(own) = *ticket.get_or_insert_with(|| {
            line.tickets += 1;
            QueuePosition(line.tickets)
        });
        match line.waiters.iter_mut().find(|(other, _)| *other == own) {
            Some((_, remembered)) => remembered.clone_from(waker),
            None => line.waiters.push_back((own, waker.clone())),
        }
        self.waiting.store(line.waiters.len(), Ordering::Relaxed);
        let first = line.waiters.front().is_some_and(|(front, _)| *front == own);
        drop(line);
        fence(Ordering::SeqCst);
        first
    }

    /// Leaves the line; the next one is woken to look.
    pub(crate) fn leave(&self, QueuePosition(own): QueuePosition) {
        let mut line = self.line();
        line.waiters.retain(|(other, _)| *other != own);
        self.waiting.store(line.waiters.len(), Ordering::Relaxed);
        drop(line);
        self.wake_first();
    }

    /// Returns true if no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// A place was given back, or there will never be one again.
    pub(crate) fn changed(&self) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        let first = self.line().waiters.front().map(|(_, waker)| waker.clone());
        // Woken outside of the lock: a waker may do anything. Its panic is not the affair of the
        // thread that gives a place back, which is the engine's.
        if first.is_some_and(|waker| catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err()) {
            tracing::error!(
                "the waker of a request that waits for room panicked; the drive goes on, the \
                    request and those behind it may wait for ever"
            );
        }
    }

    fn line(&self) -> MutexGuard<'_, Waiters> {
        // Nothing between two statements that belong together panics, but for a waker that cannot
        // be cloned, and then nothing was changed.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_first_in_line_is_woken_and_when_it_leaves_the_next() {
        let room = CapacityQueue::default();
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut tickets = [None; 3];
        for (index, ticket) in tickets.iter_mut().enumerate() {
            assert_eq!(room.enqueue(ticket, &Arc::clone(&woken[index]).into()), index == 0);
        }
        let counts = || woken.each_ref().map(|woken| woken.0.load(Ordering::SeqCst));
        room.changed();
        assert_eq!(counts(), [1, 0, 0]);
        room.leave(tickets[1].expect("it stood in line"));
        assert_eq!(counts(), [2, 0, 0], "who leaves from the middle disturbs nobody but the first");
        room.leave(tickets[0].expect("it stood in line"));
        assert_eq!(counts(), [2, 0, 1]);
        room.leave(tickets[2].expect("it stood in line"));
        assert!(room.is_empty());
    }
}
