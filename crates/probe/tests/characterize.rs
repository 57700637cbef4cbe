//! Drives characterized from outside, and what was found beside what is true.
//!
//! Units exactly as their profile says (`nominal`) have to be found out to the sector; units with
//! drawn differences and noise as far as the noise lets anybody. A failing case names its drive and
//! seed; `cargo run --release -p headtime-probe --example survey -- NAME:nominal:SEED` shows what
//! was found of it.

mod common;

use common::{Bench, borders, characterize, settings, tracks_alike};
use headtime_mechanics::profile::Zone;
use headtime_mechanics::{DriveProfile, SeekCurve, catalog, draw};
use headtime_probe::{CommandOutcome, Finding, Measurement, Probe, Stage};
use headtime_sim::DriveTruth;
use headtime_units::{Instant, Nanos};

/// A unit without noise has to be found out; answers the profile that was found.
fn expect_found_out(name: &str, seed: u64) -> (DriveProfile, Finding) {
    let profile = catalog::load(name).expect("a profile that ships");
    let truth = DriveTruth::nominal(&profile, seed).expect("a drive");
    let settings = settings(&profile, seed);
    let finding = characterize(&profile, truth.clone(), seed);
    let found = finding
        .profile
        .clone()
        .unwrap_or_else(|| panic!("{name}:nominal:{seed} has no profile: {:?}", finding.remarks));
    let case = format!("{name}:nominal:{seed}, remarks {:?}", finding.remarks);

    assert!(
        finding.drive_time <= settings.budget + Nanos::from_secs(5),
        "{case}: {} of {}",
        finding.drive_time,
        settings.budget
    );
    let period_ns =
        |profile: &DriveProfile| profile.rotation_period().expect("a drive turns").as_ns_f64();
    let ppm = (period_ns(&found) / period_ns(&profile) - 1.0) * 1e6;
    assert!(ppm.abs() < 1.0, "{case}: the period is off by {ppm} ppm");
    assert_eq!(borders(&found), borders(&profile), "{case}: zones");
    let alike = tracks_alike(&found, truth.mechanism().layout(), 0);
    assert!(alike > 0.995, "{case}: {alike} of the tracks begin and end with the same sectors");
    assert_eq!(found.geometry.heads, profile.geometry.heads, "{case}");
    for zone in &found.zones {
        let real = profile
            .zones
            .iter()
            .rfind(|real| real.first_cylinder <= zone.first_cylinder)
            .expect("the first zone starts at 0");
        let near = |one: f64, two: f64| (one - two).abs() < 2.0;
        assert!(
            near(zone.track_skew, real.track_skew) && near(zone.cylinder_skew, real.cylinder_skew),
            "{case}: {zone:?} beside {real:?}"
        );
    }
    let (curve, real) = (SeekCurve::from_profile(&found), truth.mechanism().seek_curve());
    let distances = (0..1_000).map(|number| 1 + number * (real.last_distance() / 1_000));
    let mut off: Vec<f64> = distances
        .map(|distance| (curve.time(distance).as_us_f64() - real.time(distance).as_us_f64()).abs())
        .collect();
    off.sort_by(f64::total_cmp);
    assert!(off[500] < 40.0, "{case}: half of all seeks are off by {} us or more", off[500]);
    let check = finding.check.expect("a finished probe has checked itself");
    assert!(check.reads >= 1_900 && check.within_50_us >= 0.975, "{case}: {check:?}");
    (found, finding)
}

#[test]
fn a_drive_filled_cylinder_by_cylinder_is_found_out() {
    for seed in [1, 2] {
        expect_found_out("deskstar34gxp@nocache", seed);
    }
}

#[test]
fn the_recorded_atlas_with_its_slips_is_found_out_in_less_than_five_minutes() {
    for seed in [1, 2] {
        let (found, finding) = expect_found_out("atlas10k", seed);
        assert!(finding.drive_time < Nanos::from_secs(300), "{}", finding.drive_time);
        let slips: usize =
            catalog::load("atlas10k").unwrap().zones.iter().map(|zone| zone.slips.len()).sum();
        let seen: usize = found.zones.iter().map(|zone| zone.slips.len()).sum();
        assert_eq!(seen, slips, "seed {seed}");
    }
}

