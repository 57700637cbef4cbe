//! The common parts of the experiments of P5: drive, streams, and measurements second by second.
//!
//! The paper used one IBM Deskstar 34GXP with Linux 2.6.17. Here the drive follows its data sheet
//! and other sources (docs/drives.md): a simulated drive with noise, its
//! read cache on, and one request at a time. The streams are those of the paper: a closed loop of 4
//! KiB requests, random or in runs of 1,024 consecutive ones from random addresses. The paper does
//! not give the requests per stream; here 20, so that no queue is ever empty.

use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_mechanics::profile::Algorithm;
use headtime_mechanics::{DriveProfile, NoiseLevel, catalog};
use headtime_sched::{Finished, PolicyEntry, QueueLimits, Scheduler, Tenant, Terms, VolumeId};
use headtime_sim::{DriveTruth, Engine, EngineObserver, SimulatedDrive, StepOutcome};
use headtime_units::{Instant, Nanos, Share};
use headtime_workload::{Order, StreamConfig, Workload};

use crate::papers::{
    Cause, Context, Estimated, ExperimentError, FixedParameter, Measured, Point, PointOfWork,
    Series,
};

/// The drive as the paper used it.
pub(super) const DRIVE: &str = "deskstar34gxp@papers";
/// The length of a run in the paper.
pub(super) const SECONDS: f64 = 85.0;
/// Requests of a sequential run.
pub(super) const RUN: u64 = 1_024;
/// Requests held by each stream.
const HELD: u32 = 20;
/// Commands that a driver below the scheduler accepts ("up to 20 requests for the throughput-based
/// version", section 3).
pub(super) const DRIVER_TAKES: u32 = 20;
/// The resolution of time.
const STEP: Nanos = Nanos::from_ms(10);
/// The time after which shares are evaluated.
pub(super) const SETTLED: f64 = 2.0;

/// One stream and its reservation.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) config: StreamConfig,
    pub(super) terms: Terms,
}

/// One run of streams on the drive.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) what: String,
    pub(super) policy: String,
    pub(super) members: Vec<Member>,
    pub(super) seconds: f64,
    /// The number of commands that a driver below accepts and sorts; `None` for one at a time.
    pub(super) driver: Option<u32>,
    /// True if the drive caches writes.
    pub(super) write_cache: bool,
    /// Added to the seed.
    pub(super) replica: u64,
    pub(super) noise: NoiseLevel,
}

/// The results of each stream by step.
#[derive(Clone, Debug)]
pub(super) struct Course {
    streams: Vec<Steps>,
    steps: usize,
}

/// One stream's part.
#[derive(Clone, Debug, Default)]
struct Steps {
    /// Disk time and requests until the end of each step, from the start.
    disk_time_ns: Vec<u64>,
    requests: Vec<u64>,
    /// Time of completion and response time, in the order of completion.
    responses_ns: Vec<(u64, u64)>,
}

/// Random 4 KiB reads.
pub(super) fn random() -> StreamConfig {
    StreamConfig::closed(HELD)
}

/// 4 KiB reads in runs of a given length, all clients on one run.
pub(super) fn runs_of(requests: u64) -> StreamConfig {
    StreamConfig {
        order: Order::FixedRuns { requests },
        positions: Some(1),
        ..StreamConfig::closed(HELD)
    }
}

/// A share in percent.
pub(super) fn percent(percent: f64) -> Share {
    Share::from_fraction(percent / 100.0)
        .expect("an experiment's shares lie between nothing and the whole")
}

/// A sequential and a random stream that have reserved all of the drive between them.
pub(super) fn pair(sequential_percent: f64) -> Vec<Member> {
    let reserving = |share| Terms::reserving(percent(share));
    vec![
        Member { config: runs_of(RUN), terms: reserving(sequential_percent) },
        Member { config: random(), terms: reserving(100.0 - sequential_percent) },
    ]
}

/// Reservations of the sequential stream in percent; the random one has the rest.
pub(super) const RESERVED: [f64; 11] =
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
/// The streams of a pair.
pub(super) const STREAMS: [&str; 2] = ["sequential", "random"];
/// The reservation of one of a pair, in percent.
pub(super) fn own(stream: usize, sequential_percent: f64) -> f64 {
    if stream == 0 { sequential_percent } else { 100.0 - sequential_percent }
}

