//! [`Engine`]: virtual time around a scheduler, a drive and a source of requests.
//!
//! Time advances from event to event: an arrival, the end of a think time, a drive event, a wake-up
//! requested by the policy or the source, the end of a stream, a timeout. Each step works in this
//! order: the drive advances and its completions go to the scheduler; overdue commands are given
//! up; due requests are submitted and ended streams reported; the scheduler is asked for commands
//! until it has none. All events of one time are processed before time advances.
//!
//! The engine is generic over its three parts ([`SchedulerApi`] is the scheduler, or a faulty one
//! in tests) and reports events to an [`EngineObserver`].
//!
//! Cost: a request allocates nothing outside the scheduler.

mod observer;
mod scheduler_api;
mod timeouts;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headtime_sched::{
    Admission, Cancelled, ClassId, Decision, Done, Finished, Op, Outcome, Refusal, Request,
    RequestId, StreamId, VolumeId,
};
use headtime_units::{Instant, Nanos};
use headtime_workload::{Arrival, ClientId, Operation, RequestSource, RequestSpec, SourceEvent};

use crate::device::{Device, DriveCompletion};
pub use observer::EngineObserver;
pub use scheduler_api::SchedulerApi;
use timeouts::Timeouts;

/// The errno of "connection timed out", reported for commands that the drive never answered.
pub const ETIMEDOUT: i32 = 110;

/// A scheduler, a drive and a source of requests, run together in virtual time.
pub struct Engine<F, D, S> {
    /// The scheduler.
    pub scheduler: F,
    /// The drive.
    pub device: D,
    /// The source of requests.
    pub source: S,
    now: Instant,
    next_request: u64,
    /// The source's next arrival that depends on no completion.
    arrival: Option<Arrival>,
    pending: BinaryHeap<Reverse<PendingEvent>>,
    events_created: u64,
    /// The earlier of `arrival` and the first of `pending`.
    next_arrival: Instant,
    /// The next wake-up that the policy requested.
    wake: Instant,
    /// True if an event of this step may lead to a dispatch.
    needs_dispatch: bool,
    timeouts: Option<Timeouts>,
    held: u64,
    completions: Vec<DriveCompletion>,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Events were processed.
    Stepped,
    /// No request is held, and none will arrive.
    Drained,
}

/// The reason why a run cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum EngineError {
    /// The scheduler refused a request.
    #[error(
        "request {} of the workload was refused at {at}: {refusal}; if the queue is full, requests \
            come faster than the drive can serve them",
        id.0
    )]
    Refused { id: RequestId, at: Instant, refusal: Refusal },
    /// Requests are held, and no event is left.
    #[error(
        "at {at} {held} requests are held but nothing is under way; the policy must send something \
            when the drive is empty"
    )]
    Stalled { at: Instant, held: u64 },
}

impl<F: SchedulerApi, D: Device, S: RequestSource> Engine<F, D, S> {
    /// An engine at the origin of the clock. With a `timeout`, a command that the drive has not
    /// answered by then fails.
    #[must_use]
    pub fn new(scheduler: F, device: D, mut source: S, timeout: Option<Nanos>) -> Self {
        let arrival = source.arrival();
        let mut engine = Self {
            next_arrival: Instant::NEVER,
            arrival,
            scheduler,
            device,
            source,
            now: Instant::ORIGIN,
            next_request: 0,
            pending: BinaryHeap::new(),
            events_created: 0,
            wake: Instant::NEVER,
            needs_dispatch: false,
            timeouts: timeout.map(Timeouts::new),
            held: 0,
            completions: Vec::new(),
        };
        while let Some(event) = engine.source.event() {
            engine.schedule(event);
        }
        engine.update_next_arrival();
        engine
    }

