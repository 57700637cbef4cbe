//! `p5.f5`, `p5.f6` and `p5.f9`: P5, figures 5, 6 and 9. The same two streams by throughput; beside
//! shares of time; with a nominal rate that is too high.

use super::p5::{self, Course, RESERVED, Run, STREAMS};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Published,
    Row,
};

/// The line in the table for figure 5.
pub(crate) const CONTROL: PaperExperiment = PaperExperiment {
    id: "p5.f5",
    title: "throughput by reservation of throughput: a sequential and a random stream",
    source: "P5, figure 5 and section 4.2",
    takes: "10 s",
    find: control,
};

/// The line in the table for figure 6.
pub(crate) const EFFICIENCY: PaperExperiment = PaperExperiment {
    id: "p5.f6",
    title: "throughput of both schedulers by reservation",
    source: "P5, figure 6 and section 4.2",
    takes: "15 s",
    find: efficiency,
};

/// The line in the table for figure 9.
pub(crate) const NOMINAL: PaperExperiment = PaperExperiment {
    id: "p5.f9",
    title: "shares of throughput with a nominal rate that is 10 % and 50 % too high",
    source: "P5, figure 9 and section 4.3",
    takes: "20 s",
    find: wrong_rate,
};

/// From this reservation on the published sequential stream received its fair share.
const FAIR_FROM: f64 = 30.0;
/// The maximum difference of equal values.
const SAME: f64 = 0.25;
/// The last reservation beside another stream.
const LAST: f64 = 90.0;
/// "Approached the maximum" and "capped", as shares of the throughput alone.
const NEAR: f64 = 0.85;
const CAPPED: f64 = 0.5;
/// The nominal rates of figure 9, relative to the measured one.
const TOO_HIGH: [f64; 3] = [1.0, 1.1, 1.5];
/// The share of its reservation that a stream lacks.
const SHORT: f64 = 0.97;

fn by_throughput(nominal: f64, seconds: f64) -> Vec<Run> {
    p5::sweep(&format!("throughput:nominal_per_second={nominal}"), seconds)
        .into_iter()
        .map(Run::above_driver)
        .collect()
}

fn findings(seconds: f64, y_label: &'static str) -> Findings {
    let mut parameters = p5::parameters(seconds);
    parameters.push(p5::driver("the throughput-based scheduler"));
    let plot = Plot::new("reserved for the sequential stream, %", y_label, Axis::Linear);
    Findings::new(parameters, Vec::new(), plot)
}

fn control(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let nominal = p5::nominal(context, seconds)?;
    let courses = context.run(&by_throughput(nominal, seconds))?;
    let mut findings = findings(seconds, "% of the nominal rate; requests per second");
    findings.add_parameter(
        "nominal rate",
        format!("{nominal} requests per second, the random stream alone (published: 68)"),
    );
    for (reserved, course) in RESERVED.iter().zip(&courses) {
        for (stream, name) in STREAMS.iter().enumerate() {
            let own = p5::own(stream, *reserved);
            let what = |text: &str| {
                format!("{reserved} % sequential: {name}, {text} (simulated drive with noise)")
            };
            let part = course.rate_of(stream).times(100.0 / nominal);
            let name = what("of the nominal rate");
            let shape = Published::Shape("at least its reservation");
            findings.rows.push(if own > 0.0 {
                let reason = "3 % less than its reservation, a guess";
                let judged = Judged::at_least(SHORT * own, part, reason).published(shape);
                Row::new(name, "%", judged, "it falls short of its reservation.")
            } else {
                Row::not_judged(name, shape, part, "%", "Nothing is reserved.")
            });
        }
    }
    let sequential = |percent: f64| {
        let place =
            RESERVED.iter().position(|reserved| *reserved == percent).expect("one of the sweep");
        courses[place].rate_of(0)
    };
    for (reserved, course) in RESERVED.iter().zip(&courses).filter(|(reserved, _)| **reserved > 0.0)
    {
        let gain = course.of_parts(|from, until| course.rate(0, from, until) / nominal - 1.0);
        findings.rows.push(Row::new(
            format!(
                "{reserved} % sequential: its requests per second beyond all that can be reserved \
                    (simulated drive with noise)"
            ),
            "gain",
            Judged::ordering(gain, 1.0 - SHORT, "less is no difference, a guess"),
            WITHOUT_MERGING,
        ));
    }
    let change = sequential(LAST).gain(sequential(FAIR_FROM));
    let reason = "a quarter, where reservations alone would give three times as much: a guess";
    findings.rows.push(Row::new(
        "change of the sequential stream's rate from 30 % to 90 % (simulated drive with noise)",
        "gain",
        Judged::none("no increase", change, SAME, reason),
        "reservations still affect its rate.",
    ));
    panels(&mut findings, &courses, nominal);
    Ok(findings)
}

