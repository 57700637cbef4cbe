//! [`Finding`]: the profile that was found, how sure each figure is, and what it cost.

use core::fmt::Write as _;

use headtime_mechanics::ProfileError;
use headtime_mechanics::profile::{
    DriveProfile, Firmware, Geometry as ProfileGeometry, Interface, Rotation, Seek, Zone,
};
use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::geometry::Geometry;
use crate::knowledge::Knowledge;
use crate::layout::ZoneSketch;
use crate::numbers::{median, quantile};
use crate::queue::{QueueBehavior, QueueFound};
use crate::verdict::Verdict;

/// What a probe found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What came of it.
    pub verdict: Verdict,
    /// The drive as it was found; none when it does not turn or its layout was not understood.
    pub profile: Option<DriveProfile>,
    /// Each figure with its uncertainty.
    pub figures: Vec<Figure>,
    /// The self-check, if it was come to.
    pub check: Option<SelfCheck>,
    /// What was seen of the drive's own queue, if that was come to and the way to the drive takes
    /// more than one command.
    pub queue: Option<QueueBehavior>,
    /// Sectors that came late again and again, as remapped ones do; of those that the self-check
    /// came upon.
    pub remapped: Vec<RemappedSector>,
    /// What was not found, not understood or only sampled, as sentences.
    pub remarks: Vec<String>,
    /// Time in which the drive was at work for the probe.
    pub drive_time: Nanos,
    /// Reads that it took.
    pub reads: u64,
    /// Writes of what was read before; 0 unless they were allowed.
    pub writes: u64,
    /// Commands that failed.
    pub failures: u64,
}

/// A sector that does not come by where its neighbors do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemappedSector {
    /// Which.
    pub lba: u64,
    /// How much later than predicted its read completes, microseconds, median of several.
    pub late_us: f64,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What, with its unit.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Its standard error in the same unit; infinite when the figure was taken for granted rather
    /// than seen.
    pub error: f64,
}

/// How well the profile predicts reads that it was not made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Reads of 4 KiB that went to the media.
    pub reads: u64,
    /// Reads of either length that came from the cache, which are not counted above.
    pub hits: u64,
    /// Reads of either length that failed.
    pub failed: u64,
    /// Share of the 4 KiB reads predicted within 50 us.
    pub within_50_us: f64,
    /// Share within 150 us.
    pub within_150_us: f64,
    /// Share that completed half a turn or more away from what was predicted.
    pub turn_missed: f64,
    /// Median of the error's size, microseconds.
    pub median_error_us: f64,
    /// All of the 4 KiB reads.
    pub short: PredictionErrors,
    /// All of the 40 KiB reads.
    pub long: PredictionErrors,
}

/// How far completions were from what was predicted; later is positive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionErrors {
    /// How many reads.
    pub reads: u64,
    /// Share within 50 us.
    pub within_50_us: f64,
    /// Share within 150 us.
    pub within_150_us: f64,
    /// Median of the error's size, microseconds.
    pub median_size_us: f64,
    /// Errors at [`PredictionErrors::PERCENTILES`], microseconds.
    pub percentiles_us: [f64; 7],
    /// Reads in each class of [`PredictionErrors::EDGES_US`]: below the first edge, between each two, above
    /// the last.
    pub histogram: [u64; 13],
}

impl PredictionErrors {
    /// What share of the errors lies below each of [`PredictionErrors::percentiles_us`], in percent.
    pub const PERCENTILES: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];
    /// Borders of the histogram's classes, microseconds.
    pub const EDGES_US: [f64; 12] =
        [-2_000.0, -500.0, -150.0, -50.0, -20.0, -5.0, 5.0, 20.0, 50.0, 150.0, 500.0, 2_000.0];

    /// Of errors in microseconds.
    #[must_use]
    pub fn of(errors_us: &[f64]) -> Self {
        let count = errors_us.len().max(1) as f64;
        let within =
            |us: f64| errors_us.iter().filter(|error| error.abs() <= us).count() as f64 / count;
        let mut histogram = [0; 13];
        for error in errors_us {
            histogram[Self::EDGES_US.iter().filter(|edge| *error > **edge).count()] += 1;
        }
        Self {
            reads: errors_us.len() as u64,
            within_50_us: within(50.0),
            within_150_us: within(150.0),
            median_size_us: median(&errors_us.iter().map(|error| error.abs()).collect::<Vec<_>>()),
            percentiles_us: Self::PERCENTILES.map(|percent| quantile(errors_us, percent / 100.0)),
            histogram,
        }
    }

    /// The histogram as lines of text, one for each class: its borders, a bar of at most `width`
    /// characters, the share.
    #[must_use]
    pub fn histogram_text(&self, width: usize) -> String {
        let most = self.histogram.iter().copied().max().unwrap_or(0).max(1);
        let edge = |place: usize| Self::EDGES_US[place];
        let mut text = String::new();
        for (place, count) in self.histogram.iter().enumerate() {
            let class = match place {
                0 => format!("         below {:>6}", edge(0)),
                12 => format!("         above {:>6}", edge(11)),
                _ => format!("{:>9} to {:>8}", edge(place - 1), edge(place)),
            };
            let bar = "#".repeat((count * width as u64).div_ceil(most) as usize);
            let share = 100.0 * *count as f64 / self.reads.max(1) as f64;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{class} us {bar:<width$} {share:5.1} %");
        }
        text
    }
}

