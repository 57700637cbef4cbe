//! Draws compared with theory: shares and means within a tolerance computed from the size of the
//! sample (4.5 standard errors, exceeded by chance once in 150,000), so that a test fails because
//! of a wrong formula and not because of a tolerance chosen too small.

use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use headtime_workload::{
    AddressPattern, Alignment, Arrival, Arrivals, Chunks, ClientId, Distance, HotSpot,
    Interarrival, Mix, Operation, Order, Phase, RequestSource, SizeWeight, Sizes, StreamConfig,
    ThinkTime, Workload,
};

/// A hundred thousand addresses of 4 KiB.
const CAPACITY: Sectors = Sectors::new(800_000);
const PLACES: f64 = 100_000.0;
const DRAWS: usize = 40_000;
/// Standard errors that a mean may be off.
const ERRORS: f64 = 4.5;

fn workload(stream: StreamConfig, seed: u64) -> Workload {
    Workload::new(&[stream], SectorSize::B512, CAPACITY, seed)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// So many requests of the only client.
fn drawn(stream: StreamConfig) -> Vec<Arrival> {
    let mut workload = workload(stream, 7);
    (0..DRAWS)
        .map(|_| workload.follow(Instant::ORIGIN, ClientId(0)).expect("a closed loop follows"))
        .collect()
}

/// Starts as shares of the range.
fn starts(place: AddressPattern) -> Vec<f64> {
    let requests = drawn(StreamConfig { place, ..StreamConfig::closed(1) });
    requests.iter().map(|arrival| arrival.ask.extent.start.get() as f64 / 8.0 / PLACES).collect()
}

fn assert_share(what: &str, hits: usize, of: usize, expected: f64) {
    let (share, tolerance) =
        (hits as f64 / of as f64, ERRORS * (expected * (1.0 - expected) / of as f64).sqrt());
    assert!(
        (share - expected).abs() <= tolerance,
        "{what}: a share of {share}, expected {expected} ± {tolerance}"
    );
}

fn assert_mean(what: &str, values: &[f64], expected: f64, deviation: f64) {
    let (mean, tolerance) = (
        values.iter().sum::<f64>() / values.len() as f64,
        ERRORS * deviation / (values.len() as f64).sqrt(),
    );
    assert!(
        (mean - expected).abs() <= tolerance,
        "{what}: a mean of {mean}, expected {expected} ± {tolerance}"
    );
}

fn assert_near(what: &str, place: AddressPattern, from: f64, to: f64, expected: f64) {
    let starts = starts(place);
    assert_share(
        what,
        starts.iter().filter(|at| (from..to).contains(*at)).count(),
        starts.len(),
        expected,
    );
}

#[test]
fn listed_sizes_come_by_their_weights() {
    let sizes = Sizes::Weighted(vec![
        SizeWeight { bytes: 4_096, weight: 60.0 },
        SizeWeight { bytes: 8_192, weight: 30.0 },
        SizeWeight { bytes: 65_536, weight: 10.0 },
    ]);
    let requests = drawn(StreamConfig { sizes, ..StreamConfig::closed(1) });
    for (sectors, expected) in [(8, 0.6), (16, 0.3), (128, 0.1)] {
        let hits =
            requests.iter().filter(|arrival| arrival.ask.extent.len.get() == sectors).count();
        assert_share(&format!("{sectors} sectors"), hits, DRAWS, expected);
    }
    assert!(
        requests.iter().all(|arrival| arrival.ask.extent.start.get() % 8 == 0),
        "starts are multiples of the greatest common divisor"
    );
}

#[test]
fn uniform_sizes_reach_both_ends_alike() {
    let sizes = Sizes::Uniform { min_bytes: 8_192, max_bytes: 24_576, multiple_bytes: 4_096 };
    let requests = drawn(StreamConfig { sizes, ..StreamConfig::closed(1) });
    for multiples in 2..=6 {
        let hits =
            requests.iter().filter(|arrival| arrival.ask.extent.len.get() == multiples * 8).count();
        assert_share(&format!("{multiples} multiples"), hits, DRAWS, 0.2);
    }
}

/// The distribution function of the normal distribution.
fn normal_below(z: f64) -> f64 {
    0.5 * libm_erfc(-z / std::f64::consts::SQRT_2)
}

/// The complementary error function by its continued series; good to 1.2 · 10⁻⁷ (Press and others,
/// Numerical Recipes, 6.2).
fn libm_erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let series = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let exponent = series.iter().rev().fold(0.0, |sum, term| sum * t + term);
    let tail = t * (-x * x + exponent).exp();
    if x >= 0.0 { tail } else { 2.0 - tail }
}

