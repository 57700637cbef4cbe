#![doc = include_str!("../../../../docs/policies/headtime.md")]

mod cached;
mod drive_order;
mod in_time;

use alloc::boxed::Box;

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use self::in_time::Late;
use crate::command::{Finished, HoldReason, Outcome, Waits};
use crate::drive::Outstanding;
use crate::policies::per_arm::PerArm;
use crate::policies::sptf_expected::{SptfExpected, continues};
use crate::policies::stream_turns::{
    IDLE_SHARE, MERGED, StreamTurn, StreamTurns, merged_in_bulk, with_abutting,
};
use crate::policies::trials::Trials;
use crate::policies::turns::{self, SLACK, Turn, Turns};
use crate::policies::written::{DESTAGED, WriteCache, Written, is_cached_write};
use crate::policy::{Choice, Policy, View};
use crate::positioning::Target;
use crate::queue::{Queued, Ticket};
use crate::request::{Op, Request, RequestId, StreamId};
use crate::shares::{Charge, Tenant};
use crate::streams::{Owner, RunId};
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The number of commands of a run at the drive (guess: a small request takes less time than the
/// overhead of a command; with two, 4 KiB reads reach 0.85 to 0.98 of the drive's own queue).
const RUN_DEPTH: usize = 4;

/// Revolutions after which no other command joins one at the drive (guess: a missed sector comes
/// by once in a revolution).
const OLD_REVOLUTIONS: u64 = 2;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "headtime",
    summary: "turns of disk time for sequential runs and others, the cheapest request in a turn, \
        deadlines first",
    source: "docs/limits.md 6, on sptf-expected; turns: P3 and start-time fair queueing; \
        deadlines: P4",
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
    build: |parameters| {
        Box::new(PerArm::new(parameters, |parameters| Box::new(Headtime::new(parameters))))
    },
};

struct Headtime {
    best: SptfExpected,
    walk: usize,
    tail_revolutions: f64,
    late: Late,
    turns: Turns,
    streams: StreamTurns,
    weighted_response: WeightedResponse,
    unhurried: Unhurried,
    orders: Trials,
    /// The drive's cache or force unit access, where trials decide.
    forced: Trials,
    /// The last times at which the drive had time to spare, and a request with a deadline waited.
    had_time: Option<Instant>,
    had_deadline: Option<Instant>,
    /// The run of the last read that was served; `None` if it was in none.
    last_read: Option<RunId>,
    /// True if the last command that was served is a flush: flushes without end starve nobody.
    flushed_last: bool,
}

/// The disk time due to requests without a deadline: a quarter of all, while any wait, so that
/// deadlines that need more than the drive has do not starve the others.
#[derive(Clone, Copy, Debug, Default)]
struct Unhurried {
    due_ns: i64,
    /// True if any waited at the last decision.
    wait: bool,
}

impl Unhurried {
    fn observe(&mut self, view: &View<'_>) {
        self.wait = view.queue.with_deadline().next().is_some()
            && view.queue.by_arrival().take(OLDEST).any(|queued| queued.deadline.is_none());
    }

    fn charge(&mut self, finished: &Finished) {
        let time = finished.arm_time().as_ns() as i64;
        match finished.request.deadline {
            Some(_) if self.wait => self.due_ns += time / (UNHURRIED - 1),
            Some(_) => {}
            None => self.due_ns -= time,
        }
        let bound = BURST.as_ns() as i64 / UNHURRIED;
        self.due_ns = self.due_ns.clamp(-bound, bound);
    }

    fn are_due(&self) -> bool {
        self.wait && self.due_ns > 0
    }
}

/// The reciprocal of the share of disk time that requests without a deadline keep (guess: deadlines
/// are for what a drive can do with time to spare).
const UNHURRIED: i64 = 4;
/// The time over which they keep it: deadlines may take all of it for a while.
const BURST: Nanos = Nanos::from_secs(1);
/// The oldest requests among which one without a deadline counts as waiting.
const OLDEST: usize = 64;

