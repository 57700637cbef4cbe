//! [`Cell`]: one run of a comparison: a case, a policy, a replica.

use std::cell::Cell as Taken;

use anyhow::{Context as _, anyhow};
use headtime_io::ModelSource;
use headtime_mechanics::{DriveProfile, NoiseLevel};
use headtime_sched::{PolicyEntry, Refusal};
use headtime_sim::{
    EngineError, Experiment, Instance, ObservedRun, RunError, StreamMeasures, run_observed,
};
use headtime_units::Instant;
use headtime_workload::{Arrival, ClientId, OpenLoop, RequestSource, SourceEvent};
use serde::{Deserialize, Serialize};

use super::belief::PlannedBelief;
use super::observer::{Observer, Window};
use super::outcome::{CellEnd, CellOutcome, Figures, StreamOutcome, rounded, shares};
use super::plan::{Case, Plan};
use crate::workloads::{Service, StreamLabel};
use headtime_console::Failure;
use headtime_console::stop::Stop;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The case's place in the plan.
    pub case: usize,
    /// The replica's seed.
    pub seed: u64,
    /// The requests of the run, and the policy.
    pub kind: CellKind,
}

/// The requests and the policy of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CellKind {
    /// The workload under a policy, by its place in the plan.
    Policy(usize),
    /// One stream of the workload, by its number, in the drive's own queue.
    Alone(usize),
    /// The workload as an open loop.
    EqualLoad {
        /// The policy's place in the plan.
        policy: usize,
        /// Requests per second of each stream; `None` for a stream that is open by itself.
        rates: Vec<Option<f64>>,
    },
}

/// All that decides what comes out of a cell, but for the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Simulated seconds measured, instead of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The level of noise.
    pub noise: NoiseLevel,
    /// Commands at the drive at once.
    pub outstanding: Option<u64>,
    /// Requests held at most.
    pub queue_limit: u64,
    /// The tunables of the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The number of the stream that runs alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<usize>,
    /// The rates of the streams as open loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Vec<Option<f64>>>,
}

