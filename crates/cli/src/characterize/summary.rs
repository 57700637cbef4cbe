//! The findings, as a table and as JSON.

use std::fmt::Write as _;

use headtime_io::characterize::{RunCounts, check_line, clock};
use headtime_mechanics::profile::{TrackOrder, Zone, ZoneAccuracy};
use headtime_mechanics::{DriveProfile, Mechanism};
use headtime_probe::{
    Deviation, Figure, Finding, PredictionErrors, QueueBehavior, RemappedSector, SelfCheck, Verdict,
};
use headtime_units::Nanos;
use serde::Serialize;

use headtime_console::output::columns;

/// The cost of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// Time in which the drive was at work.
    pub drive_seconds: f64,
    /// The most it could have been.
    pub bound_seconds: f64,
    /// Wall time of this run.
    pub wall_seconds: f64,
    /// Reads of all runs.
    pub reads: u64,
    /// Those that failed.
    pub failures: u64,
    /// The number of times the drive disconnected in this run.
    pub interruptions: u64,
    /// The longest time from a completion to the next read in this run, microseconds.
    pub longest_gap_us: f64,
}

/// The answer as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct CharacterizeOutput<'a> {
    /// The identity of the drive.
    pub drive: &'a str,
    /// The result in one word: `characterized`, `doubtful`, `not_understood`, `no_rotating_drive`,
    /// `gone`, `replaced`, `unfinished`.
    pub kind: &'static str,
    /// The same in a sentence.
    pub verdict: String,
    /// The path of the profile, if one was written.
    pub out: Option<String>,
    /// The drive; none when it does not turn or was not understood.
    pub profile: Option<&'a DriveProfile>,
    /// Each figure with its standard error; none where it was taken for granted rather than seen.
    pub figures: Vec<FigureAnswer<'a>>,
    /// The prediction errors of fresh reads.
    pub check: Option<&'a SelfCheck>,
    /// The shares of them that were predicted, by zone.
    pub zone_checks: &'a [ZoneAccuracy],
    /// The reasons why not all of them were.
    pub deviations: &'a [Deviation],
    /// True if the order of tracks within a cylinder or band was seen rather than assumed.
    pub track_order_seen: bool,
    /// The behavior of the drive's own queue.
    pub queue: Option<&'a QueueBehavior>,
    /// Sectors that come late again and again, of those that the self-check came upon.
    pub remapped: &'a [RemappedSector],
    /// The properties that were not found, not understood or only sampled.
    pub remarks: &'a [String],
    /// The cost of the measurement.
    pub cost: Cost,
}

/// One figure.
#[derive(Debug, Serialize)]
pub(crate) struct FigureAnswer<'a> {
    name: &'a str,
    value: f64,
    error: Option<f64>,
    is_lower_bound: bool,
}

impl Cost {
    /// The summary of a finding and the run that ended with it.
    pub(crate) fn of(
        finding: &Finding,
        counts: &RunCounts,
        bound: Nanos,
        wall_seconds: f64,
    ) -> Self {
        Self {
            drive_seconds: finding.drive_time.as_secs_f64(),
            bound_seconds: bound.as_secs_f64(),
            wall_seconds,
            reads: finding.reads,
            failures: finding.failures,
            interruptions: counts.interruptions,
            longest_gap_us: counts.longest_gap.as_us_f64(),
        }
    }
}

impl<'a> CharacterizeOutput<'a> {
    /// The summary of a finding; `profile` is its profile with its name.
    pub(crate) fn of(
        drive: &'a str,
        finding: &'a Finding,
        profile: Option<&'a DriveProfile>,
        out: Option<String>,
        cost: Cost,
    ) -> Self {
        let figure = |figure: &'a Figure| FigureAnswer {
            name: &figure.name,
            value: figure.value,
            error: Some(figure.error).filter(|error| error.is_finite()),
            is_lower_bound: figure.is_lower_bound,
        };
        Self {
            drive,
            verdict: finding.verdict.sentence(),
            kind: kind(&finding.verdict),
            out,
            profile,
            figures: finding.figures.iter().map(figure).collect(),
            check: finding.check.as_ref(),
            zone_checks: &finding.zone_checks,
            deviations: &finding.deviations,
            track_order_seen: finding.track_order_seen,
            queue: finding.queue.as_ref(),
            remapped: &finding.remapped,
            remarks: &finding.remarks,
            cost,
        }
    }
}

fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Characterized { .. } => "characterized",
        Verdict::Doubtful { .. } => "doubtful",
        Verdict::NotUnderstood { .. } => "not_understood",
        Verdict::NoRotatingDrive { .. } => "no_rotating_drive",
        Verdict::Gone { .. } => "gone",
        Verdict::Replaced { .. } => "replaced",
        Verdict::Unfinished { .. } => "unfinished",
    }
}