/// The mean response time that ages are compared with while there are runs, weighted by disk time:
/// most requests of a run wait for nothing, and what waits beside it would soon count as old.
#[derive(Clone, Copy, Debug, Default)]
struct WeightedResponse {
    /// Moving means over the last 64 requests or so: of response × disk time, and of disk time.
    weighted: f64,
    weights: f64,
}

impl WeightedResponse {
    fn add(&mut self, finished: &Finished) {
        let time = finished.arm_time().as_ns() as f64;
        self.weighted += (finished.response().as_ns() as f64 * time - self.weighted) / 64.0;
        self.weights += (time - self.weights) / 64.0;
    }

    fn get(&self) -> Nanos {
        let mean = if self.weights > 0.0 { self.weighted / self.weights } else { 0.0 };
        Nanos::from_ns(mean as u64)
    }
}

/// The time of a trial of the order, and of forced writes: with less, its mean cost is off by 6 %,
/// and the writes that are in the drive's cache at its begin distort it.
const TRIAL: Nanos = Nanos::from_secs(1);
/// While the drive orders, it is given no more commands once one has waited for so many mean
/// responses. Measured on `nearline-20tb`: with 3, `oltp` has 4 % fewer requests and a 99th
/// percentile that is 16 % shorter.
const LATE_RESPONSES: u64 = 5;

/// The maximum period, used where short runs would cost a sequential volume more than a twentieth
/// of its time (P5 section 2.4: granularity).
const LONGEST_PERIOD: Nanos = Nanos::from_secs(1);

