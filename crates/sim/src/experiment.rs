//! [`run`]: one experiment, from a profile to [`Measures`]. [`run_observed`] also reports events
//! and the results of a run that fails.

use std::sync::Arc;

use headtime_mechanics::{DriveProfile, NoiseLevel, ProfileError};
use headtime_sched::{
    Belief, DriveTraits, FillSettings, Parameters, Policy, PolicyEntry, QueueLimits, ScanId,
    ScanOptions, Scheduler, ShareChange, ShareRefusal, Tenant, Terms, Tunables,
};
use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use headtime_workload::RequestSource;

use crate::array::{ArrayOptions, Raid0};
use crate::device::Device;
use crate::divided::Divided;
use crate::drive::SimulatedDrive;
use crate::engine::{Engine, EngineError, EngineObserver, StepOutcome};
use crate::measures::{Measures, Meter};
use crate::oracle::OraclePositioning;
use crate::scan_measures::{ScanCounts, ScanMeter};
use crate::stream_measures::StreamMeasures;
use crate::truth::DriveTruth;
use headtime_mechanics::DiskTime;

/// The drive, the policy and the length of a run.
#[derive(Clone)]
pub struct Experiment {
    /// The drive model; of an array, that of its first member.
    pub profile: Arc<DriveProfile>,
    /// The other members, if the drive is an array.
    pub array: Option<ArrayMembers>,
    /// The deviation of the simulated drive from the model.
    pub instance: Instance,
    /// The policy.
    pub policy: &'static PolicyEntry,
    /// The policy's parameters.
    pub parameters: Parameters,
    /// The scheduler's tunables.
    pub tunables: Tunables,
    /// Maximum number of commands at the drive; `None` leaves it to the policy.
    pub outstanding: Option<usize>,
    /// The seed of the simulated drive and its noise. Only the source draws other random numbers.
    pub seed: u64,
    /// Requests that finish before the measurement starts.
    pub warm_up: u64,
    /// Requests measured; fewer if the source ends.
    pub requests: u64,
    /// Starts the measurement at this time instead of after `warm_up` requests.
    pub warm_up_time: Option<Nanos>,
    /// Ends the measurement after this time.
    pub length: Option<Nanos>,
    /// True to measure each stream as well.
    pub by_stream: bool,
    /// The tenants with terms of their own: reservations, limits, weights.
    pub terms: Vec<(Tenant, Terms)>,
    /// The background scan, if any.
    pub background: Option<BackgroundScan>,
    /// Maximum number of requests held; the run fails beyond it, because requests arrive faster
    /// than the drive serves them.
    pub queue_limit: usize,
}

/// The members of an array after the first.
#[derive(Clone, Debug)]
pub struct ArrayMembers {
    /// Their drive models, with sectors of the same size as the first.
    pub others: Vec<Arc<DriveProfile>>,
    /// Sectors of a stripe.
    pub stripe: Sectors,
    /// Divides requests at the ends of stripes, as a server does that schedules each member by
    /// itself; `None` does not.
    pub divide_at: Option<Sectors>,
}

/// A background scan of the whole drive: every sector once, then again from the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundScan {
    /// The search of gaps and the bound on impact.
    pub fill: FillSettings,
    /// Sectors are requested in aligned units of this length.
    pub grain: Sectors,
    /// Ends the run after this many passes.
    pub passes: Option<u64>,
}

impl BackgroundScan {
    /// An endless scan by single sectors.
    #[must_use]
    pub fn new(fill: FillSettings) -> Self {
        Self { fill, grain: Sectors::new(1), passes: None }
    }
}

/// The deviation of the simulated drive from its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// Only the phase differs, without noise: the limit of the mechanics.
    Nominal,
    /// Drawn by the seed from the profile's `[variation]`.
    Drawn,
    /// Drawn by the seed at a level of noise.
    Noise(NoiseLevel),
}

impl Instance {
    /// Draws the instance of a model and a seed.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn of(self, profile: &DriveProfile, seed: u64) -> Result<DriveTruth, ProfileError> {
        match self {
            Self::Nominal | Self::Noise(NoiseLevel::Off) => DriveTruth::nominal(profile, seed),
            Self::Drawn => DriveTruth::draw(profile, seed),
            Self::Noise(level) => DriveTruth::draw(&level.apply(profile), seed),
        }
    }
}

/// Makes the drive model that the scheduler starts with, from the profile alone.
pub type BeliefMaker<'a> = &'a dyn Fn(&DriveProfile) -> Box<dyn Belief + Send>;

