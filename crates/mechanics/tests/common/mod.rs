//! Random drives by seed, and the replay command of a failure.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod slow;

use headtime_mechanics::{DriveProfile, catalog, draw};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Prints the replay command if the test panics during its lifetime.
pub(crate) struct Replay {
    seed: u64,
    test: &'static str,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "replay: HEADTIME_SEED={} cargo test -p headtime-mechanics {}",
                self.seed, self.test
            );
        }
    }
}

/// Runs `body` with a generator for each of `count` seeds, or with the one in `HEADTIME_SEED`.
pub(crate) fn for_seeds(test: &'static str, count: u64, mut body: impl FnMut(&mut ChaCha8Rng)) {
    let only: Option<u64> = std::env::var("HEADTIME_SEED")
        .ok()
        .map(|text| text.parse().expect("HEADTIME_SEED is a number"));
    let seeds = only.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        let replay = Replay { seed, test };
        body(&mut ChaCha8Rng::seed_from_u64(seed));
        drop(replay);
    }
}

/// Runs `body` with `count` small random drives, or with that of the seed in `HEADTIME_SEED`.
pub(crate) fn for_drawn_drives(
    test: &'static str,
    count: u64,
    mut body: impl FnMut(&mut ChaCha8Rng, DriveProfile),
) {
    for_seeds(test, count, |rng| {
        let profile = draw::random_profile(rng);
        body(rng, profile);
    });
}

/// Every shipped profile and its setups.
pub(crate) fn catalog_profiles() -> Vec<DriveProfile> {
    let shipped: Vec<DriveProfile> = catalog::CATALOG
        .iter()
        .map(|entry| entry.load().expect("a shipped profile is valid"))
        .collect();
    let setups = shipped.iter().flat_map(|profile| {
        profile
            .setup
            .keys()
            .map(|setup| profile.with_setup(setup).expect("a shipped setup is valid"))
    });
    shipped.iter().cloned().chain(setups).collect()
}
