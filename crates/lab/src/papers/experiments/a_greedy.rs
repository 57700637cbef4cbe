//! `a.greedy`: docs/limits.md 2. The greedy choice of the next command is better than tours of the
//! current queue; only deep planning gains more.

use super::limits::{self, QUEUES, TABLE};
use crate::papers::load::{Load, iops};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.greedy",
    title: "greedy SPTF against tours and against planning ahead",
    source: "docs/limits.md 2",
    takes: "1 min",
    find,
};

const REQUESTS: u64 = 10_000;
/// The first drive of the table, whose ratios docs/limits.md 2 gives.
const DRIVE: &str = TABLE[0].drive;
/// Planners: commands planned ahead, name in rows, and policy. Two steps are searched exhaustively
/// up to the width.
const PLANNERS: [(f64, &str, &str); 3] = [
    (2.0, "two steps ahead", "beam-oracle:depth=2,width=256,branches=256"),
    (4.0, "beam of depth 4", "beam-oracle:depth=4"),
    (8.0, "beam of depth 8", "beam-oracle"),
];
/// The queue lengths of the comparison with nearest insertion.
const INSERTED: [u32; 2] = [64, 256];
/// "Gives nothing": required agreement with 1, as a share (guess).
const NOTHING: f64 = 0.01;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let mut loads = Vec::new();
    for figures in &TABLE {
        for queue in QUEUES {
            let load =
                |policy: &str| Load::new(figures.drive, policy, queue, requests).outstanding(2);
            loads.push(load("sptf-oracle"));
            loads.extend(PLANNERS.iter().map(|(_, _, policy)| load(policy)));
        }
    }
    let planned = loads.len();
    let insert = |queue| Load::new(DRIVE, limits::REPLANNED, queue, requests).outstanding(2);
    loads.extend(INSERTED.map(insert));
    let measured = context.run(&loads)?;
    let (measured, inserted) = measured.split_at(planned);
    let mut findings = Findings::new(
        limits::parameters(requests),
        limits::notes(),
        Plot::new("commands planned ahead", "throughput over SPTF's", Axis::PowersOfTwo),
    );
    findings.add_parameter(
        "planner",
        "beam-oracle, width 64 and 8 branches unless a row says \
            otherwise, two commands at the drive",
    );
    for (figures, measured) in
        TABLE.iter().zip(measured.chunks(QUEUES.len() * (PLANNERS.len() + 1)))
    {
        let mut series = Vec::new();
        for ((place, queue), measured) in
            QUEUES.iter().enumerate().zip(measured.chunks(PLANNERS.len() + 1))
        {
            let greedy = iops(&measured[0]);
            let mut points = vec![Point::published(1.0, 1.0)];
            for ((depth, name, _), measures) in PLANNERS.iter().zip(&measured[1..]) {
                let what = format!(
                    "{}, queue {queue}: gain of {name} over greedy SPTF (oracle, no noise)",
                    figures.drive
                );
                let (ratio, gain) = (iops(measures).over(greedy), iops(measures).gain(greedy));
                findings.rows.push(match *depth as u32 {
                    2 => Row::new(
                        what,
                        "gain",
                        Judged::none("nothing", gain, NOTHING, "\"gives nothing\": a guess"),
                        "here the second step brings something.",
                    ),
                    4 => Row::unpublished(
                        what,
                        gain,
                        "gain",
                        "Not published: how the gain grows with depth.",
                    ),
                    _ => {
                        let why = "the beam of the prototype may have kept other plans than this \
                            one, and the drives differ.";
                        let published = (figures.planner[place], figures.sptf_two[place]);
                        limits::gain(what, published, gain, why)
                    }
                });
                points.push(Point::of(*depth, ratio));
            }
            series.push(Series::measured(format!("queue {queue} (oracle)"), points));
        }
        findings.add_panel(figures.drive, series);
    }
    let figures = &TABLE[0];
    for (queue, inserted) in INSERTED.iter().zip(inserted) {
        let place = QUEUES.iter().position(|other| other == queue).expect("one of the table");
        let greedy = &measured[place * (PLANNERS.len() + 1)];
        findings.rows.push(limits::gain(
            format!(
                "{DRIVE}, queue {queue}: gain of greedy SPTF over nearest insertion, re-planned \
                    (oracle, no noise)"
            ),
            (figures.sptf_two[place], figures.insertion_replanned[place]),
            iops(greedy).gain(iops(inserted)),
            figures.why,
        ));
    }
    findings.notes.push(
        "The ratios take the intervals of both runs as independent; since both serve the same \
            places, they are narrower than printed."
            .to_string(),
    );
    Ok(findings)
}
