//! Volumes with reservations, whose clients think for a moment before each request, as real ones
//! do.

use headtime_sched::{Tenant, Terms, VolumeId};
use headtime_units::Share;

use super::rates::rates_with;

const READER: &str = "{ size = '8KiB', think = '100us', range = '2%..40%' }";
const FOUR_READERS: &str = "{ clients = 4, size = '8KiB', think = '100us', range = '2%..40%' }";
const SMALL_IN_SEQUENCE: &str = "{ size = '4KiB', think = '100us', range = '2%..40%', \
    positions = 1, run = { kind = 'sequential' } }";
const IN_SEQUENCE: &str = "{ size = '128KiB', think = '100us', range = '50%..90%', positions = 1, \
    run = { kind = 'sequential' } }";
const WRITER_IN_SEQUENCE: &str = "{ reads = 0.0, size = '4KiB', think = '100us', \
    range = '50%..90%', positions = 1, run = { kind = 'sequential' } }";
const LOG: &str = "{ reads = 0.0, size = '16KiB', think = '5ms', range = '50%..90%', \
    positions = 1, run = { kind = 'sequential' } }";
const FOUR_WRITERS: &str = "{ clients = 4, reads = 0.0, size = '128KiB', think = '100us', \
    range = '2%..40%', positions = 4, run = { kind = 'sequential' } }";
const SLOW_WRITERS: &str =
    "{ clients = 4, reads = 0.0, size = '8KiB', think = '10ms', range = '50%..90%' }";

/// The parts of their rates alone that two streams have with these shares reserved, in percent;
/// one with nothing reserved has no terms.
fn parts(drive: &str, streams: [(&str, f64); 2]) -> [f64; 2] {
    let reserving = |(volume, percent)| {
        let share = Share::from_fraction(percent / 100.0).expect("less than the whole");
        (percent > 0.0).then(|| (Tenant::of(VolumeId(volume)), Terms::reserving(share)))
    };
    let shares = streams.map(|(_, percent)| percent);
    let terms = (0..).zip(shares).filter_map(reserving).collect();
    let streams = streams.map(|(stream, _)| stream);
    let together = rates_with(terms, "headtime", drive, &streams);
    let alone = streams.map(|stream| rates_with(Vec::new(), "firmware", drive, &[stream])[0]);
    [together[0] / alone[0], together[1] / alone[1]]
}

/// In one run after the other, though nothing of it is held while its client thinks.
#[test]
fn a_reader_in_sequence_has_its_reservation_beside_another_volume() {
    for drive in ["nearline-20tb", "savvio10k2", "barracuda7200-7"] {
        let [random, sequential] = parts(drive, [(READER, 70.0), (IN_SEQUENCE, 30.0)]);
        assert!(random > 0.6 && sequential > 0.22, "{drive}: {random} and {sequential} of alone");
    }
}

/// Its runs are not one request long.
#[test]
fn a_writer_without_reservation_has_the_time_that_is_not_reserved() {
    for drive in ["nearline-20tb", "savvio10k2"] {
        let [reserved, rest] = parts(drive, [(FOUR_READERS, 50.0), (WRITER_IN_SEQUENCE, 0.0)]);
        assert!(reserved > 0.4 && rest > 0.3, "{drive}: {reserved} and {rest} of alone");
    }
}

/// It thinks as long as a request takes: uncharged, it would have the drive for twice its share.
#[test]
fn a_client_is_charged_for_the_waits_in_its_runs() {
    let [waits, other] = parts("nearline-20tb", [(SMALL_IN_SEQUENCE, 50.0), (IN_SEQUENCE, 0.0)]);
    assert!(waits < 0.6 && other > 0.4, "{waits} and {other} of alone");
}

/// It would wait for runs of a quarter of a second that the reservation does not cover.
#[test]
fn clients_that_use_little_do_not_wait_for_long_runs_of_others() {
    for drive in ["nearline-20tb", "savvio10k2"] {
        let [reserved, light] = parts(drive, [(FOUR_READERS, 50.0), (SLOW_WRITERS, 0.0)]);
        assert!(reserved > 0.42 && light > 0.2, "{drive}: {reserved} and {light} of alone");
    }
}

/// The drive takes its writes at once, whatever else it does: to wait for the next one would leave
/// it idle nearly all the time.
#[test]
fn a_log_with_a_reservation_leaves_the_drive_to_others() {
    for drive in ["nearline-20tb", "savvio10k2"] {
        let [others, log] = parts(drive, [(FOUR_READERS, 0.0), (LOG, 30.0)]);
        assert!(others > 0.8 && log > 0.9, "{drive}: {others} and {log} of alone");
    }
}

/// Its members transfer at the same time: charged for each, four writers would soon have used what
/// is reserved for them.
#[test]
fn reservations_hold_on_an_array() {
    let [many, one] = parts("4*savvio10k2", [(FOUR_WRITERS, 70.0), (WRITER_IN_SEQUENCE, 30.0)]);
    assert!(many > 0.6 && one > 0.25, "{many} and {one} of alone");
}
