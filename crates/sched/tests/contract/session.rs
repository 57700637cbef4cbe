//! A scheduler, a tiny drive and the model that judges them, stepped through virtual time.

use headtime_sched::{
    Admission, BackgroundRead, Cancelled, ClassId, Command, Decision, Done, DriveTraits,
    FillSettings, Finished, IoPriority, Op, Outcome, PendingSectors, Policy, PolicyEntry,
    QueueLimits, Request, RequestId, ScanId, ScanOptions, Scheduler, StreamId, VolumeId,
};
use headtime_units::{Extent, Instant, Nanos};

use crate::drive::{Drive, ServiceOrder};
use crate::model::Model;
use crate::tiny::TinyBelief;

/// The faults of the drive: returns whether a completed command fails.
pub(crate) type Faults = Box<dyn FnMut(&Command) -> bool>;

/// The configuration of a session.
pub(crate) struct Setup {
    pub policy: Box<dyn Policy>,
    pub belief: TinyBelief,
    pub traits: DriveTraits,
    pub limits: QueueLimits,
    pub order: ServiceOrder,
    pub faults: Faults,
}

pub(crate) struct Session {
    pub scheduler: Scheduler,
    pub drive: Drive,
    pub now: Instant,
    /// Everything sent, in order.
    pub dispatched: Vec<Command>,
    /// Everything reported as over, in order.
    pub finished: Vec<Finished>,
    /// Everything read for scans, in order.
    pub read: Vec<BackgroundRead>,
    pub model: Model,
    faults: Faults,
    traits: DriveTraits,
    limits: QueueLimits,
    wake: Option<Instant>,
    cancelled_any: bool,
}

impl Setup {
    /// A policy by its text, on a drive with FUA and a queue of 32, nothing failing.
    pub(crate) fn of(policy: &str) -> Self {
        let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
        Self::with((entry.build)(&parameters))
    }

    pub(crate) fn with(policy: Box<dyn Policy>) -> Self {
        Self {
            policy,
            belief: TinyBelief::default(),
            traits: DriveTraits { queue_depth: 32, fua: true },
            limits: QueueLimits::default(),
            order: ServiceOrder::Arrival,
            faults: Box::new(|_| false),
        }
    }

    pub(crate) fn fua(mut self, fua: bool) -> Self {
        self.traits.fua = fua;
        self
    }

    pub(crate) fn queue_depth(mut self, commands: usize) -> Self {
        self.traits.queue_depth = commands;
        self
    }

    pub(crate) fn outstanding(mut self, commands: usize) -> Self {
        self.limits.outstanding = Some(commands);
        self
    }

    pub(crate) fn order(mut self, order: ServiceOrder) -> Self {
        self.order = order;
        self
    }

    pub(crate) fn failing(mut self, faults: impl FnMut(&Command) -> bool + 'static) -> Self {
        self.faults = Box::new(faults);
        self
    }

    pub(crate) fn start(self) -> Session {
        Session {
            scheduler: Scheduler::new(Box::new(self.belief), self.policy, self.traits, self.limits),
            drive: Drive::new(self.order),
            now: Instant::ORIGIN,
            dispatched: Vec::new(),
            finished: Vec::new(),
            read: Vec::new(),
            model: Model::default(),
            faults: self.faults,
            traits: self.traits,
            limits: self.limits,
            wake: None,
            cancelled_any: false,
        }
    }
}

impl Session {
    /// Submits without a decision; several requests may arrive at one instant.
    pub(crate) fn submit(&mut self, request: Request) -> Admission {
        let admission = self.scheduler.submit(self.now, request);
        if admission == Admission::Accepted {
            self.model.submit(request);
        }
        self.scheduler.self_check();
        admission
    }

    /// Submits a request that must be accepted.
    pub(crate) fn accept(&mut self, request: Request) {
        assert_eq!(self.submit(request), Admission::Accepted, "{request:?}");
    }

    /// The same, with an I/O priority.
    pub(crate) fn accept_as(&mut self, priority: IoPriority, request: Request) {
        let admission = self.scheduler.submit_with_priority(self.now, request, priority);
        assert_eq!(admission, Admission::Accepted, "{request:?}");
        self.model.submit(request);
    }

    pub(crate) fn cancel(&mut self, id: u64) -> Cancelled {
        let answer = self.scheduler.cancel(self.now, RequestId(id));
        self.cancelled_any |= answer != Cancelled::Unknown;
        self.model.cancelled(RequestId(id), answer);
        self.after_event();
        answer
    }

    /// Sets the fill settings, and starts a scan of `pending`.
    pub(crate) fn scan(
        &mut self,
        id: u32,
        settings: FillSettings,
        pending: PendingSectors,
        options: ScanOptions,
    ) {
        self.scheduler.set_fill(settings);
        self.model.scan_start(ScanId(id), &pending, options);
        self.scheduler.scan_start(self.now, ScanId(id), pending, options);
        self.scheduler.self_check();
    }

    pub(crate) fn scan_stop(&mut self, id: u32) {
        self.model.scan_stop(ScanId(id));
        self.scheduler.scan_stop(self.now, ScanId(id));
        self.scheduler.self_check();
    }

