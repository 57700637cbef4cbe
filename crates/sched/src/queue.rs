//! The requests a policy may choose from, in every order that policies use.
//!
//! The queue holds *eligible* requests only: none of them waits for an overlapping earlier one, and
//! none is a flush. Each index has the ticket as second key, so that every order is total and the
//! same on every machine: among equals the request submitted first.
//!
//! All orders but that of arrival, and the chain of submission deadlines, are maintained from their
//! first use on: a policy that uses none of them (first come, first served) does not pay for them.
//! The order of deadlines contains only requests with a deadline.
//!
//! Cost: a request that enters or leaves costs O(log n) in the order of arrival and in each order
//! that is maintained; see [`SortedSet`].

use alloc::vec::Vec;
use core::cell::OnceCell;

use headtime_units::{Instant, Lba, Nanos};

use crate::chain::{ChainKey, DeadlineChain};
use crate::positioning::Target;
use crate::request::{Promise, Request, VolumeId};
use crate::sorted::{Ascending, Descending, SortedSet};
use crate::tunables::IoPriority;

/// The scheduler's name for a request; grows with every submission, so it is also the order of
/// arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A request as the scheduler holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The order of arrival.
    pub ticket: Ticket,
    /// The request.
    pub request: Request,
    /// The time at which it was submitted.
    pub submitted: Instant,
    /// Its predicted position.
    pub target: Target,
    /// The deadline that counts: its own, or an earlier one of a request that must wait for it.
    pub deadline: Option<Instant>,
    /// Its I/O priority: the one it was submitted with, or of the class of its tenant's terms, or
    /// [`IoPriority::DEFAULT`].
    pub priority: IoPriority,
    /// The answer to its deadline, if it asked for one.
    pub promise: Option<Promise>,
    /// Its worst-case service time; zero where the policy has none
    /// ([`Policy::worst_service`](crate::Policy::worst_service)).
    pub worst: Nanos,
}

/// Eligible requests by arrival, address, cylinder and deadline.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The requests; the content of a free slot is stale.
    slots: Vec<Queued>,
    free: Vec<Slot>,
    by_arrival: SortedSet<Key>,
    /// Those that have a deadline.
    by_deadline: OnceCell<SortedSet<(Instant, Ticket, Slot)>>,
    by_lba: OnceCell<SortedSet<(Lba, Ticket, Slot)>>,
    by_cylinder: OnceCell<SortedSet<Key>>,
    by_level: OnceCell<SortedSet<LevelKey>>,
    by_volume: OnceCell<SortedSet<Key>>,
    /// Those whose deadlines count in the chain.
    chain: OnceCell<DeadlineChain>,
}

/// A key of the order by level: the level of the priority, then the address.
type LevelKey = (u8, Lba, Ticket, Slot);

/// The index of a request in memory. It follows the ticket in every key, so it decides no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

impl Slot {
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

/// A key of the orders by cylinder, by volume and by arrival: 32 bits of cylinder or volume, 64 of
/// ticket, 32 of slot, in one number, which is compared in at most two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    fn new(cylinder: u32, ticket: Ticket, slot: Slot) -> Self {
        Self(u128::from(cylinder) << 96 | u128::from(ticket.0) << 32 | u128::from(slot.0))
    }

    /// By arrival alone.
    fn arrived(ticket: Ticket, slot: Slot) -> Self {
        Self::new(0, ticket, slot)
    }

    /// Before every request on `cylinder`, after every request on lower cylinders.
    fn start_of(cylinder: u32) -> Self {
        Self::new(cylinder, Ticket(0), Slot::FIRST)
    }

    pub(crate) fn cylinder(self) -> u32 {
        (self.0 >> 96) as u32
    }

    fn ticket(self) -> Ticket {
        Ticket((self.0 >> 32) as u64)
    }

    pub(crate) fn slot(self) -> Slot {
        Slot(self.0 as u32)
    }
}

