//! Simulated drives obey arithmetic and queueing theory.

use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_mechanics::{
    Direction, DriveProfile, HeadPosition, InterfaceTimes, Mechanism, catalog,
};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{Experiment, Instance, Measures, run};
use headtime_testkit::worst_positioning;
use headtime_units::{Extent, Instant, Nanos};
use headtime_workload::{
    Arrivals, Interarrival, Mix, Order, Sizes, StreamConfig, ThinkTime, Workload,
};

fn belief(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    Box::new(DriveModel::of_profile(profile).expect("shipped profiles are valid"))
}

fn profile(name: &str) -> Arc<DriveProfile> {
    Arc::new(catalog::load(name).expect("a shipped profile"))
}

fn experiment(profile: &Arc<DriveProfile>, policy: &str) -> Experiment {
    let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
    Experiment { parameters, ..Experiment::new(profile.clone(), entry, 1) }
}

fn measure(experiment: &Experiment, streams: &[StreamConfig]) -> Measures {
    let sector = experiment.profile.sector_size().expect("a shipped profile");
    let source = Workload::new(streams, sector, experiment.profile.capacity(), experiment.seed)
        .expect("the stream suits the drive");
    run(experiment, source, &belief).expect("the drive keeps up")
}

/// Random 4 KiB reads of `clients` without think time.
fn closed(experiment: &Experiment, clients: u32) -> Measures {
    measure(experiment, &[StreamConfig::closed(clients)])
}

/// The time from dispatch to completion of a random aligned 4 KiB read, in milliseconds, from the
/// profile alone: overhead, mean seek, half a revolution, and the time from the start of the first
/// sector until the host sees the last, averaged over the drive.
fn analytic_service_ms(profile: &DriveProfile) -> f64 {
    let mechanism = Mechanism::nominal(profile).expect("a shipped profile");
    let interface = InterfaceTimes::from_profile(profile).expect("a shipped profile");
    let sectors = 4_096 / u64::from(profile.sector_bytes);
    let places = 200_000;
    let step = profile.capacity().get() / places / sectors * sectors;
    let from_first_sector = |place: u64| {
        let extent = Extent::from_numbers(place * step, sectors);
        let spot = mechanism.spot(extent.start);
        let wait =
            mechanism.positioning_to(spot.position, Instant::ORIGIN, Direction::Read, &spot).rotate;
        let access = mechanism.access(
            spot.position,
            Instant::ORIGIN,
            Direction::Read,
            extent,
            Instant::ORIGIN,
        );
        let done = interface.read_completed(
            access.first_sector,
            access.finish,
            extent.len,
            Instant::ORIGIN,
        );
        done.saturating_since(Instant::ORIGIN + wait).as_ms_f64()
    };
    let transfer = (0..places).map(from_first_sector).sum::<f64>() / places as f64;
    let overhead = interface.command_overhead(Direction::Read, Some(Direction::Read));
    (overhead + mechanism.mean_arm_time()).as_ms_f64()
        + mechanism.period().as_ns_f64() / 2e6
        + transfer
}

#[test]
fn mean_service_of_random_reads_is_overhead_mean_seek_half_a_revolution_and_transfer() {
    for name in ["atlas10k", "atlas10k@recorded", "nearline-20tb"] {
        let profile = profile(name);
        let measures = closed(
            &Experiment { requests: 60_000, outstanding: Some(1), ..experiment(&profile, "fcfs") },
            1,
        );
        let (expected, measured) = (analytic_service_ms(&profile), measures.service_ms.mean);
        let interval = measures.confidence.service_ms.unwrap();
        println!(
            "{name}: mean service {measured:.4} ms, interval ± {interval:.4} ms, arithmetic \
                {expected:.4} ms"
        );
        assert!(interval < expected * 0.005, "{name}: the run is too short to tell anything");
        assert!(
            (measured - expected).abs() <= interval,
            "{name}: {measured} ms ± {interval}, arithmetic says {expected} ms"
        );
    }
}

#[test]
fn every_drawn_unit_serves_random_reads_about_as_its_model_does() {
    let profile = profile("atlas10k");
    let instance = Experiment {
        instance: Instance::Drawn,
        requests: 30_000,
        outstanding: Some(1),
        ..experiment(&profile, "fcfs")
    };
    let measures = closed(&instance, 1);
    // Mean jitter and outliers are added.
    let noise = profile.variation.jitter_us / 1e3
        + profile.variation.outlier_share * profile.variation.outlier_ms;
    let expected = analytic_service_ms(&profile) + noise;
    assert!(
        (measures.service_ms.mean / expected - 1.0).abs() < 0.01,
        "{} ms, expected {expected} ms",
        measures.service_ms.mean
    );
}

