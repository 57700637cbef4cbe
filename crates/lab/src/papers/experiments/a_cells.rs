//! `a.cells`: docs/limits.md 5. Cells of a latency matrix that are as long as a track average out
//! rotation.

use std::sync::Arc;

use headtime_belief::matrix::{Directions, MatrixSettings};
use headtime_units::ByteSize;

use super::limits::{self, TABLE, best_by_address};
use super::p1::{self, Collect, Knows, Run};
use crate::papers::estimators::CellTime;
use crate::papers::load::{ExperimentModel, Load, UnitOf, iops};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, PaperExperiment, Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.cells",
    title: "gain of SPTF by size of the cells of a latency matrix",
    source: "docs/limits.md 5",
    takes: "20 s",
    find,
};

const QUEUES: [u32; 2] = [64, 256];
const REQUESTS: u64 = 30_000;
const TIMES: [CellTime; 3] = [CellTime::Mean, CellTime::Worst, CellTime::Once];
/// Cell sizes in KiB and the published share of the gain in percent, if any, for a track of about
/// 128 KiB.
const CELLS: [(u64, Option<Range>); 6] = [
    (4, None),
    (8, Some((80.0, 80.0))),
    (16, Some((50.0, 50.0))),
    (32, Some((12.0, 24.0))),
    (64, None),
    (128, Some((-23.0, -18.0))),
];
/// Number of pairs of fixed positions, as a share of P1's first drive at full scale.
const SHARE_OF_FIXED: f64 = 0.01;
const REQUESTS_OF_FIXED: u64 = 10_000;
/// Published for 128 KiB cells on tracks of 2 MB.
const LONG_TRACK: Range = (55.0, 63.0);
type Range = (f64, f64);
/// Required agreement, in points of percent beyond the published range (guess).
const POINTS: f64 = 8.0;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for queue in QUEUES {
            let load =
                |policy: &str| Load::new(figures.drive, policy, queue, requests).outstanding(2);
            loads.extend([load("clook"), load("sstf"), load("sptf-oracle")]);
            for (kib, _) in CELLS {
                loads.extend(TIMES.map(|time| {
                    load("sptf").knowing(ExperimentModel::Cells { bytes: kib * 1024, time })
                }));
            }
        }
    }
    let measured = context.run(&loads)?;
    let mut findings = Findings::new(
        limits::parameters(requests),
        limits::notes(),
        Plot::new("cell, KiB", "share of SPTF's gain, %", Axis::PowersOfTwo),
    );
    findings.add_parameter(
        "gain",
        "requests per second beyond the better of C-LOOK and SSTF; \
            exact SPTF has all of it; two at the drive",
    );
    findings.add_parameter(
        "tolerance",
        format!("{POINTS} points of percent beyond the published range"),
    );
    for ((figures, queue), measured) in TABLE
        .iter()
        .flat_map(|figures| QUEUES.map(|queue| (figures, queue)))
        .zip(measured.chunks(3 + TIMES.len() * CELLS.len()))
    {
        let (by_address, exact) = (best_by_address(&measured[0], &measured[1]), iops(&measured[2]));
        let mut lines = TIMES.map(|_| Vec::new());
        for ((kib, published), measured) in CELLS.iter().zip(measured[3..].chunks(TIMES.len())) {
            for (place, time) in TIMES.into_iter().enumerate() {
                let kept = iops(&measured[place]).share_of_way(by_address, exact).times(100.0);
                let model_source = ExperimentModel::Cells { bytes: kib * 1024, time };
                let what = format!(
                    "{}, queue {queue}: share of SPTF's gain, SPTF on a {} (no noise)",
                    figures.drive,
                    model_source.words()
                );
                let range = match (figures.drive, kib) {
                    ("atlas10k", _) => *published,
                    (_, 128) => Some(LONG_TRACK),
                    _ => None,
                };
                // P1 keeps the worst time; the others show the effect of that choice.
                findings.rows.push(match (range, time) {
                    (Some(range), CellTime::Worst) => {
                        limits::in_points(what, range, kept, POINTS, WHY)
                    }
                    (None, _) => Row::unpublished(
                        what,
                        kept,
                        "%",
                        "Not published: other sizes were not \
                            tested, and only 128 KiB on tracks of 2 MB.",
                    ),
                    _ => Row::unpublished(
                        what,
                        kept,
                        "%",
                        "Not published: shows the effect of keeping another time than the worst.",
                    ),
                });
                lines[place].push(Point::of(*kib as f64, kept));
            }
        }
        let mut series: Vec<Series> = TIMES
            .into_iter()
            .zip(lines)
            .map(|(time, points)| Series::measured(time.words(), points))
            .collect();
        let middle = |(low, high): &Range| 0.5 * (low + high);
        let published = match figures.drive {
            "atlas10k" => CELLS
                .iter()
                .filter_map(|(kib, range)| {
                    Some(Point::published(*kib as f64, middle(range.as_ref()?)))
                })
                .collect(),
            _ => vec![Point::published(128.0, middle(&LONG_TRACK))],
        };
        series.push(Series::published("published", published));
        findings.add_panel(format!("{}, queue {queue}", figures.drive), series);
    }
    fixed(context, &mut findings)?;
    findings.notes.push(
        "The matrix is full and exact from the start: all loss is due to the size of its cells."
            .to_string(),
    );
    findings.notes.push(
        "The publication names neither the time that its cells keep nor the queue length; the \
            worst time is compared, which P1 keeps."
            .to_string(),
    );
    Ok(findings)
}

