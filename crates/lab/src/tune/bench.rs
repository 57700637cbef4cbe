//! [`Bench`]: runs of loads on a simulated drive, one after the other, under one policy.

use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_mechanics::{DriveProfile, NoiseLevel};
use headtime_sched::{
    AutoTable, Finished, LoadFeatures, LoadMeter, Outcome, PolicyEntry, PolicySwitch, QueueLimits,
    Request, Scheduler, Tunables,
};
use headtime_sim::{
    Device as _, Engine, EngineObserver, Instance, RunError, SimulatedDrive, StepOutcome,
};
use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use headtime_workload::file::WorkloadFile;
use headtime_workload::{RequestSource, StreamConfig, Workload};

use super::phases::{Phases, STREAMS};
use crate::papers::Cause;

/// A simulated drive for runs.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    pub(crate) profile: Arc<DriveProfile>,
    /// The level of noise.
    pub(crate) noise: NoiseLevel,
    /// The seed of the drive and of the loads.
    pub(crate) seed: u64,
}

/// A load and the time that it lasts.
#[derive(Clone, Debug)]
pub(crate) struct PhasePlan {
    load: Load,
    /// The only stream that runs, if not all do.
    only: Option<usize>,
    length: Nanos,
}

/// The streams of a load.
#[derive(Clone, Debug)]
enum Load {
    File(Arc<WorkloadFile>),
    Streams(Vec<StreamConfig>),
}

/// The time at the start of a phase that is not measured.
pub(crate) const SETTLING: Nanos = Nanos::from_secs(5);

/// The results of a run.
#[derive(Clone, Debug)]
pub(crate) struct BenchRun {
    /// The results of each phase.
    pub(crate) phases: Vec<PhaseRun>,
    /// The switches of `auto`.
    pub(crate) switches: Vec<PolicySwitch>,
}

/// The results of a phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhaseRun {
    /// Bytes per second of each stream; of requests with a deadline only those in time.
    pub(crate) rates: Vec<f64>,
    /// The features of the load; `None` without a request.
    pub(crate) features: Option<LoadFeatures>,
}

/// Clients of closed loops that do not set their number.
const CLIENTS: u32 = 16;

impl PhasePlan {
    /// All streams of a load.
    pub(crate) fn new(load: &Arc<WorkloadFile>, length: Nanos) -> Self {
        Self { load: Load::File(Arc::clone(load)), only: None, length }
    }

    /// A load of these streams.
    pub(crate) fn of_streams(streams: Vec<StreamConfig>, length: Nanos) -> Self {
        Self { load: Load::Streams(streams), only: None, length }
    }

    /// One stream of the load alone.
    pub(crate) fn only(self, stream: usize) -> Self {
        Self { only: Some(stream), ..self }
    }

    /// The number of streams of the load.
    pub(crate) fn streams(&self) -> usize {
        match &self.load {
            Load::File(file) => file.streams.len(),
            Load::Streams(streams) => streams.len(),
        }
    }

    fn workload(
        &self,
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
    ) -> Result<Workload, Cause> {
        match &self.load {
            Load::File(file) => {
                let mut file = (**file).clone();
                if let Some(only) = self.only {
                    file.streams = vec![file.streams.swap_remove(only)];
                }
                let workload = file.workload(sector, capacity, seed, CLIENTS);
                workload.map_err(|error| Cause::Load(error.to_string()))
            }
            Load::Streams(streams) => {
                let streams = match self.only {
                    Some(only) => std::slice::from_ref(&streams[only]),
                    None => streams,
                };
                Ok(Workload::new(streams, sector, capacity, seed)?)
            }
        }
    }
}

