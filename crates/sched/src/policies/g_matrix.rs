//! Earliest deadline first that looks ahead: of all orders of the first k deadlines the one that is latest by least, and of those the shortest.
//!
//! What it does. Of the requests by deadline (those without one behind all others, in the order of arrival) the first k are taken, and all k! orders of them are tried from where the head
//! will be. Those whose largest overtime is least are kept; of these the one with the shortest path wins, the way from the head included. Its first request goes; then everything is looked
//! at anew.
//!
//! Worked example, the head free at 0, A due at 10 ms and B at 12. From the head A takes 6 ms and B 3; behind A, B takes 7; behind B, A takes 4. A B ends at 6 and 13: one ms too late. B A ends at 3
//! and 7: nobody is late, so B goes first, against EDF. Were B due at 20, both orders would hold, and B A would still be chosen: 7 is less than 13.
//!
//! Guarantees: by its own estimates no order of the first k has less overtime than the one it follows, EDF's among them. Does *not* guarantee deadlines: what the first k choose may leave the next too
//! little time, and the drive may take longer than the belief says. Requests without a deadline starve as long as k with one keep coming; one with a deadline goes at the latest when it is the one that
//! would be latest.
//!
//! *Which time*: the path is measured in expected times; overtime in times `worst_percent` of the way from expected to worst. The worst time that a map says of a pair is what was seen, a
//! little more than expected. The worst of a profile counts the turn that may be lost at every request, and the sum of four of them is no forecast of anything: 0 is right there.
//!
//! Cost per decision: k² pairs are asked for, and at most k! orders tried.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `lookahead_k` | requests | 4 | P1 section III-C; the tunable of that name overrides it while running |
//! | `worst_percent` | per cent of the way from expected to worst | 0 | ours: see above |
//!
//! One command is outstanding, as the paper measured it; the caller's limit overrides it. With `latency_matrix` set to `ignore` it goes by deadline alone (k = 1).
//! Source: P1 section III-C (G-MATRIX); Somasundara et al. 2004. The paper's sum leaves out the way from the head; it is counted here.

use alloc::boxed::Box;

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use crate::policies::pairs::Pairs;
use crate::policy::{Choice, Policy, View};
use crate::positioning::{Pair, Target};
use crate::queue::Ticket;
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tour::{Costs, LOOKAHEAD_MOST, Lookahead};
use crate::tunables::LatencyMatrixUse;

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "g-matrix",
    summary: "earliest deadline first that tries every order of the first k: least overtime, then the shortest path",
    source: "P1 section III-C (G-MATRIX)",
    oracle: false,
    parameters: &[LOOKAHEAD_K, WORST_PERCENT],
    build: |parameters| Box::new(GMatrix::new(parameters)),
};

const LOOKAHEAD_K: Parameter = Parameter {
    name: "lookahead_k",
    summary: "deadlines looked at; all orders of them are tried",
    default: 4.0,
    least: 1.0,
    most: LOOKAHEAD_MOST as f64,
    whole: true,
    origin: "P1 section III-C: more brought nothing",
};

const WORST_PERCENT: Parameter = Parameter {
    name: "worst_percent",
    summary: "how far from expected to worst the times lie that overtime is reckoned from, in per cent of the way",
    default: 0.0,
    least: 0.0,
    most: 100.0,
    whole: false,
    origin: "ours; P1 keeps one time of each pair, the worst seen",
};

struct GMatrix {
    lookahead: Lookahead,
    worst_percent: f64,
}

impl GMatrix {
    fn new(parameters: &Parameters) -> Self {
        let lookahead = Lookahead::new(parameters.get(LOOKAHEAD_K.name) as usize).expect("the bounds of the parameter are those of looking ahead");
        Self { lookahead, worst_percent: parameters.get(WORST_PERCENT.name) }
    }

    fn first(&self, view: &View<'_>) -> Option<Ticket> {
        let ignores = view.tunables.latency_matrix == LatencyMatrixUse::Ignore;
        let lookahead = if ignores { Lookahead::new(1)? } else { view.tunables.lookahead_k.unwrap_or(self.lookahead) };
        let (mut tickets, mut targets, mut deadlines) = (Few::<Ticket>::new(), Few::<Target>::new(), Few::<Instant>::new());
        for queued in view.queue.by_deadline().take(lookahead.k()) {
            tickets.push(queued.ticket);
            targets.push(queued.target);
            deadlines.push(queued.deadline.unwrap_or(Instant::NEVER));
        }
        if tickets.len() <= 1 {
            return tickets.first().copied();
        }
        let times = Times { view, targets: &targets, worst_percent: self.worst_percent };
        let outlook = lookahead.look_by(&Pairs::new(view, &targets), &times, &deadlines, view.ready_at());
        outlook.map(|outlook| tickets[outlook.first])
    }
}

impl Policy for GMatrix {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(self.first(view))
    }
}

/// What is kept of those looked at.
type Few<T> = SmallVec<[T; LOOKAHEAD_MOST]>;

/// Times that overtime is reckoned from.
struct Times<'a> {
    view: &'a View<'a>,
    targets: &'a [Target],
    worst_percent: f64,
}

impl Times<'_> {
    fn of(&self, pair: Pair) -> Nanos {
        let Pair { expected, worst, .. } = pair;
        let further = worst.saturating_sub(expected).as_ns() as f64 * self.worst_percent / 100.0;
        expected + Nanos::from_ns(further as u64)
    }
}

impl Costs for Times<'_> {
    fn first(&self, to: usize) -> Nanos {
        self.of(self.view.next(&self.targets[to]))
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        self.of(self.view.pair(&self.targets[from], &self.targets[to]))
    }
}
