//! [`run`]: one experiment, from a profile to [`Measures`]; [`run_observed`] is the same with an
//! onlooker, and says what was counted also when it ends badly.

use std::sync::Arc;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{
    Belief, FillSettings, Parameters, PolicyEntry, QueueLimits, ScanId, ScanOptions, Scheduler,
    Tunables,
};
use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use headtime_workload::Source;

use crate::device::Device as _;
use crate::disk_time::DiskTime;
use crate::drive::SimulatedDrive;
use crate::engine::{Engine, EngineError, EngineObserver, StepOutcome};
use crate::measures::{Measures, Meter};
use crate::oracle::OraclePositioning;
use crate::scan_measures::{ScanCounts, ScanMeter};
use crate::stream_measures::StreamMeasures;
use crate::truth::DriveTruth;

/// Which drive, which policy, how long.
#[derive(Clone)]
pub struct Experiment {
    /// The model of drive.
    pub profile: Arc<DriveProfile>,
    /// How the instance differs from it.
    pub instance: Instance,
    /// The policy.
    pub policy: &'static PolicyEntry,
    /// Its parameters.
    pub parameters: Parameters,
    /// The scheduler's tunables.
    pub tunables: Tunables,
    /// Commands at the drive at once, whatever the policy would like; `None` leaves it to the
    /// policy.
    pub outstanding: Option<usize>,
    /// The seed of the instance and its noise. Nothing else in the run is random but the source.
    pub seed: u64,
    /// Requests that finish before counting begins.
    pub warm_up: u64,
    /// Requests counted; fewer when the source has no more.
    pub requests: u64,
    /// Counting begins at this time of the run, however many requests have finished, and not after
    /// `warm_up`.
    pub warm_up_time: Option<Nanos>,
    /// Counting ends when it has lasted so long, however few requests have finished.
    pub length: Option<Nanos>,
    /// Whether what each stream got is counted beside the whole.
    pub by_stream: bool,
    /// What is read in the background; `None` for nothing.
    pub background: Option<BackgroundScan>,
    /// The most requests held; more make the run fail, because then they come faster than they are
    /// served.
    pub queue_limit: usize,
}

/// A background scan of the whole drive beside the foreground: every sector once, and again when it
/// is through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundScan {
    /// How gaps are searched and what it may cost.
    pub fill: FillSettings,
    /// Sectors are wanted by so many at once, from multiples of it on.
    pub grain: Sectors,
    /// The run ends when so many scans are through, if nothing else ends it before.
    pub passes: Option<u64>,
}

impl BackgroundScan {
    /// A scan by single sectors, again and again.
    #[must_use]
    pub fn new(fill: FillSettings) -> Self {
        Self { fill, grain: Sectors::new(1), passes: None }
    }
}

/// How the simulated instance differs from its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// In its phase alone, without noise: what the mechanics allow.
    Nominal,
    /// As the profile's `[variation]` says, drawn by the seed.
    Drawn,
}

impl Instance {
    /// The instance of a model and a seed.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn of(self, profile: &DriveProfile, seed: u64) -> Result<DriveTruth, ProfileError> {
        match self {
            Self::Nominal => DriveTruth::nominal(profile, seed),
            Self::Drawn => DriveTruth::draw(profile, seed),
        }
    }
}

/// Makes the belief that a run's scheduler starts with. It is given the model, never the instance.
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
    #[error(
        "policy {policy} is an oracle of one arm, and {profile} has {arms}; choose a policy that \
            is no oracle, or `firmware`"
    )]
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
pub struct ObservedRun {
    /// What was counted until the end, good or bad.
    pub measures: Measures,
    /// Why the run could not go on, if it could not.
    pub fault: Option<EngineError>,
}

/// Runs an experiment in virtual time. A policy that is marked *oracle* is given the truth; every
/// other is given what `belief` makes.
///
/// The same experiment and source give the same measures, on every machine.
///
/// # Errors
/// [`RunError`]: a profile that makes no drive, or a workload that cannot be served.
pub fn run(
    experiment: &Experiment,
    source: impl Source,
    belief: BeliefMaker<'_>,
) -> Result<Measures, RunError> {
    let ended = run_observed(experiment, source, belief, &mut ())?;
    ended.fault.map_or(Ok(ended.measures), |fault| Err(fault.into()))
}

/// As [`run`], with a `watch` that is told all that happens, warm-up included. Where the run cannot
/// go on, what was counted until then is answered with the fault: a queue that grows without end is
/// a finding, too.
///
/// # Errors
/// [`RunError`]: a profile that makes no drive, or a policy that cannot run on it.
pub fn run_observed(
    experiment: &Experiment,
    source: impl Source,
    belief: BeliefMaker<'_>,
    watch: &mut impl EngineObserver,
) -> Result<ObservedRun, RunError> {
    run_with_belief(experiment, source, belief, watch).map(|(run, _)| run)
}

