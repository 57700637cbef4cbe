#![doc = include_str!("../../../../docs/policies/cds-scan.md")]
#![doc = include_str!("../../../../docs/policies/ds-scan.md")]

use alloc::boxed::Box;
use core::cell::OnceCell;

use headtime_units::{Instant, Nanos};

use crate::policy::{Choice, Policy, View};
use crate::positioning::{Head, Positioning, Target, ends, worst_service_from};
use crate::queue::Queued;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry of the concurrent policy.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "cds-scan",
    summary: "circular SCAN with many outstanding, as long as no deadline, queued or at the drive, \
        could be missed",
    source: "P4, Algorithms 1, 3 and 4 (CDS-SCAN)",
    oracle: false,
    parameters: &[MAX_OUT, ESTIMATE, LOST_REVOLUTIONS],
    build: |parameters| {
        let max_out = parameters.get(MAX_OUT.name) as usize;
        Box::new(CdsScan::new(ENTRY.name, max_out, parameters))
    },
};

/// The table entry of the policy with one outstanding.
pub const DS_ENTRY: PolicyEntry = PolicyEntry {
    name: "ds-scan",
    summary: "circular SCAN as long as no deadline could be missed, else the earliest deadline; \
        one at a time",
    source: "P4, Algorithms 1 and 2 (DS-SCAN)",
    oracle: false,
    parameters: &[ESTIMATE, LOST_REVOLUTIONS],
    build: |parameters| Box::new(CdsScan::new(DS_ENTRY.name, 1, parameters)),
};

const MAX_OUT: Parameter = Parameter {
    name: "max_out",
    summary: "maximum number of commands at the drive",
    default: 60.0,
    min: 1.0,
    max: 65_536.0,
    whole: true,
    origin: "P4, Results",
};

const ESTIMATE: Parameter = Parameter {
    name: "estimate_ms",
    summary: "service time assumed of each request; 0: the worst case of the drive model",
    default: 0.0,
    min: 0.0,
    max: 10_000.0,
    whole: false,
    origin: "P4 needs worst cases; an estimate below guarantees nothing",
};

const LOST_REVOLUTIONS: Parameter = Parameter {
    name: "lost_revolutions",
    summary: "revolutions added to each worst case of the drive model",
    default: 1.0,
    min: 0.0,
    max: 16.0,
    whole: false,
    origin: "a read that is retried costs one; the drive model expects none",
};

struct CdsScan {
    name: &'static str,
    max_out: usize,
    estimate: Nanos,
    lost_revolutions: f64,
    /// The ends of the stroke in the drive model in use.
    ends: OnceCell<[Head; 2]>,
}

impl CdsScan {
    fn new(name: &'static str, max_out: usize, parameters: &Parameters) -> Self {
        Self {
            name,
            max_out,
            estimate: Nanos::from_ns((parameters.get(ESTIMATE.name) * 1e6) as u64),
            lost_revolutions: parameters.get(LOST_REVOLUTIONS.name),
            ends: OnceCell::new(),
        }
    }

    /// The request to send now; `None` while a deadline at the drive forbids every one.
    fn select<'a>(&self, view: &View<'a>) -> Option<&'a Queued> {
        let chain = view.queue.chain();
        let until = view.outstanding_until();
        let from = view.next_lba();
        // The sweep goes on while the chain still holds after its next request.
        let in_sweep = view.queue.next_of_highest_level(from)?;
        let after = until + in_sweep.worst;
        let holds = match in_sweep.chain_key() {
            // It holds without the request where it holds with it.
            Some(key) => chain.allows(after) || chain.allows_without(&key, after),
            None => chain.allows(after),
        };
        let urgent = if holds { None } else { chain.first_in_sweep(from) };
        let next = urgent.map_or(in_sweep, |urgent| view.queue.at(urgent));
        // A command at the drive is not delayed beyond its deadline, but by one with a deadline as
        // early. What is late already cannot be endangered.
        let own = next.protected_deadline().unwrap_or(Instant::NEVER);
        let endangered = view.now..own.min(until + next.worst);
        (!view.outstanding.any_due_in(endangered)).then_some(next)
    }
}

impl Policy for CdsScan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.max_out
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(self.select(view).map(|queued| queued.ticket))
    }

    fn worst_service(
        &self,
        belief: &dyn Positioning,
        now: Instant,
        target: &Target,
    ) -> Option<Nanos> {
        if !self.estimate.is_zero() {
            return Some(self.estimate);
        }
        let lost = belief.revolution().as_ns() as f64 * self.lost_revolutions;
        let ends = self.ends.get_or_init(|| ends(belief));
        Some(worst_service_from(ends, belief, now, target) + Nanos::from_ns(lost as u64))
    }

    fn belief_changed(&mut self) {
        self.ends.take();
    }
}
