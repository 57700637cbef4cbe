//! What generators hand out: shares, means, places and times as configured, the same for the same
//! seed.

use std::collections::BTreeSet;

use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};
use headtime_workload::{
    Alignment, Arrival, Arrivals, ClientId, Interarrival, Mix, OpenLoop, Operation, Order,
    RequestSource, Sizes, StreamConfig, ThinkTime, Workload, WorkloadError,
};
use proptest::prelude::*;

const CAPACITY: Sectors = Sectors::new(1_000_003);

fn workload(streams: &[StreamConfig], seed: u64) -> Workload {
    Workload::new(streams, SectorSize::B512, CAPACITY, seed).expect("the tests' streams are right")
}

/// `count` requests: arrivals while there are any, then what the first client asks after each of
/// its own, a millisecond after it was made.
fn take(workload: &mut Workload, count: usize) -> Vec<Arrival> {
    let mut taken: Vec<Arrival> = Vec::new();
    while taken.len() < count {
        let next = workload.arrival().or_else(|| {
            let last = taken.last()?;
            workload.follow(last.at + Nanos::from_ms(1), last.ask.client)
        });
        taken.push(next.expect("a closed loop always follows"));
    }
    taken
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count)
}

#[test]
fn a_closed_loop_starts_every_client_once_and_then_only_follows() {
    let mut workload = workload(&[StreamConfig::closed(3)], 1);
    let first: Vec<Arrival> = std::iter::from_fn(|| workload.arrival()).collect();
    assert_eq!(
        first.iter().map(|arrival| (arrival.at, arrival.ask.client.0)).collect::<Vec<_>>(),
        [0, 1, 2].map(|client| (Instant::ORIGIN, client))
    );
    let now = Instant::from_ns(7);
    let next = workload.follow(now, ClientId(1)).unwrap();
    assert_eq!((next.at, next.ask.client), (now, ClientId(1)));
    assert_eq!(workload.arrival(), None);
}

#[test]
fn a_stream_alone_submits_what_it_does_beside_others() {
    let streams = [StreamConfig::closed(2), StreamConfig::closed(1)];
    let requests = |mut workload: Workload| -> Vec<Arrival> {
        let mut first: Vec<Arrival> = std::iter::from_fn(|| workload.arrival()).collect();
        first.extend(workload.follow(Instant::from_ns(9), ClientId(2)));
        first.retain(|arrival| arrival.ask.stream == 1);
        first
    };
    let alone = requests(workload(&streams, 1).only(1));
    assert_eq!((alone.len(), alone[0].ask.client), (2, ClientId(2)));
    assert_eq!(alone, requests(workload(&streams, 1)));
    assert_eq!(workload(&streams, 1).only(1).follow(Instant::from_ns(9), ClientId(0)), None);
}

#[test]
fn a_closed_loop_as_an_open_one_keeps_its_runs_and_has_the_rate() {
    let reader = StreamConfig {
        order: Order::Sequential,
        deadline: Some(Nanos::from_ms(50)),
        ..StreamConfig::closed(2)
    };
    let open = StreamConfig::open(Interarrival::Constant(Nanos::from_ms(500)));
    let streams = [reader, open];
    let alone = |stream| workload(&streams, 1).only(stream);
    let mut source = OpenLoop::new([(alone(0), Some(100.0)), (alone(1), None)], 1);
    let taken: Vec<Arrival> = (0..10_200).map_while(|_| source.arrival()).collect();
    let of = |stream| taken.iter().filter(move |arrival| arrival.ask.stream == stream);
    let seconds = taken.last().expect("it has no end").at.as_secs_f64();
    let rate = of(0).count() as f64 / seconds;
    assert!((rate - 100.0).abs() < 3.0, "{rate} a second");
    assert_eq!(of(1).count(), (seconds * 2.0) as usize, "an open stream keeps its times");
    for client in of(0).map(|arrival| arrival.ask.client).collect::<BTreeSet<_>>() {
        let run: Vec<Extent> = of(0)
            .filter(|arrival| arrival.ask.client == client)
            .map(|arrival| arrival.ask.extent)
            .collect();
        assert!(run.windows(2).all(|pair| pair[1].start == pair[0].end()));
    }
    assert!(of(0).all(|arrival| arrival.ask.deadline == Some(arrival.at + Nanos::from_ms(50))));
    assert_eq!(source.follow(Instant::from_ns(5), ClientId(0)), None);
}

