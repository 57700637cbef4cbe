//! [`DriveModel`]: the model of a drive that a scheduler predicts with, whatever it was made from.
//!
//! - *From a profile* ([`DriveModel::of_profile`]): the nominal mechanics, with period, phase and
//!   arrival fitted to what the drive does.
//! - *From a map* ([`DriveModel::of_map`]): locations and arm times that were learned, starting
//!   from a profile or from nothing.
//!
//! A drive with several arms over one spindle, each with its own range of addresses, is one
//! [`Actuator`] for each. A scheduler follows one head: that of the last command sent. An estimate
//! for another arm is computed from where *that* arm ended its last command, and begins at once. So
//! that all arms work, the *expected* positioning time is counted from the same moment, when the
//! command is sent. Worked example: arm 1 is at work until 6 ms; a command is chosen at 0. A target
//! 3 ms from arm 0's last position is expected after 3 ms, one that is 1 ms from where arm 1 will
//! end after 7 ms: arm 0 gets to work.
//!
//! A *watched* model ([`DriveModel::watched`]) tests its own errors against chance (`trust.rs`).
//! While completions come at any angle it orders by distance alone and shows no tracks, and the
//! profile's model starts from scratch every [`PATIENCE`] errors; when its predictions hold for
//! some time it is used again. Worked example: a slot held a 15,000 rpm drive and now holds one of
//! 10,000 rpm. About 80 completions later the order is by distance. A map is not watched: it finds
//! its angles again by itself.
//!
//! Not modelled: of several commands at one arm, more than those that are reported and the last one
//! sent; commands that lie on several arms, which teach nothing. Targets of requests that wait
//! while trust changes are those of before: their order may be poor, no more. Source: ours; P2
//! knows drives with one arm, and has its profile checked once.

pub(crate) mod actuator;
pub(crate) mod learning;
mod tracks;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{
    AccessKind, Arms, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Positioning, Target, TrackMap, pairs_one_by_one,
};
use headtime_units::{Angle, ByteSize, Extent, Instant, Lba, Nanos, RotationPeriod, Sectors};

use crate::compact::{CompactError, CompactMap, CompactSettings, Learning};
use crate::linear::LinearBelief;
use crate::matrix::MappedDrive;
use crate::trust::Trust;
use actuator::Actuator;

/// After so many errors without trust the profile's model starts from scratch, so that what it
/// learned of another drive does not stay (guess).
const PATIENCE: u32 = 512;

/// The model of a drive.
#[derive(Clone, Debug)]
pub struct DriveModel {
    predicts: Predicts,
    /// The arm that serves the addresses from zero on.
    actuator: Actuator,
    /// The other arms, in the order of their addresses.
    others: Vec<Actuator>,
    /// Of each of several arms, the end of its last command in its own addresses, where that is
    /// known.
    heads: Vec<Option<Head>>,
    watch: Option<Box<Watch>>,
    /// By how many nanoseconds each completion was later than predicted, where that is recorded.
    recorded_errors: Option<Vec<i64>>,
}

/// The part that predicts at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Predicts {
    /// The one arm.
    Actuator,
    /// Each arm for its addresses.
    Actuators,
    /// Distance alone.
    Distance,
}

/// The test of a profile, and the model that stands in while it fails.
#[derive(Clone, Debug)]
struct Watch {
    by_distance: LinearBelief,
    trust: Trust,
    /// Trust was lost at some time, so that targets and heads may be those of the other model.
    mixed: bool,
    /// The head as the profile's model has it, while `mixed`.
    head: Option<Head>,
    /// Errors since the profile's model started from scratch.
    errors: u32,
}

impl DriveModel {
    /// The model of a drive of which the profile is known and nothing learned.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn of_profile(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let actuator = Actuator::of_profile(profile)?;
        let others = (1..usize::from(profile.actuators()))
            .map(|arm| {
                let other = match &profile.second_actuator {
                    None => actuator.clone(),
                    Some(_) => Actuator::of_profile(&profile.of_actuator(arm))?,
                };
                let first = Lba::new(arm as u64 * actuator.capacity().get());
                Ok(Actuator { first, ..other })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let heads = vec![None; if others.is_empty() { 0 } else { others.len() + 1 }];
        let predicts = if others.is_empty() { Predicts::Actuator } else { Predicts::Actuators };
        Ok(Self { predicts, actuator, others, heads, watch: None, recorded_errors: None })
    }

    /// The model of a drive with `map`, which was not seen since the map was made.
    #[must_use]
    pub fn of_map(map: CompactMap) -> Self {
        Self {
            predicts: Predicts::Actuator,
            actuator: Actuator::of_map(map),
            others: Vec::new(),
            heads: Vec::new(),
            watch: None,
            recorded_errors: None,
        }
    }

    /// The model of a drive with a map that starts from a profile.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn mapped_from_profile(
        profile: &DriveProfile,
        settings: CompactSettings,
    ) -> Result<Self, CompactError> {
        CompactMap::of_profile(profile, settings).map(Self::of_map)
    }

