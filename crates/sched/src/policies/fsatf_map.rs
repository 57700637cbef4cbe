//! As `satf-map`, on a frozen queue: a short path through those who waited when the batch began, by
//! nearest insertion or, as `fsatf-map-exact`, the shortest.
//!
//! What it does. Everybody who waits is frozen into a batch, at most `plan_most` of them, the
//! oldest. A path is made through them from where the head will be: in the order of the queue (the
//! paper) or the nearest first (the textbook) each is inserted where he lengthens it least. The
//! batch is served in that order; whoever comes meanwhile waits for the next. `fsatf-map-exact`
//! takes the shortest of all paths instead while the batch is at most `exact_most` requests, and
//! inserts where it is larger.
//!
//! Worked example, costs in ms: A, B and C wait. From the head it takes 4, 7 and 3; behind A 5 to B
//! and 2 to C, behind B 6 to A and 9 to C, behind C 3 to A and 4 to B. In queue order: A; B behind
//! it (5, before it 7 + 6 − 4 = 9); C between the two (2 + 4 − 5 = 1): A C B, 10 ms. The shortest
//! is the same: C A B takes 11, the others more.
//!
//! Guarantees that nobody waits for more than the batches of those who were there before him and
//! one more: nobody starves. Does *not* guarantee throughput: at the end of a batch few are left to
//! choose from, and what arrives next to the head waits. Deadlines are ignored.
//!
//! Cost: a batch of n asks the belief for n² pairs at the most, 2n² with the nearest first, once in
//! n decisions; exact, n² and 2ⁿ·n² steps, see `tour/shortest.rs`. Nothing otherwise.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `nearest_first` | 0 or 1 | 0 | P1 section III-B inserts in queue order, the textbook the nearest first |
//! | `plan_most` | requests | 256 | P1 section III-B: longer queues are rare |
//! | `exact_most` | requests; of `fsatf-map-exact` | 8 | P1 section V-C: its exact scheduler collapses from 8 on |
//!
//! One command is outstanding, as the paper measured it. Source: P1 sections III-B and V-B, 4 and 5
//! (FSATF-MAP, FSATF-MAP-EXACT), with the misprint in the increase mended.

use alloc::boxed::Box;

use crate::policies::frozen::Frozen;
use crate::policies::pairs::{Pairs, targets};
use crate::policies::satf_map::{NEAREST_FIRST, PLAN_MAX};
use crate::policy::{Choice, Policy, View};
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tour::{SHORTEST_MAX, insert_in_order, insert_nearest_first, shortest};

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "fsatf-map",
    summary: "a short path by the belief's times through those who waited when the batch began, \
        nearest insertion",
    source: "P1 sections III-B and V-B, 4 (FSATF-MAP)",
    oracle: false,
    parameters: &[NEAREST_FIRST, PLAN_MAX],
    build: |parameters| Box::new(FsatfMap::new(ENTRY.name, parameters, 0)),
};

/// The line of the exact one in the table.
pub const EXACT_ENTRY: PolicyEntry = PolicyEntry {
    name: "fsatf-map-exact",
    summary: "the shortest path by the belief's times through those who waited when the batch \
        began; by insertion where they are many",
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
    summary: "the largest batch of which the shortest path is found; a larger one is ordered by \
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
    nearest_first: bool,
    plan_most: usize,
    frozen: Frozen,
}

impl FsatfMap {
    fn new(name: &'static str, parameters: &Parameters, exact_most: usize) -> Self {
        let (nearest_first, plan_most) =
            (parameters.get(NEAREST_FIRST.name) != 0.0, parameters.get(PLAN_MAX.name) as usize);
        Self { name, exact_most, nearest_first, plan_most, frozen: Frozen::default() }
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
        let (exact_most, nearest_first) = (self.exact_most, self.nearest_first);
        Choice::one(self.frozen.next(view, self.plan_most, |batch| {
            let targets = targets(batch.iter().copied());
            let (costs, count) = (Pairs::new(view, &targets), batch.len());
            let path = match () {
                () if count <= exact_most => shortest(&costs, count),
                () if nearest_first => insert_nearest_first(&costs, count),
                () => insert_in_order(&costs, count),
            };
            path.order().to_vec()
        }))
    }
}
