//! [`Load`]: one closed loop of random reads under one policy, the point that most experiments are
//! made of.
//!
//! Every load of an experiment draws the same places for the same seed, so that policies are
//! compared on the same requests. What the policy knows of the drive is [`ExperimentModel`], and
//! every row says which.

use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_mechanics::{DriveProfile, NoiseLevel, ProfileError, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{DriveTruth, Experiment, Instance, Measures, OraclePositioning, run};
use headtime_workload::{StreamConfig, Workload};

use crate::papers::estimators::{CellPositioning, CellTime, NominalPositioning};
use crate::papers::{Cause, Estimated, PointOfWork};

/// One closed loop of random 4 KiB reads of a whole drive, without think time.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The profile.
    pub drive: &'static str,
    /// Makes another drive of it, for experiments that ask why; what it changes is the experiment's
    /// to say.
    pub alter: Option<fn(&mut DriveProfile)>,
    /// The policy, with its parameters.
    pub policy: String,
    /// Commands at the drive; `None` leaves it to the policy.
    pub outstanding: Option<usize>,
    /// Requests held at any time.
    pub queue: u32,
    /// The instance of the model.
    pub unit: UnitOf,
    /// The knowledge of the policy.
    pub model_source: ExperimentModel,
    /// An offset of the seed, for several instances and workloads in one experiment.
    pub replica: u64,
    /// Requests counted, after a tenth as many of warm-up, at least as many as are held.
    pub requests: u64,
}

/// The instance of a drive's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitOf {
    /// Exactly the model, without noise.
    Nominal,
    /// With the noise of the level *typical*.
    Drawn,
    /// With the noise of a level.
    Noise(NoiseLevel),
    /// With the noise of a level, but reports as late as measured on a host ([`HOST_JITTER_US`])
    /// instead of what the profile takes from P2, for comparisons with P2.
    OnHost(NoiseLevel),
    /// The model, but for the arm: each seek from one region of the drive to another takes longer
    /// or shorter by a normal error of this standard deviation in microseconds, the same every
    /// time.
    ArmErrs(u32),
    /// The model, but for the arm: each arm time is random by a normal error of this standard
    /// deviation in microseconds, another at each access.
    ArmJitter(u32),
}

/// The drive model of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ExperimentModel {
    /// Everything: an oracle.
    Truth,
    /// The nominal instance exactly, and the arm error of the real one: an oracle with a stated
    /// error.
    Nominal {
        /// The standard deviation of the arm's error in microseconds.
        spread_us: u32,
    },
    /// The time between every two cells of the nominal instance: a latency matrix.
    Cells {
        /// The size of a cell.
        bytes: u64,
        /// The time that the matrix stores for a pair.
        time: CellTime,
    },
    /// The model that learns while running, as users get it.
    Learned,
}

/// Mean lateness of a report on an idle host in microseconds, exponential. Measured
/// (docs/scan.md): 10 to 14 us in the median, 34 to 73 us in the 99th percentile; with this mean
/// they are 10 and 64.
pub(crate) const HOST_JITTER_US: f64 = 14.0;

impl UnitOf {
    /// The text in row names.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Nominal => "no noise".to_string(),
            Self::Drawn => "simulated drive with noise".to_string(),
            Self::Noise(level) => format!("simulated drive with noise {level}"),
            Self::OnHost(level) => {
                format!("simulated drive with noise {level}, reports as late as measured")
            }
            Self::ArmErrs(us) => format!("arm errs by {us} us, no other noise"),
            Self::ArmJitter(us) => format!("arm times random by {us} us, no other noise"),
        }
    }

    /// Adapts the model for an instance of this kind and returns how the instance is drawn.
    pub(crate) fn prepare(self, profile: &mut DriveProfile) -> Instance {
        match self {
            Self::Nominal => Instance::Nominal,
            Self::Drawn => Self::Noise(NoiseLevel::Typical).prepare(profile),
            Self::Noise(level) => {
                *profile = level.apply(profile);
                Instance::Drawn
            }
            Self::OnHost(level) => {
                profile.variation.jitter_us = HOST_JITTER_US;
                Self::Noise(level).prepare(profile)
            }
            Self::ArmErrs(us) => {
                profile.variation = Default::default();
                profile.variation.seek_residual_us = f64::from(us);
                Instance::Drawn
            }
            Self::ArmJitter(us) => {
                profile.variation = Default::default();
                profile.variation.arm_jitter_us = f64::from(us);
                Instance::Drawn
            }
        }
    }
}

