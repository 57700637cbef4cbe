#![doc = include_str!("../../../../docs/policies/bfq.md")]

mod arrivals;
mod queues;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use headtime_units::{Instant, Lba, Nanos};
use smallvec::SmallVec;

use self::queues::{DriveQueue, Owner, QueueId, SEEK, ServiceQueue, owner_of};
use crate::command::{Finished, HoldReason};
use crate::policies::elevator::{
    MAX_SECTORS_TODAY, Merger, Merges, QUEUE_DEPTH, Sweep, process_of,
};
use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::request::StreamId;
use crate::shares::Tenant;
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tunables::PriorityClass;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "bfq",
    summary: "today's Linux BFQ: each process in turn has the drive for a budget of sectors, in \
        the order of B-WF2Q+",
    source: "Linux 6, Documentation/block/bfq-iosched.rst; Valente and Checconi, 2010",
    oracle: false,
    parameters: &[
        SLICE_IDLE,
        TIMEOUT_SYNC,
        MAX_BUDGET,
        FIFO_EXPIRE_SYNC,
        FIFO_EXPIRE_ASYNC,
        BACK_SEEK_MAX,
        BACK_SEEK_PENALTY,
        STRICT_GUARANTEES,
        MAX_SECTORS_TODAY,
        QUEUE_DEPTH,
    ],
    build: |parameters| Box::new(Bfq::new(parameters)),
};

const SLICE_IDLE: Parameter = Parameter {
    name: "slice_idle_ms",
    summary: "how long the drive waits for the next request of the queue in service; 0 never",
    default: 8.0,
    min: 0.0,
    max: 1_000.0,
    whole: false,
    origin: "Linux 6",
};

const TIMEOUT_SYNC: Parameter = Parameter {
    name: "timeout_sync_ms",
    summary: "maximum time that a queue is in service",
    default: 125.0,
    min: 1.0,
    max: 60_000.0,
    whole: true,
    origin: "Linux 6",
};

const MAX_BUDGET: Parameter = Parameter {
    name: "max_budget",
    summary: "maximum sectors that a queue is served at once; 0: as many as the drive can serve \
        in timeout_sync at the highest rate seen",
    default: 0.0,
    min: 0.0,
    max: 1e9,
    whole: true,
    origin: "Linux 6",
};

const FIFO_EXPIRE_SYNC: Parameter = Parameter {
    name: "fifo_expire_sync_ms",
    summary: "how long a synchronous request waits before it goes first when its queue is in \
        service",
    default: 125.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 6",
};

const FIFO_EXPIRE_ASYNC: Parameter = Parameter {
    name: "fifo_expire_async_ms",
    summary: "the same for other requests",
    default: 250.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 6",
};

const BACK_SEEK_MAX: Parameter = Parameter {
    name: "back_seek_max_sectors",
    summary: "distance back from the last command within which a request still belongs to this \
        sweep",
    default: 32_768.0,
    min: 0.0,
    max: 1e12,
    whole: true,
    origin: "Linux 6 (16 MiB)",
};

const BACK_SEEK_PENALTY: Parameter = Parameter {
    name: "back_seek_penalty",
    summary: "factor by which a distance back counts",
    default: 2.0,
    min: 1.0,
    max: 1_000.0,
    whole: true,
    origin: "Linux 6",
};

const STRICT_GUARANTEES: Parameter = Parameter {
    name: "strict_guarantees",
    summary: "1: the drive waits for every synchronous queue; 0: only where that pays or shares \
        need it",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "Linux 6",
};

/// The rate in sectors a second before one is known: 16,384 sectors in 125 ms (Linux 6).
const START_RATE: f64 = 131_072.0;

/// The wait for a seeky queue (Linux 6).
const SEEKY_IDLE: Nanos = Nanos::from_ms(2);

/// Services longer than this tell a rate (Linux 6).
const LONG: Nanos = Nanos::from_ms(20);

/// The time after which the idle class is served although others wait (Linux 6).
const IDLE_CLASS_WAIT: Nanos = Nanos::from_ms(200);

/// Sectors of asynchronous requests are charged this many times (Linux 6).
const ASYNC_CHARGE: u64 = 3;

