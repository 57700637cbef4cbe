//! A frozen queue: the order of those who waited when it was made, and nobody else; no policy, but
//! what three of them share.
//!
//! When a batch is over, everybody who may go then is frozen into the next one, the oldest first
//! where there are more than it takes, and an order is made of them once. Whoever comes later waits
//! for the next batch. Who is cancelled meanwhile is left out.
//!
//! Guarantees that nobody waits for more than the batch that is being served when he may go and
//! those of them who were there before him: with n requests held and b to a batch, n / b batches
//! and one more. Source: P1 section V-B, 2 (FSATF); Coffman, Klimko and Ryan 1972 (FSCAN).

use alloc::vec::Vec;

use crate::policy::View;
use crate::queue::{Queued, Ticket};

/// A batch that is being served.
#[derive(Default)]
pub(crate) struct Frozen {
    /// Those who are left, the next one last.
    left: Vec<Ticket>,
}

impl Frozen {
    /// Who goes next. Where the batch is over, `order` makes an order of the next, which is at most
    /// `most` requests in the order of their arrival: their places in that row.
    pub(crate) fn next(
        &mut self,
        view: &View<'_>,
        most: usize,
        order: impl FnOnce(&[&Queued]) -> Vec<usize>,
    ) -> Option<Ticket> {
        while let Some(next) = self.left.last() {
            if view.queue.get(*next).is_some() {
                return Some(*next);
            }
            self.left.pop();
        }
        let batch: Vec<&Queued> = view.queue.by_arrival().take(most).collect();
        let order = order(&batch);
        assert_eq!(order.len(), batch.len(), "an order of a batch names everybody in it");
        self.left.extend(order.iter().rev().map(|place| batch[*place].ticket));
        self.left.last().copied()
    }
}
