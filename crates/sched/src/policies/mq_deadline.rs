#![doc = include_str!("../../../../docs/policies/mq-deadline.md")]

use alloc::boxed::Box;

use headtime_units::{Lba, Nanos};

use crate::policies::elevator::{MAX_SECTORS_TODAY, Merger, Merges, QUEUE_DEPTH};
use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::request::Op;
use crate::table::{Parameter, Parameters, PolicyEntry};
use crate::tunables::PriorityClass;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "mq-deadline",
    summary: "today's Linux mq-deadline: sweeps in batches for each priority class, with the \
        drive's own queue",
    source: "Linux 6, Documentation/block/deadline-iosched.rst",
    oracle: false,
    parameters: &[
        READ_EXPIRE,
        WRITE_EXPIRE,
        WRITES_STARVED,
        FIFO_BATCH,
        FRONT_MERGES,
        PRIO_AGING_EXPIRE,
        MAX_SECTORS_TODAY,
        QUEUE_DEPTH,
    ],
    build: |parameters| Box::new(MqDeadline::new(parameters)),
};

const READ_EXPIRE: Parameter = Parameter {
    name: "read_expire_ms",
    summary: "how long a read waits before a batch begins with it",
    default: 500.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 6",
};

const WRITE_EXPIRE: Parameter = Parameter {
    name: "write_expire_ms",
    summary: "the same for a write",
    default: 5_000.0,
    ..READ_EXPIRE
};

const WRITES_STARVED: Parameter = Parameter {
    name: "writes_starved",
    summary: "batches of reads that go before a write that waits",
    default: 2.0,
    min: 0.0,
    max: 1_000.0,
    whole: true,
    origin: "Linux 6",
};

const FIFO_BATCH: Parameter = Parameter {
    name: "fifo_batch",
    summary: "maximum number of commands of a batch",
    default: 16.0,
    min: 1.0,
    max: 65_536.0,
    whole: true,
    origin: "Linux 6",
};

const FRONT_MERGES: Parameter = Parameter {
    name: "front_merges",
    summary: "1: requests that end where another begins merge with it; 0: only those that begin \
        where it ends",
    default: 1.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "Linux 6",
};

const PRIO_AGING_EXPIRE: Parameter = Parameter {
    name: "prio_aging_expire_ms",
    summary: "how long a request waits for those of a higher class at the most",
    default: 10_000.0,
    max: 3_600_000.0,
    ..READ_EXPIRE
};

/// The classes, the highest first.
const CLASSES: [PriorityClass; 3] =
    [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle];

struct MqDeadline {
    expire: [Nanos; 2],
    writes_starved: usize,
    fifo_batch: usize,
    prio_aging_expire: Nanos,
    merger: Merger,
    queue_depth: usize,
    state: State,
    /// The last choice, and the state once it is sent.
    chosen: Option<(Ticket, State)>,
}

/// The direction of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The state of batches.
#[derive(Clone, Copy, Debug)]
struct State {
    direction: Direction,
    /// Commands of this batch.
    batch: usize,
    /// Batches of reads that went before a write.
    starved: usize,
    /// The end of the last command of each class and direction.
    positions: [[Lba; 2]; 3],
}

impl MqDeadline {
    fn new(parameters: &Parameters) -> Self {
        let number = |parameter: Parameter| parameters.get(parameter.name) as u64;
        let merges = if number(FRONT_MERGES) == 0 { Merges::Back } else { Merges::BackAndFront };
        Self {
            expire: [READ_EXPIRE, WRITE_EXPIRE].map(|expire| Nanos::from_ms(number(expire))),
            writes_starved: number(WRITES_STARVED) as usize,
            fifo_batch: number(FIFO_BATCH) as usize,
            prio_aging_expire: Nanos::from_ms(number(PRIO_AGING_EXPIRE)),
            merger: Merger::new(parameters, merges),
            queue_depth: number(QUEUE_DEPTH) as usize,
            state: State {
                direction: Direction::Read,
                batch: 0,
                starved: 0,
                positions: [[Lba::new(0); 2]; 3],
            },
            chosen: None,
        }
    }

