//! The simulated drive by itself: costs, overlaps, and independence from the times of the calls.

mod common;

use common::command;
use headtime_mechanics::profile::Algorithm;
use headtime_mechanics::{Direction, DriveProfile, HeadPosition, InterfaceTimes, catalog, draw};
use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_sim::{Device, DiskTime, DriveCompletion, DriveTruth, SimulatedDrive};
use headtime_testkit::drives::random_drive;
use headtime_units::{Extent, Instant, Nanos};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn nominal(profile: &DriveProfile) -> SimulatedDrive {
    SimulatedDrive::new(DriveTruth::nominal(profile, 1).expect("a valid profile"))
        .expect("a valid profile")
}

/// Advances from event to event until nothing is in progress.
fn finish(drive: &mut SimulatedDrive) -> Vec<DriveCompletion> {
    let mut reports = Vec::new();
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut reports);
    }
    reports
}

#[test]
fn a_single_read_costs_overhead_access_bus_and_completion() {
    for entry in catalog::CATALOG {
        let profile = entry.load().unwrap();
        let truth = DriveTruth::nominal(&profile, 1).unwrap();
        let interface = InterfaceTimes::from_profile(&profile).unwrap();
        let mut drive = nominal(&profile);
        let sent = Instant::from_ns(77_000_123);
        drive.submit(sent, &command(0, Op::Read, 5_000_000, 8));
        let report = finish(&mut drive)[0];

        let ready = sent + interface.command_overhead(Direction::Read, None);
        let extent = Extent::from_numbers(5_000_000, 8);
        let access = truth.mechanism().access(
            HeadPosition::PARKED,
            ready,
            Direction::Read,
            extent,
            Instant::ORIGIN,
        );
        let expected = interface.read_completed(
            access.first_sector,
            access.finish,
            extent.len,
            Instant::ORIGIN,
        );
        assert_eq!(report.finished, expected, "{}", profile.name);
        assert_eq!(
            (report.breakdown.seek, report.breakdown.rotate, report.breakdown.transfer),
            (access.seek, access.rotate, access.transfer)
        );
        assert_eq!(report.breakdown.total(), report.finished.saturating_since(sent));
        assert_eq!(report.breakdown.waited, Nanos::ZERO);
    }
}

#[test]
fn readings_of_disk_time_never_run_back_however_late_the_drive_is_advanced() {
    let mut drive = nominal(&catalog::load("atlas10k").unwrap());
    let mut before = DiskTime::default();
    let mut reports = Vec::new();
    for step in 0..400_u64 {
        let now = Instant::from_ns(step * 1_100_000);
        if step % 7 == 0 && drive.held() < 4 {
            drive.submit(now, &command(step, Op::Read, step * 40_000, 8));
        }
        // Read before the due events are processed, as a live view does.
        let reading = drive.disk_time(now);
        let spent = reading.since(&before);
        assert!(spent.total() <= now.saturating_since(Instant::ORIGIN));
        before = reading;
        if step % 5 == 0 {
            drive.advance(now, &mut reports);
        }
    }
    assert!(reports.len() > 40);
}

#[test]
fn the_overhead_of_the_second_command_overlaps_the_access_of_the_first() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.firmware.algorithm = Algorithm::Fcfs;
    let (first, second) = (command(0, Op::Read, 9_000_000, 8), command(1, Op::Read, 100, 8));
    let mut together = nominal(&profile);
    together.submit(Instant::ORIGIN, &first);
    together.submit(Instant::from_ns(1_000_000), &second);
    let reports = finish(&mut together);
    let end = reports[1].finished;
    let media = |report: &DriveCompletion| {
        report.breakdown.seek + report.breakdown.rotate + report.breakdown.transfer
    };
    let overhead = together.disk_time(end).overhead;
    // Only the first command's overhead and the last command's bus time are visible.
    let interface = InterfaceTimes::from_profile(&profile).unwrap();
    let bus = interface.bus_time(headtime_units::Sectors::new(1)) + interface.completion_overhead();
    assert_eq!(overhead, interface.command_overhead(Direction::Read, None) + bus);
    assert_eq!(
        end.saturating_since(Instant::ORIGIN),
        overhead + media(&reports[0]) + media(&reports[1])
    );
}

#[test]
fn zeroes_need_no_bus_and_discards_and_flushes_no_head() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.interface.bus_mb_per_s = 0.1;
    let service = |op, len| {
        let mut drive = nominal(&profile);
        drive.submit(Instant::ORIGIN, &command(0, op, 1_000_000, len));
        finish(&mut drive)[0].breakdown
    };
    let (write, zero) = (service(Op::Write, 64), service(Op::Zero, 64));
    assert!(
        write.total() > zero.total() + Nanos::from_ms(200),
        "64 sectors take 328 ms over this bus: {write:?}, {zero:?}"
    );
    for op in [Op::Discard, Op::Flush] {
        let breakdown = service(op, if op == Op::Flush { 0 } else { 64 });
        assert_eq!(breakdown.total(), breakdown.overhead);
        assert!(breakdown.total() < Nanos::from_ms(1));
    }
}

