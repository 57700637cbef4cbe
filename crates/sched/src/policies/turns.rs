//! Turns by shares: the selection of the next tenant, shared by the policies that use
//! [`Shares`](crate::Shares).
//!
//! *Selection.* The server's own requests ([`VolumeId::INTERNAL`](crate::VolumeId::INTERNAL)) go
//! first. Tenants at a limit or without requests are skipped. A tenant is *entitled* if the bucket
//! of its reservation has enough for its first request. Entitled tenants go first, the earliest
//! deadline first. If each request is a turn, the deadline is the time at which the bucket has, or
//! would have, enough for the request, as published. If turns are runs, it is the time at which the
//! bucket was, or would be, level; of those at most half a period later than the earliest, the
//! tenant with the oldest last run goes.
//! Without an entitled tenant there is *slack*, which goes to the tenant with the least recent
//! charge, absolute (*fair*) or relative to its reservation (*proportional*). If the waiting
//! tenants have reserved the whole drive there is no slack, and the earliest deadline goes even
//! before it is reached (not if each request is a turn: as published). Priority comes before
//! either: real time, then best effort, then idle.
//!
//! A flush takes a turn of its tenant, alternating with the requests of that tenant. If the waiting
//! tenants have reserved the whole drive, each has one run in a period: a tenant due within half a
//! period counts as entitled. Periods change in steps (`policies/period.rs`).
//!
//! *Runs.* The selected tenant keeps the drive for a run, so that seeks between tenants stay few.
//! The budget of a run is the reservation's share of a period or, for slack, the tenant's part of
//! the period among those waiting. A run also ends when the tenant has no more requests, reaches a
//! limit, gets another reservation, or when a tenant of higher priority is entitled. A run of slack
//! ends, after a sixteenth of the period, when any tenant is entitled; under a policy that waits
//! also when one of the same priority has had less than half as much, and the tenant of the run
//! more than its reservation: one that uses little does not wait for long runs. While the last
//! request of a run is at the drive, no other tenant is served: a client with one request at a time
//! sends the next one when it completes. The use of a run is what was charged for it: estimates for
//! requests at the drive, measured times for the others. If estimates may be far off, a run whose
//! use comes to its budget waits for its requests at the drive, and goes on if their measured times
//! leave some of the budget.
//!
//! *Waits.* A policy may have turns wait for thinking tenants ([`Turns::waiting`]): a tenant with
//! one request at a time that thinks in between would lose its reservation to tenants with a long
//! queue, since a seek or a run of theirs stands between two of its requests. If nothing of a
//! tenant is held, half of its reservation of a period is left, and its next request is expected
//! soon, no other tenant has a run, unless that one is entitled too. The time of such a wait is
//! charged to nobody. After 400 ms of them another tenant has a run. A run with budget left is
//! waited for as well, while others have requests: if the next request of its tenant is expected
//! within a millisecond, or belongs to a stream that is worth a wait. A client with one request at
//! a time thinks at least for the way to it and back; without these waits a run would be one
//! request long, and a reader in sequence beside another tenant would pay a seek for each. They are
//! charged to the tenant, less what the drive destages of its writes meanwhile.
//!
//! Worked example, period 1 s: A has reserved 70 %, B 30 %, and both always have requests. A runs
//! for 700 ms; by then its bucket is 210 ms lower and B's as much higher. B's deadline is the
//! earlier; B runs for 300 ms, and both buckets are where they were.
//!
//! Cost: O(tenants) for each decision, and the cost of one request for each waiting tenant when a
//! run ends.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos, Share};

use crate::command::{Finished, HoldReason, Waits};
use crate::policies::period::{Lengthen, Period, Round};
use crate::policy::{Choice, View};
use crate::queue::{Queued, Ticket};
use crate::shares::{FlushTurns, Shares, Tenant, TenantState, Terms};
use crate::streams::Think;
use crate::table::{Parameter, Parameters};
use crate::tunables::PriorityClass;

/// The distribution of slack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slack {
    /// To the tenant with the least recent charge.
    Fair,
    /// To the tenant with the least recent charge relative to its reservation.
    Proportional,
}

