#![doc = include_str!("../../../../docs/policies/auto.md")]

mod built_in;
mod load;
mod switching;
mod table;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

pub use self::load::{LoadFeatures, LoadMeter};
pub use self::switching::{PolicySwitch, SwitchCause};
pub use self::table::{AutoRow, AutoTable, AutoTableError, is_switchable};

use self::switching::Switching;
use crate::arms::Arms;
use crate::command::{Finished, Waits};
use crate::policy::{Choice, Policy, View};
use crate::queue::Queued;
use crate::request::{Request, RequestId, StreamId};
use crate::shares::Charge;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "auto",
    summary: "the policy that a table of measurements expects to be best under the load of the \
        moment",
    source: "P3 section 6 (future work: choosing the scheduler at run time)",
    oracle: false,
    parameters: &[WINDOW, MARGIN, DWELL],
    build: |parameters| Box::new(Auto::new(parameters)),
};

const WINDOW: Parameter = Parameter {
    name: "window_ms",
    summary: "time over which the load is observed before each decision; up to four times as long \
        with fewer than 16 requests",
    default: 500.0,
    min: 1.0,
    max: 60_000.0,
    whole: true,
    origin: "guess: two windows and a switch within 2 s",
};

const MARGIN: Parameter = Parameter {
    name: "margin_percent",
    summary: "expected gain below which the policy stays",
    default: 3.0,
    min: 0.0,
    max: 1_000.0,
    whole: false,
    origin: "guess: the deviation of repeated measurements",
};

const DWELL: Parameter = Parameter {
    name: "dwell_ms",
    summary: "minimum time between two switches; doubled by a switch within four times of it after \
        another",
    default: 2_000.0,
    min: 0.0,
    max: 600_000.0,
    whole: true,
    origin: "guess: four windows",
};

/// The requests that a window must have, and the fewest that a long one may have.
const REQUESTS: (u64, u64) = (16, 4);
/// Windows after which one with few requests ends.
const LONGEST: u64 = 4;
/// Switches that are remembered.
const REMEMBERED: usize = 64;

struct Auto {
    table: Arc<AutoTable>,
    /// The table that the server has set, if any.
    set: Option<Arc<AutoTable>>,
    /// The place of the policy at work in the table.
    place: usize,
    inner: Box<dyn Policy>,
    window: Nanos,
    /// `None` before the first decision.
    meter: Option<LoadMeter>,
    switching: Switching,
    switches: Vec<PolicySwitch>,
    /// The waits of earlier policies.
    waits_before: Waits,
}

impl Auto {
    fn new(parameters: &Parameters) -> Self {
        let table = Arc::new(AutoTable::built_in());
        let place = table.default_place();
        let ms = |parameter: Parameter| Nanos::from_ms(parameters.get(parameter.name) as u64);
        Self {
            inner: build(&table, place),
            table,
            set: None,
            place,
            window: ms(WINDOW),
            meter: None,
            switching: Switching::new(parameters.get(MARGIN.name) / 100.0, ms(DWELL)),
            switches: Vec::new(),
            waits_before: Waits::default(),
        }
    }

    /// Switches if the table, the shares or the load of the last window require it.
    fn follow(&mut self, view: &View<'_>) {
        self.follow_table(view);
        if view.shares.any_terms() {
            self.switch(view, self.table.default_place(), SwitchCause::Shares);
            return;
        }
        let window = self.window;
        let meter = self.meter.get_or_insert_with(|| LoadMeter::new(view.now, held(view)));
        let (length, requests) = (meter.length(view.now), meter.finished_requests());
        if length < window || (requests < REQUESTS.0 && length < window * LONGEST) {
            return;
        }
        let Some(observed) = meter.take(view.now).filter(|_| requests >= REQUESTS.1) else {
            return;
        };
        let expected = self.table.expected(&observed);
        if let Some(next) = self.switching.decide(view.now, self.place, &expected.scores) {
            let gain = expected.scores[next] / expected.scores[self.place] - 1.0;
            let nearest = expected.nearest.load.clone();
            self.switch(view, next, SwitchCause::Load { observed, nearest, gain });
        }
    }

