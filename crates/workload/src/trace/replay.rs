//! [`TraceSource`]: a trace as a [`Source`] of requests.
//!
//! A trace says when requests were made on a system that answered at its own speed. How they are
//! made again is a choice ([`Replay`]), and none is right for every question:
//! - *open*: at the recorded times, whatever becomes of those before. Keeps bursts and idle times;
//!   on a slower drive the queue grows as it never would.
//! - *closed*: so many at a time, the next as soon as one is over. Keeps the order and the places
//!   only; asks how fast the drive can go.
//! - *think*: one at a time, each a think time after the one before is over. The think time is the
//!   recorded one, or the distance to the next record less the recorded response time. Right for
//!   recordings of one process; where requests overlapped it serializes them.
//!
//! Worked example: records at 0 ms, 4 ms and 6 ms with response times of 3 ms. Open asks at 0, 4, 6
//! ms. By think times: the drive takes 5 ms for each, so it asks at 0 ms, 5 + (4 − 0 − 3) = 6 ms,
//! and 11 + 0 = 11 ms, because the third was asked before the second was over.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use headtime_units::{Instant, Nanos};

use super::counts::Counts;
use super::placement::Placed;
use crate::source::{Arrival, Ask, ClientId, Source};

/// Streams told apart; what comes after shares the last.
pub const MAX_STREAMS: u32 = 256;

/// When requests of a trace are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// At their recorded times.
    #[default]
    Open,
    /// As fast as they are served, so many at a time.
    Closed {
        /// How many; at least one.
        outstanding: u32,
    },
    /// One at a time, with think times between.
    Think,
}

/// What makes a stream of the replay.
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

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// When.
    pub replay: Replay,
    /// As which streams.
    pub streams: Streams,
    /// From a request's arrival to its deadline.
    pub deadline: Option<Nanos>,
}

/// Asks the records of a trace. A client is a stream in an open replay, and one of those
/// outstanding in a closed one.
#[derive(Debug)]
pub struct TraceSource<I> {
    records: I,
    options: ReplayOptions,
    counts: Arc<Counts>,
    streams: BTreeMap<u32, u32>,
    /// Clients of a closed replay that have not begun.
    to_begin: core::ops::Range<u32>,
    /// In a replay by think times: the record to come, read ahead to know its distance.
    next: Option<Placed>,
    /// In a replay by think times: from the end of the last to the next.
    think: Nanos,
}

impl<I: Iterator<Item = Placed>> TraceSource<I> {
    /// Asks `records`, whose times do not run back.
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
        self.counts.asked.add();
        let ask = Ask {
            client: client.unwrap_or(ClientId(stream)),
            stream,
            operation: placed.record.operation,
            extent: placed.extent,
            fua: placed.record.fua,
            deadline: self.options.deadline.map(|span| at + span),
        };
        Arrival { at, ask }
    }

    /// The next of a replay by think times, and how long after it the one behind it follows.
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

    /// The next request of a client, `now` or when it has thought.
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

impl<I: Iterator<Item = Placed>> Source for TraceSource<I> {
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
