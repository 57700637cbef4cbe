//! [`run`]: one experiment, from a profile to [`Measures`]; [`run_watched`] is the same with an onlooker, and says what was counted also when it ends badly.

use std::sync::Arc;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{Belief, Limits, Parameters, PolicyEntry, Scheduler};
use headtime_units::{Instant, Nanos, SectorSize};
use headtime_workload::Source;

use crate::device::Device as _;
use crate::disk_time::DiskTime;
use crate::drive::SimulatedDrive;
use crate::engine::{Engine, EngineError, Progress, Watch};
use crate::measures::{Measures, Meter};
use crate::oracle::OraclePositioning;
use crate::stream_measures::StreamMeasures;
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
    /// Counting begins at this time of the run, however many requests have finished, and not after `warm_up`.
    pub warm_up_time: Option<Nanos>,
    /// Counting ends when it has lasted so long, however few requests have finished.
    pub length: Option<Nanos>,
    /// Whether what each stream got is counted beside the whole.
    pub by_stream: bool,
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

/// What came out of a run that somebody watched.
#[derive(Clone, Debug)]
pub struct WatchedRun {
    /// What was counted until the end, good or bad.
    pub measures: Measures,
    /// Why the run could not go on, if it could not.
    pub fault: Option<EngineError>,
}

/// Runs an experiment in virtual time. A policy that is marked *oracle* is given the truth; every other is given what `belief` makes.
///
/// The same experiment and source give the same measures, on every machine.
///
/// # Errors
/// [`RunError`]: a profile that makes no drive, or a workload that cannot be served.
pub fn run(experiment: &Experiment, source: impl Source, belief: BeliefMaker<'_>) -> Result<Measures, RunError> {
    let ended = run_watched(experiment, source, belief, &mut ())?;
    ended.fault.map_or(Ok(ended.measures), |fault| Err(fault.into()))
}

/// As [`run`], with a `watch` that is told all that happens, warm-up included. Where the run cannot go on, what was counted until then is answered with the
/// fault: a queue that grows without end is a finding, too.
///
/// # Errors
/// [`RunError`]: a profile that makes no drive, or a policy that cannot run on it.
pub fn run_watched(experiment: &Experiment, source: impl Source, belief: BeliefMaker<'_>, watch: &mut impl Watch) -> Result<WatchedRun, RunError> {
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
    let mut meter = experiment.meter(profile.sector_size()?);
    let mut books = None;
    let mut fault = None;
    let mut end = None;
    while !meter.full() {
        if books.is_none() && meter.warm() {
            books = Some(Books::of(&engine, engine.now(), experiment.by_stream));
        }
        if experiment.is_timed() {
            let next = engine.next_event();
            let from = experiment.warm_up_time.map(|time| Instant::ORIGIN + time);
            if let Some(from) = from.filter(|from| next >= *from && !meter.warm()) {
                meter.begin(from);
                books = Some(Books::of(&engine, from, experiment.by_stream));
            }
            let until = experiment.length.zip(books.as_ref()).map(|(length, books)| books.at + length);
            // A source that has no more ends the run by itself, at its last request.
            end = until.filter(|until| next > *until && next < Instant::NEVER);
            if end.is_some() {
                break;
            }
        }
        match engine.step(&mut (&mut meter, &mut *watch)) {
            Ok(Progress::Stepped) => {}
            Ok(Progress::Drained) => break,
            Err(error) => {
                fault = Some(error);
                break;
            }
        }
    }
    let end = end.unwrap_or_else(|| engine.now());
    let (disk_time, charged) = books.map_or_else(Default::default, |books| Books::of(&engine, end, experiment.by_stream).since(&books));
    Ok(WatchedRun { measures: meter.measures(end, experiment.policy.name, &profile.name, experiment.seed, disk_time, &charged), fault })
}

/// What the drive and the scheduler have booked until a time.
struct Books {
    at: Instant,
    disk_time: DiskTime,
    /// Disk time charged to each stream, by its number; empty unless wanted.
    charged: Vec<Nanos>,
}

impl Books {
    fn of<S: Source>(engine: &Engine<Scheduler, SimulatedDrive, S>, at: Instant, by_stream: bool) -> Self {
        let mut charged = Vec::new();
        if by_stream {
            for (volume, account) in engine.front.accounts().volumes().filter(|(volume, _)| (volume.0 as usize) < StreamMeasures::MOST) {
                charged.resize(charged.len().max(volume.0 as usize + 1), Nanos::ZERO);
                charged[volume.0 as usize] = account.disk_time;
            }
        }
        Self { at, disk_time: engine.device.disk_time(at), charged }
    }

    fn since(mut self, before: &Self) -> (DiskTime, Vec<Nanos>) {
        for (now, before) in self.charged.iter_mut().zip(&before.charged) {
            *now -= *before;
        }
        (self.disk_time.since(&before.disk_time), self.charged)
    }
}

impl Experiment {
    fn is_timed(&self) -> bool {
        self.warm_up_time.is_some() || self.length.is_some()
    }

    fn meter(&self, sector: SectorSize) -> Meter {
        let meter = Meter::new(self.warm_up, self.requests, sector);
        let meter = if self.warm_up_time.is_some() { meter.waiting() } else { meter };
        if self.by_stream { meter.by_stream() } else { meter }
    }

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
            warm_up_time: None,
            length: None,
            by_stream: false,
            queue_limit: Limits::default().requests,
        }
    }
}
