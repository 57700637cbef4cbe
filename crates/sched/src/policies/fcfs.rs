//! First come, first served: requests go to the drive in the order they were submitted.
//!
//! What it does. The oldest request that may go is sent, wherever it lies. Nothing else is looked
//! at. It is what every other policy is compared with.
//!
//! Worked example: requests at LBA 900, 10, 500 are served as 900, 10, 500, whatever the head has
//! to travel.
//!
//! Guarantees that nobody is overtaken, except by those who had to wait for an overlapping earlier
//! request. Does *not* guarantee anything about throughput: every request pays a mean seek and half
//! a revolution. Deadlines are ignored.
//!
//! Cost per decision: O(log n). Parameters: none; two commands are outstanding, so that the
//! overhead of one hides behind the media access of the other, which leaves the order as it is
//! (docs/limits.md, table: "FCFS, two").
//!
//! Source: the NOOP of P1 section V-B, which is the kernel's without its merging.

use alloc::boxed::Box;

use crate::policy::{Choice, Policy, View};
use crate::table::PolicyEntry;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "fcfs",
    summary: "first come, first served",
    source: "P1 section V-B (NOOP), without merging",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(Fcfs),
};

struct Fcfs;

impl Policy for Fcfs {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(view.queue.oldest().map(|queued| queued.ticket))
    }
}
