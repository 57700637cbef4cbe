//! What the scheduler may know about places: [`Positioning`], [`TrackMap`] where tracks are known,
//! and [`Belief`], a positioning that learns.
//!
//! The scheduler never sees a drive's mechanics. It asks a belief for the [`Target`] of each
//! request once, when the request is submitted, and for an [`Estimate`] of each pair (where the
//! head will be, what might come next) when it chooses.

use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::request::Op;

/// Where a sector is believed to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The cylinder; a belief without geometry numbers bands of addresses instead, as long as
    /// nearer numbers mean shorter seeks.
    pub cylinder: u32,
    /// The surface.
    pub head: u16,
    /// Where on its track the sector starts, from the spindle's index.
    pub angle: Angle,
}

/// A request's sectors as the belief sees them; computed once, when the request is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is done there.
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

/// Where the head is, or will be: at `place` from `free_at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where the last access ends.
    pub place: Position,
    /// The first address after the last access, for orders by address.
    pub next_lba: Lba,
    /// When the media access ends that brings the head there; in the past when the drive is idle.
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

/// What it would cost to serve a target next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// When the drive turns to this command: after its overhead, and not before the head is free.
    pub depart: Instant,
    /// Most likely positioning time from `depart`: seek, settle, head switch, rotation.
    pub positioning: Nanos,
    /// Expected positioning time: counts the chance of just missing the sector, which costs a
    /// revolution (docs/limits.md, 4).
    pub expected: Nanos,
    /// A bound that positioning time does not exceed while the drive keeps to what has been seen of
    /// it.
    pub worst: Nanos,
    /// Media time after positioning.
    pub transfer: Nanos,
}

impl Estimate {
    /// When the media access most likely ends.
    #[must_use]
    pub fn finish(&self) -> Instant {
        self.depart + self.positioning + self.transfer
    }

    /// What the request is expected to cost the drive, counted from `from`: lost time before
    /// departure, positioning and transfer.
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

/// What it takes to serve one target straight after another: from the end of the one to the end of
/// the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCost {
    /// What is expected.
    pub expected: Nanos,
    /// A bound, as [`Estimate::worst`].
    pub worst: Nanos,
    /// Whether the belief knows this very pair.
    pub known: Certainty,
}

/// Whether a time is known, or stands in for one that is not.
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

/// Places and times as someone believes them to be.
///
/// Contract: the same question gets the same answer until the belief learns; `positioning`,
/// `expected` and `worst` are finite, and `positioning ≤ worst`; `depart` is neither before the
/// dispatch nor before the head is free; `seek_lower_bound` never decreases with distance and is
/// never above the `positioning` nor the `expected` of any target that far away, because the search
/// stops where it says so.
pub trait Positioning {
    /// The drive's size in logical sectors.
    fn capacity(&self) -> Sectors;

    /// The target of `op` on `extent`, which lies on the drive and has at least one sector.
    fn target(&self, op: Op, extent: Extent) -> Target;

    /// The cost of sending `target` at `dispatch` when the head is where `head` says.
    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate;

    /// The most likely part of [`Positioning::estimate`], and always the same as there; worth a way
    /// of its own where weighing what else may happen costs more than the rest.
    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let Estimate { depart, positioning, .. } = self.estimate(head, dispatch, target);
        Likely { depart, positioning }
    }

    /// Whether [`Positioning::estimate`] of the same knows this very pair of places. A belief that
    /// computes instead of remembering knows all alike.
    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        let _ = (head, dispatch, target);
        Certainty::Known
    }

    /// When `angle` next passes under the head, from `from` on; `from` itself where nothing turns
    /// or nobody knows how far it has turned.
    ///
    /// A head at the end of an access is there at such a time: what follows straight after it can
    /// be computed without knowing when that will be.
    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        let map = self.tracks();
        let turn =
            map.and_then(|map| map.angle_at(from).map(|under| map.time_of(under.until(angle))));
        from + turn.unwrap_or_default()
    }

    /// What serving `to` straight after `from` takes, at about the time `near`. With `hidden` the
    /// command for `to` is at the drive before `from` ends, so that its overhead costs nothing;
    /// without it is sent when `from` is reported.
    fn pair(&self, from: &Target, to: &Target, near: Instant, hidden: bool) -> PairCost {
        let free_at = self.passes_at(from.end.angle, near);
        let head = Head::after(from, free_at);
        // The report of an access follows its end by what the interface adds, whenever that is.
        let reported = free_at + Nanos::from_secs(1);
        let sent_after = reported.saturating_since(self.media_end(from, reported));
        let dispatch = if hidden { Instant::ORIGIN } else { free_at + sent_after };
        let estimate = self.estimate(&head, dispatch, to);
        let lost = estimate.depart.saturating_since(free_at) + estimate.transfer;
        PairCost {
            expected: lost + estimate.expected,
            worst: lost + estimate.worst,
            known: self.known(&head, dispatch, to),
        }
    }

    /// [`Positioning::pair`] from `hub` to each of `others` and back, handed over in their order:
    /// worth a way of its own where much of an answer is the same for all.
    fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        near: Instant,
        hidden: bool,
        each: &mut dyn FnMut(PairCost, PairCost),
    ) {
        for other in others {
            each(self.pair(hub, other, near, hidden), self.pair(other, hub, near, hidden));
        }
    }

    /// A positioning time that no target `cylinders` or more away can beat.
    fn seek_lower_bound(&self, cylinders: u32) -> Nanos;

    /// The time of one revolution; half of it is the mean cost of not knowing the angle.
    fn revolution(&self) -> Nanos;

    /// Media end of a command that was reported complete at `finished`: the report less what the
    /// interface adds.
    fn media_end(&self, target: &Target, finished: Instant) -> Instant;

    /// Whether the drive takes such commands into a cache of its own and brings them to the medium
    /// when it likes: then they have no time at which the head must be anywhere, and where it is
    /// behind them nobody knows.
    fn takes_into_cache(&self, op: Op) -> bool {
        let _ = op;
        false
    }

    /// How many sectors the drive reads on by itself where its last access ended at `from`, as long
    /// as nobody wants the arm elsewhere: zero where it does not, or nobody knows.
    fn reads_on(&self, from: Lba) -> Sectors {
        let _ = from;
        Sectors::ZERO
    }

    /// How many arms the drive has that work at the same time, at least 1.
    fn arms(&self) -> usize {
        1
    }

    /// The tracks as they are believed to be; `None` without geometry: then nothing is read in the
    /// gaps between requests, and scans run in idle time only.
    fn tracks(&self) -> Option<&dyn TrackMap> {
        None
    }
}

