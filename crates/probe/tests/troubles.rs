//! What goes wrong meanwhile: devices that do not turn, drives that vanish or are replaced, reads
//! that fail, interruptions; and what writing is allowed to do.

mod common;

use common::wall::Case;
use common::{Bench, settings};
use headtime_mechanics::{catalog, draw};
use headtime_probe::{
    BatchCommand, CommandKind, CommandOutcome, Finding, Measurement, Probe, ProbeSettings, Stage,
    TimedCommand, Verdict,
};
use headtime_sim::DriveTruth;
use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// A quick case whose layout is found without trouble.
const QUICK: &str = "random-1:nominal:1";

/// Answers everything with times of the caller's making, one command at a time.
fn finding_of(
    settings: ProbeSettings,
    mut took: impl FnMut(&BatchCommand) -> (Nanos, CommandOutcome),
) -> Finding {
    let (mut probe, mut now) = (Probe::new(settings), Instant::ORIGIN);
    let mut asks = 0;
    while let Some(mut batch) = probe.next_batch() {
        while !batch.is_over() {
            now = now.max(batch.not_before());
            let Some(issue) = batch.next(now) else { break };
            let (time, outcome) = took(&issue);
            now += time;
            batch.completed(issue.id, now, outcome);
        }
        probe.batch_completed(batch.into_results());
        asks += 1;
        assert!(asks < 100_000, "it never ends");
    }
    probe.finding()
}

fn any_settings() -> ProbeSettings {
    ProbeSettings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1)
}

#[test]
fn the_verdict_on_flash_memory_and_networks_names_them() {
    let mut bits = 1_u64;
    let mut random = move || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bits >> 33
    };
    let flash =
        finding_of(any_settings(), |_| (Nanos::from_us(70 + random() % 30), CommandOutcome::Done));
    let slow = finding_of(any_settings(), |_| (Nanos::from_ms(5), CommandOutcome::Done));
    let network = finding_of(any_settings(), |_| {
        (Nanos::from_us(300 + random() % 9_000), CommandOutcome::Done)
    });
    for (finding, sign) in [(&flash, "flash"), (&slow, "speed limit"), (&network, "network")] {
        assert!(
            matches!(finding.verdict, Verdict::NoRotatingDrive { .. }),
            "{:?}",
            finding.verdict
        );
        let sentence = finding.verdict.sentence();
        assert!(sentence.contains("no rotating drive") && sentence.contains(sign), "{sentence}");
        assert!(finding.profile.is_none() && finding.remarks.contains(&sentence));
    }
}

#[test]
fn a_drive_that_never_answers_is_gone() {
    let finding = finding_of(any_settings(), |_| (Nanos::from_ms(20), CommandOutcome::Failed));
    assert!(matches!(finding.verdict, Verdict::Gone { .. }), "{:?}", finding.verdict);
    assert!(finding.reads < 200 && finding.failures == finding.reads);
}

#[test]
fn a_drive_that_vanishes_stops_the_characterization_soon() {
    let case = Case::parse(QUICK);
    for stage in [Stage::Layout, Stage::Seek, Stage::SelfCheck] {
        let (mut probe, mut bench) =
            (Probe::new(settings(&case.profile, 1)), Bench::new(case.truth.clone()));
        while probe.stage() != stage {
            assert!(bench.step(&mut probe));
        }
        let mut asks = 0;
        while bench.step_with(&mut probe, CommandOutcome::Failed) {
            asks += 1;
            assert!(asks < 500, "{stage:?}: it goes on though nothing answers");
        }
        let finding = probe.finding();
        assert!(
            matches!(finding.verdict, Verdict::Gone { .. }),
            "{stage:?}: {:?}",
            finding.verdict
        );
        assert_eq!(probe.stage(), Stage::Done);
    }
}

