//! The one clock of the real-time engine: `CLOCK_MONOTONIC_RAW`, counted from an origin that all
//! drives of the process share.
//!
//! The raw clock is neither slewed nor stepped, so that a rotation period measured with it is the
//! spindle's and not the time server's.

use std::sync::OnceLock;

use headtime_units::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Reads the raw monotonic clock.
///
/// Instants of all `RealClock`s of one process can be compared; they mean nothing in another
/// process.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl RealClock {
    /// The time since the process first read this clock, plus one nanosecond, so that no reading
    /// equals [`Instant::ORIGIN`].
    #[must_use]
    pub fn now(self) -> Instant {
        static FIRST_READING_NS: OnceLock<u64> = OnceLock::new();
        let reading = raw_ns();
        let first = *FIRST_READING_NS.get_or_init(|| reading);
        // Another thread may have read a little earlier than the one that set the origin.
        Instant::from_ns(reading.saturating_sub(first) + 1)
    }
}

fn raw_ns() -> u64 {
    let reading = clock_gettime(ClockId::MonotonicRaw);
    // The raw clock counts from boot, so both parts are positive and fit for 584 years.
    reading.tv_sec as u64 * 1_000_000_000 + reading.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_runs_back() {
        let mut before = RealClock.now();
        for _ in 0..10_000 {
            let now = RealClock.now();
            assert!(now >= before && now > Instant::ORIGIN);
            before = now;
        }
    }
}
