//! As `satf-lbn`, on a frozen queue: the nearest by distance in addresses among those who waited
//! when the batch began.
//!
//! What it does. Everybody who waits is frozen into a batch and put in an order: from where the
//! last command sent ends the nearest first, and so on from the end of each. The batch is served in
//! that order; whoever comes meanwhile waits for the next batch.
//!
//! Worked example: the last command sent ends before LBA 500; requests wait at LBA 900, 480, 510
//! and 100: the order is 510, 480, 100, 900. While 510 is served one for LBA 482 arrives: it goes
//! after 900, though 480 is next to it.
//!
//! Guarantees that nobody waits for more than two batches: the one that is being served and his
//! own. Does *not* guarantee throughput: at the end of a batch few are left to choose from.
//! Deadlines are ignored.
//!
//! Cost: O(n log n) for a batch of n, O(log n) per decision otherwise; no estimate is asked for.
//! Parameters: none. One command is outstanding, as the paper measured it.
//!
//! Source: P1 section V-B, 2 (FSATF-LBN).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use headtime_units::Lba;

use crate::policies::frozen::Frozen;
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::table::PolicyEntry;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "fsatf-lbn",
    summary: "the nearest by distance in addresses, of those who waited when the batch began",
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
        let behind = left.range((from, 0)..).next();
        // Of several at one address the walk down meets the newest first.
        let before =
            left.range(..(from, 0)).next_back().and_then(|(at, _)| left.range((*at, 0)..).next());
        let nearest =
            behind.into_iter().chain(before).min_by_key(|(at, place)| (at.distance(from), *place));
        let Some((at, place)) = nearest.copied() else { return order };
        left.remove(&(at, place));
        order.push(place);
        from = batch[place].request.extent.end();
    }
}
