//! `p5.f7` and `p5.f8`: P5, figures 7 and 8. Shares of disk time with estimates that are wrong.

use super::p5::{self, Course, RESERVED, STREAMS};
use crate::papers::context::Context;
use crate::papers::error::ExperimentError;
use crate::papers::estimated::Estimated;
use crate::papers::report::{Axis, Findings, Panel, Plot, Published, Row};
use crate::papers::table::PaperExperiment;
use crate::papers::verdict::Judged;

/// The line in the table for figure 7.
pub const RANDOM: PaperExperiment = PaperExperiment {
    id: "p5.f7",
    title: "shares of disk time with random requests estimated at 20 ms, 5 ms and 300 us",
    source: "P5, figure 7 and section 4.3",
    takes: "25 s",
    find: random,
};

/// The line in the table for figure 8.
pub const SEQUENTIAL: PaperExperiment = PaperExperiment {
    id: "p5.f8",
    title: "shares of disk time with sequential requests estimated at 300 us, 5 ms and 20 ms",
    source: "P5, figure 8 and section 4.3",
    takes: "30 s",
    find: sequential,
};

/// Estimates in microseconds.
const RANDOM_US: [f64; 3] = [20_000.0, 5_000.0, 300.0];
const SEQUENTIAL_US: [f64; 3] = [300.0, 5_000.0, 20_000.0];
/// Points of percent.
const WITHIN: f64 = 2.0;
const REASON: &str = "points of percent, a guess: the figures give no numbers";
/// The reservation at which the effect on sequential throughput is evaluated.
const AT: f64 = 50.0;

fn findings(seconds: f64) -> Findings {
    let plot = Plot {
        x_label: "reserved for the sequential stream, %",
        y_label: "share of disk time, %; requests per second",
        x_axis: Axis::Linear,
        panels: Vec::new(),
    };
    Findings { parameters: p5::parameters(seconds), plot, ..Findings::default() }
}

fn random(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let mut findings = findings(seconds);
    for us in RANDOM_US {
        let courses = context.run(&p5::sweep(&format!("utilization:random_us={us}"), seconds))?;
        shares(&mut findings, &format!("random estimated at {us} us"), &courses);
    }
    Ok(findings)
}

fn sequential(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let mut findings = findings(seconds);
    let mut rates = Vec::new();
    for us in SEQUENTIAL_US {
        let courses =
            context.run(&p5::sweep(&format!("utilization:sequential_us={us}"), seconds))?;
        let name = format!("sequential estimated at {us} us");
        shares(&mut findings, &name, &courses);
        let place = RESERVED.iter().position(|reserved| *reserved == AT).expect("one of the sweep");
        let rate = courses[place].rate_of(0);
        let what = format!(
            "{name}, {AT} % sequential: sequential throughput (simulated drive with \
                noise)"
        );
        findings.rows.push(Row::unpublished(
            what,
            rate,
            "requests per second",
            "Figure 8(b) gives no numbers.",
        ));
        rates.push(rate);
        let series =
            p5::lines("", false, &courses, |stream, _, course| course.settled_rate(stream));
        findings.plot.panels.push(Panel { title: format!("{name}: throughput"), series });
    }
    for (us, rate) in SEQUENTIAL_US[1..].iter().zip(&rates[1..]) {
        let what = format!(
            "sequential estimated at {us} us beside {} us, {AT} % sequential: loss of sequential \
                throughput (simulated drive with noise)",
            SEQUENTIAL_US[0]
        );
        let gain = rate.gain(rates[0]);
        let loss = Estimated::new(-gain.value, gain.half_width);
        let reason = "the published scheduler had fewer requests at the driver below when they \
            were estimated high; here one or two are at the drive, and a run is charged what it \
            took.";
        let judged = Judged::ordering(loss, 0.02, "less is no loss, a guess");
        findings.rows.push(Row::new(what, "share", judged, reason));
    }
    Ok(findings)
}

fn shares(findings: &mut Findings, name: &str, courses: &[Course]) {
    for (reserved, course) in RESERVED.iter().zip(courses) {
        for (stream, stream_name) in STREAMS.iter().enumerate() {
            let own = p5::own(stream, *reserved);
            let what = format!(
                "{name}, {reserved} % sequential: {stream_name}, share of disk time (simulated \
                    drive with \
                    noise)"
            );
            let judged = Judged::effect(own, course.share_percent(stream), WITHIN, REASON)
                .published(Published::Shape("as reserved"));
            findings.rows.push(Row::new(what, "%", judged, "the estimate moves its share."));
        }
    }
    let shares =
        p5::lines("", false, courses, |stream, _, course| course.settled_share(stream) * 100.0);
    let reserved =
        p5::lines(", reserved", true, courses, |stream, reserved, _| p5::own(stream, reserved));
    findings
        .plot
        .panels
        .push(Panel { title: name.to_string(), series: [shares, reserved].concat() });
}