#[test]
fn lognormal_sizes_have_the_median_and_the_spread_asked_for() {
    let sizes = Sizes::LogNormal {
        median_bytes: 64 << 10,
        spread: 0.8,
        multiple_bytes: 4_096,
        max_bytes: 1 << 20,
    };
    let requests = drawn(StreamConfig { sizes, ..StreamConfig::closed(1) });
    for multiples in [1_u64, 4, 10, 16, 40, 100] {
        // Rounded to the nearest multiple, so at most n multiples means below n + ½; the median is
        // 16 multiples.
        let expected = normal_below(((multiples as f64 + 0.5) / 16.0).ln() / 0.8);
        let hits =
            requests.iter().filter(|arrival| arrival.ask.extent.len.get() <= multiples * 8).count();
        assert_share(&format!("at most {multiples} multiples"), hits, DRAWS, expected);
    }
    let longest = requests.iter().map(|arrival| arrival.ask.extent.len.get()).max();
    assert!(longest <= Some(2_048), "none is longer than the most");
}

#[test]
fn writes_may_have_sizes_of_their_own() {
    let stream = StreamConfig {
        mix: Mix::reads(0.5),
        sizes: Sizes::Fixed { bytes: 65_536 },
        write_sizes: Some(Sizes::Fixed { bytes: 4_096 }),
        ..StreamConfig::closed(1)
    };
    let requests = drawn(stream);
    for arrival in &requests {
        let expected = if arrival.ask.operation == Operation::Read { 128 } else { 8 };
        assert_eq!(
            (arrival.ask.extent.len.get(), arrival.ask.extent.start.get() % expected),
            (expected, 0)
        );
    }
    assert_share(
        "reads",
        requests.iter().filter(|arrival| arrival.ask.operation == Operation::Read).count(),
        DRAWS,
        0.5,
    );
}

#[test]
fn fixed_places_are_few_spread_all_over_and_met_alike() {
    let of = |set, seed| {
        let mut workload = workload(
            StreamConfig {
                place: AddressPattern::Fixed { places: 40, set },
                ..StreamConfig::closed(1)
            },
            seed,
        );
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..DRAWS {
            *counts
                .entry(
                    workload.follow(Instant::ORIGIN, ClientId(0)).unwrap().ask.extent.start.get(),
                )
                .or_insert(0_usize) += 1;
        }
        counts
    };
    let (one, other) = (of(1, 1), of(2, 1));
    assert!(one.len() == 40 && one.keys().all(|start| start % 8 == 0), "{one:?}");
    for (start, count) in &one {
        assert_share(&format!("start {start}"), *count, DRAWS, 1.0 / 40.0);
    }
    assert!(one.keys().eq(of(1, 2).keys()), "another seed has other places");
    assert!(
        one.keys().filter(|start| other.contains_key(start)).count() < 3,
        "two sets share their places"
    );
}

#[test]
fn zipf_places_follow_the_formula_chunk_by_chunk() {
    // 100 chunks of 1,000 places, in their order.
    let place =
        AddressPattern::Zipf { theta: 0.9, chunks: Chunks { bytes: 1_000 * 4_096, ordered: true } };
    let starts = starts(place);
    let sum: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.9)).sum();
    for rank in [1_u32, 2, 3, 10, 100] {
        let hits = starts.iter().filter(|at| ((*at * 100.0) as u32) + 1 == rank).count();
        assert_share(&format!("rank {rank}"), hits, DRAWS, f64::from(rank).powf(-0.9) / sum);
    }
    // Within a chunk all places alike.
    let in_first: Vec<f64> = starts.iter().filter(|at| **at < 0.01).map(|at| at * 100.0).collect();
    assert_mean("place in the first chunk", &in_first, 0.4995, 1.0 / 12.0_f64.sqrt());
}

