//! The drive model against simulated drives with an unknown truth: its share of the throughput that
//! exact knowledge would give.
//!
//! Every comparison runs the same request stream on the same simulated drive, so the ratios are
//! exact for a seed; the bounds leave room for other seeds.

use std::sync::Arc;

use headtime_belief::{DriveModel, LinearBelief};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{Experiment, Instance, Measures, run};
use headtime_units::Nanos;
use headtime_workload::{Mix, Order, StreamConfig, Workload};

fn iops(
    drive: &str,
    unit: Instance,
    policy: &str,
    clients: u32,
    seed: u64,
    belief: &dyn Fn(&DriveProfile) -> Box<dyn Belief + Send>,
) -> f64 {
    measured(drive, unit, policy, &[StreamConfig::closed(clients)], seed, belief).iops
}

fn measured(
    drive: &str,
    unit: Instance,
    policy: &str,
    streams: &[StreamConfig],
    seed: u64,
    belief: &dyn Fn(&DriveProfile) -> Box<dyn Belief + Send>,
) -> Measures {
    let profile = Arc::new(catalog::load(drive).expect("a profile of the catalog"));
    let mut experiment = Experiment::new(
        profile.clone(),
        PolicyEntry::find(policy).expect("a policy of the table"),
        seed,
    );
    experiment.instance = unit;
    experiment.warm_up = 4_000;
    experiment.requests = 6_000;
    let sector = profile.sector_size().expect("a profile of the catalog");
    let workload =
        Workload::new(streams, sector, profile.capacity(), seed).expect("a workload that fits");
    run(&experiment, workload, belief)
        .unwrap_or_else(|error| panic!("seed {seed}: {policy} on {drive}: {error}"))
}

/// So many clients of one sequential reader: runs of 1,024 requests of 4 KiB from random places.
fn one_reader(clients: u32) -> StreamConfig {
    StreamConfig {
        order: Order::FixedRuns { requests: 1_024 },
        positions: Some(1),
        ..StreamConfig::closed(clients)
    }
}

#[test]
fn one_deep_sequential_reader_of_a_drive_that_reads_ahead_is_served_in_order() {
    for (drive, seed) in [("deskstar34gxp@papers", 31), ("maxtor-20gb", 32)] {
        let rate = |policy| {
            measured(drive, Instance::Drawn, policy, &[one_reader(20)], seed, &from_profile).iops
        };
        let (modelled, in_order) = (rate("sptf-expected"), rate("fcfs"));
        assert!(
            modelled > 0.9 * in_order,
            "seed {seed}: {modelled:.0} IOPS on {drive}, {in_order:.0} in the order of arrival"
        );
    }
}

#[test]
fn a_deep_sequential_reader_starves_nobody() {
    for seed in [33, 34] {
        let streams = [one_reader(20), StreamConfig::closed(2)];
        let response = measured(
            "deskstar34gxp@papers",
            Instance::Drawn,
            "sptf-expected",
            &streams,
            seed,
            &from_profile,
        )
        .response_ms;
        assert!(
            response.max < 20.0 * response.mean,
            "seed {seed}: {:.0} ms at longest, {:.1} on average",
            response.max,
            response.mean
        );
    }
}

/// Clients of requests at random, of which `reads` are reads.
fn at_random(clients: u32, reads: f64, fua: f64) -> StreamConfig {
    StreamConfig { mix: Mix { fua, ..Mix::reads(reads) }, ..StreamConfig::closed(clients) }
}

#[test]
fn writes_with_force_unit_access_leave_the_head_where_they_end() {
    let rate = |reads| {
        let streams = [at_random(32, reads, 1.0)];
        measured("nearline-20tb", Instance::Drawn, "headtime", &streams, 35, &from_profile).iops
    };
    let (written, read) = (rate(0.0), rate(1.0));
    assert!(written > 0.95 * read, "{written:.0} writes and {read:.0} reads a second");
}

/// The Linux scheduler leaves the order to the drive.
#[test]
fn beside_a_full_write_cache_the_drive_s_own_queue_gains_little() {
    for (seed, clients) in [(36, 8), (37, 16), (38, 32), (39, 64)] {
        for reads in [0.7, 0.3] {
            let streams = [at_random(clients, reads, 0.0)];
            let rate = |policy| {
                measured("nearline-20tb", Instance::Drawn, policy, &streams, seed, &from_profile)
                    .iops
            };
            let (ordered, by_drive) = (rate("headtime"), rate("mq-deadline"));
            println!(
                "{clients} clients, {reads} reads: {ordered:.0} and {by_drive:.0} by the drive"
            );
            assert!(
                ordered > 0.94 * by_drive,
                "seed {seed}: {ordered:.0} IOPS of {clients} clients with {reads} reads, \
                    {by_drive:.0} in the order of the drive"
            );
        }
    }
}

