//! A frozen queue: a batch of requests in a fixed order. Shared by three policies.
//!
//! When a batch is complete, all eligible requests are frozen into the next one, the oldest first
//! if there are more than it takes, and ordered once. A later request waits for the next batch. A
//! cancelled request is skipped.
//!
//! Guarantees that a request waits for at most the batch in service when it becomes eligible and
//! those of the requests before it: with n requests held and b to a batch, n / b batches and one
//! more. Source: P1 section V-B, 2 (FSATF); Coffman, Klimko and Ryan 1972 (FSCAN).

use alloc::vec::Vec;

use crate::policy::View;
use crate::queue::{Queued, Ticket};

/// A batch that is being served.
#[derive(Default)]
pub(crate) struct Frozen {
    /// The remaining requests, the next one last.
    left: Vec<Ticket>,
}

impl Frozen {
    /// The next request. When the batch is complete, `order` sorts the next one, at most `most`
    /// requests in the order of arrival, and returns their indices.
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
