//! `p4.f3` and `p4.f4`: P4, figures 3 and 4. A real-time stream beside 500 best-effort requests.
//!
//! The paper states neither deadlines nor worst-case estimates. So the experiment is run twice:
//! with true worst cases, where each deadline is answered and those that are guaranteed may never
//! be missed; and with a stated estimate, the mean time of a request at the array's maximum, where
//! misses are measured. Deadlines are swept in both.

use headtime_units::Nanos;

use super::p4::{self, Course, Deadlines, NOISE, Run};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, Measured, PaperExperiment, Plot,
    Point, Published, Row, Series,
};

/// The line of figure 3 in the table.
pub(crate) const RATES: PaperExperiment = PaperExperiment {
    id: "p4.f3",
    title: "a real-time stream of rising rate beside 500 best-effort requests",
    source: "P4, figure 3",
    takes: "1 min",
    find: rates,
};

/// The line of figure 4 in the table.
pub(crate) const CONCURRENCY: PaperExperiment = PaperExperiment {
    id: "p4.f4",
    title: "commands at the array beside a real-time stream",
    source: "P4, figure 4",
    takes: "15 s",
    find: concurrency,
};

/// Rates with true worst cases, as shares of the array's maximum.
const GUARANTEED_SHARES: [f64; 5] = [0.005, 0.01, 0.02, 0.04, 0.08];
/// Deadlines with true worst cases.
const LONG_DEADLINES: [u64; 3] = [500, 2_000, 8_000];
/// With worst cases that include a recalibration of 50 ms, that is 8.4 revolutions.
const LONG_WORST_CASES: &str = "ds-scan:lost_revolutions=10";
/// Rates with the stated estimate.
const SHARES: [f64; 8] = [0.04, 0.1, 0.25, 0.4, 0.48, 0.6, 0.75, 0.9];
/// Deadlines with the stated estimate.
const SHORT_DEADLINES: [u64; 4] = [50, 100, 200, 500];
/// The published rates of figure 4, as shares.
const SHARES_OF_4: [f64; 3] = [0.04, 0.48, 0.9];

fn rate(courses: &[Course]) -> Estimated {
    p4::mean(courses, |course| course.mb_per_s)
}

fn real_time_rate(courses: &[Course]) -> Estimated {
    p4::mean(courses, |course| course.real_time_mb_per_s)
}

/// The share of missed deadlines of all runs together.
fn missed<'a>(courses: impl Iterator<Item = &'a Course> + Clone) -> Measured {
    let missed = courses.clone().map(|course| course.missed).sum();
    let deadlines: u64 = courses.map(|course| course.deadlines).sum();
    Measured::proportion(missed, deadlines.max(1))
}

/// Misses of `all` deadlines where none is missed as published: a single one refutes that.
fn no_miss(missed: u64, all: u64) -> Judged {
    let value = missed as f64;
    let measured = Measured { value, interval: (all > 0).then_some((value, value)) };
    Judged::none("no deadline missed", measured, 0.0, "one miss refutes that there is none")
}

/// A run beside the best-effort requests.
fn beside(context: &Context<'_>, policy: &str, per_second: f64, ms: u64) -> Run {
    let what = format!("{per_second:.0} requests/s due after {ms} ms");
    let streams = vec![p4::best_effort(), p4::real_time(per_second, Nanos::from_ms(ms))];
    Run::new(context, what, policy, streams)
}

fn rates(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let maximum = p4::maximum(context)?;
    let most = p4::mean(&maximum, |course| course.requests_per_s).value;
    let plot = Plot::new("real-time share of the maximum", "MB/s", Axis::Linear);
    let mut findings = Findings::new(p4::parameters(), vec![ARRAY.to_string()], plot);
    findings.rows.push(Row::unpublished(
        format!("best effort alone, 60 outstanding {NOISE}"),
        rate(&maximum),
        "MB/s",
        "The text gives its half alone, slightly more than 12; rates are shares of our maximum.",
    ));
    guaranteed(context, most, &mut findings)?;
    estimated(context, &maximum, most, &mut findings)?;
    Ok(findings)
}