    /// The time of the last step.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Advances to the next event and processes everything due at that time.
    ///
    /// # Errors
    /// See [`EngineError`]; the engine cannot be used afterwards.
    pub fn step(&mut self, observer: &mut impl EngineObserver) -> Result<StepOutcome, EngineError> {
        let next = self.next_event();
        if next == Instant::NEVER {
            let at = self.now;
            return if self.held == 0 {
                Ok(StepOutcome::Drained)
            } else {
                Err(EngineError::Stalled { at, held: self.held })
            };
        }
        self.now = self.now.max(next);
        self.needs_dispatch = self.wake <= self.now;
        self.complete(observer)?;
        if self.timeouts.is_some() {
            self.give_up(observer)?;
        }
        if self.next_arrival <= self.now {
            self.submit_due(observer)?;
        }
        // Most drive events concern the drive alone.
        if self.needs_dispatch {
            self.dispatch(observer);
        }
        Ok(StepOutcome::Stepped)
    }

    /// Cancels a request and lets its client continue, as after a completion.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn cancel(
        &mut self,
        id: RequestId,
        client: ClientId,
        observer: &mut impl EngineObserver,
    ) -> Result<Cancelled, EngineError> {
        let cancelled = self.scheduler.cancel(self.now, id);
        if cancelled != Cancelled::Unknown {
            self.held -= 1;
            observer.cancelled(self.now, id, cancelled);
            self.follow(client, observer)?;
            self.dispatch(observer);
        }
        Ok(cancelled)
    }

    /// Asks the scheduler for commands at the next step, for example after a scan was started.
    pub fn request_dispatch(&mut self) {
        self.wake = self.wake.min(self.now);
    }

    /// The time of the next event; [`Instant::NEVER`] if there is none.
    #[must_use]
    pub fn next_event(&self) -> Instant {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::NEVER);
        let timeout = self.timeouts.as_ref().and_then(Timeouts::next);
        or_never(self.device.next_event())
            .min(or_never(timeout))
            .min(self.wake)
            .min(self.next_arrival)
    }

    /// Updates the time of the next arrival.
    fn update_next_arrival(&mut self) {
        let arrival = self.arrival.as_ref().map_or(Instant::NEVER, |arrival| arrival.at);
        let pending = self.pending.peek().map_or(Instant::NEVER, |Reverse(event)| event.at);
        self.next_arrival = arrival.min(pending);
    }

    fn complete(&mut self, observer: &mut impl EngineObserver) -> Result<(), EngineError> {
        self.device.advance(self.now, &mut self.completions);
        if self.completions.is_empty() {
            return Ok(());
        }
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            let expected =
                self.timeouts.as_mut().is_none_or(|timeouts| timeouts.answered(completion.command));
            observer.completed(self.now, &completion, expected);
            if expected {
                let done = Done {
                    command: completion.command,
                    finished: completion.finished,
                    outcome: completion.outcome,
                };
                self.complete_command(done, observer)?;
            }
        }
        self.completions = completions;
        Ok(())
    }

    fn give_up(&mut self, observer: &mut impl EngineObserver) -> Result<(), EngineError> {
        while let Some(command) =
            self.timeouts.as_mut().and_then(|timeouts| timeouts.take_due(self.now))
        {
            self.device.abort(self.now, command);
            observer.gave_up(self.now, command);
            self.complete_command(
                Done { command, finished: self.now, outcome: Outcome::Failed(ETIMEDOUT) },
                observer,
            )?;
        }
        Ok(())
    }

    fn complete_command(
        &mut self,
        done: Done,
        observer: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        self.needs_dispatch = true;
        for finished in self.scheduler.complete(self.now, done) {
            self.finish(&finished, observer)?;
        }
        while let Some(read) = self.scheduler.take_background() {
            observer.background(self.now, &read);
        }
        Ok(())
    }

    fn finish(
        &mut self,
        finished: &Finished,
        observer: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        observer.finished(self.now, finished);
        self.held = self.held.checked_sub(1).expect("no more requests finish than were submitted");
        self.follow(ClientId(finished.request.stream.0), observer)
    }

    fn follow(
        &mut self,
        client: ClientId,
        observer: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        let mut scheduled = false;
        match self.source.follow(self.now, client) {
            Some(arrival) if arrival.at <= self.now => self.submit(&arrival.ask, observer)?,
            Some(arrival) => {
                self.schedule(SourceEvent::Request(arrival));
                scheduled = true;
            }
            None => {}
        }
        scheduled |= self.take_events(observer)?;
        if scheduled {
            self.update_next_arrival();
        }
        Ok(())
    }

    /// Takes the events of the source; processes those that are due and keeps the others. Returns
    /// true if it keeps some.
    fn take_events(&mut self, observer: &mut impl EngineObserver) -> Result<bool, EngineError> {
        let mut scheduled = false;
        while let Some(event) = self.source.event() {
            if event.at() <= self.now {
                self.process(event, observer)?;
            } else {
                self.schedule(event);
                scheduled = true;
            }
        }
        Ok(scheduled)
    }

    fn schedule(&mut self, event: SourceEvent) {
        self.pending.push(Reverse(PendingEvent {
            at: event.at(),
            order: self.events_created,
            event,
        }));
        self.events_created += 1;
    }

    fn process(
        &mut self,
        event: SourceEvent,
        observer: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        match event {
            SourceEvent::Request(arrival) => self.submit(&arrival.ask, observer)?,
            SourceEvent::Wake { client, .. } => self.source.wake(self.now, client),
            SourceEvent::Ended { client, .. } => {
                let stream = StreamId(client.0);
                self.pending.retain(|Reverse(event)| !event.wakes(client));
                self.scheduler.stream_ended(self.now, stream);
                observer.stream_ended(self.now, stream);
                self.needs_dispatch = true;
            }
        }
        Ok(())
    }

    fn submit_due(&mut self, observer: &mut impl EngineObserver) -> Result<(), EngineError> {
        while let Some(arrival) = self.arrival.take_if(|arrival| arrival.at <= self.now) {
            self.submit(&arrival.ask, observer)?;
            self.arrival = self.source.arrival();
        }
        while self.pending.peek().is_some_and(|Reverse(event)| event.at <= self.now) {
            if let Some(Reverse(PendingEvent { event, .. })) = self.pending.pop() {
                self.process(event, observer)?;
                self.take_events(observer)?;
            }
        }
        self.update_next_arrival();
        Ok(())
    }

    fn submit(
        &mut self,
        ask: &RequestSpec,
        observer: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        let request = Request {
            id: RequestId(self.next_request),
            volume: VolumeId(ask.stream),
            class: ClassId(0),
            stream: StreamId(ask.client.0),
            op: op_of(ask.operation),
            extent: ask.extent,
            fua: ask.fua,
            deadline: ask.deadline,
        };
        self.next_request += 1;
        match self.scheduler.submit(self.now, request) {
            Admission::Accepted => {
                self.needs_dispatch = true;
                self.held += 1;
                observer.submitted(self.now, &request);
                Ok(())
            }
            Admission::Refused(refusal) => {
                Err(EngineError::Refused { id: request.id, at: self.now, refusal })
            }
        }
    }

    fn dispatch(&mut self, observer: &mut impl EngineObserver) {
        self.wake = loop {
            match self.scheduler.next(self.now) {
                Decision::Dispatch(command) => {
                    observer.dispatched(self.now, &command);
                    if let Some(timeouts) = &mut self.timeouts {
                        timeouts.sent(self.now, command.id);
                    }
                    self.device.submit(self.now, &command);
                }
                // A policy that waits until now would stop time; the next nanosecond is early
                // enough.
                Decision::WaitUntil { at, .. } => break at.max(self.now + Nanos::from_ns(1)),
                Decision::Idle => break Instant::NEVER,
            }
        };
    }
}

/// An event of the source, ordered by time, then by creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingEvent {
    at: Instant,
    order: u64,
    event: SourceEvent,
}

impl PendingEvent {
    fn wakes(&self, ended: ClientId) -> bool {
        matches!(self.event, SourceEvent::Wake { client, .. } if client == ended)
    }
}

impl Ord for PendingEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for PendingEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

fn op_of(operation: Operation) -> Op {
    match operation {
        Operation::Read => Op::Read,
        Operation::Write => Op::Write,
        Operation::Zero => Op::Zero,
        Operation::Discard => Op::Discard,
        Operation::Flush => Op::Flush,
    }
}