/// A pair with each of these reservations.
pub(super) fn sweep(policy: &str, seconds: f64) -> Vec<Run> {
    RESERVED
        .iter()
        .map(|percent| {
            Run::new(format!("{policy}: {percent} % sequential"), policy, pair(*percent), seconds)
        })
        .collect()
}

/// One line for each stream of a pair over the reservations of [`sweep`].
pub(super) fn lines<M: Into<Measured>>(
    name: &str,
    published: bool,
    courses: &[Course],
    value: impl Fn(usize, f64, &Course) -> M,
) -> Vec<Series> {
    let line = |stream: usize| Series {
        name: format!("{}{name}", STREAMS[stream]),
        published,
        points: RESERVED
            .iter()
            .zip(courses)
            .map(|(reserved, course)| Point::of(*reserved, value(stream, *reserved, course)))
            .collect(),
    };
    vec![line(0), line(1)]
}

/// The reservations themselves, in percent.
pub(super) fn reserved_lines(courses: &[Course]) -> Vec<Series> {
    lines(", reserved", true, courses, |stream, reserved, _| {
        Estimated::new(own(stream, reserved), None)
    })
}

/// The length of runs at the context's scale: at least five seconds, the minimum for a share.
pub(super) fn seconds(context: &Context<'_>) -> f64 {
    (SECONDS * context.scale()).max(5.0)
}

/// The common parameters.
pub(super) fn parameters(seconds: f64) -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "drive",
            format!("{DRIVE}, simulated drive with noise, read cache on, write cache off"),
        ),
        FixedParameter::new(
            "streams",
            format!(
                "4 KiB reads, {HELD} held by each; sequential: runs of {RUN} from random places"
            ),
        ),
        FixedParameter::new(
            "length of a run",
            format!("{seconds:.0} s (published: {SECONDS:.0} s)"),
        ),
    ]
}

/// The driver below some of the schedulers.
pub(super) fn driver(schedulers: &str) -> FixedParameter {
    FixedParameter::new(
        "driver",
        format!(
            "below {schedulers}: accepts {DRIVER_TAKES} commands and sorts them by positioning \
                time (published: Linux's, which sorts by address)"
        ),
    )
}

/// The paper's measured throughput: requests per second of the random stream alone under the
/// throughput-based scheduler, to the tenth.
pub(super) fn nominal(context: &Context<'_>, seconds: f64) -> Result<f64, ExperimentError> {
    let alone = vec![Member { config: random(), terms: Terms::default() }];
    let course = context
        .run(&[Run::new("nominal rate", "throughput", alone, seconds).above_driver()])?
        .remove(0);
    Ok((course.settled_rate(0) * 10.0).round() / 10.0)
}

impl Run {
    pub(super) fn new(
        what: impl Into<String>,
        policy: impl Into<String>,
        members: Vec<Member>,
        seconds: f64,
    ) -> Self {
        Self {
            what: what.into(),
            policy: policy.into(),
            members,
            seconds,
            driver: None,
            write_cache: false,
            replica: 0,
            noise: NoiseLevel::Typical,
        }
    }

    /// The same above a driver that accepts and sorts commands.
    pub(super) fn above_driver(self) -> Self {
        Self { driver: Some(DRIVER_TAKES), ..self }
    }

    /// The same on a drive that caches writes.
    pub(super) fn with_write_cache(self) -> Self {
        Self { write_cache: true, ..self }
    }

    fn profile(&self) -> Result<DriveProfile, Cause> {
        let mut profile = self.noise.apply(&catalog::load(DRIVE)?);
        if let Some(cache) = &mut profile.cache {
            cache.write_back |= self.write_cache;
        }
        if let Some(commands) = self.driver {
            profile.firmware.queue_depth = commands;
            profile.firmware.algorithm = Algorithm::Sptf;
        }
        Ok(profile)
    }
}

impl PointOfWork for Run {
    type Outcome = Course;

    fn label(&self) -> String {
        self.what.clone()
    }

    fn work(&self) -> u64 {
        (self.seconds * 1e3) as u64
    }

