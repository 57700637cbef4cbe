//! `p3.t2`: P3, table 2. A process that reads a stream beside a chain of short-lived ones.

use headtime_units::Nanos;

use super::p3::{self, Course, Run};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p3.t2",
    title: "a stream of reads beside short-lived processes that read nearby: starvation",
    source: "P3, table 2 and section 5.5",
    takes: "1 min",
    find,
};

/// Policy, and the published seconds and MB per second.
const PUBLISHED: [(&str, f64, f64); 3] =
    [("deadline", 297.0, 9.0), ("as", 4767.0, 35.0), ("cas", 255.0, 34.0)];
/// The literal reading of step 4 of the paper's section 4.
const LITERAL: &str = "cas:step_4_system=1";
/// The time before the chain starts.
const STREAM_ALONE: Nanos = Nanos::from_secs(5);

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let files = ((p3::TREE_FILES as f64 * context.scale().min(1.0)) as u64).max(100);
    let mut chain = p3::find_cat(0, files);
    chain.start = STREAM_ALONE;
    let policies: Vec<&str> =
        PUBLISHED.iter().map(|(policy, ..)| *policy).chain([LITERAL]).collect();
    let run = |policy: &&str| Run {
        from: STREAM_ALONE,
        ..Run::new("stream beside find", policy, vec![chain.clone(), p3::cat(None)], 1)
    };
    let courses = p3::run_all(context, policies.iter().map(run))?;
    let mut findings = Findings::new(
        p3::parameters(),
        vec![STEP_4.to_string()],
        Plot::new("seconds of find", "MB/s of both", Axis::Linear),
    );
    findings.add_parameter(
        "streams",
        format!(
            "cat of 2 GiB again and again; {} s later find … -exec cat of {files} files of 13 KiB \
                on average (published: a Linux source tree)",
            STREAM_ALONE.as_secs_f64()
        ),
    );
    let longer = p3::TREE_FILES as f64 / files as f64;
    let seconds = |courses: &[Course]| p3::mean(courses, |course| course.seconds * longer);
    let rate = |courses: &[Course]| p3::mean(courses, Course::mb_per_second);
    for (policy, courses) in policies.iter().zip(&courses) {
        let published = PUBLISHED.iter().find(|(other, ..)| other == policy);
        let figures = [
            ("time of find", "s", published.map(|row| row.1), seconds(courses)),
            ("throughput of both streams", "MB/s", published.map(|row| row.2), rate(courses)),
        ];
        for (text, unit, published, measured) in figures {
            let text = p3::what(policy, text);
            findings.rows.push(match published {
                Some(published) => Row::new(
                    text,
                    unit,
                    Judged::effect(published, measured, p3::TOLERANCE * published, p3::GUESS),
                    p3::OTHER_DRIVE,
                ),
                None => Row::unpublished(text, measured, unit, "Not published: see the notes."),
            });
        }
    }
    let [deadline, anticipatory, cooperative] = [&courses[0], &courses[1], &courses[2]];
    let [(_, deadline_s, deadline_mb), (_, as_s, _), (_, cas_s, cas_mb)] = PUBLISHED;
    for (text, unit, judged, why) in [
        (
            "starvation: time of find under as over that under cas",
            "ratio",
            p3::half(as_s / cas_s, seconds(anticipatory).over(seconds(cooperative))),
            "the chain waits longer or shorter under as, or under cas, than published.",
        ),
        (
            "time of find under as over that under deadline",
            "ratio",
            p3::half(as_s / deadline_s, seconds(anticipatory).over(seconds(deadline))),
            p3::OTHER_DRIVE,
        ),
        (
            "throughput under cas over that under deadline",
            "ratio",
            p3::half(cas_mb / deadline_mb, rate(cooperative).over(rate(deadline))),
            p3::OTHER_DRIVE,
        ),
        (
            "gain of speed of find under cas over deadline",
            "gain",
            p3::half(deadline_s / cas_s - 1.0, seconds(deadline).gain(seconds(cooperative))),
            "cas serves the stream until a request of the chain is due, and deadline alternates.",
        ),
    ] {
        let what = format!("{text} (simulated drives with noise)");
        findings.rows.push(Row::new(what, unit, judged, why));
    }
    let measured = policies.iter().zip(&courses).map(|(policy, courses)| {
        let at = Point::of(seconds(courses).value, rate(courses));
        Series::measured(*policy, vec![at])
    });
    let published = PUBLISHED
        .iter()
        .map(|(name, x, y)| Series::published(*name, vec![Point::published(*x, *y)]));
    findings.add_panel("table 2", measured.chain(published).collect());
    Ok(findings)
}

const STEP_4: &str = "Step 4 of CAS is ambiguous (docs/policies/cas.md): `cas` tests the \
    probability of cooperation, as later kernels do, and `cas:step_4_system=1` reads the paper \
    literally. The table published one of them.";
