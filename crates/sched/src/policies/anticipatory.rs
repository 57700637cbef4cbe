#![doc = include_str!("../../../../docs/policies/as.md")]
#![doc = include_str!("../../../../docs/policies/cas.md")]

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use headtime_units::{Instant, Lba, Nanos};

use crate::command::{Finished, HoldReason};
use crate::policies::elevator::{
    DecayingMean, MAX_SECTORS, Merger, Merges, Process, Sweep, process_of,
};
use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::request::{Request, RequestId, StreamId};
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "as",
    summary: "Linux 2.6's anticipatory scheduler: after a read it waits for the next one of the \
        same process",
    source: "P3 section 2.2 (LAS)",
    oracle: false,
    parameters: &[
        ANTIC_EXPIRE,
        READ_EXPIRE,
        WRITE_EXPIRE,
        READ_BATCH_EXPIRE,
        WRITE_BATCH_EXPIRE,
        CLOSE,
        BACK_MAX,
        MAX_SECTORS,
    ],
    build: |parameters| Box::new(Anticipatory::new(ENTRY.name, parameters, Heuristic::OneProcess)),
};

/// The table entry of the cooperative variant.
pub const COOPERATIVE_ENTRY: PolicyEntry = PolicyEntry {
    name: "cas",
    summary: "cooperative anticipatory: as `as`, but it waits for a near read of any process",
    source: "P3 section 4 (CAS)",
    oracle: false,
    parameters: &[
        ANTIC_EXPIRE,
        READ_EXPIRE,
        WRITE_EXPIRE,
        READ_BATCH_EXPIRE,
        WRITE_BATCH_EXPIRE,
        CLOSE,
        STEP_4,
        BACK_MAX,
        MAX_SECTORS,
    ],
    build: |parameters| {
        let test = match parameters.get(STEP_4.name) != 0.0 {
            true => EndedTest::System,
            false => EndedTest::Cooperation,
        };
        let heuristic = Heuristic::Cooperative(test);
        Box::new(Anticipatory::new(COOPERATIVE_ENTRY.name, parameters, heuristic))
    },
};

const ANTIC_EXPIRE: Parameter = Parameter {
    name: "antic_expire_ms",
    summary: "how long the drive waits for a request; 0 never",
    default: 6.0,
    min: 0.0,
    max: 1_000.0,
    whole: false,
    origin: "P3 section 2.2",
};

const READ_EXPIRE: Parameter = Parameter {
    name: "read_expire_ms",
    summary: "how long a read or a forced write waits before it is due, and the minimum time \
        between two that go because of that",
    default: 125.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 2.6",
};

const WRITE_EXPIRE: Parameter = Parameter {
    name: "write_expire_ms",
    summary: "the same for other writes",
    default: 250.0,
    ..READ_EXPIRE
};

const READ_BATCH_EXPIRE: Parameter = Parameter {
    name: "read_batch_expire_ms",
    summary: "length of a batch of reads while writes wait",
    default: 500.0,
    ..READ_EXPIRE
};

const WRITE_BATCH_EXPIRE: Parameter = Parameter {
    name: "write_batch_expire_ms",
    summary: "length of a batch of writes while reads wait",
    default: 125.0,
    ..READ_EXPIRE
};

const CLOSE: Parameter = Parameter {
    name: "close_sectors",
    summary: "distance from the head at which a request is close in the first millisecond of a \
        wait; it doubles with each further one, and half of it counts back",
    default: 64.0,
    min: 0.0,
    max: 1e9,
    whole: true,
    origin: "Linux 2.6.9; P3 gives no number",
};

const STEP_4: Parameter = Parameter {
    name: "step_4_system",
    summary: "probability that decides when the awaited process has ended: 0 that of cooperation, \
        1 the system exit probability",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "P3 section 4, step 4, is ambiguous; later kernels (0)",
};

const BACK_MAX: Parameter = Parameter {
    name: "maxback_sectors",
    summary: "distance back from the last command within which a request still belongs to this \
        sweep",
    default: 1_048_576.0,
    min: 0.0,
    max: 1e12,
    whole: true,
    origin: "P3 section 2.2 (MAXBACK)",
};

/// The factor by which a distance back counts (Linux 2.6).
const BACK_PENALTY: u64 = 2;

/// Longer think times count as this (Linux 2.6): a process that pauses is soon trusted again.
const MAX_THINK: Nanos = Nanos::from_ms(20);

/// A seek counts at most four times the mean and this (Linux 2.6: 1 GiB), so that one outlier does
/// not end anticipation for long.
const MAX_SEEK: f64 = 2_097_152.0;

/// Processes whose statistics are kept (guess); beyond that the one that was idle longest goes.
const MAX_PROCESSES: usize = 1_024;