/// Where the tracks of a drive lie and what passes under the head when, for whoever looks for
/// something to read on the way.
///
/// Contract: as for [`Positioning`], the same question gets the same answer until the belief
/// learns, and the two agree: what is computed here for a read and what [`Positioning::likely`]
/// says of it differ by the overheads at most.
pub trait TrackMap {
    /// How many cylinders there are.
    fn cylinders(&self) -> u32;

    /// How many surfaces there are.
    fn heads(&self) -> u16;

    /// The run of addresses that pass one after the other on this track, the longest where there
    /// are several; `None` where the track holds nothing.
    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan>;

    /// The track that holds `lba`, which lies on the drive.
    fn track_of(&self, lba: Lba) -> TrackSpan;

    /// The most likely arm time for reading, settle and head switch included; zero on one track.
    /// Never below [`Positioning::seek_lower_bound`].
    fn arm_time(&self, from: Position, to: Position) -> Nanos;

    /// How much longer than for reading the arm takes before a write may begin.
    fn write_extra(&self) -> Nanos {
        Nanos::ZERO
    }

    /// The angle believed to be under the head at `at`; `None` before the phase is known.
    fn angle_at(&self, at: Instant) -> Option<Angle>;

    /// The time in which the platter turns by `angle`.
    fn time_of(&self, angle: Angle) -> Nanos;

    /// The standard deviation of the arrival after a movement of the arm.
    fn spread(&self) -> Nanos;

    /// The time after its dispatch before a read can depart.
    fn read_overhead(&self) -> Nanos;

    /// By how many sectors what lies on a track has been seen to be displaced against its layout:
    /// at its ends so many may lie on another track.
    fn displaced(&self, track: &TrackSpan) -> u64 {
        let _ = track;
        0
    }

    /// Whether the drive may be about to take the head elsewhere on its own account, to write what
    /// it has taken into its cache.
    fn may_stray(&self) -> bool {
        false
    }
}

/// A track, or the part of it whose addresses pass one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSpan {
    /// Its addresses; never empty.
    pub extent: Extent,
    /// Where it is, and the angle at which its first sector starts.
    pub start: Position,
    /// The angle of one sector, in units of 2⁻⁶⁴ turn; all of `extent` together is one turn at
    /// most.
    pub sector: u64,
}

/// One measured completion, with what is needed to learn from it.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredAccess {
    /// What was served.
    pub target: Target,
    /// When it was sent.
    pub dispatched: Instant,
    /// When the drive reported it complete.
    pub finished: Instant,
    /// The head before it, from the completion before; `None` for the first command, after an error
    /// and when the order is in reject.
    pub head_before: Option<Head>,
    /// Whether the drive reported success; times of failed commands teach nothing about positions.
    pub succeeded: bool,
}

/// What a completion was, as far as its time tells.
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
    /// Takes one measured completion in, and says what it was.
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind;

    /// What is believed at the moment, for people.
    fn report(&self) -> BeliefReport;

    /// What it is made of, for whoever wants to keep what it has learned and knows the type; `None`
    /// where nothing can be kept. Nothing that schedules asks.
    fn as_any(&self) -> Option<&dyn core::any::Any> {
        None
    }
}

/// What a belief says of itself.
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
    /// Whether its predictions have been no better than chance lately, so that it goes by distance
    /// alone until they hold again.
    pub mistrusted: bool,
}
