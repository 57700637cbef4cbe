//! The common parts of the experiments of P3: drive, processes, and runs that end with a process.
//!
//! The paper used a Maxtor disk of 20 GB and 7,200 rpm, Linux 2.6.9 with 1 GB of memory and ext3.
//! Here the drive is `maxtor-20gb@papers`, a simulated drive with noise, with one command at the
//! drive. The processes are those of docs/workloads.md. The paper's source trees and files are
//! described by number and size only; places, sizes and times that it does not state are guesses.

use std::collections::BTreeSet;

use headtime_belief::{DriveModel, LinearBelief};
use headtime_mechanics::{NoiseLevel, catalog};
use headtime_sched::{Belief, Finished, PolicyEntry, QueueLimits, Request, Scheduler, StreamId};
use headtime_sim::{
    ArrayOptions, Device, DriveTruth, Engine, EngineObserver, Raid0, RunError, SimulatedDrive,
    StepOutcome,
};
use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};
use headtime_workload::{
    Arrivals, FilesRead, PageCache, Process, Sizes, StreamConfig, ThinkTime, Workload,
};

use crate::papers::{
    Cause, Context, Estimated, ExperimentError, FixedParameter, Judged, Measured, PointOfWork,
};

/// The drive as the paper used it.
pub(super) const DRIVE: &str = "maxtor-20gb@papers";
/// Runs of each point, each with another drive and workload.
pub(super) const REPLICAS: u64 = 3;
/// The distance from a published figure that counts as the same.
pub(super) const TOLERANCE: f64 = 0.25;
pub(super) const GUESS: &str =
    "a quarter of the published value, a guess: the model of the drive is one";
pub(super) const OTHER_DRIVE: &str =
    "the paper names neither the drive's model nor the places of the files.";

/// A published ratio or gain, rounded to three digits, that a figure of the paper's table follows
/// from; within half of it.
pub(super) fn half(published: f64, measured: impl Into<Measured>) -> Judged {
    let published = libm::round(published * 1e3) / 1e3;
    Judged::effect(published, measured, published / 2.0, "half of the published effect, a guess")
}

/// The bytes of a megabyte in the paper's throughputs.
const MB: f64 = 1e6;
/// Time of copying 4 KiB out of the page cache: 400 MB/s, a guess for the paper's Pentium 4.
const COPY_PAGE: Nanos = Nanos::from_us(10);
/// Time of copying 1 MiB into the page cache, as above.
const COPY_MIB: Nanos = Nanos::from_ms(3);
/// Files of a Linux source tree of 2004, and their sizes: 12 KiB on average, a guess.
pub(super) const TREE_FILES: u64 = 16_500;
const TREE_SIZES: Sizes = Sizes::LogNormal {
    median_bytes: 8 << 10,
    spread: 1.0,
    multiple_bytes: 4 << 10,
    max_bytes: 128 << 10,
};
/// Time to fork and execute `cat`: LMbench has 1,150 us for Linux 2.5.67 at 790 MHz (linux-kernel,
/// 8 April 2003), here by the clock of the paper's 2.28 GHz.
const SPAWN: Nanos = Nanos::from_us(400);
/// Largest window of read-ahead, and of Linux 2.6.
const READ_AHEAD: u64 = 128 << 10;
/// Sectors of a GiB.
const GIB: u64 = (1 << 30) / 512;

/// One run of processes.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) what: String,
    pub(super) policy: String,
    /// The streams, those that are measured first.
    pub(super) streams: Vec<StreamConfig>,
    /// The run ends when the first processes of the measured streams have ended, so many of them,
    /// or after this time.
    pub(super) processes: u32,
    pub(super) limit: Nanos,
    /// The time at which the measured streams begin.
    pub(super) from: Nanos,
    /// The use of the drive's buffer.
    pub(super) buffer: Buffer,
    /// Drives of a RAID-0; 1 for a drive alone.
    pub(super) drives: usize,
    /// Added to the seed.
    pub(super) replica: u64,
}