struct Bfq {
    slice_idle: Nanos,
    timeout: Nanos,
    /// Zero: computed from the rate.
    max_budget_set: u64,
    fifo_expire: [Nanos; 2],
    guarantees: Guarantees,
    sweep: Sweep,
    merger: Merger,
    queue_depth: usize,
    owners: BTreeMap<Owner, QueueId>,
    queues: BTreeMap<QueueId, ServiceQueue>,
    next_id: QueueId,
    /// The virtual time of each class.
    virtual_time: [f64; 3],
    idle_class_served: Instant,
    in_service: Option<InService>,
    /// The newest request that has been seen.
    seen: Option<Ticket>,
    /// The highest rate seen, in sectors a second.
    rate: f64,
    /// The sum of the weights of the busy queues of each group.
    group_sums: BTreeMap<Option<Tenant>, f64>,
    /// True if all busy queues have one priority and group, so that shares are kept without
    /// waiting.
    symmetric: bool,
    drive: DriveQueue,
    /// The end of the last command sent. The head may be elsewhere, if the drive's cache answered.
    position: Lba,
    /// A ticket of the last choice, and the command.
    chosen: Option<(Ticket, Sent)>,
}

/// A command for requests of one queue.
#[derive(Clone, Copy, Debug)]
struct Sent {
    id: QueueId,
    start: Lba,
    end: Lba,
    sectors: u64,
    /// The sectors that the queue is charged.
    charge: u64,
}

/// The queues that the drive waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guarantees {
    WhereNeeded,
    Strict,
}

/// The service of a queue.
#[derive(Clone, Copy, Debug)]
struct InService {
    id: QueueId,
    since: Instant,
    /// Commands sent, those of them that seek, and sectors sent.
    commands: u32,
    seeks: u32,
    sectors: u64,
    /// Sectors of synchronous requests that finished, and the disk time that they took.
    finished: (u64, Nanos),
}

/// The reason for the end of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    TooIdle,
    Timeout,
    Exhausted,
    NoMoreRequests,
    Preempted,
}

/// The next step of the queue in service.
enum Step<'a> {
    Send(&'a Queued),
    /// Its requests are at the drive.
    AtDrive,
    Idle(Instant),
    Over(Expiry),
}

impl Bfq {
    fn new(parameters: &Parameters) -> Self {
        let number = |parameter: Parameter| parameters.get(parameter.name) as u64;
        let ms =
            |parameter: Parameter| Nanos::from_us((parameters.get(parameter.name) * 1e3) as u64);
        Self {
            slice_idle: ms(SLICE_IDLE),
            timeout: ms(TIMEOUT_SYNC),
            max_budget_set: number(MAX_BUDGET),
            fifo_expire: [ms(FIFO_EXPIRE_SYNC), ms(FIFO_EXPIRE_ASYNC)],
            guarantees: match number(STRICT_GUARANTEES) {
                0 => Guarantees::WhereNeeded,
                _ => Guarantees::Strict,
            },
            sweep: Sweep {
                back_max: number(BACK_SEEK_MAX),
                back_penalty: number(BACK_SEEK_PENALTY),
            },
            merger: Merger::new(parameters, Merges::BackAndFront),
            queue_depth: number(QUEUE_DEPTH) as usize,
            owners: BTreeMap::new(),
            queues: BTreeMap::new(),
            next_id: 0,
            virtual_time: [0.0; 3],
            idle_class_served: Instant::ORIGIN,
            in_service: None,
            seen: None,
            rate: START_RATE,
            group_sums: BTreeMap::new(),
            symmetric: true,
            drive: DriveQueue::default(),
            position: Lba::new(0),
            chosen: None,
        }
    }

    /// The maximum budget.
    fn max_budget(&self) -> u64 {
        match self.max_budget_set {
            0 => ((self.rate * self.timeout.as_secs_f64()) as u64).max(1),
            set => set,
        }
    }

    /// Accounts for the last choice, if it was sent. It is not always sent at once.
    fn account(&mut self, view: &View<'_>) {
        let Some((_, Sent { id, start, end, sectors, charge })) =
            self.chosen.take_if(|(ticket, _)| view.queue.get(*ticket).is_none())
        else {
            return;
        };
        let seeks = self.position.distance(start).get() > SEEK;
        self.position = end;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.charged += charge;
        let class = queue.class();
        self.advance(class, charge);
        if class == PriorityClass::Idle {
            self.idle_class_served = view.now;
        }
        if let Some(service) = self.in_service.as_mut().filter(|service| service.id == id) {
            service.sectors += sectors;
            service.commands += 1;
            service.seeks += u32::from(seeks);
        }
    }

