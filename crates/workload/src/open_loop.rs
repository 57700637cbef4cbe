//! [`OpenLoop`]: the requests of closed streams at rates that depend on no completion.
//!
//! A closed loop submits less to a slow scheduler than to a fast one, so its response times compare
//! different loads. Here each stream keeps its own requests in its own order, with their clients,
//! addresses and sizes, and they arrive as a Poisson process whose rate the caller chooses.
//!
//! Worked example: two clients read sequentially, each a run of its own, at a rate of 100 a second.
//! Every 10 ms on average a request arrives, in turn of the first and of the second client.
//!
//! *Modelled*: a stream submits its requests in the order in which it does when each is complete at
//! once. *Not modelled*: think times, paces, and ends of processes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headtime_units::Instant;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::dice;
use crate::source::{Arrival, ClientId, RequestSource, SourceEvent};

/// Streams as open loops.
#[derive(Debug)]
pub struct OpenLoop<S> {
    streams: Vec<OpenStream<S>>,
    /// The clients by stream and by their number in the stream's source.
    clients: BTreeMap<(usize, ClientId), ClientId>,
}

#[derive(Debug)]
struct OpenStream<S> {
    requests: InOrder<S>,
    /// Requests per second and random numbers; `None` for a stream that keeps its own times.
    pace: Option<(f64, ChaCha8Rng)>,
    now: Instant,
    next: Option<Arrival>,
}

impl<S: RequestSource> OpenLoop<S> {
    /// The requests of each source at its rate per second. A source without a rate is an open loop
    /// already and keeps its times; one with the rate 0 submits nothing.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = (S, Option<f64>)>, seed: u64) -> Self {
        let open = |(number, (source, rate)): (usize, (S, Option<f64>))| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            // Streams count up from 0.
            rng.set_stream(u64::MAX - number as u64);
            let pace = rate.map(|rate| (rate, rng));
            let mut stream = OpenStream {
                requests: InOrder::new(source),
                pace,
                now: Instant::ORIGIN,
                next: None,
            };
            stream.advance();
            stream
        };
        let streams = sources.into_iter().enumerate().map(open).collect();
        Self { streams, clients: BTreeMap::new() }
    }
}

impl<S: RequestSource> RequestSource for OpenLoop<S> {
    fn arrival(&mut self) -> Option<Arrival> {
        let coming = self
            .streams
            .iter()
            .enumerate()
            .filter_map(|(number, stream)| Some((stream.next?.at, number)));
        let (_, number) = coming.min()?;
        let mut arrival = self.streams[number].next.take()?;
        self.streams[number].advance();
        let unused = ClientId(self.clients.len() as u32);
        arrival.ask.client = *self.clients.entry((number, arrival.ask.client)).or_insert(unused);
        Some(arrival)
    }

    fn follow(&mut self, _now: Instant, _client: ClientId) -> Option<Arrival> {
        None
    }
}

impl<S: RequestSource> OpenStream<S> {
    fn advance(&mut self) {
        self.next = match &mut self.pace {
            None => self.requests.next(),
            Some((rate, _)) if *rate <= 0.0 => None,
            Some((rate, rng)) => {
                self.now += dice::exponential_span(rng, 1e9 / *rate);
                let at = self.now;
                self.requests.next().map(|mut arrival| {
                    let within = |deadline: Instant| deadline.saturating_since(arrival.at);
                    arrival.ask.deadline =
                        arrival.ask.deadline.map(|deadline| at + within(deadline));
                    Arrival { at, ..arrival }
                })
            }
        };
    }
}

/// The requests of a source in the order in which it submits them if each is complete at once.
#[derive(Debug)]
struct InOrder<S> {
    source: S,
    arrival: Option<Arrival>,
    /// By time, then by creation.
    pending: BTreeMap<(Instant, u64), SourceEvent>,
    created: u64,
    /// The last request, which is complete when the next one is needed.
    last: Option<(Instant, ClientId)>,
}

impl<S: RequestSource> InOrder<S> {
    fn new(mut source: S) -> Self {
        let arrival = source.arrival();
        let mut requests =
            Self { source, arrival, pending: BTreeMap::new(), created: 0, last: None };
        requests.take_events();
        requests
    }

    fn next(&mut self) -> Option<Arrival> {
        if let Some((now, client)) = self.last.take() {
            if let Some(arrival) = self.source.follow(now, client) {
                self.schedule(SourceEvent::Request(arrival));
            }
            self.take_events();
        }
        let arrival = loop {
            let first = self.pending.first_key_value().map(|((at, _), _)| *at);
            if self.arrival.is_some_and(|arrival| first.is_none_or(|at| arrival.at <= at)) {
                let arrival = self.arrival.take()?;
                self.arrival = self.source.arrival();
                break arrival;
            }
            match self.pending.pop_first()?.1 {
                SourceEvent::Request(arrival) => break arrival,
                SourceEvent::Wake { at, client } => self.source.wake(at, client),
                SourceEvent::Ended { client: ended, .. } => self.pending.retain(|_, event| {
                    !matches!(event, SourceEvent::Wake { client, .. } if *client == ended)
                }),
            }
            self.take_events();
        };
        self.last = Some((arrival.at, arrival.ask.client));
        Some(arrival)
    }

    fn take_events(&mut self) {
        while let Some(event) = self.source.event() {
            self.schedule(event);
        }
    }

    fn schedule(&mut self, event: SourceEvent) {
        self.pending.insert((event.at(), self.created), event);
        self.created += 1;
    }
}
