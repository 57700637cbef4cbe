#![doc = include_str!("../../../../docs/policies/firmware.md")]

use alloc::boxed::Box;

use crate::policy::{Choice, Policy, View};
use crate::table::{Parameter, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "firmware",
    summary: "all requests handed to the drive's own queue in the order of arrival",
    source: "P1 sections V-B and V-D (TCQ4, TCQ64); P2 figure 6",
    oracle: false,
    parameters: &[Parameter {
        name: "depth",
        summary: "commands at the drive; the drive's queue depth bounds it",
        default: 64.0,
        min: 1.0,
        max: 65536.0,
        whole: true,
        origin: "P1 section V-B (TCQ64)",
    }],
    build: |parameters| Box::new(Firmware { depth: parameters.get("depth") as usize }),
};

struct Firmware {
    depth: usize,
}

impl Policy for Firmware {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.depth
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(view.queue.oldest().map(|queued| queued.ticket))
    }
}
