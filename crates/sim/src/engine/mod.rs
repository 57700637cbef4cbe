//! [`Engine`]: virtual time around a scheduler, a drive and a source of requests.
//!
//! Time jumps from event to event: an arrival, the end of a think time, something at the drive, the
//! time a policy wanted to be asked again, a timeout. At each, in this order: the drive advances
//! and its completions go to the scheduler; commands that took too long are given up; requests that
//! are due are submitted; the scheduler is asked for commands until it has none. Everything that
//! happens at one time is done before time goes on.
//!
//! The engine is generic over its three parts ([`SchedulerApi`] is the scheduler, or a faulty one in
//! tests), and tells a [`EngineObserver`] what happens: measures, checks.
//!
//! Cost: nothing is allocated for a request but what the scheduler allocates.

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
use headtime_workload::{Arrival, Ask, ClientId, Operation, Source};

use crate::device::{Device, DriveCompletion};
pub use observer::EngineObserver;
pub use scheduler_api::SchedulerApi;
use timeouts::Timeouts;

/// The system's number of "connection timed out", reported for commands that the drive never
/// answered.
pub const ETIMEDOUT: i32 = 110;

/// A scheduler, a drive and a source of requests, run together in virtual time.
pub struct Engine<F, D, S> {
    /// What schedules.
    pub scheduler: F,
    /// What serves.
    pub device: D,
    /// What asks.
    pub source: S,
    now: Instant,
    next_request: u64,
    /// The source's next arrival that depends on no completion.
    arrival: Option<Arrival>,
    thinking: BinaryHeap<Reverse<PendingArrival>>,
    thoughts: u64,
    /// The earlier of `arrival` and the first of `thinking`.
    next_outside: Instant,
    /// When the policy wants to be asked again.
    wake: Instant,
    /// Whether anything happened at this step that the scheduler could answer with a command.
    stirred: bool,
    timeouts: Option<Timeouts>,
    held: u64,
    completions: Vec<DriveCompletion>,
}

/// Whether there is more to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Something happened.
    Stepped,
    /// Nothing is held and nothing more will come.
    Drained,
}

/// Why a run cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The scheduler did not take a request.
    #[error("request {} of the workload was refused at {at}: {refusal}; if the queue is full, requests come faster than the drive can serve them", id.0)]
    Refused {
        /// Which.
        id: RequestId,
        /// When.
        at: Instant,
        /// Why.
        refusal: Refusal,
    },
    /// Requests are held, and nothing will ever happen again.
    #[error(
        "at {at} {held} requests are held but nothing is under way; the policy must send something \
            when the drive is empty"
    )]
    Stalled {
        /// When.
        at: Instant,
        /// Requests held.
        held: u64,
    },
}

impl<F: SchedulerApi, D: Device, S: Source> Engine<F, D, S> {
    /// An engine at the origin of the clock. After `timeout`, if one is given, a command that the
    /// drive has not answered is given up as failed.
    #[must_use]
    pub fn new(scheduler: F, device: D, mut source: S, timeout: Option<Nanos>) -> Self {
        let arrival = source.arrival();
        Self {
            next_outside: arrival.as_ref().map_or(Instant::NEVER, |arrival| arrival.at),
            arrival,
            scheduler,
            device,
            source,
            now: Instant::ORIGIN,
            next_request: 0,
            thinking: BinaryHeap::new(),
            thoughts: 0,
            wake: Instant::NEVER,
            stirred: false,
            timeouts: timeout.map(Timeouts::new),
            held: 0,
            completions: Vec::new(),
        }
    }

    /// The time of the last step.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Requests accepted and neither finished nor cancelled.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Goes on to the next event and does all that happens then.
    ///
    /// # Errors
    /// See [`EngineError`]; the engine is of no use afterwards.
    pub fn step(&mut self, watch: &mut impl EngineObserver) -> Result<StepOutcome, EngineError> {
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
        self.stirred = self.wake <= self.now;
        self.complete(watch)?;
        if self.timeouts.is_some() {
            self.give_up(watch)?;
        }
        if self.next_outside <= self.now {
            self.submit_due(watch)?;
        }
        // Most events inside a drive concern nobody outside it.
        if self.stirred {
            self.dispatch(watch);
        }
        Ok(StepOutcome::Stepped)
    }