    /// Uses the table of the tunables. A table of one load names one policy, whatever the load is;
    /// otherwise the policy stays if it is in the table, too.
    fn follow_table(&mut self, view: &View<'_>) {
        let set = &view.tunables.auto_table;
        if set.as_ref().map(Arc::as_ptr) == self.set.as_ref().map(Arc::as_ptr) {
            return;
        }
        self.set.clone_from(set);
        let before = self.table.policies()[self.place];
        self.table = set.clone().unwrap_or_else(|| Arc::new(AutoTable::built_in()));
        let place = match self.table.rows() {
            [only] => self.table.expected(&only.features).best(),
            _ => self.table.policies().iter().position(|name| *name == before),
        };
        self.place = place.unwrap_or(self.table.default_place());
        if self.table.policies()[self.place] != before {
            self.begin(view, before, SwitchCause::Table);
        }
    }

    fn switch(&mut self, view: &View<'_>, place: usize, cause: SwitchCause) {
        if place != self.place {
            let before = self.table.policies()[self.place];
            self.place = place;
            self.begin(view, before, cause);
        }
    }

    /// Begins with the policy at `place`, which learns of the requests that are queued.
    fn begin(&mut self, view: &View<'_>, before: &'static str, cause: SwitchCause) {
        self.waits_before = self.waits();
        self.inner = build(&self.table, self.place);
        self.inner.arms(view.belief.arms());
        for Queued { submitted, request, .. } in view.queue.by_arrival() {
            self.inner.submitted(*submitted, request);
        }
        if self.switches.len() == REMEMBERED {
            self.switches.remove(0);
        }
        let to = self.table.policies()[self.place];
        self.switches.push(PolicySwitch { at: view.now, from: before, to, cause });
    }
}

fn build(table: &AutoTable, place: usize) -> Box<dyn Policy> {
    let entry = PolicyEntry::find(table.policies()[place]);
    entry.expect("a table has policies that exist").build_default()
}

/// The requests that the view shows.
fn held(view: &View<'_>) -> usize {
    let at_drive: usize = view.outstanding.iter().map(|command| command.requests.len()).sum();
    view.queue.len() + at_drive
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn active(&self) -> &'static str {
        self.inner.name()
    }

    fn switches(&self) -> &[PolicySwitch] {
        &self.switches
    }

    fn depth(&self, view: &View<'_>) -> usize {
        self.inner.depth(view)
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        self.follow(view);
        self.inner.choose(view)
    }

    fn forces(&self, view: &View<'_>, write: &Request) -> bool {
        self.inner.forces(view, write)
    }

    /// Terms are enforced by the default policy, which is at work while a tenant has some.
    fn enforces_limits(&self) -> bool {
        true
    }

    fn charge(&mut self, view: &View<'_>, queued: &Queued) -> Charge {
        self.inner.charge(view, queued)
    }

    fn arms(&mut self, arms: Arms) {
        self.inner.arms(arms);
    }

    fn belief_changed(&mut self) {
        self.inner.belief_changed();
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        if let Some(meter) = &mut self.meter {
            meter.submitted(now, request);
        }
        self.inner.submitted(now, request);
    }

    fn cancelled(&mut self, id: RequestId) {
        if let Some(meter) = &mut self.meter {
            meter.cancelled();
        }
        self.inner.cancelled(id);
    }

    fn waits(&self) -> Waits {
        self.waits_before + self.inner.waits()
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.inner.stream_ended(now, stream);
    }

    fn finished(&mut self, finished: &Finished) {
        if let Some(meter) = &mut self.meter {
            meter.finished(finished.finished);
        }
        self.inner.finished(finished);
    }
}