impl ExperimentModel {
    /// The text in row names.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Truth => "oracle".to_string(),
            Self::Nominal { .. } => "oracle of the nominal unit".to_string(),
            Self::Cells { bytes, time } => {
                format!("matrix of {} KiB cells, {}", bytes / 1024, time.words())
            }
            Self::Learned => "learned model".to_string(),
        }
    }

    fn belief(
        self,
        profile: &DriveProfile,
        seed: u64,
    ) -> Result<Box<dyn Belief + Send>, ProfileError> {
        Ok(match self {
            Self::Truth => Box::new(OraclePositioning::new(&DriveTruth::nominal(profile, seed)?)?),
            Self::Nominal { spread_us } => {
                Box::new(NominalPositioning::new(profile, seed, f64::from(spread_us) * 1e3)?)
            }
            Self::Cells { bytes, time } => {
                Box::new(CellPositioning::new(profile, seed, bytes, time)?)
            }
            Self::Learned => Box::new(DriveModel::of_profile(profile)?),
        })
    }
}

impl Load {
    /// A policy with full knowledge on a nominal instance, with the policy's own limit of commands
    /// at the drive.
    pub(crate) fn new(
        drive: &'static str,
        policy: impl Into<String>,
        queue: u32,
        requests: u64,
    ) -> Self {
        Self {
            drive,
            alter: None,
            policy: policy.into(),
            outstanding: None,
            queue,
            unit: UnitOf::Nominal,
            model_source: ExperimentModel::Truth,
            replica: 0,
            requests,
        }
    }

    /// The same with so many commands at the drive.
    pub(crate) fn outstanding(self, commands: usize) -> Self {
        Self { outstanding: Some(commands), ..self }
    }

    /// The same on another instance of the model.
    pub(crate) fn on(self, unit: UnitOf) -> Self {
        Self { unit, ..self }
    }

    /// The same with other knowledge.
    pub(crate) fn knowing(self, model_source: ExperimentModel) -> Self {
        Self { model_source, ..self }
    }

    /// Everything in the drive's own queue, which takes as many commands as are held and serves
    /// them by shortest positioning time.
    pub(crate) fn firmware(drive: &'static str, queue: u32, requests: u64) -> Self {
        Self::new(drive, format!("firmware:depth={queue}"), queue, requests)
            .outstanding(queue as usize)
    }
}

impl PointOfWork for Load {
    type Outcome = Measures;

    fn label(&self) -> String {
        format!(
            "{} on {} at queue {} ({}, {})",
            self.policy,
            self.drive,
            self.queue,
            self.model_source.words(),
            self.unit.words()
        )
    }

    /// Requests, by how many times dearer than a plain policy's the decisions are.
    fn work(&self) -> u64 {
        let dearer = if self.policy.starts_with("beam-oracle") { 100 } else { 1 };
        self.requests * dearer
    }

    fn run(&self, seed: u64) -> Result<Measures, Cause> {
        let seed = seed.wrapping_add(self.replica);
        let mut profile = catalog::load(self.drive)?;
        if let Some(alter) = self.alter {
            alter(&mut profile);
        }
        // "In the drive's own queue" means a queue that takes everything and orders it by
        // positioning time alone, whatever the model has.
        profile.firmware.max_wait_ms = None;
        profile.firmware.queue_depth = profile.firmware.queue_depth.max(self.queue);
        let unit = self.unit.prepare(&mut profile);
        let (entry, parameters) = PolicyEntry::parse(&self.policy)?;
        let source = Workload::new(
            &[StreamConfig::closed(self.queue)],
            profile.sector_size()?,
            profile.capacity(),
            seed,
        )?;
        // Before the run, so that a profile's fault is an error here and no panic within the run.
        self.model_source.belief(&profile, seed)?;
        let belief = |profile: &DriveProfile| {
            self.model_source
                .belief(profile, seed)
                .expect("it was made of the same profile a moment ago")
        };
        let experiment = Experiment {
            instance: unit,
            parameters,
            outstanding: self.outstanding,
            warm_up: (self.requests / 10).max(u64::from(self.queue)),
            requests: self.requests,
            ..Experiment::new(Arc::new(profile), entry, seed)
        };
        Ok(run(&experiment, source, &belief)?)
    }
}

/// Requests a second, with their interval.
pub(crate) fn iops(measures: &Measures) -> Estimated {
    Estimated::new(measures.iops, measures.confidence.iops)
}
