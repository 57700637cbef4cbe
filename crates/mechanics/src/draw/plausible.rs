//! Plausible drives by seed: sizes, orders of tracks, skews, seek curves, caches and noise as
//! drives have them, each drawn independently.
//!
//! A seed always gives the same drive, so a name is enough to repeat a result:
//! [`catalog::load`](crate::catalog::load) accepts `drawn-SEED`, `worn-SEED` and `varied-SEED`,
//! each also with `@nocache`.
//!
//! | name | drive |
//! |---|---|
//! | `drawn` | [`plausible`]: zones of whole bands, spares in each zone or in 2 to 8 groups of it |
//! | `worn` | [`worn`]: the same with rows of slips, remapped sectors, zones of any size |
//! | `varied` | [`varied`](super::varied): any number of heads and zones, reserved tracks, spares |

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::profile::{
    Algorithm, Cache, DriveProfile, Firmware, Geometry, Interface, Rotation, Seek, SeekFormula,
    Setup, TrackOrder, VariationSpec, Zone,
};

/// SplitMix64: the numbers of a seed stay the same in all versions.
pub(super) struct SeededRandom(pub(super) u64);

impl SeededRandom {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub(super) fn range(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of a range, evenly by its logarithm.
    pub(super) fn log_range(&mut self, from: f64, to: f64) -> f64 {
        from * libm::exp(self.range(0.0, libm::log(to / from)))
    }

    pub(super) fn whole(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.range(0.0, 1.0) < share
    }
}

/// The setup that turns the cache off.
fn nocache() -> BTreeMap<alloc::string::String, Setup> {
    let none = Setup {
        description: "The cache off".to_string(),
        cache: Some(Cache::default()),
        ..Setup::default()
    };
    [("nocache".to_string(), none)].into()
}

/// The plausible drive of a seed.
#[must_use]
pub fn plausible(seed: u64) -> DriveProfile {
    let mut random = SeededRandom(seed.wrapping_mul(0x5851_F42D_4C95_7F2D));
    let rpm = [5_400.0, 7_200.0, 10_000.0, 15_000.0][random.whole(0, 3) as usize];
    let layout = [
        TrackOrder::Cylinder,
        TrackOrder::Serpentine,
        TrackOrder::SurfaceSerpentine,
        TrackOrder::SurfaceSerpentine,
        TrackOrder::Banded,
    ][random.whole(0, 4) as usize];
    let in_bands = matches!(layout, TrackOrder::SurfaceSerpentine | TrackOrder::Banded);
    let heads = random.whole(1, if in_bands { 12 } else { 8 });
    let band = in_bands.then(|| random.whole(16, 300) as u32);
    let outer_sectors = random.range(300.0, 2_500.0);
    let zone_count = random.whole(3, 16);
    let turn_us = 6e7 / rpm;
    let (switch_ms, settle_ms) = (random.range(0.3, 1.2), random.range(0.1, 0.5));
    // A skew covers switch or short seek and something more, up to 72 degrees.
    let track_turns = ((switch_ms + random.range(0.2, 0.6)) * 1e3 / turn_us).min(0.2);
    let short_ms = random.range(0.2, 0.7);
    let cylinder_turns = ((short_ms + random.range(0.1, 0.5)) * 1e3 / turn_us).min(0.2);
    let band_turns = random.chance(0.5).then(|| cylinder_turns + random.range(0.02, 0.05));
    let unit = band.unwrap_or(1);
    let units_of_zone = (random.whole(800, 6_000) as u32).div_ceil(unit);
    let (grouped, group_units) = (random.chance(0.6), random.whole(2, 8) as u32);
    let spares = random.whole(20, 90);
    let mut cylinder = 0;
    let mut zones = Vec::new();
    for number in 0..zone_count {
        let sectors = (outer_sectors * (1.0 - 0.5 * number as f64 / zone_count as f64)) as u32;
        let cylinders = unit * units_of_zone;
        zones.push(Zone {
            first_cylinder: cylinder,
            cylinders,
            sectors_per_track: sectors,
            track_skew: libm::ceil(track_turns * f64::from(sectors)),
            cylinder_skew: libm::ceil(cylinder_turns * f64::from(sectors)),
            band_skew: band_turns
                .filter(|_| in_bands)
                .map(|turns| libm::ceil(turns * f64::from(sectors))),
            spares,
            spare_cylinders: grouped.then(|| cylinders.div_ceil(group_units).div_ceil(unit) * unit),
            ..Zone::default()
        });
        cylinder += cylinders;
    }
    let bus = [20.0, 80.0, 150.0, 300.0, 550.0][random.whole(0, 4) as usize];
    let media = f64::from(zones[0].sectors_per_track) * 0.512 / turn_us * 1e3;
    let segments = random.whole(4, 64) as u32;
    let segment_sectors = random.whole(200, 4_000) as u32;
    let whole_track = random.chance(0.2);
    let cache = random.chance(0.7).then(|| Cache {
        segments,
        segment_sectors,
        read_ahead_sectors: if whole_track {
            0
        } else {
            random.whole(0, u64::from(segment_sectors)) as u32
        },
        whole_track,
        read_hit_us: random.range(60.0, 250.0),
        write_hit_us: 200.0,
        ..Cache::default()
    });
    let long_from = cylinder / 4;
    let short_sqrt_ms = random.range(3.0, 5.0) / libm::sqrt(f64::from(long_from));
    DriveProfile {
        name: format!("drawn-{seed}"),
        model: "none".to_string(),
        description: "A plausible drive drawn at random".to_string(),
        sector_bytes: 512,
        physical_sector_bytes: None,
        capacity_sectors: None,
        rotation: Rotation { rpm: Some(rpm), period_us: None },
        geometry: Geometry { heads: heads as u16, layout, band_cylinders: band, actuators: None },
        zones,
        runs: Vec::new(),
        seek: Seek {
            head_switch_ms: switch_ms,
            write_settle_ms: settle_ms,
            points: Vec::new(),
            formula: Some(SeekFormula {
                short_ms,
                short_sqrt_ms,
                long_from,
                long_ms: short_ms + short_sqrt_ms * libm::sqrt(f64::from(long_from)) - 0.5,
                long_us_per_cylinder: 500.0 / f64::from(long_from),
            }),
        },
        interface: Interface {
            read_command_us: random.range(40.0, 400.0),
            write_command_us: 300.0,
            bus_mb_per_s: f64::max(bus, media * 1.3),
            ..Interface::default()
        },
        firmware: Firmware {
            queue_depth: 32,
            algorithm: Algorithm::Sptf,
            zero_latency_read: random.chance(0.3),
            ..Firmware::default()
        },
        cache,
        variation: VariationSpec {
            spindle_ppm: 100.0,
            track_angle_us: random.range(3.0, 15.0),
            seek_residual_us: random.range(10.0, 40.0),
            slips_per_million: random.range(0.0, 4.0),
            jitter_us: random.range(10.0, 40.0),
            outlier_share: 0.001,
            outlier_ms: turn_us / 1e3,
            ..VariationSpec::default()
        },
        accuracy: None,
        second_actuator: None,
        setup: nocache(),
    }
}

/// The drive of [`plausible`] with defects: rows of slipped sectors, remapped sectors, and zones of
/// any number of cylinders, so that last bands and groups are narrower than others.
#[must_use]
pub fn worn(seed: u64) -> DriveProfile {
    let mut profile = plausible(seed);
    let mut random = SeededRandom(seed.wrapping_mul(0x9E6C_63D0_876A_46F5) ^ 0x5EED);
    let heads = profile.geometry.heads;
    let band = profile.geometry.band_cylinders.unwrap_or(1);
    let from_index = random.chance(0.3);
    let mut first = 0;
    for zone in &mut profile.zones {
        zone.first_cylinder = first;
        // As long as each group of spares has a cylinder and more of its own.
        zone.cylinders += random.whole(2, u64::from(band.max(64))) as u32;
        first += zone.cylinders;
        zone.first_angle_turns = from_index.then_some(0.0);
        let groups = zone.groups(heads);
        let group_sectors = zone.group_sectors(heads);
        let last_sectors = zone.physical_sectors(heads) - (groups - 1) * group_sectors;
        let (mut slips, mut remaps, mut most) = (Vec::new(), Vec::new(), 0);
        for group in 0..groups {
            let (start, sectors) = (
                group * group_sectors,
                if group + 1 == groups { last_sectors } else { group_sectors },
            );
            let within = sectors - sectors / 8;
            let mut row = if random.chance(0.5) { random.whole(1, 60) } else { 0 };
            if random.chance(0.1) {
                row *= 5;
            }
            let at = start + random.whole(sectors / 16, within - row - 1);
            slips.extend(at..at + row);
            let moved = if random.chance(0.5) { random.whole(1, 6) } else { 0 };
            for number in 0..moved {
                let home = start + random.whole(0, within);
                if !(at..at + row).contains(&home)
                    && remaps.iter().all(|pair: &(u64, u64)| pair.0 != home)
                {
                    remaps.push((home, start + sectors - 1 - number));
                }
            }
            most = row.max(most);
        }
        zone.spares += most + 8;
        remaps.sort_unstable();
        (zone.slips, zone.remaps) = (slips, remaps);
    }
    profile.name = format!("worn-{seed}");
    profile.description = "A plausible drive drawn at random, with defects".to_string();
    profile
}