/// What a step of the arm is timed to, ns.
const TIMED_TO_NS: f64 = 20_000.0;

/// Everything that is known so far as a profile.
pub(crate) fn profile_of(
    know: &Knowledge,
    sector_bytes: u32,
) -> Result<DriveProfile, ProfileError> {
    let geometry = Geometry::new(know);
    let (period_ns, _) = know.clock.mean_period_ns();
    let base_ns = overhead_ns(know, &geometry, period_ns);
    let first_spt = know.zones.first().map_or(1, |zone| zone.sectors_per_track);
    // A bus that was not seen keeps up with the media: twice as fast, a guess.
    let bus_ns = know.interface.bus_ns_per_sector.unwrap_or(period_ns / first_spt as f64 / 2.0);
    let points: Vec<(u32, f64)> = know
        .seek
        .curve
        .points
        .iter()
        .map(|(distance, found)| {
            (*distance as u32, libm::round((found.ns - base_ns).max(0.0) / 1e3) / 1e3)
        })
        .collect();
    let written = know.writes.as_ref();
    let (write_command_us, write_completion_us) =
        match written.and_then(|found| found.overhead_us(bus_ns)) {
            Some((command, completion)) => {
                (rounded_us(command * 1e3), Some(rounded_us(completion * 1e3)))
            }
            // Where nothing was written a write is taken to cost what a read does.
            None => ((base_ns - bus_ns).max(0.0) / 1e3, None),
        };
    let write_back = written.is_some_and(|found| found.write_back == Some(true));
    let write_hit_us =
        written.and_then(|found| found.hit_ns).map(|(ns, _)| rounded_us((ns - bus_ns).max(0.0)));
    let firmware = know
        .queue
        .as_ref()
        .map_or(Firmware { queue_depth: 1, ..Firmware::default() }, QueueFound::firmware);
    let profile = DriveProfile {
        name: "characterized".into(),
        model: "characterized from outside".into(),
        description: "As found by timed reads alone".into(),
        sector_bytes,
        physical_sector_bytes: None,
        capacity_sectors: Some(know.capacity * if know.arms.two { 2 } else { 1 }),
        rotation: Rotation { rpm: None, period_us: Some(period_ns / 1e3) },
        geometry: ProfileGeometry {
            heads: geometry.heads as u16,
            layout: geometry.order,
            band_cylinders: (geometry.band > 1).then_some(geometry.band as u32),
            actuators: know.arms.two.then_some(2),
        },
        zones: zones_of(know, &geometry),
        runs: Vec::new(),
        seek: Seek {
            head_switch_ms: know.seek.other_head_ns.map_or(0.0, |ns| (ns - base_ns).max(0.0) / 1e6),
            write_settle_ms: written
                .and_then(|found| found.settle_ns(base_ns))
                .map_or(0.0, |(ns, _)| rounded_us(ns) / 1e3),
            points: if points.is_empty() { vec![(1, 1.0)] } else { points },
            formula: None,
        },
        interface: Interface {
            read_command_us: (base_ns - bus_ns).max(0.0) / 1e3,
            write_command_us,
            completion_us: 0.0,
            write_completion_us,
            bus_mb_per_s: f64::from(sector_bytes) * 1e3 / bus_ns,
            ..Interface::default()
        },
        firmware: Firmware { zero_latency_read: know.interface.zero_latency, ..firmware },
        cache: know
            .cache
            .as_ref()
            .and_then(|found| found.profile(bus_ns, write_back, write_hit_us)),
        variation: Default::default(),
        setup: Default::default(),
    };
    profile.validate()?;
    Ok(profile)
}

