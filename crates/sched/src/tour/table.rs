//! [`CostTable`]: stored costs of all pairs, for a queue that requests enter and leave.
//!
//! The cost of a pair is computed once, when the later of the two arrives. Requests have *slots*,
//! small numbers that are reused; a slot's costs are overwritten by its next request.
//!
//! Valid for costs that depend on the pair alone, as those of a latency map do. If the time of
//! departure counts (a mechanical model of an idle drive) the costs from the head must be computed
//! again.
//!
//! Every cost is stored twice, by predecessor and by successor, because insertion reads both in
//! sequence.
//!
//! Cost: 8 bytes for each pair and direction, 512 KiB for 256 slots; a request that enters writes
//! 4n numbers. A cost above 4.29 s, which no access takes, is stored as 4.29 s.

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::Nanos;

use super::Costs;

/// Costs between slots, and from the head to each slot.
#[derive(Clone, Debug, Default)]
pub struct CostTable {
    slots: usize,
    from_head: Vec<u32>,
    /// By predecessor, then by successor.
    between: Vec<u32>,
    /// By successor, then by predecessor.
    transposed: Vec<u32>,
}

impl CostTable {
    /// A table for `slots` requests; all costs are zero.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            slots,
            from_head: vec![0; slots],
            between: vec![0; slots * slots],
            transposed: vec![0; slots * slots],
        }
    }

    /// The number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Extends the table to `slots` requests if it is smaller; stored costs stay. O(slots²).
    pub fn extend(&mut self, slots: usize) {
        if slots <= self.slots {
            return;
        }
        let mut wider = Self::new(slots);
        wider.from_head[..self.slots].copy_from_slice(&self.from_head);
        for row in 0..self.slots {
            let (here, there) =
                (row * self.slots..(row + 1) * self.slots, row * slots..row * slots + self.slots);
            wider.between[there.clone()].copy_from_slice(&self.between[here.clone()]);
            wider.transposed[there].copy_from_slice(&self.transposed[here]);
        }
        *self = wider;
    }

    /// Stores the cost from the head's position.
    ///
    /// # Panics
    /// For an invalid slot, here and in the other methods.
    pub fn set_first(&mut self, to: usize, cost: Nanos) {
        self.from_head[to] = kept(cost);
    }

    /// Writes down the cost from one slot to another.
    pub fn set_between(&mut self, from: usize, to: usize, cost: Nanos) {
        let (place, turned) = (self.place(from, to), self.place(to, from));
        self.between[place] = kept(cost);
        self.transposed[turned] = kept(cost);
    }

    /// Stores the costs between the request in `slot` and each of `others`, in both directions, and
    /// from the head. O(others).
    pub fn enter(&mut self, costs: &impl Costs, slot: usize, others: &[usize]) {
        self.set_first(slot, costs.first(slot));
        for other in others {
            self.set_between(*other, slot, costs.between(*other, slot));
            self.set_between(slot, *other, costs.between(slot, *other));
        }
    }

    #[inline]
    fn place(&self, from: usize, to: usize) -> usize {
        assert!(
            from < self.slots && to < self.slots,
            "slots {from} and {to} of {}; make room with `extend`",
            self.slots
        );
        from * self.slots + to
    }
}

impl Costs for CostTable {
    #[inline]
    fn first(&self, to: usize) -> Nanos {
        Nanos::from_ns(u64::from(self.from_head[to]))
    }

    #[inline]
    fn between(&self, from: usize, to: usize) -> Nanos {
        Nanos::from_ns(u64::from(self.between[self.place(from, to)]))
    }

    #[inline]
    fn between_transposed(&self, to: usize, from: usize) -> Nanos {
        Nanos::from_ns(u64::from(self.transposed[self.place(to, from)]))
    }
}

fn kept(cost: Nanos) -> u32 {
    u32::try_from(cost.as_ns()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::trial::{Drawn, ms};
    use super::super::{Path, insert_in_order};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn room_that_grows_keeps_what_is_written_down() {
        let mut table = CostTable::new(2);
        table.set_first(1, ms(7));
        table.set_between(0, 1, ms(3));
        table.set_between(1, 0, Nanos::from_secs(9));
        table.extend(5);
        table.extend(3);
        assert_eq!((table.slots(), table.first(1), table.between(0, 1)), (5, ms(7), ms(3)));
        assert_eq!(
            table.between(1, 0),
            Nanos::from_ns(u64::from(u32::MAX)),
            "longer than any access"
        );
        assert_eq!(table.between(4, 3), Nanos::ZERO);
    }

    #[test]
    #[should_panic(expected = "slots 0 and 2 of 2; make room with `extend`")]
    fn a_slot_that_is_not_there_is_a_fault() {
        CostTable::new(2).set_between(0, 2, ms(1));
    }

    proptest! {
        /// A queue that requests enter one by one.
        #[test]
        fn a_table_answers_what_it_was_told(drawn in Drawn::of(1..12)) {
            let (mut table, mut path, mut others) =
                (CostTable::new(drawn.len()), Path::new(), Vec::new());
            for slot in 0..drawn.len() {
                table.enter(&drawn, slot, &others);
                others.push(slot);
                path.insert(&table, slot);
            }
            prop_assert_eq!(&path, &insert_in_order(&drawn, drawn.len()));
            let sent = path.order()[0];
            for other in &path.order()[1..] {
                prop_assert_eq!(
                    table.between_transposed(sent, *other),
                    drawn.between(*other, sent)
                );
            }
        }
    }
}
