//! [`LiveTour`]: a path through a live queue, repaired as requests come and go instead of being built anew.
//!
//! Each pair is asked for once, when the later of the two arrives, and written down in a [`CostTable`]. An arrival is inserted where it lengthens the path least; who leaves is cut out, and his
//! neighbours close up. When the first is sent, the head will be where it ends, so that the rest of the path stands as it is. From time to time the path may be built anew from what is written
//! down: an insertion never moves anybody who is there already.
//!
//! Worked example: on a line, the head at 0, one ms a step, requests at 9 and 5 in order of arrival: the path is 5 9. Now 1 and 7 arrive: 1 5 7 9. 1 is sent; 5 is cancelled: 7 9.
//!
//! Guarantees: the path that arrivals alone make is that of [`insert_in_order`](super::insert_in_order) in the order in which they came. Not guaranteed: that costs are still what they were
//! when they were asked for; a request that stays for long is ordered by old news. Cost: an arrival among n asks for 2n costs and one more, and looks at 3n; a request that leaves moves n
//! numbers; 8 n² bytes. Source: P1 section 3.2, on a live queue (SATF-MAP).

use alloc::vec::Vec;

use headtime_units::Nanos;

use super::path::Path;
use super::{CostTable, Costs, insert_in_order, insert_nearest_first};

/// A path through the slots of a queue.
#[derive(Clone, Debug, Default)]
pub struct LiveTour {
    table: CostTable,
    path: Path,
    /// Slots that nobody has at the moment, the last to be used next.
    free: Vec<usize>,
}

impl LiveTour {
    /// Nobody on the path.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of the next request; it has it until it [leaves](LiveTour::leave). Slots are small numbers that are used again.
    pub fn slot(&mut self) -> usize {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = self.path.len();
        if slot >= self.table.slots() {
            self.table.grow((slot + 1).next_power_of_two().max(FEWEST_SLOTS));
        }
        slot
    }

    /// Puts the request in `slot` on the path where it lengthens it least. `costs` knows everybody on the path and the newcomer by their slots.
    pub fn enter(&mut self, costs: &impl Costs, slot: usize) {
        for other in self.path.order() {
            self.table.set_between(*other, slot, costs.between(*other, slot));
            self.table.set_between(slot, *other, costs.between(slot, *other));
        }
        self.path.insert(&AtHead { table: &self.table, costs }, slot);
    }

    /// Takes the request in `slot` off the path; answers whether it was the first.
    pub fn leave(&mut self, slot: usize) -> bool {
        let was_first = self.path.first() == Some(slot);
        if was_first {
            self.path.take_first();
        } else if !self.path.remove(slot) {
            return false;
        }
        self.free.push(slot);
        was_first
    }

    /// Builds the path anew from the costs written down, in the order of `slots`, or the nearest first. They are everybody on the path.
    ///
    /// # Panics
    /// When they are fewer or more.
    pub fn rebuild(&mut self, costs: &impl Costs, slots: &[usize], nearest_first: bool) {
        assert_eq!(slots.len(), self.path.len(), "a path is built anew from everybody on it");
        let listed = Listed { at_head: AtHead { table: &self.table, costs }, slots };
        let path = if nearest_first { insert_nearest_first(&listed, slots.len()) } else { insert_in_order(&listed, slots.len()) };
        self.path = Path::from(path.order().iter().map(|place| slots[*place]).collect::<Vec<_>>());
    }

    /// The path, by slots.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Room is made for so many at once.
const FEWEST_SLOTS: usize = 16;

/// What is written down of pairs, and what the costs say now from the head: that moves.
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
    fn behind(&self, to: usize, from: usize) -> Nanos {
        self.table.behind(to, from)
    }
}

/// The same by the places of a list of slots.
struct Listed<'a, C> {
    at_head: AtHead<'a, C>,
    slots: &'a [usize],
}

impl<C: Costs> Costs for Listed<'_, C> {
    fn first(&self, to: usize) -> Nanos {
        self.at_head.first(self.slots[to])
    }

    #[inline]
    fn between(&self, from: usize, to: usize) -> Nanos {
        self.at_head.between(self.slots[from], self.slots[to])
    }

    #[inline]
    fn behind(&self, to: usize, from: usize) -> Nanos {
        self.at_head.behind(self.slots[to], self.slots[from])
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Drawn, ms};
    use super::*;
    use core::cell::RefCell;
    use proptest::prelude::*;

    /// The worked example.
    #[test]
    fn a_path_is_repaired_as_requests_come_and_go() {
        let places: RefCell<Vec<u64>> = RefCell::new(Vec::new());
        let costs = (|to: usize| ms(places.borrow()[to]), |from: usize, to: usize| ms(places.borrow()[from].abs_diff(places.borrow()[to])));
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
        let on_path = |tour: &LiveTour| tour.path().order().iter().map(|slot| places.borrow()[*slot]).collect::<Vec<_>>();
        let slots = [9, 5, 1, 7].map(|place| enter(&mut tour, place));
        assert_eq!(on_path(&tour), [1, 5, 7, 9]);
        assert!(tour.leave(slots[2]) && tour.leave(slots[1]) && !tour.leave(slots[1]));
        assert_eq!(on_path(&tour), [7, 9]);
        assert_eq!(enter(&mut tour, 8), slots[1], "a slot is used again");
        assert_eq!(on_path(&tour), [7, 8, 9]);
        tour.rebuild(&costs, &[slots[0], slots[1], slots[3]], false);
        assert_eq!(on_path(&tour), [7, 8, 9]);
    }

    #[test]
    #[should_panic(expected = "a path is built anew from everybody on it")]
    fn nobody_is_forgotten_when_a_path_is_built_anew() {
        let costs = (|_: usize| ms(1), |_: usize, _: usize| ms(1));
        let mut tour = LiveTour::new();
        let slot = tour.slot();
        tour.enter(&costs, slot);
        tour.rebuild(&costs, &[], false);
    }

    proptest! {
        /// Of those who arrive one by one the path is that of insertion in order; built anew it is that of insertion among those who are left.
        #[test]
        fn a_live_path_is_that_of_insertion(drawn in Drawn::of(1..40), gone in proptest::collection::vec(any::<bool>(), 40), nearest_first in any::<bool>()) {
            let mut tour = LiveTour::new();
            for request in 0..drawn.len() {
                prop_assert_eq!(tour.slot(), request);
                tour.enter(&drawn, request);
            }
            prop_assert_eq!(tour.path(), &insert_in_order(&drawn, drawn.len()));
            let before = tour.path().order().to_vec();
            for slot in (0..drawn.len()).filter(|slot| gone[*slot]) {
                let first = tour.path().first() == Some(slot);
                prop_assert_eq!(tour.leave(slot), first);
            }
            let left: Vec<usize> = (0..drawn.len()).filter(|slot| !gone[*slot]).collect();
            prop_assert_eq!(tour.path().order().to_vec(), before.into_iter().filter(|slot| !gone[*slot]).collect::<Vec<_>>());
            tour.rebuild(&drawn, &left, nearest_first);
            let listed = (|to: usize| drawn.first(left[to]), |from: usize, to: usize| drawn.between(left[from], left[to]));
            let anew = if nearest_first { insert_nearest_first(&listed, left.len()) } else { insert_in_order(&listed, left.len()) };
            prop_assert_eq!(tour.path().order().to_vec(), anew.order().iter().map(|place| left[*place]).collect::<Vec<_>>());
        }
    }
}
