//! What is on the platter when the power fails, under the ordinary engine: thousands of random cuts
//! of many histories.
//!
//! Two loads. [`sectors`]: overlapping writes, zeroes, discards and flushes as they come, with an
//! oracle that knows what each sector may hold. [`journal`]: stores that keep transactions as file
//! systems do, recovered from what each cut leaves. Both are also run on drives and stacks that
//! lie, and must then fail.
//!
//! `HEADTIME_SEED=N` chooses other loads and cuts; `HEADTIME_CUTS=N` makes as many times more cuts
//! of each history. Histories depend on how threads interleave, so that a seed repeats a load but
//! not always a history; a failure therefore tells the story of the sectors concerned.

mod journal;
mod sectors;

use headtime_io::{DriveOptions, PolicyChoice};
use headtime_sched::POLICIES;
use headtime_testkit::power_cut::{Casualty, PowerFailure, Tear};

/// Every way in which the power may fail that leaves sectors readable.
const READABLE: [PowerFailure; 3] = [
    PowerFailure { tear: Tear::Sectors, casualty: Casualty::None },
    PowerFailure { tear: Tear::PhysicalBlocks, casualty: Casualty::None },
    PowerFailure { tear: Tear::Never, casualty: Casualty::None },
];

/// The seed of the whole run.
fn seed() -> u64 {
    let chosen = std::env::var("HEADTIME_SEED").ok().and_then(|seed| seed.parse().ok());
    chosen.unwrap_or(20_260)
}

/// The number of cuts; `few` in a normal run.
fn cuts(few: usize) -> usize {
    let times =
        std::env::var("HEADTIME_CUTS").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    few * times
}

/// Every policy that runs in real time, at its own depth and at a larger one.
fn stacks() -> impl Iterator<Item = (&'static str, Option<usize>)> {
    let policies = POLICIES.iter().filter(|entry| !entry.oracle).map(|entry| entry.name);
    policies.flat_map(|policy| [(policy, None), (policy, Some(6))])
}

fn options(policy: &str, outstanding: Option<usize>) -> DriveOptions {
    DriveOptions {
        policy: PolicyChoice::parse(policy).expect("a policy of the table"),
        outstanding,
        ..DriveOptions::default()
    }
}
