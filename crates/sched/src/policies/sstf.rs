//! Shortest seek first: the request whose start is the fewest cylinders from where the head will
//! be.
//!
//! What it does. When the drive takes another command, the distance in cylinders from the end of
//! the last command sent to the start of every request is compared. The smallest distance goes;
//! among equals the request submitted first. Rotation is not looked at.
//!
//! Worked example: the last command sent ends on cylinder 50; requests wait on cylinders 20, 53, 46
//! and 47, submitted in that order. The distances are 30, 3, 4 and 3: 53 goes, because it was
//! submitted before 47. From 53 the distances are 33, 7 and 6: 47 goes, then 46, then 20.
//!
//! Guarantees that no shorter seek was to be had, as far as the belief knows the cylinders. Does
//! *not* guarantee that a request ever goes: as long as nearer ones keep coming, a far one waits.
//! Deadlines are ignored, and about half a revolution is lost on every request: of two on one
//! cylinder the older goes, not the one that comes by first.
//!
//! Cost per decision: O(log n); no estimate is asked for. Parameters: none; two commands are
//! outstanding (docs/limits.md, table: "C-LOOK / SSTF, two").
//!
//! Source: P2 sections 4.3 and 5.3, where it is the foreground scheduler that leaves the most free
//! bandwidth. By distance, which is the same as by seek time as long as seeks grow with distance.

use alloc::boxed::Box;

use crate::policy::{Choice, Policy, View};
use crate::search;
use crate::table::PolicyEntry;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "sstf",
    summary: "shortest seek first: the fewest cylinders from where the head will be",
    source: "P2 sections 4.3 and 5.3 (SSTF)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(Sstf),
};

struct Sstf;

impl Policy for Sstf {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(search::nearest(view.queue, view.head_position().cylinder))
    }
}
