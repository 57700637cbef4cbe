//! Changes while a drive runs, and properties that show only after a while: the drive model follows
//! them.

mod common;

use common::Run;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, Position};
use headtime_sim::DriveTruth;
use headtime_units::Lba;
use headtime_workload::StreamConfig;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn load(name: &str) -> DriveProfile {
    catalog::load(name).expect("a profile of the catalog")
}

fn of_profile(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    headtime_belief::of_profile(profile).expect("a profile of the catalog")
}

/// The error of predictions in microseconds, the worst of ten readings within some minutes.
fn worst_error_us(profile: &DriveProfile, seed: u64) -> f64 {
    let truth = DriveTruth::draw(profile, seed).expect("a valid profile");
    let mut run = Run::new(
        truth,
        of_profile(profile),
        "sptf-expected",
        &[StreamConfig::closed(16)],
        profile,
        seed,
    );
    run.advance(6_000);
    let mut errors = (0..10).map(|_| {
        run.advance(1_500);
        run.report().error_rms_us.expect("predictions were judged")
    });
    errors.by_ref().fold(0.0, f64::max)
}

#[test]
fn a_spindle_that_warms_up_is_followed() {
    // A usual drift (some ppm within ten minutes), and five times as much.
    for (drive, seed, ppm) in [
        ("nearline-20tb@nocache", 1, 10.0),
        ("atlas10k", 3, 10.0),
        ("savvio15k2@nocache", 2, 10.0),
        ("nearline-20tb@nocache", 1, 50.0),
    ] {
        let steady = load(drive);
        let mut drifting = steady.clone();
        (drifting.variation.spindle_drift_ppm, drifting.variation.spindle_drift_period_s) =
            (ppm, 600.0);
        let (with, without) = (worst_error_us(&drifting, seed), worst_error_us(&steady, seed));
        println!(
            "seed {seed}: {drive}: {with:.1} us with {ppm} ppm in ten minutes, {without:.1} us \
                without"
        );
        assert!(
            with < 1.25 * without + 5.0,
            "seed {seed}: {drive}: {with:.1} us with {ppm} ppm in ten minutes, {without:.1} us \
                without"
        );
    }
}

/// The root mean square error of predicted arm times in microseconds, over random seeks.
fn arm_error_us(run: &Run, truth: &DriveTruth, seed: u64) -> f64 {
    let tracks = run.belief().tracks(Lba::new(0)).expect("the profile holds");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut place =
        || Position { cylinder: rng.random_range(0..tracks.cylinders()), ..Position::default() };
    let mut error_us = || {
        let (from, to) = (place(), place());
        let position = |place: Position| headtime_mechanics::HeadPosition {
            cylinder: place.cylinder,
            head: place.head,
        };
        let real = truth.mechanism().arm_time(
            position(from),
            position(to),
            headtime_mechanics::Direction::Read,
        );
        tracks.arm_time(from, to).as_us_f64() - real.as_us_f64()
    };
    libm::sqrt((0..4_000).map(|_| error_us()).map(|error| error * error).sum::<f64>() / 4_000.0)
}

#[test]
fn an_arm_that_errs_by_region_is_learned_and_the_rest_of_its_errors_is_not_made_worse() {
    // First the variation of the profile, then five times as much.
    for (drive, seed, times, most) in [
        ("nearline-20tb@nocache", 1, 1.0, 1.05),
        ("savvio15k2@nocache", 2, 1.0, 1.1),
        ("nearline-20tb@nocache", 3, 5.0, 0.9),
        ("atlas10k", 4, 5.0, 0.9),
    ] {
        let mut profile = load(drive);
        profile.variation.seek_residual_us *= times;
        let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
        let mut run = Run::new(
            truth.clone(),
            of_profile(&profile),
            "fcfs",
            &[StreamConfig::closed(4)],
            &profile,
            seed,
        );
        let before = arm_error_us(&run, &truth, seed);
        run.advance(40_000);
        let after = arm_error_us(&run, &truth, seed);
        println!(
            "seed {seed}: {drive} with {} us: {before:.1} us before, {after:.1} us after 40,000 \
                seeks",
            profile.variation.seek_residual_us
        );
        assert!(
            after < most * before,
            "seed {seed}: {drive}: the arm was {before:.1} us off and is {after:.1} us off after \
                40,000 seeks"
        );
    }
}