/// The rules that end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heuristic {
    /// P3 section 2.2: for one process.
    OneProcess,
    /// P3 section 4: for a group of processes.
    Cooperative(EndedTest),
}

/// The probability of step 4 of P3 section 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedTest {
    /// Waits while a close request of another process is likely.
    Cooperation,
    /// Waits while processes that just started are likely to end.
    System,
}

struct Anticipatory {
    name: &'static str,
    heuristic: Heuristic,
    antic_expire: Nanos,
    expire: [Nanos; 2],
    batch_expire: [Nanos; 2],
    close: u64,
    sweep: Sweep,
    merger: Merger,
    habits: BTreeMap<Process, Habits>,
    /// The end of the last request that finished. The drive's cache may have answered it, so that
    /// the head is elsewhere; the next request of its process is still expected here.
    position: Option<Lba>,
    /// The process whose next request may be worth waiting for.
    awaited: Option<Awaited>,
    /// The probability that a process ends after its first request.
    system_exit: Probability,
    /// The probability that a close request of another process follows.
    cooperation: Probability,
    state: State,
    /// The last choice, and the state once it is sent.
    chosen: Option<(Ticket, State)>,
}

/// The kind of a request, and of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sync,
    Async,
}

/// The state of batches.
#[derive(Clone, Copy, Debug)]
struct State {
    batch: Kind,
    /// The end of the batch, if the other kind waits.
    until: Instant,
    /// The time at which a request of each kind last went because it was due.
    expired: [Instant; 2],
}

/// The process of the last request that finished, if that was synchronous.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    process: Process,
    /// The time at which the request finished.
    since: Instant,
    /// The newest request that has been compared; `None` before the drive begins to wait.
    compared: Option<Ticket>,
}

/// The observed behavior of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Habits {
    think: DecayingMean,
    seek: DecayingMean,
    /// The end of its latest request.
    position: Option<Lba>,
    latest: Option<RequestId>,
    /// The time at which its latest request finished.
    idle_since: Option<Instant>,
    /// True from its first request until it is known whether another follows.
    just_started: bool,
    ended: bool,
    used: Instant,
}

/// A probability that moves by an eighth of the way with each event.
#[derive(Clone, Copy, Debug)]
struct Probability(f64);

/// The result of a comparison of the requests in the queue with the awaited one.
enum Verdict<'a> {
    /// Send this now.
    Send(&'a Queued),
    /// Nothing is awaited: the elevator decides.
    Proceed,
    /// Leave the drive idle.
    Wait(Instant),
}

impl Anticipatory {
    fn new(name: &'static str, parameters: &Parameters, heuristic: Heuristic) -> Self {
        let ms =
            |parameter: Parameter| Nanos::from_us((parameters.get(parameter.name) * 1e3) as u64);
        Self {
            name,
            heuristic,
            antic_expire: ms(ANTIC_EXPIRE),
            expire: [ms(READ_EXPIRE), ms(WRITE_EXPIRE)],
            batch_expire: [ms(READ_BATCH_EXPIRE), ms(WRITE_BATCH_EXPIRE)],
            close: parameters.get(CLOSE.name) as u64,
            sweep: Sweep {
                back_max: parameters.get(BACK_MAX.name) as u64,
                back_penalty: BACK_PENALTY,
            },
            merger: Merger::new(parameters, Merges::BackAndFront),
            habits: BTreeMap::new(),
            position: None,
            awaited: None,
            system_exit: Probability(0.0),
            cooperation: Probability(1.0),
            state: State {
                batch: Kind::Async,
                until: Instant::ORIGIN,
                expired: [Instant::ORIGIN; 2],
            },
            chosen: None,
        }
    }

