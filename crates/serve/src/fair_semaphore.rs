//! A bounded number of units of something that all exports use, of which each is guaranteed a part:
//! places at the scheduler, pages of shared memory.
//!
//! An export that is held back by a limit of its own keeps what it has for as long as that limit
//! says. Were units given out first come, first served, it would end up with all of them, and
//! others would stand in line before the scheduler, which would give them their share at once. So a
//! part is kept: *the guaranteed units are divided evenly among all exports and one that may still
//! be added* (the *floor*), and nobody is given what others lack to their floors. The rest goes to
//! whoever asks.
//!
//! Example: 16,384 places, 8,192 of them guaranteed, three exports: each has a floor of 2,048, and
//! one more is kept for an export to come. An export that asks for everything is given 16,384 − 3 ×
//! 2,048 = 10,240; then each of the others still finds 2,048 at any moment.
//!
//! Who asks for more than there is waits: within an export first come, first served; between
//! exports by turns. Nobody overtakes whoever waits for the rest, so that a large acquire is not
//! starved by small ones; what lies within an export's own floor waits for none but its own.
//!
//! Guarantees: never more than all units are given out; with as many exports as there were, an
//! export finds its floor at once. When exports are added while everything else is in use, floors
//! become smaller for all, and those of the new ones are filled first from what comes back. Not
//! guaranteed: anything beyond a floor.
//!
//! Cost: one short lock for what is taken and one for what is given back, none of them held across
//! a wait. Where exports come or go, a pass over those with clients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headtime_sched::Tenant;
use tokio::sync::oneshot;

/// Units, and who has them.
#[derive(Debug)]
pub(crate) struct FairSemaphore {
    total: u32,
    guaranteed: u32,
    /// Exports there are.
    exports: Arc<AtomicUsize>,
    book: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Exports that the floor was computed for.
    exports: usize,
    floor: u32,
    used: u32,
    /// What all exports together, and one to come, lack to their floors.
    kept: u64,
    holders: BTreeMap<Tenant, Holder>,
    /// Exports that wait, in the order of their turns.
    line: VecDeque<Tenant>,
    waiting: usize,
    next_ticket: u64,
}

/// An export that has clients or units.
#[derive(Debug, Default)]
struct Holder {
    members: u32,
    used: u32,
    line: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    units: u32,
    served: oneshot::Sender<()>,
}

/// A client of an export, as far as a semaphore is concerned.
#[derive(Debug)]
pub(crate) struct FairClient {
    semaphore: Arc<FairSemaphore>,
    tenant: Tenant,
}

/// Units that were given; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    semaphore: Arc<FairSemaphore>,
    tenant: Tenant,
    units: u32,
}

/// A acquire on its way; taken back when dropped.
struct Acquire {
    semaphore: Arc<FairSemaphore>,
    tenant: Tenant,
    ticket: u64,
    units: u32,
    served: oneshot::Receiver<()>,
    over: bool,
}

impl FairSemaphore {
    /// `total` units, of which `guaranteed` are divided among as many exports as the counter says,
    /// and one more.
    pub(crate) fn new(total: u32, guaranteed: u32, exports: Arc<AtomicUsize>) -> Arc<Self> {
        assert!(guaranteed <= total, "{guaranteed} of {total} units cannot be guaranteed");
        let mut book = State::default();
        book.divide(guaranteed, exports.load(Ordering::Relaxed));
        Arc::new(Self { total, guaranteed, exports, book: Mutex::new(book) })
    }

    /// A client of `tenant` has come.
    pub(crate) fn join(self: &Arc<Self>, tenant: Tenant) -> FairClient {
        let mut book = self.book();
        book.holders.entry(tenant).or_default().members += 1;
        book.divide(self.guaranteed, self.exports.load(Ordering::Relaxed));
        FairClient { semaphore: Arc::clone(self), tenant }
    }

    /// Units given out.
    pub(crate) fn used(&self) -> u32 {
        self.book().used
    }

