//! Drives over the classes of layouts that a characterization has to recognize.
//!
//! Starts from the [`plausible`] drive of the seed (rotation, order of tracks, skews, arm, bus) and
//! draws its layout again:
//!
//! | part | classes |
//! |---|---|
//! | heads | half 1–8, half 1–40 |
//! | zones | 1–100, evenly by logarithm |
//! | reserved at the start | none; tracks; any number of sectors |
//! | reserved in each zone | none; the same number of tracks in each but the first |
//! | reserved at the end | none; up to three cylinders less than is mapped |
//! | spares | per zone, cylinder, group of 2–20 cylinders or 1–4 bands, track or 2–40 tracks |
//! | actuators | one; two, each with its half of a larger drive |
//! | slips | none; 0.1–500 per million, evenly by logarithm |
//! | remaps | none; up to 20 for each zone |
//! | cache | none; 1–64 segments with and without read-ahead; whole tracks |
//!
//! Spares per track and two actuators are drawn from seed [`ALL_CLASSES_FROM`] on, each for an
//! eighth of the drives, so that a lower seed gives the same drive as before. Not drawn: surfaces
//! that differ.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::plausible::{SeededRandom, plausible};
use crate::profile::{Cache, DriveProfile, Zone};

/// The most slips of a drive: all of them are listed.
const MAX_SLIPS: f64 = 20_000.0;

/// The first seed of the drives of all classes.
const ALL_CLASSES_FROM: u64 = 1_000;
/// The heads of a drive with two actuators, and the tracks of each of its arms (guess: such drives
/// hold half a terabyte and more).
const TWO_ARM_HEADS: (u64, u64) = (8, 20);
const TWO_ARM_TRACKS: (f64, f64) = (800e3, 3e6);

/// The varied drive of a seed.
#[must_use]
pub fn varied(seed: u64) -> DriveProfile {
    let mut profile = plausible(seed);
    let mut random = SeededRandom(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x001A_F0D7);
    let mut later = SeededRandom(seed.wrapping_mul(0xA076_1D64_78BD_642F) ^ 0x001A_F0D7);
    let mut is_later = |share: f64| later.chance(share) && seed >= ALL_CLASSES_FROM;
    let (has_two_arms, has_track_spares) = (is_later(0.125), is_later(0.125));
    let max_heads = if random.chance(0.5) { 8 } else { 40 };
    profile.geometry.heads = random.whole(1, max_heads) as u16;
    if has_two_arms {
        profile.geometry.actuators = Some(2);
        profile.geometry.heads = later.whole(TWO_ARM_HEADS.0, TWO_ARM_HEADS.1) as u16;
    }
    let heads = u64::from(profile.geometry.heads);
    let band = profile.geometry.band_cylinders.map_or(1, u64::from);
    let zone_count = random.log_range(1.0, 100.9) as usize;
    let mut tracks = random.log_range(30e3, 300e3);
    if has_two_arms {
        tracks = later.log_range(TWO_ARM_TRACKS.0, TWO_ARM_TRACKS.1);
    }
    // At least two bands, and five groups of any size.
    let usual = (tracks / heads as f64 / zone_count as f64).max((2 * band).max(100) as f64);

    let mut spares = Spares::draw(&mut random, band);
    if has_track_spares {
        spares = Spares::draw_tracks(&mut later);
    }
    let at_start = match random.whole(0, 9) {
        0..=5 => Reserved::None,
        6..=8 => Reserved::Tracks(random.whole(1, 3 * heads)),
        _ => Reserved::Sectors(random.whole(1, 2 * u64::from(profile.zones[0].sectors_per_track))),
    };
    let each_zone = random.chance(0.25).then(|| random.whole(1, 2 * heads));
    let slips_per_million = if random.chance(0.5) { random.log_range(0.1, 500.0) } else { 0.0 };
    let max_remaps = if random.chance(0.3) { random.whole(1, 20) } else { 0 };

    let model = profile.zones[0].clone();
    let outer = f64::from(model.sectors_per_track);
    let turns = |skew: f64| skew / outer;
    profile.zones.clear();
    let mut first = 0;
    for number in 0..zone_count {
        let sectors = (outer * (1.0 - 0.5 * number as f64 / zone_count as f64)) as u32;
        let skew = |of_model: f64| libm::ceil(turns(of_model) * f64::from(sectors));
        let cylinders = (usual * random.range(0.6, 1.4)) as u64;
        // Half of the drives in bands end each zone with a whole band.
        let cylinders =
            if seed.is_multiple_of(2) { cylinders.div_ceil(band) * band } else { cylinders };
        let mut zone = Zone {
            first_cylinder: first,
            cylinders: cylinders as u32,
            sectors_per_track: sectors,
            track_skew: skew(model.track_skew),
            cylinder_skew: skew(model.cylinder_skew),
            band_skew: model.band_skew.map(skew),
            reserved: if number == 0 {
                at_start.sectors(sectors)
            } else {
                each_zone.unwrap_or(0) * u64::from(sectors)
            },
            ..Zone::default()
        };
        spares.apply(&mut zone, heads);
        // The reserved sectors must leave room in the first group.
        let group = zone.group_sectors(heads as u16);
        let places = group - zone.spares;
        let whole_tracks = (places / u64::from(sectors)).max(1) * u64::from(sectors);
        zone.reserved = (zone.reserved % whole_tracks).min(places - 1);
        first += zone.cylinders;
        profile.zones.push(zone);
    }
    let all: u64 = profile.zones.iter().map(|zone| zone.physical_sectors(heads as u16)).sum();
    let rate = (slips_per_million / 1e6).min(MAX_SLIPS / all as f64);
    for zone in &mut profile.zones {
        draw_defects(&mut random, zone, heads as u16, rate, max_remaps);
    }
    if random.chance(0.3) && !has_two_arms {
        let last = u64::from(profile.zones[zone_count - 1].sectors_per_track);
        let kept = random.whole(1, 3 * heads * last);
        profile.capacity_sectors = Some(profile.mapped().get() - kept);
    }
    profile.cache = draw_cache(&mut random, profile.cache);
    profile.name = format!("varied-{seed}");
    profile.description = format!(
        "A drive drawn at random: {heads} heads, {zone_count} zones, {at_start:?} at the start, \
            {each_zone:?} tracks reserved in each zone, spares {spares:?}, {slips_per_million:.1} \
            slips per million, up to {max_remaps} remaps in each zone"
    );
    profile
}

