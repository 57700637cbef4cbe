//! Shortest access time first, with the distance in addresses for the access time: the nearest
//! request of the live queue.
//!
//! What it does. When the drive takes another command, the distance in sectors from the end of the
//! last command sent to the start of every request is compared, in both directions. The smallest
//! goes; among equals the request submitted first. It is what an operating system can do that knows
//! addresses and nothing else.
//!
//! Worked example: the last command sent ends before LBA 500; requests wait at LBA 900, 480, 510
//! and 100. 510 goes (10 away); it ends before 511, so 480 is 31 away and goes, then 100 (381 from
//! 481), then 900.
//!
//! Guarantees that no request starts at a lesser distance than the one that goes. Does *not*
//! guarantee that a request ever goes: as long as nearer ones keep coming, a far one waits.
//! Distance is not time: within a cylinder it says nothing, and rotation is not looked at.
//! Deadlines are ignored.
//!
//! Cost per decision: O(log n); no estimate is asked for. Parameters: none. One command is
//! outstanding, as the paper measured it; the caller's limit overrides it.
//!
//! Source: P1 section V-B, 1 (SATF-LBN).

use alloc::boxed::Box;

use headtime_units::Lba;

use crate::policy::{Choice, Policy, View};
use crate::queue::{Queue, Queued};
use crate::table::PolicyEntry;

/// The line in the table.
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

/// The request that starts at the least distance from `from`; among equals the one submitted first.
fn nearest(queue: &Queue, from: Lba) -> Option<&Queued> {
    let behind = queue.from_lba(from).next();
    // The walk down meets the newest of an address first; the oldest is found by entering that
    // address from below.
    let before = queue
        .below_lba(from)
        .next()
        .and_then(|queued| queue.from_lba(queued.request.extent.start).next());
    behind
        .into_iter()
        .chain(before)
        .min_by_key(|queued| (queued.request.extent.start.distance(from), queued.ticket))
}