#[test]
#[should_panic(expected = "one more than the drive holds")]
fn one_command_more_than_the_drive_holds_is_the_callers_fault() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.firmware.queue_depth = 2;
    let mut drive = nominal(&profile);
    (0..3).for_each(|id| drive.submit(Instant::ORIGIN, &command(id, Op::Read, 8 * id, 8)));
}

#[test]
fn a_command_given_up_while_it_waits_never_runs_and_frees_its_place() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.firmware.queue_depth = 2;
    let mut drive = nominal(&profile);
    drive.record_landings();
    drive.submit(Instant::ORIGIN, &command(0, Op::Read, 9_000_000, 8));
    drive.submit(Instant::from_ns(1_000_000), &command(1, Op::Read, 0, 8));
    drive.abort(Instant::from_ns(2_000_000), CommandId(1));
    drive.submit(Instant::from_ns(2_000_000), &command(2, Op::Read, 16, 8));
    let reports = finish(&mut drive);
    assert_eq!(reports.iter().map(|report| report.command.0).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(
        drive
            .take_landings()
            .iter()
            .map(|landing| landing.command.map(|command| command.0))
            .collect::<Vec<_>>(),
        [Some(0), Some(2)]
    );
    assert_eq!(drive.held(), 0);
}

#[test]
fn a_command_given_up_at_the_media_runs_to_its_end_unreported() {
    let profile = catalog::load("atlas10k").unwrap();
    let mut drive = nominal(&profile);
    drive.record_landings();
    drive.submit(Instant::ORIGIN, &command(0, Op::Write, 9_000_000, 8));
    drive.abort(Instant::from_ns(1_000_000), CommandId(0));
    assert!(finish(&mut drive).is_empty());
    assert_eq!(drive.take_landings().len(), 1);
}

#[test]
fn jitter_makes_reports_late_never_early_and_moves_nothing_else() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.variation.outlier_share = 0.0;
    let sends: Vec<(Instant, Command)> = (0..2_000)
        .map(|id| {
            (
                Instant::from_ns(id * 12_000_000),
                command(id, Op::Read, id * 7_919 % 17_000 * 1_000, 8),
            )
        })
        .collect();
    let serve = |jitter_us| {
        profile.variation.jitter_us = jitter_us;
        let mut drive = SimulatedDrive::new(DriveTruth::draw(&profile, 3).unwrap()).unwrap();
        drive.record_landings();
        let mut reports = Vec::new();
        for (at, command) in &sends {
            drive.advance(*at, &mut reports);
            drive.submit(*at, command);
        }
        reports.extend(finish(&mut drive));
        (reports, drive.take_landings())
    };
    let mut serve = serve;
    let ((exact, exact_landings), (noisy, noisy_landings)) = (serve(0.0), serve(50.0));
    assert_eq!(exact_landings, noisy_landings);
    assert!(noisy.is_sorted_by_key(|report| report.finished));
    let delays: Vec<f64> = exact
        .iter()
        .zip(&noisy)
        .map(|(exact, noisy)| {
            assert_eq!((exact.command, exact.breakdown), (noisy.command, noisy.breakdown));
            noisy
                .finished
                .checked_since(exact.finished)
                .expect("no report comes before its completion")
                .as_us_f64()
        })
        .collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!((mean - 50.0).abs() < 5.0, "mean delay {mean} us");
}

#[test]
fn outliers_are_as_frequent_and_as_long_as_the_profile_says() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.variation.jitter_us = 0.0;
    (profile.variation.outlier_share, profile.variation.outlier_ms) = (0.05, 200.0);
    let mut drive = SimulatedDrive::new(DriveTruth::draw(&profile, 3).unwrap()).unwrap();
    let mut late = 0;
    for id in 0..2_000_u64 {
        drive.submit(
            Instant::from_ns(id * 300_000_000),
            &command(id, Op::Read, id * 7_919 % 17_000 * 1_000, 8),
        );
        late += u32::from(finish(&mut drive)[0].breakdown.total() >= Nanos::from_ms(200));
    }
    assert!((70..=130).contains(&late), "{late} of 2,000 are outliers, expected about 100");
}

