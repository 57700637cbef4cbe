//! A file or block device by io_uring, nothing but the system call between the stamp and the
//! kernel: buffers are made beforehand and used again and again.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use bytes::Bytes;
use headtime_sched::Op;
use headtime_units::{Extent, Instant, Sectors};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::edge::{Edge, Lost, Order, Over, sleep_until};
use crate::buffer::{AlignedBuffer, PageCache, WriteData};
use crate::clock::RealClock;
use crate::notifier::Notifier;
use crate::sys::{Operation, Reaped, Ring};

/// A file or block device.
pub(super) struct DeviceEdge {
    ring: Ring,
    notifier: Notifier,
    /// For looking whether it is still there, and for messages.
    file: OwnedFd,
    path: PathBuf,
    bytes: u64,
    sector_bytes: u64,
    /// True if the data read is used afterwards.
    keep_bytes: bool,
    /// Buffers that are not at the kernel.
    buffers: Vec<AlignedBuffer>,
    /// Lengths of what is under way, bytes. Only looked up, so its order never matters.
    lengths: HashMap<u64, usize>,
    reaped: Vec<Reaped>,
    over: VecDeque<Over>,
}

/// The treatment of data that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadData {
    Keep,
    Discard,
}

impl DeviceEdge {
    /// Takes a file over.
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
            lengths: HashMap::new(),
            reaped: Vec::new(),
            over: VecDeque::new(),
        })
    }

    /// A buffer of this length whose pages are there already, so that the kernel need not find them
    /// while the drive waits.
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

    /// The next step after a result of the kernel: the remainder, or the completion.
    fn next(&mut self, reaped: Reaped, now: Instant) -> Option<(u64, Operation)> {
        let Reaped { token, operation, answer } = reaped;
        let len = self.lengths[&token];
        let again = [Errno::AGAIN, Errno::INTR].iter().any(|errno| errno.raw_os_error() == -answer);
        let moved = usize::try_from(answer).unwrap_or(0);
        let result = match operation {
            operation if again => return Some((token, operation)),
            Operation::Read { buffer, done, offset } if answer > 0 && done + moved < len => {
                return Some((token, Operation::Read { buffer, done: done + moved, offset }));
            }
            Operation::Write { data, done, offset, durable }
                if answer > 0 && done + moved < len =>
            {
                return Some((
                    token,
                    Operation::Write { data, done: done + moved, offset, durable },
                ));
            }
            Operation::Read { buffer, .. } => {
                let read = if answer > 0 && self.keep_bytes {
                    Bytes::copy_from_slice(buffer.as_slice())
                } else {
                    Bytes::new()
                };
                self.buffers.push(buffer);
                outcome(answer).map(|()| read)
            }
            _ => outcome(answer).map(|()| Bytes::new()),
        };
        self.lengths.remove(&token);
        self.over.push_back(Over { token, completed: now, result, said: None });
        None
    }

    fn bytes_now(&self) -> u64 {
        seek(self.file.as_fd(), SeekFrom::End(0)).unwrap_or(0)
    }
}

impl Edge for DeviceEdge {
    fn now(&self) -> Instant {
        RealClock.now()
    }

    fn send(&mut self, order: Order) -> Instant {
        let (offset, len) = self.bytes_of(order.extent);
        let operation = match order.op {
            Op::Write => Operation::Write {
                data: WriteData::join(vec![order.data], PageCache::Bypass),
                done: 0,
                offset,
                durable: order.fua,
            },
            _ => Operation::Read { buffer: self.buffer(len), done: 0, offset },
        };
        self.lengths.insert(order.token, len);
        self.ring.queue(order.token, operation);
        let now = RealClock.now();
        if let Err(error) = self.ring.submit() {
            // It stays queued, and the next call of `next_over` sends it again.
            tracing::error!(%error, "io_uring does not take an operation");
        }
        now
    }

    fn next_over(&mut self, until: Instant) -> Result<Option<Over>, Lost> {
        loop {
            if let Some(over) = self.over.pop_front() {
                let gone = over.result.is_err() && self.bytes_now() < self.bytes;
                return if gone { Err(Lost { why: self.obituary() }) } else { Ok(Some(over)) };
            }
            let now = RealClock.now();
            let mut reaped = std::mem::take(&mut self.reaped);
            self.ring.reap(&mut reaped);
            for answer in reaped.drain(..) {
                if let Some((token, rest)) = self.next(answer, now) {
                    self.ring.queue(token, rest);
                }
            }
            self.reaped = reaped;
            if !self.over.is_empty() {
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
            "nothing makes a device let go of a command".to_owned()
        })
    }
}

impl DeviceEdge {
    fn obituary(&self) -> String {
        match self.bytes_now() {
            0 => format!(
                "{} is gone; look at its cable, its power and the machine's log",
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

/// The meaning of the kernel's result when there is nothing left to move. A file that ends before
/// the drive does has been cut off.
fn outcome(answer: i32) -> Result<(), i32> {
    match answer {
        0 => Err(Errno::IO.raw_os_error()),
        negative if negative < 0 => Err(-negative),
        _ => Ok(()),
    }
}

/// The most orders at once that an experiment has any use for (guess).
const MAX_AT_ONCE: u32 = 32;
const BUFFERS: usize = MAX_AT_ONCE as usize;
/// Longer than a track of any drive, shorter than what a drive is seldom requested.
const USUAL_BYTES: usize = 64 << 10;
/// The kernel takes nothing when it is short of memory; asking it more often would not help.
const SEND_AGAIN_AFTER: headtime_units::Nanos = headtime_units::Nanos::from_ms(1);