/// The answer as a table, with the remarks below it.
pub(crate) fn text(answer: &CharacterizeOutput<'_>) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    row("drive", answer.drive.to_owned());
    row("verdict", answer.verdict.clone());
    if let Some(profile) = answer.profile {
        describe(profile, answer, &mut row);
    }
    if let Some(check) = answer.check {
        row("self-check", check_line(check));
        if check.long.reads > 0 {
            let PredictionErrors { reads, within_50_us, within_150_us, .. } = check.long;
            row(
                "",
                format!(
                    "of {reads} of 40 KiB, {:.1} % within 50 us, {:.1} % within 150 us",
                    within_50_us * 100.0,
                    within_150_us * 100.0
                ),
            );
        }
        for (number, zone) in answer.zone_checks.iter().enumerate() {
            let ZoneAccuracy { first_lba, reads, within_50_us, within_150_us } = zone;
            row(
                if number == 0 { "by zone" } else { "" },
                format!(
                    "from {first_lba}: {:.1} % within 50 us, {:.1} % within 150 us, of {reads}",
                    within_50_us * 100.0,
                    within_150_us * 100.0
                ),
            );
        }
        for (number, deviation) in answer.deviations.iter().enumerate() {
            let share = deviation.share * 100.0;
            let name = if number == 0 { "not within 50 us" } else { "" };
            row(name, format!("{share:.1} %: {}", deviation.reason));
        }
    }
    let cost = &answer.cost;
    let seconds = |seconds: f64| clock(Nanos::from_ns((seconds * 1e9) as u64));
    let failed = if cost.failures > 0 {
        format!(", {} of them failed", cost.failures)
    } else {
        String::new()
    };
    let away = if cost.interruptions > 0 {
        format!("; the drive disconnected {} times", cost.interruptions)
    } else {
        String::new()
    };
    row(
        "cost",
        format!(
            "{} of drive time (at most {}), {} reads{failed}{away}",
            seconds(cost.drive_seconds),
            seconds(cost.bound_seconds),
            cost.reads
        ),
    );
    if let Some(out) = &answer.out {
        row("profile", out.clone());
    }
    let mut text = columns(&rows, &[false, false]);
    if let Some(check) = answer.check.filter(|check| check.short.reads > 0) {
        let _ = write!(
            text,
            "completed later than predicted by (us), reads of 4 KiB\n{}",
            check.short.histogram_text(40)
        );
    }
    // The verdict stands above already.
    let remarks: Vec<&String> =
        answer.remarks.iter().filter(|remark| **remark != answer.verdict).collect();
    if !remarks.is_empty() {
        text.push_str("remarks\n");
    }
    for remark in remarks {
        let _ = writeln!(text, "  - {remark}");
    }
    text
}

