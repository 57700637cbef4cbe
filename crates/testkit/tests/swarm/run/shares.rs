//! Shares for half of the runs: terms for each stream, from a separate random stream, so that other
//! draws do not depend on them.

use headtime_sched::{PriorityClass, Scheduler, ShareRefusal, Tenant, Terms, VolumeId};
use headtime_units::{Instant, Nanos, Share};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The random stream of the terms.
const STREAM: u64 = 5;

/// Gives each stream feasible terms, or none in every second run.
pub(super) fn set_terms(
    scheduler: &mut Scheduler,
    streams: usize,
    seed: u64,
) -> Result<(), ShareRefusal> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(STREAM);
    if rng.random_bool(0.5) {
        return Ok(());
    }
    let share =
        |billionths: u32| Share::from_billionths(billionths).expect("drawn below the whole");
    for volume in 0..streams as u32 {
        let terms = Terms {
            reserve: share(rng.random_range(0..330_000_000)),
            // A lower limit would delay requests beyond the swarm's starvation bound.
            limit: share(rng.random_range(500_000_000..=1_000_000_000)),
            burst: Nanos::from_ms(rng.random_range(10..2_000)),
            priority: [PriorityClass::RealTime, PriorityClass::BestEffort, PriorityClass::Idle]
                [rng.random_range(0..3)],
            weight: 1 + 3 * volume as u16,
            requests_per_second: rng.random_bool(0.3).then(|| rng.random_range(20..500)),
            sectors_per_second: rng.random_bool(0.3).then(|| rng.random_range(100..10_000)),
        };
        scheduler.set_share(Instant::ORIGIN, Tenant::of(VolumeId(volume)), terms)?;
    }
    Ok(())
}
