//! Whose turn it is: not a policy, but what those share that go by the books of
//! [`Shares`](crate::Shares).
//!
//! What the server asks for on its own account ([`VolumeId::INTERNAL`](crate::VolumeId::OWN)) goes
//! before everything. Payers at a limit or with nothing waiting are left out. A tenant whose bucket
//! has enough for its first request is *owed* that. Who is owed something goes next, the earliest
//! deadline first. Where each request is a turn, the deadline is when the tenant's bucket has, or
//! would have, enough for it, as published; where turns are runs, it is when the bucket was, or
//! would be, level, and of those within one period the one goes that had its run the longest ago.
//! When nothing is owed to anybody there is *slack*: it is offered to whoever was charged the least
//! of late, by the moving average alone (*fair*) or by that over the reservation (*proportional*).
//! Where those who wait have reserved all of the drive there is none, and the earliest deadline
//! goes though it is still to come (not so where each request is a turn: as published). Priority
//! comes before either: real time, then best effort, then idle.
//!
//! A flush is a turn of whoever waits for it; of one tenant flushes and requests take turns. Where
//! all of the drive is reserved by those who wait, everybody has one run in a period: who is due
//! within half of one counts as owed. Periods change by steps (`policies/period.rs`).
//!
//! Who is chosen keeps the drive for a *run*, so that seeks from one tenant's sectors to another's
//! stay few: its reservation's part of a period, or, of slack, as much of the period as comes to it
//! among those who wait. A run also ends when the tenant has nothing more, comes to a limit, has
//! another reservation, or something is owed to a tenant of higher priority; one of slack, once it
//! has had a sixteenth of the period, when something is owed to anybody. While its last request is
//! at the drive, nobody else is sent beside it: whoever asks for one thing after the other asks
//! again when that is done. What a run has used is what was charged for it, estimates for what is
//! at the drive and corrected for the rest.
//!
//! Worked example, period 1 s: A has reserved 70 %, B 30 %, and both always want more. A runs for
//! 700 ms; by then its bucket is 210 ms lower and B's as much higher. B's deadline is the earlier;
//! B runs for 300 ms, and both are where they were.
//!
//! Cost: O(tenants) for each decision, and one cost of a request for each of those who wait when a
//! run is over.

use alloc::collections::BTreeMap;

use headtime_units::{Instant, Nanos, Share};

use crate::command::HoldReason;
use crate::policies::period::{Lengthen, Period, Round};
use crate::policy::{Choice, View};
use crate::queue::{Queued, Ticket};
use crate::shares::{FlushTurns, Shares, Tenant, TenantState, Terms};
use crate::table::{Parameter, Parameters};
use crate::tunables::PriorityClass;

/// How slack is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slack {
    /// To whoever was charged least.
    Fair,
    /// To whoever was charged least in proportion to its reservation.
    Proportional,
}

/// Whose turn it is.
pub(crate) enum Turn<'a> {
    /// This tenant's; it has requests waiting.
    Of(&'a TenantState),
    /// That of one who waits for a flush.
    Flush,
    /// Nobody's until something at the drive is done.
    AtDrive,
    /// Nobody's until then: all who wait are at a limit.
    Throttled(Instant),
}

impl<'a> Turn<'a> {
    /// What goes; `of` says which request of the tenant whose turn it is.
    pub(crate) fn choice(self, of: impl FnOnce(&'a TenantState) -> Option<Ticket>) -> Choice {
        match self {
            Self::Of(state) => Choice::one(of(state)),
            Self::Flush => Choice::Flush,
            Self::AtDrive => Choice::Nothing,
            Self::Throttled(until) => Choice::Hold { until, reason: HoldReason::Throttled },
        }
    }
}

/// A run of slack gives way once it has had this part of the period (guess: long against a seek,
/// short against the second that shares are promised by).
const GIVES_WAY: u64 = 16;

/// Of what it gets nobody is to lose more than one in so many by changing between tenants (the
/// project's target is one in twenty).
const LOST: f64 = 20.0;
/// Who has come back to the drive no more often than this is new (guess: that are a few periods).
const NEW: u32 = 3;

/// Who goes by turns keeps this.
pub(crate) struct Turns {
    period: Period,
    slack: Slack,
    run: Option<Run>,
    /// The last run of each tenant that has had one, and how many there were before it.
    past: BTreeMap<Tenant, (u64, Run)>,
    runs: u64,
}

/// The run that is on.
#[derive(Clone, Copy, Debug)]
struct Run {
    tenant: Tenant,
    priority: PriorityClass,
    /// What was reserved for the tenant: with another reservation another run begins.
    reserve: Share,
    entitled: bool,
    /// Whether it is in the longer round of two.
    round: Round,
    /// What it may use; below zero where the last one used as much too much.
    budget_ns: i64,
    /// What the tenant had been charged when it began.
    began: (u64, i64),
}

/// What can be set.
pub(crate) const RUN: Parameter = Parameter {
    name: "run_ms",
    summary: "period in which every tenant has one run; 0 makes each request a run",
    default: 1_000.0,
    min: 0.0,
    max: 10_000.0,
    whole: false,
    origin: "P5 section 2.4 (granularity)",
};

/// What can be set.
pub(crate) const SLACK: Parameter = Parameter {
    name: "slack",
    summary: "unreserved time goes to the tenant with the least recent charge: 0 absolute, 1 \
        relative to its reservation",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "P5 section 4.4 (fair)",
};

impl Turns {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let period =
            Nanos::from_ms_f64(parameters.get(RUN.name)).expect("its bounds are those of a time");
        Self {
            period: Period::fixed(period),
            slack: Slack::of(parameters),
            run: None,
            past: BTreeMap::new(),
            runs: 0,
        }
    }

