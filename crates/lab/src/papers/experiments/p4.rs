//! The common parts of the experiments of P4: the array, and runs for a span of time.
//!
//! The paper used twelve 146 GB 10,000 rpm SAS disks as RAID-0 with stripes of 128 KB on an HP
//! P600 controller. Here they are simulated drives `savvio10k2@papers` with noise, and the
//! controller passes 250 MB/s, where the paper's bandwidth levels off. A cache of the controller is
//! not modelled. One scheduler has the array as one device, as in the paper. Rates are shares of
//! the array's own maximum, because twelve drives without such a cache serve little more than half
//! of what the paper's do (12 MB/s are "slightly less than half" of it).

use headtime_belief::{ArrayModel, DriveModel};
use headtime_mechanics::{DriveProfile, NoiseLevel, catalog};
use headtime_sched::{
    Accounts, Admission, Belief, Cancelled, Decision, Done, DriveTraits, Finished, IfInfeasible,
    IoPriority, Policy, PolicyEntry, PromiseCounts, QueueLimits, Request, RequestId, Scheduler,
    StreamId, VolumeId,
};
use headtime_sim::{
    ArrayOptions, Device as _, DriveTruth, Engine, EngineObserver, Raid0, RunError, SchedulerApi,
    SimulatedDrive, StepOutcome,
};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use headtime_workload::{Arrivals, Interarrival, StreamConfig, Workload};
use smallvec::SmallVec;

use crate::papers::{Cause, Context, Estimated, ExperimentError, FixedParameter, PointOfWork};

/// The drives as the paper used them.
const DRIVE: &str = "savvio10k2@papers";
const DRIVES: usize = 12;
/// 128 KiB.
const STRIPE: Sectors = Sectors::new(256);
/// The bandwidth at which the paper's array levels off.
const CONTROLLER_MB_PER_S: f64 = 250.0;
/// The paper's maximum of outstanding requests.
pub(super) const OUTSTANDING: u32 = 60;
/// The paper's best-effort requests.
const BEST_EFFORT: u32 = 500;
/// Runs of each point, each with other drives and another workload.
pub(super) const REPLICAS: u64 = 3;
/// Seconds before the measurement; fewer where fewer are measured.
const WARM_UP: f64 = 3.0;
/// Measured seconds of a run at full scale.
const SECONDS: f64 = 30.0;
const MB: f64 = 1e6;
pub(super) const NOISE: &str = "(simulated drives with noise)";

/// One run over the array.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) what: String,
    pub(super) policy: String,
    pub(super) streams: Vec<StreamConfig>,
    pub(super) deadlines: Deadlines,
    /// The share of the array's addresses that requests access, from its start.
    pub(super) range: f64,
    pub(super) seconds: f64,
    pub(super) replica: u64,
}

/// The treatment of deadlines at submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadlines {
    /// As in the paper: every deadline counts, whether it can be met or not.
    Unanswered,
    /// Each is answered: guaranteed or best effort.
    Answered,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// All requests.
    pub(super) mb_per_s: f64,
    /// Requests with a deadline.
    pub(super) real_time_mb_per_s: f64,
    pub(super) requests_per_s: f64,
    /// Requests with a deadline that finished, and those of them that missed it.
    pub(super) deadlines: u64,
    pub(super) missed: u64,
    /// Answers per second of the whole run, and their counts.
    pub(super) guaranteed_per_s: f64,
    pub(super) promises: PromiseCounts,
    /// Commands alone at the array that took longer than their worst case, and by how much the
    /// worst of them.
    pub(super) overlong: u64,
    pub(super) excess: Nanos,
    /// The share of time with so many commands at the array.
    pub(super) outstanding: Vec<f64>,
}

/// The best-effort requests of the paper: a closed loop of 500, 4 KiB, anywhere.
pub(super) fn best_effort() -> StreamConfig {
    StreamConfig::closed(BEST_EFFORT)
}

/// The real-time stream: reads of 4 KiB anywhere, so many per second at random times, due after
/// `deadline`.
pub(super) fn real_time(per_second: f64, deadline: Nanos) -> StreamConfig {
    StreamConfig {
        arrivals: Arrivals::Open(Interarrival::Poisson { per_second }),
        deadline: Some(deadline),
        ..StreamConfig::closed(1)
    }
}

