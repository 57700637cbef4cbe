//! `p5.isolation`: share and response times of a stream with hostile neighbors. The paper promises
//! isolation (section 2.2) without a figure.

use headtime_sched::Terms;
use headtime_units::Nanos;
use headtime_workload::{Interarrival, Mix, Order, Phase, Sizes, StreamConfig};

use super::p5::{self, Course, Member, Run};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Published, Row,
    Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p5.isolation",
    title: "share and response times of a stream with five hostile neighbors",
    source: "P5, section 2.2",
    takes: "40 s",
    find,
};

/// The reservation of the victim in percent; a single neighbor has the rest.
const VICTIM: f64 = 30.0;
/// Requests that the victim holds.
const HELD: u32 = 4;
/// The allowed shortfall of the victim over the whole run, in points of percent.
const SHORT: f64 = 1.0;
/// The allowed loss of throughput beside a neighbor, as a share.
const OVERHEAD: f64 = 0.05;
const POLICIES: [&str; 2] = ["headtime", "utilization"];

/// The neighbors. The bursts need less than their share of the drive, or their queue would grow
/// without bound.
fn neighbors() -> [(&'static str, StreamConfig); 5] {
    let sized =
        |bytes: u64, config: StreamConfig| StreamConfig { sizes: Sizes::Fixed { bytes }, ..config };
    let writes = |config: StreamConfig| StreamConfig { mix: Mix::reads(0.0), ..config };
    let bursts = Interarrival::Bursts {
        per_second: 300.0,
        on: Phase::Constant(Nanos::from_ms(200)),
        off: Phase::Constant(Nanos::from_ms(1_800)),
    };
    [
        ("256 random reads at a time", StreamConfig::closed(256)),
        (
            "sequential flood",
            sized(
                65_536,
                StreamConfig {
                    order: Order::Sequential,
                    positions: Some(1),
                    ..StreamConfig::closed(64)
                },
            ),
        ),
        (
            "tiny writes, a flush after each",
            StreamConfig { flush_every: Some(1), ..writes(sized(512, StreamConfig::closed(8))) },
        ),
        ("bursts of 60 reads", StreamConfig::open(bursts)),
        ("random writes of 1 MiB", writes(sized(1 << 20, StreamConfig::closed(16)))),
    ]
}

/// Volumes that send flushes, or the writes that these flush from the drive's write cache; each has
/// reserved an equal part of the time that the victim leaves.
fn beside_a_write_cache() -> [(&'static str, Vec<StreamConfig>); 4] {
    let writes = StreamConfig { mix: Mix::reads(0.0), ..StreamConfig::closed(8) };
    let flushes =
        StreamConfig { mix: Mix { flushes: 1.0, ..Mix::reads(0.0) }, ..StreamConfig::closed(8) };
    let synchronous =
        StreamConfig { flush_every: Some(1), sizes: Sizes::Fixed { bytes: 512 }, ..writes.clone() };
    [
        ("write cache: flushes alone", vec![flushes.clone()]),
        ("write cache: random writes", vec![writes.clone()]),
        ("write cache: random writes, and flushes of another", vec![writes, flushes]),
        ("write cache: tiny writes, a flush after each", vec![synchronous]),
    ]
}

fn victim(terms: Terms) -> Member {
    Member { config: StreamConfig::closed(HELD), terms }
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let share = p5::percent(VICTIM);
    let mut findings = Findings::new(
        p5::parameters(seconds),
        Vec::new(),
        Plot::new(
            "neighbor: 0 none, then as in the rows",
            "99th percentile of response, ms",
            Axis::Linear,
        ),
    );
    findings
        .add_parameter("victim", format!("random 4 KiB reads, {HELD} held, {VICTIM} % reserved"));
    findings.add_parameter(
        "neighbor",
        format!(
            "{} % reserved; all five together: {} % each",
            100.0 - VICTIM,
            (100.0 - VICTIM) / 5.0
        ),
    );
    findings
        .add_parameter("alone", format!("the victim with a limit of {VICTIM} %, and nobody else"));
    for policy in POLICIES {
        let reserving = |percent: f64| Terms::reserving(p5::percent(percent));
        let alone = victim(Terms { limit: share, ..Terms::reserving(share) });
        let mut runs = vec![Run::new(format!("{policy}: alone"), policy, vec![alone], seconds)];
        let mut names = Vec::new();
        for (name, config) in neighbors() {
            let members = vec![
                victim(Terms::reserving(share)),
                Member { config, terms: reserving(100.0 - VICTIM) },
            ];
            runs.push(Run::new(format!("{policy}: {name}"), policy, members, seconds));
            names.push(name);
        }
        let crowd = neighbors()
            .map(|(_, config)| Member { config, terms: reserving((100.0 - VICTIM) / 5.0) });
        let members = std::iter::once(victim(Terms::reserving(share))).chain(crowd).collect();
        runs.push(Run::new(format!("{policy}: all five"), policy, members, seconds));
        names.push("all five");
        for (name, configs) in beside_a_write_cache() {
            let terms = reserving((100.0 - VICTIM) / configs.len() as f64);
            let others = configs.into_iter().map(|config| Member { config, terms });
            let members = std::iter::once(victim(Terms::reserving(share))).chain(others).collect();
            runs.push(
                Run::new(format!("{policy}: {name}"), policy, members, seconds).with_write_cache(),
            );
            names.push(name);
        }
        let courses = context.run(&runs)?;
        findings.rows.extend(rows(policy, &names, &courses));
        let points = courses
            .iter()
            .enumerate()
            .map(|(place, course)| Point::of(place as f64, course.response_ms(0, 0.99)));
        findings.add_panel(policy, vec![Series::measured("victim", points.collect())]);
    }
    findings.notes.push(
        "The drive's write cache is off except where named. With it on a drive answers \
            writes before it does them, and the next request pays for them."
            .to_string(),
    );
    Ok(findings)
}

fn rows(policy: &str, names: &[&str], courses: &[Course]) -> Vec<Row> {
    let what =
        |name: &str, text: &str| format!("{policy}, {name}: {text} (simulated drive with noise)");
    let (alone, beside) = courses.split_first().expect("the first is the victim alone");
    let p99 = alone.response_ms(0, 0.99);
    let why = "Not published: the base of the comparisons.";
    let mut rows = vec![
        Row::unpublished(what("alone", "share of disk time"), alone.share_percent(0), "%", why),
        Row::unpublished(what("alone", "throughput"), alone.rate_of(0), "requests per second", why),
        Row::unpublished(what("alone", "99th percentile of response"), p99, "ms", why),
    ];
    for (name, course) in names.iter().zip(beside) {
        let reason = format!("its reservation less {SHORT} point, a guess");
        let judged = Judged::at_least(VICTIM - SHORT, course.share_percent(0), &reason)
            .published(Published::Shape("what it has reserved"));
        rows.push(Row::new(
            what(name, "share of disk time"),
            "%",
            judged,
            "it falls short of its reservation.",
        ));
        let gain = course.rate_of(0).gain(alone.rate_of(0));
        rows.push(Row::new(
            what(name, "gain of throughput over that alone"),
            "gain",
            Judged::at_least(-OVERHEAD, gain, "\"a small relatively constant overhead\": a guess")
                .published(Published::Shape("a small overhead")),
            "the same share is worth less where the neighbor costs time that it is not charged.",
        ));
        let longer = course.response_ms(0, 0.99).over(p99);
        let reason = "Not published: other streams' runs lie between two of its own, where alone \
            it is held back as long by its limit.";
        rows.push(Row::unpublished(
            what(name, "99th percentile of response over that alone"),
            longer,
            "ratio",
            reason,
        ));
    }
    rows
}
