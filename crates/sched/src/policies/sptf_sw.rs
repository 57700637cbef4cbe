#![doc = include_str!("../../../../docs/policies/sptf-sw.md")]

use alloc::boxed::Box;

use crate::policies::sptf::lost_before;
use crate::policy::{Choice, Policy, View};
use crate::positioning::Likely;
use crate::search;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf-sw",
    summary: "shortest seek among those reached within n per cent of the shortest positioning \
        time, two outstanding",
    source: "P2 sections 4.3 and 5.1 (SPTF-SWn%)",
    oracle: false,
    parameters: &[WITHIN],
    build: |parameters| Box::new(SptfSw::new(parameters)),
};

const WITHIN: Parameter = Parameter {
    name: "within_percent",
    summary: "how much longer than the shortest a positioning time may be, in per cent of it",
    default: 60.0,
    min: 0.0,
    max: 10_000.0,
    whole: false,
    origin: "P2 section 5.1",
};

struct SptfSw {
    within_percent: f64,
}

impl SptfSw {
    fn new(parameters: &Parameters) -> Self {
        Self { within_percent: parameters.get(WITHIN.name) }
    }
}

impl Policy for SptfSw {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        2
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let ready = view.ready_at();
        let cost = |likely: &Likely| lost_before(likely.depart, ready) + likely.positioning;
        Choice::one(search::nearest_of_the_soonest(view, cost, self.within_percent))
    }
}
