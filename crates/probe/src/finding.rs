//! [`Finding`]: the profile that was found, how sure each figure is, and what it cost.

use core::fmt::Write as _;

use headtime_mechanics::profile::DriveProfile;
use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::numbers::{median, quantile};
use crate::queue::QueueBehavior;
use crate::verdict::Verdict;

/// What a probe found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What came of it.
    pub verdict: Verdict,
    /// The drive as it was found; none when it does not turn or its layout was not understood.
    pub profile: Option<DriveProfile>,
    /// Each figure with its uncertainty.
    pub figures: Vec<Figure>,
    /// The self-check, if it was come to.
    pub check: Option<SelfCheck>,
    /// What was seen of the drive's own queue, if that was come to and the way to the drive takes
    /// more than one command.
    pub queue: Option<QueueBehavior>,
    /// Sectors that came late again and again, as remapped ones do; of those that the self-check
    /// came upon.
    pub remapped: Vec<RemappedSector>,
    /// What was not found, not understood or only sampled, as sentences.
    pub remarks: Vec<String>,
    /// Time in which the drive was at work for the probe.
    pub drive_time: Nanos,
    /// Reads that it took.
    pub reads: u64,
    /// Writes of what was read before; 0 unless they were allowed.
    pub writes: u64,
    /// Commands that failed.
    pub failures: u64,
}

/// A sector that does not come by where its neighbors do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemappedSector {
    /// Which.
    pub lba: u64,
    /// How much later than predicted its read completes, microseconds, median of several.
    pub late_us: f64,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What, with its unit.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Its standard error in the same unit; infinite when the figure was taken for granted rather
    /// than seen.
    pub error: f64,
}

/// How well the profile predicts reads that it was not made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Reads of 4 KiB that went to the media.
    pub reads: u64,
    /// Reads of either length that came from the cache, which are not counted above.
    pub hits: u64,
    /// Reads of either length that failed.
    pub failed: u64,
    /// Share of the 4 KiB reads predicted within 50 us.
    pub within_50_us: f64,
    /// Share within 150 us.
    pub within_150_us: f64,
    /// Share that completed half a turn or more away from what was predicted.
    pub turn_missed: f64,
    /// Median of the error's size, microseconds.
    pub median_error_us: f64,
    /// All of the 4 KiB reads.
    pub short: PredictionErrors,
    /// All of the 40 KiB reads.
    pub long: PredictionErrors,
}

/// How far completions were from what was predicted; later is positive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionErrors {
    /// How many reads.
    pub reads: u64,
    /// Share within 50 us.
    pub within_50_us: f64,
    /// Share within 150 us.
    pub within_150_us: f64,
    /// Median of the error's size, microseconds.
    pub median_size_us: f64,
    /// Errors at [`PredictionErrors::PERCENTILES`], microseconds.
    pub percentiles_us: [f64; 7],
    /// Reads in each class of [`PredictionErrors::EDGES_US`]: below the first edge, between each two, above
    /// the last.
    pub histogram: [u64; 13],
}

impl PredictionErrors {
    /// What share of the errors lies below each of [`PredictionErrors::percentiles_us`], in percent.
    pub const PERCENTILES: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];
    /// Borders of the histogram's classes, microseconds.
    pub const EDGES_US: [f64; 12] =
        [-2_000.0, -500.0, -150.0, -50.0, -20.0, -5.0, 5.0, 20.0, 50.0, 150.0, 500.0, 2_000.0];

    /// Of errors in microseconds.
    #[must_use]
    pub fn of(errors_us: &[f64]) -> Self {
        let count = errors_us.len().max(1) as f64;
        let within =
            |us: f64| errors_us.iter().filter(|error| error.abs() <= us).count() as f64 / count;
        let mut histogram = [0; 13];
        for error in errors_us {
            histogram[Self::EDGES_US.iter().filter(|edge| *error > **edge).count()] += 1;
        }
        Self {
            reads: errors_us.len() as u64,
            within_50_us: within(50.0),
            within_150_us: within(150.0),
            median_size_us: median(&errors_us.iter().map(|error| error.abs()).collect::<Vec<_>>()),
            percentiles_us: Self::PERCENTILES.map(|percent| quantile(errors_us, percent / 100.0)),
            histogram,
        }
    }

    /// The histogram as lines of text, one for each class: its borders, a bar of at most `width`
    /// characters, the share.
    #[must_use]
    pub fn histogram_text(&self, width: usize) -> String {
        let most = self.histogram.iter().copied().max().unwrap_or(0).max(1);
        let edge = |place: usize| Self::EDGES_US[place];
        let mut text = String::new();
        for (place, count) in self.histogram.iter().enumerate() {
            let class = match place {
                0 => format!("         below {:>6}", edge(0)),
                12 => format!("         above {:>6}", edge(11)),
                _ => format!("{:>9} to {:>8}", edge(place - 1), edge(place)),
            };
            let bar = "#".repeat((count * width as u64).div_ceil(most) as usize);
            let share = 100.0 * *count as f64 / self.reads.max(1) as f64;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{class} us {bar:<width$} {share:5.1} %");
        }
        text
    }
}