#[test]
fn another_drive_in_its_place_is_noticed() {
    let case = Case::parse(QUICK);
    // One that turns otherwise, by the angles of the anchor; one that turns alike, by the
    // self-check.
    let mut faster = case.profile.clone();
    faster.rotation.rpm = faster.rotation.rpm.map(|rpm| rpm * 1.01);
    let mut denser = case.profile.clone();
    for zone in &mut denser.zones {
        zone.sectors_per_track = zone.sectors_per_track * 11 / 10;
    }
    for (profile, stage) in [(faster, Stage::Seek), (denser, Stage::SelfCheck)] {
        let (mut probe, mut bench) =
            (Probe::new(settings(&case.profile, 1)), Bench::new(case.truth.clone()));
        while probe.stage() != stage {
            assert!(bench.step(&mut probe));
        }
        let mut other = Bench::new(DriveTruth::nominal(&profile, 2).unwrap());
        other.wait_until(bench.now());
        let finding = other.run(&mut probe);
        let noticed =
            matches!(finding.verdict, Verdict::Replaced { .. } | Verdict::Doubtful { .. });
        assert!(noticed, "from {stage:?} on: {:?}", finding.verdict);
        if stage == Stage::SelfCheck {
            assert!(
                finding.verdict.sentence().contains("address order"),
                "{}",
                finding.verdict.sentence()
            );
        }
    }
}

#[test]
fn it_is_saved_in_every_stage_and_resumes_with_another_clock() {
    let case = Case::parse(QUICK);
    let capacity = case.profile.capacity();
    let (mut probe, mut bench) = (
        Probe::new(ProbeSettings { allow_writes: true, ..settings(&case.profile, 1) }),
        Bench::new(case.truth.clone()),
    );
    let mut last = probe.stage();
    let mut stages = 0;
    while bench.step(&mut probe) {
        if probe.stage() == last || matches!(probe.stage(), Stage::Phase(_) | Stage::Done) {
            continue;
        }
        // A few steps into each stage, so that something is lost.
        last = probe.stage();
        stages += 1;
        for _ in 0..3 {
            bench.step(&mut probe);
        }
        let text = probe.save("a drive");
        probe = Probe::load(&text, "a drive", capacity, case.profile.sector_bytes)
            .unwrap_or_else(|error| panic!("{last:?}: {error}"));
        bench.wait_until(bench.now() + Nanos::from_secs(3_601));
    }
    assert!(stages >= 8, "{stages} stages were interrupted");
    let finding = probe.finding();
    assert!(finding.verdict.is_characterized(), "{:?} {:?}", finding.verdict, finding.remarks);
    assert!(finding.writes > 50);
}

#[test]
fn nothing_is_written_unless_allowed_and_then_only_what_was_read_just_before() {
    let case = Case::parse(QUICK);
    for allow_writes in [false, true] {
        let (mut probe, mut bench) = (
            Probe::new(ProbeSettings { allow_writes, ..settings(&case.profile, 1) }),
            Bench::new(case.truth.clone()),
        );
        let mut writes = 0;
        while let Some(batch) = probe.next_batch() {
            let kept = std::cell::RefCell::new(None);
            let written = std::cell::Cell::new(0);
            let answers = bench.carry_out(batch, |issue| {
                match issue.kind {
                    CommandKind::Read => {}
                    CommandKind::ReadAndKeep => *kept.borrow_mut() = Some(issue.extent),
                    CommandKind::WriteBack { .. } => {
                        assert_eq!(
                            *kept.borrow(),
                            Some(issue.extent),
                            "only what was read in the same batch may be written"
                        );
                        written.set(written.get() + 1);
                    }
                }
                CommandOutcome::Done
            });
            writes += written.get();
            probe.batch_completed(answers);
        }
        let finding = probe.finding();
        assert_eq!(finding.writes, writes);
        assert_eq!(writes > 0, allow_writes, "{writes} writes");
        let settle_ms = finding.profile.as_ref().expect("a profile").seek.write_settle_ms;
        if allow_writes {
            assert!(
                (settle_ms - case.profile.seek.write_settle_ms).abs() < 0.03,
                "{settle_ms} {:?}",
                finding.remarks
            );
        } else {
            assert_eq!(settle_ms, 0.0);
        }
    }
}