/// With true worst cases.
fn guaranteed(
    context: &Context<'_>,
    most: f64,
    findings: &mut Findings,
) -> Result<(), ExperimentError> {
    let points = || {
        LONG_DEADLINES
            .into_iter()
            .flat_map(|ms| GUARANTEED_SHARES.into_iter().map(move |share| (ms, share)))
    };
    let runs = |policy: &'static str| {
        let answered = |(ms, share)| Run {
            deadlines: Deadlines::Answered,
            ..beside(context, policy, most * share, ms)
        };
        points().map(answered).collect::<Vec<_>>()
    };
    let many = p4::run_all(context, runs("cds-scan"))?;
    let one = p4::run_all(context, runs("ds-scan"))?;
    for ((ms, share), (many, one)) in points().zip(many.iter().zip(&one)) {
        let percent = 100.0 * share;
        let due = format!("due after {ms} ms, {percent} % of the maximum");
        let answers = |courses: &[Course]| {
            let all = courses
                .iter()
                .map(|course| (course.promises.guaranteed + course.promises.best_effort) as f64);
            let guaranteed: f64 =
                courses.iter().map(|course| course.promises.guaranteed as f64).sum();
            100.0 * guaranteed / all.sum::<f64>().max(1.0)
        };
        findings.rows.push(Row::unpublished(
            format!("true worst cases, {due}: answered guaranteed {NOISE}"),
            Measured::exact(answers(many)),
            "%",
            "The paper states neither deadlines nor worst cases.",
        ));
        findings.rows.push(Row::unpublished(
            format!("true worst cases, {due}: cds-scan over ds-scan, all requests {NOISE}"),
            rate(many).over(rate(one)),
            "times",
            "The text says \"may dramatically improve performance\".",
        ));
    }
    let largest = many.iter().max_by(|a, b| {
        let rate = |courses: &[Course]| p4::mean(courses, |course| course.guaranteed_per_s).value;
        rate(a).total_cmp(&rate(b))
    });
    if let Some(largest) = largest {
        findings.rows.push(Row::unpublished(
            format!("true worst cases: highest rate that was guaranteed, of the maximum {NOISE}"),
            p4::mean(largest, |course| 100.0 * course.guaranteed_per_s / most),
            "%",
            "The sum of worst cases takes the array for one drive.",
        ));
    }
    let long = p4::run_all(context, runs(LONG_WORST_CASES))?;
    for (policy, courses) in [("cds-scan", &many), ("ds-scan", &one), (LONG_WORST_CASES, &long)] {
        let promises = || courses.iter().flatten().map(|course| course.promises);
        let (broken, all) = promises().fold((0, 0), |(broken, all), promises| {
            (broken + promises.broken, all + promises.guaranteed)
        });
        let overlong: u64 = courses.iter().flatten().map(|course| course.overlong).sum();
        let excess = courses.iter().flatten().map(|course| course.excess).max();
        let excess = excess.unwrap_or_default().as_secs_f64() * 1e3;
        findings.rows.push(Row::new(
            format!("true worst cases, {policy}: misses of {all} guaranteed deadlines {NOISE}"),
            "requests",
            no_miss(broken, all),
            &format!(
                "{overlong} accesses have taken longer than their worst case, by up to {excess:.0} \
                    ms: it includes one lost revolution and no recalibration."
            ),
        ));
    }
    let line = |name: &str, courses: &[Vec<Course>], place: usize| {
        let shares = GUARANTEED_SHARES.iter();
        let courses = &courses[place * GUARANTEED_SHARES.len()..];
        let points = shares.zip(courses).map(|(share, courses)| Point::of(*share, rate(courses)));
        Series::measured(name, points.collect())
    };
    for (place, ms) in LONG_DEADLINES.iter().enumerate() {
        findings.add_panel(
            format!("true worst cases, due after {ms} ms: all requests"),
            vec![line("cds-scan", &many, place), line("ds-scan", &one, place)],
        );
    }
    Ok(())
}

