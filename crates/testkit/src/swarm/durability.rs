//! Which writes would survive a power cut, if the drive had a volatile write cache.
//!
//! The simulated drive has none, so nothing could be lost. To try what flush and force unit access
//! promise, this model pretends the worst: a write is durable only when its own command forced it,
//! or when a flush that was sent after the write had completed has completed itself. A flush
//! request owes the writes that its client could know of: those that had finished when it was
//! submitted.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::{CommandId, Op, Request, RequestId};

/// The books of an imagined volatile cache.
#[derive(Default)]
pub(super) struct DurabilityModel {
    /// Writes that the drive completed and that a power cut could lose.
    volatile: BTreeSet<RequestId>,
    /// Of those, the ones whose client was told.
    told: BTreeSet<RequestId>,
    /// What each flush at the drive makes durable.
    flushing: BTreeMap<CommandId, BTreeSet<RequestId>>,
    /// What each flush request must have made durable when it finishes.
    owed: BTreeMap<RequestId, BTreeSet<RequestId>>,
}

impl DurabilityModel {
    pub(super) fn flush_submitted(&mut self, flush: RequestId) {
        self.owed.insert(flush, self.told.clone());
    }

    pub(super) fn flush_sent(&mut self, command: CommandId) {
        self.flushing.insert(command, self.volatile.clone());
    }

    /// The drive completed a command.
    pub(super) fn completed(
        &mut self,
        command: CommandId,
        op: Op,
        forced: bool,
        success: bool,
        requests: &[Request],
    ) {
        let covered = self.flushing.remove(&command);
        match op {
            _ if !success => {}
            Op::Flush => {
                for id in covered.unwrap_or_default() {
                    self.volatile.remove(&id);
                    self.told.remove(&id);
                }
            }
            Op::Write | Op::Zero if !forced => {
                self.volatile.extend(requests.iter().map(|request| request.id))
            }
            Op::Read | Op::Write | Op::Zero | Op::Discard => {}
        }
    }

    /// A write finished well.
    pub(super) fn write_finished(&mut self, write: &Request) -> Result<(), String> {
        if !self.volatile.contains(&write.id) {
            return Ok(());
        }
        if write.fua {
            return Err(format!(
                "write {} demanded force unit access and finished although a power cut could lose \
                    it",
                write.id.0
            ));
        }
        self.told.insert(write.id);
        Ok(())
    }

    /// A flush finished well; answers how many writes it was owed.
    pub(super) fn flush_finished(&mut self, flush: RequestId) -> Result<usize, String> {
        let owed = self.owed.remove(&flush).unwrap_or_default();
        match owed.intersection(&self.volatile).next() {
            Some(write) => Err(format!(
                "flush {} finished although write {}, finished before it was submitted, is not \
                    durable",
                flush.0, write.0
            )),
            None => Ok(owed.len()),
        }
    }
}
