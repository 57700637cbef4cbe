//! `p4.f1` and `p4.f2`: P4, figures 1 and 2. Bandwidth of the array by outstanding requests and by
//! their size.

use headtime_workload::{Sizes, StreamConfig};

use super::p4::{self, Course, NOISE, OUTSTANDING, Run};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point,
    Published, Row, Series,
};

/// The line of figure 1 in the table.
pub(crate) const BY_OUTSTANDING: PaperExperiment = PaperExperiment {
    id: "p4.f1",
    title: "bandwidth of an array of twelve by outstanding requests",
    source: "P4, figure 1",
    takes: "20 s",
    find: by_outstanding,
};

/// The line of figure 2 in the table.
pub(crate) const BY_SIZE: PaperExperiment = PaperExperiment {
    id: "p4.f2",
    title: "bandwidth of an array of twelve by size of requests, 1 and 60 outstanding",
    source: "P4, figure 2",
    takes: "5 s",
    find: by_size,
};

/// Outstanding requests of figure 1.
const COUNTS: [u32; 9] = [1, 2, 5, 10, 20, 30, 40, 50, OUTSTANDING];
/// The shares of the array's addresses that the requests of figure 1 access. The paper states
/// none, but about 1 MB/s with one outstanding: 4 ms for each request. A drive of 10,000 rpm needs
/// 3 ms of them for half a revolution, so that the arm hardly moved.
const RANGES: [f64; 4] = [1.0, 0.1, 0.03, 0.01];
/// MB/s with one outstanding, as published.
const ONE: f64 = 1.0;
/// Sizes of figure 2, in KiB.
const KIB: [u64; 7] = [4, 16, 64, 256, 1_024, 4_096, 16_384];
/// As published.
const CONTROLLER: f64 = 250.0;

fn rate(courses: &[Course]) -> Estimated {
    p4::mean(courses, |course| course.mb_per_s)
}

/// A closed loop without a software queue, anywhere: everything is sent at once.
fn closed(context: &Context<'_>, clients: u32, kib: u64) -> Run {
    let stream =
        StreamConfig { sizes: Sizes::Fixed { bytes: kib << 10 }, ..StreamConfig::closed(clients) };
    let policy = format!("firmware:depth={OUTSTANDING}");
    Run::new(context, format!("{clients} of {kib} KiB"), policy, vec![stream])
}

fn by_outstanding(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let plot = Plot::new("outstanding requests", "MB/s", Axis::Linear);
    let mut findings = Findings::new(p4::parameters(), vec![RANGE.to_string()], plot);
    let mut lines = Vec::new();
    let points = RANGES.into_iter().flat_map(|range| COUNTS.map(|count| (range, count)));
    let runs = points.map(|(range, count)| Run { range, ..closed(context, count, 4) });
    let courses = p4::run_all(context, runs)?;
    for (range, courses) in RANGES.iter().zip(courses.chunks(COUNTS.len())) {
        let rates: Vec<Estimated> = courses.iter().map(|courses| rate(courses)).collect();
        let within = format!("within {} % of the array", range * 100.0);
        for (count, rate) in COUNTS.iter().zip(&rates) {
            let what = format!("{count} outstanding, 4 KiB {within} {NOISE}");
            findings.rows.push(if *count == 1 {
                let published = Published::Number(ONE);
                Row::not_judged(what, published, *rate, "MB/s", "The paper states no range.")
            } else {
                let why = "The text has the factor from 1 to 60, and the rate with one, alone.";
                Row::unpublished(what, *rate, "MB/s", why)
            });
        }
        findings.rows.push(Row::new(
            format!("60 outstanding over one, {within} {NOISE}"),
            "times",
            Judged::at_least(20.0, rates[rates.len() - 1].over(rates[0]), "as published"),
            "twelve drives gain at most twelve times from working at once, and the rest from the \
                order within each of five or so, which gains more the less the arm moves.",
        ));
        let points = COUNTS.iter().zip(&rates);
        let points = points.map(|(count, rate)| Point::of(f64::from(*count), *rate)).collect();
        lines.push(Series::measured(within, points));
    }
    findings.add_panel("random reads of 4 KiB", lines);
    Ok(findings)
}

const RANGE: &str = "The paper states neither the range of addresses nor a cache of the \
    controller, which is not modelled. A rate of about 1 MB/s with one outstanding request, as in \
    its text, is that of reads within a small range.";

fn by_size(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let runs = [1, OUTSTANDING]
        .into_iter()
        .flat_map(|clients| KIB.map(|kib| closed(context, clients, kib)));
    let courses = p4::run_all(context, runs)?;
    let rates: Vec<Estimated> = courses.iter().map(|courses| rate(courses)).collect();
    let (one, many) = rates.split_at(KIB.len());
    let plot = Plot::new("KiB of a request", "MB/s", Axis::PowersOfTwo);
    let mut findings = Findings::new(p4::parameters(), Vec::new(), plot);
    let ratios: Vec<Estimated> = many.iter().zip(one).map(|(many, one)| many.over(*one)).collect();
    for ((kib, ratio), many) in KIB.iter().zip(&ratios).zip(many) {
        findings.rows.push(Row::unpublished(
            format!("{kib} KiB, 60 outstanding over one, at {:.1} MB/s {NOISE}", many.value),
            *ratio,
            "times",
            "The figure has no numbers in the text.",
        ));
    }
    let below: Vec<usize> =
        (0..KIB.len()).filter(|size| many[*size].value < 0.9 * CONTROLLER).collect();
    let smallest = below
        .iter()
        .map(|size| many[*size].gain(one[*size]))
        .min_by(|a, b| a.value.total_cmp(&b.value));
    if let Some(smallest) = smallest {
        findings.rows.push(Row::new(
            format!("smallest gain of 60 over one below nine tenths of 250 MB/s {NOISE}"),
            "gain",
            Judged::at_least(1.0, smallest, "twice as much, a guess")
                .published(Published::Shape("better across a broad range of sizes")),
            "large requests occupy several drives even one at a time.",
        ));
    }
    let last = KIB.len() - 1;
    findings.rows.push(Row::new(
        format!("gain at {} KiB over the gain at 4 KiB {NOISE}", KIB[last]),
        "times",
        Judged::at_most(0.25, ratios[last].over(ratios[0]), "a quarter, a guess")
            .published(Published::Shape("the gap narrows at about 250 MB/s")),
        "the gap stays.",
    ));
    findings.rows.push(Row::not_judged(
        format!("60 outstanding, {} KiB {NOISE}", KIB[last]),
        Published::Number(CONTROLLER),
        many[last],
        "MB/s",
        "The limit of the simulated controller is set to the published bandwidth.",
    ));
    let line = |name: &str, rates: &[Estimated]| {
        let points = KIB.iter().zip(rates).map(|(kib, rate)| Point::of(*kib as f64, *rate));
        Series::measured(name, points.collect())
    };
    findings
        .add_panel("random reads", vec![line("1 outstanding", one), line("60 outstanding", many)]);
    Ok(findings)
}
