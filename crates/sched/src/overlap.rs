//! The order of overlapping requests: of two that share a sector and of which one changes it, the later never passes.
//!
//! Every request that holds sectors is entered on submission and leaves on completion or cancellation. A request waits for the *latest* earlier
//! ones it conflicts with, sector by sector: an earlier conflict that lies wholly behind a later change of the same sectors is waited for by that
//! change already. When the last of those it waits for leaves, the request is free. Requests only ever wait for earlier ones, so nobody
//! waits in a circle.
//!
//! Worked example: read A of 0..8, write B of 4..12, read C of 8..16, write D of 4..12. B waits for A, C for B, and D for C and B, but not for A,
//! which B waits for. A leaves: B is free. B leaves: C is free. C leaves: D is free. Were B taken back while it waits, D would wait for A in its
//! place.
//!
//! Cost: a submission looks at the entries that start at most the longest length entered before it, O(log n + those), and keeps one link for
//! each latest conflict: a thousand writes of one sector are a chain of a thousand links, not half a million.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headtime_units::{Extent, Lba, Sectors};
use smallvec::SmallVec;

use crate::queue::Ticket;

/// Who waits for whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverlapOrder {
    entries: BTreeMap<Ticket, Entry>,
    by_start: BTreeSet<(Lba, Ticket)>,
    /// The longest extent entered since nobody was.
    longest: Sectors,
}

#[derive(Clone, Debug)]
struct Entry {
    extent: Extent,
    changes_sectors: bool,
    waits_for: Vec<Ticket>,
    awaited_by: Vec<Ticket>,
}

impl Entry {
    fn conflicts_with(&self, extent: Extent, changes_sectors: bool) -> bool {
        (changes_sectors || self.changes_sectors) && self.extent.overlaps(extent)
    }
}

impl OverlapOrder {
    /// Enters a request; tells whether it is free to go at once.
    pub(crate) fn enter(&mut self, ticket: Ticket, extent: Extent, changes_sectors: bool) -> bool {
        let waits_for = self.latest_conflicts(extent, changes_sectors);
        for other in &waits_for {
            self.entry_mut(*other).awaited_by.push(ticket);
        }
        let free = waits_for.is_empty();
        self.longest = self.longest.max(extent.len);
        self.by_start.insert((extent.start, ticket));
        self.entries.insert(ticket, Entry { extent, changes_sectors, waits_for, awaited_by: Vec::new() });
        free
    }

    /// Takes a request out and returns those that are free because of it, in the order of their arrival.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        let Some(entry) = self.entries.remove(&ticket) else { return Vec::new() };
        self.by_start.remove(&(entry.extent.start, ticket));
        if self.entries.is_empty() {
            self.longest = Sectors::ZERO;
        }
        for earlier in &entry.waits_for {
            self.entry_mut(*earlier).awaited_by.retain(|waiting| *waiting != ticket);
        }
        let mut freed = Vec::new();
        for later in entry.awaited_by {
            self.wait_instead(later, ticket, &entry.waits_for);
            if self.entries[&later].waits_for.is_empty() {
                freed.push(later);
            }
        }
        freed.sort_unstable();
        freed
    }

    /// Those `ticket` waits for directly.
    pub(crate) fn waits_for(&self, ticket: Ticket) -> &[Ticket] {
        self.entries.get(&ticket).map_or(&[], |entry| &entry.waits_for)
    }

    /// Those that wait for `ticket` directly.
    pub(crate) fn awaited_by(&self, ticket: Ticket) -> &[Ticket] {
        self.entries.get(&ticket).map_or(&[], |entry| &entry.awaited_by)
    }

    /// Everyone `ticket` waits for, directly or through others, in the order of arrival.
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

    /// How many requests are entered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The conflicts that no later conflict hides, latest first.
    fn latest_conflicts(&self, extent: Extent, changes_sectors: bool) -> Vec<Ticket> {
        let earliest_start = Lba::new(extent.start.get().saturating_sub(self.longest.get()));
        let mut conflicts: Vec<(Ticket, &Entry)> = self
            .by_start
            .range((earliest_start, Ticket(0))..(extent.end(), Ticket(0)))
            .map(|key| (key.1, &self.entries[&key.1]))
            .filter(|(_, entry)| entry.conflicts_with(extent, changes_sectors))
            .collect();
        conflicts.sort_unstable_by_key(|(ticket, _)| core::cmp::Reverse(*ticket));
        let mut latest = Vec::new();
        let mut uncovered: SmallVec<[Extent; 4]> = SmallVec::from_slice(&[extent]);
        for (other, entry) in conflicts {
            if uncovered.iter().any(|part| part.overlaps(entry.extent)) {
                latest.push(other);
                if entry.changes_sectors {
                    uncovered = uncovered.into_iter().flat_map(|part| without(part, entry.extent)).collect();
                }
            }
        }
        latest
    }

    /// `later` waited for `gone`, which has left; if `gone` itself still waited, `later` waits for those in its place.
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

    fn entry_mut(&mut self, ticket: Ticket) -> &mut Entry {
        self.entries.get_mut(&ticket).expect("links name only requests that are entered")
    }
}

