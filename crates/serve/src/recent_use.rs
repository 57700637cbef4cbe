//! [`RecentUse`]: the share of the drive's time that each export had over the last minute. The
//! engine counts disk time since its start only; this keeps its counters of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headtime_io::{DriveHandle, DriveSnapshot};
use headtime_units::{Instant, Nanos};
use parking_lot::Mutex;

use crate::control::disk_time;
use crate::export::Exports;

/// The counters of the last minute.
pub(crate) struct RecentUse {
    exports: Arc<Exports>,
    drive: DriveHandle,
    samples: Mutex<VecDeque<Sample>>,
}

/// The disk time of each export since the start, at one moment.
struct Sample {
    at: Instant,
    used: BTreeMap<String, Nanos>,
}

/// The interval between samples.
const EVERY: Duration = Duration::from_secs(5);
/// The samples of a minute, and the one at its start.
const SAMPLES: usize = 13;

impl RecentUse {
    pub(crate) fn new(exports: Arc<Exports>, drive: DriveHandle) -> Arc<Self> {
        let recent = Self { exports, drive, samples: Mutex::default() };
        recent.add(&recent.drive.snapshot());
        Arc::new(recent)
    }

    /// Samples from now on. Does not return.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(EVERY).await;
            let recent = Arc::clone(&self);
            // A snapshot may wait for the engine.
            let _ = tokio::task::spawn_blocking(move || recent.add(&recent.drive.snapshot())).await;
        }
    }

    fn add(&self, drive: &DriveSnapshot) {
        let used = self.exports.all().into_iter().map(|export| {
            let time = disk_time(export.volume.id, &export.name, drive);
            (export.name.clone(), time)
        });
        let sample = Sample { at: drive.taken, used: used.collect() };
        let mut samples = self.samples.lock();
        samples.push_back(sample);
        if samples.len() > SAMPLES {
            samples.pop_front();
        }
    }

    /// The share of the drive's time that an export has had over the last minute, or since the
    /// server started, at the moment of a snapshot; `None` at that start.
    pub(crate) fn share(&self, export: &str, used: Nanos, now: Instant) -> Option<f64> {
        let samples = self.samples.lock();
        let first = samples.front()?;
        let before = first.used.get(export).copied().unwrap_or_default();
        let seconds = now.saturating_since(first.at).as_secs_f64();
        // Counters begin again with another policy.
        let gained = used.as_secs_f64() - before.as_secs_f64();
        (seconds > 0.0).then(|| (gained / seconds).clamp(0.0, 1.0))
    }
}
