//! The requests a policy may choose from, in every order that policies ask for.
//!
//! The queue holds *eligible* requests only: none of them waits for an overlapping earlier one, and none is a flush. Each index holds the
//! ticket as second key, so that every order is total and the same on every machine: among equals the one submitted first.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;

use headtime_units::{Instant, Lba};

use crate::positioning::Target;
use crate::request::Request;

/// The scheduler's name for a request; grows with every submission, so it is also the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A request as the scheduler holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The order of arrival.
    pub ticket: Ticket,
    /// What was asked.
    pub request: Request,
    /// When it was submitted.
    pub submitted: Instant,
    /// Where it is believed to lie.
    pub target: Target,
    /// The deadline that counts: its own, or an earlier one of a request that must wait for it.
    pub deadline: Option<Instant>,
}

/// Eligible requests by arrival, address, cylinder and deadline.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    entries: BTreeMap<Ticket, Queued>,
    by_lba: BTreeSet<(Lba, Ticket)>,
    by_cylinder: BTreeSet<(u32, Ticket)>,
    by_deadline: BTreeSet<(Instant, Ticket)>,
}

impl Queue {
    /// How many requests may go.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none may go.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The request with this ticket, if it may go.
    #[must_use]
    pub fn get(&self, ticket: Ticket) -> Option<&Queued> {
        self.entries.get(&ticket)
    }

    /// The request submitted first.
    #[must_use]
    pub fn oldest(&self) -> Option<&Queued> {
        self.entries.values().next()
    }

    /// All requests in the order of their arrival.
    pub fn by_arrival(&self) -> impl DoubleEndedIterator<Item = &Queued> + '_ {
        self.entries.values()
    }

    /// The requests that start at `from` or after it, by ascending address.
    pub fn from_lba(&self, from: Lba) -> impl Iterator<Item = &Queued> + '_ {
        self.by_lba.range((from, Ticket(0))..).map(|key| self.entry(key.1))
    }

    /// The requests that start before `before`, by descending address; of those at one address the oldest last.
    pub fn below_lba(&self, before: Lba) -> impl Iterator<Item = &Queued> + '_ {
        self.by_lba.range(..(before, Ticket(0))).rev().map(|key| self.entry(key.1))
    }

    /// The requests at `cylinder` or further in, by ascending cylinder.
    pub fn from_cylinder(&self, cylinder: u32) -> impl Iterator<Item = &Queued> + '_ {
        self.by_cylinder.range((cylinder, Ticket(0))..).map(|key| self.entry(key.1))
    }

    /// The requests before `cylinder`, by descending cylinder; of those on one cylinder the oldest last.
    pub fn below_cylinder(&self, cylinder: u32) -> impl Iterator<Item = &Queued> + '_ {
        self.by_cylinder.range(..(cylinder, Ticket(0))).rev().map(|key| self.entry(key.1))
    }

    /// The requests by deadline, the earliest first; those without one follow in the order of arrival.
    pub fn by_deadline(&self) -> impl Iterator<Item = &Queued> + '_ {
        self.by_deadline.iter().map(|key| self.entry(key.1))
    }

    /// The requests that have a deadline, the earliest first.
    pub fn with_deadline(&self) -> impl Iterator<Item = &Queued> + '_ {
        self.by_deadline.range((Bound::Unbounded, Bound::Excluded((Instant::NEVER, Ticket(0))))).map(|key| self.entry(key.1))
    }

    pub(crate) fn insert(&mut self, queued: Queued) {
        let ticket = queued.ticket;
        self.by_lba.insert((queued.request.extent.start, ticket));
        self.by_cylinder.insert((queued.target.start.cylinder, ticket));
        self.by_deadline.insert((deadline_key(&queued), ticket));
        let before = self.entries.insert(ticket, queued);
        assert!(before.is_none(), "ticket {} is queued twice", ticket.0);
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Queued> {
        let queued = self.entries.remove(&ticket)?;
        self.by_lba.remove(&(queued.request.extent.start, ticket));
        self.by_cylinder.remove(&(queued.target.start.cylinder, ticket));
        self.by_deadline.remove(&(deadline_key(&queued), ticket));
        Some(queued)
    }

    /// Gives `ticket` another deadline that counts, if it is queued; tells whether that changed anything.
    pub(crate) fn set_deadline(&mut self, ticket: Ticket, deadline: Option<Instant>) -> bool {
        let Some(queued) = self.entries.get_mut(&ticket) else { return false };
        let before = deadline_key(queued);
        queued.deadline = deadline;
        let after = deadline_key(queued);
        if before != after {
            self.by_deadline.remove(&(before, ticket));
            self.by_deadline.insert((after, ticket));
        }
        before != after
    }

    /// Checks that every index names every request once.
    ///
    /// # Panics
    /// When one does not: a fault of this module.
    pub fn self_check(&self) {
        let expected = self.entries.len();
        assert_eq!(
            (self.by_lba.len(), self.by_cylinder.len(), self.by_deadline.len()),
            (expected, expected, expected),
            "an index lost or kept a request"
        );
        for queued in self.entries.values() {
            assert!(self.by_lba.contains(&(queued.request.extent.start, queued.ticket)), "by_lba lost ticket {}", queued.ticket.0);
            assert!(self.by_cylinder.contains(&(queued.target.start.cylinder, queued.ticket)), "by_cylinder lost ticket {}", queued.ticket.0);
            assert!(self.by_deadline.contains(&(deadline_key(queued), queued.ticket)), "by_deadline lost ticket {}", queued.ticket.0);
        }
    }

    fn entry(&self, ticket: Ticket) -> &Queued {
        self.entries.get(&ticket).expect("an index names only requests that are queued")
    }
}

