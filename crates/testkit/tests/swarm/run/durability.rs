//! The writes that would survive a power cut, if the drive had a volatile write cache.
//!
//! To test flush and force unit access, this model assumes the worst: a write is durable only if
//! its own command forced it, or if a flush that was sent after the write's completion has
//! completed. A flush request must cover the writes that its client could know of: those that had
//! finished when it was submitted.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::{CommandId, Op, Request, RequestId};

/// The state of an imagined volatile cache.
#[derive(Default)]
pub(super) struct DurabilityModel {
    /// Writes that the drive completed and that a power cut could lose.
    volatile: BTreeSet<RequestId>,
    /// The acknowledged ones among them.
    acknowledged: BTreeSet<RequestId>,
    /// The writes that each flush at the drive makes durable.
    flushing: BTreeMap<CommandId, BTreeSet<RequestId>>,
    /// The writes that must be durable when each flush request finishes.
    required: BTreeMap<RequestId, BTreeSet<RequestId>>,
}

impl DurabilityModel {
    pub(super) fn flush_submitted(&mut self, flush: RequestId) {
        self.required.insert(flush, self.acknowledged.clone());
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
                    self.acknowledged.remove(&id);
                }
            }
            Op::Write | Op::Zero if !forced => {
                self.volatile.extend(requests.iter().map(|request| request.id))
            }
            Op::Read | Op::Write | Op::Zero | Op::Discard => {}
        }
    }

    /// A write succeeded.
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
        self.acknowledged.insert(write.id);
        Ok(())
    }

    /// A flush succeeded; returns the number of writes that it had to cover.
    pub(super) fn flush_finished(&mut self, flush: RequestId) -> Result<usize, String> {
        let required = self.required.remove(&flush).unwrap_or_default();
        match required.intersection(&self.volatile).next() {
            Some(write) => Err(format!(
                "flush {} finished although write {}, finished before it was submitted, is not \
                    durable",
                flush.0, write.0
            )),
            None => Ok(required.len()),
        }
    }
}
