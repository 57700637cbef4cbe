#![doc = include_str!("../../../../docs/policies/clook.md")]

use alloc::boxed::Box;

use headtime_units::Lba;

use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::table::PolicyEntry;

/// The table entry.
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
