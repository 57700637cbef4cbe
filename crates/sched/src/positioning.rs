//! What the scheduler may know about places: [`Positioning`], and [`Belief`], a positioning that learns.
//!
//! The scheduler never sees a drive's mechanics. It asks a belief for the [`Target`] of each request once, when the request is submitted,
//! and for an [`Estimate`] of each pair (where the head will be, what might come next) when it chooses.

use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use crate::request::Op;

/// Where a sector is believed to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The cylinder; a belief without geometry numbers bands of addresses instead, as long as nearer numbers mean shorter seeks.
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
    pub start: Place,
    /// The end of the last sector: where the head is afterwards.
    pub end: Place,
    /// Media time from the start of the first to the end of the last sector, track switches included.
    pub transfer: Nanos,
}

/// Where the head is, or will be: at `place` from `free_at` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where the last access ends.
    pub place: Place,
    /// The first address after the last access, for orders by address.
    pub next_lba: Lba,
    /// When the media access ends that brings the head there; in the past when the drive is idle.
    pub free_at: Instant,
}

impl Head {
    /// A head of which nothing is known: at the first cylinder, idle since the origin of the clock.
    pub const UNKNOWN: Self = Self { place: Place { cylinder: 0, head: 0, angle: Angle::ZERO }, next_lba: Lba::new(0), free_at: Instant::ORIGIN };

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
    /// Expected positioning time: counts the chance of just missing the sector, which costs a revolution (docs/limits.md, 4).
    pub expected: Nanos,
    /// A bound that positioning time does not exceed while the drive keeps to what has been seen of it.
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

    /// What the request is expected to cost the drive, counted from `from`: lost time before departure, positioning and transfer.
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

/// Places and times as someone believes them to be.
///
/// Contract: the same question gets the same answer until the belief learns; `positioning`, `expected` and `worst` are finite, and
/// `positioning ≤ worst`; `depart` is neither before the dispatch nor before the head is free; `seek_lower_bound` never decreases with distance and
/// is never above the `positioning` nor the `expected` of any target that far away, because the search stops where it says so.
pub trait Positioning {
    /// The drive's size in logical sectors.
    fn capacity(&self) -> Sectors;

    /// The target of `op` on `extent`, which lies on the drive and has at least one sector.
    fn target(&self, op: Op, extent: Extent) -> Target;

    /// The cost of sending `target` at `dispatch` when the head is where `head` says.
    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate;

    /// The most likely part of [`Positioning::estimate`], and always the same as there; worth a way of its own where weighing what else may happen costs
    /// more than the rest.
    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let Estimate { depart, positioning, .. } = self.estimate(head, dispatch, target);
        Likely { depart, positioning }
    }

    /// A positioning time that no target `cylinders` or more away can beat.
    fn seek_lower_bound(&self, cylinders: u32) -> Nanos;

    /// The time of one revolution; half of it is the mean cost of not knowing the angle.
    fn revolution(&self) -> Nanos;

    /// Media end of a command that was reported complete at `finished`: the report less what the interface adds.
    fn media_end(&self, target: &Target, finished: Instant) -> Instant;
}

/// One measured completion, with what is needed to learn from it.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// What was served.
    pub target: Target,
    /// When it was sent.
    pub dispatched: Instant,
    /// When the drive reported it complete.
    pub finished: Instant,
    /// The head before it, from the completion before; `None` for the first command, after an error and when the order is in doubt.
    pub head_before: Option<Head>,
    /// Whether the drive reported success; times of failed commands teach nothing about positions.
    pub succeeded: bool,
}

/// A positioning that learns from what the drive does.
pub trait Belief: Positioning {
    /// Takes one measured completion in.
    fn learn(&mut self, measured: &Measured);

    /// What is believed at the moment, for people.
    fn report(&self) -> BeliefReport;
}

/// What a belief says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BeliefReport {
    /// Completions learned from.
    pub samples: u64,
    /// The rotation period in nanoseconds, when one is known.
    pub period_ns: Option<f64>,
    /// Root mean square of recent prediction errors in microseconds (whole revolutions taken out), when there are any.
    pub error_rms_us: Option<f64>,
    /// Share of recent predictions that were wrong by about a revolution.
    pub missed_revolutions: Option<f64>,
}
