//! What orders of the latency map cost: nearest insertion of 256 from scratch and of one arrival,
//! and a look ahead over four of 256 deadlines.
//!
//! *paths*: the algorithms alone, on costs that are written down (random, without a pattern):
//! `scratch` in the order of the queue and the nearest first, `arrival` into a path of 255 with its
//! costs asked for and written down, and `sent` when the first leaves.
//!
//! *decisions*: what the policies cost at work, with everything that the belief is asked: a closed
//! loop of random 4 KiB reads on a simulated drive with 256 queued, by a belief from the profile,
//! by a latency matrix that covers what is read, and by compact maps from the profile and from
//! nothing. Each request is one arrival and one decision. `fsatf-map` orders a batch of 256 once
//! and then answers 255 times from it.
//!
//! *lookups*: what one pair of places costs, and, as a line of text, what maps take of memory by
//! what they cover.
//!
//! `cargo bench -p headtime-sim --bench tour`

#![allow(missing_docs, reason = "the macros make public items without a word")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as Clock};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headtime_belief::DriveModel;
use headtime_belief::compact::CompactSettings;
use headtime_belief::matrix::{
    Coverage, LatencyMatrix, MappedDrive, MatrixBelief, MatrixOptions, MatrixSettings, MatrixShape,
    SharedMatrix,
};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::tour::{
    CostTable, Costs, LiveTour, Lookahead, insert_in_order, insert_nearest_first,
};
use headtime_sched::{
    Belief, Choice, DriveTraits, Finished, Op, Overhead, Policy, PolicyEntry, QueueLimits, Request,
    Scheduler, StreamId, Target, View,
};
use headtime_sim::{Device, DriveTruth, Engine, SimulatedDrive};
use headtime_units::{ByteSize, Extent, Instant, Nanos};
use headtime_workload::{StreamConfig, Workload};

const QUEUED: usize = 256;

/// Costs without a pattern, from 1 to 10 ms.
fn cost(from: usize, to: usize) -> Nanos {
    let mixed =
        ((from as u64) << 32 | to as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Nanos::from_us(1_000 + (mixed >> 40) % 9_000)
}

fn table() -> CostTable {
    let mut table = CostTable::new(QUEUED);
    for to in 0..QUEUED {
        table.set_first(to, cost(QUEUED, to));
        for from in (0..QUEUED).filter(|from| *from != to) {
            table.set_between(from, to, cost(from, to));
        }
    }
    table
}

fn paths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("paths");
    group
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    let table = table();
    group.bench_function("scratch/256", |bencher| {
        bencher.iter(|| insert_in_order(black_box(&table), QUEUED))
    });
    group.bench_function("scratch-nearest-first/256", |bencher| {
        bencher.iter(|| insert_nearest_first(black_box(&table), QUEUED))
    });
    let costs = (|to: usize| table.first(to), |from: usize, to: usize| table.between(from, to));
    let mut tour = LiveTour::new();
    for _ in 0..QUEUED {
        let slot = tour.slot();
        tour.enter(&costs, slot);
    }
    group.bench_function("arrival-and-sent/256", |bencher| {
        bencher.iter(|| {
            let first = tour.path().first().expect("the path is full");
            tour.leave(first);
            let slot = tour.slot();
            tour.enter(black_box(&costs), slot);
        });
    });
    let deadlines: Vec<Instant> =
        (0..QUEUED as u64).map(|rank| Instant::from_ns(rank * 3_000_000)).collect();
    group.bench_function("lookahead-4/256", |bencher| {
        bencher.iter(|| {
            Lookahead::default().best_order(
                black_box(&table),
                black_box(&deadlines),
                Instant::ORIGIN,
            )
        });
    });
    group.finish();
}

/// Another policy, timed where exactly so many are queued.
struct Timed {
    inner: Box<dyn Policy>,
    clock: Arc<Tally>,
}

#[derive(Default)]
struct Tally {
    decisions: AtomicU64,
    ns: AtomicU64,
}

impl Policy for Timed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn depth(&self, view: &View<'_>) -> usize {
        self.inner.depth(view)
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        // Where the head will be is asked for before: it is the same for every policy.
        black_box(view.head());
        let start = Clock::now();
        let choice = self.inner.choose(view);
        if view.queue.len() == QUEUED {
            self.clock.ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.clock.decisions.fetch_add(1, Ordering::Relaxed);
        }
        choice
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        self.inner.submitted(now, request);
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.inner.stream_ended(now, stream);
    }

    fn finished(&mut self, finished: &Finished) {
        self.inner.finished(finished);
    }
}

fn profile() -> &'static DriveProfile {
    static PROFILE: OnceLock<DriveProfile> = OnceLock::new();
    PROFILE.get_or_init(|| catalog::load("atlas10k").expect("the profile ships"))
}

fn mapped() -> MappedDrive {
    MappedDrive {
        model: "bench".into(),
        capacity: profile().capacity(),
        sector: profile().sector_size().expect("the profile ships"),
    }
}

type Made = fn() -> Box<dyn Belief + Send>;

