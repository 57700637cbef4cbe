//! [`ZoneSlip`]: defects in addition to the profile's, and their absorption by spares.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use crate::profile::{DriveProfile, ProfileError, Zone};

/// One additional defective sector, as a zone's number and a physical sector of that zone
/// ([`Zone::slips`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneSlip {
    /// The zone, from 0.
    pub zone: usize,
    /// The sector, from the zone's first.
    pub sector: u64,
}

/// Refuses defects of zones or sectors that do not exist.
pub(super) fn check(profile: &DriveProfile, extra: &[ZoneSlip]) -> Result<(), ProfileError> {
    for slip in extra {
        let Some(zone) = profile.zones.get(slip.zone) else {
            let last = profile.zones.len().checked_sub(1);
            let expected = last.map_or_else(
                || "none, as the layout is made of runs".into(),
                |last| format!("0 to {last}"),
            );
            return Err(profile.refuse(
                "extra slip's zone",
                slip.zone,
                expected,
                "draw from the profile's zones",
            ));
        };
        let sectors = zone.physical_sectors(profile.geometry.heads);
        if slip.sector >= sectors {
            let key = format!("extra slip in zone {}", slip.zone);
            return Err(profile.refuse(
                key,
                slip.sector,
                format!("less than the zone's {sectors} sectors"),
                "draw from the zone's sectors",
            ));
        }
    }
    Ok(())
}

/// The sectors of a zone that the mapping skips, ascending: the profile's slips, the extra ones,
/// and the spares in use for remapped sectors.
pub(super) fn stepped_over(
    profile: &DriveProfile,
    number: usize,
    extra: &[ZoneSlip],
) -> Result<Vec<u64>, ProfileError> {
    let zone = &profile.zones[number];
    let heads = profile.geometry.heads;
    let mut sectors = named(zone);
    let homes: BTreeSet<u64> = zone.remaps.iter().map(|remap| remap.0).collect();
    sectors.extend(
        extra
            .iter()
            .filter(|slip| slip.zone == number && !homes.contains(&slip.sector))
            .map(|slip| slip.sector),
    );
    let sectors: Vec<u64> = sectors.into_iter().filter(|sector| *sector >= zone.reserved).collect();
    let group_sectors = zone.group_sectors(heads);
    let overfull = sectors
        .chunk_by(|a, b| a / group_sectors == b / group_sectors)
        .find(|group| group.len() as u64 > zone.spares);
    match overfull {
        None => Ok(sectors),
        Some(group) => {
            Err(profile.too_many_slips(number, group[0] / group_sectors, group.len() as u64))
        }
    }
}

/// The defects that spares absorb, in order.
pub(super) fn absorbed(profile: &DriveProfile, extra: &[ZoneSlip]) -> Vec<ZoneSlip> {
    let heads = profile.geometry.heads;
    let mut known: Vec<BTreeSet<u64>> = profile.zones.iter().map(named).collect();
    let mut used: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    let group_of = |zone: usize, sector: u64| {
        let zone = &profile.zones[zone];
        sector / zone.group_sectors(heads)
    };
    for (number, zone) in profile.zones.iter().enumerate() {
        for sector in known[number].iter().filter(|sector| **sector >= zone.reserved) {
            *used.entry((number, group_of(number, *sector))).or_default() += 1;
        }
        known[number].extend(zone.remaps.iter().map(|remap| remap.0));
    }
    let fits = |slip: &&ZoneSlip| {
        let Some(zone) =
            profile.zones.get(slip.zone).filter(|zone| slip.sector < zone.physical_sectors(heads))
        else {
            return false;
        };
        if slip.sector < zone.reserved || known[slip.zone].contains(&slip.sector) {
            return true;
        }
        let used = used.entry((slip.zone, group_of(slip.zone, slip.sector))).or_default();
        let fits = *used < zone.spares;
        if fits {
            *used += 1;
            known[slip.zone].insert(slip.sector);
        }
        fits
    };
    extra.iter().filter(fits).copied().collect()
}

/// The profile's slips and the spares in use for remapped sectors.
fn named(zone: &Zone) -> BTreeSet<u64> {
    zone.slips.iter().copied().chain(zone.remaps.iter().map(|remap| remap.1)).collect()
}
