//! [`DriveModel`]: the profile that the results of the experiments make.

use headtime_mechanics::ProfileError;
use headtime_mechanics::profile::{
    Cache, DriveProfile, Firmware, Geometry as ProfileGeometry, Interface, Rotation, Seek,
    VariationSpec, Zone,
};

use crate::cache::CacheResult;
use crate::geometry::Geometry;
use crate::layout::{LayoutResult, Pattern, SpareGroups, ZoneModel};
use crate::overhead::InterfaceResult;
use crate::queue::QueueResult;
use crate::seek::SeekResult;
use crate::session::DriveTiming;
use crate::writes::WriteResult;

/// The results that a profile is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriveModel<'a> {
    pub(crate) layout: &'a LayoutResult,
    pub(crate) interface: &'a InterfaceResult,
    pub(crate) seek: &'a SeekResult,
    pub(crate) cache: &'a CacheResult,
    pub(crate) writes: &'a WriteResult,
    pub(crate) queue: &'a QueueResult,
    pub(crate) sector_bytes: u32,
}

/// The resolution of a timed arm movement, ns.
const TIMING_RESOLUTION_NS: f64 = 20_000.0;

impl DriveModel<'_> {
    /// The profile of one arm, as far as it is known.
    pub(crate) fn profile(&self, drive: &DriveTiming) -> Result<DriveProfile, ProfileError> {
        let geometry = Geometry::new(self.layout, self.seek.order(), drive.capacity);
        let (period_ns, _) = drive.clock.mean_period_ns();
        let base_ns = self.overhead_ns(drive, &geometry, period_ns);
        let first_spt = self.layout.zones.first().map_or(1, |zone| zone.sectors_per_track);
        // A bus that was not measured keeps up with the media: twice as fast (guess).
        let bus_ns = self.interface.bus_ns_per_sector.unwrap_or(period_ns / first_spt as f64 / 2.0);
        let zones = self.zones(&geometry, drive.capacity);
        let last_distance = zones
            .last()
            .map_or(1, |zone| u64::from(zone.first_cylinder + zone.cylinders).max(2) - 1);
        let points: Vec<(u32, f64)> = self
            .seek
            .curve
            .bounded(base_ns, last_distance)
            .into_iter()
            .map(|(distance, ns)| (distance as u32, libm::round(ns / 1e3) / 1e3))
            .collect();
        let writes = self.writes;
        let (write_command_us, write_completion_us) = match writes.overhead_us(bus_ns) {
            Some((command, completion)) => {
                (rounded_us(command * 1e3), Some(rounded_us(completion * 1e3)))
            }
            // Without measured writes, a write is assumed to cost what a read does.
            None => ((base_ns - bus_ns).max(0.0) / 1e3, None),
        };
        let cache = self.cache.profile(bus_ns).map(|cache| Cache {
            write_back: writes.write_back == Some(true),
            write_hit_us: writes
                .hit_ns
                .map_or(cache.write_hit_us, |(ns, _)| rounded_us((ns - bus_ns).max(0.0))),
            ..cache
        });
        let profile = DriveProfile {
            name: "characterized".into(),
            model: "characterized from outside".into(),
            description: "As found by timed reads alone".into(),
            sector_bytes: self.sector_bytes,
            physical_sector_bytes: None,
            capacity_sectors: Some(drive.capacity),
            rotation: Rotation { rpm: None, period_us: Some(period_ns / 1e3) },
            geometry: ProfileGeometry {
                heads: geometry.heads as u16,
                layout: geometry.order,
                band_cylinders: (geometry.band > 1).then_some(geometry.band as u32),
                actuators: None,
            },
            zones,
            runs: Vec::new(),
            seek: Seek {
                head_switch_ms: self
                    .seek
                    .other_head_ns
                    .map_or(0.0, |ns| (ns - base_ns).max(0.0) / 1e6),
                write_settle_ms: writes
                    .settle_ns(base_ns)
                    .map_or(0.0, |(ns, _)| rounded_us(ns) / 1e3),
                points: if points.is_empty() { vec![(1, 1.0)] } else { points },
                formula: None,
            },
            interface: Interface {
                read_command_us: (base_ns - bus_ns).max(0.0) / 1e3,
                write_command_us,
                completion_us: 0.0,
                write_completion_us,
                bus_mb_per_s: f64::from(self.sector_bytes) * 1e3 / bus_ns,
                ..Interface::default()
            },
            firmware: Firmware {
                zero_latency_read: self.interface.zero_latency,
                ..self.queue.firmware()
            },
            cache,
            variation: VariationSpec {
                jitter_us: rounded_us(drive.clock.deviation_ns()),
                ..VariationSpec::default()
            },
            accuracy: None,
            second_actuator: None,
            setup: Default::default(),
        };
        profile.validate()?;
        Ok(profile)
    }

    /// The command overhead and the bus time of one sector. If they were not timed, a cache hit
    /// stands for them; but a hit may take less. A read that continues past the end of a track
    /// bounds them from below. Skews give the head just enough time to reach the next track, so the
    /// arm takes no longer than a skew, and the rest of the read's time is overhead.
    fn overhead_ns(&self, drive: &DriveTiming, geometry: &Geometry<'_>, period_ns: f64) -> f64 {
        let base_ns = self.seek.same_track_ns.unwrap_or(0.0);
        if drive.hits.hit_ns.is_none() {
            return base_ns;
        }
        let in_bands = geometry.band > 1;
        let step_ns = |kind: usize| {
            let steps = self
                .layout
                .zones
                .iter()
                .filter(|zone| !zone.unknown && zone.steps[kind] > 0.0)
                .map(|zone| zone.steps[kind]);
            steps.min_by(f64::total_cmp).map(|turns| turns * period_ns)
        };
        let next_cylinder =
            self.seek.curve.points.first().filter(|point| point.0 == 1).map(|point| point.1.ns);
        // Either surfaces follow each other on a cylinder, or cylinders on a surface.
        let (of_head, of_cylinder) =
            if in_bands { (1, 0) } else { (0, usize::from(geometry.heads > 1)) };
        let timed = [(self.seek.other_head_ns, of_head), (next_cylinder, of_cylinder)];
        let needed = timed
            .into_iter()
            .filter_map(|(ns, kind)| Some(ns? + TIMING_RESOLUTION_NS - step_ns(kind)?));
        let max_ns = timed.into_iter().filter_map(|(ns, _)| ns).fold(f64::INFINITY, f64::min);
        needed.fold(base_ns, f64::max).min(max_ns.max(base_ns))
    }

    fn zones(&self, geometry: &Geometry<'_>, capacity: u64) -> Vec<Zone> {
        let mut zones = Vec::new();
        let mut cylinder = 0;
        for model in &self.layout.zones {
            let end = model.end_lba.unwrap_or(capacity);
            let mut first_lba = model.first_lba;
            if let Some(groups) = model.groups {
                let tracks = (groups.lbas + groups.spares) / model.sectors_per_track;
                // The groups that end with a cylinder, or band.
                let period = geometry.heads * geometry.band;
                let (cylinders, joint) = (tracks / geometry.heads, period / gcd(tracks, period));
                let whole = (end - model.first_lba + model.reserved) / groups.lbas / joint * joint;
                let after = model.group_start(groups, whole);
                if whole > 0 {
                    let all = whole * tracks / geometry.heads;
                    let mut zone = zone_of(model, first_lba, cylinder, all);
                    zone.spares = groups.spares;
                    if joint > 1 {
                        zone.spare_tracks = Some(tracks as u32);
                    } else if whole > 1 {
                        zone.spare_cylinders = Some(cylinders as u32);
                    }
                    zone.slips = slips_of(model, first_lba, after);
                    limit_to_spares(&mut zone.slips, groups);
                    cylinder += all;
                    zones.push(zone);
                }
                first_lba = after;
            }
            if first_lba < end {
                let before =
                    if first_lba == model.first_lba { 0 } else { model.track_of(first_lba) };
                let cylinders = geometry
                    .cylinders_up_to(model, model.track_of(end - 1))
                    .saturating_sub(before / geometry.heads)
                    .max(1);
                let mut zone = zone_of(model, first_lba, cylinder, cylinders);
                zone.slips = slips_and_spares(model, first_lba, end);
                // All skipped sectors must lie on the zone's cylinders.
                let needed = zone.reserved + (end - first_lba) + zone.slips.len() as u64;
                let missing = needed.saturating_sub(zone.physical_sectors(geometry.heads as u16));
                zone.cylinders +=
                    missing.div_ceil(zone.cylinder_sectors(geometry.heads as u16)) as u32;
                let cylinders = u64::from(zone.cylinders);
                zone.spares = zone
                    .physical_sectors(geometry.heads as u16)
                    .saturating_sub(zone.reserved + (end - first_lba));
                cylinder += cylinders;
                zones.push(zone);
            }
        }
        zones
    }
}

