//! Memory for requests in flight, shared by all connections.
//!
//! Each connection has a small amount of memory of its own. The rest comes from one pool, of which
//! each export is guaranteed a share ([`crate::fair_semaphore`]). A connection reserves memory
//! before it reads a payload from its socket or submits a read, so that data without memory stays
//! in the client's socket. With the default of 1 MiB a client with 256 requests of 4 KiB in flight
//! never uses the pool.
//!
//! A connection reserves memory for one request at a time, in order of arrival. While it waits, it
//! holds only the memory of its admitted requests. So a share of the pool that fits one request
//! suffices for progress, and no two connections wait for memory that the other keeps idle.
//!
//! A client that neither reads its replies nor finishes its payloads can hold its share of the pool
//! as long as no other client needs it. [`StallMeter`] detects such a client when another one
//! waits.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::config::ServeLimits;
use crate::fair_semaphore::{FairSemaphore, Permit, SemaphoreClient};

/// The unit of the pool: page counts fit the 32-bit numbers of the semaphore.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The pool that all connections share. Half of it is guaranteed to exports, or less if the longest
/// request would not fit the rest.
pub(crate) fn pool(limits: &ServeLimits, exports: Arc<AtomicUsize>) -> Arc<FairSemaphore> {
    let total = pages(limits.memory.get());
    FairSemaphore::new(total, total - unreserved_pages(limits) as u32, exports)
}

/// The pages of the pool that are guaranteed to no export.
pub(crate) fn unreserved_pages(limits: &ServeLimits) -> u64 {
    let total = pages(limits.memory.get());
    let longest = limits.longest_bytes().div_ceil(PAGE_BYTES).min(u64::from(total)) as u32;
    u64::from(longest.max(total - total / 2))
}

fn pages(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX)
}

/// The memory of one connection.
#[derive(Debug)]
pub(crate) struct MemoryAllowance {
    own_bytes: u64,
    /// The source of further memory; `None` before an export is open.
    pool: Option<SemaphoreClient>,
    from_pool: Option<Permit>,
}

impl MemoryAllowance {
    /// An allowance of `own_bytes` without a pool.
    pub(crate) fn new(own_bytes: u64) -> Self {
        Self { own_bytes, pool: None, from_pool: None }
    }

    /// Attaches the pool.
    pub(crate) fn open(&mut self, pool: SemaphoreClient) {
        self.pool = Some(pool);
    }

    /// The attached pool.
    pub(crate) fn pool(&self) -> Option<&SemaphoreClient> {
        self.pool.as_ref()
    }

    /// Returns whether it holds pool memory that others wait for.
    pub(crate) fn is_contended(&self) -> bool {
        self.pages() > 0 && self.pool.as_ref().is_some_and(SemaphoreClient::is_contended)
    }

    /// The pages that `bytes` need beyond the held ones, at most as many as one client can ever
    /// get.
    pub(crate) fn missing_pages(&self, bytes: u64) -> u32 {
        let max_pages = self.pool.as_ref().map_or(0, SemaphoreClient::unreserved);
        let requested =
            bytes.saturating_sub(self.own_bytes).div_ceil(PAGE_BYTES).min(u64::from(max_pages))
                as u32;
        requested.saturating_sub(self.pages())
    }

    /// Releases the memory that `bytes` do not need.
    pub(crate) fn keep(&mut self, bytes: u64) {
        let requested =
            bytes.saturating_sub(self.own_bytes).div_ceil(PAGE_BYTES).min(u64::from(u32::MAX))
                as u32;
        if requested == 0 {
            self.from_pool = None;
        } else if let Some(permit) = &mut self.from_pool {
            permit.keep(requested);
        }
    }

    /// Adds pages from the pool.
    pub(crate) fn add(&mut self, pages: Permit) {
        match &mut self.from_pool {
            Some(permit) => permit.merge(pages),
            None => self.from_pool = Some(pages),
        }
    }

