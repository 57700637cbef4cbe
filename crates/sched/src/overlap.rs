//! The order of overlapping requests: of two requests that share a sector, one of which changes it,
//! the later never overtakes.
//!
//! Every request with sectors is entered on submission and leaves on completion or cancellation. A
//! request waits for the *latest* earlier ones it conflicts with, sector by sector: an earlier
//! conflict that is covered by a later change of the same sectors is already waited for by that
//! change. When the last of these leaves, the request is free. Requests wait only for earlier ones,
//! so there are no cycles.
//!
//! Worked example: read A of 0..8, write B of 4..12, read C of 8..16, write D of 4..12. B waits for
//! A, C for B, and D for C and B, but not for A, which B waits for. A leaves: B is free. B leaves:
//! C is free. C leaves: D is free. If B were cancelled while it waits, D would wait for A instead.
//!
//! Reads alone never conflict. So the order is *active* only from the first request on that changes
//! sectors; all reads held at that moment are entered then. It stays active until no such request
//! is left and so many reads have arrived since that dropping the order, and perhaps building it
//! again, is cheaper than maintaining it.
//!
//! Cost: nothing while only reads are held. Otherwise a submission visits the entries that start
//! within the longest length entered before it, O(log n + those), and stores one link for each
//! latest conflict: a thousand writes of one sector are a chain of a thousand links, not half a
//! million.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headtime_units::{Extent, Lba, Sectors};
use smallvec::SmallVec;

use crate::freeblock::without;
use crate::queue::Ticket;
use crate::request::Op;
use crate::sorted::SortedSet;

/// The order is not dropped before so many reads have come since the last change left (guess: some
/// microseconds).
const MIN_QUIET: usize = 64;

/// The waiting relations between requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverlapOrder {
    active: bool,
    /// Entries by slot; the content of a free slot is stale.
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_ticket: SortedSet<(Ticket, u32)>,
    by_start: SortedSet<(Lba, Ticket, u32)>,
    /// The longest extent entered since the order was last empty.
    longest: Sectors,
    /// Entries that change sectors.
    changes: usize,
    /// Reads entered since the last change left.
    quiet: usize,
}

type Links = SmallVec<[Ticket; 2]>;

#[derive(Clone, Debug)]
struct Entry {
    extent: Extent,
    changes_sectors: bool,
    waits_for: Links,
    awaited_by: Links,
}

impl Entry {
    fn conflicts_with(&self, extent: Extent, changes_sectors: bool) -> bool {
        (changes_sectors || self.changes_sectors) && self.extent.overlaps(extent)
    }
}

impl OverlapOrder {
    /// Returns whether the order is active. If it is not, [`OverlapOrder::activate`] must receive
    /// the reads held before a request that changes sectors is entered.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Activates the order, beginning with these reads.
    pub(crate) fn activate(&mut self, reads: impl Iterator<Item = (Ticket, Extent)>) {
        self.active = true;
        for (ticket, extent) in reads {
            self.enter(ticket, extent, Op::Read);
        }
    }

    /// Enters a request; returns whether it is free to go at once.
    pub(crate) fn enter(&mut self, ticket: Ticket, extent: Extent, op: Op) -> bool {
        let changes_sectors = op.changes_sectors();
        if !self.active {
            assert!(
                !changes_sectors,
                "ticket {} changes sectors, so the order must be kept",
                ticket.0
            );
            return true;
        }
        let waits_for = self.latest_conflicts(extent, changes_sectors);
        for other in &waits_for {
            self.entry_mut(*other).awaited_by.push(ticket);
        }
        let free = waits_for.is_empty();
        self.longest = self.longest.max(extent.len);
        self.changes += usize::from(changes_sectors);
        self.quiet = if self.changes > 0 { 0 } else { self.quiet + 1 };
        let place =
            self.put(Entry { extent, changes_sectors, waits_for, awaited_by: Links::new() });
        self.by_start.insert((extent.start, ticket, place));
        self.by_ticket.insert((ticket, place));
        free
    }

