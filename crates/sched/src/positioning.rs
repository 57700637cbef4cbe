//! The scheduler's view of positions and times: [`Positioning`], [`TrackMap`] where tracks are
//! known, and [`Belief`], a positioning that learns.
//!
//! The scheduler never sees a drive's mechanics. The drive model computes the [`Target`] of each
//! request once, at submission, and an [`Estimate`] of each pair (predicted head, candidate) at
//! each decision.

use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::arms::Arms;
use crate::request::Op;

/// The predicted position of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The cylinder; a belief without geometry numbers bands of addresses instead, as long as
    /// nearer numbers mean shorter seeks.
    pub cylinder: u32,
    /// The surface.
    pub head: u16,
    /// The angle of its start on the track, from the spindle's index.
    pub angle: Angle,
}

/// A request's sectors as the belief sees them; computed once, when the request is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The operation.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// The start of the first sector.
    pub start: Position,
    /// The end of the last sector: where the head is afterwards.
    pub end: Position,
    /// Media time from the start of the first to the end of the last sector, track switches
    /// included.
    pub transfer: Nanos,
}

/// The head, now or predicted: at `place` from `free_at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The end of the last access.
    pub place: Position,
    /// The first address after the last access, for orders by address.
    pub next_lba: Lba,
    /// The time at which the media access ends that brings the head there; in the past when the
    /// drive is idle.
    pub free_at: Instant,
}

impl Head {
    /// A head of which nothing is known: at the first cylinder, idle since the origin of the clock.
    pub const UNKNOWN: Self = Self {
        place: Position { cylinder: 0, head: 0, angle: Angle::ZERO },
        next_lba: Lba::new(0),
        free_at: Instant::ORIGIN,
    };

    /// The head after `target`, whose media access ends at `free_at`.
    #[must_use]
    pub fn after(target: &Target, free_at: Instant) -> Self {
        Self { place: target.end, next_lba: target.extent.end(), free_at }
    }
}

/// The cost of serving a target next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The time at which the drive begins this command: after its overhead, and not before the head
    /// is free.
    pub depart: Instant,
    /// Most likely positioning time from `depart`: seek, settle, head switch, rotation.
    pub positioning: Nanos,
    /// Expected positioning time: counts the chance of just missing the sector, which costs a
    /// revolution (docs/limits.md, 4).
    pub expected: Nanos,
    /// A bound on positioning time that holds while the drive behaves as observed so far.
    pub worst: Nanos,
    /// Media time after positioning.
    pub transfer: Nanos,
}

impl Estimate {
    /// The most likely end of the media access.
    #[must_use]
    pub fn finish(&self) -> Instant {
        self.depart + self.positioning + self.transfer
    }

    /// The expected cost of the request, counted from `from`: lost time before departure,
    /// positioning and transfer.
    #[must_use]
    pub fn expected_cost(&self, from: Instant) -> Nanos {
        self.depart.saturating_since(from) + self.expected + self.transfer
    }
}

/// The most likely part of an [`Estimate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likely {
    /// As [`Estimate::depart`].
    pub depart: Instant,
    /// As [`Estimate::positioning`].
    pub positioning: Nanos,
}

/// The cost of serving one target straight after another: from the end of the one to the end of the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCost {
    /// The expected cost.
    pub expected: Nanos,
    /// A bound, as [`Estimate::worst`].
    pub worst: Nanos,
    /// True if the belief knows this very pair.
    pub known: Certainty,
}

/// The certainty of a time: known, or a substitute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Certainty {
    /// It is known as well as this belief knows anything.
    #[default]
    Known,
    /// It is not, and would be after the access.
    Learnable,
    /// It is not, and one access would not change that.
    Unknown,
}

/// The command overhead of the second of two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overhead {
    /// The second command is at the drive before the first access ends, so its overhead costs
    /// nothing.
    Overlapped,
    /// The second command is sent when the first is reported.
    Exposed,
}

