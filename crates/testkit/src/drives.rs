//! Random drives with the features that profiles leave out by default.

use headtime_mechanics::profile::{Cache, SecondActuator};
use headtime_mechanics::{DriveProfile, draw};
use rand::{Rng, RngExt};

/// A small unusual drive for tests: [`draw::random_profile`] with a random choice of cache, 512e
/// sectors, sequential hold, drift and second arm.
pub fn random_drive(rng: &mut impl Rng) -> DriveProfile {
    let mut profile = draw::random_profile(rng);
    profile.cache = rng.random_bool(0.6).then(|| random_cache(rng));
    let physical = profile.sector_bytes << rng.random_range(1..4);
    profile.physical_sector_bytes =
        (physical <= 65_536 && rng.random_bool(0.3)).then_some(physical);
    profile.firmware.sequential_hold_ms =
        rng.random_bool(0.3).then(|| [0.0, 5.0, 100.0][rng.random_range(0..3)]);
    if rng.random_bool(0.3) {
        (profile.variation.spindle_drift_ppm, profile.variation.spindle_drift_period_s) =
            (rng.random_range(0.0..500.0), rng.random_range(0.5..100.0));
    }
    profile.variation.grown_defects_per_hour =
        if rng.random_bool(0.3) { rng.random_range(0.0..20_000.0) } else { 0.0 };
    if rng.random_bool(0.2) {
        profile.geometry.actuators = Some(2);
        profile.capacity_sectors = profile.capacity_sectors.map(|sectors| sectors * 2);
        let other = draw::random_profile(rng);
        if profile.runs.is_empty() && other.runs.is_empty() && rng.random_bool(0.5) {
            let DriveProfile { geometry, zones, seek, .. } = other;
            profile.second_actuator = Some(SecondActuator { geometry, zones, seek }.into());
            profile.capacity_sectors = None;
        }
    }
    profile
}

fn random_cache(rng: &mut impl Rng) -> Cache {
    let (segments, segment_sectors) = (rng.random_range(1..=6), rng.random_range(1..=48));
    let optional = |rng: &mut _| {
        if Rng::next_u32(rng) % 2 == 0 { None } else { Some(f64::from(Rng::next_u32(rng) % 300)) }
    };
    Cache {
        segments,
        segment_sectors,
        write_segments: rng.random_bool(0.5).then(|| rng.random_range(1..=segments)),
        whole_track: rng.random_bool(0.3),
        read_ahead_within_track: rng.random_bool(0.3),
        read_ahead_sectors: if rng.random_bool(0.2) {
            0
        } else {
            rng.random_range(1..=segment_sectors)
        },
        write_back: rng.random_bool(0.6),
        read_hit_us: rng.random_range(0.0..300.0),
        read_hit_after_write_us: optional(rng),
        write_hit_us: rng.random_range(0.0..300.0),
        write_hit_after_write_us: optional(rng),
        write_delay_ms: rng.random_bool(0.5).then(|| rng.random_range(0.0..30.0)),
    }
}
