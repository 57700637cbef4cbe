//! [`CellOutcome`]: the results of one run, as stored in its cell's file.
//!
//! Figures are rounded to six digits at the end of the run. This is more than their precision, and
//! a file reads back exactly as written.

use headtime_sim::{Distribution, Measures, StreamMeasures};
use serde::{Deserialize, Serialize};

use headtime_console::figures::{DiskTimeShares, Times};

/// The results of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellOutcome {
    /// The end of the run.
    pub ended: CellEnd,
    /// The growth of the queue from the start of measuring to the end of the run; large for an
    /// overloaded drive.
    #[serde(rename = "fell_behind")]
    pub backlog_growth: i64,
    /// Length of the window in which requests were counted.
    pub simulated_seconds: f64,
    /// Requests held on average, queued and at the drive.
    pub queue_depth_mean: f64,
    /// The shares of the drive's time by activity.
    pub disk_time: DiskTimeShares,
    /// The first and the second half of the requests, each by itself; `None` when there are too few
    /// to tell.
    pub halves: Option<[Half; 2]>,
    /// All requests together.
    pub total: Figures,
    /// Each stream of the workload, in its order.
    pub streams: Vec<StreamOutcome>,
    /// Response times within which the shares 1 − 10^(−k/10), k = 0, 1, 2 …, of the requests ended:
    /// ten to each nine, as many as the number of requests can tell.
    pub response_ms_by_share: Vec<f64>,
    /// MB per second that a background scan read; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan_mb_per_second: Option<f64>,
    /// The reliability of the run at equal load; `None` if there is none. Cells are stored without.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub equal_load_status: Option<CellStatus>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellEnd {
    /// All requests that were to be counted were.
    Full,
    /// The workload had no more requests.
    Drained,
    /// More requests were held than the limit allows.
    QueueFull,
}

/// Figures of requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests that ended well within the window.
    pub requests: u64,
    /// Requests that ended in an error; they are not in other figures.
    pub failed_requests: u64,
    /// Requests a second.
    pub iops: f64,
    /// Half the width of its 95 % interval by batch means of this run; `None` when the run is too
    /// short to tell.
    pub iops_half_width_95: Option<f64>,
    /// Bytes read and written, in MiB a second.
    pub mib_per_second: f64,
    /// Submission to completion.
    pub response_ms: Times,
    /// As `iops_half_width_95`, of the mean response.
    pub response_ms_mean_half_width_95: Option<f64>,
    /// Dispatch to completion.
    pub service_ms: Times,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Of those, the ones that completed after it.
    pub deadline_misses: u64,
    /// Disk time charged to a stream, as a share of the window; `None` for the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_time_share: Option<f64>,
    /// The rate ÷ the rate of the same stream alone; of a whole run only if it has one stream.
    /// This and the following figures depend on other runs, and cells are stored without them.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// The sum of the progress of all streams of a run.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub progress_sum: Option<f64>,
    /// The harmonic mean of the progress of all streams of a run.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub progress_harmonic_mean: Option<f64>,
    /// The figures at equal load; `None` if the run was overloaded.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub equal_load: Option<EqualLoad>,
}

/// Figures of requests of one kind at the load that all policies of a case get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EqualLoad {
    /// Requests a second.
    pub iops: f64,
    /// Mean response.
    pub response_ms_mean: f64,
    /// 99 % are no longer.
    pub response_ms_p99: f64,
}

/// One stream of the workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// Its name.
    pub name: String,
    /// The class it is summed with.
    pub class: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The mean response and rate of one half of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Half {
    /// Requests a second.
    pub iops: f64,
    /// Half the width of its 95 % interval.
    pub iops_half_width_95: f64,
    /// Mean response.
    pub response_ms_mean: f64,
    /// Half the width of its 95 % interval.
    pub response_ms_mean_half_width_95: f64,
}

/// The reliability of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStatus {
    /// Nothing.
    Fine,
    /// Its halves differ by more than both intervals: the warm-up is too short, or the load
    /// changes.
    NotSteady,
    /// The drive does not keep up: the queue reached its limit, or grew all the time.
    Overloaded,
    /// Nothing was counted: the workload ended within the warm-up.
    Empty,
    /// The run could not be made.
    Failed,
}

impl CellOutcome {
    /// The reliability of the run.
    pub fn status(&self) -> CellStatus {
        if self.ended == CellEnd::QueueFull || self.is_overloaded() {
            CellStatus::Overloaded
        } else if self.total.requests == 0 {
            CellStatus::Empty
        } else if self.halves.is_some_and(|[first, second]| first.differs(&second)) {
            CellStatus::NotSteady
        } else {
            CellStatus::Fine
        }
    }

