//! Memory for requests in flight, shared by all connections.
//!
//! Each connection has a few bytes of its own, which nobody can take from it; what it needs beyond comes from one pool, first come, first
//! served. A connection asks before it reads a payload from its socket or lets a read go to the drive, so that what is not granted is not held
//! anywhere: it waits in the client's socket. With the default of 1 MiB a client with 256 requests of 4 KiB in flight never meets the pool, whatever
//! others do to it.
//!
//! A client that neither reads its replies nor finishes its payloads can hold its part of the pool for as long as nobody else wants it. When somebody
//! waits, [`StallMeter`] finds it out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The pool is counted in pages, so that its permits fit the semaphore's numbers on every machine.
const PAGE_BYTES: u64 = 4096;

/// Bytes that all connections share.
#[derive(Debug)]
pub(crate) struct Pool {
    pages: Arc<Semaphore>,
    total_pages: u32,
    waiting: AtomicUsize,
}

/// What one connection may hold.
#[derive(Debug)]
pub(crate) struct Allowance {
    pool: Arc<Pool>,
    own_bytes: u64,
    from_pool: Option<OwnedSemaphorePermit>,
}

/// Pages on the way from the pool to a connection; counts as waiting until then.
struct Waiting<'a>(&'a AtomicUsize);

impl Pool {
    /// A pool of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        let total_pages = u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX);
        Arc::new(Self { pages: Arc::new(Semaphore::new(total_pages as usize)), total_pages, waiting: AtomicUsize::new(0) })
    }

    /// Bytes handed out.
    pub(crate) fn used_bytes(&self) -> u64 {
        u64::from(self.total_pages).saturating_sub(self.pages.available_permits() as u64) * PAGE_BYTES
    }

    /// Connections that wait for some.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for pages. Whoever drops the future gives up its place in the line.
    pub(crate) async fn take(self: Arc<Self>, pages: u32) -> OwnedSemaphorePermit {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        Arc::clone(&self.pages).acquire_many_owned(pages).await.expect("the pool is never closed")
    }
}

impl Allowance {
    /// An allowance of `own_bytes`, and what it is given of `pool`.
    pub(crate) fn new(pool: &Arc<Pool>, own_bytes: u64) -> Self {
        Self { pool: Arc::clone(pool), own_bytes, from_pool: None }
    }

    /// The pool it is fed from.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether it holds anything that others could want.
    pub(crate) fn uses_pool(&self) -> bool {
        self.pages() > 0
    }

    /// Pages that are missing for `bytes`, at most the whole pool. What is too much is given back.
    pub(crate) fn fit(&mut self, bytes: u64) -> u32 {
        let wanted = bytes.saturating_sub(self.own_bytes).div_ceil(PAGE_BYTES).min(u64::from(self.pool.total_pages)) as u32;
        let held = self.pages();
        if held > wanted {
            let surplus = self.from_pool.as_mut().and_then(|permit| permit.split((held - wanted) as usize));
            drop(surplus);
        }
        wanted.saturating_sub(held)
    }

    /// Takes in what [`Pool::take`] gave.
    pub(crate) fn add(&mut self, pages: OwnedSemaphorePermit) {
        match &mut self.from_pool {
            Some(permit) => permit.merge(pages),
            None => self.from_pool = Some(pages),
        }
    }

    /// What it has: its own bytes and those from the pool.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.own_bytes + u64::from(self.pages()) * PAGE_BYTES
    }

    fn pages(&self) -> u32 {
        self.from_pool.as_ref().map_or(0, OwnedSemaphorePermit::num_permits) as u32
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Finds out connections that hold memory others wait for and do not move.
#[derive(Debug, Default)]
pub(crate) struct StallMeter {
    moved_before: u64,
    blocked_before: bool,
}

impl StallMeter {
    /// Called once a period: `moved_bytes` is what went through the socket since the connection began, `blocked` whether the client has something to read
    /// or to send on, `wanted` whether others wait for memory that this connection holds. Says whether the connection is to be closed.
    pub(crate) fn tick(&mut self, moved_bytes: u64, blocked: bool, wanted: bool) -> bool {
        let moved = moved_bytes - self.moved_before;
        let stalled = blocked && self.blocked_before && wanted && moved < LEAST_BYTES_A_PERIOD;
        *self = Self { moved_before: moved_bytes, blocked_before: blocked };
        stalled
    }
}

/// A client that moves less in a whole period is taken for one that does not move. A guess: 2 KiB a second at the default period.
const LEAST_BYTES_A_PERIOD: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn taken(pool: &Arc<Pool>, pages: u32) -> OwnedSemaphorePermit {
        match poll(pin!(Arc::clone(pool).take(pages))) {
            Poll::Ready(permit) => permit,
            Poll::Pending => panic!("{pages} pages are there"),
        }
    }

    #[test]
    fn what_is_below_the_own_bytes_never_touches_the_pool() {
        let pool = Pool::new(1 << 20);
        let mut allowance = Allowance::new(&pool, 10_000);
        assert_eq!(allowance.fit(10_000), 0);
        assert_eq!(allowance.fit(10_001), 1);
        allowance.add(taken(&pool, 1));
        assert_eq!(allowance.fit(14_096), 0);
        assert_eq!(pool.used_bytes(), 4096);
        assert_eq!(allowance.fit(14_097), 1);
        assert_eq!(allowance.fit(5), 0);
        assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn who_waits_is_counted_until_served_or_gone() {
        let pool = Pool::new(8192);
        let mut first = Allowance::new(&pool, 0);
        assert_eq!(first.fit(8192), 2);
        first.add(taken(&pool, 2));
        {
            let mut waiting = pin!(Arc::clone(&pool).take(1));
            assert!(poll(waiting.as_mut()).is_pending());
            assert_eq!(pool.waiting(), 1);
            assert!(first.uses_pool());
            first.fit(4096);
            assert!(poll(waiting.as_mut()).is_ready());
        }
        assert_eq!(pool.waiting(), 0);
    }

    #[test]
    fn more_than_the_whole_pool_is_never_waited_for() {
        let pool = Pool::new(8192);
        assert_eq!(Allowance::new(&pool, 0).fit(1 << 30), 2);
    }

    #[test]
    fn only_a_blocked_connection_that_does_not_move_while_others_wait_is_stalled() {
        let mut meter = StallMeter::default();
        assert!(!meter.tick(0, true, true), "blocked for less than a period");
        assert!(meter.tick(10, true, true));
        assert!(!meter.tick(20, true, false), "nobody wants its memory");
        assert!(!meter.tick(20 + LEAST_BYTES_A_PERIOD, true, true), "it moved");
        assert!(!meter.tick(20 + LEAST_BYTES_A_PERIOD, false, true), "it waits for the drive");
        assert!(!meter.tick(20 + LEAST_BYTES_A_PERIOD, true, true), "blocked for less than a period");
    }
}
