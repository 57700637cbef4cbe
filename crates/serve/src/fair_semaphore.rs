//! A semaphore that all exports share and that guarantees each export a minimum number of units.
//! The units are pieces at the scheduler, pages of memory, or connections.
//!
//! An export that a limit throttles keeps its units for as long as the limit says. With first come,
//! first served it would collect all units, and other exports would wait for units although the
//! scheduler could serve them at once. Therefore *the guaranteed units are divided evenly among all
//! exports plus one that may still be added*; this is the *floor* of an export. No export gets
//! units that others need to reach their floors. The rest goes to any export.
//!
//! Example: 16,384 units, 8,192 of them guaranteed, three exports. Each export has a floor of
//! 2,048, and another 2,048 are reserved for a fourth export. One export can get at most 16,384 − 3
//! × 2,048 = 10,240 units; each of the others still finds 2,048 at any moment.
//!
//! A request for more units than available waits: first come, first served within an export, round
//! robin between exports. No export overtakes another that waits for units above its floor, so that
//! small requests do not starve a large one. Units within an export's own floor wait only for
//! requests of the same export.
//!
//! Guarantees: the units in use never exceed the total; as long as no export is added, an export
//! finds its floor at once. Adding exports while all other units are in use lowers every floor, and
//! returned units fill the floors of new exports first. Not guaranteed: units above a floor.
//!
//! Cost: one short lock for each acquisition and each release, never held across a wait. Adding or
//! removing an export takes one pass over the exports with clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use headtime_sched::Tenant;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A semaphore with guarantees per export.
#[derive(Debug)]
pub(crate) struct FairSemaphore {
    total: u32,
    guaranteed: u32,
    /// The current number of exports.
    exports: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of exports at the last computation of the floor.
    exports: usize,
    floor: u32,
    used: u32,
    /// The units that all exports, and one to be added, lack to reach their floors.
    reserved: u64,
    exports_in_use: BTreeMap<Tenant, ExportUnits>,
    /// Exports with waiting requests, in round-robin order.
    queue: VecDeque<Tenant>,
    waiting: usize,
    next_ticket: u64,
}

/// An export with clients or units.
#[derive(Debug, Default)]
struct ExportUnits {
    members: u32,
    used: u32,
    queue: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    units: u32,
    served: oneshot::Sender<()>,
}

/// A client of an export.
#[derive(Debug)]
pub(crate) struct SemaphoreClient {
    semaphore: Arc<FairSemaphore>,
    tenant: Tenant,
}

/// Acquired units, released when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    semaphore: Arc<FairSemaphore>,
    tenant: Tenant,
    units: u32,
}

/// A waiting request for units, withdrawn when dropped.
struct Acquire {
    semaphore: Arc<FairSemaphore>,
    tenant: Tenant,
    ticket: u64,
    units: u32,
    served: oneshot::Receiver<()>,
    over: bool,
}

impl FairSemaphore {
    /// A semaphore of `total` units, of which `guaranteed` are divided among the counted exports
    /// and one more.
    pub(crate) fn new(total: u32, guaranteed: u32, exports: Arc<AtomicUsize>) -> Arc<Self> {
        assert!(guaranteed <= total, "{guaranteed} of {total} units cannot be guaranteed");
        let mut state = State::default();
        state.divide(guaranteed, exports.load(Ordering::Relaxed));
        Arc::new(Self { total, guaranteed, exports, state: Mutex::new(state) })
    }

    /// Registers a client of `tenant`.
    pub(crate) fn join(self: &Arc<Self>, tenant: Tenant) -> SemaphoreClient {
        let mut state = self.state();
        state.exports_in_use.entry(tenant).or_default().members += 1;
        state.divide(self.guaranteed, self.exports.load(Ordering::Relaxed));
        SemaphoreClient { semaphore: Arc::clone(self), tenant }
    }

    /// The units in use.
    pub(crate) fn used(&self) -> u32 {
        self.state().used
    }

    /// The units without a guarantee: one export can get them in the end, however many exports
    /// there are.
    pub(crate) fn unreserved(&self) -> u32 {
        self.total - self.guaranteed
    }