    /// The next request and the state once it is sent; as an error the end of the wait for a better
    /// one.
    fn select<'a>(&mut self, view: &View<'a>) -> Result<Option<(&'a Queued, State)>, Instant> {
        let oldest = |kind| view.queue.by_arrival().find(|queued| kind_of(queued) == kind);
        let oldest = [oldest(Kind::Sync), oldest(Kind::Async)];
        let mut state = self.state;
        // The time of a batch of reads counts only while writes wait.
        if state.batch == Kind::Sync && oldest[Kind::Async as usize].is_none() {
            state.until = view.now + self.batch_expire[Kind::Sync as usize];
        }
        let both_wait = oldest.iter().all(Option::is_some);
        if !both_wait || view.now <= state.until {
            if let Some(due) = self.due(view, state, oldest[state.batch as usize]) {
                return Ok(Some(due));
            }
            let next = self.next_of(view, state.batch);
            if state.batch == Kind::Sync {
                match self.compare(view, next) {
                    Verdict::Send(better) => return Ok(Some((better, state))),
                    Verdict::Wait(until) => return Err(until),
                    Verdict::Proceed => {}
                }
            }
            if let Some(next) = next {
                return Ok(Some((next, state)));
            }
        }
        // Another batch: of the other kind if it waits.
        state.batch = match (state.batch, oldest) {
            (Kind::Sync, [_, Some(_)]) | (Kind::Async, [None, _]) => Kind::Async,
            _ => Kind::Sync,
        };
        state.until = view.now + self.batch_expire[state.batch as usize];
        let first = match state.batch {
            Kind::Sync => oldest[Kind::Sync as usize],
            Kind::Async => self.next_of(view, Kind::Async),
        };
        let due = self.due(view, state, oldest[state.batch as usize]);
        Ok(due.or(first.map(|first| (first, state))))
    }

    /// The next request of a kind in the sweep.
    fn next_of<'a>(&self, view: &View<'a>, kind: Kind) -> Option<&'a Queued> {
        self.sweep.next(view.queue, self.position(view), |queued| kind_of(queued) == kind)
    }

    /// The position that distances are counted from: the end of the last command.
    fn position(&self, view: &View<'_>) -> Lba {
        self.position.filter(|_| view.outstanding.is_empty()).unwrap_or_else(|| view.next_lba())
    }

    /// The oldest request of its kind if it goes because of its age, and the state after it.
    fn due<'a>(
        &self,
        view: &View<'_>,
        mut state: State,
        oldest: Option<&'a Queued>,
    ) -> Option<(&'a Queued, State)> {
        let oldest = oldest?;
        let kind = kind_of(oldest) as usize;
        let since = oldest.submitted.max(state.expired[kind]);
        (view.now >= since + self.expire[kind]).then(|| {
            state.expired[kind] = view.now;
            (oldest, state)
        })
    }

    /// Compares the synchronous requests in the queue with the awaited one; `candidate` is the one
    /// that the sweep comes to next.
    fn compare<'a>(&mut self, view: &View<'a>, candidate: Option<&'a Queued>) -> Verdict<'a> {
        let Some(awaited) = self.awaited else { return Verdict::Proceed };
        let end = awaited.since + self.antic_expire;
        // Waiting is for an idle drive.
        if !view.outstanding.is_empty() || view.now >= end {
            self.not_arrived(awaited.process);
            self.awaited = None;
            return Verdict::Proceed;
        }
        let is_own = |queued: &Queued| process_of(&queued.request) == awaited.process;
        let Some(compared) = awaited.compared else {
            // The drive has just become idle.
            if view.queue.by_arrival().any(is_own) || self.ends_wait(view, awaited, candidate) {
                self.awaited = None;
                return Verdict::Proceed;
            }
            return self.wait(view, awaited, end);
        };
        let arrived = || {
            let newest_first = view.queue.by_arrival().rev();
            newest_first
                .take_while(|queued| queued.ticket > compared)
                .filter(|queued| kind_of(queued) == Kind::Sync)
        };
        let better = arrived()
            .find(|queued| is_own(queued))
            .or_else(|| arrived().find(|queued| self.ends_wait(view, awaited, Some(queued))));
        if let Some(better) = better {
            self.awaited = None;
            return Verdict::Send(better);
        }
        // The process may have ended in the meantime.
        if self.ends_wait(view, awaited, None) {
            self.awaited = None;
            return Verdict::Proceed;
        }
        self.wait(view, awaited, end)
    }

    /// Waits until `end`; requests that wait now are not compared again.
    fn wait<'a>(&mut self, view: &View<'a>, awaited: Awaited, end: Instant) -> Verdict<'a> {
        let compared = view.queue.by_arrival().next_back().map(|queued| queued.ticket);
        self.awaited = Some(Awaited { compared, ..awaited });
        Verdict::Wait(end)
    }

    /// Returns whether it is better to proceed than to wait for the awaited process, when
    /// `candidate` of another process could go. The numbers are those of the steps in the paper;
    /// the first two are elsewhere.
    fn ends_wait(&mut self, view: &View<'_>, awaited: Awaited, candidate: Option<&Queued>) -> bool {
        let habits = self.habits.get(&awaited.process).copied().unwrap_or_default();
        let think = habits.think.mean();
        let thinks_too_long = think.is_some_and(|mean| mean > self.antic_expire.as_ns() as f64);
        let may_exit = think.is_none() && self.system_exit.is_likely();
        let close = candidate.is_some_and(|queued| {
            let (start, head) = (queued.request.extent.start, self.position(view));
            let distance = start.distance(head).get();
            let waited_ms = view.now.saturating_since(awaited.since).as_ns() / 1_000_000;
            let delta = self.close.saturating_mul(1 << waited_ms.min(20));
            distance <= if start >= head { delta } else { delta / 2 }
                || habits.seek.mean().is_some_and(|mean| mean > distance as f64)
        });
        match self.heuristic {
            // Steps 3 to 7.
            Heuristic::OneProcess => habits.ended || close || may_exit || thinks_too_long,
            // Step 3: it is of a cooperative process.
            Heuristic::Cooperative(_) if close => {
                self.cooperation.increment();
                true
            }
            // Steps 4 to 6.
            Heuristic::Cooperative(test) => {
                let worth_waiting = match test {
                    EndedTest::Cooperation => self.cooperation.is_likely(),
                    EndedTest::System => self.system_exit.is_likely(),
                };
                (habits.ended && !worth_waiting)
                    || (may_exit && !self.cooperation.is_likely())
                    || thinks_too_long
            }
        }
    }

    /// Notes that the drive waited, or could have waited, for nothing.
    fn not_arrived(&mut self, process: Process) {
        let Some(habits) = self.habits.get_mut(&process) else { return };
        if core::mem::take(&mut habits.just_started) {
            self.system_exit.increment();
        }
        if habits.ended {
            self.cooperation.decrement();
        }
    }

    /// The habits of a process that sends a request.
    fn habits_of(&mut self, process: Process) -> &mut Habits {
        if self.habits.len() >= MAX_PROCESSES && !self.habits.contains_key(&process) {
            let longest_idle = self.habits.iter().min_by_key(|(_, habits)| habits.used);
            if let Some(process) = longest_idle.map(|(process, _)| *process) {
                self.habits.remove(&process);
            }
        }
        let habits = self.habits.entry(process).or_default();
        // Another process under the same number.
        if habits.ended {
            *habits = Habits::default();
        }
        habits
    }
}