impl Run {
    pub(super) fn new(
        context: &Context<'_>,
        what: impl Into<String>,
        policy: impl Into<String>,
        streams: Vec<StreamConfig>,
    ) -> Self {
        Self {
            what: what.into(),
            policy: policy.into(),
            streams,
            deadlines: Deadlines::Unanswered,
            range: 1.0,
            seconds: (SECONDS * context.scale()).clamp(1.0, SECONDS),
            replica: 0,
        }
    }

    fn scheduler(&self, profile: &DriveProfile, options: ArrayOptions) -> Result<Scheduler, Cause> {
        let members = (0..DRIVES).map(|_| {
            DriveModel::of_profile(profile).map(|model| Box::new(model) as Box<dyn Belief + Send>)
        });
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let passing = options.ps_per_sector(profile.sector_bytes);
        let belief = Box::new(ArrayModel::new(members, options.stripe, passing));
        let (entry, parameters) = PolicyEntry::parse(&self.policy)?;
        let traits = DriveTraits { queue_depth: options.queue_depth, fua: false };
        let policy = (entry.build)(&parameters);
        Ok(Scheduler::new(belief, policy, traits, QueueLimits::default()))
    }
}

impl PointOfWork for Run {
    type Outcome = Course;

    fn label(&self) -> String {
        format!("{}: {}", self.what, self.policy)
    }

    fn work(&self) -> u64 {
        (self.seconds * 1e3) as u64
    }

    fn run(&self, seed: u64) -> Result<Course, Cause> {
        let seed = seed.wrapping_add(self.replica);
        let profile = NoiseLevel::Typical.apply(&catalog::load(DRIVE)?);
        let options = ArrayOptions {
            stripe: STRIPE,
            queue_depth: OUTSTANDING as usize,
            controller_mb_per_s: Some(CONTROLLER_MB_PER_S),
        };
        let array = Raid0::of_model(&profile, DRIVES, seed, DriveTruth::draw, options)?;
        let sector = profile.sector_size()?;
        let sectors = Sectors::new((array.capacity().get() as f64 * self.range) as u64);
        let range = Some(Extent::new(Lba::new(0), sectors));
        let streams = self.streams.iter().cloned().map(|stream| StreamConfig { range, ..stream });
        let source = Workload::new(&streams.collect::<Vec<_>>(), sector, array.capacity(), seed)?;
        let scheduler = self.scheduler(&profile, options)?;
        let front = Front::of(scheduler, self.deadlines);
        let mut engine: Engine<Front, Raid0<SimulatedDrive>, Workload> =
            Engine::new(front, array, source, None);
        let span = |seconds: f64| Nanos::from_ms((seconds * 1e3) as u64);
        let from = Instant::ORIGIN + span(self.seconds.min(WARM_UP));
        let end = from + span(self.seconds);
        engine.scheduler.window = (from, end);
        let mut counts = Counts { from, ..Counts::default() };
        while engine.next_event() <= end {
            if engine.step(&mut counts).map_err(RunError::from)? == StepOutcome::Drained {
                break;
            }
        }
        // The streams are volumes of their own, and only one has deadlines.
        let real_time = VolumeId(self.streams.len().saturating_sub(1) as u32);
        let promises = engine.scheduler.accounts().volume(real_time).promises.total();
        let bytes = |sectors: u64| sector.bytes_of(Sectors::new(sectors)) as f64;
        let spans = &engine.scheduler.spans;
        let whole: Nanos = spans.iter().copied().sum();
        Ok(Course {
            mb_per_s: bytes(counts.sectors) / MB / self.seconds,
            real_time_mb_per_s: bytes(counts.real_time_sectors) / MB / self.seconds,
            requests_per_s: counts.requests as f64 / self.seconds,
            deadlines: counts.deadlines,
            missed: counts.missed,
            guaranteed_per_s: promises.guaranteed as f64
                / end.saturating_since(Instant::ORIGIN).as_secs_f64(),
            promises,
            overlong: engine.scheduler.overlong,
            excess: engine.scheduler.excess,
            outstanding: spans
                .iter()
                .map(|span| span.as_ns() as f64 / whole.as_ns().max(1) as f64)
                .collect(),
        })
    }
}

/// Runs every point so many times as there are replicas; the results are in the order of the
/// points.
pub(super) fn run_all(
    context: &Context<'_>,
    runs: impl IntoIterator<Item = Run>,
) -> Result<Vec<Vec<Course>>, ExperimentError> {
    let replicas = |run: Run| (0..REPLICAS).map(move |replica| Run { replica, ..run.clone() });
    let points: Vec<Run> = runs.into_iter().flat_map(replicas).collect();
    let courses = context.run(&points)?;
    Ok(courses.chunks(REPLICAS as usize).map(<[Course]>::to_vec).collect())
}

