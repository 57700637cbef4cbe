//! Nanoseconds per decision of every policy with 1, 16 and 256 requests queued; the same with all
//! that a request costs the scheduler until it is sent; and what a search of the gaps between
//! requests finds and costs, by the tracks that it may look at.
//!
//! A closed loop of random 4 KiB reads runs on a simulated drive with two commands outstanding, so
//! that the queue is what a queue looks like at work. Each time the policy is asked with exactly so
//! many requests queued, it is asked [`TIMES`] times over and timed; everything else in the
//! simulation is not. Of what all candidates share (where the head will be) only the first asking
//! pays.
//!
//! *request*: taking a request in and choosing one to be sent, with every index brought up to date:
//! `submit` and `next` of the whole scheduler, with 256 queued. `cds-scan/1000`: the same with
//! `complete`, with 1,000 requests queued that have deadlines, of 1 s to 30 s, and 60 commands at
//! the drive.
//!
//! *gap*: one decision in which a gap is searched, the policy's choice included (`sptf`), under
//! P2's OLTP load with a scan of the drive. Before the times a table says how many pending sectors
//! a gap yields: with all sectors pending, and with one track in twenty, as late in a scan. It does
//! not depend on the machine.
//!
//! `cargo bench -p headtime-sim --bench decide`

#![allow(missing_docs, reason = "the macros make public items without a word")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as Clock};

use criterion::{Criterion, criterion_group, criterion_main};
use headtime_belief::DriveModel;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{
    Accounts, Admission, BackgroundRead, Belief, Cancelled, Charge, Choice, Decision, Done,
    DriveTraits, FillReport, FillSettings, Finished, IdleSettings, POLICIES, PendingSectors,
    Policy, PolicyEntry, QueueLimits, Queued, ReadAhead, Request, RequestId, ScanId, ScanOptions,
    Scheduler, StreamId, View,
};
use headtime_sim::{Device, DriveTruth, Engine, OraclePositioning, SchedulerApi, SimulatedDrive};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use headtime_workload::{Arrivals, Mix, Sizes, StreamConfig, ThinkTime, Workload};
use smallvec::SmallVec;

/// Choices per timed decision: reading the clock costs as much as a short decision.
const TIMES: u64 = 16;

/// Another policy, timed.
struct Timed {
    inner: Box<dyn Policy>,
    queued: usize,
    clock: Arc<Tally>,
}

