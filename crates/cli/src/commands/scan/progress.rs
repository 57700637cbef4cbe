//! The progress of a scan without a server: a bar on a terminal, a line for each tenth and each
//! change elsewhere; both on standard error.

use headtime_console::progress::{Remaining, bar};
use headtime_serve::scans::{ScanState, ScanStatus};
use indicatif::ProgressBar;

use headtime_console::scans::{duration, line};

/// Shows it.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// Nothing is shown.
    quiet: bool,
    /// The progress that the last line reported.
    printed: Option<(ScanState, String, u64)>,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let bar = if quiet { None } else { bar(STEPS, Remaining::Unknown) };
        Self { bar, quiet, printed: None }
    }

    pub(super) fn is_a_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Something new, perhaps.
    pub(super) fn show(&mut self, status: &ScanStatus) {
        if let Some(bar) = &self.bar {
            bar.set_position((status.share_done() * STEPS as f64) as u64);
            bar.set_prefix(status.task.clone());
            bar.set_message(message(status));
            return;
        }
        let now = (status.state, status.reason.clone(), (status.share_done() * 10.0) as u64);
        if !self.quiet && self.printed.as_ref() != Some(&now) {
            let reason = if status.reason.is_empty() {
                String::new()
            } else {
                format!("; {}", status.reason)
            };
            headtime_console::note!("{}{reason}", line(status));
            self.printed = Some(now);
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The text after the bar.
fn message(status: &ScanStatus) -> String {
    let mut message = match status.state {
        ScanState::Running => format!("{:.1} MB/s", status.bytes_per_second / 1e6),
        ScanState::Paused => "paused".to_owned(),
        _ => format!("waiting: {}", status.reason),
    };
    if let Some(left) = status.seconds_left.filter(|_| status.state == ScanState::Running) {
        message.push_str(&format!(", {} left", duration(left)));
    }
    if status.errors.sectors > 0 {
        message.push_str(&format!(", {} sectors cannot be read", status.errors.sectors));
    }
    message
}

/// Steps of the bar.
const STEPS: u64 = 1_000;
