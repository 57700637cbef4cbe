//! [`TwoArms`]: a drive model of one arm, adapted to a drive with two.

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Estimate, Head, Likely, MeasuredAccess, Op, Positioning,
    Target, TrackMap, likely_by_estimate,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

/// Uses another drive model for both arms as if they were one: it schedules badly, but addresses
/// are right.
pub(super) struct TwoArms(pub(super) Box<dyn Belief + Send>);

impl TwoArms {
    /// The extent, or its part on the first arm, in that arm's addresses.
    fn on_one_arm(&self, extent: Extent) -> Extent {
        let sectors = self.0.capacity().get();
        let start = extent.start.get() % sectors;
        Extent::from_numbers(start, extent.len.get().min(sectors - start))
    }

    fn one_arms(&self, target: &Target) -> Target {
        Target { extent: self.on_one_arm(target.extent), ..*target }
    }
}

impl Positioning for TwoArms {
    fn capacity(&self) -> Sectors {
        Sectors::new(self.0.capacity().get() * 2)
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        Target { extent, ..self.0.target(op, self.on_one_arm(extent)) }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let head =
            Head { next_lba: Lba::new(head.next_lba.get() % self.0.capacity().get()), ..*head };
        self.0.estimate(&head, dispatch, &self.one_arms(target))
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.0.passes_at(angle, from)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.0.seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.0.revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.0.media_end(&self.one_arms(target), finished)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    headtime_sched::costs_by_estimate!();

    headtime_sched::without_cache!();

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for TwoArms {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let target = self.one_arms(&measured.target);
        self.0.learn(&MeasuredAccess { target, ..*measured })
    }

    fn report(&self) -> BeliefReport {
        self.0.report()
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