#[test]
fn scattered_places_have_the_same_popularity_elsewhere_for_every_seed() {
    let chunks = Chunks { bytes: 1_000 * 4_096, ordered: false };
    let hottest = |seed| {
        let mut workload = workload(
            StreamConfig {
                place: AddressPattern::Zipf { theta: 0.9, chunks },
                ..StreamConfig::closed(1)
            },
            seed,
        );
        let mut counts = [0_usize; 100];
        for _ in 0..DRAWS {
            let at = workload.follow(Instant::ORIGIN, ClientId(0)).unwrap().ask.extent.start.get();
            counts[(at / 8_000) as usize] += 1;
        }
        let (place, max) = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
        let sum: f64 = (1..=100).map(|rank| f64::from(rank).powf(-0.9)).sum();
        assert_share("the most popular chunk", *max, DRAWS, 1.0 / sum);
        place
    };
    assert_ne!((hottest(1), hottest(2)), (hottest(3), hottest(4)));
}

#[test]
fn of_self_similar_places_a_fifth_takes_four_fifths_at_every_scale() {
    let place = || AddressPattern::SelfSimilar {
        share: 0.2,
        chunks: Chunks { bytes: 4_096, ordered: true },
    };
    assert_near("the first fifth", place(), 0.0, 0.2, 0.8);
    assert_near("a fifth of the fifth", place(), 0.0, 0.04, 0.64);
    assert_near("a fifth of that", place(), 0.0, 0.008, 0.512);
}

#[test]
fn hot_spots_and_the_rest_have_their_shares() {
    let place = || {
        AddressPattern::HotSpots(vec![
            HotSpot { requests: 0.6, space: 0.1 },
            HotSpot { requests: 0.3, space: 0.2 },
        ])
    };
    assert_near("the first", place(), 0.0, 0.1, 0.6);
    assert_near("the second", place(), 0.1, 0.3, 0.3);
    assert_near("the rest", place(), 0.3, 1.0, 0.1);
    assert_near("half of the second", place(), 0.1, 0.2, 0.15);
}

#[test]
fn normal_places_lie_around_their_center_and_never_outside() {
    let place = |center| AddressPattern::Normal { center, deviation: 0.1 };
    assert_near(
        "within one deviation",
        place(0.4),
        0.3,
        0.5,
        normal_below(1.0) - normal_below(-1.0),
    );
    // Around an end only half of the bell is there, and is drawn twice as often.
    assert_near(
        "within one deviation of the start",
        place(0.0),
        0.0,
        0.1,
        2.0 * (normal_below(1.0) - 0.5),
    );
}

#[test]
fn near_places_have_the_mean_distance_asked_for_and_still_reach_everywhere() {
    let place = AddressPattern::Near { mean: Distance::Bytes(100 * 4_096), jumps: 0.0 };
    let requests = drawn(StreamConfig { place, ..StreamConfig::closed(1) });
    let distances: Vec<f64> = requests
        .windows(2)
        .map(|pair| pair[1].ask.extent.start.get() as f64 - pair[0].ask.extent.end().get() as f64)
        // Those that turned back at an end are shorter.
        .filter(|distance| *distance != 0.0)
        .map(|distance| distance.abs() / 8.0)
        .collect();
    // A geometric distribution with mean m has a deviation of √(m² − m); turning back touches a
    // thousandth of the requests and is within the tolerance.
    assert_mean("distance", &distances, 100.0, (100.0_f64 * 99.0).sqrt());

    let with_jumps = starts(AddressPattern::Near { mean: Distance::Share(0.001), jumps: 0.5 });
    // With a jump every other request, places are spread evenly over the range; neighbors depend
    // on each other, about as if there were a third of them.
    assert_share(
        "the upper half",
        with_jumps.iter().filter(|at| **at >= 0.5).count() / 3,
        DRAWS / 3,
        0.5,
    );
}

#[test]
fn uniform_runs_have_every_length_alike() {
    let requests = drawn(StreamConfig {
        order: Order::UniformRuns { min: 2, max: 5 },
        ..StreamConfig::closed(1)
    });
    let mut lengths = [0_usize; 6];
    let mut length = 1;
    for pair in requests.windows(2) {
        if pair[0].ask.extent.end() == pair[1].ask.extent.start {
            length += 1;
        } else {
            lengths[length.min(5)] += 1;
            length = 1;
        }
    }
    let runs: usize = lengths.iter().sum();
    for (length, count) in lengths.iter().enumerate().skip(2) {
        // One run in a hundred thousand begins where the last ended, and at the end of the range
        // one is cut short; both are within the tolerance.
        assert_share(&format!("runs of {length}"), *count, runs, 0.25);
    }
}

