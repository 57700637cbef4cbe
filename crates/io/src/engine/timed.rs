//! The engine's side of timed reads. It stamps each right before its command leaves, and returns
//! its times to the characterization.

use std::sync::mpsc::SyncSender;

use headtime_sched::{CommandId, TimedRead, TimedReadDone};
use headtime_units::Instant;

use super::Engine;

/// The receiver of the results of timed reads.
pub(super) struct TimedResults {
    results: SyncSender<TimedReadDone>,
    /// The time right before the command at the drive left.
    issued: Option<Instant>,
}

impl Engine {
    /// Begins timed reads, unless they are in progress; answers whether they were begun.
    pub(super) fn timed_start(
        &mut self,
        results: SyncSender<TimedReadDone>,
        answer: &SyncSender<bool>,
    ) {
        let is_free = self.timed.is_none();
        if is_free {
            self.timed = Some(TimedResults { results, issued: None });
            self.scheduler.timed_start(self.clock.now());
        }
        // The caller may have stopped waiting.
        let _ = answer.try_send(is_free);
    }

    pub(super) fn timed_read(&mut self, read: TimedRead) {
        if self.timed.is_some() {
            self.scheduler.timed_read(self.clock.now(), read);
        }
    }

    pub(super) fn timed_stop(&mut self) {
        if self.timed.take().is_some() {
            self.scheduler.timed_stop(self.clock.now());
        }
    }

    /// Stamps a command that is about to leave, if it is a timed read.
    pub(super) fn note_timed_issue(&mut self, command: CommandId) {
        if let Some(timed) = &mut self.timed {
            let is_timed = self.scheduler.timed_command() == Some(command);
            timed.issued = is_timed.then(|| self.clock.now()).or(timed.issued);
        }
    }

    /// Returns the result of a timed read that is done.
    pub(super) fn hand_over_timed(&mut self) {
        let Some(timed) = &mut self.timed else { return };
        if let Some(done) = self.scheduler.take_timed() {
            let dispatched = timed.issued.take().unwrap_or(done.dispatched);
            // One is in progress at a time, so there is room unless the receiver has gone.
            let _ = timed.results.try_send(TimedReadDone { dispatched, ..done });
        }
    }
}
