//! Streams of processes: what they submit, and when they end.

use std::collections::{BTreeMap, BTreeSet};

use headtime_units::{Instant, Nanos, SectorSize, Sectors};
use headtime_workload::file::WorkloadFile;
use headtime_workload::{ClientId, Operation, RequestSource, RequestSpec, SourceEvent, Workload};

const CAPACITY: Sectors = Sectors::new(40_000_000);
const MIB: u64 = 2_048;

fn workload(text: &str, seed: u64) -> Workload {
    let file = WorkloadFile::from_toml("x.toml", text).unwrap_or_else(|errors| panic!("{errors}"));
    file.workload(SectorSize::B512, CAPACITY, seed, 1).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The events of a run on a drive that serves one request after the other, each in a constant time.
#[derive(Default)]
struct Log {
    requests: Vec<(Instant, RequestSpec)>,
    ended: Vec<(Instant, ClientId)>,
    max_pending: usize,
    end: Instant,
}

impl Log {
    /// Runs `workload` until nothing is pending, `max` requests have been submitted, or a minute
    /// is over.
    fn of(workload: &mut Workload, service: Nanos, max: usize) -> Self {
        enum Event {
            Of(SourceEvent),
            Completion(ClientId),
        }
        let mut log = Self::default();
        let mut events: BTreeMap<(Instant, usize), Event> = BTreeMap::new();
        let (mut order, mut free, mut pending) = (0, Instant::ORIGIN, 0);
        let mut add = |events: &mut BTreeMap<_, _>, at: Instant, event| {
            events.insert((at, order), event);
            order += 1;
        };
        loop {
            while let Some(event) = workload.event() {
                add(&mut events, event.at().max(log.end), Event::Of(event));
            }
            let Some(((now, _), event)) = events.pop_first() else { return log };
            log.end = now;
            if log.requests.len() == max || now > Instant::ORIGIN + Nanos::from_secs(60) {
                return log;
            }
            match event {
                Event::Of(SourceEvent::Request(arrival)) => {
                    log.requests.push((now, arrival.ask));
                    free = free.max(now) + service;
                    add(&mut events, free, Event::Completion(arrival.ask.client));
                    pending += 1;
                    log.max_pending = log.max_pending.max(pending);
                }
                Event::Of(SourceEvent::Wake { client, .. }) => workload.wake(now, client),
                Event::Of(SourceEvent::Ended { client: ended, .. }) => {
                    log.ended.push((now, ended));
                    events.retain(|_, event| {
                        !matches!(event, Event::Of(SourceEvent::Wake { client, .. })
                            if *client == ended)
                    });
                }
                Event::Completion(client) => {
                    pending -= 1;
                    assert_eq!(workload.follow(now, client), None);
                }
            }
        }
    }

    fn mib(&self) -> f64 {
        let sectors = self.requests.iter().map(|(_, ask)| ask.extent.len.get());
        sectors.sum::<u64>() as f64 / MIB as f64
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
        let begun: BTreeSet<u32> = log.requests.iter().map(|(_, ask)| ask.client.0).collect();
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

/// A cache of 100 MiB with limits of 10 and 40 MiB, and calls of 1 MiB every 4 ms.
fn writer(keys: &str) -> String {
    format!(
        "[[stream]]\nclients = 1\nsize = \"1MiB\"\nthink = \"4ms\"\nrange = \"1GiB..2GiB\"\n\
         process = {{ kind = \"writer\", memory = \"100MiB\"{keys} }}\n"
    )
}

#[test]
fn a_writer_runs_ahead_of_the_drive_up_to_the_hard_limit() {
    // 128 KiB every 4 ms are 31.25 MiB/s, and the process could write 250 MiB/s.
    let text = writer(", file = \"300MiB\", passes = 1");
    let log = Log::of(&mut workload(&text, 1), Nanos::from_ms(4), 100_000);
    let (first, _) = log.requests[0];
    let ms = first.as_ns() / 1_000_000;
    assert!((40..=44).contains(&ms), "the flusher begins above 10 MiB, not at {ms} ms");
    assert!(log.requests.iter().all(|(_, ask)| ask.operation == Operation::Write));
    assert_eq!(log.mib(), 300.0);
    let flusher = log.requests[0].1.client;
    let [(ended, process), (last, other)] = log.ended[..] else { panic!("{:?}", log.ended) };
    assert!(process != flusher && other == flusher);
    // The process ends when at most 40 MiB are dirty or pending: 260 MiB are on the drive.
    let expected = 260.0 / 31.25;
    assert!((ended.as_secs_f64() - expected).abs() < 0.2, "{ended}, expected {expected} s");
    // Down to the background limit at once, the remaining 10 MiB when they are 30 s old.
    let age = last.saturating_since(ended).as_secs_f64();
    assert!((29.0..32.0).contains(&age), "{age}");
}

#[test]
fn pending_writes_are_bounded_by_the_queue() {
    let log = Log::of(&mut workload(&writer(", queue = 64"), 1), Nanos::from_ms(4), 3_000);
    assert_eq!(log.max_pending, 64);
    let sequential =
        log.requests.windows(2).filter(|pair| pair[1].1.extent.start == pair[0].1.extent.end());
    assert!(sequential.count() > 2_990, "in the order of the file");
}

#[test]
fn a_truncated_file_is_not_written() {
    // Each pass of 8 MiB takes 32 ms and leaves all of it dirty: the last one is written.
    let text = writer(", file = \"8MiB\", passes = 5");
    let log = Log::of(&mut workload(&text, 1), Nanos::from_ms(4), 100_000);
    assert_eq!(log.mib(), 8.0);
    assert_eq!(log.ended.len(), 6, "five passes and the flusher");
}

#[test]
fn limits_end_writers_and_their_flusher() {
    for limit in ["requests = 200", "bytes = \"20MiB\"", "stop = \"800ms\""] {
        let text = format!("{}{limit}\n", writer("").replace("clients = 1", "clients = 3"));
        let log = Log::of(&mut workload(&text, 1), Nanos::from_ms(4), 10_000);
        assert!((10.0..60.0).contains(&log.mib()), "{limit}: {} MiB", log.mib());
        assert_eq!(log.ended.len(), 4, "{limit}");
        assert!(log.end < Instant::ORIGIN + Nanos::from_secs(3), "{limit}: {}", log.end);
    }
}

/// Four threads on 2,000 files of 4 to 64 KiB, with a cache of 16 MiB.
fn files(keys: &str) -> String {
    format!(
        "[[stream]]\nclients = 4\nthink = \"20us\"\nrange = \"1GiB..2GiB\"\nprocess = {{ \
         kind = \"files\", files = 2_000, directories = 20, memory = \"16MiB\", \
         journal = \"4MiB\", {keys} }}\n"
    )
}

/// The requests of a run by kind: reads, writes to the journal, and other writes.
fn by_kind(log: &Log) -> [Vec<&(Instant, RequestSpec)>; 3] {
    let journal = (1 << 30) / 512..((1 << 30) + (4 << 20)) / 512;
    let of = |kind: usize| {
        let kind_of = |ask: &RequestSpec| match ask.operation {
            Operation::Read => 0,
            _ if journal.contains(&ask.extent.start.get()) => 1,
            _ => 2,
        };
        log.requests.iter().filter(|(_, ask)| kind_of(ask) == kind).collect()
    };
    [of(0), of(1), of(2)]
}

#[test]
fn a_benchmark_that_reads_misses_as_often_as_the_cache_is_small() {
    let text = files("reads = 1, operations = 2_000");
    let log = Log::of(&mut workload(&text, 1), Nanos::from_us(300), 100_000);
    let [reads, journal, writes] = by_kind(&log);
    assert_eq!((journal.len(), writes.len()), (0, 0));
    assert_eq!(log.ended.len(), 4 + 2, "the threads, the flusher and the journal");
    // 20 blocks of entries and 20 × 4 of inodes; files that are read have more than one page.
    let lookups = reads.iter().filter(|(_, ask)| ask.extent.len.get() == 8);
    let starts: BTreeSet<u64> = lookups.map(|(_, ask)| ask.extent.start.get()).collect();
    assert!(starts.len() >= 100, "{}", starts.len());
    // Files of 34 KiB on average are 66 MiB in all, of which 16 are in the cache: a quarter of the
    // 8,000 operations hit.
    let sectors: u64 = reads.iter().map(|(_, ask)| ask.extent.len.get()).sum();
    let files_read = sectors as f64 / 68.0;
    assert!((5_700.0..6_500.0).contains(&files_read), "{files_read}");
}

#[test]
fn created_files_are_written_and_committed_in_order() {
    let text = files("creates = 1, operations = 25, commit = \"1s\"");
    let log = Log::of(&mut workload(&text, 1), Nanos::from_us(300), 100_000);
    let [_, journal, writes] = by_kind(&log);
    // A descriptor and blocks, then the record, 100 files in at most 20 directories.
    let lengths: Vec<u64> = journal.iter().map(|(_, ask)| ask.extent.len.get()).collect();
    assert_eq!(lengths.last(), Some(&8));
    let changed: u64 = lengths.iter().sum::<u64>() / 8 - 2;
    assert!((60..=4 * 20).contains(&changed), "{changed} blocks");
    let (committed, _) = journal[0];
    let (data, metadata): (Vec<_>, Vec<_>) =
        writes.into_iter().partition(|(at, _)| at <= committed);
    let sectors: u64 = data.iter().map(|(_, ask)| ask.extent.len.get()).sum();
    assert!((100 * 50..100 * 90).contains(&sectors), "{sectors} sectors of 100 files");
    assert_eq!(metadata.len() as u64, changed, "each block once, long after the commit");
    let (written, _) = metadata[0];
    assert!((30..32).contains(&(written.as_ns() / 1_000_000_000)), "{written}");
}

#[test]
fn without_a_journal_all_changes_are_dirty_pages() {
    let text =
        files("creates = 0.5, deletes = 0.3, appends = 0.2, operations = 50, commit = \"none\"");
    let log = Log::of(&mut workload(&text, 1), Nanos::from_us(300), 100_000);
    let writes = log.requests.iter().filter(|(_, ask)| ask.operation == Operation::Write).count();
    assert!(writes > 100, "{writes}");
    assert_eq!(log.ended.len(), 4 + 1, "no process of a journal");
}

#[test]
fn a_file_that_is_deleted_while_it_is_dirty_is_never_written() {
    let text = files("creates = 0.5, deletes = 0.5, operations = 400, commit = \"none\"");
    let text = text.replace("files = 2_000", "files = 1").replace("\"16MiB\"", "\"4GiB\"");
    let log = Log::of(&mut workload(&text, 1), Nanos::from_us(300), 100_000);
    // Of 800 files created, those that are left at the end are written: a random walk of 1,600
    // steps of one leaves 40 or so.
    let [.., writes] = by_kind(&log);
    let sectors: u64 = writes.iter().map(|(_, ask)| ask.extent.len.get()).sum();
    assert!(sectors < 200 * 128, "{sectors}");
}

#[test]
fn threads_wait_for_the_hard_limit() {
    let text = files("writes = 1, operations = 200, limit = \"25%\"");
    // 4,000 sectors a second: the 54,400 sectors of 800 files take 14 s.
    let log = Log::of(&mut workload(&text, 1), Nanos::from_ms(15), 100_000);
    let threads: BTreeSet<u32> = log.requests.iter().map(|(_, ask)| ask.client.0).collect();
    assert!(threads.len() >= 5, "four threads that look up, and the flusher");
    let last = log.ended.iter().filter(|(_, client)| client.0 < 4).map(|(at, _)| *at).max();
    let last = last.expect("they end").as_secs_f64();
    let [.., writes] = by_kind(&log);
    assert!(last > writes.len() as f64 * 0.015 * 0.7, "{last} s for {} writes", writes.len());
}

#[test]
fn a_benchmark_is_the_same_for_the_same_seed() {
    let text = files("reads = 0.4, creates = 0.4, deletes = 0.2, operations = 200");
    let requests = |seed| Log::of(&mut workload(&text, seed), Nanos::from_ms(2), 100_000).requests;
    assert_eq!(requests(1), requests(1));
    assert_ne!(requests(1), requests(2));
}
