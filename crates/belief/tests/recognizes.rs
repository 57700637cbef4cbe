//! The recognition of completions that are no accesses to the medium, on drives with caches,
//! read-ahead and queues.

mod common;

use common::{Answered, Run};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, Op};
use headtime_sim::DriveTruth;
use headtime_units::{Extent, Nanos};
use headtime_workload::{Arrivals, Mix, Order, Sizes, StreamConfig, ThinkTime};

fn load(name: &str) -> DriveProfile {
    catalog::load(name).expect("a profile of the catalog")
}

fn of_profile(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    headtime_belief::of_profile(profile).expect("a profile of the catalog")
}

/// The recognized kinds of commands that completed alone in their step, by their origin.
#[derive(Debug, Default)]
struct Verdicts {
    hits: u32,
    hits_recognized: u32,
    accesses: u32,
    accesses_taken_for_hits: u32,
}

impl Verdicts {
    /// Runs two random readers, two readers of a range that fits into the cache, a sequential
    /// reader and a writer.
    fn of(drive: &str, policy: &str, seed: u64) -> (Self, Run) {
        let profile = load(drive);
        let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
        let spot = Extent::from_numbers(profile.capacity().get() / 3 / 8 * 8, 64);
        let streams = [
            StreamConfig::closed(2),
            StreamConfig { range: Some(spot), ..StreamConfig::closed(2) },
            StreamConfig { order: Order::Runs { mean_requests: 200.0 }, ..StreamConfig::closed(1) },
            StreamConfig { mix: Mix::reads(0.0), ..StreamConfig::closed(1) },
        ];
        let mut run = Run::new(truth, of_profile(&profile), policy, &streams, &profile, seed);
        run.advance(500);
        let mut counted = run.report().cache_hits;
        let mut verdicts = Self::default();
        run.watch(6_000, |belief, answered| {
            let hits = belief.report().cache_hits - counted;
            counted += hits;
            if let [answered] = answered {
                let hit = u32::try_from(hits).expect("few");
                match answered {
                    Answered::Cache => {
                        (verdicts.hits, verdicts.hits_recognized) =
                            (verdicts.hits + 1, verdicts.hits_recognized + hit)
                    }
                    Answered::Medium => {
                        (verdicts.accesses, verdicts.accesses_taken_for_hits) =
                            (verdicts.accesses + 1, verdicts.accesses_taken_for_hits + hit)
                    }
                    Answered::Between => {}
                }
            }
        });
        (verdicts, run)
    }
}

#[test]
fn writes_end_in_the_cache_of_a_drive_with_a_write_cache() {
    for (drive, takes) in [
        ("nearline-20tb", true),
        ("atlas10k@recorded", true),
        ("nearline-20tb@nocache", false),
        ("atlas10k@p2", false),
    ] {
        let belief = of_profile(&load(drive));
        assert_eq!(
            (belief.takes_into_cache(Op::Write), belief.takes_into_cache(Op::Read)),
            (takes, false),
            "{drive}"
        );
    }
}

#[test]
fn hits_are_told_from_accesses_and_teach_nothing() {
    for drive in ["nearline-20tb", "atlas10k@recorded", "barracuda-2tb", "savvio15k2"] {
        for (policy, seed) in [("sptf-expected", 1), ("fcfs", 2), ("firmware", 3)] {
            let (verdicts, run) = Verdicts::of(drive, policy, seed);
            let report = run.report();
            let what = format!("seed {seed}: {policy} on {drive}: {verdicts:?}, {report:?}");
            println!("{what}");
            assert!(
                f64::from(verdicts.hits_recognized) > 0.97 * f64::from(verdicts.hits),
                "{what}"
            );
            assert!(
                f64::from(verdicts.accesses_taken_for_hits) <= 0.01 * f64::from(verdicts.accesses),
                "{what}"
            );
            assert!(!report.mistrusted, "{what}");
            // After fewer accesses the rotation is not well known.
            let error_us = report.error_rms_us.filter(|_| report.samples > 500).unwrap_or(0.0);
            assert!(error_us < 250.0, "{what}");
        }
    }
}