impl Bench {
    /// Runs the phases under a policy, with a table where that is `auto`.
    pub(crate) fn run(
        &self,
        policy: &str,
        table: Option<&Arc<AutoTable>>,
        phases: &[PhasePlan],
    ) -> Result<BenchRun, Cause> {
        let drive = SimulatedDrive::new(Instance::Noise(self.noise).of(&self.profile, self.seed)?)?;
        let (sector, capacity) = (self.profile.sector_size()?, drive.capacity());
        let mut sources: Vec<(Box<dyn RequestSource + Send>, Nanos)> = Vec::new();
        for (phase, seed) in phases.iter().zip(self.seed..) {
            let workload = phase.workload(sector, capacity, seed)?;
            sources.push((Box::new(workload), phase.length));
        }
        let (entry, parameters) = PolicyEntry::parse(policy)?;
        let belief = Box::new(DriveModel::of_profile(&self.profile)?);
        let mut scheduler = Scheduler::new(
            belief,
            (entry.build)(&parameters),
            drive.traits(),
            QueueLimits::default(),
        );
        scheduler.set_tunables(Tunables { auto_table: table.cloned(), ..Tunables::default() });
        let mut engine = Engine::new(scheduler, drive, Phases::new(sources), None);
        let mut meter = Meter::new(phases);
        let end = meter.ends.last().copied().unwrap_or(Instant::ORIGIN);
        while engine.next_event() <= end {
            if engine.step(&mut meter).map_err(RunError::from)? == StepOutcome::Drained {
                break;
            }
        }
        let switches = engine.scheduler.policy_switches().to_vec();
        let phases = meter.close(&|sectors| sector.bytes_of(sectors) as f64);
        Ok(BenchRun { phases, switches })
    }
}

/// Counts by phase and stream, from [`SETTLING`] after the start of each phase on.
struct Meter {
    /// The start of measuring, and the end, of each phase.
    starts: Vec<Instant>,
    ends: Vec<Instant>,
    sectors: Vec<Vec<u64>>,
    features: Vec<Option<LoadFeatures>>,
    meter: LoadMeter,
    phase: usize,
    is_warm: bool,
}

impl Meter {
    fn new(phases: &[PhasePlan]) -> Self {
        let mut end = Instant::ORIGIN;
        let mut starts = Vec::new();
        let mut ends = Vec::new();
        for phase in phases {
            starts.push(end + SETTLING.min(phase.length / 2));
            end += phase.length;
            ends.push(end);
        }
        let streams = |phase: &PhasePlan| phase.only.map_or(phase.streams(), |_| 1);
        Self {
            starts,
            ends,
            sectors: phases.iter().map(|phase| vec![0; streams(phase)]).collect(),
            features: vec![None; phases.len()],
            meter: LoadMeter::new(Instant::ORIGIN, 0),
            phase: 0,
            is_warm: false,
        }
    }

    /// Ends the windows that are over at `now`.
    fn pass(&mut self, now: Instant) {
        while let (Some(start), Some(end)) =
            (self.starts.get(self.phase), self.ends.get(self.phase))
        {
            if !self.is_warm && now >= *start {
                let _ = self.meter.take(*start);
                self.is_warm = true;
            }
            if now < *end {
                return;
            }
            self.features[self.phase] = self.meter.take(*end);
            self.phase += 1;
            self.is_warm = false;
        }
    }

    fn close(mut self, bytes: &dyn Fn(Sectors) -> f64) -> Vec<PhaseRun> {
        self.pass(self.ends.last().copied().unwrap_or(Instant::ORIGIN));
        let windows = self.starts.iter().zip(&self.ends);
        let rates = self.sectors.iter().zip(windows).map(|(sectors, (start, end))| {
            let seconds = end.saturating_since(*start).as_secs_f64();
            let rate = |sectors: &u64| bytes(Sectors::new(*sectors)) / seconds;
            sectors.iter().map(rate).collect()
        });
        rates.zip(self.features).map(|(rates, features)| PhaseRun { rates, features }).collect()
    }
}

impl EngineObserver for Meter {
    fn submitted(&mut self, now: Instant, request: &Request) {
        self.pass(now);
        self.meter.submitted(now, request);
    }

    fn finished(&mut self, now: Instant, finished: &Finished) {
        self.pass(now);
        self.meter.finished(now);
        let Request { volume, op, extent, .. } = finished.request;
        let phase = (volume.0 / STREAMS) as usize;
        let in_window = phase == self.phase && self.is_warm;
        let counts = op.moves_head() && finished.outcome == Outcome::Success && !finished.missed();
        if let Some(sectors) = self
            .sectors
            .get_mut(phase)
            .filter(|_| in_window && counts)
            .and_then(|phase| phase.get_mut((volume.0 % STREAMS) as usize))
        {
            *sectors += extent.len.get();
        }
    }
}