    fn run(&self, seed: u64) -> Result<Course, Cause> {
        let seed = seed.wrapping_add(self.replica);
        let profile = Arc::new(self.profile()?);
        let (entry, parameters) = PolicyEntry::parse(&self.policy)?;
        let configs: Vec<StreamConfig> =
            self.members.iter().map(|member| member.config.clone()).collect();
        let source = Workload::new(&configs, profile.sector_size()?, profile.capacity(), seed)?;
        let drive = SimulatedDrive::new(DriveTruth::draw(&profile, seed)?)?;
        let belief = Box::new(DriveModel::of_profile(&profile)?);
        let mut scheduler = Scheduler::new(
            belief,
            (entry.build)(&parameters),
            drive.traits(),
            QueueLimits::default(),
        );
        for (volume, member) in (0..).zip(&self.members) {
            scheduler.set_share(Instant::ORIGIN, Tenant::of(VolumeId(volume)), member.terms)?;
        }
        let mut engine = Engine::new(scheduler, drive, source, None);
        let end = Instant::ORIGIN + Nanos::from_ms((self.seconds * 1e3) as u64);
        let mut follow = Follow::new(self.members.len(), end);
        while engine.next_event() <= end {
            if engine.step(&mut follow).map_err(headtime_sim::RunError::from)?
                == StepOutcome::Drained
            {
                break;
            }
        }
        Ok(follow.course())
    }
}

/// Records the results of each stream by step.
struct Follow {
    streams: Vec<Steps>,
    steps: usize,
}

impl Follow {
    fn new(streams: usize, end: Instant) -> Self {
        let steps = (end.as_ns() / STEP.as_ns()) as usize;
        let none = Steps {
            disk_time_ns: vec![0; steps],
            requests: vec![0; steps],
            responses_ns: Vec::new(),
        };
        Self { streams: vec![none; streams], steps }
    }

    fn course(mut self) -> Course {
        for stream in &mut self.streams {
            for counts in [&mut stream.disk_time_ns, &mut stream.requests] {
                let mut sum = 0;
                counts.iter_mut().for_each(|count| {
                    sum += *count;
                    *count = sum;
                });
            }
        }
        Course { streams: self.streams, steps: self.steps }
    }
}

impl EngineObserver for Follow {
    fn finished(&mut self, _now: Instant, finished: &Finished) {
        let stream = &mut self.streams[finished.request.volume.0 as usize];
        let step_of = |at_ns: u64| (at_ns / STEP.as_ns()) as usize;
        let end = finished.finished.as_ns();
        if let Some(count) = stream.requests.get_mut(step_of(end)) {
            *count += 1;
        }
        stream.responses_ns.push((end, finished.response().as_ns()));
        // The charge is the time up to its end, which may span several steps.
        let mut from = end.saturating_sub(finished.disk_time.as_ns());
        while from < end {
            let until = end.min((from / STEP.as_ns() + 1) * STEP.as_ns());
            if let Some(time) = stream.disk_time_ns.get_mut(step_of(from)) {
                *time += until - from;
            }
            from = until;
        }
    }
}

/// Parts of a run whose scatter gives an interval: at full scale each is several of the periods in
/// which shares are kept.
const PARTS: usize = 8;

#[cfg(test)]
impl Course {
    /// A course in which two streams have this share of each second and the rest of it, and a
    /// request for each millisecond.
    pub(super) fn planted(seconds: usize, share: impl Fn(usize) -> f64) -> Self {
        let steps = (seconds as f64 / STEP.as_secs_f64()) as usize;
        let mut streams = [Steps::default(), Steps::default()];
        let mut sums = [0.0; 2];
        for step in 0..steps {
            let first = share((step as f64 * STEP.as_secs_f64()) as usize);
            for (stream, (sum, share)) in
                streams.iter_mut().zip(sums.iter_mut().zip([first, 1.0 - first]))
            {
                *sum += share * STEP.as_ns() as f64;
                stream.disk_time_ns.push(*sum as u64);
                stream.requests.push((*sum / 1e6) as u64);
            }
        }
        Self { streams: streams.to_vec(), steps }
    }
}

impl Course {
    /// Seconds it lasted.
    pub(super) fn seconds(&self) -> f64 {
        self.steps as f64 * STEP.as_secs_f64()
    }

    /// Disk time of a stream until a time, in seconds.
    pub(super) fn disk_time(&self, stream: usize, until: f64) -> f64 {
        Self::at(&self.streams[stream].disk_time_ns, until) as f64 / 1e9
    }