#[test]
fn processes_as_an_open_loop_keep_their_requests() {
    let files = headtime_workload::FilesRead::One { bytes: Some(1 << 20) };
    let process = headtime_workload::Process::Reads {
        files,
        passes: Some(2),
        read_ahead_bytes: Some(128 << 10),
    };
    let cat = StreamConfig { process: Some(process), ..StreamConfig::closed(1) };
    let alone = workload(&[cat], 1).only(0);
    let mut source = OpenLoop::new([(alone, Some(10.0))], 1);
    let taken: Vec<Arrival> = std::iter::from_fn(|| source.arrival()).collect();
    let sectors: u64 = taken.iter().map(|arrival| arrival.ask.extent.len.get()).sum();
    assert_eq!(sectors, 2 * (1 << 20) / 512, "each pass reads the whole file");
    let clients: BTreeSet<ClientId> = taken.iter().map(|arrival| arrival.ask.client).collect();
    assert_eq!(clients.len(), 2, "each pass is a process of its own");
}

#[test]
fn an_open_loop_never_waits_for_completions() {
    let mut workload =
        workload(&[StreamConfig::open(Interarrival::Constant(Nanos::from_ms(10)))], 1);
    let times: Vec<u64> = (0..3).map(|_| workload.arrival().unwrap().at.as_ns()).collect();
    assert_eq!(times, [10_000_000, 20_000_000, 30_000_000]);
    assert_eq!(workload.follow(Instant::from_ns(5), ClientId(0)), None);
}

#[test]
fn poisson_arrivals_have_the_rate_asked_for_and_no_memory() {
    let mut workload =
        workload(&[StreamConfig::open(Interarrival::Poisson { per_second: 200.0 })], 5);
    let times: Vec<f64> =
        (0..40_001).map(|_| workload.arrival().unwrap().at.as_secs_f64()).collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let average = mean(gaps.iter().copied());
    let deviation = mean(gaps.iter().map(|gap| (gap - average) * (gap - average))).sqrt();
    assert!((average * 200.0 - 1.0).abs() < 0.02, "mean gap {average} s");
    assert!(
        (deviation / average - 1.0).abs() < 0.03,
        "an exponential's deviation is its mean, not {} of it",
        deviation / average
    );
}

#[test]
fn streams_arrive_merged_in_the_order_of_time() {
    let open = |ms| StreamConfig::open(Interarrival::Constant(Nanos::from_ms(ms)));
    let mut workload = workload(&[open(3), StreamConfig::closed(2), open(2)], 1);
    let merged: Vec<(u64, u32)> = (0..7)
        .map(|_| workload.arrival().unwrap())
        .map(|arrival| (arrival.at.as_ns() / 1_000_000, arrival.ask.stream))
        .collect();
    assert_eq!(merged, [(0, 1), (0, 1), (2, 2), (3, 0), (4, 2), (6, 0), (6, 2)]);
}

#[test]
fn think_times_are_constant_or_exponential_as_asked() {
    let with_think = |think| StreamConfig {
        arrivals: Arrivals::Closed { clients: 4, think },
        ..StreamConfig::closed(4)
    };
    let mut constant = workload(&[with_think(ThinkTime::Constant(Nanos::from_ms(8)))], 1);
    let starts: Vec<u64> = (0..4).map(|_| constant.arrival().unwrap().at.as_ns()).collect();
    assert_eq!(
        starts,
        [0, 2_000_000, 4_000_000, 6_000_000],
        "clients start spread over one think time"
    );
    assert_eq!(
        constant.follow(Instant::ORIGIN, ClientId(2)).unwrap().at,
        Instant::from_ns(8_000_000)
    );

    let mut exponential = workload(&[with_think(ThinkTime::Exponential(Nanos::from_ms(8)))], 1);
    let average =
        mean((0..40_000).map(|_| {
            exponential.follow(Instant::ORIGIN, ClientId(0)).unwrap().at.as_secs_f64() * 1e3
        }));
    assert!((average - 8.0).abs() < 0.15, "{average} ms");
}

#[test]
fn shares_of_operations_are_those_asked_for() {
    let mix = Mix { reads: 0.5, zeroes: 0.05, discards: 0.1, flushes: 0.15, fua: 0.25 };
    let mut workload = workload(&[StreamConfig { mix, ..StreamConfig::closed(1) }], 3);
    let taken = take(&mut workload, 40_000);
    let share = |expected| {
        mean(taken.iter().map(|arrival| f64::from(u8::from(arrival.ask.operation == expected))))
    };
    for (operation, expected) in [
        (Operation::Read, 0.5),
        (Operation::Zero, 0.05),
        (Operation::Discard, 0.1),
        (Operation::Flush, 0.15),
        (Operation::Write, 0.2),
    ] {
        assert!((share(operation) - expected).abs() < 0.01, "{operation:?}: {}", share(operation));
    }
    let writes = taken.iter().filter(|arrival| arrival.ask.operation == Operation::Write);
    let fua = mean(writes.map(|arrival| f64::from(u8::from(arrival.ask.fua))));
    assert!((fua - 0.25).abs() < 0.02, "{fua} of the writes");
    assert!(
        taken.iter().all(|arrival| arrival.ask.extent.len.is_zero()
            == (arrival.ask.operation == Operation::Flush))
    );
}