/// The parts of `part` that lie before and behind `covered`.
fn without(part: Extent, covered: Extent) -> impl Iterator<Item = Extent> {
    let before = (part.start < covered.start).then(|| Extent::new(part.start, part.end().min(covered.start) - part.start));
    let behind = (part.end() > covered.end()).then(|| {
        let start = part.start.max(covered.end());
        Extent::new(start, part.end() - start)
    });
    before.into_iter().chain(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_is_freed_link_by_link() {
        let mut order = OverlapOrder::default();
        assert!(order.enter(Ticket(1), Extent::from_numbers(0, 8), false));
        assert!(!order.enter(Ticket(2), Extent::from_numbers(4, 8), true));
        assert!(!order.enter(Ticket(3), Extent::from_numbers(8, 8), false));
        assert_eq!(order.ahead_of(Ticket(3)).into_iter().collect::<Vec<_>>(), [Ticket(1), Ticket(2)]);
        assert_eq!(order.leave(Ticket(1)), [Ticket(2)]);
        assert_eq!(order.leave(Ticket(2)), [Ticket(3)]);
        assert_eq!(order.leave(Ticket(3)), []);
        assert_eq!(order.len(), 0);
    }

    #[test]
    fn reads_never_wait_for_reads() {
        let mut order = OverlapOrder::default();
        assert!(order.enter(Ticket(1), Extent::from_numbers(0, 8), false));
        assert!(order.enter(Ticket(2), Extent::from_numbers(0, 8), false));
    }

    #[test]
    fn many_writes_of_one_sector_are_a_chain_and_no_web() {
        let mut order = OverlapOrder::default();
        for ticket in 0..100 {
            order.enter(Ticket(ticket), Extent::from_numbers(7, 1), true);
        }
        assert!((1..100).all(|ticket| order.waits_for(Ticket(ticket)) == [Ticket(ticket - 1)]));
        assert_eq!(order.ahead_of(Ticket(99)).len(), 99);
    }

    #[test]
    fn when_a_waiting_link_is_taken_back_those_behind_it_wait_for_what_it_waited_for() {
        let mut order = OverlapOrder::default();
        order.enter(Ticket(1), Extent::from_numbers(0, 8), true);
        order.enter(Ticket(2), Extent::from_numbers(0, 8), true);
        order.enter(Ticket(3), Extent::from_numbers(4, 8), false);
        assert_eq!(order.leave(Ticket(2)), []);
        assert_eq!(order.waits_for(Ticket(3)), [Ticket(1)]);
        assert_eq!(order.leave(Ticket(1)), [Ticket(3)]);
    }

    proptest! {
        /// Whatever is entered and in whatever order it leaves, a request is free exactly when no conflicting earlier one is left, and
        /// everyone it conflicts with is ahead of it.
        #[test]
        fn free_means_no_conflicting_earlier_request_is_left(
            requests in proptest::collection::vec((0_u64..30, 1_u64..12, any::<bool>()), 1..24),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 24),
        ) {
            let mut order = OverlapOrder::default();
            let mut live: BTreeMap<Ticket, (Extent, bool)> = BTreeMap::new();
            let mut free = BTreeSet::new();
            let conflicts_by_brute_force = |live: &BTreeMap<Ticket, (Extent, bool)>, ticket: Ticket| -> Vec<Ticket> {
                let (extent, changes) = live[&ticket];
                let conflicting = |other: &(Extent, bool)| (changes || other.1) && other.0.overlaps(extent);
                live.range(..ticket).filter(|(_, other)| conflicting(other)).map(|(other, _)| *other).collect()
            };
            for (index, (start, len, changes)) in requests.into_iter().enumerate() {
                let (ticket, extent) = (Ticket(index as u64), Extent::from_numbers(start, len));
                live.insert(ticket, (extent, changes));
                if order.enter(ticket, extent, changes) {
                    free.insert(ticket);
                }
                prop_assert_eq!(free.contains(&ticket), conflicts_by_brute_force(&live, ticket).is_empty());
            }
            for pick in picks {
                if live.is_empty() { break; }
                // A free one leaves by completion, a waiting one by cancellation.
                let leaving = *pick.get(&live.keys().copied().collect::<Vec<_>>());
                live.remove(&leaving);
                free.remove(&leaving);
                free.extend(order.leave(leaving));
                for ticket in live.keys() {
                    let conflicts = conflicts_by_brute_force(&live, *ticket);
                    prop_assert_eq!(free.contains(ticket), conflicts.is_empty(), "ticket {:?}", ticket);
                    let ahead = order.ahead_of(*ticket);
                    prop_assert!(conflicts.iter().all(|other| ahead.contains(other)), "ticket {:?}", ticket);
                }
            }
        }
    }
}