    /// The number of waiting requests.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// The state, recomputed if the number of exports has changed. It is consistent after every
    /// statement.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let exports = self.exports.load(Ordering::Relaxed);
        if state.exports != exports {
            state.divide(self.guaranteed, exports);
        }
        state
    }

    fn give_back(&self, tenant: Tenant, units: u32) {
        let mut state = self.state();
        state.give_back(tenant, units);
        state.serve(self.total, tenant);
        state.forget(tenant);
    }
}

impl State {
    fn divide(&mut self, guaranteed: u32, exports: usize) {
        self.exports = exports;
        // A removed export counts as long as clients have it open.
        let parts = exports.max(self.exports_in_use.len()) as u64 + 1;
        self.floor = (u64::from(guaranteed) / parts) as u32;
        let absent = parts - self.exports_in_use.len() as u64;
        let lacking = |export: &ExportUnits| u64::from(self.floor.saturating_sub(export.used));
        self.reserved =
            self.exports_in_use.values().map(lacking).sum::<u64>() + absent * u64::from(self.floor);
    }

    /// The units that `tenant` lacks to reach its floor.
    fn lacking(&self, tenant: Tenant) -> u32 {
        self.floor.saturating_sub(self.exports_in_use.get(&tenant).map_or(0, |export| export.used))
    }

    /// Returns whether `units` are available to `tenant` now; `first` says that no other export
    /// waits for units above its floor.
    fn fits(&self, total: u32, tenant: Tenant, units: u32, first: bool) -> bool {
        let free = total - self.used;
        let beyond = units.saturating_sub(self.lacking(tenant));
        units <= free
            && (beyond == 0 || (first && u64::from(free) >= self.reserved + u64::from(beyond)))
    }

    fn take(&mut self, tenant: Tenant, units: u32) {
        self.reserved -= u64::from(self.lacking(tenant).min(units));
        self.used += units;
        self.exports_in_use
            .get_mut(&tenant)
            .expect("an export that acquires units has a client")
            .used += units;
    }

    fn give_back(&mut self, tenant: Tenant, units: u32) {
        let before = self.lacking(tenant);
        self.used -= units;
        self.exports_in_use.get_mut(&tenant).expect("an export with units has state").used -= units;
        self.reserved += u64::from(self.lacking(tenant) - before);
    }

    fn first_wish(&self, tenant: Tenant) -> Option<u32> {
        self.exports_in_use.get(&tenant)?.queue.front().map(|waiter| waiter.units)
    }

    /// Grants waiting requests what is available, after `changed` released units or stopped
    /// waiting.
    fn serve(&mut self, total: u32, changed: Tenant) {
        while let Some(tenant) = self.next_to_serve(total, changed) {
            let waiter = self
                .exports_in_use
                .get_mut(&tenant)
                .and_then(|export| export.queue.pop_front())
                .expect("it waits");
            self.waiting -= 1;
            self.take(tenant, waiter.units);
            self.queue.retain(|other| *other != tenant);
            if self.first_wish(tenant).is_some() {
                self.queue.push_back(tenant);
            }
            waiter.served.send(()).expect("a waiter that gives up is removed first");
        }
    }

    fn next_to_serve(&self, total: u32, changed: Tenant) -> Option<Tenant> {
        let fits = |tenant: Tenant, first: bool| {
            self.first_wish(tenant).is_some_and(|units| self.fits(total, tenant, units, first))
        };
        if fits(changed, false) {
            return Some(changed);
        }
        // Only after exports were added are fewer units free than guaranteed. Then any export may
        // be waiting for its own floor.
        if u64::from(total - self.used) < self.reserved {
            return self.queue.iter().copied().find(|tenant| fits(*tenant, false));
        }
        self.queue.front().copied().filter(|tenant| fits(*tenant, true))
    }

    /// Drops an export without clients and units.
    fn forget(&mut self, tenant: Tenant) {
        if self.exports_in_use.get(&tenant).is_some_and(|export| {
            export.members == 0 && export.used == 0 && export.queue.is_empty()
        }) {
            self.exports_in_use.remove(&tenant);
            // Forces a new computation at the next access.
            self.exports = usize::MAX;
        }
    }
}

impl SemaphoreClient {
    /// Acquires units if they are available and no earlier request waits for them.
    pub(crate) fn try_take(&self, units: u32) -> Option<Permit> {
        let mut state = self.semaphore.state();
        self.take_at_once(&mut state, units)
    }

