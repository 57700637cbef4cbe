//! Bytes on their way in: a small head for message headers, and one body of exactly the length a
//! message announced.
//!
//! A body is allocated after its header was parsed and its length checked. It takes over what the
//! head already has of it and is then filled in place. So a large payload is not copied, and
//! nothing is buffered beyond the announced length. A body of at most [`SMALL_BODY_BYTES`] is
//! collected in the head instead, together with the messages after it: copying it costs less than
//! receiving its rest separately. A body of at least [`ALIGNED_BODY_BYTES`] starts on a page, so
//! that direct I/O takes it as it is.
//!
//! The head has at most [`FEW_AHEAD`], because what it has of a large body is copied. Once small
//! bodies have filled it, it has up to [`HEAD_BYTES`].

use alloc::vec::Vec;

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes};

use crate::limits::{ALIGNED_BODY_BYTES, ALIGNMENT, HEAD_BYTES};

/// Bytes that are read ahead if the next body may be large: some hundred headers. A guess: a copy
/// of this length costs less than a system call.
const FEW_AHEAD: usize = 16 << 10;
/// The longest body that is collected in the head. A guess: half of [`FEW_AHEAD`], so that at least
/// two messages are received at once.
const SMALL_BODY_BYTES: usize = FEW_AHEAD / 2;

#[derive(Debug)]
pub(crate) struct Inbox {
    head: Vec<u8>,
    /// Bytes that the head may have.
    ahead: usize,
    /// Bytes of `head` already parsed; moved out before the next read.
    parsed: usize,
    body: Option<Body>,
    /// Bytes still to be skipped.
    skip: u64,
}

#[derive(Debug)]
enum Body {
    /// This many bytes are collected in the head.
    Small(usize),
    /// This many bytes are collected from `start` of `bytes` on.
    Large { bytes: Vec<u8>, start: usize, len: usize },
}

