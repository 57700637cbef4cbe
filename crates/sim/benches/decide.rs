//! Nanoseconds per decision of every policy with 1, 16 and 256 requests queued.
//!
//! A closed loop of random 4 KiB reads runs on a simulated drive with two commands outstanding, so that the queue is what a queue looks like at work. Each time
//! the policy is asked with exactly so many requests queued, it is asked [`TIMES`] times over and timed; everything else in the simulation is not. Of what
//! all candidates share (where the head will be) only the first asking pays.
//!
//! `cargo bench -p headtime-sim --bench decide`

#![allow(missing_docs, reason = "the macros make public items without a word")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as Clock};

use criterion::{Criterion, criterion_group, criterion_main};
use headtime_belief::ProfileBelief;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, Choice, DriveTraits, Finished, Limits, POLICIES, Policy, PolicyEntry, Scheduler, View};
use headtime_sim::{Device, DriveTruth, Engine, OraclePositioning, SimulatedDrive};
use headtime_workload::{StreamConfig, Workload};

/// How often a policy is asked for one decision: reading the clock costs as much as a short decision.
const TIMES: u64 = 16;

/// Another policy, timed.
struct Timed {
    inner: Box<dyn Policy>,
    queued: usize,
    clock: Arc<Tally>,
}

/// What was timed so far.
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
            false => Box::new(ProfileBelief::new(profile).expect("the profile ships")),
        };
        let drive = SimulatedDrive::new(truth).expect("the profile ships");
        let clock = Arc::new(Tally::default());
        let policy = Timed { inner: entry.build_default(), queued, clock: Arc::clone(&clock) };
        let traits = DriveTraits { queue_depth: drive.queue_depth(), fua: true };
        let limits = Limits { outstanding: Some(2), ..Limits::default() };
        let scheduler = Scheduler::new(belief, Box::new(policy), traits, limits);
        // One of them is at the drive when the scheduler is asked for the second command.
        let clients = queued as u32 + 1;
        let sector = profile.sector_size().expect("the profile ships");
        let workload = Workload::new(&[StreamConfig::closed(clients)], sector, profile.capacity(), 1).expect("4 KiB reads suit the drive");
        let mut bench = Self { engine: Engine::new(scheduler, drive, workload, None), clock };
        // Until the belief has seen the platter turn and a mean response time is known.
        bench.decide(64 * TIMES);
        bench
    }

    /// The time that at least so many decisions took, as if it had been exactly so many.
    fn decide(&mut self, decisions: u64) -> Duration {
        let read = |clock: &Tally| (clock.decisions.load(Ordering::Relaxed), clock.ns.load(Ordering::Relaxed));
        let before = read(&self.clock);
        while self.clock.decisions.load(Ordering::Relaxed) - before.0 < decisions {
            self.engine.step(&mut ()).expect("a closed loop is always served");
        }
        let after = read(&self.clock);
        Duration::from_nanos(((after.1 - before.1) as f64 * decisions as f64 / (after.0 - before.0) as f64) as u64)
    }
}

fn profile() -> &'static DriveProfile {
    static PROFILE: OnceLock<DriveProfile> = OnceLock::new();
    PROFILE.get_or_init(|| catalog::load("atlas10k").expect("the profile ships"))
}

fn decide(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decide");
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(400));
    for entry in POLICIES {
        for queued in [1, 16, 256] {
            let mut bench = Bench::new(entry, queued);
            group.bench_function(format!("{}/{queued}", entry.name), |bencher| bencher.iter_custom(|decisions| bench.decide(decisions)));
        }
    }
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
