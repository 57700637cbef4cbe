//! The pruned searches choose the same request as an exhaustive search, at every decision of real
//! runs on random drives.
//!
//! A wrapper around each policy computes every request's cost through the policy's own view and
//! compares. The drive models learn during the runs, so that the bounds of the pruning are those of
//! every stage of learning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headtime_belief::{DriveModel, LinearBelief};
use headtime_mechanics::draw;
use headtime_sched::{
    Belief, Choice, DriveTraits, Policy, PolicyEntry, QueueLimits, Queued, Scheduler, View,
};
use headtime_sim::{Device, DriveTruth, Engine, OraclePositioning, SimulatedDrive};
use headtime_units::Nanos;
use headtime_workload::{Mix, StreamConfig, Workload};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The cost that a policy minimizes.
type Cost = fn(&View<'_>, &Queued) -> Nanos;

const POLICIES: &[(&str, Cost)] = &[
    ("sptf", soonest),
    ("sptf-oracle", soonest),
    ("sptf-expected:ageing_power=0", expected),
    ("headtime:ageing_power=0", expected),
    ("sstf", |view, queued| {
        Nanos::from_ns(u64::from(
            queued.target.start.cylinder.abs_diff(view.head_position().cylinder),
        ))
    }),
];

fn soonest(view: &View<'_>, queued: &Queued) -> Nanos {
    let estimate = view.estimate(queued);
    let likely = view.likely(queued);
    assert_eq!(
        (likely.depart, likely.positioning),
        (estimate.depart, estimate.positioning),
        "{queued:?}"
    );
    estimate.depart.saturating_since(view.now.max(view.head().free_at)) + estimate.positioning
}

fn expected(view: &View<'_>, queued: &Queued) -> Nanos {
    let estimate = view.estimate(queued);
    estimate.depart.saturating_since(view.now.max(view.head().free_at)) + estimate.expected
}

/// A wrapper that compares every choice of a policy.
struct Compared {
    inner: Box<dyn Policy>,
    cost: Cost,
    compared: Arc<AtomicU64>,
    run: String,
}

impl Policy for Compared {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn depth(&self, view: &View<'_>) -> usize {
        self.inner.depth(view)
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let choice = self.inner.choose(view);
        // The first of equals is the first submitted, by queue order.
        let least = view
            .queue
            .by_arrival()
            .min_by_key(|queued| (self.cost)(view, queued))
            .map(|queued| queued.ticket);
        assert_eq!(
            choice,
            Choice::one(least),
            "{} at {} with {} queued",
            self.run,
            view.now,
            view.queue.len()
        );
        self.compared.fetch_add(1, Ordering::Relaxed);
        choice
    }
}

#[test]
fn a_search_that_stops_early_chooses_what_a_look_at_every_request_would() {
    for seed in 0..24 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let profile = draw::random_profile(&mut rng);
        let clients = rng.random_range(2..60);
        for (policy, cost) in POLICIES {
            for by_distance in [false, true] {
                let run =
                    format!("policy {policy}, seed {seed}, belief by distance: {by_distance}");
                let truth = DriveTruth::draw(&profile, seed).expect("a drawn profile is valid");
                let (entry, parameters) =
                    PolicyEntry::parse(policy).expect("a policy of the table");
                let belief: Box<dyn Belief + Send> = match (entry.oracle, by_distance) {
                    (true, _) => {
                        Box::new(OraclePositioning::new(&truth).expect("a drawn profile is valid"))
                    }
                    (false, false) => Box::new(
                        DriveModel::of_profile(&profile).expect("a drawn profile is valid"),
                    ),
                    (false, true) => Box::new(LinearBelief::new(profile.capacity())),
                };
                let drive = SimulatedDrive::new(truth).expect("a drawn profile is valid");
                let compared = Arc::new(AtomicU64::new(0));
                let inner = (entry.build)(&parameters);
                let policy = Compared {
                    inner,
                    cost: *cost,
                    compared: Arc::clone(&compared),
                    run: run.clone(),
                };
                let traits = DriveTraits { queue_depth: drive.queue_depth(), fua: true };
                let scheduler =
                    Scheduler::new(belief, Box::new(policy), traits, QueueLimits::default());
                let mix = Mix { reads: 0.7, zeroes: 0.1, discards: 0.0, flushes: 0.02, fua: 0.1 };
                let sector = profile.sector_size().expect("a drawn profile is valid");
                let config = StreamConfig {
                    mix,
                    sizes: headtime_workload::Sizes::Fixed { bytes: sector.bytes() as u64 },
                    ..StreamConfig::closed(clients)
                };
                let workload = Workload::new(&[config], sector, profile.capacity(), seed)
                    .expect("single sectors suit every drive");
                let mut engine = Engine::new(scheduler, drive, workload, None);
                while compared.load(Ordering::Relaxed) < 300 {
                    engine.step(&mut ()).unwrap_or_else(|error| panic!("{run}: {error}"));
                }
            }
        }
    }
}
