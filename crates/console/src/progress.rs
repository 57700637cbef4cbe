//! The progress bar of long commands.

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
