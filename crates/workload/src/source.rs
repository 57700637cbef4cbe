//! [`RequestSource`]: a source of requests: a generator, or a trace.

use headtime_units::{Extent, Instant};

/// One client: a process or connection with its own position in a sequential run; numbered from 0
/// over all streams of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// An operation on sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reads the sectors.
    Read,
    /// Writes the sectors.
    Write,
    /// Writes zeroes.
    Zero,
    /// Discards the sectors.
    Discard,
    /// Makes completed writes durable; has no sectors.
    Flush,
}

/// One request as its client issues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    /// The client.
    pub client: ClientId,
    /// The stream of the client, by its position in the configuration.
    pub stream: u32,
    /// The operation.
    pub operation: Operation,
    /// The sectors; empty only for [`Operation::Flush`].
    pub extent: Extent,
    /// True for a write that must be durable when it completes.
    pub fua: bool,
    /// The absolute deadline, if any.
    pub deadline: Option<Instant>,
}

/// A request and its arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time.
    pub at: Instant,
    /// The request.
    pub ask: RequestSpec,
}

/// An event that a source schedules besides its arrivals and follow-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// A request arrives.
    Request(Arrival),
    /// [`RequestSource::wake`] is due.
    Wake {
        /// The time.
        at: Instant,
        /// The client of the call.
        client: ClientId,
    },
    /// The client ends: none of its requests is pending, and none will follow. Its wake-ups that
    /// are not yet due are void.
    Ended {
        /// The time.
        at: Instant,
        /// The client.
        client: ClientId,
    },
}

impl SourceEvent {
    /// The time of the event.
    #[must_use]
    pub const fn at(&self) -> Instant {
        match self {
            Self::Request(arrival) => arrival.at,
            Self::Wake { at, .. } | Self::Ended { at, .. } => *at,
        }
    }
}

/// A source of requests.
///
/// The caller takes arrivals one at a time, submits each at its time, and reports every finished
/// request. A closed loop has one arrival for each client, and after that only follow-ups; an open
/// loop has only arrivals. Processes schedule events, which the caller takes at the start and after
/// each call of `follow` and `wake`, and processes at their times.
pub trait RequestSource {
    /// The next request that depends on no other one; times never decrease. `None` when there are
    /// no more.
    fn arrival(&mut self) -> Option<Arrival>;

    /// The next request of `client` after one of its requests has finished; not before `now`.
    /// `None` for a client that waits for no completion, or that has issued its last request.
    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival>;

    /// The next event that is scheduled, until `None`. Events come in the order in which they were
    /// scheduled, not by time. The default has none.
    fn event(&mut self) -> Option<SourceEvent> {
        None
    }

    /// The time of a [`SourceEvent::Wake`] of `client` has come.
    fn wake(&mut self, now: Instant, client: ClientId) {
        let _ = (now, client);
    }
}

impl<S: RequestSource + ?Sized> RequestSource for alloc::boxed::Box<S> {
    fn arrival(&mut self) -> Option<Arrival> {
        (**self).arrival()
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        (**self).follow(now, client)
    }

    fn event(&mut self) -> Option<SourceEvent> {
        (**self).event()
    }

    fn wake(&mut self, now: Instant, client: ClientId) {
        (**self).wake(now, client);
    }
}
