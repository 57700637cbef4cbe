//! [`StreamMeasures`]: the results of one stream, or of several streams of one class.

use headtime_sched::{Finished, Outcome};
use headtime_units::{Nanos, SectorSize};
use serde::Serialize;

use crate::measures::Distribution;
use crate::times::TimeHistogram;

/// The results of one stream in the window of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamMeasures {
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed; they are not counted elsewhere.
    pub failed: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Of those, the ones that completed after it.
    pub deadline_misses: u64,
    /// Disk time charged: for each command, completion − max(previous completion, dispatch).
    pub disk_time: Nanos,
    /// Length of the window.
    pub seconds: f64,
    response: TimeHistogram,
    service: TimeHistogram,
}

/// [`StreamMeasures`] as figures. As JSON an entry of `streams` and `classes` of `headtime sim
/// --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StreamFigures {
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes read and written, in MiB per second.
    pub mib_per_second: f64,
    /// Submission to completion.
    pub response_ms: Distribution,
    /// Dispatch to completion.
    pub service_ms: Distribution,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Of those, the ones that completed after it.
    pub deadline_misses: u64,
    /// Disk time charged, as a fraction of the window.
    pub disk_time_share: f64,
}

impl StreamMeasures {
    /// The maximum number of streams with results of their own.
    pub const MAX_STREAMS: usize = 256;

    pub(crate) fn count(&mut self, finished: &Finished, sector: SectorSize) {
        if finished.outcome != Outcome::Success {
            self.failed += 1;
            return;
        }
        self.requests += 1;
        if finished.request.op.moves_head() {
            self.bytes += sector.bytes_of(finished.request.extent.len);
        }
        self.response.record(finished.response());
        self.service.record(finished.service());
        self.deadline_requests += u64::from(finished.request.deadline.is_some());
        self.deadline_misses += u64::from(finished.missed());
    }

    pub(crate) fn close(&mut self, seconds: f64, disk_time: Nanos) {
        self.seconds = seconds;
        self.disk_time = disk_time;
    }

    /// Adds the results of another stream of the same run.
    pub fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.bytes += other.bytes;
        self.deadline_requests += other.deadline_requests;
        self.deadline_misses += other.deadline_misses;
        self.disk_time += other.disk_time;
        self.seconds = self.seconds.max(other.seconds);
        self.response.join(&other.response);
        self.service.join(&other.service);
    }

    /// The figures; all zero for an empty window.
    #[must_use]
    pub fn figures(&self) -> StreamFigures {
        let per_second = |count: f64| if self.seconds > 0.0 { count / self.seconds } else { 0.0 };
        StreamFigures {
            requests: self.requests,
            failed: self.failed,
            iops: per_second(self.requests as f64),
            mib_per_second: per_second(self.bytes as f64 / 1_048_576.0),
            response_ms: self.response.distribution(),
            service_ms: self.service.distribution(),
            deadline_requests: self.deadline_requests,
            deadline_misses: self.deadline_misses,
            disk_time_share: per_second(self.disk_time.as_secs_f64()),
        }
    }
}

impl Default for StreamMeasures {
    fn default() -> Self {
        Self {
            requests: 0,
            failed: 0,
            bytes: 0,
            deadline_requests: 0,
            deadline_misses: 0,
            disk_time: Nanos::ZERO,
            seconds: 0.0,
            response: TimeHistogram::new(),
            service: TimeHistogram::new(),
        }
    }
}
