#![doc = include_str!("../../../../docs/policies/headtime.md")]

use alloc::boxed::Box;

use headtime_units::{Instant, Nanos};

use crate::policies::sptf_expected::SptfExpected;
use crate::policies::turns::{self, SLACK, Turns};
use crate::policy::{Choice, Policy, View};
use crate::positioning::Head;
use crate::queue::{Queued, Ticket};
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The number of most urgent requests that compete when a deadline is at risk (guess: more finds
/// little and costs a simulation each).
const URGENT: usize = 8;

/// Revolutions after which a late request no longer waits for cheaper ones (guess: a quarter of a
/// second at 7,200 rpm).
const PATIENCE_REVOLUTIONS: u64 = 32;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "headtime",
    summary: "the cheapest request by expected cost, unless it would cause a missed deadline",
    source: "docs/limits.md 6, on sptf-expected; the chain of deadlines is P4's (DS-SCAN)",
    oracle: false,
    parameters: &[
        Parameter {
            name: "walk_requests",
            summary: "deadlines checked ahead before a request goes",
            default: 48.0,
            min: 1.0,
            max: 1024.0,
            whole: true,
            origin: "guess: at 8 ms each, 400 ms ahead",
        },
        Parameter {
            name: "tail_revolutions",
            summary: "time to spare before each deadline, in revolutions",
            default: 2.0,
            min: 0.0,
            max: 16.0,
            whole: false,
            origin: "two commands are outstanding, and each may just miss its sector",
        },
        RUN,
        SLACK,
        SptfExpected::PARAMETERS[0],
        SptfExpected::PARAMETERS[1],
        SptfExpected::PARAMETERS[2],
    ],
    build: |parameters| Box::new(Headtime::new(parameters)),
};

struct Headtime {
    best: SptfExpected,
    walk: usize,
    tail_revolutions: f64,
    turns: Turns,
}

/// The maximum period, used where short runs would cost a sequential volume more than a twentieth
/// of its time (P5 section 2.4: granularity).
const LONGEST_PERIOD: Nanos = Nanos::from_secs(1);

/// Runs, where volumes have terms.
const RUN: Parameter = Parameter {
    summary: "where volumes have shares: shortest period in which every tenant has one run; up to \
        a second where shorter ones cost too much",
    default: 250.0,
    origin: "docs/limits.md 8",
    ..turns::RUN
};

impl Headtime {
    fn new(parameters: &Parameters) -> Self {
        Self {
            best: SptfExpected::new(parameters),
            walk: parameters.get("walk_requests") as usize,
            tail_revolutions: parameters.get("tail_revolutions"),
            turns: Turns::new(parameters).up_to(LONGEST_PERIOD),
        }
    }

    /// The cheapest, unless a deadline would be missed for it; of the requests that the view
    /// shows.
    fn best_that_is_safe(&self, view: &View<'_>) -> Option<Ticket> {
        let cheapest = self.best.cheapest_or_run(view);
        if view.queue.with_deadline().next().is_none() {
            return cheapest;
        }
        let safe = cheapest.and_then(|ticket| view.queue.get(ticket)).is_some_and(|queued| {
            nothing_is_late_before(view, queued) && self.holds_after(view, queued)
        });
        if safe { cheapest } else { self.choose_urgent(view) }
    }

    /// Returns whether every deadline among the first `walk` is met when `first` goes now and the
    /// others follow in the order of their deadlines.
    fn holds_after(&self, view: &View<'_>, first: &Queued) -> bool {
        let tail = Nanos::from_ns(
            (view.belief.revolution().as_ns() as f64 * self.tail_revolutions) as u64,
        );
        let mut head = *view.head();
        // The head follows most likely times, because only those end at a real angle; the
        // additional expected time is summed separately.
        let mut beyond_ns: i64 = 0;
        let mut in_time = |queued: &Queued| {
            let estimate = view.belief.estimate(&head, view.now, &queued.target);
            head = Head::after(&queued.target, estimate.finish());
            beyond_ns += estimate.expected.as_ns() as i64 - estimate.positioning.as_ns() as i64;
            let finish = estimate.finish().offset_by_ns(beyond_ns.max(0));
            // A late request cannot be met any more, and must not make all others look infeasible.
            finish + tail <= due(queued) || due(queued) <= view.now
        };
        let others = view
            .queue
            .with_deadline()
            .take(self.walk)
            .filter(|queued| queued.ticket != first.ticket && due(queued) > view.now);
        in_time(first) && others.into_iter().all(in_time)
    }

    /// The cheapest of the most urgent requests that leaves the others in time, else the cheapest
    /// of them; a very late request goes at once.
    fn choose_urgent(&self, view: &View<'_>) -> Option<Ticket> {
        let patience = view.belief.revolution() * PATIENCE_REVOLUTIONS;
        if let Some(first) =
            view.queue.with_deadline().next().filter(|first| due(first) + patience < view.now)
        {
            return Some(first.ticket);
        }
        let cost =
            |queued: &&Queued| (view.estimate(queued).expected_cost(view.now), queued.ticket);
        let urgent = || view.queue.with_deadline().take(URGENT);
        let safe = urgent().filter(|queued| self.holds_after(view, queued)).min_by_key(cost);
        safe.or_else(|| urgent().min_by_key(cost)).map(|queued| queued.ticket)
    }
}

impl Policy for Headtime {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, view: &View<'_>) -> usize {
        self.best.depth(view)
    }

    fn enforces_limits(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        if !view.shares.any_terms() {
            return Choice::one(self.best_that_is_safe(view));
        }
        let cost = |queued: &Queued| view.next(&queued.target).expected;
        if let Some(state) = self.turns.urgent_tenant(view, cost) {
            return Choice::one(self.best_that_is_safe(&view.of(state)));
        }
        self.turns.next(view, cost).choice(|state| self.best_that_is_safe(&view.of(state)))
    }
}

/// Returns whether `cheapest` may go with respect to lateness: while a request is late, only
/// requests with a deadline go.
fn nothing_is_late_before(view: &View<'_>, cheapest: &Queued) -> bool {
    cheapest.deadline.is_some()
        || view.queue.with_deadline().next().is_none_or(|first| due(first) > view.now)
}

fn due(queued: &Queued) -> Instant {
    queued.deadline.unwrap_or(Instant::NEVER)
}