#[test]
fn surfaces_that_alternate_over_bands_are_found_out() {
    expect_found_out("cheetah10k7@nocache", 1);
}

#[test]
fn a_20_tb_drive_is_found_out_in_less_than_twenty_minutes() {
    let (found, finding) = expect_found_out("nearline-20tb@nocache", 1);
    assert!(finding.drive_time < Nanos::from_secs(1_200), "{}", finding.drive_time);
    let (layout, real) = (found.geometry, catalog::load("nearline-20tb").unwrap().geometry);
    assert_eq!((layout.layout, layout.band_cylinders), (real.layout, real.band_cylinders));
}

#[test]
fn two_arms_that_differ_are_both_found_out() {
    let profile = draw::with_another_arm(&catalog::load("exos-2x18@nocache").unwrap());
    profile.validate().expect("a drive");
    let truth = DriveTruth::nominal(&profile, 1).unwrap();
    let finding = characterize(&profile, truth.clone(), 1);
    let found = finding.profile.expect("a profile");
    let case = format!("remarks {:?}", finding.remarks);
    assert_eq!(found.capacity(), profile.capacity(), "{case}");
    assert!(finding.drive_time < Nanos::from_secs(1_200), "{case}: {}", finding.drive_time);
    for arm in 0..2 {
        let (found, real) = (found.of_actuator(arm), profile.of_actuator(arm));
        assert_eq!(found.geometry, real.geometry, "arm {arm}, {case}");
        let mut zones = borders(&real);
        zones.retain(|(first, _)| *first < real.capacity().get());
        assert_eq!(borders(&found), zones, "arm {arm}, {case}");
        let alike = tracks_alike(&found, truth.mechanism_of(arm).layout(), 0);
        assert!(alike > 0.995, "arm {arm}, {case}: {alike} of the tracks are the same");
    }
    let half = profile.capacity_per_actuator().get();
    let of_second: Vec<_> =
        finding.zone_checks.iter().filter(|zone| zone.first_lba >= half).collect();
    assert!(of_second.iter().all(|zone| zone.within_50_us >= 0.95), "{case}: {of_second:?}");
    let reads: u64 = of_second.iter().map(|zone| zone.reads).sum();
    assert!(reads >= 1_900, "{case}: {reads} reads of the second arm");
    let check = finding.check.expect("a finished probe has checked itself");
    assert!(check.reads >= 3_800 && check.within_50_us >= 0.975, "{case}: {check:?}");
}

#[test]
fn noise_outliers_and_slips_of_a_simulated_drive_are_tolerated() {
    let profile = catalog::load("atlas10k").unwrap();
    for seed in [1, 2, 3] {
        let truth = DriveTruth::draw(&profile, seed).unwrap();
        let finding = characterize(&profile, truth.clone(), seed);
        let case = format!("atlas10k:drawn:{seed}, remarks {:?}", finding.remarks);
        let found = finding.profile.unwrap_or_else(|| panic!("{case}: no profile"));
        let ppm = (found.rotation_period().unwrap().as_ns_f64()
            / truth.mechanism().period().as_ns_f64()
            - 1.0)
            * 1e6;
        assert!(ppm.abs() < 1.0, "{case}: the period is off by {ppm} ppm");
        let alike = tracks_alike(&found, truth.mechanism().layout(), 2);
        assert!(alike > 0.98, "{case}: {alike} of the tracks begin and end within two sectors");
        // Jitter with a mean of 22 us alone puts 4 % of all completions more than 50 us from their
        // mean.
        let check = finding.check.expect("a finished probe has checked itself");
        assert!(check.within_50_us > 0.88 && check.within_150_us > 0.97, "{case}: {check:?}");
    }
}

