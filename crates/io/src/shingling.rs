//! The warning that a drive records in shingles and hides it.

use std::collections::BTreeMap;

use headtime_sched::StallCounts;
use headtime_units::{Instant, Nanos};

/// The warnings of drives whose writes stall as those of shingled drives do, each with its number.
/// `counts` are by arm. The arms of an array are its `members`; a drive without members has all of
/// them.
pub(crate) fn warnings(counts: &[StallCounts], members: &[String]) -> Vec<(usize, String)> {
    let suspected = counts.iter().enumerate().filter(|(_, counts)| counts.suggest_shingling());
    if members.is_empty() {
        return suspected.take(1).map(|(_, counts)| (0, warning("the drive", counts))).collect();
    }
    let name = |number: usize| members.get(number).map_or("a member", String::as_str);
    suspected.map(|(number, counts)| (number, warning(name(number), counts))).collect()
}

fn warning(drive: &str, counts: &StallCounts) -> String {
    let StallCounts { writes, write_stalls, minutes, longest, reads, read_stalls } = *counts;
    format!(
        "{drive} seems to record in shingles (drive-managed SMR): {write_stalls} of {writes} \
            random writes in the last 10 minutes, in {minutes} of them, took up to {:.1} s longer \
            than predicted, and {read_stalls} of {reads} reads; predicted times and deadlines do \
            not hold for writes, and scans take longer. Look up the model that `lsblk -o \
            NAME,MODEL,ZONED` or `smartctl -i` shows, and keep volumes with deadlines on \
            conventional (CMR) drives; here, write long sequential runs",
        longest.as_secs_f64()
    )
}

/// Decides when a warning is logged: when it appears, but at most once an hour for each drive.
#[derive(Debug, Default)]
pub(crate) struct ShinglingLog {
    suspected: Vec<usize>,
    /// The time of the last warning of a drive.
    logged: BTreeMap<usize, Instant>,
}

impl ShinglingLog {
    /// Returns the warnings that are to be logged now.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        counts: &[StallCounts],
        members: &[String],
    ) -> Vec<String> {
        let warnings = warnings(counts, members);
        let numbers = warnings.iter().map(|(number, _)| *number).collect();
        let before = std::mem::replace(&mut self.suspected, numbers);
        let appear = warnings.into_iter().filter(|(number, _)| !before.contains(number));
        let is_due = |at: Option<Instant>| at.is_none_or(|at| now.saturating_since(at) >= HOUR);
        let due = appear.filter(|(number, _)| is_due(self.logged.get(number).copied()));
        let due: Vec<_> = due.collect();
        self.logged.extend(due.iter().map(|(number, _)| (*number, now)));
        due.into_iter().map(|(_, warning)| warning).collect()
    }
}

const HOUR: Nanos = Nanos::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: StallCounts = StallCounts {
        writes: 1_204,
        write_stalls: 0,
        minutes: 0,
        longest: Nanos::ZERO,
        reads: 532,
        read_stalls: 0,
    };
    const STALLS: StallCounts =
        StallCounts { write_stalls: 37, minutes: 8, longest: Nanos::from_ms(2_140), ..QUIET };

    #[test]
    fn the_warning_names_what_was_seen_and_is_logged_when_it_appears() {
        assert_eq!(warnings(&[QUIET], &[]), []);
        // Two arms of one drive.
        let both = warnings(&[STALLS, STALLS], &[]);
        let [(0, text)] = &both[..] else { panic!("{both:?}") };
        assert!(
            text.starts_with("the drive seems to")
                && text.contains(
                    "37 of 1204 random writes in the last 10 minutes, in 8 of them, took up to 2.1 \
                        s longer than predicted, and 0 of 532 reads"
                ),
            "{text}"
        );
        assert!(text.contains("deadlines do not hold") && text.contains("CMR"), "{text}");
        let mut log = ShinglingLog::default();
        let mut logged = |minute: u64, counts: StallCounts| {
            log.check(Instant::ORIGIN + Nanos::from_secs(60 * minute), &[counts], &[]).len()
        };
        let at = [(1, QUIET), (5, STALLS), (6, STALLS), (20, QUIET), (30, STALLS)];
        assert_eq!(at.map(|(minute, counts)| logged(minute, counts)), [0, 1, 0, 0, 0]);
        assert_eq!([logged(70, QUIET), logged(80, STALLS)], [0, 1], "an hour later again");
    }

    #[test]
    fn the_warning_names_the_member_of_an_array() {
        let members = ["member 1 of 3, a", "member 2 of 3, b", "member 3 of 3, c"];
        let members = members.map(str::to_owned);
        let mut log = ShinglingLog::default();
        let at = |second| Instant::ORIGIN + Nanos::from_secs(second);
        let first = log.check(at(1), &[QUIET, STALLS], &members);
        assert_eq!(first.len(), 1);
        assert!(first[0].starts_with("member 2 of 3, b seems to record in shingles"), "{first:?}");
        let second = log.check(at(2), &[QUIET, STALLS, STALLS], &members);
        assert_eq!(second.len(), 1, "the second was logged already");
        assert!(second[0].starts_with("member 3 of 3, c seems"), "{second:?}");
    }
}
