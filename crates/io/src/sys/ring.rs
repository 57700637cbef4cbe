//! An io_uring that owns the memory that the kernel works on.
//!
//! The kernel reads and writes memory long after a submission returned. Safety depends on one rule:
//! the memory of an operation is owned by `Inner::slots` from submission until its completion was
//! observed, and is neither moved nor freed before. The memory is on the heap, owned by `Bytes` or
//! `AlignedBuffer`, so moving the owner does not move it. When a ring is dropped with operations in
//! progress, the slots and the ring are leaked on purpose: the kernel may still write to them.

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use headtime_sched::Op;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use super::operation::{Call, Operation};

/// An io_uring on one file.
pub(crate) struct Ring {
    inner: ManuallyDrop<Inner>,
}

struct Inner {
    uring: IoUring,
    file: OwnedFd,
    slots: Vec<Option<Operation>>,
    free: Vec<usize>,
    /// Operations that wait for a slot, in order. The kernel does not know them.
    backlog: VecDeque<Operation>,
}

impl Ring {
    /// A ring of `entries` operations at once on `file` that writes to the eventfd `notifier`
    /// whenever the kernel completed a call.
    ///
    /// # Errors
    /// The system's: not permitted, not implemented, no memory; and "not supported" when the kernel
    /// lacks an operation needed here.
    pub(crate) fn new(file: OwnedFd, entries: u32, notifier: RawFd) -> io::Result<Self> {
        let uring = IoUring::new(entries)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let needed =
            [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Fallocate::CODE];
        if !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        uring.submitter().register_eventfd(notifier)?;
        let slots = entries as usize;
        let inner = Inner {
            uring,
            file,
            slots: std::iter::repeat_with(|| None).take(slots).collect(),
            free: (0..slots).rev().collect(),
            backlog: VecDeque::new(),
        };
        Ok(Self { inner: ManuallyDrop::new(inner) })
    }

    /// Queues an operation, which [`Ring::submit`] sends.
    pub(crate) fn queue(&mut self, operation: Operation) {
        self.inner.backlog.push_back(operation);
    }

