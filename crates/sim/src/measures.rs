//! [`Measures`]: the results of a run, and the [`Meter`] that collects them.
//!
//! The measurement window starts after the warm-up requests, or at a time. It ends after a number
//! of requests, at a time, or when the source ends. Means and maxima are exact; percentiles have
//! three digits. `queue_depth_mean` is the time average of requests held, queued and at the drive;
//! by Little's law it is the rate times the mean response. Streams are measured on request
//! ([`Meter::by_stream`]).

use headtime_sched::{Finished, Outcome, Request};
use headtime_units::{Instant, Nanos, SectorSize};
use serde::Serialize;

use crate::confidence::BatchMeans;
use crate::engine::EngineObserver;
use crate::scan_measures::ScanMeasures;
use crate::stream_measures::StreamMeasures;
use crate::times::TimeHistogram;
use headtime_mechanics::DiskTime;

/// The results of a run. As JSON it is the object that `headtime sim --json` prints: milliseconds,
/// seconds, and fractions of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// The policy's name.
    pub policy: String,
    /// The profile's name.
    pub drive: String,
    /// The seed of drive, noise and workload.
    pub seed: u64,
    /// Requests that succeeded within the window.
    pub requests: u64,
    /// Length of the window.
    pub simulated_seconds: f64,
    /// Wall-clock time of the run, filled in by the caller. All else is the same on every machine.
    pub wall_seconds: Option<f64>,
    /// Requests per second.
    pub iops: f64,
    /// Bytes read and written, in MiB per second.
    pub mib_per_second: f64,
    /// Submission to completion.
    pub response_ms: Distribution,
    /// Dispatch to completion.
    pub service_ms: Distribution,
    /// Requests held on average.
    pub queue_depth_mean: f64,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Of those, the ones that completed after it.
    pub deadline_misses: u64,
    /// The drive's time by activity.
    pub disk_time: DiskTime,
    /// The results of scans; `None` without a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<ScanMeasures>,
    /// Requests that failed; they are not counted elsewhere.
    #[serde(skip)]
    pub failed: u64,
    /// The confidence of the means.
    #[serde(skip)]
    pub confidence: Confidence,
    /// The results by stream number; empty unless requested.
    #[serde(skip)]
    pub streams: Vec<StreamMeasures>,
}

/// A distribution of times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Exact.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95 % are no longer.
    pub p95: f64,
    /// 99 % are no longer.
    pub p99: f64,
    /// 99.9 % are no longer.
    pub p999: f64,
    /// Exact.
    pub max: f64,
}

/// Half-widths of 95 % intervals, by [`BatchMeans`]; `None` for runs too short to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Confidence {
    /// Of the mean response in milliseconds.
    pub response_ms: Option<f64>,
    /// Of the mean service in milliseconds.
    pub service_ms: Option<f64>,
    /// Of the requests per second.
    pub iops: Option<f64>,
}

/// An [`EngineObserver`] that collects [`Measures`].
pub struct Meter {
    /// Requests that finish before the window starts; `None` if it starts at a time.
    warm_up: Option<u64>,
    /// Requests still to be measured.
    remaining: u64,
    by_stream: bool,
    sector: SectorSize,
    finished: u64,
    window: Option<Window>,
    held: u64,
}

/// The measurements of the window.
struct Window {
    from: Instant,
    until: Instant,
    /// Requests held times the time since `from`, in request-nanoseconds.
    held_time: u128,
    held_since: Instant,
    counted: u64,
    failed: u64,
    bytes: u64,
    response: TimeHistogram,
    response_batches: BatchMeans,
    service: TimeHistogram,
    service_batches: BatchMeans,
    gaps: BatchMeans,
    deadline_requests: u64,
    deadline_misses: u64,
    /// By stream number; streams without a finished request may be missing at the end.
    streams: Vec<StreamMeasures>,
}

impl Meter {
    /// Measures `requests` requests after the first `warm_up`, on a drive with sectors of this
    /// size.
    #[must_use]
    pub fn new(warm_up: u64, requests: u64, sector: SectorSize) -> Self {
        let window = (warm_up == 0).then(|| Window::new(Instant::ORIGIN));
        Self {
            warm_up: Some(warm_up),
            remaining: requests,
            by_stream: false,
            sector,
            finished: 0,
            window,
            held: 0,
        }
    }

