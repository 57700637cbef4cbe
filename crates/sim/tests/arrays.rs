//! Drives with two arms, arrays, and physical sectors larger than logical ones.

mod common;

use headtime_mechanics::profile::Algorithm;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_sim::{
    ArrayOptions, Device, DriveCompletion, DriveTruth, Raid0, SimulatedDrive, StorageLayer,
};
use headtime_testkit::drives::random_drive;
use headtime_testkit::faults::{FaultPlan, FaultyDrive};
use headtime_units::{Extent, Instant, Nanos, Sectors};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use common::{command, per_second, serve, stream};

fn atlas() -> DriveProfile {
    let mut profile = catalog::load("atlas10k").expect("it ships");
    profile.cache = None;
    profile.firmware.algorithm = Algorithm::Fcfs;
    profile.firmware.queue_depth = 256;
    profile
}

/// The same drive with a second arm of the same size.
fn with_two_arms(mut profile: DriveProfile) -> DriveProfile {
    profile.geometry.actuators = Some(2);
    profile.capacity_sectors = profile.capacity_sectors.map(|sectors| sectors * 2);
    profile
}

fn nominal(profile: &DriveProfile) -> SimulatedDrive {
    SimulatedDrive::new(DriveTruth::nominal(profile, 1).expect("valid")).expect("valid")
}

/// Random reads of 8 sectors per second.
fn random_iops(device: &mut impl Device, depth: usize) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let capacity = device.capacity().get() - 8;
    per_second(
        &serve(
            device,
            Instant::ORIGIN,
            vec![stream(depth, |id| command(id, Op::Read, rng.random_range(0..capacity), 8))],
            6_000,
        )[0],
    )
}

#[test]
fn two_arms_serve_about_twice_as_many_random_reads_as_one() {
    for (algorithm, least) in [(Algorithm::Fcfs, 1.85), (Algorithm::Sptf, 1.6)] {
        let mut one = atlas();
        one.firmware.algorithm = algorithm;
        let two = with_two_arms(one.clone());
        let (single, double) =
            (random_iops(&mut nominal(&one), 32), random_iops(&mut nominal(&two), 32));
        println!(
            "{algorithm:?}: one arm {single:.0}, two arms {double:.0}, {:.2} times",
            double / single
        );
        assert!(
            double / single > least && double / single < 2.05,
            "{algorithm:?}: {single} and {double}"
        );
    }
}

#[test]
fn a_command_that_lies_on_both_arms_is_one_command() {
    let profile = with_two_arms(atlas());
    let mut drive = nominal(&profile);
    drive.record_landings();
    let half = drive.capacity().get() / 2;
    assert_eq!(half, nominal(&atlas()).capacity().get());
    let served = serve(
        &mut drive,
        Instant::ORIGIN,
        vec![stream(1, |id| command(id, Op::Write, half - 3, 8))],
        1,
    );
    let landings = drive.take_landings();
    let extents: Vec<Extent> = landings.iter().map(|landing| landing.extent).collect();
    assert_eq!(extents, [Extent::from_numbers(half - 3, 3), Extent::from_numbers(half, 5)]);
    assert!(
        served[0][0].completion.finished
            >= landings.iter().map(|landing| landing.at).max().expect("two")
    );
    assert_eq!(served[0][0].completion.breakdown.total(), served[0][0].service());
    let end = served[0][0].completion.finished;
    assert_eq!(drive.disk_time(end).total(), end.saturating_since(Instant::ORIGIN) * 2);

    // A command given up while both parts wait never starts.
    drive.submit(end, &command(7, Op::Write, 0, 8));
    drive.submit(end, &command(8, Op::Write, half, 8));
    drive.submit(end, &command(9, Op::Write, half - 3, 8));
    drive.abort(end, CommandId(9));
    let mut reports = Vec::new();
    drive.advance(end + Nanos::from_secs(1), &mut reports);
    assert_eq!(reports.len(), 2);
    assert!(drive.take_landings().iter().all(|landing| landing.command != Some(CommandId(9))));
    assert_eq!(drive.held(), 0);
}