    /// Removes a request and returns the requests that this frees, in the order of arrival.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        if !self.active {
            return Vec::new();
        }
        let Some(place) = self.place_of(ticket) else { return Vec::new() };
        let entry = &mut self.entries[place as usize];
        let (waits_for, awaited_by) =
            (core::mem::take(&mut entry.waits_for), core::mem::take(&mut entry.awaited_by));
        let (start, changes_sectors) = (entry.extent.start, entry.changes_sectors);
        self.by_ticket.remove(&(ticket, place));
        self.by_start.remove(&(start, ticket, place));
        self.free.push(place);
        self.changes -= usize::from(changes_sectors);
        if self.by_ticket.is_empty() {
            self.longest = Sectors::ZERO;
        }
        for earlier in &waits_for {
            self.entry_mut(*earlier).awaited_by.retain(|waiting| *waiting != ticket);
        }
        let mut freed = Vec::new();
        for later in awaited_by {
            self.wait_instead(later, ticket, &waits_for);
            if self.waits_for(later).is_empty() {
                freed.push(later);
            }
        }
        freed.sort_unstable();
        if self.changes == 0
            && (self.by_ticket.is_empty() || self.quiet >= MIN_QUIET.max(4 * self.by_ticket.len()))
        {
            self.drop_order();
        }
        freed
    }

    /// Returns whether a read of `extent` entered now would be free to go at once.
    pub(crate) fn read_is_free(&self, extent: Extent) -> bool {
        !self.active || self.latest_conflicts(extent, false).is_empty()
    }

    /// Returns whether a request of `op` on `extent` would wait for no earlier one.
    pub(crate) fn is_free(&self, extent: Extent, op: Op) -> bool {
        !self.active || self.latest_conflicts(extent, op.changes_sectors()).is_empty()
    }

    /// The requests that `ticket` waits for directly.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> &[Ticket] {
        self.place_of(ticket).map_or(&[], |place| &self.entries[place as usize].waits_for)
    }

    /// The requests that wait for `ticket` directly.
    pub(crate) fn awaited_by(&self, ticket: Ticket) -> &[Ticket] {
        self.place_of(ticket).map_or(&[], |place| &self.entries[place as usize].awaited_by)
    }

    /// All requests that `ticket` waits for, directly or through others, in the order of arrival.
    pub(crate) fn ahead_of(&self, ticket: Ticket) -> BTreeSet<Ticket> {
        let mut ahead = BTreeSet::new();
        let mut open = self.waits_for(ticket).to_vec();
        while let Some(next) = open.pop() {
            if ahead.insert(next) {
                open.extend_from_slice(self.waits_for(next));
            }
        }
        ahead
    }

    /// The number of requests entered; `None` while the order is not active.
    pub(crate) fn len(&self) -> Option<usize> {
        self.active.then(|| self.by_ticket.len())
    }

    /// The conflicts not covered by a later conflict, latest first.
    fn latest_conflicts(&self, extent: Extent, changes_sectors: bool) -> Links {
        let mut latest = Links::new();
        if !changes_sectors && self.changes == 0 {
            return latest;
        }
        let earliest_start = Lba::new(extent.start.get().saturating_sub(self.longest.get()));
        let mut conflicts: SmallVec<[(Ticket, &Entry); 4]> = self
            .by_start
            .from(&(earliest_start, Ticket(0), 0))
            .take_while(|key| key.0 < extent.end())
            .map(|key| (key.1, &self.entries[key.2 as usize]))
            .filter(|(_, entry)| entry.conflicts_with(extent, changes_sectors))
            .collect();
        conflicts.sort_unstable_by_key(|(ticket, _)| core::cmp::Reverse(*ticket));
        let mut uncovered: SmallVec<[Extent; 4]> = SmallVec::from_slice(&[extent]);
        for (other, entry) in conflicts {
            if uncovered.iter().any(|part| part.overlaps(entry.extent)) {
                latest.push(other);
                if entry.changes_sectors {
                    uncovered = uncovered
                        .into_iter()
                        .flat_map(|part| without(part, entry.extent))
                        .collect();
                }
            }
        }
        latest
    }

    /// `later` waited for `gone`, which has left; if `gone` itself still waited, `later` waits for
    /// those in its place.
    fn wait_instead(&mut self, later: Ticket, gone: Ticket, gone_waited_for: &[Ticket]) {
        let entry = self.entry_mut(later);
        entry.waits_for.retain(|other| *other != gone);
        let (extent, changes_sectors) = (entry.extent, entry.changes_sectors);
        for earlier in gone_waited_for {
            let other = self.entry_mut(*earlier);
            if other.conflicts_with(extent, changes_sectors) && !other.awaited_by.contains(&later) {
                other.awaited_by.push(later);
                self.entry_mut(later).waits_for.push(*earlier);
            }
        }
    }

    /// Drops the remaining reads, none of which waits.
    fn drop_order(&mut self) {
        self.active = false;
        self.entries.clear();
        self.free.clear();
        self.by_ticket.clear();
        self.by_start.clear();
        (self.longest, self.quiet) = (Sectors::ZERO, 0);
    }

    fn put(&mut self, entry: Entry) -> u32 {
        if let Some(place) = self.free.pop() {
            self.entries[place as usize] = entry;
            return place;
        }
        self.entries.push(entry);
        u32::try_from(self.entries.len() - 1).expect("four thousand million requests fit no memory")
    }

    fn place_of(&self, ticket: Ticket) -> Option<u32> {
        let key = self.by_ticket.from(&(ticket, 0)).next()?;
        (key.0 == ticket).then_some(key.1)
    }

    fn entry_mut(&mut self, ticket: Ticket) -> &mut Entry {
        let place = self.place_of(ticket).expect("links name only requests that are entered");
        &mut self.entries[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// An order that is active from the start.
    fn active_order() -> OverlapOrder {
        let mut order = OverlapOrder::default();
        order.activate(core::iter::empty());
        order
    }

    #[test]
    fn a_chain_is_freed_link_by_link() {
        let mut order = active_order();
        assert!(order.enter(Ticket(1), Extent::from_numbers(0, 8), Op::Read));
        assert!(!order.enter(Ticket(2), Extent::from_numbers(4, 8), Op::Write));
        assert!(!order.enter(Ticket(3), Extent::from_numbers(8, 8), Op::Read));
        assert_eq!(
            order.ahead_of(Ticket(3)).into_iter().collect::<Vec<_>>(),
            [Ticket(1), Ticket(2)]
        );
        assert_eq!(order.leave(Ticket(1)), [Ticket(2)]);
        assert_eq!(order.leave(Ticket(2)), [Ticket(3)]);
        assert_eq!(order.leave(Ticket(3)), []);
        assert_eq!(order.len(), None, "an empty order is dropped");
    }

    #[test]
    fn reads_never_wait_for_reads() {
        let mut order = OverlapOrder::default();
        assert!(order.enter(Ticket(1), Extent::from_numbers(0, 8), Op::Read));
        assert!(order.enter(Ticket(2), Extent::from_numbers(0, 8), Op::Read));
    }

    #[test]
    fn many_writes_of_one_sector_are_a_chain_and_no_web() {
        let mut order = active_order();
        for ticket in 0..100 {
            order.enter(Ticket(ticket), Extent::from_numbers(7, 1), Op::Write);
        }
        assert!((1..100).all(|ticket| order.waits_for(Ticket(ticket)) == [Ticket(ticket - 1)]));
        assert_eq!(order.ahead_of(Ticket(99)).len(), 99);
    }

    #[test]
    fn requests_after_a_cancelled_link_wait_for_what_it_waited_for() {
        let mut order = active_order();
        order.enter(Ticket(1), Extent::from_numbers(0, 8), Op::Write);
        order.enter(Ticket(2), Extent::from_numbers(0, 8), Op::Write);
        order.enter(Ticket(3), Extent::from_numbers(4, 8), Op::Read);
        assert_eq!(order.leave(Ticket(2)), []);
        assert_eq!(order.waits_for(Ticket(3)), [Ticket(1)]);
        assert_eq!(order.leave(Ticket(1)), [Ticket(3)]);
    }

    proptest! {
        /// In any order of entering and leaving, a request is free exactly when no conflicting
        /// earlier one is left, and all requests it conflicts with are ahead of it.
        #[test]
        fn free_means_no_conflicting_earlier_request_is_left(
            requests in proptest::collection::vec((0_u64..30, 1_u64..12, any::<bool>()), 1..24),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 24),
        ) {
            let mut order = OverlapOrder::default();
            let mut live: BTreeMap<Ticket, (Extent, bool)> = BTreeMap::new();
            let mut free = BTreeSet::new();
            let conflicts_by_brute_force =
                |live: &BTreeMap<Ticket, (Extent, bool)>, ticket: Ticket| -> Vec<Ticket> {
                    let (extent, changes) = live[&ticket];
                    let conflicting =
                        |other: &(Extent, bool)| (changes || other.1) && other.0.overlaps(extent);
                    live.range(..ticket)
                        .filter(|(_, other)| conflicting(other))
                        .map(|(other, _)| *other)
                        .collect()
                };
            for (index, (start, len, changes)) in requests.into_iter().enumerate() {
                let (ticket, extent) = (Ticket(index as u64), Extent::from_numbers(start, len));
                if changes && !order.is_active() {
                    order.activate(live.iter().map(|(ticket, (extent, _))| (*ticket, *extent)));
                }
                live.insert(ticket, (extent, changes));
                if order.enter(ticket, extent, if changes { Op::Write } else { Op::Read }) {
                    free.insert(ticket);
                }
                prop_assert_eq!(
                    free.contains(&ticket),
                    conflicts_by_brute_force(&live, ticket).is_empty()
                );
            }
            for pick in picks {
                if live.is_empty() {
                    break;
                }
                // A free one leaves by completion, a waiting one by cancellation.
                let leaving = *pick.get(&live.keys().copied().collect::<Vec<_>>());
                live.remove(&leaving);
                free.remove(&leaving);
                free.extend(order.leave(leaving));
                for ticket in live.keys() {
                    let conflicts = conflicts_by_brute_force(&live, *ticket);
                    prop_assert_eq!(
                        free.contains(ticket),
                        conflicts.is_empty(),
                        "ticket {:?}",
                        ticket
                    );
                    let ahead = order.ahead_of(*ticket);
                    prop_assert!(
                        conflicts.iter().all(|other| ahead.contains(other)),
                        "ticket {:?}",
                        ticket
                    );
                }
            }
        }
    }
}
