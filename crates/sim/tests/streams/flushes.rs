//! Clients that flush their writes beside those that do not: the drive destages for each flush all
//! that it has in its cache.

use super::rates::{rates, rates_under};

const LOG: &str = "{ clients = 1, reads = 0.0, flush_every = 1, size = '4KiB', \
    range = '20%..25%', run = { kind = 'sequential' }, positions = 1 }";
const COMMITS: &str = "{ clients = 1, reads = 0.0, flush_every = 1, size = '8KiB', \
    range = '20%..25%' }";
const COPY: &str = "{ clients = 1, reads = 0.0, size = '128KiB', range = '50%..90%', \
    run = { kind = 'sequential' }, positions = 1 }";

/// The parts of the rates alone that two streams have together under a policy, and their smallest
/// with the order of arrival.
fn parts(drive: &str, streams: [&str; 2]) -> ([f64; 2], f64) {
    let alone = streams.map(|stream| rates(drive, &[stream])[0]);
    let of = |policy| {
        let together = rates_under(policy, drive, &streams);
        [together[0] / alone[0], together[1] / alone[1]]
    };
    let in_order = of("fcfs");
    (of("headtime"), in_order[0].min(in_order[1]))
}

#[test]
fn commits_and_a_copy_have_their_parts() {
    for drive in ["nearline-20tb", "barracuda-2tb", "barracuda7200-7"] {
        for client in [LOG, COMMITS] {
            let ([commits, copy], starved) = parts(drive, [client, COPY]);
            assert!(
                commits > 0.4 && copy > 0.3 && commits > 1.5 * starved,
                "{drive}: {client}: {commits} of its rate alone, {copy} of the copy's, in order \
                    {starved}"
            );
        }
    }
}

/// A few writers fill the cache between two flushes, or during one that takes long.
#[test]
fn commits_have_their_part_beside_few_random_writers() {
    for (drive, part) in [("nearline-20tb", 0.15), ("savvio10k2", 0.15), ("ultrastar-hc570", 0.1)] {
        for clients in [1, 2] {
            let writers = format!(
                "{{ clients = {clients}, reads = 0.0, size = '4KiB', range = '50%..90%' }}"
            );
            for client in [LOG, COMMITS] {
                let ([commits, rest], starved) = parts(drive, [client, &writers]);
                assert!(
                    commits > part && rest > 0.38 && commits > 2.0 * starved,
                    "{drive}: {client}: {commits} of its rate alone, {rest} of that of {clients} \
                        writers, in order {starved}"
                );
            }
        }
    }
}

/// All of them are forced to the medium, the cheapest first.
#[test]
fn clients_that_commit_one_by_one_have_more_than_in_the_order_of_arrival() {
    let one_each = ["20%..25%", "60%..65%"].map(|place| {
        format!("{{ reads = 0.0, flush_every = 1, size = '8KiB', range = '{place}' }}")
    });
    for drive in ["nearline-20tb", "savvio10k2"] {
        let all =
            |policy, streams: &[&str]| rates_under(policy, drive, streams).iter().sum::<f64>();
        for (streams, part) in [
            (&["{ clients = 2, reads = 0.0, flush_every = 1, size = '8KiB' }"][..], 1.05),
            (&[&one_each[0], &one_each[1]], 1.25),
        ] {
            let (own, other) = (all("headtime", streams), all("mq-deadline", streams));
            assert!(own > part * other, "{drive}: {streams:?}: {own}, mq-deadline {other}");
        }
    }
}

/// Its client commits again before a read goes that costs more.
#[test]
fn a_client_that_commits_has_its_part_beside_a_reader() {
    let reader = "{ clients = 1, size = '8KiB', range = '50%..90%' }";
    for drive in ["nearline-20tb", "savvio10k2"] {
        let ([commits, reads], _) = parts(drive, [COMMITS, reader]);
        assert!(commits > 0.35 && reads > 0.35, "{drive}: {commits} and {reads}");
    }
}