fn from_profile(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    Box::new(DriveModel::of_profile(profile).expect("a profile of the catalog"))
}

#[test]
fn on_a_drive_like_its_profile_the_belief_is_nearly_as_good_as_the_truth() {
    for (drive, seed) in [("atlas10k", 3), ("nearline-20tb", 4)] {
        let modelled = iops(drive, Instance::Nominal, "sptf-expected", 64, seed, &from_profile);
        let oracle = iops(drive, Instance::Nominal, "sptf-oracle", 64, seed, &from_profile);
        assert!(
            modelled > 0.96 * oracle,
            "seed {seed}: {modelled:.1} IOPS on {drive}, {oracle:.1} with perfect knowledge"
        );
    }
}

#[test]
fn on_drawn_drives_most_of_the_gain_over_distance_alone_is_kept() {
    for (drive, seed, kept) in [
        ("atlas10k", 11, 0.7),
        ("atlas10k", 12, 0.7),
        ("nearline-20tb", 13, 0.5),
        ("nearline-20tb", 14, 0.5),
    ] {
        let by_distance = iops(drive, Instance::Drawn, "sstf", 64, seed, &from_profile);
        let modelled = iops(drive, Instance::Drawn, "sptf-expected", 64, seed, &from_profile);
        let oracle = iops(drive, Instance::Drawn, "sptf-oracle", 64, seed, &from_profile);
        let share = (modelled - by_distance) / (oracle - by_distance);
        assert!(
            share > kept,
            "seed {seed}: {drive} at {by_distance:.1} by distance, {modelled:.1} modelled, \
                {oracle:.1} oracle: {share:.2} of the gain"
        );
    }
}

#[test]
fn counting_the_chance_of_missing_beats_trusting_the_prediction() {
    for seed in [21, 22] {
        let trusting = iops("nearline-20tb", Instance::Drawn, "sptf", 64, seed, &from_profile);
        let expecting =
            iops("nearline-20tb", Instance::Drawn, "sptf-expected", 64, seed, &from_profile);
        assert!(
            expecting > trusting,
            "seed {seed}: {expecting:.1} IOPS by expected cost, {trusting:.1} by the most likely"
        );
    }
}

#[test]
fn a_belief_by_distance_alone_still_beats_the_order_of_arrival() {
    let by_distance = |profile: &DriveProfile| -> Box<dyn Belief + Send> {
        Box::new(LinearBelief::new(profile.capacity()))
    };
    let fcfs = iops("atlas10k", Instance::Drawn, "fcfs", 32, 31, &by_distance);
    let sstf = iops("atlas10k", Instance::Drawn, "sptf", 32, 31, &by_distance);
    assert!(
        sstf > 1.2 * fcfs,
        "seed 31: {sstf:.1} IOPS by learned distance, {fcfs:.1} in the order of arrival"
    );
}

#[test]
fn deadlines_hold_at_more_than_the_throughput_of_edf() {
    // The load of P1's table 2, eight readers with half the time of eight others; 125 and 250 ms
    // where the paper's faster drive had 100 and 200.
    let profile = Arc::new(catalog::load("atlas10k").expect("a profile of the catalog"));
    let sector = profile.sector_size().expect("a profile of the catalog");
    let measure = |policy: &str, seed: u64| {
        let mut experiment = Experiment::new(
            profile.clone(),
            PolicyEntry::find(policy).expect("a policy of the table"),
            seed,
        );
        experiment.instance = Instance::Drawn;
        experiment.warm_up = 3_000;
        experiment.requests = 10_000;
        let streams = [125, 250].map(|ms| StreamConfig {
            deadline: Some(Nanos::from_ms(ms)),
            ..StreamConfig::closed(8)
        });
        let workload = Workload::new(&streams, sector, profile.capacity(), seed)
            .expect("a workload that fits");
        run(&experiment, workload, &from_profile)
            .unwrap_or_else(|error| panic!("seed {seed}: {policy}: {error}"))
    };
    for seed in [41, 42] {
        let [edf, unconstrained, ours] =
            ["edf", "sptf-expected", "headtime"].map(|policy| measure(policy, seed));
        let outcome = format!(
            "seed {seed}: edf {:.0} IOPS, {} misses; sptf-expected {:.0}, {}; headtime {:.0}, {}",
            edf.iops,
            edf.deadline_misses,
            unconstrained.iops,
            unconstrained.deadline_misses,
            ours.iops,
            ours.deadline_misses
        );
        println!("{outcome}");
        assert!(ours.iops > 1.2 * edf.iops, "{outcome}");
        assert!(
            ours.deadline_misses * 5 < unconstrained.deadline_misses.min(edf.deadline_misses),
            "{outcome}"
        );
    }
}
