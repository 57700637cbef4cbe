//! [`ArrayModel`]: the drive model of drives striped into one, for one scheduler over the array.
//!
//! Which member is busy, and where its head is, is not modelled: order and mean cost are those of
//! [`LinearBelief`], learned by distance in the array's addresses. The *worst* time of a request is
//! computed from the members' models. Each part of a request is one run on its member; the members
//! work at the same time, so the request takes no longer than its slowest part alone, plus the time
//! of its data at the controller. A part takes no longer than the longest movement to the first or
//! from the last cylinder, and its own transfer.
//!
//! So the sum of worst times bounds the time of several requests, as P4's theorems need: on each
//! member the sum of its parts is no more than that. It is pessimistic by about the number of
//! members, because an array serves as many requests at once.
//!
//! Worked example: 12 drives with 21 ms for the longest movement, a revolution and the overheads,
//! and 4 KiB, which one of them transfers in 0.05 ms: 21.05 ms for each request, so 60 outstanding
//! are done within 1.26 s. They take about 30 ms.
//!
//! Source: P4, "worst-case estimates" for arrays are left open there.

use headtime_mechanics::Stripes;
use headtime_sched::{
    AccessKind, Arms, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Positioning, Target, TrackMap, likely_by_estimate, pair_by_estimate,
    pairs_one_by_one, worst_service,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::LinearBelief;

/// The drive model of an array.
pub struct ArrayModel {
    by_distance: LinearBelief,
    stripes: Stripes,
    members: Vec<MemberModel>,
    /// The time of a sector at the controller in picoseconds; 0 without a limit.
    ps_per_sector: u64,
}

struct MemberModel {
    belief: Box<dyn Belief + Send>,
    /// The worst service time of a read and of a write, without the transfer.
    longest: [Nanos; 2],
}

impl ArrayModel {
    /// The model of an array of drives with these models, in the order of stripes. A sector takes
    /// `ps_per_sector` picoseconds at the controller, 0 without a limit.
    ///
    /// # Panics
    /// Without a member, or when a stripe is empty or longer than a member.
    #[must_use]
    pub fn new(members: Vec<Box<dyn Belief + Send>>, stripe: Sectors, ps_per_sector: u64) -> Self {
        let stripes = Stripes::new(stripe, members.len());
        let smallest =
            members.iter().map(|belief| belief.capacity()).min().expect("an array has members");
        assert!(smallest >= stripe, "stripes of {stripe} on members of {smallest}");
        let members = members.into_iter().map(|belief| {
            let longest = [Op::Read, Op::Write].map(|op| longest(&*belief, op));
            MemberModel { belief, longest }
        });
        Self {
            by_distance: LinearBelief::new(stripes.capacity(smallest)),
            stripes,
            members: members.collect(),
            ps_per_sector,
        }
    }

    /// The bound on the service time of `op` on `extent`.
    fn worst(&self, op: Op, extent: Extent) -> Nanos {
        let parts = self.members.iter().enumerate().filter_map(|(number, member)| {
            let part = self.stripes.part(extent, number);
            let transfer = || member.belief.target(op, part).transfer;
            (!part.len.is_zero())
                .then(|| member.longest[usize::from(op.changes_sectors())] + transfer())
        });
        let passing = extent.len.get().saturating_mul(self.ps_per_sector).div_ceil(1_000);
        parts.max().unwrap_or_default() + Nanos::from_ns(passing)
    }
}

/// The worst service time to either end of a drive, without the transfer.
fn longest(belief: &dyn Belief, op: Op) -> Nanos {
    let last = Lba::new(belief.capacity().get() - 1);
    let to = |lba| {
        let target = belief.target(op, Extent::new(lba, Sectors::new(1)));
        worst_service(belief, Instant::ORIGIN, &target).saturating_sub(target.transfer)
    };
    to(Lba::new(0)).max(to(last))
}

impl Positioning for ArrayModel {
    fn capacity(&self) -> Sectors {
        self.by_distance.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.by_distance.target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let estimate = self.by_distance.estimate(head, dispatch, target);
        let worst = self.worst(target.op, target.extent).saturating_sub(estimate.transfer);
        Estimate { worst: worst.max(estimate.positioning), ..estimate }
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(&self.by_distance, head, dispatch, target)
    }

    fn known(&self, _head: &Head, _dispatch: Instant, _target: &Target) -> Certainty {
        Certainty::Known
    }

    /// The members turn independently.
    fn passes_at(&self, _angle: Angle, from: Instant) -> Instant {
        from
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        pair_by_estimate(self, from, to, near, overhead)
    }

    fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        near: Instant,
        overhead: Overhead,
        each: &mut dyn FnMut(PairCost, PairCost),
    ) {
        pairs_one_by_one(self, hub, others, near, overhead, each);
    }

    fn seek_lower_bound(&self, _cylinders: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The longest of the members.
    fn revolution(&self) -> Nanos {
        self.members.iter().map(|member| member.belief.revolution()).max().unwrap_or_default()
    }

    fn media_end(&self, _target: &Target, finished: Instant) -> Instant {
        finished
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.members.iter().any(|member| member.belief.takes_into_cache(op))
    }

    fn reads_on(&self, _from: Lba) -> Sectors {
        Sectors::ZERO
    }

    fn probably_cached(&self, _extent: Extent, _until: Instant) -> bool {
        false
    }

    /// A member is one arm, whatever it has; a request counts for the first that it touches.
    fn arms(&self) -> Arms {
        Arms::in_turn(self.members.len(), self.stripes.stripe())
    }

    fn tracks(&self) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for ArrayModel {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        self.by_distance.learn(measured)
    }

    fn report(&self) -> BeliefReport {
        self.by_distance.report()
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
