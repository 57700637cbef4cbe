//! How one drive differs from its profile: [`Variation`], and [`Nominal`], which does not.
//!
//! The simulated drive draws a variation by seed; a belief computes with [`Nominal`] (the compiler
//! then removes every trace of it) or with what it has learned. Both use the same
//! [`Mechanism`](crate::Mechanism).

use headtime_units::{Angle, Nanos};

use crate::place::Track;

/// What is different about one unit. The same question always gets the same answer.
pub trait Variation {
    /// How much later in the turn than the layout says `track`'s sectors come by (a wrapping angle:
    /// "earlier" is almost a whole turn).
    fn track_angle(&self, track: Track) -> Angle;

    /// Nanoseconds added to (or, negative, taken from) the arm's time between the two cylinders;
    /// within ± [`Variation::seek_residual_bound`].
    fn seek_residual_ns(&self, from_cylinder: u32, to_cylinder: u32) -> i64;

    /// No residual is larger than this, either way.
    fn seek_residual_bound(&self) -> Nanos;
}

/// No difference at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nominal;

impl Variation for Nominal {
    fn track_angle(&self, _track: Track) -> Angle {
        Angle::ZERO
    }

    fn seek_residual_ns(&self, _from_cylinder: u32, _to_cylinder: u32) -> i64 {
        0
    }

    fn seek_residual_bound(&self) -> Nanos {
        Nanos::ZERO
    }
}
