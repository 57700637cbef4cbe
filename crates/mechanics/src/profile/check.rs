//! What makes a profile a drive that can be: every check, in the order of the file.

use alloc::format;
use alloc::string::{String, ToString};

use super::{DriveProfile, ProfileError, TrackOrder, Zone};
use crate::seek::SeekCurve;

/// Most heads accepted; drives have at most 24 today.
const MOST_HEADS: u16 = 1_024;
/// Most cylinders accepted, so that a distance fits a signed 32-bit number.
const MOST_CYLINDERS: u32 = i32::MAX as u32;
/// Most sectors on a track accepted, so that a sector's angle is exact to the last bit; drives have about 5,000 today.
const MOST_SECTORS_PER_TRACK: u32 = u16::MAX as u32;
/// Most zones and most points of a seek curve accepted: what the look-up indices can number.
const MOST_ZONES_OR_POINTS: usize = 60_000;
/// Deepest firmware queue accepted; SAS allows 65,536 tags.
const DEEPEST_QUEUE: u32 = 65_536;
/// Longest single time accepted anywhere in a profile: ten minutes.
const LONGEST_MS: f64 = 600_000.0;
/// Slowest and fastest bus accepted, in millions of bytes per second.
const BUS_MB_PER_S: core::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;

impl DriveProfile {
    /// Checks everything that reading checks; for profiles that were changed in memory.
    ///
    /// # Errors
    /// The first mistake in the order of the file.
    pub fn validate(&self) -> Result<(), ProfileError> {
        self.check_name(&self.name)?;
        self.check_values()
    }

    pub(super) fn check_name(&self, own_name: &str) -> Result<(), ProfileError> {
        let plain =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_'));
        if own_name.splitn(2, '@').all(plain) {
            return Ok(());
        }
        Err(self.refuse("name", format!("\"{own_name}\""), "lower-case letters, digits, `-`, `.` and `_`", "choose a name such as `exos-x20`"))
    }

    pub(super) fn check_values(&self) -> Result<(), ProfileError> {
        self.sector_size()?;
        self.check_physical_sector()?;
        self.rotation_period()?;
        self.check_geometry()?;
        self.check_zones()?;
        self.check_capacity()?;
        self.check_seek()?;
        self.check_interface()?;
        self.check_firmware()?;
        self.check_variation()?;
        self.check_setups()
    }

    fn check_physical_sector(&self) -> Result<(), ProfileError> {
        match self.physical_sector_bytes {
            Some(bytes) if !bytes.is_power_of_two() || bytes < self.sector_bytes || bytes > 65_536 => Err(self.refuse(
                "physical_sector_bytes",
                bytes,
                format!("a power of two from {} to 65536", self.sector_bytes),
                "512e drives have 4096; remove the key where both sectors are the same",
            )),
            _ => Ok(()),
        }
    }

    fn check_geometry(&self) -> Result<(), ProfileError> {
        let geometry = &self.geometry;
        if geometry.heads == 0 || geometry.heads > MOST_HEADS {
            return Err(self.refuse("geometry.heads", geometry.heads, format!("1 to {MOST_HEADS}"), "count the surfaces that hold data"));
        }
        match (geometry.layout, geometry.band_cylinders) {
            (TrackOrder::SurfaceSerpentine, None) => {
                Err(self.refuse("geometry.band_cylinders", "missing", "the cylinders of a band", "add it, or choose layout = \"serpentine\""))
            }
            (TrackOrder::SurfaceSerpentine, Some(0)) => {
                Err(self.refuse("geometry.band_cylinders", 0, "at least 1", "one band is often some hundred cylinders"))
            }
            (TrackOrder::Cylinder | TrackOrder::Serpentine, Some(band)) => {
                Err(self.refuse("geometry.band_cylinders", band, "nothing in this layout", "remove it, or choose layout = \"surface-serpentine\""))
            }
            _ => Ok(()),
        }
    }

    fn check_zones(&self) -> Result<(), ProfileError> {
        if self.zones.is_empty() {
            return Err(self.refuse("zone", "empty", "at least one [[zone]]", "add a zone that starts at first_cylinder = 0"));
        }
        if self.zones.len() > MOST_ZONES_OR_POINTS {
            return Err(self.refuse(
                "zone",
                format!("{} zones", self.zones.len()),
                format!("at most {MOST_ZONES_OR_POINTS}"),
                "join zones that are alike",
            ));
        }
        let mut next_cylinder = 0_u32;
        for (number, zone) in self.zones.iter().enumerate() {
            if zone.first_cylinder != next_cylinder {
                return Err(self.zone_start(number, zone, next_cylinder));
            }
            self.check_zone(number, zone)?;
            next_cylinder = match zone.first_cylinder.checked_add(zone.cylinders) {
                Some(end) if end <= MOST_CYLINDERS => end,
                _ => {
                    return Err(self.refuse_in_zone(
                        number,
                        "cylinders",
                        zone.cylinders,
                        format!("at most {MOST_CYLINDERS} in all zones"),
                        "lower it",
                    ));
                }
            };
        }
        Ok(())
    }