/// The profile with a piece in the midst of one of its zones whose cylinders differ in sectors,
/// skews and angles, each from each.
fn with_irregular_piece(profile: &DriveProfile, zone: usize, cylinders: u32) -> DriveProfile {
    let mut made = profile.clone();
    made.capacity_sectors = None;
    let whole = made.zones.remove(zone);
    let band = profile.geometry.band_cylinders.unwrap_or(1);
    let half = whole.cylinders / 2 / band * band;
    let (mut bits, mut first) = (7_u32, whole.first_cylinder);
    let mut any = |most: u32| {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (bits >> 8) % most
    };
    let mut pieces =
        vec![Zone { cylinders: half, spares: 0, spare_cylinders: None, ..whole.clone() }];
    for _ in 0..cylinders {
        let sectors = whole.sectors_per_track * 7 / 10 + any(whole.sectors_per_track / 4);
        let skew = f64::from(sectors / 10 + any(sectors / 3));
        let angle = f64::from(any(1_000)) / 1e3;
        let odd = Zone {
            cylinders: 1,
            sectors_per_track: sectors,
            track_skew: skew,
            cylinder_skew: skew,
            first_angle_turns: Some(angle),
            ..Zone::default()
        };
        pieces.push(Zone { band_skew: whole.band_skew.map(|_| skew), ..odd });
    }
    pieces.push(Zone { cylinders: whole.cylinders - half, first_angle_turns: Some(0.3), ..whole });
    for (place, mut piece) in pieces.into_iter().enumerate() {
        piece.first_cylinder = first;
        first += piece.cylinders;
        made.zones.insert(zone + place, piece);
    }
    for later in &mut made.zones[zone + cylinders as usize + 2..] {
        later.first_cylinder = first;
        first += later.cylinders;
    }
    made
}

#[test]
fn only_the_irregular_part_is_unknown_and_the_layout_resumes_after_it() {
    // In cylinders and in bands; in the first zone and in one further in.
    for (name, zone) in
        [("maxtor-20gb@nocache", 4), ("savvio10k2@nocache", 0), ("savvio10k2@nocache", 3)]
    {
        let profile = with_irregular_piece(&catalog::load(name).unwrap(), zone, 60);
        let truth = DriveTruth::nominal(&profile, 1).unwrap();
        let finding = characterize(&profile, truth.clone(), 1);
        let case = format!("{name}, zone {zone}, remarks {:?}", finding.remarks);
        let layout = truth.mechanism().layout();
        let zones: Vec<_> = layout.zones().collect();
        let (from, to) = (zones[zone + 1].extent.start.get(), zones[zone + 60].extent.end().get());
        let lost = finding.remarks.iter().filter(|remark| remark.contains("no known pattern"));
        let ranges: Vec<(u64, u64)> = lost
            .map(|remark| {
                let numbers: Vec<u64> =
                    remark.split(' ').filter_map(|word| word.parse().ok()).collect();
                (numbers[0], numbers[1])
            })
            .collect();
        assert!(!ranges.is_empty(), "{case}");
        let track = u64::from(profile.zones[0].sectors_per_track);
        for (first, last) in ranges {
            assert!(
                first + 8 * track >= from && last <= to + 8 * track,
                "{case}: lost {first} to {last}, irregular are {from} to {to}"
            );
        }
        assert!(finding.verdict.is_characterized(), "{case}: {:?}", finding.verdict);
        let share = (to - from) as f64 / profile.capacity().get() as f64;
        let alike = tracks_alike(
            finding.profile.as_ref().expect("a profile"),
            truth.mechanism().layout(),
            0,
        );
        assert!(
            alike > 0.99 - share,
            "{case}: {alike} of the tracks begin and end with the same sectors, {share} are \
                irregular"
        );
        let check = finding.check.expect("a check");
        assert!(check.within_50_us >= 0.975 - share, "{case}: {check:?}");
    }
}

