//! [`run`]: one experiment, from a profile to [`Measures`].

use std::sync::Arc;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{Belief, Limits, Parameters, PolicyEntry, Scheduler};
use headtime_workload::Source;

use crate::device::Device as _;
use crate::disk_time::DiskTime;
use crate::drive::SimulatedDrive;
use crate::engine::{Engine, EngineError, Progress};
use crate::measures::{Measures, Meter};
use crate::oracle::OraclePositioning;
use crate::truth::DriveTruth;

/// Which drive, which policy, how long.
#[derive(Clone)]
pub struct Experiment {
    /// The model of drive.
    pub profile: Arc<DriveProfile>,
    /// How the unit differs from it.
    pub unit: Unit,
    /// The policy.
    pub policy: &'static PolicyEntry,
    /// Its parameters.
    pub parameters: Parameters,
    /// Commands at the drive at once, whatever the policy would like; `None` leaves it to the policy.
    pub outstanding: Option<usize>,
    /// The seed of the unit and its noise. Nothing else in the run is random but the source.
    pub seed: u64,
    /// Requests that finish before counting begins.
    pub warm_up: u64,
    /// Requests counted; fewer when the source has no more.
    pub requests: u64,
    /// The most requests held; more make the run fail, because then they come faster than they are served.
    pub queue_limit: usize,
}

/// How the simulated unit differs from its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// In its phase alone, without noise: what the mechanics allow.
    Nominal,
    /// As the profile's `[variation]` says, drawn by the seed.
    Drawn,
}

/// Makes the belief that a run's scheduler starts with. It is given the model, never the unit.
pub type BeliefMaker<'a> = &'a dyn Fn(&DriveProfile) -> Box<dyn Belief + Send>;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The profile makes no drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The run could not go on.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An oracle was to run on a drive with more than one arm.
    #[error("policy {policy} is an oracle of one arm, and {profile} has {arms}; choose a policy that is no oracle, or `firmware`")]
    OracleOfArms {
        /// The policy.
        policy: &'static str,
        /// The drive's profile.
        profile: String,
        /// How many arms it has.
        arms: u16,
    },
}

/// Runs an experiment in virtual time. A policy that is marked *oracle* is given the truth; every other is given what `belief` makes.
///
/// The same experiment and source give the same measures, on every machine.
///
/// # Errors
/// [`RunError`]: a profile that makes no drive, or a workload that cannot be served.
pub fn run(experiment: &Experiment, source: impl Source, belief: BeliefMaker<'_>) -> Result<Measures, RunError> {
    let profile = &experiment.profile;
    let truth = match experiment.unit {
        Unit::Nominal => DriveTruth::nominal(profile, experiment.seed)?,
        Unit::Drawn => DriveTruth::draw(profile, experiment.seed)?,
    };
    let arms = profile.actuators();
    if experiment.policy.oracle && arms > 1 {
        return Err(RunError::OracleOfArms { policy: experiment.policy.name, profile: profile.name.clone(), arms });
    }
    let belief = if experiment.policy.oracle { Box::new(OraclePositioning::new(&truth)?) } else { belief(profile) };
    let drive = SimulatedDrive::new(truth)?;
    let traits = drive.traits();
    let limits = Limits { requests: experiment.queue_limit, outstanding: experiment.outstanding };
    let scheduler = Scheduler::new(belief, (experiment.policy.build)(&experiment.parameters), traits, limits);
    let mut engine = Engine::new(scheduler, drive, source, None);
    let mut meter = Meter::new(experiment.warm_up, experiment.requests, profile.sector_size()?);
    let mut before = meter.warm().then(DiskTime::default);
    while !meter.full() && engine.step(&mut meter)? == Progress::Stepped {
        if before.is_none() && meter.warm() {
            before = Some(engine.device.disk_time(engine.now()));
        }
    }
    let end = engine.now();
    let disk_time = before.map_or(DiskTime::default(), |before| engine.device.disk_time(end).since(&before));
    Ok(meter.measures(end, experiment.policy.name, &profile.name, experiment.seed, disk_time))
}

impl Experiment {
    /// A policy with its default parameters on a nominal unit: 20,000 requests after a tenth as many of warm-up, at most 65,536 held.
    #[must_use]
    pub fn new(profile: Arc<DriveProfile>, policy: &'static PolicyEntry, seed: u64) -> Self {
        let (policy, parameters) = PolicyEntry::parse(policy.name).expect("every policy of the table is found by its name");
        Self {
            profile,
            unit: Unit::Nominal,
            policy,
            parameters,
            outstanding: None,
            seed,
            warm_up: 2_000,
            requests: 20_000,
            queue_limit: Limits::default().requests,
        }
    }
}