/// The number of reads held for each striped member from which on runs have turns on all. Measured
/// on arrays of four `nearline-20tb` and four `savvio10k2` with 135 pairs and mixtures each: the
/// harmonic mean of progress is 1.16 and 1.08 times that of each member by itself; with 1.25, 2 and
/// 3 it is 1 to 5 % less than with 1.5, and with 1 as much and 2 % less. Where there are always
/// turns, one or two clients beside a small reader in sequence have a third of their requests.
const READS_FOR_TURNS: f64 = 1.5;

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
            late: Late::default(),
            turns: Turns::new(parameters).up_to(LONGEST_PERIOD).waiting(),
            streams: StreamTurns::default(),
            weighted_response: WeightedResponse::default(),
            unhurried: Unhurried::default(),
            orders: Trials::new(TRIAL),
            forced: Trials::new(TRIAL),
            had_time: None,
            had_deadline: None,
            last_read: None,
            flushed_last: false,
        }
    }

    /// The next command among the requests that the view shows, which are those of `tenant`: a read
    /// that the drive's cache probably answers where the arm has work or is to wait, else by turns.
    fn next(&mut self, view: &View<'_>, tenant: Option<Tenant>) -> Choice {
        if self.drive_gets_all(view)
            && let Some(oldest) = view.queue.by_arrival().next()
        {
            return match self.streams.of_all(view) {
                StreamTurn::Expected(until) => {
                    Choice::Hold { until, reason: HoldReason::Anticipation }
                }
                StreamTurn::OfVolume(volume) => {
                    let of_volume = |held: &&Queued| held.request.volume == volume;
                    Choice::one(view.queue.by_arrival().find(of_volume).map(|held| held.ticket))
                }
                _ => Choice::one(Some(oldest.ticket)),
            };
        }
        let hit = self.hit(view);
        let needs_arm = |command: &Outstanding| {
            command.target.op.moves_head() && !self.is_beside_arm(view, command)
        };
        let goes = |hit: &Queued| {
            view.outstanding.iter().any(needs_arm)
                || hit.request.op == Op::Read && self.best.written().take_turns()
                || is_cached_write(&hit.request)
                    && (self.is_of_only_run(view, hit)
                        || self.passes_turn_of_run(view, hit)
                        || self.goes_as_single_command(view, hit))
        };
        let in_time = |tickets: &SmallVec<[Ticket; 1]>| {
            let target = target_of(view, tickets);
            target.is_some_and(|target| self.allows(view, view.now, Some((tickets, &target))))
        };
        // One command at a time shows the overhead of each.
        let command = |hit: &Queued| {
            let merged =
                (view.max_outstanding == 1).then(|| with_abutting(view, hit.ticket, MERGED));
            let merged = merged.filter(in_time).map(Choice::Send);
            merged.unwrap_or(Choice::one(Some(hit.ticket)))
        };
        match hit.map(|hit| (command(hit), goes(hit))) {
            Some((hit, true)) => hit,
            hit => match (self.next_in_turns(view, tenant), hit) {
                (Choice::Nothing | Choice::Hold { .. }, Some((hit, _))) => hit,
                (choice, _) => choice,
            },
        }
    }

    /// The next command of the requests that the view shows, which are those of `tenant`: by turns
    /// of streams, unless a deadline would be missed for it.
    fn next_in_turns(&mut self, view: &View<'_>, tenant: Option<Tenant>) -> Choice {
        self.unhurried.observe(view);
        let unhurried = tenant.is_none() && self.unhurried.are_due();
        let tickets = match self.streams.next(view, tenant, self.best.written()) {
            turn @ (StreamTurn::Anyone | StreamTurn::OfVolume(_)) => {
                let cheapest = match turn {
                    _ if unhurried => self.best.cheapest(view, |queued| queued.deadline.is_none()),
                    StreamTurn::OfVolume(volume) => {
                        self.best.cheapest(view, |queued| queued.request.volume == volume)
                    }
                    _ => self.best.cheapest_or_run(view),
                };
                if tenant.is_none()
                    && let Some(until) = self.until_one_more(view, cheapest)
                {
                    return Choice::Hold { until, reason: HoldReason::Anticipation };
                }
                self.or_visit(view, tenant, cheapest)
            }
            StreamTurn::Of(Owner::Run(run)) | StreamTurn::Visit(run) => {
                self.streams.merged(view, run)
            }
            StreamTurn::Of(owner) => {
                let among =
                    |queued: &Queued| self.streams.streams().owner(&queued.request) == owner;
                match (owner, self.best.cheapest(view, among)) {
                    (Owner::Writes(volume), Some(write)) => merged_in_bulk(view, volume, write),
                    (_, cheapest) => self.or_visit(view, tenant, cheapest),
                }
            }
            StreamTurn::AtDrive if self.allows_wait_at_drive(view) => {
                return Choice::Nothing;
            }
            StreamTurn::Expected(until) if self.allows(view, until, None) => {
                return Choice::Hold { until, reason: HoldReason::Anticipation };
            }
            StreamTurn::AtDrive | StreamTurn::Expected(_) => SmallVec::new(),
        };
        let goes_anyway = || {
            let has_none = |ticket: &Ticket| {
                view.queue.get(*ticket).is_some_and(|queued| queued.deadline.is_none())
            };
            unhurried && tickets.iter().all(has_none)
        };
        if let Some(target) = target_of(view, &tickets)
            && (goes_anyway() || self.allows(view, view.now, Some((&tickets, &target))))
        {
            return Choice::Send(tickets);
        }
        Choice::one(self.choose_urgent(view))
    }

    /// The number of commands at the drive where `next` continues the last one. A run that goes on
    /// has more, so that none of their overhead shows; but a drive may pass one over for those
    /// after it, again and again, so that an old one has to come back first. Where a turn begins on
    /// a drive that reads ahead, or the head is not where the run goes on, the first of long reads
    /// goes alone: of several, the drive would serve the one first that passes the head first, and
    /// lose a revolution or more for each before it.
    fn depth_in_run(&self, view: &View<'_>, next: &Queued) -> usize {
        let run_of = |queued: &Queued| self.streams.streams().run_of(queued.request.id);
        let Some(run) = run_of(next) else { return 2 };
        let is_long = next.target.transfer * RUN_DEPTH as u64 >= view.belief.revolution();
        let goes_on = |first: &Outstanding| first.target.extent.start == view.last.head.next_lba;
        let begins = next.request.op == Op::Read
            && (self.last_read != Some(run) || !view.outstanding.front().is_none_or(goes_on))
            && is_long
            && view.belief.reads_ahead()
            && self.streams.turn_of(tenant_of(view, next)) == Some(Owner::Run(run));
        let old = view.belief.revolution() * OLD_REVOLUTIONS;
        let is_old = |command: &&Outstanding| command.dispatched + old < view.now;
        let mut old_ones = view.outstanding.iter().filter(is_old).peekable();
        let any_old = old_ones.peek().is_some();
        let of_another =
            |first: &Queued| first.request.op == Op::Read && run_of(first) != Some(run);
        let is_passed_over = |old: &Outstanding| old.requests.first().is_some_and(of_another);
        if begins || old_ones.any(is_passed_over) {
            1
        } else if any_old {
            2
        } else {
            RUN_DEPTH
        }
    }

    /// Returns whether requests wait for a flush that finds nothing to save: it takes little time,
    /// and then the next request of its client competes with them. Those of a run do not wait.
    fn waits_for_empty_flush(&self, view: &View<'_>) -> bool {
        !view.unflushed
            && !view.shares.any_terms()
            && !matches!(self.streams.turn_of(None), Some(Owner::Run(_)))
            && continues(view).is_none()
    }

    /// The time until which one more request is worth a wait before the cheapest of all goes.
    fn until_one_more(&mut self, view: &View<'_>, cheapest: Option<Ticket>) -> Option<Instant> {
        let cheapest = cheapest.and_then(|ticket| view.queue.get(ticket));
        let cost = |cheapest: &Queued| view.next(&cheapest.target).expected;
        let next = cheapest.and_then(|cheapest| self.streams.one_more(view, cost(cheapest)));
        let next = next.filter(|(_, until)| self.allows(view, *until, None));
        self.streams.waits_for_one_more(view.now, next);
        next.map(|(_, until)| until)
    }

    /// A request that was chosen among others, or the first requests of its run.
    fn or_visit(
        &mut self,
        view: &View<'_>,
        tenant: Option<Tenant>,
        chosen: Option<Ticket>,
    ) -> SmallVec<[Ticket; 1]> {
        match chosen.and_then(|chosen| self.streams.begin_visit(view, tenant, chosen)) {
            Some(run) => self.streams.merged(view, run),
            None => chosen.into_iter().collect(),
        }
    }

    /// `choice`, or a wait instead of a write into the cache while another arm needs its room.
    fn or_leave_room(&self, view: &View<'_>, choice: Choice) -> Choice {
        let takes_room = |ticket: &Ticket| {
            let request = view.queue.get(*ticket).map(|queued| &queued.request);
            request.is_some_and(|request| is_cached_write(request) && !self.forces(view, request))
        };
        match (view.other_arms.need_room_until, &choice) {
            (Some(until), Choice::Send(tickets))
                if tickets.first().is_some_and(takes_room)
                    && self.best.written().wait_for_room()
                    && !self.best.written().are_beside_many_reads(view.now)
                    && self.allows(view, until, None) =>
            {
                Choice::Hold { until, reason: HoldReason::Anticipation }
            }
            _ => choice,
        }
    }

    /// The next command while a thinking tenant's request is expected, by `until`: a request of any
    /// other that is expected to end before `earliest`, when that request comes at the earliest.
    fn next_meanwhile(&self, view: &View<'_>, until: Instant, earliest: Instant) -> Choice {
        if !self.allows(view, until, None) {
            return Choice::one(self.choose_urgent(view));
        }
        let open = |queued: &Queued| {
            let state = view.shares.tenant(queued.request.tenant());
            state.is_some_and(|state| state.opens() <= view.now)
        };
        let ends_before = |ticket: &Ticket| {
            let target = view.queue.get(*ticket).map(|queued| &queued.target);
            target.is_some_and(|target| view.ready_at() + view.next(target).expected <= earliest)
        };
        match self.best.cheapest(view, open).filter(ends_before) {
            Some(ticket) => Choice::one(Some(ticket)),
            None => Choice::Hold { until, reason: HoldReason::Anticipation },
        }
    }
}

