//! What the belief makes of drawn units: prediction error, turns missed and throughput, for some
//! drives and seeds.
//!
//! `cargo run -p headtime-belief --example figures [REQUESTS] [DRIVE ...]` prints a line for each
//! drive, seed and queue; the same figures on every machine. For comparing one state of the code
//! with another.

use headtime_mechanics::{Direction, catalog};
use headtime_sched::{
    Belief, BeliefReport, Finished, PolicyEntry, Position, QueueLimits, Scheduler,
};
use headtime_sim::{DriveTruth, Engine, EngineObserver, SimulatedDrive, StepOutcome};
use headtime_units::Instant;
use headtime_workload::{StreamConfig, Workload};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DRIVES: [&str; 4] =
    ["atlas10k", "savvio15k2@nocache", "nearline-20tb@nocache", "ultrastar-hc570@nocache"];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;
const CLIENTS: [u32; 2] = [16, 64];

/// Counts what is over.
#[derive(Default)]
struct Count(u64);

impl EngineObserver for Count {
    fn finished(&mut self, _now: Instant, _finished: &Finished) {
        self.0 += 1;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let requests: u64 = arguments.next().map_or(Ok(12_000), |text| text.parse())?;
    let named: Vec<String> = arguments.collect();
    let drives = if named.is_empty() { DRIVES.map(str::to_owned).to_vec() } else { named };
    println!(
        "{:<26} {:>4} {:>5} {:>8} {:>9} {:>8} {:>10} {:>10}",
        "drive", "seed", "queue", "IOPS", "error us", "missed", "arm us", "spread us"
    );
    for drive in &drives {
        for clients in CLIENTS {
            let mut sum = 0.0;
            for seed in SEEDS {
                let Figures { iops, report, arm_us, spread_us } =
                    one(drive, clients, seed, requests)?;
                let (error, missed) = (
                    report.error_rms_us.unwrap_or(f64::NAN),
                    report.missed_revolutions.unwrap_or(f64::NAN),
                );
                println!(
                    "{drive:<26} {seed:>4} {clients:>5} {iops:>8.2} {error:>9.1} {:>7.2}% \
                        {arm_us:>10.1} {spread_us:>10.1}",
                    missed * 100.0
                );
                sum += iops;
            }
            println!("{drive:<26} mean {clients:>5} {:>8.2}", sum / SEEDS.count() as f64);
        }
    }
    Ok(())
}

struct Figures {
    /// Over the second half of the run.
    iops: f64,
    report: BeliefReport,
    /// Root mean square of the error of arm times over random pairs of cylinders.
    arm_us: f64,
    spread_us: f64,
}

fn one(
    drive: &str,
    clients: u32,
    seed: u64,
    requests: u64,
) -> Result<Figures, Box<dyn std::error::Error>> {
    let profile = catalog::load(drive)?;
    let truth = DriveTruth::draw(&profile, seed)?;
    let simulated = SimulatedDrive::new(truth.clone())?;
    let (entry, parameters) = PolicyEntry::parse("sptf-expected")?;
    let belief = headtime_belief::of_profile(&profile)?;
    let scheduler = Scheduler::new(
        belief,
        (entry.build)(&parameters),
        simulated.traits(),
        QueueLimits::default(),
    );
    let workload = Workload::new(
        &[StreamConfig::closed(clients)],
        profile.sector_size()?,
        profile.capacity(),
        seed,
    )?;
    let mut engine = Engine::new(scheduler, simulated, workload, None);
    let (mut count, mut half) = (Count::default(), None);
    while count.0 < requests {
        if let StepOutcome::Drained = engine.step(&mut count)? {
            break;
        }
        if half.is_none() && count.0 >= requests / 2 {
            half = Some((engine.now(), count.0));
        }
    }
    let (began, before) = half.unwrap_or((Instant::ORIGIN, 0));
    let seconds = engine.now().saturating_since(began).as_ns() as f64 / 1e9;
    let belief = engine.scheduler.belief();
    Ok(Figures {
        iops: (count.0 - before) as f64 / seconds,
        report: belief.report(),
        arm_us: arm_error_us(belief, &truth),
        spread_us: belief.tracks().map_or(f64::NAN, |tracks| tracks.spread().as_us_f64()),
    })
}

fn arm_error_us(belief: &dyn Belief, truth: &DriveTruth) -> f64 {
    let Some(tracks) = belief.tracks() else { return f64::NAN };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut place = || Position {
        cylinder: rng.random_range(0..tracks.cylinders()),
        head: rng.random_range(0..tracks.heads()),
        ..Position::default()
    };
    let mut error_us = || {
        let (from, to) = (place(), place());
        let position = |place: Position| headtime_mechanics::HeadPosition {
            cylinder: place.cylinder,
            head: place.head,
        };
        let real = truth.mechanism().arm_time(position(from), position(to), Direction::Read);
        tracks.arm_time(from, to).as_us_f64() - real.as_us_f64()
    };
    libm::sqrt((0..4_000).map(|_| error_us()).map(|error| error * error).sum::<f64>() / 4_000.0)
}