#[test]
fn strided_runs_leave_holes_and_reads_and_writes_run_apart_when_asked() {
    let requests = drawn(StreamConfig {
        order: Order::Strided { gap_bytes: 12_288 },
        ..StreamConfig::closed(1)
    });
    assert!(
        requests
            .windows(2)
            .take(20_000)
            .all(|pair| pair[1].ask.extent.start.get() == pair[0].ask.extent.start.get() + 32)
    );

    let stream = StreamConfig {
        mix: Mix::reads(0.5),
        order: Order::Sequential,
        separate_runs: true,
        ..StreamConfig::closed(1)
    };
    let requests = drawn(stream);
    for operation in [Operation::Read, Operation::Write] {
        let of_one: Vec<u64> = requests
            .iter()
            .filter(|arrival| arrival.ask.operation == operation)
            .map(|arrival| arrival.ask.extent.start.get())
            .collect();
        assert_eq!(of_one[0], 0);
        assert!(
            of_one.windows(2).take(10_000).all(|pair| pair[1] == pair[0] + 8),
            "{operation:?} run on"
        );
    }
}

#[test]
fn clients_that_share_a_position_continue_each_others_run() {
    let mut shared = workload(
        StreamConfig { order: Order::Sequential, positions: Some(1), ..StreamConfig::closed(3) },
        1,
    );
    let starts: Vec<u64> = [0, 2, 1, 1]
        .map(|client| {
            shared.follow(Instant::ORIGIN, ClientId(client)).unwrap().ask.extent.start.get()
        })
        .into();
    assert_eq!(starts, [0, 8, 16, 24]);
}

#[test]
fn a_flush_follows_every_so_many_writes() {
    let requests = drawn(StreamConfig {
        mix: Mix::reads(0.5),
        flush_every: Some(3),
        ..StreamConfig::closed(1)
    });
    let mut writes = 0;
    for arrival in &requests {
        match arrival.ask.operation {
            Operation::Write => writes += 1,
            Operation::Flush => {
                assert_eq!(writes, 3);
                writes = 0;
            }
            _ => assert!(writes < 3, "the flush comes before anything else"),
        }
    }
}

fn arrival_times(kind: Interarrival, count: usize) -> Vec<f64> {
    let mut workload = workload(StreamConfig::open(kind), 3);
    (0..count).map(|_| workload.arrival().expect("an open loop goes on").at.as_secs_f64()).collect()
}

#[test]
fn bursts_have_the_rate_of_an_interrupted_poisson_process() {
    let (on, off) = (2.0, 6.0);
    let phases = |phase: fn(Nanos) -> Phase| Interarrival::Bursts {
        per_second: 100.0,
        on: phase(Nanos::from_secs(2)),
        off: phase(Nanos::from_secs(6)),
    };
    let times = arrival_times(phases(Phase::Exponential), 100_000);
    let end = *times.last().unwrap();
    // Of an interrupted Poisson process, the variance of a count grows as its mean times 1 + 2 λ ω₁
    // / (ω₁ + ω₂)², with λ the rate while on and ω₁, ω₂ the rates of switching.
    let (leave_on, leave_off) = (1.0 / on, 1.0 / off);
    let dispersion =
        1.0 + 2.0 * 100.0 * leave_on / ((leave_on + leave_off) * (leave_on + leave_off));
    let (expected, tolerance) =
        (100.0 * on / (on + off) * end, ERRORS * (dispersion * 100_000.0).sqrt());
    assert!(
        (100_000.0 - expected).abs() < tolerance,
        "100000 requests in {end} s, expected {expected} ± {tolerance}"
    );

    // Constant phases: nothing ever arrives while it is off.
    let times = arrival_times(phases(Phase::Constant), 20_000);
    assert!(times.iter().all(|at| at % 8.0 < 2.0 + 1e-6), "arrivals lie within the bursts");
    let cycles = (times.last().unwrap() / 8.0).floor();
    let within = times.iter().filter(|at| **at < cycles * 8.0).count() as f64;
    assert!(
        (within - 200.0 * cycles).abs() < ERRORS * (200.0 * cycles).sqrt(),
        "{within} requests in {cycles} bursts of 2 s"
    );
}