    /// Its own bytes and those from the pool.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.own_bytes + u64::from(self.pages()) * PAGE_BYTES
    }

    fn pages(&self) -> u32 {
        self.from_pool.as_ref().map_or(0, Permit::units)
    }
}

/// Detects connections that hold memory others wait for and make no progress.
#[derive(Debug, Default)]
pub(crate) struct StallMeter {
    moved_before: u64,
    blocked_before: bool,
}

impl StallMeter {
    /// Called once per period. `moved_bytes` is the total through the socket, `blocked` says that
    /// the client has something to read or to send, `contended` that others wait for memory that
    /// this connection holds. Returns whether to close the connection.
    pub(crate) fn tick(&mut self, moved_bytes: u64, blocked: bool, contended: bool) -> bool {
        let moved = moved_bytes - self.moved_before;
        let stalled = blocked && self.blocked_before && contended && moved < MIN_BYTES_A_PERIOD;
        *self = Self { moved_before: moved_bytes, blocked_before: blocked };
        stalled
    }
}

/// A client that moves less in a whole period counts as stalled. A guess: 2 KiB/s at the default
/// period.
const MIN_BYTES_A_PERIOD: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::Tenant;

    fn allowance(pool: &Arc<FairSemaphore>, own_bytes: u64) -> MemoryAllowance {
        let mut allowance = MemoryAllowance::new(own_bytes);
        allowance.open(pool.join(Tenant::default()));
        allowance
    }

    fn fill(allowance: &mut MemoryAllowance, bytes: u64) {
        let missing = allowance.missing_pages(bytes);
        let pages =
            allowance.pool().and_then(|pool| pool.try_take(missing)).expect("they are there");
        allowance.add(pages);
    }

    #[test]
    fn what_is_below_the_own_bytes_never_touches_the_pool() {
        let pool = FairSemaphore::new(256, 0, Arc::default());
        let mut allowance = allowance(&pool, 10_000);
        assert_eq!(allowance.missing_pages(10_000), 0);
        assert_eq!(allowance.missing_pages(10_001), 1);
        fill(&mut allowance, 10_001);
        assert_eq!(allowance.missing_pages(14_096), 0);
        assert_eq!(pool.used(), 1);
        assert_eq!(allowance.missing_pages(14_097), 1);
        allowance.keep(5);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn more_than_there_is_for_anybody_is_never_waited_for() {
        assert_eq!(
            allowance(&FairSemaphore::new(4, 2, Arc::default()), 0).missing_pages(1 << 30),
            2
        );
        assert_eq!(
            MemoryAllowance::new(0).missing_pages(1 << 30),
            0,
            "before an export is open there is nothing to take it from"
        );
    }

    #[test]
    fn the_longest_request_fits_what_nobody_is_guaranteed() {
        let pool_of = |mebibytes: u64| {
            let limits = ServeLimits {
                memory: headtime_units::ByteSize::new(mebibytes << 20),
                ..ServeLimits::default()
            };
            pool(&limits, Arc::default()).unreserved()
        };
        assert_eq!(pool_of(512), 256 << 8, "half");
        assert_eq!(pool_of(48), 36 << 8, "a request of 32 MiB and four pieces");
        assert_eq!(pool_of(36), 36 << 8, "nothing is guaranteed");
    }

    #[test]
    fn only_a_blocked_connection_that_does_not_move_while_others_wait_is_stalled() {
        let mut meter = StallMeter::default();
        assert!(!meter.tick(0, true, true), "blocked for less than a period");
        assert!(meter.tick(10, true, true));
        assert!(!meter.tick(20, true, false), "no other client needs its memory");
        assert!(!meter.tick(20 + MIN_BYTES_A_PERIOD, true, true), "it moved");
        assert!(!meter.tick(20 + MIN_BYTES_A_PERIOD, false, true), "it waits for the drive");
        assert!(!meter.tick(20 + MIN_BYTES_A_PERIOD, true, true), "blocked for less than a period");
    }
}
