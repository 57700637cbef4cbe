//! Checks of each `[[zone]]`: its position, its tracks and skews, its spares, and its defects.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::super::{DriveProfile, ProfileError, TrackOrder, Zone};
use super::{MAX_CYLINDERS, MAX_SECTORS_PER_TRACK, MAX_ZONES_OR_POINTS};

impl DriveProfile {
    /// Requires either valid zones or valid runs.
    pub(super) fn check_places(&self) -> Result<(), ProfileError> {
        match (self.zones.is_empty(), self.runs.is_empty()) {
            (true, true) => Err(self.refuse(
                "zone",
                "empty",
                "at least one [[zone]], or the [[run]]s of a measured layout",
                "add a zone that starts at first_cylinder = 0",
            )),
            (false, false) => Err(self.refuse(
                "run",
                format!("{} runs besides zones", self.runs.len()),
                "zones or runs",
                "remove one of the two",
            )),
            (false, true) => self.check_zones(),
            (true, false) => self.check_runs(),
        }
    }

    fn check_zones(&self) -> Result<(), ProfileError> {
        if self.zones.len() > MAX_ZONES_OR_POINTS {
            let value = format!("{} zones", self.zones.len());
            return Err(self.refuse(
                "zone",
                value,
                format!("at most {MAX_ZONES_OR_POINTS}"),
                "join zones that are alike",
            ));
        }
        let mut next_cylinder = 0_u32;
        for (number, zone) in self.zones.iter().enumerate() {
            let expected = next_cylinder
                .checked_add(zone.skipped_cylinders)
                .filter(|first| *first <= MAX_CYLINDERS);
            let Some(expected) = expected else {
                return Err(self.too_many_cylinders(
                    number,
                    "skipped_cylinders",
                    zone.skipped_cylinders,
                ));
            };
            if zone.first_cylinder != expected {
                return Err(self.zone_start(number, zone, next_cylinder));
            }
            self.check_zone(number, zone)?;
            next_cylinder = match zone.first_cylinder.checked_add(zone.cylinders) {
                Some(end) if end <= MAX_CYLINDERS => end,
                _ => return Err(self.too_many_cylinders(number, "cylinders", zone.cylinders)),
            };
        }
        Ok(())
    }

    fn too_many_cylinders(&self, number: usize, key: &str, cylinders: u32) -> ProfileError {
        self.refuse_in_zone(
            number,
            key,
            cylinders,
            format!("at most {MAX_CYLINDERS} in all zones"),
            "lower it",
        )
    }

    fn zone_start(&self, number: usize, zone: &Zone, next_cylinder: u32) -> ProfileError {
        let first = zone.first_cylinder;
        if zone.skipped_cylinders > 0 {
            let skipped = zone.skipped_cylinders;
            let expected = format!(
                "{}: {skipped} cylinders are skipped from cylinder {next_cylinder} on",
                next_cylinder + skipped
            );
            return self.refuse_in_zone(
                number,
                "first_cylinder",
                first,
                expected,
                "correct it, or skipped_cylinders",
            );
        }
        if number == 0 {
            let remedy = "cylinders are counted from the outer edge, from 0; set skipped_cylinders \
                where some hold no data";
            return self.refuse_in_zone(0, "first_cylinder", first, "0", remedy);
        }
        ProfileError::ZoneStart {
            profile: self.name.clone(),
            zone: number,
            starts: first,
            expected: next_cylinder,
        }
    }

    fn check_zone(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        if zone.cylinders == 0 {
            return Err(self.refuse_in_zone(
                number,
                "cylinders",
                0,
                "at least 1",
                "remove the zone",
            ));
        }
        self.check_tracks(number, zone)?;
        self.check_skews(number, zone)?;
        self.check_groups(number, zone)?;
        self.check_slips(number, zone)?;
        self.check_remaps(number, zone)
    }

    fn check_tracks(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        let accepted = 1..=MAX_SECTORS_PER_TRACK;
        if !accepted.contains(&zone.sectors_per_track) {
            let expected = format!("1 to {MAX_SECTORS_PER_TRACK}");
            return Err(self.refuse_in_zone(
                number,
                "sectors_per_track",
                zone.sectors_per_track,
                expected,
                "correct it",
            ));
        }
        let heads = usize::from(self.geometry.heads);
        if !zone.sectors_by_head.is_empty() && zone.sectors_by_head.len() != heads {
            let value = format!("a list of {}", zone.sectors_by_head.len());
            let expected = format!("one number for each of the {heads} heads");
            return Err(self.refuse_in_zone(
                number,
                "sectors_by_head",
                value,
                expected,
                "complete it, or remove it where all surfaces are alike",
            ));
        }
        match zone
            .sectors_by_head
            .iter()
            .enumerate()
            .find(|(_, sectors)| !accepted.contains(sectors))
        {
            Some((head, sectors)) => {
                let value = format!("{sectors} for head {head}");
                Err(self.refuse_in_zone(
                    number,
                    "sectors_by_head",
                    value,
                    format!("1 to {MAX_SECTORS_PER_TRACK}"),
                    "correct it",
                ))
            }
            None => Ok(()),
        }
    }

