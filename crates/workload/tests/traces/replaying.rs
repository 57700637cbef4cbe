//! A trace as a source of requests: at its times, as fast as it is served, or with think times.

use std::sync::Arc;

use headtime_units::{Extent, Instant, Nanos};
use headtime_workload::Operation::{Read, Write};
use headtime_workload::trace::{
    Counts, MAX_STREAMS, Placed, Replay, ReplayOptions, Streams, TraceRecord, TraceSource,
};
use headtime_workload::{Arrival, ClientId, RequestSource};

use crate::samples::record;

fn ms(ms: u64) -> Instant {
    Instant::ORIGIN + Nanos::from_ms(ms)
}

fn source(
    records: Vec<TraceRecord>,
    options: ReplayOptions,
) -> (Box<dyn RequestSource + Send>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let placed = records.into_iter().map(|record| Placed {
        extent: Extent::from_numbers(record.offset_bytes / 512, record.len_bytes / 512),
        record,
    });
    (Box::new(TraceSource::new(placed, options, Arc::clone(&counts))), counts)
}

/// Reads at 0, 4 and 6 ms that took 3 ms each.
fn three() -> Vec<TraceRecord> {
    let read = |place, at: u64| TraceRecord {
        response: Some(Nanos::from_ms(3)),
        ..record(place, at * 1_000_000, 0, Read, place * 512, 512)
    };
    vec![read(1, 0), read(2, 4), read(3, 6)]
}

fn at_and_start(arrival: Option<Arrival>) -> Option<(u64, u64)> {
    arrival.map(|arrival| (arrival.at.as_ns() / 1_000_000, arrival.ask.extent.start.get()))
}

#[test]
fn an_open_replay_asks_at_the_recorded_times_and_follows_nothing() {
    let (mut source, counts) = source(
        three(),
        ReplayOptions { deadline: Some(Nanos::from_ms(10)), ..ReplayOptions::default() },
    );
    let first = source.arrival().expect("there are three");
    assert_eq!(
        (first.at, first.ask.deadline, first.ask.client, first.ask.stream),
        (ms(0), Some(ms(10)), ClientId(0), 0)
    );
    assert_eq!(source.follow(ms(5), first.ask.client), None);
    assert_eq!(at_and_start(source.arrival()), Some((4, 2)));
    assert_eq!(at_and_start(source.arrival()), Some((6, 3)));
    assert_eq!((source.arrival(), counts.issued.get()), (None, 3));
}

#[test]
fn a_closed_replay_keeps_so_many_outstanding() {
    let (mut source, _) = source(
        three(),
        ReplayOptions { replay: Replay::Closed { outstanding: 2 }, ..ReplayOptions::default() },
    );
    assert_eq!(at_and_start(source.arrival()), Some((0, 1)));
    let second = source.arrival().expect("two at a time");
    assert_eq!((second.at, second.ask.client), (ms(0), ClientId(1)));
    assert_eq!(source.arrival(), None);
    let third = source.follow(ms(9), ClientId(1)).expect("there is one more");
    assert_eq!((third.at, third.ask.client, third.ask.extent.start.get()), (ms(9), ClientId(1), 3));
    assert_eq!(
        (source.follow(ms(10), ClientId(0)), source.follow(ms(11), ClientId(1))),
        (None, None)
    );
}

#[test]
fn a_replay_by_think_times_waits_as_long_after_each_as_the_recording_did() {
    let options = ReplayOptions {
        replay: Replay::Think,
        deadline: Some(Nanos::from_ms(1)),
        ..ReplayOptions::default()
    };
    let (mut derived, counts) = source(three(), options);
    let first = derived.arrival().expect("there are three");
    assert_eq!((first.at, derived.arrival()), (ms(0), None));
    // It took 5 ms, and the second came 4 − 3 ms after the end of the first.
    let second = derived.follow(ms(5), first.ask.client).expect("there are three");
    assert_eq!((second.at, second.ask.deadline), (ms(6), Some(ms(7))));
    // The third was issued before the second was over.
    assert_eq!(at_and_start(derived.follow(ms(11), first.ask.client)), Some((11, 3)));
    assert_eq!(
        (derived.follow(ms(16), first.ask.client), counts.without_response.get()),
        (None, 0)
    );

    let recorded: Vec<TraceRecord> = three()
        .into_iter()
        .map(|record| TraceRecord { think: Some(Nanos::from_ms(20)), ..record })
        .collect();
    let (mut recorded, _) = source(recorded, options);
    recorded.arrival();
    assert_eq!(at_and_start(recorded.follow(ms(5), ClientId(0))), Some((25, 2)));

    let neither: Vec<TraceRecord> =
        three().into_iter().map(|record| TraceRecord { response: None, ..record }).collect();
    let (mut neither, counts) = source(neither, options);
    neither.arrival();
    assert_eq!(at_and_start(neither.follow(ms(5), ClientId(0))), Some((9, 2)));
    assert_eq!(counts.without_response.get(), 2);
}

#[test]
fn devices_and_processes_become_streams_in_the_order_in_which_they_appear() {
    let records = || {
        [(7, 100), (3, 100), (7, 200)]
            .map(|(device, process)| TraceRecord { process, ..record(1, 0, device, Write, 0, 512) })
            .to_vec()
    };
    for (streams, expected) in
        [(Streams::One, [0, 0, 0]), (Streams::Device, [0, 1, 0]), (Streams::Process, [0, 0, 1])]
    {
        let (mut source, _) =
            source(records(), ReplayOptions { streams, ..ReplayOptions::default() });
        let issued: Vec<(u32, ClientId)> = std::iter::from_fn(|| source.arrival())
            .map(|arrival| (arrival.ask.stream, arrival.ask.client))
            .collect();
        assert_eq!(issued, expected.map(|stream| (stream, ClientId(stream))), "{streams:?}");
    }
}

#[test]
fn what_comes_after_the_most_streams_shares_the_last() {
    let records: Vec<TraceRecord> =
        (0..MAX_STREAMS + 10).map(|device| record(1, 0, device, Read, 0, 512)).collect();
    let (mut source, counts) =
        source(records, ReplayOptions { streams: Streams::Device, ..ReplayOptions::default() });
    let streams: Vec<u32> =
        std::iter::from_fn(|| source.arrival()).map(|arrival| arrival.ask.stream).collect();
    let expected: Vec<u32> =
        (0..MAX_STREAMS + 10).map(|device| device.min(MAX_STREAMS - 1)).collect();
    assert_eq!(streams, expected);
    assert_eq!(counts.sharing.get(), 10);
}