/// Nanoseconds as microseconds, rounded to a tenth.
fn rounded_us(ns: f64) -> f64 {
    libm::round(ns / 100.0) / 10.0
}

/// A zone of the profile that starts at an address on a whole cylinder of a model, without its
/// spares and slips.
fn zone_of(model: &ZoneModel, first_lba: u64, first_cylinder: u64, cylinders: u64) -> Zone {
    let spt = model.sectors_per_track as f64;
    let at_start = first_lba == model.first_lba;
    let track = if at_start { 0 } else { model.track_of(first_lba) };
    let [a, b, c] = model.steps.map(|step| skew(step, spt));
    let bands = model.pattern.in_bands();
    Zone {
        first_cylinder: first_cylinder as u32,
        cylinders: cylinders as u32,
        sectors_per_track: model.sectors_per_track as u32,
        track_skew: if bands { b } else { a },
        cylinder_skew: match (bands, model.pattern.unit < Pattern::NEVER) {
            (true, _) | (false, false) => a,
            (false, true) => b,
        },
        band_skew: bands.then_some(c),
        first_angle_turns: Some(model.track_angle(track)),
        reserved: if at_start { model.reserved } else { 0 },
        ..Zone::default()
    }
}

/// A step as a skew in sectors, less than a track.
fn skew(step: f64, spt: f64) -> f64 {
    let sectors = step * spt;
    if sectors >= spt { 0.0 } else { sectors.max(0.0) }
}

