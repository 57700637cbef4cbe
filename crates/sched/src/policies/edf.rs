#![doc = include_str!("../../../../docs/policies/edf.md")]

use alloc::boxed::Box;

use headtime_units::Lba;

use crate::policies::clook::next_in_sweep;
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::table::PolicyEntry;

/// The table entry.
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
