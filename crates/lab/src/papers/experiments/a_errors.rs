//! `a.errors`: docs/limits.md 4. The remaining gain of SPTF with errors of prediction, by most
//! likely and by expected cost.

use headtime_sim::Measures;

use super::limits::{self, TABLE, best_by_address};
use crate::papers::load::{ExperimentModel, Load, UnitOf, iops};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Panel, PaperExperiment, Plot, Point, Row,
    Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.errors",
    title: "gain of SPTF with errors of prediction, by most likely and by expected cost",
    source: "docs/limits.md 4",
    takes: "20 s",
    find,
};

const QUEUES: [u32; 2] = [64, 256];
/// Simulated drives for each point, and requests counted on each.
const UNITS: u64 = 5;
const REQUESTS: u64 = 10_000;
/// Standard deviations in microseconds, and the share of the gain in percent that was published: by
/// expected cost, and by most likely cost.
const ERRORS: [(u32, Range, Option<Range>); 5] = [
    (50, (92.0, 94.0), None),
    (150, (80.0, 80.0), Some((53.0, 71.0))),
    (300, (65.0, 65.0), None),
    (600, (41.0, 41.0), None),
    (1_500, (0.0, 0.0), None),
];
type Range = (f64, f64);
/// Required agreement, in points of percent beyond the published range, which covers unnamed drives
/// and queues (guess).
const POINTS: f64 = 5.0;
/// Without ageing and with two commands at the drive at every queue length, so that only the cost
/// differs.
const EXPECTED: &str = "sptf-expected:ageing_power=0,two_from_requests=1";
/// The runs on each simulated drive: both orders by address, exact SPTF, and the two compared
/// orders.
const RUNS: usize = 5;

/// The two compared policies on one drive at one queue length under one kind of error.
#[derive(Clone, Copy)]
struct Kept {
    expected: Estimated,
    likely: Estimated,
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for queue in QUEUES {
            for (unit, model_source) in kinds() {
                loads.extend((0..UNITS).flat_map(|replica| {
                    let load = move |policy: &str| Load {
                        replica,
                        ..Load::new(figures.drive, policy, queue, requests)
                            .outstanding(2)
                            .on(unit)
                            .knowing(model_source)
                    };
                    [load("clook"), load("sstf"), load("sptf-oracle"), load(EXPECTED), load("sptf")]
                }));
            }
        }
    }
    let measured = context.run(&loads)?;
    let mut findings = Findings::new(
        limits::parameters(requests),
        limits::notes(),
        Plot::new(
            "error of the arm, microseconds (one standard deviation)",
            "share of SPTF's gain, %",
            Axis::Linear,
        ),
    );
    findings.add_parameter(
        "gain",
        "requests per second beyond the better of C-LOOK and SSTF; SPTF \
            that knows the unit's errors has all of it",
    );
    findings.add_parameter(
        "units",
        format!("{UNITS} for each point; intervals from their scatter by Student's distribution"),
    );
    findings.add_parameter(
        "tolerance",
        format!("{POINTS} points of percent beyond the published range"),
    );
    findings.add_parameter("commands at the drive", "2");
    let points = TABLE.iter().flat_map(|figures| QUEUES.map(|queue| (figures.drive, queue)));
    for ((drive, queue), measured) in
        points.zip(measured.chunks((ERRORS.len() + 1) * UNITS as usize * RUNS))
    {
        let kept: Vec<Kept> = measured.chunks(UNITS as usize * RUNS).map(over_units).collect();
        findings.rows.extend(rows(drive, queue, &kept));
        findings.plot.panels.push(panel(drive, queue, &kept));
    }
    findings.notes.push(
        "The arm of each unit errs by region of the drive, the same every time, and nothing is \
            learned: predictions stay those of the nominal unit."
            .to_string(),
    );
    findings.notes.push(
        "The rows on a learned model learn, on units drawn with all the noise of their profile; \
            their gain is that of exact SPTF on the same units."
            .to_string(),
    );
    Ok(findings)
}

/// Simulated drives and the knowledge of them: one for each error, and that of a real server.
fn kinds() -> impl Iterator<Item = (UnitOf, ExperimentModel)> {
    let erring = ERRORS
        .into_iter()
        .map(|(us, ..)| (UnitOf::ArmErrs(us), ExperimentModel::Nominal { spread_us: us }));
    erring.chain([(UnitOf::Drawn, ExperimentModel::Learned)])
}

fn over_units(measured: &[Measures]) -> Kept {
    let share = |judged: usize| {
        let of_unit = |runs: &[Measures]| {
            let (none, all) = (best_by_address(&runs[0], &runs[1]), iops(&runs[2]));
            iops(&runs[judged]).share_of_way(none, all).times(100.0).value
        };
        Estimated::of_runs(&measured.chunks(RUNS).map(of_unit).collect::<Vec<f64>>())
    };
    Kept { expected: share(3), likely: share(4) }
}

fn rows(drive: &str, queue: u32, kept: &[Kept]) -> Vec<Row> {
    let mut rows = Vec::new();
    let published =
        ERRORS.iter().map(|(_, expected, likely)| (Some(*expected), *likely)).chain([(None, None)]);
    for (((unit, model_source), kept), (expected, likely)) in kinds().zip(kept).zip(published) {
        for (name, kept, published) in
            [("expected", kept.expected, expected), ("most likely", kept.likely, likely)]
        {
            let what = format!(
                "{drive}, queue {queue}: share of SPTF's gain by {name} cost ({}, {})",
                model_source.words(),
                unit.words()
            );
            let why = "the drives differ, and with them how short the waits are that SPTF likes \
                best; the publication names neither drive nor queue.";
            rows.push(match published {
                Some(range) => limits::in_points(what, range, kept, POINTS, why),
                None => Row::unpublished(what, kept, "%", "Not published: for comparison."),
            });
        }
    }
    rows
}

fn panel(drive: &str, queue: u32, kept: &[Kept]) -> Panel {
    let line = |name: &str, published, points| Series {
        name: format!("by {name} cost (oracle of the nominal drive)"),
        published,
        points,
    };
    let measured = |of: fn(&Kept) -> Estimated| {
        ERRORS
            .iter()
            .zip(kept)
            .map(|((us, ..), kept)| Point::of(f64::from(*us), of(kept)))
            .collect()
    };
    let published = ERRORS
        .iter()
        .map(|(us, (low, high), _)| Point::published(f64::from(*us), 0.5 * (low + high)))
        .collect();
    let series = vec![
        line("expected", true, published),
        line("expected", false, measured(|kept| kept.expected)),
        line("most likely", false, measured(|kept| kept.likely)),
    ];
    Panel { title: format!("{drive}, queue {queue}"), series }
}
