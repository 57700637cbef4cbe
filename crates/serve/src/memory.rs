//! Memory for requests in flight, shared by all connections.
//!
//! Each connection has a few bytes of its own, which nobody can take from it; what it needs beyond
//! comes from one pool, of which each export is guaranteed a part ([`crate::semaphore`]). A connection
//! asks before it reads a payload from its socket or lets a read go to the drive, so that what is
//! not granted is not held anywhere: it waits in the client's socket. With the default of 1 MiB a
//! client with 256 requests of 4 KiB in flight never meets the pool, whatever others do to it.
//!
//! It asks for one request after the other, in the order they came, and while it waits it holds
//! nothing but what its requests under way need. So a part of the pool that holds one request lets
//! a client with many get on, and no two connections wait for what the other keeps idle.
//!
//! A client that neither reads its replies nor finishes its payloads can hold its part of the pool
//! for as long as nobody else wants it. When somebody waits whom it would help, [`StallMeter`]
//! finds it out.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::config::ServeLimits;
use crate::fair_semaphore::{FairClient, FairSemaphore, Permit};

/// The pool is counted in pages, so that its units fit the semaphore's numbers.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The pool that all connections share. Half of it is divided among exports, or less where the
/// longest request would not fit what is left.
pub(crate) fn pool(limits: &ServeLimits, exports: Arc<AtomicUsize>) -> Arc<FairSemaphore> {
    let total = pages(limits.memory.get());
    FairSemaphore::new(total, total - unkept_pages(limits) as u32, exports)
}

/// Pages of it that are guaranteed to nobody.
pub(crate) fn unkept_pages(limits: &ServeLimits) -> u64 {
    let total = pages(limits.memory.get());
    let longest = limits.longest_bytes().div_ceil(PAGE_BYTES).min(u64::from(total)) as u32;
    u64::from(longest.max(total - total / 2))
}

fn pages(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_BYTES).unwrap_or(u32::MAX)
}

/// What one connection may hold.
#[derive(Debug)]
pub(crate) struct Allowance {
    own_bytes: u64,
    /// Where the rest comes from; nowhere before an export is open.
    pool: Option<FairClient>,
    from_pool: Option<Permit>,
}

impl Allowance {
    /// An allowance of `own_bytes`.
    pub(crate) fn new(own_bytes: u64) -> Self {
        Self { own_bytes, pool: None, from_pool: None }
    }

    /// From now on it is fed from a pool.
    pub(crate) fn open(&mut self, pool: FairClient) {
        self.pool = Some(pool);
    }

    /// The pool it is fed from.
    pub(crate) fn pool(&self) -> Option<&FairClient> {
        self.pool.as_ref()
    }

    /// Whether it holds anything that others wait for.
    pub(crate) fn is_wanted(&self) -> bool {
        self.pages() > 0 && self.pool.as_ref().is_some_and(FairClient::is_wanted)
    }

    /// Pages that are missing for `bytes`, at most as many as there are for anybody.
    pub(crate) fn missing_pages(&self, bytes: u64) -> u32 {
        let most = self.pool.as_ref().map_or(0, FairClient::unkept);
        let wanted =
            bytes.saturating_sub(self.own_bytes).div_ceil(PAGE_BYTES).min(u64::from(most)) as u32;
        wanted.saturating_sub(self.pages())
    }

    /// Gives back what is not needed for `bytes`.
    pub(crate) fn keep(&mut self, bytes: u64) {
        let wanted =
            bytes.saturating_sub(self.own_bytes).div_ceil(PAGE_BYTES).min(u64::from(u32::MAX))
                as u32;
        if wanted == 0 {
            self.from_pool = None;
        } else if let Some(grant) = &mut self.from_pool {
            grant.keep(wanted);
        }
    }

    /// Takes in what the pool gave.
    pub(crate) fn add(&mut self, pages: Permit) {
        match &mut self.from_pool {
            Some(grant) => grant.merge(pages),
            None => self.from_pool = Some(pages),
        }
    }

    /// What it has: its own bytes and those from the pool.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.own_bytes + u64::from(self.pages()) * PAGE_BYTES
    }

    fn pages(&self) -> u32 {
        self.from_pool.as_ref().map_or(0, Permit::units)
    }
}

/// Finds out connections that hold memory others wait for and do not move.
#[derive(Debug, Default)]
pub(crate) struct StallMeter {
    moved_before: u64,
    blocked_before: bool,
}

impl StallMeter {
    /// Called once a period: `moved_bytes` is what went through the socket since the connection
    /// began, `blocked` whether the client has something to read or to send on, `wanted` whether
    /// others wait for memory that this connection holds. Says whether the connection is to be
    /// closed.
    pub(crate) fn tick(&mut self, moved_bytes: u64, blocked: bool, wanted: bool) -> bool {
        let moved = moved_bytes - self.moved_before;
        let stalled = blocked && self.blocked_before && wanted && moved < MIN_BYTES_A_PERIOD;
        *self = Self { moved_before: moved_bytes, blocked_before: blocked };
        stalled
    }
}

/// A client that moves less in a whole period is taken for one that does not move. A guess: 2 KiB a
/// second at the default period.
const MIN_BYTES_A_PERIOD: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::Tenant;

    fn allowance(pool: &Arc<FairSemaphore>, own_bytes: u64) -> Allowance {
        let mut allowance = Allowance::new(own_bytes);
        allowance.open(pool.join(Tenant::default()));
        allowance
    }

    fn fill(allowance: &mut Allowance, bytes: u64) {
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
            Allowance::new(0).missing_pages(1 << 30),
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
            pool(&limits, Arc::default()).unkept()
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
        assert!(!meter.tick(20, true, false), "nobody wants its memory");
        assert!(!meter.tick(20 + MIN_BYTES_A_PERIOD, true, true), "it moved");
        assert!(!meter.tick(20 + MIN_BYTES_A_PERIOD, false, true), "it waits for the drive");
        assert!(!meter.tick(20 + MIN_BYTES_A_PERIOD, true, true), "blocked for less than a period");
    }
}