impl Queue {
    /// The number of eligible requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_arrival.len()
    }

    /// Returns whether no request is eligible.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_arrival.is_empty()
    }

    /// The request with this ticket, if it is eligible.
    #[must_use]
    pub fn get(&self, ticket: Ticket) -> Option<&Queued> {
        self.slot_of(ticket).map(|slot| self.at(slot))
    }

    /// The request submitted first.
    #[must_use]
    pub fn oldest(&self) -> Option<&Queued> {
        self.by_arrival.first().map(|key| self.at(key.slot()))
    }

    /// All requests in the order of their arrival.
    pub fn by_arrival(&self) -> impl DoubleEndedIterator<Item = &Queued> + '_ {
        self.by_arrival.iter().map(|key| self.at(key.slot()))
    }

    /// The requests that start at `from` or after it, by ascending address.
    pub fn from_lba(&self, from: Lba) -> impl Iterator<Item = &Queued> + '_ {
        self.lbas().from(&(from, Ticket(0), Slot::FIRST)).map(|key| self.at(key.2))
    }

    /// The requests that start before `before`, by descending address; of those at one address the
    /// oldest last.
    pub fn below_lba(&self, before: Lba) -> impl Iterator<Item = &Queued> + '_ {
        self.lbas().below(&(before, Ticket(0), Slot::FIRST)).map(|key| self.at(key.2))
    }

    /// The requests at `cylinder` or further in, by ascending cylinder.
    pub fn from_cylinder(&self, cylinder: u32) -> impl Iterator<Item = &Queued> + '_ {
        self.keys_from_cylinder(cylinder).map(|key| self.at(key.slot()))
    }

    /// The requests before `cylinder`, by descending cylinder; of those on one cylinder the oldest
    /// last.
    pub fn below_cylinder(&self, cylinder: u32) -> impl Iterator<Item = &Queued> + '_ {
        self.keys_below_cylinder(cylinder).map(|key| self.at(key.slot()))
    }

    /// The requests by deadline, the earliest first; those without one follow in the order of
    /// arrival.
    pub fn by_deadline(&self) -> impl Iterator<Item = &Queued> + '_ {
        self.with_deadline().chain(self.by_arrival().filter(|queued| due(queued).is_none()))
    }

    /// The requests that have a deadline, the earliest first.
    pub fn with_deadline(&self) -> impl Iterator<Item = &Queued> + '_ {
        self.deadlines().iter().map(|key| self.at(key.2))
    }

    /// The volumes that have requests, ascending.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = VolumeId> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let volume = self.by_volume().from(&Key::start_of(from?)).next()?.cylinder();
            from = volume.checked_add(1);
            Some(VolumeId(volume))
        })
    }

    /// The requests of a volume in the order of their arrival.
    pub(crate) fn of_volume(&self, volume: VolumeId) -> impl Iterator<Item = &Queued> + '_ {
        let keys = self.by_volume().from(&Key::start_of(volume.0));
        keys.take_while(move |key| key.cylinder() == volume.0).map(|key| self.at(key.slot()))
    }

    /// Of the requests of the highest level of priority the first at `from` or after it by address,
    /// else the first of all of that level. Those whose deadlines count are at least at the level
    /// of [`IoPriority::DEFAULT`].
    pub(crate) fn next_of_highest_level(&self, from: Lba) -> Option<&Queued> {
        let by_level = self.levels();
        let first = by_level.first()?;
        let in_sweep = by_level.from(&(first.0, from, Ticket(0), Slot::FIRST)).next();
        let key = in_sweep.copied().filter(|key| key.0 == first.0).unwrap_or(first);
        Some(self.at(key.3))
    }

    /// The chain of the requests whose deadlines count.
    pub(crate) fn chain(&self) -> &DeadlineChain {
        self.chain.get_or_init(|| {
            let mut chain = DeadlineChain::default();
            for slot in self.by_arrival.iter().map(|key| key.slot()) {
                let queued = self.at(slot);
                if let Some(key) = queued.chain_key() {
                    chain.insert(slot, key, queued.worst);
                }
            }
            chain
        })
    }

    pub(crate) fn keys_from_cylinder(&self, cylinder: u32) -> Ascending<'_, Key> {
        self.cylinders().from(&Key::start_of(cylinder))
    }

    pub(crate) fn keys_below_cylinder(&self, cylinder: u32) -> Descending<'_, Key> {
        self.cylinders().below(&Key::start_of(cylinder))
    }

    /// The request in a slot that an index names.
    pub(crate) fn at(&self, slot: Slot) -> &Queued {
        &self.slots[slot.0 as usize]
    }

    pub(crate) fn insert(&mut self, queued: &Queued) {
        let ticket = queued.ticket;
        if self.by_arrival.last().is_some_and(|last| ticket <= last.ticket()) {
            assert!(self.slot_of(ticket).is_none(), "ticket {} is queued twice", ticket.0);
        }
        let slot = self.put(*queued);
        self.by_arrival.insert(Key::arrived(ticket, slot));
        if let Some(by_lba) = self.by_lba.get_mut() {
            by_lba.insert(lba_key(queued, slot));
        }
        if let Some(by_cylinder) = self.by_cylinder.get_mut() {
            by_cylinder.insert(cylinder_key(queued, slot));
        }
        if let Some(by_volume) = self.by_volume.get_mut() {
            by_volume.insert(volume_key(queued, slot));
        }
        self.enter_deadline_orders(queued, slot);
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Queued> {
        let slot = self
            .by_arrival
            .take_from(&Key::arrived(ticket, Slot::FIRST), |key| key.ticket() == ticket)?
            .slot();
        let queued = *self.at(slot);
        self.free.push(slot);
        if let Some(by_lba) = self.by_lba.get_mut() {
            by_lba.remove(&lba_key(&queued, slot));
        }
        if let Some(by_cylinder) = self.by_cylinder.get_mut() {
            by_cylinder.remove(&cylinder_key(&queued, slot));
        }
        if let Some(by_volume) = self.by_volume.get_mut() {
            by_volume.remove(&volume_key(&queued, slot));
        }
        self.leave_deadline_orders(&queued, slot);
        Some(queued)
    }

    /// Changes the effective deadline of `ticket`, if it is queued; returns whether it changed.
    pub(crate) fn set_deadline(&mut self, ticket: Ticket, deadline: Option<Instant>) -> bool {
        let Some(slot) = self.slot_of(ticket) else { return false };
        let old = *self.at(slot);
        let new = Queued { deadline, ..old };
        self.slots[slot.0 as usize] = new;
        if due(&old) == due(&new) {
            return false;
        }
        self.leave_deadline_orders(&old, slot);
        self.enter_deadline_orders(&new, slot);
        true
    }

    /// Drops the orders that not every policy uses; the next policy builds the ones it needs.
    pub(crate) fn forget_orders(&mut self) {
        self.by_deadline.take();
        self.by_lba.take();
        self.by_cylinder.take();
        self.by_level.take();
        self.by_volume.take();
        self.chain.take();
    }

    fn enter_deadline_orders(&mut self, queued: &Queued, slot: Slot) {
        if let (Some(by_deadline), Some(key)) =
            (self.by_deadline.get_mut(), deadline_key(queued, slot))
        {
            by_deadline.insert(key);
        }
        if let Some(by_level) = self.by_level.get_mut() {
            by_level.insert(level_key(queued, slot));
        }
        if let (Some(chain), Some(key)) = (self.chain.get_mut(), queued.chain_key()) {
            chain.insert(slot, key, queued.worst);
        }
    }

    fn leave_deadline_orders(&mut self, queued: &Queued, slot: Slot) {
        if let (Some(by_deadline), Some(key)) =
            (self.by_deadline.get_mut(), deadline_key(queued, slot))
        {
            by_deadline.remove(&key);
        }
        if let Some(by_level) = self.by_level.get_mut() {
            by_level.remove(&level_key(queued, slot));
        }
        if let (Some(chain), Some(key)) = (self.chain.get_mut(), queued.chain_key()) {
            chain.remove(&key);
        }
    }

    /// Checks that every index contains every request once.
    ///
    /// # Panics
    /// When an index does not: a fault of this module.
    pub fn self_check(&self) {
        let expected = self.len();
        assert_eq!(
            self.slots.len(),
            expected + self.free.len(),
            "a slot is neither in use nor free"
        );
        let with_deadline = self.by_arrival().filter(|queued| due(queued).is_some()).count();
        assert!(
            self.by_deadline.get().is_none_or(|order| order.len() == with_deadline),
            "by_deadline lost or kept a request"
        );
        let kept = [
            self.by_lba.get().map(SortedSet::len),
            self.by_cylinder.get().map(SortedSet::len),
            self.by_level.get().map(SortedSet::len),
            self.by_volume.get().map(SortedSet::len),
        ];
        let chained = self.by_arrival().filter(|queued| queued.chain_key().is_some()).count();
        assert!(
            self.chain.get().is_none_or(|chain| chain.count() == chained),
            "the chain lost or kept a request"
        );
        assert!(
            kept.into_iter().flatten().all(|len| len == expected),
            "an index lost or kept a request: {kept:?} of {expected}"
        );
        for (ticket, slot) in self.by_arrival.iter().map(|key| (key.ticket(), key.slot())) {
            let queued = self.at(slot);
            assert_eq!(queued.ticket, ticket, "a slot holds another request than the index says");
            let in_deadline = self.by_deadline.get().is_none_or(|index| {
                deadline_key(queued, slot).is_none_or(|key| index.contains(&key))
            });
            assert!(in_deadline, "by_deadline lost ticket {}", ticket.0);
            let in_lba =
                self.by_lba.get().is_none_or(|index| index.contains(&lba_key(queued, slot)));
            assert!(in_lba, "by_lba lost ticket {}", ticket.0);
            let in_cylinder = self
                .by_cylinder
                .get()
                .is_none_or(|index| index.contains(&cylinder_key(queued, slot)));
            assert!(in_cylinder, "by_cylinder lost ticket {}", ticket.0);
            let in_level =
                self.by_level.get().is_none_or(|index| index.contains(&level_key(queued, slot)));
            assert!(in_level, "by_level lost ticket {}", ticket.0);
            let in_volume =
                self.by_volume.get().is_none_or(|index| index.contains(&volume_key(queued, slot)));
            assert!(in_volume, "by_volume lost ticket {}", ticket.0);
        }
    }

    fn slot_of(&self, ticket: Ticket) -> Option<Slot> {
        let key = self.by_arrival.from(&Key::arrived(ticket, Slot::FIRST)).next()?;
        (key.ticket() == ticket).then_some(key.slot())
    }

    fn put(&mut self, queued: Queued) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.slots[slot.0 as usize] = queued;
            return slot;
        }
        self.slots.push(queued);
        Slot(
            u32::try_from(self.slots.len() - 1)
                .expect("a queue of four thousand million requests fits no memory"),
        )
    }

    fn deadlines(&self) -> &SortedSet<(Instant, Ticket, Slot)> {
        self.by_deadline.get_or_init(|| {
            let slots = self.by_arrival.iter().map(|key| key.slot());
            SortedSet::of(slots.filter_map(|slot| deadline_key(self.at(slot), slot)))
        })
    }

    fn lbas(&self) -> &SortedSet<(Lba, Ticket, Slot)> {
        self.by_lba.get_or_init(|| {
            SortedSet::of(
                self.by_arrival.iter().map(|key| lba_key(self.at(key.slot()), key.slot())),
            )
        })
    }

    fn levels(&self) -> &SortedSet<LevelKey> {
        self.by_level.get_or_init(|| {
            SortedSet::of(
                self.by_arrival.iter().map(|key| level_key(self.at(key.slot()), key.slot())),
            )
        })
    }

    fn by_volume(&self) -> &SortedSet<Key> {
        self.by_volume.get_or_init(|| {
            SortedSet::of(
                self.by_arrival.iter().map(|key| volume_key(self.at(key.slot()), key.slot())),
            )
        })
    }

    fn cylinders(&self) -> &SortedSet<Key> {
        self.by_cylinder.get_or_init(|| {
            SortedSet::of(
                self.by_arrival.iter().map(|key| cylinder_key(self.at(key.slot()), key.slot())),
            )
        })
    }
}