#[test]
fn a_write_of_a_part_of_a_physical_sector_costs_a_revolution() {
    let mut profile = catalog::load("nearline-20tb").expect("it ships");
    (profile.sector_bytes, profile.physical_sector_bytes, profile.cache) = (512, Some(4_096), None);
    profile.firmware.zero_latency_write = false;
    profile.firmware.zero_latency_read = false;
    let turn = profile.rotation_period().expect("valid").as_ns_f64() / 1e6;
    let mean = |start: u64, len: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let sectors = profile.capacity().get() / 8 - 100;
        let writer =
            stream(1, |id| command(id, Op::Write, rng.random_range(0..sectors) * 8 + start, len));
        common::mean_ms(&serve(&mut nominal(&profile), Instant::ORIGIN, vec![writer], 1_500)[0])
    };
    let aligned = mean(0, 16);
    for (start, len, whole) in [(3, 8, false), (0, 15, false), (1, 15, false), (8, 8, true)] {
        let more = mean(start, len) - aligned;
        let expected = if whole { 0.0 } else { turn };
        // The write settle overlaps the revolution, and the head reads past two physical sectors at
        // most.
        assert!(
            (more - expected).abs() < 0.35,
            "{start}–{}: {more} ms more, a turn takes {turn} ms",
            start + len
        );
    }
}

#[test]
fn twelve_drives_serve_about_twelve_times_as_many_random_reads() {
    let profile = atlas();
    let options =
        ArrayOptions { stripe: Sectors::new(256), queue_depth: 512, controller_mb_per_s: None };
    let mut array = Raid0::of_model(&profile, 12, 3, DriveTruth::draw, options).expect("valid");
    let (single, twelve) = (random_iops(&mut nominal(&profile), 32), random_iops(&mut array, 384));
    println!("one drive {single:.0}, twelve {twelve:.0}: {:.1} times", twelve / single);
    assert!((10.0..12.5).contains(&(twelve / single)), "{single} and {twelve}");
}

#[test]
fn the_controllers_limit_bounds_what_an_array_streams() {
    let profile = atlas();
    let mb_per_s = |limit| {
        let options =
            ArrayOptions { stripe: Sectors::new(256), queue_depth: 64, controller_mb_per_s: limit };
        let mut array =
            Raid0::of_model(&profile, 12, 3, DriveTruth::nominal, options).expect("valid");
        let reader = stream(8, |id| command(id, Op::Read, id * 6_144, 6_144));
        per_second(&serve(&mut array, Instant::ORIGIN, vec![reader], 400)[0]) * 6_144.0 * 512.0
            / 1e6
    };
    let (free, limited) = (mb_per_s(None), mb_per_s(Some(50.0)));
    assert!(free > 100.0, "{free} MB/s without a limit");
    assert!((limited / 50.0 - 1.0).abs() < 0.02, "{limited} MB/s with a limit of 50");
}

#[test]
fn a_flush_reaches_every_member_and_an_aborted_command_none() {
    let options =
        ArrayOptions { stripe: Sectors::new(8), queue_depth: 4, controller_mb_per_s: Some(100.0) };
    let mut profile = atlas();
    profile.firmware.queue_depth = 1;
    let mut array = Raid0::of_model(&profile, 3, 3, DriveTruth::nominal, options).expect("valid");
    array.submit(Instant::ORIGIN, &command(0, Op::Write, 0, 24));
    array.submit(Instant::ORIGIN, &command(1, Op::Flush, 0, 0));
    array.submit(Instant::ORIGIN, &command(2, Op::Write, 400, 24));
    array.abort(Instant::from_ns(1_000), CommandId(2));
    let mut reports: Vec<DriveCompletion> = Vec::new();
    while let Some(at) = array.next_event() {
        array.advance(at, &mut reports);
    }
    assert_eq!(
        reports.iter().map(|report| report.command.0).collect::<Vec<_>>(),
        [0, 1],
        "members hold one command: the flush comes behind the write"
    );
    assert!(array.members().all(|member| member.held() == 0));
    let end = reports[1].finished;
    assert_eq!(array.disk_time(end).total(), end.saturating_since(Instant::ORIGIN) * 3);
}