/// The charge that ends a run when it reaches the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunEnd {
    /// Measured times and the estimates of requests at the drive.
    Estimated,
    /// Measured times. Estimates only limit the requests at the drive.
    Measured,
}

/// The selected turn.
pub(crate) enum Turn<'a> {
    /// This tenant's; it has requests waiting.
    Of(&'a TenantState),
    /// The flush of a tenant.
    Flush,
    /// None until a command at the drive completes.
    AtDrive,
    /// None until then: all waiting tenants are at a limit.
    Throttled(Instant),
    /// None until then, or until the request of a thinking tenant comes that is expected, though
    /// not before the second time.
    Expected(Instant, Instant),
}

impl<'a> Turn<'a> {
    /// The choice of the policy; `of` selects a request of the tenant.
    pub(crate) fn choice(self, of: impl FnOnce(&'a TenantState) -> Option<Ticket>) -> Choice {
        match self {
            Self::Of(state) => Choice::one(of(state)),
            Self::Flush => Choice::Flush,
            Self::AtDrive => Choice::Nothing,
            Self::Throttled(until) => Choice::Hold { until, reason: HoldReason::Throttled },
            Self::Expected(until, _) => Choice::Hold { until, reason: HoldReason::Anticipation },
        }
    }
}

/// The fraction of the period after which a run of slack can be interrupted (guess: long against a
/// seek, short against the second that shares are promised by).
const GIVES_WAY: u64 = 16;

/// A run of slack is given up for a tenant with a recent charge that is smaller by this factor
/// (guess).
const LESS: f64 = 2.0;

/// The reciprocal of the maximum fraction of a tenant's time lost by changing between tenants (the
/// project's target is one in twenty).
const LOST: f64 = 20.0;
/// The maximum number of returns to the drive of a new tenant (guess: a few periods).
const NEW: u32 = 3;

/// The longest wait for a thinking tenant (guess: at 10 ms of mean think time, exponentially
/// distributed, twice what is expected).
const LONGEST_THINK: Nanos = Nanos::from_ms(100);
/// The time of waits after which another tenant has a run (guess: a shortest run of slack takes
/// 16 ms).
const WAITED: Nanos = Nanos::from_ms(400);

/// A run goes on if the next request of its tenant is expected within this time, whatever it is
/// (guess: a tenth of what a random request takes).
const SOON: Nanos = Nanos::from_ms(1);

/// The state of turns.
pub(crate) struct Turns {
    period: Period,
    slack: Slack,
    ends: RunEnd,
    run: Option<Run>,
    /// The last run of each tenant that has had one, and how many there were before it.
    past: BTreeMap<Tenant, (u64, Run)>,
    runs: u64,
    thinking: Option<Thinking>,
}

/// The think times of tenants, and the waits for them.
#[derive(Default)]
struct Thinking {
    tenants: BTreeMap<Tenant, ThinkingTenant>,
    /// The wait that is on.
    waits_for: Option<Wait>,
    /// The tenant of the last wait.
    last: Option<Tenant>,
    /// The time of waits since another tenant was served.
    waited: Nanos,
    waits: Waits,
}

#[derive(Default)]
struct ThinkingTenant {
    think: Think,
    /// The time of waits in its runs for which it was not charged yet.
    uncharged: Nanos,
}

#[derive(Clone, Copy)]
struct Wait {
    since: Instant,
    tenant: Tenant,
    kind: WaitKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitKind {
    /// For a tenant that has no run; nobody is charged.
    BetweenRuns,
    /// For the tenant that has the run.
    InRun,
    /// The same for a stream of it; such waits are counted with those of streams.
    OfStream,
}

/// The run that is on.
#[derive(Clone, Copy, Debug)]
struct Run {
    tenant: Tenant,
    priority: PriorityClass,
    /// The reservation of the tenant: a changed reservation begins another run.
    reserve: Share,
    entitled: bool,
    /// True if it is in the longer round of two.
    round: Round,
    /// The budget; negative if the last run used that much too much.
    budget_ns: i64,
    /// The charge of the tenant when the run began.
    began: (u64, i64),
}

/// The period of runs.
pub(crate) const RUN: Parameter = Parameter {
    name: "run_ms",
    summary: "period in which every tenant has one run; 0 makes each request a run",
    default: 1_000.0,
    min: 0.0,
    max: 10_000.0,
    whole: false,
    origin: "P5 section 2.4 (granularity)",
};

/// The distribution of slack.
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
            ends: RunEnd::Estimated,
            run: None,
            past: BTreeMap::new(),
            runs: 0,
            thinking: None,
        }
    }

    /// Allows periods up to `longest`, where shorter ones would cost a tenant too much.
    pub(crate) fn up_to(self, longest: Nanos) -> Self {
        Self { period: self.period.up_to(longest), ..self }
    }

    /// Lets a run last until its measured times reach the budget: for estimates that may be far
    /// off.
    pub(crate) fn until_measured(self) -> Self {
        Self { ends: RunEnd::Measured, ..self }
    }

    /// Waits for thinking tenants.
    pub(crate) fn waiting(self) -> Self {
        Self { thinking: Some(Thinking::default()), ..self }
    }

    /// As [`crate::Policy::submitted`].
    pub(crate) fn submitted(&mut self, now: Instant, tenant: Tenant) {
        let Some(thinking) = &mut self.thinking else { return };
        thinking.tenants.entry(tenant).or_default().think.submitted(now);
        thinking.stop(now, Some(tenant));
    }

    /// As [`crate::Policy::finished`].
    pub(crate) fn finished(&mut self, finished: &Finished) {
        let tenant = finished.request.tenant();
        if let Some(thinking) = &mut self.thinking {
            thinking.tenants.entry(tenant).or_default().think.finished(finished);
        }
    }

    /// The waits for thinking tenants so far.
    pub(crate) fn waits(&self) -> Waits {
        self.thinking.as_ref().map_or_else(Waits::default, |thinking| thinking.waits)
    }

    /// Turns of one request each.
    pub(crate) fn by_request(slack: Slack) -> Self {
        Self {
            period: Period::fixed(Nanos::ZERO),
            slack,
            ends: RunEnd::Estimated,
            run: None,
            past: BTreeMap::new(),
            runs: 0,
            thinking: None,
        }
    }

    /// The next turn. `cost` is the amount that a tenant's bucket must have for a request, and
    /// `goes_on` the time until which a run of which nothing is held is worth a wait.
    pub(crate) fn next<'a>(
        &mut self,
        view: &View<'a>,
        cost: impl Fn(&Queued) -> Nanos,
        goes_on: impl FnOnce(&'a TenantState) -> Option<Instant>,
    ) -> Turn<'a> {
        let (shares, now) = (view.shares, view.now);
        let flushes = if view.flush_may_go() && shares.any_terms() {
            FlushTurns::Count
        } else {
            FlushTurns::Ignore
        };
        // This does not end the current run.
        if let Some(own) = shares.own_waiting() {
            return Turn::of(own, flushes);
        }
        if let Some(run) = self.run {
            let state = shares
                .tenant(run.tenant)
                .filter(|state| state.opens() <= now && state.terms().reserve == run.reserve);
            let yields_to = self.thinking.as_ref().map(|_| self.slack);
            let ends = |state: &&TenantState| {
                run.is_interrupted(state, self.period.mean(), yields_to, view, &cost)
            };
            match state.filter(|state| !ends(state)) {
                Some(state) if run.is_spent(state) => {
                    if self.is_unsettled(state) {
                        return Turn::AtDrive;
                    }
                    self.run = None;
                }
                Some(state)
                    if !state.queue().is_empty() || state.at_drive() > 0 || state.wants_flush() =>
                {
                    return Turn::of(state, flushes);
                }
                state => {
                    let until = state.and_then(|state| self.wait_in_run(view, state, goes_on));
                    if let Some(until) = until {
                        return Turn::Expected(until, now);
                    }
                    self.run = None;
                }
            }
        }
        if let Some((until, earliest)) = self.wait(view, &cost) {
            return Turn::Expected(until, earliest);
        }
        self.fit_period(view);
        let open = shares.waiting(flushes).filter(|state| state.opens() <= now);
        let nothing_left = !self.period.is_zero() && reserved_by(open) == Share::WHOLE;
        let half = i128::from(self.period.long().as_ns() / 2);
        let (mut opens, mut weights) = (Instant::NEVER, 0_u64);
        let mut dues: Vec<(Entitlement, &'a TenantState)> = Vec::new();
        let mut least: Option<(Offered, &'a TenantState)> = None;
        for state in shares.waiting(flushes) {
            if state.opens() > now {
                opens = opens.min(state.opens());
                continue;
            }
            let priority = state.terms().priority;
            weights += self.slack.weight(state);
            let key = Entitlement::of(state, self.period.mean(), now, &cost);
            if key.due_in_ns < i128::MAX {
                dues.push((if nothing_left { key.or_soon(half) } else { key }, state));
            }
            let key = Offered { priority, used: self.slack.used(state, now) };
            if least.as_ref().is_none_or(|(least, _)| key.is_before(least)) {
                least = Some((key, state));
            }
        }
        let entitled = self.first_of(&dues, half).filter(|(key, _)| key.entitled || nothing_left);
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

    /// The tenant whose run is next: of those due within `half` a period of the earliest, the one
    /// with the oldest last run.
    fn first_of<'a>(
        &self,
        dues: &[(Entitlement, &'a TenantState)],
        half: i128,
    ) -> Option<(Entitlement, &'a TenantState)> {
        let (first, _) = dues.iter().min_by_key(|(key, _)| (key.class(), key.due_in_ns))?;
        let alike = dues.iter().filter(|(key, _)| {
            key.class() == first.class() && key.due_in_ns <= first.due_in_ns.saturating_add(half)
        });
        alike.min_by_key(|(key, state)| (self.last_run_of(state), key.due_in_ns)).copied()
    }

    /// Returns whether a spent run may turn out not to be, when the estimates of its requests at
    /// the drive are corrected.
    fn is_unsettled(&self, state: &TenantState) -> bool {
        self.ends == RunEnd::Measured && !self.period.is_zero() && state.at_drive() > 0
    }

    /// The unused budget of the tenant's last run, negative if it used more. Nothing is lost, but
    /// at most half a run of mean length is carried over at once.
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

    /// Sets the required period: no active tenant may lose more than the maximum fraction by
    /// changing.
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

    /// Of the tenants other than the current one, the entitled one with the earliest deadline of
    /// all within a period from now.
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

    /// The entitled tenants whose writes in sequence come with pauses, and that have no run now.
    pub(crate) fn pausing<'a>(
        &self,
        view: &View<'a>,
        cost: impl Fn(&Queued) -> Nanos,
    ) -> impl Iterator<Item = &'a TenantState> {
        let (now, period) = (view.now, self.period.mean());
        let thinking = self.thinking.as_ref();
        view.shares.waiting(FlushTurns::Ignore).filter(move |state| {
            let known = thinking.and_then(|thinking| thinking.tenants.get(&state.tenant()));
            state.has_reserve()
                && state.queue().oldest().is_some_and(|oldest| state.extends_cached_with(oldest))
                && state.opens() <= now
                && self.run.is_none_or(|run| run.tenant != state.tenant())
                && known.is_some_and(|known| known.think.mean() > SOON)
                && Entitlement::of(state, period, now, &cost).entitled
        })
    }

    /// Until when the drive waits for a thinking tenant, and when its request is expected at the
    /// earliest.
    fn wait(
        &mut self,
        view: &View<'_>,
        cost: &impl Fn(&Queued) -> Nanos,
    ) -> Option<(Instant, Instant)> {
        let (thinking, now) = (self.thinking.as_mut()?, view.now);
        let period = self.period.mean();
        let is_entitled = |state: &TenantState| {
            state.opens() <= now && Entitlement::of(state, period, now, cost).entitled
        };
        let expected = || {
            thinking.tenants.iter().find_map(|(tenant, ThinkingTenant { think, .. })| {
                let state = view.shares.tenant(*tenant)?;
                let until = think.expected_by(LONGEST_THINK).filter(|until| *until > now)?;
                let waits = state.is_idle()
                    && !state.extends_cached()
                    && state.has_reserve()
                    && state.opens() <= now
                    && state.due_in_ns(now, state.terms().reserve.of(period) / 2) <= 0;
                waits.then(|| (*tenant, until, think.not_before().unwrap_or(now)))
            })
        };
        let may_wait =
            thinking.waited < WAITED && !view.shares.waiting(FlushTurns::Ignore).any(is_entitled);
        let Some((tenant, until, earliest)) = may_wait.then(expected).flatten() else {
            thinking.stop(now, None);
            return None;
        };
        thinking.last = Some(tenant);
        thinking.begin(now, tenant, WaitKind::BetweenRuns);
        Some((until, earliest))
    }

    /// Until when the drive waits for the next request of the tenant that has the run, while others
    /// have some: if it is expected soon, or its stream goes on.
    fn wait_in_run<'a>(
        &mut self,
        view: &View<'a>,
        state: &'a TenantState,
        goes_on: impl FnOnce(&'a TenantState) -> Option<Instant>,
    ) -> Option<Instant> {
        let (tenant, now) = (state.tenant(), view.now);
        let thinking = self.thinking.as_mut()?;
        let think = &thinking.tenants.get(&tenant)?.think;
        let mut others = view.shares.waiting(FlushTurns::Count).filter(|it| it.opens() <= now);
        let first = others.next()?;
        // Of several arms the first sends the flushes for all.
        if !view.has_one_arm() && (first.wants_flush() || others.any(TenantState::wants_flush)) {
            return None;
        }
        let soon = think.expected_by(SOON).filter(|until| *until > now);
        let kind = if soon.is_some() { WaitKind::InRun } else { WaitKind::OfStream };
        let until = soon.or_else(|| goes_on(state))?;
        thinking.begin(now, tenant, kind);
        Some(until)
    }

    /// The time of waits in runs of a tenant since it was charged for some.
    pub(crate) fn take_uncharged(&mut self, tenant: Tenant) -> Nanos {
        let known = self.thinking.as_mut().and_then(|thinking| thinking.tenants.get_mut(&tenant));
        known.map(|known| core::mem::take(&mut known.uncharged)).unwrap_or_default()
    }

    fn note(&mut self, shares: &Shares, run: Run) {
        if let Some(thinking) = &mut self.thinking {
            if thinking.tenants.len() > shares.tenants() {
                thinking.tenants.retain(|tenant, _| shares.tenant(*tenant).is_some());
            }
            if thinking.last != Some(run.tenant) {
                thinking.waited = Nanos::ZERO;
            }
        }
        if self.past.len() > shares.tenants() {
            self.past.retain(|tenant, _| shares.tenant(*tenant).is_some());
        }
        self.runs += 1;
        self.past.insert(run.tenant, (self.runs, run));
        self.run = Some(run);
    }
}

