//! `a.depth`: docs/limits.md 1. Two commands at the drive reach the throughput of its own queue; at
//! short queues one is better.

use headtime_sim::Measures;

use super::limits::{self, TABLE};
use crate::papers::load::{Load, iops};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, Panel, PaperExperiment, Plot, Point, Row,
    Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.depth",
    title: "one or two commands at the drive against everything in its own queue",
    source: "docs/limits.md 1",
    takes: "5 s",
    find,
};

const QUEUES: [u32; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
const REQUESTS: u64 = 50_000;
/// The scatter of the prototype's three pairs of two commands and the drive's queue, as a share.
const SCATTER: f64 = 0.001;
/// Required agreement of two commands with the drive's queue, as a share.
const EQUAL: f64 = 10.0 * SCATTER;

const WHY: &str = "one candidate fewer counts against the command overhead that two overlap; where \
    the two balance depends on that overhead, which is a guess here.";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for queue in QUEUES {
            let sptf = Load::new(figures.drive, "sptf-oracle", queue, requests);
            loads.extend([
                sptf.clone().outstanding(1),
                sptf.outstanding(2),
                Load::firmware(figures.drive, queue, requests),
            ]);
        }
    }
    let measured = context.run(&loads)?;
    let mut findings = Findings::new(
        limits::parameters(requests),
        limits::notes(),
        Plot::new("queue length", "requests per second", Axis::PowersOfTwo),
    );
    for (figures, measured) in TABLE.iter().zip(measured.chunks(3 * QUEUES.len())) {
        let drive = figures.drive;
        for (queue, measured) in QUEUES.iter().zip(measured.chunks(3)) {
            let [one, two, firmware] = [&measured[0], &measured[1], &measured[2]].map(iops);
            let what = |text: &str| {
                format!("{drive}, queue {queue}: SPTF exact (oracle, no noise), {text}")
            };
            if [16, 64, 256].contains(queue) {
                let why = "the drive's own queue sees every request, two outstanding leave one \
                    choice already made.";
                let reason = "ten times the scatter of the prototype's three pairs";
                let judged = Judged::none("equal", two.gain(firmware), EQUAL, reason);
                findings.rows.push(Row::new(
                    what("gain of two over the drive's own queue"),
                    "gain",
                    judged,
                    why,
                ));
            }
            // The prototype names the cases where one wins; two wins elsewhere.
            let published_one = *queue <= if drive == "atlas10k" { 2 } else { 8 };
            let (text, gain) = if published_one {
                ("gain of one over two", one.gain(two))
            } else {
                ("gain of two over one", two.gain(one))
            };
            let reason = "the scatter of the prototype's pairs: less is no difference";
            let judged = Judged::ordering(gain, SCATTER, reason);
            findings.rows.push(Row::new(what(text), "gain", judged, WHY));
        }
        findings.plot.panels.push(panel(drive, measured));
    }
    Ok(findings)
}

fn panel(drive: &str, measured: &[Measures]) -> Panel {
    let line = |name: &str, place: usize| {
        let points = QUEUES
            .iter()
            .zip(measured.chunks(3))
            .map(|(queue, measured)| Point::of(f64::from(*queue), iops(&measured[place])));
        Series::measured(name, points.collect())
    };
    Panel {
        title: drive.to_string(),
        series: vec![
            line("one (oracle)", 0),
            line("two (oracle)", 1),
            line("the drive's own queue", 2),
        ],
    }
}
