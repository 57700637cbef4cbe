//! A file as a drive, its bytes moved by io_uring.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use headtime_sched::{CommandId, Op};
use headtime_units::{Instant, Nanos};
use rustix::fs::fstat;
use rustix::io::Errno;

use crate::backend::store::{reaches, still_there};
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::buffer::{AlignedBuffer, PageCache, join};
use crate::notifier::Notifier;
use crate::sys::{Call, Operation, Ring};

/// A file drive on an io_uring.
pub(crate) struct UringFile {
    ring: Ring,
    /// The same file, for checks that it still exists.
    file: OwnedFd,
    sector_bytes: u64,
    cache: PageCache,
    reaped: Vec<(Operation, Result<(), i32>)>,
    /// Commands that ended without reaching the kernel.
    refused: Vec<BackendCompletion>,
    /// The writes among them that would have extended the file.
    cut_off: Vec<CommandId>,
    /// The time to repeat a submission that the kernel did not accept.
    send_again: Option<Instant>,
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
            reaped: Vec::new(),
            refused: Vec::new(),
            cut_off: Vec::new(),
            send_again: None,
        })
    }
}

impl Backend for UringFile {
    fn describe(&self) -> String {
        format!("io_uring, {}", if self.cache == PageCache::Bypass { "direct" } else { "buffered" })
    }

    fn start(&mut self, now: Instant, work: BackendCommand) {
        let BackendCommand { command, pieces } = work;
        let len = command.extent.len.get() * self.sector_bytes;
        let end = command.extent.start.get() * self.sector_bytes + len;
        if matches!(command.op, Op::Write | Op::Zero)
            && let Err(errno) = reaches(self.file.as_fd(), end)
        {
            self.cut_off.push(command.id);
            return self.refuse(command.id, errno);
        }
        let call = match command.op {
            Op::Read => Call::Read(AlignedBuffer::zeroed(len as usize)),
            Op::Write => Call::Write(join(pieces, self.cache)),
            Op::Zero => Call::ZeroRange,
            Op::Discard => Call::PunchHole,
            Op::Flush => {
                if let Err(errno) = still_there(self.file.as_fd()) {
                    return self.refuse(command.id, errno);
                }
                Call::Sync
            }
        };
        self.ring.queue(Operation {
            token: command.id.0,
            op: command.op,
            offset: command.extent.start.get() * self.sector_bytes,
            len,
            done: 0,
            fua: command.fua,
            call,
        });
        self.send(now);
    }

    fn collect(&mut self, now: Instant, completed: &mut Vec<BackendCompletion>) {
        completed.append(&mut self.refused);
        self.ring.reap(&mut self.reaped);
        completed.extend(self.reaped.drain(..).map(|(operation, result)| {
            let command = CommandId(operation.token);
            let result = result.map(|()| operation.into_data());
            BackendCompletion { command, due: None, result }
        }));
        self.send(now);
    }

    fn next_event(&self) -> Option<Instant> {
        // A command that never reached the kernel causes no notification.
        if self.refused.is_empty() { self.send_again } else { Some(Instant::ORIGIN) }
    }

    fn explanation(&mut self, command: CommandId) -> Option<Arc<str>> {
        let place = self.cut_off.iter().position(|cut_off| *cut_off == command)?;
        self.cut_off.swap_remove(place);
        let bytes = fstat(&self.file).map_or(0, |status| status.st_size);
        Some(format!(
            "the file ends after {bytes} bytes: it was cut off while in use, and is not extended \
                again; stop the server and restore the file"
        ).into())
    }

    fn abandon(self: Box<Self>) {
        // A dropped ring leaks what the kernel still uses.
        drop(self);
    }
}

impl UringFile {
    /// Completes a command that does not reach the kernel.
    fn refuse(&mut self, command: CommandId, errno: Errno) {
        let result = Err(errno.raw_os_error());
        self.refused.push(BackendCompletion { command, due: None, result });
    }

    fn send(&mut self, now: Instant) {
        if let Err(error) = self.ring.submit() {
            tracing::error!(%error, "io_uring does not accept operations; they stay queued and are \
                sent again");
        }
        self.send_again = self.ring.has_unsent().then(|| now + SEND_AGAIN_AFTER);
    }
}

/// The kernel accepts nothing while it is short of memory; more frequent attempts would not help.
const SEND_AGAIN_AFTER: Nanos = Nanos::from_ms(1);

/// The maximum number of commands at the drive.
const MAX_ENTRIES: u32 = 1024;
