//! Earliest deadline first, equal deadlines and requests without one in C-LOOK order (SCAN-EDF).
//!
//! What it does. Of the requests that have a deadline, those with the earliest one are looked at,
//! and of these the one that a C-LOOK sweep from the end of the last command sent comes to next
//! goes. Requests without a deadline go, in C-LOOK order, only while none with a deadline is
//! queued. A request that stands in the way of an overlapping later one counts by the earlier
//! deadline of the two.
//!
//! Worked example: the last command sent ends before LBA 500. Requests wait at LBA 100 (due at 30
//! ms), 600 (due at 20 ms), 400 (due at 20 ms), 700 (due at 20 ms) and 550 (no deadline). Due at 20
//! ms are 600, 400 and 700: 600 goes, then 700, then the sweep starts again with 400. Then 100,
//! then 550.
//!
//! Guarantees that no request goes while one with an earlier deadline may go. On a drive whose
//! service times do not depend on the order that means: if any order meets all deadlines, this one
//! does. On a rotating drive they do depend on it, so it does *not* guarantee that: by ignoring
//! positions it spends the time that would have met a deadline. Once one deadline is missed others
//! follow, because the late ones still go first. Requests without a deadline starve as long as
//! requests with one keep coming; give them a late deadline if they may not.
//!
//! Cost per decision: O(log n + requests that share the earliest deadline); no estimate is asked
//! for.
//!
//! Parameters: none. One command is outstanding: a deadline that arrives waits for one service at
//! most, and P1 measured it so; the caller's limit on outstanding commands overrides it.
//!
//! Source: P1 section III-C (EDF); the order among equals is the SCAN-EDF of P4, "Prior Work", in
//! the C-LOOK direction.

use alloc::boxed::Box;

use headtime_units::Lba;

use crate::policies::clook::next_in_sweep;
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::table::PolicyEntry;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "edf",
    summary: "earliest deadline first; equal deadlines and those without one in C-LOOK order",
    source: "P1 section III-C (EDF); P4, Prior Work (SCAN-EDF)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(Edf),
};

struct Edf;

impl Policy for Edf {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(max_urgent(view).or_else(|| next_in_sweep(view)).map(|queued| queued.ticket))
    }
}

/// Of the requests with the earliest deadline the one the sweep comes to next; `None` when no
/// request has a deadline.
fn max_urgent<'a>(view: &View<'a>) -> Option<&'a Queued> {
    let earliest = view.queue.with_deadline().next()?.deadline;
    let from = view.next_lba();
    let in_sweep_order = |queued: &&Queued| -> (bool, Lba, _) {
        let start = queued.request.extent.start;
        (start < from, start, queued.ticket)
    };
    view.queue
        .with_deadline()
        .take_while(|queued| queued.deadline == earliest)
        .min_by_key(in_sweep_order)
}
