//! [`TraceSource`]: a trace as a [`RequestSource`] of requests.
//!
//! A trace has the issue times on a system with its own response times. There are several ways to
//! replay it ([`Replay`]), and none suits every question:
//! - *open*: at the recorded times, independent of completions. Keeps bursts and idle times; on a
//!   slower drive the queue grows more than it would in reality.
//! - *closed*: a constant number of outstanding requests. Keeps only the order and the addresses;
//!   measures the throughput of the drive.
//! - *think*: one at a time, each a think time after the completion of the one before. The think
//!   time is the recorded one, or the distance to the next record less the recorded response time.
//!   Right for recordings of one process; overlapping requests are serialized.
//!
//! Worked example: records at 0 ms, 4 ms and 6 ms with response times of 3 ms. Open issues at 0, 4,
//! 6 ms. By think times, on a drive that takes 5 ms for each: at 0 ms, at 5 + (4 − 0 − 3) = 6 ms,
//! and at 11 + 0 = 11 ms, because the third was recorded before the completion of the second.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use headtime_units::{Instant, Nanos};

use super::counts::Counts;
use super::placement::Placed;
use crate::source::{Arrival, ClientId, RequestSource, RequestSpec};

/// The maximum number of streams; further ones share the last.
pub const MAX_STREAMS: u32 = 256;

/// The issue times of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// The recorded times.
    #[default]
    Open,
    /// A constant number of outstanding requests.
    Closed {
        /// The number; at least one.
        outstanding: u32,
    },
    /// One at a time, with think times between.
    Think,
}

/// The division of a trace into streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// The whole trace is one.
    #[default]
    One,
    /// Each device, numbered in the order in which they first appear.
    Device,
    /// Each process, numbered in the order in which they first appear.
    Process,
}

/// The options of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// The time.
    pub replay: Replay,
    /// The streams.
    pub streams: Streams,
    /// The time from a request's arrival to its deadline.
    pub deadline: Option<Nanos>,
}

/// Issues the records of a trace. A client is a stream in an open replay, and an outstanding
/// request in a closed one.
#[derive(Debug)]
pub struct TraceSource<I> {
    records: I,
    options: ReplayOptions,
    counts: Arc<Counts>,
    streams: BTreeMap<u32, u32>,
    /// Clients of a closed replay that have not begun.
    to_begin: core::ops::Range<u32>,
    /// In a replay by think times: the next record, read ahead for its distance.
    next: Option<Placed>,
    /// In a replay by think times: the time from the last completion to the next record.
    think: Nanos,
}

impl<I: Iterator<Item = Placed>> TraceSource<I> {
    /// A replay of `records`, whose times never decrease.
    pub fn new(mut records: I, options: ReplayOptions, counts: Arc<Counts>) -> Self {
        let clients = match options.replay {
            Replay::Open => 0,
            Replay::Closed { outstanding } => outstanding.max(1),
            Replay::Think => 1,
        };
        let next = if options.replay == Replay::Think { records.next() } else { None };
        Self {
            records,
            options,
            counts,
            streams: BTreeMap::new(),
            to_begin: 0..clients,
            next,
            think: Nanos::ZERO,
        }
    }

    fn stream(&mut self, placed: &Placed) -> u32 {
        let key = match self.options.streams {
            Streams::One => return 0,
            Streams::Device => placed.record.device,
            Streams::Process => placed.record.process,
        };
        if let Some(stream) = self.streams.get(&key) {
            return *stream;
        }
        let number = self.streams.len() as u32;
        if number < MAX_STREAMS {
            self.streams.insert(key, number);
            return number;
        }
        self.counts.sharing.add();
        MAX_STREAMS - 1
    }

    fn ask(&mut self, placed: &Placed, at: Instant, client: Option<ClientId>) -> Arrival {
        let stream = self.stream(placed);
        self.counts.issued.add();
        let ask = RequestSpec {
            client: client.unwrap_or(ClientId(stream)),
            stream,
            operation: placed.record.operation,
            extent: placed.extent,
            fua: placed.record.fua,
            deadline: self.options.deadline.map(|span| at + span),
        };
        Arrival { at, ask }
    }

    /// The next record of a replay by think times, and the think time after it.
    fn take_thinking(&mut self) -> Option<Placed> {
        let placed = self.next.take()?;
        self.next = self.records.next();
        let record = &placed.record;
        let distance =
            self.next.map_or(Nanos::ZERO, |next| next.record.at.saturating_since(record.at));
        self.think = match (record.think, record.response) {
            (Some(think), _) => think,
            (None, Some(response)) => distance.saturating_sub(response),
            (None, None) => {
                self.counts.without_response.add();
                distance
            }
        };
        Some(placed)
    }

    /// The next request of a client, `now` or after its think time.
    fn next_of(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        let at = now + core::mem::take(&mut self.think);
        let placed = if self.options.replay == Replay::Think {
            self.take_thinking()?
        } else {
            self.records.next()?
        };
        Some(self.ask(&placed, at, Some(client)))
    }
}

impl<I: Iterator<Item = Placed>> RequestSource for TraceSource<I> {
    fn arrival(&mut self) -> Option<Arrival> {
        if self.options.replay == Replay::Open {
            let placed = self.records.next()?;
            return Some(self.ask(&placed, placed.record.at, None));
        }
        let client = ClientId(self.to_begin.next()?);
        self.next_of(Instant::ORIGIN, client)
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        if self.options.replay == Replay::Open { None } else { self.next_of(now, client) }
    }
}
