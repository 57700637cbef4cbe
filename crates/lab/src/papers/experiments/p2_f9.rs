//! `p2.f9`: P2, figure 9. Free bandwidth from outside the drive compared with its own firmware, and
//! the course of a whole scan.

use headtime_sched::{FillSettings, FillSource, ReadAhead};
use headtime_sim::{Measures, ScanPoint};
use headtime_units::Nanos;

use super::p2::{self, Asks, Known, Run, SW60, TASKS};
use crate::papers::load::UnitOf;
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, Panel, PaperExperiment, Plot,
    Point, Published, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p2.f9",
    title: "free bandwidth from outside and in firmware, and the course of a whole scan",
    source: "P2, figure 9 and section 5.3",
    takes: "5 min",
    find,
};

const REQUESTS: u64 = 20_000;
/// Maximum requests of a whole scan; at the published rate it takes 600,000.
const WHOLE_SCAN: u64 = 2_000_000;
/// Requests of the foreground alone, enough to detect a change of one percent in its mean and 99th
/// percentile.
const ALONE: u64 = 400_000;
/// Warm-up requests of either: few, because the cost of a scan includes its beginning.
const SETTLED: u64 = 4_000;
const UNITS: [UnitOf; 2] = [UnitOf::Nominal, UnitOf::Drawn];
const POLICIES: [(&str, &str); 3] = [("SPTF", "sptf"), ("SPTF-SW60%", SW60), ("SSTF", "sstf")];
/// The firmware's conservatism for the published comparison.
const OF_FIRMWARE: Nanos = Nanos::from_us(400);
/// The other conservatisms that the bound is the best of.
const OF_BOUND: [Nanos; 4] =
    [Nanos::ZERO, Nanos::from_us(50), Nanos::from_us(100), Nanos::from_us(200)];
/// The project's targets: minimum share in percent with the drive's read-ahead on, where only
/// sectors before a request are read with it, and with read-ahead known to be off.
const FRONT_ONLY: f64 = 65.0;
const BOTH_ENDS: f64 = 78.0;
/// Published values and targets: MB per second, and the resulting whole scans per day (the paper's
/// 37 does not follow from its rate).
const FREE: f64 = 3.1;
/// The published share of the in-firmware bandwidth, and the required agreement in points.
const PUBLISHED: f64 = 65.0;
const POINTS: f64 = 5.0;
/// The published number of scans a day, which does not follow from 3.1 MB/s.
const PUBLISHED_SCANS: f64 = 37.0;
const WHY: &str = "outside, both ends of a track are read here, and idle time is used.";
const SCANS_A_DAY: f64 = 29.0;
/// The maximum increase of the mean and the 99th percentile of the foreground's response, in
/// percent.
const IMPACT: [(&str, f64); 2] = [("mean", 1.0), ("p99", 2.0)];
const WAYS: [Way; 3] = [Way::FrontOnly, Way::BothEnds, Way::Firmware];

/// The method of filling gaps.
#[derive(Clone, Copy)]
enum Way {
    /// From outside a drive with read-ahead: one command per track, and sectors before a request
    /// together with it.
    FrontOnly,
    /// From outside a drive that is known to have no read-ahead.
    BothEnds,
    /// By the drive's own firmware.
    Firmware,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::FrontOnly => "external, read-ahead on",
            Self::BothEnds => "external, read-ahead known off",
            Self::Firmware => "in firmware (oracle)",
        }
    }

    /// A foreground with a scan, with this conservatism or the project's default.
    fn fill(self, alone: Run, margin: Option<Nanos>) -> Run {
        let front = FillSettings { conservatism: margin, ..p2::gaps_only(OF_FIRMWARE) };
        match self {
            Self::FrontOnly => alone.scanning(front),
            Self::BothEnds => Run { drive: p2::PROBED, ..alone }.scanning(FillSettings {
                read_ahead: ReadAhead::Off,
                merge_back: true,
                ..front
            }),
            Self::Firmware => alone.scanning(front).in_firmware(),
        }
    }
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let known = p2::characterized(context, &UNITS)?;
    let requests = context.requests(REQUESTS);
    let mut findings = Findings::new(
        p2::parameters(requests),
        p2::notes(&known),
        Plot::new("conservatism, ms; share of the scan done, %", "free MB/s", Axis::Linear),
    );
    findings.add_parameter("foreground", p2::OLTP);
    findings.add_parameter("background", p2::SCAN);
    shares(context, &known, requests, &mut findings)?;
    sweep(context, &known, requests, &mut findings)?;
    whole_scan(context, &known, &mut findings)?;
    findings.notes.push(p2::WHICH_TASKS.to_string());
    findings.notes.push(
        "Shares are measured at the beginning of a scan. The firmware oracle schedules the bare \
            mechanics: it knows the drive, commands and data need no transfer time, and \
            two commands on one track do no harm."
            .to_string(),
    );
    findings.notes.push(format!(
        "Of whole scans, and of the foreground alone beside them, all requests but the first {} \
            are counted.",
        context.requests(SETTLED)
    ));
    findings.notes.push(
        "With read-ahead known off the experiment runs on atlas10k, whose cache is disabled; \
            else on atlas10k@p2. Conservatism of the project's own choice is four deviations of \
            the arrival as learned, at least 0.1 ms."
            .to_string(),
    );
    Ok(findings)
}

