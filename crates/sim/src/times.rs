//! [`TimeHistogram`]: many spans of time and their [`Distribution`].

use hdrhistogram::Histogram;
use headtime_units::Nanos;

use crate::measures::Distribution;

/// Percentiles tell times apart from a microsecond …
const SHORTEST_NS: u64 = 1_000;
/// … to a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// Many spans of time: mean and maximum exact, percentiles to three digits. A quarter of a MiB, all
/// of it taken at the start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeHistogram {
    histogram: Histogram<u64>,
    sum: u128,
    max: Nanos,
}

impl TimeHistogram {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 3)
            .expect("the bounds are those the library takes");
        Self { histogram, sum: 0, max: Nanos::ZERO }
    }

    pub(crate) fn record(&mut self, time: Nanos) {
        self.histogram.saturating_record(time.as_ns());
        self.sum += u128::from(time.as_ns());
        self.max = self.max.max(time);
    }

    /// Takes all of the other's in.
    pub(crate) fn join(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn distribution(&self) -> Distribution {
        if self.histogram.is_empty() {
            return Distribution::default();
        }
        // A bucket's upper end may lie above the largest value in it.
        let quantile = |quantile| {
            Nanos::from_ns(self.histogram.value_at_quantile(quantile)).min(self.max).as_ms_f64()
        };
        Distribution {
            mean: self.sum as f64 / self.histogram.len() as f64 / 1e6,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.max.as_ms_f64(),
        }
    }
}
