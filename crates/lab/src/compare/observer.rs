//! [`Observer`]: what a comparison wants to know of a run beyond its [`headtime_sim::Measures`]:
//! whether it was steady, whether the queue grew, and the whole distribution of response times.

use hdrhistogram::Histogram;
use headtime_sched::{Cancelled, Finished, Outcome as Result, Request, RequestId};
use headtime_sim::{BatchMeans, EngineObserver};
use headtime_units::{Instant, Nanos};

use super::outcome::{Half, rounded, share, steps};

/// Watches one run; its window is that of the [`headtime_sim::Meter`] beside it.
pub(super) struct Observer<'a> {
    warm_up: u64,
    requests: u64,
    finished: u64,
    held: i64,
    held_at_first: i64,
    /// The completion of the last measured request, or the start of the window.
    until: Instant,
    halves: [HalfMeans; 2],
    responses: Histogram<u64>,
    longest: Nanos,
    /// Called for every few hundred finished requests.
    tell: &'a dyn Fn(u64),
}

#[derive(Default)]
struct HalfMeans {
    response: BatchMeans,
    gaps: BatchMeans,
}

impl<'a> Observer<'a> {
    /// Watches a run of `requests` after `warm_up`, and tells `tell` of each [`TOLD_EVERY`] of
    /// them.
    pub(super) fn new(warm_up: u64, requests: u64, tell: &'a dyn Fn(u64)) -> Self {
        let responses = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 3)
            .expect("the bounds are those the library takes");
        let (until, halves, longest) = (Instant::ORIGIN, Default::default(), Nanos::ZERO);
        Self {
            warm_up,
            requests,
            finished: 0,
            held: 0,
            held_at_first: 0,
            until,
            halves,
            responses,
            longest,
            tell,
        }
    }

    /// Requests held more than when counting began.
    pub(super) fn backlog_growth(&self) -> i64 {
        if self.finished < self.warm_up { 0 } else { self.held - self.held_at_first }
    }

    /// Both halves of the requests that were to be counted, when there were enough of each.
    pub(super) fn halves(&self) -> Option<[Half; 2]> {
        let [first, second] = &self.halves;
        Some([first.half()?, second.half()?])
    }

    /// Response times by [`share`], as many as the requests can tell.
    pub(super) fn response_ms_by_share(&self) -> Vec<f64> {
        let at = |step| {
            Nanos::from_ns(self.responses.value_at_quantile(share(step)))
                .min(self.longest)
                .as_ms_f64()
        };
        (0..steps(self.responses.len())).map(|step| rounded(at(step))).collect()
    }
}

impl EngineObserver for Observer<'_> {
    fn submitted(&mut self, _now: Instant, _request: &Request) {
        self.held += 1;
    }

    fn finished(&mut self, now: Instant, finished: &Finished) {
        self.finished += 1;
        self.held -= 1;
        if self.finished.is_multiple_of(TOLD_EVERY) {
            (self.tell)(TOLD_EVERY);
        }
        if self.finished > self.warm_up
            && self.finished <= self.warm_up + self.requests
            && finished.outcome == Result::Success
        {
            let half = usize::from((self.finished - self.warm_up) * 2 > self.requests);
            self.halves[half].response.push(finished.response().as_ms_f64());
            self.halves[half].gaps.push(now.saturating_since(self.until).as_ns() as f64);
            self.responses.saturating_record(finished.response().as_ns());
            self.longest = self.longest.max(finished.response());
            self.until = now;
        }
        if self.finished == self.warm_up {
            (self.until, self.held_at_first) = (now, self.held);
        }
    }

    fn cancelled(&mut self, _now: Instant, _id: RequestId, _cancelled: Cancelled) {
        self.held -= 1;
    }
}

impl HalfMeans {
    fn half(&self) -> Option<Half> {
        let gap = self.gaps.mean().filter(|gap| *gap > 0.0)?;
        let iops = 1e9 / gap;
        Some(Half {
            iops: rounded(iops),
            // To first order a rate is as unsure, in parts of itself, as the gap it is the inverse
            // of.
            iops_half_width_95: rounded(iops * self.gaps.half_width()? / gap),
            response_ms_mean: rounded(self.response.mean()?),
            response_ms_mean_half_width_95: rounded(self.response.half_width()?),
        })
    }
}

/// Requests between two signs of life.
pub(super) const TOLD_EVERY: u64 = 512;
/// The smallest response time of the histogram …
const SHORTEST_NS: u64 = 1_000;
/// … to a day, as the meter does.
const LONGEST_NS: u64 = 86_400_000_000_000;
