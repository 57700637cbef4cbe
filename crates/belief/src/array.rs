//! [`ArrayModel`]: the drive model of drives striped into one, for one scheduler over the array.
//!
//! *By member* ([`ArrayModel::by_member`]) each member is an arm with a drive model of its own,
//! which predicts the requests on that member and learns from them. A request on several members is
//! predicted as its part on the first, and teaches nothing: the caller is to divide requests at the
//! ends of stripes.
//!
//! *As a whole* ([`ArrayModel::new`]), as P4 has it, the positions on the members are not modelled:
//! order and mean cost are those of [`LinearBelief`], learned by distance in the array's addresses.
//!
//! The *worst* time of a request is computed from the members' models in both. Each part of a
//! request is one run on its member; the members work at the same time, so the request takes no
//! longer than its slowest part alone, plus the time of its data at the controller. A part takes no
//! longer than the longest movement to the first or from the last cylinder, and its own transfer.
//!
//! So the sum of worst times bounds the time of several requests, as P4's theorems need: on each
//! member the sum of its parts is no more than that. For the array as a whole it is pessimistic by
//! about the number of members, because an array serves as many requests at once.
//!
//! Worked example: 12 drives with 21 ms for the longest movement, a revolution and the overheads,
//! and 4 KiB, which one of them transfers in 0.05 ms: 21.05 ms for each request, so 60 outstanding
//! are done within 1.26 s. They take about 30 ms. By member, five on each are done within 105 ms.
//!
//! Source: P4, "worst-case estimates" for arrays are left open there; by member: ours.

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
    /// Predicts for the array as a whole; `None` where the members predict.
    whole: Option<LinearBelief>,
    capacity: Sectors,
    stripes: Stripes,
    members: Vec<MemberModel>,
    /// The time of a sector at the controller in picoseconds; 0 without a limit.
    ps_per_sector: u64,
}

struct MemberModel {
    belief: Box<dyn Belief + Send>,
    /// The worst service time of a read and of a write, without the transfer.
    longest: [Nanos; 2],
    /// The end of its last access in its own addresses, where that is known.
    head: Option<Head>,
}

impl ArrayModel {
    /// The model of an array as a whole, of drives with these models in the order of stripes. A
    /// sector takes `ps_per_sector` picoseconds at the controller, 0 without a limit.
    ///
    /// # Panics
    /// Without a member, or when a stripe is empty or longer than a member.
    #[must_use]
    pub fn new(members: Vec<Box<dyn Belief + Send>>, stripe: Sectors, ps_per_sector: u64) -> Self {
        let by_member = Self::by_member(members, stripe, ps_per_sector);
        Self { whole: Some(LinearBelief::new(by_member.capacity)), ..by_member }
    }

    /// As [`ArrayModel::new`], by member.
    ///
    /// # Panics
    /// As [`ArrayModel::new`].
    #[must_use]
    pub fn by_member(
        members: Vec<Box<dyn Belief + Send>>,
        stripe: Sectors,
        ps_per_sector: u64,
    ) -> Self {
        let stripes = Stripes::new(stripe, members.len());
        let smallest =
            members.iter().map(|belief| belief.capacity()).min().expect("an array has members");
        assert!(smallest >= stripe, "stripes of {stripe} on members of {smallest}");
        let members = members.into_iter().map(|belief| {
            let longest = [Op::Read, Op::Write].map(|op| longest(&*belief, op));
            MemberModel { belief, longest, head: None }
        });
        Self {
            whole: None,
            capacity: stripes.capacity(smallest),
            stripes,
            members: members.collect(),
            ps_per_sector,
        }
    }

    /// The sectors of a stripe where the members predict: requests are to be divided at its ends.
    #[must_use]
    pub fn divides_at(&self) -> Option<Sectors> {
        self.whole.is_none().then(|| self.stripes.stripe())
    }

