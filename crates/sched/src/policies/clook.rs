//! Circular LOOK: requests by ascending address, and from the last one back to the first.
//!
//! What it does. Of the requests that start at or behind the address where the last command sent
//! ends, the one with the lowest address goes. When there is none, the sweep starts again from the
//! lowest address of all. Among requests at one address the one submitted first goes.
//!
//! Worked example: the last command sent ends before LBA 500; requests wait at LBA 900, 10, 500 and
//! 499. 500 goes, then 900; nothing lies behind, so the sweep starts again: 10, then 499.
//!
//! Guarantees that a request which may go and lies ahead of the sweep is served before the sweep
//! starts again, and that nearby addresses are served together. Does *not* guarantee a bound on the
//! wait: as long as a sequential client always has its next request queued, the sweep stays with
//! it. Deadlines are ignored, and so is rotation.
//!
//! Cost per decision: O(log n); no estimate is asked for. Parameters: none; two commands are
//! outstanding (docs/limits.md, table: "C-LOOK / SSTF, two").
//!
//! Source: P2 sections 2.3 and 4.3, the scheduler its prototype replaced; works by addresses alone,
//! so it needs no belief.

use alloc::boxed::Box;

use headtime_units::Lba;

use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::table::PolicyEntry;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "clook",
    summary: "circular LOOK: by ascending address, then from the lowest again",
    source: "P2 sections 2.3 and 4.3 (C-LOOK)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(Clook),
};

struct Clook;

impl Policy for Clook {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(next_in_sweep(view).map(|queued| queued.ticket))
    }
}

/// The request the sweep comes to next.
pub(crate) fn next_in_sweep<'a>(view: &View<'a>) -> Option<&'a Queued> {
    view.queue.from_lba(view.next_lba()).next().or_else(|| view.queue.from_lba(Lba::new(0)).next())
}