/// The reason why a run failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum RunError {
    /// The profile is not valid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The run could not continue.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The terms of a tenant are not valid, or reservations exceed the drive.
    #[error(transparent)]
    Shares(#[from] ShareRefusal),
    /// An oracle cannot run on a drive with more than one arm.
    #[error(
        "policy {policy} is an oracle of one arm, and {drive} has {arms}; choose a policy that \
            is no oracle, or `firmware`"
    )]
    OracleOfArms { policy: &'static str, drive: String, arms: u16 },
}

/// The results of an observed run.
#[derive(Clone, Debug)]
pub struct ObservedRun {
    /// The measurements until the end, complete or not.
    pub measures: Measures,
    /// The reason why the run could not continue.
    pub fault: Option<EngineError>,
}

/// Runs an experiment in virtual time. A policy marked *oracle* gets the truth; every other policy
/// gets the result of `belief`.
///
/// The same experiment and source give the same measurements on every machine.
///
/// # Errors
/// [`RunError`]: a profile that is not valid, or a workload that cannot be served.
pub fn run(
    experiment: &Experiment,
    source: impl RequestSource,
    belief: BeliefMaker<'_>,
) -> Result<Measures, RunError> {
    let ended = run_observed(experiment, source, belief, &mut ())?;
    ended.fault.map_or(Ok(ended.measures), |fault| Err(fault.into()))
}

/// Like [`run`], with an `observer` of all events, warm-up included. A run that cannot continue
/// returns its measurements with the fault: a queue that grows without bound is a result, too.
///
/// # Errors
/// [`RunError`]: a profile that is not valid, or a policy that cannot run on it.
pub fn run_observed(
    experiment: &Experiment,
    source: impl RequestSource,
    belief: BeliefMaker<'_>,
    observer: &mut impl EngineObserver,
) -> Result<ObservedRun, RunError> {
    run_with_belief(experiment, source, belief, observer).map(|(run, _)| run)
}

/// Like [`run_observed`]; also returns the final drive model with everything it learned.
///
/// # Errors
/// As [`run_observed`].
pub fn run_with_belief(
    experiment: &Experiment,
    source: impl RequestSource,
    belief: BeliefMaker<'_>,
    observer: &mut impl EngineObserver,
) -> Result<(ObservedRun, Box<dyn Belief + Send>), RunError> {
    let profile = &experiment.profile;
    let members = experiment.array.as_ref().map_or(0, |array| array.others.len() as u16);
    let arms = profile.actuators() + members;
    if experiment.policy.oracle && arms > 1 {
        return Err(RunError::OracleOfArms {
            policy: experiment.policy.name,
            drive: if members > 0 { "the array".to_owned() } else { profile.name.clone() },
            arms,
        });
    }
    let parameters = &experiment.parameters;
    if let Some(array) = &experiment.array {
        let others = array.others.iter().map(|profile| &**profile);
        let profiles: Vec<&DriveProfile> = std::iter::once(&**profile).chain(others).collect();
        let draw = |profile: &DriveProfile, seed| experiment.instance.of(profile, seed);
        let members = Raid0::drawn(&profiles, experiment.seed, draw)?;
        let traits = members.iter().map(SimulatedDrive::traits).reduce(|all, member| DriveTraits {
            queue_depth: all.queue_depth + member.queue_depth,
            fua: all.fua && member.fua,
        });
        let traits = traits.expect("an array has a first member");
        let options = ArrayOptions {
            stripe: array.stripe,
            queue_depth: traits.queue_depth,
            controller_mb_per_s: None,
        };
        let drive = Raid0::new(members, profile.sector_bytes, options);
        let policy = experiment.policy.by_member(parameters);
        return run_on(experiment, drive, traits, (belief(profile), policy), source, observer);
    }
    let truth = experiment.instance.of(profile, experiment.seed)?;
    let belief = if experiment.policy.oracle {
        Box::new(OraclePositioning::new(&truth)?)
    } else {
        belief(profile)
    };
    let drive = SimulatedDrive::new(truth)?;
    let (traits, policy) = (drive.traits(), (experiment.policy.build)(parameters));
    run_on(experiment, drive, traits, (belief, policy), source, observer)
}