    /// The bound on the service time of `target`, without `transfer`, which is that of the target.
    fn worst_positioning(&self, target: &Target, transfer: Nanos) -> Nanos {
        let longest =
            |member: &MemberModel| member.longest[usize::from(target.op.changes_sectors())];
        let passing = target.extent.len.get().saturating_mul(self.ps_per_sector).div_ceil(1_000);
        let passing = Nanos::from_ns(passing);
        let (first, local) = self.on_its_member(target);
        if self.whole.is_none() && local.extent.len == target.extent.len {
            return longest(&self.members[first]) + passing;
        }
        let parts = self.members.iter().enumerate().filter_map(|(number, member)| {
            let part = self.stripes.part(target.extent, number);
            let transfer = || member.belief.target(target.op, part).transfer;
            (!part.len.is_zero()).then(|| longest(member) + transfer())
        });
        (parts.max().unwrap_or_default() + passing).saturating_sub(transfer)
    }

    fn member_of(&self, lba: Lba) -> usize {
        (lba.get() / self.stripes.stripe().get() % self.members.len() as u64) as usize
    }

    /// The part of a target on its first member, in that member's addresses.
    fn on_its_member(&self, target: &Target) -> (usize, Target) {
        let member = self.member_of(target.extent.start);
        (member, Target { extent: self.stripes.part(target.extent, member), ..*target })
    }

    /// A head in the addresses of its member, if it is that of `member`.
    fn head_of(&self, member: usize, head: &Head) -> Option<Head> {
        let last = Extent::from_numbers(head.next_lba.get().checked_sub(1)?, 1);
        (self.member_of(last.start) == member)
            .then(|| Head { next_lba: self.stripes.part(last, member).end(), ..*head })
    }

    /// The model of the first member, the head there, and the target there. `Err` where the head is
    /// not that which the scheduler follows.
    fn at_its_member(
        &self,
        head: &Head,
        target: &Target,
    ) -> (&dyn Belief, Result<Head, Head>, Target) {
        let (number, local) = self.on_its_member(target);
        let member = &self.members[number];
        let head = self.head_of(number, head).ok_or(member.head.unwrap_or(Head::UNKNOWN));
        (&*member.belief, head, local)
    }

    /// The members that hold sectors of `extent`.
    fn members_with(&mut self, extent: Extent) -> impl Iterator<Item = (Extent, &mut MemberModel)> {
        let stripes = self.stripes;
        let members = self.members.iter_mut().enumerate();
        members.filter_map(move |(number, member)| {
            let part = stripes.part(extent, number);
            (!part.len.is_zero()).then_some((part, member))
        })
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
        self.capacity
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        if let Some(whole) = &self.whole {
            return whole.target(op, extent);
        }
        let member = self.member_of(extent.start);
        let part = self.stripes.part(extent, member);
        Target { extent, ..self.members[member].belief.target(op, part) }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let estimate = match &self.whole {
            Some(whole) => whole.estimate(head, dispatch, target),
            None => match self.at_its_member(head, target) {
                (member, Ok(head), local) => member.estimate(&head, dispatch, &local),
                // The time of the member's own head counts from the dispatch.
                (member, Err(own), local) => {
                    let estimate = member.estimate(&own, dispatch, &local);
                    let depart = estimate.depart.max(head.free_at);
                    let begin = estimate.depart + estimate.positioning;
                    Estimate { depart, positioning: begin.saturating_since(depart), ..estimate }
                }
            },
        };
        let worst = self.worst_positioning(target, estimate.transfer);
        Estimate { worst: worst.max(estimate.positioning), ..estimate }
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        if let Some(whole) = &self.whole {
            return likely_by_estimate(whole, head, dispatch, target);
        }
        match self.at_its_member(head, target) {
            (member, Ok(head), local) => member.likely(&head, dispatch, &local),
            (member, Err(own), local) => {
                let likely = member.likely(&own, dispatch, &local);
                let depart = likely.depart.max(head.free_at);
                let begin = likely.depart + likely.positioning;
                Likely { depart, positioning: begin.saturating_since(depart) }
            }
        }
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        match self.at_its_member(head, target) {
            (member, Ok(head), local) if self.whole.is_none() => {
                member.known(&head, dispatch, &local)
            }
            _ => Certainty::Known,
        }
    }

