//! `p5.f11`: P5, figure 11. Three streams that start and stop.

use headtime_sched::Terms;
use headtime_units::Nanos;
use headtime_workload::StreamConfig;

use super::p5::{self, Course, Member, Run};
use crate::papers::context::Context;
use crate::papers::error::ExperimentError;
use crate::papers::estimated::Estimated;
use crate::papers::report::{
    Axis, Findings, FixedParameter, Panel, Plot, Point, Published, Row, Series,
};
use crate::papers::table::PaperExperiment;
use crate::papers::verdict::Judged;

/// The line in the table.
pub const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p5.f11",
    title: "three streams that start and stop",
    source: "P5, figure 11 and section 4.4",
    takes: "5 s",
    find,
};

/// Name, first and last second, and reserved share in percent. The paper gives the times, but not
/// the reservations.
const STREAMS: [(&str, u64, u64, f64); 3] =
    [("random 1", 0, 60, 30.0), ("sequential 2", 10, 30, 40.0), ("random 3", 20, 50, 30.0)];
/// The times at which a stream starts or stops.
const PHASES: [u64; 6] = [0, 10, 20, 30, 50, 60];
/// The settling time after a change.
const SETTLES: f64 = 2.0;
/// Parts of a phase whose scatter gives an interval.
const PARTS: usize = 4;
/// Points of percent by which a stream may fall short of its reservation.
const WITHIN: f64 = 2.0;
const EVERY: f64 = 0.5;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let members = STREAMS.iter().map(|(name, from, until, reserved)| {
        let config = if name.starts_with("random") { p5::random() } else { p5::runs_of(p5::RUN) };
        let config = StreamConfig {
            start: Nanos::from_secs(*from),
            stop: Some(Nanos::from_secs(*until)),
            ..config
        };
        Member { config, terms: Terms::reserving(p5::percent(*reserved)) }
    });
    let seconds = PHASES[PHASES.len() - 1] as f64;
    let course = context
        .run(&[Run::new("three streams", "utilization", members.collect(), seconds)])?
        .remove(0);
    let mut findings = Findings {
        parameters: p5::parameters(seconds),
        plot: Plot {
            x_label: "time, s",
            y_label: "share of disk time in the second before, %",
            x_axis: Axis::Linear,
            panels: Vec::new(),
        },
        ..Findings::default()
    };
    let reserved = STREAMS
        .map(|(name, from, until, reserved)| {
            format!("{name} {reserved} % from {from} to {until} s")
        })
        .join(", ");
    findings.parameters.push(FixedParameter::new(
        "reserved",
        format!("{reserved}; the paper does not give the reservations"),
    ));
    for phase in PHASES.windows(2) {
        findings.rows.extend(rows(&course, phase[0], phase[1]));
    }
    let line = |(stream, (name, ..)): (usize, &(&str, u64, u64, f64))| {
        Series::measured(
            *name,
            (2..=(seconds / EVERY) as usize)
                .map(|number| number as f64 * EVERY)
                .map(|at| Point::published(at, course.share(stream, at - 1.0, at) * 100.0))
                .collect(),
        )
    };
    findings.plot.panels.push(Panel {
        title: "three streams".to_string(),
        series: STREAMS.iter().enumerate().map(line).collect(),
    });
    Ok(findings)
}

fn rows(course: &Course, from: u64, until: u64) -> Vec<Row> {
    let active = |(_, start, stop, _): &(&str, u64, u64, f64)| *start <= from && *stop >= until;
    let mut rows = Vec::new();
    for (stream, line) in STREAMS.iter().enumerate().filter(|(_, line)| active(line)) {
        let (name, _, _, reserved) = *line;
        let what = |text: &str| {
            format!(
                "{from} to {until} s: {name}, {text} (simulated drive with \
                noise)"
            )
        };
        let share = {
            let (from, until) = (from as f64 + SETTLES, until as f64);
            let part = (until - from) / PARTS as f64;
            let share = |number: usize| {
                let from = from + part * number as f64;
                course.share(stream, from, from + part) * 100.0
            };
            Estimated::of_runs(&(0..PARTS).map(share).collect::<Vec<f64>>())
        };
        let reason = format!("{WITHIN} points below its reservation, a guess");
        let judged = Judged::at_least(reserved - WITHIN, share, &reason);
        rows.push(Row::new(
            what("share of disk time once settled"),
            "%",
            judged.published(Published::Shape("at least its reservation or a fair share")),
            "it falls short of its reservation.",
        ));
        let first = course.share(stream, from as f64, from as f64 + 1.0) * 100.0;
        let why = "The published transients take about a second; figure 11 gives no numbers.";
        rows.push(Row::unpublished(
            what("share of disk time in the first second"),
            Estimated::new(first, None),
            "%",
            why,
        ));
    }
    rows
}