    /// The same with longer periods, up to this, where shorter ones would cost somebody more than a
    /// part of what it gets.
    pub(crate) fn up_to(self, longest: Nanos) -> Self {
        Self { period: self.period.up_to(longest), ..self }
    }

    /// Turns of one request each.
    pub(crate) fn by_request(slack: Slack) -> Self {
        Self {
            period: Period::fixed(Nanos::ZERO),
            slack,
            run: None,
            past: BTreeMap::new(),
            runs: 0,
        }
    }

    /// Whose turn it is. `cost` is what a tenant's bucket must have for a request.
    pub(crate) fn next<'a>(
        &mut self,
        view: &View<'a>,
        cost: impl Fn(&Queued) -> Nanos,
    ) -> Turn<'a> {
        let (shares, now) = (view.shares, view.now);
        let flushes = if view.flush_may_go() && shares.any_terms() {
            FlushTurns::Count
        } else {
            FlushTurns::Ignore
        };
        // Whose run it is does not change by it.
        if let Some(own) = shares.own_waiting() {
            return Turn::of(own, flushes);
        }
        if let Some(run) = self.run {
            let state = shares.tenant(run.tenant).filter(|state| {
                state.opens() <= now && state.terms().reserve == run.reserve && !run.is_spent(state)
            });
            match state.filter(|state| !run.is_interrupted(state, self.period.mean(), view, &cost))
            {
                Some(state)
                    if !state.queue().is_empty() || state.at_drive() > 0 || state.wants_flush() =>
                {
                    return Turn::of(state, flushes);
                }
                _ => self.run = None,
            }
        }
        self.fit_period(view);
        let open = shares.waiting(flushes).filter(|state| state.opens() <= now);
        let nothing_left = !self.period.is_zero() && reserved_by(open) == Share::WHOLE;
        let (mut opens, mut weights) = (Instant::NEVER, 0_u64);
        let mut first: Option<(Entitlement, &'a TenantState)> = None;
        let mut least: Option<(Offered, &'a TenantState)> = None;
        for state in shares.waiting(flushes) {
            if state.opens() > now {
                opens = opens.min(state.opens());
                continue;
            }
            let (weight, priority) = (self.slack.weight(state), state.terms().priority);
            weights += weight;
            let key = Entitlement::of(state, self.period.long(), now, &cost)
                .after(self.last_run_of(state))
                .or_soon(nothing_left);
            if key.due_in_ns < i128::MAX && first.as_ref().is_none_or(|(first, _)| key < *first) {
                first = Some((key, state));
            }
            let key = Offered { priority, used: state.recent(now) / weight as f64 };
            if least.as_ref().is_none_or(|(least, _)| key.is_before(least)) {
                least = Some((key, state));
            }
        }
        let entitled = first.filter(|(key, _)| key.entitled || nothing_left);
        let (state, is_entitled) = match (entitled, least) {
            (Some((_, state)), _) => (state, true),
            (None, Some((_, state))) => (state, false),
            (None, None) => return Turn::Throttled(opens),
        };
        let Terms { priority, reserve, .. } = state.terms();
        let last_round =
            self.past.get(&state.tenant()).map_or(Round::Short, |(_, last)| last.round);
        self.period.step(now, last_round);
        let round = self.period.round_after(last_round);
        let budget_ns = if is_entitled {
            let mean = reserve.of(self.period.mean());
            self.period.run(mean, round).as_ns() as i64 + self.carry_ns(state, mean)
        } else {
            part(self.period.mean(), self.slack.weight(state), weights).as_ns() as i64
        };
        let run = Run {
            tenant: state.tenant(),
            priority,
            reserve,
            entitled: is_entitled,
            round,
            budget_ns,
            began: state.charged(),
        };
        self.note(shares, run);
        Turn::of(state, flushes)
    }

    /// What the tenant's last run used less than it was to, or, below zero, more: nothing of it is
    /// lost, though half a run of mean length at most is made up for at once.
    fn carry_ns(&self, state: &TenantState, mean: Nanos) -> i64 {
        let is_whole = |last: &Run| {
            last.entitled && last.reserve == state.terms().reserve && last.is_spent(state)
        };
        let last =
            self.past.get(&state.tenant()).map(|(_, last)| last).filter(|last| is_whole(last));
        let half = mean.as_ns() as i64 / 2;
        last.map_or(0, |last| {
            (last.budget_ns - (state.charged().1 - last.began.1)).clamp(-half, half)
        })
    }

    /// Says which period would do: one in which nobody who asks loses more than a part of what it
    /// gets by changing.
    fn fit_period(&mut self, view: &View<'_>) {
        let needed = |state: &TenantState| {
            let reserve = state.terms().reserve.as_fraction();
            if reserve > 0.0 { state.lost_by_change().as_ns() as f64 * LOST / reserve } else { 0.0 }
        };
        let asking = view
            .shares
            .asking(view.now, self.period.longest())
            .map(|state| (needed(state), state.returns() <= NEW));
        let (needed, new) =
            asking.fold((0.0, false), |most, this| if this.0 > most.0 { this } else { most });
        self.period.fit(view.now, needed, if new { Lengthen::AtOnce } else { Lengthen::InSteps });
    }

    /// The number of a tenant's last run; where each request is a run, all count alike.
    fn last_run_of(&self, state: &TenantState) -> Option<u64> {
        self.past.get(&state.tenant()).filter(|_| !self.period.is_zero()).map(|(number, _)| *number)
    }

    /// Of the tenants whose turn it is not, the one that is owed something and has the earliest
    /// deadline of all that fall within a period from now.
    pub(crate) fn urgent_tenant<'a>(
        &self,
        view: &View<'a>,
        cost: impl Fn(&Queued) -> Nanos,
    ) -> Option<&'a TenantState> {
        if view.shares.own_waiting().is_some() {
            return None;
        }
        let due = |state: &&TenantState| {
            state
                .queue()
                .with_deadline()
                .next()
                .and_then(|queued| queued.deadline)
                .filter(|due| *due < view.now + self.period.mean())
        };
        let open = view.shares.waiting(FlushTurns::Ignore).filter(|state| {
            state.opens() <= view.now && self.run.is_none_or(|run| run.tenant != state.tenant())
        });
        let first = open
            .filter_map(|state| Some((due(&state)?, state)))
            .min_by_key(|(due, state)| (*due, state.tenant()));
        first
            .map(|(_, state)| state)
            .filter(|state| Entitlement::of(state, self.period.mean(), view.now, &cost).entitled)
    }

    fn note(&mut self, shares: &Shares, run: Run) {
        if self.past.len() > shares.tenants() {
            self.past.retain(|tenant, _| shares.tenant(*tenant).is_some());
        }
        self.runs += 1;
        self.past.insert(run.tenant, (self.runs, run));
        self.run = Some(run);
    }
}

