//! `a.noise`: the headline figures at the four levels of noise: characterization, throughput, gaps,
//! deadlines and shares.

use headtime_mechanics::NoiseLevel;
use headtime_units::Nanos;

use super::p1::{self, Knows};
use super::p2::{self, Asks};
use super::p5;
use crate::papers::load::{UnitOf, iops};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, FixedParameter, Panel, PaperExperiment,
    Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "a.noise",
    title: "characterization, throughput, gaps, deadlines and shares at each level of noise",
    source: "docs/drives.md, noise",
    takes: "1 min",
    find,
};

const REQUESTS: u64 = 20_000;
const QUEUE: u32 = 32;
/// The drive for deadlines, and those of its two groups of eight readers: P1's table 2, with more
/// time for a slower drive.
const DEADLINES: (&str, [u64; 2]) = ("atlas10k", [125, 250]);
const NOTHING_PUBLISHED: &str = "No publication has it.";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let levels = NoiseLevel::ALL;
    let known = p2::characterized(context, &levels.map(UnitOf::Noise))?;
    let reads = Asks::Reads { bytes: 4_096, queue: QUEUE };
    let tasks = p2::TASKS[0];
    let (mut loads, mut promises, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for (level, known) in levels.iter().zip(&known) {
        let gaps = p2::Run::outside(known, "sptf-expected", Asks::Oltp { tasks }, requests);
        loads.extend([
            p2::Run::outside(known, "clook", reads, requests),
            p2::Run::outside(known, "headtime", reads, requests),
            gaps.scanning(p2::gaps_only(Nanos::from_us(400))),
        ]);
        let (drive, deadlines) = DEADLINES;
        promises.extend(["edf", "headtime"].map(|policy| p1::Run {
            unit: UnitOf::Noise(*level),
            streams: deadlines.map(|ms| (8, Some(Nanos::from_ms(ms)))).to_vec(),
            ..p1::Run::of(drive, policy, Knows::Model, p1::positions(context, 1.0), 1, requests)
        }));
        let what = format!("headtime, half reserved by each, noise {level}");
        let pair = p5::Run::new(what, "headtime", p5::pair(50.0), p5::seconds(context));
        shared.push(p5::Run { noise: *level, ..pair });
    }
    let (loads, promises) = (context.run(&loads)?, context.run(&promises)?);
    let shared = context.run(&shared)?;

    let mut panels: Vec<Panel> = Vec::new();
    let mut rows = Vec::new();
    for (number, level) in levels.iter().enumerate() {
        let check = &known[number].check();
        let [clook, headtime, gaps] = &loads[3 * number..][..3] else { continue };
        let [edf, ours] = &promises[2 * number..][..2] else { continue };
        let exact = |value: f64| Estimated::new(value, None);
        let missed = |missed: u64, of: u64| exact(missed as f64 / of.max(1) as f64 * 100.0);
        let free = gaps.scan.as_ref().map_or(0.0, |scan| scan.mb_per_second);
        let figures = [
            ("characterized model: reads within 50 us", exact(check.within_50_us * 100.0), "%"),
            ("characterized model: off by a revolution", exact(check.turn_missed * 100.0), "%"),
            ("headtime, queue 32", iops(headtime), "requests/s"),
            ("headtime over clook, queue 32", iops(headtime).over(iops(clook)), "ratio"),
            ("free bandwidth beside 10 tasks, margin 0.4 ms", exact(free), "MB/s"),
            ("edf: deadlines missed", missed(edf.deadline_misses, edf.deadline_requests), "%"),
            (
                "headtime: deadlines missed",
                missed(ours.deadline_misses, ours.deadline_requests),
                "%",
            ),
            (
                "share of a stream with half: maximum error over 1 s",
                exact(shared[number].worst(0, 0.5, 1.0)),
                "points",
            ),
        ];
        for (place, (what, figure, unit)) in figures.into_iter().enumerate() {
            if panels.len() <= place {
                let series = vec![Series::measured(what, Vec::new())];
                panels.push(Panel { title: format!("{what}, {unit}"), series });
            }
            panels[place].series[0].points.push(Point::of(number as f64, figure));
            let what = format!("{what}, with noise {level}");
            rows.push(Row::unpublished(what, figure, unit, NOTHING_PUBLISHED));
        }
    }
    let mut plot = Plot::new("level: off, quiet, typical, harsh", "as titled", Axis::Linear);
    plot.panels = panels;
    let mut findings = Findings::new(
        vec![
            FixedParameter::new("characterization, throughput, gaps", p2::DRIVE),
            FixedParameter::new(
                "deadlines",
                format!("{}, 8 readers with 125 ms, 8 with 250", DEADLINES.0),
            ),
            FixedParameter::new("shares", p5::DRIVE),
            FixedParameter::new("requests counted", requests.to_string()),
        ],
        known.iter().map(p2::Known::note).collect(),
        plot,
    );
    findings.rows = rows;
    Ok(findings)
}
