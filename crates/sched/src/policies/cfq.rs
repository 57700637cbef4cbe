#![doc = include_str!("../../../../docs/policies/cfq.md")]

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use headtime_units::{Instant, Nanos};

use crate::policies::elevator::{Process, Sweep, process_of};
use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
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
    summary: "how long any other write waits before it does",
    default: 5_000.0,
    ..SYNC_EXPIRE
};

const FIFO_RATE: Parameter = Parameter {
    name: "fifo_rate_ms",
    summary: "minimum time between two requests of a process that go because of their age",
    default: 125.0,
    min: 0.0,
    ..SYNC_EXPIRE
};

const BACK_MAX: Parameter = Parameter {
    name: "back_max_sectors",
    summary: "distance back from the last command within which a request still belongs to this \
        sweep",
    default: 32_768.0,
    min: 0.0,
    max: 1e12,
    whole: true,
    origin: "Linux 2.6.11 (16 MiB)",
};

const BACK_PENALTY: Parameter = Parameter {
    name: "back_penalty",
    summary: "factor by which a distance back counts",
    default: 2.0,
    min: 1.0,
    max: 1_000.0,
    whole: true,
    origin: "Linux 2.6.11",
};

struct Cfq {
    sync_expire: Nanos,
    async_expire: Nanos,
    fifo_rate: Nanos,
    sweep: Sweep,
    /// Processes that wait, the next one first.
    row: VecDeque<Process>,
    /// The time at which a request of each process in the row last went because of its age.
    expired: BTreeMap<Process, Instant>,
    /// The last choice, its process, and whether it was chosen because of its age.
    chosen: Option<(Ticket, Process, bool)>,
}

impl Cfq {
    fn new(parameters: &Parameters) -> Self {
        let number = |parameter: Parameter| parameters.get(parameter.name) as u64;
        Self {
            sync_expire: Nanos::from_ms(number(SYNC_EXPIRE)),
            async_expire: Nanos::from_ms(number(ASYNC_EXPIRE)),
            fifo_rate: Nanos::from_ms(number(FIFO_RATE)),
            sweep: Sweep { back_max: number(BACK_MAX), back_penalty: number(BACK_PENALTY) },
            row: VecDeque::new(),
            expired: BTreeMap::new(),
            chosen: None,
        }
    }

    /// Moves a process to the end of the line after its turn, removes processes without requests,
    /// and appends new ones.
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
        let mut waiting: BTreeSet<Process> =
            view.queue.by_arrival().map(|queued| process_of(&queued.request)).collect();
        self.row.retain(|process| waiting.contains(process));
        self.row.iter().for_each(|process| {
            waiting.remove(process);
        });
        if !waiting.is_empty() {
            let newcomers = view
                .queue
                .by_arrival()
                .map(|queued| process_of(&queued.request))
                .filter(|process| waiting.remove(process));
            self.row.extend(newcomers);
        }
        self.expired.retain(|_, at| view.now.saturating_since(*at) < self.fifo_rate);
    }

    /// The next request of a process, and whether because of its age.
    fn next_of<'a>(&self, process: Process, view: &View<'a>) -> Option<(&'a Queued, bool)> {
        let own =
            || view.queue.by_arrival().filter(|queued| process_of(&queued.request) == process);
        if !self.expired.contains_key(&process) {
            let aged = |sync: bool, after: Nanos| {
                own()
                    .find(|queued| queued.request.is_synchronous() == sync)
                    .filter(|queued| view.now > queued.submitted + after)
            };
            if let Some(oldest) =
                aged(true, self.sync_expire).or_else(|| aged(false, self.async_expire))
            {
                return Some((oldest, true));
            }
        }
        self.sweep
            .next(view.queue, view.next_lba(), |queued| process_of(&queued.request) == process)
            .map(|next| (next, false))
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