impl<'a> Turn<'a> {
    /// The turn of a tenant with something queued or at the drive.
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

impl Thinking {
    /// Begins a wait, unless it is on.
    fn begin(&mut self, now: Instant, tenant: Tenant, kind: WaitKind) {
        if self.waits_for.is_none_or(|wait| (wait.tenant, wait.kind) != (tenant, kind)) {
            self.stop(now, None);
            self.waits_for = Some(Wait { since: now, tenant, kind });
            self.waits.begun += u64::from(kind != WaitKind::OfStream);
        }
    }

    /// Counts the wait that is on, if a request of `came` ends it or, without one, no request.
    fn stop(&mut self, now: Instant, came: Option<Tenant>) {
        let Some(Wait { since, tenant, kind }) = self.waits_for else { return };
        if came.is_some_and(|came| came != tenant) {
            return;
        }
        self.waits_for = None;
        let time = now.saturating_since(since);
        if kind != WaitKind::OfStream {
            self.waits.time += time;
            self.waits.came += u64::from(came.is_some());
        }
        match (kind, self.tenants.get_mut(&tenant)) {
            (WaitKind::BetweenRuns, _) => self.waited += time,
            (_, Some(known)) => known.uncharged += time,
            (_, None) => {}
        }
    }
}

impl Slack {
    pub(crate) fn of(parameters: &Parameters) -> Self {
        if parameters.get(SLACK.name) == 0.0 { Self::Fair } else { Self::Proportional }
    }

