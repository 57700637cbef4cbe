//! Complete fair queueing as Linux 2.6.11 has it: a queue for each process, served in turn.
//!
//! What it does. Every process (volume and stream) has a queue of its own. They take turns, one
//! request each; a process that had nothing and comes back stands at the end of the row. Of its own
//! requests goes the one that lies next ahead of where the last command ends, or, if it is nearer
//! even when its distance counts `back_penalty` times, one at most `back_max_sectors` behind; with
//! neither, the lowest address. At most once in `fifo_rate_ms` the oldest goes instead, if it has
//! waited for `fifo_expire_sync_ms` (reads and forced writes) or `fifo_expire_async_ms` (other
//! writes).
//!
//! Worked example: process 1 waits with LBA 900 and 100, process 2 with 500, process 3 with 120;
//! the last command ends before 90. 100 goes (ahead of 90), then 500, then 120, then 900. With one
//! request each, as synchronous processes have, it is first come, first served.
//!
//! Guarantees that between two requests of a process every other that waits has had a turn: nobody
//! starves because of others, and by expiry nobody because of himself. Turns are counted, not time:
//! who asks for much at once gets more of the drive. Does *not* guarantee throughput: the head goes
//! wherever the next in turn wants it. Deadlines are ignored, and so is rotation.
//!
//! Cost per decision: O(n log p) for n requests of p processes; no estimate is asked for.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `fifo_expire_sync_ms` | ms | 500 | Linux 2.6.11 |
//! | `fifo_expire_async_ms` | ms | 5000 | Linux 2.6.11 |
//! | `fifo_rate_ms` | ms | 125 | Linux 2.6.11 |
//! | `back_max_sectors` | sectors | 32768 | Linux 2.6.11: 16 MiB |
//! | `back_penalty` | none | 2 | Linux 2.6.11 |
//!
//! One command is outstanding: P1 measured with the drive's queue off, P3's drive has none. Source:
//! P3 sections 1 and 5; P1 section V-B, 9; Linux 2.6.11. The kernel orders its row by the service
//! that each process has had of late and meant to sort what it picks in a pass by address; here the
//! row is a plain one and nothing is sorted across processes, as P1 describes what it measured.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use headtime_units::{Instant, Lba, Nanos};

use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::request::{Op, StreamId, VolumeId};
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "cfq",
    summary: "Linux 2.6.11's CFQ: a queue for each process, served in turn",
    source: "P3 sections 1 and 5 (CFQ); P1 section V-B, 9 (CFQ)",
    oracle: false,
    parameters: &[SYNC_EXPIRE, ASYNC_EXPIRE, FIFO_RATE, BACK_MAX, BACK_PENALTY],
    build: |parameters| Box::new(Cfq::new(parameters)),
};

const SYNC_EXPIRE: Parameter = Parameter {
    name: "fifo_expire_sync_ms",
    summary: "how long a read or a forced write waits before it goes ahead of others of its \
        process",
    default: 500.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 2.6.11",
};

const ASYNC_EXPIRE: Parameter = Parameter {
    name: "fifo_expire_async_ms",
    summary: "how long another write waits before it does",
    default: 5_000.0,
    min: 1.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 2.6.11",
};

const FIFO_RATE: Parameter = Parameter {
    name: "fifo_rate_ms",
    summary: "between two of a process that go because of their age lies at least this time",
    default: 125.0,
    min: 0.0,
    max: 600_000.0,
    whole: true,
    origin: "Linux 2.6.11",
};

const BACK_MAX: Parameter = Parameter {
    name: "back_max_sectors",
    summary: "how far behind the last command a request may lie and not count as the next sweep's",
    default: 32_768.0,
    min: 0.0,
    max: 1e12,
    whole: true,
    origin: "Linux 2.6.11 (16 MiB)",
};

const BACK_PENALTY: Parameter = Parameter {
    name: "back_penalty",
    summary: "how many times a distance behind counts",
    default: 2.0,
    min: 1.0,
    max: 1_000.0,
    whole: true,
    origin: "Linux 2.6.11",
};

