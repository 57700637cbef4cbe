//! Tests of moved sectors without a drive: only addresses and angles.

use super::*;
use headtime_units::Sectors;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SECTORS: u64 = 10_000_000;
const TOLERANCE: f64 = 0.01;

fn moved() -> Moved {
    Moved::new(50_000, [500.0, 450.0, 400.0])
}

/// The angle of a sector at home: tracks of 500, each beginning 0.15 turns late.
fn home(lba: u64) -> Angle {
    Angle::from_turns(0.1 + (lba + 1) as f64 / 500.0 + 0.15 * (lba / 500) as f64)
}

/// The angle of a moved sector: tracks of 400, each beginning 0.2 turns late.
fn elsewhere(lba: u64) -> Angle {
    Angle::from_turns(0.77 + (lba + 1) as f64 / 400.0 + 0.2 * ((lba + 130) / 400) as f64)
}

fn read(first: u64) -> Extent {
    Extent::from_numbers(first, 8)
}

fn noise(rng: &mut ChaCha8Rng) -> Angle {
    Angle::from_turns(rng.random_range(-0.004..0.004))
}

/// The error of the modelled angle of a sector's end; `None` if the angle is unknown.
fn off(moved: &Moved, lba: u64, real: Angle) -> Option<f64> {
    let place = moved.end(Lba::new(lba), Position { angle: home(lba), ..Position::default() });
    (place.head != UNKNOWN_LOCATION).then(|| place.angle.signed_turns_from(real).abs())
}

/// Reads random sectors of a region; `is_moved` selects the moved ones.
fn serve(
    moved: &mut Moved,
    rng: &mut ChaCha8Rng,
    region: std::ops::Range<u64>,
    reads: u32,
    is_moved: impl Fn(u64) -> bool,
) {
    for _ in 0..reads {
        let extent = read(rng.random_range(region.start / 8..region.end / 8) * 8);
        let last = extent.last().get();
        let seen = if is_moved(last) { elsewhere(last) } else { home(last) } + noise(rng);
        moved.take(extent, seen, |lba| home(lba.get()), TOLERANCE, Some(true));
        // The rest of the drive is read too.
        moved.take(read(9_000_000), home(9_000_007), |lba| home(lba.get()), TOLERANCE, Some(true));
    }
}

#[test]
fn the_worked_example_holds() {
    let mut moved = Moved::new(50_000, [500.0]);
    let layout = |lba: u64| Angle::from_turns(0.9 + (lba as f64 - 7_000_100.0) / 500.0);
    let seen = |lba: u64| Angle::from_turns(0.31 + (lba as f64 - 7_000_100.0) / 500.0);
    for last in [7_000_100, 7_000_180, 7_000_300] {
        let before = moved
            .end(Lba::new(7_000_250), Position { angle: layout(7_000_250), ..Position::default() });
        assert_eq!(
            (before.head, before.angle),
            (0, layout(7_000_250)),
            "two odd angles change nothing"
        );
        moved.take(
            Extent::from_numbers(last - 7, 8),
            seen(last),
            |lba| layout(lba.get()),
            TOLERANCE,
            None,
        );
    }
    let place =
        |lba: u64| moved.end(Lba::new(lba), Position { angle: layout(lba), ..Position::default() });
    let found = place(7_000_250);
    assert!(
        found.angle.signed_turns_from(Angle::from_turns(0.61)).abs() < 1e-6 && Moved::holds(found),
        "{found:?}"
    );
    assert_eq!(place(7_000_301), Position { angle: layout(7_000_301), ..Position::default() });
}

#[test]
fn a_run_of_moved_sectors_is_found_track_by_track_and_its_neighbors_stay_where_they_are() {
    for seed in 1..=6 {
        let (mut moved, mut rng) = (moved(), ChaCha8Rng::seed_from_u64(seed));
        let run = 4_000_000..4_005_000;
        let is_moved = |lba: u64| run.contains(&lba);
        serve(&mut moved, &mut rng, 3_990_000..4_015_000, 8_000, is_moved);
        let right = |moved: &Moved, lbas: std::ops::Range<u64>| {
            let all = lbas.end - lbas.start;
            lbas.filter(|lba| {
                off(moved, *lba, if is_moved(*lba) { elsewhere(*lba) } else { home(*lba) })
                    .is_some_and(|off| off < 0.02)
            })
            .count() as f64
                / all as f64
        };
        let (inside, outside) = (
            right(&moved, run.clone()),
            right(&moved, 3_990_000..4_000_000).min(right(&moved, 4_005_000..4_015_000)),
        );
        assert!(
            inside > 0.97 && outside > 0.998,
            "seed {seed}: {inside} of the moved ones right, {outside} of the others"
        );
        assert!(
            moved.angle_samples.len() < 300,
            "seed {seed}: {} angle samples for twelve tracks",
            moved.angle_samples.len()
        );
    }
}