/// With a stated estimate.
fn estimated(
    context: &Context<'_>,
    maximum: &[Course],
    most: f64,
    findings: &mut Findings,
) -> Result<(), ExperimentError> {
    let estimate = p4::stated_estimate(maximum);
    let policy = format!("cds-scan:estimate_ms={estimate}");
    findings.add_parameter(
        "estimate",
        format!("{estimate} ms for each request, the mean time of one at the array's maximum"),
    );
    let points = SHORT_DEADLINES.iter().flat_map(|ms| SHARES.map(|share| (*ms, share)));
    let runs = points.map(|(ms, share)| beside(context, &policy, most * share, ms));
    let courses = p4::run_all(context, runs)?;
    for (ms, courses) in SHORT_DEADLINES.iter().zip(courses.chunks(SHARES.len())) {
        let due = format!("stated estimate, due after {ms} ms");
        let last = &courses[SHARES.len() - 1];
        let offered = SHARES[SHARES.len() - 1] * most * 4_096.0 / 1e6;
        findings.rows.push(Row::new(
            format!("{due}: real-time rate at 90 % of the maximum, of that offered {NOISE}"),
            "share",
            Judged::at_least(0.97, real_time_rate(last).times(1.0 / offered), "3 %, a guess")
                .published(Published::Shape("met almost up to the entire bandwidth")),
            "requests with deadlines go in the order of deadlines, and more of them wait.",
        ));
        let counts = courses.iter().flatten().map(|course| (course.missed, course.deadlines));
        let (missed_at_all, all) = counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        findings.rows.push(Row::new(
            format!("{due}: misses of {all} deadlines at all rates {NOISE}"),
            "requests",
            no_miss(missed_at_all, all),
            "an estimate that is a mean guarantees nothing.",
        ));
        for (share, courses) in SHARES.iter().zip(courses) {
            findings.rows.push(Row::unpublished(
                format!("{due}, {:.0} % of the maximum: deadlines missed {NOISE}", share * 100.0),
                missed(courses.iter()),
                "share",
                "The paper states no deadlines.",
            ));
        }
        let lowest = (0..SHARES.len())
            .min_by(|a, b| rate(&courses[*a]).value.total_cmp(&rate(&courses[*b]).value))
            .unwrap_or(0);
        findings.rows.push(Row::new(
            format!("{due}: real-time share at which all requests together are fewest {NOISE}"),
            "share",
            Judged::between((0.4, 0.6), Measured::exact(SHARES[lowest]), 0.0, "steps of the sweep")
                .published(Published::Shape("near half")),
            "it depends on deadlines and estimates, which the paper does not state.",
        ));
        findings.rows.push(Row::unpublished(
            format!("{due}: all requests there, of the maximum {NOISE}"),
            rate(&courses[lowest]).over(rate(maximum)),
            "share",
            "The figure has no numbers in the text.",
        ));
        let line = |name: &str, value: fn(&[Course]) -> Estimated| {
            let points = SHARES.iter().zip(courses);
            let points = points.map(|(share, courses)| Point::of(*share, value(courses)));
            Series::measured(name, points.collect())
        };
        findings
            .add_panel(due, vec![line("all requests", rate), line("real time", real_time_rate)]);
    }
    Ok(())
}

fn concurrency(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let maximum = p4::maximum(context)?;
    let most = p4::mean(&maximum, |course| course.requests_per_s).value;
    let policy = format!("cds-scan:estimate_ms={}", p4::stated_estimate(&maximum));
    let points = SHORT_DEADLINES.iter().flat_map(|ms| SHARES_OF_4.map(|share| (*ms, share)));
    let runs = points.map(|(ms, share)| beside(context, &policy, most * share, ms));
    let courses = p4::run_all(context, runs)?;
    let plot = Plot::new("commands at the array", "% of time with so many at most", Axis::Linear);
    let mut findings = Findings::new(p4::parameters(), vec![ARRAY.to_string()], plot);
    findings.add_parameter("policy", policy);
    for (ms, courses) in SHORT_DEADLINES.iter().zip(courses.chunks(SHARES_OF_4.len())) {
        let mut series = Vec::new();
        for (share, courses) in SHARES_OF_4.iter().zip(courses) {
            let what = format!(
                "due after {ms} ms, {:.0} % of the maximum: time below 20 commands {NOISE}",
                share * 100.0
            );
            let below = p4::mean(courses, |course| 100.0 * at_most(course, 19));
            let why_not = "the distribution depends on deadlines and estimates, which the paper \
                does not state.";
            findings.rows.push(if *share == SHARES_OF_4[1] {
                let judged = Judged::effect(40.0, below, 10.0, "a quarter, a guess");
                Row::new(what, "%", judged, why_not)
            } else {
                Row::unpublished(what, below, "%", "The text has a figure for 48 % alone.")
            });
            let points = (0..=60).step_by(5).map(|count| {
                let value = p4::mean(courses, |course| 100.0 * at_most(course, count));
                Point::of(count as f64, value)
            });
            let name = format!("{:.0} % of the maximum", share * 100.0);
            series.push(Series::measured(name, points.collect()));
        }
        findings.add_panel(format!("due after {ms} ms"), series);
    }
    Ok(findings)
}

/// The share of time with at most `count` commands at the array.
fn at_most(course: &Course, count: usize) -> f64 {
    course.outstanding.iter().take(count + 1).sum()
}

const ARRAY: &str = "One scheduler has the array as one device, as in the paper. Real-time \
    requests arrive at random times (Poisson); the paper states neither arrivals nor deadlines.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::verdict::RowVerdict;

    #[test]
    fn a_single_miss_refutes_that_there_is_none() {
        let verdict = |missed, all| no_miss(missed, all).verdict;
        assert_eq!(verdict(0, 84_513), RowVerdict::Reproduced);
        assert_eq!(verdict(3, 84_513), RowVerdict::NotReproduced);
        assert_eq!(verdict(0, 0), RowVerdict::Inconclusive);
    }
}
