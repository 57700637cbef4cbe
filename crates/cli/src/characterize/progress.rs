//! The progress of a characterization on standard error: a bar on a terminal, otherwise a line for
//! each stage and each tenth.

use headtime_console::progress::{Remaining, bar};
use headtime_io::characterize::clock;
use headtime_units::Nanos;
use indicatif::ProgressBar;

/// The progress of a characterization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Glimpse {
    /// The current stage.
    pub stage: &'static str,
    /// Share of the drive time that is spent, 0 to 1.
    pub progress: f64,
    /// Reads of this run.
    pub reads: u64,
}

/// Shows it.
pub(crate) struct Showing {
    bar: Option<ProgressBar>,
    /// The drive time it may take.
    bound: Nanos,
    /// Only messages are shown.
    quiet: bool,
    /// The progress that the last line reported.
    printed: Option<(&'static str, u64)>,
}

impl Showing {
    /// The progress of a characterization that may take `bound` of drive time.
    pub(crate) fn new(bound: Nanos, quiet: bool) -> Self {
        let bar = if quiet { None } else { bar(UNITS, Remaining::Unknown) };
        Self { bar, bound, quiet, printed: None }
    }

    /// Something new.
    pub(crate) fn show(&mut self, glimpse: Glimpse) {
        let Glimpse { stage, progress, reads } = glimpse;
        let spent = Nanos::from_ns((self.bound.as_ns() as f64 * progress) as u64);
        let message =
            format!("{} of at most {} drive time, {reads} reads", clock(spent), clock(self.bound));
        match &self.bar {
            Some(bar) => {
                bar.set_position((progress * UNITS as f64) as u64);
                bar.set_prefix(format!("{stage:<28}"));
                bar.set_message(message);
            }
            None => {
                let tenth = (progress * 10.0) as u64;
                if !self.quiet && self.printed != Some((stage, tenth)) {
                    self.printed = Some((stage, tenth));
                    headtime_console::note!("{stage}: {message}");
                }
            }
        }
    }

    /// Something that is to be read, now.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| headtime_console::note!("{text}")),
            None => headtime_console::note!("{text}"),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Steps of the bar.
const UNITS: u64 = 1_000;