    fn take_at_once(&self, state: &mut State, units: u32) -> Option<Permit> {
        if state.first_wish(self.tenant).is_some()
            || !state.fits(self.semaphore.total, self.tenant, units, state.queue.is_empty())
        {
            return None;
        }
        state.take(self.tenant, units);
        Some(Permit { semaphore: Arc::clone(&self.semaphore), tenant: self.tenant, units })
    }

    /// Waits for units. Dropping the future gives up its position in the queue.
    pub(crate) fn take(&self, units: u32) -> impl Future<Output = Permit> + Send + use<> {
        let mut state = self.semaphore.state();
        let acquire = match self.take_at_once(&mut state, units) {
            Some(permit) => Err(permit),
            None => Ok(self.acquire(&mut state, units)),
        };
        drop(state);
        async move {
            match acquire {
                Ok(acquire) => acquire.granted().await,
                Err(permit) => permit,
            }
        }
    }

    fn acquire(&self, state: &mut State, units: u32) -> Acquire {
        let (sender, served) = oneshot::channel();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting += 1;
        let export =
            state.exports_in_use.get_mut(&self.tenant).expect("a client's export has state");
        export.queue.push_back(Waiter { ticket, units, served: sender });
        if export.queue.len() == 1 {
            state.queue.push_back(self.tenant);
        }
        Acquire {
            semaphore: Arc::clone(&self.semaphore),
            tenant: self.tenant,
            ticket,
            units,
            served,
            over: false,
        }
    }

    /// Returns whether another request waits that units of this export would help.
    pub(crate) fn is_contended(&self) -> bool {
        let state = self.semaphore.state();
        state.first_wish(self.tenant).is_some()
            || (state.waiting > 0
                && state
                    .exports_in_use
                    .get(&self.tenant)
                    .is_some_and(|export| export.used > state.floor))
    }

    /// The units without a guarantee ([`FairSemaphore::unreserved`]).
    pub(crate) fn unreserved(&self) -> u32 {
        self.semaphore.unreserved()
    }
}

impl Drop for SemaphoreClient {
    fn drop(&mut self) {
        let mut state = self.semaphore.state();
        state.exports_in_use.get_mut(&self.tenant).expect("a client's export has state").members -=
            1;
        state.forget(self.tenant);
    }
}

impl Permit {
    /// The number of units.
    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Releases all but `units`.
    pub(crate) fn keep(&mut self, units: u32) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.units = units;
            self.semaphore.give_back(self.tenant, surplus);
        }
    }

    /// Splits one unit off; `None` remains of a permit of one unit.
    pub(crate) fn take_one(from: &mut Option<Self>) -> Option<Self> {
        match from {
            Some(permit) if permit.units > 1 => {
                permit.units -= 1;
                let Self { semaphore, tenant, .. } = permit;
                Some(Self { semaphore: Arc::clone(semaphore), tenant: *tenant, units: 1 })
            }
            _ => from.take(),
        }
    }

    /// Two permits of the same export as one.
    pub(crate) fn merged(mut self, other: Self) -> Self {
        self.merge(other);
        self
    }

    /// Merges two permits of the same export.
    pub(crate) fn merge(&mut self, mut other: Self) {
        assert!(
            self.tenant == other.tenant && Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "permits of two exports are not one"
        );
        self.units += std::mem::take(&mut other.units);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.keep(0);
    }
}

impl Acquire {
    async fn granted(mut self) -> Permit {
        (&mut self.served).await.expect("a request stays in the queue until it is served");
        self.over = true;
        Permit { semaphore: Arc::clone(&self.semaphore), tenant: self.tenant, units: self.units }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut state = self.semaphore.state();
        let export = state
            .exports_in_use
            .get_mut(&self.tenant)
            .expect("an export with a waiting request has state");
        let before = export.queue.len();
        export.queue.retain(|waiter| waiter.ticket != self.ticket);
        let (left, none_left) = (export.queue.len() < before, export.queue.is_empty());
        if left {
            state.waiting -= 1;
            if none_left {
                state.queue.retain(|tenant| *tenant != self.tenant);
            }
        } else {
            // It was granted, but the future was never polled again.
            state.give_back(self.tenant, self.units);
        }
        state.serve(self.semaphore.total, self.tenant);
        state.forget(self.tenant);
    }
}

#[cfg(test)]
mod tests;
