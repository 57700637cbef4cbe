//! Streams on a drive with two arms, each with half of the addresses, and on arrays.

use headtime_sched::{Tenant, Terms, VolumeId};
use headtime_units::Share;

use super::rates::{rates, rates_under, rates_with};

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

/// To reach another place costs a seek there, too: all requests are on one of its arms.
#[test]
fn short_runs_have_visits_on_a_drive_with_two_arms() {
    let clients = "{ clients = 4, reads = 0.7, size = '64KiB', range = '17%..27%', \
        run = { kind = 'geometric', mean = 8.0 } }";
    let rate = |policy| rates_under(policy, "exos-2x18", &[clients])[0];
    let (own, elevator) = (rate("headtime"), rate("deadline"));
    assert!(own > 0.85 * elevator, "{own} requests/s, in runs by address {elevator}");
}

/// With shares, too, runs have turns on each arm: the backup would have 6 MiB/s beside the database
/// if all requests competed.
#[test]
fn reserved_volumes_keep_their_runs_and_their_parts_on_both_arms() {
    let backup = "{ clients = 2, size = '128KiB', range = '10%..40%', \
        run = { kind = 'sequential' } }";
    let database = "{ clients = 8, size = '8KiB' }";
    let rates_of = |terms| rates_with(terms, "headtime", "exos-2x18", &[backup, database]);
    let half = Terms::reserving(Share::from_fraction(0.5).expect("less than the whole"));
    let reserved: Vec<(Tenant, Terms)> =
        (0..2).map(|volume| (Tenant::of(VolumeId(volume)), half)).collect();
    let (without, with) = (rates_of(Vec::new()), rates_of(reserved));
    for (with, without) in with.iter().zip(&without) {
        assert!(*with > 0.8 * without, "{with} requests/s with half reserved, {without} without");
    }
}

/// The random writes fill the cache that the arms share, unless they are forced to the medium.
#[test]
fn writes_on_one_arm_do_not_starve_those_on_the_other() {
    let random = "{ clients = 32, reads = 0.0, size = '4KiB', range = '4%..14%' }";
    let short_runs = "{ clients = 16, reads = 0.0, size = '32KiB', range = '87%..97%', \
        run = { kind = 'geometric', mean = 64.0 } }";
    let together = rates("exos-2x18", &[random, short_runs]);
    let alone = [random, short_runs].map(|stream| rates("exos-2x18", &[stream])[0]);
    for (together, alone) in together.iter().zip(alone) {
        assert!(*together > 0.5 * alone, "{together} requests/s of {alone}");
    }
}

/// The parts of the rates alone that two streams have together on a drive with two arms, each on
/// an arm of its own.
fn parts_on_two_arms(streams: [&str; 2]) -> [f64; 2] {
    let placed = |stream: &str, range: &str| format!("{{ {stream}, range = '{range}' }}");
    let streams = [placed(streams[0], "2%..40%"), placed(streams[1], "52%..90%")];
    let together = rates("exos-2x18", &[&streams[0], &streams[1]]);
    [0, 1].map(|stream| together[stream] / rates("exos-2x18", &[&streams[stream]])[0])
}

const READER: &str = "clients = 1, reads = 1.0, size = '128KiB', think = '100us', positions = 1, \
    run = { kind = 'sequential' }";

/// Those of the other arm take a hundredth of the time of one of these.
#[test]
fn random_readers_keep_their_order_beside_a_reader_in_sequence_on_the_other_arm() {
    let random = "clients = 16, reads = 1.0, size = '8KiB', think = '100us'";
    let parts = parts_on_two_arms([random, READER]);
    assert!(parts.iter().all(|part| *part > 0.9), "{parts:?}");
}

#[test]
fn commits_on_one_arm_leave_the_other_to_a_reader() {
    let commits = "clients = 4, reads = 0.0, size = '8KiB', flush_every = 1, think = '100us'";
    let parts = parts_on_two_arms([READER, commits]);
    assert!(parts.iter().all(|part| *part > 0.9), "{parts:?}");
}

/// Its flush would wait for what the other has in the cache, unless that is forced to the medium.
#[test]
fn a_client_that_commits_waits_for_no_writer_on_the_other_arm() {
    let random = "clients = 1, reads = 0.0, size = '8KiB', think = '100us'";
    let parts = parts_on_two_arms([random, &format!("{random}, flush_every = 1")]);
    assert!(parts.iter().all(|part| *part > 0.3), "{parts:?}");
}

const RANDOM_WRITERS: &str = "clients = 16, reads = 0.0, size = '8KiB', think = '100us'";
const WRITERS: &str = "clients = 4, reads = 0.0, size = '128KiB', think = '100us', \
    positions = 4, run = { kind = 'sequential' }";

#[test]
fn writers_leave_room_in_the_cache_for_those_on_the_other_arm() {
    let in_one = |clients: u32, size: &str| {
        format!(
            "clients = {clients}, reads = 0.0, size = '{size}', think = '100us', positions = 1, \
                run = {{ kind = 'sequential' }}"
        )
    };
    for other in [RANDOM_WRITERS, WRITERS, &in_one(4, "1MiB")] {
        let [small, other] = parts_on_two_arms([&in_one(1, "4KiB"), other]);
        assert!(small > 0.4 && other > 0.85, "{small} beside {other}");
    }
}

#[test]
fn random_writes_are_forced_where_those_on_the_other_arm_fill_the_cache() {
    let parts = parts_on_two_arms([RANDOM_WRITERS, WRITERS]);
    assert!(parts.iter().all(|part| *part > 0.7), "{parts:?}");
}

/// The parts of a run come to each member in turn, and none of these sees that it is one.
#[test]
fn a_sequential_reader_has_its_part_of_an_array_beside_random_ones() {
    let array = "4*nearline-20tb";
    let random = "{ clients = 16, reads = 1.0, size = '8KiB', range = '2%..40%' }";
    for reader in ["clients = 1, size = '128KiB'", "clients = 4, size = '1MiB'"] {
        let reader = format!(
            "{{ {reader}, positions = 1, range = '50%..90%', run = {{ kind = 'sequential' }} }}"
        );
        let together = rates(array, &[random, &reader]);
        let alone = [random, &reader].map(|stream| rates(array, &[stream])[0]);
        for (together, alone) in together.iter().zip(alone) {
            assert!(*together > 0.35 * alone, "{together} requests/s of {alone}");
        }
    }
}

#[test]
fn readers_in_sequence_do_not_scatter_over_an_array() {
    let readers = "{ clients = 8, size = '128KiB', run = { kind = 'sequential' } }";
    let rate = |policy| rates_under(policy, "4*nearline-20tb", &[readers])[0];
    let (own, queue) = (rate("headtime"), rate("mq-deadline"));
    assert!(own > 3.0 * queue, "{own} requests/s, under mq-deadline {queue}");
}
