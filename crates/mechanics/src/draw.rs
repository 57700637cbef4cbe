//! Small odd drives by seed, for simulations and tests that try many.
//!
//! A drawn profile is valid and small (at most a few thousand sectors), so that a test may visit every sector, and odd on purpose: one
//! sector on a track, one head, bands that do not divide a zone, skews that cover nothing, seek curves that fall, slips side by side and at
//! borders, spares that fill whole tracks, a capacity below the mapped one. Nothing about it resembles a real drive's proportions.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use rand::{Rng, RngExt};

use crate::profile::{Algorithm, DriveProfile, Firmware, Geometry, Interface, Rotation, Seek, SeekFormula, TrackOrder, UnitVariation, Zone};

/// A valid small drive; the same drive for the same state of `rng`.
pub fn random_profile(rng: &mut impl Rng) -> DriveProfile {
    let layout = [TrackOrder::Cylinder, TrackOrder::Serpentine, TrackOrder::SurfaceSerpentine][rng.random_range(0..3)];
    let banded = layout == TrackOrder::SurfaceSerpentine;
    let geometry = Geometry { heads: rng.random_range(1..=5), layout, band_cylinders: banded.then(|| rng.random_range(1..=7)) };
    let zones = random_zones(rng, &geometry);
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
        seek: random_seek(rng),
        interface: random_interface(rng),
        firmware: Firmware { queue_depth: rng.random_range(1..=8), algorithm: [Algorithm::Fcfs, Algorithm::Sptf][rng.random_range(0..2)] },
        variation: random_variation(rng),
        setup: BTreeMap::new(),
    };
    if rng.random_bool(0.3) {
        let mapped = profile.mapped().get();
        profile.capacity_sectors = Some(rng.random_range(mapped.div_ceil(2)..=mapped));
    }
    profile
}

fn random_rotation(rng: &mut impl Rng) -> Rotation {
    if rng.random_bool(0.5) {
        Rotation { rpm: Some([5_400.0, 7_200.0, 10_025.0, 15_000.0][rng.random_range(0..4)]), period_us: None }
    } else {
        Rotation { rpm: None, period_us: Some(rng.random_range(3_000.0..12_000.0)) }
    }
}

fn random_zones(rng: &mut impl Rng, geometry: &Geometry) -> Vec<Zone> {
    let mut first_cylinder = 0;
    let mut zones = Vec::new();
    for _ in 0..rng.random_range(1..=4) {
        let zone = random_zone(rng, geometry, first_cylinder);
        first_cylinder += zone.cylinders;
        zones.push(zone);
    }
    zones
}

fn random_zone(rng: &mut impl Rng, geometry: &Geometry, first_cylinder: u32) -> Zone {
    let spt: u32 = if rng.random_bool(0.1) { 1 } else { rng.random_range(2..=32) };
    let mut zone = Zone { first_cylinder, cylinders: rng.random_range(1..=12), sectors_per_track: spt, ..Zone::default() };
    zone.track_skew = rng.random_range(0..spt);
    zone.cylinder_skew = rng.random_range(0..spt);
    zone.band_skew = (geometry.band_cylinders.is_some() && rng.random_bool(0.5)).then(|| rng.random_range(0..spt));
    zone.first_angle_turns = rng.random_bool(0.2).then(|| rng.random_range(0.0..1.0));
    let sectors = zone.physical_sectors(geometry.heads);
    // Up to three tracks of spares, but at least one sector is mapped.
    zone.spares = rng.random_range(0..=u64::from(spt) * 3).min(sectors - 1);
    zone.slips = random_slips(rng, zone.spares, sectors);
    zone
}

fn random_slips(rng: &mut impl Rng, spares: u64, sectors: u64) -> Vec<u64> {
    let mut slips = BTreeSet::new();
    let wanted = rng.random_range(0..=spares.min(12));
    for _ in 0..wanted {
        // Side by side with the last one as often as not, the zone's first and last sector more often than others.
        let sector = match (rng.random_range(0..8_u32), slips.last()) {
            (0, _) => 0,
            (1, _) => sectors - 1,
            (2..=4, Some(last)) => (last + 1) % sectors,
            _ => rng.random_range(0..sectors),
        };
        slips.insert(sector);
    }
    slips.into_iter().collect()
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
        // A last line that falls would pass below zero further on.
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
    let optional = |rng: &mut _| if Rng::next_u32(rng) % 2 == 0 { None } else { Some(f64::from(Rng::next_u32(rng) % 500)) };
    Interface {
        read_command_us: rng.random_range(0.0..400.0),
        write_command_us: rng.random_range(0.0..400.0),
        read_after_write_us: optional(rng),
        write_after_write_us: optional(rng),
        completion_us: rng.random_range(0.0..100.0),
        bus_mb_per_s: [1.0, 5.0, 80.0, 600.0][rng.random_range(0..4)],
    }
}

fn random_variation(rng: &mut impl Rng) -> UnitVariation {
    if rng.random_bool(0.3) {
        return UnitVariation::default();
    }
    UnitVariation {
        spindle_ppm: rng.random_range(0.0..500.0),
        track_angle_us: rng.random_range(0.0..100.0),
        seek_residual_us: rng.random_range(0.0..200.0),
        slips_per_million: 0.0,
        jitter_us: rng.random_range(0.0..200.0),
        outlier_share: rng.random_range(0.0..0.05),
        outlier_ms: rng.random_range(0.0..50.0),
    }
}
