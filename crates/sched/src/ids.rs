//! [`Ids`]: the ticket of each request id.
//!
//! The table is `hashbrown`'s without a hasher of its own: the hash is one multiplication of 64 by
//! 64 bits, folded, the same in every run. The table is never iterated, so its order has no effect.
//! Colliding ids slow down their own caller only: a drive's scheduler has one caller.

use hashbrown::HashTable;

use crate::queue::Ticket;
use crate::request::RequestId;

/// The tickets of the requests held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    table: HashTable<(RequestId, Ticket)>,
}

impl Ids {
    /// The number of ids.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the table is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The ticket of an id.
    pub(crate) fn get(&self, id: RequestId) -> Option<Ticket> {
        self.table.find(hash(id), |(other, _)| *other == id).map(|(_, ticket)| *ticket)
    }

    /// Writes down the ticket of an id that is not there yet.
    pub(crate) fn insert(&mut self, id: RequestId, ticket: Ticket) {
        debug_assert!(self.get(id).is_none(), "id {} is there already", id.0);
        self.table.insert_unique(hash(id), (id, ticket), |(id, _)| hash(*id));
    }

    /// Removes an id, if present.
    pub(crate) fn remove(&mut self, id: RequestId) {
        if let Ok(entry) = self.table.find_entry(hash(id), |(other, _)| *other == id) {
            entry.remove();
        }
    }
}

/// The folded product: ids that count up, or are multiples of something, scatter in the low bits as
/// in the high ones.
fn hash(id: RequestId) -> u64 {
    let product = u128::from(id.0) * u128::from(GOLDEN);
    (product >> 64) as u64 ^ product as u64
}

/// 2⁶⁴ divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
