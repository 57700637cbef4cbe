//! Instances drawn from a profile: their scatter, and the nominal drive.

use headtime_mechanics::{Layout, Track, Variation, catalog};
use headtime_sim::{DriveTruth, Noise};
use headtime_units::{Angle, Lba};

#[test]
fn equal_seeds_draw_equal_drives_and_others_differ() {
    let profile = catalog::load("atlas10k").unwrap();
    let drive = |seed| {
        let truth = DriveTruth::draw(&profile, seed).unwrap();
        let mechanism = truth.mechanism();
        let angles: Vec<_> = (0..50)
            .map(|cylinder| mechanism.variation().track_angle(Track { cylinder, head: 1 }))
            .collect();
        (
            mechanism.period().as_fs(),
            mechanism.phase(),
            angles,
            mechanism.variation().seek_residual_ns(3, 9_000),
        )
    };
    assert_eq!(drive(1), drive(1));
    let (one, two) = (drive(1), drive(2));
    assert!(one.0 != two.0 && one.1 != two.1 && one.2 != two.2 && one.3 != two.3);
}

#[test]
fn drives_scatter_as_in_the_profile() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.variation.spindle_ppm = 200.0;
    let errors: Vec<f64> = (0..400)
        .map(|seed| {
            DriveTruth::draw(&profile, seed).unwrap().mechanism().period().as_fs() as f64
                / profile.rotation_period().unwrap().as_fs() as f64
        })
        .map(|ratio| (ratio - 1.0) * 1e6)
        .collect();
    let rms = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
    assert!((rms / 200.0 - 1.0).abs() < 0.12, "{rms} ppm");

    let truth = DriveTruth::draw(&profile, 5).unwrap();
    let period_us = truth.mechanism().period().as_ns_f64() / 1e3;
    let angle_us = |cylinder| {
        truth
            .mechanism()
            .variation()
            .track_angle(Track { cylinder, head: 0 })
            .signed_turns_from(Angle::ZERO)
            * period_us
    };
    let rms = ((0..10_000).map(|cylinder| angle_us(cylinder) * angle_us(cylinder)).sum::<f64>()
        / 1e4)
        .sqrt();
    assert!((rms / profile.variation.track_angle_us - 1.0).abs() < 0.03, "{rms} us");

    let residual =
        |from: u32, to: u32| truth.mechanism().variation().seek_residual_ns(from, to) as f64 / 1e3;
    let pairs = (0..10_000_u32)
        .step_by(313)
        .flat_map(|from| (0..10_000_u32).step_by(313).map(move |to| (from, to)));
    let squares: Vec<f64> =
        pairs.map(|(from, to)| residual(from, to) * residual(from, to)).collect();
    let rms = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
    assert!((rms / profile.variation.seek_residual_us - 1.0).abs() < 0.08, "{rms} us");
}

#[test]
fn a_nominal_drive_differs_in_phase_alone() {
    let profile = catalog::load("nearline-20tb").unwrap();
    let truth = DriveTruth::nominal(&profile, 3).unwrap();
    assert_eq!(truth.mechanism().period(), profile.rotation_period().unwrap());
    assert_eq!(
        truth.mechanism().variation().track_angle(Track { cylinder: 17, head: 3 }),
        Angle::ZERO
    );
    assert_eq!(truth.noise(), Noise::default());
    assert_ne!(
        truth.mechanism().phase(),
        DriveTruth::nominal(&profile, 4).unwrap().mechanism().phase()
    );
}

#[test]
fn extra_slips_keep_the_capacity_and_shift_later_sectors() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.variation.slips_per_million = 20.0;
    let truth = DriveTruth::draw(&profile, 1).unwrap();
    let nominal = Layout::new(&profile).unwrap();
    assert_eq!(truth.mechanism().layout().capacity(), nominal.capacity());
    let moved = (0..1000_u64).map(|step| Lba::new(step * 17_938)).filter(|lba| {
        truth.mechanism().layout().lba_to_physical(*lba) != nominal.lba_to_physical(*lba)
    });
    assert!(moved.count() > 500, "after a slip every sector of its zone lies one further on");
}
