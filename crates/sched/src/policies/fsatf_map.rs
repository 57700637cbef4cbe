#![doc = include_str!("../../../../docs/policies/fsatf-map.md")]
#![doc = include_str!("../../../../docs/policies/fsatf-map-exact.md")]

use alloc::boxed::Box;

use crate::policies::frozen::Frozen;
use crate::policies::pairs::{Pairs, targets};
use crate::policies::satf_map::{NEAREST_FIRST, PLAN_MAX, insertion};
use crate::policy::{Choice, Policy, View};
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tour::{Insertion, SHORTEST_MAX, shortest};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "fsatf-map",
    summary: "a short path through the requests that waited when the batch began, by nearest \
        insertion",
    source: "P1 sections III-B and V-B, 4 (FSATF-MAP)",
    oracle: false,
    parameters: &[NEAREST_FIRST, PLAN_MAX],
    build: |parameters| Box::new(FsatfMap::new(ENTRY.name, parameters, 0)),
};

/// The table entry of the exact variant.
pub const EXACT_ENTRY: PolicyEntry = PolicyEntry {
    name: "fsatf-map-exact",
    summary: "the shortest path through the requests that waited when the batch began; \
        insertion for large ones",
    source: "P1 sections III-B and V-B, 5 (FSATF-MAP-EXACT)",
    oracle: false,
    parameters: &[EXACT_MAX, NEAREST_FIRST, PLAN_MAX],
    build: |parameters| {
        Box::new(FsatfMap::new(
            EXACT_ENTRY.name,
            parameters,
            parameters.get(EXACT_MAX.name) as usize,
        ))
    },
};

const EXACT_MAX: Parameter = Parameter {
    name: "exact_most",
    summary: "largest batch for which the shortest path is found; a larger one is ordered by \
        insertion",
    default: 8.0,
    min: 1.0,
    max: SHORTEST_MAX as f64,
    whole: true,
    origin: "P1 section V-C: its exact scheduler collapses from 8 on",
};

struct FsatfMap {
    name: &'static str,
    exact_most: usize,
    insertion: Insertion,
    plan_most: usize,
    frozen: Frozen,
}

impl FsatfMap {
    fn new(name: &'static str, parameters: &Parameters, exact_most: usize) -> Self {
        let (insertion, plan_most) =
            (insertion(parameters), parameters.get(PLAN_MAX.name) as usize);
        Self { name, exact_most, insertion, plan_most, frozen: Frozen::default() }
    }
}

impl Policy for FsatfMap {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let (exact_most, insertion) = (self.exact_most, self.insertion);
        Choice::one(self.frozen.next(view, self.plan_most, |batch| {
            let targets = targets(batch.iter().copied());
            let (costs, count) = (Pairs::new(view, &targets), batch.len());
            let path = if count <= exact_most {
                shortest(&costs, count)
            } else {
                insertion.path(&costs, count)
            };
            path.order().to_vec()
        }))
    }
}