impl Policy for Anticipatory {
    fn name(&self) -> &'static str {
        self.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        // A choice counts once it has left the queue: it is not always sent at once.
        if let Some((_, state)) =
            self.chosen.take_if(|(ticket, _)| view.queue.get(*ticket).is_none())
        {
            self.state = state;
        }
        let selected = self.select(view);
        self.chosen = match selected {
            Ok(Some((queued, state))) => Some((queued.ticket, state)),
            _ => None,
        };
        match selected {
            Ok(Some((queued, _))) => self.merger.command(view, queued, |_| true),
            Ok(None) => Choice::Nothing,
            Err(until) => Choice::Hold { until, reason: HoldReason::Anticipation },
        }
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        if !(request.is_synchronous() && request.op.moves_head()) {
            return;
        }
        let habits = self.habits_of(process_of(request));
        if let Some(idle_since) = habits.idle_since.take() {
            let think = now.saturating_since(idle_since).min(MAX_THINK);
            habits.think.add(think.as_ns() as f64);
        }
        if let Some(position) = habits.position {
            let distance = position.distance(request.extent.start).get() as f64;
            let limit = habits.seek.mean().unwrap_or(0.0) * 4.0 + MAX_SEEK;
            habits.seek.add(distance.min(limit));
        }
        let is_first = habits.latest.is_none();
        let continues = core::mem::replace(&mut habits.just_started, is_first);
        habits.position = Some(request.extent.end());
        habits.latest = Some(request.id);
        habits.used = now;
        if continues {
            self.system_exit.decrement();
        }
    }

    fn stream_ended(&mut self, _now: Instant, stream: StreamId) {
        for ((_, process), habits) in &mut self.habits {
            if *process == stream {
                habits.ended = true;
                if core::mem::take(&mut habits.just_started) {
                    self.system_exit.increment();
                }
            }
        }
    }

    fn finished(&mut self, finished: &Finished) {
        let request = &finished.request;
        if !request.op.moves_head() {
            return;
        }
        (self.position, self.awaited) = (Some(request.extent.end()), None);
        if request.is_synchronous() {
            let process = process_of(request);
            self.awaited = Some(Awaited { process, since: finished.finished, compared: None });
            let habits = self.habits.get_mut(&process);
            if let Some(habits) = habits.filter(|habits| habits.latest == Some(request.id)) {
                habits.idle_since = Some(finished.finished);
            }
        }
    }
}

impl Probability {
    fn increment(&mut self) {
        self.0 += (1.0 - self.0) / 8.0;
    }

    fn decrement(&mut self) {
        self.0 -= self.0 / 8.0;
    }

    fn is_likely(self) -> bool {
        self.0 > 0.5
    }
}

fn kind_of(queued: &Queued) -> Kind {
    if queued.request.is_synchronous() { Kind::Sync } else { Kind::Async }
}