    /// Starts the window with [`Meter::begin`] instead.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { warm_up: None, window: None, ..self }
    }

    /// Measures each stream as well. Streams from number [`StreamMeasures::MAX_STREAMS`] on count
    /// in the total only.
    #[must_use]
    pub fn by_stream(self) -> Self {
        Self { by_stream: true, ..self }
    }

    /// Starts the window at `from`, unless it has started. No later event may have been reported
    /// before.
    pub fn begin(&mut self, from: Instant) {
        self.window.get_or_insert_with(|| Window::new(from));
    }

    /// True if all requests have been measured.
    #[must_use]
    pub fn full(&self) -> bool {
        self.remaining == 0
    }

    /// True after the warm-up.
    #[must_use]
    pub fn warm(&self) -> bool {
        self.window.is_some()
    }

    /// The results of the window that ends at `end`. `disk_time` is the drive's over the same
    /// window, `charged` the disk time charged to each stream.
    #[must_use]
    pub fn measures(
        mut self,
        end: Instant,
        policy: &str,
        drive: &str,
        seed: u64,
        disk_time: DiskTime,
        charged: &[Nanos],
    ) -> Measures {
        let mut window = self.window.take().unwrap_or_else(|| Window::new(end));
        window.held_until(end, self.held);
        let seconds = end.saturating_since(window.from).as_secs_f64();
        let per_second = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let iops = per_second(window.counted as f64);
        let gap = window.gaps.mean().filter(|gap| *gap > 0.0);
        let iops_half_width =
            window.gaps.half_width().zip(gap).map(|(half_width, gap)| iops * half_width / gap);
        if self.by_stream && window.streams.len() < charged.len() {
            window.streams.resize_with(charged.len(), StreamMeasures::default);
        }
        for (number, stream) in window.streams.iter_mut().enumerate() {
            stream.close(seconds, charged.get(number).copied().unwrap_or_default());
        }
        Measures {
            policy: policy.to_owned(),
            drive: drive.to_owned(),
            seed,
            requests: window.counted,
            simulated_seconds: seconds,
            wall_seconds: None,
            iops,
            mib_per_second: per_second(window.bytes as f64 / 1_048_576.0),
            response_ms: window.response.distribution(),
            service_ms: window.service.distribution(),
            queue_depth_mean: per_second(window.held_time as f64 / 1e9),
            deadline_requests: window.deadline_requests,
            deadline_misses: window.deadline_misses,
            disk_time,
            scan: None,
            failed: window.failed,
            confidence: Confidence {
                response_ms: window.response_batches.half_width(),
                service_ms: window.service_batches.half_width(),
                iops: iops_half_width,
            },
            streams: window.streams,
        }
    }
}

impl EngineObserver for Meter {
    fn submitted(&mut self, now: Instant, _request: &Request) {
        if let Some(window) = &mut self.window {
            window.held_until(now, self.held);
        }
        self.held += 1;
    }

    fn finished(&mut self, now: Instant, finished: &Finished) {
        self.finished += 1;
        if let Some(window) = &mut self.window
            && self.remaining > 0
        {
            self.remaining -= 1;
            window.held_until(now, self.held);
            window.count(now, finished, self.sector);
            if self.by_stream {
                window.count_stream(finished, self.sector);
            }
        }
        self.held -= 1;
        if self.window.is_none() && self.warm_up == Some(self.finished) {
            self.window = Some(Window::new(now));
        }
    }

    fn cancelled(
        &mut self,
        now: Instant,
        _id: headtime_sched::RequestId,
        _cancelled: headtime_sched::Cancelled,
    ) {
        if let Some(window) = &mut self.window {
            window.held_until(now, self.held);
        }
        self.held -= 1;
    }
}

impl Window {
    fn new(from: Instant) -> Self {
        Self {
            from,
            until: from,
            held_time: 0,
            held_since: from,
            counted: 0,
            failed: 0,
            bytes: 0,
            response: TimeHistogram::new(),
            response_batches: BatchMeans::default(),
            service: TimeHistogram::new(),
            service_batches: BatchMeans::default(),
            gaps: BatchMeans::default(),
            deadline_requests: 0,
            deadline_misses: 0,
            streams: Vec::new(),
        }
    }

    /// Accounts for `held` requests until now.
    fn held_until(&mut self, now: Instant, held: u64) {
        self.held_time +=
            u128::from(now.saturating_since(self.held_since).as_ns()) * u128::from(held);
        self.held_since = now;
    }

    fn count(&mut self, now: Instant, finished: &Finished, sector: SectorSize) {
        if finished.outcome != Outcome::Success {
            self.failed += 1;
            return;
        }
        self.gaps.push(now.saturating_since(self.until).as_ns() as f64);
        self.until = now;
        self.counted += 1;
        if finished.request.op.moves_head() {
            self.bytes += sector.bytes_of(finished.request.extent.len);
        }
        let (response, service) = (finished.response(), finished.service());
        self.response.record(response);
        self.response_batches.push(response.as_ms_f64());
        self.service.record(service);
        self.service_batches.push(service.as_ms_f64());
        self.deadline_requests += u64::from(finished.request.deadline.is_some());
        self.deadline_misses += u64::from(finished.missed());
    }

    fn count_stream(&mut self, finished: &Finished, sector: SectorSize) {
        let number = finished.request.volume.0 as usize;
        if number >= StreamMeasures::MAX_STREAMS {
            return;
        }
        if number >= self.streams.len() {
            self.streams.resize_with(number + 1, StreamMeasures::default);
        }
        self.streams[number].count(finished, sector);
    }
}