    fn select<'a>(&self, view: &View<'a>) -> Option<(&'a Queued, State)> {
        let queued_of =
            |class| view.queue.by_arrival().find(move |queued| class_of(queued) == class);
        let at_drive = |class| {
            let mut requests = view.outstanding.iter().flat_map(|command| &command.requests);
            requests.any(|queued| class_of(queued) == class)
        };
        // First a request that higher classes have kept waiting for too long.
        let aged = |queued: &&Queued| view.now >= queued.submitted + self.prio_aging_expire;
        for (place, class) in CLASSES.iter().enumerate().skip(1) {
            let is_contended = || {
                CLASSES.iter().any(|other| {
                    other != class && (at_drive(*other) || queued_of(*other).is_some())
                })
            };
            if queued_of(*class).filter(aged).is_some() && is_contended() {
                let next = self.select_in(view, place).filter(|(queued, _)| aged(queued));
                if next.is_some() {
                    return next;
                }
            }
        }
        // Then the highest class that has any; a lower one waits for those at the drive, too.
        for (place, class) in CLASSES.iter().enumerate() {
            if queued_of(*class).is_some() {
                return self.select_in(view, place);
            }
            if at_drive(*class) {
                return None;
            }
        }
        None
    }

    /// The next request of the class at this place, and the state once it is sent.
    fn select_in<'a>(&self, view: &View<'a>, class: usize) -> Option<(&'a Queued, State)> {
        let state = self.state;
        let is_of = |direction| {
            move |queued: &&Queued| {
                class_of(queued) == CLASSES[class] && direction_of(queued) == direction
            }
        };
        let next = |direction| {
            let position = state.positions[class][direction as usize];
            view.queue.from_lba(position).find(is_of(direction))
        };
        // The batch continues.
        if let Some(next) = next(state.direction).filter(|_| state.batch < self.fifo_batch) {
            return Some((next, state.with(class, next, state.batch + 1)));
        }
        // Another begins: of reads, unless writes have waited for too many.
        let oldest = |direction| view.queue.by_arrival().find(is_of(direction));
        let (oldest, starved) = match (oldest(Direction::Read), oldest(Direction::Write)) {
            (Some(_), Some(write)) if state.starved >= self.writes_starved => (write, 0),
            (Some(read), write) => (read, state.starved + usize::from(write.is_some())),
            (None, write) => (write?, 0),
        };
        let direction = direction_of(oldest);
        let expired = view.now >= oldest.submitted + self.expire[direction as usize];
        // The sweep goes on, unless the oldest has waited for too long or nothing follows.
        let first = next(direction).filter(|_| !expired).unwrap_or(oldest);
        Some((first, State { starved, ..state.with(class, first, 1) }))
    }
}

impl State {
    fn with(mut self, class: usize, sent: &Queued, batch: usize) -> Self {
        self.direction = direction_of(sent);
        self.positions[class][self.direction as usize] = sent.request.extent.end();
        Self { batch, ..self }
    }
}

impl Policy for MqDeadline {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.queue_depth
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        // A choice counts once it has left the queue: it is not always sent at once.
        if let Some((_, state)) =
            self.chosen.take_if(|(ticket, _)| view.queue.get(*ticket).is_none())
        {
            self.state = state;
        }
        let selected = self.select(view);
        self.chosen = selected.map(|(queued, state)| (queued.ticket, state));
        selected.map_or(Choice::Nothing, |(queued, _)| {
            self.merger.command(view, queued, |other| class_of(other) == class_of(queued))
        })
    }
}

fn class_of(queued: &Queued) -> PriorityClass {
    queued.priority.class()
}

fn direction_of(queued: &Queued) -> Direction {
    if queued.request.op == Op::Read { Direction::Read } else { Direction::Write }
}