    /// Units of which none is kept for anybody in particular: what one export is sure to be given
    /// in the end, however many there are.
    pub(crate) fn unkept(&self) -> u32 {
        self.total - self.guaranteed
    }

    /// Clients that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.book().waiting
    }

    /// The book, computed for as many exports as there are now. Every statement leaves a book that
    /// makes sense.
    fn book(&self) -> MutexGuard<'_, State> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let exports = self.exports.load(Ordering::Relaxed);
        if book.exports != exports {
            book.divide(self.guaranteed, exports);
        }
        book
    }

    fn give_back(&self, tenant: Tenant, units: u32) {
        let mut book = self.book();
        book.give_back(tenant, units);
        book.serve(self.total, tenant);
        book.forget(tenant);
    }
}

impl State {
    fn divide(&mut self, guaranteed: u32, exports: usize) {
        self.exports = exports;
        // Exports that were removed count as long as clients have them open.
        let parts = exports.max(self.holders.len()) as u64 + 1;
        self.floor = (u64::from(guaranteed) / parts) as u32;
        let absent = parts - self.holders.len() as u64;
        let lacking = |holder: &Holder| u64::from(self.floor.saturating_sub(holder.used));
        self.kept =
            self.holders.values().map(lacking).sum::<u64>() + absent * u64::from(self.floor);
    }

    /// What `tenant` lacks to its floor.
    fn lacking(&self, tenant: Tenant) -> u32 {
        self.floor.saturating_sub(self.holders.get(&tenant).map_or(0, |holder| holder.used))
    }

    /// Whether `units` are there for `tenant` now; `first` says that nobody waits for the rest who
    /// came before.
    fn fits(&self, total: u32, tenant: Tenant, units: u32, first: bool) -> bool {
        let free = total - self.used;
        let beyond = units.saturating_sub(self.lacking(tenant));
        units <= free
            && (beyond == 0 || (first && u64::from(free) >= self.kept + u64::from(beyond)))
    }

    fn take(&mut self, tenant: Tenant, units: u32) {
        self.kept -= u64::from(self.lacking(tenant).min(units));
        self.used += units;
        self.holders.get_mut(&tenant).expect("who takes is a member").used += units;
    }

    fn give_back(&mut self, tenant: Tenant, units: u32) {
        let before = self.lacking(tenant);
        self.used -= units;
        self.holders.get_mut(&tenant).expect("who has units is in the book").used -= units;
        self.kept += u64::from(self.lacking(tenant) - before);
    }

    fn first_wish(&self, tenant: Tenant) -> Option<u32> {
        self.holders.get(&tenant)?.line.front().map(|waiter| waiter.units)
    }

    /// Gives to those who wait what is there, after `changed` gave something back or left the line.
    fn serve(&mut self, total: u32, changed: Tenant) {
        while let Some(tenant) = self.next_to_serve(total, changed) {
            let waiter = self
                .holders
                .get_mut(&tenant)
                .and_then(|holder| holder.line.pop_front())
                .expect("it waits");
            self.waiting -= 1;
            self.take(tenant, waiter.units);
            self.line.retain(|other| *other != tenant);
            if self.first_wish(tenant).is_some() {
                self.line.push_back(tenant);
            }
            waiter.served.send(()).expect("who stops waiting takes back its acquire first");
        }
    }

    fn next_to_serve(&self, total: u32, changed: Tenant) -> Option<Tenant> {
        let fits = |tenant: Tenant, first: bool| {
            self.first_wish(tenant).is_some_and(|units| self.fits(total, tenant, units, first))
        };
        if fits(changed, false) {
            return Some(changed);
        }
        // Only after exports were added is less there than is kept: then anybody may be waiting for
        // its own floor.
        if u64::from(total - self.used) < self.kept {
            return self.line.iter().copied().find(|tenant| fits(*tenant, false));
        }
        self.line.front().copied().filter(|tenant| fits(*tenant, true))
    }

