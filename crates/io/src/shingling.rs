//! The warning that a drive records in shingles and hides it.

use headtime_sched::StallCounts;
use headtime_units::{Instant, Nanos};

/// The warning of a drive whose writes stall as those of shingled drives do; `None` if they do not.
pub(crate) fn warning(counts: &StallCounts) -> Option<String> {
    let StallCounts { writes, write_stalls, minutes, longest, reads, read_stalls } = *counts;
    counts.suggest_shingling().then(|| {
        format!(
            "the drive seems to record in shingles (drive-managed SMR): {write_stalls} of {writes} \
                random writes in the last 10 minutes, in {minutes} of them, took up to {:.1} s \
                longer than predicted, and {read_stalls} of {reads} reads; predicted times and \
                deadlines do not hold for writes, and scans take longer. Look up the model that \
                `lsblk -o NAME,MODEL,ZONED` or `smartctl -i` shows, and keep volumes with \
                deadlines on conventional (CMR) drives; here, write long sequential runs",
            longest.as_secs_f64()
        )
    })
}

/// Decides when the warning is logged: when it appears, but at most once an hour.
#[derive(Debug, Default)]
pub(crate) struct ShinglingLog {
    suspected: bool,
    logged: Option<Instant>,
}

impl ShinglingLog {
    /// Returns the warning if it is to be logged now.
    pub(crate) fn check(&mut self, now: Instant, counts: &StallCounts) -> Option<String> {
        let warning = warning(counts);
        let appears = warning.is_some() && !self.suspected;
        self.suspected = warning.is_some();
        let is_due = self.logged.is_none_or(|at| now.saturating_since(at) >= HOUR);
        let due = warning.filter(|_| appears && is_due)?;
        self.logged = Some(now);
        Some(due)
    }
}

const HOUR: Nanos = Nanos::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warning_names_what_was_seen_and_is_logged_when_it_appears() {
        let quiet = StallCounts { writes: 1_204, reads: 532, ..StallCounts::default() };
        let longest = Nanos::from_ms(2_140);
        let stalls = StallCounts { write_stalls: 37, minutes: 8, longest, ..quiet };
        assert_eq!(warning(&quiet), None);
        let text = warning(&stalls).expect("it is suspected");
        assert!(
            text.contains(
                "37 of 1204 random writes in the last 10 minutes, in 8 of them, took up to 2.1 s \
                    longer than predicted, and 0 of 532 reads"
            ),
            "{text}"
        );
        assert!(text.contains("deadlines do not hold") && text.contains("CMR"), "{text}");
        let mut log = ShinglingLog::default();
        let mut logged = |minute: u64, counts: &StallCounts| {
            log.check(Instant::ORIGIN + Nanos::from_secs(60 * minute), counts).is_some()
        };
        let at = [(1, &quiet), (5, &stalls), (6, &stalls), (20, &quiet), (30, &stalls)];
        assert_eq!(
            at.map(|(minute, counts)| logged(minute, counts)),
            [false, true, false, false, false]
        );
        assert!(!logged(70, &quiet) && logged(80, &stalls), "an hour later it is logged again");
    }
}
