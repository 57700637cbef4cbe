//! [`Cell`]: one run of a comparison: a case, a policy, a replica.

use std::cell::Cell as Taken;

use anyhow::{Context as _, anyhow};
use headtime_io::ModelSource;
use headtime_mechanics::{DriveProfile, NoiseLevel};
use headtime_sched::Refusal;
use headtime_sim::{EngineError, Experiment, Instance, ObservedRun, RunError, run_observed};
use headtime_units::Instant;
use headtime_workload::{Arrival, ClientId, RequestSource, SourceEvent};
use serde::{Deserialize, Serialize};

use super::observer::Observer;
use super::outcome::{CellEnd, CellOutcome, Figures, StreamOutcome, rounded, shares};
use super::plan::{Case, Plan};
use crate::workloads::StreamLabel;
use headtime_console::stop::Stop;

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The case's place in the plan.
    pub case: usize,
    /// The policy's.
    pub policy: usize,
    /// The replica's seed.
    pub seed: u64,
}

/// All that decides what comes out of a cell, but for the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisive {
    /// The policy and its parameters.
    pub policy: String,
    /// By what it believes, but for the profile, by which everything was before there was a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belief: Option<String>,
    /// Of what the belief's file holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belief_fingerprint: Option<String>,
    /// The drive as it was called.
    pub drive: String,
    /// Of everything its profile says.
    pub drive_fingerprint: String,
    /// The workload as it was called.
    pub workload: String,
    /// Of everything that decides its requests.
    pub workload_fingerprint: String,
    /// Requests held.
    pub depth: Option<u32>,
    /// The seed of instance and workload.
    pub seed: u64,
    /// Requests counted.
    pub requests: u64,
    /// Requests before those.
    pub warm_up: u64,
    /// The level of noise.
    pub noise: NoiseLevel,
    /// Commands at the drive at once.
    pub outstanding: Option<u64>,
    /// Requests held at most.
    pub queue_limit: u64,
}

impl Cell {
    /// The cells of a plan, in the order of all tables: case, policy, replica.
    #[must_use]
    pub fn all(plan: &Plan) -> Vec<Self> {
        let of_case = |(case, of): (usize, &Case)| {
            of.policies
                .iter()
                .flat_map(move |policy| {
                    plan.seeds().map(move |seed| Self { case, policy: *policy, seed })
                })
                .collect::<Vec<_>>()
        };
        plan.cases.iter().enumerate().flat_map(of_case).collect()
    }

    /// The parameters that determine it.
    #[must_use]
    pub fn decisive(&self, plan: &Plan) -> Decisive {
        let case = &plan.cases[self.case];
        let (drive, workload) = (&plan.drives[case.drive], &plan.workloads[case.workload]);
        let policy = &plan.policies[self.policy];
        let belief = policy.belief.map(|belief| &plan.beliefs[belief]);
        Decisive {
            policy: policy.policy.clone(),
            belief: belief
                .map(|belief| belief.text.clone())
                .filter(|text| *text != ModelSource::Profile.to_string()),
            belief_fingerprint: belief
                .and_then(|belief| belief.fingerprint)
                .map(|fingerprint| format!("{fingerprint:016x}")),
            drive: drive.text.clone(),
            drive_fingerprint: format!("{:016x}", drive.fingerprint),
            workload: workload.name.clone(),
            workload_fingerprint: format!("{:08x}", workload.choice.fingerprint()),
            depth: case.depth,
            seed: self.seed,
            requests: plan.spec.requests.value,
            warm_up: case.warm_up,
            noise: plan.spec.noise,
            outstanding: plan.spec.outstanding.as_ref().map(|outstanding| outstanding.value),
            queue_limit: plan.spec.queue_limit.value,
        }
    }

    /// A one-line description.
    #[must_use]
    pub fn name(&self, plan: &Plan) -> String {
        format!(
            "{}, {}, seed {}",
            plan.policies[self.policy].text,
            plan.name(&plan.cases[self.case]),
            self.seed
        )
    }

    /// Requests that it runs for.
    #[must_use]
    pub fn work(&self, plan: &Plan) -> u64 {
        plan.cases[self.case].warm_up + plan.spec.requests.value
    }

