#![doc = include_str!("../../../../docs/policies/sptf.md")]
#![doc = include_str!("../../../../docs/policies/sptf-oracle.md")]

use alloc::boxed::Box;

use headtime_units::{Instant, Nanos};

use crate::policy::{Choice, Policy, View};
use crate::search;
use crate::table::PolicyEntry;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf",
    summary: "shortest positioning time first by the most likely time, two outstanding",
    source: "P2 sections 4.1.2 and 4.3 (SPTF)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(Sptf { name: ENTRY.name }),
};

/// The table entry of the oracle.
pub const ORACLE_ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf-oracle",
    summary: "sptf with the simulated drive's truth: the gain of perfect knowledge",
    source: "P2 sections 4.1.2 and 4.3 (SPTF), with the truth in place of a drive model",
    oracle: true,
    parameters: &[],
    build: |_| Box::new(Sptf { name: ORACLE_ENTRY.name }),
};

struct Sptf {
    name: &'static str,
}

impl Policy for Sptf {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let ready = view.ready_at();
        Choice::one(search::soonest(view, |likely| {
            lost_before(likely.depart, ready) + likely.positioning
        }))
    }
}

/// Overhead that is not overlapped: from the earliest possible departure to the departure.
pub(crate) fn lost_before(depart: Instant, ready: Instant) -> Nanos {
    depart.saturating_since(ready)
}
