//! The results of each stream, and runs that end by time or with their source.

mod arms;
mod flushes;
mod parts;
mod pauses;
mod rates;
mod shares;
mod turns;
mod writes;

use std::sync::Arc;

use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{Experiment, Measures, run};
use headtime_units::Nanos;
use headtime_workload::{Arrivals, Interarrival, Order, Sizes, StreamConfig, ThinkTime, Workload};

fn experiment() -> Experiment {
    let profile = Arc::new(catalog::load("atlas10k").expect("the profile ships"));
    Experiment {
        by_stream: true,
        ..Experiment::new(
            profile,
            PolicyEntry::find("clook").expect("the policy is in the table"),
            1,
        )
    }
}

fn measure(experiment: &Experiment, streams: &[StreamConfig]) -> Measures {
    let profile = &experiment.profile;
    let source = Workload::new(
        streams,
        profile.sector_size().expect("the profile ships"),
        profile.capacity(),
        1,
    )
    .expect("the streams are right");
    let belief = |profile: &DriveProfile| -> Box<dyn Belief + Send> {
        headtime_belief::of_profile(profile).expect("the profile ships")
    };
    run(experiment, source, &belief).expect("the streams are served")
}

/// A closed loop of random reads with a deadline, beside a slow open loop of long sequential ones.
fn two() -> [StreamConfig; 2] {
    let random = StreamConfig { deadline: Some(Nanos::from_ms(40)), ..StreamConfig::closed(6) };
    let sequential = StreamConfig {
        sizes: Sizes::Fixed { bytes: 65_536 },
        order: Order::Sequential,
        ..StreamConfig::open(Interarrival::Constant(Nanos::from_ms(50)))
    };
    [random, sequential]
}

#[test]
fn streams_add_up_to_the_whole() {
    let measures = measure(&Experiment { requests: 3_000, ..experiment() }, &two());
    let [random, sequential] = &measures.streams[..] else {
        panic!("{} streams", measures.streams.len())
    };
    assert_eq!(random.requests + sequential.requests, measures.requests);
    assert_eq!((random.deadline_requests, sequential.deadline_requests), (random.requests, 0));
    assert_eq!(random.deadline_misses, measures.deadline_misses);
    assert!(measures.deadline_misses > 0, "six random reads at once are not all served in 40 ms");
    assert_eq!(
        (random.bytes, sequential.bytes),
        (random.requests * 4_096, sequential.requests * 65_536)
    );
    let (random, sequential) = (random.figures(), sequential.figures());
    let weighted = (random.response_ms.mean * random.requests as f64
        + sequential.response_ms.mean * sequential.requests as f64)
        / measures.requests as f64;
    assert!(
        (weighted / measures.response_ms.mean - 1.0).abs() < 1e-9,
        "{weighted} ms, in all {} ms",
        measures.response_ms.mean
    );
    assert_eq!(random.response_ms.max.max(sequential.response_ms.max), measures.response_ms.max);
    // Twenty per second, ± 1 at either end of the window.
    assert!(
        (sequential.iops - 20.0).abs() <= 2.0 / measures.simulated_seconds,
        "{} a second",
        sequential.iops
    );
    // The closed loop keeps the drive busy: all its time is charged, except for the command at each
    // end of the window.
    let shares = random.disk_time_share + sequential.disk_time_share;
    assert!(
        (shares - 1.0).abs() * measures.simulated_seconds < 0.1,
        "shares of disk time add up to {shares}"
    );
    assert!(random.disk_time_share > sequential.disk_time_share);
}

#[test]
fn a_joined_stream_has_the_requests_and_times_of_both() {
    let measures = measure(&Experiment { requests: 2_000, ..experiment() }, &two());
    let mut joined = measures.streams[0].clone();
    joined.join(&measures.streams[1]);
    let figures = joined.figures();
    assert_eq!(
        (figures.requests, figures.response_ms, figures.service_ms),
        (measures.requests, measures.response_ms, measures.service_ms)
    );
    assert!((figures.mib_per_second - measures.mib_per_second).abs() < 1e-9);
}