/// Shares of the firmware's free bandwidth, by foreground scheduler: at the published margin, and
/// of the most at any margin, which is the bound.
fn shares(
    context: &Context<'_>,
    known: &[Known],
    requests: u64,
    findings: &mut Findings,
) -> Result<(), ExperimentError> {
    let mut runs = Vec::new();
    let mut points = Vec::new();
    for known in known {
        for tasks in TASKS {
            for (name, policy) in POLICIES {
                let alone = Run::outside(known, policy, Asks::Oltp { tasks }, requests);
                let margins = OF_BOUND.into_iter().chain([OF_FIRMWARE]);
                runs.extend(margins.map(|margin| Way::Firmware.fill(alone.clone(), Some(margin))));
                for margin in [Some(OF_FIRMWARE), None] {
                    runs.extend(
                        [Way::FrontOnly, Way::BothEnds].map(|way| way.fill(alone.clone(), margin)),
                    );
                }
                points.push((known, tasks, name));
            }
        }
    }
    let measured = context.run(&runs)?;
    let bounds = OF_BOUND.len() + 1;
    for ((known, tasks, policy), measured) in points.into_iter().zip(measured.chunks(bounds + 4)) {
        let (in_firmware, outside) = measured.split_at(bounds);
        let firmware = p2::free(&in_firmware[bounds - 1]);
        let bound = in_firmware.iter().map(p2::free).max_by(|a, b| a.value.total_cmp(&b.value));
        let bound = bound.expect("one for each margin");
        let what =
            |text: String| format!("{policy}, OLTP, {tasks} tasks: {text} ({})", known.words());
        let name = what("free MB/s in firmware at 0.4 ms, oracle".to_string());
        findings.rows.push(Row::unpublished(
            name,
            firmware,
            "MB/s",
            "The base of the published share; the paper plots it without a number.",
        ));
        findings.rows.push(Row::unpublished(
            what("free MB/s in firmware at the best conservatism, oracle: the bound".to_string()),
            bound,
            "MB/s",
            "The base of all other shares: the drive's own times, no overhead, nothing held back.",
        ));
        let most = outside.iter().map(p2::free).max_by(|a, b| a.value.total_cmp(&b.value));
        let most = most.expect("four runs from outside").over(bound).times(100.0);
        let judged = Judged::at_most(100.0, most, "nothing exceeds a bound").target();
        let name = what("largest share of the bound from outside, of four settings".to_string());
        findings.rows.push(Row::new(name, "%", judged, "the bound is none."));
        for (place, measures) in outside.iter().enumerate() {
            let (way, least) =
                [(Way::FrontOnly.name(), FRONT_ONLY), (Way::BothEnds.name(), BOTH_ENDS)][place % 2];
            let margin = if place < 2 { "0.4 ms" } else { "default conservatism" };
            let why = format!("{:.2} MB/s.", p2::free(measures).value);
            // As published: one request per track and the same conservatism.
            if place == 0 {
                let share = p2::free(measures).over(firmware).times(100.0);
                let name = format!("{way}, {margin}, share of the in-firmware oracle's at 0.4 ms");
                let reason = "points of percent, a guess: \"≈ 35 %\" less";
                let judged = Judged::effect(PUBLISHED, share, POINTS, reason);
                findings.rows.push(Row::new(what(name), "%", judged, &why));
            }
            let share = p2::free(measures).over(bound).times(100.0);
            let name = what(format!("target: {way}, {margin}, share of the bound"));
            let judged = Judged::at_least(least, share, "target of the project").target();
            findings.rows.push(Row::new(name, "%", judged, &why));
        }
    }
    Ok(())
}

