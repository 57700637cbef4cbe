//! [`InstanceVariation`]: the deviation of one drive from its model, by track and by seek.

use headtime_mechanics::{DriveProfile, ProfileError, Track, Variation};
use headtime_units::{Angle, Nanos};

use super::hash;

/// Stretches of the stroke between whose ends the seek error changes evenly (guess). Their number
/// is none of the drive model's, which corrects 32 regions.
const SEEK_STRETCHES: u64 = 29;
/// Stretches of the stroke between whose ends the shared angle error changes evenly (guess).
const STRETCHES: u64 = 24;

/// Track angles and seek residuals of one drive, computed from its seed.
///
/// - Modelled: an independent angle error of each track; an angle error that changes evenly along
///   stretches of the stroke; a seek-time error that does so with both ends of a seek, except of a
///   step to the next cylinder.
/// - Not modelled: drift with temperature and age, repeatable runout.
/// - Differs from a drive: the errors' slopes have steps.
#[derive(Clone, Debug)]
pub struct InstanceVariation {
    seed: u64,
    /// Deviation in units of 2⁻³² turn.
    track_angle_raw: f64,
    /// Deviation in units of 2⁻³² turn.
    region_angle_raw: f64,
    /// Deviation in nanoseconds.
    seek_residual_ns: f64,
    seek_residual_bound: Nanos,
    /// `SEEK_STRETCHES` / cylinders.
    seek_stretches_per_cylinder: f64,
    /// `STRETCHES` / cylinders.
    stretches_per_cylinder: f64,
}

impl InstanceVariation {
    pub(super) fn draw(profile: &DriveProfile, seed: u64) -> Result<Self, ProfileError> {
        let period_us = profile.rotation_period()?.as_ns_f64() / 1e3;
        // Even changes between independent values have 4/9 of their variance.
        let seek_residual_ns = profile.variation.seek_residual_us * 1e3 * 1.5;
        let raw = |us: f64| us / period_us * 4_294_967_296.0;
        Ok(Self {
            track_angle_raw: raw(profile.variation.track_angle_us),
            region_angle_raw: raw(profile.variation.region_angle_us),
            seek_residual_ns,
            seek_residual_bound: Nanos::from_ns(
                libm::ceil(seek_residual_ns * hash::NORMAL_BOUND) as u64
            ),
            ..Self::none(profile, seed)
        })
    }

    pub(super) fn none(profile: &DriveProfile, seed: u64) -> Self {
        Self {
            seed,
            track_angle_raw: 0.0,
            region_angle_raw: 0.0,
            seek_residual_ns: 0.0,
            seek_residual_bound: Nanos::ZERO,
            seek_stretches_per_cylinder: SEEK_STRETCHES as f64
                / f64::from(profile.cylinders().max(1)),
            stretches_per_cylinder: STRETCHES as f64 / f64::from(profile.cylinders().max(1)),
        }
    }

    /// The angle error that the track shares with its neighbors, in units of 2⁻³² turn.
    fn region_angle(&self, cylinder: u32) -> f64 {
        let at = f64::from(cylinder) * self.stretches_per_cylinder;
        let end = |number: u64| hash::normal(hash::mix(self.seed, STRETCH_KEY | number));
        let (first, share) = (at as u64, at - libm::floor(at));
        (end(first) * (1.0 - share) + end(first + 1) * share) * self.region_angle_raw
    }
}

impl Variation for InstanceVariation {
    fn track_angle(&self, track: Track) -> Angle {
        let mut error = 0.0;
        if self.track_angle_raw != 0.0 {
            let key = u64::from(track.cylinder) << 16 | u64::from(track.head);
            error = hash::normal(hash::mix(self.seed, key)) * self.track_angle_raw;
        }
        if self.region_angle_raw != 0.0 {
            error += self.region_angle(track.cylinder);
        }
        let raw = libm::round(error) as i64;
        // A wrapping angle: the low 32 bits of a negative number are a little less than a
        // revolution.
        Angle::from_raw(raw as u32)
    }

    fn seek_residual_ns(&self, from_cylinder: u32, to_cylinder: u32) -> i64 {
        // A drive's skews cover its own steps, so that it reads on from cylinder to cylinder.
        if self.seek_residual_ns == 0.0 || from_cylinder.abs_diff(to_cylinder) <= 1 {
            return 0;
        }
        let place = |cylinder: u32| {
            let at = f64::from(cylinder) * self.seek_stretches_per_cylinder;
            (at as u64, at - libm::floor(at))
        };
        let ((from, from_share), (to, to_share)) = (place(from_cylinder), place(to_cylinder));
        let corner =
            |from: u64, to: u64| hash::normal(hash::mix(self.seed, SEEK_KEY | from << 32 | to));
        let at_from =
            |from: u64| corner(from, to) * (1.0 - to_share) + corner(from, to + 1) * to_share;
        let error = at_from(from) * (1.0 - from_share) + at_from(from + 1) * from_share;
        libm::round(error * self.seek_residual_ns) as i64
    }

    fn seek_residual_bound(&self) -> Nanos {
        self.seek_residual_bound
    }
}

/// Separates the keys of seeks from those of tracks, which are smaller.
const SEEK_KEY: u64 = 1 << 63;
/// Separates the keys of stretches from those of tracks and seeks.
const STRETCH_KEY: u64 = 1 << 62;