/// The skipped sectors of a part of a model that starts with a track, as physical sectors from
/// there on.
fn slips_of(model: &ZoneModel, first_lba: u64, end: u64) -> Vec<u64> {
    let start = start_of(model, first_lba);
    let skips = model.skips.iter().filter(|skip| (first_lba + 1..end).contains(&skip.lba));
    skips
        .flat_map(|skip| {
            let after = model.physical(skip.lba) - start;
            after - skip.sectors..after
        })
        .collect()
}

/// Leaves out the slips of each group beyond its spares: a few groups that are not as assumed must
/// not make the whole profile invalid.
fn limit_to_spares(slips: &mut Vec<u64>, groups: SpareGroups) {
    let (mut group, mut count) = (0, 0);
    slips.retain(|slip| {
        let of_slip = slip / (groups.lbas + groups.spares);
        (group, count) = (of_slip, if of_slip == group { count + 1 } else { 1 });
        count <= groups.spares
    });
}

/// The skipped sectors of a part, and the spares of the groups that end within it.
fn slips_and_spares(model: &ZoneModel, first_lba: u64, end: u64) -> Vec<u64> {
    let start = start_of(model, first_lba);
    let mut slips = slips_of(model, first_lba, end);
    if let Some(groups) = model.groups {
        let first = (first_lba - model.first_lba + model.reserved) / groups.lbas;
        let ends = (first + 1..).map(|number| model.group_start(groups, number));
        for lba in ends.take_while(|lba| *lba < end) {
            slips.extend(model.physical(lba - 1) + 1 - start..model.physical(lba) - start);
        }
    }
    slips.sort_unstable();
    slips.dedup();
    slips
}

/// The physical sector of a model at which a part of it starts.
fn start_of(model: &ZoneModel, first_lba: u64) -> u64 {
    if first_lba == model.first_lba {
        0
    } else {
        model.track_of(first_lba) * model.sectors_per_track
    }
}

fn gcd(one: u64, two: u64) -> u64 {
    if two == 0 { one.max(1) } else { gcd(two, one % two) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_at_most_as_many_slips_as_spares() {
        let mut slips = vec![3, 40, 41, 42, 99, 100, 250, 251, 252, 299, 300];
        limit_to_spares(&mut slips, SpareGroups { lbas: 97, spares: 3 });
        assert_eq!(slips, [3, 40, 41, 100, 250, 251, 252, 300]);
    }
}