impl Queued {
    /// The deadline that the request brings, for itself and for those that it waits for. None if a
    /// policy with worst cases answered best effort.
    pub(crate) fn own_deadline(&self) -> Option<Instant> {
        let unprotected = self.promise == Some(Promise::BestEffort) && !self.worst.is_zero();
        self.request.deadline.filter(|_| !unprotected)
    }

    /// The deadline that a policy with a chain protects: none for a request that was answered best
    /// effort.
    pub(crate) fn protected_deadline(&self) -> Option<Instant> {
        due(self).filter(|_| self.promise != Some(Promise::BestEffort))
    }

    /// The key of a request whose deadline counts in the chain.
    pub(crate) fn chain_key(&self) -> Option<ChainKey> {
        self.protected_deadline().map(|at| (at, self.request.extent.start, self.ticket))
    }
}

/// The effective deadline, if there is one; a deadline at the end of time is none.
fn due(queued: &Queued) -> Option<Instant> {
    queued.deadline.filter(|at| *at != Instant::NEVER)
}

fn deadline_key(queued: &Queued, slot: Slot) -> Option<(Instant, Ticket, Slot)> {
    due(queued).map(|deadline| (deadline, queued.ticket, slot))
}

fn lba_key(queued: &Queued, slot: Slot) -> (Lba, Ticket, Slot) {
    (queued.request.extent.start, queued.ticket, slot)
}

