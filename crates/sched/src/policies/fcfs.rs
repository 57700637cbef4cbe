#![doc = include_str!("../../../../docs/policies/fcfs.md")]

use alloc::boxed::Box;

use crate::policy::{Choice, Policy, View};
use crate::table::PolicyEntry;

/// The table entry.
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