#[test]
fn an_error_of_one_member_is_an_error_of_the_array() {
    let profile = atlas();
    let options =
        ArrayOptions { stripe: Sectors::new(8), queue_depth: 4, controller_mb_per_s: None };
    let members = (0..3).map(|number| {
        let plan =
            FaultPlan { error_share: if number == 1 { 1.0 } else { 0.0 }, ..FaultPlan::default() };
        FaultyDrive::new(nominal(&profile), plan, number)
    });
    let mut array = Raid0::new(members.collect(), profile.sector_bytes, options);
    let served = serve(
        &mut array,
        Instant::ORIGIN,
        vec![stream(1, |id| command(id, Op::Read, id * 8, 8))],
        3,
    );
    let outcomes: Vec<bool> =
        served[0].iter().map(|served| served.completion.outcome == Outcome::Success).collect();
    assert_eq!(outcomes, [true, false, true]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 64,
        ..ProptestConfig::default()
    })]

    /// Each command is reported once, late advances move nothing, and every sector is written on
    /// the member that striping defines.
    #[test]
    fn an_array_keeps_time_and_sectors(seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let profile = random_drive(&mut rng);
        let stripe = rng.random_range(1..=profile.capacity().get().min(20));
        let controller_mb_per_s = rng.random_bool(0.5).then(|| rng.random_range(0.5..50.0));
        let stripe = Sectors::new(stripe);
        let options = ArrayOptions { stripe, queue_depth: 64, controller_mb_per_s };
        let count = rng.random_range(1..5);
        let array = Raid0::of_model(&profile, count, seed, DriveTruth::draw, options)
            .expect("drawn profiles are valid");
        let capacity = array.capacity().get();
        let mut at = Instant::ORIGIN;
        let commands: Vec<(Instant, Command)> = (0..40).map(|id| {
            at += Nanos::from_ns(rng.next_u64() % 20_000_000);
            let op = Op::ALL[rng.random_range(0..5)];
            let start = rng.random_range(0..capacity);
            let max = (capacity - start).min(60);
            let len = if op == Op::Flush { 0 } else { rng.random_range(1..=max) };
            (at, command(id, op, start, len))
        }).collect();
        let run = |late: bool| {
            let mut array = array.clone();
            let mut reports = Vec::new();
            for (index, (at, command)) in commands.iter().enumerate() {
                array.submit(*at, command);
                let end = Instant::from_ns(200_000_000_000);
                let until = commands.get(index + 1).map_or(end, |next| next.0);
                while let Some(at) = array.next_event().filter(|at| *at < until && !late) {
                    array.advance(at, &mut reports);
                }
            }
            array.advance(Instant::from_ns(200_000_000_000), &mut reports);
            (reports, array.disk_time(Instant::from_ns(200_000_000_000)))
        };
        let (prompt, late) = (run(false), run(true));
        prop_assert_eq!(&prompt, &late, "seed {}", seed);
        prop_assert_eq!(prompt.0.len(), 40);
        prop_assert!(prompt.0.is_sorted_by_key(|report| report.finished));
        prop_assert_eq!(prompt.1.total(), Nanos::from_secs(200) * array.arms() as u64);
    }
}

#[test]
fn what_one_arm_reads_ahead_the_other_does_not_disturb() {
    let mut profile = with_two_arms(atlas());
    profile.cache = Some(headtime_mechanics::profile::Cache {
        segments: 8,
        segment_sectors: 374,
        read_ahead_sectors: 354,
        read_hit_us: 100.0,
        ..Default::default()
    });
    let half = nominal(&profile).capacity().get() / 2;
    let rate = |with_other: bool| {
        let mut drive = nominal(&profile);
        drive.record_landings();
        let mut next = 0;
        let sequential = stream(1, move |id| {
            next += 64;
            command(id, Op::Read, next - 64, 64)
        });
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let random = stream(usize::from(with_other), move |id| {
            command(id, Op::Read, half + rng.random_range(0..half - 8), 8)
        });
        let served = serve(&mut drive, Instant::ORIGIN, vec![sequential, random], 3_000);
        assert!(drive.take_landings().iter().any(|landing| landing.layer == StorageLayer::Cache));
        per_second(&served[0])
    };
    let (alone, beside) = (rate(false), rate(true));
    // They share the bus.
    assert!((beside / alone - 1.0).abs() < 0.03, "{alone} and {beside} reads a second");
}
