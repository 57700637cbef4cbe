//! [`Workload`]: all streams as one [`RequestSource`].
//!
//! Worked example: a closed loop of two clients without think time and an open loop of one request
//! every 10 ms. `arrival` returns client 0 and client 1 at 0 ms, then client 2 at 10, 20, 30 … ms
//! without end. When client 0's request finishes at 7 ms, `follow` returns its next request, at 7
//! ms. When one of client 2's finishes, `follow` returns nothing: it does not wait for completions.
//!
//! The requests of one stream are drawn in the order of their submission. In a closed loop of equal
//! clients the n-th request is therefore the same under every policy, whichever client submits it,
//! and policies are compared on the same stream of requests.
//!
//! Cost: a few random numbers for each request; nothing is allocated after the start.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headtime_units::{Instant, SectorSize, Sectors};

use crate::arrivals::Arrivals;
use crate::check::Check;
use crate::config::StreamConfig;
use crate::error::WorkloadError;
use crate::limits::Limits;
use crate::processes::{Clients, Processes};
use crate::source::{Arrival, ClientId, RequestSource, RequestSpec, SourceEvent};
use crate::stream::Stream;

/// The maximum number of clients of one workload.
const MAX_CLIENTS: u32 = 1_000_000;

/// A generator of requests.
#[derive(Clone, Debug)]
pub struct Workload {
    streams: Vec<Flow>,
    clients: Clients,
    events: VecDeque<SourceEvent>,
}

/// One stream.
#[derive(Clone, Debug)]
enum Flow {
    Requests(Box<RequestFlow>),
    Processes(Box<Processes>),
    /// Left out.
    Silent,
}

/// A stream of requests with its clients' numbers, the arrivals that do not depend on completions,
/// and its limits.
#[derive(Clone, Debug)]
struct RequestFlow {
    stream: Stream,
    first_client: u32,
    /// The remaining first requests of a closed or paced loop, the earliest last.
    starts: Vec<(Instant, ClientId)>,
    /// The next arrival of an open loop, or the next time in the schedule of a paced one.
    next: Option<Instant>,
    limits: Limits,
}

impl Workload {
    /// The workload of these streams on a drive of `capacity` sectors of `sector` bytes.
    ///
    /// # Errors
    /// See [`WorkloadError`]; nothing is drawn before all streams are checked.
    pub fn new(
        streams: &[StreamConfig],
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        if streams.is_empty() {
            return Err(WorkloadError::NoStreams);
        }
        let configs = streams;
        let clients: u64 = configs.iter().map(|config| u64::from(config.arrivals.clients())).sum();
        if clients > u64::from(MAX_CLIENTS) {
            return Err(WorkloadError::TooManyClients { clients, max: MAX_CLIENTS });
        }
        let mut flows = Vec::with_capacity(configs.len());
        let mut numbers = Clients::default();
        for (number, config) in configs.iter().enumerate() {
            let fault = |fault| WorkloadError::Stream { stream: number, fault };
            let flow = match &config.process {
                Some(process) => {
                    let check = Check { sector };
                    Processes::new(number as u32, process, config, &check, capacity, seed)
                        .map(|processes| Flow::Processes(Box::new(processes)))
                }
                None => {
                    let first_client = numbers.add(number as u32, config.arrivals.clients());
                    Stream::new(number, config, sector, capacity, seed).map(|stream| {
                        Flow::Requests(Box::new(RequestFlow::new(
                            stream,
                            config,
                            sector,
                            first_client,
                        )))
                    })
                }
            };
            flows.push(flow.map_err(fault)?);
        }
        let mut workload = Self { streams: flows, clients: numbers, events: VecDeque::new() };
        for flow in &mut workload.streams {
            if let Flow::Processes(processes) = flow {
                processes.start(&mut workload.clients, &mut workload.events);
            }
        }
        Ok(workload)
    }

    /// The same without the other streams: the requests of `stream` alone, with the same clients.
    #[must_use]
    pub fn only(mut self, stream: u32) -> Self {
        for (number, flow) in (0..).zip(&mut self.streams) {
            if number != stream {
                *flow = Flow::Silent;
            }
        }
        let clients = &self.clients;
        self.events.retain(|event| match event {
            SourceEvent::Request(arrival) => arrival.ask.stream == stream,
            SourceEvent::Wake { client, .. } | SourceEvent::Ended { client, .. } => {
                clients.find(*client).is_some_and(|(number, _)| number == stream)
            }
        });
        self
    }

