//! Shares of disk time as published: each tenant gets the share of the drive's time that it has
//! reserved, whatever the others do.
//!
//! What it does. Each volume, or class of one, has two buckets of disk time, one filled with its
//! reservation and one with its limit ([`Shares`](crate::Shares)). Payers at a limit or without
//! requests are left out; of the others, one to whom its reservation owes a request goes next, the
//! earliest deadline first, and when nothing is owed to anybody the one that was charged least of
//! late. It keeps the drive for a run, so that seeks between tenants stay few (`policies/turns.rs`).
//! Within a tenant requests go in the order of their arrival. A request is charged an estimate when
//! it is sent, one of two constants, and what it took when it is done.
//!
//! Worked example: A has reserved 70 % and reads on and on, B 30 % and reads anywhere. In each
//! second A has 700 ms, of which one seek takes 13, and B 300 ms, about 22 reads. B's first read is
//! charged 20 ms and took 12: 8 ms are returned.
//!
//! Guarantees each tenant that always wants more its reservation within the length of a run, as long
//! as reservations come to no more than the drive has, and no tenant more than its limit and what
//! its burst had saved up. Does *not* guarantee that everybody gets that in throughput: who asks
//! anywhere gets little out of its time. Does *not* guarantee a response time: behind others' runs
//! a request waits for up to the period. Deadlines and rotation are ignored.
//!
//! Cost per decision: O(tenants); one estimate more for each tenant that waits when `belief` is 1.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `run_ms` | ms | 1000 | P5 section 2.4 ("granularity (one second, in our scheduler)") |
//! | `slack` | 0 fair, 1 proportional | 0 | P5 section 4.4 |
//! | `random_us` | us | 20000 | P5 section 3 |
//! | `sequential_us` | us | 300 | P5 section 3 |
//! | `near_sectors` | sectors | 100 | P5 section 3 |
//! | `belief` | 0 or 1 | 0 | ours: the belief's expected time in place of the constants |
//! | `outstanding` | commands | 2 | docs/limits.md 1; P5 does not say |
//!
//! Source: P5 sections 2 and 3 (Kaldewey and others). The paper's scheduler keeps up to 20 requests
//! in the driver below, which sorts them; here runs do what that was for.

use alloc::boxed::Box;

use headtime_units::{Lba, Nanos};

use crate::policies::turns::{RUN, SLACK, Turns};
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::shares::Charge;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "utilization",
    summary: "shares of disk time: each tenant its reservation, by earliest deadline of its bucket, \
        in runs",
    source: "P5 sections 2 and 3 (utilization-based Zygaria)",
    oracle: false,
    parameters: &[RUN, SLACK, RANDOM, SEQUENTIAL, NEAR, BELIEF, OUTSTANDING],
    build: |parameters| Box::new(Utilization::new(parameters)),
};

const RANDOM: Parameter = Parameter {
    name: "random_us",
    summary: "what a request is charged when it is sent that lies elsewhere than its tenant's last",
    default: 20_000.0,
    min: 1.0,
    max: 10_000_000.0,
    whole: false,
    origin: "P5 section 3",
};

const SEQUENTIAL: Parameter = Parameter {
    name: "sequential_us",
    summary: "what one is charged that follows its tenant's last",
    default: 300.0,
    min: 1.0,
    max: 10_000_000.0,
    whole: false,
    origin: "P5 section 3",
};

const NEAR: Parameter = Parameter {
    name: "near_sectors",
    summary: "a request less than so many sectors from the end of its tenant's last follows it",
    default: 100.0,
    min: 0.0,
    max: 1e12,
    whole: true,
    origin: "P5 section 3 (from the previous request)",
};

const BELIEF: Parameter = Parameter {
    name: "belief",
    summary: "1 charges what the belief expects in place of the two constants",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "ours; P5 has the constants",
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

/// What requests are charged when they are sent.
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
            turns: Turns::new(parameters),
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
                    view.shares.line(queued.request.tenant()).and_then(|line| line.next_lba());
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
            .next(view, |queued| estimates.of(view, queued))
            .choice(|line| line.queue().oldest().map(|queued| queued.ticket))
    }

    fn uses_shares(&self) -> bool {
        true
    }

    fn charge(&self, view: &View<'_>, queued: &Queued) -> Charge {
        Charge { estimate: self.estimates.of(view, queued), fixed: false }
    }
}
