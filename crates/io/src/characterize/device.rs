//! A file or block device by io_uring. Only the system call lies between the time stamp and the
//! kernel: buffers are allocated beforehand and reused.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use bytes::Bytes;
use headtime_sched::Op;
use headtime_units::{Extent, Instant, Sectors};
use rustix::fs::{SeekFrom, seek};

use super::edge::{Edge, EdgeCommand, EdgeCompletion, Lost, sleep_until};
use crate::buffer::{AlignedBuffer, PageCache, join};
use crate::clock::RealClock;
use crate::notifier::Notifier;
use crate::sys::{Call, Operation, Ring};

/// A file or block device.
pub(super) struct DeviceEdge {
    ring: Ring,
    notifier: Notifier,
    /// For checks that it still exists, and for messages.
    file: OwnedFd,
    path: PathBuf,
    bytes: u64,
    sector_bytes: u64,
    /// Returns the data of reads.
    keep_bytes: bool,
    /// The unused buffers.
    buffers: Vec<AlignedBuffer>,
    reaped: Vec<(Operation, Result<(), i32>)>,
    completed: VecDeque<EdgeCompletion>,
}

/// The treatment of data that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadData {
    Keep,
    Discard,
}

impl DeviceEdge {
    /// An edge on an open file.
    ///
    /// # Errors
    /// The system's, when io_uring is not available.
    pub(super) fn new(
        file: OwnedFd,
        path: PathBuf,
        bytes: u64,
        sector_bytes: u64,
        data: ReadData,
    ) -> io::Result<Self> {
        let notifier = Notifier::new()?;
        let ring = Ring::new(file.try_clone()?, MAX_AT_ONCE, notifier.as_raw_fd())?;
        let buffers = (0..BUFFERS).map(|_| AlignedBuffer::touched(USUAL_BYTES)).collect();
        Ok(Self {
            ring,
            notifier,
            file,
            path,
            bytes,
            sector_bytes,
            keep_bytes: data == ReadData::Keep,
            buffers,
            reaped: Vec::new(),
            completed: VecDeque::new(),
        })
    }

    /// A buffer of this length with allocated pages, so that the kernel does not allocate them
    /// during a command.
    fn buffer(&mut self, len: usize) -> AlignedBuffer {
        let mut buffer = self
            .buffers
            .pop()
            .filter(|buffer| buffer.capacity() >= len)
            .unwrap_or_else(|| AlignedBuffer::touched(len));
        buffer.set_len(len);
        buffer
    }

    fn bytes_of(&self, extent: Extent) -> (u64, usize) {
        let bytes = |sectors: Sectors| sectors.get() * self.sector_bytes;
        (extent.start.get() * self.sector_bytes, bytes(extent.len) as usize)
    }

    fn complete(&mut self, operation: Operation, result: Result<(), i32>, now: Instant) {
        let mut data = Bytes::new();
        if let Call::Read(buffer) = operation.call {
            if result.is_ok() && self.keep_bytes {
                data = Bytes::copy_from_slice(buffer.as_slice());
            }
            self.buffers.push(buffer);
        }
        let result = result.map(|()| data);
        self.completed.push_back(EdgeCompletion {
            token: operation.token,
            completed: now,
            result,
            explanation: None,
        });
    }

    fn bytes_now(&self) -> u64 {
        seek(self.file.as_fd(), SeekFrom::End(0)).unwrap_or(0)
    }
}

impl Edge for DeviceEdge {
    fn now(&self) -> Instant {
        RealClock.now()
    }

    fn send(&mut self, command: EdgeCommand) -> Instant {
        let (offset, len) = self.bytes_of(command.extent);
        let (op, call) = match command.op {
            Op::Write => (Op::Write, Call::Write(join(vec![command.data], PageCache::Bypass))),
            _ => (Op::Read, Call::Read(self.buffer(len))),
        };
        self.ring.queue(Operation {
            token: command.token,
            op,
            offset,
            len: len as u64,
            done: 0,
            fua: command.fua,
            call,
        });
        let now = RealClock.now();
        if let Err(error) = self.ring.submit() {
            // It stays queued, and the next call of `next_completion` sends it again.
            tracing::error!(%error, "io_uring does not accept an operation");
        }
        now
    }

    fn next_completion(&mut self, until: Instant) -> Result<Option<EdgeCompletion>, Lost> {
        loop {
            if let Some(completion) = self.completed.pop_front() {
                let gone = completion.result.is_err() && self.bytes_now() < self.bytes;
                return if gone {
                    Err(Lost { why: self.obituary() })
                } else {
                    Ok(Some(completion))
                };
            }
            let now = RealClock.now();
            let mut reaped = std::mem::take(&mut self.reaped);
            self.ring.reap(&mut reaped);
            for (operation, result) in reaped.drain(..) {
                self.complete(operation, result, now);
            }
            self.reaped = reaped;
            if !self.completed.is_empty() {
                continue;
            }
            if now >= until {
                return Ok(None);
            }
            let sent = self.ring.submit().is_ok() && !self.ring.has_unsent();
            self.notifier.wait(
                RealClock,
                Some(if sent { until } else { until.min(now + SEND_AGAIN_AFTER) }),
            );
        }
    }

    fn wait_until(&mut self, at: Instant) {
        sleep_until(at);
    }

    fn reopen(&mut self) -> Result<(), String> {
        Err(if self.bytes_now() < self.bytes {
            self.obituary()
        } else {
            "a device cannot be made to release a command".to_owned()
        })
    }
}

impl DeviceEdge {
    fn obituary(&self) -> String {
        match self.bytes_now() {
            0 => format!(
                "{} is gone; check its cable, its power and the system log",
                self.path.display()
            ),
            bytes => format!(
                "{} has {bytes} bytes now, and had {} when it was opened",
                self.path.display(),
                self.bytes
            ),
        }
    }
}

/// The maximum number of commands at once (guess).
const MAX_AT_ONCE: u32 = 32;
const BUFFERS: usize = MAX_AT_ONCE as usize;
/// The size of a buffer: longer than most requests.
const USUAL_BYTES: usize = 64 << 10;
/// The kernel accepts nothing while it is short of memory; more frequent attempts would not help.
const SEND_AGAIN_AFTER: headtime_units::Nanos = headtime_units::Nanos::from_ms(1);