    fn check_skews(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        let spt = zone.sectors_per_track;
        for (key, skew) in [
            ("track_skew", Some(zone.track_skew)),
            ("cylinder_skew", Some(zone.cylinder_skew)),
            ("band_skew", zone.band_skew),
        ] {
            if let Some(skew) = skew.filter(|skew| !(0.0..f64::from(spt)).contains(skew)) {
                let expected = format!("less than the track's {spt} sectors");
                let remedy =
                    if skew < 0.0 { "add whole revolutions" } else { "subtract whole revolutions" };
                let expected =
                    if skew < 0.0 { format!("at least 0 and {expected}") } else { expected };
                return Err(self.refuse_in_zone(number, key, skew, expected, remedy));
            }
        }
        let in_bands =
            matches!(self.geometry.layout, TrackOrder::SurfaceSerpentine | TrackOrder::Banded);
        if let (Some(skew), false) = (zone.band_skew, in_bands) {
            let remedy = "remove it, or choose layout = \"surface-serpentine\"";
            return Err(self.refuse_in_zone(
                number,
                "band_skew",
                skew,
                "nothing in this layout",
                remedy,
            ));
        }
        if let Some(turns) = zone.first_angle_turns.filter(|turns| !(0.0..1.0).contains(turns)) {
            return Err(self.refuse_in_zone(
                number,
                "first_angle_turns",
                turns,
                "0 up to but not including 1",
                "subtract whole revolutions",
            ));
        }
        Ok(())
    }

    /// Spares and reserved sectors leave at least one place in each group.
    fn check_groups(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        if zone.spare_cylinders == Some(0) {
            return Err(self.refuse_in_zone(
                number,
                "spare_cylinders",
                0,
                "at least 1",
                "remove it where the whole zone shares its spares",
            ));
        }
        let heads = self.geometry.heads;
        self.check_spare_tracks(number, zone)?;
        let (sectors, group) = (zone.physical_sectors(heads), zone.group_sectors(heads));
        let groups = zone.groups(heads);
        if groups == 1 {
            if zone.spares >= sectors {
                return Err(self.refuse_in_zone(
                    number,
                    "spares",
                    zone.spares,
                    format!("less than the zone's {sectors} sectors"),
                    "lower it",
                ));
            }
        } else {
            if let (Some(band), Some(cylinders)) =
                (self.geometry.band_cylinders, zone.spare_cylinders)
                && !cylinders.is_multiple_of(band)
            {
                let expected = format!(
                    "a multiple of geometry.band_cylinders = {band}, as a band is filled as a whole"
                );
                return Err(self.refuse_in_zone(
                    number,
                    "spare_cylinders",
                    cylinders,
                    expected,
                    "round it",
                ));
            }
            let last = sectors - (groups - 1) * group;
            if zone.spares >= last {
                let expected = format!("less than the {last} sectors of the last group");
                return Err(self.refuse_in_zone(
                    number,
                    "spares",
                    zone.spares,
                    expected,
                    if zone.spare_tracks.is_some() {
                        "lower it, or change spare_tracks"
                    } else {
                        "lower it, or change spare_cylinders"
                    },
                ));
            }
        }
        let places = group - zone.spares;
        if zone.reserved >= places {
            let expected = format!(
                "less than the {places} sectors that the spares leave of the zone's first group"
            );
            return Err(self.refuse_in_zone(
                number,
                "reserved",
                zone.reserved,
                expected,
                "lower it",
            ));
        }
        Ok(())
    }

    /// Groups of tracks need tracks of one length, and are no groups of cylinders.
    fn check_spare_tracks(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        let Some(tracks) = zone.spare_tracks else { return Ok(()) };
        let (expected, remedy) = if tracks == 0 {
            ("at least 1", "remove it where the whole zone shares its spares")
        } else if zone.spare_cylinders.is_some() {
            ("nothing beside spare_cylinders", "remove one of the two")
        } else if !zone.sectors_by_head.is_empty() {
            ("nothing where surfaces differ", "remove it, or sectors_by_head")
        } else {
            return Ok(());
        };
        Err(self.refuse_in_zone(number, "spare_tracks", tracks, expected, remedy))
    }