#[test]
fn exponential_sizes_keep_the_mean_that_was_asked_for_after_rounding() {
    let sizes = Sizes::Exponential { mean_bytes: 8_192, multiple_bytes: 4_096, max_bytes: 262_144 };
    let mut workload = workload(&[StreamConfig { sizes, ..StreamConfig::closed(1) }], 3);
    let lengths: Vec<u64> =
        take(&mut workload, 40_000).iter().map(|arrival| arrival.ask.extent.len.get()).collect();
    assert!(lengths.iter().all(|sectors| sectors % 8 == 0 && *sectors > 0));
    let average = mean(lengths.iter().map(|sectors| *sectors as f64 * 512.0));
    assert!((average / 8_192.0 - 1.0).abs() < 0.02, "{average} bytes");
    let of_one = mean(lengths.iter().map(|sectors| f64::from(u8::from(*sectors == 8))));
    assert!((of_one - 0.5).abs() < 0.01, "half of them are one multiple, not {of_one}");
}

#[test]
fn runs_abut_and_have_the_mean_length_asked_for() {
    let mut workload = workload(
        &[StreamConfig { order: Order::Runs { mean_requests: 5.0 }, ..StreamConfig::closed(1) }],
        3,
    );
    let taken = take(&mut workload, 50_000);
    let breaks = taken
        .windows(2)
        .filter(|pair| pair[0].ask.extent.end() != pair[1].ask.extent.start)
        .count();
    assert!((50_000.0 / breaks as f64 - 5.0).abs() < 0.15, "{}", 50_000.0 / breaks as f64);
}

#[test]
fn each_client_has_a_run_of_its_own() {
    let order = Order::FixedRuns { requests: 100 };
    let mut workload = workload(&[StreamConfig { order, ..StreamConfig::closed(2) }], 3);
    let mut last = [workload.arrival().unwrap(), workload.arrival().unwrap()];
    for turn in 0..99 {
        for (client, last) in (0..).map(ClientId).zip(&mut last) {
            let next = workload.follow(Instant::ORIGIN, client).unwrap();
            assert_eq!(
                next.ask.extent.start,
                last.ask.extent.end(),
                "client {} turn {turn}",
                client.0
            );
            *last = next;
        }
    }
}

#[test]
fn a_sequential_stream_passes_its_range_and_starts_again() {
    let range = Some(Extent::from_numbers(96, 32));
    let mut workload =
        workload(&[StreamConfig { order: Order::Sequential, range, ..StreamConfig::closed(1) }], 3);
    let starts: Vec<u64> =
        take(&mut workload, 6).iter().map(|arrival| arrival.ask.extent.start.get()).collect();
    assert_eq!(starts, [96, 104, 112, 120, 96, 104]);
}

#[test]
fn random_starts_reach_every_aligned_place_of_the_range_and_no_other() {
    let range = Some(Extent::from_numbers(101, 60));
    let sizes = Sizes::Fixed { bytes: 5 * 512 };
    let stream = StreamConfig {
        sizes,
        range,
        alignment: Alignment::Bytes(3 * 512),
        ..StreamConfig::closed(1)
    };
    let starts: BTreeSet<u64> = take(&mut workload(&[stream], 3), 2_000)
        .iter()
        .map(|arrival| arrival.ask.extent.start.get())
        .collect();
    assert_eq!(starts.into_iter().collect::<Vec<_>>(), (102..=156).step_by(3).collect::<Vec<_>>());
}

#[test]
fn deadlines_are_counted_from_the_arrival() {
    let mut workload = workload(
        &[StreamConfig { deadline: Some(Nanos::from_ms(100)), ..StreamConfig::closed(1) }],
        3,
    );
    let next = workload.follow(Instant::from_ns(5), ClientId(0)).unwrap();
    assert_eq!(next.ask.deadline, Some(Instant::from_ns(100_000_005)));
}

#[test]
fn one_streams_requests_do_not_depend_on_the_other_streams() {
    let random = StreamConfig::closed(1);
    let mixed = StreamConfig { mix: Mix::reads(0.5), ..StreamConfig::closed(7) };
    let mut alone = workload(std::slice::from_ref(&random), 9);
    let mut together = workload(&[random, mixed], 9);
    for _ in 0..100 {
        let expected = alone.follow(Instant::ORIGIN, ClientId(0)).unwrap().ask.extent;
        assert!(together.follow(Instant::ORIGIN, ClientId(3)).is_some());
        assert_eq!(together.follow(Instant::ORIGIN, ClientId(0)).unwrap().ask.extent, expected);
    }
}

