//! [`ArmsBelief`]: a drive whose arms move independently over one spindle, each with its own range
//! of addresses: a [`ProfileBelief`] of each arm.
//!
//! A scheduler follows one head: that of the last command sent. For what lies on that head's arm an
//! estimate is that arm's belief's. What lies on another arm is computed from where *that* arm
//! ended its last command, and begins at once. So that both arms work, the *expected* positioning
//! time of the two is counted from the same moment, when the command is sent: what must wait for
//! the head's arm is the wait dearer than what need not.
//!
//! Worked example: arm 1 is at work until 6 ms; a command is chosen at 0. A target 3 ms from arm
//! 0's last place is expected after 3 ms, one that is 1 ms from where arm 1 will end after 7 ms:
//! arm 0 gets to work.
//!
//! Guarantees what [`Positioning`] demands: as `depart` is not before the head is free, the most
//! likely positioning time of a target on another arm is what is left of it then, nothing where it
//! is over. Of several commands at one arm it sees those that are reported, and the last one sent.
//! Knows no tracks, so nothing is read in gaps; learns nothing from commands that lie on several
//! arms. Cylinders are numbered alike on all arms, so a sweep takes all arms along. Cost: as a
//! [`ProfileBelief`]; nothing is pruned by distance. Source: ours; P2 knows drives with one arm.

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Positioning, Target, TrackMap, pairs_one_by_one, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::profile::ProfileBelief;

/// What is believed of one unit with several arms.
#[derive(Clone, Debug)]
pub struct ArmsBelief {
    arms: Vec<Arm>,
    /// Of each arm.
    sectors: u64,
}

#[derive(Clone, Debug)]
struct Arm {
    belief: ProfileBelief,
    /// Where its last command left it, in its own addresses; `None` when that is in reject.
    head: Option<Head>,
}

impl ArmsBelief {
    /// What the profile says of each arm, nothing learned yet.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let belief = ProfileBelief::new(profile)?;
        let sectors = belief.capacity().get();
        let arms =
            (0..profile.actuators()).map(|_| Arm { belief: belief.clone(), head: None }).collect();
        Ok(Self { arms, sectors })
    }

    fn arm_of(&self, lba: Lba) -> usize {
        ((lba.get() / self.sectors) as usize).min(self.arms.len() - 1)
    }

    /// The part of an extent on its first arm, in that arm's addresses.
    fn on_its_arm(&self, extent: Extent) -> (usize, Extent) {
        let arm = self.arm_of(extent.start);
        let start = extent.start.get() - arm as u64 * self.sectors;
        (arm, Extent::new(Lba::new(start), extent.len.min(Sectors::new(self.sectors - start))))
    }

    fn its_arms(&self, target: &Target) -> (usize, Target) {
        let (arm, extent) = self.on_its_arm(target.extent);
        (arm, Target { extent, ..*target })
    }

    /// The arm of the head that a scheduler follows, and that head in its arm's addresses.
    fn followed(&self, head: &Head) -> (usize, Head) {
        let arm = self.arm_of(Lba::new(head.next_lba.get().saturating_sub(1)));
        (arm, Head { next_lba: Lba::new(head.next_lba.get() - arm as u64 * self.sectors), ..*head })
    }

    /// The target on its arm, that arm's head, and whether it is the head that the scheduler
    /// follows.
    fn at_its_arm(&self, head: &Head, target: &Target) -> (&ProfileBelief, Head, Target, bool) {
        let (arm, local) = self.its_arms(target);
        let (followed, followed_head) = self.followed(head);
        let own = arm == followed;
        let head = if own { followed_head } else { self.arms[arm].head.unwrap_or(Head::UNKNOWN) };
        (&self.arms[arm].belief, head, local, own)
    }
}