#[test]
fn worst_positioning_is_never_exceeded() {
    for name in ["atlas10k", "nearline-20tb"] {
        let profile = profile(name);
        let mechanism = Mechanism::nominal(&profile).unwrap();
        let interface = InterfaceTimes::from_profile(&profile).unwrap();
        // A request lies on two tracks at most: one more positioning.
        let most = interface.command_overhead(Direction::Read, None)
            + worst_positioning(&mechanism) * 2
            + Nanos::from_ms(1);
        let measures =
            closed(&Experiment { outstanding: Some(1), ..experiment(&profile, "fcfs") }, 1);
        assert!(
            measures.service_ms.max <= most.as_ms_f64(),
            "{name}: {} ms",
            measures.service_ms.max
        );
    }
}

#[test]
fn orders_rank_as_the_limits_say_and_their_gains_grow_with_the_queue() {
    // docs/limits.md, the line "SPTF exact, two" over the line "FCFS, two", at 16, 64 and 256
    // queued.
    for (name, limits) in [("atlas10k", [1.88, 2.55, 3.18]), ("nearline-20tb", [1.96, 2.89, 4.03])]
    {
        let profile = profile(name);
        let iops = |policy, clients| {
            let measures = closed(
                &Experiment {
                    outstanding: Some(2),
                    requests: 8_000,
                    warm_up: 1_000,
                    ..experiment(&profile, policy)
                },
                clients,
            );
            measures.iops
        };
        let fcfs = iops("fcfs", 64);
        let mut before = [0.0; 3];
        for (clients, limit) in [16, 64, 256].into_iter().zip(limits) {
            let now = [iops("clook", clients), iops("sstf", clients), iops("sptf-oracle", clients)];
            let [clook, sstf, sptf] = now;
            println!(
                "{name}, {clients} queued: fcfs {fcfs:.1}, clook {clook:.1}, sstf {sstf:.1}, sptf \
                    {sptf:.1}, {:.2} x fcfs, docs/limits.md {limit}",
                sptf / fcfs
            );
            assert!(
                fcfs * 1.2 < clook && (sstf / clook - 1.0).abs() < 0.05 && sstf * 1.15 < sptf,
                "{name}, {clients} queued: {fcfs} {now:?}"
            );
            assert!(
                now.iter().zip(before).all(|(now, before)| *now > before * 1.04),
                "{name}: more to choose from, no gain: {now:?}"
            );
            assert!(
                (sptf / fcfs / limit - 1.0).abs() < 0.20,
                "{name}, {clients} queued: {:.2} x fcfs, docs/limits.md {limit}",
                sptf / fcfs
            );
            before = now;
        }
    }
}

#[test]
fn two_outstanding_from_outside_equal_the_firmware() {
    let mut profile = catalog::load("atlas10k").unwrap();
    profile.firmware.queue_depth = 256;
    let profile = Arc::new(profile);
    for clients in [16, 64, 256] {
        let outside = closed(
            &Experiment {
                requests: 8_000,
                outstanding: Some(2),
                ..experiment(&profile, "sptf-oracle")
            },
            clients,
        );
        let firmware = closed(
            &Experiment { requests: 8_000, ..experiment(&profile, "firmware:depth=256") },
            clients,
        );
        assert!(
            (outside.iops / firmware.iops - 1.0).abs() < 0.02,
            "{clients} queued: {} outside, {} inside",
            outside.iops,
            firmware.iops
        );
    }
}

#[test]
fn with_two_queued_one_outstanding_beats_two() {
    let profile = profile("atlas10k");
    let iops = |outstanding| {
        closed(
            &Experiment { outstanding: Some(outstanding), ..experiment(&profile, "sptf-oracle") },
            2,
        )
        .iops
    };
    let (one, two) = (iops(1), iops(2));
    assert!(
        one > two * 1.1,
        "one candidate fewer is visible with two outstanding: {one} and {two}"
    );
}