#[test]
fn workloads_that_cannot_be_are_refused_with_the_stream_the_value_and_a_remedy() {
    let base = StreamConfig::closed(1);
    let cases = [
        (
            StreamConfig::closed(0),
            "stream 0: clients is 0, expected at least 1; a closed loop without clients asks for \
                nothing",
        ),
        (
            StreamConfig { sizes: Sizes::Fixed { bytes: 1000 }, ..base.clone() },
            "stream 0: size is 1000 bytes, expected a multiple of the drive's sector of 512 bytes, \
                at most 1 GiB; 4096 bytes suit every drive with sectors of up to 4 KiB",
        ),
        (
            StreamConfig { mix: Mix::reads(1.5), ..base.clone() },
            "stream 0: reads is 1.5, expected a share from 0 to 1; write a half as 0.5",
        ),
        (
            StreamConfig { mix: Mix { flushes: 0.2, ..Mix::reads(0.9) }, ..base.clone() },
            "stream 0: reads + zeroes + discards + flushes is 1.1, expected at most 1; lower one \
                of them; the remainder are writes",
        ),
        (
            StreamConfig { range: Some(Extent::from_numbers(1_000_000, 4)), ..base.clone() },
            "stream 0: range LBA 1000000..+4 does not lie on the drive, which has 1000003 sectors; \
                keep it within LBA 0..1000003",
        ),
        (
            StreamConfig { range: Some(Extent::from_numbers(1, 14)), ..base.clone() },
            "stream 0: LBA 1..+14 has no place for 8 sectors aligned to 8 sectors; widen the \
                range, or lower size or alignment",
        ),
        (
            StreamConfig { order: Order::Runs { mean_requests: f64::NAN }, ..base.clone() },
            "stream 0: mean run length is NaN, expected 1 to 10^12 requests; a mean of 1 is random",
        ),
        (
            StreamConfig::open(Interarrival::Poisson { per_second: 0.0 }),
            "stream 0: arrival rate is 0, expected 0.000001 to 1000000000 requests per second; \
                correct it",
        ),
    ];
    for (config, message) in cases {
        let error = Workload::new(&[config], SectorSize::B512, CAPACITY, 1).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(
        Workload::new(&[], SectorSize::B512, CAPACITY, 1).unwrap_err(),
        WorkloadError::NoStreams
    );
    let crowd = [StreamConfig::closed(999_999), StreamConfig::closed(2)];
    assert_eq!(
        Workload::new(&crowd, SectorSize::B512, CAPACITY, 1).unwrap_err(),
        WorkloadError::TooManyClients { clients: 1_000_001, max: 1_000_000 }
    );
}

fn any_stream() -> impl Strategy<Value = StreamConfig> {
    let sizes = prop_oneof![
        (1_u64..64).prop_map(|sectors| Sizes::Fixed { bytes: sectors * 512 }),
        (1_u64..8, 2_u64..8).prop_map(|(multiple, mean)| Sizes::Exponential {
            mean_bytes: multiple * mean * 512,
            multiple_bytes: multiple * 512,
            max_bytes: multiple * 8 * 512
        }),
    ];
    let order = prop_oneof![
        Just(Order::Random),
        (1.0_f64..9.0).prop_map(|mean_requests| Order::Runs { mean_requests }),
        (1_u64..9).prop_map(|requests| Order::FixedRuns { requests }),
        Just(Order::Sequential)
    ];
    let alignment = prop_oneof![
        Just(Alignment::Size),
        Just(Alignment::Sector),
        (1_u64..9).prop_map(|sectors| Alignment::Bytes(sectors * 512))
    ];
    (sizes, order, alignment, 1_u32..5, 0_u64..500, 130_u64..900).prop_map(
        |(sizes, order, alignment, clients, start, len)| StreamConfig {
            sizes,
            order,
            alignment,
            range: Some(Extent::from_numbers(start, len)),
            ..StreamConfig::closed(clients)
        },
    )
}

proptest! {
    #[test]
    fn every_request_lies_in_its_range_and_the_same_seed_gives_the_same_requests(
        stream in any_stream(),
        seed in any::<u64>(),
    ) {
        let range = stream.range.unwrap();
        let clients = stream.arrivals.clients();
        let mut first = workload(std::slice::from_ref(&stream), seed);
        let mut second = workload(&[stream], seed);
        for turn in 0..200 {
            let client = ClientId(turn % clients);
            let arrival = first.follow(Instant::ORIGIN, client).unwrap();
            prop_assert_eq!(Some(arrival), second.follow(Instant::ORIGIN, client));
            let extent = arrival.ask.extent;
            prop_assert!(
                extent.start >= range.start && extent.end() <= range.end() && !extent.len.is_zero(),
                "{} in {}",
                extent,
                range
            );
        }
    }
}
