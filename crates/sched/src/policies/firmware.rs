//! Everything to the drive: requests are handed over in the order of their arrival, as many as the
//! drive holds, and the drive orders them.
//!
//! What it does. As long as the drive takes another command it is given the oldest request. The
//! order of service is then the business of the drive's own queue (TCQ, NCQ). It is the yardstick
//! for external scheduling: P1's TCQ4 and TCQ64 are this policy at depth 4 and 64.
//!
//! Worked example, depth 4: requests 1 to 6 arrive at once; 1, 2, 3 and 4 go to the drive. The
//! drive serves 3 first; when it completes, 5 is sent, and the drive chooses among 1, 2, 4 and 5.
//!
//! Guarantees that requests reach the drive in the order they came. Does *not* guarantee any order
//! of service, nor a bound on the wait: firmware that likes positions starves the unlucky for
//! seconds. Deadlines are ignored. The scheduler's estimates of the head mean nothing here, since
//! it does not know what the drive does next.
//!
//! Cost per decision: O(log n).
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `depth` | commands | 64 | P1 section V-B: TCQ64; what the drive takes bounds it |
//!
//! Source: P1 sections V-B and V-D (TCQ4, TCQ64); P2 figure 6 ("disk firmware").

use alloc::boxed::Box;

use crate::policy::{Choice, Policy, View};
use crate::table::{Parameter, PolicyEntry};

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "firmware",
    summary: "everything handed to the drive's own queue in the order of arrival",
    source: "P1 sections V-B and V-D (TCQ4, TCQ64); P2 figure 6",
    oracle: false,
    parameters: &[Parameter {
        name: "depth",
        summary: "commands the drive holds; what it takes at most bounds it",
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
