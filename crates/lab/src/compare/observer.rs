//! [`Observer`]: what a comparison wants to know of a run beyond its [`headtime_sim::Measures`]:
//! whether it was steady, whether the queue grew, and the whole distribution of response times.

use hdrhistogram::Histogram;
use headtime_sched::{Cancelled, Finished, Outcome as Result, Request, RequestId};
use headtime_sim::{BatchMeans, EngineObserver, Measures};
use headtime_units::{Instant, Nanos};

use super::outcome::{Half, rounded, share, steps};

/// The part of a run that is measured.
#[derive(Clone, Copy)]
pub(super) enum Window {
    /// So many requests after the first.
    Requests { warm_up: u64, count: u64 },
    /// A time after the first.
    Time { warm_up: Nanos, length: Nanos },
}

impl Window {
    /// The requests until its end, or the milliseconds.
    pub(super) fn end(self) -> u64 {
        match self {
            Self::Requests { warm_up, count } => warm_up + count,
            Self::Time { warm_up, length } => (warm_up + length).as_ns() / 1_000_000,
        }
    }

    /// The requests before it, or the milliseconds.
    fn begin(self) -> u64 {
        match self {
            Self::Requests { warm_up, .. } => warm_up,
            Self::Time { warm_up, .. } => warm_up.as_ns() / 1_000_000,
        }
    }

    /// Returns whether all of it was measured.
    pub(super) fn is_over(self, measures: &Measures) -> bool {
        match self {
            Self::Requests { count, .. } => measures.requests + measures.failed >= count,
            Self::Time { length, .. } => measures.simulated_seconds >= length.as_secs_f64(),
        }
    }

    /// The half, 0 or 1, in which the `number`th request finishes, at `now`; `None` outside.
    fn half(self, number: u64, now: Instant) -> Option<usize> {
        let (from, place, length) = match self {
            Self::Requests { warm_up, count } => (warm_up + 1, number, count),
            Self::Time { warm_up, length } => {
                (warm_up.as_ns(), now.saturating_since(Instant::ORIGIN).as_ns(), length.as_ns())
            }
        };
        let after = place.checked_sub(from).filter(|after| *after < length)?;
        Some(usize::from(after >= length / 2))
    }
}

/// Watches one run; its window is that of the [`headtime_sim::Meter`] beside it.
pub(super) struct Observer<'a> {
    window: Window,
    finished: u64,
    /// The requests finished, or the milliseconds, at the last call of `tell`.
    reported: u64,
    held: i64,
    /// The requests held when the window began, once it has.
    held_at_first: Option<i64>,
    /// The completion of the last measured request, or the start of the window.
    until: Instant,
    halves: [HalfMeans; 2],
    responses: Histogram<u64>,
    longest: Nanos,
    /// Called for every few hundred finished requests, or milliseconds.
    tell: &'a dyn Fn(u64),
}

#[derive(Default)]
struct HalfMeans {
    response: BatchMeans,
    gaps: BatchMeans,
}

impl<'a> Observer<'a> {
    /// Watches a run, and tells `tell` of each [`TOLD_EVERY`] requests or milliseconds.
    pub(super) fn new(window: Window, tell: &'a dyn Fn(u64)) -> Self {
        let responses = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 3)
            .expect("the bounds are those the library takes");
        let (until, halves, longest) = (Instant::ORIGIN, Default::default(), Nanos::ZERO);
        // Without a warm-up, counting begins at once.
        let held_at_first = (window.begin() == 0).then_some(0);
        Self {
            window,
            finished: 0,
            reported: 0,
            held: 0,
            held_at_first,
            until,
            halves,
            responses,
            longest,
            tell,
        }
    }

    /// Requests held more than when counting began.
    pub(super) fn backlog_growth(&self) -> i64 {
        self.held_at_first.map_or(0, |first| self.held - first)
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
        let done = match self.window {
            Window::Requests { .. } => self.finished,
            Window::Time { .. } => now.saturating_since(Instant::ORIGIN).as_ns() / 1_000_000,
        };
        if done >= self.reported + TOLD_EVERY {
            (self.tell)(done - self.reported);
            self.reported = done;
        }
        if let Some(half) = self.window.half(self.finished, now)
            && finished.outcome == Result::Success
        {
            self.halves[half].response.push(finished.response().as_ms_f64());
            self.halves[half].gaps.push(now.saturating_since(self.until).as_ns() as f64);
            self.responses.saturating_record(finished.response().as_ns());
            self.longest = self.longest.max(finished.response());
            self.until = now;
        }
        let begins = match self.window {
            Window::Requests { warm_up, .. } => self.finished == warm_up,
            Window::Time { .. } => self.held_at_first.is_none() && done >= self.window.begin(),
        };
        if begins {
            (self.until, self.held_at_first) = (now, Some(self.held));
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
