//! The end of an engine. Remaining requests are answered, and written data is made durable within
//! the drain timeout. The report to the caller that closed the drive counts the requests that were
//! given up.

use std::collections::HashSet;

use headtime_sched::{Command, CommandId, Op};
use headtime_units::Extent;
use smallvec::SmallVec;

use super::Engine;
use crate::backend::BackendCommand;
use crate::engine::mailbox::Message;
use crate::engine::scan_queue::ScanEvent;
use crate::request::{IoDone, IoError, LOST_WRITES};
use crate::snapshot::DriveSnapshot;

/// The outcome of closing a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainReport {
    /// Requests given up that had not been sent to the drive.
    pub given_up_queued: usize,
    /// Requests given up at the drive: it did not answer in time, and may still carry them out.
    pub given_up_at_drive: usize,
    /// All written data was made durable at the end.
    pub synced: bool,
    /// The drive's last snapshot.
    pub last: DriveSnapshot,
}

impl DrainReport {
    /// Returns true if every request completed and everything is durable.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.given_up_queued == 0 && self.given_up_at_drive == 0 && self.synced
    }
}

/// The cause of an engine's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineEnd {
    /// The drive was closed.
    Closed,
    /// The engine failed on a fault of its own.
    Failed,
}

impl Engine {
    /// Answers the remaining requests and releases the backend.
    pub(crate) fn give_up(mut self, end: EngineEnd) -> DrainReport {
        let failed = end == EngineEnd::Failed;
        self.mailbox.close();
        if failed {
            self.abandon_scans()
        } else {
            self.stop_scans()
        }
        let reason = if failed { IoError::EngineFailed } else { IoError::Closed };
        let synced = !failed && self.sync();
        // A divided request counts once, at the drive if any part of it is.
        let at_drive: HashSet<_> = self.at_drive.requests().map(|id| self.whole_of(id)).collect();
        let at_rest = synced || (!failed && self.at_drive.is_empty());
        // After a fault in the engine, the scheduler's state may be inconsistent.
        let last = if failed { self.mailbox.last_snapshot() } else { self.snapshot() };

        let held: HashSet<_> = self.pending.keys().map(|id| self.whole_of(*id)).collect();
        let mut given_up_queued = held.difference(&at_drive).count();
        self.messages.clear();
        self.mailbox.take(&mut self.messages);
        for message in self.messages.drain(..) {
            match message {
                Message::Submit(active) => {
                    given_up_queued += 1;
                    active.finish(IoDone { finished: None, result: Err(reason.clone()) });
                }
                Message::ScanStart { queue, .. } => queue.end(Some(ScanEvent::Closed)),
                Message::BackgroundWrite(write) => write.finish(Err(reason.clone())),
                _ => {}
            }
        }
        self.give_up_writes(&reason);
        for (_, active) in self.pending.drain() {
            active.finish(IoDone { finished: None, result: Err(reason.clone()) });
        }
        if at_rest {
            drop(self.backend)
        } else {
            self.backend.abandon()
        }
        self.mailbox.show(last.clone());
        DrainReport { given_up_queued, given_up_at_drive: at_drive.len(), synced, last }
    }

    /// Makes all written data durable within the drain timeout. The scheduler has no command at the
    /// drive any more.
    fn sync(&mut self) -> bool {
        if !self.at_drive.is_empty() {
            return false;
        }
        let flush = Command {
            id: LAST_FLUSH,
            op: Op::Flush,
            extent: Extent::default(),
            fua: false,
            background: None,
            requests: SmallVec::new(),
        };
        self.at_drive.send(self.clock.now(), flush.clone(), self.unflushed.covered_now());
        self.backend.start(self.clock.now(), BackendCommand { command: flush, pieces: Vec::new() });
        let until = self.drain_until.unwrap_or_else(|| self.clock.now() + self.drain_timeout);
        loop {
            let mut ended = std::mem::take(&mut self.ended);
            self.backend.collect(self.clock.now(), &mut ended);
            self.unflushed.note_losses(self.losses());
            if let Some(over) = ended.pop() {
                self.at_drive.take(self.clock.now(), over.command);
                if let Err(errno) = over.result {
                    let error = std::io::Error::from_raw_os_error(errno);
                    tracing::error!(%error, "the last writes before closing could not be made \
                        durable; copy them again or check the device below");
                } else if self.unflushed.has_unreported_loss() {
                    tracing::error!("{LOST_WRITES}");
                }
                return over.result.is_ok() && !self.unflushed.has_unreported_loss();
            }
            if self.clock.now() >= until {
                return false;
            }
            let event = self.backend.next_event().map_or(until, |event| event.min(until));
            self.mailbox.notifier.wait(self.clock, Some(event));
        }
    }
}

/// The number of the last flush. The scheduler numbers its commands from zero and never reaches
/// this value.
const LAST_FLUSH: CommandId = CommandId(u64::MAX);