    /// Sends queued operations while slots are free; the others follow when slots become free.
    ///
    /// # Errors
    /// The system's; the operations stay owned by the ring and are sent with the next call.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        let inner = &mut *self.inner;
        let mut sent = false;
        while let (Some(slot), false) = (inner.free.last().copied(), inner.backlog.is_empty()) {
            let Some(operation) = inner.backlog.pop_front() else { break };
            let operation = inner.slots[slot].insert(operation);
            let entry = operation.entry(inner.file.as_raw_fd()).user_data(slot as u64);
            // SAFETY: everything `entry` points to is owned by `inner.slots[slot]`, which keeps it
            // until `reap` has seen the completion with this slot's number, and the file is owned
            // by `inner`; both are leaked, not freed, when the ring goes before that.
            let pushed = unsafe { inner.uring.submission().push(&entry) };
            assert!(pushed.is_ok(), "the submission queue has as many entries as there are slots");
            inner.free.pop();
            sent = true;
        }
        if sent || !inner.uring.submission().is_empty() {
            match inner.uring.submit() {
                // Busy: the completion queue is full and is emptied by the next `reap`.
                // Interrupted: sent with the next call.
                Err(error)
                    if matches!(
                        Errno::from_io_error(&error),
                        Some(Errno::BUSY | Errno::AGAIN | Errno::INTR)
                    ) => {}
                outcome => {
                    outcome?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if the kernel has not received all operations for which slots are free.
    pub(crate) fn has_unsent(&mut self) -> bool {
        let inner = &mut *self.inner;
        !inner.uring.submission().is_empty()
            || (!inner.backlog.is_empty() && !inner.free.is_empty())
    }

    /// Appends the completed operations with their results: nothing or the system's error code.
    /// Queues those that need another call.
    pub(crate) fn reap(&mut self, completed: &mut Vec<(Operation, Result<(), i32>)>) {
        let inner = &mut *self.inner;
        for completion in inner.uring.completion() {
            let slot = completion.user_data() as usize;
            let mut operation = inner.slots[slot].take().expect("the kernel reports a call once");
            inner.free.push(slot);
            match operation.advance(completion.result()) {
                Some(result) => completed.push((operation, result)),
                None => inner.backlog.push_back(operation),
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.inner.slots.len() - self.inner.free.len()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.in_flight() > 0 {
            tracing::warn!(
                operations = self.in_flight(),
                "the ring is closed while the kernel still uses buffers; they stay allocated"
            );
            return;
        }
        // SAFETY: nothing is in flight, so the kernel works on nothing that is freed here; `inner`
        // is not used after this.
        unsafe { ManuallyDrop::drop(&mut self.inner) }
    }
}

impl Operation {
    /// The kernel's form of the current call. It points into `self`, which must stay where it is
    /// until the call is complete.
    fn entry(&mut self, file: RawFd) -> squeue::Entry {
        let file = types::Fd(file);
        let at = self.offset + self.done;
        let fallocate = |mode: FallocateFlags| {
            let mode = (mode | FallocateFlags::KEEP_SIZE).bits() as i32;
            opcode::Fallocate::new(file, self.len).offset(self.offset).mode(mode).build()
        };
        match &mut self.call {
            Call::Read(buffer) => {
                let rest = &mut buffer.as_mut_slice()[self.done as usize..];
                opcode::Read::new(file, rest.as_mut_ptr(), length(rest.len())).offset(at).build()
            }
            Call::Write(data) => {
                let rest = if self.op == Op::Zero {
                    &data[..data.len().min((self.len - self.done) as usize)]
                } else {
                    &data[self.done as usize..]
                };
                let flags = if self.fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
                opcode::Write::new(file, rest.as_ptr(), length(rest.len()))
                    .offset(at)
                    .rw_flags(flags.bits() as i32)
                    .build()
            }
            Call::ZeroRange => fallocate(FallocateFlags::ZERO_RANGE),
            Call::PunchHole => fallocate(FallocateFlags::PUNCH_HOLE),
            Call::Sync => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        }
    }
}

/// A length as the kernel accepts it. Longer transfers take several calls, like any short read or
/// write.
fn length(bytes: usize) -> u32 {
    const LONGEST: usize = 1 << 30;
    bytes.min(LONGEST) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;
    use crate::notifier::Notifier;
    use bytes::Bytes;
    use std::io::{Read, Seek};

    /// A ring on a file of its own; `None` where io_uring is not available.
    fn ring(entries: u32) -> Option<(Ring, Notifier, std::fs::File)> {
        let file = tempfile::tempfile().expect("a place for files");
        let notifier = Notifier::new().expect("a file descriptor is free");
        let own = file.try_clone().expect("a file descriptor is free");
        match Ring::new(own.into(), entries, notifier.as_raw_fd()) {
            Ok(ring) => Some((ring, notifier, file)),
            Err(error) => {
                eprintln!("skipped: io_uring is not available here ({error})");
                None
            }
        }
    }

    fn write(token: u64, data: &Bytes, offset: u64) -> Operation {
        let (len, call) = (data.len() as u64, Call::Write(data.clone()));
        Operation { token, op: Op::Write, offset, len, done: 0, fua: false, call }
    }

    #[test]
    fn more_operations_than_slots_are_all_carried_out_once() {
        let Some((mut ring, notifier, mut file)) = ring(2) else { return };
        let data: Vec<Bytes> = (0..50).map(|number| Bytes::from(vec![number; 16])).collect();
        for (number, data) in data.iter().enumerate() {
            ring.queue(write(number as u64, data, 16 * number as u64));
        }
        let mut reaped = Vec::new();
        while reaped.len() < 50 {
            ring.submit().expect("the kernel takes them");
            notifier.wait(RealClock, None);
            ring.reap(&mut reaped);
        }
        let mut tokens: Vec<u64> = reaped.iter().map(|(operation, _)| operation.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..50).collect::<Vec<u64>>());
        assert!(reaped.iter().all(|(_, result)| result.is_ok()));
        let mut content = Vec::new();
        file.rewind().expect("a file has a start");
        file.read_to_end(&mut content).expect("readable");
        assert!(content == data.concat());
    }

    #[test]
    fn a_buffer_is_given_back_with_its_completion_and_never_freed_before() {
        let Some((mut ring, notifier, _file)) = ring(4) else { return };
        let data = Bytes::from(vec![7; 4096]);
        ring.queue(write(1, &data, 0));
        ring.submit().expect("the kernel takes it");
        notifier.wait(RealClock, None);
        let mut reaped = Vec::new();
        ring.reap(&mut reaped);
        assert_eq!(reaped.len(), 1);
        assert!(!data.is_unique(), "the completion carries the buffer");
        reaped.clear();
        assert!(data.is_unique());
        ring.queue(write(2, &data, 0));
        ring.submit().expect("the kernel takes it");
        drop(ring);
        assert!(
            !data.is_unique(),
            "nobody has seen the completion, so the kernel may still read the buffer"
        );
    }

    #[test]
    fn an_error_is_the_answer_of_its_operation_only() {
        let Some((mut ring, notifier, _file)) = ring(4) else { return };
        let data = Bytes::from(vec![7; 16]);
        ring.queue(write(1, &data, i64::MAX as u64));
        ring.queue(write(2, &data, 0));
        let mut reaped = Vec::new();
        while reaped.len() < 2 {
            ring.submit().expect("the kernel takes them");
            notifier.wait(RealClock, None);
            ring.reap(&mut reaped);
        }
        reaped.sort_by_key(|(operation, _)| operation.token);
        assert!(reaped[0].1.is_err(), "{reaped:?}");
        assert_eq!(reaped[1].1, Ok(()));
    }
}
