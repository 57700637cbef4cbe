//! [`BesideStatus`]: the state of a characterization beside clients, for people and programs.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "characterize")]
use headtime_io::characterize::BesideProgress;
#[cfg(feature = "characterize")]
use headtime_probe::{Probe, Stage};
#[cfg(feature = "characterize")]
use headtime_sched::TimedWait;
use serde::{Deserialize, Serialize};

#[cfg(feature = "characterize")]
use super::StartBeside;

/// The state of a characterization beside clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BesideState {
    /// It reads, or waits for a moment to read.
    Running,
    /// It was paused.
    Paused,
    /// It is over.
    Complete,
    /// It cannot go on.
    Failed,
    /// It was ended, and its state removed.
    Cancelled,
}

impl BesideState {
    /// Returns whether there is something to resume.
    #[must_use]
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Failed)
    }
}

impl fmt::Display for BesideState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}

/// A characterization beside clients. Counts are those since it was started or resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BesideStatus {
    /// Its state.
    pub state: BesideState,
    /// The stage.
    pub stage: String,
    /// The share of the drive time spent that it may use, 0 to 1. Most drives need less.
    pub progress: f64,
    /// The drive time that it may use.
    pub seconds: f64,
    /// Timed reads.
    pub reads: u64,
    /// Reads to be repeated, because commands of clients came between two that belong together.
    pub disturbed: u64,
    /// The time since the last read.
    #[serde(default)]
    pub idle_seconds: Option<f64>,
    /// The reason why it makes no progress, and the remedy.
    #[serde(default)]
    pub waits_for: Option<String>,
    /// The reason why it failed, or why its state is not saved.
    #[serde(default)]
    pub reason: String,
    /// The measured growth of the mean response time of clients by timed reads and scans, as a
    /// share.
    #[serde(default)]
    pub impact: f64,
    /// The file for the profile; none once it is cancelled.
    pub out: Option<PathBuf>,
    /// The state file; none once it is cancelled.
    pub saved_in: Option<PathBuf>,
    /// The result; none before the end.
    #[serde(default)]
    pub result: Option<BesideResult>,
    /// The time of the last read, for `idle_seconds`.
    #[serde(skip)]
    #[cfg(feature = "characterize")]
    pub(super) last_read: Option<std::time::Instant>,
    /// A reason to wait outside of the scheduler.
    #[serde(skip)]
    #[cfg(feature = "characterize")]
    pub(super) waits_outside: Option<&'static str>,
}

/// The result of a characterization beside clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BesideResult {
    /// The verdict, as a sentence.
    pub verdict: String,
    /// The profile is reliable.
    pub reliable: bool,
    /// The share of the self-check's reads that the profile predicts within 50 us.
    pub within_50_us: Option<f64>,
    /// The same within 150 us.
    pub within_150_us: Option<f64>,
    /// The share of the same reads that the model in use predicted within 150 us; none if it
    /// predicts no times.
    pub model_within_150_us: Option<f64>,
    /// The drive model is the new profile, and so it is at the next start.
    pub used: bool,
    /// The file with the profile; none without one.
    #[serde(default)]
    pub written: Option<PathBuf>,
    /// The reason why it is used or not.
    pub use_reason: String,
    /// The remembered profile, if it is used.
    pub remembered_in: Option<PathBuf>,
    /// Remarks on what was not found.
    pub remarks: Vec<String>,
}

#[cfg(feature = "characterize")]
impl BesideStatus {
    pub(super) fn new(start: &StartBeside, saved_in: Option<PathBuf>) -> Self {
        Self {
            state: BesideState::Running,
            stage: Stage::Rotation.describe().to_owned(),
            progress: 0.0,
            seconds: 0.0,
            reads: 0,
            disturbed: 0,
            idle_seconds: None,
            waits_for: None,
            reason: String::new(),
            impact: 0.0,
            out: start.out.clone(),
            saved_in,
            result: None,
            last_read: None,
            waits_outside: None,
        }
    }

    /// Shows the progress of a probe, and that of the run.
    pub(super) fn see(&mut self, probe: &Probe, progress: Option<&BesideProgress>) {
        probe.stage().describe().clone_into(&mut self.stage);
        self.progress = probe.progress();
        self.seconds = probe.settings().budget.as_secs_f64();
        if let Some(progress) = progress {
            (self.reads, self.disturbed) = (progress.reads, progress.disturbed);
        }
    }

    /// The same with the reason of the scheduler to wait, if it waits.
    pub(super) fn with_wait(mut self, wait: Option<TimedWait>, impact: f64) -> Self {
        self.impact = impact;
        if self.state != BesideState::Running {
            return self;
        }
        self.idle_seconds = self.last_read.map(|last| last.elapsed().as_secs_f64());
        let is_slow = self.idle_seconds.is_none_or(|idle| idle > SLOW_SECONDS);
        let reason = wait.filter(|_| is_slow).map(|wait| match wait {
            TimedWait::Clients => {
                "requests of clients leave no pause, and max_impact has not yet saved up a read; \
                    raise it (--max-impact), or wait for quieter hours"
            }
            TimedWait::Bound => {
                "reads have used up what max_impact allows; raise it (--max-impact), or wait"
            }
            TimedWait::Measuring => {
                "a stretch without reads measures their impact; it ends by itself"
            }
            TimedWait::Deadlines => {
                "requests have deadlines, from which no time is taken, and leave no pause; wait \
                    for quieter hours"
            }
        });
        self.waits_for = self.waits_outside.or(reason).map(str::to_owned);
        self
    }
}

/// The time without a read after which the reason is reported (guess: longer than a read is saved
/// up for beside a few clients).
#[cfg(feature = "characterize")]
const SLOW_SECONDS: f64 = 2.0;