impl<'a> Turn<'a> {
    /// The turn of one that has something waiting or at the drive; `flushes` says whether a flush
    /// may go.
    fn of(state: &'a TenantState, flushes: FlushTurns) -> Self {
        if flushes == FlushTurns::Count && state.flush_is_next() {
            Self::Flush
        } else if state.queue().is_empty() {
            Self::AtDrive
        } else {
            Self::Of(state)
        }
    }
}

impl Slack {
    pub(crate) fn of(parameters: &Parameters) -> Self {
        if parameters.get(SLACK.name) == 0.0 { Self::Fair } else { Self::Proportional }
    }

    /// What a tenant's part of slack is in proportion to.
    fn weight(self, state: &TenantState) -> u64 {
        match self {
            Self::Fair => 1,
            // Who has reserved nothing counts as having reserved a thousandth: it has little, but
            // something.
            Self::Proportional => u64::from(state.terms().reserve.as_billionths()).max(1_000_000),
        }
    }
}

impl Run {
    /// Whether as much was used as the run may use; a run of no length is over with its first
    /// request.
    fn is_spent(&self, state: &TenantState) -> bool {
        let (estimated, charged) = self.used(state);
        // Whatever comes back of what was sent before, a run has its first request.
        estimated > 0 && i64::try_from(charged).unwrap_or(i64::MAX) >= self.budget_ns
    }

