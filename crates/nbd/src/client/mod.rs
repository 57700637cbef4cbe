//! One connection seen from the client.
//!
//! The life of a connection: greeting → structured replies and `base:allocation`, if requested and
//! supported → GO (or EXPORT_NAME) → [`ClientEvent::Opened`] → [`Connection::submit`], many in
//! flight, completed in any order by [`ClientEvent::Completed`] → [`Connection::disconnect`] →
//! [`ClientEvent::Closed`], always the last event. Every submitted request completes exactly once,
//! with [`RequestError::ConnectionLost`] at worst. With [`Goal::List`] or [`Goal::Describe`] the
//! connection ends by itself after the reply.
//!
//! A request that breaks the export's constraints is refused by `submit` and never sent.

mod assembly;
mod error;
mod flight;
mod handshake;
mod submit;
mod transmission;

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use bytes::buf::Limit;

use crate::export::{ExportSession, ListedExport, StatusExtent, check_string};
use crate::inbox::Inbox;
use crate::limits::ClientLimits;
use crate::outbox::Outbox;

pub use error::{ClientConfigError, ClientSubmitError, CloseReason, RequestError};

use flight::Flight;
use handshake::{Gathered, Negotiation};
use transmission::Receive;

/// The purpose of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdClientConfig {
    /// Name of the export; empty for the server's default. Not used to list.
    pub export: String,
    /// The goal.
    pub goal: Goal,
    /// Ask for structured replies. Without them errors have no text and zeroes are sent.
    pub structured_replies: bool,
    /// Ask for `base:allocation`, which BLOCK_STATUS needs. Only together with structured replies.
    pub allocation_context: bool,
}

/// The goal of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Use the export.
    Open,
    /// Learn about the export and leave.
    Describe,
    /// Learn the names of the exports and leave.
    List,
}

impl NbdClientConfig {
    /// To use the export `name`, with all that the server offers.
    pub fn open(name: impl Into<String>) -> NbdClientConfig {
        NbdClientConfig {
            export: name.into(),
            goal: Goal::Open,
            structured_replies: true,
            allocation_context: true,
        }
    }

    /// To learn about the export `name` and leave.
    pub fn describe(name: impl Into<String>) -> NbdClientConfig {
        NbdClientConfig { goal: Goal::Describe, ..NbdClientConfig::open(name) }
    }

    /// To learn the names of the exports and leave.
    pub fn list() -> NbdClientConfig {
        NbdClientConfig { goal: Goal::List, ..NbdClientConfig::open("") }
    }
}

/// The client's end of one connection. See the module's documentation for the order of calls.
#[derive(Debug)]
pub struct Connection {
    config: NbdClientConfig,
    limits: ClientLimits,
    inbox: Inbox,
    outbox: Outbox,
    phase: Phase,
    gathered: Gathered,
    fixed_newstyle: bool,
    no_zeroes: bool,
    structured: bool,
    context_id: Option<u32>,
    session: Option<ExportSession>,
    flight: Flight,
    input_ended: bool,
    leaving: bool,
}

#[derive(Debug)]
enum Phase {
    Handshake(Negotiation),
    Transmission(Receive),
    /// Ending: requests in flight complete as lost, then `Closed` is reported.
    Ending(CloseReason),
    Closed,
}

/// The result of a step of the state machine.
enum Step {
    Event(ClientEvent),
    Again,
    NeedInput,
}

/// An event for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// The export is open: requests may be submitted.
    Opened(ExportSession),
    /// The answer to [`Goal::Describe`].
    Described(ExportSession),
    /// The answer to [`Goal::List`], in the server's order.
    Listed(Vec<ListedExport>),
    /// A request is finished.
    Completed(Completion),
    /// The connection is over: send what output is left, close the socket. Last event.
    Closed(CloseReason),
}

/// The end of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// As `submit` gave it.
    pub id: Cookie,
    /// Its result.
    pub result: Result<Reply, RequestError>,
}

/// A successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// WRITE, FLUSH, TRIM, WRITE_ZEROES or CACHE is done.
    Done,
    /// The bytes of a READ, exactly as many as requested.
    Data(Bytes),
    /// The extents of a BLOCK_STATUS request from its offset on, at least one. They may cover less
    /// than requested, or more.
    Extents(Vec<StatusExtent>),
}

/// Names a request of one connection; not reused. On the wire it is the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(u64);

impl Connection {
    /// A connection whose socket has just been connected; the server speaks first.
    ///
    /// # Errors
    /// [`ClientConfigError`] when the limits do not go together or the name cannot be one.
    pub fn new(
        config: NbdClientConfig,
        limits: ClientLimits,
    ) -> Result<Connection, ClientConfigError> {
        limits.check()?;
        check_string("name", &config.export)?;
        Ok(Connection {
            config,
            limits,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            phase: Phase::Handshake(Negotiation::Greeting),
            gathered: Gathered::default(),
            fixed_newstyle: false,
            no_zeroes: false,
            structured: false,
            context_id: None,
            session: None,
            flight: Flight::default(),
            input_ended: false,
            leaving: false,
        })
    }

