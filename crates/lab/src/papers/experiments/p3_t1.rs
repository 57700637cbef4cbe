//! `p3.t1`: P3, table 1. A process that writes a stream beside one that reads a stream.

use headtime_units::Nanos;

use super::p3::{self, Course, Run};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p3.t1",
    title: "a stream of writes beside a stream of reads",
    source: "P3, table 1 and section 5.4",
    takes: "10 s",
    find,
};

/// Policy, and the published seconds and MB per second.
const PUBLISHED: [(&str, f64, f64); 3] =
    [("deadline", 129.0, 25.0), ("as", 10.0, 33.0), ("cas", 9.0, 33.0)];
/// The time before the reader starts: the writer has long been at the limit of its cache.
const WRITES_ALONE: Nanos = Nanos::from_secs(30);
const FILE: u64 = 200_000_000 / 4_096 * 4_096;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let bytes = (FILE as f64 * context.scale().min(1.0)) as u64 / 4_096 * 4_096;
    let bytes = bytes.max(8 << 20);
    let mut reader = p3::cat(Some(bytes));
    reader.start = WRITES_ALONE;
    let run = |(policy, ..): &(&str, f64, f64)| Run {
        from: WRITES_ALONE,
        ..Run::new("reader beside writer", policy, vec![reader.clone(), p3::dd()], 1)
    };
    let courses = p3::run_all(context, PUBLISHED.iter().map(run))?;
    let mut findings = Findings::new(
        p3::parameters(),
        Vec::new(),
        Plot::new("seconds of the reader", "MB/s of both", Axis::Linear),
    );
    findings.add_parameter(
        "streams",
        format!(
            "dd of 2,048 MiB again and again; cat of {:.0} MB, {} s later",
            bytes as f64 / 1e6,
            WRITES_ALONE.as_secs_f64()
        ),
    );
    // Seconds of a shorter file are those of a share of the file.
    let longer = FILE as f64 / bytes as f64;
    let seconds = |courses: &[Course]| p3::mean(courses, |course| course.seconds * longer);
    let rate = |courses: &[Course]| p3::mean(courses, Course::mb_per_second);
    for ((policy, published_s, published_mb), courses) in PUBLISHED.iter().zip(&courses) {
        let effect = |published: f64, measured| {
            Judged::effect(published, measured, p3::TOLERANCE * published, p3::GUESS)
        };
        findings.rows.push(Row::new(
            p3::what(policy, "time to read 200 MB"),
            "s",
            effect(*published_s, seconds(courses)),
            p3::OTHER_DRIVE,
        ));
        findings.rows.push(Row::new(
            p3::what(policy, "throughput of both streams"),
            "MB/s",
            effect(*published_mb, rate(courses)),
            p3::OTHER_DRIVE,
        ));
    }
    let [deadline, anticipatory, cooperative] = [&courses[0], &courses[1], &courses[2]];
    let [(_, deadline_s, deadline_mb), others @ ..] = &PUBLISHED;
    for ((policy, published_s, published_mb), courses) in
        others.iter().zip([anticipatory, cooperative])
    {
        findings.rows.push(Row::new(
            p3::what(policy, "time under deadline over time under it"),
            "ratio",
            p3::half(deadline_s / published_s, seconds(deadline).over(seconds(courses))),
            "the time under deadline depends on how many writes go between two reads.",
        ));
        findings.rows.push(Row::new(
            p3::what(policy, "gain of throughput over deadline"),
            "gain",
            p3::half(published_mb / deadline_mb - 1.0, rate(courses).gain(rate(deadline))),
            p3::OTHER_DRIVE,
        ));
    }
    let point = |name: &str, courses: &[Course]| {
        let at = Point::of(seconds(courses).value, rate(courses));
        Series::measured(name, vec![at])
    };
    let published =
        |(name, x, y): &(&str, f64, f64)| Series::published(*name, vec![Point::published(*x, *y)]);
    let series = PUBLISHED.iter().map(published);
    let measured = PUBLISHED.iter().zip(&courses).map(|((name, ..), courses)| point(name, courses));
    findings.add_panel("table 1", measured.chain(series).collect());
    Ok(findings)
}