fn describe(
    profile: &DriveProfile,
    answer: &CharacterizeOutput<'_>,
    row: &mut impl FnMut(&str, String),
) {
    if let Ok(period) = profile.rotation_period() {
        let ppm = answer
            .figures
            .iter()
            .find(|figure| figure.name.starts_with("period"))
            .and_then(|figure| Some(figure.error? / figure.value * 1e6));
        let sure = ppm.map_or_else(String::new, |ppm| format!(", ± {ppm:.2} ppm"));
        row(
            "rotation",
            format!("{:.2} rpm, {:.4} us a turn{sure}", period.as_rpm(), period.as_ns_f64() / 1e3),
        );
    }
    let band = profile
        .geometry
        .band_cylinders
        .map_or_else(String::new, |band| format!(", bands of {band} cylinders"));
    let cylinders: u64 = profile.zones.iter().map(|zone| u64::from(zone.cylinders)).sum();
    let cylinders =
        if profile.zones.is_empty() { String::new() } else { format!(", {cylinders} cylinders") };
    let filled = match (profile.geometry.heads, answer.track_order_seen) {
        (1, _) => "1 head".to_owned(),
        (heads, true) => format!("{heads} heads, filled {}", order(profile.geometry.layout)),
        (heads, false) => {
            format!("{heads} heads, filled cylinder by cylinder, heads in an order not seen")
        }
    };
    row("geometry", format!("{filled}{cylinders}{band}"));
    if !profile.runs.is_empty() {
        row("layout", format!("{} rows of like tracks", profile.runs.len()));
    }
    if !profile.zones.is_empty() {
        zones(&profile.zones, row);
    }
    if let Ok(mechanism) = Mechanism::nominal(profile) {
        let curve = mechanism.seek_curve();
        let points = profile.seek.points.len();
        let times = (curve.time(1), mechanism.mean_arm_time(), curve.longest());
        row(
            "seek",
            format!(
                "{} to the next cylinder, {} in the mean, {} at most; {points} distances measured",
                times.0, times.1, times.2
            ),
        );
    }
    let settle = if profile.seek.write_settle_ms > 0.0 {
        format!("{:.3} ms", profile.seek.write_settle_ms)
    } else {
        "not measured".to_owned()
    };
    row("head switch", format!("{:.3} ms; write settle {settle}", profile.seek.head_switch_ms));
    let interface = &profile.interface;
    let zero = if profile.firmware.zero_latency_read {
        "a track is read from any sector on"
    } else {
        "a track is read from its first sector on"
    };
    row(
        "interface",
        format!("{:.1} us a command, bus {}; {zero}", interface.read_command_us, bus(answer)),
    );
    row(
        "cache",
        profile.cache.map_or_else(
            || "none seen".to_owned(),
            |cache| {
                format!(
                    "{} segments of {} sectors, reads ahead {} sectors, a hit takes {:.0} us",
                    cache.segments,
                    cache.segment_sectors,
                    cache.read_ahead_sectors,
                    cache.read_hit_us
                )
            },
        ),
    );
    row("queue", answer.queue.map_or_else(|| "not measured".to_owned(), QueueBehavior::sentence));
    let second = profile.second_actuator.as_deref();
    if let Some((arm, mechanism)) = second.zip(Mechanism::nominal(&profile.of_actuator(1)).ok()) {
        let tracks = |zone: Option<&Zone>| zone.map_or(0, |zone| zone.sectors_per_track);
        row(
            "second arm",
            format!(
                "{} heads, {} zones, {} sectors a track outside, {} inside; a seek takes {} in the \
                    mean",
                arm.geometry.heads,
                arm.zones.len(),
                tracks(arm.zones.first()),
                tracks(arm.zones.last()),
                mechanism.mean_arm_time()
            ),
        );
    }
    let zones = profile.zones.iter().chain(second.iter().flat_map(|arm| &arm.zones));
    let slips: usize = zones.map(|zone| zone.slips.len()).sum();
    row(
        "defects",
        format!(
            "{slips} slipped sectors; of those checked {} are late as remapped ones are",
            answer.remapped.len()
        ),
    );
}

/// The bus rate, as far as it was measured.
fn bus(answer: &CharacterizeOutput<'_>) -> String {
    let figure = answer.figures.iter().find(|figure| figure.name.starts_with("bus"));
    match figure {
        Some(figure) if figure.is_lower_bound => {
            format!("at least {:.1} MB/s (it keeps up with the media)", figure.value)
        }
        Some(figure) => format!("{:.1} MB/s", figure.value),
        None => "not measured".to_owned(),
    }
}

fn zones(zones: &[Zone], row: &mut impl FnMut(&str, String)) {
    let (first, last) = (&zones[0], &zones[zones.len() - 1]);
    let borders = 1 + zones
        .windows(2)
        .filter(|pair| pair[0].sectors_per_track != pair[1].sectors_per_track)
        .count();
    row(
        "zones",
        format!(
            "{borders}, {} sectors a track outside, {} inside",
            first.sectors_per_track, last.sectors_per_track
        ),
    );
    let turns = |skew: fn(&Zone) -> f64| {
        let of = |zone: &Zone| skew(zone) / f64::from(zone.sectors_per_track.max(1)) * 360.0;
        let (least, most) = zones
            .iter()
            .map(of)
            .fold((f64::MAX, f64::MIN), |(least, most), turn| (least.min(turn), most.max(turn)));
        if most - least < 0.5 {
            format!("{most:.1}°")
        } else {
            format!("{least:.1} to {most:.1}°")
        }
    };
    let band = if zones.iter().any(|zone| zone.band_skew.is_some()) {
        format!(", band {}", turns(|zone| zone.band_skew.unwrap_or(0.0)))
    } else {
        String::new()
    };
    row(
        "skews",
        format!(
            "track {}, cylinder {}{band}",
            turns(|zone| zone.track_skew),
            turns(|zone| zone.cylinder_skew)
        ),
    );
}

fn order(order: TrackOrder) -> &'static str {
    match order {
        TrackOrder::Cylinder => "cylinder by cylinder",
        TrackOrder::Serpentine => "cylinder by cylinder, heads up and down in turn",
        TrackOrder::SurfaceSerpentine => "surface by surface, in and out in turn",
        TrackOrder::Banded => "surface by surface, always inwards",
    }
}
