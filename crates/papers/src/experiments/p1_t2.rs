//! `p1.t2`: P1, table II. Deadlines: eight processes of 200 ms and eight of 100 ms.

use std::sync::Arc;

use headtime_belief::matrix::{Directions, MatrixSettings};
use headtime_sim::Measures;
use headtime_units::Nanos;

use super::p1::{self, Collect, DRIVE, Knows, Run};
use crate::characterised::Unknown;
use crate::context::Context;
use crate::error::ExperimentError;
use crate::estimated::Estimated;
use crate::load::{UnitOf, iops};
use crate::report::{Axis, Findings, Panel, Parameter, Plot, Point, Published, Row, Series};
use crate::table::Experiment;

/// The line in the table.
pub const EXPERIMENT: Experiment = Experiment {
    id: "p1.t2",
    title: "response times of two classes with deadlines, and throughput",
    source: "P1, table II and section V-D",
    takes: "8 min",
    find,
};

const REQUESTS: u64 = 200_000;
const CLASSES: [(&str, u32, Nanos); 2] = [("low, 200 ms", 8, Nanos::from_ms(200)), ("high, 100 ms", 8, Nanos::from_ms(100))];
/// The largest responses of high and low priority in ms, and requests a second.
type Figures = (f64, f64, f64);
/// The paper's names, policies, depth of the drive's queue, and what was published.
const SCHEDULERS: [(&str, &str, Option<usize>, Figures); 4] = [
    ("EDF", "edf", None, (99.0, 198.0, 130.0)),
    ("G-MATRIX", "g-matrix", None, (86.0, 192.0, 172.0)),
    ("TCQ4", "firmware", Some(4), (407.0, 419.0, 169.0)),
    ("TCQ64", "firmware", Some(64), (955.0, 1_272.0, 236.0)),
];
/// G-MATRIX is to miss no more than one in so many, and to serve so many times as much as EDF (issue of this project).
const FEW_MISSES: f64 = 1e-4;
const GAIN: f64 = 1.25;
const TOLERANCE: f64 = 0.1;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let (requests, positions) = (context.requests(REQUESTS), p1::positions(context, 0.25));
    let settings = [MatrixSettings::default(), MatrixSettings { directions: Directions::Both, ..MatrixSettings::default() }];
    let maps = context.run(&settings.map(|settings| Collect { drive: DRIVE, unit: UnitOf::Drawn, positions, settings }))?;
    let found = context.run(&[Unknown { drive: "cheetah10k7@nocache", unit: UnitOf::Drawn }])?.remove(0);
    let knows = Knows::Map(Arc::clone(&maps[0]));
    let run = |policy: &str, knows: &Knows| Run {
        streams: CLASSES.iter().map(|(_, clients, deadline)| (*clients, Some(*deadline))).collect(),
        ..Run::of(DRIVE, policy, knows.clone(), positions, 1, requests)
    };
    let mut names: Vec<String> = SCHEDULERS.iter().map(|(name, ..)| (*name).to_string()).collect();
    let mut runs: Vec<Run> =
        SCHEDULERS.iter().map(|(_, policy, depth, _)| depth.map_or(run(policy, &knows), |depth| run(policy, &knows).in_drive(depth))).collect();
    for (words, knows) in
        [("map of both directions", Knows::Map(Arc::clone(&maps[1]))), ("characterised profile", Knows::Profile(Arc::clone(&found)))]
    {
        names.push(format!("G-MATRIX by a {words}"));
        runs.push(run("g-matrix", &knows));
    }
    let measured = context.run(&runs)?;

    let mut findings = Findings {
        parameters: p1::parameters(positions, requests),
        notes: p1::notes(),
        plot: Plot { x_label: "requests a second", y_label: "largest response, ms", x_axis: Axis::Linear, panels: Vec::new() },
        ..Findings::default()
    };
    findings.parameters.push(Parameter::new("processes", "8 with a deadline of 200 ms and 8 with one of 100 ms, synchronous, without think time"));
    findings.notes.push(format!("The characterised profile: {}.", found.words()));
    findings.notes.push(EDF_MISSES.to_string());
    let what = |name: &str, text: &str| format!("{name}: {text} (drawn unit with noise)");
    for (name, measured) in names.iter().zip(&measured) {
        let published = SCHEDULERS.iter().find(|(other, ..)| other == name).map(|(.., published)| *published);
        let figures = [
            (
                "largest response, deadline 100 ms",
                published.map(|published| published.0),
                Estimated::new(measured.streams[1].figures().response_ms.max, None),
                "ms",
            ),
            (
                "largest response, deadline 200 ms",
                published.map(|published| published.1),
                Estimated::new(measured.streams[0].figures().response_ms.max, None),
                "ms",
            ),
            ("throughput", published.map(|published| published.2), iops(measured), "requests a second"),
        ];
        for (text, published, figure, unit) in figures {
            findings.rows.push(match published {
                Some(published) => Row::compared(what(name, text), published, figure, unit, TOLERANCE, OTHER_DRIVE),
                None => Row::unpublished(what(name, text), figure, unit, "Nobody published it: the same policy with other knowledge of the drive."),
            });
        }
        let misses = Estimated::new(missed(measured), None);
        let text = what(name, "requests that missed their deadline");
        findings.rows.push(match name.as_str() {
            "EDF" => Row::judged(text, Published::Number(0.0), misses, "share", misses.value == 0.0, EDF_MISSES.to_string()),
            "G-MATRIX" => {
                let met = misses.value <= FEW_MISSES;
                Row::judged(
                    text,
                    Published::Number(0.0),
                    misses,
                    "share",
                    met,
                    format!("Target at most {FEW_MISSES}, set by the project: {}.", if met { "reached" } else { "missed" }),
                )
            }
            "TCQ4" | "TCQ64" => Row::shape(
                text,
                "many: it knows no deadlines",
                misses,
                "share",
                misses.value > 0.0,
                "so short a queue is through before any deadline.",
            ),
            _ => Row::unpublished(text, misses, "share", "Nobody published it: the same policy with other knowledge of the drive."),
        });
    }
    let gain = iops(&measured[1]).over(iops(&measured[0]));
    let met = gain.value >= GAIN;
    let reason = format!("Target {GAIN}, set by the project: {}.", if met { "reached" } else { "missed" });
    findings.rows.push(Row::judged("G-MATRIX over EDF, throughput (drawn unit with noise)", Published::Number(1.32), gain, "ratio", met, reason));
    findings.plot.panels.push(Panel { title: "high priority, 100 ms".to_string(), series: points(&names, &measured, 1) });
    findings.plot.panels.push(Panel { title: "low priority, 200 ms".to_string(), series: points(&names, &measured, 0) });
    Ok(findings)
}

/// The share of requests that came too late.
fn missed(measures: &Measures) -> f64 {
    measures.deadline_misses as f64 / measures.deadline_requests.max(1) as f64
}

fn points(names: &[String], measured: &[Measures], stream: usize) -> Vec<Series> {
    let point = |measured: &Measures| Point::of(measured.iops, Estimated::new(measured.streams[stream].figures().response_ms.max, None));
    names.iter().zip(measured).map(|(name, measured)| Series { name: name.clone(), published: false, points: vec![point(measured)] }).collect()
}

const OTHER_DRIVE: &str = "the paper's drive, and the length of its run, on which a maximum hangs, are not known.";
const EDF_MISSES: &str = "Served in the order of their deadlines sixteen requests that take 7.5 ms each leave nothing over: 16 processes at the published 130 a second wait 123 ms each on average, \
     and those of 100 ms keep up only because those of 200 ms wait for them. A drive whose mean access is a little longer must miss some, and one that draws long accesses in a row misses \
     even if it is not (docs/limits.md 6). The published none was a maximum of 99 ms over a run of unknown length.";