    /// Takes a request back and lets its client go on, as after a completion.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn cancel(
        &mut self,
        id: RequestId,
        client: ClientId,
        watch: &mut impl EngineObserver,
    ) -> Result<Cancelled, EngineError> {
        let cancelled = self.scheduler.cancel(self.now, id);
        if cancelled != Cancelled::Unknown {
            self.held -= 1;
            watch.cancelled(self.now, id, cancelled);
            self.follow(client, watch)?;
            self.dispatch(watch);
        }
        Ok(cancelled)
    }

    /// The scheduler has something new to do that came from no request, such as a scan: at the next
    /// step it is asked for commands.
    pub fn stir(&mut self) {
        self.wake = self.wake.min(self.now);
    }

    /// When something happens next; [`Instant::NEVER`] when nothing ever will.
    #[must_use]
    pub fn next_event(&self) -> Instant {
        let or_never = |at: Option<Instant>| at.unwrap_or(Instant::NEVER);
        let timeout = self.timeouts.as_ref().and_then(Timeouts::next);
        or_never(self.device.next_event())
            .min(or_never(timeout))
            .min(self.wake)
            .min(self.next_outside)
    }

    /// When somebody asks next, whether he depends on completions or not. Whoever changes that
    /// calls this.
    fn look_outside(&mut self) {
        let arrival = self.arrival.as_ref().map_or(Instant::NEVER, |arrival| arrival.at);
        let thinking =
            self.thinking.peek().map_or(Instant::NEVER, |Reverse(thinking)| thinking.arrival.at);
        self.next_outside = arrival.min(thinking);
    }

    fn complete(&mut self, watch: &mut impl EngineObserver) -> Result<(), EngineError> {
        self.device.advance(self.now, &mut self.completions);
        if self.completions.is_empty() {
            return Ok(());
        }
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            let expected =
                self.timeouts.as_mut().is_none_or(|timeouts| timeouts.answered(completion.command));
            watch.completed(self.now, &completion, expected);
            if expected {
                let done = Done {
                    command: completion.command,
                    finished: completion.finished,
                    outcome: completion.outcome,
                };
                self.over(done, watch)?;
            }
        }
        self.completions = completions;
        Ok(())
    }

    fn give_up(&mut self, watch: &mut impl EngineObserver) -> Result<(), EngineError> {
        while let Some(command) =
            self.timeouts.as_mut().and_then(|timeouts| timeouts.take_due(self.now))
        {
            self.device.abort(self.now, command);
            watch.gave_up(self.now, command);
            self.over(
                Done { command, finished: self.now, outcome: Outcome::Failed(ETIMEDOUT) },
                watch,
            )?;
        }
        Ok(())
    }

    fn over(&mut self, done: Done, watch: &mut impl EngineObserver) -> Result<(), EngineError> {
        self.stirred = true;
        for finished in self.scheduler.complete(self.now, done) {
            self.finish(&finished, watch)?;
        }
        while let Some(read) = self.scheduler.take_background() {
            watch.background(self.now, &read);
        }
        Ok(())
    }

    fn finish(
        &mut self,
        finished: &Finished,
        watch: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        watch.finished(self.now, finished);
        self.held = self.held.checked_sub(1).expect("no more requests finish than were submitted");
        self.follow(ClientId(finished.request.stream.0), watch)
    }

    fn follow(
        &mut self,
        client: ClientId,
        watch: &mut impl EngineObserver,
    ) -> Result<(), EngineError> {
        match self.source.follow(self.now, client) {
            Some(arrival) if arrival.at <= self.now => self.submit(&arrival.ask, watch),
            Some(arrival) => {
                self.thinking.push(Reverse(PendingArrival { order: self.thoughts, arrival }));
                self.thoughts += 1;
                self.look_outside();
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn submit_due(&mut self, watch: &mut impl EngineObserver) -> Result<(), EngineError> {
        while let Some(arrival) = self.arrival.take_if(|arrival| arrival.at <= self.now) {
            self.submit(&arrival.ask, watch)?;
            self.arrival = self.source.arrival();
        }
        while self.thinking.peek().is_some_and(|Reverse(thinking)| thinking.arrival.at <= self.now)
        {
            if let Some(Reverse(thinking)) = self.thinking.pop() {
                self.submit(&thinking.arrival.ask, watch)?;
            }
        }
        self.look_outside();
        Ok(())
    }

    fn submit(&mut self, ask: &Ask, watch: &mut impl EngineObserver) -> Result<(), EngineError> {
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
                self.stirred = true;
                self.held += 1;
                watch.submitted(self.now, &request);
                Ok(())
            }
            Admission::Refused(refusal) => {
                Err(EngineError::Refused { id: request.id, at: self.now, refusal })
            }
        }
    }

    fn dispatch(&mut self, watch: &mut impl EngineObserver) {
        self.wake = loop {
            match self.scheduler.next(self.now) {
                Decision::Dispatch(command) => {
                    watch.dispatched(self.now, &command);
                    if let Some(timeouts) = &mut self.timeouts {
                        timeouts.sent(self.now, command.id);
                    }
                    self.device.submit(self.now, &command);
                }
                // A policy that holds until now would stop time; the next nanosecond is soon
                // enough.
                Decision::WaitUntil { at, .. } => break at.max(self.now + Nanos::from_ns(1)),
                Decision::Idle => break Instant::NEVER,
            }
        };
    }
}

/// A client's next request, by time; of those at one time the first thought of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingArrival {
    order: u64,
    arrival: Arrival,
}

impl Ord for PendingArrival {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.arrival.at, self.order).cmp(&(other.arrival.at, other.order))
    }
}

impl PartialOrd for PendingArrival {
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
