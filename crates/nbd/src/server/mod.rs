//! One client's connection, seen from the server.
//!
//! The life of a connection: handshake flags → options, each answered before the next is read →
//! [`ServerEvent::Opened`] → requests, many in flight, answered in any order →
//! [`ServerEvent::Closed`], always the last event. The caller looks up exports: the connection
//! requests it ([`ServerEvent::ListExports`], [`ServerEvent::LookupExport`]) and waits for
//! `answer_list` or `answer_export`. The empty name is the default export, which the caller
//! chooses.
//!
//! Requests that break the protocol or the export's constraints are answered here. The caller
//! checks the range of the others against the current size of the export
//! ([`NbdCommand::check_end`]), and keeps the order that the protocol demands (a completed flush
//! covers completed writes).
//!
//! ```
//! use headtime_nbd::server::{Connection, ExportRefusal, ServerEvent};
//! use headtime_nbd::{ExportInfo, NbdCommand, ServerLimits};
//!
//! fn step(connection: &mut Connection, disk: &[u8]) -> bool {
//!     while let Some(event) = connection.poll_event() {
//!         match event {
//!             ServerEvent::ListExports => connection.answer_list(&[]).expect("requested"),
//!             ServerEvent::LookupExport { name, .. } => {
//!                 let disk = || ExportInfo::disk("vol0", disk.len() as u64);
//!                 let found = (name == "vol0").then(disk).ok_or(ExportRefusal::Unknown);
//!                 connection.answer_export(found).expect("a valid export");
//!             }
//!             ServerEvent::StartTls => unreachable!("a connection made with `new` has no TLS"),
//!             ServerEvent::Opened(session) => println!("client opened {}", session.export.name),
//!             ServerEvent::Request { handle, command } => {
//!                 let replied = match (command.check_end(disk.len() as u64), command) {
//!                     (Err(errno), _) => connection.reply_error(handle, errno, "past the end"),
//!                     (Ok(()), NbdCommand::Read { offset, length, .. }) => {
//!                         let bytes = disk[offset as usize..][..length as usize].to_vec();
//!                         connection.reply_read(handle, bytes.into())
//!                     }
//!                     _ => connection.reply_error(handle, headtime_nbd::Errno::Io, "no"),
//!                 };
//!                 replied.expect("in flight");
//!             }
//!             ServerEvent::Closed(reason) => {
//!                 println!("{reason}");
//!                 return false; // once poll_output() is empty, close the socket
//!             }
//!         }
//!     }
//!     true // read at most connection.read_hint() bytes, write connection.poll_output()
//! }
//! # step(&mut Connection::new(ServerLimits::default()).unwrap(), &[]);
//! ```

mod error;
mod handshake;
mod options;
mod reply;
mod transmission;

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use bytes::buf::Limit;

use crate::command::NbdCommand;
use crate::export::ExportSession;
use crate::inbox::Inbox;
use crate::limits::{LimitsError, ServerLimits};
use crate::outbox::{Outbox, Released};

pub use error::{AnswerError, CloseReason, ExportRefusal};
pub use reply::{ReplyError, Segment};

use handshake::Negotiation;
use transmission::{Flight, Serve};

/// The server's end of one connection. See the module's documentation for the order of calls.
#[derive(Debug)]
pub struct Connection {
    limits: ServerLimits,
    inbox: Inbox,
    outbox: Outbox,
    phase: Phase,
    /// Options seen, and what they agreed on.
    options_seen: u32,
    no_zeroes: bool,
    structured: bool,
    /// Name of the export for which `base:allocation` was selected.
    context_of: Option<String>,
    session: Option<ExportSession>,
    flight: Flight,
    input_ended: bool,
    shutting_down: bool,
    tls: TlsPolicy,
    /// The connection is inside TLS.
    secured: bool,
}

/// The use of TLS on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsPolicy {
    /// No TLS.
    #[default]
    Off,
    /// Used if the client requests it.
    Allow,
    /// Required before anything about exports is sent (proto.md: FORCEDTLS).
    Require,
}

#[derive(Debug)]
enum Phase {
    Handshake(Negotiation),
    /// The export was granted, and the event is due.
    Opening,
    /// EXPORT_NAME was refused, and the option has no error reply.
    Refused {
        name: String,
        refusal: ExportRefusal,
    },
    Transmission(Serve),
    Closed,
}

/// The result of a step of the state machine.
enum Step {
    Event(ServerEvent),
    Again,
    /// Nothing happens before more bytes come in.
    NeedInput,
    /// Waits until the caller answers, replies, or sends.
    Blocked,
}

/// An event for the caller. All except `Opened` and `Closed` require a call on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// The client requests the list of exports: call [`Connection::answer_list`].
    ListExports,
    /// The client named an export: call [`Connection::answer_export`].
    LookupExport {
        /// The name as sent by the client; empty for the default export.
        name: String,
        /// The purpose.
        purpose: Purpose,
    },
    /// The client starts TLS: send all output, carry out the TLS handshake on the same stream, then
    /// call [`Connection::tls_started`]. Everything goes through TLS from there on. What was
    /// negotiated before is discarded.
    StartTls,
    /// The transmission phase has begun.
    Opened(ExportSession),
    /// A request that obeys the protocol and the export's constraints, except that it may reach
    /// past the end: answer it with one `reply_*` call.
    Request {
        /// Names the request in the reply; not reused within a connection.
        handle: Handle,
        /// The command.
        command: NbdCommand,
    },
    /// The connection is over: send what output is left, close the socket. Last event.
    Closed(CloseReason),
}

