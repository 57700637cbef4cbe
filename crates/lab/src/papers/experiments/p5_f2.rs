//! `p5.f2`: P5, figure 2. The reservable rate of requests, and the achievable rate.

use super::p5::{self, Member, Run};
use crate::papers::context::Context;
use crate::papers::error::ExperimentError;
use crate::papers::estimated::Estimated;
use crate::papers::report::{Axis, Findings, Panel, Plot, Point, Row, Series};
use crate::papers::table::PaperExperiment;
use headtime_sched::Terms;

/// The line in the table.
pub const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p5.f2",
    title: "reservable and achievable rates as sequentiality grows",
    source: "P5, figure 2 and section 1",
    takes: "10 s",
    find,
};

/// Requests of a run; 1 is random.
const RUNS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];
/// Share of the achievable rate that can be reserved (P5, section 1: "less than 1 % of achievable
/// disk performance is reservable").
const OF_ACHIEVABLE: f64 = 0.05;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let run = |requests: u64| {
        let config = if requests == 1 { p5::random() } else { p5::runs_of(requests) };
        Run::new(
            format!("runs of {requests}"),
            "fcfs",
            vec![Member { config, terms: Terms::default() }],
            seconds,
        )
    };
    let courses = context.run(&RUNS.map(run))?;
    let worst = Estimated::new(courses[0].min_rate(0, 1.0), None);
    let rates: Vec<f64> = courses.iter().map(|course| course.settled_rate(0)).collect();
    let mut findings = Findings {
        parameters: p5::parameters(seconds),
        plot: Plot {
            x_label: "requests of a sequential run",
            y_label: "requests per second",
            x_axis: Axis::PowersOfTwo,
            panels: Vec::new(),
        },
        ..Findings::default()
    };
    let what = "reservable: the fewest random requests in any second (simulated drive with noise)";
    let why = "the paper's drive was measured, this one is computed from its data sheet.";
    findings.rows.push(Row::compared(what, 60.0, worst, "requests per second", 0.2, why));
    findings.rows.push(Row::compared(
        "achievable: random (simulated drive with noise)",
        68.0,
        Estimated::new(rates[0], None),
        "requests per second",
        0.1,
        why,
    ));
    for (requests, rate) in RUNS.iter().zip(&rates).skip(1) {
        let what = format!("achievable: runs of {requests} (simulated drive with noise)");
        findings.rows.push(Row::unpublished(
            what,
            Estimated::new(*rate, None),
            "requests per second",
            "Figure 2 gives no numbers.",
        ));
    }
    let most = rates[RUNS.len() - 1];
    let part = Estimated::new(worst.value / most, None);
    let what = "runs of 1024: reservable over achievable (simulated drive with noise)";
    let reason = "The paper says less than 1 %; its requests were joined below, ours cross the bus \
        one by one. It is orders of magnitude all the same.";
    findings.rows.push(Row::judged(
        what,
        crate::papers::report::Published::Shape("orders of magnitude apart"),
        part,
        "ratio",
        part.value <= OF_ACHIEVABLE,
        reason.into(),
    ));
    let line = |name: &str, value: &dyn Fn(usize) -> f64| {
        Series::measured(
            name,
            RUNS.iter()
                .enumerate()
                .map(|(place, requests)| Point::published(*requests as f64, value(place)))
                .collect(),
        )
    };
    let series =
        vec![line("achievable", &|place| rates[place]), line("reservable", &|_| worst.value)];
    findings.plot.panels.push(Panel { title: "one stream".to_string(), series });
    Ok(findings)
}
