//! Replies of the transmission phase: simple or structured, as agreed, around data that is not
//! copied.
//!
//! Success without data is sent as a simple reply in both modes, which the protocol allows and
//! which is shorter. With structured replies an error includes text. A reply that does not fit its
//! request is returned to the caller as an error. The request stays open and can still be answered,
//! usually with EIO.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::errno::Errno;
use crate::export::StatusExtent;
use crate::limits::MAX_ERROR_TEXT_BYTES;
use crate::wire;

use super::handshake::ALLOCATION_CONTEXT_ID;
use super::transmission::Header;
use super::{Connection, Handle};

/// A run of a READ's answer, in order from the request's offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Bytes, not empty.
    Data(Bytes),
    /// This many zeroes, at least one. With structured replies they are not sent, unless the client
    /// requires one piece.
    Hole(u32),
}

impl Segment {
    fn length(&self) -> u64 {
        match self {
            Segment::Data(bytes) => bytes.len() as u64,
            Segment::Hole(length) => u64::from(*length),
        }
    }
}

/// A reply that does not fit. The request, if there is one, is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ReplyError {
    /// No such request is open: it was answered, or belongs to another connection.
    #[error("{0:?} is not an open request of this connection; answer each request once")]
    UnknownHandle(Handle),
    /// The reply is for another command.
    #[error("{given} does not answer {command}; see the reply_* methods for which answers which")]
    WrongKind { command: &'static str, given: &'static str },
    /// The length of a READ's data is not as requested, or a part is empty.
    #[error(
        "a READ of {expected} bytes was answered with {given}; answer all of it or with an error"
    )]
    WrongLength { expected: u32, given: u64 },
    /// A BLOCK_STATUS reply without extents, or with one of length zero.
    #[error(
        "BLOCK_STATUS was answered with no extent or an empty one; give at least one byte's state"
    )]
    NoExtent,
}

impl Connection {
    /// Success of WRITE, FLUSH, TRIM, WRITE_ZEROES or CACHE.
    ///
    /// # Errors
    /// [`ReplyError::UnknownHandle`], [`ReplyError::WrongKind`]. On a closed connection nothing
    /// happens.
    pub fn reply_done(&mut self, handle: Handle) -> Result<(), ReplyError> {
        let Some(header) = self.opened(handle)? else {
            return Ok(());
        };
        if matches!(header.code, wire::CMD_READ | wire::CMD_BLOCK_STATUS) {
            return Err(wrong_kind(&header, "success without data"));
        }
        self.put_simple(&header, 0);
        self.finish(handle, &header);
        Ok(())
    }

    /// A READ's data, in one piece.
    ///
    /// # Errors
    /// As for [`Connection::reply_segments`].
    pub fn reply_read(&mut self, handle: Handle, data: Bytes) -> Result<(), ReplyError> {
        self.reply_segments(handle, &[Segment::Data(data)])
    }

    /// A READ's data as runs of bytes and zeroes, which together are exactly as long as the
    /// request. Sparse parts cost nothing on the wire when replies are structured.
    ///
    /// # Errors
    /// [`ReplyError::UnknownHandle`], [`ReplyError::WrongKind`], [`ReplyError::WrongLength`]. On a
    /// closed connection nothing happens.
    pub fn reply_segments(
        &mut self,
        handle: Handle,
        segments: &[Segment],
    ) -> Result<(), ReplyError> {
        let Some(header) = self.opened(handle)? else {
            return Ok(());
        };
        if header.code != wire::CMD_READ {
            return Err(wrong_kind(&header, "data"));
        }
        let given = segments.iter().map(Segment::length).sum();
        if given != u64::from(header.length) || segments.iter().any(|segment| segment.length() == 0)
        {
            return Err(ReplyError::WrongLength { expected: header.length, given });
        }
        if !self.structured {
            self.put_simple(&header, 0);
            self.put_contents(segments);
        } else if header.flags & wire::CMD_FLAG_DF != 0 {
            self.put_chunk(&header, true, wire::REPLY_TYPE_OFFSET_DATA, 8 + header.length);
            self.outbox.put(&header.offset.to_be_bytes());
            self.put_contents(segments);
        } else {
            self.put_fragments(&header, segments);
        }
        self.finish(handle, &header);
        Ok(())
    }

    /// Answers BLOCK_STATUS with the allocation from its offset on: consecutive extents, at least
    /// one. They may cover less than requested, or more; the excess over the request or the limits
    /// is left out. Adjacent extents of equal state are joined.
    ///
    /// # Errors
    /// [`ReplyError::UnknownHandle`], [`ReplyError::WrongKind`], [`ReplyError::NoExtent`]. On a
    /// closed connection nothing happens.
    pub fn reply_extents(
        &mut self,
        handle: Handle,
        extents: &[StatusExtent],
    ) -> Result<(), ReplyError> {
        let Some(header) = self.opened(handle)? else {
            return Ok(());
        };
        if header.code != wire::CMD_BLOCK_STATUS {
            return Err(wrong_kind(&header, "extents"));
        }
        if extents.is_empty() || extents.iter().any(|extent| extent.length == 0) {
            return Err(ReplyError::NoExtent);
        }
        let single = header.flags & wire::CMD_FLAG_REQ_ONE != 0;
        let max = if single { 1 } else { self.limits.max_extents as usize };
        let joined = join_extents(extents, header.length, max);
        self.put_chunk(&header, true, wire::REPLY_TYPE_BLOCK_STATUS, 4 + 8 * joined.len() as u32);
        self.outbox.put(&ALLOCATION_CONTEXT_ID.to_be_bytes());
        for StatusExtent { length, state } in joined {
            self.outbox.put(&length.to_be_bytes());
            self.outbox.put(&state.to_be_bytes());
        }
        self.finish(handle, &header);
        Ok(())
    }