fn efficiency(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let nominal = p5::nominal(context, seconds)?;
    let by_rate = context.run(&by_throughput(nominal, seconds))?;
    let by_time = context.run(&p5::sweep("utilization", seconds))?;
    let mut findings = findings(seconds, "requests per second, sequential stream");
    for ((reserved, time), rate) in RESERVED.iter().zip(&by_time).zip(&by_rate) {
        let what = |text: &str| {
            format!("{reserved} % sequential: sequential, {text} (simulated drive with noise)")
        };
        for (name, course) in [("by disk time", time), ("by throughput", rate)] {
            findings.rows.push(Row::unpublished(
                what(&format!("{name}, throughput")),
                course.rate_of(0),
                "requests per second",
                "Figure 6 gives no numbers.",
            ));
        }
    }
    let alone = |course: &Course| course.rate_of(0).over(by_time[10].rate_of(0));
    let least = by_time
        .windows(2)
        .map(|pair| pair[1].rate_of(0).gain(pair[0].rate_of(0)))
        .min_by(|one, other| one.value.total_cmp(&other.value))
        .expect("a sweep has several points");
    findings.rows.push(Row::new(
        "sequential by disk time: least gain from one reservation to the next (simulated drive \
            with noise)",
        "gain",
        Judged::ordering(least, 1.0 - SHORT, "less is no difference, a guess"),
        "its throughput does not rise with its reservation.",
    ));
    findings.rows.push(Row::new(
        "sequential by disk time at 90 % over its throughput alone (simulated drive with noise)",
        "ratio",
        Judged::at_least(NEAR, alone(&by_time[9]), "\"approached\": a guess")
            .published(Published::Shape("approaches the drive's maximum")),
        "it stays below.",
    ));
    let capped = by_rate[..10]
        .iter()
        .map(alone)
        .max_by(|one, other| one.value.total_cmp(&other.value))
        .expect("a sweep has several points");
    findings.rows.push(Row::new(
        "highest throughput of the sequential stream by throughput, with a random one beside it, \
            over its throughput alone (simulated drive with noise)",
        "ratio",
        Judged::at_most(CAPPED, capped, "\"capped\": half, a guess")
            .published(Published::Shape("capped")),
        "it is not capped.",
    ));
    let line = |name: &str, courses: &[Course]| {
        p5::lines(name, false, courses, |stream, _, course| course.rate_of(stream))
            .into_iter()
            .take(1)
            .collect::<Vec<_>>()
    };
    let series = [line(", by disk time", &by_time), line(", by throughput", &by_rate)].concat();
    findings.add_panel("sequential stream", series);
    Ok(findings)
}

fn wrong_rate(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let measured = p5::nominal(context, seconds)?;
    let mut findings = findings(seconds, "% of the nominal rate");
    findings.add_parameter(
        "measured rate",
        format!("{measured} requests per second, the random stream alone (published: 68)"),
    );
    for factor in TOO_HIGH {
        let nominal = (measured * factor * 10.0).round() / 10.0;
        let courses = context.run(&by_throughput(nominal, seconds))?;
        let course = &courses[0];
        let short = course.of_parts(|from, until| 1.0 - course.rate(1, from, until) / nominal);
        let what = format!(
            "nominal rate {factor} times the measured one: the random stream with 100 %, short of \
                its reservation by (simulated drive with noise)"
        );
        let reason = "the drive serves more than its measured rate.";
        let judged = if factor == 1.0 {
            Judged::none("all that it reserved", short, 0.05, "a guess")
        } else {
            Judged::ordering(short, 1.0 - SHORT, "less is no difference, a guess")
        };
        findings.rows.push(Row::new(what, "share", judged, reason));
        for (reserved, course) in RESERVED.iter().zip(&courses) {
            let part = course.rate_of(1).times(100.0 / nominal);
            let what = format!(
                "nominal rate {factor} times the measured one, {reserved} % sequential: random, of \
                    the nominal rate (simulated drive with noise)"
            );
            findings.rows.push(Row::unpublished(what, part, "%", "Figure 9 gives no numbers."));
        }
        let series = p5::lines("", false, &courses, |stream, _, course| {
            cut(course.rate_of(stream).times(100.0 / nominal))
        });
        let reserved = p5::reserved_lines(&courses);
        findings.add_panel(
            format!("{factor} × the measured rate (cut at {CUT} %)"),
            [series, reserved].concat(),
        );
    }
    Ok(findings)
}

/// The upper end of the plot of figure 9: alone the sequential stream reaches many times the
/// nominal rate.
const CUT: f64 = 400.0;

/// The same, or the upper end of the plot.
fn cut(part: Estimated) -> Estimated {
    if part.value > CUT { Estimated::new(CUT, None) } else { part }
}

fn panels(findings: &mut Findings, courses: &[Course], nominal: f64) {
    let parts = p5::lines("", false, courses, |stream, _, course| {
        cut(course.rate_of(stream).times(100.0 / nominal))
    });
    let reserved = p5::reserved_lines(courses);
    findings.add_panel(format!("of the nominal rate (cut at {CUT} %)"), [parts, reserved].concat());
    let rates = p5::lines("", false, courses, |stream, _, course| course.rate_of(stream));
    findings.add_panel("throughput", rates);
}

const WITHOUT_MERGING: &str = "In the paper the block layer joined adjacent requests to long ones, \
    each of which counted as one unit; here each request counts by itself.";
