//! [`InstanceVariation`]: the deviation of one drive from its model, by track and by seek.

use headtime_mechanics::{DriveProfile, ProfileError, Track, Variation};
use headtime_units::{Angle, Nanos};

use super::hash;

/// Regions of the stroke with one seek error each; 32 is a guess.
const REGIONS: u64 = 32;

/// Track angles and seek residuals of one drive, computed from its seed.
///
/// - Modelled: an independent angle error of each track; a seek-time error for each pair of regions
///   of the stroke.
/// - Not modelled: drift with temperature and age, repeatable runout.
/// - Differs from a drive: errors of servo writing vary smoothly over neighboring tracks.
#[derive(Clone, Debug)]
pub struct InstanceVariation {
    seed: u64,
    /// Deviation in units of 2⁻³² turn.
    track_angle_raw: f64,
    /// Deviation in nanoseconds.
    seek_residual_ns: f64,
    seek_residual_bound: Nanos,
    /// `REGIONS` · 2³² / cylinders.
    regions_per_cylinder: u64,
}

impl InstanceVariation {
    pub(super) fn draw(profile: &DriveProfile, seed: u64) -> Result<Self, ProfileError> {
        let period_us = profile.rotation_period()?.as_ns_f64() / 1e3;
        let seek_residual_ns = profile.variation.seek_residual_us * 1e3;
        Ok(Self {
            track_angle_raw: profile.variation.track_angle_us / period_us * 4_294_967_296.0,
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
            seek_residual_ns: 0.0,
            seek_residual_bound: Nanos::ZERO,
            regions_per_cylinder: (REGIONS << 32) / u64::from(profile.cylinders().max(1)),
        }
    }

    fn region(&self, cylinder: u32) -> u64 {
        (u64::from(cylinder) * self.regions_per_cylinder) >> 32
    }
}

impl Variation for InstanceVariation {
    fn track_angle(&self, track: Track) -> Angle {
        if self.track_angle_raw == 0.0 {
            return Angle::ZERO;
        }
        let key = u64::from(track.cylinder) << 16 | u64::from(track.head);
        let raw =
            libm::round(hash::normal(hash::mix(self.seed, key)) * self.track_angle_raw) as i64;
        // A wrapping angle: the low 32 bits of a negative number are a little less than a
        // revolution.
        Angle::from_raw(raw as u32)
    }

    fn seek_residual_ns(&self, from_cylinder: u32, to_cylinder: u32) -> i64 {
        if self.seek_residual_ns == 0.0 {
            return 0;
        }
        let key = SEEK_KEY | self.region(from_cylinder) << 32 | self.region(to_cylinder);
        libm::round(hash::normal(hash::mix(self.seed, key)) * self.seek_residual_ns) as i64
    }

    fn seek_residual_bound(&self) -> Nanos {
        self.seek_residual_bound
    }
}

/// Separates the keys of seeks from those of tracks, which are smaller.
const SEEK_KEY: u64 = 1 << 63;
