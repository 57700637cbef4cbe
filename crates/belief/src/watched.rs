//! [`WatchedBelief`]: a belief from a profile that watches its own errors, and goes by distance
//! alone while its predictions do not hold.
//!
//! It keeps two beliefs and teaches both: that of the profile, and one by distance. As long as
//! completions come at the angles that the profile says, it is the first one; when they come at any
//! angle (`trust.rs`) it is the second, and knows no tracks, so that nothing is read in gaps that
//! may not be there. The first one then starts from the profile again, again and again, and when its
//! predictions hold for some time it is believed again: a drive that was taken out and came back is
//! known within a second or two.
//!
//! Worked example: a slot held a 15,000 rpm drive and now holds one of 10,000 rpm. About 80
//! completions later the order is by distance, as for a drive of which nothing is known but its
//! size. The report says so ([`BeliefReport::mistrusted`]).
//!
//! Guarantees that what it believes is one of the two beliefs at any time. Places of requests that
//! wait while it changes are those of the belief before: their order may be poor, no more. Does not
//! notice that a drive is smaller or larger than its profile; whoever opens drives does. Cost: a
//! few divisions and a logarithm for each completion, besides what the two beliefs cost; an
//! estimate costs what it costs in the one at work. Source: ours; P2 has its profile checked once.

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Positioning, Target, TrackMap, pairs_one_by_one, passes_at_by_tracks,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::linear::LinearBelief;
use crate::profile::ProfileBelief;
use crate::trust::Trust;

/// After so many errors without trust the profile's belief starts again, so that what it took from
/// another drive does not stay (guess).
const PATIENCE: u32 = 512;

/// A profile's belief as long as it holds.
#[derive(Clone, Debug)]
pub struct WatchedBelief {
    by_profile: ProfileBelief,
    by_distance: LinearBelief,
    trust: Trust,
    /// Whether trust was ever lost, so that targets and heads may be those of the other belief.
    mixed: bool,
    /// Where the profile's belief takes the head to be, while `mixed`.
    head: Option<Head>,
    /// Errors seen since the profile's belief started again.
    errors: u32,
}

impl WatchedBelief {
    /// What the profile says, nothing learned yet, and trusted.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let by_profile = ProfileBelief::new(profile)?;
        let by_distance = LinearBelief::new(by_profile.capacity());
        Ok(Self {
            by_profile,
            by_distance,
            trust: Trust::new(),
            mixed: false,
            head: None,
            errors: 0,
        })
    }

    /// Whether the profile is believed at the moment.
    #[must_use]
    pub fn trusts_profile(&self) -> bool {
        self.trust.holds()
    }

    fn believed(&self) -> &dyn Positioning {
        if self.trust.holds() { &self.by_profile } else { &self.by_distance }
    }

    /// The completion as the profile's belief sees it.
    fn by_profile(&mut self, measured: &MeasuredAccess) -> MeasuredAccess {
        if !self.mixed {
            return *measured;
        }
        let target = self.by_profile.target(measured.target.op, measured.target.extent);
        let head_before = measured
            .head_before
            .and_then(|before| self.head.filter(|head| head.next_lba == before.next_lba));
        self.head =
            Some(Head::after(&target, self.by_profile.media_end(&target, measured.finished)));
        MeasuredAccess { target, head_before, ..*measured }
    }
}

impl Positioning for WatchedBelief {
    fn capacity(&self) -> Sectors {
        self.by_profile.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.believed().target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        if self.trust.holds() {
            self.by_profile.estimate(head, dispatch, target)
        } else {
            self.by_distance.estimate(head, dispatch, target)
        }
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        if self.trust.holds() {
            self.by_profile.likely(head, dispatch, target)
        } else {
            self.by_distance.likely(head, dispatch, target)
        }
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        if self.trust.holds() {
            self.by_profile.pair(from, to, near, overhead)
        } else {
            self.by_distance.pair(from, to, near, overhead)
        }
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.believed().seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.believed().revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.believed().media_end(target, finished)
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.believed().takes_into_cache(op)
    }

    /// The profile's cache is what it is wherever the sectors are.
    fn reads_on(&self, from: Lba) -> Sectors {
        self.by_profile.reads_on(from)
    }

    fn tracks(&self) -> Option<&dyn TrackMap> {
        self.believed().tracks()
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

    fn arms(&self) -> usize {
        1
    }
}

impl Belief for WatchedBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        if !measured.succeeded || !measured.target.op.moves_head() {
            return AccessKind::Media;
        }
        let target = self.by_distance.target(measured.target.op, measured.target.extent);
        self.by_distance.learn(&MeasuredAccess { target, ..*measured });
        let by_profile = self.by_profile(measured);
        let lesson = self.by_profile.take_in(&by_profile);
        let held = self.trust.holds();
        if let Some(error_turns) = lesson.error_turns {
            self.errors += 1;
            let changed = self.trust.note(error_turns);
            let without_trust = !self.trust.holds();
            self.mixed |= without_trust;
            if without_trust && (changed || self.errors >= PATIENCE) {
                self.by_profile.forget();
                (self.head, self.errors) = (None, 0);
            }
        }
        if held { lesson.learned } else { AccessKind::Media }
    }

    fn report(&self) -> BeliefReport {
        let by_profile = self.by_profile.report();
        if self.trust.holds() {
            return by_profile;
        }
        BeliefReport {
            mistrusted: true,
            cache_hits: by_profile.cache_hits,
            ..self.by_distance.report()
        }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
