//! [`LiveTour`]: a path through a live queue, updated as requests come and go instead of being
//! built again.
//!
//! An arrival is inserted where it lengthens the path least. A request that leaves is removed, and
//! its neighbors become adjacent. When the first is sent, the head will be at its end, so the rest
//! of the path stays. The cost between two requests on the path is stored when they become
//! neighbors.
//!
//! A tour [with a cost table](LiveTour::remembering) computes each pair once, when the later of the
//! two arrives, and stores it in a [`CostTable`]: the path can then be rebuilt from time to time
//! from stored costs, because an insertion never moves other requests. A tour without one computes
//! only the costs that decide the place of an arrival ([`Costs::least`]), and all costs when it is
//! rebuilt.
//!
//! Worked example: on a line, the head at 0, one ms a step, requests at 9 and 5 in order of
//! arrival: the path is 5 9. Now 1 and 7 arrive: 1 5 7 9. 1 is sent; 5 is cancelled: 7 9.
//!
//! Guarantees: arrivals alone make the path of [`insert_in_order`](super::insert_in_order) in their
//! order, with or without a table. Not guaranteed: that costs are still what they were when they
//! were computed; a request that stays for long is ordered by old costs. Cost: an arrival among n
//! examines n places and computes 2n costs, or as many of them as bounds leave open; a request that
//! leaves moves n numbers. A table takes 8 n² bytes. Source: P1 section 3.2, on a live queue
//! (SATF-MAP).

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::Nanos;

use super::path::{Path, cheapest_place};
use super::{CostTable, Costs, Insertion};

/// A path through the slots of a queue.
#[derive(Clone, Debug, Default)]
pub struct LiveTour {
    /// All pairs, if they are stored.
    table: Option<CostTable>,
    chain: Chain,
    /// Free slots, the last to be used next.
    free: Vec<usize>,
}

impl LiveTour {
    /// An empty path.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty path that stores every pair.
    #[must_use]
    pub fn remembering() -> Self {
        Self { table: Some(CostTable::default()), ..Self::default() }
    }

    /// The slot of the next request; it has it until it [leaves](LiveTour::leave). Slots are small
    /// numbers that are used again.
    pub fn slot(&mut self) -> usize {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = self.path().len();
        if let Some(table) = self.table.as_mut().filter(|table| slot >= table.slots()) {
            table.extend((slot + 1).next_power_of_two().max(FEWEST_SLOTS));
        }
        slot
    }

    /// Inserts the request in `slot` where it lengthens the path least. `costs` has all requests on
    /// the path and the new one by slot.
    pub fn enter(&mut self, costs: &impl Costs, slot: usize) {
        let Some(table) = &mut self.table else { return self.chain.insert(costs, slot) };
        let others = self.chain.path.order();
        let mut answers = costs.around(slot, others).map(Vec::into_iter);
        for other in others {
            let together = answers.as_mut().and_then(Iterator::next);
            let [there, back] = together
                .unwrap_or_else(|| [costs.between(slot, *other), costs.between(*other, slot)]);
            table.set_between(slot, *other, there);
            table.set_between(*other, slot, back);
        }
        self.chain.insert(&AtHead { table, costs }, slot);
    }

    /// Removes the request in `slot`; returns whether it was the first.
    pub fn leave(&mut self, slot: usize) -> bool {
        let Some(place) = self.chain.remove(slot) else { return false };
        self.free.push(slot);
        place == 0
    }

    /// Rebuilds the path, from stored costs if there are any. `slots` are all requests on the path.
    ///
    /// # Panics
    /// When they are fewer or more.
    pub fn rebuild(&mut self, costs: &impl Costs, slots: &[usize], insertion: Insertion) {
        assert_eq!(slots.len(), self.path().len(), "a path is built again from everybody on it");
        let path = match &self.table {
            Some(table) => {
                insertion.path(&Listed { costs: &AtHead { table, costs }, slots }, slots.len())
            }
            None => insertion.path(&Listed { costs, slots }, slots.len()),
        };
        let order: Vec<usize> = path.order().iter().map(|place| slots[*place]).collect();
        self.chain = Chain { edges: vec![None; order.len()], path: Path::from(order) };
    }

    /// The path, by slots.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.chain.path
    }
}