impl Cell {
    /// The cells of a plan that depend on no other: those of the policies in the order of all
    /// tables (case, policy, replica), then each stream alone.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let mut cells = Vec::new();
        let mut add = |case, kind: CellKind| {
            cells.extend(plan.seeds().map(|seed| Self { case, seed, kind: kind.clone() }));
        };
        for (number, case) in plan.cases.iter().enumerate() {
            case.policies.iter().for_each(|policy| add(number, CellKind::Policy(*policy)));
        }
        for (number, case) in plan.cases.iter().enumerate() {
            let streams = plan.workloads[case.workload].choice.streams().len();
            (0..streams).for_each(|stream| add(number, CellKind::Alone(stream)));
        }
        cells
    }

    /// The number of cells at equal load, if all others have results.
    pub fn count_at_equal_load(plan: &Plan) -> usize {
        let closed = |case: &&Case| {
            plan.workloads[case.workload].choice.open_streams().iter().any(|open| !open)
        };
        let policies = plan.cases.iter().filter(closed).map(|case| case.policies.len());
        policies.sum::<usize>() * plan.seeds().count()
    }

    /// The policy's place in the plan; `None` for a stream alone.
    fn policy(&self) -> Option<usize> {
        match self.kind {
            CellKind::Policy(policy) | CellKind::EqualLoad { policy, .. } => Some(policy),
            CellKind::Alone(_) => None,
        }
    }

    /// The parameters that determine it.
    pub fn decisive(&self, plan: &Plan) -> Decisive {
        let case = &plan.cases[self.case];
        let (drive, workload) = (&plan.drives[case.drive], &plan.workloads[case.workload]);
        let policy = self.policy().map(|policy| &plan.policies[policy]);
        let belief = policy.and_then(|policy| policy.belief).map(|belief| &plan.beliefs[belief]);
        Decisive {
            policy: policy.map_or(OWN_QUEUE, |policy| &policy.policy).to_string(),
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
            requests: if plan.spec.seconds.is_some() { 0 } else { plan.spec.requests.value },
            warm_up: case.warm_up,
            seconds: plan.spec.seconds.as_ref().map(|seconds| seconds.value),
            noise: plan.spec.noise,
            outstanding: self.outstanding(plan),
            queue_limit: plan.spec.queue_limit.value,
            set: plan.spec.set.iter().map(|set| set.value.clone()).collect(),
            stream: match self.kind {
                CellKind::Alone(stream) => Some(stream),
                _ => None,
            },
            rates: match &self.kind {
                CellKind::EqualLoad { rates, .. } => Some(rates.clone()),
                _ => None,
            },
        }
    }

    /// The maximum number of commands at the drive; none for the drive's own queue.
    fn outstanding(&self, plan: &Plan) -> Option<u64> {
        self.policy()?;
        plan.spec.outstanding.as_ref().map(|outstanding| outstanding.value)
    }

    fn source(&self, plan: &Plan) -> Result<Box<dyn RequestSource + Send>, Failure> {
        let case = &plan.cases[self.case];
        match &self.kind {
            CellKind::Policy(_) => plan.source(case, self.seed),
            CellKind::Alone(stream) => plan.source_of(case, *stream, self.seed),
            CellKind::EqualLoad { rates, .. } => {
                let streams = rates.iter().enumerate();
                let sources = streams
                    .map(|(stream, rate)| Ok((plan.source_of(case, stream, self.seed)?, *rate)))
                    .collect::<Result<Vec<_>, Failure>>()?;
                Ok(Box::new(OpenLoop::new(sources, self.seed)))
            }
        }
    }

    /// A one-line description.
    pub fn name(&self, plan: &Plan) -> String {
        let case = &plan.cases[self.case];
        let what = match &self.kind {
            CellKind::Policy(policy) => plan.policies[*policy].text.clone(),
            CellKind::Alone(stream) => {
                let streams = plan.workloads[case.workload].choice.streams();
                format!("{} alone", streams[*stream].name)
            }
            CellKind::EqualLoad { policy, .. } => {
                format!("{} at equal load", plan.policies[*policy].text)
            }
        };
        format!("{what}, {}, seed {}", plan.name(case), self.seed)
    }

    /// Requests that it runs for, or the time in milliseconds.
    pub fn work(&self, plan: &Plan) -> u64 {
        self.window(plan).end()
    }

    fn window(&self, plan: &Plan) -> Window {
        match plan.spec.times() {
            None => Window::Requests {
                warm_up: plan.cases[self.case].warm_up,
                count: plan.spec.requests.value,
            },
            Some([length, warm_up]) => Window::Time { warm_up, length },
        }
    }

    /// Runs the cell; `None` if it was stopped early. Calls `tell` at times with the
    /// [work](Self::work) done since.
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
        let policy = self.policy().map(|policy| &plan.policies[policy]);
        let (entry, parameters) = match policy {
            Some(policy) => (policy.entry, policy.parameters.clone()),
            None => PolicyEntry::parse(OWN_QUEUE)?,
        };
        // A stream alone has the drive as it is.
        let service = match self.kind {
            CellKind::Alone(_) => Service::default(),
            _ => plan.service(case).map_err(|failure| anyhow!(failure.message()))?,
        };
        let drive = &plan.drives[case.drive].drive;
        let window = self.window(plan);
        let (requests, times) = match window {
            Window::Requests { count, .. } => (count, None),
            Window::Time { warm_up, length } => (u64::MAX, Some((warm_up, length))),
        };
        let experiment = Experiment {
            profile: drive.profile.clone(),
            array: drive.array.clone(),
            instance: Instance::Noise(plan.spec.noise),
            policy: entry,
            parameters,
            tunables: plan.tunables.clone(),
            outstanding: self.outstanding(plan).map(|outstanding| outstanding as usize),
            seed: self.seed,
            warm_up: case.warm_up,
            requests,
            warm_up_time: times.map(|(warm_up, _)| warm_up),
            length: times.map(|(_, length)| length),
            by_stream: true,
            terms: service.terms,
            background: service.scan,
            queue_limit: plan.spec.queue_limit.value as usize,
        };
        let inner = self.source(plan).map_err(|failure| anyhow!(failure.message()))?;
        let mut observer = Observer::new(window, tell);
        let begun = match policy {
            Some(policy) => {
                policy.belief.map(|belief| plan.beliefs[belief].begin(drive)).transpose()
            }
            None => PlannedBelief::default().begin(drive).map(Some),
        };
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
        outcome(&run, &observer, window, &workload.streams()).map(Some)
    }
}

fn outcome(
    run: &ObservedRun,
    observer: &Observer<'_>,
    window: Window,
    labels: &[StreamLabel],
) -> anyhow::Result<CellOutcome> {
    let ObservedRun { measures, fault } = run;
    let ended = match fault {
        None if window.is_over(measures) => CellEnd::Full,
        None => CellEnd::Drained,
        Some(EngineError::Refused { refusal: Refusal::QueueFull { .. }, .. }) => CellEnd::QueueFull,
        Some(error) => return Err(error.clone()).context("the simulation cannot go on"),
    };
    // A stream that was never served has no measures.
    let none = StreamMeasures::default();
    let streams = labels.iter().enumerate().map(|(number, label)| StreamOutcome {
        name: label.name.clone(),
        class: label.class.clone(),
        figures: Figures::of_stream(measures.streams.get(number).unwrap_or(&none)),
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
        scan_mb_per_second: measures.scan.as_ref().map(|scan| rounded(scan.mb_per_second)),
        equal_load_status: None,
    })
}

/// The policy that leaves the order to the drive.
const OWN_QUEUE: &str = "firmware";

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
