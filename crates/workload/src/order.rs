//! [`Order`]: the order of the requests of one client.

use rand::Rng;

use crate::check::Check;
use crate::dice;
use crate::error::StreamFault;

/// The order of the requests of one client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Each at an address of the stream's [`AddressPattern`](crate::AddressPattern).
    Random,
    /// Runs of consecutive requests, each starting at an address of the pattern; geometrically
    /// distributed with this mean number of requests, at least 1. A run ends early at the end of
    /// the range.
    Runs {
        /// Mean requests of a run.
        mean_requests: f64,
    },
    /// Runs of a fixed number of requests, at least 1 (P5: 1,024).
    FixedRuns {
        /// Requests of a run.
        requests: u64,
    },
    /// Runs of every number of requests from the least to the most with the same probability.
    UniformRuns {
        /// The minimum number of requests of a run, at least 1.
        min: u64,
        /// The maximum; not below the minimum.
        max: u64,
    },
    /// One run through the range and from its start again; clients start evenly spread over the
    /// range.
    Sequential,
    /// As [`Order::Sequential`], with a gap after each request.
    Strided {
        /// The gap in bytes, whole sectors.
        gap_bytes: u64,
    },
}

impl Order {
    pub(crate) fn check(&self, check: &Check) -> Result<(), StreamFault> {
        match *self {
            Self::Runs { mean_requests } if !(1.0..=1e12).contains(&mean_requests) => Err(check
                .value(
                    "mean run length",
                    mean_requests,
                    "1 to 10^12 requests",
                    "a mean of 1 is random",
                )),
            Self::FixedRuns { requests: 0 } | Self::UniformRuns { min: 0, .. } => {
                Err(check.value("run length", 0, "at least 1 request", "a run of 1 is random"))
            }
            Self::UniformRuns { min, max } if min > max => Err(check.value(
                "shortest run",
                min,
                alloc::format!("no more than the longest, {max}"),
                "exchange the two",
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if requests pass through the range from start to end.
    pub(crate) fn passes_the_range(&self) -> bool {
        matches!(self, Self::Sequential | Self::Strided { .. })
    }

    /// Requests of the next run.
    pub(crate) fn run_length(&self, rng: &mut impl Rng) -> u64 {
        match *self {
            Self::Random | Self::Sequential | Self::Strided { .. } => 1,
            Self::FixedRuns { requests } => requests,
            Self::UniformRuns { min, max } => min + dice::below(rng, (max - min).saturating_add(1)),
            Self::Runs { mean_requests } if mean_requests > 1.0 => {
                dice::geometric(rng, mean_requests)
            }
            Self::Runs { .. } => 1,
        }
    }
}