/// The times so far.
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
        if view.queue.len() != self.queued {
            return self.inner.choose(view);
        }
        let start = Clock::now();
        for _ in 1..TIMES {
            black_box(self.inner.choose(black_box(view)));
        }
        let choice = self.inner.choose(view);
        self.clock.ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.clock.decisions.fetch_add(TIMES, Ordering::Relaxed);
        choice
    }

    fn uses_shares(&self) -> bool {
        self.inner.uses_shares()
    }

    fn charge(&mut self, view: &View<'_>, queued: &Queued) -> Charge {
        self.inner.charge(view, queued)
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

/// A run that goes on for as long as somebody wants decisions.
struct Bench {
    engine: Engine<Scheduler, SimulatedDrive, Workload>,
    clock: Arc<Tally>,
}

impl Bench {
    fn new(entry: &PolicyEntry, queued: usize) -> Self {
        let profile = profile();
        let truth = DriveTruth::nominal(profile, 1).expect("the profile ships");
        let belief: Box<dyn Belief + Send> = match entry.oracle {
            true => Box::new(OraclePositioning::new(&truth).expect("the profile ships")),
            false => Box::new(DriveModel::of_profile(profile).expect("the profile ships")),
        };
        let drive = SimulatedDrive::new(truth).expect("the profile ships");
        let clock = Arc::new(Tally::default());
        let policy = Timed { inner: entry.build_default(), queued, clock: Arc::clone(&clock) };
        let traits = DriveTraits { queue_depth: drive.queue_depth(), fua: true };
        let limits = QueueLimits { outstanding: Some(2), ..QueueLimits::default() };
        let scheduler = Scheduler::new(belief, Box::new(policy), traits, limits);
        // One of them is at the drive when the scheduler is asked for the second command.
        let clients = queued as u32 + 1;
        let sector = profile.sector_size().expect("the profile ships");
        let workload =
            Workload::new(&[StreamConfig::closed(clients)], sector, profile.capacity(), 1)
                .expect("4 KiB reads suit the drive");
        let mut bench = Self { engine: Engine::new(scheduler, drive, workload, None), clock };
        // Until the belief has seen the platter turn and a mean response time is known.
        bench.decide(64 * TIMES);
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

/// A scheduler whose calls are timed.
struct TimedFront {
    inner: Scheduler,
    /// Time in `submit` and in `next`, and how many requests were sent.
    ns: u64,
    sent: u64,
    /// Time in `complete`.
    completing_ns: u64,
    /// Time in those calls of `next` in which a gap was searched, and how many they were.
    searching_ns: u64,
    searches: u64,
}

impl TimedFront {
    fn of(inner: Scheduler) -> Self {
        Self { inner, ns: 0, sent: 0, completing_ns: 0, searching_ns: 0, searches: 0 }
    }
}

impl SchedulerApi for TimedFront {
    fn submit(&mut self, now: Instant, request: Request) -> Admission {
        let start = Clock::now();
        let admission = self.inner.submit(now, request);
        self.ns += start.elapsed().as_nanos() as u64;
        admission
    }

    fn next(&mut self, now: Instant) -> Decision {
        let before = self.inner.fill_report().tracks;
        let start = Clock::now();
        let decision = self.inner.next(now);
        let ns = start.elapsed().as_nanos() as u64;
        self.ns += ns;
        self.sent += u64::from(matches!(decision, Decision::Dispatch(_)));
        if self.inner.fill_report().tracks > before {
            self.searching_ns += ns;
            self.searches += 1;
        }
        decision
    }

    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        let start = Clock::now();
        let finished = self.inner.complete(now, done);
        self.completing_ns += start.elapsed().as_nanos() as u64;
        finished
    }

    fn take_background(&mut self) -> Option<BackgroundRead> {
        self.inner.take_background()
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

type Run = Engine<TimedFront, SimulatedDrive, Workload>;

/// A run under `sptf` with the drive's truth, so that nothing but the search decides what a gap
/// yields.
fn run(
    profile: &DriveProfile,
    stream: &StreamConfig,
    scan: Option<(FillSettings, PendingSectors)>,
) -> Run {
    let truth = DriveTruth::nominal(profile, 1).expect("the profile ships");
    let belief = Box::new(OraclePositioning::new(&truth).expect("the profile ships"));
    let drive = SimulatedDrive::new(truth).expect("the profile ships");
    let traits = DriveTraits { queue_depth: drive.queue_depth(), fua: true };
    let policy = PolicyEntry::find("sptf-oracle").expect("a policy of the table").build_default();
    let mut scheduler = Scheduler::new(belief, policy, traits, QueueLimits::default());
    if let Some((settings, sectors)) = scan {
        scheduler.set_fill(settings);
        scheduler.scan_start(Instant::ORIGIN, ScanId(0), sectors, ScanOptions::default());
    }
    let sector = profile.sector_size().expect("the profile ships");
    let workload = Workload::new(std::slice::from_ref(stream), sector, profile.capacity(), 1)
        .expect("the stream suits the drive");
    Engine::new(TimedFront::of(scheduler), drive, workload, None)
}

/// P2's transactions: 14 clients that think for 30 ms, two reads to a write, 8 KiB on average.
fn transactions() -> StreamConfig {
    StreamConfig {
        arrivals: Arrivals::Closed {
            clients: 14,
            think: ThinkTime::Exponential(Nanos::from_ms(30)),
        },
        mix: Mix { reads: 2.0 / 3.0, zeroes: 0.0, discards: 0.0, flushes: 0.0, fua: 0.0 },
        sizes: Sizes::Exponential { mean_bytes: 8_192, multiple_bytes: 4_096, max_bytes: 262_144 },
        ..StreamConfig::closed(14)
    }
}

fn effort(effort: u32) -> FillSettings {
    let idle = IdleSettings { enabled: false, ..IdleSettings::default() };
    let conservatism = Some(Nanos::from_us(400));
    FillSettings {
        effort,
        conservatism,
        read_ahead: ReadAhead::Off,
        idle,
        tail: 0.0,
        ..FillSettings::default()
    }
}

/// The pending sectors: all of them, or every twentieth run of 400 sectors.
fn pending(capacity: Sectors, little: bool) -> PendingSectors {
    let mut pending = PendingSectors::all(capacity, Sectors::new(1));
    for stretch in (0..capacity.get() / 400).filter(|stretch| little && stretch % 20 != 0) {
        pending.remove(Extent::new(Lba::new(stretch * 400), Sectors::new(400)));
    }
    pending
}

/// Steps until so many gaps have been searched.
fn search(run: &mut Run, gaps: u64) -> FillReport {
    let before = run.scheduler.inner.fill_report().gaps;
    while run.scheduler.inner.fill_report().gaps < before + gaps {
        run.step(&mut ()).expect("a closed loop is always served");
    }
    run.scheduler.inner.fill_report()
}

const EFFORTS: [u32; 7] = [2, 4, 8, 16, 48, 128, 512];

/// Gaps per line of the table.
const GAPS: u64 = 1_500;

fn gaps(criterion: &mut Criterion) {
    println!(
        "wanted sectors found in a gap, Atlas 10K, P2's transactions, sptf with the truth, 0.4 ms \
            of conservatism, read-ahead off"
    );
    println!("{:>8} {:>17} {:>17} {:>17}", "tracks", "all wanted", "a twentieth", "tracks a gap");
    for tracks in EFFORTS {
        let yields = [false, true].map(|little| {
            let mut run = run(
                profile(),
                &transactions(),
                Some((effort(tracks), pending(profile().capacity(), little))),
            );
            search(&mut run, GAPS)
        });
        let per_gap = |report: &FillReport| report.read().get() as f64 / report.gaps as f64;
        let looked = yields[1].tracks as f64 / yields[1].gaps as f64;
        println!(
            "{tracks:>8} {:>17.1} {:>17.1} {looked:>17.1}",
            per_gap(&yields[0]),
            per_gap(&yields[1])
        );
    }
    let mut group = criterion.benchmark_group("gap");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(400));
    for tracks in EFFORTS {
        let mut run = run(
            profile(),
            &transactions(),
            Some((effort(tracks), pending(profile().capacity(), true))),
        );
        search(&mut run, 64);
        group.bench_function(format!("{tracks}-tracks"), |bencher| {
            bencher.iter_custom(|times| {
                let before = (run.scheduler.searching_ns, run.scheduler.searches);
                while run.scheduler.searches - before.1 < times {
                    search(&mut run, 1);
                }
                let (ns, searches) =
                    (run.scheduler.searching_ns - before.0, run.scheduler.searches - before.1);
                Duration::from_nanos((ns as f64 * times as f64 / searches as f64) as u64)
            });
        });
    }
    group.finish();
}

fn request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(400));
    let mut run = run(profile(), &StreamConfig::closed(257), None);
    group.bench_function("sptf-oracle/256", |bencher| {
        bencher.iter_custom(|times| {
            let before = (run.scheduler.ns, run.scheduler.sent);
            while run.scheduler.sent - before.1 < times {
                run.step(&mut ()).expect("a closed loop is always served");
            }
            let (ns, sent) = (run.scheduler.ns - before.0, run.scheduler.sent - before.1);
            Duration::from_nanos((ns as f64 * times as f64 / sent as f64) as u64)
        });
    });
    let mut run = deadlines();
    group.bench_function("cds-scan/1000", |bencher| {
        bencher.iter_custom(|times| {
            let before = (run.scheduler.ns + run.scheduler.completing_ns, run.scheduler.sent);
            while run.scheduler.sent - before.1 < times {
                run.step(&mut ()).expect("a closed loop is always served");
            }
            let ns = run.scheduler.ns + run.scheduler.completing_ns - before.0;
            let sent = run.scheduler.sent - before.1;
            Duration::from_nanos((ns as f64 * times as f64 / sent as f64) as u64)
        });
    });
    group.finish();
}

/// A closed loop of 1,060 random reads with deadlines of ten different lengths under `cds-scan`,
/// with an estimate at which the deadlines hold.
fn deadlines() -> Run {
    let truth = DriveTruth::nominal(profile(), 1).expect("the profile ships");
    let drive = SimulatedDrive::new(truth).expect("the profile ships");
    let belief = Box::new(DriveModel::of_profile(profile()).expect("the profile ships"));
    let (entry, parameters) = PolicyEntry::parse("cds-scan").expect("a policy of the table");
    let traits = DriveTraits { queue_depth: 64, fua: true };
    let scheduler =
        Scheduler::new(belief, (entry.build)(&parameters), traits, QueueLimits::default());
    let streams: Vec<StreamConfig> = (1..=10)
        .map(|number| StreamConfig {
            deadline: Some(Nanos::from_secs(number * 3)),
            ..StreamConfig::closed(106)
        })
        .collect();
    let sector = profile().sector_size().expect("the profile ships");
    let workload = Workload::new(&streams, sector, profile().capacity(), 1)
        .expect("the streams suit the drive");
    Engine::new(TimedFront::of(scheduler), drive, workload, None)
}

fn profile() -> &'static DriveProfile {
    static PROFILE: OnceLock<DriveProfile> = OnceLock::new();
    PROFILE.get_or_init(|| catalog::load("atlas10k").expect("the profile ships"))
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(400));
    for entry in POLICIES {
        for queued in [1, 16, 256] {
            let mut bench = Bench::new(entry, queued);
            group.bench_function(format!("{}/{queued}", entry.name), |bencher| {
                bencher.iter_custom(|decisions| bench.decide(decisions))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, decide, request, gaps);
criterion_main!(benches);
