//! `p5.f2`: P5, figure 2. The reservable rate of requests, and the achievable rate.

use super::p5::{self, Member, Run};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Row,
    Series,
};
use headtime_sched::Terms;

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
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
const OF_ACHIEVABLE: f64 = 0.01;
/// Published random rates: the worst case (section 4.1) and the mean (section 4.3).
const WORST: f64 = 60.0;
const MEAN: f64 = 68.0;
/// Required agreement of both, as a share.
const AGREEMENT: f64 = 0.1;

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
    let worst = courses[0].min_rate(0, 1.0);
    let rates: Vec<Estimated> = courses.iter().map(|course| course.rate_of(0)).collect();
    let mut findings = Findings::new(
        p5::parameters(seconds),
        Vec::new(),
        Plot::new("requests of a sequential run", "requests per second", Axis::PowersOfTwo),
    );
    let what = "reservable: the fewest random requests in any second (simulated drive with noise)";
    let why = "the paper's drive was measured, this one is computed from its data sheet.";
    let reason = "10 %, a guess: a drive of a data sheet";
    findings.rows.push(Row::new(
        what,
        "requests per second",
        Judged::effect(WORST, context.minimum(worst), AGREEMENT * WORST, reason),
        why,
    ));
    findings.rows.push(Row::new(
        "achievable: random (simulated drive with noise)",
        "requests per second",
        Judged::effect(MEAN, rates[0], AGREEMENT * MEAN, reason),
        why,
    ));
    for (requests, rate) in RUNS.iter().zip(&rates).skip(1) {
        let what = format!("achievable: runs of {requests} (simulated drive with noise)");
        findings.rows.push(Row::unpublished(
            what,
            *rate,
            "requests per second",
            "Figure 2 gives no numbers.",
        ));
    }
    let part = courses[RUNS.len() - 1]
        .of_parts(|from, until| worst / courses[RUNS.len() - 1].rate(0, from, until));
    findings.rows.push(Row::new(
        "runs of 1024: reservable over achievable (simulated drive with noise)",
        "share",
        Judged::at_most(OF_ACHIEVABLE, part, "as published"),
        "its requests were joined below the scheduler, ours cross the bus one by one.",
    ));
    let line = |name: &str, value: &dyn Fn(usize) -> Estimated| {
        Series::measured(
            name,
            RUNS.iter()
                .enumerate()
                .map(|(place, requests)| Point::of(*requests as f64, value(place)))
                .collect(),
        )
    };
    let series = vec![
        line("achievable", &|place| rates[place]),
        line("reservable", &|_| Estimated::new(worst, None)),
    ];
    findings.add_panel("one stream", series);
    Ok(findings)
}