    /// The number of bytes that can be received now. 0 means: poll events first, or the connection
    /// is over.
    pub fn read_hint(&self) -> usize {
        match self.phase {
            Phase::Handshake(_) | Phase::Transmission(_) if !self.input_ended => self.inbox.hint(),
            _ => 0,
        }
    }

    /// Returns true if `read_hint()` is more than zero.
    pub fn wants_input(&self) -> bool {
        self.read_hint() > 0
    }

    /// A buffer for the next bytes, exactly `read_hint()` of them, to be filled in place. It
    /// implements [`bytes::BufMut`], so tokio's `read_buf` accepts it. Do not read if the hint is
    /// 0: reading nothing looks like the end of the stream.
    pub fn read_buffer(&mut self) -> Limit<&mut Vec<u8>> {
        let hint = self.read_hint();
        let mut buffer = self.inbox.buffer();
        buffer.set_limit(hint);
        buffer
    }

    /// Receives bytes by copying, at most `read_hint()`; returns their number.
    pub fn receive(&mut self, input: &[u8]) -> usize {
        let count = input.len().min(self.read_hint());
        self.inbox.receive(&input[..count])
    }

    /// No more bytes will come. Complete messages received before are still handled.
    pub fn end_of_input(&mut self) {
        self.input_ended = true;
    }

    /// The next event, or `None` until something else is called.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        loop {
            let step = match &mut self.phase {
                Phase::Handshake(_) => self.step_handshake(),
                Phase::Transmission(_) => self.step_transmission(),
                Phase::Ending(reason) => {
                    if let Some(id) = self.flight.lose_one() {
                        return Some(ClientEvent::Completed(Completion {
                            id,
                            result: Err(RequestError::ConnectionLost),
                        }));
                    }
                    let event = ClientEvent::Closed(reason.clone());
                    self.phase = Phase::Closed;
                    return Some(event);
                }
                Phase::Closed => return None,
            };
            let reason = match step {
                Ok(Step::Event(event)) => return Some(event),
                Ok(Step::Again) => continue,
                Ok(Step::NeedInput) if !self.input_ended => return None,
                Ok(Step::NeedInput) => self.cut_off(),
                Err(reason) => reason,
            };
            self.inbox.clear();
            self.gathered = Gathered::default();
            self.phase = Phase::Ending(reason);
        }
    }

    /// The output, in order, for a vectored write. Report what was written to `advance_output`.
    pub fn output_chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.outbox.chunks()
    }

    /// Bytes waiting to be sent.
    pub fn output_bytes(&self) -> u64 {
        self.outbox.len()
    }

    /// The first `count` bytes of the output have been sent.
    ///
    /// # Panics
    /// When fewer bytes were waiting.
    pub fn advance_output(&mut self, count: usize) {
        self.outbox.advance(count);
    }

    /// Takes the first piece of output, which counts as sent from here on: send it before asking
    /// for the next.
    pub fn poll_output(&mut self) -> Option<Bytes> {
        self.outbox.pop().map(|(bytes, _)| bytes)
    }

    /// Closes the connection properly: nothing more can be submitted; requests in flight are
    /// awaited; then DISC is queued and [`ClientEvent::Closed`] reported. During the handshake
    /// ABORT replaces the next option.
    pub fn disconnect(&mut self) {
        self.leaving = true;
    }

    /// Returns true if [`ClientEvent::Closed`] was returned.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// The result of the negotiation, once the export is open.
    pub fn session(&self) -> Option<&ExportSession> {
        self.session.as_ref()
    }

    /// Requests submitted and not completed.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Bytes charged for them, never above [`ClientLimits::max_in_flight_bytes`].
    pub fn in_flight_bytes(&self) -> u64 {
        self.flight.charged()
    }

    /// Bytes in buffers now, never above [`ClientLimits::memory_bound`].
    pub fn buffered_bytes(&self) -> u64 {
        self.inbox.held_bytes()
            + self.outbox.len()
            + self.flight.held_bytes()
            + self.gathered.held_bytes()
    }

    /// Longest READ or WRITE that can be submitted, bytes; 0 before the export is open.
    pub fn max_payload_bytes(&self) -> u32 {
        let limit = u32::try_from(self.limits.max_in_flight_bytes).unwrap_or(u32::MAX);
        self.session.as_ref().map_or(0, |session| session.export.block_sizes.maximum.min(limit))
    }

    fn cut_off(&self) -> CloseReason {
        match &self.phase {
            Phase::Handshake(Negotiation::Reply { option: crate::wire::OPT_ABORT, .. }) => {
                CloseReason::Finished
            }
            Phase::Handshake(negotiation) => {
                CloseReason::EndOfInput { doing: negotiation.doing(), in_flight: 0 }
            }
            _ => CloseReason::EndOfInput { doing: "transmission", in_flight: self.flight.len() },
        }
    }
}