    /// Nanoseconds that were charged when requests were sent, and as they have been corrected; of
    /// the latter, what comes back of what was sent before is no use.
    fn used(&self, state: &TenantState) -> (u64, u64) {
        let (estimated, charged) = state.charged();
        (estimated - self.began.0, u64::try_from(charged - self.began.1).unwrap_or(0))
    }

    /// Whether somebody may not wait until it is over.
    fn is_interrupted(
        &self,
        state: &TenantState,
        period: Nanos,
        view: &View<'_>,
        cost: &impl Fn(&Queued) -> Nanos,
    ) -> bool {
        let had_enough = !self.entitled && self.used(state).1 >= period.as_ns() / GIVES_WAY;
        if self.priority == PriorityClass::RealTime && !had_enough {
            return false;
        }
        let others = || {
            view.shares
                .waiting(if view.flush_may_go() { FlushTurns::Count } else { FlushTurns::Ignore })
                .filter(|state| state.tenant() != self.tenant && state.opens() <= view.now)
        };
        others().any(|state| {
            let higher = state.terms().priority < self.priority;
            (higher && !self.entitled)
                || ((higher || had_enough)
                    && Entitlement::of(state, period, view.now, cost).entitled)
        })
    }
}

/// Who is owed something, the earliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entitlement {
    priority: PriorityClass,
    /// Whether there is enough for the first request.
    entitled: bool,
    /// The deadline, in nanoseconds from now; the largest number for never.
    due_in_ns: i128,
    /// The same in whole periods, to the nearest; zero where a run is one request.
    periods: i128,
    /// How many runs there had been at its last.
    last: u64,
}

impl Entitlement {
    fn of(
        state: &TenantState,
        period: Nanos,
        now: Instant,
        cost: &impl Fn(&Queued) -> Nanos,
    ) -> Self {
        let priority = state.terms().priority;
        let first = if state.flush_is_next() {
            Some(state.flush_cost())
        } else {
            state.queue().oldest().map(cost)
        };
        let Some(first) = first.filter(|_| state.has_reserve()) else {
            return Self {
                priority,
                entitled: false,
                due_in_ns: i128::MAX,
                periods: i128::MAX,
                last: 0,
            };
        };
        // Where a run is more than a request, the time at which nothing was owed tells most:
        // periods change.
        let due_in_ns = state.due_in_ns(now, if period.is_zero() { first } else { Nanos::ZERO });
        let (period, half) = (i128::from(period.as_ns()), i128::from(period.as_ns() / 2));
        let periods = if period == 0 { 0 } else { (due_in_ns + half).div_euclid(period) };
        Self { priority, entitled: state.due_in_ns(now, first) <= 0, due_in_ns, periods, last: 0 }
    }

    /// The same of one whose last run was this.
    fn after(self, last: Option<u64>) -> Self {
        Self { last: last.unwrap_or(0), ..self }
    }

    /// The same where nothing is left over, if so: then everybody has one run in a round, and who
    /// is due within half a period counts as owed. Real time does not go first for that.
    fn or_soon(self, nothing_left: bool) -> Self {
        if self.entitled || !nothing_left || self.periods > 0 {
            return self;
        }
        Self { entitled: true, priority: self.priority.max(PriorityClass::BestEffort), ..self }
    }

    /// Who is owed something goes before who is not; among those by priority, among the others by
    /// time alone: whole periods first, and within one who had its run the longest ago.
    fn rank(&self) -> (bool, Option<PriorityClass>, i128, u64, i128) {
        (
            !self.entitled,
            self.entitled.then_some(self.priority),
            self.periods,
            self.last,
            self.due_in_ns,
        )
    }
}

impl PartialOrd for Entitlement {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.rank().cmp(&other.rank()))
    }
}

/// Who is offered slack, the least charged first.
struct Offered {
    priority: PriorityClass,
    used: f64,
}

impl Offered {
    fn is_before(&self, other: &Self) -> bool {
        self.priority.cmp(&other.priority).then(self.used.total_cmp(&other.used)).is_lt()
    }
}

/// What these have reserved together.
fn reserved_by<'a>(tenants: impl Iterator<Item = &'a TenantState>) -> Share {
    tenants.fold(Share::NONE, |sum, state| {
        sum.checked_add(state.terms().reserve).unwrap_or(Share::WHOLE)
    })
}

/// So much of `span` as `weight` is of all `weights`.
fn part(span: Nanos, weight: u64, weights: u64) -> Nanos {
    Nanos::from_ns(
        (u128::from(span.as_ns()) * u128::from(weight) / u128::from(weights.max(1))) as u64,
    )
}
