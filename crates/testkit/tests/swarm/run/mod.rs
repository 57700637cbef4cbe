//! The swarm: many small runs, each with a drive, a policy, a workload and faults drawn from one
//! seed, each checked against the invariants.
//!
//! A run draws a small unusual drive, a policy with its parameters, a few streams that overlap on
//! few sectors, and optionally shares, scans and faults; while it runs, requests are cancelled, the
//! policy is changed, and scans are paused and stopped. An `InvariantChecker` checks every event
//! against the invariants of ARCHITECTURE.md: every accepted request finishes exactly once, reads
//! see allowed contents, flushes and forced writes are durable, overlapping requests keep their
//! order, the drive's queue depth is respected, time never decreases, accounts add up, scans get
//! each of their sectors once, with the contents of their point in time, and everything drains in
//! the end.
//!
//! A failure names its seed and the command that replays it. `crates/testkit/tests/swarm.rs` plants
//! bugs and verifies that the swarm finds them.

mod arms;
mod checker;
mod contents;
mod durability;
mod plan;
pub(crate) mod scans;
mod shares;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use headtime_sched::{QueueLimits, Scheduler};
use headtime_units::{Instant, Nanos};
use headtime_workload::{Arrival, ClientId, RequestSource, SourceEvent, Workload};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use arms::TwoArms;
use checker::InvariantChecker;
use headtime_sim::{BeliefMaker, Device, Engine, OraclePositioning, SimulatedDrive, StepOutcome};
use headtime_testkit::faults::{FaultPlan, FaultyDrive};
use plan::RunPlan;
use scans::{AtEnd, Scanning, Scans};

/// The statistics of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The seed.
    pub(crate) seed: u64,
    /// Requests accepted.
    pub(crate) requests: u64,
    /// Of those, the ones cancelled.
    pub(crate) cancelled: u64,
    /// Of those, the ones that failed.
    pub(crate) failed: u64,
    /// Commands given up.
    pub(crate) given_up: u64,
    /// Changes of policy while running.
    pub(crate) policy_changes: u64,
    /// Reads whose contents were checked.
    pub(crate) reads_checked: u64,
    /// Flushes whose durability was checked against at least one write.
    pub(crate) flushes_checked: u64,
    /// Reads delivered to scans whose contents were checked, in the order of [`FillSource::ALL`].
    pub(crate) scanned: [u64; 5],
    /// Reads for scans that failed for good.
    pub(crate) lost_by_scans: u64,
    /// Simulated time.
    pub(crate) simulated: Nanos,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwarmFailure {
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The violation and its time.
    pub(crate) what: String,
    /// The drawn configuration.
    pub(crate) plan: String,
}

impl fmt::Display for SwarmFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "swarm seed {}: {}\n  run: {}\n  replay: HEADTIME_SWARM_SEED={} HEADTIME_SWARM_COUNT=1 \
                cargo test -p headtime-testkit --test swarm -- the_swarm",
            self.seed, self.what, self.plan, self.seed
        )
    }
}

impl std::error::Error for SwarmFailure {}

/// Runs one seed. `belief` makes the drive model of policies that are no oracle.
///
/// # Errors
/// The first violated invariant.
pub(crate) fn run_one(seed: u64, belief: BeliefMaker<'_>) -> Result<Summary, SwarmFailure> {
    run_one_with(seed, belief, |scheduler| scheduler)
}

/// Runs one seed with a wrapper between engine and scheduler, for planted bugs.
///
/// # Errors
/// The first violated invariant.
pub(crate) fn run_one_with<F: Scanning>(
    seed: u64,
    belief: BeliefMaker<'_>,
    wrap: impl FnOnce(Scheduler) -> F,
) -> Result<Summary, SwarmFailure> {
    run_planned(seed, belief, wrap, |_| {})
}

/// Runs one seed with additional faults of the drive.
///
/// # Errors
/// The first violated invariant.
pub(crate) fn run_one_with_faults(
    seed: u64,
    belief: BeliefMaker<'_>,
    worse: impl FnOnce(&mut FaultPlan),
) -> Result<Summary, SwarmFailure> {
    run_planned(seed, belief, |scheduler| scheduler, worse)
}