/// A path and the costs of its steps.
#[derive(Clone, Debug, Default)]
struct Chain {
    path: Path,
    /// By place on the path, the cost from the previous request; `None` if not computed. That of
    /// the first is never used: the head moves.
    edges: Vec<Option<Nanos>>,
}

impl Chain {
    fn insert(&mut self, costs: &impl Costs, request: usize) {
        let order = self.path.order();
        for (neighbors, edge) in
            order.windows(2).zip(self.edges.iter_mut().skip(1)).filter(|(_, edge)| edge.is_none())
        {
            *edge = Some(costs.between(neighbors[0], neighbors[1]));
        }
        let first = order.first().map(|first| costs.first(*first)).unwrap_or_default();
        let edges = &self.edges;
        let (place, _) = cheapest_place(
            costs,
            order,
            |place| if place == 0 { first } else { edges[place].unwrap_or_default() },
            request,
        );
        if let Some(next) = order.get(place) {
            self.edges[place] = Some(costs.between(request, *next));
        }
        self.edges.insert(
            place,
            place.checked_sub(1).map(|before| costs.between(order[before], request)),
        );
        self.path.insert_at(place, request);
    }

    /// Removes `request`; returns its place.
    fn remove(&mut self, request: usize) -> Option<usize> {
        let place = self.path.order().iter().position(|other| *other == request)?;
        self.path.remove_at(place);
        self.edges.remove(place);
        if let Some(edge) = self.edges.get_mut(place) {
            *edge = None;
        }
        Some(place)
    }
}

/// The minimum number of slots allocated.
const FEWEST_SLOTS: usize = 16;

/// Stored costs of pairs, and current costs from the head, which moves.
struct AtHead<'a, C> {
    table: &'a CostTable,
    costs: &'a C,
}

impl<C: Costs> Costs for AtHead<'_, C> {
    fn first(&self, to: usize) -> Nanos {
        self.costs.first(to)
    }

    #[inline]
    fn between(&self, from: usize, to: usize) -> Nanos {
        self.table.between(from, to)
    }

    #[inline]
    fn between_transposed(&self, to: usize, from: usize) -> Nanos {
        self.table.between_transposed(to, from)
    }
}

/// Costs by the places of a list of slots.
struct Listed<'a, C> {
    costs: &'a C,
    slots: &'a [usize],
}

