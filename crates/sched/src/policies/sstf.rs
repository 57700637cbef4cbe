#![doc = include_str!("../../../../docs/policies/sstf.md")]

use alloc::boxed::Box;

use crate::policy::{Choice, Policy, View};
use crate::search;
use crate::table::PolicyEntry;

/// The table entry.
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
