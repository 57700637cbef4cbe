//! [`Capacity`]: the bounds on the requests that a drive holds, and the queue of requests that wait
//! for room, which is first come, first served.
//!
//! A waiter without a permit joins the queue and checks again. A thread that releases a permit
//! wakes the first waiter. No wake-up is lost: the waiter joins the queue before it checks, and the
//! permit is released before the queue is checked, with a fence on either side. Requests submitted
//! without waiting bypass the queue, so a large request may wait for a long time while other
//! clients submit small requests.
//!
//! `tests/hand_over.rs` runs this file under every interleaving of its threads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, PoisonError, fence};

/// The bounds on requests and on their bytes, and the use of both.
pub(crate) struct Capacity {
    requests: AtomicUsize,
    bytes: AtomicU64,
    max_requests: usize,
    max_bytes: u64,
    queue: CapacityQueue,
}

/// A bound was reached: the requests and bytes held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) requests: usize,
    pub(crate) bytes: u64,
}

impl Capacity {
    pub(crate) fn new(max_requests: usize, max_bytes: u64) -> Self {
        Self {
            requests: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            max_requests,
            max_bytes,
            queue: CapacityQueue::new(),
        }
    }

    pub(crate) fn max_requests(&self) -> usize {
        self.max_requests
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// The use at this moment.
    pub(crate) fn held(&self) -> Full {
        let requests = self.requests.load(Ordering::Acquire);
        Full { requests, bytes: self.bytes.load(Ordering::Acquire) }
    }

    /// Holds room for one request of `bytes` bytes, until [`release`](Self::release).
    pub(crate) fn acquire(&self, bytes: u64) -> Result<(), Full> {
        let one_more = |held: usize| (held < self.max_requests).then_some(held + 1);
        let more = self.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        if let Err(requests) = more {
            return Err(Full { requests, bytes: self.bytes.load(Ordering::Acquire) });
        }
        let more_bytes = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.max_bytes);
        let more = self.bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more_bytes);
        if let Err(held) = more {
            let requests = self.requests.fetch_sub(1, Ordering::AcqRel) - 1;
            return Err(Full { requests, bytes: held });
        }
        Ok(())
    }

    /// Gives room back, and wakes the first request that waits for it.
    pub(crate) fn release(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.changed();
    }

    /// Wakes the first waiter because room was given back or the drive is closing.
    pub(crate) fn changed(&self) {
        self.queue.changed();
    }

    /// Starts a request if no other waits. Otherwise it joins the queue, and starts when it is the
    /// first. `start` returns `None` if there is no room.
    pub(crate) fn poll_start<R>(
        &self,
        ticket: &mut Option<QueuePosition>,
        waker: &Waker,
        mut start: impl FnMut() -> Option<R>,
    ) -> Poll<R> {
        // A later and smaller request does not overtake a waiting one.
        if ticket.is_none()
            && self.queue.is_empty()
            && let Some(started) = start()
        {
            return Poll::Ready(started);
        }
        if !self.queue.enqueue(ticket, waker) {
            return Poll::Pending;
        }
        let Some(started) = start() else { return Poll::Pending };
        self.leave(ticket);
        Poll::Ready(started)
    }

    /// Leaves the queue, if the request is in it.
    pub(crate) fn leave(&self, ticket: &mut Option<QueuePosition>) {
        if let Some(ticket) = ticket.take() {
            self.queue.leave(ticket);
        }
    }
}

/// The requests that wait for capacity of one drive.
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

impl Waiters {
    /// The index of a waiter, or where it would be. Tickets ascend.
    fn position(&self, ticket: u64) -> Result<usize, usize> {
        self.waiters.binary_search_by_key(&ticket, |(ticket, _)| *ticket)
    }
}

/// A position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePosition(u64);

impl CapacityQueue {
    pub(crate) fn new() -> Self {
        Self { waiting: AtomicUsize::new(0), line: Mutex::new(Waiters::default()) }
    }

    /// Adds a waiter to the queue, or replaces the waker of one in the queue. Returns true if the
    /// waiter is the first, which may check for capacity now.
    pub(crate) fn enqueue(&self, ticket: &mut Option<QueuePosition>, waker: &Waker) -> bool {
        let mut line = self.line();
        let QueuePosition(own) = *ticket.get_or_insert_with(|| {
            line.tickets += 1;
            QueuePosition(line.tickets)
        });
        match line.position(own) {
            Ok(index) => line.waiters[index].1.clone_from(waker),
            Err(index) => line.waiters.insert(index, (own, waker.clone())),
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
        if let Ok(index) = line.position(own) {
            line.waiters.remove(index);
        }
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