/// The purpose of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Information about the export (INFO, or metadata contexts).
    Describe,
    /// Use of the export (GO, EXPORT_NAME).
    Open,
}

/// Names a request of one connection, from its event to its reply. The client's cookie stays
/// inside, because a client may use one twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(u64);

impl Connection {
    /// A connection that has just been accepted; the greeting is in the output.
    ///
    /// # Errors
    /// [`LimitsError`] when the limits do not go together.
    pub fn new(limits: ServerLimits) -> Result<Connection, LimitsError> {
        Self::with_tls(limits, TlsPolicy::Off)
    }

    /// The same, which may or must go over to TLS.
    ///
    /// # Errors
    /// [`LimitsError`] when the limits do not go together.
    pub fn with_tls(limits: ServerLimits, tls: TlsPolicy) -> Result<Connection, LimitsError> {
        limits.check()?;
        let mut connection = Connection {
            limits,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            phase: Phase::Handshake(Negotiation::ClientFlags),
            options_seen: 0,
            no_zeroes: false,
            structured: false,
            context_of: None,
            session: None,
            flight: Flight::default(),
            input_ended: false,
            shutting_down: false,
            tls,
            secured: false,
        };
        connection.greet();
        Ok(connection)
    }

    /// The number of bytes that can be received now. 0 means: do not read; poll events, answer,
    /// reply and send first.
    pub fn read_hint(&self) -> usize {
        let reading = match &self.phase {
            Phase::Handshake(negotiation) => negotiation.wants_input(&self.outbox),
            Phase::Transmission(serve) => self.serve_wants_input(serve),
            Phase::Opening | Phase::Refused { .. } | Phase::Closed => false,
        };
        if reading && !self.input_ended { self.inbox.hint() } else { 0 }
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

    /// Bytes that were received and belong to no event yet, except those of a large payload.
    pub fn unparsed_bytes(&self) -> usize {
        self.inbox.unparsed()
    }

    /// The next event, or `None` until something else is called.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        loop {
            let step = match &self.phase {
                Phase::Handshake(_) => self.step_handshake(),
                Phase::Opening => Ok(self.open()),
                Phase::Refused { name, refusal } => {
                    Err(CloseReason::ExportRefused { name: name.clone(), refusal: refusal.clone() })
                }
                Phase::Transmission(_) => self.step_transmission(),
                Phase::Closed => return None,
            };
            let reason = match step {
                Ok(Step::Event(event)) => return Some(event),
                Ok(Step::Again) => continue,
                Ok(Step::Blocked) => return None,
                Ok(Step::NeedInput) if !self.input_ended => return None,
                Ok(Step::NeedInput) => self.cut_off(),
                Err(reason) => reason,
            };
            self.phase = Phase::Closed;
            self.inbox.clear();
            self.flight.clear(self.outbox.marked_charge());
            return Some(ServerEvent::Closed(reason));
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
        let released = self.outbox.advance(count);
        self.release(released);
    }

    /// Takes the first piece of output, which counts as sent from here on: send it before asking
    /// for the next.
    pub fn poll_output(&mut self) -> Option<Bytes> {
        let (bytes, released) = self.outbox.pop()?;
        self.release(released);
        Some(bytes)
    }

    /// Refuses every later option except ABORT and every later request as "shutting down". Requests
    /// in flight are answered as before; when [`Connection::is_idle`], the caller may close the
    /// connection.
    pub fn begin_shutdown(&mut self) {
        self.shutting_down = true;
    }

    /// Returns true if no request is in flight and there is no output.
    pub fn is_idle(&self) -> bool {
        self.flight.is_empty() && self.outbox.is_empty()
    }

    /// Returns true if [`ServerEvent::Closed`] was returned.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// The result of the negotiation, once the transmission phase has begun.
    pub fn session(&self) -> Option<&ExportSession> {
        self.session.as_ref()
    }

    /// Requests received whose reply is not completely sent.
    pub fn in_flight(&self) -> usize {
        self.flight.len() + self.outbox.marks()
    }

    /// Bytes charged for them, never above [`ServerLimits::max_in_flight_bytes`].
    pub fn in_flight_bytes(&self) -> u64 {
        self.flight.charged()
    }

    /// The part of them that belongs to a WRITE whose payload is incomplete. Earlier requests do
    /// not wait for it.
    pub fn receiving_bytes(&self) -> u64 {
        match &self.phase {
            Phase::Transmission(Serve::Payload(header)) => u64::from(header.length),
            _ => 0,
        }
    }

    /// Bytes in buffers now. Together with the WRITE payloads that the caller still has, never
    /// above [`ServerLimits::memory_bound`] plus one export list.
    pub fn buffered_bytes(&self) -> u64 {
        self.inbox.held_bytes() + self.outbox.len()
    }

    /// The limits given at construction.
    pub fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    fn open(&mut self) -> Step {
        let session = self.session.clone().expect("opening follows an agreed session");
        self.phase = Phase::Transmission(Serve::Header);
        Step::Event(ServerEvent::Opened(session))
    }

    fn release(&mut self, released: Released) {
        self.flight.release(released.charge);
    }

    fn cut_off(&self) -> CloseReason {
        let mid_message = !self.inbox.is_empty() || self.inside_message();
        CloseReason::EndOfInput { in_flight: self.flight.len(), mid_message }
    }

    fn inside_message(&self) -> bool {
        match &self.phase {
            Phase::Handshake(negotiation) => negotiation.inside_message(),
            Phase::Transmission(serve) => serve.inside_message(),
            Phase::Opening | Phase::Refused { .. } | Phase::Closed => false,
        }
    }
}
