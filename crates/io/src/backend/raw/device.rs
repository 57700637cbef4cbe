//! A raw device as a drive: a file drive on it, with its own discards, errors that report a device
//! that is gone, and the kernel settings.
//!
//! Discards do not punch holes as in a file: on a block device without discard, the kernel would
//! write zeroes, which takes a rotating disk as long as any write. They use `BLKDISCARD` on a
//! thread, or complete at once if the device has no discard.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use headtime_sched::{Command, CommandId, Op};
use headtime_units::{Extent, Instant};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::backend::pool::Pool;
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::kernel_settings::KnobGuard;

/// A raw device.
pub(super) struct RawDevice {
    /// Executes all commands except discards.
    mover: Box<dyn Backend>,
    /// Executes discards. `None` if the device has none.
    discards: Option<Pool>,
    discarded: Vec<(CommandId, Result<Bytes, i32>)>,
    /// Discards that completed at once.
    nothing_to_do: Vec<BackendCompletion>,
    /// Commands of the last iteration that failed because the device is gone.
    lost: Vec<CommandId>,
    /// Dropped after the last command at the drive, and before the claim on the device, which the
    /// next user of the device needs.
    knobs: Option<KnobGuard>,
    /// Holds the claim.
    watch: Watch,
}

/// A check that the device still exists.
pub(super) struct Watch {
    /// Its name in messages.
    pub(super) path: PathBuf,
    /// The same device.
    pub(super) file: OwnedFd,
    /// Its size when it was opened.
    pub(super) bytes: u64,
    /// It is a rotating drive itself.
    pub(super) rotates: bool,
    /// The locked file of a loop device.
    pub(super) _backing: Option<OwnedFd>,
}

impl RawDevice {
    pub(super) fn new(
        mover: Box<dyn Backend>,
        discards: Option<Pool>,
        watch: Watch,
        knobs: Option<KnobGuard>,
    ) -> Self {
        Self {
            mover,
            discards,
            discarded: Vec::new(),
            nothing_to_do: Vec::new(),
            lost: Vec::new(),
            knobs,
            watch,
        }
    }
}

impl Backend for RawDevice {
    fn is_rotating_drive(&self) -> bool {
        self.watch.rotates
    }

    fn describe(&self) -> String {
        format!("{}, raw device", self.mover.describe())
    }

    fn start(&mut self, now: Instant, work: BackendCommand) {
        match (&self.discards, work.command.op, work.command.fua) {
            (Some(discards), Op::Discard, _) => discards.carry_out(work),
            // A discard without effect leaves the data as durable as it was.
            (None, Op::Discard, true) => {
                let flush = Command {
                    op: Op::Flush,
                    extent: Extent::default(),
                    fua: false,
                    ..work.command
                };
                self.mover.start(now, BackendCommand { command: flush, pieces: Vec::new() });
            }
            (None, Op::Discard, false) => self.nothing_to_do.push(BackendCompletion {
                command: work.command.id,
                due: None,
                result: Ok(Bytes::new()),
            }),
            _ => self.mover.start(now, work),
        }
    }

    fn collect(&mut self, now: Instant, ended: &mut Vec<BackendCompletion>) {
        let known = ended.len();
        ended.append(&mut self.nothing_to_do);
        self.mover.collect(now, ended);
        if let Some(discards) = &self.discards {
            discards.take_done(&mut self.discarded);
            ended.extend(self.discarded.drain(..).map(|(command, result)| BackendCompletion {
                command,
                due: None,
                result,
            }));
        }
        self.lost.clear();
        for over in &mut ended[known..] {
            if over.result.as_ref().is_err_and(|errno| self.watch.is_gone_by(*errno)) {
                over.result = Err(Errno::NODEV.raw_os_error());
                self.lost.push(over.command);
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        // Commands that were answered at once cause no notification.
        if self.nothing_to_do.is_empty() { self.mover.next_event() } else { Some(Instant::ORIGIN) }
    }

    fn give_up(&mut self, now: Instant, command: CommandId) {
        self.mover.give_up(now, command);
    }

    fn explanation(&mut self, command: CommandId) -> Option<Arc<str>> {
        if self.lost.contains(&command) {
            Some(self.watch.obituary().into())
        } else {
            self.mover.explanation(command)
        }
    }

    fn abandon(self: Box<Self>) {
        let Self { mover, discards, knobs, watch, .. } = *self;
        mover.abandon();
        if let Some(discards) = discards {
            discards.abandon();
        }
        // A change of the kernel's scheduler waits for the commands at the drive, and this must not
        // wait for them. If the program ends before, its next start restores the settings.
        if let Some(knobs) = knobs {
            tracing::warn!(
                "the drive still holds commands; kernel settings are put back when it lets them \
                    go, or else by `headtime devices restore`"
            );
            let put_back = move || {
                drop(knobs);
                drop(watch);
            };
            // Without a thread, restore them here.
            drop(std::thread::Builder::new().name("headtime-knobs".to_owned()).spawn(put_back));
        }
    }
}

impl Watch {
    /// Returns true if a command failed with `errno` because the device is gone. Such a device has
    /// no sectors: the kernel then reports reads as past the end and writes as out of space.
    fn is_gone_by(&self, errno: i32) -> bool {
        let by_its_end = [Errno::NOSPC, Errno::IO, Errno::NXIO, Errno::NODEV]
            .iter()
            .any(|suspect| suspect.raw_os_error() == errno);
        by_its_end && self.bytes_now() < self.bytes
    }

    fn bytes_now(&self) -> u64 {
        seek(self.file.as_fd(), SeekFrom::End(0)).unwrap_or(0)
    }

    fn obituary(&self) -> String {
        let device = self.path.display();
        let became = match self.bytes_now() {
            0 => "is gone".to_owned(),
            bytes => format!("has {bytes} bytes now, and had {} when it was opened", self.bytes),
        };
        format!(
            "{device} {became}; check its cable, its power and the system log, then start \
                again to open it again"
        )
    }
}