    /// Returns true if requests arrived so much faster than they were served that the queue grew by
    /// more than a twentieth of them, beyond ordinary variation.
    fn is_overloaded(&self) -> bool {
        self.ended == CellEnd::Full
            && self.backlog_growth > MIN_BACKLOG_GROWTH.max((self.total.requests / 20) as i64)
    }
}

impl Half {
    /// Returns true if the intervals of the two do not overlap, in the rate or in the mean
    /// response.
    fn differs(&self, other: &Self) -> bool {
        (self.iops - other.iops).abs() > self.iops_half_width_95 + other.iops_half_width_95
            || (self.response_ms_mean - other.response_ms_mean).abs()
                > self.response_ms_mean_half_width_95 + other.response_ms_mean_half_width_95
    }
}

impl CellStatus {
    /// The word in files.
    pub fn written(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            other => other.word(),
        }
    }

    /// The word in tables; empty for [`CellStatus::Fine`].
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "",
            Self::NotSteady => "not steady",
            Self::Overloaded => "overloaded",
            Self::Empty => "nothing counted",
            Self::Failed => "failed",
        }
    }
}

impl Figures {
    /// The figures of a whole run.
    pub fn of_run(measures: &Measures) -> Self {
        Self {
            requests: measures.requests,
            failed_requests: measures.failed,
            iops: rounded(measures.iops),
            iops_half_width_95: measures.confidence.iops.map(rounded),
            mib_per_second: rounded(measures.mib_per_second),
            response_ms: times(measures.requests, &measures.response_ms),
            response_ms_mean_half_width_95: measures.confidence.response_ms.map(rounded),
            service_ms: times(measures.requests, &measures.service_ms),
            deadline_requests: measures.deadline_requests,
            deadline_misses: measures.deadline_misses,
            ..Self::default()
        }
    }

    /// The figures of one stream of a run; its means have no intervals, because batches are kept of
    /// the whole alone.
    pub fn of_stream(stream: &StreamMeasures) -> Self {
        let figures = stream.figures();
        Self {
            requests: figures.requests,
            failed_requests: figures.failed,
            iops: rounded(figures.iops),
            iops_half_width_95: None,
            mib_per_second: rounded(figures.mib_per_second),
            response_ms: times(figures.requests, &figures.response_ms),
            response_ms_mean_half_width_95: None,
            service_ms: times(figures.requests, &figures.service_ms),
            deadline_requests: figures.deadline_requests,
            deadline_misses: figures.deadline_misses,
            disk_time_share: Some(rounded(figures.disk_time_share)),
            ..Self::default()
        }
    }

    /// Misses as a share of the requests with a deadline; `None` when no request had one.
    pub fn miss_share(&self) -> Option<f64> {
        (self.deadline_requests > 0)
            .then(|| self.deadline_misses as f64 / self.deadline_requests as f64)
    }
}

fn times(count: u64, times: &Distribution) -> Times {
    Times {
        count,
        mean: rounded(times.mean),
        p50: rounded(times.p50),
        p95: rounded(times.p95),
        p99: rounded(times.p99),
        p999: rounded(times.p999),
        max: rounded(times.max),
    }
}

/// The shares of a drive's time by activity.
pub(super) fn shares(spent: &headtime_sim::DiskTime) -> DiskTimeShares {
    let total = spent.total().as_ns().max(1) as f64;
    let share = |part: headtime_units::Nanos| rounded(part.as_ns() as f64 / total);
    DiskTimeShares {
        seek: share(spent.seek),
        rotate: share(spent.rotate),
        transfer: share(spent.transfer),
        overhead: share(spent.overhead),
        idle: share(spent.idle),
        background: share(spent.background),
    }
}

/// The `step`-th of the shares at which response times are kept: ten to each "nine", so that tails
/// are as detailed as middles. 0, 0.21, 0.37 … 0.9 … 0.99 ….
pub(super) fn share(step: usize) -> f64 {
    1.0 - libm::pow(10.0, -nines(step))
}

/// The same share counted in nines: 1 for 90 %, 2 for 99 %.
pub(super) fn nines(step: usize) -> f64 {
    step as f64 / 10.0
}

