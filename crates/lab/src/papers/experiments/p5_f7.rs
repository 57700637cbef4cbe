//! `p5.f7` and `p5.f8`: P5, figures 7 and 8. Shares of disk time with estimates that are wrong.
//!
//! An estimate matters from dispatch to completion, when the measured time replaces it. With one
//! request at the drive it ends before the next decision, so these runs keep 20 requests at a
//! driver below, as the paper's scheduler does.

use super::p5::{self, Course, RESERVED, Run, STREAMS};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Published,
    Row,
};

/// The line in the table for figure 7.
pub(crate) const RANDOM: PaperExperiment = PaperExperiment {
    id: "p5.f7",
    title: "shares of disk time with random requests estimated at 20 ms, 5 ms and 300 us",
    source: "P5, figure 7 and section 4.3",
    takes: "25 s",
    find: random,
};

/// The line in the table for figure 8.
pub(crate) const SEQUENTIAL: PaperExperiment = PaperExperiment {
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
/// The least loss of throughput.
const NO_LOSS: f64 = 0.02;

fn findings(seconds: f64) -> Findings {
    let plot = Plot::new(
        "reserved for the sequential stream, %",
        "share of disk time, %; requests per second",
        Axis::Linear,
    );
    let mut parameters = p5::parameters(seconds);
    parameters.push(p5::driver("every scheduler"));
    Findings::new(parameters, Vec::new(), plot)
}

/// The sweep with one estimate set, and 20 requests at the driver below.
fn sweep(estimate: &str, us: f64, seconds: f64) -> Vec<Run> {
    let policy = format!("utilization:{estimate}={us},outstanding={}", p5::DRIVER_TAKES);
    p5::sweep(&policy, seconds).into_iter().map(Run::above_driver).collect()
}

fn random(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let mut findings = findings(seconds);
    for us in RANDOM_US {
        let courses = context.run(&sweep("random_us", us, seconds))?;
        shares(&mut findings, &format!("random estimated at {us} us"), &courses);
    }
    Ok(findings)
}

fn sequential(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let mut findings = findings(seconds);
    let mut rates = Vec::new();
    for us in SEQUENTIAL_US {
        let courses = context.run(&sweep("sequential_us", us, seconds))?;
        let name = format!("sequential estimated at {us} us");
        shares(&mut findings, &name, &courses);
        rates.push(courses.iter().map(|course| course.settled_rate(0)).collect::<Vec<f64>>());
        let series = p5::lines("", false, &courses, |stream, _, course| course.rate_of(stream));
        findings.add_panel(format!("{name}: throughput"), series);
    }
    for (us, slower) in SEQUENTIAL_US[1..].iter().zip(&rates[1..]) {
        findings.rows.push(loss(*us, &rates[0], slower));
    }
    Ok(findings)
}

/// The sequential stream's loss of throughput by a higher estimate, from its rates at each
/// reservation with the lowest estimate and with this one. The same reservation has the same
/// requests with both.
fn loss(us: f64, rates: &[f64], slower: &[f64]) -> Row {
    let pairs = || rates.iter().zip(slower).filter(|(rate, _)| **rate > 0.0);
    let mean = pairs().map(|(rate, _)| rate).sum::<f64>() / pairs().count() as f64;
    let lost: Vec<f64> = pairs().map(|(rate, slower)| (rate - slower) / mean).collect();
    Row::new(
        format!(
            "sequential estimated at {us} us beside {} us: loss of sequential throughput, mean \
                over all reservations (simulated drive with noise)",
            SEQUENTIAL_US[0]
        ),
        "share",
        Judged::ordering(Estimated::of_runs(&lost), NO_LOSS, "less is no loss, a guess"),
        "a run ends here when its measured times come to its budget, so that a high estimate \
            limits the requests at the driver near its end only.",
    )
}

fn shares(findings: &mut Findings, name: &str, courses: &[Course]) {
    for (reserved, course) in RESERVED.iter().zip(courses) {
        for (stream, stream_name) in STREAMS.iter().enumerate() {
            let own = p5::own(stream, *reserved);
            let what = format!(
                "{name}, {reserved} % sequential: {stream_name}, share of disk time (simulated \
                    drive with noise)"
            );
            let judged = Judged::effect(own, course.share_percent(stream), WITHIN, REASON)
                .published(Published::Shape("as reserved"));
            findings.rows.push(Row::new(what, "%", judged, "the estimate moves its share."));
        }
    }
    let shares = p5::lines("", false, courses, |stream, _, course| course.share_percent(stream));
    let reserved = p5::reserved_lines(courses);
    findings.add_panel(name, [shares, reserved].concat());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::context::PointOfWork as _;
    use crate::papers::verdict::RowVerdict;

    #[test]
    fn an_estimate_that_is_far_too_high_leaves_the_share_and_is_no_other_run_by_chance() {
        let half = |us| sweep("sequential_us", us, 5.0).remove(RESERVED.len() / 2);
        let [right, high] = [SEQUENTIAL_US[0], SEQUENTIAL_US[2]]
            .map(|us| half(us).run(1).unwrap_or_else(|error| panic!("seed 1: {error}")));
        for course in [&right, &high] {
            let share = course.share(0, 1.0, 5.0);
            assert!((share - 0.5).abs() < 0.05, "seed 1: {share}");
        }
        let [right, high] = [right, high].map(|course| course.requests(0, 5.0));
        assert!(high < right, "seed 1: {high} requests, {right} with the right estimate");
    }

    #[test]
    fn a_planted_loss_is_found_and_its_absence_too() {
        let rates = [0.0, 400.0, 800.0, 1_200.0, 1_600.0];
        let verdict = |slower: [f64; 5]| loss(20_000.0, &rates, &slower).verdict;
        let times = |factor: f64| rates.map(|rate| rate * factor);
        assert_eq!(verdict(times(0.8)), Some(RowVerdict::Reproduced));
        assert_eq!(verdict(times(1.0)), Some(RowVerdict::NotReproduced));
        assert_eq!(verdict(times(1.2)), Some(RowVerdict::NotReproduced));
        assert_eq!(verdict([0.0, 500.0, 700.0, 1_250.0, 1_500.0]), Some(RowVerdict::Inconclusive));
    }
}