#[test]
fn a_belief_from_the_profile_keeps_most_of_the_oracles_gain() {
    let profile = profile("atlas10k");
    let iops = |policy, instance| {
        closed(
            &Experiment {
                instance,
                outstanding: Some(2),
                requests: 10_000,
                ..experiment(&profile, policy)
            },
            64,
        )
        .iops
    };
    for (instance, least) in [(Instance::Nominal, 0.90), (Instance::Drawn, 0.75)] {
        let (clook, oracle) = (iops("clook", instance), iops("sptf-oracle", instance));
        let kept = |policy| (iops(policy, instance) - clook) / (oracle - clook);
        let (sptf, expected) = (kept("sptf"), kept("sptf-expected"));
        println!(
            "{instance:?}: of the oracle's gain over clook ({oracle:.1} over {clook:.1}), sptf \
                keeps {sptf:.2}, sptf-expected {expected:.2}"
        );
        assert!(expected > least, "{instance:?}: sptf-expected keeps {expected}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let profile = profile("nearline-20tb");
    let text = |seed, policy| {
        let experiment = Experiment {
            seed,
            instance: Instance::Drawn,
            requests: 2_000,
            ..experiment(&profile, policy)
        };
        serde_json::to_string(&measure(
            &experiment,
            &[StreamConfig { mix: Mix::reads(0.7), ..StreamConfig::closed(20) }],
        ))
        .unwrap()
    };
    for policy in ["fcfs", "sptf-expected", "firmware"] {
        assert_eq!(text(1, policy), text(1, policy), "{policy}");
        assert_ne!(text(1, policy), text(2, policy), "{policy}");
    }
}

#[test]
fn the_json_object_is_the_one_that_the_program_promises() {
    let profile = profile("atlas10k");
    let measures = closed(&Experiment { requests: 500, ..experiment(&profile, "fcfs") }, 4);
    let json: serde_json::Value = serde_json::to_value(&measures).unwrap();
    let keys = |value: &serde_json::Value| {
        value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
    };
    let set = |names: &str| {
        names.split(',').map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(
        keys(&json),
        set(concat!(
            "policy,drive,seed,requests,simulated_seconds,wall_seconds,iops,mib_per_second,",
            "response_ms,service_ms,",
            "queue_depth_mean,deadline_requests,deadline_misses,disk_time"
        ))
    );
    for times in ["response_ms", "service_ms"] {
        assert_eq!(keys(&json[times]), set("mean,p50,p95,p99,p999,max"));
    }
    assert_eq!(keys(&json["disk_time"]), set("seek,rotate,transfer,overhead,idle,background"));
    assert_eq!(
        (json["policy"].as_str(), json["drive"].as_str(), json["requests"].as_u64()),
        (Some("fcfs"), Some("atlas10k"), Some(500))
    );
}

#[test]
fn disk_time_adds_up_to_one_whatever_runs() {
    let profile = profile("atlas10k");
    for policy in ["fcfs", "clook", "sptf", "firmware"] {
        for streams in [
            StreamConfig::closed(16),
            StreamConfig {
                mix: Mix::reads(0.5),
                ..StreamConfig::open(Interarrival::Poisson { per_second: 30.0 })
            },
        ] {
            let measures = measure(
                &Experiment { requests: 2_000, ..experiment(&profile, policy) },
                std::slice::from_ref(&streams),
            );
            let shares = serde_json::to_value(measures.disk_time).unwrap();
            let sum: f64 =
                shares.as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{policy}: {shares}");
            assert!(
                (measures.disk_time.total().as_secs_f64() - measures.simulated_seconds).abs()
                    < 1e-9,
                "{policy}"
            );
            let idle = shares["idle"].as_f64().unwrap();
            match streams.arrivals {
                Arrivals::Closed { .. } => {
                    assert_eq!(idle, 0.0, "{policy}: sixteen clients keep the drive busy")
                }
                Arrivals::Open(_) | Arrivals::Paced { .. } => assert!(
                    idle > 0.3,
                    "{policy}: thirty requests a second leave it idle, not {idle}"
                ),
            }
        }
    }
}

#[test]
fn littles_law_and_the_response_time_law_hold() {
    let profile = profile("atlas10k");
    let experiment = experiment(&profile, "clook");
    let without_think = closed(&experiment, 40);
    assert!(
        (without_think.queue_depth_mean - 40.0).abs() < 1e-9,
        "{}",
        without_think.queue_depth_mean
    );
    assert!((without_think.iops * without_think.response_ms.mean / 1e3 / 40.0 - 1.0).abs() < 0.01);

    let think = ThinkTime::Exponential(Nanos::from_ms(200));
    let arrivals = Arrivals::Closed { clients: 40, think };
    let with_think = measure(&experiment, &[StreamConfig { arrivals, ..StreamConfig::closed(40) }]);
    let held = with_think.iops * with_think.response_ms.mean / 1e3;
    assert!(
        (with_think.queue_depth_mean / held - 1.0).abs() < 0.01,
        "{} held, {held} by Little's law",
        with_think.queue_depth_mean
    );
    let population = with_think.iops * (with_think.response_ms.mean + 200.0) / 1e3;
    assert!(
        (population / 40.0 - 1.0).abs() < 0.02,
        "{population} clients by the response time law"
    );
}

#[test]
fn an_open_loop_waits_as_pollaczek_and_khinchin_say() {
    let profile = profile("atlas10k");
    for (per_second, tolerance) in [(2.0, 0.01), (55.0, 0.04)] {
        let experiment =
            Experiment { outstanding: Some(1), requests: 60_000, ..experiment(&profile, "fcfs") };
        let measures =
            measure(&experiment, &[StreamConfig::open(Interarrival::Poisson { per_second })]);
        let service = measures.service_ms.mean;
        let load = per_second * service / 1e3;
        // Service is seek plus rotation, nearly independent: the variance of a uniform revolution
        // plus that of the seeks measured with one client.
        let variance = service_variance_ms2(&profile);
        let wait = per_second / 1e3 * (service * service + variance) / (2.0 * (1.0 - load));
        let expected = service + wait;
        println!(
            "{per_second} a second: response {:.3} ms, service {service:.3} ms, by the formula \
                {expected:.3} ms",
            measures.response_ms.mean
        );
        assert!(
            (measures.response_ms.mean / expected - 1.0).abs() < tolerance,
            "{} ms, expected {expected} ms",
            measures.response_ms.mean
        );
    }
}

/// The variance of a random read's service time in square milliseconds: a uniform revolution plus
/// seeks between sectors all over the drive.
fn service_variance_ms2(profile: &DriveProfile) -> f64 {
    let mechanism = Mechanism::nominal(profile).expect("a shipped profile");
    let capacity = profile.capacity().get();
    let spots: Vec<HeadPosition> = (0..700)
        .map(|place| mechanism.spot(headtime_units::Lba::new(capacity / 700 * place)).position)
        .collect();
    let seeks = spots.iter().flat_map(|from| {
        spots.iter().map(|to| mechanism.arm_time(*from, *to, Direction::Read).as_ms_f64())
    });
    let (sum, squares, count) = seeks.fold((0.0, 0.0, 0.0), |(sum, squares, count), seek| {
        (sum + seek, squares + seek * seek, count + 1.0)
    });
    let turn = mechanism.period().as_ns_f64() / 1e6;
    squares / count - (sum / count) * (sum / count) + turn * turn / 12.0
}

#[test]
fn a_sequential_reader_without_read_ahead_loses_a_turn_for_each_request() {
    let profile =
        Arc::new(DriveProfile { cache: None, ..DriveProfile::clone(&profile("nearline-20tb")) });
    let sequential = StreamConfig {
        order: Order::Sequential,
        sizes: Sizes::Fixed { bytes: 1 << 20 },
        deadline: Some(Nanos::from_ms(1)),
        ..StreamConfig::closed(1)
    };
    let measures =
        measure(&Experiment { requests: 2_000, ..experiment(&profile, "fcfs") }, &[sequential]);
    let zone = &profile.zones[0];
    let track_bytes = f64::from(zone.sectors_per_track) * f64::from(profile.sector_bytes);
    let turn_s = profile.rotation_period().unwrap().as_ns_f64() / 1e9;
    // The next sector has just passed when the host asks for it: a request costs a whole number of
    // revolutions, except for the bus time.
    let turns_at_least = ((1 << 20) as f64 / track_bytes).ceil();
    let most = (1 << 20) as f64 / (turns_at_least * turn_s) / 1_048_576.0;
    assert!(
        measures.mib_per_second <= most * 1.001 && measures.mib_per_second > most * 0.4,
        "{} MiB/s, at most {most}",
        measures.mib_per_second
    );
    assert_eq!(
        (measures.deadline_requests, measures.deadline_misses),
        (2_000, 2_000),
        "a megabyte takes more than a millisecond"
    );
}