    /// The model of a drive with a map that starts from nothing but its size and nominal speed.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub fn mapped_from_nothing(
        drive: MappedDrive,
        period: RotationPeriod,
        settings: CompactSettings,
    ) -> Result<Self, CompactError> {
        CompactMap::unknown(drive, period, settings).map(Self::of_map)
    }

    /// Watches the errors of a profile with one arm, and predicts by distance while they are no
    /// better than chance.
    #[must_use]
    pub fn watched(mut self) -> Self {
        if self.others.is_empty() && self.actuator.search.is_none() {
            self.watch = Some(Box::new(Watch {
                by_distance: LinearBelief::new(self.actuator.capacity()),
                trust: Trust::new(),
                mixed: false,
                head: None,
                errors: 0,
            }));
        }
        self
    }

    /// Records the error of each prediction from now on.
    #[must_use]
    pub fn recording_errors(self) -> Self {
        Self { recorded_errors: Some(Vec::new()), ..self }
    }

    /// The nanoseconds by which completions were later than predicted, in their order: the media
    /// end of the report less the media end that was estimated from the end of the command before.
    /// Empty without [`DriveModel::recording_errors`].
    #[must_use]
    pub fn recorded_errors(&self) -> &[i64] {
        self.recorded_errors.as_deref().unwrap_or_default()
    }

    /// The map that the model learns; `None` for a model by a profile, which is not kept.
    #[must_use]
    pub fn map(&self) -> Option<&CompactMap> {
        self.actuator.search.as_ref().map(|_| &self.actuator.map)
    }

    /// The bytes that map, samples and a search in progress take at the moment; the layout of a
    /// profile left out, which is the profile's.
    #[must_use]
    pub fn memory(&self) -> ByteSize {
        let search = self.actuator.search.as_ref().map_or(0, |search| search.memory());
        ByteSize::new(self.actuator.map.memory().get() + search)
    }

    /// The operations of a search that the newest completion took, one complex multiplication each:
    /// never more than [`DriveModel::MAX_SEARCHED`].
    #[must_use]
    pub fn searched(&self) -> u64 {
        self.actuator.search.as_ref().map_or(0, |search| search.searched)
    }

    /// The most operations of a search that one completion takes.
    pub const MAX_SEARCHED: u64 = crate::compact::MAX_OPERATIONS;

    /// Chooses what a map learns from now on.
    pub fn set_learning(&mut self, learning: Learning) {
        if let Some(search) = &mut self.actuator.search {
            search.learning = learning;
        }
    }

    /// Searches all samples for the locations that a map does not know yet, and returns when that
    /// is done.
    pub fn settle(&mut self) {
        self.actuator.settle();
    }

    fn actuators(&self) -> impl Iterator<Item = &Actuator> {
        std::iter::once(&self.actuator).chain(&self.others)
    }

    fn actuator(&self, arm: usize) -> &Actuator {
        arm.checked_sub(1).map_or(&self.actuator, |other| &self.others[other])
    }

    fn by_distance(&self) -> &LinearBelief {
        let watch = self.watch.as_ref().expect("only a watched model predicts by distance");
        &watch.by_distance
    }

    fn arm_of(&self, lba: Lba) -> usize {
        ((lba.get() / self.actuator.capacity().get()) as usize).min(self.others.len())
    }

    /// The part of an extent on its first arm, in that arm's addresses.
    fn on_its_arm(&self, extent: Extent) -> (usize, Extent) {
        let (arm, sectors) = (self.arm_of(extent.start), self.actuator.capacity().get());
        let start = extent.start.get() - arm as u64 * sectors;
        (arm, Extent::new(Lba::new(start), extent.len.min(Sectors::new(sectors - start))))
    }

    fn its_arms(&self, target: &Target) -> (usize, Target) {
        let (arm, extent) = self.on_its_arm(target.extent);
        (arm, Target { extent, ..*target })
    }

    /// The target on its arm, that arm's head, and whether it is the head that the scheduler
    /// follows.
    fn at_its_arm(&self, head: &Head, target: &Target) -> (&Actuator, Head, Target, bool) {
        let (arm, local) = self.its_arms(target);
        let followed = self.arm_of(Lba::new(head.next_lba.get().saturating_sub(1)));
        let head = if arm == followed {
            let first = followed as u64 * self.actuator.capacity().get();
            Head { next_lba: Lba::new(head.next_lba.get() - first), ..*head }
        } else {
            self.heads[arm].unwrap_or(Head::UNKNOWN)
        };
        (self.actuator(arm), head, local, arm == followed)
    }

    /// [`Positioning::estimate`] of several arms, or by distance: out of line, because it is rare.
    #[cold]
    fn estimate_otherwise(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        if self.predicts == Predicts::Distance {
            return self.by_distance().estimate(head, dispatch, target);
        }
        let (actuator, its_head, local, own) = self.at_its_arm(head, target);
        let estimate = actuator.estimate(&its_head, dispatch, &local);
        if own {
            return estimate;
        }
        let depart = estimate.depart.max(head.free_at);
        let positioning = (estimate.depart + estimate.positioning).saturating_since(depart);
        Estimate { depart, positioning, worst: estimate.worst.max(positioning), ..estimate }
    }

    /// [`Positioning::likely`] of several arms, or by distance: out of line, because it is rare.
    #[cold]
    fn likely_otherwise(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        if self.predicts == Predicts::Distance {
            return self.by_distance().likely(head, dispatch, target);
        }
        let (actuator, its_head, local, own) = self.at_its_arm(head, target);
        let likely = actuator.likely(&its_head, dispatch, &local);
        if own {
            return likely;
        }
        let depart = likely.depart.max(head.free_at);
        let positioning = (likely.depart + likely.positioning).saturating_since(depart);
        Likely { depart, positioning }
    }

    fn learn_by_arm(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let extent = measured.target.extent;
        let (arm, target) = self.its_arms(&measured.target);
        if !measured.succeeded || !target.op.moves_head() || target.extent.len != extent.len {
            let last = self.arm_of(extent.last());
            self.heads[arm..=last].fill(None);
            return AccessKind::Media;
        }
        if measured.head_before.is_none() {
            // The scheduler does not know where the head is: a flush, say, has moved it.
            self.heads[arm] = None;
        }
        let head_before = self.heads[arm];
        let actuator = match arm.checked_sub(1) {
            None => &mut self.actuator,
            Some(other) => &mut self.others[other],
        };
        let learned =
            actuator.observe(&MeasuredAccess { target, head_before, ..*measured }).learned;
        match learned {
            AccessKind::Media => {
                let free_at = actuator.media_end(&target, measured.finished);
                self.heads[arm] = Some(Head::after(&target, free_at));
            }
            AccessKind::Uncertain => self.heads[arm] = None,
            AccessKind::CacheHit => {}
        }
        learned
    }

    fn learn_watched(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let Some(watch) = &mut self.watch else {
            return self.actuator.observe(measured).learned;
        };
        if !measured.succeeded || !measured.target.op.moves_head() {
            return AccessKind::Media;
        }
        let (op, extent) = (measured.target.op, measured.target.extent);
        let target = watch.by_distance.target(op, extent);
        watch.by_distance.learn(&MeasuredAccess { target, ..*measured });
        // The completion as the profile's model sees it.
        let mut by_profile = *measured;
        if watch.mixed {
            by_profile.target = self.actuator.target(op, extent);
            by_profile.head_before = measured
                .head_before
                .and_then(|before| watch.head.filter(|head| head.next_lba == before.next_lba));
            let free_at = self.actuator.media_end(&by_profile.target, measured.finished);
            watch.head = Some(Head::after(&by_profile.target, free_at));
        }
        let lesson = self.actuator.observe(&by_profile);
        let held = watch.trust.holds();
        if let Some(error_turns) = lesson.error_turns {
            watch.errors += 1;
            let changed = watch.trust.note(error_turns);
            let without_trust = !watch.trust.holds();
            watch.mixed |= without_trust;
            if without_trust && (changed || watch.errors >= PATIENCE) {
                self.actuator.forget();
                (watch.head, watch.errors) = (None, 0);
            }
            self.predicts = if without_trust { Predicts::Distance } else { Predicts::Actuator };
        }
        if held { lesson.learned } else { AccessKind::Media }
    }
}

