//! [`Workload`]: all streams together, as one [`Source`].
//!
//! Worked example: a closed loop of two clients without think time and an open loop of one request every 10 ms. `arrival` answers client 0 and client 1
//! at 0 ms, then client 2 at 10, 20, 30 … ms for ever. When client 0's request finishes at 7 ms, `follow` answers its next request, at 7 ms. When one of
//! client 2's finishes, `follow` answers nothing: it does not wait for completions.
//!
//! The requests of one stream are drawn in the order in which they are asked for. So in a closed loop of equal clients the n-th request submitted is the
//! same under every policy, whoever submits it, and policies are compared on one stream of requests.
//!
//! Cost: one draw of a few random numbers for each request; nothing is allocated after the start.

use alloc::vec::Vec;

use headtime_units::{Instant, SectorSize, Sectors};

use crate::config::StreamConfig;
use crate::error::WorkloadError;
use crate::source::{Arrival, Ask, ClientId, Source};
use crate::stream::Stream;

/// Most clients accepted in one workload.
const MOST_CLIENTS: u32 = 1_000_000;

/// A generator of requests.
#[derive(Clone, Debug)]
pub struct Workload {
    streams: Vec<Flow>,
    /// The stream of each client.
    stream_of: Vec<u32>,
}

/// A stream with its clients' numbers and the arrivals that do not depend on completions.
#[derive(Clone, Debug)]
struct Flow {
    stream: Stream,
    first_client: u32,
    /// First requests of a closed loop that are still to come, the earliest last.
    starts: Vec<(Instant, ClientId)>,
    /// The next arrival of an open loop.
    next: Option<Instant>,
}

impl Workload {
    /// The workload of these streams on a drive of `capacity` sectors of `sector` bytes.
    ///
    /// # Errors
    /// See [`WorkloadError`]; nothing is drawn unless every stream is right.
    pub fn new(streams: &[StreamConfig], sector: SectorSize, capacity: Sectors, seed: u64) -> Result<Self, WorkloadError> {
        if streams.is_empty() {
            return Err(WorkloadError::NoStreams);
        }
        let streams: Vec<Stream> =
            streams.iter().enumerate().map(|(number, config)| Stream::new(number, config, sector, capacity, seed)).collect::<Result<_, _>>()?;
        let clients: u64 = streams.iter().map(|stream| u64::from(stream.clients())).sum();
        if clients > u64::from(MOST_CLIENTS) {
            return Err(WorkloadError::TooManyClients { clients, most: MOST_CLIENTS });
        }
        let mut stream_of = Vec::with_capacity(clients as usize);
        let streams = (0..).zip(streams).map(|(number, stream)| {
            let first_client = stream_of.len() as u32;
            stream_of.extend((0..stream.clients()).map(|_| number));
            Flow::new(stream, first_client)
        });
        Ok(Self { streams: streams.collect(), stream_of })
    }

    /// Clients of all streams; an open loop counts as one.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.stream_of.len() as u32
    }
}

impl Source for Workload {
    fn arrival(&mut self) -> Option<Arrival> {
        let coming = self.streams.iter().enumerate().filter_map(|(number, flow)| flow.next_arrival().map(|at| (at, number)));
        let (at, number) = coming.min()?;
        let client = self.streams[number].take_arrival(at);
        Some(self.streams[number].ask(number as u32, client, at))
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        let number = *self.stream_of.get(client.0 as usize)?;
        let flow = &mut self.streams[number as usize];
        let at = now + flow.stream.think()?;
        Some(flow.ask(number, client, at))
    }
}

impl Flow {
    fn new(mut stream: Stream, first_client: u32) -> Self {
        let mut starts: Vec<(Instant, ClientId)> =
            (first_client..).map(ClientId).zip(stream.first_times()).map(|(client, at)| (at, client)).collect();
        starts.sort_unstable_by(|a, b| b.cmp(a));
        let next = stream.interarrival().map(|span| Instant::ORIGIN + span);
        Self { stream, first_client, starts, next }
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.starts.last().map(|(at, _)| *at).or(self.next)
    }

    /// Takes the arrival at `at`, which is the next one; tells whose it is.
    fn take_arrival(&mut self, at: Instant) -> ClientId {
        match self.starts.pop() {
            Some((_, client)) => client,
            None => {
                self.next = self.stream.interarrival().map(|span| at + span);
                ClientId(self.first_client)
            }
        }
    }

    fn ask(&mut self, stream: u32, client: ClientId, at: Instant) -> Arrival {
        let draw = self.stream.draw(client.0 - self.first_client);
        let deadline = self.stream.deadline(at);
        Arrival { at, ask: Ask { client, stream, operation: draw.operation, extent: draw.extent, fua: draw.fua, deadline } }
    }
}