    /// The next step of the queue in service.
    fn step<'a>(&mut self, view: &View<'a>, service: InService) -> Step<'a> {
        let Some(queue) = self.queues.get(&service.id).copied() else {
            return Step::Over(Expiry::NoMoreRequests);
        };
        let Some(next) = self.next_of(view, &service, &queue) else {
            if !self.is_worth_waiting(&queue) {
                return Step::Over(Expiry::NoMoreRequests);
            }
            let mut at_drive = view.outstanding.iter().flat_map(|command| &command.requests);
            if at_drive.any(|queued| self.owners.get(&owner_of(queued)) == Some(&service.id)) {
                return Step::AtDrive;
            }
            let until = self.idle_until(&service, &queue);
            return if view.now < until { Step::Idle(until) } else { Step::Over(Expiry::TooIdle) };
        };
        let charge = self.charge_of(&queue, next.request.extent.len.get());
        let is_first = service.sectors == 0;
        if !is_first && queue.charged + charge > queue.entity_budget {
            Step::Over(Expiry::Exhausted)
        } else if !is_first && view.now >= service.since + self.timeout {
            Step::Over(Expiry::Timeout)
        } else {
            Step::Send(next)
        }
    }

    /// The end of the wait for the next request of an empty queue.
    fn idle_until(&self, service: &InService, queue: &ServiceQueue) -> Instant {
        let short = queue.is_seeky() && self.symmetric;
        let wait = if short { self.slice_idle.min(SEEKY_IDLE) } else { self.slice_idle };
        queue.last_end.unwrap_or(service.since).max(service.since) + wait
    }

    /// Returns whether the wait for the queue in service ended before its next request came, while
    /// there was nothing to decide.
    fn came_too_late(&self, view: &View<'_>, service: &InService) -> bool {
        let Some(queue) = self.queues.get(&service.id) else { return false };
        let until = self.idle_until(service, queue);
        let own = |queued: &&Queued| self.owners.get(&owner_of(queued)) == Some(&service.id);
        let mut at_drive = view.outstanding.iter().flat_map(|command| &command.requests);
        view.now > until
            && queue.sync
            && !at_drive.any(|queued| own(&queued))
            && view.queue.by_arrival().find(own).is_none_or(|first| first.submitted > until)
    }

    /// The next request of a queue: once in each service the oldest, if it has waited for too long,
    /// else the next one of the sweep.
    fn next_of<'a>(
        &self,
        view: &View<'a>,
        service: &InService,
        queue: &ServiceQueue,
    ) -> Option<&'a Queued> {
        if queue.backlog == 0 {
            return None;
        }
        let own = |queued: &Queued| self.owners.get(&owner_of(queued)) == Some(&service.id);
        let expire = self.fifo_expire[usize::from(!queue.sync)];
        let oldest = view.queue.by_arrival().find(|queued| own(queued))?;
        if service.sectors == 0 && view.now >= oldest.submitted + expire {
            return Some(oldest);
        }
        self.sweep.next(view.queue, self.position, own)
    }

    /// Returns whether the drive waits for the next request of an empty queue.
    fn is_worth_waiting(&self, queue: &ServiceQueue) -> bool {
        if self.slice_idle.is_zero()
            || !queue.sync
            || queue.processes == 0
            || queue.class() == PriorityClass::Idle
        {
            return false;
        }
        let thinks_shortly =
            queue.think.settled_mean().is_none_or(|mean| mean <= self.slice_idle.as_ns() as f64);
        let boosts = self.drive.is_absent() || (!queue.is_seeky() && thinks_shortly);
        self.guarantees == Guarantees::Strict || boosts || !self.symmetric
    }

    /// Ends the service of the queue: sets its next budget, and charges it.
    fn expire(&mut self, view: &View<'_>, service: InService, reason: Expiry) {
        self.in_service = None;
        let Some(&(mut queue)) = self.queues.get(&service.id) else { return };
        let end = match reason {
            Expiry::TooIdle => view.now.min(self.idle_until(&service, &queue)),
            _ => view.now,
        };
        let elapsed = end.saturating_since(service.since);
        self.learn_rate(&service);
        let max = self.max_budget();
        let min = (max / 32).max(1);
        let at_drive = view.outstanding.iter().flat_map(|command| &command.requests);
        let dispatched = at_drive
            .filter(|queued| self.owners.get(&owner_of(queued)) == Some(&service.id))
            .count();
        queue.budget = match reason {
            _ if !queue.sync => max,
            Expiry::TooIdle if dispatched > 0 => queue.budget * 2,
            Expiry::TooIdle if queue.budget > 5 * min => queue.budget - 4 * min,
            Expiry::TooIdle => min,
            Expiry::Timeout => queue.budget * 2,
            Expiry::Exhausted => queue.budget * 4,
            Expiry::NoMoreRequests => queue.charged.max(min),
            Expiry::Preempted => queue.budget,
        }
        .clamp(1, max);
        // A queue that seeks is charged for its time: as for sectors at the highest rate. A very
        // short service counts as one wait.
        let short = elapsed < Nanos::from_ms(1);
        let slow = if elapsed > LONG { service.sectors < max / 2 } else { queue.is_seeky() };
        let left = queue.entity_budget.saturating_sub(queue.charged);
        if slow || (reason == Expiry::Timeout && left >= queue.entity_budget / 3) {
            let time = if short { self.slice_idle } else { elapsed }.min(self.timeout);
            let share = time.as_secs_f64() / self.timeout.as_secs_f64();
            let extra = ((max as f64 * share) as u64).saturating_sub(queue.charged);
            queue.charged += extra;
            self.advance(queue.class(), extra);
        }
        let weight = self.weight(&queue);
        queue.finish = queue.start + queue.charged as f64 / weight;
        queue.busy = queue.backlog > 0;
        queue.may_resume = reason == Expiry::NoMoreRequests && queue.sync;
        if queue.busy {
            queue.start = queue.finish;
            queue.finish += queue.budget as f64 / weight;
            (queue.entity_budget, queue.charged) = (queue.budget, 0);
        }
        let is_used = queue.busy || queue.processes > 0;
        self.queues.insert(service.id, queue);
        if !is_used {
            self.remove_queue(service.id);
        }
    }

    /// Learns the drive's highest rate from a service: a higher one at once, a lower one slowly and
    /// only where the drive did not seek.
    fn learn_rate(&mut self, service: &InService) {
        let (sectors, disk_time) = service.finished;
        if disk_time < LONG {
            return;
        }
        let rate = sectors as f64 / disk_time.as_secs_f64();
        if rate > self.rate {
            self.rate = rate;
        } else if service.seeks * 4 <= service.commands {
            self.rate += (rate - self.rate) / 8.0;
        }
    }

    /// The queue to serve next: of the highest class with requests, that with the earliest finish
    /// among those that may have started.
    fn select(&mut self, view: &View<'_>) -> Option<InService> {
        let waiting = |class| {
            let queues = self.queues.iter();
            queues.filter(move |(_, queue)| queue.backlog > 0 && queue.class() == class)
        };
        let highest = self.queues.values().filter(|queue| queue.backlog > 0);
        let mut class = highest.map(ServiceQueue::class).min()?;
        if waiting(PriorityClass::Idle).next().is_none() {
            self.idle_class_served = view.now;
        } else if view.now >= self.idle_class_served + IDLE_CLASS_WAIT {
            class = PriorityClass::Idle;
        }
        let first_start =
            waiting(class).map(|(_, queue)| queue.start).fold(f64::INFINITY, f64::min);
        let now = self.virtual_time[class as usize].max(first_start);
        let eligible = waiting(class).filter(|(_, queue)| queue.start <= now);
        let (&id, _) =
            eligible.min_by(|(_, one), (_, other)| one.finish.total_cmp(&other.finish))?;
        self.virtual_time[class as usize] = now;
        Some(InService {
            id,
            since: view.now,
            commands: 0,
            seeks: 0,
            sectors: 0,
            finished: (0, Nanos::ZERO),
        })
    }

    /// The sectors that a request of a queue is charged.
    fn charge_of(&self, queue: &ServiceQueue, sectors: u64) -> u64 {
        if queue.sync || !self.symmetric { sectors } else { sectors * ASYNC_CHARGE }
    }

    /// The weight of a queue: its part of the weight of its group, among those that are busy.
    fn weight(&self, queue: &ServiceQueue) -> f64 {
        let sum = self.group_sums.get(&queue.group).copied().unwrap_or_default();
        queue.group_weight * queue.own_weight() / sum.max(queue.own_weight())
    }

    /// Advances the virtual time of a class by a service of so many sectors.
    fn advance(&mut self, class: PriorityClass, charge: u64) {
        let busy = self.queues.values().filter(|queue| queue.busy && queue.class() == class);
        let weights: f64 = busy.map(|queue| self.weight(queue)).sum();
        if weights > 0.0 {
            self.virtual_time[class as usize] += charge as f64 / weights;
        }
    }

    /// One command for a request of the queue in service, and those of the queue that abut it.
    fn send(&mut self, view: &View<'_>, service: InService, queued: &Queued) -> Choice {
        let owner = |other: &Queued| self.owners.get(&owner_of(other));
        let choice = self.merger.command(view, queued, |other| owner(other) == Some(&service.id));
        let queue = self.queues.get(&service.id);
        let tickets = if let Choice::Send(tickets) = &choice { tickets.as_slice() } else { &[] };
        let extents = || {
            let sent = tickets.iter().filter_map(|ticket| view.queue.get(*ticket));
            sent.map(|queued| queued.request.extent)
        };
        let backlog = queue.map_or(0, |queue| queue.backlog);
        self.drive.observe(view, backlog.saturating_sub(tickets.len()));
        let sectors = extents().map(|extent| extent.len.get()).sum();
        let start = extents().map(|extent| extent.start).min().unwrap_or(self.position);
        let end = extents().map(|extent| extent.end()).max().unwrap_or(self.position);
        let charge = queue.map_or(sectors, |queue| self.charge_of(queue, sectors));
        self.chosen = Some((queued.ticket, Sent { id: service.id, start, end, sectors, charge }));
        choice
    }

    fn remove_queue(&mut self, gone: QueueId) {
        self.queues.remove(&gone);
        self.owners.retain(|_, id| *id != gone);
    }
}

