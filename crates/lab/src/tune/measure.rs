//! The measurement of a table on a simulated drive.

use headtime_sched::{AutoRow, AutoTable, DEFAULT_POLICY};
use headtime_units::Nanos;

use super::bench::{Bench, PhasePlan, PhaseRun};
use super::loads::TuneLoad;
use crate::papers::{Cause, Context, ExperimentError, PointOfWork};

/// One run: a load, or one stream of it alone, under a policy.
struct Point<'a> {
    bench: &'a Bench,
    load: &'a TuneLoad,
    only: Option<usize>,
    policy: &'a str,
    length: Nanos,
}

impl PointOfWork for Point<'_> {
    type Outcome = PhaseRun;

    fn label(&self) -> String {
        format!("{}: {}", self.load.name, self.policy)
    }

    fn work(&self) -> u64 {
        1
    }

    fn run(&self, seed: u64) -> Result<PhaseRun, Cause> {
        let bench = Bench { seed, ..self.bench.clone() };
        let phase = PhasePlan::new(&self.load.file, self.length);
        let phase = match self.only {
            Some(only) => phase.only(only),
            None => phase,
        };
        let run = bench.run(self.policy, None, &[phase])?;
        Ok(run.phases.into_iter().next().unwrap_or_default())
    }
}

/// The rates of each stream of each load alone, under the default policy.
pub(crate) fn alone(
    context: &Context<'_>,
    bench: &Bench,
    loads: &[TuneLoad],
    length: Nanos,
) -> Result<Vec<Vec<f64>>, ExperimentError> {
    let points: Vec<Point<'_>> = loads
        .iter()
        .flat_map(|load| {
            (0..load.file.streams.len()).map(move |stream| Point {
                bench,
                load,
                only: Some(stream),
                policy: DEFAULT_POLICY,
                length,
            })
        })
        .collect();
    let mut rates = context.run(&points)?.into_iter().map(|run| run.rates.iter().sum());
    let of = |load: &TuneLoad| rates.by_ref().take(load.file.streams.len()).collect();
    Ok(loads.iter().map(of).collect())
}

/// The harmonic mean of progress: of the rate of each stream over its rate alone. A stream that
/// does nothing alone does not count.
pub(crate) fn progress(run: &PhaseRun, alone: &[f64]) -> f64 {
    let streams = run.rates.iter().zip(alone).filter(|(_, alone)| **alone > 0.0);
    let inverse: f64 = streams.clone().map(|(rate, alone)| alone / rate).sum();
    if inverse > 0.0 { streams.count() as f64 / inverse } else { 0.0 }
}

/// Measures the score of each policy under each load; features are those under the default policy.
/// Loads without a request in the measured time are left out.
pub(crate) fn table(
    context: &Context<'_>,
    bench: &Bench,
    loads: &[TuneLoad],
    policies: &[&str],
    length: Nanos,
) -> Result<AutoTable, ExperimentError> {
    let alone = alone(context, bench, loads, length)?;
    let points: Vec<Point<'_>> = loads
        .iter()
        .flat_map(|load| {
            policies.iter().map(move |policy| Point { bench, load, only: None, policy, length })
        })
        .collect();
    let runs = context.run(&points)?;
    let default = policies.iter().position(|policy| *policy == DEFAULT_POLICY).unwrap_or(0);
    let mut rows = Vec::new();
    for ((load, runs), alone) in loads.iter().zip(runs.chunks(policies.len())).zip(&alone) {
        let progress: Vec<f64> = runs.iter().map(|run| progress(run, alone)).collect();
        let best = progress.iter().copied().fold(0.0, f64::max);
        let Some(features) = runs[default].features.filter(|_| best > 0.0) else { continue };
        let scores = progress.iter().map(|progress| rounded(progress / best)).collect();
        let features = features.values().map(rounded);
        rows.push(AutoRow {
            load: load.name.clone(),
            features: headtime_sched::LoadFeatures::from_values(features),
            scores,
        });
    }
    AutoTable::new(&bench.profile.name, policies.iter().copied(), rows)
        .map_err(|error| ExperimentError::new("the table", Cause::Load(error.to_string())))
}

/// Three decimal places, which a table has.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
