//! Logs and recorders: clients that wait for each of their writes in sequence, and pause so long
//! after it that the next is not worth a wait.

use super::{Run, Streams};
use crate::request::{Op, Request};

/// Slow writers are too many from this share on. Measured on `nearline-20tb` beside 8 random
/// clients: 4 writers of 48 writes/s need 2.4 and lose with turns, 20 of 15 need 4 and gain.
const MAX_SLOW: f64 = 3.0;

impl Streams {
    /// The share of the drive's time that slow writers need if it moves to each of their writes;
    /// `None` if there are none, or so many that only turns leave time for others.
    pub(crate) fn slow_writers(&self) -> Option<f64> {
        let slow = |run: &&Run| self.is_slow_writers(run);
        let each = self.runs.values().filter(slow).filter_map(|run| {
            let (mean_ns, _) = run.account.think.mean_ns?;
            Some(self.change?.as_ns() as f64 / mean_ns)
        });
        Some(each.sum()).filter(|time| *time > 0.0 && *time < MAX_SLOW)
    }

    /// Returns whether a request belongs to a run of a slow writer: a log or a recorder, which
    /// pauses so long after each write that the next is not worth waiting for.
    pub(crate) fn is_of_slow_writer(&self, request: &Request) -> bool {
        let run = self.run_of(request.id).and_then(|id| self.runs.get(&id));
        run.is_some_and(|run| self.is_slow_writers(run)) && self.slow_writers().is_some()
    }

    /// Returns whether a run consists of writes, the next of which is not worth waiting for, and
    /// which came one by one: a page cache pauses, too, but sends many at once.
    pub(super) fn is_slow_writers(&self, run: &Run) -> bool {
        let think = &run.account.think;
        let is_slow = |change| !think.has_ended() && think.worth(change).is_none();
        run.op == Op::Write && run.is_paced() && self.change.is_some_and(is_slow)
    }
}