impl Positioning for ArmsBelief {
    fn capacity(&self) -> Sectors {
        Sectors::new(self.sectors * self.arms.len() as u64)
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let (arm, local) = self.on_its_arm(extent);
        Target { extent, ..self.arms[arm].belief.target(op, local) }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let (belief, its_head, local, own) = self.at_its_arm(head, target);
        let estimate = belief.estimate(&its_head, dispatch, &local);
        if own {
            let waits = head.free_at.saturating_since(dispatch);
            let expected = estimate.expected + waits;
            return Estimate { expected, worst: estimate.worst + waits, ..estimate };
        }
        let depart = estimate.depart.max(head.free_at);
        let positioning = (estimate.depart + estimate.positioning).saturating_since(depart);
        Estimate { depart, positioning, worst: estimate.worst.max(positioning), ..estimate }
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let (belief, its_head, local, own) = self.at_its_arm(head, target);
        let likely = belief.likely(&its_head, dispatch, &local);
        if own {
            return likely;
        }
        let depart = likely.depart.max(head.free_at);
        Likely {
            depart,
            positioning: (likely.depart + likely.positioning).saturating_since(depart),
        }
    }

    /// As if the arm that serves `to` had served `from` too: cylinders and angles are numbered
    /// alike on all arms.
    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        let ((_, from), (arm, to)) = (self.its_arms(from), self.its_arms(to));
        self.arms[arm].belief.pair(&from, &to, near, overhead)
    }

    fn arms(&self) -> usize {
        self.arms.len()
    }

    /// None: distance from the head that is followed says nothing of the others.
    fn seek_lower_bound(&self, _cylinders: u32) -> Nanos {
        Nanos::ZERO
    }

    fn revolution(&self) -> Nanos {
        self.arms[0].belief.revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        let (arm, local) = self.its_arms(target);
        self.arms[arm].belief.media_end(&local, finished)
    }

    fn known(&self, _head: &Head, _dispatch: Instant, _target: &Target) -> Certainty {
        Certainty::Known
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        passes_at_by_tracks(self, angle, from)
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

    fn takes_into_cache(&self, _op: Op) -> bool {
        false
    }

    fn reads_on(&self, _from: Lba) -> Sectors {
        Sectors::ZERO
    }

    fn tracks(&self) -> Option<&dyn TrackMap> {
        None
    }
}

impl Belief for ArmsBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let extent = measured.target.extent;
        let (arm, target) = self.its_arms(&measured.target);
        if !measured.succeeded || !target.op.moves_head() || target.extent.len != extent.len {
            let last = self.arm_of(extent.last());
            self.arms[arm..=last].iter_mut().for_each(|arm| arm.head = None);
            return AccessKind::Media;
        }
        if measured.head_before.is_none() {
            // Whoever sent it does not know where the heads are: a flush, say, has sent them to
            // places unknown.
            self.arms.iter_mut().for_each(|arm| arm.head = None);
        }
        let arm = &mut self.arms[arm];
        let learned =
            arm.belief.learn(&MeasuredAccess { target, head_before: arm.head, ..*measured });
        match learned {
            AccessKind::Media => {
                arm.head =
                    Some(Head::after(&target, arm.belief.media_end(&target, measured.finished)))
            }
            AccessKind::Uncertain => arm.head = None,
            AccessKind::CacheHit => {}
        }
        learned
    }

    fn report(&self) -> BeliefReport {
        let reports = self.arms.iter().map(|arm| arm.belief.report());
        let both = |a: Option<f64>, b: Option<f64>, join: fn(f64, f64) -> f64| match (a, b) {
            (Some(a), Some(b)) => Some(join(a, b)),
            (known, other) => known.or(other),
        };
        let joined = |sum: BeliefReport, arm: BeliefReport| BeliefReport {
            samples: sum.samples + arm.samples,
            error_rms_us: both(sum.error_rms_us, arm.error_rms_us, f64::max),
            missed_revolutions: both(sum.missed_revolutions, arm.missed_revolutions, f64::max),
            cache_hits: sum.cache_hits + arm.cache_hits,
            ..sum
        };
        reports.reduce(joined).unwrap_or_default()
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