/// Steps of [`share`] that so many requests can tell: ten of them lie beyond the last one.
pub(super) fn steps(requests: u64) -> usize {
    (0..=MAX_STEPS).take_while(|step| (1.0 - share(*step)) * requests as f64 >= 9.999).count()
}

/// A number with six significant digits.
pub(crate) fn rounded(value: f64) -> f64 {
    // A number written with six digits reads back as a number.
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// The last step: 99.99 %.
const MAX_STEPS: usize = 40;
/// A queue that grows by no more than this is not growing.
const MIN_BACKLOG_GROWTH: i64 = 64;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of 20,000 requests at so many a second.
    pub(crate) fn outcome(iops: f64) -> CellOutcome {
        let response_ms =
            Times { count: 20_000, mean: 2.0, p50: 1.0, p95: 4.0, p99: 8.0, p999: 9.0, max: 10.0 };
        CellOutcome {
            ended: CellEnd::Full,
            backlog_growth: 0,
            simulated_seconds: 20_000.0 / iops,
            queue_depth_mean: 4.0,
            disk_time: DiskTimeShares {
                seek: 0.5,
                rotate: 0.25,
                transfer: 0.25,
                ..DiskTimeShares::default()
            },
            halves: None,
            total: Figures {
                requests: 20_000,
                iops,
                response_ms,
                service_ms: response_ms,
                ..Figures::default()
            },
            streams: Vec::new(),
            scan_mb_per_second: None,
            equal_load_status: None,
            response_ms_by_share: (0..steps(20_000)).map(|step| 1.0 + step as f64).collect(),
        }
    }

    #[test]
    fn a_queue_that_swings_is_no_overload_and_one_that_grows_is() {
        let status = |ended, backlog_growth| {
            CellOutcome { ended, backlog_growth, ..outcome(100.0) }.status()
        };
        assert_eq!(
            (status(CellEnd::Full, 1_000), status(CellEnd::Full, 1_001)),
            (CellStatus::Fine, CellStatus::Overloaded)
        );
        assert_eq!(status(CellEnd::QueueFull, 0), CellStatus::Overloaded);
        assert_eq!(status(CellEnd::Drained, -3), CellStatus::Fine);
        let short = CellOutcome {
            backlog_growth: 64,
            total: Figures { requests: 300, ..Figures::default() },
            ..outcome(100.0)
        };
        assert_eq!(short.status(), CellStatus::Fine);
        assert_eq!(
            CellOutcome { total: Figures::default(), ..outcome(1.0) }.status(),
            CellStatus::Empty
        );
    }

    #[test]
    fn halves_whose_intervals_lie_apart_are_not_steady() {
        let half = |iops, response_ms_mean| Half {
            iops,
            iops_half_width_95: 1.0,
            response_ms_mean,
            response_ms_mean_half_width_95: 0.5,
        };
        let status = |second| {
            CellOutcome { halves: Some([half(100.0, 10.0), second]), ..outcome(100.0) }.status()
        };
        assert_eq!(status(half(102.0, 11.0)), CellStatus::Fine);
        assert_eq!(status(half(102.1, 11.0)), CellStatus::NotSteady);
        assert_eq!(status(half(100.0, 8.9)), CellStatus::NotSteady);
    }

    #[test]
    fn shares_follow_nines_as_far_as_the_requests_allow() {
        assert_eq!(
            (share(0), rounded(share(10)), rounded(share(20)), rounded(share(30))),
            (0.0, 0.9, 0.99, 0.999)
        );
        assert_eq!(
            (steps(0), steps(10), steps(1_000), steps(10_000), steps(1 << 40)),
            (0, 1, 21, 31, 41)
        );
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut before = outcome(345.678);
        before.total.iops_half_width_95 = Some(rounded(1.0 / 3.0));
        before.streams = vec![StreamOutcome {
            name: "scan".to_string(),
            class: "background".to_string(),
            figures: before.total,
        }];
        let text = serde_json::to_string(&before).expect("an outcome is JSON");
        let mut after: CellOutcome = serde_json::from_str(&text).expect("it was just written");
        // How many requests the times are of stands beside them.
        (after.total.response_ms.count, after.total.service_ms.count) = (20_000, 20_000);
        for stream in &mut after.streams {
            (stream.figures.response_ms.count, stream.figures.service_ms.count) = (20_000, 20_000);
        }
        assert_eq!(after, before);
        assert_eq!(
            [rounded(123_456.789), rounded(-0.000_123_456_7), rounded(0.0)],
            [123_457.0, -0.000_123_457, 0.0]
        );
    }
}