/// The division of the drive's buffer of 2 MiB, which is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// As the profile has it: 16 segments, a guess.
    Profile,
    /// One segment: the data of one stream replace those of another.
    OneSegment,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// The time from the start of the measured streams to their end, or to the limit.
    pub(super) seconds: f64,
    /// Bytes of all streams in that time.
    bytes: u64,
}

impl Run {
    /// A run of `streams` that ends when `processes` processes have ended.
    pub(super) fn new(
        what: impl Into<String>,
        policy: &str,
        streams: Vec<StreamConfig>,
        processes: u32,
    ) -> Self {
        Self {
            what: what.into(),
            policy: policy.to_string(),
            streams,
            processes,
            limit: LONGEST,
            from: Nanos::ZERO,
            buffer: Buffer::Profile,
            drives: 1,
            replica: 0,
        }
    }

    /// The same for each replica.
    pub(super) fn replicas(self) -> impl Iterator<Item = Self> {
        (0..REPLICAS).map(move |replica| Self { replica, ..self.clone() })
    }

    fn on(
        &self,
        drive: impl Device,
        belief: Box<dyn Belief + Send>,
        sector: SectorSize,
        seed: u64,
    ) -> Result<Course, Cause> {
        let (entry, parameters) = PolicyEntry::parse(&self.policy)?;
        let source = Workload::new(&self.streams, sector, drive.capacity(), seed)?;
        let traits = headtime_sched::DriveTraits { queue_depth: drive.queue_depth(), fua: false };
        let limits = QueueLimits { outstanding: Some(self.drives), ..QueueLimits::default() };
        let scheduler = Scheduler::new(belief, (entry.build)(&parameters), traits, limits);
        let mut engine = Engine::new(scheduler, drive, source, None);
        let (from, end) = (Instant::ORIGIN + self.from, Instant::ORIGIN + self.from + self.limit);
        let mut follow =
            Follow { from, sector, running: (0..self.processes).map(StreamId).collect(), bytes: 0 };
        while !follow.running.is_empty() && engine.next_event() <= end {
            if engine.step(&mut follow).map_err(RunError::from)? == StepOutcome::Drained {
                break;
            }
        }
        let until = if follow.running.is_empty() { engine.now() } else { end };
        let seconds = until.saturating_since(from).as_secs_f64();
        Ok(Course { seconds, bytes: follow.bytes })
    }
}

impl PointOfWork for Run {
    type Outcome = Course;

    fn label(&self) -> String {
        format!("{}: {} ({:?})", self.what, self.policy, self.buffer)
    }

    /// Those that starve take longest.
    fn work(&self) -> u64 {
        if self.policy == "as" { 10 } else { 1 }
    }

    fn run(&self, seed: u64) -> Result<Course, Cause> {
        let seed = seed.wrapping_add(self.replica);
        let mut profile = NoiseLevel::Typical.apply(&catalog::load(DRIVE)?);
        if let (Buffer::OneSegment, Some(cache)) = (self.buffer, &mut profile.cache) {
            cache.segment_sectors *= cache.segments;
            cache.segments = 1;
        }
        let sector = profile.sector_size()?;
        if self.drives == 1 {
            let drive = SimulatedDrive::new(DriveTruth::draw(&profile, seed)?)?;
            let belief = Box::new(DriveModel::of_profile(&profile)?);
            return self.on(drive, belief, sector, seed);
        }
        let options = ArrayOptions {
            stripe: Sectors::new(128),
            queue_depth: self.drives,
            controller_mb_per_s: None,
        };
        let array = Raid0::of_model(&profile, self.drives, seed, DriveTruth::draw, options)?;
        let belief = Box::new(LinearBelief::new(array.capacity()));
        self.on(array, belief, sector, seed)
    }
}

/// Counts bytes, and the measured processes that have not ended.
struct Follow {
    from: Instant,
    sector: SectorSize,
    running: BTreeSet<StreamId>,
    bytes: u64,
}

