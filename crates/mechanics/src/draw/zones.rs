//! Random zones.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use rand::{Rng, RngExt};

use crate::profile::{Geometry, Zone};

pub(super) fn random_zones(rng: &mut impl Rng, geometry: &Geometry) -> Vec<Zone> {
    let mut next_cylinder = 0;
    let mut zones = Vec::new();
    for _ in 0..rng.random_range(1..=4) {
        let skipped_cylinders = if rng.random_bool(0.15) { rng.random_range(1..=3) } else { 0 };
        let zone = random_zone(rng, geometry, next_cylinder, skipped_cylinders);
        next_cylinder = zone.first_cylinder + zone.cylinders;
        zones.push(zone);
    }
    zones
}

fn random_zone(
    rng: &mut impl Rng,
    geometry: &Geometry,
    next_cylinder: u32,
    skipped_cylinders: u32,
) -> Zone {
    let spt: u32 = if rng.random_bool(0.1) { 1 } else { rng.random_range(2..=32) };
    let first_cylinder = next_cylinder + skipped_cylinders;
    let mut zone = Zone {
        first_cylinder,
        skipped_cylinders,
        cylinders: rng.random_range(1..=12),
        sectors_per_track: spt,
        ..Zone::default()
    };
    if rng.random_bool(0.3) {
        zone.sectors_by_head =
            (0..geometry.heads).map(|_| rng.random_range(spt.div_ceil(2)..=spt + 3)).collect();
    }
    let parts_of_sectors = rng.random_bool(0.3);
    let mut skew = || {
        if parts_of_sectors {
            rng.random_range(0.0..f64::from(spt))
        } else {
            f64::from(rng.random_range(0..spt))
        }
    };
    (zone.track_skew, zone.cylinder_skew) = (skew(), skew());
    let band_skew = skew();
    zone.band_skew =
        (geometry.band_cylinders.is_some() && rng.random_bool(0.5)).then_some(band_skew);
    zone.first_angle_turns = rng.random_bool(0.2).then(|| rng.random_range(0.0..1.0));
    random_spares(rng, geometry, &mut zone);
    zone.slips = random_slips(rng, &zone, geometry.heads);
    if rng.random_bool(0.3) {
        zone.remaps = random_remaps(rng, &zone, geometry.heads);
    }
    zone
}

/// Groups, up to three tracks of spares in each, and reserved sectors; at least one sector of each
/// group holds an LBA.
fn random_spares(rng: &mut impl Rng, geometry: &Geometry, zone: &mut Zone) {
    if rng.random_bool(0.3) {
        let unit = geometry.band_cylinders.unwrap_or(1);
        zone.spare_cylinders = Some(unit * rng.random_range(1..=zone.cylinders.div_ceil(unit)));
    }
    let heads = geometry.heads;
    let before_last = (zone.groups(heads) - 1) * zone.group_sectors(heads);
    let last_group = zone.physical_sectors(heads) - before_last;
    zone.spares = rng.random_range(0..=u64::from(zone.sectors_per_track) * 3).min(last_group - 1);
    if rng.random_bool(0.2) {
        let places = zone.group_sectors(heads) - zone.spares;
        zone.reserved = rng.random_range(0..=u64::from(zone.sectors_per_track) * 2).min(places - 1);
    }
}

fn random_slips(rng: &mut impl Rng, zone: &Zone, heads: u16) -> Vec<u64> {
    let sectors = zone.physical_sectors(heads);
    let group_sectors = zone.group_sectors(heads);
    let mut slips = BTreeSet::new();
    let count = rng.random_range(0..=(zone.spares * zone.groups(heads)).min(12));
    for _ in 0..count {
        // Often adjacent to the last slip; the zone's first and last sector more often than others.
        let sector = match (rng.random_range(0..8_u32), slips.last()) {
            (0, _) => zone.reserved,
            (1, _) => sectors - 1,
            (2..=4, Some(last)) => (last + 1) % sectors,
            _ => rng.random_range(0..sectors),
        };
        let in_group = slips
            .iter()
            .filter(|slip| {
                **slip >= zone.reserved && **slip / group_sectors == sector / group_sectors
            })
            .count();
        if (in_group as u64) < zone.spares || sector < zone.reserved {
            slips.insert(sector);
        }
    }
    slips.into_iter().collect()
}

/// Pairs of a sector with an LBA and one without: a spare, sometimes a reserved one.
fn random_remaps(rng: &mut impl Rng, zone: &Zone, heads: u16) -> Vec<(u64, u64)> {
    let sectors = zone.physical_sectors(heads);
    let group_sectors = zone.group_sectors(heads);
    let (mut mapped, mut free): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
    for start in (0..sectors).step_by(group_sectors as usize) {
        let end = sectors.min(start + group_sectors);
        let usable: Vec<u64> =
            (start.max(zone.reserved)..end).filter(|sector| !zone.slips.contains(sector)).collect();
        let reserved = zone.reserved.saturating_sub(start).min(group_sectors);
        let (places, spares) = usable.split_at((end - start - reserved - zone.spares) as usize);
        mapped.extend(places);
        free.extend(
            (start..start + reserved)
                .filter(|sector| !zone.slips.contains(sector))
                .chain(spares.iter().copied()),
        );
    }
    let mut remaps = Vec::new();
    for _ in 0..rng.random_range(0..=free.len().min(mapped.len()).min(6)) {
        let home = mapped.swap_remove(rng.random_range(0..mapped.len()));
        let spare = free.swap_remove(rng.random_range(0..free.len()));
        remaps.push((home, spare));
    }
    remaps
}