/// Sectors without addresses at the start of the drive.
#[derive(Clone, Copy, Debug)]
enum Reserved {
    None,
    Tracks(u64),
    Sectors(u64),
}

impl Reserved {
    fn sectors(self, of_track: u32) -> u64 {
        match self {
            Self::None => 0,
            Self::Tracks(tracks) => tracks * u64::from(of_track),
            Self::Sectors(sectors) => sectors,
        }
    }
}

/// The places of spare sectors, with the number of cylinders or tracks of a group, and the spares
/// of each.
#[derive(Clone, Copy, Debug)]
enum Spares {
    Zone(u64),
    Group(u64, u64),
    Tracks(u64, u64),
}

impl Spares {
    fn draw(random: &mut SeededRandom, band: u64) -> Self {
        match random.whole(0, 2) {
            0 => Self::Zone(random.log_range(4.0, 4_000.0) as u64),
            1 if band == 1 => Self::Group(1, random.whole(2, 60)),
            _ if band == 1 => {
                Self::Group(random.whole(2, 20), random.log_range(8.0, 1_500.0) as u64)
            }
            _ => Self::Group(band * random.whole(1, 4), random.log_range(8.0, 1_500.0) as u64),
        }
    }

    /// Spares on each track, or after every few.
    fn draw_tracks(random: &mut SeededRandom) -> Self {
        let tracks = if random.chance(0.5) { 1 } else { random.whole(2, 40) };
        Self::Tracks(tracks, random.whole(2, 60))
    }

    fn apply(self, zone: &mut Zone, heads: u64) {
        let of_track = u64::from(zone.sectors_per_track);
        match self {
            Self::Zone(spares) => zone.spares = spares,
            // At most half of the shortest group, a cylinder or a track.
            Self::Group(cylinders, spares) => {
                zone.spares = spares.min(heads * of_track / 2);
                zone.spare_cylinders = Some(cylinders as u32);
            }
            Self::Tracks(tracks, spares) => {
                zone.spares = spares.min(of_track / 2);
                zone.spare_tracks = Some(tracks as u32);
            }
        }
    }
}