impl Positioning for DriveModel {
    fn capacity(&self) -> Sectors {
        Sectors::new(self.actuator.capacity().get() * (1 + self.others.len()) as u64)
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        match self.predicts {
            Predicts::Actuator => self.actuator.target(op, extent),
            Predicts::Distance => self.by_distance().target(op, extent),
            Predicts::Actuators => {
                let (arm, local) = self.on_its_arm(extent);
                Target { extent, ..self.actuator(arm).target(op, local) }
            }
        }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        if self.predicts == Predicts::Actuator {
            return self.actuator.estimate(head, dispatch, target);
        }
        self.estimate_otherwise(head, dispatch, target)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        if self.predicts == Predicts::Actuator {
            return self.actuator.likely(head, dispatch, target);
        }
        self.likely_otherwise(head, dispatch, target)
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        match self.predicts {
            Predicts::Actuator => self.actuator.known(head, dispatch, target),
            Predicts::Distance | Predicts::Actuators => Certainty::Known,
        }
    }

    /// Of several arms each turns as its own model has it: no time is known for all.
    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        match self.predicts {
            Predicts::Actuator => self.actuator.passes_at(angle, from),
            Predicts::Distance | Predicts::Actuators => from,
        }
    }

    /// Of several arms, as if the arm that serves `to` had served `from` too: cylinders and angles
    /// are numbered alike on all arms.
    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        match self.predicts {
            Predicts::Actuator => self.actuator.pair(from, to, near, overhead),
            Predicts::Distance => self.by_distance().pair(from, to, near, overhead),
            Predicts::Actuators => {
                let ((_, from), (arm, to)) = (self.its_arms(from), self.its_arms(to));
                self.actuator(arm).pair(&from, &to, near, overhead)
            }
        }
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

    /// None for several arms: distance from the head that is followed says nothing of the others.
    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        match self.predicts {
            Predicts::Actuator => self.actuator.map.arm_lower_bound(cylinders),
            Predicts::Distance | Predicts::Actuators => Nanos::ZERO,
        }
    }

    fn revolution(&self) -> Nanos {
        match self.predicts {
            Predicts::Actuator | Predicts::Actuators => self.actuator.revolution,
            Predicts::Distance => self.by_distance().revolution(),
        }
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        match self.predicts {
            Predicts::Actuator => self.actuator.media_end(target, finished),
            Predicts::Distance => self.by_distance().media_end(target, finished),
            Predicts::Actuators => {
                let (arm, local) = self.its_arms(target);
                self.actuator(arm).media_end(&local, finished)
            }
        }
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.predicts != Predicts::Distance && self.actuator.cache.takes(op)
    }

    /// The profile's cache reads ahead wherever the sectors are.
    fn reads_ahead(&self) -> bool {
        self.predicts != Predicts::Distance && self.actuator.cache.reads_ahead()
    }

    fn reads_on(&self, from: Lba) -> Sectors {
        let arm = self.arm_of(Lba::new(from.get().saturating_sub(1)));
        let first = arm as u64 * self.actuator.capacity().get();
        self.actuator(arm).cache.reads_on_from(Lba::new(from.get() - first))
    }

    fn probably_cached(&self, extent: Extent, until: Instant) -> bool {
        let (arm, local) = self.on_its_arm(extent);
        self.predicts != Predicts::Distance
            && local.len == extent.len
            && self.actuator(arm).probably_cached(local, until)
    }

    fn arms(&self) -> Arms {
        Arms::in_turn(1 + self.others.len(), self.actuator.capacity())
    }

    fn tracks(&self, served: Lba) -> Option<&dyn TrackMap> {
        let actuator = match self.predicts {
            Predicts::Actuator => &self.actuator,
            Predicts::Actuators => self.actuator(self.arm_of(served)),
            Predicts::Distance => return None,
        };
        actuator.knows_tracks().then_some(actuator as &dyn TrackMap)
    }
}

impl Belief for DriveModel {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        let head = measured.head_before.filter(|_| measured.succeeded);
        if let (true, Some(head)) = (self.recorded_errors.is_some(), head) {
            let predicted = self.estimate(&head, measured.dispatched, &measured.target).finish();
            let late_ns =
                self.media_end(&measured.target, measured.finished).signed_since(predicted);
            self.recorded_errors.get_or_insert_default().push(late_ns);
        }
        if self.others.is_empty() {
            self.learn_watched(measured)
        } else {
            self.learn_by_arm(measured)
        }
    }

    fn report(&self) -> BeliefReport {
        if self.predicts == Predicts::Distance {
            let cache_hits = self.actuator.report().cache_hits;
            return BeliefReport { mistrusted: true, cache_hits, ..self.by_distance().report() };
        }
        self.actuators().map(Actuator::report).reduce(BeliefReport::beside).unwrap_or_default()
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}
