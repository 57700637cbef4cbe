//! `p3.t3`: P3, table 3. One and two chains of short-lived processes.

use super::p3::{self, Buffer, Course, Run};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p3.t3",
    title: "one and two chains of short-lived processes: seek storms",
    source: "P3, table 3, figure 3 and section 5.6",
    takes: "30 s",
    find,
};

/// Policy, the published MB per second of one and of two chains, and the growth of the run time.
const PUBLISHED: [(&str, f64, f64, f64); 3] =
    [("deadline", 14.5, 4.0, 7.0), ("as", 15.5, 4.0, 7.0), ("cas", 15.5, 11.6, 2.5)];

const BUFFERS: [(Buffer, &str); 2] =
    [(Buffer::Profile, "buffer of 16 segments"), (Buffer::OneSegment, "buffer of one segment")];

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let files = ((p3::TREE_FILES as f64 * context.scale().min(1.0)) as u64).max(100);
    let run = |policy: &str, buffer: Buffer, chains: u64| {
        let streams = (0..chains).map(|tree| p3::find_cat(tree, files)).collect();
        let run = Run::new(format!("{chains} of find"), policy, streams, chains as u32);
        Run { buffer, ..run }
    };
    let runs = BUFFERS.iter().flat_map(|(buffer, _)| {
        PUBLISHED.iter().flat_map(|(policy, ..)| [run(policy, *buffer, 1), run(policy, *buffer, 2)])
    });
    let courses = p3::run_all(context, runs)?;
    let mut findings = Findings::new(
        p3::parameters(),
        vec![CACHE.to_string()],
        Plot::new("chains", "MB/s", Axis::Linear),
    );
    findings.add_parameter(
        "chains",
        format!("find … -exec cat of {files} files of 13 KiB on average, trees 4 GiB apart"),
    );
    for ((_, buffer), courses) in BUFFERS.iter().zip(courses.chunks(2 * PUBLISHED.len())) {
        add(&mut findings, buffer, courses);
    }
    Ok(findings)
}

/// Adds the rows and the panel of the runs with one buffer.
fn add(findings: &mut Findings, buffer: &str, courses: &[Vec<Course>]) {
    let rate = |courses: &[Course]| p3::mean(courses, Course::mb_per_second);
    let seconds = |courses: &[Course]| p3::mean(courses, |course| course.seconds);
    let pairs: Vec<[&Vec<Course>; 2]> =
        courses.chunks(2).map(|pair| [&pair[0], &pair[1]]).collect();
    for ((policy, alone, together, growth), [one, two]) in PUBLISHED.iter().zip(&pairs) {
        let kept = (together / alone * 1e3).round() / 1e3;
        for (text, unit, published, measured) in [
            ("throughput of one chain", "MB/s", *alone, rate(one)),
            ("throughput of two chains", "MB/s", *together, rate(two)),
            ("growth of run time to two", "times", *growth, seconds(two).over(seconds(one))),
            ("share of throughput that two keep", "ratio", kept, rate(two).over(rate(one))),
        ] {
            findings.rows.push(Row::new(
                p3::what(policy, &format!("{text}, {buffer}")),
                unit,
                Judged::effect(published, measured, p3::TOLERANCE * published, p3::GUESS),
                OTHER_CACHE,
            ));
        }
    }
    let (_, _, of_cas, _) = PUBLISHED[2];
    for (place, (policy, _, together, _)) in PUBLISHED[..2].iter().enumerate() {
        findings.rows.push(Row::new(
            format!(
                "gain of throughput of two chains under cas over {policy}, {buffer} (simulated \
                    drives with noise)"
            ),
            "gain",
            p3::half(of_cas / together - 1.0, rate(pairs[2][1]).gain(rate(pairs[place][1]))),
            OTHER_CACHE,
        ));
    }
    let series =
        PUBLISHED.iter().zip(&pairs).flat_map(|((name, alone, together, _), [one, two])| {
            let measured = vec![Point::of(1.0, rate(one)), Point::of(2.0, rate(two))];
            let published = vec![Point::published(1.0, *alone), Point::published(2.0, *together)];
            [Series::measured(*name, measured), Series::published(*name, published)]
        });
    findings.add_panel(buffer, series.collect());
}

const OTHER_CACHE: &str = "the division of the drive's buffer and the places of the files are not \
    published.";
const CACHE: &str = "With a buffer of 16 segments (a guess) each chain keeps one filled by the \
    drive's own read-ahead, so that a switch between two chains costs a seek for each segment and \
    not for each file. With one segment every switch costs a seek, as the published collapse has \
    it.";
