//! [`SchedulerApi`]: what the engine needs of a scheduler, so that tests can put a faulty one in its
//! place.

use headtime_sched::{
    Accounts, Admission, BackgroundRead, Cancelled, Decision, Done, Finished, Policy, Request,
    RequestId, Scheduler,
};
use headtime_units::Instant;
use smallvec::SmallVec;

/// The scheduler as the engine sees it; each call as [`Scheduler`] documents it.
pub trait SchedulerApi {
    /// Takes a request, or says why not.
    fn submit(&mut self, now: Instant, request: Request) -> Admission;

    /// What to do now.
    fn next(&mut self, now: Instant) -> Decision;

    /// Takes a measured completion in; returns the requests that are over.
    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]>;

    /// What was read for scans and not yet taken; to be called until there is none, after each
    /// completion. A front without scans has none.
    fn take_background(&mut self) -> Option<BackgroundRead> {
        None
    }

    /// Takes a request back.
    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled;

    /// Changes the policy while running.
    fn set_policy(&mut self, policy: Box<dyn Policy>);

    /// Disk time and counts by volume.
    fn accounts(&self) -> &Accounts;

    /// Checks its own books.
    ///
    /// # Panics
    /// When they do not agree.
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
