#![doc = include_str!("../../../../docs/policies/utilization.md")]

use alloc::boxed::Box;

use headtime_units::{Lba, Nanos};

use crate::policies::turns::{RUN, SLACK, Turns};
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::shares::Charge;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "utilization",
    summary: "shares of disk time: each tenant gets its reservation, by earliest deadline of its \
        bucket, in runs",
    source: "P5 sections 2 and 3 (utilization-based Zygaria)",
    oracle: false,
    parameters: &[RUN, SLACK, RANDOM, SEQUENTIAL, NEAR, BELIEF, OUTSTANDING],
    build: |parameters| Box::new(Utilization::new(parameters)),
};

const RANDOM: Parameter = Parameter {
    name: "random_us",
    summary: "initial charge of a request that does not follow its tenant's last one",
    default: 20_000.0,
    min: 1.0,
    max: 10_000_000.0,
    whole: false,
    origin: "P5 section 3",
};

const SEQUENTIAL: Parameter = Parameter {
    name: "sequential_us",
    summary: "initial charge of a request that follows its tenant's last one",
    default: 300.0,
    ..RANDOM
};

const NEAR: Parameter = Parameter {
    name: "near_sectors",
    summary: "a request within fewer sectors of the end of its tenant's last one follows it",
    default: 100.0,
    min: 0.0,
    max: 1e12,
    whole: true,
    origin: "P5 section 3 (from the previous request)",
};

const BELIEF: Parameter = Parameter {
    name: "belief",
    summary: "1 charges the predicted time instead of the two constants",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "this project; P5 has the constants",
};

const OUTSTANDING: Parameter = Parameter {
    name: "outstanding",
    summary: "commands at the drive",
    default: 2.0,
    min: 1.0,
    max: 1024.0,
    whole: true,
    origin: "docs/limits.md 1; P5 does not say",
};

struct Utilization {
    turns: Turns,
    estimates: Estimates,
    outstanding: usize,
}

/// The initial charge of a request.
#[derive(Clone, Copy)]
enum Estimates {
    Constants { random: Nanos, sequential: Nanos, near: u64 },
    Belief,
}

impl Utilization {
    fn new(parameters: &Parameters) -> Self {
        let time = |parameter: Parameter| {
            Nanos::from_ms_f64(parameters.get(parameter.name) / 1e3)
                .expect("its bounds are those of a time")
        };
        let estimates = match parameters.get(BELIEF.name) {
            0.0 => Estimates::Constants {
                random: time(RANDOM),
                sequential: time(SEQUENTIAL),
                near: parameters.get(NEAR.name) as u64,
            },
            _ => Estimates::Belief,
        };
        Self {
            turns: Turns::new(parameters).until_measured(),
            estimates,
            outstanding: parameters.get(OUTSTANDING.name) as usize,
        }
    }
}

impl Estimates {
    fn of(self, view: &View<'_>, queued: &Queued) -> Nanos {
        match self {
            Self::Belief => view.next(&queued.target).expected,
            Self::Constants { random, sequential, near } => {
                let last =
                    view.shares.tenant(queued.request.tenant()).and_then(|state| state.next_lba());
                let follows = |last: Lba| queued.request.extent.start.distance(last).get() < near;
                if last.is_some_and(follows) { sequential } else { random }
            }
        }
    }
}

impl Policy for Utilization {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.outstanding
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let estimates = self.estimates;
        self.turns
            .next(view, |queued| estimates.of(view, queued), |_| None)
            .choice(|state| state.queue().oldest().map(|queued| queued.ticket))
    }

    fn uses_shares(&self) -> bool {
        true
    }

    fn charge(&mut self, view: &View<'_>, queued: &Queued) -> Charge {
        Charge { estimate: self.estimates.of(view, queued), ..Charge::default() }
    }
}