#[test]
fn pareto_gaps_have_the_tail_asked_for() {
    let times = arrival_times(Interarrival::Pareto { per_second: 50.0, shape: 1.5 }, DRAWS + 1);
    let min = 0.02 * 0.5 / 1.5;
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap > min - 1e-8), "no gap is shorter than the least");
    for longer in [1.5, 2.0, 10.0, 100.0] {
        assert_share(
            &format!("longer than {longer} times the least"),
            gaps.iter().filter(|gap| **gap > longer * min).count(),
            DRAWS,
            f64::powf(longer, -1.5),
        );
    }
}

#[test]
fn a_paced_loop_asks_no_faster_than_its_schedule_and_catches_up() {
    let arrivals = Arrivals::Paced { clients: 2, pace: Interarrival::Constant(Nanos::from_ms(10)) };
    let mut workload = workload(StreamConfig { arrivals, ..StreamConfig::closed(2) }, 1);
    let first: Vec<u64> = std::iter::from_fn(|| workload.arrival())
        .map(|arrival| arrival.at.as_ns() / 1_000_000)
        .collect();
    assert_eq!(first, [0, 10], "each client once, and then only as requests finish");
    let mut follow = |now_ms: u64| {
        workload.follow(Instant::from_ns(now_ms * 1_000_000), ClientId(0)).unwrap().at.as_ns()
            / 1_000_000
    };
    // Early: it waits for its place. Then late: at once, until the places that were missed are used
    // up.
    assert_eq!([follow(5), follow(60), follow(61), follow(62), follow(63)], [20, 60, 61, 62, 63]);
    assert_eq!([follow(64), follow(65)], [70, 80]);
}

#[test]
fn uniform_think_times_lie_between_their_ends() {
    let think = ThinkTime::Uniform { min: Nanos::from_ms(2), max: Nanos::from_ms(6) };
    let times: Vec<f64> = drawn(StreamConfig {
        arrivals: Arrivals::Closed { clients: 1, think },
        ..StreamConfig::closed(1)
    })
    .iter()
    .map(|arrival| arrival.at.as_secs_f64() * 1e3)
    .collect();
    assert!(times.iter().all(|ms| (2.0..=6.0).contains(ms)));
    assert_mean("think time in ms", &times, 4.0, 4.0 / 12.0_f64.sqrt());
}

#[test]
fn streams_start_stop_and_end_when_they_should() {
    let constant = Interarrival::Constant(Nanos::from_ms(10));
    let ms = |arrival: Arrival| arrival.at.as_ns() / 1_000_000;
    let times = |stream: StreamConfig| {
        let mut workload = workload(stream, 1);
        std::iter::from_fn(|| workload.arrival()).map(ms).collect::<Vec<_>>()
    };
    let between = StreamConfig {
        start: Nanos::from_ms(100),
        stop: Some(Nanos::from_ms(130)),
        ..StreamConfig::open(constant)
    };
    assert_eq!(
        times(between),
        [110, 120],
        "counted from the start, and nothing at the stop itself"
    );
    assert_eq!(
        times(StreamConfig { requests: Some(3), ..StreamConfig::open(constant) }),
        [10, 20, 30]
    );
    assert_eq!(
        times(StreamConfig { bytes: Some(8_193), ..StreamConfig::open(constant) }),
        [10, 20, 30],
        "the request that reaches the limit is still issued"
    );

    let mut closed = workload(
        StreamConfig {
            requests: Some(3),
            stop: Some(Nanos::from_ms(50)),
            ..StreamConfig::closed(2)
        },
        1,
    );
    assert_eq!(std::iter::from_fn(|| closed.arrival()).count(), 2);
    assert_eq!(closed.follow(Instant::from_ns(50_000_000), ClientId(0)), None, "it has stopped");
    assert!(closed.follow(Instant::from_ns(49_999_999), ClientId(0)).is_some());
    assert_eq!(closed.follow(Instant::from_ns(1), ClientId(1)), None, "it has issued all");
}