impl Body {
    /// Bytes to be received in place.
    fn missing(&self) -> usize {
        match self {
            Body::Small(_) => 0,
            Body::Large { bytes, start, len } => start + len - bytes.len(),
        }
    }
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { head: Vec::new(), ahead: FEW_AHEAD, parsed: 0, body: None, skip: 0 }
    }

    /// The number of bytes that can be received now; 0 only if a full body or a full head is to be
    /// parsed.
    pub(crate) fn hint(&self) -> usize {
        match &self.body {
            Some(body) if body.missing() > 0 => body.missing(),
            // After small bodies it may have more than is read ahead now.
            _ => self.ahead.saturating_sub(self.unparsed()),
        }
    }

    /// The buffer for the next bytes, limited to `hint()`. The caller fills it; `settle` runs
    /// before anything is parsed.
    pub(crate) fn buffer(&mut self) -> Limit<&mut Vec<u8>> {
        self.settle();
        let hint = self.hint();
        match &mut self.body {
            Some(Body::Large { bytes, start, len }) if bytes.len() < *start + *len => {
                bytes.limit(hint)
            }
            _ => {
                self.head.drain(..self.parsed);
                self.parsed = 0;
                self.head.reserve_exact(hint);
                (&mut self.head).limit(hint)
            }
        }
    }

    /// Copies at most `hint()` bytes from `input`; returns the number copied.
    pub(crate) fn receive(&mut self, input: &[u8]) -> usize {
        let mut buffer = self.buffer();
        let taken = input.len().min(buffer.remaining_mut());
        buffer.put_slice(&input[..taken]);
        taken
    }

    /// The next `N` bytes of the head, once they are there.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.settle();
        if self.busy() {
            return None;
        }
        let raw = self.head[self.parsed..].first_chunk::<N>().copied()?;
        self.parsed += N;
        Some(raw)
    }

    /// The next four bytes as a number, left where they are.
    pub(crate) fn peek_u32(&mut self) -> Option<u32> {
        self.settle();
        if self.busy() {
            return None;
        }
        self.head[self.parsed..].first_chunk().map(|raw| u32::from_be_bytes(*raw))
    }

    /// Starts to collect a body of `len` bytes; the caller has bounded `len`.
    pub(crate) fn start_body(&mut self, len: usize) {
        assert!(!self.busy(), "a body was started before the last one was taken");
        self.body = Some(if len <= SMALL_BODY_BYTES {
            if self.head.len() >= FEW_AHEAD {
                self.ahead = HEAD_BYTES;
            }
            Body::Small(len)
        } else {
            self.ahead = FEW_AHEAD;
            let aligned = len >= ALIGNED_BODY_BYTES;
            let mut bytes = Vec::<u8>::with_capacity(len + if aligned { ALIGNMENT - 1 } else { 0 });
            let start = if aligned { bytes.as_ptr().align_offset(ALIGNMENT) } else { 0 };
            bytes.resize(start, 0);
            self.parse(len.min(self.unparsed()), &mut bytes);
            Body::Large { bytes, start, len }
        });
    }

    /// The body, once it is complete.
    pub(crate) fn take_body(&mut self) -> Option<Bytes> {
        let here = self.unparsed();
        let complete = |body: &mut Body| match body {
            Body::Small(len) => *len <= here,
            Body::Large { bytes, start, len } => bytes.len() == *start + *len,
        };
        self.body.take_if(complete).map(|body| match body {
            Body::Small(len) => {
                let mut bytes = Vec::with_capacity(len);
                self.parse(len, &mut bytes);
                bytes.into()
            }
            Body::Large { bytes, start, .. } => {
                let mut body = Bytes::from(bytes);
                body.advance(start);
                body
            }
        })
    }

    /// Appends `count` bytes of the head to `bytes`.
    fn parse(&mut self, count: usize, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.head[self.parsed..self.parsed + count]);
        self.parsed += count;
    }

    /// From here on reads past `count` bytes.
    pub(crate) fn start_skip(&mut self, count: u64) {
        assert!(!self.busy(), "a skip was started before the last body was taken");
        self.skip = count;
        self.settle();
    }

    /// Returns true if all bytes to skip have passed.
    pub(crate) fn skipped(&mut self) -> bool {
        self.settle();
        self.skip == 0
    }

    /// Returns true if there is nothing to parse.
    pub(crate) fn is_empty(&self) -> bool {
        self.unparsed() == 0 && self.body.is_none() && self.skip == 0
    }

    /// Memory in use, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        let body = match &self.body {
            Some(Body::Large { bytes, .. }) => bytes.capacity(),
            _ => 0,
        };
        (self.head.capacity() + body) as u64
    }

    /// Drops everything, for a connection that is over.
    pub(crate) fn clear(&mut self) {
        *self = Inbox::new();
    }

    fn busy(&self) -> bool {
        self.body.is_some() || self.skip > 0
    }

    /// Bytes of the head that were not parsed yet.
    pub(crate) fn unparsed(&self) -> usize {
        self.head.len() - self.parsed
    }

    /// Throws away what was parsed or is to be skipped.
    fn settle(&mut self) {
        let passed = self.skip.min(self.unparsed() as u64);
        self.skip -= passed;
        // Cannot overflow: passed is at most the head's length.
        self.parsed += passed as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn headers_bodies_and_skips_come_out_in_order_for_any_split() {
        let stream: Vec<u8> = (0..60).collect();
        for split in 1..stream.len() {
            let mut inbox = Inbox::new();
            let mut pieces = stream.chunks(split);
            let mut more = |inbox: &mut Inbox| {
                let mut piece = pieces.next().unwrap();
                while !piece.is_empty() {
                    let taken = inbox.receive(piece);
                    assert!(taken > 0 || inbox.hint() == 0);
                    if taken == 0 {
                        return Some(piece.to_vec());
                    }
                    piece = &piece[taken..];
                }
                None
            };
            let head = loop {
                if let Some(head) = inbox.take::<4>() {
                    break head;
                }
                assert_eq!(more(&mut inbox), None);
            };
            assert_eq!(head, [0, 1, 2, 3]);
            inbox.start_body(20);
            let body = loop {
                if let Some(body) = inbox.take_body() {
                    break body;
                }
                assert_eq!(inbox.take::<1>(), None);
                assert_eq!(more(&mut inbox), None);
            };
            assert_eq!(body, (4..24).collect::<Vec<u8>>());
            inbox.start_skip(10);
            while !inbox.skipped() {
                assert_eq!(more(&mut inbox), None);
            }
            while inbox.peek_u32().is_none() {
                assert_eq!(more(&mut inbox), None);
            }
            assert_eq!(inbox.take::<1>(), Some([34]));
        }
    }

    #[test]
    fn the_head_never_grows_past_its_size() {
        let mut inbox = Inbox::new();
        let flood = vec![7_u8; 100_000];
        let mut taken = 0;
        while inbox.hint() > 0 {
            taken += inbox.receive(&flood[taken..]);
        }
        assert_eq!(taken, FEW_AHEAD);
        while inbox.take::<28>().is_some() {}
        inbox.receive(&flood);
        assert_eq!(inbox.held_bytes(), FEW_AHEAD as u64);
        inbox.start_body(SMALL_BODY_BYTES);
        assert_eq!(inbox.take_body().map(|body| body.len()), Some(SMALL_BODY_BYTES));
        while inbox.hint() > 0 {
            inbox.receive(&flood);
        }
        assert_eq!(inbox.held_bytes(), HEAD_BYTES as u64);
        inbox.start_body(HEAD_BYTES / 2);
        assert_eq!(inbox.take_body().map(|body| body.len()), Some(HEAD_BYTES / 2));
        assert_eq!(inbox.receive(&flood), 0, "what was read ahead is parsed first");
        while inbox.take::<28>().is_some() {}
        assert_eq!(inbox.receive(&flood), FEW_AHEAD - HEAD_BYTES / 2 % 28);
    }

    #[test]
    fn a_large_body_is_filled_in_place_and_exactly() {
        let mut inbox = Inbox::new();
        inbox.receive(&[1; 10]);
        inbox.start_body(1_000_000);
        assert_eq!(inbox.hint(), 999_990);
        let Some(Body::Large { bytes, start, .. }) = &inbox.body else {
            panic!("{:?}", inbox.body)
        };
        let first = &raw const bytes[*start];
        assert_eq!(first.addr() % ALIGNMENT, 0, "direct I/O takes it as it is");
        while inbox.hint() > 0 && inbox.body.as_ref().unwrap().missing() > 0 {
            let mut room = inbox.buffer();
            let count = room.remaining_mut().min(300_000);
            room.put_bytes(2, count);
        }
        let body = inbox.take_body().unwrap();
        assert_eq!((body.len(), body.as_ptr()), (1_000_000, first));
        assert_eq!((body[9], body[10]), (1, 2));
    }

    #[test]
    fn an_empty_body_is_there_at_once() {
        let mut inbox = Inbox::new();
        inbox.start_body(0);
        assert_eq!(inbox.take_body(), Some(Bytes::new()));
        assert!(inbox.is_empty());
    }
}