fn run_planned<F: Scanning>(
    seed: u64,
    belief: BeliefMaker<'_>,
    wrap: impl FnOnce(Scheduler) -> F,
    worse: impl FnOnce(&mut FaultPlan),
) -> Result<Summary, SwarmFailure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut plan = RunPlan::draw(&mut rng);
    worse(&mut plan.faults);
    let fail = |what: String| SwarmFailure { seed, what, plan: plan.to_string() };
    // The scheduler asserts its own invariants; a panic is a violation, too.
    let run = AssertUnwindSafe(|| run_plan(seed, &plan, &mut rng, belief, wrap));
    match catch_unwind(run) {
        Ok(outcome) => outcome.map_err(fail),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(fail(format!("panicked: {}", text.unwrap_or("without a message"))))
        }
    }
}

fn run_plan<F: Scanning>(
    seed: u64,
    plan: &RunPlan,
    rng: &mut ChaCha8Rng,
    belief: BeliefMaker<'_>,
    wrap: impl FnOnce(Scheduler) -> F,
) -> Result<Summary, String> {
    let truth = plan.truth(seed).map_err(|error| error.to_string())?;
    let belief = if plan.oracle() {
        Box::new(OraclePositioning::new(&truth).map_err(|error| error.to_string())?)
    } else {
        belief(&plan.profile)
    };
    let one_arm = truth.arms() > belief.arms().count();
    let belief = if one_arm { Box::new(TwoArms(belief)) } else { belief };
    let mut inner = SimulatedDrive::new(truth).map_err(|error| error.to_string())?;
    inner.record_landings();
    let limits = QueueLimits { outstanding: plan.outstanding, ..QueueLimits::default() };
    let mut scheduler = Scheduler::new(belief, plan.policy(), plan.traits(), limits);
    shares::set_terms(&mut scheduler, plan.streams.len(), seed)
        .map_err(|error| error.to_string())?;
    let scheduler = wrap(scheduler);
    let sector = plan.profile.sector_size().map_err(|error| error.to_string())?;
    let workload = Workload::new(&plan.streams, sector, inner.capacity(), seed)
        .map_err(|error| error.to_string())?;
    let arms = inner.arms();
    let device = FaultyDrive::new(inner, plan.faults.clone(), seed);
    let mut witness = InvariantChecker::new(plan.traits(), arms);
    let mut engine = Engine::new(
        scheduler,
        device,
        Limited { source: workload, left: plan.requests },
        plan.timeout,
    );
    let mut policy_changes = 0;
    let mut scans = Scans::draw(&plan.profile, seed);
    let latest = plan.latest(scans.sectors());

    loop {
        let progress = engine.step(&mut witness).map_err(|error| error.to_string())?;
        witness.landed(engine.device.inner_mut().take_landings());
        engine.scheduler.self_check();
        witness.verdict()?;
        if progress == StepOutcome::Drained {
            match scans.end(engine.now(), &mut engine.scheduler, &mut witness) {
                AtEnd::Nothing => break,
                AtEnd::Reads => engine.request_dispatch(),
            }
            continue;
        }
        scans.step(engine.now(), &mut engine.scheduler, &mut witness);
        if rng.random_bool(plan.cancel_chance)
            && let Some((id, client)) = witness.random_live(rng.next_u64())
        {
            engine.cancel(id, client, &mut witness).map_err(|error| error.to_string())?;
            // The client's next request may already be served by the drive's cache.
            witness.landed(engine.device.inner_mut().take_landings());
        }
        if rng.random_bool(plan.policy_change_chance) {
            engine.scheduler.set_policy(plan.another_policy(rng));
            policy_changes += 1;
        }
        if engine.now() > latest {
            return Err(format!(
                "at {} requests still wait, although {} suffice for all of them one by one",
                engine.now(),
                latest
            ));
        }
    }
    let disk_time = engine.device.disk_time(engine.now());
    let mut summary = witness.close(engine.now(), disk_time, engine.scheduler.accounts())?;
    (summary.seed, summary.policy_changes) = (seed, policy_changes);
    Ok(summary)
}

/// A source that ends after a number of requests.
struct Limited<S> {
    source: S,
    left: u64,
}

impl<S: RequestSource> RequestSource for Limited<S> {
    fn arrival(&mut self) -> Option<Arrival> {
        let arrival = if self.left > 0 { self.source.arrival() } else { None };
        self.left -= u64::from(arrival.is_some());
        arrival
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        let arrival = if self.left > 0 { self.source.follow(now, client) } else { None };
        self.left -= u64::from(arrival.is_some());
        arrival
    }

    fn event(&mut self) -> Option<SourceEvent> {
        let event = if self.left > 0 { self.source.event() } else { None };
        self.left -= u64::from(matches!(event, Some(SourceEvent::Request(_))));
        event
    }

    fn wake(&mut self, now: Instant, client: ClientId) {
        self.source.wake(now, client);
    }
}
