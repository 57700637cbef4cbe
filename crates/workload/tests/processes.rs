//! Streams of processes: what they submit, and when they end.

use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use headtime_workload::file::WorkloadFile;
use headtime_workload::{ClientId, Operation, RequestSource, RequestSpec, SourceEvent, Workload};

const CAPACITY: Sectors = Sectors::new(40_000_000);
const MIB: u64 = 2_048;

fn workload(text: &str, seed: u64) -> Workload {
    let file = WorkloadFile::from_toml("x.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    file.workload(SectorSize::B512, CAPACITY, seed, 1).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The requests and ends that a drive sees that serves one request after the other, each in a
/// constant time.
#[derive(Default)]
struct Log {
    requests: Vec<(Instant, RequestSpec)>,
    ended: Vec<(Instant, ClientId)>,
}

impl Log {
    /// Runs `workload` until nothing is pending or `max` requests are served.
    fn of(workload: &mut Workload, service: Nanos, max: usize) -> Self {
        let mut log = Self::default();
        let mut pending: Vec<(Instant, usize, SourceEvent)> = Vec::new();
        let (mut order, mut free) = (0, Instant::ORIGIN);
        loop {
            while let Some(event) = workload.event() {
                pending.push((event.at(), order, event));
                order += 1;
            }
            let Some(next) = (0..pending.len()).min_by_key(|i| (pending[*i].0, pending[*i].1))
            else {
                return log;
            };
            match pending.swap_remove(next).2 {
                SourceEvent::Request(arrival) => {
                    assert!(log.requests.len() < max, "more than {max} requests");
                    log.requests.push((arrival.at, arrival.ask));
                    free = free.max(arrival.at) + service;
                    assert_eq!(workload.follow(free, arrival.ask.client), None);
                    if log.requests.len() == max {
                        return log;
                    }
                }
                SourceEvent::Wake { at, client } => workload.wake(at, client),
                SourceEvent::Ended { at, client } => log.ended.push((at, client)),
            }
        }
    }
}

#[test]
fn a_reader_reads_its_file_once_for_each_pass_by_a_new_process() {
    let text = "[[stream]]\nprocess = { kind = \"reader\", file = \"1MiB\", passes = 3 }\n\
                range = \"1GiB..2GiB\"\n";
    let log = Log::of(&mut workload(text, 1), Nanos::from_ms(2), 1_000);
    let first = (1 << 30) / 512;
    let starts = log.requests.iter().filter(|(_, ask)| ask.extent.start.get() == first);
    let clients: Vec<u32> = starts.map(|(_, ask)| ask.client.0).collect();
    assert_eq!(clients, [0, 1, 2]);
    let sectors: u64 = log.requests.iter().map(|(_, ask)| ask.extent.len.get()).sum();
    assert_eq!(sectors, 3 * MIB);
    assert!(log.requests.iter().all(|(_, ask)| ask.operation == Operation::Read));
    assert_eq!(log.ended.iter().map(|(_, client)| client.0).collect::<Vec<_>>(), [0, 1, 2]);
    for pair in log.requests.windows(2).filter(|pair| pair[0].1.client == pair[1].1.client) {
        assert_eq!(pair[1].1.extent.start, pair[0].1.extent.end(), "in order, without a gap");
    }
}

#[test]
fn each_file_of_a_chain_has_a_process_that_ends_before_the_next_begins() {
    let text = "[[stream]]\nrange = \"1GiB..2GiB\"\nprocess = { kind = \"chain\", files = 100, \
                per_lookup = 10, spawn = \"3ms\", passes = 1, \
                file = { kind = \"lognormal\", median = \"16KiB\" } }\n";
    let log = Log::of(&mut workload(text, 1), Nanos::from_ms(2), 1_000);
    let parent = log.requests[0].1.client;
    let lookups = log.requests.iter().filter(|(_, ask)| ask.client == parent);
    assert_eq!(lookups.count(), 10);
    assert_eq!(log.ended.len(), 101, "one for each file, and the parent");
    assert_eq!(log.ended.last().map(|(_, client)| *client), Some(parent));
    for (index, (end, client)) in log.ended.iter().take(99).enumerate() {
        let own: Vec<_> = log.requests.iter().filter(|(_, ask)| ask.client == *client).collect();
        assert!(!own.is_empty() && own.iter().all(|(at, _)| at <= end));
        let next = log.ended[index + 1].1;
        let (begun, _) = log.requests.iter().find(|(_, ask)| ask.client == next).expect("one");
        // A lookup in between takes 2 ms and a wake-up.
        let gap = begun.saturating_since(*end);
        let expected = if (index + 1) % 10 == 0 { 2_000 + 10 + 3_000 } else { 3_000 };
        assert_eq!(gap, Nanos::from_us(expected), "file {index}");
    }
    for pair in log.requests.windows(2) {
        assert_eq!(pair[1].1.extent.start, pair[0].1.extent.end(), "files follow each other");
    }
}

#[test]
fn a_pass_ends_with_the_range_and_reads_the_same_files_again() {
    let text = "[[stream]]\nrange = \"1GiB..1028MiB\"\nprocess = { kind = \"chain\", passes = 2, \
                file = { kind = \"lognormal\", median = \"16KiB\" } }\n";
    let log = Log::of(&mut workload(text, 1), Nanos::from_ms(2), 10_000);
    let extents: Vec<_> = log.requests.iter().map(|(_, ask)| ask.extent).collect();
    let (first, second) = extents.split_at(extents.len() / 2);
    assert_eq!(first, second);
    let end = first.last().expect("some").end().get();
    assert!((1_026 * MIB..=1_028 * MIB).contains(&end), "{end}");
}

#[test]
fn limits_end_the_processes_of_a_stream() {
    for limit in ["requests = 7", "bytes = \"100KiB\"", "stop = \"20ms\""] {
        let text = format!(
            "[[stream]]\n{limit}\nprocess = {{ kind = \"chain\", file = \"12KiB\" }}\n\
             [[stream]]\n{limit}\nprocess = \"reader\"\n"
        );
        let log = Log::of(&mut workload(&text, 1), Nanos::from_ms(2), 1_000);
        let count = |stream| log.requests.iter().filter(|(_, ask)| ask.stream == stream).count();
        assert!((2..=9).contains(&count(0)) && (2..=9).contains(&count(1)), "{limit}");
        let begun: std::collections::BTreeSet<u32> =
            log.requests.iter().map(|(_, ask)| ask.client.0).collect();
        for client in begun {
            let ended = log.ended.iter().filter(|(_, ended)| ended.0 == client).count();
            assert_eq!(ended, 1, "{limit}: client {client}");
        }
    }
}

#[test]
fn a_stream_of_processes_depends_on_its_seed_and_not_on_other_streams() {
    let chain = "[[stream]]\nname = \"a\"\nrange = \"1GiB..2GiB\"\nprocess = { kind = \"chain\", \
                 files = 50, passes = 1, file = { kind = \"lognormal\", median = \"16KiB\" } }\n";
    let beside = format!("{chain}[[stream]]\nname = \"b\"\nprocess = \"reader\"\n");
    let of_chain = |text: &str, seed| {
        let log = Log::of(&mut workload(text, seed), Nanos::from_us(100), 400);
        let own = log.requests.iter().filter(|(_, ask)| ask.stream == 0);
        own.map(|(_, ask)| ask.extent).take(40).collect::<Vec<_>>()
    };
    assert_eq!(of_chain(chain, 1), of_chain(&beside, 1));
    assert_ne!(of_chain(chain, 1), of_chain(chain, 2));
}
