//! The progress of long commands on standard error.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `steps` on standard error, if that is a terminal. `remaining` adds the estimated time.
pub fn bar(steps: u64, remaining: Remaining) -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let template = match remaining {
            Remaining::Shown => "{prefix} [{bar:32}] {percent:>3} %, {eta} left; {wide_msg}",
            Remaining::Unknown => "{prefix} [{bar:32}] {percent:>3} %; {wide_msg}",
        };
        let style = ProgressStyle::with_template(template);
        ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    })
}

/// The remaining time of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Estimated from the progress so far and shown.
    Shown,
    /// Not proportional to the progress, and not shown.
    Unknown,
}

/// The progress of a command: a bar on a terminal; elsewhere a line for each tenth, and for each
/// change of a state `S`.
pub struct ProgressDisplay<S> {
    bar: Option<ProgressBar>,
    /// Only messages are shown.
    quiet: bool,
    /// The state and the tenth that the last line reported.
    printed: Option<(S, u64)>,
}

impl<S: PartialEq> ProgressDisplay<S> {
    /// Nothing is shown yet, and with `quiet` nothing but messages ever.
    pub fn new(quiet: bool) -> Self {
        let bar = if quiet { None } else { bar(STEPS, Remaining::Unknown) };
        Self { bar, quiet, printed: None }
    }

    /// Returns whether it is a bar.
    pub fn is_a_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows a share of the work, from 0 to 1: the texts before and after the bar, or a line.
    pub fn show(
        &mut self,
        share: f64,
        state: S,
        beside_bar: impl FnOnce() -> (String, String),
        line: impl FnOnce() -> String,
    ) {
        if let Some(bar) = &self.bar {
            let (before, after) = beside_bar();
            bar.set_position((share * STEPS as f64) as u64);
            bar.set_prefix(before);
            bar.set_message(after);
            return;
        }
        let now = (state, (share * 10.0) as u64);
        if !self.quiet && self.printed.as_ref() != Some(&now) {
            crate::note!("{}", line());
            self.printed = Some(now);
        }
    }

    /// Prints a message at once.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::note!("{text}")),
            None => crate::note!("{text}"),
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// Steps of the bar.
const STEPS: u64 = 1_000;