    /// Answers any request with an error. `text` is sent if replies are structured, cut to 256
    /// bytes. As the protocol demands, ENOTSUP becomes EINVAL except for a fast zeroing.
    ///
    /// # Errors
    /// [`ReplyError::UnknownHandle`]. On a closed connection nothing happens.
    pub fn reply_error(
        &mut self,
        handle: Handle,
        errno: Errno,
        text: &str,
    ) -> Result<(), ReplyError> {
        let Some(header) = self.opened(handle)? else {
            return Ok(());
        };
        let fast =
            header.code == wire::CMD_WRITE_ZEROES && header.flags & wire::CMD_FLAG_FAST_ZERO != 0;
        let errno = if errno == Errno::NotSupported && !fast { Errno::Invalid } else { errno };
        self.put_error(&header, errno, text);
        self.finish(handle, &header);
        Ok(())
    }

    pub(super) fn put_error(&mut self, header: &Header, errno: Errno, text: &str) {
        if !self.structured {
            return self.put_simple(header, errno.code());
        }
        let text = wire::truncate(text, MAX_ERROR_TEXT_BYTES);
        self.put_chunk(header, true, wire::REPLY_TYPE_ERROR, 6 + text.len() as u32);
        self.outbox.put(&errno.code().to_be_bytes());
        self.outbox.put(&(text.len() as u16).to_be_bytes());
        self.outbox.put(text.as_bytes());
    }

    /// The open request of a handle; `None` if the connection is over.
    fn opened(&self, handle: Handle) -> Result<Option<Header>, ReplyError> {
        match self.flight.get(handle) {
            None if !self.is_closed() => Err(ReplyError::UnknownHandle(handle)),
            open => Ok(open),
        }
    }

    /// The reply is queued: a WRITE's bytes are free now, a READ's when the reply has been sent.
    fn finish(&mut self, handle: Handle, header: &Header) {
        self.flight.close(handle);
        let charge = self.charge_of(header);
        if header.code == wire::CMD_WRITE {
            self.flight.release(charge);
            self.outbox.mark(0);
        } else {
            self.outbox.mark(charge);
        }
    }

    fn put_simple(&mut self, header: &Header, error: u32) {
        self.outbox.put(&wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
        self.outbox.put(&error.to_be_bytes());
        self.outbox.put(&header.cookie.to_be_bytes());
    }

    fn put_chunk(&mut self, header: &Header, last: bool, kind: u16, length: u32) {
        let flags = if last { wire::REPLY_FLAG_DONE } else { 0 };
        self.outbox.put(&wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
        self.outbox.put(&flags.to_be_bytes());
        self.outbox.put(&kind.to_be_bytes());
        self.outbox.put(&header.cookie.to_be_bytes());
        self.outbox.put(&length.to_be_bytes());
    }

    fn put_contents(&mut self, segments: &[Segment]) {
        for segment in segments {
            match segment {
                Segment::Data(bytes) => self.outbox.put_shared(bytes.clone()),
                Segment::Hole(length) => self.outbox.put_zeroes(u64::from(*length)),
            }
        }
    }

    fn put_fragments(&mut self, header: &Header, segments: &[Segment]) {
        let mut offset = header.offset;
        for (index, segment) in segments.iter().enumerate() {
            let last = index + 1 == segments.len();
            match segment {
                Segment::Data(bytes) => {
                    self.put_chunk(
                        header,
                        last,
                        wire::REPLY_TYPE_OFFSET_DATA,
                        8 + bytes.len() as u32,
                    );
                    self.outbox.put(&offset.to_be_bytes());
                    self.outbox.put_shared(bytes.clone());
                }
                Segment::Hole(length) => {
                    self.put_chunk(header, last, wire::REPLY_TYPE_OFFSET_HOLE, 12);
                    self.outbox.put(&offset.to_be_bytes());
                    self.outbox.put(&length.to_be_bytes());
                }
            }
            offset += segment.length();
        }
    }
}

fn wrong_kind(header: &Header, given: &'static str) -> ReplyError {
    let command =
        crate::CommandSpec::of(header.code).map_or("an unknown command", |spec| spec.name);
    ReplyError::WrongKind { command, given }
}

/// Joins adjacent extents of equal state and stops at `length` bytes or `max` extents, whichever
/// comes first. The result never extends beyond `length`.
fn join_extents(extents: &[StatusExtent], length: u32, max: usize) -> Vec<StatusExtent> {
    let mut joined: Vec<StatusExtent> = Vec::new();
    let mut left = length;
    for extent in extents {
        let length = extent.length.min(left);
        if length == 0 {
            break;
        }
        let full = joined.len() == max;
        match joined.last_mut() {
            Some(last) if last.state == extent.state => last.length += length,
            _ if full => break,
            _ => joined.push(StatusExtent { length, state: extent.state }),
        }
        left -= length;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(length: u32, state: u32) -> StatusExtent {
        StatusExtent { length, state }
    }

    #[test]
    fn extents_are_joined_and_cut_to_what_was_asked() {
        let given = [extent(10, 0), extent(5, 0), extent(5, 3), extent(100, 0)];
        assert_eq!(join_extents(&given, 30, 100), [extent(15, 0), extent(5, 3), extent(10, 0)]);
        assert_eq!(join_extents(&given, 15, 100), [extent(15, 0)]);
        assert_eq!(join_extents(&given, 30, 1), [extent(15, 0)]);
        assert_eq!(join_extents(&given, 30, 2), [extent(15, 0), extent(5, 3)]);
        assert_eq!(
            join_extents(&[extent(u32::MAX, 1), extent(u32::MAX, 1)], u32::MAX, 9),
            [extent(u32::MAX, 1)]
        );
    }
}
