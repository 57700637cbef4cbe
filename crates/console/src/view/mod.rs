//! The view of a drive at work: one picture ([`Moment`]), drawn on a terminal or printed as plain
//! lines.
//!
//! The picture is plain figures, so that both forms can be tested without a drive, a terminal, or
//! time passing.

mod plain;
mod screen;
mod viewer;

pub use plain::lines;
pub use screen::{Screen, ViewKey, draw, give_back};
pub use viewer::Viewer;

use std::collections::VecDeque;

use crate::figures::{DriveFigures, VolumeSample, VolumeTotals};

/// The length of the live view's curves in seconds.
pub const HISTORY: usize = 120;

/// Everything the live view shows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The first line: what is going on.
    pub title: String,
    /// Seconds since it began.
    pub elapsed_seconds: f64,
    /// Seconds it will take in all; `None` when it runs until it is stopped.
    pub total_seconds: Option<f64>,
    /// The drive.
    pub drive: DriveFigures,
    /// The volumes, in the order of their configuration.
    pub volumes: Vec<LiveVolume>,
    /// A line for each scan.
    pub scans: Vec<String>,
    /// The last line: where the volumes can be reached, and how to stop.
    pub footer: String,
}

/// One volume in the live view.
#[derive(Clone, Debug, Default)]
pub struct LiveVolume {
    /// Its name.
    pub name: String,
    /// Its deadline in milliseconds, if it has one.
    pub deadline_ms: Option<f64>,
    /// The last second.
    pub last: VolumeSample,
    /// Everything since the beginning.
    pub total: VolumeTotals,
    /// Throughput of the last seconds, the newest last.
    pub history_mib_per_second: VecDeque<f64>,
}

impl LiveVolume {
    /// Returns true if its requests have deadlines: its own, or by I/O priority.
    pub fn has_deadlines(&self) -> bool {
        self.deadline_ms.is_some() || self.total.deadline_requests > 0
    }

    /// Takes in the newest second.
    pub fn push(&mut self, sample: VolumeSample, total: VolumeTotals) {
        if self.history_mib_per_second.len() == HISTORY {
            self.history_mib_per_second.pop_front();
        }
        self.history_mib_per_second.push_back(sample.mib_per_second);
        self.last = sample;
        self.total = total;
    }
}
