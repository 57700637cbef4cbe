//! The shares and rates of streams under the default policy, whose streams take turns.

use std::sync::Arc;

use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry, Tenant, Terms, VolumeId};
use headtime_sim::{Experiment, StreamFigures, StreamMeasures, run};
use headtime_units::{Extent, Nanos, Share};
use headtime_workload::file::WorkloadFile;
use headtime_workload::{Arrivals, Interarrival, Mix, Order, Sizes, StreamConfig, ThinkTime};

use super::measure;

/// Two synchronous readers far from each other, with 500 us between two requests.
fn two_sequential_readers_mib_per_second(policy: &str) -> f64 {
    let profile = Arc::new(catalog::load("nearline-20tb").expect("the profile ships"));
    let capacity = profile.capacity().get();
    let reader = |from_percent: u64| StreamConfig {
        arrivals: Arrivals::Closed { clients: 1, think: ThinkTime::Constant(Nanos::from_us(500)) },
        sizes: Sizes::Fixed { bytes: 65_536 },
        order: Order::Sequential,
        range: Some(Extent::from_numbers(capacity * from_percent / 100, capacity / 10)),
        ..StreamConfig::closed(1)
    };
    let (entry, parameters) = PolicyEntry::parse(policy).expect("the policy is in the table");
    let experiment =
        Experiment { requests: 1_000, parameters, ..Experiment::new(profile, entry, 1) };
    measure(&experiment, &[reader(0), reader(60)]).mib_per_second
}

/// The wait for the next read of the same process saves the seek to the other and back; the drive
/// reads ahead while it waits.
#[test]
fn two_sequential_readers_get_several_times_more_where_the_policy_waits_for_them() {
    let without = ["fcfs", "clook"].map(two_sequential_readers_mib_per_second);
    for policy in ["as", "cas", "headtime"] {
        let with = two_sequential_readers_mib_per_second(policy);
        assert!(
            without.iter().all(|without| with > 5.0 * without),
            "{policy}: {with} MiB/s, fcfs and clook {without:?}"
        );
    }
}

/// The results of these streams on a 20 TB drive in five seconds, each stream in its own part.
fn on_a_large_drive(policy: &str, streams: &[StreamConfig]) -> Vec<StreamFigures> {
    let profile = Arc::new(catalog::load("nearline-20tb").expect("the profile ships"));
    let part = profile.capacity().get() / streams.len() as u64;
    let placed: Vec<StreamConfig> = (0..)
        .zip(streams)
        .map(|(number, stream)| StreamConfig {
            range: Some(Extent::from_numbers(number * part, part)),
            ..stream.clone()
        })
        .collect();
    let experiment = Experiment {
        by_stream: true,
        requests: u64::MAX,
        warm_up_time: Some(Nanos::from_secs(1)),
        length: Some(Nanos::from_secs(5)),
        ..Experiment::new(
            profile,
            PolicyEntry::find(policy).expect("the policy is in the table"),
            1,
        )
    };
    measure(&experiment, &placed).streams.iter().map(StreamMeasures::figures).collect()
}

fn sequential(clients: u32, bytes: u64) -> StreamConfig {
    StreamConfig {
        sizes: Sizes::Fixed { bytes },
        order: Order::Sequential,
        positions: Some(1),
        ..StreamConfig::closed(clients)
    }
}

/// The media rate at the outer edge is 272 MiB/s.
#[test]
fn four_sequential_readers_share_the_drive_and_none_stands_still_for_a_second() {
    let readers = vec![sequential(1, 131_072); 4];
    let figures = on_a_large_drive("headtime", &readers);
    let total: f64 = figures.iter().map(|reader| reader.mib_per_second).sum();
    assert!(total > 190.0, "{total} MiB/s");
    for reader in &figures {
        assert!(reader.mib_per_second > 0.16 * total, "{figures:?}");
        assert!(reader.response_ms.max < 1_000.0, "{figures:?}");
    }
}

#[test]
fn a_sequential_reader_and_random_ones_have_about_half_of_the_drive_each() {
    let (backup, database) = (sequential(4, 1 << 20), StreamConfig::closed(8));
    let alone = [&backup, &database]
        .map(|stream| on_a_large_drive("headtime", std::slice::from_ref(stream))[0].iops);
    let together = on_a_large_drive("headtime", &[backup, database]);
    for (stream, alone) in together.iter().zip(alone) {
        let progress = stream.iops / alone;
        assert!((0.35..0.65).contains(&progress), "{progress} of {alone}: {together:?}");
    }
}

