//! The transmission phase of the client: simple and structured replies in, matched to requests by
//! cookie.
//!
//! The size of a reply is bounded by its request. A server that sends more, or replies without a
//! request, breaks the protocol, and the connection ends. Rules: proto.md, "Structured reply
//! types".

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::errno::Errno;
use crate::export::StatusExtent;
use crate::limits::EXTENT_BYTES;
use crate::wire::{self, Reader, be_u16, be_u32, be_u64};

use super::assembly::Misfit;
use super::flight::Pending;
use super::{
    ClientEvent, CloseReason, Completion, Connection, Cookie, Phase, Reply, RequestError, Step,
};

/// The state of the transmission phase.
#[derive(Debug, Clone, Copy)]
pub(super) enum Receive {
    Header,
    /// The data of a simple reply to a READ.
    SimpleData(Cookie),
    /// The offset in front of a data chunk's data.
    Offset(Chunk),
    /// A data chunk's data, at this distance from the start of the read.
    Data(Chunk, u32),
    /// Any other chunk's payload; so many bytes of it are read past afterwards.
    Payload(Chunk, u64),
    Past(Chunk),
}

/// The header of a structured reply chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    id: Cookie,
    last: bool,
    kind: u16,
    length: u32,
}

/// Longest error chunk: error, length, text, offset, and room for what later versions may add.
const MAX_ERROR_CHUNK_BYTES: u32 = 8192;

impl Connection {
    pub(super) fn step_transmission(&mut self) -> Result<Step, CloseReason> {
        let Phase::Transmission(receive) = self.phase else {
            return Ok(Step::Again);
        };
        match receive {
            Receive::Header if self.leaving && self.flight.len() == 0 => {
                self.put_request(0, wire::CMD_DISC, 0, 0, 0);
                Err(CloseReason::Disconnected)
            }
            Receive::Header => match self.inbox.peek_u32() {
                None => Ok(Step::NeedInput),
                Some(wire::SIMPLE_REPLY_MAGIC) => self.read_simple(),
                Some(wire::STRUCTURED_REPLY_MAGIC) if self.structured => self.read_chunk(),
                Some(magic) => Err(CloseReason::Magic(u64::from(magic))),
            },
            Receive::SimpleData(id) => match self.inbox.take_body() {
                None => Ok(Step::NeedInput),
                Some(data) => {
                    self.flight.close(id)?;
                    Ok(self.complete(id, Ok(Reply::Data(data))))
                }
            },
            Receive::Offset(chunk) => self.read_offset(chunk),
            Receive::Data(chunk, start) => match self.inbox.take_body() {
                None => Ok(Step::NeedInput),
                Some(data) => {
                    let ranges = self.limits.max_fragments;
                    let placed = self.flight.get(chunk.id)?.assembly.put(start, data, ranges);
                    self.placed(placed)?;
                    self.end_chunk(chunk)
                }
            },
            Receive::Payload(chunk, past) => match self.inbox.take_body() {
                None => Ok(Step::NeedInput),
                Some(data) => {
                    self.receive_payload(chunk, &data)?;
                    self.inbox.start_skip(past);
                    Ok(self.receive_next(Receive::Past(chunk)))
                }
            },
            Receive::Past(chunk) if self.inbox.skipped() => self.end_chunk(chunk),
            Receive::Past(_) => Ok(Step::NeedInput),
        }
    }

    fn read_simple(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<{ wire::SIMPLE_REPLY_BYTES }>() else {
            return Ok(Step::NeedInput);
        };
        let (error, id) = (be_u32(&raw, 4), Cookie(be_u64(&raw, 8)));
        let structured = self.structured;
        let pending = self.flight.get(id)?;
        if structured && matches!(pending.code, wire::CMD_READ | wire::CMD_BLOCK_STATUS) {
            return Err(CloseReason::Violation("a simple reply where a structured one was agreed"));
        }
        if pending.extents.is_some() || pending.error.is_some() {
            return Err(CloseReason::Violation(
                "a simple reply to a request that has structured chunks",
            ));
        }
        if error == 0 && pending.code == wire::CMD_READ {
            let length = pending.length as usize;
            self.inbox.start_body(length);
            return Ok(self.receive_next(Receive::SimpleData(id)));
        }
        self.flight.close(id)?;
        if error == 0 {
            return Ok(self.complete(id, Ok(Reply::Done)));
        }
        let error = self.server_error(error, String::new(), None);
        Ok(self.complete(id, Err(error)))
    }