fn level_key(queued: &Queued, slot: Slot) -> LevelKey {
    let own = queued.priority.rank();
    let level = match queued.protected_deadline() {
        Some(_) => own.min(IoPriority::DEFAULT.rank()),
        None => own,
    };
    (level, queued.request.extent.start, queued.ticket, slot)
}

fn volume_key(queued: &Queued, slot: Slot) -> Key {
    Key::new(queued.request.volume.0, queued.ticket, slot)
}

fn cylinder_key(queued: &Queued, slot: Slot) -> Key {
    Key::new(queued.target.start.cylinder, queued.ticket, slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::positioning::Position;
    use crate::request::{ClassId, Op, RequestId, StreamId, VolumeId};
    use alloc::vec::Vec;
    use headtime_units::{Extent, Nanos};
    use proptest::prelude::*;

    fn queued(ticket: u64, lba: u64, cylinder: u32, deadline: Option<u64>) -> Queued {
        let extent = Extent::from_numbers(lba, 1);
        let deadline = deadline.map(Instant::from_ns);
        let place = Position { cylinder, ..Position::default() };
        Queued {
            ticket: Ticket(ticket),
            request: Request {
                id: RequestId(ticket),
                volume: VolumeId(ticket as u32 % 3),
                class: ClassId(0),
                stream: StreamId(0),
                op: Op::Read,
                extent,
                fua: false,
                deadline,
            },
            submitted: Instant::ORIGIN,
            target: Target {
                op: Op::Read,
                extent,
                start: place,
                end: place,
                transfer: Nanos::ZERO,
            },
            deadline,
            priority: IoPriority::DEFAULT,
            promise: None,
            worst: Nanos::ZERO,
        }
    }

    /// Ticket, address, cylinder, deadline.
    type Row = (u64, u64, u32, u64);

    fn tickets<'a>(queued: impl Iterator<Item = &'a Queued>) -> Vec<u64> {
        queued.map(|queued| queued.ticket.0).collect()
    }

    #[test]
    fn among_equals_the_one_submitted_first_comes_first_on_the_way_up() {
        let mut queue = Queue::default();
        for entry in [queued(2, 10, 1, Some(7)), queued(0, 10, 1, Some(7)), queued(1, 10, 1, None)]
        {
            queue.insert(&entry);
        }
        assert_eq!(tickets(queue.from_lba(Lba::new(10))), [0, 1, 2]);
        assert_eq!(tickets(queue.below_lba(Lba::new(11))), [2, 1, 0]);
        assert_eq!(tickets(queue.from_cylinder(0)), [0, 1, 2]);
        assert_eq!(tickets(queue.below_cylinder(2)), [2, 1, 0]);
        assert_eq!(tickets(queue.by_deadline()), [0, 2, 1]);
        assert_eq!(tickets(queue.with_deadline()), [0, 2]);
    }

    #[test]
    fn a_deadline_that_changes_moves_the_request_in_the_order_of_deadlines() {
        let mut queue = Queue::default();
        queue.insert(&queued(0, 0, 0, None));
        queue.insert(&queued(1, 1, 0, Some(5)));
        assert!(queue.set_deadline(Ticket(0), Some(Instant::from_ns(4))));
        assert!(!queue.set_deadline(Ticket(0), Some(Instant::from_ns(4))));
        assert!(!queue.set_deadline(Ticket(9), None), "no request has this ticket");
        assert_eq!(tickets(queue.with_deadline()), [0, 1]);
        assert!(queue.set_deadline(Ticket(0), None));
        assert_eq!(tickets(queue.by_deadline()), [1, 0]);
        queue.self_check();
    }

    proptest! {
        #[test]
        fn every_order_is_what_sorting_says(
            entries in proptest::collection::vec(
                (0_u64..20, 0_u32..6, proptest::option::of(0_u64..5)),
                0..30,
            ),
            gone in proptest::collection::vec(any::<bool>(), 30),
            lba in 0_u64..21,
            cylinder in 0_u32..7,
            asked_after in 0_usize..40,
            forget in any::<bool>(),
        ) {
            let mut queue = Queue::default();
            let mut left = Vec::new();
            for (ticket, (lba, cylinder, deadline)) in entries.iter().enumerate() {
                if ticket == asked_after {
                    // From now on the orders are maintained; otherwise they are built on first use
                    // below.
                    prop_assert_eq!(
                        (queue.from_lba(Lba::new(0)).count(), queue.from_cylinder(0).count()),
                        (ticket, ticket)
                    );
                    prop_assert_eq!(queue.volumes().count(), ticket.min(3));
                    prop_assert!(queue.with_deadline().count() <= ticket);
                }
                queue.insert(&queued(ticket as u64, *lba, *cylinder, *deadline));
                left.push((ticket as u64, *lba, *cylinder, deadline.unwrap_or(u64::MAX)));
            }
            for (ticket, _) in gone.iter().enumerate().filter(|(_, gone)| **gone) {
                prop_assert_eq!(
                    queue.remove(Ticket(ticket as u64)).is_some(),
                    ticket < entries.len()
                );
            }
            left.retain(|entry| !gone[entry.0 as usize]);
            queue.self_check();
            if forget {
                queue.forget_orders();
            }

            let sorted = |key: fn(&Row) -> (u64, u64), keep: &dyn Fn(&Row) -> bool| {
                let mut kept: Vec<_> = left.iter().copied().filter(keep).collect();
                kept.sort_by_key(key);
                kept.iter().map(|entry| entry.0).collect::<Vec<u64>>()
            };
            let reversed = |mut order: Vec<u64>| {
                order.reverse();
                order
            };
            prop_assert_eq!(tickets(queue.by_arrival()), sorted(|entry| (entry.0, 0), &|_| true));
            prop_assert_eq!(
                tickets(queue.from_lba(Lba::new(lba))),
                sorted(|entry| (entry.1, entry.0), &|entry| entry.1 >= lba)
            );
            prop_assert_eq!(
                tickets(queue.below_lba(Lba::new(lba))),
                reversed(sorted(|entry| (entry.1, entry.0), &|entry| entry.1 < lba))
            );
            prop_assert_eq!(
                tickets(queue.from_cylinder(cylinder)),
                sorted(|entry| (u64::from(entry.2), entry.0), &|entry| entry.2 >= cylinder)
            );
            let below = reversed(sorted(|entry| (u64::from(entry.2), entry.0), &|entry| {
                entry.2 < cylinder
            }));
            prop_assert_eq!(tickets(queue.below_cylinder(cylinder)), below);
            prop_assert_eq!(
                tickets(queue.by_deadline()),
                sorted(|entry| (entry.3, entry.0), &|_| true)
            );
            prop_assert_eq!(
                tickets(queue.with_deadline()),
                sorted(|entry| (entry.3, entry.0), &|entry| entry.3 != u64::MAX)
            );
            prop_assert_eq!(
                tickets(queue.volumes().flat_map(|volume| queue.of_volume(volume))),
                sorted(|entry| (entry.0 % 3, entry.0), &|_| true)
            );
            prop_assert_eq!(
                queue.oldest().map(|oldest| oldest.ticket.0),
                left.iter().map(|entry| entry.0).min()
            );
        }
    }
}