type Process = (VolumeId, StreamId);

struct Cfq {
    sync_expire: Nanos,
    async_expire: Nanos,
    fifo_rate: Nanos,
    back_max: u64,
    back_penalty: u64,
    /// Processes that wait, the next one first.
    row: VecDeque<Process>,
    /// When a request of each process in the row last went because of its age.
    expired: BTreeMap<Process, Instant>,
    /// Who was chosen last, of which process, and whether because of its age.
    chosen: Option<(Ticket, Process, bool)>,
}

impl Cfq {
    fn new(parameters: &Parameters) -> Self {
        let number = |parameter: Parameter| parameters.get(parameter.name) as u64;
        Self {
            sync_expire: Nanos::from_ms(number(SYNC_EXPIRE)),
            async_expire: Nanos::from_ms(number(ASYNC_EXPIRE)),
            fifo_rate: Nanos::from_ms(number(FIFO_RATE)),
            back_max: number(BACK_MAX),
            back_penalty: number(BACK_PENALTY),
            row: VecDeque::new(),
            expired: BTreeMap::new(),
            chosen: None,
        }
    }

    /// Moves a process that has had its turn to the end of the row, lets those go that wait for
    /// nothing, and puts newcomers at the end.
    fn follow(&mut self, view: &View<'_>) {
        if let Some((_, process, aged)) =
            self.chosen.take_if(|(ticket, ..)| view.queue.get(*ticket).is_none())
        {
            self.row.retain(|waiting| *waiting != process);
            self.row.push_back(process);
            if aged {
                self.expired.insert(process, view.now);
            }
        }
        let mut waiting: BTreeSet<Process> = view.queue.by_arrival().map(process_of).collect();
        self.row.retain(|process| waiting.contains(process));
        self.row.iter().for_each(|process| {
            waiting.remove(process);
        });
        if !waiting.is_empty() {
            let newcomers =
                view.queue.by_arrival().map(process_of).filter(|process| waiting.remove(process));
            self.row.extend(newcomers);
        }
        self.expired.retain(|_, at| view.now.saturating_since(*at) < self.fifo_rate);
    }

    /// The next request of a process, and whether because of its age.
    fn next_of<'a>(&self, process: Process, view: &View<'a>) -> Option<(&'a Queued, bool)> {
        let own = || view.queue.by_arrival().filter(|queued| process_of(queued) == process);
        if !self.expired.contains_key(&process) {
            let aged = |sync: bool, after: Nanos| {
                own()
                    .find(|queued| is_sync(queued) == sync)
                    .filter(|queued| view.now > queued.submitted + after)
            };
            if let Some(oldest) =
                aged(true, self.sync_expire).or_else(|| aged(false, self.async_expire))
            {
                return Some((oldest, true));
            }
        }
        let last = view.next_lba();
        own()
            .min_by_key(|queued| (self.turn(queued.request.extent.start, last), queued.ticket))
            .map(|next| (next, false))
    }

    /// What is less goes before: first whether it is the next sweep's, then how far it is, or, in
    /// the next sweep, at which address.
    fn turn(&self, start: Lba, last: Lba) -> (bool, u64) {
        let distance = start.distance(last).get();
        match start >= last {
            true => (false, distance),
            false if distance <= self.back_max => {
                (false, distance.saturating_mul(self.back_penalty))
            }
            false => (true, start.get()),
        }
    }
}

impl Policy for Cfq {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        1
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        self.follow(view);
        let next =
            self.row.front().and_then(|process| Some((*process, self.next_of(*process, view)?)));
        self.chosen = next.map(|(process, (queued, aged))| (queued.ticket, process, aged));
        Choice::one(self.chosen.map(|(ticket, ..)| ticket))
    }
}

fn process_of(queued: &Queued) -> Process {
    (queued.request.volume, queued.request.stream)
}

/// Whether somebody waits for it: reads, and writes that must be durable.
fn is_sync(queued: &Queued) -> bool {
    queued.request.op == Op::Read || queued.request.fua
}
