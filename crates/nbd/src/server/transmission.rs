//! The transmission phase of the server: requests in, checked against the protocol, the export and
//! the limits.
//!
//! A request is accepted only within the limit of requests, and its payload only within the limit
//! of bytes. Otherwise nothing is read, and the client's data waits in its socket. A refused
//! request also counts until its error has been sent. Rules: proto.md, "Request types" and "Error
//! values".

use alloc::collections::BTreeMap;

use bytes::Bytes;

use crate::command::{CommandSpec, NbdCommand};
use crate::errno::Errno;
use crate::export::{ExportFlags, ExportSession};
use crate::limits::{DENIAL_OF_SERVICE_BYTES, EXTENT_BYTES};
use crate::wire::{self, be_u16, be_u32, be_u64};

use super::{CloseReason, Connection, Handle, Phase, ServerEvent, Step};

/// The state of the transmission phase.
#[derive(Debug)]
pub(super) enum Serve {
    Header,
    /// A good request waits until its bytes fit.
    Admit(Header),
    Payload(Header),
    /// The payload of a refused WRITE is read past.
    Skip(Header, Fault),
    /// After DISC: nothing more is read, requests in flight are answered.
    Draining,
}

impl Serve {
    pub(super) fn inside_message(&self) -> bool {
        matches!(self, Serve::Payload(_) | Serve::Skip(..))
    }
}

/// A request's header as sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub flags: u16,
    pub code: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

/// The reason for answering a request with an error without the caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub errno: Errno,
    pub text: &'static str,
}

const fn fault(errno: Errno, text: &'static str) -> Fault {
    Fault { errno, text }
}

impl Header {
    fn parse(raw: &[u8; wire::REQUEST_HEADER_BYTES]) -> Result<Header, CloseReason> {
        let magic = be_u32(raw, 0);
        if magic != wire::REQUEST_MAGIC {
            return Err(CloseReason::RequestMagic(magic));
        }
        Ok(Header {
            flags: be_u16(raw, 4),
            code: be_u16(raw, 6),
            cookie: be_u64(raw, 8),
            offset: be_u64(raw, 16),
            length: be_u32(raw, 24),
        })
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Checks everything but the range against the export of `session`, whose size may have changed
    /// since: the caller checks that ([`NbdCommand::check_end`]). Not used for DISC.
    fn check(&self, session: &ExportSession) -> Result<(), Fault> {
        let (export, flags) = (&session.export, session.export.flags);
        let Some(spec) = CommandSpec::of(self.code) else {
            return Err(fault(Errno::Invalid, "unknown command"));
        };
        if self.flags & !(spec.flags | wire::CMD_FLAG_FUA) != 0 {
            return Err(fault(Errno::Invalid, "a command flag that this command does not take"));
        }
        for (flag, needs) in [
            (wire::CMD_FLAG_FUA, ExportFlags::SEND_FUA),
            (wire::CMD_FLAG_DF, ExportFlags::SEND_DF),
            (wire::CMD_FLAG_FAST_ZERO, ExportFlags::SEND_FAST_ZERO),
        ] {
            if self.has(flag) && !flags.contains(needs) {
                return Err(fault(
                    Errno::Invalid,
                    "a command flag that was not offered for this export",
                ));
            }
        }
        if spec.writes && flags.contains(ExportFlags::READ_ONLY) {
            return Err(fault(Errno::Perm, "the export is read-only"));
        }
        if !flags.contains(spec.requires) {
            return Err(fault(Errno::Invalid, "a command that was not offered for this export"));
        }
        if self.code == wire::CMD_FLUSH {
            let plain = self.offset == 0 && self.length == 0;
            return if plain {
                Ok(())
            } else {
                Err(fault(Errno::Invalid, "a flush has no offset and no length"))
            };
        }
        if self.code == wire::CMD_BLOCK_STATUS && !session.allocation_context {
            return Err(fault(Errno::Invalid, "no metadata context was selected for this export"));
        }
        if self.length == 0 {
            return Err(fault(Errno::Invalid, "a length of zero"));
        }
        let minimum = export.block_sizes.minimum;
        if !self.offset.is_multiple_of(u64::from(minimum)) || !self.length.is_multiple_of(minimum) {
            return Err(fault(
                Errno::Invalid,
                "offset or length is not a multiple of the minimum block size",
            ));
        }
        if spec.payload && self.length > export.block_sizes.maximum {
            let large_read = self.code == wire::CMD_READ && session.structured_replies;
            let errno = if large_read { Errno::Overflow } else { Errno::Invalid };
            return Err(fault(errno, "longer than the maximum payload; split the request"));
        }
        Ok(())
    }

    /// The command for the caller. Only for a header that passed `check`.
    fn command(&self, payload: Bytes) -> NbdCommand {
        let Header { offset, length, .. } = *self;
        let fua = self.has(wire::CMD_FLAG_FUA);
        match self.code {
            wire::CMD_READ => {
                NbdCommand::Read { offset, length, unfragmented: self.has(wire::CMD_FLAG_DF) }
            }
            wire::CMD_WRITE => NbdCommand::Write { offset, payload, fua },
            wire::CMD_TRIM => NbdCommand::Trim { offset, length, fua },
            wire::CMD_CACHE => NbdCommand::Cache { offset, length },
            wire::CMD_WRITE_ZEROES => {
                let (no_hole, fast) =
                    (self.has(wire::CMD_FLAG_NO_HOLE), self.has(wire::CMD_FLAG_FAST_ZERO));
                NbdCommand::WriteZeroes { offset, length, fua, no_hole, fast }
            }
            wire::CMD_BLOCK_STATUS => {
                NbdCommand::BlockStatus { offset, length, single: self.has(wire::CMD_FLAG_REQ_ONE) }
            }
            _ => NbdCommand::Flush,
        }
    }
}

/// Requests that the caller has not answered yet, and the bytes charged for them and for unsent
/// replies.
#[derive(Debug, Default)]
pub(super) struct Flight {
    open: BTreeMap<Handle, Header>,
    next: u64,
    charged: u64,
}

impl Flight {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    pub(super) fn get(&self, handle: Handle) -> Option<Header> {
        self.open.get(&handle).copied()
    }

