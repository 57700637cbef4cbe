#![doc = include_str!("../../../../docs/policies/throughput.md")]

use alloc::boxed::Box;

use headtime_units::Nanos;

use crate::policies::turns::{SLACK, Slack, Turns};
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::shares::Charge;
use crate::table::{Parameter, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "throughput",
    summary: "shares of a nominal rate of requests, whatever each costs: the predecessor of \
        `utilization`",
    source: "P5 sections 3 and 4 (throughput-based Zygaria)",
    oracle: false,
    parameters: &[NOMINAL, OUTSTANDING, SLACK],
    build: |parameters| {
        Box::new(Throughput {
            turns: Turns::by_request(Slack::of(parameters)),
            unit: Nanos::from_ns((1e9 / parameters.get(NOMINAL.name)) as u64),
            outstanding: parameters.get(OUTSTANDING.name) as usize,
        })
    },
};

const NOMINAL: Parameter = Parameter {
    name: "nominal_per_second",
    summary: "requests a second that the whole drive is assumed to serve",
    default: 68.0,
    min: 1.0,
    max: 1e6,
    whole: false,
    origin: "P5 section 4.3, its drive",
};

const OUTSTANDING: Parameter = Parameter {
    name: "outstanding",
    summary: "commands at the drive",
    default: 20.0,
    min: 1.0,
    max: 1024.0,
    whole: true,
    origin: "P5 section 3",
};

struct Throughput {
    turns: Turns,
    unit: Nanos,
    outstanding: usize,
}

impl Policy for Throughput {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.outstanding
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        self.turns
            .next(view, |_| self.unit, |_| None)
            .choice(|state| state.queue().oldest().map(|queued| queued.ticket))
    }

    fn uses_shares(&self) -> bool {
        true
    }

    fn charge(&mut self, _view: &View<'_>, _queued: &Queued) -> Charge {
        Charge { estimate: self.unit, fixed: true, ..Charge::default() }
    }
}