#[test]
fn a_sector_is_moved_after_two_equal_odd_angles() {
    let mut moved = moved();
    let (extent, real) = (read(800), Angle::from_turns(0.4));
    assert_eq!(moved.take(extent, real, |lba| home(lba.get()), TOLERANCE, None), Reading::Odd);
    assert!(off(&moved, 807, home(807)) < Some(1e-9), "a single odd angle changes nothing");
    moved.take(read(9_000_000), home(9_000_007), |lba| home(lba.get()), TOLERANCE, Some(true));
    moved.take(extent, real + Angle::from_turns(0.004), |lba| home(lba.get()), TOLERANCE, None);
    assert!(off(&moved, 807, real) < Some(0.005));
    assert!(
        off(&moved, 808, home(808)) < Some(1e-9) && off(&moved, 799, home(799)) < Some(1e-9),
        "its neighbors stay at home"
    );
    // A read at home makes it forgotten.
    moved.take(extent, home(807), |lba| home(lba.get()), TOLERANCE, Some(true));
    assert!(off(&moved, 807, home(807)) < Some(1e-9));
    assert_eq!(moved.angle_samples.len(), 0);
}

#[test]
fn sectors_that_are_moved_back_are_followed() {
    for seed in 1..=4 {
        let (mut moved, mut rng) = (moved(), ChaCha8Rng::seed_from_u64(seed));
        let run = 4_000_000..4_004_000;
        serve(&mut moved, &mut rng, run.clone(), 3_000, |_| true);
        assert!(moved.angle_samples() > 20, "seed {seed}");
        serve(&mut moved, &mut rng, run.clone(), 4_000, |_| false);
        let wrong = run
            .clone()
            .filter(|lba| off(&moved, *lba, home(*lba)).is_none_or(|off| off > 0.05))
            .count();
        // If both places have the same angle, nothing tells them apart, and nothing has to.
        assert!(wrong < 100, "seed {seed}: {wrong} of 4,000 still modelled elsewhere");
    }
}

#[test]
fn a_lost_rotation_makes_no_sector_moved() {
    for seed in 1..=4 {
        let (mut moved, mut rng) = (moved(), ChaCha8Rng::seed_from_u64(seed));
        for round in 0..2_000_u64 {
            let extent = read(rng.random_range(0..1_000) * 8);
            let last = extent.last().get();
            // Twelve consecutive odd ones every 200 rounds, as before a search for the rotation.
            let seen =
                if round % 200 < 12 { home(last) + Angle::from_turns(0.3) } else { home(last) };
            moved.take(extent, seen, |lba| home(lba.get()), TOLERANCE, Some(true));
        }
        let wrong = (0..8_000)
            .filter(|lba| off(&moved, *lba, home(*lba)).is_none_or(|off| off > 0.01))
            .count();
        assert!(wrong < 80, "seed {seed}: {wrong} of 8,000 modelled elsewhere");
    }
}

#[test]
fn retries_and_late_reports_make_no_sector_moved() {
    for seed in 1..=5 {
        let (mut moved, mut rng) = (moved(), ChaCha8Rng::seed_from_u64(seed));
        for _ in 0..100_000 {
            let extent = read(rng.random_range(0..20_000) * 8);
            let last = extent.last().get();
            let late = if rng.random_bool(0.002) {
                Angle::from_raw(rng.random())
            } else {
                noise(&mut rng)
            };
            moved.take(extent, home(last) + late, |lba| home(lba.get()), TOLERANCE, Some(true));
        }
        let wrong = (0..160_000)
            .filter(|lba| off(&moved, *lba, home(*lba)).is_none_or(|off| off > 0.01))
            .count();
        assert!(wrong < 160, "seed {seed}: {wrong} of 160,000 modelled elsewhere");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any input in any order: the samples are bounded, in order and restored as saved, and each
    /// address has a location.
    #[test]
    fn samples_are_bounded_ordered_and_restored(
        seed in any::<u64>(),
        wide in 50_u64..1_000_000,
        odd in 0.05_f64..0.95,
    ) {
        let (mut moved, mut rng) = (moved(), ChaCha8Rng::seed_from_u64(seed));
        for _ in 0..4_000 {
            let extent = Extent::from_numbers(rng.random_range(0..wide), rng.random_range(1..600));
            let last = extent.last().get();
            let seen = if rng.random_bool(odd) {
                if rng.random_bool(0.5) { elsewhere(last) } else { Angle::from_raw(rng.random()) }
            } else {
                home(last)
            };
            let reading = moved.take(
                extent,
                seen,
                |lba| home(lba.get()),
                TOLERANCE,
                [None, Some(true), Some(false)][rng.random_range(0..3)],
            );
            if reading != Reading::Home {
                let trip =
                    Trip { took_ns: rng.random_range(-1e6..2e7), turn_ns: 6e6, spread_ns: 5e4 };
                moved.take_trip(extent, &trip, |cylinder| f64::from(cylinder) * 100.0);
            }
            prop_assert!(
                moved.angle_samples.len() <= MAX_ANGLE_SAMPLES && moved.runs.len() <= MAX_RUNS
            );
        }
        prop_assert!(moved.angle_samples.windows(2).all(|two| two[0].last < two[1].last));
        let (angle_samples, places) = moved.numbers();
        let restored = super::tests::moved()
            .restored(&angle_samples, &places, Sectors::new(SECTORS))
            .expect("it was saved so");
        prop_assert_eq!(restored.numbers(), moved.numbers());
        for lba in (0..wide + 1_000).step_by((wide / 500).max(1) as usize) {
            let at = Position { angle: home(lba), ..Position::default() };
            prop_assert_eq!(restored.end(Lba::new(lba), at), moved.end(Lba::new(lba), at));
            prop_assert_eq!(restored.start(Lba::new(lba), at), moved.start(Lba::new(lba), at));
        }
    }
}
