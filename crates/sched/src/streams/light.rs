//! Light writers: clients that wait for each of their writes in sequence, and write much less than
//! the medium takes.

use headtime_units::Instant;

use super::{Run, RunId, Streams};
use crate::request::Op;

/// The largest share of the time that the writes of a light run take on the medium. Measured with
/// one to four writers in sequence beside random writers on six drives, where such writes go also
/// into a full cache: up to this share the harmonic mean of progress is up to two fifths higher,
/// with twice as much up to two fifths lower.
const LIGHT: f64 = 0.3;
/// The largest share that the writes of all runs take together while any is light (guess: a quarter
/// is left to others).
const ALL_LIGHT: f64 = 0.75;
/// Flushes are shared that answer so many clients on average. Measured with clients that flush each
/// of their writes beside a light writer on five drives, without turns of the writer: with 4 or 8
/// clients the harmonic mean of progress is a third to a half higher; one alone commits half as
/// often.
const SHARED: f64 = 1.6;

/// The number of requests in a run from which on they are not the parts of one for striped members
/// (guess: 3 MiB in stripes of 128 KiB).
const PARTS: u32 = 24;

/// The clients whose flushes the drive answers at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flushes {
    last: Option<Instant>,
    /// Those of the last flush so far, and their mean number of about the last eight.
    answered: f64,
    mean: f64,
}

impl Flushes {
    /// Notes a flush of a client that finished at `finished`.
    pub(super) fn add(&mut self, finished: Instant) {
        if self.last.replace(finished) != Some(finished) {
            self.mean += (core::mem::take(&mut self.answered) - self.mean) / 8.0;
        }
        self.answered += 1.0;
    }
}

impl Streams {
    /// Returns whether the writes of a run take a small share of the time on the medium, and those
    /// of all runs leave some to others.
    pub(crate) fn is_light(&self, id: RunId) -> bool {
        self.runs.get(&id).is_some_and(|run| run.media_share <= LIGHT) && self.all_are_light()
    }

    fn all_are_light(&self) -> bool {
        let writes = |run: &&Run| run.op == Op::Write && !run.held.is_empty();
        let all = self.runs.values().filter(writes).map(|run| run.media_share);
        all.sum::<f64>() <= ALL_LIGHT
    }

    /// Returns whether any long run is known that is neither light nor of a slow writer, nor the
    /// parts of a request for striped members.
    pub(crate) fn any_heavy_run(&self) -> bool {
        let (slow, all_light) = (self.slow_writers().is_some(), self.all_are_light());
        let passes =
            |run: &Run| all_light && run.media_share <= LIGHT || slow && self.is_slow_writers(run);
        self.runs.values().any(|run| run.is_long && run.requests >= PARTS && !passes(run))
    }

    /// Returns whether clients that write at random share their flushes, so that what else these
    /// have to save costs each of them little.
    pub(crate) fn flushes_are_shared(&self) -> bool {
        self.flushes.mean >= SHARED
    }
}