/// Few fixed positions, as in the paper, with the published matrix collected pair by pair from
/// completion times.
fn fixed(context: &Context<'_>, findings: &mut Findings) -> Result<(), ExperimentError> {
    let (positions, requests) =
        (p1::positions(context, SHARE_OF_FIXED), context.requests(REQUESTS_OF_FIXED));
    let all = [Directions::Worse, Directions::Both];
    let collect = |kib: u64, directions| {
        let settings = MatrixSettings {
            cell: ByteSize::new(kib << 10),
            directions,
            ..MatrixSettings::default()
        };
        Collect { unit: UnitOf::Nominal, ..Collect::of(FIXED_ON, positions, settings) }
    };
    let maps = context.run(
        &CELLS
            .iter()
            .flat_map(|(kib, _)| all.map(|directions| collect(*kib, directions)))
            .collect::<Vec<_>>(),
    )?;
    for queue in QUEUES {
        let run = |policy: &str, knows: Knows| Run {
            unit: UnitOf::Nominal,
            outstanding: Some(1),
            ..Run::of(FIXED_ON, policy, knows, positions, queue, requests)
        };
        let bounds = ["clook", "sstf", "sptf-oracle"].map(|policy| run(policy, Knows::Model));
        let by_maps = maps.iter().map(|map| run("sptf", Knows::Map(Arc::clone(map))));
        let measured = context.run(&bounds.into_iter().chain(by_maps).collect::<Vec<_>>())?;
        let (by_address, exact) = (best_by_address(&measured[0], &measured[1]), iops(&measured[2]));
        let mut lines = all.map(|_| Vec::new());
        for ((kib, _), measured) in CELLS.iter().zip(measured[3..].chunks(all.len())) {
            for (place, words) in
                ["worse of two directions", "both directions"].into_iter().enumerate()
            {
                let kept = iops(&measured[place]).share_of_way(by_address, exact).times(100.0);
                let what = format!(
                    "{FIXED_ON}, queue {queue}, {positions} fixed positions: share of SPTF's gain, \
                        SPTF on a matrix of {kib} KiB cells, {words} (no noise)"
                );
                findings.rows.push(Row::unpublished(
                    what,
                    kept,
                    "%",
                    "Not published: P1 gives throughput for cells of 128 KiB only.",
                ));
                lines[place].push(Point::of(*kib as f64, kept));
            }
        }
        let series =
            ["fixed positions, worse of two directions", "fixed positions, both directions"]
                .into_iter()
                .zip(lines);
        let series = series.map(|(name, points)| Series::measured(name, points)).collect();
        findings.add_panel(format!("{FIXED_ON}, queue {queue}, fixed positions"), series);
    }
    findings.add_parameter(
        "fixed positions",
        format!(
            "{positions} on {FIXED_ON}, one at the drive, 4 bits, the matrix collected pair by \
            pair; {requests} requests a point"
        ),
    );
    findings.notes.push(
        "With fixed positions hardly two lie in one cell, so that a cell is a position and its \
            size does not matter; what is lost is lost by few bits and by keeping the worse of two \
            directions."
            .to_string(),
    );
    Ok(())
}

/// The drive whose tracks are about as long as the published cells.
const FIXED_ON: &str = "atlas10k";

/// Only cells about as long as a track come to need it.
const WHY: &str = "over cells as long as a track the worst time is a whole revolution for every \
    pair, which leaves the order by seek; below that falls a matrix that takes times by accident \
    for times of pairs, as the row of pairs observed once shows.";
