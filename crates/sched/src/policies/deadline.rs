#![doc = include_str!("../../../../docs/policies/deadline.md")]

use alloc::boxed::Box;

use headtime_units::{Lba, Nanos};

use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::request::Op;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "deadline",
    summary: "Linux 2.6's DEADLINE: sweeps in batches, reads before writes, the oldest first once \
        it has waited too long",
    source: "P3 section 2.1 (Deadline); P1 section V-B, 9 (DEADLINE)",
    oracle: false,
    parameters: &[READ_EXPIRE, WRITE_EXPIRE, WRITES_STARVED, FIFO_BATCH, SEEKS_IN_BATCH],
    build: |parameters| Box::new(Deadline::new(parameters)),
};

const READ_EXPIRE: Parameter = Parameter {
    name: "read_expire_ms",
    summary: "how long a read waits before it is due",
    default: 500.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "P3 section 2.1",
};

const WRITE_EXPIRE: Parameter = Parameter {
    name: "write_expire_ms",
    summary: "how long a write waits before it is due",
    default: 5_000.0,
    origin: "Linux 2.6",
    ..READ_EXPIRE
};

const WRITES_STARVED: Parameter = Parameter {
    name: "writes_starved",
    summary: "batches of reads that go before a write that waits",
    default: 2.0,
    min: 0.0,
    max: 1_000.0,
    whole: true,
    origin: "P3 section 2.1, step 1",
};

const FIFO_BATCH: Parameter = Parameter {
    name: "fifo_batch",
    summary: "maximum number of requests of a batch",
    default: 16.0,
    min: 1.0,
    max: 65_536.0,
    whole: true,
    origin: "P3 section 2.1",
};

const SEEKS_IN_BATCH: Parameter = Parameter {
    name: "seeks_in_batch",
    summary: "0: a seek ends a batch (2.6.9); 1: it does not, and a sweep begins again with the \
        oldest (2.6.27 and later)",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    whole: true,
    origin: "P3 section 2.1 (0); P1 measured 2.6.33 (1)",
};

struct Deadline {
    read_expire: Nanos,
    write_expire: Nanos,
    writes_starved: usize,
    fifo_batch: usize,
    seeks_in_batch: bool,
    run: Run,
    /// The last choice, and the state once it is sent.
    chosen: Option<(Ticket, Run)>,
}

/// The direction of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The state of batches.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// Direction, start and end of the last request; `None` before the first.
    last: Option<(Direction, Lba, Lba)>,
    /// Requests of this batch.
    batch: usize,
    /// Batches of reads since writes wait.
    starved: usize,
}

impl Deadline {
    fn new(parameters: &Parameters) -> Self {
        let ms = |parameter: Parameter| Nanos::from_ms(parameters.get(parameter.name) as u64);
        Self {
            read_expire: ms(READ_EXPIRE),
            write_expire: ms(WRITE_EXPIRE),
            writes_starved: parameters.get(WRITES_STARVED.name) as usize,
            fifo_batch: parameters.get(FIFO_BATCH.name) as usize,
            seeks_in_batch: parameters.get(SEEKS_IN_BATCH.name) != 0.0,
            run: Run::default(),
            chosen: None,
        }
    }

    fn select<'a>(&self, view: &View<'a>) -> Option<(&'a Queued, Run)> {
        let run = self.run;
        let after_last = run.last.and_then(|(direction, start, _)| {
            view.queue.from_lba(start).find(|queued| direction_of(queued) == direction)
        });
        if let (Some(next), Some((.., end))) = (after_last, run.last) {
            let seeks = next.request.extent.start != end;
            if run.batch < self.fifo_batch && (self.seeks_in_batch || !seeks) {
                return Some((next, run.with(next, run.batch + 1, run.starved)));
            }
        }
        let oldest =
            |direction| view.queue.by_arrival().find(|queued| direction_of(queued) == direction);
        let (oldest_read, oldest_write) = (oldest(Direction::Read), oldest(Direction::Write));
        let (oldest, starved) = match (oldest_read, oldest_write) {
            (Some(_), Some(write)) if run.starved >= self.writes_starved => (write, 0),
            (Some(read), write) => (read, run.starved + usize::from(write.is_some())),
            (None, write) => (write?, 0),
        };
        let direction = direction_of(oldest);
        let expire =
            if direction == Direction::Read { self.read_expire } else { self.write_expire };
        if view.now >= oldest.submitted + expire {
            return Some((oldest, run.with(oldest, 1, starved)));
        }
        let again = || match self.seeks_in_batch {
            true => Some(oldest),
            false => {
                view.queue.from_lba(Lba::new(0)).find(|queued| direction_of(queued) == direction)
            }
        };
        let first = after_last.filter(|next| direction_of(next) == direction).or_else(again)?;
        Some((first, run.with(first, 1, starved)))
    }
}

impl Run {
    fn with(self, sent: &Queued, batch: usize, starved: usize) -> Self {
        let extent = sent.request.extent;
        Self { last: Some((direction_of(sent), extent.start, extent.end())), batch, starved }
    }
}

impl Policy for Deadline {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        // A choice counts once it has left the queue: it is not always sent at once.
        if let Some((_, run)) = self.chosen.take_if(|(ticket, _)| view.queue.get(*ticket).is_none())
        {
            self.run = run;
        }
        let selected = self.select(view);
        self.chosen = selected.map(|(queued, run)| (queued.ticket, run));
        Choice::one(self.chosen.map(|(ticket, _)| ticket))
    }
}

fn direction_of(queued: &Queued) -> Direction {
    if queued.request.op == Op::Read { Direction::Read } else { Direction::Write }
}