    fn check_slips(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        let sectors = zone.physical_sectors(self.geometry.heads);
        let mut sorted = zone.slips.clone();
        sorted.sort_unstable();
        if let Some(slip) = sorted.last().filter(|slip| **slip >= sectors) {
            let expected = format!("less than the zone's {sectors} sectors");
            return Err(self.refuse_in_zone(
                number,
                "slips",
                slip,
                expected,
                "numbers count from the zone's start",
            ));
        }
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.refuse_in_zone(
                number,
                "slips",
                format!("{} twice", pair[0]),
                "each sector once",
                "remove one",
            ));
        }
        match slips_by_group(zone, self.geometry.heads)
            .into_iter()
            .find(|(_, slips)| slips.len() as u64 > zone.spares)
        {
            Some((group, slips)) => Err(self.too_many_slips(number, group, slips.len() as u64)),
            None => Ok(()),
        }
    }

    /// The error for a group with more slips than spares.
    pub(crate) fn too_many_slips(&self, number: usize, group: u64, slips: u64) -> ProfileError {
        let zone = &self.zones[number];
        if zone.groups(self.geometry.heads) == 1 {
            return ProfileError::Slips {
                profile: self.name.clone(),
                zone: number,
                slips,
                spares: zone.spares,
            };
        }
        let value = match zone.spare_cylinders {
            Some(cylinders) => {
                let first = u64::from(zone.first_cylinder) + group * u64::from(cylinders);
                format!("{slips} in the group of cylinders from {first} on")
            }
            None => format!("{slips} in group {group}"),
        };
        self.refuse_in_zone(
            number,
            "slips",
            value,
            format!("at most its {} spares", zone.spares),
            "raise spares, or remove slips",
        )
    }

    fn check_remaps(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        if zone.remaps.is_empty() {
            return Ok(());
        }
        let sectors = zone.physical_sectors(self.geometry.heads);
        let refuse = |value: alloc::string::String, expected: &str, remedy: &str| {
            Err(self.refuse_in_zone(number, "remaps", value, expected, remedy))
        };
        let mut ends: Vec<(u64, &(u64, u64))> =
            zone.remaps.iter().flat_map(|remap| [(remap.0, remap), (remap.1, remap)]).collect();
        ends.sort_unstable();
        if let Some((sector, _)) = ends.iter().find(|end| end.0 >= sectors) {
            let expected = format!("less than the zone's {sectors} sectors");
            return refuse(format!("{sector}"), &expected, "numbers count from the zone's start");
        }
        if let Some(pair) = ends.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return refuse(
                format!("{} twice", pair[0].0),
                "each sector once, as defective or as spare",
                "remove one of the two",
            );
        }
        if let Some((sector, _)) = ends.iter().find(|end| zone.slips.contains(&end.0)) {
            return refuse(
                format!("{sector}, which is slipped"),
                "sectors that are not among the slips",
                "remove it from slips or from remaps",
            );
        }
        let slips = slips_by_group(zone, self.geometry.heads);
        for (defective, spare) in &zone.remaps {
            if !is_mapped(zone, self.geometry.heads, &slips, *defective) {
                let remedy = "remove the remap: a defective spare or reserved sector moves nothing";
                return refuse(
                    format!("[{defective}, {spare}]"),
                    "a defective sector that would hold an LBA",
                    remedy,
                );
            }
            if is_mapped(zone, self.geometry.heads, &slips, *spare) {
                return refuse(
                    format!("[{defective}, {spare}]"),
                    "a spare that holds no LBA",
                    "choose a sector among the spares, at the end of the group",
                );
            }
        }
        Ok(())
    }

    fn refuse_in_zone(
        &self,
        number: usize,
        key: &str,
        value: impl ToString,
        expected: impl ToString,
        remedy: &str,
    ) -> ProfileError {
        self.refuse(format!("zone {number} {key}"), value.to_string(), expected.to_string(), remedy)
    }
}

/// The slips that use up spares, by group, ascending; those among reserved sectors use none.
fn slips_by_group(zone: &Zone, heads: u16) -> BTreeMap<u64, Vec<u64>> {
    let group_sectors = zone.group_sectors(heads);
    let mut sorted: Vec<u64> =
        zone.slips.iter().copied().filter(|slip| *slip >= zone.reserved).collect();
    sorted.sort_unstable();
    let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for slip in sorted {
        groups.entry(slip / group_sectors).or_default().push(slip);
    }
    groups
}

/// True if a sector that is not slipped would hold an LBA without remapping.
fn is_mapped(zone: &Zone, heads: u16, slips: &BTreeMap<u64, Vec<u64>>, sector: u64) -> bool {
    let group_sectors = zone.group_sectors(heads);
    let (group, within) = (sector / group_sectors, sector % group_sectors);
    let size = group_sectors.min(zone.physical_sectors(heads) - group * group_sectors);
    let slipped =
        slips.get(&group).map_or(0, |slips| slips.partition_point(|slip| *slip < sector)) as u64;
    sector >= zone.reserved && within - slipped < size - zone.spares
}