/// Random commands on a small drive with their submission times; some are sequential, some force
/// the media.
fn random_load(
    seed: u64,
    mut profile: DriveProfile,
    rng: &mut ChaCha8Rng,
) -> (DriveProfile, DriveTruth, Vec<(Instant, Command)>) {
    profile.firmware.queue_depth = 64;
    let truth = DriveTruth::draw(&profile, seed).expect("drawn profiles are valid");
    let capacity =
        SimulatedDrive::new(truth.clone()).expect("drawn profiles are valid").capacity().get();
    let mut at = Instant::ORIGIN;
    let mut next = 0;
    let commands = (0..60).map(|id| {
        at += Nanos::from_ns(rng.next_u64() % 20_000_000);
        let op = Op::ALL[rng.random_range(0..5)];
        let start = if next < capacity && rng.random_bool(0.3) {
            next
        } else {
            rng.random_range(0..capacity)
        };
        let len =
            if op == Op::Flush { 0 } else { rng.random_range(1..=(capacity - start).min(30)) };
        next = start + len;
        let fua = op == Op::Write && rng.random_bool(0.3);
        (at, Command { fua, ..command(id, op, start, len) })
    });
    let commands = commands.collect();
    (profile, truth, commands)
}

/// Sends each command at its time and also advances at the times of `wakes`; returns all reports
/// and the accounted time.
fn serve(
    truth: &DriveTruth,
    commands: &[(Instant, Command)],
    mut wakes: impl FnMut(&SimulatedDrive, Instant) -> Vec<Instant>,
) -> (Vec<DriveCompletion>, DiskTime) {
    let mut drive = SimulatedDrive::new(truth.clone()).expect("drawn profiles are valid");
    let mut reports = Vec::new();
    let end = Instant::from_ns(120_000_000_000);
    for (index, (at, command)) in commands.iter().enumerate() {
        drive.submit(*at, command);
        let until = commands.get(index + 1).map_or(end, |next| next.0);
        for wake in wakes(&drive, until) {
            drive.advance(wake, &mut reports);
        }
    }
    drive.advance(end, &mut reports);
    (reports, drive.disk_time(end))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_late_wake_up_moves_nothing_but_itself(seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let profile = random_drive(&mut rng);
        let (_, truth, commands) = random_load(seed, profile, &mut rng);
        let never = serve(&truth, &commands, |_, _| Vec::new());
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // At every event until the next submission, or at a random later time.
        let promptly = serve(&truth, &commands, |drive, until| {
            let mut ahead = drive.clone();
            std::iter::from_fn(|| {
                let at = ahead.next_event().filter(|at| *at <= until)?;
                ahead.advance(at, &mut Vec::new());
                Some(at)
            })
            .collect()
        });
        let late = serve(&truth, &commands, |drive, until| {
            let next = drive.next_event().filter(|at| *at < until);
            next.map(|at| Instant::from_ns(rng.random_range(at.as_ns()..=until.as_ns())))
                .into_iter()
                .collect()
        });
        prop_assert_eq!(&never, &promptly);
        prop_assert_eq!(&never, &late);
        prop_assert_eq!(never.0.len(), commands.len());
        prop_assert_eq!(never.1.total(), Nanos::from_secs(120) * truth.arms() as u64);
    }

    #[test]
    fn on_any_drive_every_command_is_reported_once_and_its_parts_add_up(seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut profile = random_drive(&mut rng);
        profile.variation.jitter_us = 0.0;
        let (_, truth, commands) = random_load(seed, profile, &mut rng);
        let (reports, _) = serve(&truth, &commands, |_, _| Vec::new());
        let mut ids: Vec<u64> = reports.iter().map(|report| report.command.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..60).collect::<Vec<_>>());
        for report in &reports {
            let service = report.finished.saturating_since(commands[report.command.0 as usize].0);
            prop_assert_eq!(report.breakdown.total(), service, "{:?}", report);
        }
    }

    #[test]
    fn every_command_is_reported_once_in_order_and_its_parts_add_up(seed in any::<u64>()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drawn = draw::random_profile(&mut rng);
        let (profile, truth, commands) = random_load(seed, drawn, &mut rng);
        let (reports, disk_time) = serve(&truth, &commands, |_, _| Vec::new());
        prop_assert!(reports.is_sorted_by_key(|report| report.finished));
        let mut ids: Vec<u64> = reports.iter().map(|report| report.command.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..60).collect::<Vec<_>>());
        for report in &reports {
            let sent = commands[report.command.0 as usize].0;
            prop_assert_eq!(report.outcome, Outcome::Success);
            let service = report.finished.saturating_since(sent);
            let parts = report.breakdown;
            prop_assert!(parts.total() <= service, "{:?} in {}", parts, service);
            if profile.variation.jitter_us == 0.0 {
                prop_assert_eq!(report.breakdown.total(), service);
            }
        }
        // The drive accounts for what the commands cost the mechanism.
        let sum = |part: fn(&DriveCompletion) -> Nanos| reports.iter().map(part).sum::<Nanos>();
        prop_assert_eq!(disk_time.seek, sum(|report| report.breakdown.seek));
        prop_assert_eq!(disk_time.rotate, sum(|report| report.breakdown.rotate));
        prop_assert_eq!(disk_time.transfer, sum(|report| report.breakdown.transfer));
    }
}