/// Free bandwidth against conservatism, as the figure has it.
fn sweep(
    context: &Context<'_>,
    known: &[Known],
    requests: u64,
    findings: &mut Findings,
) -> Result<(), ExperimentError> {
    let margins: Vec<Nanos> = p2::conservatism().collect();
    let tasks = TASKS[1];
    let runs: Vec<Run> = known
        .iter()
        .flat_map(|known| WAYS.map(|way| (known, way)))
        .flat_map(|(known, way)| {
            let alone = Run::outside(known, SW60, Asks::Oltp { tasks }, requests);
            margins
                .iter()
                .map(move |margin| way.fill(alone.clone(), Some(*margin)))
                .collect::<Vec<_>>()
        })
        .collect();
    let measured = context.run(&runs)?;
    for (known, measured) in known.iter().zip(measured.chunks(WAYS.len() * margins.len())) {
        let series = WAYS.iter().zip(measured.chunks(margins.len())).map(|(way, measured)| {
            let points = margins
                .iter()
                .zip(measured)
                .map(|(margin, measures)| Point::of(margin.as_ms_f64(), p2::free(measures)));
            Series::measured(way.name(), points.collect())
        });
        let title = format!("SPTF-SW60%, {tasks} tasks ({})", known.unit.words());
        findings.add_panel(title, series.collect());
    }
    Ok(())
}

/// One scan from the first sector to the last with the settings that ship, beside the foreground
/// alone.
fn whole_scan(
    context: &Context<'_>,
    known: &[Known],
    findings: &mut Findings,
) -> Result<(), ExperimentError> {
    let mut runs = Vec::new();
    for known in known {
        for tasks in TASKS {
            let outside = Run::outside(known, SW60, Asks::Oltp { tasks }, context.requests(ALONE));
            let alone = Run { warm_up: Some(context.requests(SETTLED)), ..outside };
            let shipped = FillSettings { read_ahead: ReadAhead::On, ..FillSettings::default() };
            let scan =
                Run { requests: context.requests(WHOLE_SCAN), passes: Some(1), ..alone.clone() }
                    .scanning(shipped);
            runs.extend([alone, scan]);
        }
    }
    let measured = context.run(&runs)?;
    let points = known.iter().flat_map(|known| TASKS.map(|tasks| (known, tasks)));
    for ((known, tasks), measured) in points.zip(measured.chunks(2)) {
        let [alone, scanned] = measured else { unreachable!("a pair for each") };
        findings.rows.extend(scan_rows(known, tasks, alone, scanned));
        findings.plot.panels.push(scan_panel(known, tasks, scanned));
    }
    Ok(())
}