fn deadline_key(queued: &Queued) -> Instant {
    queued.deadline.unwrap_or(Instant::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::positioning::Place;
    use crate::request::{Op, RequestId, StreamId, VolumeId};
    use alloc::vec::Vec;
    use headtime_units::{Extent, Nanos};
    use proptest::prelude::*;

    fn queued(ticket: u64, lba: u64, cylinder: u32, deadline: Option<u64>) -> Queued {
        let extent = Extent::from_numbers(lba, 1);
        let deadline = deadline.map(Instant::from_ns);
        let place = Place { cylinder, ..Place::default() };
        Queued {
            ticket: Ticket(ticket),
            request: Request { id: RequestId(ticket), volume: VolumeId(0), stream: StreamId(0), op: Op::Read, extent, fua: false, deadline },
            submitted: Instant::ORIGIN,
            target: Target { op: Op::Read, extent, start: place, end: place, transfer: Nanos::ZERO },
            deadline,
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
        for entry in [queued(2, 10, 1, Some(7)), queued(0, 10, 1, Some(7)), queued(1, 10, 1, None)] {
            queue.insert(entry);
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
        queue.insert(queued(0, 0, 0, None));
        queue.insert(queued(1, 1, 0, Some(5)));
        assert!(queue.set_deadline(Ticket(0), Some(Instant::from_ns(4))));
        assert!(!queue.set_deadline(Ticket(0), Some(Instant::from_ns(4))));
        assert!(!queue.set_deadline(Ticket(9), None), "nobody has this ticket");
        assert_eq!(tickets(queue.with_deadline()), [0, 1]);
        assert!(queue.set_deadline(Ticket(0), None));
        assert_eq!(tickets(queue.by_deadline()), [1, 0]);
        queue.self_check();
    }

    proptest! {
        #[test]
        fn every_order_is_what_sorting_says(
            entries in proptest::collection::vec((0_u64..20, 0_u32..6, proptest::option::of(0_u64..5)), 0..30),
            gone in proptest::collection::vec(any::<bool>(), 30),
            lba in 0_u64..21,
            cylinder in 0_u32..7,
        ) {
            let mut queue = Queue::default();
            let mut left = Vec::new();
            for (ticket, (lba, cylinder, deadline)) in entries.iter().enumerate() {
                queue.insert(queued(ticket as u64, *lba, *cylinder, *deadline));
                left.push((ticket as u64, *lba, *cylinder, deadline.unwrap_or(u64::MAX)));
            }
            for (ticket, _) in gone.iter().enumerate().filter(|(_, gone)| **gone) {
                prop_assert_eq!(queue.remove(Ticket(ticket as u64)).is_some(), ticket < entries.len());
            }
            left.retain(|entry| !gone[entry.0 as usize]);
            queue.self_check();

            let sorted = |key: fn(&Row) -> (u64, u64), keep: &dyn Fn(&Row) -> bool| {
                let mut kept: Vec<_> = left.iter().copied().filter(keep).collect();
                kept.sort_by_key(key);
                kept.iter().map(|entry| entry.0).collect::<Vec<u64>>()
            };
            let reversed = |mut order: Vec<u64>| { order.reverse(); order };
            prop_assert_eq!(tickets(queue.by_arrival()), sorted(|entry| (entry.0, 0), &|_| true));
            prop_assert_eq!(tickets(queue.from_lba(Lba::new(lba))), sorted(|entry| (entry.1, entry.0), &|entry| entry.1 >= lba));
            prop_assert_eq!(tickets(queue.below_lba(Lba::new(lba))), reversed(sorted(|entry| (entry.1, entry.0), &|entry| entry.1 < lba)));
            prop_assert_eq!(tickets(queue.from_cylinder(cylinder)), sorted(|entry| (u64::from(entry.2), entry.0), &|entry| entry.2 >= cylinder));
            let below = reversed(sorted(|entry| (u64::from(entry.2), entry.0), &|entry| entry.2 < cylinder));
            prop_assert_eq!(tickets(queue.below_cylinder(cylinder)), below);
            prop_assert_eq!(tickets(queue.by_deadline()), sorted(|entry| (entry.3, entry.0), &|_| true));
            prop_assert_eq!(tickets(queue.with_deadline()), sorted(|entry| (entry.3, entry.0), &|entry| entry.3 != u64::MAX));
            prop_assert_eq!(queue.oldest().map(|oldest| oldest.ticket.0), left.iter().map(|entry| entry.0).min());
        }
    }
}