/// Predicted locations and times of a drive.
///
/// Contract: the same question gets the same answer until the model learns; `positioning`,
/// `expected` and `worst` are finite, and `positioning ≤ worst`; `depart` is neither before the
/// dispatch nor before the head is free; `seek_lower_bound` never decreases with distance and is
/// never above the `positioning` nor the `expected` of any target that far away, because a pruned
/// search stops at it.
///
/// No method has a default body: a new method must be decided on by every implementation. The
/// functions of this module ([`likely_by_estimate`], [`passes_at_by_tracks`],
/// [`pair_by_estimate`], [`pairs_one_by_one`]) answer for implementations without a faster way.
pub trait Positioning {
    /// The drive's size in logical sectors.
    fn capacity(&self) -> Sectors;

    /// The target of `op` on `extent`, which lies on the drive and has at least one sector.
    fn target(&self, op: Op, extent: Extent) -> Target;

    /// The cost of sending `target` at `dispatch` when the head is where `head` says.
    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate;

    /// The most likely part of [`Positioning::estimate`], always the same as there. A faster
    /// implementation pays where the expected and the worst time cost more than the rest.
    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely;

    /// The certainty with which [`Positioning::estimate`] of the same arguments knows this pair of
    /// locations. A model that computes instead of looking up knows all alike.
    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty;

    /// The next time from `from` on at which `angle` passes under the head; `from` itself where
    /// nothing rotates or the rotation is unknown.
    ///
    /// At the end of an access the head is at such a time: the cost of what follows directly can be
    /// computed without knowing when that is.
    fn passes_at(&self, angle: Angle, from: Instant) -> Instant;

    /// The cost of serving `to` directly after `from`, at about the time `near`.
    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost;

    /// [`Positioning::pair`] from `hub` to each of `others` and back, passed to `each` in their
    /// order. A faster implementation pays where much of an answer is the same for all.
    fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        near: Instant,
        overhead: Overhead,
        each: &mut dyn FnMut(PairCost, PairCost),
    );

    /// A positioning time that no target `cylinders` or more away can beat.
    fn seek_lower_bound(&self, cylinders: u32) -> Nanos;

    /// The time of one revolution; half of it is the mean cost of an unknown angle.
    fn revolution(&self) -> Nanos;

    /// Media end of a command that was reported complete at `finished`: the report less the
    /// interface overhead.
    fn media_end(&self, target: &Target, finished: Instant) -> Instant;

    /// Returns true where the drive acknowledges such commands from a write cache and destages them
    /// later. They then have no deadline at the medium, and the head position after them is
    /// unknown.
    fn takes_into_cache(&self, op: Op) -> bool;

    /// Returns true where the drive is known to read on into its cache after reads.
    fn reads_ahead(&self) -> bool;

    /// The sectors from `from` on that the drive reads ahead, while no command needs the arm
    /// elsewhere; zero where it does not read ahead there or that is unknown.
    fn reads_on(&self, from: Lba) -> Sectors;

    /// Returns true where the drive's cache probably answers a read of `extent` without the arm,
    /// if no command has needed that before `until`.
    fn probably_cached(&self, extent: Extent, until: Instant) -> bool;

    /// The arms that work at the same time. The head of an estimate is that of the arm that serves
    /// the target, or of another, from which the arm's own position follows.
    fn arms(&self) -> Arms;

    /// The predicted tracks of the arm that serves an address; `None` without geometry: then
    /// nothing is read in the gaps between its requests.
    fn tracks(&self, served: Lba) -> Option<&dyn TrackMap>;
}

/// A bound on the service time of `target` alone at the drive, from any position of the head, while
/// the drive behaves as observed so far: command overhead, the worst positioning time from the
/// outermost and from the innermost cylinder, transfer, and report.
pub fn worst_service(positioning: &dyn Positioning, now: Instant, target: &Target) -> Nanos {
    worst_service_from(&ends(positioning), positioning, now, target)
}