/// As [`run_observed`], and answers what was believed in the end, for whoever wants to keep what was
/// learned.
///
/// # Errors
/// As [`run_observed`].
pub fn run_with_belief(
    experiment: &Experiment,
    source: impl Source,
    belief: BeliefMaker<'_>,
    watch: &mut impl EngineObserver,
) -> Result<(ObservedRun, Box<dyn Belief + Send>), RunError> {
    let profile = &experiment.profile;
    let truth = experiment.instance.of(profile, experiment.seed)?;
    let arms = profile.actuators();
    if experiment.policy.oracle && arms > 1 {
        return Err(RunError::OracleOfArms {
            policy: experiment.policy.name,
            profile: profile.name.clone(),
            arms,
        });
    }
    let belief = if experiment.policy.oracle {
        Box::new(OraclePositioning::new(&truth)?)
    } else {
        belief(profile)
    };
    let drive = SimulatedDrive::new(truth)?;
    let traits = drive.traits();
    let limits =
        QueueLimits { requests: experiment.queue_limit, outstanding: experiment.outstanding };
    let mut scheduler =
        Scheduler::new(belief, (experiment.policy.build)(&experiment.parameters), traits, limits);
    scheduler.set_tunables(experiment.tunables.clone());
    let mut scans = None;
    if let Some(background) = &experiment.background {
        scheduler.set_fill(background.fill);
        scans = Some(ScanMeter::new(drive.capacity(), background.grain, profile.sector_size()?));
    }
    let mut engine = Engine::new(scheduler, drive, source, None);
    let mut meter = experiment.meter(profile.sector_size()?);
    let mut books = None;
    let mut fault = None;
    let mut end = None;
    let through = |scans: &Option<ScanMeter>| {
        let most = experiment.background.and_then(|background| background.passes);
        most.zip(scans.as_ref()).is_some_and(|(most, scans)| scans.passes() >= most)
    };
    while !meter.full() && !through(&scans) {
        begin_scan(&mut engine, scans.as_mut());
        if books.is_none() && meter.warm() {
            books = Some(Snapshot::of(&engine, engine.now(), experiment.by_stream, scans.as_ref()));
        }
        if experiment.is_timed() {
            let next = engine.next_event();
            let from = experiment.warm_up_time.map(|time| Instant::ORIGIN + time);
            if let Some(from) = from.filter(|from| next >= *from && !meter.warm()) {
                meter.begin(from);
                books = Some(Snapshot::of(&engine, from, experiment.by_stream, scans.as_ref()));
            }
            let until =
                experiment.length.zip(books.as_ref()).map(|(length, books)| books.at + length);
            // A source that has no more ends the run by itself, at its last request.
            end = until.filter(|until| next > *until && next < Instant::NEVER);
            if end.is_some() {
                break;
            }
        }
        match engine.step(&mut (&mut meter, &mut (&mut scans, &mut *watch))) {
            Ok(StepOutcome::Stepped) => {}
            Ok(StepOutcome::Drained) => break,
            Err(error) => {
                fault = Some(error);
                break;
            }
        }
    }
    let end = end.unwrap_or_else(|| engine.now());
    // Where counting never began, nothing is charged to anybody.
    let by_stream = experiment.by_stream && books.is_some();
    let books = books.unwrap_or_else(|| Snapshot::of(&engine, end, false, scans.as_ref()));
    let seconds = end.saturating_since(books.at).as_secs_f64();
    let scan =
        scans.map(|scans| scans.measures(&books.scanned, seconds, &engine.scheduler.fill_report()));
    let (disk_time, charged) = Snapshot::of(&engine, end, by_stream, None).since(&books);
    let measures = meter.measures(
        end,
        experiment.policy.name,
        &profile.name,
        experiment.seed,
        disk_time,
        &charged,
    );
    Ok((
        ObservedRun { measures: Measures { scan, ..measures }, fault },
        engine.scheduler.into_belief(),
    ))
}

/// Begins the first scan, or the next one when the last is through.
fn begin_scan<S: Source>(
    engine: &mut Engine<Scheduler, SimulatedDrive, S>,
    scans: Option<&mut ScanMeter>,
) {
    let now = engine.now();
    if let Some((id, wanted)) = scans.and_then(|scans| scans.next_scan(now)) {
        // The one that is through keeps no room.
        engine.scheduler.scan_stop(now, ScanId(id.0 - 1));
        engine.scheduler.scan_start(now, id, wanted, ScanOptions::default());
        engine.stir();
    }
}

/// What the drive and the scheduler have booked until a time.
struct Snapshot {
    at: Instant,
    disk_time: DiskTime,
    /// Disk time charged to each stream, by its number; empty unless wanted.
    charged: Vec<Nanos>,
    scanned: ScanCounts,
}

impl Snapshot {
    fn of<S: Source>(
        engine: &Engine<Scheduler, SimulatedDrive, S>,
        at: Instant,
        by_stream: bool,
        scans: Option<&ScanMeter>,
    ) -> Self {
        let mut charged = Vec::new();
        if by_stream {
            for (volume, account) in engine
                .scheduler
                .accounts()
                .volumes()
                .filter(|(volume, _)| (volume.0 as usize) < StreamMeasures::MOST)
            {
                charged.resize(charged.len().max(volume.0 as usize + 1), Nanos::ZERO);
                charged[volume.0 as usize] = account.disk_time;
            }
        }
        Self {
            at,
            disk_time: engine.device.disk_time(at),
            charged,
            scanned: scans.map_or_else(Default::default, ScanMeter::counts),
        }
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

    /// A policy with its default parameters on a nominal instance: 20,000 requests after a tenth as
    /// many of warm-up, at most 65,536 held.
    #[must_use]
    pub fn new(profile: Arc<DriveProfile>, policy: &'static PolicyEntry, seed: u64) -> Self {
        let (policy, parameters) = PolicyEntry::parse(policy.name)
            .expect("every policy of the table is found by its name");
        Self {
            profile,
            instance: Instance::Nominal,
            policy,
            parameters,
            tunables: Tunables::default(),
            outstanding: None,
            seed,
            warm_up: 2_000,
            requests: 20_000,
            warm_up_time: None,
            length: None,
            by_stream: false,
            background: None,
            queue_limit: QueueLimits::default().requests,
        }
    }
}