    /// The number of streams.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.streams.len() as u32
    }

    /// Clients of all streams of requests; an open loop counts as one.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.clients.len()
    }
}

impl RequestSource for Workload {
    fn arrival(&mut self) -> Option<Arrival> {
        let coming = self.streams.iter().enumerate().filter_map(|(number, flow)| match flow {
            Flow::Requests(flow) => flow.next_arrival().map(|at| (at, number)),
            Flow::Processes(_) | Flow::Silent => None,
        });
        let (at, number) = coming.min()?;
        let Flow::Requests(flow) = &mut self.streams[number] else { return None };
        let client = flow.take_arrival(at);
        Some(flow.ask(number as u32, client, at))
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        let (number, place) = self.clients.find(client)?;
        match &mut self.streams[number as usize] {
            Flow::Requests(flow) => {
                let at = flow.follow(now)?;
                Some(flow.ask(number, client, at))
            }
            Flow::Processes(processes) => {
                processes.finished(now, place?, &mut self.clients, &mut self.events);
                None
            }
            Flow::Silent => None,
        }
    }

    fn event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    fn wake(&mut self, now: Instant, client: ClientId) {
        if let Some((number, Some(place))) = self.clients.find(client)
            && let Flow::Processes(processes) = &mut self.streams[number as usize]
        {
            processes.wake(now, place, &mut self.clients, &mut self.events);
        }
    }
}

impl RequestFlow {
    fn new(
        mut stream: Stream,
        config: &StreamConfig,
        sector: SectorSize,
        first_client: u32,
    ) -> Self {
        let start = Instant::ORIGIN + config.start;
        let (clients, is_paced) =
            (config.arrivals.clients(), matches!(config.arrivals, Arrivals::Paced { .. }));
        let mut next = if is_paced { Some(start) } else { stream.gap().map(|span| start + span) };
        let first_times = if is_paced {
            (0..clients).map(|_| take_place(&mut next, &mut stream)).collect()
        } else {
            stream.first_times(start)
        };
        let mut starts: Vec<(Instant, ClientId)> = (first_client..)
            .map(ClientId)
            .zip(first_times)
            .map(|(client, at)| (at, client))
            .collect();
        starts.sort_unstable_by(|a, b| b.cmp(a));
        Self { stream, first_client, starts, next, limits: Limits::new(config, sector) }
    }

    /// The time of the next arrival that depends on no completion.
    fn next_arrival(&self) -> Option<Instant> {
        let open = || self.next.filter(|_| matches!(self.stream.arrivals(), Arrivals::Open(_)));
        let at = self.starts.last().map(|(at, _)| *at).or_else(open)?;
        self.limits.allow(at).then_some(at)
    }

    /// Removes the next arrival, which is at `at`, and returns its client.
    fn take_arrival(&mut self, at: Instant) -> ClientId {
        match self.starts.pop() {
            Some((_, client)) => client,
            None => {
                self.next = self.stream.gap().map(|span| at + span);
                ClientId(self.first_client)
            }
        }
    }

    /// The time of a client's next request after a completion now.
    fn follow(&mut self, now: Instant) -> Option<Instant> {
        let at = match self.stream.arrivals() {
            Arrivals::Open(_) => return None,
            Arrivals::Closed { .. } => now + self.stream.think(),
            Arrivals::Paced { .. } => now.max(take_place(&mut self.next, &mut self.stream)),
        };
        self.limits.allow(at).then_some(at)
    }

    fn ask(&mut self, stream: u32, client: ClientId, at: Instant) -> Arrival {
        let draw = self.stream.draw(client.0 - self.first_client);
        self.limits.charge(draw.extent.len);
        let deadline = self.limits.deadline(at);
        Arrival {
            at,
            ask: RequestSpec {
                client,
                stream,
                operation: draw.operation,
                extent: draw.extent,
                fua: draw.fua,
                deadline,
            },
        }
    }
}

/// Returns the next time of a paced loop's schedule.
fn take_place(next: &mut Option<Instant>, stream: &mut Stream) -> Instant {
    let place = next.expect("a paced loop has a schedule");
    *next = stream.gap().map(|span| place + span);
    place
}