    /// The members turn independently.
    fn passes_at(&self, _angle: Angle, from: Instant) -> Instant {
        from
    }

    /// By member, as if the member that serves `to` had served `from` too.
    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        if self.whole.is_some() {
            return pair_by_estimate(self, from, to, near, overhead);
        }
        let ((_, from), (member, to)) = (self.on_its_member(from), self.on_its_member(to));
        self.members[member].belief.pair(&from, &to, near, overhead)
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

    /// None: distance from the head of one member says nothing of the others.
    fn seek_lower_bound(&self, _cylinders: u32) -> Nanos {
        Nanos::ZERO
    }

    /// The longest of the members.
    fn revolution(&self) -> Nanos {
        self.members.iter().map(|member| member.belief.revolution()).max().unwrap_or_default()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        if self.whole.is_some() {
            return finished;
        }
        let (member, local) = self.on_its_member(target);
        self.members[member].belief.media_end(&local, finished)
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.members.iter().any(|member| member.belief.takes_into_cache(op))
    }

    fn reads_ahead(&self) -> bool {
        self.members.iter().any(|member| member.belief.reads_ahead())
    }

    /// None: the next sectors of a member are a stripe of each other member further on.
    fn reads_on(&self, _from: Lba) -> Sectors {
        Sectors::ZERO
    }

    fn probably_cached(&self, extent: Extent, until: Instant) -> bool {
        let holds = |(number, member): (usize, &MemberModel)| {
            let part = self.stripes.part(extent, number);
            part.len.is_zero() || member.belief.probably_cached(part, until)
        };
        self.whole.is_none() && self.members.iter().enumerate().all(holds)
    }

    /// The arms of all members if these are alike, else each member is one arm. A request counts
    /// for the first that it touches. As a whole it is not known which one serves an address.
    fn arms(&self) -> Arms {
        let count = self.members.len();
        if self.whole.is_some() {
            return Arms::unknown(count);
        }
        let mut each = self.members.iter().map(|member| member.belief.arms());
        let first = each.next().unwrap_or(Arms::ONE);
        let alike = if each.all(|arms| arms == first) { first } else { Arms::ONE };
        alike.striped(count, self.stripes.stripe())
    }

    fn tracks(&self, _served: Lba) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for ArrayModel {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        if let Some(whole) = &mut self.whole {
            return whole.learn(measured);
        }
        let MeasuredAccess { target, finished, succeeded, .. } = *measured;
        let (number, local) = self.on_its_member(&target);
        let taught = succeeded && target.op.moves_head();
        if !taught || local.extent.len != target.extent.len {
            // Each of several members ended on its part by then.
            for (part, member) in self.members_with(target.extent) {
                let local = member.belief.target(target.op, part);
                let free_at = member.belief.media_end(&local, finished);
                member.head = taught.then(|| Head::after(&local, free_at));
            }
            return AccessKind::Media;
        }
        let head_before = measured.head_before.and_then(|before| self.head_of(number, &before));
        let member = &mut self.members[number];
        let learned =
            member.belief.learn(&MeasuredAccess { target: local, head_before, ..*measured });
        match learned {
            AccessKind::Media => {
                let free_at = member.belief.media_end(&local, finished);
                member.head = Some(Head::after(&local, free_at));
            }
            AccessKind::Uncertain => member.head = None,
            AccessKind::CacheHit => {}
        }
        learned
    }

    /// The sums over the members, and the errors of the worst.
    fn report(&self) -> BeliefReport {
        if let Some(whole) = &self.whole {
            return whole.report();
        }
        let reports = self.members.iter().map(|member| member.belief.report());
        reports.reduce(BeliefReport::beside).unwrap_or_default()
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
