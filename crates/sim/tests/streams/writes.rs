//! Writes beside other requests, with and without room in the drive's cache.

use headtime_sched::{Tenant, Terms, VolumeId};
use headtime_units::Share;
use headtime_workload::{Arrivals, Interarrival, Mix, StreamConfig, ThinkTime};

use super::rates::{
    PAGE_CACHE, figures_with, on_a_large_drive, rates, rates_under, rates_with, sequential,
};

const FOUR_PAGE_CACHES: &str = "{ clients = 4, size = '64KiB', think = '20us', \
    process = { kind = 'writer', file = '1GiB', memory = '256MiB' } }";

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

#[test]
fn a_reader_beside_a_page_cache_keeps_two_fifths_of_its_rate() {
    let reader = "{ process = 'reader', think = '20us', range = '60%..90%' }";
    let alone = rates("atlas10k", &[reader])[0];
    let beside = rates("atlas10k", &[PAGE_CACHE, reader])[1];
    assert!(beside > 0.4 * alone, "{beside} of {alone}");
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

/// A drive that takes one command at a time orders nothing.
#[test]
fn writes_are_not_left_to_a_drive_that_takes_one_command_at_a_time() {
    let writers = "{ clients = 2, reads = 0.0, size = '256KiB', \
        run = { kind = 'geometric', mean = 4.0 } }";
    let rate = |policy| rates_under(policy, "diamondmax9", &[writers])[0];
    let (own, cheapest) = (rate("headtime"), rate("sptf-expected"));
    assert!(own > 0.95 * cheapest, "{own} requests/s, the cheapest first {cheapest}");
}

/// Other drives take such writes beside a command that needs the arm.
#[test]
fn flushes_do_not_starve_writes_in_sequence_on_a_drive_that_takes_one_command_at_a_time() {
    let flushing = "{ clients = 2, reads = 0.5, size = '32KiB', range = '70%..72%', flush_every = \
        1 }";
    let writers = "{ clients = 4, reads = 0.0, size = '64KiB', run = { kind = 'geometric', mean = \
        64.0 } }";
    for drive in ["barracuda7200-7", "diamondmax9"] {
        let rates = rates(drive, &[flushing, writers]);
        assert!(rates[0] > 20.0 && rates[1] > 50.0, "{drive}: {rates:?}");
    }
}

/// Each write waits a fraction of a millisecond for the drive, not for the random request before.
#[test]
fn a_writer_in_sequence_has_its_part_on_a_drive_that_takes_one_command_at_a_time() {
    let random = "{ clients = 4, think = { kind = 'exponential', mean = '1ms' }, reads = 0.7, \
        flush_every = 2, size = '64KiB' }";
    let writer = "{ clients = 1, reads = 0.0, size = '8KiB', run = { kind = 'sequential' }, \
        positions = 1 }";
    for drive in ["barracuda7200-7", "diamondmax9"] {
        let beside = rates(drive, &[random, writer]);
        let alone = [random, writer].map(|stream| rates(drive, &[stream])[0]);
        let has_part = |(rate, alone): (&f64, f64)| *rate > 0.25 * alone;
        assert!(beside.iter().zip(alone).all(has_part), "{drive}: {beside:?} of {alone:?}");
    }
}

/// Writes that the drive's cache takes are merged little, and the first of several that abut goes
/// first.
#[test]
fn page_caches_write_as_fast_as_where_each_request_is_priced_alone() {
    for drive in ["ultrastar-hc570", "barracuda-2tb", "maxtor-20gb", "diamondmax9"] {
        let rate = |policy| rates_under(policy, drive, &[FOUR_PAGE_CACHES])[0];
        let (own, alone) = (rate("headtime"), rate("sptf-expected"));
        assert!(own > 0.9 * alone, "{drive}: {own} requests/s, each alone {alone}");
    }
}

/// Each command to the medium costs a revolution there, which long commands share.
#[test]
fn page_caches_write_as_fast_as_under_mq_deadline_on_a_drive_without_a_write_cache() {
    let rate = |policy| rates_under(policy, "barracuda7200-7@nocache", &[FOUR_PAGE_CACHES])[0];
    let (own, other) = (rate("headtime"), rate("mq-deadline"));
    assert!(own > 0.9 * other, "{own} requests/s, mq-deadline {other}");
}

/// A page cache pauses between its files, as a log does, but sends many writes at once.
#[test]
fn page_caches_are_not_taken_for_logs() {
    let readers = "{ clients = 2, size = '32KiB' }";
    let log = "{ arrivals = { kind = 'poisson', rate = 12.0 }, reads = 0.0, size = '16KiB', \
        range = '18%..28%', run = { kind = 'sequential' } }";
    let page_caches = "{ clients = 2, size = '64KiB', think = '20us', range = '73%..75%', \
        process = { kind = 'writer', file = '1GiB', memory = '256MiB' } }";
    let alone = rates("savvio10k2", &[readers])[0];
    let beside = rates("savvio10k2", &[page_caches, readers, log])[1];
    assert!(beside > 0.4 * alone, "{beside} requests/s of {alone}");
}

/// A command of all that it has outstanding would end its turn.
#[test]
fn a_writer_in_sequence_has_its_part_beside_page_caches() {
    let writer = "{ clients = 8, reads = 0.0, size = '512KiB', run = { kind = 'sequential' }, \
        positions = 1 }";
    let drive = "barracuda-2tb@nocache";
    let alone = rates(drive, &[writer])[0];
    let beside = rates(drive, &[FOUR_PAGE_CACHES, writer])[1];
    assert!(beside > 0.3 * alone, "{beside} requests/s of {alone}");
}

/// The overhead of each command shows.
#[test]
fn small_requests_in_sequence_are_merged_on_a_drive_that_takes_one_command_at_a_time() {
    for reads in ["0.0", "1.0"] {
        let stream = format!(
            "{{ clients = 8, reads = {reads}, size = '4KiB', run = {{ kind = 'sequential' }}, \
                positions = 1 }}"
        );
        let rate = |policy| rates_under(policy, "barracuda7200-7", &[&stream])[0];
        let (own, alone) = (rate("headtime"), rate("sptf-expected"));
        assert!(own > 2.0 * alone, "{reads}: {own} requests/s, each alone {alone}");
    }
}

/// Small drives destage one after the other what all of them write in a moment.
#[test]
fn writers_in_sequence_take_turns_where_that_costs_less() {
    let writers = "{ clients = 4, reads = 0.0, size = '32KiB', run = { kind = 'sequential' }, \
        positions = 4 }";
    let reader = "{ arrivals = { kind = 'poisson', rate = 6.0 }, size = '8KiB' }";
    for drive in ["maxtor-20gb", "barracuda7200-7", "cheetah10k7"] {
        let rate = |policy| rates_under(policy, drive, &[writers])[0];
        let (own, other) = (rate("headtime"), rate("mq-deadline"));
        assert!(own > 0.9 * other, "{drive}: {own} requests/s, mq-deadline {other}");
        let figures = |policy| figures_with(Vec::new(), policy, drive, &[writers, reader]);
        let (own, other) = (figures("headtime"), figures("mq-deadline"));
        assert!(own[0].iops > 0.7 * other[0].iops, "{drive}: {own:?}, mq-deadline {other:?}");
        assert!(own[1].response_ms.p99 < 150.0, "{drive}: {own:?}");
    }
}

/// In turns each of them would wait for its client.
#[test]
fn small_writes_in_sequence_go_to_the_drive_as_they_come() {
    let writers = "{ clients = 16, reads = 0.0, size = '4KiB', run = { kind = 'sequential' }, \
        positions = 16 }";
    let reader = "{ arrivals = { kind = 'poisson', rate = 20.0 }, size = '8KiB' }";
    for streams in [&[writers][..], &[writers, reader]] {
        let rate = |policy| rates_under(policy, "savvio10k2", streams)[0];
        let (own, other) = (rate("headtime"), rate("mq-deadline"));
        assert!(own > 0.8 * other, "{own} requests/s, mq-deadline {other}");
    }
}

/// They go before the turns of writers end.
#[test]
fn reads_at_times_do_not_wait_for_a_round_of_writers_in_sequence() {
    let writers = "{ clients = 16, reads = 0.0, size = '32KiB', run = { kind = 'sequential' }, \
        positions = 16 }";
    let reader = "{ arrivals = { kind = 'poisson', rate = 20.0 }, size = '8KiB' }";
    let figures = figures_with(Vec::new(), "headtime", "barracuda-2tb", &[writers, reader]);
    assert!(figures[1].response_ms.p99 < 400.0, "{figures:?}");
}

/// A drive with a large cache orders more writes in it than its clients send.
#[test]
fn writes_at_random_are_forced_where_that_costs_less() {
    let rate = |drive, policy, clients| {
        let writers = format!("{{ clients = {clients}, reads = 0.0, size = '4KiB' }}");
        rates_under(policy, drive, &[&writers])[0]
    };
    for (drive, clients, part) in [
        ("nearline-20tb", 24, 0.97),
        ("ultrastar-hc570", 32, 0.97),
        ("ultrastar-hc570", 64, 0.95),
        ("savvio10k2", 32, 1.12),
        ("barracuda7200-7", 12, 1.0),
        ("barracuda7200-7", 32, 1.12),
    ] {
        let (own, cached) = (rate(drive, "headtime", clients), rate(drive, "mq-deadline", clients));
        assert!(own > part * cached, "{drive}, {clients} clients: {own}, in the cache {cached}");
    }
}

#[test]
fn few_random_writes_beside_reads_are_forced_on_a_drive_that_takes_one_command_at_a_time() {
    for drive in ["barracuda7200-7", "deskstar34gxp"] {
        let mixed = "{ clients = 12, reads = 0.7, size = '8KiB' }";
        let rate = |policy| rates_under(policy, drive, &[mixed])[0];
        let (own, cached) = (rate("headtime"), rate("sptf-expected"));
        assert!(own > 1.12 * cached, "{drive}: {own}, in the cache {cached}");
    }
}

/// A drive that orders them goes to and fro, because it destages a write after each read.
#[test]
fn few_readers_beside_few_writers_in_another_place_are_ordered_by_the_policy() {
    let clients = |of, place| format!("{{ {of}, size = '8KiB', range = '{place}' }}");
    for (readers, writers) in [
        ("clients = 4", "clients = 4, reads = 0.0"),
        ("clients = 4, think = '10ms'", "clients = 4, reads = 0.0, think = '10ms'"),
    ] {
        let (readers, writers) = (clients(readers, "2%..40%"), clients(writers, "50%..90%"));
        for drive in ["nearline-20tb", "barracuda-2tb", "savvio10k2"] {
            let rates = |policy| rates_under(policy, drive, &[&readers, &writers]);
            let (own, other) = (rates("headtime"), rates("mq-deadline"));
            let more = |of: usize, part| own[of] > part * other[of];
            assert!(more(0, 1.4) && more(1, 1.1), "{drive}: {own:?}, mq-deadline {other:?}");
        }
    }
}

/// They are few in a second because the drive destages a write after each; in turns they are more.
#[test]
fn many_waiting_clients_beside_writers_in_sequence_have_turns() {
    let writers = "{ clients = 4, reads = 0.0, size = '128KiB', run = { kind = 'sequential' }, \
        positions = 4, range = '50%..90%' }";
    let clients = "{ clients = 8, reads = 0.7, size = '8KiB', range = '2%..40%' }";
    for drive in ["ultrastar-hc570", "barracuda-2tb", "cheetah10k7"] {
        let alone = [clients, writers].map(|stream| rates(drive, &[stream])[0]);
        let together = rates(drive, &[clients, writers]);
        let parts = [together[0] / alone[0], together[1] / alone[1]];
        assert!(parts[0] > 0.28 && parts[1] > 0.32, "{drive}: {parts:?}");
    }
}

/// A client that waits all the time counts as many, however few of its reads are served.
#[test]
fn a_reader_that_always_waits_has_turns_beside_writers_in_sequence() {
    let writers = "{ clients = 4, reads = 0.0, size = '1MiB', run = { kind = 'sequential' }, \
        positions = 1, range = '2%..40%' }";
    let reader = "{ clients = 1, reads = 1.0, size = '8KiB', think = '100us', range = '50%..90%' }";
    let alone = [writers, reader].map(|stream| rates("savvio10k2", &[stream])[0]);
    let together = rates("savvio10k2", &[writers, reader]);
    let parts = [together[0] / alone[0], together[1] / alone[1]];
    assert!(parts[0] > 0.35 && parts[1] > 0.3, "{parts:?}");
}

const LIGHT_WRITER: &str = "{ clients = 1, reads = 0.0, size = '4KiB', think = '100us', \
    run = { kind = 'sequential' }, positions = 1, range = '2%..40%' }";

/// A write in sequence at the drive, which its cache takes at once, does not move the head: the
/// cheapest read is chosen from where that is.
#[test]
fn random_readers_beside_a_light_writer_keep_their_order() {
    let readers =
        "{ clients = 16, reads = 1.0, size = '8KiB', think = '100us', range = '50%..90%' }";
    for drive in ["nearline-20tb", "ultrastar-hc570"] {
        let parts = parts_of(drive, readers);
        assert!(parts[0] > 0.85 && parts[1] > 0.85, "{drive}: {parts:?}");
    }
}

/// A write that continues one in the cache goes there also where that has no room for others.
#[test]
fn a_light_writer_passes_random_writers_that_fill_the_cache() {
    let writers =
        "{ clients = 4, reads = 0.0, size = '8KiB', think = '100us', range = '50%..90%' }";
    for (drive, least) in [("nearline-20tb", [0.57, 0.78]), ("savvio10k2", [0.5, 0.82])] {
        let parts = parts_of(drive, writers);
        assert!(parts[0] > least[0] && parts[1] > least[1], "{drive}: {parts:?}");
    }
}

#[test]
fn clients_that_share_flushes_need_no_turns_of_a_light_writer() {
    let clients = "{ clients = 8, reads = 0.0, flush_every = 1, size = '8KiB', think = '100us', \
        range = '50%..90%' }";
    for drive in ["nearline-20tb", "savvio10k2"] {
        let parts = parts_of(drive, clients);
        assert!(parts[0] > 0.8 && parts[1] > 0.4, "{drive}: {parts:?}");
    }
}

/// The rates of a light writer and of other clients beside each other, as parts of theirs alone.
fn parts_of(drive: &str, others: &str) -> [f64; 2] {
    let alone = [LIGHT_WRITER, others].map(|stream| rates(drive, &[stream])[0]);
    let together = rates(drive, &[LIGHT_WRITER, others]);
    [together[0] / alone[0], together[1] / alone[1]]
}
