//! Seek-weighted shortest positioning time first: the shortest seek among those that are reached
//! nearly as soon as the first.
//!
//! What it does. As `sptf`, the most likely positioning time from the end of the last command sent
//! is estimated for every request that can still win. Of all whose time is within n per cent of the
//! shortest, the one with the shortest seek goes; among equals the one that is reached soonest,
//! then the one submitted first. A short seek and the same positioning time leave more rotation in
//! between, in which background reads fit.
//!
//! Worked example, n = 60: request A is reached in 5 ms with a seek of 900 cylinders, B in 7 ms on
//! the next cylinder, C in 9 ms on this one. Up to 5 × 1.6 = 8 ms count: A and B. B has the shorter
//! seek and goes; C is too late.
//!
//! Guarantees that no request was believed to be reached in less than 1 / (1 + n/100) of its time.
//! Does *not* guarantee that a request ever goes, as `sptf` does not; deadlines are ignored,
//! estimates are taken for exact. The paper measured 5–6 % less throughput than `sptf`, for more
//! than 80 % of the free bandwidth that `sstf` leaves.
//!
//! Cost per decision: the walk of `sptf`, which has seen everyone with a shorter seek than the
//! winner when it ends. With n = 0 it is `sptf`, but for the order among equals.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `within_percent` | per cent of the shortest positioning time | 60 | P2 section 5.1 |
//!
//! Two commands are outstanding, as under `sptf`. The seek is compared as a distance in cylinders,
//! which is the same as long as seeks grow with distance.
//!
//! Source: P2 sections 4.3 and 5.1 (SPTF-SWn%).

use alloc::boxed::Box;

use crate::policies::sptf::lost_before;
use crate::policy::{Choice, Policy, View};
use crate::positioning::Likely;
use crate::search;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The line in the table.
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
