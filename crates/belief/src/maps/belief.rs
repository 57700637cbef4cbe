//! [`MapBelief`]: a belief that goes by a map of either kind.
//!
//! It is one of the two and nothing more. What it adds is that whoever has a scheduler can ask for
//! the map in it ([`MapBelief::of`]): to keep it, or to show it.

use headtime_sched::{
    AccessKind, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    PairCost, Positioning, Target,
};
use headtime_units::{Angle, Extent, Instant, Nanos, Sectors};

use super::kept::KeptMap;
use super::settings::MapKind;
use crate::compact::CompactBelief;
use crate::matrix::{LatencyMatrix, MappedDrive, MatrixBelief, SharedMatrix};

/// A belief that goes by a map.
#[derive(Clone, Debug)]
pub enum MapBelief {
    /// By the published matrix.
    Matrix(Box<MatrixBelief>),
    /// By the compact map.
    Compact(Box<CompactBelief>),
}

impl MapBelief {
    /// The map belief that `belief` is, if it is one.
    #[must_use]
    pub fn of(belief: &dyn Belief) -> Option<&Self> {
        belief.as_any()?.downcast_ref()
    }

    /// Which kind of map.
    #[must_use]
    pub fn kind(&self) -> MapKind {
        match self {
            Self::Matrix(_) => MapKind::Matrix,
            Self::Compact(_) => MapKind::Compact,
        }
    }

    /// The drive that the map is of.
    #[must_use]
    pub fn drive(&self) -> &MappedDrive {
        match self {
            Self::Matrix(belief) => belief.map().shape().drive(),
            Self::Compact(belief) => belief.map().drive(),
        }
    }

    /// A handle to the matrix, if it goes by one.
    #[must_use]
    pub fn matrix(&self) -> Option<&SharedMatrix> {
        match self {
            Self::Matrix(belief) => Some(belief.map()),
            Self::Compact(_) => None,
        }
    }

    /// The map as it is now. Of a matrix this copies all its entries.
    #[must_use]
    pub fn map(&self) -> KeptMap {
        match self {
            Self::Matrix(belief) => {
                KeptMap::Matrix(Box::new(belief.map().look(LatencyMatrix::clone)))
            }
            Self::Compact(belief) => KeptMap::Compact(Box::new(belief.map().clone())),
        }
    }

    fn positioning(&self) -> &dyn Positioning {
        match self {
            Self::Matrix(belief) => belief.as_ref(),
            Self::Compact(belief) => belief.as_ref(),
        }
    }

    fn belief(&mut self) -> &mut dyn Belief {
        match self {
            Self::Matrix(belief) => belief.as_mut(),
            Self::Compact(belief) => belief.as_mut(),
        }
    }
}

impl Positioning for MapBelief {
    fn capacity(&self) -> Sectors {
        self.positioning().capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.positioning().target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        self.positioning().estimate(head, dispatch, target)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        self.positioning().likely(head, dispatch, target)
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        self.positioning().known(head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.positioning().passes_at(angle, from)
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, hidden: bool) -> PairCost {
        self.positioning().pair(from, to, near, hidden)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.positioning().seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.positioning().revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.positioning().media_end(target, finished)
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.positioning().takes_into_cache(op)
    }

    fn arms(&self) -> usize {
        self.positioning().arms()
    }

    fn tracks(&self) -> Option<&dyn headtime_sched::TrackMap> {
        self.positioning().tracks()
    }
}

impl Belief for MapBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        self.belief().learn(measured)
    }

    fn report(&self) -> BeliefReport {
        match self {
            Self::Matrix(belief) => belief.report(),
            Self::Compact(belief) => belief.report(),
        }
    }

    fn as_any(&self) -> Option<&dyn core::any::Any> {
        Some(self)
    }
}