impl<C: Costs> Costs for Listed<'_, C> {
    fn first(&self, to: usize) -> Nanos {
        self.costs.first(self.slots[to])
    }

    #[inline]
    fn between(&self, from: usize, to: usize) -> Nanos {
        self.costs.between(self.slots[from], self.slots[to])
    }

    #[inline]
    fn between_transposed(&self, to: usize, from: usize) -> Nanos {
        self.costs.between_transposed(self.slots[to], self.slots[from])
    }

    #[inline]
    fn least(&self, one: usize, other: usize) -> [Nanos; 2] {
        self.costs.least(self.slots[one], self.slots[other])
    }

    fn has_bounds(&self) -> bool {
        self.costs.has_bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::super::length;
    use super::super::trial::{Bounded, ms};
    use super::*;
    use core::cell::RefCell;
    use proptest::prelude::*;

    /// The worked example.
    #[test]
    fn a_path_is_repaired_as_requests_come_and_go() {
        let places: RefCell<Vec<u64>> = RefCell::new(Vec::new());
        let costs = (
            |to: usize| ms(places.borrow()[to]),
            |from: usize, to: usize| ms(places.borrow()[from].abs_diff(places.borrow()[to])),
        );
        let mut tour = LiveTour::new();
        let enter = |tour: &mut LiveTour, place: u64| {
            let slot = tour.slot();
            if slot == places.borrow().len() {
                places.borrow_mut().push(place);
            }
            places.borrow_mut()[slot] = place;
            tour.enter(&costs, slot);
            slot
        };
        let on_path = |tour: &LiveTour| {
            tour.path().order().iter().map(|slot| places.borrow()[*slot]).collect::<Vec<_>>()
        };
        let slots = [9, 5, 1, 7].map(|place| enter(&mut tour, place));
        assert_eq!(on_path(&tour), [1, 5, 7, 9]);
        assert!(tour.leave(slots[2]) && tour.leave(slots[1]) && !tour.leave(slots[1]));
        assert_eq!(on_path(&tour), [7, 9]);
        assert_eq!(enter(&mut tour, 8), slots[1], "a slot is used again");
        assert_eq!(on_path(&tour), [7, 8, 9]);
        tour.rebuild(&costs, &[slots[0], slots[1], slots[3]], Insertion::InOrder);
        assert_eq!(on_path(&tour), [7, 8, 9]);
    }

    #[test]
    #[should_panic(expected = "a path is built again from everybody on it")]
    fn nobody_is_forgotten_when_a_path_is_built_again() {
        let costs = (|_: usize| ms(1), |_: usize, _: usize| ms(1));
        let mut tour = LiveTour::new();
        let slot = tour.slot();
        tour.enter(&costs, slot);
        tour.rebuild(&costs, &[], Insertion::InOrder);
    }

    /// Arrivals and departures by the definition: the path is measured whole for each place.
    #[derive(Default)]
    struct ByDefinition {
        order: Vec<usize>,
    }

    impl ByDefinition {
        fn enter(&mut self, costs: &impl Costs, request: usize) {
            let with = |place: usize| {
                let mut order = self.order.clone();
                order.insert(place, request);
                order
            };
            self.order = (0..=self.order.len())
                .rev()
                .map(with)
                .min_by_key(|order| length(costs, order))
                .unwrap();
        }
    }

    proptest! {
        /// Requests come and go in any order; a step sends the first, cancels another, or adds one.
        #[test]
        fn a_live_path_is_the_same_with_bounds_and_without_and_whether_it_remembers(
            drawn in Bounded::of(2..30),
            steps in proptest::collection::vec(
                (0_usize..4, any::<proptest::sample::Index>()),
                1..80,
            ),
        ) {
            let plain = &drawn.costs;
            let (mut bounded, mut asking, mut remembering) =
                (LiveTour::new(), LiveTour::new(), LiveTour::remembering());
            let mut defined = ByDefinition::default();
            for (step, index) in steps {
                if step > 0 && defined.order.len() < drawn.costs.len() {
                    let slot = bounded.slot();
                    prop_assert_eq!((asking.slot(), remembering.slot()), (slot, slot));
                    bounded.enter(&drawn, slot);
                    asking.enter(plain, slot);
                    remembering.enter(plain, slot);
                    defined.enter(plain, slot);
                } else if !defined.order.is_empty() {
                    let place = if step == 0 { index.index(defined.order.len()) } else { 0 };
                    let slot = defined.order.remove(place);
                    for tour in [&mut bounded, &mut asking, &mut remembering] {
                        prop_assert_eq!(tour.leave(slot), place == 0);
                    }
                }
                for tour in [&bounded, &asking, &remembering] {
                    prop_assert_eq!(tour.path().order(), &defined.order);
                }
            }
        }

        /// Arrivals one by one make the path of insertion in order; a rebuilt path is that of
        /// insertion of the remaining requests.
        #[test]
        fn a_live_path_is_that_of_insertion(
            bounded in Bounded::of(1..40),
            gone in proptest::collection::vec(any::<bool>(), 40),
            nearest_first in any::<bool>(),
            remembers in any::<bool>(),
        ) {
            let drawn = &bounded.costs;
            let mut tour = if remembers { LiveTour::remembering() } else { LiveTour::new() };
            for request in 0..drawn.len() {
                prop_assert_eq!(tour.slot(), request);
                tour.enter(&bounded, request);
            }
            prop_assert_eq!(tour.path(), &Insertion::InOrder.path(drawn, drawn.len()));
            let before = tour.path().order().to_vec();
            for slot in (0..drawn.len()).filter(|slot| gone[*slot]) {
                let first = tour.path().first() == Some(slot);
                prop_assert_eq!(tour.leave(slot), first);
            }
            let left: Vec<usize> = (0..drawn.len()).filter(|slot| !gone[*slot]).collect();
            prop_assert_eq!(
                tour.path().order().to_vec(),
                before.into_iter().filter(|slot| !gone[*slot]).collect::<Vec<_>>()
            );
            let insertion =
                if nearest_first { Insertion::NearestFirst } else { Insertion::InOrder };
            tour.rebuild(&bounded, &left, insertion);
            let listed = (
                |to: usize| drawn.first(left[to]),
                |from: usize, to: usize| drawn.between(left[from], left[to]),
            );
            let again = insertion.path(&listed, left.len());
            prop_assert_eq!(
                tour.path().order().to_vec(),
                again.order().iter().map(|place| left[*place]).collect::<Vec<_>>()
            );
        }
    }
}