/// The drive models to compare.
const BELIEFS: [(&str, Made); 4] = [
    ("profile", || Box::new(DriveModel::of_profile(profile()).expect("the profile ships"))),
    ("matrix", matrix),
    ("compact", || {
        Box::new(
            DriveModel::mapped_from_profile(profile(), CompactSettings::default())
                .expect("the profile ships"),
        )
    }),
    ("compact-from-nothing", || {
        let period = profile().rotation_period().expect("the profile ships");
        Box::new(
            DriveModel::mapped_from_nothing(mapped(), period, CompactSettings::default())
                .expect("64 MiB are enough"),
        )
    }),
];

fn matrix() -> Box<dyn Belief + Send> {
    let drive = mapped();
    let settings = MatrixSettings { memory: ByteSize::new(64 << 20), ..MatrixSettings::default() };
    let shape = MatrixShape::new(drive, &settings).expect("64 MiB cover some cells");
    Box::new(MatrixBelief::new(
        SharedMatrix::new(LatencyMatrix::new(shape)),
        MatrixOptions::default(),
    ))
}

struct Bench {
    engine: Engine<Scheduler, SimulatedDrive, Workload>,
    clock: Arc<Tally>,
}

impl Bench {
    fn new(policy: &str, belief: Box<dyn Belief + Send>) -> Self {
        let profile = profile();
        let truth = DriveTruth::nominal(profile, 1).expect("the profile ships");
        let drive = SimulatedDrive::new(truth).expect("the profile ships");
        let clock = Arc::new(Tally::default());
        let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
        let policy = Timed { inner: (entry.build)(&parameters), clock: Arc::clone(&clock) };
        let traits = DriveTraits { queue_depth: drive.queue_depth(), fua: true };
        let scheduler = Scheduler::new(
            belief,
            Box::new(policy),
            traits,
            QueueLimits { outstanding: Some(2), ..QueueLimits::default() },
        );
        // One of them is at the drive when the scheduler is asked for the second command.
        let stream = StreamConfig {
            deadline: Some(Nanos::from_ms(500)),
            ..StreamConfig::closed(QUEUED as u32 + 1)
        };
        let sector = profile.sector_size().expect("the profile ships");
        let workload = Workload::new(&[stream], sector, profile.capacity(), 1)
            .expect("4 KiB reads suit the drive");
        let mut bench = Self { engine: Engine::new(scheduler, drive, workload, None), clock };
        bench.decide(QUEUED as u64 * 2);
        bench
    }

    /// The time that at least so many decisions took, as if it had been exactly so many.
    fn decide(&mut self, decisions: u64) -> Duration {
        let read = |clock: &Tally| {
            (clock.decisions.load(Ordering::Relaxed), clock.ns.load(Ordering::Relaxed))
        };
        let before = read(&self.clock);
        while self.clock.decisions.load(Ordering::Relaxed) - before.0 < decisions {
            self.engine.step(&mut ()).expect("a closed loop is always served");
        }
        let after = read(&self.clock);
        Duration::from_nanos(
            ((after.1 - before.1) as f64 * decisions as f64 / (after.0 - before.0) as f64) as u64,
        )
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decisions");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    for policy in ["satf-map", "satf-map:rebuild_after=1", "fsatf-map", "g-matrix"] {
        for (name, belief) in BELIEFS {
            let mut bench = Bench::new(policy, belief());
            group.bench_function(format!("{policy}/{name}"), |bencher| {
                bencher.iter_custom(|decisions| bench.decide(decisions))
            });
        }
    }
    group.finish();
}

/// Pairs at random places, of a belief that has seen some requests.
fn lookups(criterion: &mut Criterion) {
    println!("bytes per GB covered: {}", bytes_per_gb());
    let mut group = criterion.benchmark_group("lookups");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(1));
    for (name, belief) in BELIEFS {
        let mut bench = Bench::new("satf-map", belief());
        bench.decide(4_000);
        let (belief, now) = (bench.engine.scheduler.belief(), bench.engine.now());
        let capacity = belief.capacity().get() - 8;
        let targets: Vec<Target> = (0..4_096_u64)
            .map(|number| {
                belief.target(Op::Read, Extent::from_numbers(number * 0x9e37_79b9 % capacity, 8))
            })
            .collect();
        let mut next = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                next += 1;
                let (from, to) =
                    (&targets[next * 7 % targets.len()], &targets[next * 11 % targets.len()]);
                belief.pair(black_box(from), black_box(to), now, Overhead::Exposed)
            });
        });
    }
    group.finish();
}

/// A matrix of the whole drive with the default cells, and a compact map with what it learns from.
fn bytes_per_gb() -> String {
    let gb = profile().capacity().get() as f64 * 512.0 / 1e9;
    let whole = MatrixShape::new(
        mapped(),
        &MatrixSettings {
            coverage: Coverage::WholeDrive,
            memory: ByteSize::new(1 << 40),
            ..MatrixSettings::default()
        },
    );
    let matrix =
        whole.expect("a terabyte covers any drive of some gigabytes").memory_at_most().get() as f64;
    let belief = DriveModel::mapped_from_profile(profile(), CompactSettings::default())
        .expect("the profile ships");
    let compact = (
        belief.map().expect("the model has a map").memory().get() as f64,
        belief.memory().get() as f64,
    );
    format!(
        "matrix {:.0} (grows with the drive), compact map {:.0} ({:.0} kB in all, on any drive)",
        matrix / gb,
        compact.0 / gb,
        compact.1 / 1e3
    )
}

criterion_group!(benches, paths, decisions, lookups);
criterion_main!(benches);
