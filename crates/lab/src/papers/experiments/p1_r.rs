//! `p1.r`: P1, section III-A. A repeated order of requests takes the same time.

use std::sync::Arc;

use headtime_mechanics::catalog;
use headtime_sched::PolicyEntry;
use headtime_sim::{EngineObserver, RunError, run_observed};
use headtime_units::Instant;
use headtime_workload::{Arrival, ClientId, RequestSource, Workload};

use super::p1::{self, DRIVE, OTHERS};
use crate::papers::load::UnitOf;
use crate::papers::{
    Axis, Cause, Context, Estimated, ExperimentError, Findings, Judged, Measured, PaperExperiment,
    Plot, Point, PointOfWork, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.r",
    title: "a repeated order of requests takes the same time",
    source: "P1, section III-A",
    takes: "20 s",
    find,
};

/// Orders on each drive, requests of each, and repetitions of each.
const ORDERS: u64 = 200;
const LENGTH: u64 = 64;
const AGAIN: u64 = 10;
const POSITIONS: u64 = 997;
/// "The deviation in execution time was within 1 %."
const PUBLISHED_PERCENT: f64 = 1.0;

/// Repetitions of one order on one drive.
struct Again {
    drive: &'static str,
    orders: u64,
}

/// For each order the standard deviation and the largest deviation of its times from their mean, in
/// percent.
type Deviations = Vec<(f64, f64)>;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let orders = context.requests(ORDERS * 10) / 10;
    let drives: Vec<&'static str> = [DRIVE].into_iter().chain(OTHERS).collect();
    let points: Vec<Again> = drives.iter().map(|drive| Again { drive, orders }).collect();
    let measured = context.run(&points)?;
    let mut findings = Findings::new(
        Vec::new(),
        p1::notes(),
        Plot::new("share of orders, %", "largest deviation from the mean, %", Axis::Linear),
    );
    findings.add_parameter(
        "orders",
        format!(
            "{orders} of {LENGTH} random reads on each drive, \
            each issued {AGAIN} times, one read at a time"
        ),
    );
    for (drive, deviations) in drives.iter().zip(measured) {
        let each: Vec<f64> = deviations.iter().map(|(deviation, _)| *deviation).collect();
        let what =
            format!("{drive}: standard deviation of an order's time (simulated drive with noise)");
        let judged = Judged::at_most(PUBLISHED_PERCENT, Estimated::of_runs(&each), "as published");
        findings.rows.push(Row::new(what, "%", judged, WHY));
        let mut largest: Vec<f64> = deviations.iter().map(|(_, largest)| *largest).collect();
        largest.sort_by(f64::total_cmp);
        let within = largest.iter().filter(|largest| **largest <= PUBLISHED_PERCENT).count();
        let what = format!(
            "{drive}: orders with all times within 1 % of their mean (simulated drive with noise)"
        );
        findings.rows.push(Row::unpublished(
            what,
            Measured::proportion(within as u64, largest.len() as u64).times(100.0),
            "%",
            "Not published; the next figure is of the worst of them.",
        ));
        let what = format!(
            "{drive}: largest deviation of a repetition from its order's mean (simulated drive \
                with noise)"
        );
        let most = context.maximum(largest.last().copied().unwrap_or(0.0));
        let judged = Judged::at_most(PUBLISHED_PERCENT, most, "as published, of all repetitions");
        findings.rows.push(Row::new(what, "%", judged, WHY));
        let points = largest.iter().enumerate().map(|(place, largest)| {
            Point::published(100.0 * (place + 1) as f64 / deviations.len() as f64, *largest)
        });
        findings.add_panel(*drive, vec![Series::measured("orders", points.collect())]);
    }
    Ok(findings)
}

/// The sequence of orders with their repetitions.
struct Orders {
    reads: Workload,
    order: Vec<Arrival>,
    place: usize,
    rounds: u64,
    orders: u64,
}

impl RequestSource for Orders {
    fn arrival(&mut self) -> Option<Arrival> {
        self.order.is_empty().then(|| self.follow(Instant::ORIGIN, ClientId(0))).flatten()
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        if self.place == self.order.len() {
            self.place = 0;
            if self.rounds == 0 {
                self.orders = self.orders.checked_sub(1)?;
                self.rounds = AGAIN;
                self.order = (0..LENGTH).map_while(|_| self.reads.follow(now, client)).collect();
            }
            self.rounds -= 1;
        }
        let arrival = self.order[self.place];
        self.place += 1;
        Some(Arrival { at: now, ..arrival })
    }
}

/// The end of each repetition of an order.
#[derive(Default)]
struct Rounds {
    finished: u64,
    ends: Vec<Instant>,
}

impl EngineObserver for Rounds {
    fn finished(&mut self, now: Instant, _finished: &headtime_sched::Finished) {
        self.finished += 1;
        if self.finished.is_multiple_of(LENGTH) {
            self.ends.push(now);
        }
    }
}

/// The standard deviation and the largest deviation of times from their mean, in percent of it.
fn deviations(times: &[f64]) -> (f64, f64) {
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let off = |time: &f64| 100.0 * (time - mean) / mean;
    let squares: f64 = times.iter().map(|time| off(time) * off(time)).sum();
    (
        libm::sqrt(squares / (times.len() - 1) as f64),
        times.iter().map(|time| off(time).abs()).fold(0.0, f64::max),
    )
}

impl PointOfWork for Again {
    type Outcome = Deviations;

    fn label(&self) -> String {
        format!("orders again on {}", self.drive)
    }

    fn work(&self) -> u64 {
        self.orders * AGAIN * LENGTH
    }

    fn run(&self, seed: u64) -> Result<Deviations, Cause> {
        let mut profile = catalog::load(self.drive)?;
        let unit = UnitOf::Drawn.prepare(&mut profile);
        let reads = Workload::new(
            &[p1::reads(POSITIONS)],
            profile.sector_size()?,
            profile.capacity(),
            seed,
        )?;
        let (entry, parameters) = PolicyEntry::parse("fcfs")?;
        let requests = self.orders * AGAIN * LENGTH;
        let experiment = headtime_sim::Experiment {
            instance: unit,
            parameters,
            outstanding: Some(1),
            warm_up: 0,
            requests,
            ..headtime_sim::Experiment::new(Arc::new(profile), entry, seed)
        };
        let source = Orders { reads, order: Vec::new(), place: 0, rounds: 0, orders: self.orders };
        let mut rounds = Rounds::default();
        let belief =
            |profile: &headtime_mechanics::DriveProfile| -> Box<dyn headtime_sched::Belief + Send> {
                Box::new(
                    headtime_belief::DriveModel::of_profile(profile)
                        .expect("a profile of the catalog"),
                )
            };
        let ended = run_observed(&experiment, source, &belief, &mut rounds)?;
        if let Some(fault) = ended.fault {
            return Err(RunError::from(fault).into());
        }
        let times: Vec<f64> = rounds
            .ends
            .windows(2)
            .map(|pair| pair[1].saturating_since(pair[0]).as_ns() as f64)
            .collect();
        // The first repetition of an order begins where the previous order ended, and is ignored.
        let again = AGAIN as usize - 1;
        Ok(times
            .chunks(AGAIN as usize)
            .filter(|times| times.len() >= again)
            .map(|times| deviations(&times[..again]))
            .collect())
    }
}

const WHY: &str = "requests whose sector is nearly missed are missed in some rounds and not in \
    others, a turn of 64 accesses each.";
