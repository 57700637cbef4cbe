//! Clients that pause between requests: they are waited for where that pays, the drive reads ahead
//! for them, and they wait for nobody else's pauses.

use std::sync::Arc;

use headtime_mechanics::catalog;
use headtime_sched::PolicyEntry;
use headtime_sim::Experiment;
use headtime_units::{Extent, Nanos};
use headtime_workload::{Arrivals, Interarrival, Mix, Order, Sizes, StreamConfig, ThinkTime};

use super::measure;
use super::rates::{PAGE_CACHE, figures_with, on_a_large_drive, rates, rates_under, sequential};

/// Two readers in sequence, a random one and random writes, together about half of what the drive
/// serves: a turn would let the random reads wait, and the writes go into the drive's cache.
#[test]
fn while_the_drive_has_time_to_spare_no_request_waits_for_a_turn() {
    let open = |per_second| StreamConfig::open(Interarrival::Poisson { per_second });
    let reader = StreamConfig { arrivals: open(60.0).arrivals, ..sequential(1, 131_072) };
    let writes = StreamConfig { mix: Mix::reads(0.0), ..open(15.0) };
    let streams = [reader.clone(), reader, open(15.0), writes];
    let p99 = |policy| {
        let figures = on_a_large_drive(policy, &streams);
        (figures[2].response_ms.p99, figures[3].response_ms.p99)
    };
    let (reads, writes) = p99("headtime");
    let (priced_alone, _) = p99("sptf-expected");
    assert!(reads < 1.15 * priced_alone, "{reads} ms, each request by itself {priced_alone} ms");
    assert!(writes < 1.0, "{writes} ms");
}

/// The drive reads ahead of it whenever it is idle, so that it answers nearly all of its reads.
#[test]
fn with_time_to_spare_a_reader_in_sequence_does_not_wait_for_the_seeks_of_others() {
    let open = |per_second| StreamConfig::open(Interarrival::Poisson { per_second });
    let reader = StreamConfig { arrivals: open(200.0).arrivals, ..sequential(1, 65_536) };
    let runs = StreamConfig {
        mix: Mix::reads(0.7),
        order: Order::FixedRuns { requests: 32 },
        positions: Some(16),
        ..open(210.0)
    };
    let figures = on_a_large_drive("headtime", &[reader, runs]);
    assert!(figures[0].response_ms.p99 < 2.0, "{figures:?}");
}

/// A turn of each would be for one read of 256 KiB, and cost the others a change.
#[test]
fn runs_of_clients_that_think_for_long_have_no_turns() {
    let player = StreamConfig {
        arrivals: Arrivals::Closed { clients: 32, think: ThinkTime::Constant(Nanos::from_ms(60)) },
        positions: None,
        ..sequential(1, 262_144)
    };
    let players = &on_a_large_drive("headtime", &[player])[0];
    assert!(players.response_ms.p99 < 300.0, "{players:?}");
}

/// Their think time is exponentially distributed: most pauses are shorter than a seek and half a
/// revolution, some much longer.
#[test]
fn readers_whose_think_time_varies_are_waited_for() {
    let reader = "{ clients = 4, think = { kind = 'exponential', mean = '5ms' }, \
        size = '128KiB', run = { kind = 'geometric', mean = 64.0 } }";
    let rate = rates("nearline-20tb", &[reader])[0];
    assert!(rate > 150.0, "{rate}");
}

/// A client that never pauses goes from file to file; the other sends a write every 35 ms. Before a
/// process paid for its last file in the next, and turns were given up for runs that think,
/// there were 3 writes a second. Alone there are 28 of them, or 155 requests of the first client.
#[test]
fn a_run_that_thinks_does_not_wait_for_the_turns_of_one_that_never_pauses() {
    let busy = "{ clients = 1, reads = 0.7, size = '8KiB', \
        run = { kind = 'geometric', mean = 64.0 } }";
    let thinks = "{ clients = 1, think = { kind = 'exponential', mean = '20ms' }, \
        reads = 0.0, size = '256KiB', run = { kind = 'geometric', mean = 32.0 } }";
    let rates = rates("atlas10k", &[busy, thinks]);
    assert!(rates[0] > 75.0 && rates[1] > 14.0, "{rates:?}");
}

/// Players of large files. Without time for the drive to read ahead each of their requests costs a
/// seek: 107 and 411 a second of the 635 and 1,550 that the players would send.
#[test]
fn a_drive_reads_ahead_for_players_before_it_leaves_them() {
    let players = |clients: u32, size: &str, think: &str| {
        let run = format!("positions = {clients}, run = {{ kind = 'sequential' }}");
        let stream =
            format!("{{ clients = {clients}, size = '{size}', think = '{think}', {run} }}");
        rates("nearline-20tb", &[&stream])[0]
    };
    let rate = players(32, "256KiB", "50ms");
    assert!(rate > 300.0, "{rate}");
    let rate = players(16, "64KiB", "10ms");
    assert!(rate > 1_300.0, "{rate}");
}

/// A write at the drive waits for room until the drive has destaged for up to a tenth of a second,
/// and then the next one would go before the read.
#[test]
fn a_reader_that_thinks_does_not_wait_for_the_writes_of_many() {
    let reader = "{ think = { kind = 'exponential', mean = '100ms' }, size = '4KiB' }";
    let alone = rates("nearline-20tb", &[reader])[0];
    for length in [4, 64] {
        let writes = format!(
            "{{ clients = 16, reads = 0.0, size = '64KiB', \
                run = {{ kind = 'geometric', mean = {length}.0 }} }}"
        );
        let beside = rates("nearline-20tb", &[reader, &writes]);
        assert!(beside[0] > 0.65 * alone, "{beside:?} of {alone}, runs of {length}");
    }
}

