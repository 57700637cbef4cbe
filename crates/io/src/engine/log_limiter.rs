//! The rate limit of log messages about a failing drive.
//!
//! A broken drive fails requests as fast as they are sent, about ten thousand a second. The first
//! few failures of each second are logged and the others are counted. The next logged failure is
//! preceded by their number, and the drive's snapshot counts all of them. Each change in the trust
//! in the drive model is logged.

use headtime_sched::BeliefReport;
use headtime_units::{Instant, Nanos};

/// The maximum number of failed requests logged in a second.
const SAID: u32 = 10;
const SECOND: Nanos = Nanos::from_secs(1);

/// Limits the log messages about failed requests.
#[derive(Debug, Default)]
pub(super) struct LogLimiter {
    /// The start of the second, and the messages logged in it.
    since: Option<Instant>,
    said: u32,
    /// The number of suppressed messages.
    suppressed: u64,
}

/// The permission to log a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// The number of messages suppressed in earlier seconds.
    pub(super) suppressed: u64,
    /// This is the last message of this second.
    pub(super) last: bool,
}

impl LogLimiter {
    /// Permits logging a failure at `now`; `None` suppresses and counts it.
    pub(super) fn allow(&mut self, now: Instant) -> Option<Allowed> {
        if self.since.is_none_or(|since| now.saturating_since(since) >= SECOND) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said == SAID {
            self.suppressed += 1;
            return None;
        }
        self.said += 1;
        Some(Allowed { suppressed: std::mem::take(&mut self.suppressed), last: self.said == SAID })
    }
}

/// Detects when a drive model loses or regains trust.
#[derive(Debug, Default)]
pub(super) struct TrustLog {
    looked: Option<Instant>,
    mistrusted: bool,
}

impl TrustLog {
    /// Returns true once a second, because the check needs a report.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| now.saturating_since(looked) >= SECOND)
    }

    /// The change, as a log message.
    pub(super) fn check(&mut self, now: Instant, report: &BeliefReport) -> Option<String> {
        self.looked = Some(now);
        if report.mistrusted == self.mistrusted {
            return None;
        }
        self.mistrusted = report.mistrusted;
        let wrong = report.error_rms_us.map_or(String::new(), |us| {
            format!(" (wrong by {us:.0} us rms after {} completions)", report.samples)
        });
        Some(if self.mistrusted {
            format!(
                "the predicted head position is no better than chance{wrong}: the profile or map \
                    belongs to another drive, or another client uses this one. Requests are \
                    ordered by distance and scans do not use gaps until the prediction holds \
                    again; if it does not, characterize the drive (headtime characterize)"
            )
        } else {
            format!(
                "the predicted head position holds again{wrong}: requests are ordered by it, and \
                    scans may use gaps"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_of_failures_ten_a_second_are_said_and_the_others_counted() {
        let mut log_limiter = LogLimiter::default();
        let mut hear = |ms: u64| log_limiter.allow(Instant::ORIGIN + Nanos::from_ms(ms));
        let said: Vec<_> = (0..2_000).filter_map(&mut hear).collect();
        assert_eq!(said.len(), 20, "two seconds");
        assert_eq!(
            said.iter().map(|said| said.suppressed).collect::<Vec<_>>(),
            [[0; 10], [990, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        assert!(said[9].last && said[19].last && said.iter().filter(|said| said.last).count() == 2);
        assert_eq!(hear(60_000), Some(Allowed { suppressed: 990, last: false }));
        assert_eq!(
            hear(62_000),
            Some(Allowed { suppressed: 0, last: false }),
            "occasional failures are always logged"
        );
    }

    #[test]
    fn loss_and_return_of_trust_are_said_once_each() {
        let mut trust = TrustLog::default();
        let mut check = |second: u64, mistrusted: bool| {
            let report = BeliefReport {
                mistrusted,
                samples: 500,
                error_rms_us: Some(1_234.5),
                ..BeliefReport::default()
            };
            trust.check(Instant::ORIGIN + Nanos::from_secs(second), &report)
        };
        assert_eq!(check(1, false), None, "a belief is trusted at first");
        let lost = check(2, true).expect("it has changed");
        assert!(
            lost.contains("no better than chance (wrong by 1234 us rms after 500 completions)")
                && lost.contains("headtime characterize"),
            "{lost}"
        );
        assert_eq!(check(3, true), None);
        assert!(check(4, false).expect("it has changed").contains("holds again"));
        assert!(
            !trust.is_due(Instant::ORIGIN + Nanos::from_ms(4_999))
                && trust.is_due(Instant::ORIGIN + Nanos::from_secs(5))
        );
    }
}
