//! The progress of a scan without a server.

use headtime_console::progress::ProgressDisplay;
use headtime_console::scans::{duration, line};
use headtime_serve::scans::{ScanState, ScanStatus};

/// The state and the reason that lines report.
pub(super) type ScanProgress = ProgressDisplay<(ScanState, String)>;

/// Shows the status, if it is new.
pub(super) fn show_progress(progress: &mut ScanProgress, status: &ScanStatus) {
    let beside_bar = || (status.task.clone(), message(status));
    let text = || match status.reason.as_str() {
        "" => line(status),
        reason => format!("{}; {reason}", line(status)),
    };
    progress.show(status.share_done(), (status.state, status.reason.clone()), beside_bar, text);
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