/// The mean time to reach a random position: a seek over a third of the cylinders and half a
/// revolution.
pub(crate) fn mean_positioning(positioning: &dyn Positioning) -> Nanos {
    let arms = positioning.arms();
    let capacity = positioning.capacity();
    let third = capacity.get() / 3 / arms.in_blocks(capacity) as u64;
    let sector = |lba| positioning.target(Op::Read, Extent::from_numbers(lba, 1));
    if arms.count() == 1 {
        let cylinders = sector(third).start.cylinder;
        return positioning.seek_lower_bound(cylinders) + positioning.revolution() / 2;
    }
    let (from, near) = (sector(0), Instant::ORIGIN + positioning.revolution());
    let to = (0..MEAN_OF).map(|number| sector((third + number * 131) % capacity.get()));
    let cost = |to: Target| positioning.pair(&from, &to, near, Overhead::Overlapped).expected;
    to.map(cost).fold(Nanos::ZERO, |sum, cost| sum + cost) / MEAN_OF
}

/// The number of sectors, over some tracks, whose mean is taken where only whole times of
/// positioning are known (guess: half a revolution then within a tenth).
const MEAN_OF: u64 = 16;

/// The head at the outermost and at the innermost cylinder.
pub(crate) fn ends(positioning: &dyn Positioning) -> [Head; 2] {
    let last = Lba::new(positioning.capacity().get() - 1);
    [Lba::new(0), last].map(|lba| {
        let place = positioning.target(Op::Read, Extent::new(lba, Sectors::new(1))).start;
        Head { place, next_lba: lba, free_at: Instant::ORIGIN }
    })
}

/// [`worst_service`] with the two [`ends`].
pub(crate) fn worst_service_from(
    ends: &[Head; 2],
    positioning: &dyn Positioning,
    now: Instant,
    target: &Target,
) -> Nanos {
    let from = |head: &Head| {
        let estimate = positioning.estimate(head, now, target);
        estimate.depart.saturating_since(now) + estimate.worst + estimate.transfer
    };
    let reported = now + Nanos::from_secs(1);
    let report = reported.saturating_since(positioning.media_end(target, reported));
    from(&ends[0]).max(from(&ends[1])) + report
}

/// [`Positioning::likely`] by the full estimate.
pub fn likely_by_estimate(
    positioning: &(impl Positioning + ?Sized),
    head: &Head,
    dispatch: Instant,
    target: &Target,
) -> Likely {
    let Estimate { depart, positioning, .. } = positioning.estimate(head, dispatch, target);
    Likely { depart, positioning }
}

/// [`Positioning::passes_at`] by the angle and the speed of [`Positioning::tracks`].
pub fn passes_at_by_tracks(
    positioning: &(impl Positioning + ?Sized),
    angle: Angle,
    from: Instant,
) -> Instant {
    let wait = positioning
        .tracks(Lba::new(0))
        .and_then(|map| map.angle_at(from).map(|under| map.time_of(under.until(angle))));
    from + wait.unwrap_or_default()
}

/// [`Positioning::pair`] by an estimate from the head position after the first access.
pub fn pair_by_estimate(
    positioning: &(impl Positioning + ?Sized),
    from: &Target,
    to: &Target,
    near: Instant,
    overhead: Overhead,
) -> PairCost {
    let free_at = positioning.passes_at(from.end.angle, near);
    let head = Head::after(from, free_at);
    // The report of an access follows its end by the interface overhead, whenever that is.
    let reported = free_at + Nanos::from_secs(1);
    let sent_after = reported.saturating_since(positioning.media_end(from, reported));
    let dispatch = match overhead {
        Overhead::Overlapped => Instant::ORIGIN,
        Overhead::Exposed => free_at + sent_after,
    };
    let estimate = positioning.estimate(&head, dispatch, to);
    let lost = estimate.depart.saturating_since(free_at) + estimate.transfer;
    PairCost {
        expected: lost + estimate.expected,
        worst: lost + estimate.worst,
        known: positioning.known(&head, dispatch, to),
    }
}

/// [`Positioning::pairs`] by one [`Positioning::pair`] after the other.
pub fn pairs_one_by_one(
    positioning: &(impl Positioning + ?Sized),
    hub: &Target,
    others: &mut dyn Iterator<Item = &Target>,
    near: Instant,
    overhead: Overhead,
    each: &mut dyn FnMut(PairCost, PairCost),
) {
    for other in others {
        each(
            positioning.pair(hub, other, near, overhead),
            positioning.pair(other, hub, near, overhead),
        );
    }
}