/// The requests of each kind for a seed of 1: the same seed gives the same requests on every
/// machine and in every version, or the commit states the reason.
const GOLDEN: &str = "\
uniform: 321984+8 64304+8 477248+8 175456+8
fixed: 631784+8 592160+8 376376+8 78352+8
zipf: 689344+8 748096+8 525232+8 286456+8
self-similar: 369856+8 369216+8 158640+8 370424+8
hot-spots: 73568+8 62448+8 23144+8 67784+8
normal: 494448+8 415568+8 368888+8 457160+8
near: 20152+8 10080+8 4936+8 864+8
weighted: 64304+8 175432+128 568488+8 122120+8
uniform-sizes: 64296+56 175440+80 568464+40 122112+64
exponential: 64304+16 175456+8 568480+16 122120+16
lognormal: 477184+104 568472+24 699768+64 461760+16
poisson: 18201916 68620791 98964842 105797466
bursts: 18201916 28533419 53730841 69214161
pareto: 12229493 48022379 66353282 74725126
cascade: 14648437 21158854 24414062 27669270
";

#[test]
fn the_same_seed_gives_the_requests_it_gave() {
    let chunks = Chunks { bytes: 1 << 20, ordered: false };
    let places = [
        ("uniform", AddressPattern::Uniform),
        ("fixed", AddressPattern::Fixed { places: 100, set: 3 }),
        ("zipf", AddressPattern::Zipf { theta: 0.99, chunks }),
        ("self-similar", AddressPattern::SelfSimilar { share: 0.2, chunks }),
        ("hot-spots", AddressPattern::HotSpots(vec![HotSpot { requests: 0.9, space: 0.1 }])),
        ("normal", AddressPattern::Normal { center: 0.5, deviation: 0.1 }),
        ("near", AddressPattern::Near { mean: Distance::Share(0.01), jumps: 0.1 }),
    ];
    let sizes = [
        (
            "weighted",
            Sizes::Weighted(vec![
                SizeWeight { bytes: 4_096, weight: 1.0 },
                SizeWeight { bytes: 65_536, weight: 1.0 },
            ]),
        ),
        (
            "uniform-sizes",
            Sizes::Uniform { min_bytes: 4_096, max_bytes: 65_536, multiple_bytes: 4_096 },
        ),
        (
            "exponential",
            Sizes::Exponential { mean_bytes: 8_192, multiple_bytes: 4_096, max_bytes: 131_072 },
        ),
        (
            "lognormal",
            Sizes::LogNormal {
                median_bytes: 16_384,
                spread: 1.0,
                multiple_bytes: 4_096,
                max_bytes: 262_144,
            },
        ),
    ];
    let arrivals = [
        ("poisson", Interarrival::Poisson { per_second: 50.0 }),
        (
            "bursts",
            Interarrival::Bursts {
                per_second: 50.0,
                on: Phase::Exponential(Nanos::from_ms(50)),
                off: Phase::Exponential(Nanos::from_ms(500)),
            },
        ),
        ("pareto", Interarrival::Pareto { per_second: 50.0, shape: 1.5 }),
        (
            "cascade",
            Interarrival::Cascade {
                per_second: 50.0,
                bias: 0.7,
                window: Nanos::from_secs(10),
                levels: 10,
            },
        ),
    ];
    let mut now = String::new();
    let base = || StreamConfig { alignment: Alignment::Bytes(4_096), ..StreamConfig::closed(1) };
    let of_place = places.into_iter().map(|(name, place)| (name, StreamConfig { place, ..base() }));
    let of_sizes = sizes.into_iter().map(|(name, sizes)| (name, StreamConfig { sizes, ..base() }));
    for (name, stream) in of_place.chain(of_sizes) {
        let mut workload = workload(stream, 1);
        let requests =
            (0..4).map(|_| workload.follow(Instant::ORIGIN, ClientId(0)).unwrap().ask.extent);
        let shown: Vec<String> =
            requests.map(|extent| format!("{}+{}", extent.start, extent.len.get())).collect();
        now.push_str(&format!("{name}: {}\n", shown.join(" ")));
    }
    for (name, kind) in arrivals {
        let mut workload = workload(StreamConfig::open(kind), 1);
        let times: Vec<String> =
            (0..4).map(|_| workload.arrival().unwrap().at.as_ns().to_string()).collect();
        now.push_str(&format!("{name}: {}\n", times.join(" ")));
    }
    assert_eq!(now, GOLDEN, "the table is now:\n{now}");
}
