//! [`Source`]: where requests come from, whether drawn by a generator or read from a trace.

use headtime_units::{Extent, Instant};

/// One client: a process or connection with its own place in a sequential run; numbered from 0 over
/// all streams of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// What is asked of the sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reads them.
    Read,
    /// Writes them.
    Write,
    /// Writes zeroes.
    Zero,
    /// Gives them up.
    Discard,
    /// Makes completed writes durable; names no sectors.
    Flush,
}

/// One request as its client makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who asks.
    pub client: ClientId,
    /// The stream the client belongs to: its place in the configuration.
    pub stream: u32,
    /// What is asked.
    pub operation: Operation,
    /// The sectors; empty for [`Operation::Flush`] and only for it.
    pub extent: Extent,
    /// Whether a write must be durable when it completes.
    pub fua: bool,
    /// The absolute time by which it should complete, if any.
    pub deadline: Option<Instant>,
}

/// A request and the time at which it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// What.
    pub ask: Ask,
}

/// Where requests come from.
///
/// Whoever drives a source takes arrivals one at a time, submits each at its time, and tells the
/// source of every request that is over. A closed loop arrives once for each client and from then
/// on only follows; an open loop only arrives.
pub trait Source {
    /// The next request that comes whatever becomes of the others; times never run back. `None`
    /// when no more will come.
    fn arrival(&mut self) -> Option<Arrival>;

    /// What `client` asks next, now that a request of its has finished; not before `now`. `None`
    /// when it waits for nothing, or has asked for all that it wanted.
    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival>;
}

impl<S: Source + ?Sized> Source for alloc::boxed::Box<S> {
    fn arrival(&mut self) -> Option<Arrival> {
        (**self).arrival()
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        (**self).follow(now, client)
    }
}
