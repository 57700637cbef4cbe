//! `p1.f6`: P1, figure 6. Throughput over time while the map fills.

use headtime_belief::matrix::{Directions, MatrixSettings};
use headtime_mechanics::DriveProfile;
use headtime_sim::{EngineObserver, RunError, run_observed};
use headtime_units::Instant;

use super::p1::{self, DRIVE, Knows, Run};
use crate::papers::{
    Axis, Cause, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot,
    Point, PointOfWork, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.f6",
    title: "throughput over time while the map fills",
    source: "P1, figure 6 and section V-C",
    takes: "3 min",
    find,
};

/// Processes (guess: the paper does not say; its figure ends where figure 5 has some 30).
const QUEUE: u32 = 32;
/// Requests for each pair of positions, enough to meet every pair.
const ROUNDS: u64 = 6;
/// Points of a line.
const WINDOWS: u64 = 60;
/// Pairs of positions against the paper's: its figure spans days, of which a share is enough to
/// show the shape.
const SHARE: f64 = 0.002;

/// A run that is measured window by window.
struct Filling {
    run: Run,
}

/// Hours, and requests per second.
type Line = Vec<(f64, f64)>;

/// The least change that is visible in the figure.
const VISIBLE: f64 = 0.02;
const UNSEEN: &str = "a guess: less is not visible in the figure";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let positions = p1::positions(context, SHARE);
    let requests = ROUNDS * positions * positions;
    let fill = |(policy, directions): (&str, Directions)| {
        let knows = Knows::EmptyMap(MatrixSettings { directions, ..MatrixSettings::default() });
        let run = Run::of(DRIVE, policy, knows, positions, QUEUE, requests);
        Filling { run: Run { outstanding: Some(1), ..run } }
    };
    let half = MatrixSettings::default().directions;
    let lines = context.run(
        &[
            ("satf-map", half),
            ("satf-lbn", half),
            (p1::GREEDY, half),
            (p1::GREEDY, Directions::Both),
        ]
        .map(fill),
    )?;
    let mut findings = Findings::new(
        p1::parameters(positions, requests),
        p1::notes(),
        Plot::new("hours", "requests per second", Axis::Linear),
    );
    findings.parameters.retain(|parameter| parameter.name != "map");
    findings.add_parameter("map", "cells of 128 KiB, 4 bits, worst observed, empty at first");
    findings.add_parameter("processes", QUEUE.to_string());
    let line = &lines[0];
    let tenth = (line.len() / 10).max(1);
    let start = line.first().map_or(0.0, |(_, rate)| *rate);
    let least = line.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
    let what = |text: &str| format!("SATF-MAP: {text} (simulated drive with noise)");
    let last: Vec<f64> = line[line.len() - tenth..].iter().map(|(_, rate)| *rate).collect();
    let settled = Estimated::of_runs(&last);
    // The scatter of the last windows stands for that of any single one.
    let scatter = settled.half_width.map(|width| width * libm::sqrt(last.len() as f64));
    let window = |rate: f64| Estimated::new(rate, scatter);
    let judged = Judged::ordering(settled.gain(window(start)), VISIBLE, UNSEEN);
    findings.rows.push(Row::new(
        what("gain of the end over the start"),
        "gain",
        judged,
        "an insertion by the map gains less than the order by address that the run begins with.",
    ));
    let judged = Judged::ordering(window(start).gain(window(least)), VISIBLE, UNSEEN);
    findings.rows.push(Row::new(
        what("gain of the start over the minimum"),
        "gain",
        judged,
        "the exploration of pairs costs nothing here.",
    ));
    let end_of = |line: &Line| {
        let last: Vec<f64> = line[line.len() - tenth..].iter().map(|(_, rate)| *rate).collect();
        Estimated::of_runs(&last)
    };
    for (line, text) in [
        (0, "gain of the end over SATF-LBN"),
        (2, "the same by nearest neighbor, not insertion"),
        (3, "the same by nearest neighbor and a map of both directions"),
    ] {
        findings.rows.push(Row::unpublished(
            what(text),
            end_of(&lines[line]).gain(end_of(&lines[1])),
            "gain",
            "Not published for this figure; figure 5 has it for full maps.",
        ));
    }
    let names = [
        "SATF-MAP",
        "SATF-LBN",
        "nearest neighbor by the map",
        "nearest neighbor by a map of both directions",
    ];
    let series = names.iter().zip(&lines).map(|(name, line)| {
        Series::measured(
            *name,
            line.iter().map(|(hours, rate)| Point::published(*hours, *rate)).collect(),
        )
    });
    findings.add_panel(DRIVE, series.collect());
    Ok(findings)
}

/// Ends of windows of so many requests.
struct Windows {
    each: u64,
    finished: u64,
    ends: Vec<Instant>,
}

impl EngineObserver for Windows {
    fn finished(&mut self, now: Instant, _finished: &headtime_sched::Finished) {
        self.finished += 1;
        if self.finished.is_multiple_of(self.each) {
            self.ends.push(now);
        }
    }
}

impl PointOfWork for Filling {
    type Outcome = Line;

    fn label(&self) -> String {
        self.run.label()
    }

    fn work(&self) -> u64 {
        self.run.work()
    }

    fn run(&self, seed: u64) -> Result<Line, Cause> {
        let (mut experiment, source) = self.run.experiment(seed)?;
        experiment.warm_up = 0;
        self.run.belief(&experiment.profile)?;
        let belief = |profile: &DriveProfile| {
            self.run.belief(profile).expect("it was made of the same profile a moment ago")
        };
        let mut windows = Windows {
            each: (self.run.requests / WINDOWS).max(1),
            finished: 0,
            ends: vec![Instant::ORIGIN],
        };
        let ended = run_observed(&experiment, source, &belief, &mut windows)?;
        if let Some(fault) = ended.fault {
            return Err(RunError::from(fault).into());
        }
        let each = windows.each as f64;
        let rate = |pair: &[Instant]| {
            (
                pair[1].as_ns() as f64 / 3.6e12,
                each / pair[1].saturating_since(pair[0]).as_secs_f64(),
            )
        };
        Ok(windows.ends.windows(2).map(rate).collect())
    }
}