    /// The caller has answered; the charge stays until `release`.
    pub(super) fn close(&mut self, handle: Handle) {
        self.open.remove(&handle);
    }

    pub(super) fn release(&mut self, charge: u64) {
        self.charged -= charge;
    }

    /// Forgets requests, for a connection that is over; `unsent` is what replies not yet sent are
    /// charged.
    pub(super) fn clear(&mut self, unsent: u64) {
        self.charged = unsent;
        self.open.clear();
    }

    fn charge(&mut self, charge: u64) {
        self.charged += charge;
    }

    fn enter(&mut self, header: Header) -> Handle {
        let handle = Handle(self.next);
        self.next += 1;
        self.open.insert(handle, header);
        handle
    }
}

impl Connection {
    pub(super) fn serve_wants_input(&self, serve: &Serve) -> bool {
        match serve {
            Serve::Header => self.has_place(),
            Serve::Payload(_) | Serve::Skip(..) => true,
            Serve::Admit(_) | Serve::Draining => false,
        }
    }

    pub(super) fn step_transmission(&mut self) -> Result<Step, CloseReason> {
        let Phase::Transmission(serve) = &self.phase else {
            return Ok(Step::Again);
        };
        match *serve {
            Serve::Header if !self.has_place() => Ok(Step::Blocked),
            Serve::Header => self.read_header(),
            Serve::Admit(header) => {
                let charge = self.charge_of(&header);
                if self.flight.charged() + charge > self.limits.max_in_flight_bytes {
                    return Ok(Step::Blocked);
                }
                self.flight.charge(charge);
                if header.code == wire::CMD_WRITE {
                    self.inbox.start_body(header.length as usize);
                    return Ok(self.serve(Serve::Payload(header)));
                }
                Ok(self.submit(header, Bytes::new()))
            }
            Serve::Payload(header) => match self.inbox.take_body() {
                None => Ok(Step::NeedInput),
                Some(payload) => Ok(self.submit(header, payload)),
            },
            Serve::Skip(header, fault) => {
                if !self.inbox.skipped() {
                    return Ok(Step::NeedInput);
                }
                self.put_error(&header, fault.errno, fault.text);
                self.outbox.mark(0);
                Ok(self.serve(Serve::Header))
            }
            Serve::Draining if self.flight.is_empty() => Err(CloseReason::Disconnected),
            Serve::Draining => Ok(Step::Blocked),
        }
    }

    fn read_header(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<{ wire::REQUEST_HEADER_BYTES }>() else {
            return Ok(Step::NeedInput);
        };
        let header = Header::parse(&raw)?;
        if header.code == wire::CMD_DISC {
            return Ok(self.serve(Serve::Draining));
        }
        let session = self.session.as_ref().expect("transmission follows an agreed session");
        let verdict = match header.check(session) {
            _ if self.shutting_down => Err(fault(Errno::Shutdown, "the server is shutting down")),
            verdict => verdict,
        };
        let Err(fault) = verdict else {
            return Ok(self.serve(Serve::Admit(header)));
        };
        let payload = if header.code == wire::CMD_WRITE { header.length } else { 0 };
        let allowed = self.limits.max_request_bytes.max(DENIAL_OF_SERVICE_BYTES);
        if payload > allowed {
            return Err(CloseReason::PayloadTooLong { length: payload, allowed });
        }
        self.inbox.start_skip(u64::from(payload));
        Ok(self.serve(Serve::Skip(header, fault)))
    }

    fn submit(&mut self, header: Header, payload: Bytes) -> Step {
        let command = header.command(payload);
        let handle = self.flight.enter(header);
        self.phase = Phase::Transmission(Serve::Header);
        Step::Event(ServerEvent::Request { handle, command })
    }

    fn has_place(&self) -> bool {
        self.in_flight() < self.limits.max_in_flight as usize
    }

    /// Bytes a request costs from admission until its reply is sent.
    pub(super) fn charge_of(&self, header: &Header) -> u64 {
        match header.code {
            wire::CMD_READ | wire::CMD_WRITE => u64::from(header.length),
            wire::CMD_BLOCK_STATUS => u64::from(self.limits.max_extents) * EXTENT_BYTES as u64,
            _ => 0,
        }
    }

    fn serve(&mut self, serve: Serve) -> Step {
        self.phase = Phase::Transmission(serve);
        Step::Again
    }
}