/// Adds slips at a rate per sector, remapped sectors, and the spares that they need.
fn draw_defects(
    random: &mut SeededRandom,
    zone: &mut Zone,
    heads: u16,
    rate: f64,
    max_remaps: u64,
) {
    let sectors = zone.physical_sectors(heads);
    let group_sectors = zone.group_sectors(heads);
    let expected = rate * sectors as f64;
    let count = (expected as u64) + u64::from(random.chance(expected - libm::floor(expected)));
    let mut slips: BTreeSet<u64> = BTreeSet::new();
    // A group has spares for so many slips, half of its own; further ones are left out.
    let allowed = zone.spares / 2;
    for _ in 0..count {
        let slip = random.whole(zone.reserved, sectors - 1);
        let group = slip / group_sectors * group_sectors;
        if (slips.range(group..group + group_sectors).count() as u64) < allowed {
            slips.insert(slip);
        }
    }
    let mut remaps: Vec<(u64, u64)> = Vec::new();
    for _ in 0..random.whole(0, max_remaps) {
        let home = random.whole(zone.reserved, sectors - 1);
        let group = home / group_sectors * group_sectors;
        let end = (group + group_sectors).min(sectors);
        let is_mapped = home + 2 * zone.spares < end && !slips.contains(&home);
        let spare =
            end - 1 - remaps.iter().filter(|pair| (group..end).contains(&pair.0)).count() as u64;
        // The last spares of a group; slips have used half of them at most.
        let is_free = end - spare <= zone.spares / 2 && !slips.contains(&spare);
        if is_mapped && is_free && remaps.iter().all(|pair| pair.0 != home) {
            remaps.push((home, spare));
        }
    }
    remaps.sort_unstable();
    (zone.slips, zone.remaps) = (slips.into_iter().collect(), remaps);
}

fn draw_cache(random: &mut SeededRandom, of_model: Option<Cache>) -> Option<Cache> {
    let segments = random.log_range(1.0, 64.9) as u32;
    let reads_ahead = random.chance(0.7);
    of_model.map(|cache| Cache {
        segments,
        read_ahead_sectors: if reads_ahead { cache.read_ahead_sectors } else { 0 },
        ..cache
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{plausible, worn};

    #[test]
    fn the_first_drives_of_each_kind_are_valid_and_every_class_occurs() {
        let (mut heads, mut zones, mut grouped) = (BTreeSet::new(), 0, BTreeSet::new());
        let (mut reserved, mut later, mut short, mut one_segment) = (0, 0, 0, 0);
        for seed in 1..=150 {
            let drive = varied(seed);
            drive.validate().unwrap_or_else(|error| panic!("varied-{seed}: {error}"));
            heads.insert(drive.geometry.heads);
            zones = zones.max(drive.zones.len());
            grouped.extend(drive.zones[0].spare_cylinders);
            reserved += u32::from(drive.zones[0].reserved > 0);
            later += u32::from(drive.zones.get(1).is_some_and(|zone| zone.reserved > 0));
            short += u32::from(drive.capacity_sectors.is_some());
            one_segment += u32::from(drive.cache.is_some_and(|cache| cache.segments == 1));
        }
        assert!(heads.len() > 25 && zones > 90 && grouped.range(1..=20).count() > 10);
        assert!(reserved > 20 && later > 20 && short > 20 && one_segment > 5);
    }

    #[test]
    fn later_seeds_have_two_actuators_and_spares_per_track_too() {
        let (mut two, mut on_each, mut after_several) = (0, 0, 0);
        for seed in ALL_CLASSES_FROM..ALL_CLASSES_FROM + 200 {
            let drive = varied(seed);
            drive.validate().unwrap_or_else(|error| panic!("varied-{seed}: {error}"));
            two += u32::from(drive.actuators() == 2);
            on_each += u32::from(drive.zones[0].spare_tracks == Some(1));
            after_several +=
                u32::from(drive.zones[0].spare_tracks.is_some_and(|tracks| tracks > 1));
        }
        assert!(two > 5 && on_each > 5 && after_several > 5, "{two}, {on_each}, {after_several}");
    }

    #[test]
    fn a_seed_gives_the_same_drive_in_every_version() {
        let sectors = |drive: DriveProfile| drive.capacity().get();
        assert_eq!(
            [1, 2, 3].map(|seed| sectors(plausible(seed))),
            [358_308_770, 19_984_052, 319_919_328]
        );
        assert_eq!(
            [1, 2, 3].map(|seed| sectors(worn(seed))),
            [370_381_585, 20_230_795, 322_174_120]
        );
        assert_eq!(
            [1, 2, 3].map(|seed| sectors(varied(seed))),
            [233_959_214, 63_078_415, 220_987_103]
        );
    }
}
