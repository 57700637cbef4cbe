//! Small random drives for simulations and tests.
//!
//! A random profile is valid and small (at most a few thousand sectors), so that a test can visit
//! every sector, and covers unusual cases: one sector on a track, one head, surfaces that differ,
//! bands that do not divide a zone, cylinders without data, zero skews, falling seek curves,
//! adjacent slips and slips at borders, spares that fill whole tracks, remapped sectors, a layout
//! of runs, a capacity below the mapped one. Its proportions are not those of a real drive.
//!
//! [`plausible`], [`worn`] and [`varied`] are drives with the proportions of real ones, by seed.

mod measured;
mod plausible;
mod varied;
mod zones;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use rand::{Rng, RngExt};

pub use plausible::{plausible, worn};
pub use varied::varied;

use crate::layout::Layout;
use crate::profile::{
    Algorithm, DriveProfile, Firmware, Geometry, Interface, Rotation, SecondActuator, Seek,
    SeekFormula, TrackOrder, VariationSpec,
};

/// The forms of the names that [`by_name`] accepts.
pub const NAMES: [&str; 3] = ["drawn-SEED", "worn-SEED", "varied-SEED"];

/// The drive that a name of [`NAMES`] stands for, the same in all versions; none of another name.
#[must_use]
pub fn by_name(name: &str) -> Option<DriveProfile> {
    let (kind, seed) = name.split_once('-')?;
    let seed: u64 = seed.parse().ok()?;
    match kind {
        "drawn" => Some(plausible(seed)),
        "worn" => Some(worn(seed)),
        "varied" => Some(varied(seed)),
        _ => None,
    }
}

/// A valid small drive; equal states of `rng` give equal drives.
pub fn random_profile(rng: &mut impl Rng) -> DriveProfile {
    let geometry = random_geometry(rng);
    let zones = zones::random_zones(rng, &geometry);
    let mut profile = DriveProfile {
        name: format!("drawn-{:08x}", rng.random::<u32>()),
        model: "none".to_string(),
        description: "A small drive drawn at random".to_string(),
        sector_bytes: [512, 4_096][rng.random_range(0..2)],
        physical_sector_bytes: None,
        capacity_sectors: None,
        rotation: random_rotation(rng),
        geometry,
        zones,
        runs: Vec::new(),
        cache: None,
        seek: random_seek(rng),
        interface: random_interface(rng),
        firmware: random_firmware(rng),
        variation: random_variation(rng),
        accuracy: None,
        second_actuator: None,
        setup: BTreeMap::new(),
    };
    if rng.random_bool(0.3) {
        let mapped = profile.mapped().get();
        profile.capacity_sectors = Some(rng.random_range(mapped.div_ceil(2)..=mapped));
    }
    if rng.random_bool(0.15) {
        profile = measured(&profile);
    }
    profile
}

/// The drive with two arms, of which the second has tracks of fewer sectors, larger skews, a head
/// less if there are several, and takes longer to seek. Each arm serves as many sectors as the
/// second one's zones map.
///
/// # Panics
/// If the drive is one of runs, or its tracks have too few sectors.
#[must_use]
pub fn with_another_arm(profile: &DriveProfile) -> DriveProfile {
    assert!(profile.runs.is_empty(), "{}: a second arm has zones", profile.name);
    let (mut geometry, mut zones, mut seek) =
        (profile.geometry, profile.zones.clone(), profile.seek.clone());
    (geometry.actuators, geometry.heads) = (None, geometry.heads.max(2) - 1);
    for zone in &mut zones {
        zone.sectors_per_track -= 1 + zone.sectors_per_track / 100;
        zone.track_skew += 3.0;
        zone.cylinder_skew += 2.0;
    }
    seek.head_switch_ms += 0.1;
    seek.points.iter_mut().for_each(|point| point.1 += 0.05);
    if let Some(curve) = &mut seek.formula {
        (curve.short_ms, curve.long_ms) = (curve.short_ms + 0.05, curve.long_ms + 0.05);
    }
    let second = SecondActuator { geometry, zones, seek };
    let mut two = DriveProfile {
        second_actuator: Some(Box::new(second)),
        capacity_sectors: None,
        ..profile.clone()
    };
    two.geometry.actuators = Some(2);
    two
}

