#![doc = include_str!("../../../../docs/policies/headtime.md")]

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use crate::command::{Finished, HoldReason, Outcome, Waits};
use crate::drive::Outstanding;
use crate::policies::per_arm::PerArm;
use crate::policies::sptf_expected::{SptfExpected, continues};
use crate::policies::stream_turns::{
    IDLE_SHARE, LONGEST_TURN, StreamTurn, StreamTurns, with_abutting,
};
use crate::policies::turns::{self, SLACK, Turn, Turns};
use crate::policies::written::{DESTAGED, WriteCache, is_cached_write};
use crate::policy::{Choice, Policy, View};
use crate::positioning::{Head, Target};
use crate::queue::{Queued, Ticket};
use crate::request::{Op, Request, RequestId, StreamId};
use crate::shares::Tenant;
use crate::streams::{Owner, RunId, is_rest};
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The number of deadlines that may be missed before only the cost of requests counts: with more,
/// the drive is overloaded, and the cheapest request leaves the most time for the others (guess:
/// with 1, loads that the drive can carry miss up to 0.1 points more).
const FEW: usize = 2;

/// Revolutions after which a late request no longer waits for cheaper ones (guess: a quarter of a
/// second at 7,200 rpm).
const PATIENCE_REVOLUTIONS: u64 = 32;

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
    turns: Turns,
    streams: StreamTurns,
    mean_response: MeanResponse,
    unhurried: Unhurried,
    /// The last times at which the drive had time to spare, and a request with a deadline waited.
    had_time: Option<Instant>,
    had_deadline: Option<Instant>,
    /// The run of the last read that was served; `None` if it was in none.
    last_read: Option<RunId>,
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
struct MeanResponse {
    /// Moving means over the last 64 requests or so: of response × disk time, and of disk time.
    weighted: f64,
    weights: f64,
}