/// The disk time that a request is expected to take; that of a write into the drive's cache is its
/// transfer, as [`Destaging`](crate::destaging::Destaging) charges it. Striped members work at the
/// same time.
fn estimate_of(written: &Written, view: &View<'_>, queued: &Queued) -> Nanos {
    let is_cached = is_cached_write(&queued.request) && written.cache(view) == WriteCache::HasRoom;
    let alone = if is_cached { queued.target.transfer } else { view.next(&queued.target).expected };
    if view.is_striped() { alone / view.arm_count() as u64 } else { alone }
}

/// The tenant whose turns a request belongs to; `None` where no volume has terms.
fn tenant_of(view: &View<'_>, queued: &Queued) -> Option<Tenant> {
    view.shares.any_terms().then(|| queued.request.tenant())
}

impl Policy for Headtime {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, view: &View<'_>) -> usize {
        let hit = match view.shares.any_terms() {
            true => self.write_between_runs(view),
            false => self.hit(view),
        };
        if hit.is_some() {
            return view.outstanding.len() + 1;
        }
        if self.waits_for_empty_flush(view) && !view.flush_may_go() {
            return view.outstanding.len();
        }
        let moving = match self.best.depth(view) {
            2 => continues(view).map_or(2, |next| self.depth_in_run(view, next)),
            depth => depth,
        };
        if self.drive_gets_all(view) {
            return usize::MAX;
        }
        if self.drive_orders(view) {
            let late = view.mean_response * LATE_RESPONSES;
            let is_late = |command: &Outstanding| {
                command.target.op != Op::Flush && command.dispatched + late < view.now
            };
            let any_late = view.outstanding.iter().any(is_late);
            return if any_late { view.outstanding.len().max(1) } else { usize::MAX };
        }
        let beside = |command: &&Outstanding| self.is_beside_arm(view, command);
        let moving = if self.gathers_slow_writes() { moving.max(2) } else { moving };
        moving + view.outstanding.iter().filter(beside).count()
    }

    fn forces(&self, view: &View<'_>, write: &Request) -> bool {
        let (written, streams) = (self.best.written(), self.streams.streams());
        let held = 1 + view.queue.len() + view.outstanding.len() + view.flushes;
        let is_flushed_soon = || {
            !streams.any_long_unflushed_run()
                && match streams.is_flushed(write, view.now) {
                    true => written.are_flushed_soon(held) && !view.other_arms.are_unflushed,
                    false => self.forces_for_others(view, held),
                }
        };
        let waits = || {
            held >= written.forced_from(view)
                && written.wait_for_room()
                && self.are_cached_at_random(view)
                && !(written.are_forced_by_trials(view) && self.forced.by_drive(view.now))
        };
        view.belief.takes_into_cache(Op::Write)
            && !written.fua_is_slow()
            && streams.is_at_random(write)
            && (is_flushed_soon() || waits())
    }

    fn enforces_limits(&self) -> bool {
        true
    }

    fn charge(&mut self, view: &View<'_>, queued: &Queued) -> Charge {
        Charge {
            estimate: estimate_of(self.best.written(), view, queued),
            waited: self.turns.take_uncharged(queued.request.tenant()),
            ..Charge::default()
        }
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let flush_waits = view.flushes > 0 && view.flush_may_go() && !self.flushed_last;
        if flush_waits && self.waits_for_empty_flush(view) {
            return Choice::Nothing;
        }
        if view.idle_share >= IDLE_SHARE {
            self.had_time = Some(view.now);
        }
        if view.queue.with_deadline().next().is_some() {
            self.had_deadline = Some(view.now);
        }
        match self.tries_turns_of_writers(view) {
            true => self.best.written().try_turns(view.now),
            false => self.best.written().try_no_turns(),
        }
        let mean_response = match self.streams.streams().any_run() {
            true => self.weighted_response.get(),
            false => view.mean_response,
        };
        let (head, arm_heads) = (view.head.clone(), view.arm_heads.clone());
        let view = &View { mean_response, head, arm_heads, ..*view };
        if !view.shares.any_terms() {
            let choice = self.next(view, None);
            return self.or_leave_room(view, choice);
        }
        if let Some(write) = self.write_between_runs(view) {
            return Choice::one(Some(write.ticket));
        }
        let written = self.best.written();
        let cost = |queued: &Queued| estimate_of(written, view, queued);
        if let Some(state) = self.turns.urgent_tenant(view, cost) {
            return self.next(&view.of(state), Some(state.tenant()));
        }
        let goes_on = |state| {
            let turn =
                self.streams.next(&view.of(state), Some(state.tenant()), self.best.written());
            match turn {
                StreamTurn::Expected(until) => Some(until),
                _ => None,
            }
        };
        match self.turns.next(view, cost, goes_on) {
            Turn::Of(state) => self.next(&view.of(state), Some(state.tenant())),
            Turn::Expected(until, earliest) => self.next_meanwhile(view, until, earliest),
            other => other.choice(|_| None),
        }
    }

    /// A turn of a run reaches all striped members, and has to begin on all at the same time. With
    /// few reads, turns would leave members idle.
    fn needs_all_arms(&self, view: &View<'_>) -> bool {
        // Which runs are long depends on it.
        self.streams.change(view);
        let at_drive = || view.outstanding.iter().flat_map(|command| &command.requests);
        let is_read = |held: &&Queued| held.request.op == Op::Read;
        let many = (READS_FOR_TURNS * view.arm_count() as f64) as usize;
        let are_many = || {
            let held = view.queue.by_arrival().chain(at_drive()).take(OLDEST * view.arm_count());
            held.filter(is_read).take(many).count() == many
        };
        view.is_striped() && self.streams.streams().any_heavy_run() && are_many()
    }

    fn belief_changed(&mut self) {
        self.streams.belief_changed();
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        self.turns.submitted(now, request.tenant());
        self.streams.submitted(now, request);
        self.best.submitted(now, request);
    }

    fn finished(&mut self, finished: &Finished) {
        self.flushed_last = finished.request.op == Op::Flush;
        if finished.request.op == Op::Read {
            self.last_read = self.streams.streams().run_of(finished.request.id);
        }
        if finished.outcome == Outcome::Success && finished.request.op.moves_head() {
            self.weighted_response.add(finished);
            self.unhurried.charge(finished);
            self.late.finished(finished);
        }
        if finished.outcome == Outcome::Success {
            self.orders.finished(finished);
            self.forced.finished(finished);
        }
        let streams = self.streams.streams();
        if !streams.is_of_slow_writer(&finished.request) {
            match streams.extends_cached(&finished.request) && finished.arm_time() <= DESTAGED {
                true => self.best.extended_cached(finished),
                false => self.best.finished(finished),
            }
        }
        self.turns.finished(finished);
        self.streams.finished(finished);
    }

    fn cancelled(&mut self, id: RequestId) {
        self.streams.cancelled(id);
    }

    fn stream_ended(&mut self, _now: Instant, stream: StreamId) {
        self.streams.stream_ended(stream);
    }

    fn waits(&self) -> Waits {
        self.streams.waits() + self.turns.waits()
    }
}

/// The position of these requests as one command; `None` without any.
fn target_of(view: &View<'_>, tickets: &[Ticket]) -> Option<Target> {
    let first = view.queue.get(*tickets.first()?)?;
    let last = view.queue.get(*tickets.last()?)?;
    if tickets.len() == 1 {
        return Some(first.target);
    }
    let Extent { start, .. } = first.request.extent;
    Some(
        view.belief.target(first.request.op, Extent::new(start, last.request.extent.end() - start)),
    )
}
