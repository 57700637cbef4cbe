#![doc = include_str!("../../../../docs/policies/fsatf-lbn.md")]

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headtime_units::Lba;

use crate::policies::frozen::Frozen;
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::table::PolicyEntry;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "fsatf-lbn",
    summary: "the nearest by distance in addresses, of the requests that waited when the batch \
        began",
    source: "P1 section V-B, 2 (FSATF-LBN)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(FsatfLbn::default()),
};

#[derive(Default)]
struct FsatfLbn {
    frozen: Frozen,
}

impl Policy for FsatfLbn {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(
            self.frozen.next(view, usize::MAX, |batch| nearest_first(batch, view.next_lba())),
        )
    }
}

/// The requests as places in `batch`, each the nearest to the end of the one before it; among
/// equals the one submitted first.
fn nearest_first(batch: &[&Queued], mut from: Lba) -> Vec<usize> {
    let start = |place: usize| batch[place].request.extent.start;
    let mut left: BTreeSet<(Lba, usize)> =
        (0..batch.len()).map(|place| (start(place), place)).collect();
    let mut order = Vec::with_capacity(batch.len());
    loop {
        let after = left.range((from, 0)..).next();
        // Of several at one address the walk down meets the newest first.
        let before =
            left.range(..(from, 0)).next_back().and_then(|(at, _)| left.range((*at, 0)..).next());
        let nearest =
            after.into_iter().chain(before).min_by_key(|(at, place)| (at.distance(from), *place));
        let Some((at, place)) = nearest.copied() else { return order };
        left.remove(&(at, place));
        order.push(place);
        from = batch[place].request.extent.end();
    }
}