impl MeanResponse {
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

/// The drive orders with these numbers of requests held, all at random. Measured on three drives:
/// with 4, it gains where 0.7 are reads and loses where 0.9 are; with more than its queue of 32
/// holds, the order of all gains.
const DRIVE_ORDERS: core::ops::Range<usize> = 5..40;
/// The drive orders if all deadlines are at least so many mean responses long. Measured on
/// `nearline-20tb` with a recorder beside 8 to 32 clients and deadlines of 60 to 400 ms: none is
/// missed.
const TIMELY_RESPONSES: u64 = 2;
/// A read waits for so many changes before it goes beside writes that wait for room, the time after
/// which turns are given up. Measured on `nearline-20tb` beside 16 writers in short runs: without
/// patience the reader waits half as long, and near saturation writes wait a third longer.
const PATIENT_CHANGES: u64 = 2;
/// While the drive orders, it is given no more commands once one has waited for so many mean
/// responses. Measured on `nearline-20tb`: with 3, `oltp` has 4 % fewer requests and a 99th
/// percentile that is 16 % shorter.
const LATE_RESPONSES: u64 = 5;

/// The share of the drive's time up to which slow writers take it from others in any turn, when it
/// destages each of their writes by itself. Measured on `nearline-20tb` with 8 random clients: a
/// recorder of 15 writes/s needs 0.18, and nobody loses 1 %.
const FEW_SLOW: f64 = 0.25;
/// The share from which on it is to gather their writes: with less, one command at a time costs
/// less. Measured as above: 4 recorders of 15 writes/s need 0.7.
const MANY_SLOW: f64 = 1.0;

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
            turns: Turns::new(parameters).up_to(LONGEST_PERIOD).waiting(),
            streams: StreamTurns::default(),
            mean_response: MeanResponse::default(),
            unhurried: Unhurried::default(),
            had_time: None,
            had_deadline: None,
            last_read: None,
        }
    }

    /// The next command among the requests that the view shows, which are those of `tenant`: a read
    /// that the drive's cache probably answers where the arm has work or is to wait, else by turns.
    fn next(&mut self, view: &View<'_>, tenant: Option<Tenant>) -> Choice {
        if self.drive_gets_all(view)
            && let Some(oldest) = view.queue.by_arrival().next()
        {
            return Choice::one(Some(oldest.ticket));
        }
        let hit = self.hit(view);
        let needs_arm = |command: &Outstanding| {
            command.target.op.moves_head() && !self.is_beside_arm(view, command)
        };
        let goes = |hit: &Queued| {
            view.outstanding.iter().any(needs_arm)
                || is_cached_write(&hit.request)
                    && (self.is_of_only_run(view, hit) || self.passes_turn_of_run(view, hit))
        };
        match hit.map(|hit| (Choice::one(Some(hit.ticket)), goes(hit))) {
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
        let tickets = match self.streams.next(view, tenant, self.best.written().cache(view)) {
            StreamTurn::Anyone => {
                let cheapest = match unhurried {
                    true => self.best.cheapest(view, |queued| queued.deadline.is_none()),
                    false => self.best.cheapest_or_run(view),
                };
                self.or_visit(view, tenant, cheapest)
            }
            StreamTurn::Of(Owner::Run(run)) | StreamTurn::Visit(run) => {
                self.streams.merged(view, run)
            }
            StreamTurn::Of(owner) => {
                let among =
                    |queued: &Queued| self.streams.streams().owner(&queued.request) == owner;
                match self.best.cheapest(view, among) {
                    Some(write) if matches!(owner, Owner::Writes(_)) => with_abutting(view, write),
                    cheapest => self.or_visit(view, tenant, cheapest),
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

    /// Returns whether every deadline is met if nothing goes before the drive is ready. How long a
    /// flush takes is not known.
    fn allows_wait_at_drive(&self, view: &View<'_>) -> bool {
        let ready_is_known = view.flush_may_go() || view.queue.with_deadline().next().is_none();
        ready_is_known && self.allows(view, view.ready_at(), None)
    }

    /// The read that the drive's cache probably answers, or the write that it probably takes. Even
    /// as a seek it causes no miss, in case it is none. With time to spare it may be a read of a
    /// run whose last reads were answered: a drive reads ahead there again whenever it is idle,
    /// which the drive model does not follow. Beside writes that wait for room it is a read that
    /// has waited for two changes, though it needs the arm.
    fn hit<'a>(&self, view: &View<'a>) -> Option<&'a Queued> {
        let in_time =
            |hit: &&Queued| self.allows(view, view.now, Some((&[hit.ticket], &hit.target)));
        let streams = self.streams.streams();
        let spare = self.streams.has_time_to_spare(view);
        let oldest = || view.queue.by_arrival().take(OLDEST);
        let write = || oldest().find(|queued| self.goes_into_cache(view, queued));
        let read_ahead = || oldest().find(|queued| streams.is_read_ahead(&queued.request));
        let beside_writes = || {
            let patience = self.streams.change(view) * PATIENT_CHANGES;
            let is_late = |queued: &Queued| queued.submitted + patience <= view.now;
            oldest().find(|queued| queued.request.op == Op::Read && is_late(queued))
        };
        view.probable_hit()
            .or_else(write)
            .or_else(|| spare.then(read_ahead).flatten())
            .or_else(|| self.writes_wait(view).then(beside_writes).flatten())
            .filter(in_time)
    }

    /// Returns whether a write at the drive waits for room in its cache, and reads are few: each
    /// would wait for all that the drive destages until then.
    fn writes_wait(&self, view: &View<'_>) -> bool {
        let written = self.best.written();
        let waits = |command: &Outstanding| {
            command.requests.first().is_some_and(|first| is_cached_write(&first.request))
        };
        written.are_beside_few_reads(view.now)
            && view.belief.takes_into_cache(Op::Write)
            && written.cache(view) == WriteCache::FullOrNone
            && view.outstanding.iter().any(waits)
    }

    /// Returns whether a request goes into the drive's cache beside the turns. With time to spare,
    /// and if it is of a slow writer, it does so also where the cache is full, if it extends what
    /// that holds.
    fn goes_into_cache(&self, view: &View<'_>, queued: &Queued) -> bool {
        let has_room = || self.best.written().cache(view) == WriteCache::HasRoom;
        let extends = || {
            self.streams.streams().extends_cached(&queued.request)
                && (self.streams.has_time_to_spare(view) || self.passes_slow_write(queued))
        };
        view.belief.takes_into_cache(Op::Write)
            && self.passes(view, queued)
            && (has_room() || extends())
    }

    /// The owner of the turn that is on, if it is another than that of this request.
    fn turn_of_another(&self, view: &View<'_>, queued: &Queued) -> Option<Owner> {
        let own = self.streams.streams().owner(&queued.request);
        self.streams.turn_of(tenant_of(view, queued)).filter(|owner| *owner != own)
    }

    /// Returns whether a write of a slow writer goes into the drive's cache in the turn of another
    /// run.
    fn passes_turn_of_run(&self, view: &View<'_>, queued: &Queued) -> bool {
        self.passes_slow_write(queued)
            && self.turn_of_another(view, queued).is_some_and(|owner| !is_rest(owner))
    }

    /// Returns whether a request goes into the drive's cache beside the turns, if that has room.
    /// Without time to spare that is a write which the drive destages with others, or one of an
    /// owner that has used less than that of the turn; any other would take the time of reads.
    fn passes(&self, view: &View<'_>, queued: &Queued) -> bool {
        is_cached_write(&queued.request)
            && (self.streams.has_time_to_spare(view)
                || self.streams.destages_with_others(tenant_of(view, queued), queued)
                || self.streams.has_used_less_than_turn(tenant_of(view, queued), queued)
                || self.passes_slow_write(queued)
                || self.is_of_only_run(view, queued))
    }

    /// Returns whether a write of a slow writer goes into the drive's cache beside the turns: the
    /// drive gathers such writes, or destages so few that they cost others little.
    fn passes_slow_write(&self, queued: &Queued) -> bool {
        let streams = self.streams.streams();
        streams.is_of_slow_writer(&queued.request)
            && (streams.slow_writers().is_some_and(|time| time <= FEW_SLOW)
                || self.gathers_slow_writes())
    }

    /// Returns whether the drive is to gather the writes of slow writers in its cache: between two
    /// commands it destages them, unless it has another command already.
    fn gathers_slow_writes(&self) -> bool {
        let time = self.streams.streams().slow_writers();
        time.is_some_and(|time| time >= MANY_SLOW || self.best.written().are_forced())
    }

    /// Returns whether all requests held are of the run of this one, and no other has its turn:
    /// the next request of that may be expected.
    fn is_of_only_run(&self, view: &View<'_>, queued: &Queued) -> bool {
        if self.turn_of_another(view, queued).is_some() {
            return false;
        }
        let streams = self.streams.streams();
        let at_drive = view.outstanding.iter().map(|command| command.requests.len());
        let all = view.queue.len() + at_drive.sum::<usize>();
        streams.run_of(queued.request.id).is_some_and(|run| streams.held(run) == all)
    }

    /// Returns whether the drive gets all requests as they come, because it orders writes into its
    /// cache when it destages them, whatever the policy does: no run lasts, and all were writes for
    /// a while. If the drive had time to spare lately, half are enough, or a fifth beside few
    /// reads: turns would take longer for a burst than the drive alone. Not if requests had
    /// deadlines: they would have to wait for all that is at the drive.
    fn drive_gets_all(&self, view: &View<'_>) -> bool {
        let (written, streams) = (self.best.written(), self.streams.streams());
        let lately =
            |last: Option<Instant>| last.is_some_and(|last| view.now < last + Nanos::from_secs(1));
        let most = written.are_most()
            || written.are_destaged_meanwhile() && written.are_beside_few_reads(view.now);
        let with_reads = most && lately(self.had_time) && !lately(self.had_deadline);
        let goes = |queued: &Queued| {
            let read = with_reads && queued.request.op == Op::Read;
            (read || is_cached_write(&queued.request)) && queued.deadline.is_none()
        };
        (with_reads || written.are_all(view.now))
            && !written.are_forced()
            && !view.shares.any_terms()
            && view.belief.takes_into_cache(Op::Write)
            && !streams.any_run_of(self.streams.change(view) * LONGEST_TURN)
            && view.queue.by_arrival().take(OLDEST).all(goes)
    }

    /// Returns whether the drive's own queue orders better: between commands the drive destages
    /// writes, for which others wait, and only it knows where its arm is then. With many requests
    /// writes are forced instead; where most are writes, the drive would destage all the time.
    fn drive_orders(&self, view: &View<'_>) -> bool {
        let held = view.queue.len() + view.outstanding.len();
        let in_time = |shortest| shortest >= view.mean_response * TIMELY_RESPONSES;
        DRIVE_ORDERS.contains(&held)
            && self.streams.streams().shortest_deadline().is_none_or(in_time)
            && !self.best.written().are_forced()
            && !self.best.written().are_most()
            && !view.shares.any_terms()
            && self.best.written().are_destaged_meanwhile()
            && self.are_cached_at_random(view)
    }

    /// Returns whether the drive caches writes, and all requests are at random.
    fn are_cached_at_random(&self, view: &View<'_>) -> bool {
        // Of several arms, the instance for all decides nothing else that needs it.
        self.streams.change(view);
        let streams = self.streams.streams();
        let at_random = |queued: &Queued| {
            streams.is_of_slow_writer(&queued.request)
                || queued.deadline.is_none() && streams.is_at_random(&queued.request)
        };
        view.belief.takes_into_cache(Op::Write)
            && !streams.any_long_run()
            && view.queue.by_arrival().take(OLDEST).all(at_random)
    }

    /// The number of commands at the drive where `next` continues the last one. A run that goes on
    /// has more, so that none of their overhead shows; but a drive may pass one over for those
    /// after it, again and again, so that an old one has to come back first. Where a turn begins,
    /// the first of long reads goes alone: of several, the drive would serve the one first that
    /// passes the head first, and lose a revolution or more for each before it.
    fn depth_in_run(&self, view: &View<'_>, next: &Queued) -> usize {
        let run_of = |queued: &Queued| self.streams.streams().run_of(queued.request.id);
        let Some(run) = run_of(next) else { return 2 };
        let is_long = next.target.transfer * RUN_DEPTH as u64 >= view.belief.revolution();
        let begins = next.request.op == Op::Read
            && self.last_read != Some(run)
            && is_long
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

    /// Returns whether a command at the drive needs no arm.
    fn is_beside_arm(&self, view: &View<'_>, command: &Outstanding) -> bool {
        let goes = |first: &Queued| self.goes_into_cache(view, first);
        command.probably_cached || command.requests.first().is_some_and(goes)
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

    /// Returns whether every deadline among the first `walk` is met when `first` goes next, if it
    /// is given, no command goes before `from`, and the others follow in the order of their
    /// deadlines. While a request is late, only requests with a deadline go.
    fn allows(&self, view: &View<'_>, from: Instant, first: Option<(&[Ticket], &Target)>) -> bool {
        let Some(earliest) = view.queue.with_deadline().next() else { return true };
        let has_deadline = |ticket: &Ticket| {
            view.queue.get(*ticket).is_some_and(|queued| queued.deadline.is_some())
        };
        let tickets = first.map_or(&[][..], |(tickets, _)| tickets);
        if due(earliest) <= view.now && !tickets.iter().any(has_deadline) {
            return false;
        }
        self.missed(view, from, first).next().is_none()
    }

    /// The requests among the first `walk` by deadline that miss theirs when `first` goes next, no
    /// command goes before `from`, and the others follow by deadline. One that is late already does
    /// not count.
    fn missed<'a>(
        &self,
        view: &'a View<'_>,
        from: Instant,
        first: Option<(&'a [Ticket], &'a Target)>,
    ) -> impl Iterator<Item = &'a Queued> {
        let tickets = first.map_or(&[][..], |(tickets, _)| tickets);
        let tail = Nanos::from_ns(
            (view.belief.revolution().as_ns() as f64 * self.tail_revolutions) as u64,
        );
        let mut head = *view.head();
        // The head follows most likely times, because only those end at a real angle; the
        // additional expected time is summed separately.
        let mut beyond_ns: i64 = 0;
        let mut finish = move |target: &Target| {
            let estimate = view.belief.estimate(&head, from, target);
            head = Head::after(target, estimate.finish());
            beyond_ns += estimate.expected.as_ns() as i64 - estimate.positioning.as_ns() as i64;
            estimate.finish().offset_by_ns(beyond_ns.max(0))
        };
        let first_finish = first.map(|(_, target)| finish(target));
        let chosen = tickets.iter().filter_map(|ticket| view.queue.get(*ticket));
        let chosen = chosen.zip(first_finish.into_iter().cycle());
        let others = view
            .queue
            .with_deadline()
            .take(self.walk)
            .filter(move |queued| !tickets.contains(&queued.ticket) && due(queued) > view.now)
            .map(move |queued| (queued, finish(&queued.target)));
        let in_time = move |(queued, finish): &(&Queued, Instant)| {
            *finish + tail <= due(queued) || due(queued) <= view.now
        };
        chosen.chain(others).filter(move |finish| !in_time(finish)).map(|(queued, _)| queued)
    }

    /// Of the first `walk` requests by deadline, the cheapest of those after which the fewest miss
    /// theirs, if these are few; otherwise the cheapest. A very late request goes at once.
    fn choose_urgent(&self, view: &View<'_>) -> Option<Ticket> {
        let patience = view.belief.revolution() * PATIENCE_REVOLUTIONS;
        if let Some(first) =
            view.queue.with_deadline().next().filter(|first| due(first) + patience < view.now)
        {
            return Some(first.ticket);
        }
        let mut by_cost: Vec<&Queued> = view.queue.with_deadline().take(self.walk).collect();
        by_cost.sort_by_cached_key(|queued| {
            (view.estimate(queued).expected_cost(view.now), queued.ticket)
        });
        let (mut first, mut fewest) = (by_cost.first(), FEW + 1);
        for queued in &by_cost {
            let then = Some((&[queued.ticket][..], &queued.target));
            let missed = self.missed(view, view.now, then).take(fewest).count();
            if missed < fewest {
                (first, fewest) = (Some(queued), missed);
            }
            if missed == 0 {
                break;
            }
        }
        first.map(|queued| queued.ticket)
    }
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
        if !view.shares.any_terms() && self.hit(view).is_some() {
            return view.outstanding.len() + 1;
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
        let held = 1 + view.queue.len() + view.outstanding.len();
        let waits = || {
            held >= written.forced_from()
                && written.wait_for_room()
                && self.are_cached_at_random(view)
        };
        view.belief.takes_into_cache(Op::Write)
            && !written.fua_is_slow()
            && streams.is_at_random(write)
            && (written.are_flushed_soon(held) && !streams.any_long_unflushed_run() || waits())
    }

    fn enforces_limits(&self) -> bool {
        true
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        if view.idle_share >= IDLE_SHARE {
            self.had_time = Some(view.now);
        }
        if view.queue.with_deadline().next().is_some() {
            self.had_deadline = Some(view.now);
        }
        let mean_response = match self.streams.streams().any_run() {
            true => self.mean_response.get(),
            false => view.mean_response,
        };
        let (head, arm_heads) = (view.head.clone(), view.arm_heads.clone());
        let view = &View { mean_response, head, arm_heads, ..*view };
        if !view.shares.any_terms() {
            return self.next(view, None);
        }
        let cost = |queued: &Queued| view.next(&queued.target).expected;
        if let Some(state) = self.turns.urgent_tenant(view, cost) {
            return self.next(&view.of(state), Some(state.tenant()));
        }
        match self.turns.next(view, cost) {
            Turn::Of(state) => self.next(&view.of(state), Some(state.tenant())),
            Turn::Expected(until, earliest) => self.next_meanwhile(view, until, earliest),
            other => other.choice(|_| None),
        }
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
        if finished.request.op == Op::Read {
            self.last_read = self.streams.streams().run_of(finished.request.id);
        }
        if finished.outcome == Outcome::Success && finished.request.op.moves_head() {
            self.mean_response.add(finished);
            self.unhurried.charge(finished);
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

fn due(queued: &Queued) -> Instant {
    queued.deadline.unwrap_or(Instant::NEVER)
}