impl EngineObserver for Follow {
    fn finished(&mut self, now: Instant, finished: &Finished) {
        let Request { op, extent, .. } = finished.request;
        if now >= self.from && op.moves_head() {
            self.bytes += self.sector.bytes_of(extent.len);
        }
    }

    fn stream_ended(&mut self, _now: Instant, stream: StreamId) {
        self.running.remove(&stream);
    }
}

impl Course {
    /// Bytes of all streams, in MB per second.
    pub(super) fn mb_per_second(&self) -> f64 {
        self.bytes as f64 / MB / self.seconds.max(1e-9)
    }
}

/// The mean of `value` over the replicas of a point.
pub(super) fn mean(courses: &[Course], value: impl Fn(&Course) -> f64) -> Estimated {
    Estimated::of_runs(&courses.iter().map(value).collect::<Vec<_>>())
}

/// Runs every point so many times as there are replicas; the results are in the order of the
/// points.
pub(super) fn run_all(
    context: &Context<'_>,
    runs: impl IntoIterator<Item = Run>,
) -> Result<Vec<Vec<Course>>, ExperimentError> {
    let points: Vec<Run> = runs.into_iter().flat_map(Run::replicas).collect();
    let courses = context.run(&points)?;
    Ok(courses.chunks(REPLICAS as usize).map(<[Course]>::to_vec).collect())
}

/// No run takes longer: ten times the longest that is published.
const LONGEST: Nanos = Nanos::from_secs(50_000);

fn processes(process: Process, from_gib: u64, gib: u64) -> StreamConfig {
    StreamConfig {
        arrivals: Arrivals::Closed { clients: 1, think: ThinkTime::Constant(COPY_PAGE) },
        range: Some(Extent::from_numbers(from_gib * GIB, gib * GIB)),
        process: Some(process),
        ..StreamConfig::closed(1)
    }
}

/// `cat` of one file: of `bytes` once, or of 2 GiB again and again.
pub(super) fn cat(bytes: Option<u64>) -> StreamConfig {
    let files = FilesRead::One { bytes: Some(bytes.unwrap_or(2 << 30)) };
    let process =
        Process::Reads { files, passes: bytes.map(|_| 1), read_ahead_bytes: Some(READ_AHEAD) };
    processes(process, 2, 2)
}

/// `dd` of 2,048 MiB into a file, again and again.
pub(super) fn dd() -> StreamConfig {
    let process =
        Process::Writes { file_bytes: Some(2 << 30), passes: None, cache: PageCache::default() };
    StreamConfig {
        arrivals: Arrivals::Closed { clients: 1, think: ThinkTime::Constant(COPY_MIB) },
        sizes: Sizes::Fixed { bytes: 1 << 20 },
        ..processes(process, 6, 2)
    }
}

/// `find . -type f -exec cat '{}' ';'` in a source tree of so many files, the tree number `tree`.
pub(super) fn find_cat(tree: u64, files: u64) -> StreamConfig {
    let chain =
        FilesRead::Chain { sizes: TREE_SIZES, count: Some(files), per_lookup: 32, spawn: SPAWN };
    let process =
        Process::Reads { files: chain, passes: Some(1), read_ahead_bytes: Some(READ_AHEAD) };
    processes(process, 10 + 4 * tree, 1)
}

/// The common parameters.
pub(super) fn parameters() -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "drive",
            format!("{DRIVE}, {REPLICAS} simulated drives with noise typical, one command at it"),
        ),
        FixedParameter::new(
            "processes",
            "calls of 4 KiB at 400 MB/s, read-ahead of 128 KiB, page cache of 1 GiB with dirty \
                limits of 10 and 40 % (docs/workloads.md)",
        ),
    ]
}

/// The text of a row.
pub(super) fn what(policy: &str, text: &str) -> String {
    format!("{policy}: {text} (simulated drives with noise)")
}