#[test]
fn reading_ahead_and_a_queue_in_the_drive_leave_predictions_as_they_are() {
    for (drive, seed) in [("nearline-20tb", 1), ("barracuda-2tb", 2), ("savvio15k2", 3)] {
        let [cached, plain] = [drive.to_owned(), format!("{drive}@nocache")].map(|name| {
            let profile = load(&name);
            let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
            // As in P2: two requests at the drive, and firmware that chooses by positioning time.
            let mut run = Run::new(
                truth,
                of_profile(&profile),
                "sptf",
                &[StreamConfig::closed(24)],
                &profile,
                seed,
            );
            run.advance(3_000);
            (run.advance(5_000), run.report())
        });
        let what = format!("seed {seed}: {drive}: {cached:?}, without a cache {plain:?}");
        println!("{what}");
        assert!(cached.0 > 0.98 * plain.0, "{what}");
        let error_us = |report: headtime_sched::BeliefReport| {
            report.error_rms_us.expect("predictions were judged")
        };
        assert!(error_us(cached.1) < 1.3 * error_us(plain.1) + 5.0, "{what}");
        assert!(cached.1.cache_hits * 200 < cached.1.samples, "{what}");
    }
}

/// Three clients read the same sectors in large requests, and a fourth some cached ones: hits wait
/// for each other at the bus, so they end at any angle.
#[test]
fn hits_that_wait_for_the_bus_are_no_evidence_against_the_model() {
    for seed in 1..=3 {
        let profile = load("nearline-20tb");
        let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
        let large = StreamConfig {
            sizes: Sizes::Fixed { bytes: 1 << 20 },
            range: Some(Extent::from_numbers(0, 1 << 20)),
            order: Order::Runs { mean_requests: 512.0 },
            positions: Some(1),
            ..StreamConfig::closed(16)
        };
        let think = ThinkTime::Constant(Nanos::from_ms(5));
        let cached = StreamConfig {
            range: Some(Extent::from_numbers(0, 8_192)),
            arrivals: Arrivals::Closed { clients: 1, think },
            ..StreamConfig::closed(1)
        };
        let streams = [cached, large.clone(), large.clone(), large];
        let mut run = Run::new(truth, of_profile(&profile), "headtime", &streams, &profile, seed);
        let mut lost_trust = false;
        run.watch(10_000, |belief, _| lost_trust |= belief.report().mistrusted);
        let report = run.report();
        println!("seed {seed}: {report:?}");
        let error_us = report.error_rms_us.expect("predictions were judged");
        assert!(!lost_trust && error_us < 400.0, "seed {seed}: {report:?}");
    }
}

/// One client reads what the drive's cache holds, and the host is busy.
#[test]
fn late_reports_of_hits_are_no_evidence_against_the_model() {
    for seed in 1..=3 {
        let profile = load("nearline-20tb");
        let mut busy = profile.clone();
        (busy.variation.stall_share, busy.variation.stall_ms) = (0.3, 3.0);
        let truth = DriveTruth::draw(&busy, seed).expect("a valid profile");
        let think = ThinkTime::Constant(Nanos::from_ms(5));
        let cached = StreamConfig {
            range: Some(Extent::from_numbers(0, 8_192)),
            arrivals: Arrivals::Closed { clients: 1, think },
            ..StreamConfig::closed(1)
        };
        let mut run = Run::new(truth, of_profile(&profile), "headtime", &[cached], &profile, seed);
        let mut lost_trust = false;
        run.watch(4_000, |belief, _| lost_trust |= belief.report().mistrusted);
        let report = run.report();
        println!("seed {seed}: {report:?}");
        assert!(!lost_trust && report.samples < 100, "seed {seed}: {report:?}");
    }
}
