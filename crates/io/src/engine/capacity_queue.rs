//! Waiting for capacity when a drive holds as many requests as its bounds allow. The queue of
//! waiters is first come, first served.
//!
//! A waiter without a permit joins the queue and checks again. A thread that releases a permit
//! wakes the first waiter. No wake-up is lost: the waiter joins the queue before it checks, and the
//! permit is released before the queue is checked, with a fence on either side. Requests submitted
//! without waiting bypass the queue, so a large request may wait for a long time while other
//! clients submit small requests.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The requests that wait for capacity of one drive.
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

/// A position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePosition(u64);

impl CapacityQueue {
    /// Adds a waiter to the queue, or replaces the waker of one in the queue. Returns true if the
    /// waiter is the first, which may check for capacity now.
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

    /// Leaves the queue and wakes the next waiter to check.
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

    /// Wakes the first waiter because a permit was released or the drive is closing.
    pub(crate) fn changed(&self) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.wake_first();
        }
    }

    fn wake_first(&self) {
        let first = self.line().waiters.front().map(|(_, waker)| waker.clone());
        // Wake outside of the lock: a waker may do anything. A panic of a waker must not affect the
        // thread that releases a permit, which is the engine's.
        if first.is_some_and(|waker| catch_unwind(AssertUnwindSafe(|| waker.wake())).is_err()) {
            tracing::error!(
                "the waker of a request that waits for room panicked; the drive goes on, the \
                    request and later ones may wait indefinitely"
            );
        }
    }

    fn line(&self) -> MutexGuard<'_, Waiters> {
        // The data is consistent after a panic: only cloning a waker can panic, before anything
        // changes.
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
        room.leave(tickets[1].expect("it was queued"));
        assert_eq!(
            counts(),
            [2, 0, 0],
            "a waiter that leaves from the middle wakes only the first"
        );
        room.leave(tickets[0].expect("it was queued"));
        assert_eq!(counts(), [2, 0, 1]);
        room.leave(tickets[2].expect("it was queued"));
        assert!(room.is_empty());
    }
}
