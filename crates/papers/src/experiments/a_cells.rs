//! `a.cells`: docs/limits.md 5. Cells of a latency matrix average rotation away once they are as long as a track.

use super::limits::{self, TABLE, best_by_address};
use crate::context::Context;
use crate::error::ExperimentError;
use crate::estimators::CellTime;
use crate::load::{Knowledge, Load, iops};
use crate::report::{Axis, Findings, Panel, Parameter, Plot, Point, Row, Series};
use crate::table::Experiment;

/// The line in the table.
pub const EXPERIMENT: Experiment =
    Experiment { id: "a.cells", title: "what cells of a latency matrix leave of SPTF's gain", source: "docs/limits.md 5", takes: "5 s", find };

const QUEUES: [u32; 2] = [64, 256];
const REQUESTS: u64 = 30_000;
const TIMES: [CellTime; 3] = [CellTime::Mean, CellTime::Worst, CellTime::Once];
/// Cell sizes in KiB and what was published for a track of about 128 KiB: the share of the gain in percent.
const CELLS: [(u64, Range); 4] = [(8, (80.0, 80.0)), (16, (50.0, 50.0)), (32, (12.0, 24.0)), (128, (-23.0, -18.0))];
/// Published for 128 KiB cells on tracks of 2 MB.
const LONG_TRACK: Range = (55.0, 63.0);
type Range = (f64, f64);
/// Agreement asked for, in points of percent beyond the published range (guess).
const POINTS: f64 = 8.0;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for queue in QUEUES {
            let load = |policy: &str| Load::new(figures.drive, policy, queue, requests).outstanding(2);
            loads.extend([load("clook"), load("sstf"), load("sptf-oracle")]);
            for (kib, _) in CELLS {
                loads.extend(TIMES.map(|time| load("sptf").knowing(Knowledge::Cells { bytes: kib * 1024, time })));
            }
        }
    }
    let measured = context.run(&loads)?;
    let mut findings = Findings {
        parameters: limits::parameters(requests),
        notes: limits::notes(),
        plot: Plot { x_label: "cell, KiB", y_label: "share of SPTF's gain, %", x_axis: Axis::PowersOfTwo, panels: Vec::new() },
        ..Findings::default()
    };
    findings
        .parameters
        .push(Parameter::new("gain", "requests a second beyond the better of C-LOOK and SSTF; exact SPTF has all of it; two at the drive"));
    findings.parameters.push(Parameter::new("tolerance", format!("{POINTS} points of percent beyond the published range")));
    for ((figures, queue), measured) in
        TABLE.iter().flat_map(|figures| QUEUES.map(|queue| (figures, queue))).zip(measured.chunks(3 + TIMES.len() * CELLS.len()))
    {
        let (by_address, exact) = (best_by_address(&measured[0], &measured[1]), iops(&measured[2]));
        let mut lines = TIMES.map(|_| Vec::new());
        for ((kib, published), measured) in CELLS.iter().zip(measured[3..].chunks(TIMES.len())) {
            for (place, time) in TIMES.into_iter().enumerate() {
                let kept = iops(&measured[place]).share_of_way(by_address, exact).times(100.0);
                let knowledge = Knowledge::Cells { bytes: kib * 1024, time };
                let what = format!("{}, queue {queue}: share of SPTF's gain, SPTF on a {} (no noise)", figures.drive, knowledge.words());
                let range = match (figures.drive, kib) {
                    ("atlas10k", _) => Some(*published),
                    (_, 128) => Some(LONG_TRACK),
                    _ => None,
                };
                // P1 keeps the worst time; the others show what that choice does.
                findings.rows.push(match (range, time) {
                    (Some(range), CellTime::Worst) => limits::in_points(what, range, kept, POINTS, WHY),
                    (None, _) => Row::unpublished(what, kept, "%", "Nobody published it: on tracks of 2 MB only 128 KiB were tried."),
                    _ => Row::unpublished(what, kept, "%", "Nobody published it: it shows what comes of keeping another time than the worst."),
                });
                lines[place].push(Point::of(*kib as f64, kept));
            }
        }
        let mut series: Vec<Series> =
            TIMES.into_iter().zip(lines).map(|(time, points)| Series { name: time.words().to_string(), published: false, points }).collect();
        let middle = |(low, high): &Range| 0.5 * (low + high);
        let published = match figures.drive {
            "atlas10k" => CELLS.iter().map(|(kib, range)| Point::published(*kib as f64, middle(range))).collect(),
            _ => vec![Point::published(128.0, middle(&LONG_TRACK))],
        };
        series.push(Series { name: "published".to_string(), published: true, points: published });
        findings.plot.panels.push(Panel { title: format!("{}, queue {queue}", figures.drive), series });
    }
    findings.notes.push("The matrix is full and without error from the start: what is lost is lost by the size of its cells alone.".to_string());
    findings.notes.push(
        "The publication does not say which time of a pair its cells kept, nor at which queue; compared is the worst, which is what P1 keeps."
            .to_string(),
    );
    Ok(findings)
}

/// Only cells about as long as a track come to need it.
const WHY: &str = "over cells as long as a track the worst time is a whole turn for every pair, which leaves the order by seek; below that falls a matrix \
     that takes times by accident for times of pairs, as the row of pairs observed once shows.";