/// Command overhead and a sector on the bus. Where it was not timed, a hit in the cache stands for
/// it, which may be answered in less. What a command takes beside the arm shows where one read goes
/// on over the end of a track: skews are there for the next track to be reached in time, so that
/// the arm takes no longer than they do, and the rest of what a read of that track takes is the
/// command's.
fn overhead_ns(know: &Knowledge, geometry: &Geometry, period_ns: f64) -> f64 {
    let base_ns = know.seek.same_track_ns.unwrap_or(0.0);
    if know.hit_ns.is_none() {
        return base_ns;
    }
    let in_bands = geometry.band > 1;
    let step_ns = |kind: usize| {
        let steps = know
            .zones
            .iter()
            .filter(|zone| !zone.lost && zone.steps[kind] > 0.0)
            .map(|zone| zone.steps[kind]);
        steps.min_by(f64::total_cmp).map(|turns| turns * period_ns)
    };
    let next_cylinder =
        know.seek.curve.points.first().filter(|point| point.0 == 1).map(|point| point.1.ns);
    // Surfaces follow each other on a cylinder, or cylinders on a surface.
    let (of_head, of_cylinder) =
        if in_bands { (1, 0) } else { (0, usize::from(geometry.heads > 1)) };
    let timed = [(know.seek.other_head_ns, of_head), (next_cylinder, of_cylinder)];
    let needed =
        timed.into_iter().filter_map(|(ns, kind)| Some(ns? + TIMED_TO_NS - step_ns(kind)?));
    let max_ns = timed.into_iter().filter_map(|(ns, _)| ns).fold(f64::INFINITY, f64::min);
    needed.fold(base_ns, f64::max).min(max_ns.max(base_ns))
}

/// Nanoseconds as microseconds, without decimals that mean nothing.
fn rounded_us(ns: f64) -> f64 {
    libm::round(ns / 100.0) / 10.0
}

fn zones_of(know: &Knowledge, geometry: &Geometry) -> Vec<Zone> {
    let mut zones = Vec::new();
    let mut cylinder = 0;
    for sketch in &know.zones {
        let end = sketch.end_lba.unwrap_or(know.capacity);
        let mut first_lba = sketch.first_lba;
        if let Some(groups) = sketch.groups {
            let whole = (end - sketch.first_lba) / groups.lbas;
            let tracks_of_group = (groups.lbas + groups.spares) / sketch.sectors_per_track;
            let cylinders = tracks_of_group / geometry.heads;
            let behind = sketch.first_lba + whole * groups.lbas;
            if whole > 0 {
                let mut zone = zone_of(sketch, first_lba, cylinder, whole * cylinders);
                zone.spares = groups.spares;
                zone.spare_cylinders = (whole > 1).then_some(cylinders as u32);
                zone.slips = slips_of(sketch, first_lba, behind);
                cylinder += whole * cylinders;
                zones.push(zone);
            }
            first_lba = behind;
        }
        if first_lba < end {
            let before = if first_lba == sketch.first_lba { 0 } else { sketch.track_of(first_lba) };
            let cylinders = geometry
                .cylinders_up_to(sketch, sketch.track_of(end - 1))
                .saturating_sub(before / geometry.heads)
                .max(1);
            let mut zone = zone_of(sketch, first_lba, cylinder, cylinders);
            zone.slips = slips_of(sketch, first_lba, end);
            // All that is stepped over must lie on the zone's cylinders.
            let needed = zone.reserved + (end - first_lba) + zone.slips.len() as u64;
            let missing = needed.saturating_sub(zone.physical_sectors(geometry.heads as u16));
            zone.cylinders += missing.div_ceil(zone.cylinder_sectors(geometry.heads as u16)) as u32;
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

/// A zone of the profile that starts at an address on a whole cylinder of a sketch; its spares and
/// slips are left out.
fn zone_of(sketch: &ZoneSketch, first_lba: u64, first_cylinder: u64, cylinders: u64) -> Zone {
    let spt = sketch.sectors_per_track as f64;
    let at_start = first_lba == sketch.first_lba;
    let track = if at_start { 0 } else { sketch.track_of(first_lba) };
    let [a, b, c] = sketch.steps.map(|step| skew(step, spt));
    let bands = sketch.pattern.in_bands();
    Zone {
        first_cylinder: first_cylinder as u32,
        cylinders: cylinders as u32,
        sectors_per_track: sketch.sectors_per_track as u32,
        track_skew: if bands { b } else { a },
        cylinder_skew: match (bands, sketch.pattern.unit < crate::layout::Pattern::NEVER) {
            (true, _) | (false, false) => a,
            (false, true) => b,
        },
        band_skew: bands.then_some(c),
        first_angle_turns: Some(sketch.track_angle(track)),
        reserved: if at_start { sketch.reserved } else { 0 },
        ..Zone::default()
    }
}

/// A step as a skew in sectors, which is less than a track.
fn skew(step: f64, spt: f64) -> f64 {
    let sectors = step * spt;
    if sectors >= spt { 0.0 } else { sectors.max(0.0) }
}

/// The skips of a part of a sketch that starts with a track, as physical sectors from there on.
fn slips_of(sketch: &ZoneSketch, first_lba: u64, end: u64) -> Vec<u64> {
    let start = if first_lba == sketch.first_lba {
        0
    } else {
        sketch.track_of(first_lba) * sketch.sectors_per_track
    };
    let skips = sketch.skips.iter().filter(|skip| (first_lba + 1..end).contains(&skip.lba));
    skips
        .flat_map(|skip| {
            let behind = sketch.physical(skip.lba) - start;
            behind - skip.sectors..behind
        })
        .collect()
}
