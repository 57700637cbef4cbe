//! Bytes on their way out: small headers run together, data handed in is passed on uncopied.
//!
//! A server also needs to know when a reply has been sent, because only then its memory is free.
//! `mark` records the end of a reply. `advance` returns the number of marks passed, and the bytes
//! charged for them.

use alloc::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

/// Small pieces are run together up to this length.
const JOIN_BYTES: usize = 4096;
/// Room for the header of a reply at least.
const HEADER_BYTES: usize = 64;
/// Zeroes that are sent without being stored.
static ZEROES: [u8; 32 << 10] = [0; 32 << 10];

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    queued: u64,
    sent: u64,
    marks: VecDeque<Mark>,
}

#[derive(Debug)]
enum Piece {
    Small(BytesMut),
    Shared(Bytes),
}

#[derive(Debug)]
struct Mark {
    end: u64,
    charge: u64,
}

/// The totals of the marks passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    pub replies: u32,
    pub charge: u64,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox::default()
    }

    /// Queues a copy of a few bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.queued += bytes.len() as u64;
        match self.pieces.back_mut() {
            Some(Piece::Small(last)) if last.len() + bytes.len() <= JOIN_BYTES => {
                last.extend_from_slice(bytes)
            }
            _ => {
                // A header consists of several pieces.
                let mut first = BytesMut::with_capacity(bytes.len().max(HEADER_BYTES));
                first.extend_from_slice(bytes);
                self.pieces.push_back(Piece::Small(first));
            }
        }
    }

    /// Queues bytes without copying them.
    pub(crate) fn put_shared(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.queued += bytes.len() as u64;
            self.pieces.push_back(Piece::Shared(bytes));
        }
    }

    /// Queues zeroes without holding them.
    pub(crate) fn put_zeroes(&mut self, mut count: u64) {
        while count > 0 {
            let now = count.min(ZEROES.len() as u64);
            self.put_shared(Bytes::from_static(&ZEROES[..now as usize]));
            count -= now;
        }
    }

    /// Records that everything queued so far ends a reply that is charged `charge` bytes.
    pub(crate) fn mark(&mut self, charge: u64) {
        self.marks.push_back(Mark { end: self.queued, charge });
    }

    /// Replies that have not left yet.
    pub(crate) fn marks(&self) -> usize {
        self.marks.len()
    }

    /// The bytes charged for the marks.
    pub(crate) fn marked_charge(&self) -> u64 {
        self.marks.iter().map(|mark| mark.charge).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes waiting.
    pub(crate) fn len(&self) -> u64 {
        self.queued - self.sent
    }

    /// The waiting pieces in order, none of them empty.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| match piece {
            Piece::Small(bytes) => &bytes[..],
            Piece::Shared(bytes) => &bytes[..],
        })
    }

    /// Removes `count` bytes from the front.
    pub(crate) fn advance(&mut self, mut count: usize) -> Released {
        assert!(
            count as u64 <= self.len(),
            "{count} bytes were said to be sent, but only {} waited",
            self.len()
        );
        self.sent += count as u64;
        while count > 0 {
            let front = self.pieces.front_mut().expect("waiting bytes are in pieces");
            let size = match front {
                Piece::Small(bytes) => bytes.len(),
                Piece::Shared(bytes) => bytes.len(),
            };
            if count >= size {
                self.pieces.pop_front();
                count -= size;
            } else {
                match front {
                    Piece::Small(bytes) => bytes.advance(count),
                    Piece::Shared(bytes) => bytes.advance(count),
                }
                count = 0;
            }
        }
        self.release()
    }

    /// Takes the first piece, which then counts as sent.
    pub(crate) fn pop(&mut self) -> Option<(Bytes, Released)> {
        let bytes = match self.pieces.pop_front()? {
            Piece::Small(bytes) => bytes.freeze(),
            Piece::Shared(bytes) => bytes,
        };
        self.sent += bytes.len() as u64;
        Some((bytes, self.release()))
    }

    fn release(&mut self) -> Released {
        let mut released = Released::default();
        while let Some(mark) = self.marks.front().filter(|mark| mark.end <= self.sent) {
            released.replies += 1;
            released.charge += mark.charge;
            self.marks.pop_front();
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn small_pieces_join_and_shared_ones_stay_where_they_are() {
        let mut out = Outbox::new();
        let data = Bytes::from(Vec::from([9_u8; 100]));
        out.put(&[1, 2]);
        out.put(&[3]);
        out.put_shared(data.clone());
        out.put(&[4]);
        out.put_zeroes(40_000);
        let sizes: Vec<usize> = out.chunks().map(<[u8]>::len).collect();
        assert_eq!(sizes, [3, 100, 1, 32_768, 7_232]);
        assert_eq!(out.len(), 40_104);
        assert_eq!(out.chunks().nth(1).unwrap().as_ptr(), data.as_ptr());
        assert_eq!(out.pop().unwrap().0, &[1_u8, 2, 3][..]);
        assert_eq!(out.pop().unwrap().0.as_ptr(), data.as_ptr());
    }

    #[test]
    fn a_mark_is_released_when_its_last_byte_has_left() {
        let mut out = Outbox::new();
        out.put(&[0; 10]);
        out.mark(100);
        out.put(&[0; 10]);
        out.mark(1);
        assert_eq!(out.advance(9), Released { replies: 0, charge: 0 });
        assert_eq!(out.advance(1), Released { replies: 1, charge: 100 });
        assert_eq!((out.marks(), out.len()), (1, 10));
        assert_eq!(out.pop().unwrap().1, Released { replies: 1, charge: 1 });
        assert!(out.is_empty());
    }

    #[test]
    #[should_panic(expected = "only 1 waited")]
    fn sending_more_than_waits_is_a_programmer_error() {
        let mut out = Outbox::new();
        out.put(&[0]);
        out.advance(2);
    }
}
