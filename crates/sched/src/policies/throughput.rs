//! Shares of throughput: the predecessor of shares of disk time, in which every request costs the
//! same.
//!
//! What it does. Buckets are filled and emptied, deadlines and slack computed as in `utilization`,
//! but in requests: the whole drive is taken to serve `nominal_per_second` of them, a request is
//! charged the inverse of that whatever it takes, and each goes by itself, without runs. Up to
//! `outstanding` are given to the drive, which puts them in an order of its own.
//!
//! Worked example, nominal 68 a second: a reservation of 30 % is 20.4 requests a second. A
//! sequential reader gets those in 10 ms of the second, and a random one takes 280 ms for them.
//!
//! Guarantees reserved rates as long as the drive does serve the nominal rate, whatever is asked of
//! it; so the nominal rate has to be the worst case, and most of what the drive can do cannot be
//! reserved. Does *not* guarantee shares of time or any isolation: that is what it is here to show.
//! Limits are in the same unit: a limit of 50 % is half the nominal rate.
//!
//! Cost per decision: O(tenants); no estimate is asked for.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `nominal_per_second` | requests a second | 68 | P5 section 4.3, its drive |
//! | `outstanding` | commands | 20 | P5 section 3 |
//! | `slack` | 0 fair, 1 proportional | 0 | P5 section 4.4 |
//!
//! Source: P5 sections 3 and 4 (throughput-based Zygaria), the baseline of all its figures.

use alloc::boxed::Box;

use headtime_units::Nanos;

use crate::policies::turns::{SLACK, Slack, Turns};
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::shares::Charge;
use crate::table::{Parameter, PolicyEntry};

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "throughput",
    summary: "shares of a nominal rate of requests, whatever each takes: the predecessor of \
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
    summary: "requests a second that the whole drive is taken to serve",
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
            .next(view, |_| self.unit)
            .choice(|line| line.queue().oldest().map(|queued| queued.ticket))
    }

    fn uses_shares(&self) -> bool {
        true
    }

    fn charge(&self, _view: &View<'_>, _queued: &Queued) -> Charge {
        Charge { estimate: self.unit, fixed: true }
    }
}