    /// Drops an export that nobody has open and that has nothing.
    fn forget(&mut self, tenant: Tenant) {
        if self
            .holders
            .get(&tenant)
            .is_some_and(|holder| holder.members == 0 && holder.used == 0 && holder.line.is_empty())
        {
            self.holders.remove(&tenant);
            // Computed again at the next look.
            self.exports = usize::MAX;
        }
    }
}

impl FairClient {
    /// Units that are there now and that nobody waits for who came before.
    pub(crate) fn try_take(&self, units: u32) -> Option<Permit> {
        let mut book = self.semaphore.book();
        self.take_at_once(&mut book, units)
    }

    fn take_at_once(&self, book: &mut State, units: u32) -> Option<Permit> {
        if book.first_wish(self.tenant).is_some()
            || !book.fits(self.semaphore.total, self.tenant, units, book.line.is_empty())
        {
            return None;
        }
        book.take(self.tenant, units);
        Some(Permit { semaphore: Arc::clone(&self.semaphore), tenant: self.tenant, units })
    }

    /// Waits for units. Whoever drops the future gives up its place in the line.
    pub(crate) fn take(&self, units: u32) -> impl Future<Output = Permit> + Send + use<> {
        let mut book = self.semaphore.book();
        let acquire = match self.take_at_once(&mut book, units) {
            Some(permit) => Err(permit),
            None => Ok(self.acquire(&mut book, units)),
        };
        drop(book);
        async move {
            match acquire {
                Ok(acquire) => acquire.granted().await,
                Err(permit) => permit,
            }
        }
    }

    fn acquire(&self, book: &mut State, units: u32) -> Acquire {
        let (sender, served) = oneshot::channel();
        let ticket = book.next_ticket;
        book.next_ticket += 1;
        book.waiting += 1;
        let holder = book.holders.get_mut(&self.tenant).expect("a member is in the book");
        holder.line.push_back(Waiter { ticket, units, served: sender });
        if holder.line.len() == 1 {
            book.line.push_back(self.tenant);
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

    /// Whether somebody waits for units whom it would help if this export gave some back.
    pub(crate) fn is_wanted(&self) -> bool {
        let book = self.semaphore.book();
        book.first_wish(self.tenant).is_some()
            || (book.waiting > 0
                && book.holders.get(&self.tenant).is_some_and(|holder| holder.used > book.floor))
    }

    /// Units of which none is kept for anybody in particular ([`FairSemaphore::unkept`]).
    pub(crate) fn unkept(&self) -> u32 {
        self.semaphore.unkept()
    }
}

impl Drop for FairClient {
    fn drop(&mut self) {
        let mut book = self.semaphore.book();
        book.holders.get_mut(&self.tenant).expect("a member is in the book").members -= 1;
        book.forget(self.tenant);
    }
}

impl Permit {
    /// Units of it.
    pub(crate) fn units(&self) -> u32 {
        self.units
    }

    /// Gives back all but `units`.
    pub(crate) fn keep(&mut self, units: u32) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.units = units;
            self.semaphore.give_back(self.tenant, surplus);
        }
    }

    /// Makes one of two that the same export was given.
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
        (&mut self.served).await.expect("a acquire stays in the line until it is served");
        self.over = true;
        Permit { semaphore: Arc::clone(&self.semaphore), tenant: self.tenant, units: self.units }
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut book = self.semaphore.book();
        let holder = book.holders.get_mut(&self.tenant).expect("who waits is in the book");
        let before = holder.line.len();
        holder.line.retain(|waiter| waiter.ticket != self.ticket);
        let (left, none_left) = (holder.line.len() < before, holder.line.is_empty());
        if left {
            book.waiting -= 1;
            if none_left {
                book.line.retain(|tenant| *tenant != self.tenant);
            }
        } else {
            // It was served and nobody looked.
            book.give_back(self.tenant, self.units);
        }
        book.serve(self.semaphore.total, self.tenant);
        book.forget(self.tenant);
    }
}

#[cfg(test)]
mod tests;