/// A hundred writes are queued whenever one of the two reads.
#[test]
fn random_readers_that_think_are_seen_beside_the_queue_of_a_page_cache() {
    let readers = "{ clients = 2, think = { kind = 'exponential', mean = '5ms' }, size = '4KiB', \
        range = '65%..95%' }";
    let backup = "{ clients = 8, size = '128KiB', run = { kind = 'sequential' }, positions = 1 }";
    let beside = rates("nearline-20tb", &[PAGE_CACHE, readers, backup])[1];
    assert!(beside > 9.0, "{beside}");
}

/// On a drive without read-ahead nothing is gained by leaving the arm where the next request of a
/// client that pauses will be.
#[test]
fn pauses_hold_up_nobody_on_a_drive_that_does_not_read_ahead() {
    let response_ms = |policy: &str| {
        let profile = Arc::new(catalog::load("cheetah15k5").expect("the profile ships"));
        let part = profile.capacity().get() / 4;
        let streams: Vec<StreamConfig> = (0..4)
            .map(|number| StreamConfig {
                sizes: Sizes::Fixed { bytes: 131_072 },
                order: Order::Runs { mean_requests: 16.0 },
                range: Some(Extent::from_numbers(number * part, part)),
                ..StreamConfig::open(Interarrival::Poisson { per_second: 24.0 })
            })
            .collect();
        let (entry, parameters) = PolicyEntry::parse(policy).expect("the policy is in the table");
        let experiment =
            Experiment { requests: 3_000, parameters, ..Experiment::new(profile, entry, 1) };
        measure(&experiment, &streams).response_ms
    };
    let [own, cheapest] = ["headtime", "sptf-expected"].map(response_ms);
    assert!(
        own.mean < 1.02 * cheapest.mean,
        "{} ms, the cheapest first {}",
        own.mean,
        cheapest.mean
    );
    assert!(own.p99 < 1.05 * cheapest.p99, "{} ms, the cheapest first {}", own.p99, cheapest.p99);
}

/// The drive reads ahead of all of them by itself, as long as no command takes the arm elsewhere:
/// the drive model knows what it holds.
#[test]
fn players_that_pause_at_random_have_more_than_under_anticipation() {
    let players = "{ clients = 16, think = { kind = 'exponential', mean = '10ms' }, \
        size = '64KiB', run = { kind = 'sequential' } }";
    let figures = |policy| figures_with(Vec::new(), policy, "nearline-20tb", &[players])[0];
    let (own, anticipation) = (figures("headtime"), figures("as"));
    assert!(own.iops > 1.05 * anticipation.iops, "{own:?} beside {anticipation:?}");
    assert!(own.response_ms.p99 < anticipation.response_ms.p99, "{own:?}, {anticipation:?}");
}

/// The next read of each slow reader comes long after the one before it. Held up for it, the drive
/// would idle while requests wait.
#[test]
fn slow_readers_in_sequence_keep_a_nearly_full_drive_busy() {
    let readers = ["20%..30%", "40%..50%", "60%..70%", "80%..90%"].map(|range| {
        format!(
            "{{ arrivals = {{ kind = 'poisson', rate = 172.0 }}, size = '4KiB', positions = 1, \
                run = {{ kind = 'sequential' }}, range = '{range}' }}"
        )
    });
    let mut streams: Vec<&str> = readers.iter().map(String::as_str).collect();
    streams.push(
        "{ arrivals = { kind = 'poisson', rate = 66.0 }, size = '8KiB', range = '56%..58%' }",
    );
    let mean_ms = |policy| -> f64 {
        let all = figures_with(Vec::new(), policy, "barracuda7200-7", &streams);
        let requests: u64 = all.iter().map(|stream| stream.requests).sum();
        all.iter().map(|stream| stream.response_ms.mean * stream.requests as f64).sum::<f64>()
            / requests as f64
    };
    let (own, cheapest) = (mean_ms("headtime"), mean_ms("sptf-expected"));
    assert!(own < 0.9 * cheapest, "{own} ms, the cheapest first {cheapest}");
}

/// Each of twelve cameras writes 256 KiB in sequence and pauses for 150 ms: together they use a
/// small part of the drive, and have no backlog.
#[test]
fn runs_that_use_little_time_do_not_wait_for_a_whole_turn_of_the_other_requests() {
    let pause = ThinkTime::Constant(Nanos::from_ms(150));
    let camera = StreamConfig {
        mix: Mix::reads(0.0),
        arrivals: Arrivals::Closed { clients: 1, think: pause },
        ..sequential(1, 262_144)
    };
    let alone = on_a_large_drive("headtime", std::slice::from_ref(&camera))[0].iops;
    let mut streams = vec![camera; 12];
    streams.push(StreamConfig::closed(2));
    let together = on_a_large_drive("headtime", &streams);
    for camera in &together[..12] {
        assert!(camera.iops > 0.7 * alone, "{} of {alone}: {together:?}", camera.iops);
    }
}

/// The next request of the one that was answered comes soon, and the cheaper of two goes.
#[test]
fn few_random_readers_with_short_pauses_have_more_than_in_the_order_of_arrival() {
    for drive in ["nearline-20tb", "savvio10k2"] {
        let readers = "{ clients = 2, size = '8KiB', think = '100us' }";
        let rate = |policy| rates_under(policy, drive, &[readers])[0];
        let (own, other) = (rate("headtime"), rate("fcfs"));
        assert!(own > 1.08 * other, "{drive}: {own}, in order of arrival {other}");
    }
}