/// Runs an experiment on its drive.
fn run_on<D: Device>(
    experiment: &Experiment,
    drive: D,
    traits: DriveTraits,
    (belief, policy): (Box<dyn Belief + Send>, Box<dyn Policy>),
    source: impl RequestSource,
    observer: &mut impl EngineObserver,
) -> Result<(ObservedRun, Box<dyn Belief + Send>), RunError> {
    let profile = &experiment.profile;
    let limits =
        QueueLimits { requests: experiment.queue_limit, outstanding: experiment.outstanding };
    let mut scheduler = Scheduler::new(belief, policy, traits, limits);
    scheduler.set_tunables(experiment.tunables.clone());
    let changes: Vec<ShareChange> =
        experiment.terms.iter().map(|(tenant, terms)| ShareChange::Set(*tenant, *terms)).collect();
    scheduler.change_shares(Instant::ORIGIN, &changes)?;
    let mut scans = None;
    if let Some(background) = &experiment.background {
        scheduler.set_fill(background.fill);
        scans = Some(ScanMeter::new(drive.capacity(), background.grain, profile.sector_size()?));
    }
    let divide_at = experiment.array.as_ref().and_then(|array| array.divide_at);
    let mut engine = Engine::new(Divided::new(scheduler, divide_at), drive, source, None);
    let mut meter = experiment.meter(profile.sector_size()?);
    let mut at_start = None;
    let mut fault = None;
    let mut end = None;
    let finished = |scans: &Option<ScanMeter>| {
        let max_passes = experiment.background.and_then(|background| background.passes);
        max_passes
            .zip(scans.as_ref())
            .is_some_and(|(max_passes, scans)| scans.passes() >= max_passes)
    };
    while !meter.full() && !finished(&scans) {
        begin_scan(&mut engine, scans.as_mut());
        if at_start.is_none() && meter.warm() {
            at_start =
                Some(Snapshot::of(&engine, engine.now(), experiment.by_stream, scans.as_ref()));
        }
        if experiment.is_timed() {
            let next = engine.next_event();
            let from = experiment.warm_up_time.map(|time| Instant::ORIGIN + time);
            if let Some(from) = from.filter(|from| next >= *from && !meter.warm()) {
                meter.begin(from);
                at_start = Some(Snapshot::of(&engine, from, experiment.by_stream, scans.as_ref()));
            }
            let until = experiment
                .length
                .zip(at_start.as_ref())
                .map(|(length, at_start)| at_start.at + length);
            // A source without further requests ends the run at its last request.
            end = until.filter(|until| next > *until && next < Instant::NEVER);
            if end.is_some() {
                break;
            }
        }
        match engine.step(&mut (&mut meter, &mut (&mut scans, &mut *observer))) {
            Ok(StepOutcome::Stepped) => {}
            Ok(StepOutcome::Drained) => break,
            Err(error) => {
                fault = Some(error);
                break;
            }
        }
    }
    let end = end.unwrap_or_else(|| engine.now());
    // Without a measurement, no time is charged.
    let by_stream = experiment.by_stream && at_start.is_some();
    let at_start = at_start.unwrap_or_else(|| Snapshot::of(&engine, end, false, scans.as_ref()));
    let seconds = end.saturating_since(at_start.at).as_secs_f64();
    let scan = scans.map(|scans| {
        scans.measures(&at_start.scanned, seconds, &engine.scheduler.scheduler.fill_report())
    });
    let (disk_time, charged) = Snapshot::of(&engine, end, by_stream, None).since(&at_start);
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
        engine.scheduler.scheduler.into_belief(),
    ))
}

/// Starts the first scan, or the next one after the last has finished.
fn begin_scan<D: Device, S: RequestSource>(
    engine: &mut Engine<Divided, D, S>,
    scans: Option<&mut ScanMeter>,
) {
    let now = engine.now();
    if let Some((id, sectors)) = scans.and_then(|scans| scans.next_scan(now)) {
        // Release the finished scan.
        engine.scheduler.scheduler.scan_stop(now, ScanId(id.0 - 1));
        engine.scheduler.scheduler.scan_start(now, id, sectors, ScanOptions::default());
        engine.request_dispatch();
    }
}

/// The accounts of drive and scheduler at one time.
struct Snapshot {
    at: Instant,
    disk_time: DiskTime,
    /// Disk time charged by stream number; empty unless requested.
    charged: Vec<Nanos>,
    scanned: ScanCounts,
}

impl Snapshot {
    fn of<D: Device, S: RequestSource>(
        engine: &Engine<Divided, D, S>,
        at: Instant,
        by_stream: bool,
        scans: Option<&ScanMeter>,
    ) -> Self {
        let mut charged = Vec::new();
        if by_stream {
            for (volume, account) in engine
                .scheduler
                .scheduler
                .accounts()
                .volumes()
                .filter(|(volume, _)| (volume.0 as usize) < StreamMeasures::MAX_STREAMS)
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

    /// A policy with default parameters on a nominal drive: 20,000 requests after 2,000 of warm-up,
    /// at most 65,536 held.
    #[must_use]
    pub fn new(profile: Arc<DriveProfile>, policy: &'static PolicyEntry, seed: u64) -> Self {
        let (policy, parameters) = PolicyEntry::parse(policy.name)
            .expect("every policy of the table is found by its name");
        Self {
            profile,
            array: None,
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
            terms: Vec::new(),
            background: None,
            queue_limit: QueueLimits::default().requests,
        }
    }
}
