//! The deviation of one drive from its profile: [`Variation`], and [`Nominal`] for none.
//!
//! The simulated drive draws a variation by seed; a drive model computes with [`Nominal`] (which
//! the compiler removes) or with learned values. Both use the same [`Mechanism`](crate::Mechanism).

use headtime_units::{Angle, Nanos};

use crate::place::Track;

/// The deviation of one drive. Equal arguments always give equal results.
pub trait Variation {
    /// The angle by which `track`'s sectors come later than the layout says (a wrapping angle:
    /// "earlier" is almost a whole revolution).
    fn track_angle(&self, track: Track) -> Angle;

    /// Nanoseconds added to (or, negative, subtracted from) the arm time between the two cylinders;
    /// within ± [`Variation::seek_residual_bound`].
    fn seek_residual_ns(&self, from_cylinder: u32, to_cylinder: u32) -> i64;

    /// The maximum absolute residual.
    fn seek_residual_bound(&self) -> Nanos;
}

/// No deviation.
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