    fn read_chunk(&mut self) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<{ wire::CHUNK_HEADER_BYTES }>() else {
            return Ok(Step::NeedInput);
        };
        let last = be_u16(&raw, 4) & wire::REPLY_FLAG_DONE != 0;
        let (kind, id, length) = (be_u16(&raw, 6), Cookie(be_u64(&raw, 8)), be_u32(&raw, 16));
        let chunk = Chunk { id, last, kind, length };
        let max_extents = self.limits.max_extents;
        let pending = self.flight.get(id)?;
        let (reading, asking) =
            (pending.code == wire::CMD_READ, pending.code == wire::CMD_BLOCK_STATUS);
        let (taken, past) = match kind {
            wire::REPLY_TYPE_NONE if last && length == 0 => return self.end_chunk(chunk),
            wire::REPLY_TYPE_OFFSET_DATA
                if reading && length > 8 && length - 8 <= pending.length =>
            {
                return Ok(self.receive_next(Receive::Offset(chunk)));
            }
            wire::REPLY_TYPE_OFFSET_HOLE if reading && length == 12 => (length, 0),
            wire::REPLY_TYPE_BLOCK_STATUS if asking && length >= 12 && length % 8 == 4 => {
                if pending.single && length != 12 {
                    return Err(CloseReason::Violation(
                        "more than one extent where one was asked for",
                    ));
                }
                let kept = length.min(4 + max_extents * EXTENT_BYTES as u32);
                (kept, u64::from(length - kept))
            }
            kind if kind & wire::REPLY_TYPE_ERROR_BIT != 0
                && (6..=MAX_ERROR_CHUNK_BYTES).contains(&length) =>
            {
                (length, 0)
            }
            _ => {
                return Err(CloseReason::Violation(
                    "a chunk that does not fit its request, or of the wrong length",
                ));
            }
        };
        self.inbox.start_body(taken as usize);
        Ok(self.receive_next(Receive::Payload(chunk, past)))
    }

    fn read_offset(&mut self, chunk: Chunk) -> Result<Step, CloseReason> {
        let Some(raw) = self.inbox.take::<8>() else {
            return Ok(Step::NeedInput);
        };
        let count = chunk.length - 8;
        let start = self.flight.get(chunk.id)?.distance(u64::from_be_bytes(raw), count)?;
        self.inbox.start_body(count as usize);
        Ok(self.receive_next(Receive::Data(chunk, start)))
    }

    fn receive_payload(&mut self, chunk: Chunk, data: &[u8]) -> Result<(), CloseReason> {
        let short = CloseReason::Violation("a chunk that is shorter than its parts");
        let mut reader = Reader(data);
        match chunk.kind {
            wire::REPLY_TYPE_OFFSET_HOLE => {
                let (offset, count) = (be_u64(data, 0), be_u32(data, 8));
                if count == 0 {
                    return Err(CloseReason::Violation("a hole of no bytes"));
                }
                let ranges = self.limits.max_fragments;
                let pending = self.flight.get(chunk.id)?;
                let start = pending.distance(offset, count)?;
                let placed = pending.assembly.put_hole(start, count, ranges);
                self.placed(placed)
            }
            wire::REPLY_TYPE_BLOCK_STATUS => {
                if reader.u32() != self.context_id {
                    return Err(CloseReason::Violation(
                        "extents of a metadata context that was not selected",
                    ));
                }
                let mut extents = Vec::with_capacity(reader.0.len() / EXTENT_BYTES);
                while let (Some(length), Some(state)) = (reader.u32(), reader.u32()) {
                    extents.push(StatusExtent { length, state });
                }
                let pending = self.flight.get(chunk.id)?;
                if extents.iter().any(|extent| extent.length == 0) || pending.extents.is_some() {
                    return Err(CloseReason::Violation("an extent of no bytes, or extents twice"));
                }
                if pending.single && extents.iter().any(|extent| extent.length > pending.length) {
                    return Err(CloseReason::Violation(
                        "a single extent longer than was asked for",
                    ));
                }
                pending.extents = Some(extents);
                Ok(())
            }
            kind => {
                let (Some(errno), Some(length)) = (reader.u32(), reader.u16()) else {
                    return Err(short);
                };
                let text = reader.bytes(usize::from(length)).ok_or(short)?;
                let text = String::from_utf8_lossy(text);
                let text = wire::truncate(&text, wire::MAX_STRING_BYTES).to_string();
                let offset =
                    if kind == wire::REPLY_TYPE_ERROR_OFFSET { reader.u64() } else { None };
                let error = self.server_error(errno, text, offset);
                self.flight.get(chunk.id)?.error.get_or_insert(error);
                Ok(())
            }
        }
    }

    /// One chunk is done: with the last one, so is its request.
    fn end_chunk(&mut self, chunk: Chunk) -> Result<Step, CloseReason> {
        self.receive_next(Receive::Header);
        if !chunk.last {
            return Ok(Step::Again);
        }
        // After a violation the request stays in flight, so that it completes as lost.
        self.flight.get(chunk.id)?.check_complete()?;
        let Pending { error, assembly, extents, .. } = self.flight.close(chunk.id)?;
        let result = match (error, extents) {
            (Some(error), _) => Err(error),
            (None, Some(extents)) => Ok(Reply::Extents(extents)),
            (None, None) => Ok(assembly.finish().map_or(Reply::Done, Reply::Data)),
        };
        Ok(self.complete(chunk.id, result))
    }

    fn complete(&mut self, id: Cookie, result: Result<Reply, RequestError>) -> Step {
        self.phase = Phase::Transmission(Receive::Header);
        Step::Event(ClientEvent::Completed(Completion { id, result }))
    }

    /// A client disconnects after ESHUTDOWN (proto.md).
    fn server_error(&mut self, code: u32, text: String, offset: Option<u64>) -> RequestError {
        let errno = Errno::from_code(code);
        self.leaving |= errno == Errno::Shutdown;
        RequestError::Server { errno, text, offset }
    }

    fn placed(&self, placed: Result<(), Misfit>) -> Result<(), CloseReason> {
        placed.map_err(|misfit| match misfit {
            Misfit::Overlap => CloseReason::Violation("pieces of a read that overlap"),
            Misfit::TooScattered => {
                let allowed = u64::from(self.limits.max_fragments);
                let what = "scattered pieces of one read";
                CloseReason::TooMuch { what, bytes: allowed + 1, limit: "max_fragments", allowed }
            }
        })
    }

    fn receive_next(&mut self, receive: Receive) -> Step {
        self.phase = Phase::Transmission(receive);
        Step::Again
    }
}
