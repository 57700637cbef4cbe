//! One line of text for a scan.

use headtime_serve::scans::{DEFAULT_PRIORITY, ScanState, ScanStatus};
use headtime_units::ByteSize;

/// One scan in a line: how far it is and how fast.
pub fn line(scan: &ScanStatus) -> String {
    let state = match scan.state {
        ScanState::Running => "running",
        ScanState::Paused => "paused",
        ScanState::Waiting => "waiting",
        ScanState::Complete => "complete",
        ScanState::Broken => "broken",
        ScanState::Stopped => "stopped, and goes on when it is started again",
    };
    let range = scan.range.map_or_else(String::new, |range| format!(" {range}"));
    let mut first = format!("{} of {}{range}: {state}", scan.task, scan.target);
    // Of a state that cannot be read nothing is known.
    if scan.bytes > 0 {
        first.push_str(&format!(
            ", {:.1} % of {}",
            scan.share_done() * 100.0,
            ByteSize::new(scan.bytes)
        ));
    }
    if scan.state == ScanState::Running {
        first.push_str(&format!(", {:.1} MB/s", scan.bytes_per_second / 1e6));
        if let Some(left) = scan.seconds_left {
            first.push_str(&format!(", {} left", duration(left)));
        }
    }
    if scan.priority != DEFAULT_PRIORITY {
        first.push_str(&format!(", priority {}", scan.priority));
    }
    if scan.pass > 1 {
        first.push_str(&format!(", pass {}", scan.pass));
    }
    first
}

/// A time to go.
pub fn duration(seconds: f64) -> String {
    match seconds {
        short if short < 120.0 => format!("{short:.0} s"),
        medium if medium < 7200.0 => format!("{:.0} min", medium / 60.0),
        long => format!("{:.1} h", long / 3600.0),
    }
}