    /// Runs the cell; `None` if it was stopped early. Calls `tell` every few hundred requests.
    ///
    /// # Errors
    /// When the workload cannot be opened, or the run fails for another reason than a full queue.
    pub fn run(
        &self,
        plan: &Plan,
        stop: &Stop,
        tell: &dyn Fn(u64),
    ) -> anyhow::Result<Option<CellOutcome>> {
        let case = &plan.cases[self.case];
        let policy = &plan.policies[self.policy];
        let experiment = Experiment {
            profile: plan.drives[case.drive].profile.clone(),
            instance: Instance::Noise(plan.spec.noise),
            policy: policy.entry,
            parameters: policy.parameters.clone(),
            tunables: headtime_sched::Tunables::default(),
            outstanding: plan
                .spec
                .outstanding
                .as_ref()
                .map(|outstanding| outstanding.value as usize),
            seed: self.seed,
            warm_up: case.warm_up,
            requests: plan.spec.requests.value,
            warm_up_time: None,
            length: None,
            by_stream: true,
            background: None,
            queue_limit: plan.spec.queue_limit.value as usize,
        };
        let inner = plan.source(case, self.seed).map_err(|failure| anyhow!(failure.message()))?;
        let mut observer = Observer::new(experiment.warm_up, experiment.requests, tell);
        let begun =
            policy.belief.map(|belief| plan.beliefs[belief].begin(&experiment.profile)).transpose();
        let begun = Taken::new(begun.map_err(|failure| anyhow!(failure.message()))?);
        let belief = |_: &DriveProfile| {
            begun.take().expect("a run that is no oracle's begins once, with a belief")
        };
        let run = run_observed(&experiment, Stoppable { inner, stop }, &belief, &mut observer)
            .map_err(|error| match error {
                RunError::Engine(error) => {
                    anyhow::Error::new(error).context("the simulation cannot go on")
                }
                other => anyhow::Error::new(other),
            })?;
        if stop.is_raised() {
            return Ok(None);
        }
        let workload = &plan.workloads[case.workload].choice;
        // A source has no way to say why it ended.
        workload.check().map_err(|failure| anyhow!(failure.message()))?;
        outcome(&run, &observer, experiment.requests, &workload.streams()).map(Some)
    }
}

fn outcome(
    run: &ObservedRun,
    observer: &Observer<'_>,
    requests: u64,
    labels: &[StreamLabel],
) -> anyhow::Result<CellOutcome> {
    let ObservedRun { measures, fault } = run;
    let ended = match fault {
        None if measures.requests + measures.failed >= requests => CellEnd::Full,
        None => CellEnd::Drained,
        Some(EngineError::Refused { refusal: Refusal::QueueFull { .. }, .. }) => CellEnd::QueueFull,
        Some(error) => return Err(error.clone()).context("the simulation cannot go on"),
    };
    let streams = measures.streams.iter().enumerate().map(|(number, stream)| {
        let label = labels.get(number).cloned().unwrap_or_else(|| StreamLabel {
            name: format!("stream {number}"),
            class: String::new(),
        });
        StreamOutcome { name: label.name, class: label.class, figures: Figures::of_stream(stream) }
    });
    Ok(CellOutcome {
        ended,
        backlog_growth: observer.backlog_growth(),
        simulated_seconds: rounded(measures.simulated_seconds),
        queue_depth_mean: rounded(measures.queue_depth_mean),
        disk_time: shares(&measures.disk_time),
        halves: observer.halves(),
        total: Figures::of_run(measures),
        streams: streams.collect(),
        response_ms_by_share: observer.response_ms_by_share(),
    })
}

/// A source that ends at a request to stop, and the run with it: pending requests are served and no
/// new ones arrive.
struct Stoppable<'a> {
    inner: Box<dyn RequestSource + Send>,
    stop: &'a Stop,
}

impl RequestSource for Stoppable<'_> {
    fn arrival(&mut self) -> Option<Arrival> {
        if self.stop.is_raised() { None } else { self.inner.arrival() }
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        if self.stop.is_raised() { None } else { self.inner.follow(now, client) }
    }

    fn event(&mut self) -> Option<SourceEvent> {
        if self.stop.is_raised() { None } else { self.inner.event() }
    }

    fn wake(&mut self, now: Instant, client: ClientId) {
        self.inner.wake(now, client);
    }
}
