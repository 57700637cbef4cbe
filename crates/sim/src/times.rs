//! [`TimeHistogram`]: durations and their [`Distribution`].

use hdrhistogram::Histogram;
use headtime_units::Nanos;

use crate::measures::Distribution;

/// The shortest duration that percentiles resolve.
const MIN_NS: u64 = 1_000;
/// The longest duration that percentiles resolve: one day.
const MAX_NS: u64 = 86_400_000_000_000;

/// Durations with exact mean and maximum, and percentiles of three digits. It allocates a quarter
/// of a MiB at the start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimeHistogram {
    histogram: Histogram<u64>,
    sum: u128,
    max: Nanos,
}

impl TimeHistogram {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(MIN_NS, MAX_NS, 3)
            .expect("the bounds are those the library takes");
        Self { histogram, sum: 0, max: Nanos::ZERO }
    }

    pub(crate) fn record(&mut self, time: Nanos) {
        self.histogram.saturating_record(time.as_ns());
        self.sum += u128::from(time.as_ns());
        self.max = self.max.max(time);
    }

    /// Adds the other histogram.
    pub(crate) fn join(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn distribution(&self) -> Distribution {
        if self.histogram.is_empty() {
            return Distribution::default();
        }
        // A bucket's upper end may exceed the largest value in it.
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
