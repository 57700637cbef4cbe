//! The figures that the program shows: in the live view, in `report.json`, and in the report's
//! plots and tables.
//!
//! One meaning each, wherever they appear. Times are milliseconds as floats, because these are text
//! edges; throughput is MiB/s (2²⁰ bytes). *Response* runs from the arrival of a request at the
//! server until its reply is ready; *service* from dispatch to completion.

use serde::{Deserialize, Serialize};

/// Times of many requests, in milliseconds. All zero when there were none (see `count`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The number of requests.
    #[serde(skip)]
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// Nineteen of twenty are no longer than this.
    pub p95: f64,
    /// 99 of a hundred are no longer than this.
    pub p99: f64,
    /// 999 of a thousand are no longer than this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// The shares of a drive's time by activity; all zero before any time has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskTimeShares {
    /// Moving and settling the arm.
    pub seek: f64,
    /// Waiting for the sector to come by.
    pub rotate: f64,
    /// Sectors passing under the head.
    pub transfer: f64,
    /// Command and bus overhead that nothing else hides.
    pub overhead: f64,
    /// Nothing to do.
    pub idle: f64,
    /// Work of the drive that no client waits for: read-ahead, and cached writes in idle time.
    pub background: f64,
}

impl DiskTimeShares {
    /// Names and shares, in the order in which they are shown.
    pub fn parts(&self) -> [(&'static str, f64); 6] {
        [
            ("seek", self.seek),
            ("rotate", self.rotate),
            ("transfer", self.transfer),
            ("overhead", self.overhead),
            ("own work", self.background),
            ("idle", self.idle),
        ]
    }
}

/// The figures of one volume in one interval, usually a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct VolumeSample {
    /// The end of the interval, in seconds since the load began.
    pub at_seconds: f64,
    /// Throughput, reads and writes together.
    pub mib_per_second: f64,
    /// Requests completed per second.
    pub iops: f64,
    /// Median response time of the interval's requests.
    pub p50_ms: f64,
    /// 99th percentile of their response times.
    pub p99_ms: f64,
    /// The longest of their response times.
    pub max_ms: f64,
    /// Requests of the interval that completed after their deadline.
    pub deadline_misses: u64,
    /// Requests accepted and not yet answered at the end of the interval.
    pub in_flight: u64,
    /// The share of the drive's time charged to the volume.
    pub disk_time_share: f64,
}

/// The figures of one volume over a whole run, measured at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct VolumeTotals {
    /// Requests completed.
    pub requests: u64,
    /// Requests completed per second of the run.
    pub iops: f64,
    /// Throughput over the run.
    pub mib_per_second: f64,
    /// Response times.
    pub response_ms: Times,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Requests that completed after it.
    pub deadline_misses: u64,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Requests taken and not yet answered at the end. A policy that starves a volume shows here:
    /// what is never answered is in no other figure.
    pub unanswered: u64,
    /// The drive's time charged to the volume, as a share of the run.
    pub disk_time_share: f64,
}

impl VolumeTotals {
    /// Misses as a share of the requests with a deadline; `None` when no request had one.
    pub fn miss_share(&self) -> Option<f64> {
        (self.deadline_requests > 0)
            .then(|| self.deadline_misses as f64 / self.deadline_requests as f64)
    }
}

/// The delays of the emulated drive's completions against their model time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatenessFigures {
    /// Completions measured.
    pub count: u64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// The prediction errors of the drive model, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BeliefFigures {
    /// Completions it learned from.
    pub completions: u64,
    /// The root mean square of measured less predicted.
    pub rms_error_us: f64,
}

/// The drive's line: what stands for all volumes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriveFigures {
    /// The policy at work.
    pub policy: String,
    /// Commands at the drive at the moment, or their mean over a run.
    pub outstanding: f64,
    /// Share of the time in which the drive had something to do.
    pub utilization: f64,
    /// The shares of the emulated drive's time; `None` for other drives.
    pub disk_time: Option<DiskTimeShares>,
    /// The lateness of the emulation; `None` for drives that are not emulated.
    pub lateness: Option<LatenessFigures>,
    /// The errors of the drive model; `None` before it has learned anything.
    pub belief: Option<BeliefFigures>,
}

/// A time in milliseconds with the digits a reader wants: three significant ones, never more than
/// three decimals.
pub fn show_ms(ms: f64) -> String {
    let decimals = if ms < 1.0 {
        3
    } else if ms < 10.0 {
        2
    } else if ms < 100.0 {
        1
    } else {
        0
    };
    format!("{ms:.decimals$}")
}

/// A share of one in percent; small shares keep their digits, so that a rare miss does not read as
/// none.
pub fn show_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        "0 %".to_string()
    } else if percent < 0.1 {
        format!("{percent:.3} %")
    } else if percent < 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A number of bytes in the decimal units that drives are sold in.
pub fn show_bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1_000_000_000_000 => format!("{:.2} TB", bytes as f64 / 1e12),
        bytes if bytes >= 1_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        bytes if bytes >= 1_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_with_three_digits() {
        let shown: Vec<String> = [0.25, 4.1667, 12.34, 480.4].into_iter().map(show_ms).collect();
        assert_eq!(shown, ["0.250", "4.17", "12.3", "480"]);
    }

    #[test]
    fn a_rare_miss_never_reads_as_none() {
        assert_eq!(show_percent(0.0), "0 %");
        assert_eq!(show_percent(0.000_05), "0.005 %");
        assert_eq!(show_percent(0.37), "37 %");
    }

    #[test]
    fn a_volume_without_deadlines_has_no_share_of_misses() {
        assert_eq!(VolumeTotals::default().miss_share(), None);
        let totals =
            VolumeTotals { deadline_requests: 8, deadline_misses: 2, ..VolumeTotals::default() };
        assert_eq!(totals.miss_share(), Some(0.25));
    }
}