#[test]
fn failed_writes_are_reported_and_the_rest_is_found() {
    let case = Case::parse(QUICK);
    let (mut probe, mut bench) = (
        Probe::new(ProbeSettings { allow_writes: true, ..settings(&case.profile, 1) }),
        Bench::new(case.truth.clone()),
    );
    while let Some(batch) = probe.next_batch() {
        let outcome = |issue: &BatchCommand| {
            if matches!(issue.kind, CommandKind::WriteBack { .. }) {
                CommandOutcome::Failed
            } else {
                CommandOutcome::Done
            }
        };
        let answers: Vec<TimedCommand> = bench.carry_out(batch, outcome);
        probe.batch_completed(answers);
    }
    let finding = probe.finding();
    assert!(finding.verdict.is_characterized(), "{:?}", finding.verdict);
    assert!(
        finding.remarks.iter().any(|remark| remark.contains("write-protected")),
        "{:?}",
        finding.remarks
    );
}

#[test]
fn every_read_asked_for_lies_on_the_drive_and_no_more_are_outstanding_than_allowed() {
    let profile = catalog::load("cheetah10k7@nocache").unwrap();
    let settings = ProbeSettings { max_outstanding: 5, ..settings(&profile, 3) };
    let (mut probe, mut bench) =
        (Probe::new(settings), Bench::new(DriveTruth::nominal(&profile, 3).unwrap()));
    let end = profile.capacity().get();
    while let Some(measurement) = probe.next_measurement() {
        match measurement {
            Measurement::Read { extent, .. } => {
                assert!(extent.end().get() <= end && !extent.len.is_zero(), "{extent}")
            }
            Measurement::Rewrite(_) => panic!("writes are not allowed"),
            Measurement::Concurrent(reads) => {
                assert!(reads.lanes.iter().map(|lane| lane.outstanding).sum::<u32>() <= 5);
                assert!(
                    reads.lanes.iter().flat_map(|lane| &lane.extents).all(|extent| extent
                        .end()
                        .get()
                        <= end
                        && !extent.len.is_zero())
                );
            }
        }
        bench.step(&mut probe);
    }
    let queue = probe.finding().queue.expect("several may be outstanding");
    assert!(queue.depth <= 5 && queue.depth_is_lower_bound, "{queue:?}");
}

#[test]
fn odd_small_drives_end_in_time_with_some_verdict() {
    // One sector on a track, one head, skews that cover nothing, seek curves that fall: nothing has
    // to be found, but nothing may break.
    for seed in 0..60 {
        let profile = draw::random_profile(&mut ChaCha8Rng::seed_from_u64(seed));
        let truth = DriveTruth::draw(&profile, seed).unwrap();
        let settings = ProbeSettings {
            budget: Nanos::from_secs(8),
            allow_writes: seed % 2 == 0,
            ..settings(&profile, seed)
        };
        let (mut probe, mut bench) = (Probe::new(settings), Bench::new(truth));
        while bench.step(&mut probe) {}
        let finding = probe.finding();
        let sentence = finding.verdict.sentence();
        assert!(
            finding.drive_time < Nanos::from_secs(30) && !sentence.is_empty(),
            "seed {seed}: {}: {sentence}",
            finding.drive_time
        );
    }
}

#[test]
fn a_profile_that_was_not_checked_states_no_reads() {
    let case = Case::parse(QUICK);
    let mut probe = Probe::new(settings(&case.profile, case.seed));
    let mut bench = Bench::new(case.truth);
    while probe.stage() != Stage::SelfCheck {
        assert!(bench.step(&mut probe), "it ended before the self-check");
    }
    let found = probe.finding().profile.expect("a measured profile");
    let accuracy = found.accuracy.expect("a table of no reads");
    assert_eq!((accuracy.reads, accuracy.broken_promises(0.0).len()), (0, 1));
}