/// The methods of a [`Positioning`] that is sure of its estimates and has no faster way to the cost
/// of a pair.
#[macro_export]
macro_rules! costs_by_estimate {
    () => {
        fn known(
            &self,
            _head: &$crate::Head,
            _dispatch: ::headtime_units::Instant,
            _target: &$crate::Target,
        ) -> $crate::Certainty {
            $crate::Certainty::Known
        }

        fn pair(
            &self,
            from: &$crate::Target,
            to: &$crate::Target,
            near: ::headtime_units::Instant,
            overhead: $crate::Overhead,
        ) -> $crate::PairCost {
            $crate::pair_by_estimate(self, from, to, near, overhead)
        }

        fn pairs(
            &self,
            hub: &$crate::Target,
            others: &mut dyn Iterator<Item = &$crate::Target>,
            near: ::headtime_units::Instant,
            overhead: $crate::Overhead,
            each: &mut dyn FnMut($crate::PairCost, $crate::PairCost),
        ) {
            $crate::pairs_one_by_one(self, hub, others, near, overhead, each);
        }
    };
}

/// The methods of a [`Positioning`] of a drive with one arm whose cache the model does not know.
#[macro_export]
macro_rules! without_cache {
    () => {
        fn takes_into_cache(&self, _op: $crate::Op) -> bool {
            false
        }

        fn reads_ahead(&self) -> bool {
            false
        }

        fn reads_on(&self, _from: ::headtime_units::Lba) -> ::headtime_units::Sectors {
            ::headtime_units::Sectors::ZERO
        }

        fn probably_cached(
            &self,
            _extent: ::headtime_units::Extent,
            _until: ::headtime_units::Instant,
        ) -> bool {
            false
        }

        fn arms(&self) -> $crate::Arms {
            $crate::Arms::ONE
        }
    };
}

/// The locations of the tracks under an arm and the rotation of its platter, for the search of
/// reads that fit into a gap.
///
/// Contract: as for [`Positioning`], the same question gets the same answer until the model
/// learns, and the two agree: the time computed here for a read and [`Positioning::likely`] of it
/// differ by the overheads at most. No method has a default body.
pub trait TrackMap {
    /// The addresses that the arm serves.
    fn addresses(&self) -> Extent;

    /// The number of cylinders.
    fn cylinders(&self) -> u32;

    /// The number of surfaces.
    fn heads(&self) -> u16;

    /// The run of addresses that pass one after the other on this track, the longest where there
    /// are several; `None` where the track holds nothing.
    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan>;

    /// The track that holds `lba`, which the arm serves.
    fn track_of(&self, lba: Lba) -> TrackSpan;

    /// The most likely arm time for reading, settle and head switch included; zero on one track.
    fn arm_time(&self, from: Position, to: Position) -> Nanos;

    /// An arm time that no movement over so many cylinders can beat; never decreases with distance.
    fn arm_lower_bound(&self, cylinders: u32) -> Nanos;

    /// The arm time before a write less the arm time before a read.
    fn write_extra(&self) -> Nanos;

    /// The predicted angle under the head at `at`; `None` before the phase is known.
    fn angle_at(&self, at: Instant) -> Option<Angle>;

    /// The time in which the platter turns by `angle`.
    fn time_of(&self, angle: Angle) -> Nanos;

    /// The standard deviation of the arrival after a movement of the arm.
    fn spread(&self) -> Nanos;

    /// The time after its dispatch before a read can depart.
    fn read_overhead(&self) -> Nanos;

    /// The number of sectors by which a track is displaced against its layout: at its ends so many
    /// may lie on another track.
    fn displaced(&self, track: &TrackSpan) -> u64;

    /// Returns true while the drive may move the head on its own account, to destage its write
    /// cache.
    fn may_destage(&self) -> bool;
}

