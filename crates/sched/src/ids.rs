//! [`Ids`]: which request the caller means by an id.
//!
//! A table with open addressing: an id's place follows from its hash, and where another id has taken that, it is the next free place behind. Who leaves
//! lets those move up that had to go on past him, so no search ever passes a place that once was taken. The table is only ever asked for one id, never walked:
//! its order shows nowhere. At most half of the places are taken, so a search looks at one or two of them.
//!
//! Callers choose ids; most count them up. The hash is one multiplication of 64 by 64 bits, folded, so that ids which count up, or are multiples of
//! something, scatter alike. Whoever chooses ids to collide slows down nobody but himself: a drive's scheduler has one caller.
//!
//! Worked example, 8 places, ids of the hashes 3, 3 and 4: they stand at 3, 4 and 5. When the first leaves, the second moves to 3 and the third to 4.

use alloc::vec;
use alloc::vec::Vec;

use crate::queue::Ticket;
use crate::request::RequestId;

/// The tickets of the requests held.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    /// A power of two of them.
    places: Vec<(RequestId, Ticket)>,
    len: usize,
}

/// In place of a ticket where nobody stands; no request ever gets this one.
const NOBODY: Ticket = Ticket(u64::MAX);
const FEWEST_PLACES: usize = 16;

impl Default for Ids {
    fn default() -> Self {
        Self { places: vec![(RequestId(0), NOBODY); FEWEST_PLACES], len: 0 }
    }
}

impl Ids {
    /// How many ids there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The ticket of an id.
    pub(crate) fn get(&self, id: RequestId) -> Option<Ticket> {
        let ticket = self.places[self.place_of(id)].1;
        (ticket != NOBODY).then_some(ticket)
    }

    /// Writes down the ticket of an id that is not there yet.
    pub(crate) fn insert(&mut self, id: RequestId, ticket: Ticket) {
        if 2 * (self.len + 1) > self.places.len() {
            self.grow();
        }
        let place = self.place_of(id);
        debug_assert!(self.places[place].1 == NOBODY, "id {} is there already", id.0);
        self.places[place] = (id, ticket);
        self.len += 1;
    }

    /// Forgets an id, if it is there.
    pub(crate) fn remove(&mut self, id: RequestId) {
        let mask = self.places.len() - 1;
        let mut hole = self.place_of(id);
        if self.places[hole].1 == NOBODY {
            return;
        }
        self.len -= 1;
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let (id, ticket) = self.places[place];
            if ticket == NOBODY {
                break;
            }
            // Who stands no nearer to his own place than the hole is moves up into it.
            let from_home = place.wrapping_sub(home(id, mask)) & mask;
            if from_home >= place.wrapping_sub(hole) & mask {
                self.places[hole] = (id, ticket);
                hole = place;
            }
        }
        self.places[hole].1 = NOBODY;
    }

    /// Where the id stands, or where it would.
    fn place_of(&self, id: RequestId) -> usize {
        let mask = self.places.len() - 1;
        let mut place = home(id, mask);
        while self.places[place].1 != NOBODY && self.places[place].0 != id {
            place = (place + 1) & mask;
        }
        place
    }

    fn grow(&mut self) {
        let wider = vec![(RequestId(0), NOBODY); 2 * self.places.len()];
        let before = core::mem::replace(&mut self.places, wider);
        for (id, ticket) in before.into_iter().filter(|(_, ticket)| *ticket != NOBODY) {
            let place = self.place_of(id);
            self.places[place] = (id, ticket);
        }
    }
}

/// The place that is an id's own among `mask + 1`.
fn home(id: RequestId, mask: usize) -> usize {
    let product = u128::from(id.0) * u128::from(GOLDEN);
    ((product >> 64) as u64 ^ product as u64) as usize & mask
}

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use proptest::prelude::*;

    #[test]
    fn ids_that_count_up_or_are_multiples_scatter_over_a_table() {
        for step in [1_u64, 8, 4_096, 1 << 32, (1 << 32) + 1, 1 << 52] {
            let places: BTreeSet<usize> = (0..1_024).map(|index| home(RequestId(index * step), 1_023)).collect();
            assert!(places.len() > 384, "step {step}: 1,024 ids share {} places", places.len());
        }
    }

    /// Ids that share a place in a table of 16, some of them the last, so that rows run over the end.
    fn colliding() -> Vec<u64> {
        (0..2_000).filter(|id| [0, 1, 15].contains(&home(RequestId(*id), 15))).take(40).collect()
    }

    proptest! {
        #[test]
        fn a_table_of_ids_is_what_a_tree_is(steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..300), many in any::<bool>()) {
            let (ids, mut tree) = (colliding(), BTreeMap::new());
            let mut table = Ids::default();
            for (ticket, (pick, enters)) in steps.iter().enumerate() {
                let id = ids[pick.index(if many { ids.len() } else { 9 })];
                if *enters && !tree.contains_key(&id) {
                    table.insert(RequestId(id), Ticket(ticket as u64));
                    tree.insert(id, Ticket(ticket as u64));
                } else if !enters {
                    table.remove(RequestId(id));
                    tree.remove(&id);
                }
                prop_assert_eq!(table.len(), tree.len());
                for id in &ids {
                    prop_assert_eq!(table.get(RequestId(*id)), tree.get(id).copied(), "id {}", id);
                }
            }
        }
    }
}
