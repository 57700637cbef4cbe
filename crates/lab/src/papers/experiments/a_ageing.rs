//! `a.ageing`: docs/limits.md 3. The cost of ageing in throughput, and its effect on the longest
//! response.

use headtime_sim::Measures;

use super::limits::{self, TABLE};
use crate::papers::context::Context;
use crate::papers::error::ExperimentError;
use crate::papers::estimated::Estimated;
use crate::papers::load::{Load, iops};
use crate::papers::report::{Axis, Findings, FixedParameter, Panel, Plot, Point, Row, Series};
use crate::papers::table::PaperExperiment;

/// The line in the table.
pub const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.ageing",
    title: "cost of ageing, and its effect on the longest response",
    source: "docs/limits.md 3",
    takes: "5 s",
    find,
};

/// Queue lengths, and the longest response published for each in seconds: plain and aged. The
/// publication names no drive.
const QUEUES: [(u32, f64, f64); 2] = [(64, 5.9, 1.0), (256, 35.6, 3.7)];
const REQUESTS: u64 = 100_000;
/// Powers of the remaining age; 0 is no ageing, 2 is published.
const POWERS: [f64; 5] = [0.0, 0.5, 1.0, 2.0, 4.0];
/// Required agreement of a longest response, which is one event of one run, as a share (guess).
const LONGEST: f64 = 0.5;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for (queue, ..) in QUEUES {
            let policy =
                |power: &f64| format!("sptf-expected:ageing_power={power},two_from_requests=1");
            loads.extend(
                POWERS.iter().map(|power| Load::new(figures.drive, policy(power), queue, requests)),
            );
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
    findings.parameters.push(FixedParameter::new(
        "ageing",
        "cost × (1 − age / M)^p, M = 12 × the mean response; p = 2 unless a row says otherwise",
    ));
    for (figures, measured) in TABLE.iter().zip(measured.chunks(QUEUES.len() * POWERS.len())) {
        let mut series = Vec::new();
        for ((queue, plain_seconds, aged_seconds), measured) in
            QUEUES.into_iter().zip(measured.chunks(POWERS.len()))
        {
            let (plain, aged) = (&measured[0], &measured[3]);
            let what =
                |text: &str| format!("{}, queue {queue}: {text} (oracle, no noise)", figures.drive);
            let share = iops(aged).over(iops(plain)).times(100.0);
            let why = "ageing costs more here.";
            findings.rows.push(Row::between(
                what("throughput of aged SPTF, of plain SPTF's"),
                (98.8, 100.3),
                share,
                "%",
                why,
            ));
            let why = "a longest response is one event of one run, grows with the run's length, \
                and the publication names neither drive nor length.";
            findings.rows.push(Row::compared(
                what("longest response of plain SPTF"),
                plain_seconds,
                longest(plain),
                "s",
                LONGEST,
                why,
            ));
            findings.rows.push(Row::compared(
                what("longest response of aged SPTF"),
                aged_seconds,
                longest(aged),
                "s",
                LONGEST,
                why,
            ));
            let points = POWERS
                .iter()
                .zip(measured)
                .map(|(power, measures)| Point::of(*power, longest(measures)))
                .collect();
            series.push(Series::measured(format!("queue {queue} (oracle)"), points));
            let published =
                vec![Point::published(0.0, plain_seconds), Point::published(2.0, aged_seconds)];
            series.push(Series::published(format!("queue {queue} (oracle)"), published));
        }
        findings.plot.panels.push(Panel { title: figures.drive.to_string(), series });
    }
    Ok(findings)
}

/// The longest response in seconds; a maximum has no interval.
fn longest(measures: &Measures) -> Estimated {
    Estimated::new(measures.response_ms.max / 1e3, None)
}