fn scan_rows(known: &Known, tasks: u32, alone: &Measures, scanned: &Measures) -> Vec<Row> {
    let what = |text: &str| {
        format!(
            "SPTF-SW60%, OLTP, {tasks} tasks, a whole scan as shipped: {text} ({})",
            known.words()
        )
    };
    let mut rows = Vec::new();
    let Some(scan) = &scanned.scan else { return rows };
    let half_width = scan.half_width_mb;
    let target = |text: &str, limit: f64, measured: Estimated, unit| {
        let judged = Judged::at_least(limit, measured, "target of the project").target();
        Row::new(what(&format!("target: {text}")), unit, judged, "the target is missed.")
    };
    for percent in [50, 90, 95] {
        let Some(point) = scan.progress.get(percent - 1) else { continue };
        let rate = point.mb.iter().sum::<f64>() / point.seconds;
        let name = format!("free MB/s until {percent} % are done");
        rows.push(target(&name, FREE, Estimated::new(rate, half_width), "MB/s"));
    }
    match scan.progress.last().filter(|last| last.done >= 1.0) {
        Some(last) => {
            let rate = last.mb.iter().sum::<f64>() / last.seconds;
            let free = Estimated::new(rate, half_width);
            let a_day = 86_400.0 / last.seconds;
            let scans = Estimated::new(a_day, half_width.map(|width| width / rate * a_day));
            let reason = "a tenth, a guess: the same drive and load";
            let (name, a_day) = ("free MB/s, first to last sector", "scans per day");
            rows.extend([
                Row::new(what(name), "MB/s", Judged::effect(FREE, free, 0.1 * FREE, reason), WHY),
                target(name, FREE, free, "MB/s"),
                Row::new(
                    what(a_day),
                    "a day",
                    Judged::effect(PUBLISHED_SCANS, scans, 0.1 * PUBLISHED_SCANS, reason),
                    "3.1 MB/s make 29 scans a day, not the published 37.",
                ),
                target(a_day, SCANS_A_DAY, scans, "a day"),
            ]);
            for source in [FillSource::Gap, FillSource::Merged, FillSource::Idle, FillSource::Share]
            {
                let share = last.mb[source as usize] / last.mb.iter().sum::<f64>() * 100.0;
                let why = "Not published: the source of the scan's sectors.";
                rows.push(Row::unpublished(
                    what(&format!("share read from {}", source.name())),
                    exactly(share),
                    "%",
                    why,
                ));
            }
        }
        None => {
            let why = "The scan did not end within so few requests; run it at scale 1.";
            rows.push(Row::not_run(
                what("free MB/s, first to last sector"),
                Published::Number(FREE),
                "MB/s",
                why,
            ));
            rows.push(Row::not_run(
                what("scans per day"),
                Published::Number(PUBLISHED_SCANS),
                "a day",
                why,
            ));
        }
    }
    if let (Some(begin), Some(late)) =
        (rate_from(&scan.progress, 0, 10), rate_from(&scan.progress, 85, 95))
    {
        let share = exactly(late / begin * 100.0);
        let why = "docs/limits.md 7 has 32 to 36 % of the gaps' yield at 90 % done for other fill \
            settings.";
        rows.push(Row::unpublished(
            what("from gaps about 90 % done, as a share of the beginning"),
            share,
            "%",
            why,
        ));
    }
    for ((name, most), of) in IMPACT
        .into_iter()
        .zip([|m: &Measures| m.response_ms.mean, |m: &Measures| m.response_ms.p99])
    {
        let grown = (of(scanned) / of(alone) - 1.0) * 100.0;
        let half_width =
            |m: &Measures| m.confidence.response_ms.map(|width| width / m.response_ms.mean * 100.0);
        let half_width = if name == "mean" {
            half_width(alone).zip(half_width(scanned)).map(|(one, two)| libm::hypot(one, two))
        } else {
            None
        };
        let text = what(&format!("foreground's {name} response grown by"));
        let grown = Estimated::new(grown, half_width);
        rows.push(if name == "mean" {
            let judged = Judged::at_most(most, grown, "target of the project").target();
            Row::new(text, "%", judged, "the target is missed.")
        } else {
            let why = format!(
                "A quantile of one run has no interval, and is not judged; the target is at most \
                    {most} %."
            );
            Row::unpublished(text, grown, "%", &why)
        });
    }
    let estimated = exactly(scan.estimated_impact * 100.0);
    let why = "The scheduler's own estimate of the increase: its bound of 1 % is \
        kept by this figure.";
    rows.push(Row::unpublished(
        what("foreground's mean response grown by, by its own estimate"),
        estimated,
        "%",
        why,
    ));
    rows
}

/// MB per second from gaps, alone and merged, while the scan went from one percent to another.
fn rate_from(progress: &[ScanPoint], from: usize, to: usize) -> Option<f64> {
    let gaps = |point: &ScanPoint| {
        point.mb[FillSource::Gap as usize] + point.mb[FillSource::Merged as usize]
    };
    let start = from.checked_sub(1).map_or(Some((0.0, 0.0)), |place| {
        progress.get(place).map(|point| (point.seconds, gaps(point)))
    })?;
    let end = progress.get(to.checked_sub(1)?)?;
    let seconds = end.seconds - start.0;
    (seconds > 0.0).then(|| (gaps(end) - start.1) / seconds)
}

fn exactly(value: f64) -> Estimated {
    Estimated::new(value, None)
}

/// The rate of the scan by its progress: in total, and from gaps alone.
fn scan_panel(known: &Known, tasks: u32, scanned: &Measures) -> Panel {
    let progress: &[ScanPoint] = scanned.scan.as_ref().map_or(&[], |scan| &scan.progress);
    let mut series = ["all sources", "gaps"].map(|name| Series::measured(name, Vec::new()));
    let mut before = (0.0, 0.0, 0.0);
    for (percent, point) in progress.iter().enumerate().filter(|(place, _)| place % 5 == 4) {
        let all: f64 = point.mb.iter().sum();
        let gaps = point.mb[FillSource::Gap as usize] + point.mb[FillSource::Merged as usize];
        let seconds = point.seconds - before.0;
        if seconds > 0.0 {
            let x = percent as f64 - 1.5;
            series[0].points.push(Point::of(x, exactly((all - before.1) / seconds)));
            series[1].points.push(Point::of(x, exactly((gaps - before.2) / seconds)));
        }
        before = (point.seconds, all, gaps);
    }
    Panel {
        title: format!("a whole scan, {tasks} tasks ({})", known.unit.words()),
        series: series.to_vec(),
    }
}
