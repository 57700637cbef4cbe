//! [`Output`]: what the processes of a stream emit, and [`Clients`], the numbers of processes.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headtime_units::{Extent, Instant};

use crate::limits::Limits;
use crate::source::{Arrival, ClientId, Operation, RequestSpec, SourceEvent};

/// The clients of a workload: those of streams of requests, numbered from 0, and the living
/// processes, each with a number of its own from there on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    stream_of: Vec<u32>,
    /// The stream of a process, and its place in the stream.
    processes: BTreeMap<u32, (u32, u32)>,
    begun: u32,
}

impl Clients {
    /// Adds `count` clients of a stream of requests; returns the number of the first. All are
    /// added before the first process begins.
    pub(crate) fn add(&mut self, stream: u32, count: u32) -> u32 {
        let first = self.stream_of.len() as u32;
        self.stream_of.extend(core::iter::repeat_n(stream, count as usize));
        first
    }

    pub(crate) fn len(&self) -> u32 {
        self.stream_of.len() as u32
    }

    /// The stream of a client and, for a process, its place.
    pub(crate) fn find(&self, client: ClientId) -> Option<(u32, Option<u32>)> {
        match self.stream_of.get(client.0 as usize) {
            Some(stream) => Some((*stream, None)),
            None => self.processes.get(&client.0).map(|(stream, place)| (*stream, Some(*place))),
        }
    }

    fn begin(&mut self, stream: u32, place: u32) -> ClientId {
        let client = self.len() + self.begun;
        self.begun += 1;
        self.processes.insert(client, (stream, place));
        ClientId(client)
    }
}

/// The output of the processes of one stream.
pub(crate) struct Output<'a> {
    pub(crate) stream: u32,
    pub(crate) limits: &'a mut Limits,
    pub(crate) clients: &'a mut Clients,
    pub(crate) events: &'a mut VecDeque<SourceEvent>,
}

impl Output<'_> {
    /// The number of a new process, whose completions are reported with `place`.
    pub(crate) fn begin(&mut self, place: u32) -> ClientId {
        self.clients.begin(self.stream, place)
    }

    /// Submits a request at `at`. Returns false if the limits of the stream are reached.
    pub(crate) fn request(
        &mut self,
        at: Instant,
        client: ClientId,
        operation: Operation,
        extent: Extent,
    ) -> bool {
        if !self.limits.allow(at) {
            return false;
        }
        self.limits.charge(extent.len);
        let deadline = self.limits.deadline(at);
        self.events.push_back(SourceEvent::Request(Arrival {
            at,
            ask: RequestSpec {
                client,
                stream: self.stream,
                operation,
                extent,
                fua: false,
                deadline,
            },
        }));
        true
    }

    /// Calls the model at `at` for a process.
    pub(crate) fn wake(&mut self, at: Instant, client: ClientId) {
        self.events.push_back(SourceEvent::Wake { at, client });
    }

    /// Ends a process at `at`.
    pub(crate) fn end(&mut self, at: Instant, client: ClientId) {
        self.clients.processes.remove(&client.0);
        self.events.push_back(SourceEvent::Ended { at, client });
    }
}
