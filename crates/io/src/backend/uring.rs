//! A file as a drive, its bytes moved by io_uring.
//!
//! Each command is carried through in steps: a short read or write is continued, a zero that the
//! file system cannot do as a hole is written out, a durable zero or discard is followed by a sync.
//! The first error ends the command, and reaches only it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use headtime_sched::{CommandId, Op};
use headtime_units::{Instant, Nanos};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::backend::store::{ZERO_CHUNK, still_there};
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::buffer::{AlignedBuffer, PageCache, WriteData};
use crate::notifier::Notifier;
use crate::sys::{Operation, Reaped, Ring};

/// A file drive on an io_uring.
pub(crate) struct UringFile {
    ring: Ring,
    /// The file once more, for looking at its state.
    file: OwnedFd,
    sector_bytes: u64,
    cache: PageCache,
    /// Commands on their way. Only looked up, so its order never matters.
    running: HashMap<u64, Running>,
    reaped: Vec<Reaped>,
    /// Commands that ended without reaching the kernel.
    refused: Vec<BackendCompletion>,
    /// The time to send again what the kernel did not accept.
    send_again: Option<Instant>,
}

/// The progress of a command.
struct Running {
    op: Op,
    offset: u64,
    len: u64,
    fua: bool,
    /// Of a zero that is written out: bytes written so far.
    zeroed: u64,
    /// The file system's other way to zero a range has been tried.
    hole_tried: bool,
}

/// The next step of a command.
enum Next {
    Do(Operation),
    Over(Result<Bytes, i32>),
}

impl UringFile {
    /// A drive on `file`.
    ///
    /// # Errors
    /// The system's, when a ring is not available; the file is dropped then.
    pub(crate) fn new(
        file: OwnedFd,
        sector_bytes: u64,
        cache: PageCache,
        depth: usize,
        notifier: &Notifier,
    ) -> io::Result<Self> {
        let own = file.try_clone()?;
        let entries =
            u32::try_from(depth).unwrap_or(u32::MAX).clamp(1, MAX_ENTRIES).next_power_of_two();
        let ring = Ring::new(own, entries, notifier.as_raw_fd())?;
        Ok(Self {
            ring,
            file,
            sector_bytes,
            cache,
            running: HashMap::new(),
            reaped: Vec::new(),
            refused: Vec::new(),
            send_again: None,
        })
    }

    fn first_step(&self, running: &Running, pieces: Vec<Bytes>) -> Next {
        let Running { op, offset, len, fua, .. } = *running;
        match op {
            Op::Read => Next::Do(Operation::Read {
                buffer: AlignedBuffer::zeroed(len as usize),
                done: 0,
                offset,
            }),
            Op::Write => Next::Do(Operation::Write {
                data: WriteData::join(pieces, self.cache),
                done: 0,
                offset,
                durable: fua,
            }),
            Op::Zero => Next::Do(Operation::Fallocate {
                mode: FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                offset,
                len,
            }),
            Op::Discard => Next::Do(Operation::Fallocate { mode: HOLE, offset, len }),
            Op::Flush => match still_there(self.file.as_fd()) {
                Ok(()) => Next::Do(Operation::Sync),
                Err(errno) => Next::Over(Err(errno.raw_os_error())),
            },
        }
    }
}

impl Backend for UringFile {
    fn describe(&self) -> String {
        format!("io_uring, {}", if self.cache == PageCache::Bypass { "direct" } else { "buffered" })
    }

    fn start(&mut self, now: Instant, work: BackendCommand) {
        let BackendCommand { command, pieces } = work;
        let running = Running {
            op: command.op,
            offset: command.extent.start.get() * self.sector_bytes,
            len: command.extent.len.get() * self.sector_bytes,
            fua: command.fua,
            zeroed: 0,
            hole_tried: false,
        };
        match self.first_step(&running, pieces) {
            Next::Do(operation) => {
                self.running.insert(command.id.0, running);
                self.ring.queue(command.id.0, operation);
            }
            Next::Over(result) => {
                self.refused.push(BackendCompletion { command: command.id, due: None, result })
            }
        }
        self.send(now);
    }

    fn collect(&mut self, now: Instant, ended: &mut Vec<BackendCompletion>) {
        ended.append(&mut self.refused);
        let mut reaped = std::mem::take(&mut self.reaped);
        self.ring.reap(&mut reaped);
        for Reaped { token, operation, answer } in reaped.drain(..) {
            let running = self
                .running
                .get_mut(&token)
                .expect("each operation belongs to a command on its way");
            match running.next(operation, answer) {
                Next::Do(operation) => self.ring.queue(token, operation),
                Next::Over(result) => {
                    self.running.remove(&token);
                    ended.push(BackendCompletion { command: CommandId(token), due: None, result });
                }
            }
        }
        self.reaped = reaped;
        self.send(now);
    }