    /// The recent charge by which slack is distributed, the least first.
    fn used(self, state: &TenantState, now: Instant) -> f64 {
        state.recent(now) / self.weight(state) as f64
    }

    /// The weight of a tenant in the distribution of slack.
    fn weight(self, state: &TenantState) -> u64 {
        match self {
            Self::Fair => u64::from(state.terms().weight),
            // A tenant without a reservation counts with a thousandth: a small weight, but not
            // zero.
            Self::Proportional => u64::from(state.terms().reserve.as_billionths()).max(1_000_000),
        }
    }
}

impl Run {
    /// Returns whether as much was used as the run may use; a run of no length is over with its
    /// first request.
    fn is_spent(&self, state: &TenantState) -> bool {
        let (estimated, charged) = self.used(state);
        // Whatever corrections of earlier charges return, a run has its first request.
        estimated > 0 && i64::try_from(charged).unwrap_or(i64::MAX) >= self.budget_ns
    }

    /// The estimates charged since the run began, and the corrected charges; corrections of earlier
    /// requests below zero do not count.
    fn used(&self, state: &TenantState) -> (u64, u64) {
        let (estimated, charged) = state.charged();
        (estimated - self.began.0, u64::try_from(charged - self.began.1).unwrap_or(0))
    }

    /// Returns whether another tenant may not wait until the run ends. `yields_by` is the
    /// distribution of slack by which a run of it is given up for a tenant that has had less.
    fn is_interrupted(
        &self,
        state: &TenantState,
        period: Nanos,
        yields_by: Option<Slack>,
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
        let has_more = state.recent(view.now) > state.terms().reserve.as_fraction();
        let slack = yields_by.filter(|_| had_enough && has_more);
        let has_had_less = |other: &TenantState| {
            slack.is_some_and(|slack| {
                other.terms().priority == self.priority
                    && slack.used(other, view.now) * LESS < slack.used(state, view.now)
            })
        };
        others().any(|state| {
            let higher = state.terms().priority < self.priority;
            (higher && !self.entitled)
                || has_had_less(state)
                || ((higher || had_enough)
                    && Entitlement::of(state, period, view.now, cost).entitled)
        })
    }
}

/// The entitlement of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entitlement {
    priority: PriorityClass,
    /// True if the bucket has enough for the first request.
    entitled: bool,
    /// The deadline, in nanoseconds from now; the largest number for never.
    due_in_ns: i128,
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
            return Self { priority, entitled: false, due_in_ns: i128::MAX };
        };
        // If a run is more than a request, the time at which the bucket was level is decisive,
        // because periods change.
        let due_in_ns = state.due_in_ns(now, if period.is_zero() { first } else { Nanos::ZERO });
        Self { priority, entitled: state.due_in_ns(now, first) <= 0, due_in_ns }
    }

    /// The same where the whole drive is reserved: then each tenant has one run in a round, and a
    /// tenant due within `half` a period counts as entitled. Real time has no precedence for that.
    fn or_soon(self, half: i128) -> Self {
        if self.entitled || self.due_in_ns >= half {
            return self;
        }
        Self { entitled: true, priority: self.priority.max(PriorityClass::BestEffort), ..self }
    }

    /// The first part of the sort key: entitled tenants before others, and these by priority.
    fn class(&self) -> (bool, Option<PriorityClass>) {
        (!self.entitled, self.entitled.then_some(self.priority))
    }
}

/// The rank of a tenant for slack, the least charged first.
struct Offered {
    priority: PriorityClass,
    used: f64,
}

impl Offered {
    fn is_before(&self, other: &Self) -> bool {
        self.priority.cmp(&other.priority).then(self.used.total_cmp(&other.used)).is_lt()
    }
}

/// The total reservation of these tenants.
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