    /// Requests of a stream until a time.
    pub(super) fn requests(&self, stream: usize, until: f64) -> f64 {
        Self::at(&self.streams[stream].requests, until) as f64
    }

    /// The share of the drive's time that a stream had between two times.
    pub(super) fn share(&self, stream: usize, from: f64, until: f64) -> f64 {
        (self.disk_time(stream, until) - self.disk_time(stream, from)) / (until - from)
    }

    /// Requests a second of a stream between two times.
    pub(super) fn rate(&self, stream: usize, from: f64, until: f64) -> f64 {
        (self.requests(stream, until) - self.requests(stream, from)) / (until - from)
    }

    /// The share once settled in percent, with the interval from [`PARTS`] parts of the run.
    pub(super) fn share_percent(&self, stream: usize) -> Estimated {
        self.of_parts(|from, until| self.share(stream, from, until) * 100.0)
    }

    /// Requests a second once settled, with the interval from [`PARTS`] parts of the run.
    pub(super) fn rate_of(&self, stream: usize) -> Estimated {
        self.of_parts(|from, until| self.rate(stream, from, until))
    }

    /// The mean of a figure over equal parts of the run once settled. Where they last for seconds,
    /// they are whole seconds: a second is the period in which shares are kept, and a part of one
    /// would scatter by what the period still evens out.
    pub(super) fn of_parts(&self, figure: impl Fn(f64, f64) -> f64) -> Estimated {
        let part = (self.seconds() - SETTLED) / PARTS as f64;
        let part = if part >= 1.0 { part.floor() } else { part };
        let first = self.seconds() - part * PARTS as f64;
        let starts = (0..PARTS).map(|number| first + part * number as f64);
        Estimated::of_runs(&starts.map(|from| figure(from, from + part)).collect::<Vec<f64>>())
    }

    /// Requests a second once settled.
    pub(super) fn settled_rate(&self, stream: usize) -> f64 {
        self.rate(stream, SETTLED, self.seconds())
    }

    /// The maximum difference of a stream's share in any window of this length from `reserved`,
    /// once settled, in points of percent.
    pub(super) fn worst(&self, stream: usize, reserved: f64, window: f64) -> f64 {
        let off = |ns_a_second: f64| (ns_a_second / 1e9 - reserved).abs() * 100.0;
        self.windows(&self.streams[stream].disk_time_ns, window).map(off).fold(0.0, f64::max)
    }

    /// The minimum requests per second of a stream in any window of this length, once settled.
    pub(super) fn min_rate(&self, stream: usize, window: f64) -> f64 {
        self.windows(&self.streams[stream].requests, window).fold(f64::MAX, f64::min)
    }

    /// The rate in each window of this length, once settled.
    fn windows(&self, counts: &[u64], window: f64) -> impl Iterator<Item = f64> {
        let steps = |seconds: f64| (seconds / STEP.as_secs_f64()).round() as usize;
        let (first, window) = (steps(SETTLED), steps(window).min(self.steps - steps(SETTLED)));
        let at = |step: usize| if step == 0 { 0 } else { counts[step - 1] };
        (first..=self.steps - window).map(move |from| {
            (at(from + window) - at(from)) as f64 / (window as f64 * STEP.as_secs_f64())
        })
    }

    /// A quantile of a stream's response times once settled, in ms, as unsure as those of [`PARTS`]
    /// parts of the run scatter; zero where there are none.
    pub(super) fn response_ms(&self, stream: usize, quantile: f64) -> Estimated {
        let all = &self.streams[stream].responses_ns;
        let before = |seconds: f64| all.partition_point(|(end, _)| (*end as f64) < seconds * 1e9);
        let of = |from, until| {
            let mut times: Vec<u64> =
                all[before(from)..before(until)].iter().map(|(_, response)| *response).collect();
            times.sort_unstable();
            let last = times.len().saturating_sub(1);
            let place = ((times.len() as f64 * quantile) as usize).min(last);
            times.get(place).map_or(0.0, |ns| *ns as f64 / 1e6)
        };
        Estimated { value: of(SETTLED, self.seconds()), ..self.of_parts(of) }
    }

    fn at(counts: &[u64], until: f64) -> u64 {
        let steps = (until / STEP.as_secs_f64()).round() as usize;
        if steps == 0 { 0 } else { counts[steps.min(counts.len()) - 1] }
    }
}
