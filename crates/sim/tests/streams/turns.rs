//! The shares and rates of streams under the default policy, whose streams take turns.

use std::sync::Arc;

use headtime_mechanics::catalog;
use headtime_sched::PolicyEntry;
use headtime_sim::Experiment;
use headtime_units::{Extent, Nanos};
use headtime_workload::{Arrivals, Interarrival, Order, Sizes, StreamConfig, ThinkTime};

use super::measure;
use super::rates::{figures_with, on_a_large_drive, rates, rates_under, sequential};

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

/// Writers that pause have one request in each turn, which costs a change.
#[test]
fn writers_with_one_request_in_each_turn_have_no_turns() {
    let writers = "{ clients = 24, reads = 0.0, size = '16KiB', think = { kind = 'exponential', \
        mean = '100ms' }, run = { kind = 'geometric', mean = 64.0 } }";
    let rate = |policy| rates_under(policy, "atlas10k", &[writers])[0];
    let (headtime, alone) = (rate("headtime"), rate("sptf-expected"));
    assert!(headtime > 0.92 * alone, "{headtime}, each request by itself {alone}");
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

/// The drive reads ahead while the policy waits for the next request of one of them.
#[test]
fn clients_that_read_and_write_in_sequence_have_turns() {
    let mixed = ["{ clients = 4, think = { kind = 'exponential', mean = '5ms' }, reads = 0.7, \
        size = '128KiB', run = { kind = 'geometric', mean = 64 } }"];
    let rate = |policy| rates_under(policy, "nearline-20tb", &mixed)[0];
    let (own, sweep) = (rate("headtime"), rate("mq-deadline"));
    assert!(own > 1.5 * sweep, "{own} of {sweep}");
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

/// The drive destages the writes of others before requests with a deadline, and knows no deadlines
/// itself.
#[test]
fn deadlines_are_kept_beside_writes_that_the_drive_destages() {
    let reads = "{ size = '16KiB', deadline = '150ms', range = '2%..40%', \
        arrivals = { kind = 'poisson', rate = 20.0 } }";
    let writes = "{ size = '16KiB', reads = 0.0, deadline = '150ms', range = '2%..40%', \
        arrivals = { kind = 'poisson', rate = 20.0 } }";
    let mixed = "{ clients = 8, reads = 0.7, size = '8KiB', think = '100us', range = '50%..90%' }";
    let writers = "{ clients = 4, reads = 0.0, size = '128KiB', think = '100us', \
        range = '50%..90%', positions = 4, run = { kind = 'sequential' } }";
    for (timely, beside) in [(reads, mixed), (writes, writers)] {
        let figures = figures_with(Vec::new(), "headtime", "nearline-20tb", &[timely, beside]);
        let (missed, all) = (figures[0].deadline_misses, figures[0].deadline_requests);
        assert!(missed as f64 <= 0.03 * all as f64, "{missed} of {all} late beside {beside}");
    }
}