    /// Lets the scheduler send all its commands.
    pub(crate) fn pump(&mut self) {
        self.wake = None;
        loop {
            match self.scheduler.next(self.now) {
                Decision::Dispatch(command) => self.dispatch(command),
                Decision::WaitUntil { at, .. } => {
                    assert!(at > self.now, "waiting until now is no waiting");
                    self.wake = Some(at);
                    return;
                }
                Decision::Idle => {
                    let held = self.scheduler.held();
                    assert!(
                        self.drive.len() > 0 || held == 0,
                        "the drive idles with {held} requests held and nobody will ask again"
                    );
                    return;
                }
            }
        }
    }

    /// Pumps and advances to the next completion or wake-up; `false` when there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.pump();
        match (self.drive.next_report(), self.wake) {
            (None, None) => return false,
            (Some(report), wake) if wake.is_none_or(|wake| report <= wake) => {
                self.now = report;
                self.complete();
            }
            (_, wake) => self.now = wake.expect("no report comes before it"),
        }
        true
    }

    /// The time of the next completion or wake-up.
    pub(crate) fn next_event(&mut self) -> Option<Instant> {
        self.drive.next_report().into_iter().chain(self.wake).min()
    }

    /// Advances by `span`, handling the events on the way.
    pub(crate) fn pass(&mut self, span: Nanos) {
        let until = self.now + span;
        self.pump();
        while self.next_event().is_some_and(|at| at <= until) {
            self.step();
            self.pump();
        }
        self.now = until;
    }

    /// Advances until nothing is left, and checks that everything finished.
    pub(crate) fn run_to_end(&mut self) {
        while self.step() {}
        assert_eq!((self.scheduler.held(), self.drive.len()), (0, 0));
        self.model.check_end();
        assert_eq!(self.scheduler.take_background(), None);
        let reported: Nanos = self.finished.iter().map(|finished| finished.disk_time).sum();
        let charged = self.scheduler.accounts().disk_time();
        let background = self.scheduler.accounts().background().disk_time;
        assert_eq!(
            charged + background,
            self.drive.busy,
            "what is charged is not the time the drive was at work"
        );
        assert!(
            reported == charged || (self.cancelled_any && reported < charged),
            "{reported} reported, {charged} charged"
        );
    }

    /// The ids of the requests served, in the order they were sent; a flush with the ids of its
    /// requests.
    pub(crate) fn served(&self) -> Vec<u64> {
        self.dispatched.iter().flat_map(|command| command.requests.iter().map(|id| id.0)).collect()
    }

    pub(crate) fn set_limits(&mut self, limits: QueueLimits) {
        self.limits = limits;
        self.scheduler.set_limits(limits);
    }

    /// The outcome of request `id`.
    pub(crate) fn end_of(&self, id: u64) -> &Finished {
        self.finished
            .iter()
            .find(|finished| finished.request.id == RequestId(id))
            .unwrap_or_else(|| panic!("request {id} is not over"))
    }

    fn dispatch(&mut self, command: Command) {
        let taken = self.traits.queue_depth.min(self.limits.outstanding.unwrap_or(usize::MAX));
        self.drive.take(self.now, command.clone());
        assert!(
            self.drive.len() <= taken,
            "the drive holds {} commands but takes {taken}",
            self.drive.len()
        );
        assert_eq!(self.drive.len(), self.scheduler.outstanding().len());
        assert!(
            !command.fua || (self.traits.fua && command.op == Op::Write),
            "{command:?}: no drive honors this"
        );
        self.model.dispatch(&command);
        self.dispatched.push(command);
        self.scheduler.self_check();
    }

    fn complete(&mut self) {
        let command = self.drive.report();
        self.model.background_completes(&command);
        let outcome = if (self.faults)(&command) { Outcome::Failed(5) } else { Outcome::Success };
        self.model.drive_completes(&command, outcome);
        let over = self
            .scheduler
            .complete(self.now, Done { command: command.id, finished: self.now, outcome });
        while let Some(read) = self.scheduler.take_background() {
            self.model.read(&read);
            self.read.push(read);
        }
        for finished in over {
            self.model.finished(&finished);
            self.finished.push(finished);
        }
        self.after_event();
    }

    fn after_event(&mut self) {
        self.scheduler.self_check();
        let at_drive: Vec<RequestId> = self
            .scheduler
            .outstanding()
            .iter()
            .flat_map(|command| command.requests.iter().map(|queued| queued.request.id))
            .collect();
        self.model.forget_cancelled(|id| at_drive.contains(&id));
        self.model.check_power_cut();
    }
}

/// A request of volume 0, stream 0, without deadline.
pub(crate) fn request(id: u64, op: Op, start: u64, len: u64) -> Request {
    let extent = Extent::from_numbers(start, len);
    Request {
        id: RequestId(id),
        volume: VolumeId(0),
        class: ClassId(0),
        stream: StreamId(0),
        op,
        extent,
        fua: false,
        deadline: None,
    }
}

pub(crate) fn read(id: u64, start: u64, len: u64) -> Request {
    request(id, Op::Read, start, len)
}

pub(crate) fn write(id: u64, start: u64, len: u64) -> Request {
    request(id, Op::Write, start, len)
}

pub(crate) fn flush(id: u64) -> Request {
    request(id, Op::Flush, 0, 0)
}

/// The same request, durable when it completes.
pub(crate) fn fua(request: Request) -> Request {
    Request { fua: true, ..request }
}

/// The same request, due `ms` after the origin of the clock.
pub(crate) fn due(request: Request, ms: u64) -> Request {
    Request { deadline: Some(Instant::ORIGIN + Nanos::from_ms(ms)), ..request }
}
