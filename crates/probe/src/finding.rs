//! [`Finding`]: the profile that was found, its figures with their uncertainty, and its cost.

use core::fmt::Write as _;

use headtime_mechanics::profile::{Accuracy, DriveProfile, ZoneAccuracy};
use headtime_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::numbers::{median, quantile};
use crate::queue::QueueBehavior;
use crate::verdict::Verdict;

/// The findings of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The conclusion.
    pub verdict: Verdict,
    /// The drive as it was found; none if it does not rotate or its layout was not understood.
    pub profile: Option<DriveProfile>,
    /// Each figure with its uncertainty.
    pub figures: Vec<Figure>,
    /// The self-check, if it was reached.
    pub check: Option<SelfCheck>,
    /// The self-check by zone, in LBA order; zones without a read are left out.
    pub zone_checks: Vec<ZoneAccuracy>,
    /// The reasons why not all reads of the self-check came within 50 us, with the share of each.
    pub deviations: Vec<Deviation>,
    /// True if seek times showed the order of the tracks of a cylinder, or angles that of a band.
    pub track_order_seen: bool,
    /// The behavior of the drive's own queue, if it was measured and the connection to the drive
    /// accepts more than one command.
    pub queue: Option<QueueBehavior>,
    /// Sectors that came late repeatedly, as remapped ones do; only among those that the self-check
    /// read.
    pub remapped: Vec<RemappedSector>,
    /// Sentences on anything not found, not understood or only sampled.
    pub remarks: Vec<String>,
    /// The time in which the drive worked for the probe.
    pub drive_time: Nanos,
    /// The number of reads.
    pub reads: u64,
    /// The number of writes of what was read before; 0 unless they were allowed.
    pub writes: u64,
    /// The number of commands that failed.
    pub failures: u64,
}

/// A sector whose angle differs from that of its neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemappedSector {
    /// Its address.
    pub lba: u64,
    /// The delay of its read against the prediction, microseconds, median of several.
    pub late_us: f64,
}

/// A measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, with its unit.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its standard error in the same unit; infinite if the figure was assumed rather than
    /// measured.
    pub error: f64,
    /// The real value may be larger; this one was the limit of the measurement.
    pub is_lower_bound: bool,
}

/// A reason why reads of the self-check were not within 50 us of their prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deviation {
    /// The reason.
    pub reason: String,
    /// The share of all reads, 0 to 1.
    pub share: f64,
}

/// The accuracy of the profile's predictions, for reads that it was not made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Reads of 4 KiB that went to the media.
    pub reads: u64,
    /// Reads of either length that came from the cache; not included above.
    pub hits: u64,
    /// Reads of either length that failed.
    pub failed: u64,
    /// Share of the 4 KiB reads predicted within 50 us.
    pub within_50_us: f64,
    /// Share within 150 us.
    pub within_150_us: f64,
    /// Share that completed half a revolution or more away from the prediction.
    pub turn_missed: f64,
    /// Median of the absolute error, microseconds.
    pub median_error_us: f64,
    /// Errors of the 4 KiB reads.
    pub short: PredictionErrors,
    /// Errors of the 40 KiB reads.
    pub long: PredictionErrors,
}

impl SelfCheck {
    /// The accuracy as a profile states it, without zones.
    #[must_use]
    pub fn accuracy(&self) -> Accuracy {
        Accuracy {
            reads: self.reads,
            within_50_us: self.within_50_us,
            within_150_us: self.within_150_us,
            revolution_off: self.turn_missed,
            zones: Vec::new(),
        }
    }
}

/// The differences of completions from their predictions; later is positive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PredictionErrors {
    /// The number of reads.
    pub reads: u64,
    /// Share within 50 us.
    pub within_50_us: f64,
    /// Share within 150 us.
    pub within_150_us: f64,
    /// Median of the absolute error, microseconds.
    pub median_size_us: f64,
    /// Errors at [`PredictionErrors::PERCENTILES`], microseconds.
    pub percentiles_us: [f64; 7],
    /// Reads in each class of [`PredictionErrors::EDGES_US`]: below the first edge, between each
    /// two, above the last.
    pub histogram: [u64; 13],
}

impl PredictionErrors {
    /// The percentages of errors below each of [`PredictionErrors::percentiles_us`].
    pub const PERCENTILES: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];
    /// Edges of the histogram's classes, microseconds.
    pub const EDGES_US: [f64; 12] =
        [-2_000.0, -500.0, -150.0, -50.0, -20.0, -5.0, 5.0, 20.0, 50.0, 150.0, 500.0, 2_000.0];

    /// The statistics of errors in microseconds.
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

    /// The histogram as lines of text, one for each class: its edges, a bar of at most `width`
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
