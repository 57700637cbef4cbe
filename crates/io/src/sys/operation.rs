//! One command at a ring: the memory that the kernel works on, the current system call, and the
//! next one.
//!
//! A command may need several calls. A short read or write is continued. A zero that the file
//! system cannot do as a range is tried as a hole and then written out. A durable zero or discard
//! is followed by a sync. The first error ends the command.

use bytes::Bytes;
use headtime_sched::Op;
use rustix::io::Errno;

use crate::buffer::AlignedBuffer;

/// A command at a ring, which owns it until the kernel has completed its current call.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The caller's number.
    pub(crate) token: u64,
    pub(crate) op: Op,
    /// The range of the file, bytes.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Bytes read or written so far.
    pub(crate) done: u64,
    /// Changes must be durable at the end.
    pub(crate) fua: bool,
    pub(crate) call: Call,
}

/// A system call with the memory that it uses.
#[derive(Debug)]
pub(crate) enum Call {
    /// Reads into the buffer, which is as long as the range.
    Read(AlignedBuffer),
    /// Writes the data, which is as long as the range. For [`Op::Zero`] it is a chunk of zeroes.
    Write(Bytes),
    ZeroRange,
    PunchHole,
    Sync,
}

impl Operation {
    /// Records the kernel's answer to the current call: a count of bytes or a negated error code.
    /// Returns the result of the operation, or `None` if its next call goes to the kernel.
    pub(super) fn advance(&mut self, answer: i32) -> Option<Result<(), i32>> {
        let is = |errno: Errno| answer == -errno.raw_os_error();
        let unsupported = is(Errno::OPNOTSUPP) || is(Errno::NOSYS);
        match self.call {
            _ if is(Errno::AGAIN) || is(Errno::INTR) => return None,
            // The file ends before the drive does: it was cut off after it had been opened.
            Call::Read(_) | Call::Write(_) if answer == 0 => {
                return Some(Err(Errno::IO.raw_os_error()));
            }
            Call::Read(_) | Call::Write(_) if answer > 0 => {
                self.done += u64::from(answer.unsigned_abs());
                return (self.done == self.len).then_some(Ok(()));
            }
            Call::ZeroRange if unsupported => {
                self.call = Call::PunchHole;
                return None;
            }
            Call::PunchHole if unsupported && self.op == Op::Zero => {
                let chunk = AlignedBuffer::zeroed(self.len.min(ZERO_CHUNK) as usize);
                self.call = Call::Write(chunk.into_bytes());
                return None;
            }
            // A discard that the file system cannot do keeps the sectors, which is allowed: their
            // content is undefined.
            Call::PunchHole if unsupported => {}
            _ if answer < 0 => return Some(Err(-answer)),
            _ => {}
        }
        if self.fua && matches!(self.call, Call::ZeroRange | Call::PunchHole) {
            self.call = Call::Sync;
            return None;
        }
        Some(Ok(()))
    }

    /// The data of a completed read; empty for others.
    pub(crate) fn into_data(self) -> Bytes {
        if let Call::Read(buffer) = self.call { buffer.into_bytes() } else { Bytes::new() }
    }
}

/// Zeroes written at a time where the file system cannot make holes, bytes.
pub(crate) const ZERO_CHUNK: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 512;
    const UNSUPPORTED: i32 = -95;

    fn operation(op: Op, len: u64, fua: bool) -> Operation {
        let call = match op {
            Op::Read => Call::Read(AlignedBuffer::zeroed(len as usize)),
            Op::Write => Call::Write(AlignedBuffer::zeroed(len as usize).into_bytes()),
            Op::Zero => Call::ZeroRange,
            Op::Discard => Call::PunchHole,
            Op::Flush => Call::Sync,
        };
        Operation { token: 0, op, offset: 4096, len, done: 0, fua, call }
    }

    #[test]
    fn short_reads_and_writes_continue_at_the_first_missing_byte() {
        let mut read = operation(Op::Read, 2048, false);
        assert_eq!((read.advance(512), read.done), (None, 512));
        assert_eq!(read.advance(1536), Some(Ok(())));
        assert_eq!(read.into_data().len(), 2048);
        let mut write = operation(Op::Write, 2048, true);
        assert_eq!((write.advance(1024), write.done), (None, 1024));
        assert_eq!(write.advance(1024), Some(Ok(())));
    }

    #[test]
    fn an_error_or_the_end_of_the_file_ends_an_operation_and_an_interruption_does_not() {
        let mut read = operation(Op::Read, 2048, false);
        assert_eq!(read.advance(-5), Some(Err(5)));
        assert_eq!(read.advance(1024), None);
        assert_eq!(read.advance(-Errno::INTR.raw_os_error()), None);
        assert_eq!((read.done, read.advance(0)), (1024, Some(Err(5))));
        assert_eq!(operation(Op::Write, 2048, true).advance(-28), Some(Err(28)));
        assert_eq!(operation(Op::Flush, 0, false).advance(-5), Some(Err(5)));
    }

    #[test]
    fn a_zero_is_a_range_or_a_hole_or_written_out_as_the_file_system_permits() {
        let mut zero = operation(Op::Zero, 3 * ZERO_CHUNK + SECTOR, true);
        assert_eq!(zero.advance(UNSUPPORTED), None);
        assert!(matches!(zero.call, Call::PunchHole));
        assert_eq!(zero.advance(UNSUPPORTED), None);
        for chunk in 0..3 {
            let Call::Write(zeroes) = &zero.call else { panic!("{zero:?} is no write") };
            assert_eq!((zeroes.len() as u64, zero.done), (ZERO_CHUNK, chunk * ZERO_CHUNK));
            assert_eq!(zero.advance(ZERO_CHUNK as i32), None);
        }
        assert_eq!(zero.advance(SECTOR as i32), Some(Ok(())));
    }

    #[test]
    fn a_durable_zero_or_discard_is_followed_by_a_sync() {
        for (op, answer) in [(Op::Zero, 0), (Op::Discard, 0), (Op::Discard, UNSUPPORTED)] {
            let mut durable = operation(op, SECTOR, true);
            assert_eq!(durable.advance(answer), None);
            assert!(matches!(durable.call, Call::Sync));
            assert_eq!(durable.advance(0), Some(Ok(())));
            assert_eq!(operation(op, SECTOR, false).advance(answer), Some(Ok(())));
        }
        assert_eq!(operation(Op::Zero, SECTOR, true).advance(-28), Some(Err(28)));
    }
}