    fn zone_start(&self, number: usize, zone: &Zone, expected: u32) -> ProfileError {
        if number == 0 {
            return self.refuse_in_zone(0, "first_cylinder", zone.first_cylinder, "0", "cylinders are counted from the outer edge, from 0");
        }
        ProfileError::ZoneStart { profile: self.name.clone(), zone: number, starts: zone.first_cylinder, expected }
    }

    fn check_zone(&self, number: usize, zone: &Zone) -> Result<(), ProfileError> {
        let spt = zone.sectors_per_track;
        if zone.cylinders == 0 {
            return Err(self.refuse_in_zone(number, "cylinders", 0, "at least 1", "remove the zone"));
        }
        if spt == 0 || spt > MOST_SECTORS_PER_TRACK {
            return Err(self.refuse_in_zone(number, "sectors_per_track", spt, format!("1 to {MOST_SECTORS_PER_TRACK}"), "correct it"));
        }
        for (key, skew) in [("track_skew", Some(zone.track_skew)), ("cylinder_skew", Some(zone.cylinder_skew)), ("band_skew", zone.band_skew)] {
            if skew.is_some_and(|skew| skew >= spt) {
                let expected = format!("less than the track's {spt} sectors");
                return Err(self.refuse_in_zone(number, key, skew.unwrap_or(0), expected, "subtract whole turns"));
            }
        }
        if let (Some(skew), false) = (zone.band_skew, self.geometry.layout == TrackOrder::SurfaceSerpentine) {
            return Err(self.refuse_in_zone(
                number,
                "band_skew",
                skew,
                "nothing in this layout",
                "remove it, or choose layout = \"surface-serpentine\"",
            ));
        }
        if let Some(turns) = zone.first_angle_turns.filter(|turns| !(0.0..1.0).contains(turns)) {
            return Err(self.refuse_in_zone(number, "first_angle_turns", turns, "0 up to but not including 1", "subtract whole turns"));
        }
        let sectors = zone.physical_sectors(self.geometry.heads);
        if zone.spares >= sectors {
            return Err(self.refuse_in_zone(number, "spares", zone.spares, format!("less than the zone's {sectors} sectors"), "lower it"));
        }
        self.check_slips(number, zone, sectors)
    }

