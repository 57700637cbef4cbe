//! Characterizing a drive beside its clients: the loop between a probe and the timed reads of a
//! running drive.
//!
//! Each read is alone at the drive, and its times are those of the engine. Commands of clients
//! between two reads are reported to the probe with the second one, and the probe decides what it
//! has to read again.
//!
//! *Comparison.* While the probe checks its result by fresh reads, the model in use predicts the
//! same reads. [`ModelComparison`] counts how many of them it predicts.

use std::ops::ControlFlow;

use headtime_probe::{CommandOutcome, Measurement, NextRead, Probe, Stage};
use headtime_sched::{Outcome, TimedRead, TimedReadDone, TimedSuccessor};
use headtime_units::{Instant, Nanos};

use super::run::Ended;

/// A drive that carries out timed reads beside its clients.
pub trait BesideDrive {
    /// The reason why a read does not come to its end.
    type Error;

    /// Carries out one read; `None` to stop.
    ///
    /// # Errors
    /// When the drive is gone.
    fn read(&mut self, read: TimedRead) -> Result<Option<TimedReadDone>, Self::Error>;
}

/// The work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BesideProgress {
    /// Reads that the drive carried out or failed.
    pub reads: u64,
    /// Those that had to follow another one and did not, because commands of clients came between.
    pub disturbed: u64,
    /// Commands of others between two reads.
    pub others: u64,
    /// The number of times that the phase was read again after a long pause.
    pub long_pauses: u64,
    /// The predictions of the model in use.
    pub model_in_use: ModelComparison,
}

/// The predictions of the model in use, for the reads by which the probe checks its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelComparison {
    /// The reads.
    pub reads: u64,
    /// Those completed within 150 us of their prediction.
    pub within_150_us: u64,
}

impl ModelComparison {
    /// The share of reads within 150 us; none if the model predicts no times, or before enough
    /// reads.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.reads >= MIN_COMPARED).then(|| self.within_150_us as f64 / self.reads as f64)
    }
}

/// The fewest reads that show how well a model predicts (guess: the share is then known to 5 %).
const MIN_COMPARED: u64 = 100;
/// The difference from the prediction that counts as predicted.
const PREDICTED: Nanos = Nanos::from_us(150);
/// The pause after which the phase of the spindle is read again (guess: with an error of the
/// period of 0.2 millionths, the angles are off by 60 us then).
const LONG_PAUSE: Nanos = Nanos::from_secs(300);

/// Runs the reads of the probe until it has no more, the drive stops, or `watch`, which is called
/// after each read, stops it. `progress` goes on counting.
///
/// # Errors
/// That of the drive. The probe keeps its results.
///
/// # Panics
/// When the probe's settings are not those of a drive beside clients.
pub fn characterize_beside<D: BesideDrive>(
    drive: &mut D,
    probe: &mut Probe,
    progress: &mut BesideProgress,
    watch: &mut dyn FnMut(&Probe, &BesideProgress) -> ControlFlow<()>,
) -> Result<Ended, D::Error> {
    let mut last: Option<(Instant, NextRead)> = None;
    loop {
        let stage = probe.stage();
        let Some(measurement) = probe.next_measurement() else {
            return Ok(Ended::Done);
        };
        let Measurement::Read { extent, not_before, next } = measurement else {
            panic!("{measurement:?} was requested beside clients");
        };
        let successor = match next {
            NextRead::Independent => TimedSuccessor::Independent,
            NextRead::Follows => TimedSuccessor::Follows,
        };
        let read = TimedRead { extent, not_before, next: successor };
        let Some(done) = drive.read(read)? else { return Ok(Ended::Stopped) };
        progress.reads += 1;
        progress.others += u64::from(done.others);
        let is_late = |at: Instant| done.dispatched.saturating_since(at) > LONG_PAUSE;
        if last.is_some_and(|(at, _)| is_late(at)) {
            progress.long_pauses += 1;
            *probe = Probe::resume(probe.clone());
            last = None;
        } else {
            let follows = last.is_some_and(|(_, next)| next == NextRead::Follows);
            progress.disturbed += u64::from(follows && done.others > 0);
            if stage == Stage::SelfCheck && follows && done.others == 0 {
                note(&mut progress.model_in_use, &done);
            }
            let outcome = match done.outcome {
                Outcome::Success => CommandOutcome::Done,
                Outcome::Failed(_) => CommandOutcome::Failed,
            };
            // Two clocks of the engine may differ by the time of one instruction.
            let completed = done.finished.max(done.dispatched);
            probe.read_completed(done.dispatched, completed, outcome, done.others);
            last = Some((completed, next));
        }
        if watch(probe, progress).is_break() {
            return Ok(Ended::Stopped);
        }
    }
}

fn note(model: &mut ModelComparison, done: &TimedReadDone) {
    let Some(predicted) = done.predicted.filter(|_| done.outcome == Outcome::Success) else {
        return;
    };
    let off = done.finished.signed_since(predicted).unsigned_abs();
    model.reads += 1;
    model.within_150_us += u64::from(off <= PREDICTED.as_ns());
}