/// The mean of `value` over the replicas of a point.
pub(super) fn mean(courses: &[Course], value: impl Fn(&Course) -> f64) -> Estimated {
    Estimated::of_runs(&courses.iter().map(value).collect::<Vec<_>>())
}

/// Requests per second of best-effort requests alone with 60 at the array: the maximum that rates
/// are shares of.
pub(super) fn maximum(context: &Context<'_>) -> Result<Vec<Course>, ExperimentError> {
    let alone = Run::new(context, "best effort alone", "cds-scan", vec![best_effort()]);
    Ok(run_all(context, [alone])?.remove(0))
}

/// The estimate that stands for the paper's, which it does not state: the mean time of a request at
/// the array's maximum.
pub(super) fn stated_estimate(maximum: &[Course]) -> String {
    format!("{:.3}", 1e3 / mean(maximum, |course| course.requests_per_s).value)
}

/// The common parameters.
pub(super) fn parameters() -> Vec<FixedParameter> {
    vec![FixedParameter::new(
        "array",
        format!(
            "RAID-0 of {DRIVES} drives {DRIVE} with noise typical, stripes of 128 KiB, a \
                controller of {CONTROLLER_MB_PER_S} MB/s; {REPLICAS} arrays"
        ),
    )]
}

/// A scheduler that answers deadlines, and the time with each number of commands at the drive.
struct Front {
    inner: Scheduler,
    deadlines: Deadlines,
    window: (Instant, Instant),
    since: Instant,
    spans: Vec<Nanos>,
    /// The last completion.
    completed: Instant,
    overlong: u64,
    excess: Nanos,
}

impl Front {
    fn of(inner: Scheduler, deadlines: Deadlines) -> Self {
        let window = (Instant::ORIGIN, Instant::NEVER);
        Self {
            inner,
            deadlines,
            window,
            since: Instant::ORIGIN,
            spans: Vec::new(),
            completed: Instant::ORIGIN,
            overlong: 0,
            excess: Nanos::ZERO,
        }
    }

    /// The number of commands at the drive is about to change.
    fn count(&mut self, now: Instant) {
        let held = self.inner.outstanding().len();
        if self.spans.len() <= held {
            self.spans.resize(held + 1, Nanos::ZERO);
        }
        let (from, end) = self.window;
        self.spans[held] += now.min(end).saturating_since(self.since.max(from));
        self.since = now;
    }
}

impl SchedulerApi for Front {
    fn submit(&mut self, now: Instant, request: Request) -> Admission {
        if self.deadlines == Deadlines::Unanswered || request.deadline.is_none() {
            return self.inner.submit(now, request);
        }
        let answer = IfInfeasible::BestEffort;
        let answer = self.inner.submit_answered(now, request, Some(IoPriority::DEFAULT), answer);
        answer.map_or_else(Admission::Refused, |_| Admission::Accepted)
    }

    fn next(&mut self, now: Instant) -> Decision {
        self.count(now);
        self.inner.next(now)
    }

    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        self.count(now);
        let held = self.inner.outstanding();
        if let Some(alone) = held.front().filter(|_| held.len() == 1)
            && alone.dispatched >= self.completed
        {
            let excess = done.finished.saturating_since(alone.dispatched + alone.worst);
            self.overlong += u64::from(!excess.is_zero());
            self.excess = self.excess.max(excess);
        }
        self.completed = self.completed.max(done.finished);
        self.inner.complete(now, done)
    }

    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled {
        self.inner.cancel(now, id)
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.inner.stream_ended(now, stream);
    }

    fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.inner.set_policy(policy);
    }

    fn accounts(&self) -> &Accounts {
        self.inner.accounts()
    }

    fn self_check(&self) {
        self.inner.self_check();
    }
}

/// The requests that completed in the window.
#[derive(Default)]
struct Counts {
    from: Instant,
    requests: u64,
    sectors: u64,
    real_time_sectors: u64,
    deadlines: u64,
    missed: u64,
}

impl EngineObserver for Counts {
    fn finished(&mut self, now: Instant, finished: &Finished) {
        if now < self.from {
            return;
        }
        let sectors = finished.request.extent.len.get();
        self.requests += 1;
        self.sectors += sectors;
        if finished.request.deadline.is_some() {
            self.real_time_sectors += sectors;
            self.deadlines += 1;
            self.missed += u64::from(finished.missed());
        }
    }
}