#[test]
fn a_saved_probe_resumes_after_hours() {
    let profile = catalog::load("deskstar34gxp@nocache").unwrap();
    let truth = DriveTruth::nominal(&profile, 4).unwrap();
    let (mut probe, mut bench) = (Probe::new(settings(&profile, 4)), Bench::new(truth.clone()));
    for stage in [Stage::Layout, Stage::Seek] {
        while probe.stage() != stage || probe.progress() < 0.05 {
            assert!(bench.step(&mut probe), "the probe was through before {stage:?}");
        }
        (0..100).for_each(|_| assert!(bench.step(&mut probe)));
        let text = serde_json::to_string(&probe).unwrap();
        let read: Probe = serde_json::from_str(&text).unwrap();
        assert_eq!(read.stage(), stage);
        probe = Probe::resume(read);
        // So long the phase cannot be predicted.
        bench.wait_until(bench.now() + Nanos::from_secs(7_201));
    }
    let finding = bench.run(&mut probe);
    let found = finding.profile.expect("a profile");
    assert_eq!(borders(&found), borders(&profile), "{:?}", finding.remarks);
    let check = finding.check.expect("a check");
    assert!(
        tracks_alike(&found, truth.mechanism().layout(), 0) > 0.995 && check.within_50_us >= 0.975,
        "{check:?} {:?}",
        finding.remarks
    );
}

#[test]
fn reads_that_fail_now_and_then_are_tried_elsewhere() {
    let profile = catalog::load("deskstar34gxp@nocache").unwrap();
    let truth = DriveTruth::nominal(&profile, 5).unwrap();
    let (mut probe, mut bench) = (Probe::new(settings(&profile, 5)), Bench::new(truth.clone()));
    let mut reads = 0;
    while bench.step_with(
        &mut probe,
        if reads % 211 == 210 { CommandOutcome::Failed } else { CommandOutcome::Done },
    ) {
        reads += 1;
    }
    let finding = probe.finding();
    assert!(finding.failures > 20);
    let found = finding.profile.expect("a profile");
    assert!(tracks_alike(&found, truth.mechanism().layout(), 0) > 0.99, "{:?}", finding.remarks);
}

#[test]
fn the_same_seed_makes_the_same_requests_and_progress_never_falls() {
    let profile = catalog::load("maxtor-20gb@nocache").unwrap();
    let measurements = |seed: u64| {
        let (mut probe, mut bench) = (
            Probe::new(settings(&profile, seed)),
            Bench::new(DriveTruth::nominal(&profile, 1).unwrap()),
        );
        let (mut measurements, mut progress) = (Vec::new(), 0.0);
        for _ in 0..3_000 {
            measurements.extend(probe.next_measurement());
            assert!(bench.step(&mut probe) && probe.progress() >= progress);
            progress = probe.progress();
        }
        measurements
    };
    let one = measurements(1);
    assert_eq!(one, measurements(1));
    assert_ne!(one, measurements(2));
    let end = profile.capacity().get();
    assert!(one.iter().all(|measurement| matches!(
        measurement,
        Measurement::Read { extent, .. } if extent.end().get() <= end
    )));
}

#[test]
fn a_device_with_random_times_is_reported_as_no_rotating_drive() {
    let profile = catalog::load("atlas10k").unwrap();
    let mut probe = Probe::new(settings(&profile, 1));
    let (mut now, mut bits) = (Instant::ORIGIN, 1_u64);
    while let Some(Measurement::Read { not_before, .. }) = probe.next_measurement() {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let issued = now.max(not_before);
        now = issued + Nanos::from_ns(200_000 + (bits >> 33) % 9_000_000);
        probe.completed(issued, now, CommandOutcome::Done);
    }
    let finding = probe.finding();
    assert!(finding.profile.is_none(), "{finding:?}");
    assert!(
        finding.remarks.iter().any(|remark| remark.contains("no rotating drive")),
        "{:?}",
        finding.remarks
    );
}