/// A track, or the part of it with consecutive addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSpan {
    /// Its addresses; never empty.
    pub extent: Extent,
    /// Its position, and the angle at which its first sector starts.
    pub start: Position,
    /// The angle of one sector, in units of 2⁻⁶⁴ revolution; all of `extent` together is at most
    /// one revolution.
    pub sector: u64,
}

/// One measured access, with the state needed to learn from it.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredAccess {
    /// The target served.
    pub target: Target,
    /// The time at which it was sent.
    pub dispatched: Instant,
    /// The time at which the drive reported it complete.
    pub finished: Instant,
    /// The head before it, from the completion before, of its arm where there are several that are
    /// known by address; `None` for the first command, after an error and when the order is in
    /// reject.
    pub head_before: Option<Head>,
    /// True for a write that is complete only when it is on the medium (force unit access).
    pub forced: bool,
    /// True if the drive reported success; times of failed commands teach nothing about positions.
    pub succeeded: bool,
}

/// The kind of access that the measured time indicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessKind {
    /// An access to the medium, or nothing speaks against it: the head is where it ended.
    #[default]
    Media,
    /// Answered by the drive's cache: the head has not moved.
    CacheHit,
    /// Neither of the two explains its time: where the head is now is a guess, and the next
    /// completion teaches nothing.
    Uncertain,
}

/// A positioning that learns from what the drive does.
pub trait Belief: Positioning {
    /// Learns from one measured completion, and classifies it.
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind;

    /// The state of the model, for reports.
    fn report(&self) -> BeliefReport;

    /// The concrete type, for a caller that keeps what was learned. No scheduling code uses it.
    fn as_any(&self) -> &dyn core::any::Any;
}

/// The report of a drive model on itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BeliefReport {
    /// Completions learned from.
    pub samples: u64,
    /// The rotation period in nanoseconds, when one is known.
    pub period_ns: Option<f64>,
    /// Root mean square of recent prediction errors in microseconds (whole revolutions taken out),
    /// when there are any.
    pub error_rms_us: Option<f64>,
    /// Share of recent predictions that were wrong by about a revolution.
    pub missed_revolutions: Option<f64>,
    /// Completions that the drive's cache answered.
    pub cache_hits: u64,
    /// Completions that came before that of a command sent earlier. The scheduler counts them: see
    /// [`Scheduler::belief_report`](crate::Scheduler::belief_report).
    pub reordered: u64,
    /// True if recent predictions were no better than chance, so that the model uses distance alone
    /// until they are reliable again.
    pub mistrusted: bool,
    /// The use of a matrix, for a model that has one.
    pub matrix: Option<MatrixUse>,
}

/// The use of a matrix of pairs since it was created or read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MatrixUse {
    /// Pairs that are covered at the moment.
    pub pairs: u64,
    /// Pairs that are known at the moment.
    pub pairs_known: u64,
    /// Accesses whose pair was known before.
    pub known: u64,
    /// Accesses that made their pair known.
    pub learned: u64,
    /// Accesses whose pair is not covered.
    pub not_covered: u64,
    /// Cells that were replaced by others.
    pub evicted: u64,
    /// The share of known pairs among the last accesses: a mean with weights that fall by 1/1,024.
    pub known_recently: f64,
}

impl MatrixUse {
    /// The accesses that the matrix was used for.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.known + self.learned + self.not_covered
    }
}

impl BeliefReport {
    /// The report of two models that work side by side: sums, and the errors of the worse.
    #[must_use]
    pub fn beside(self, other: Self) -> Self {
        let worse = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (known, other) => known.or(other),
        };
        Self {
            samples: self.samples + other.samples,
            period_ns: self.period_ns.or(other.period_ns),
            error_rms_us: worse(self.error_rms_us, other.error_rms_us),
            missed_revolutions: worse(self.missed_revolutions, other.missed_revolutions),
            cache_hits: self.cache_hits + other.cache_hits,
            reordered: self.reordered + other.reordered,
            mistrusted: self.mistrusted || other.mistrusted,
            matrix: self.matrix.or(other.matrix),
        }
    }
}
