//! The lateness of the reported completions of an emulated drive against the times of its model.

use hdrhistogram::Histogram;
use headtime_units::{Instant, Nanos};

/// Percentiles of lateness over the life of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatenessSummary {
    /// The number of completions. Completions with late bytes are counted elsewhere.
    pub completions: u64,
    /// Half of them were reported at most this late.
    pub p50: Nanos,
    /// 99 of 100 were reported at most this late.
    pub p99: Nanos,
    /// 999 of 1,000 were reported at most this late.
    pub p999: Nanos,
    /// The latest one.
    pub max: Nanos,
}

/// Collects lateness: the time a completion is handed to its owner, less the model's time for it.
#[derive(Debug)]
pub(crate) struct Lateness {
    histogram: Histogram<u64>,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_max(HIGHEST_NS, 3)
            .expect("3 digits up to a minute is a size that a histogram can have");
        Self { histogram }
    }

    /// Records a completion. The model's time is never in the future when a completion is reported.
    pub(crate) fn record(&mut self, due: Instant, reported: Instant) {
        self.histogram.saturating_record(reported.saturating_since(due).as_ns());
    }

    pub(crate) fn summary(&self) -> LatenessSummary {
        let quantile = |quantile| Nanos::from_ns(self.histogram.value_at_quantile(quantile));
        LatenessSummary {
            completions: self.histogram.len(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: Nanos::from_ns(self.histogram.max()),
        }
    }
}

/// A minute; what is later counts as a minute.
const HIGHEST_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.summary(), LatenessSummary::default());
        let due = Instant::from_ns(1_000);
        for us in 1..=100 {
            lateness.record(due, due + Nanos::from_us(us));
        }
        let summary = lateness.summary();
        assert_eq!(summary.completions, 100);
        assert!((49_900..=50_100).contains(&summary.p50.as_ns()), "{summary:?}");
        assert!((98_900..=99_200).contains(&summary.p99.as_ns()), "{summary:?}");
        lateness.record(due, Instant::NEVER);
        assert!(lateness.summary().max >= Nanos::from_secs(59));
    }
}
