//! [`Limits`]: the end of a stream, by time, requests or bytes.

use headtime_units::{Instant, Nanos, SectorSize, Sectors};

use crate::config::StreamConfig;

/// The limits of one stream and what remains of them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    stop: Instant,
    requests_left: u64,
    /// Negative after the request that exceeds the limit.
    bytes_left: i128,
    deadline: Option<Nanos>,
    sector: SectorSize,
}

impl Limits {
    pub(crate) fn new(config: &StreamConfig, sector: SectorSize) -> Self {
        Self {
            stop: config.stop.map_or(Instant::NEVER, |stop| Instant::ORIGIN + stop),
            requests_left: config.requests.unwrap_or(u64::MAX),
            bytes_left: config.bytes.map_or(i128::MAX, i128::from),
            deadline: config.deadline,
            sector,
        }
    }

    /// Returns true if a request may arrive at `at`.
    pub(crate) fn allow(&self, at: Instant) -> bool {
        at < self.stop && self.requests_left > 0 && self.bytes_left > 0
    }

    /// Counts a request.
    pub(crate) fn charge(&mut self, len: Sectors) {
        self.requests_left -= 1;
        self.bytes_left -= i128::from(self.sector.bytes_of(len));
    }

    /// The absolute deadline of a request that arrives at `at`.
    pub(crate) fn deadline(&self, at: Instant) -> Option<Instant> {
        self.deadline.map(|span| at + span)
    }
}
