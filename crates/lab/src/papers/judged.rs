//! [`Judged`]: a belief whose predictions are written down beside what happened.
//!
//! With two commands at the drive the paper predicts *completion time*, from the end of the command
//! before to the end of this one (P2, figure 5): queueing and the bus are no part of it. Here that
//! is the media end predicted from where the last command left the head, against the media end that
//! the report shows, just before the belief learns from it.

use std::sync::{Arc, Mutex, PoisonError};

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    PairCost, Positioning, Target, TrackMap,
};
use headtime_units::{Angle, Extent, Instant, Nanos, Sectors};

/// What became of predictions: by how many nanoseconds each completion was later than predicted, in
/// the order of completions.
pub(crate) type Errors = Arc<Mutex<Vec<i64>>>;

/// A belief that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Judged<B> {
    belief: B,
    errors: Errors,
}

impl<B> Judged<B> {
    /// Watches `belief`, and adds to `errors`.
    pub(crate) fn new(belief: B, errors: Errors) -> Self {
        Self { belief, errors }
    }
}

impl<B: Belief> Positioning for Judged<B> {
    fn capacity(&self) -> Sectors {
        self.belief.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.belief.target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        self.belief.estimate(head, dispatch, target)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        self.belief.likely(head, dispatch, target)
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        self.belief.known(head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.belief.passes_at(angle, from)
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, hidden: bool) -> PairCost {
        self.belief.pair(from, to, near, hidden)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.belief.seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.belief.revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.belief.media_end(target, finished)
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.belief.takes_into_cache(op)
    }

    fn tracks(&self) -> Option<&dyn TrackMap> {
        self.belief.tracks()
    }
}

impl<B: Belief> Belief for Judged<B> {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        if let Some(head) = measured.head_before.filter(|_| measured.succeeded) {
            let predicted =
                self.belief.estimate(&head, measured.dispatched, &measured.target).finish();
            let late_ns =
                self.belief.media_end(&measured.target, measured.finished).signed_since(predicted);
            self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(late_ns);
        }
        self.belief.learn(measured)
    }

    fn report(&self) -> BeliefReport {
        self.belief.report()
    }
}