#[test]
fn counting_streams_changes_nothing_else() {
    let with = measure(&Experiment { requests: 1_000, ..experiment() }, &two());
    let without =
        measure(&Experiment { requests: 1_000, by_stream: false, ..experiment() }, &two());
    assert!(without.streams.is_empty());
    assert_eq!(Measures { streams: Vec::new(), ..with }, without);
}

#[test]
fn a_stream_that_never_finished_anything_is_still_in_its_place() {
    let [random, sequential] = two();
    let late = StreamConfig { start: Nanos::from_secs(50), ..sequential };
    let measures = measure(&Experiment { requests: 500, ..experiment() }, &[late, random]);
    assert_eq!(measures.streams[0].requests, 0);
    assert_eq!(measures.streams[0].figures().response_ms.mean, 0.0);
    assert_eq!(measures.streams[1].requests, measures.requests);
}

#[test]
fn a_run_by_time_counts_just_that_time() {
    let timed = Experiment {
        requests: u64::MAX,
        warm_up_time: Some(Nanos::from_secs(2)),
        length: Some(Nanos::from_secs(10)),
        ..experiment()
    };
    let measures = measure(&timed, &two());
    assert_eq!(measures.simulated_seconds, 10.0);
    let spent = measures.disk_time.total().as_secs_f64();
    assert!((spent - 10.0).abs() < 1e-9, "the drive's time of the same window, not {spent} s");
    // Requests arrive at 50, 100 … ms and take some milliseconds; about two hundred finish between
    // 2 s and 12 s.
    let sequential = &measures.streams[1];
    assert!((199..=201).contains(&sequential.requests), "{}", sequential.requests);
    assert_eq!(
        measures.requests,
        measures.streams.iter().map(|stream| stream.requests).sum::<u64>()
    );

    let by_requests_first = Experiment { requests: 100, ..timed.clone() };
    assert_eq!(
        measure(&by_requests_first, &two()).requests,
        100,
        "the number of requests ends it earlier"
    );
    let by_count_then_time =
        Experiment { warm_up_time: None, warm_up: 300, length: Some(Nanos::from_secs(3)), ..timed };
    assert_eq!(measure(&by_count_then_time, &two()).simulated_seconds, 3.0);
}

#[test]
fn an_idle_end_belongs_to_a_run_by_time_while_more_will_come() {
    let rare = StreamConfig::open(Interarrival::Constant(Nanos::from_secs(4)));
    let timed = Experiment {
        requests: u64::MAX,
        warm_up: 0,
        length: Some(Nanos::from_secs(10)),
        ..experiment()
    };
    let measures = measure(&timed, std::slice::from_ref(&rare));
    assert_eq!((measures.requests, measures.simulated_seconds), (2, 10.0));
    assert!(measures.disk_time.idle > Nanos::from_secs(9));
}

#[test]
fn a_source_that_ends_ends_the_run_at_its_last_request() {
    let ends = StreamConfig {
        requests: Some(50),
        arrivals: Arrivals::Closed { clients: 2, think: ThinkTime::Constant(Nanos::from_ms(10)) },
        ..StreamConfig::closed(2)
    };
    for length in [None, Some(Nanos::from_secs(1_000))] {
        let measures = measure(
            &Experiment { requests: u64::MAX, warm_up: 10, length, ..experiment() },
            std::slice::from_ref(&ends),
        );
        assert_eq!(measures.requests, 40);
        assert!(measures.simulated_seconds < 2.0, "{} s", measures.simulated_seconds);
    }
    // A run that ends before the window has measured nothing.
    let measures = measure(&Experiment { requests: 100, warm_up: 60, ..experiment() }, &[ends]);
    assert_eq!(
        (measures.requests, measures.simulated_seconds, measures.streams.len()),
        (0, 0.0, 0)
    );
}
