#![doc = include_str!("../../../../docs/policies/satf-lbn.md")]

use alloc::boxed::Box;

use headtime_units::Lba;

use crate::policy::{Choice, Policy, View};
use crate::queue::{Queue, Queued};
use crate::table::PolicyEntry;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "satf-lbn",
    summary: "the nearest by distance in addresses, of the live queue",
    source: "P1 section V-B, 1 (SATF-LBN)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(SatfLbn),
};

struct SatfLbn;

impl Policy for SatfLbn {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(nearest(view.queue, view.next_lba()).map(|queued| queued.ticket))
    }
}

/// The request that starts nearest to `from`; among equals the one submitted first.
fn nearest(queue: &Queue, from: Lba) -> Option<&Queued> {
    let after = queue.from_lba(from).next();
    // The walk down meets the newest of an address first; the oldest is found by entering that
    // address from below.
    let before = queue
        .below_lba(from)
        .next()
        .and_then(|queued| queue.from_lba(queued.request.extent.start).next());
    after
        .into_iter()
        .chain(before)
        .min_by_key(|queued| (queued.request.extent.start.distance(from), queued.ticket))
}
