//! `a.ageing`: docs/limits.md 3. The cost of ageing in throughput, and its effect on the longest
//! response.

use headtime_sim::Measures;

use super::limits::{self, TABLE};
use crate::papers::load::Load;
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point,
    Published, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.ageing",
    title: "cost of ageing, and its effect on the longest response",
    source: "docs/limits.md 3",
    takes: "5 s",
    find,
};

/// Queue lengths, and the longest response published for each in seconds: plain and aged. The
/// publication names no drive.
const QUEUES: [(u32, f64, f64); 2] = [(64, 5.9, 1.0), (256, 35.6, 3.7)];
const REQUESTS: u64 = 50_000;
/// Runs of each point on other requests: a longest response is one event of a run.
const RUNS: u64 = 5;
/// Powers of the remaining age; 0 is no ageing, 2 is published.
const POWERS: [f64; 5] = [0.0, 0.5, 1.0, 2.0, 4.0];
/// Required agreement of the cut of the longest response, as a share of one (guess).
const CUT: f64 = 0.1;
/// The published range of throughput has one digit after the point: percent.
const ROUNDING: f64 = 0.1;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for (queue, ..) in QUEUES {
            let policy =
                |power: &f64| format!("sptf-expected:ageing_power={power},two_from_requests=1");
            loads.extend(POWERS.iter().flat_map(|power| {
                (0..RUNS).map(move |replica| Load {
                    replica,
                    ..Load::new(figures.drive, policy(power), queue, requests)
                })
            }));
        }
    }
    let measured = context.run(&loads)?;
    let mut findings = Findings::new(
        limits::parameters(requests),
        limits::notes(),
        Plot::new(
            "power of the remaining age (0: no ageing)",
            "longest response, seconds",
            Axis::Linear,
        ),
    );
    findings.add_parameter(
        "ageing",
        "cost × (1 − age / M)^p, M = 12 × the mean response; p = 2 unless a row says otherwise",
    );
    findings.add_parameter(
        "runs",
        format!("{RUNS} of each point on other requests; intervals by Student's distribution"),
    );
    for (figures, measured) in
        TABLE.iter().zip(measured.chunks(QUEUES.len() * POWERS.len() * RUNS as usize))
    {
        let mut series = Vec::new();
        for ((queue, plain_seconds, aged_seconds), measured) in
            QUEUES.into_iter().zip(measured.chunks(POWERS.len() * RUNS as usize))
        {
            let points: Vec<&[Measures]> = measured.chunks(RUNS as usize).collect();
            let (plain, aged) = (points[0], points[3]);
            let what =
                |text: &str| format!("{}, queue {queue}: {text} (oracle, no noise)", figures.drive);
            let of_runs = |of: fn(&Measures, &Measures) -> f64| {
                let runs = plain.iter().zip(aged).map(|(plain, aged)| of(plain, aged));
                Estimated::of_runs(&runs.collect::<Vec<f64>>())
            };
            let gain = of_runs(|plain, aged| (aged.iops / plain.iops - 1.0) * 100.0);
            let reason = "the rounding of the published range";
            findings.rows.push(Row::new(
                what("change of throughput by ageing"),
                "%",
                Judged::between((-1.2, 0.3), gain, ROUNDING, reason),
                "ageing costs more here.",
            ));
            let cut = of_runs(|plain, aged| aged.response_ms.max / plain.response_ms.max - 1.0);
            let published = libm::round((aged_seconds / plain_seconds - 1.0) * 1e3) / 1e3;
            let reason = "a guess: the publication names neither drive nor length of the run";
            findings.rows.push(Row::new(
                what("change of the longest response by ageing"),
                "share",
                Judged::effect(published, cut, CUT, reason),
                "the longest response of plain SPTF grows with the length of a run.",
            ));
            for (name, published, runs) in
                [("plain", plain_seconds, plain), ("aged", aged_seconds, aged)]
            {
                findings.rows.push(Row::not_judged(
                    what(&format!("longest response of {name} SPTF")),
                    Published::Number(published),
                    longest(runs),
                    "s",
                    "A longest response grows with the length of a run, which the publication \
                        does not give.",
                ));
            }
            let points = POWERS
                .iter()
                .zip(&points)
                .map(|(power, runs)| Point::of(*power, longest(runs)))
                .collect();
            series.push(Series::measured(format!("queue {queue} (oracle)"), points));
            let published =
                vec![Point::published(0.0, plain_seconds), Point::published(2.0, aged_seconds)];
            series.push(Series::published(format!("queue {queue} (oracle)"), published));
        }
        findings.add_panel(figures.drive, series);
    }
    Ok(findings)
}

/// The longest response of each run in seconds, as a mean of runs.
fn longest(runs: &[Measures]) -> Estimated {
    let seconds = runs.iter().map(|measures| measures.response_ms.max / 1e3);
    Estimated::of_runs(&seconds.collect::<Vec<f64>>())
}