/// The same drive with its layout as a measurement describes it: runs of tracks instead of zones.
/// Spares, reserved sectors and sectors past the capacity are omitted; angles are accurate to 2⁻³¹
/// revolution.
///
/// # Panics
/// If the profile is not valid.
#[must_use]
pub fn measured(profile: &DriveProfile) -> DriveProfile {
    let layout = Layout::new(profile).expect("only a valid profile can be measured");
    DriveProfile {
        runs: measured::runs_of(&layout),
        zones: Vec::new(),
        capacity_sectors: None,
        ..profile.clone()
    }
}

fn random_geometry(rng: &mut impl Rng) -> Geometry {
    let layout = [
        TrackOrder::Cylinder,
        TrackOrder::Serpentine,
        TrackOrder::SurfaceSerpentine,
        TrackOrder::Banded,
    ][rng.random_range(0..4)];
    let in_bands = matches!(layout, TrackOrder::SurfaceSerpentine | TrackOrder::Banded);
    Geometry {
        heads: rng.random_range(1..=5),
        layout,
        band_cylinders: in_bands.then(|| rng.random_range(1..=7)),
        actuators: None,
    }
}

fn random_firmware(rng: &mut impl Rng) -> Firmware {
    Firmware {
        queue_depth: rng.random_range(1..=8),
        algorithm: [Algorithm::Fcfs, Algorithm::Sptf][rng.random_range(0..2)],
        zero_latency_read: rng.random_bool(0.25),
        zero_latency_write: rng.random_bool(0.25),
        ..Firmware::default()
    }
}

fn random_rotation(rng: &mut impl Rng) -> Rotation {
    if rng.random_bool(0.5) {
        Rotation {
            rpm: Some([5_400.0, 7_200.0, 10_025.0, 15_000.0][rng.random_range(0..4)]),
            period_us: None,
        }
    } else {
        Rotation { rpm: None, period_us: Some(rng.random_range(3_000.0..12_000.0)) }
    }
}

fn random_seek(rng: &mut impl Rng) -> Seek {
    let mut seek = Seek {
        head_switch_ms: rng.random_range(0.0..2.0),
        write_settle_ms: if rng.random_bool(0.3) { 0.0 } else { rng.random_range(0.0..1.0) },
        ..Seek::default()
    };
    if rng.random_bool(0.5) {
        let mut distance = 1;
        for _ in 0..rng.random_range(1..=6) {
            seek.points.push((distance, rng.random_range(0.2..8.0)));
            distance += rng.random_range(1..=9);
        }
        // A falling last line would pass below zero.
        let highest = seek.points.iter().map(|point| point.1).fold(0.0, f64::max);
        seek.points.push((distance, highest));
    } else {
        seek.formula = Some(SeekFormula {
            short_ms: rng.random_range(0.1..2.0),
            short_sqrt_ms: rng.random_range(0.0..1.0),
            long_from: rng.random_range(0..=20),
            long_ms: rng.random_range(0.5..5.0),
            long_us_per_cylinder: rng.random_range(0.0..200.0),
        });
    }
    seek
}

fn random_interface(rng: &mut impl Rng) -> Interface {
    let optional = |rng: &mut _| {
        if Rng::next_u32(rng) % 2 == 0 { None } else { Some(f64::from(Rng::next_u32(rng) % 500)) }
    };
    Interface {
        read_command_us: rng.random_range(0.0..400.0),
        write_command_us: rng.random_range(0.0..400.0),
        read_after_write_us: optional(rng),
        write_after_write_us: optional(rng),
        completion_us: rng.random_range(0.0..100.0),
        write_completion_us: optional(rng),
        read_buffered: Rng::next_u32(rng).is_multiple_of(4),
        bus_mb_per_s: [1.0, 5.0, 80.0, 600.0][rng.random_range(0..4)],
    }
}

fn random_variation(rng: &mut impl Rng) -> VariationSpec {
    if rng.random_bool(0.3) {
        return VariationSpec::default();
    }
    VariationSpec {
        spindle_ppm: rng.random_range(0.0..500.0),
        track_angle_us: rng.random_range(0.0..100.0),
        seek_residual_us: rng.random_range(0.0..200.0),
        slips_per_million: 0.0,
        jitter_us: rng.random_range(0.0..200.0),
        outlier_share: rng.random_range(0.0..0.05),
        outlier_ms: rng.random_range(0.0..50.0),
        ..VariationSpec::default()
    }
}