/// The drive serves four reads of a turn in their order, and the recorder's writes, which it takes
/// into its cache, end no turn.
#[test]
fn a_backup_keeps_its_part_beside_a_database_and_a_recorder() {
    let database = "{ clients = 8, reads = 0.7, size = '8KiB', range = '33%..63%' }";
    let backup = "{ clients = 4, positions = 1, size = '1MiB', range = '66%..100%', \
        run = { kind = 'sequential' } }";
    let recorder = "{ arrivals = { kind = 'constant', rate = 15.0 }, reads = 0.0, \
        size = '256KiB', range = '0%..30%', run = { kind = 'sequential' }, deadline = '250ms' }";
    let alone = [database, backup].map(|stream| rates("nearline-20tb", &[stream])[0]);
    for streams in [&[database, backup][..], &[database, backup, recorder]] {
        let beside = rates("nearline-20tb", streams);
        assert!(beside[0] > 0.4 * alone[0], "{beside:?} of {alone:?}");
        assert!(beside[1] > 0.44 * alone[1], "{beside:?} of {alone:?}");
    }
}

/// Each reads 16 KiB every millisecond, which the drive reads ahead for both.
#[test]
fn what_the_drive_has_read_ahead_for_one_reader_does_not_wait_for_the_other() {
    let reader = StreamConfig {
        arrivals: Arrivals::Closed { clients: 1, think: ThinkTime::Constant(Nanos::from_ms(1)) },
        ..sequential(1, 16_384)
    };
    let alone = on_a_large_drive("headtime", std::slice::from_ref(&reader))[0].iops;
    let together = on_a_large_drive("headtime", &vec![reader; 2]);
    for reader in &together {
        assert!(reader.iops > 0.85 * alone, "{} of {alone}: {together:?}", reader.iops);
    }
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

/// Files of 2 MiB, read in sequence by eight clients, are a new run each.
#[test]
fn many_new_runs_have_no_larger_share_than_the_requests_beside_them() {
    let files = StreamConfig {
        order: Order::FixedRuns { requests: 16 },
        positions: None,
        arrivals: StreamConfig::closed(8).arrivals,
        ..sequential(1, 131_072)
    };
    let random = StreamConfig::closed(2);
    let alone = on_a_large_drive("headtime", std::slice::from_ref(&random))[0].iops;
    let together = on_a_large_drive("headtime", &[files, random]);
    assert!(together[1].iops > 0.15 * alone, "of {alone}: {together:?}");
}

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

/// Each of four readers in sequence and four random ones has an eighth of the drive, and a random
/// one alone gets two fifths of what four get together.
#[test]
fn random_clients_have_as_large_a_share_as_readers_in_sequence() {
    let streams = [sequential(4, 131_072), StreamConfig::closed(4)];
    let alone = on_a_large_drive("headtime", &streams[1..])[0].iops;
    let together = on_a_large_drive("headtime", &streams);
    assert!((0.4..0.6).contains(&(together[1].iops / alone)), "of {alone}: {together:?}");
}

/// Eight readers of one volume have as much of the drive as the one of another.
#[test]
fn volumes_have_the_same_share_however_many_runs_they_have() {
    let one = sequential(1, 131_072);
    let alone = on_a_large_drive("headtime", std::slice::from_ref(&one))[0].iops;
    let eight = StreamConfig { positions: Some(8), ..sequential(8, 131_072) };
    let together = on_a_large_drive("headtime", &[one, eight]);
    assert!((0.3..0.6).contains(&(together[0].iops / alone)), "of {alone}: {together:?}");
}

/// The 48 random clients wait for more than a round each, by their own number.
#[test]
fn a_long_queue_of_random_requests_takes_no_time_from_a_reader_in_sequence() {
    let reader = sequential(1, 32_768);
    let alone = on_a_large_drive("headtime", std::slice::from_ref(&reader))[0].iops;
    let streams = [reader, StreamConfig::closed(32), StreamConfig::closed(16)];
    let together = on_a_large_drive("headtime", &streams);
    assert!(together[0].iops > 0.25 * alone, "of {alone}: {together:?}");
}

/// A client that has begun to read elsewhere does not go on where it was.
#[test]
fn a_client_that_reads_a_few_requests_at_a_place_does_not_wait_for_itself() {
    let client = StreamConfig {
        sizes: Sizes::Fixed { bytes: 8_192 },
        order: Order::FixedRuns { requests: 16 },
        ..StreamConfig::closed(1)
    };
    let rate = |policy| on_a_large_drive(policy, std::slice::from_ref(&client))[0].iops;
    let (headtime, fcfs) = (rate("headtime"), rate("fcfs"));
    assert!(headtime > 0.99 * fcfs, "{headtime}, fcfs {fcfs}");
}

/// Each request in sequence costs a revolution there, and the cheapest of four less.
#[test]
fn runs_have_no_turns_on_a_drive_that_does_not_read_ahead_where_they_save_nothing() {
    let reader = "{ clients = 4, size = '4KiB', range = '27%..37%', \
        run = { kind = 'geometric', mean = 8.0 } }";
    let rate = |policy| rates_under(policy, "atlas10k", &[reader])[0];
    let (headtime, alone) = (rate("headtime"), rate("sptf-expected"));
    assert!(headtime > 0.92 * alone, "{headtime}, each request by itself {alone}");
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

/// A write of a client that waits for each goes into the cache of the drive.
#[test]
fn a_writer_in_sequence_does_not_wait_for_the_turns_of_random_readers() {
    let writer = StreamConfig { mix: Mix::reads(0.0), ..sequential(1, 4_096) };
    let alone = on_a_large_drive("headtime", std::slice::from_ref(&writer))[0].iops;
    let together = on_a_large_drive("headtime", &[writer, StreamConfig::closed(8)]);
    assert!(together[0].iops > 0.5 * alone, "of {alone}: {together:?}");
    assert!(together[1].iops > 40.0, "{together:?}");
}

/// Writes into the drive's cache are not merged, because each waits for the last of a command.
#[test]
fn a_lone_writer_in_sequence_is_as_fast_as_with_the_queue_of_the_drive() {
    let writer = StreamConfig { mix: Mix::reads(0.0), ..sequential(8, 4_096) };
    let rate = |policy| on_a_large_drive(policy, std::slice::from_ref(&writer))[0].iops;
    let (own, drive) = (rate("headtime"), rate("firmware"));
    assert!(own > 0.99 * drive, "{own} of {drive}");
}

/// Four clients write in sequence without a pause, so that the drive's cache takes one write after
/// the other.
#[test]
fn random_reads_do_not_wait_for_writes_in_sequence_that_never_end() {
    let writes = StreamConfig {
        mix: Mix::reads(0.0),
        arrivals: Arrivals::Closed { clients: 4, think: ThinkTime::None },
        positions: Some(4),
        ..sequential(1, 4_096)
    };
    let reads = StreamConfig::open(Interarrival::Poisson { per_second: 20.0 });
    let together = on_a_large_drive("headtime", &[writes, reads]);
    let reads = &together[1];
    assert!(reads.response_ms.mean < 2.0 * reads.service_ms.mean, "{together:?}");
}

/// A recorder whose requests have deadlines, a database and a backup.
#[test]
fn turns_of_streams_miss_no_deadline() {
    let recorder = StreamConfig {
        sizes: Sizes::Fixed { bytes: 262_144 },
        order: Order::Sequential,
        deadline: Some(Nanos::from_ms(250)),
        ..StreamConfig::open(Interarrival::Constant(Nanos::from_ms(66)))
    };
    let streams = [recorder, StreamConfig::closed(8), sequential(4, 1 << 20)];
    let [recorder, database, backup] = &on_a_large_drive("headtime", &streams)[..] else {
        panic!("three streams have three results")
    };
    assert!(recorder.deadline_requests > 70 && recorder.deadline_misses == 0, "{recorder:?}");
    assert!(database.iops > 60.0, "{database:?}");
    assert!(backup.mib_per_second > 45.0, "{backup:?}");
}

/// 32 clients ask for more than the drive can do: it serves as many requests as without deadlines,
/// and most of them in time.
#[test]
fn deadlines_that_cannot_all_be_met_cost_no_throughput() {
    let served = |deadline| {
        let random = StreamConfig { deadline, ..StreamConfig::closed(32) };
        on_a_large_drive("headtime", &[random]).remove(0)
    };
    let (with, without) = (served(Some(Nanos::from_ms(200))), served(None));
    assert!(with.iops > 0.9 * without.iops, "{} of {}", with.iops, without.iops);
    let missed = with.deadline_misses as f64 / with.deadline_requests as f64;
    assert!(missed < 0.4, "{missed}");
}

/// The requests per second of each of these streams, as a workload file describes them.
fn rates(drive: &str, streams: &[&str]) -> Vec<f64> {
    rates_under("headtime", drive, streams)
}

fn rates_under(policy: &str, drive: &str, streams: &[&str]) -> Vec<f64> {
    rates_with(Vec::new(), policy, drive, streams)
}

/// The rates of streams where volumes, which are numbered as the streams are, have terms.
fn rates_with(
    terms: Vec<(Tenant, Terms)>,
    policy: &str,
    drive: &str,
    streams: &[&str],
) -> Vec<f64> {
    let figures = figures_with(terms, policy, drive, streams);
    figures.iter().map(|stream| stream.iops).collect()
}

fn figures_with(
    terms: Vec<(Tenant, Terms)>,
    policy: &str,
    drive: &str,
    streams: &[&str],
) -> Vec<StreamFigures> {
    let text = format!("stream = [{}]", streams.join(", "));
    let file = WorkloadFile::from_toml("streams", &text).expect("the text is right");
    let profile = Arc::new(catalog::load(drive).expect("the profile ships"));
    let sector = profile.sector_size().expect("the profile ships");
    let source = file.workload(sector, profile.capacity(), 1, 1).expect("it fits the drive");
    let experiment = Experiment {
        by_stream: true,
        requests: u64::MAX,
        warm_up_time: Some(Nanos::from_secs(4)),
        length: Some(Nanos::from_secs(20)),
        terms,
        ..Experiment::new(profile, PolicyEntry::find(policy).expect("it is there"), 1)
    };
    let belief = |profile: &DriveProfile| -> Box<dyn Belief + Send> {
        headtime_belief::of_profile(profile).expect("the profile ships")
    };
    let measures = run(&experiment, source, &belief).expect("the streams are served");
    measures.streams.iter().map(StreamMeasures::figures).collect()
}

/// Its requests are many at a time, in one run after the other.
const PAGE_CACHE: &str = "{ process = { kind = 'writer', file = '1GiB', memory = '256MiB' }, \
    size = '256KiB', think = '1ms', range = '10%..40%' }";

/// Cached reads of a lone run go as one command: this drive takes one at a time, and each costs its
/// overhead.
#[test]
fn the_reads_of_a_lone_run_are_merged() {
    let reader = ["{ clients = 8, positions = 1, run = 'sequential', size = '4KiB' }"];
    let rate = |policy| rates_under(policy, "deskstar34gxp", &reader)[0];
    let (own, drive) = (rate("headtime"), rate("firmware"));
    assert!(own > 1.3 * drive, "{own} of {drive}");
}

/// The clients continue with the next run while the last requests of the one before are queued.
#[test]
fn the_end_of_a_run_is_served_before_the_next_begins() {
    let runs = "{ clients = 20, positions = 1, size = '4KiB', \
        run = { kind = 'fixed', requests = 1024 } }";
    let rate = |policy| rates_under(policy, "deskstar34gxp@papers", &[runs])[0];
    let (own, elevator) = (rate("headtime"), rate("mq-deadline"));
    assert!(own > 0.95 * elevator, "{own} of {elevator}");
}

#[test]
fn a_reader_beside_a_page_cache_keeps_two_fifths_of_its_rate() {
    let reader = "{ process = 'reader', think = '20us', range = '60%..90%' }";
    let alone = rates("atlas10k", &[reader])[0];
    let beside = rates("atlas10k", &[PAGE_CACHE, reader])[1];
    assert!(beside > 0.4 * alone, "{beside} of {alone}");
}

/// The drive reads ahead while the policy waits for the next request of one of them.
#[test]
fn clients_that_read_and_write_in_sequence_have_turns() {
    let mixed = ["{ clients = 4, think = { kind = 'exponential', mean = '5ms' }, reads = 0.7, \
        size = '128KiB', run = { kind = 'geometric', mean = 64 } }"];
    let rate = |policy| rates_under(policy, "nearline-20tb", &mixed)[0];
    let (own, sweep) = (rate("headtime"), rate("mq-deadline"));
    assert!(own > 1.5 * sweep, "{own} of {sweep}");
}

/// The drive takes their writes into its cache, and destages them when it has to, not between two
/// reads.
#[test]
fn logs_and_recorders_cost_random_clients_little() {
    let recorder = "{ arrivals = { kind = 'constant', rate = 15.0 }, reads = 0.0, \
        size = '256KiB', range = '0%..20%', run = { kind = 'sequential' } }";
    let writers = "{ clients = 4, think = '20ms', reads = 0.0, size = '64KiB', \
        range = '0%..5%', run = { kind = 'sequential' } }";
    let flushing = "{ clients = 16, reads = 0.7, size = '8KiB', range = '20%..100%', \
        flush_every = 4 }";
    let mixed = "{ clients = 16, reads = 0.7, size = '8KiB', range = '20%..100%' }";
    let readers = "{ clients = 8, size = '8KiB', range = '20%..100%' }";
    let timely = recorder.replace("reads = 0.0,", "reads = 0.0, deadline = '250ms',");
    let beside = [
        (recorder, flushing, 0.95),
        (recorder, mixed, 0.95),
        (&timely, mixed, 0.95),
        (writers, readers, 0.9),
    ];
    for (writer, clients, part) in beside {
        let rate = |policy| rates_under(policy, "nearline-20tb", &[writer, clients])[1];
        let (own, elevator) = (rate("headtime"), rate("mq-deadline"));
        assert!(own > part * elevator, "{own} of {elevator}");
    }
}

/// The arms share the drive's cache: one destages for the writes of both.
#[test]
fn random_clients_on_two_arms_lose_little_to_the_drive_s_own_queue() {
    for (clients, flush, part) in [(8, "", 0.96), (32, "", 0.96), (8, "flush_every = 16", 0.97)] {
        let mixed = format!("{{ clients = {clients}, reads = 0.7, size = '8KiB', {flush} }}");
        let rate = |policy| rates_under(policy, "exos-2x18", &[&mixed])[0];
        let (own, firmware) = (rate("headtime"), rate("firmware"));
        assert!(own > part * firmware, "{clients} {flush}: {own} of {firmware}");
    }
}

/// Far from the reads, the drive destages one write of a full cache between any two of them.
#[test]
fn a_drive_whose_order_costs_twice_as_much_does_not_order() {
    let streams = [
        "{ clients = 2, size = '64KiB', range = '20%..30%' }",
        "{ clients = 16, reads = 0.0, size = '4KiB', range = '88%..90%', think = '100ms' }",
    ];
    let rates_of = |policy| rates_under(policy, "nearline-20tb", &streams);
    let (own, firmware) = (rates_of("headtime"), rates_of("firmware"));
    for (own, firmware) in own.iter().zip(&firmware) {
        assert!(*own > 1.9 * firmware, "{own} of {firmware}");
    }
}

/// The drive orders them when it destages.
#[test]
fn writes_alone_are_as_fast_as_with_the_drive_s_own_queue() {
    for run in ["", ", run = { kind = 'geometric', mean = 4.0 }"] {
        let writes = format!("{{ clients = 16, reads = 0.0, size = '8KiB'{run} }}");
        let rate = |policy| rates_under(policy, "nearline-20tb", &[&writes])[0];
        let (own, firmware) = (rate("headtime"), rate("firmware"));
        assert!(own > 0.97 * firmware, "{own} of {firmware}{run}");
    }
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

/// Between the bursts of these writes the drive has time to spare. Turns take so much longer than
/// the drive alone that the next burst comes before the last is over.
#[test]
fn bursts_of_writes_in_short_runs_delay_others_no_more_than_in_the_drive_s_own_queue() {
    let writes = |place: u32| {
        format!(
            "{{ arrivals = {{ kind = 'poisson', rate = 90.0 }}, reads = 0.0, size = '64KiB', \
                positions = 1, \
                run = {{ kind = 'fixed', requests = 64 }}, range = '{}%..{}%' }}",
            5 * place,
            5 * place + 5
        )
    };
    let mut streams: Vec<String> = (0..16).map(writes).collect();
    let others = [
        "{ arrivals = { kind = 'poisson', rate = 45.0 }, reads = 0.0, size = '256KiB', \
            positions = 1, \
            run = { kind = 'fixed', requests = 8 }, range = '80%..90%' }",
        "{ arrivals = { kind = 'poisson', rate = 8.0 }, reads = 1.0, size = '4KiB', \
            range = '90%..100%' }",
    ];
    streams.extend(others.map(String::from));
    let streams: Vec<&str> = streams.iter().map(String::as_str).collect();
    let mean =
        |policy| figures_with(Vec::new(), policy, "nearline-20tb", &streams)[17].response_ms.mean;
    let (own, firmware) = (mean("headtime"), mean("firmware"));
    assert!(own < 1.4 * firmware, "{own} ms of {firmware}");
}

/// Its writes extend what the drive's cache holds, though that has no room for those at random.
#[test]
fn a_writer_in_sequence_does_not_wait_for_the_room_that_random_writes_need() {
    let random = "{ arrivals = { kind = 'poisson', rate = 222.0 }, reads = 0.7, size = '4KiB', \
        range = '13%..15%', \
        place = { kind = 'zipf', theta = 0.9, chunk = '1MiB', ordered = false } }";
    let writer = "{ arrivals = { kind = 'poisson', rate = 165.0 }, reads = 0.0, size = '16KiB', \
        run = { kind = 'sequential' } }";
    let all = figures_with(Vec::new(), "headtime", "nearline-20tb", &[random, writer]);
    let mean = |stream: usize| all[stream].response_ms.mean;
    assert!(mean(1) < 4.0 && mean(0) < 24.0, "{} and {} ms", mean(0), mean(1));
}

/// They write more than the drive can destage beside the requests of others: turns cost fewer
/// seeks.
#[test]
fn writers_in_sequence_that_never_pause_have_turns() {
    let random = "{ clients = 8, think = { kind = 'exponential', mean = '5ms' }, reads = 0.7, \
        size = '4KiB', range = '13%..15%', \
        place = { kind = 'zipf', theta = 0.9, chunk = '1MiB', ordered = false } }";
    let writer = "{ clients = 2, reads = 0.0, size = '16KiB', positions = 1, \
        run = { kind = 'sequential' } }";
    let rates = |policy| rates_under(policy, "nearline-20tb", &[random, writer]);
    let (own, elevator) = (rates("headtime"), rates("mq-deadline"));
    assert!(own[0] > 0.87 * elevator[0] && own[1] > elevator[1], "{own:?} beside {elevator:?}");
    let [readers, writers] = [1, 0].map(|reads| {
        format!(
            "{{ clients = 2, reads = {reads}.0, size = '256KiB', run = {{ kind = 'sequential' }} }}"
        )
    });
    let total = |policy| -> f64 {
        rates_under(policy, "nearline-20tb", &[&readers, &writers]).iter().sum()
    };
    let (own, elevator) = (total("headtime"), total("deadline"));
    assert!(own > 0.84 * elevator, "{own} of {elevator}");
}

/// A run that lasts has turns, though nobody reads.
#[test]
fn a_writer_in_sequence_keeps_its_part_beside_random_writers() {
    let sequential = "{ clients = 1, reads = 0.0, size = '128KiB', run = { kind = 'sequential' } }";
    let random = "{ clients = 16, reads = 0.0, size = '8KiB' }";
    let rate = |policy| rates_under(policy, "nearline-20tb", &[sequential, random])[0];
    let (own, firmware) = (rate("headtime"), rate("firmware"));
    assert!(own > 1.5 * firmware, "{own} and {firmware}");
}

/// A sequential reader that ends after 64 MiB.
#[test]
fn a_run_that_has_ended_costs_random_clients_nothing() {
    let reader = "{ size = '1MiB', range = '5%..20%', run = { kind = 'sequential' }, \
        bytes = '64MiB' }";
    let mixed = "{ clients = 16, reads = 0.7, size = '8KiB', range = '20%..100%' }";
    let alone = rates("nearline-20tb", &[mixed])[0];
    let beside = rates("nearline-20tb", &[reader, mixed])[1];
    assert!(beside > 0.97 * alone, "{beside} of {alone}");
}

/// Two write into the drive's cache as fast as it takes them.
#[test]
fn writes_beside_the_turns_are_no_more_than_their_part() {
    let writers = "{ clients = 2, reads = 0.0, size = '128KiB', range = '54%..64%', \
        run = { kind = 'sequential' }, positions = 1 }";
    let random = "{ clients = 8, reads = 0.5, size = '16KiB' }";
    let readers = "{ clients = 4, think = { kind = 'exponential', mean = '20ms' }, \
        size = '256KiB', range = '33%..63%', run = { kind = 'geometric', mean = 16.0 } }";
    let alone = [random, readers].map(|stream| rates("nearline-20tb", &[stream])[0]);
    let beside = rates("nearline-20tb", &[writers, random, readers]);
    assert!(beside[1] > 0.12 * alone[0], "{beside:?} of {alone:?}");
    assert!(beside[2] > 0.12 * alone[1], "{beside:?} of {alone:?}");
}

/// Between two reads all requests held are of the one run of writes, which goes into the cache.
#[test]
fn a_drive_with_a_write_cache_serves_a_reader_beside_a_writer() {
    let writer = "{ process = { kind = 'writer', file = '2GiB' }, size = '1MiB', think = '3ms', \
        range = '10%..40%' }";
    let reader = "{ process = 'reader', think = '10us', range = '60%..70%' }";
    let alone = rates("nearline-20tb", &[reader])[0];
    let beside = rates("nearline-20tb", &[writer, reader]);
    assert!(beside[1] > 0.25 * alone, "{beside:?} of {alone}");
    assert!(beside[0] > 0.25 * alone, "{beside:?} of {alone}");
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

/// The drive takes the writes of the page cache at once, and destages all of them for each flush.
#[test]
fn clients_that_flush_keep_their_part_beside_a_page_cache() {
    let copy = "{ process = { kind = 'writer', file = '4GiB', memory = '1GiB', \
        request = '1MiB' }, size = '1MiB', think = '1ms', range = '0%..20%' }";
    let database = "{ clients = 4, size = '8KiB', reads = 0.6, flush_every = 1, \
        range = '30%..31%' }";
    let log = "{ clients = 1, size = '8KiB', reads = 0.0, flush_every = 1, range = '30%..31%', \
        run = { kind = 'fixed', requests = 1000 } }";
    let copied = rates("nearline-20tb", &[copy])[0];
    for client in [database, log] {
        let alone = rates("nearline-20tb", &[client])[0];
        let both = [copy, client];
        let half = Terms::reserving(Share::from_fraction(0.5).expect("less than the whole"));
        let reserved =
            rates_with(vec![(Tenant::of(VolumeId(1)), half)], "headtime", "nearline-20tb", &both);
        for beside in [rates("nearline-20tb", &both), reserved] {
            assert!(beside[1] > 0.27 * alone, "{beside:?} of {alone}");
            assert!(beside[0] > 0.35 * copied, "{beside:?} of {copied}");
        }
    }
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

/// A drive that takes one command at a time orders nothing.
#[test]
fn writes_are_not_left_to_a_drive_that_takes_one_command_at_a_time() {
    let writers = "{ clients = 2, reads = 0.0, size = '256KiB', \
        run = { kind = 'geometric', mean = 4.0 } }";
    let rate = |policy| rates_under(policy, "diamondmax9", &[writers])[0];
    let (own, cheapest) = (rate("headtime"), rate("sptf-expected"));
    assert!(own > 0.95 * cheapest, "{own} requests/s, the cheapest first {cheapest}");
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

/// To reach another place costs a seek there, too: all requests are on one of its arms.
#[test]
fn short_runs_have_visits_on_a_drive_with_two_arms() {
    let clients = "{ clients = 4, reads = 0.7, size = '64KiB', range = '17%..27%', \
        run = { kind = 'geometric', mean = 8.0 } }";
    let rate = |policy| rates_under(policy, "exos-2x18", &[clients])[0];
    let (own, elevator) = (rate("headtime"), rate("deadline"));
    assert!(own > 0.85 * elevator, "{own} requests/s, in runs by address {elevator}");
}