impl Policy for Bfq {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.queue_depth
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        self.account(view);
        if self.observe(view)
            && let Some(service) = self.in_service
        {
            self.expire(view, service, Expiry::Preempted);
        }
        if let Some(service) = self.in_service.filter(|service| self.came_too_late(view, service)) {
            self.expire(view, service, Expiry::TooIdle);
        }
        loop {
            let Some(service) = self.in_service else {
                self.in_service = self.select(view);
                if self.in_service.is_none() {
                    return Choice::Nothing;
                }
                continue;
            };
            match self.step(view, service) {
                Step::Send(queued) => return self.send(view, service, queued),
                Step::AtDrive => return Choice::Nothing,
                Step::Idle(until) => {
                    return Choice::Hold { until, reason: HoldReason::Anticipation };
                }
                Step::Over(reason) => self.expire(view, service, reason),
            }
        }
    }

    fn stream_ended(&mut self, _now: Instant, stream: StreamId) {
        let is_ended =
            |owner: &Owner| matches!(owner, Owner::Process((_, ended)) if *ended == stream);
        let ended: SmallVec<[QueueId; 2]> =
            self.owners.iter().filter(|(owner, _)| is_ended(owner)).map(|(_, id)| *id).collect();
        let serving = self.in_service.map(|service| service.id);
        for id in ended {
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            queue.processes = queue.processes.saturating_sub(1);
            if queue.processes == 0 && !queue.busy && serving != Some(id) {
                self.remove_queue(id);
            }
        }
    }

    fn finished(&mut self, finished: &Finished) {
        let request = &finished.request;
        let owner = Owner::Process(process_of(request));
        let id = self.owners.get(&owner).filter(|_| request.is_synchronous());
        if let Some(queue) = id.and_then(|id| self.queues.get_mut(id)) {
            queue.last_end = Some(finished.finished);
            if queue.latest == Some(request.id) {
                queue.idle_since = Some(finished.finished);
            }
        }
        if let Some(service) = self.in_service.as_mut().filter(|service| id == Some(&service.id)) {
            let (sectors, disk_time) = service.finished;
            service.finished = (sectors + request.extent.len.get(), disk_time + finished.disk_time);
        }
    }
}
