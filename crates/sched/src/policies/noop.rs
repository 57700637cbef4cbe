#![doc = include_str!("../../../../docs/policies/noop.md")]

use alloc::boxed::Box;

use crate::policies::elevator::{MAX_SECTORS, Merger, Merges};
use crate::policy::{Choice, Policy, View};
use crate::table::PolicyEntry;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "noop",
    summary: "Linux 2.6's NOOP: first come, first served, with requests that abut merged",
    source: "P3 sections 1 and 5 (noop)",
    oracle: false,
    parameters: &[MAX_SECTORS],
    build: |parameters| Box::new(Noop { merger: Merger::new(parameters, Merges::BackAndFront) }),
};

struct Noop {
    merger: Merger,
}

impl Policy for Noop {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        view.queue
            .oldest()
            .map_or(Choice::Nothing, |oldest| self.merger.command(view, oldest, |_| true))
    }
}