    fn next_event(&self) -> Option<Instant> {
        // What ended without the kernel rings no notifier.
        if self.refused.is_empty() { self.send_again } else { Some(Instant::ORIGIN) }
    }

    fn abandon(self: Box<Self>) {
        // Dropping the ring leaves alone what is still on its way.
        drop(self);
    }
}

impl UringFile {
    fn send(&mut self, now: Instant) {
        if let Err(error) = self.ring.submit() {
            tracing::error!(%error, "io_uring does not take operations; they stay queued and are \
                sent again");
        }
        self.send_again = self.ring.has_unsent().then(|| now + SEND_AGAIN_AFTER);
    }
}

impl Running {
    /// The next step after `operation` returned `answer`.
    fn next(&mut self, operation: Operation, answer: i32) -> Next {
        match operation {
            Operation::Read { buffer, done, offset } => match answer {
                // The file ends before the drive does: someone has cut it off since it was opened.
                0 => Next::Over(Err(Errno::IO.raw_os_error())),
                _ if again(answer) => Next::Do(Operation::Read { buffer, done, offset }),
                _ if answer < 0 => Next::Over(Err(-answer)),
                got => match done + got.unsigned_abs() as usize {
                    all if all == self.len as usize => Next::Over(Ok(buffer.into_bytes())),
                    done => Next::Do(Operation::Read { buffer, done, offset }),
                },
            },
            Operation::Write { data, done, offset, durable } => match answer {
                0 => Next::Over(Err(Errno::IO.raw_os_error())),
                _ if again(answer) => Next::Do(Operation::Write { data, done, offset, durable }),
                _ if answer < 0 => Next::Over(Err(-answer)),
                written => match done + written.unsigned_abs() as usize {
                    all if all < data.as_slice().len() => {
                        Next::Do(Operation::Write { data, done: all, offset, durable })
                    }
                    all if self.op == Op::Zero => self.after_zeroes(data, all),
                    _ => Next::Over(Ok(Bytes::new())),
                },
            },
            Operation::Fallocate { .. } => self.after_fallocate(operation, answer),
            Operation::Sync if again(answer) => Next::Do(Operation::Sync),
            Operation::Sync if answer < 0 => Next::Over(Err(-answer)),
            Operation::Sync => Next::Over(Ok(Bytes::new())),
        }
    }

    fn after_fallocate(&mut self, operation: Operation, answer: i32) -> Next {
        let unsupported =
            [Errno::OPNOTSUPP, Errno::NOSYS].iter().any(|errno| errno.raw_os_error() == -answer);
        if again(answer) {
            Next::Do(operation)
        } else if unsupported && self.op == Op::Zero && !self.hole_tried {
            self.hole_tried = true;
            Next::Do(Operation::Fallocate { mode: HOLE, offset: self.offset, len: self.len })
        } else if unsupported && self.op == Op::Zero {
            let data = WriteData::Copied(AlignedBuffer::zeroed(self.len.min(ZERO_CHUNK) as usize));
            Next::Do(Operation::Write { data, done: 0, offset: self.offset, durable: self.fua })
        } else if answer < 0 && !unsupported {
            Next::Over(Err(-answer))
        } else {
            // A discard that the file system cannot do keeps the sectors, which is allowed: what
            // they hold is undefined.
            self.sync_if_durable()
        }
    }

    /// The next chunk of a zero that is written out, `written` bytes after the last.
    fn after_zeroes(&mut self, zeroes: WriteData, written: usize) -> Next {
        self.zeroed += written as u64;
        let left = self.len - self.zeroed;
        if left == 0 {
            return Next::Over(Ok(Bytes::new()));
        }
        let data = if left < written as u64 {
            WriteData::Copied(AlignedBuffer::zeroed(left as usize))
        } else {
            zeroes
        };
        Next::Do(Operation::Write {
            data,
            done: 0,
            offset: self.offset + self.zeroed,
            durable: self.fua,
        })
    }

    fn sync_if_durable(&self) -> Next {
        if self.fua { Next::Do(Operation::Sync) } else { Next::Over(Ok(Bytes::new())) }
    }
}

/// True if the kernel wants the operation once more.
fn again(answer: i32) -> bool {
    [Errno::AGAIN, Errno::INTR].iter().any(|errno| errno.raw_os_error() == -answer)
}