    fn check_slips(&self, number: usize, zone: &Zone, sectors: u64) -> Result<(), ProfileError> {
        let mut sorted = zone.slips.clone();
        sorted.sort_unstable();
        if let Some(slip) = sorted.last().filter(|slip| **slip >= sectors) {
            return Err(self.refuse_in_zone(
                number,
                "slips",
                slip,
                format!("less than the zone's {sectors} sectors"),
                "numbers count from the zone's start",
            ));
        }
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.refuse_in_zone(number, "slips", format!("{} twice", pair[0]), "each sector once", "remove one"));
        }
        if sorted.len() as u64 > zone.spares {
            return Err(ProfileError::Slips { profile: self.name.clone(), zone: number, slips: sorted.len() as u64, spares: zone.spares });
        }
        Ok(())
    }

    fn check_capacity(&self) -> Result<(), ProfileError> {
        let mapped = self.mapped().get();
        match self.capacity_sectors {
            Some(0) => Err(self.refuse("capacity_sectors", 0, "at least 1", "remove the key to declare all that the zones map")),
            Some(declared) if declared > mapped => Err(ProfileError::Capacity { profile: self.name.clone(), declared, mapped }),
            _ => Ok(()),
        }
    }

    fn check_seek(&self) -> Result<(), ProfileError> {
        self.check_time("seek.head_switch_ms", self.seek.head_switch_ms, LONGEST_MS)?;
        self.check_time("seek.write_settle_ms", self.seek.write_settle_ms, LONGEST_MS)?;
        match (self.seek.points.is_empty(), &self.seek.formula) {
            (true, None) => {
                return Err(self.refuse("seek", "without a curve", "points or [seek.formula]", "add `points = [[1, 0.8], [10000, 9.0]]`"));
            }
            (false, Some(_)) => return Err(self.refuse("seek", "points and formula", "one of the two", "remove the formula, points are measured")),
            (false, None) => self.check_points()?,
            (true, Some(formula)) => {
                for (key, value) in [
                    ("short_ms", formula.short_ms),
                    ("short_sqrt_ms", formula.short_sqrt_ms),
                    ("long_ms", formula.long_ms),
                    ("long_us_per_cylinder", formula.long_us_per_cylinder),
                ] {
                    if !(-LONGEST_MS..=LONGEST_MS).contains(&value) {
                        return Err(self.refuse(format!("seek.formula.{key}"), value, "a number, at most ten minutes either way", "correct it"));
                    }
                }
            }
        }
        let curve = SeekCurve::from_profile(self);
        match curve.lowest() {
            (distance, ns) if ns < 0 => Err(ProfileError::SeekBelowZero { profile: self.name.clone(), distance, microseconds: ns.div_euclid(1_000) }),
            _ if curve.longest().as_ms_f64() > LONGEST_MS => {
                let value = format!("{} ms at its highest", curve.longest().as_ms_f64());
                Err(self.refuse(
                    "seek",
                    value,
                    format!("at most {LONGEST_MS} ms"),
                    "correct the points or the formula; the curve is prolonged to the last cylinder",
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_points(&self) -> Result<(), ProfileError> {
        let points = &self.seek.points;
        if points.len() > MOST_ZONES_OR_POINTS {
            return Err(self.refuse(
                "seek.points",
                format!("{} points", points.len()),
                format!("at most {MOST_ZONES_OR_POINTS}"),
                "leave points out",
            ));
        }
        if points[0].0 != 1 {
            let first = format!("{} cylinders first", points[0].0);
            return Err(self.refuse(
                "seek.points",
                first,
                "the first point at 1 cylinder",
                "add the single-cylinder seek; no seek at all takes no time",
            ));
        }
        for (distance, ms) in points {
            self.check_time(&format!("seek.points at {distance} cylinders"), *ms, LONGEST_MS)?;
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let value = format!("{} cylinders after {}", pair[1].0, pair[0].0);
            return Err(self.refuse("seek.points", value, "rising distances", "sort the points, one for each distance"));
        }
        Ok(())
    }

    fn check_interface(&self) -> Result<(), ProfileError> {
        let interface = &self.interface;
        for (key, us) in [
            ("interface.read_command_us", Some(interface.read_command_us)),
            ("interface.write_command_us", Some(interface.write_command_us)),
            ("interface.read_after_write_us", interface.read_after_write_us),
            ("interface.write_after_write_us", interface.write_after_write_us),
            ("interface.completion_us", Some(interface.completion_us)),
        ] {
            self.check_time(key, us.unwrap_or(0.0), LONGEST_MS * 1e3)?;
        }
        if !BUS_MB_PER_S.contains(&interface.bus_mb_per_s) {
            let expected = format!("{} to {}", BUS_MB_PER_S.start(), BUS_MB_PER_S.end());
            return Err(self.refuse("interface.bus_mb_per_s", interface.bus_mb_per_s, expected, "6 Gbit/s SATA carries about 550"));
        }
        Ok(())
    }

    fn check_firmware(&self) -> Result<(), ProfileError> {
        let depth = self.firmware.queue_depth;
        if depth == 0 || depth > DEEPEST_QUEUE {
            return Err(self.refuse("firmware.queue_depth", depth, format!("1 to {DEEPEST_QUEUE}"), "1 is a drive without a queue, 32 is NCQ"));
        }
        Ok(())
    }

    fn check_variation(&self) -> Result<(), ProfileError> {
        let variation = &self.variation;
        for (key, value, most) in [
            ("variation.spindle_ppm", variation.spindle_ppm, 100_000.0),
            ("variation.track_angle_us", variation.track_angle_us, LONGEST_MS),
            ("variation.seek_residual_us", variation.seek_residual_us, LONGEST_MS),
            ("variation.slips_per_million", variation.slips_per_million, 1e6),
            ("variation.jitter_us", variation.jitter_us, LONGEST_MS),
            ("variation.outlier_share", variation.outlier_share, 1.0),
            ("variation.outlier_ms", variation.outlier_ms, LONGEST_MS),
        ] {
            self.check_time(key, value, most)?;
        }
        Ok(())
    }

    fn check_setups(&self) -> Result<(), ProfileError> {
        for (name, overlay) in &self.setup {
            let mut laid = Self { setup: alloc::collections::BTreeMap::new(), ..self.clone() };
            laid.lay(overlay);
            laid.check_interface().and_then(|()| laid.check_firmware()).map_err(|error| in_setup(name, error))?;
        }
        Ok(())
    }

    fn check_time(&self, key: &str, value: f64, most: f64) -> Result<(), ProfileError> {
        if (0.0..=most).contains(&value) {
            return Ok(());
        }
        Err(self.refuse(key, value, format!("a number from 0 to {most}"), "correct it"))
    }

    fn refuse_in_zone(&self, number: usize, key: &str, value: impl ToString, expected: impl ToString, remedy: &str) -> ProfileError {
        self.refuse(format!("zone {number} {key}"), value.to_string(), expected.to_string(), remedy)
    }
}

fn in_setup(setup: &str, error: ProfileError) -> ProfileError {
    match error {
        ProfileError::Value { profile, key, value, expected, remedy } => {
            let key: String = format!("setup.{setup}.{key}");
            ProfileError::Value { profile, key, value, expected, remedy }
        }
        other => other,
    }
}
