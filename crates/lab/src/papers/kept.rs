//! [`Kept`]: a belief that somebody else holds too, so that what it learned in a run can be looked
//! at when the run is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    PairCost, Positioning, Target,
};
use headtime_units::{Angle, Extent, Instant, Nanos, Sectors};

/// A belief without tracks of its own that is shared: nothing is read in gaps by it.
#[derive(Debug)]
pub(crate) struct Kept<B> {
    belief: Arc<Mutex<B>>,
}

impl<B> Kept<B> {
    /// The same belief as whoever holds `belief`.
    pub(crate) fn new(belief: Arc<Mutex<B>>) -> Self {
        Self { belief }
    }

    fn belief(&self) -> MutexGuard<'_, B> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Belief> Positioning for Kept<B> {
    fn capacity(&self) -> Sectors {
        self.belief().capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.belief().target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        self.belief().estimate(head, dispatch, target)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        self.belief().likely(head, dispatch, target)
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        self.belief().known(head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.belief().passes_at(angle, from)
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, hidden: bool) -> PairCost {
        self.belief().pair(from, to, near, hidden)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.belief().seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.belief().revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.belief().media_end(target, finished)
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.belief().takes_into_cache(op)
    }
}

impl<B: Belief> Belief for Kept<B> {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        self.belief().learn(measured)
    }

    fn report(&self) -> BeliefReport {
        self.belief().report()
    }
}
