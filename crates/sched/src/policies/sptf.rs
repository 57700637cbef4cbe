//! Shortest positioning time first, as published: the request whose first sector comes under the
//! head soonest.
//!
//! What it does. When the drive takes another command, the most likely positioning time (seek,
//! settle, head switch and rotation) is estimated from the end of the last command sent to every
//! request that can still win. The smallest goes; among equals the request submitted first. It is
//! what a good drive does in its own queue, from outside.
//!
//! Worked example, 10 ms a revolution, 1 ms to a neighboring cylinder: the last command ends at
//! angle 0.0. A request on the same cylinder at angle 0.9 costs 9 ms, one on the next cylinder at
//! angle 0.2 costs 2 ms (1 ms seek, 1 ms rotation), one there at angle 0.05 costs 10.5 ms (just
//! missed). 0.2 goes, although the first needs no seek at all.
//!
//! Guarantees that no request was believed to be reached sooner. Does *not* guarantee that a
//! request ever goes: one at an unlucky place waits as long as better ones keep coming (35.6 s at
//! 256 queued, docs/limits.md 3). Deadlines are ignored. It takes its estimates for exact: with an
//! error of 150 µs it keeps 53–71 % of its gain over the best order by address (docs/limits.md 4),
//! because what it likes best is what it is about to miss.
//!
//! Cost per decision: the search looks outward by cylinder and stops where a seek alone is longer
//! than the best found: 15 estimates for 256 random requests on a model of 100,000 cylinders, one
//! for each request at worst.
//!
//! Parameters: none. Two commands are outstanding, the paper's *maxoutstanding*: one in service,
//! one behind it, so that overhead hides and the firmware has nothing left to reorder.
//!
//! Source: P2 sections 4.1.2 and 4.3. The paper counts from the end of the last outstanding
//! request; where the drive is idle and commands differ in overhead, the time until the drive can
//! depart is counted too, which is the same whenever two are outstanding.
//!
//! `sptf-oracle` is the same code for a simulation that hands it a belief which knows the simulated
//! drive's truth. It shows what perfect knowledge would bring, and exists for that comparison only.

use alloc::boxed::Box;

use headtime_units::{Instant, Nanos};

use crate::policy::{Choice, Policy, View};
use crate::search;
use crate::table::PolicyEntry;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf",
    summary: "shortest positioning time first by the most likely time, two outstanding",
    source: "P2 sections 4.1.2 and 4.3 (SPTF)",
    oracle: false,
    parameters: &[],
    build: |_| Box::new(Sptf { name: ENTRY.name }),
};

/// The line of the oracle in the table.
pub const ORACLE_ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf-oracle",
    summary: "sptf that is given the simulated drive's truth: what perfect knowledge would bring",
    source: "P2 sections 4.1.2 and 4.3 (SPTF), with the truth in place of a belief",
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

/// Overhead that nothing hides: from when the drive could depart until it does.
pub(crate) fn lost_before(depart: Instant, ready: Instant) -> Nanos {
    depart.saturating_since(ready)
}
