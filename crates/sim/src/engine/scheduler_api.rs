//! [`SchedulerApi`]: the scheduler's interface to the engine, so that tests can replace it by a
//! faulty one.

use headtime_sched::{
    Accounts, Admission, BackgroundRead, Cancelled, Decision, Done, Finished, Policy, Request,
    RequestId, Scheduler, StreamId,
};
use headtime_units::Instant;
use smallvec::SmallVec;

/// The scheduler as the engine uses it; [`Scheduler`] documents each call.
pub trait SchedulerApi {
    /// Accepts or refuses a request.
    fn submit(&mut self, now: Instant, request: Request) -> Admission;

    /// The next action.
    fn next(&mut self, now: Instant) -> Decision;

    /// Processes a measured completion; returns the requests that are finished.
    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]>;

    /// The next result of a scan; call it after each completion until it returns `None`. The
    /// default has no scans.
    fn take_background(&mut self) -> Option<BackgroundRead> {
        None
    }

    /// Cancels a request.
    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled;

    /// The process or connection of a stream has ended.
    fn stream_ended(&mut self, now: Instant, stream: StreamId);

    /// Changes the policy while running.
    fn set_policy(&mut self, policy: Box<dyn Policy>);

    /// Disk time and counts by volume.
    fn accounts(&self) -> &Accounts;

    /// Checks the scheduler's invariants.
    ///
    /// # Panics
    /// If an invariant is violated.
    fn self_check(&self);
}

impl SchedulerApi for Scheduler {
    fn submit(&mut self, now: Instant, request: Request) -> Admission {
        self.submit(now, request)
    }

    fn next(&mut self, now: Instant) -> Decision {
        self.next(now)
    }

    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        self.complete(now, done)
    }

    fn take_background(&mut self) -> Option<BackgroundRead> {
        self.take_background()
    }

    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled {
        self.cancel(now, id)
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.stream_ended(now, stream);
    }

    fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.set_policy(policy);
    }

    fn accounts(&self) -> &Accounts {
        self.accounts()
    }

    fn self_check(&self) {
        self.self_check();
    }
}
