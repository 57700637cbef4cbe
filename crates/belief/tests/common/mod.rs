//! Runs of a scheduler with a drive model on a simulated drive, observed from outside.

#![allow(dead_code, reason = "each test uses some of it")]

use headtime_mechanics::DriveProfile;
use headtime_sched::{
    Belief, BeliefReport, Finished, PolicyEntry, QueueLimits, Scheduler, VolumeId,
};
use headtime_sim::{
    Breakdown, DriveCompletion, DriveTruth, Engine, EngineObserver, SimulatedDrive, StepOutcome,
};
use headtime_units::{Instant, Nanos};
use headtime_workload::{StreamConfig, Workload};

/// A scheduler with one simulated drive.
pub(crate) struct Run {
    engine: Engine<Scheduler, SimulatedDrive, Workload>,
    count: Count,
    what: String,
}

/// The number of finished requests, and the origin of each command's data.
#[derive(Default)]
struct Count(u64, Vec<Answered>);

/// The origin of a command's data, by the drive's breakdown of the response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Cache,
    Medium,
    /// Partly in the cache: data read ahead, data that passed under the head at the time of the
    /// command, or a write that waited for room in the cache.
    Between,
}

impl EngineObserver for Count {
    fn completed(&mut self, _now: Instant, completion: &DriveCompletion, _expected: bool) {
        let Breakdown { seek, rotate, transfer, waited, .. } = completion.breakdown;
        self.1.push(match (seek + rotate, transfer + waited) {
            (Nanos::ZERO, Nanos::ZERO) => Answered::Cache,
            (Nanos::ZERO, _) => Answered::Between,
            _ => Answered::Medium,
        });
    }

    fn finished(&mut self, _now: Instant, _finished: &Finished) {
        self.0 += 1;
    }
}

impl Run {
    /// Runs `policy` with `belief` on a drive, loaded by `streams` within the capacity of `within`.
    pub(crate) fn new(
        truth: DriveTruth,
        belief: Box<dyn Belief + Send>,
        policy: &str,
        streams: &[StreamConfig],
        within: &DriveProfile,
        seed: u64,
    ) -> Self {
        let what = format!("seed {seed}: {policy} on {}", truth.profile().name);
        let drive = SimulatedDrive::new(truth).expect("a valid profile");
        let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
        let scheduler = Scheduler::new(
            belief,
            (entry.build)(&parameters),
            drive.traits(),
            QueueLimits::default(),
        );
        let sector = within.sector_size().expect("a valid profile");
        let source =
            Workload::new(streams, sector, within.capacity(), seed).expect("a workload that fits");
        Self { engine: Engine::new(scheduler, drive, source, None), count: Count::default(), what }
    }

    /// Runs until `requests` more are finished. Returns the rate in requests per second.
    pub(crate) fn advance(&mut self, requests: u64) -> f64 {
        self.watch(requests, |_, _| {})
    }

    /// As [`Run::advance`], but calls `observe` after each step in which requests finished, with
    /// the drive model and the origins of the step's commands.
    pub(crate) fn watch(
        &mut self,
        requests: u64,
        mut observe: impl FnMut(&dyn Belief, &[Answered]),
    ) -> f64 {
        let (began, first) = (self.engine.now(), self.count.0);
        while self.count.0 < first + requests {
            let before = self.count.0;
            match self
                .engine
                .step(&mut self.count)
                .unwrap_or_else(|error| panic!("{}: {error}", self.what))
            {
                StepOutcome::Stepped => {}
                StepOutcome::Drained => break,
            }
            if self.count.0 > before {
                observe(self.engine.scheduler.belief(), &self.count.1);
            }
            self.count.1.clear();
        }
        (self.count.0 - first) as f64 / self.engine.now().saturating_since(began).as_secs_f64()
    }

    /// The requests of a volume that have succeeded.
    pub(crate) fn completed(&self, volume: VolumeId) -> u64 {
        self.engine.scheduler.accounts().volume(volume).requests
    }

    pub(crate) fn now(&self) -> Instant {
        self.engine.now()
    }

    pub(crate) fn report(&self) -> BeliefReport {
        self.engine.scheduler.belief().report()
    }

    pub(crate) fn belief(&self) -> &dyn Belief {
        self.engine.scheduler.belief()
    }
}
