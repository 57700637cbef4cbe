//! `p5.f1` and `p5.f10`: P5, figures 1 and 10. The progress of a sequential stream with 70 % and a
//! random one with 30 %, by disk time and by throughput.

use super::p5::{self, Course, Run, STREAMS};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, FixedParameter, Judged, Panel, PaperExperiment, Plot,
    Point, Published, Row, Series,
};

/// The line in the table for figure 1.
pub(crate) const BY_TIME: PaperExperiment = PaperExperiment {
    id: "p5.f1",
    title: "disk time of two streams over 85 s, 70 % and 30 % reserved",
    source: "P5, figure 1 and section 4.4",
    takes: "5 s",
    find: by_time,
};

/// The line in the table for figure 10.
pub(crate) const BY_REQUESTS: PaperExperiment = PaperExperiment {
    id: "p5.f10",
    title: "requests of two streams over 85 s, 70 % and 30 % reserved by throughput",
    source: "P5, figure 10 and section 4.4",
    takes: "5 s",
    find: by_requests,
};

const SEQUENTIAL: f64 = 70.0;
/// The interval of progress measurements, as in the paper.
const EVERY: f64 = 0.5;
/// The allowed distance of a stream from its line, in percent of the elapsed time.
const OFF: f64 = 1.0;
/// "Much higher than reserved": the least gain.
const MUCH: f64 = 0.25;

fn by_time(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let course = context
        .run(&[Run::new("utilization", "utilization", p5::pair(SEQUENTIAL), seconds)])?
        .remove(0);
    let mut findings = findings(seconds, "disk time, s");
    for (stream, name) in STREAMS.iter().enumerate() {
        let own = p5::own(stream, SEQUENTIAL);
        let what = |text: &str| format!("{name}: {text} (simulated drive with noise)");
        let reason = "a point of percent: what a figure without numbers shows, a guess";
        findings.rows.push(Row::new(
            what("share of disk time"),
            "%",
            Judged::effect(own, course.share_percent(stream), OFF, reason),
            "streams are charged for their use, and one may be a run ahead.",
        ));
        let off = |at: f64| (course.disk_time(stream, at) - own / 100.0 * at).abs();
        let worst = samples(&course).map(off).fold(0.0, f64::max);
        // A run of the other stream lies between two of its own.
        let allowed = 1.0 + OFF / 100.0 * course.seconds();
        let reason = format!("a period of 1 s and {OFF} % of the time, a guess");
        let judged = Judged::at_most(allowed, context.maximum(worst), &reason);
        findings.rows.push(Row::new(
            what("furthest from its line, every 500 ms"),
            "s",
            judged.published(Published::Shape("on its line after the start")),
            "it leaves its line.",
        ));
    }
    findings.plot.panels.push(panel(
        "utilization",
        "s of each second",
        &course,
        |stream, at| course.disk_time(stream, at),
        |stream, at| p5::own(stream, SEQUENTIAL) / 100.0 * at,
    ));
    Ok(findings)
}

fn by_requests(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let nominal = p5::nominal(context, seconds)?;
    let policy = format!("throughput:nominal_per_second={nominal}");
    let course = context
        .run(&[Run::new("throughput", policy, p5::pair(SEQUENTIAL), seconds).above_driver()])?
        .remove(0);
    let mut findings = findings(seconds, "requests");
    findings.parameters.push(p5::driver("the throughput-based scheduler"));
    findings.add_parameter(
        "nominal rate",
        format!("{nominal} requests per second, the random stream alone (published: 68)"),
    );
    for (stream, name) in STREAMS.iter().enumerate() {
        let own = p5::own(stream, SEQUENTIAL) / 100.0 * nominal;
        let what = |text: &str| format!("{name}: {text} (simulated drive with noise)");
        let reason = "it receives little more than its reservation here.";
        let over = course.of_parts(|from, until| course.rate(stream, from, until) / own - 1.0);
        let judged = Judged::at_least(MUCH, over, "\"much higher\": a guess");
        findings.rows.push(Row::new(
            what("requests per second beyond those reserved"),
            "gain",
            judged.published(Published::Shape("much higher than reserved")),
            reason,
        ));
    }
    findings.plot.panels.push(panel(
        "throughput",
        "requests",
        &course,
        |stream, at| course.requests(stream, at),
        |stream, at| p5::own(stream, SEQUENTIAL) / 100.0 * nominal * at,
    ));
    Ok(findings)
}

fn findings(seconds: f64, y_label: &'static str) -> Findings {
    let mut parameters = p5::parameters(seconds);
    parameters.push(FixedParameter::new(
        "reserved",
        format!("sequential {SEQUENTIAL} %, random {} %", 100.0 - SEQUENTIAL),
    ));
    Findings::new(parameters, Vec::new(), Plot::new("time, s", y_label, Axis::Linear))
}

fn samples(course: &Course) -> impl Iterator<Item = f64> + use<> {
    let count = (course.seconds() / EVERY) as usize;
    (1..=count).map(|number| number as f64 * EVERY)
}

fn panel(
    title: &str,
    unit: &str,
    course: &Course,
    value: impl Fn(usize, f64) -> f64,
    reserved: impl Fn(usize, f64) -> f64,
) -> Panel {
    let mut series = Vec::new();
    for (stream, name) in STREAMS.iter().enumerate() {
        let points = |value: &dyn Fn(usize, f64) -> f64| {
            samples(course).map(|at| Point::published(at, value(stream, at))).collect()
        };
        series.push(Series::measured(*name, points(&value)));
        series.push(Series::published(format!("{name}, reserved"), points(&reserved)));
    }
    Panel { title: format!("{title}, {unit}"), series }
}