const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// The kernel takes nothing when it is short of memory; asking it more often would not help.
const SEND_AGAIN_AFTER: Nanos = Nanos::from_ms(1);

/// More are never at the drive at once.
const MAX_ENTRIES: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR: u64 = 512;

    fn running(op: Op, offset: u64, len: u64, fua: bool) -> Running {
        Running { op, offset, len, fua, zeroed: 0, hole_tried: false }
    }

    fn read(done: usize) -> Operation {
        Operation::Read { buffer: AlignedBuffer::zeroed(2048), done, offset: 4096 }
    }

    fn write(done: usize) -> Operation {
        Operation::Write {
            data: WriteData::Copied(AlignedBuffer::zeroed(2048)),
            done,
            offset: 4096,
            durable: true,
        }
    }

    fn fallocate() -> Operation {
        Operation::Fallocate { mode: FallocateFlags::ZERO_RANGE, offset: 0, len: SECTOR }
    }

    fn unsupported() -> i32 {
        -Errno::OPNOTSUPP.raw_os_error()
    }

    #[test]
    fn short_reads_and_writes_continue_where_they_stopped() {
        let mut command = running(Op::Read, 4096, 2048, false);
        assert!(matches!(
            command.next(read(0), 512),
            Next::Do(Operation::Read { done: 512, offset: 4096, .. })
        ));
        assert!(
            matches!(command.next(read(512), 1536), Next::Over(Ok(bytes)) if bytes.len() == 2048)
        );
        let mut command = running(Op::Write, 4096, 2048, true);
        assert!(matches!(
            command.next(write(0), 1024),
            Next::Do(Operation::Write { done: 1024, durable: true, .. })
        ));
        assert!(matches!(command.next(write(1024), 1024), Next::Over(Ok(_))));
    }

    #[test]
    fn an_error_or_an_end_of_file_ends_the_command_and_an_interruption_does_not() {
        let mut command = running(Op::Read, 4096, 2048, false);
        assert!(matches!(command.next(read(0), -5), Next::Over(Err(5))));
        assert!(matches!(command.next(read(1024), 0), Next::Over(Err(5))));
        assert!(matches!(
            command.next(read(1024), -Errno::INTR.raw_os_error()),
            Next::Do(Operation::Read { done: 1024, .. })
        ));
        assert!(matches!(
            running(Op::Write, 4096, 2048, true).next(write(512), -28),
            Next::Over(Err(28))
        ));
        assert!(matches!(
            running(Op::Flush, 0, 0, false).next(Operation::Sync, -5),
            Next::Over(Err(5))
        ));
    }

    #[test]
    fn a_zero_is_a_range_or_a_hole_or_written_out_whatever_the_file_system_can() {
        let mut command = running(Op::Zero, 0, 3 * ZERO_CHUNK + SECTOR, true);
        let Next::Do(hole) = command.next(fallocate(), unsupported()) else {
            panic!("a hole comes next")
        };
        assert!(matches!(&hole, Operation::Fallocate { mode, .. } if *mode == HOLE));
        let Next::Do(mut step) = command.next(hole, unsupported()) else {
            panic!("writing comes next")
        };
        let mut written = Vec::new();
        loop {
            let Operation::Write { data, offset, durable: true, .. } = &step else {
                panic!("{step:?} is no durable write")
            };
            let len = data.as_slice().len();
            written.push((*offset, len as u64));
            match command.next(step, len as i32) {
                Next::Do(next) => step = next,
                Next::Over(result) => break assert_eq!(result, Ok(Bytes::new())),
            }
        }
        let chunk = |number| (number * ZERO_CHUNK, ZERO_CHUNK);
        assert_eq!(written, [chunk(0), chunk(1), chunk(2), (3 * ZERO_CHUNK, SECTOR)]);
    }

    #[test]
    fn a_durable_zero_or_discard_is_followed_by_a_sync() {
        assert!(matches!(
            running(Op::Zero, 0, SECTOR, true).next(fallocate(), 0),
            Next::Do(Operation::Sync)
        ));
        assert!(matches!(
            running(Op::Zero, 0, SECTOR, false).next(fallocate(), 0),
            Next::Over(Ok(_))
        ));
        assert!(matches!(
            running(Op::Zero, 0, SECTOR, true).next(fallocate(), -28),
            Next::Over(Err(28))
        ));
        assert!(matches!(
            running(Op::Discard, 0, SECTOR, true).next(fallocate(), unsupported()),
            Next::Do(Operation::Sync)
        ));
        assert!(matches!(
            running(Op::Discard, 0, SECTOR, false).next(fallocate(), unsupported()),
            Next::Over(Ok(_))
        ));
    }
}
