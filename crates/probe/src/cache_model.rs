//! What the drive's cache may hold, from what was read lately: so that questions are put to sectors
//! that come from the media.
//!
//! A read that the cache answers tells nothing. Each read leaves a row in the cache: its sectors,
//! and those that the head read on behind them until the next command took it away, which is some
//! tens of sectors where commands follow each other at once. A read that lies a little further on,
//! less than the drive reads ahead, is not served by a new access: the head reads on up to it, and
//! the row becomes as long as that. Where a drive keeps whole tracks the row is the track. The rows
//! of the last so many reads may be held still; older ones are forgotten.
//!
//! This is presumed rather than known, and errs on the side of "held". Where it errs on the other
//! the response tells, as ever.

use crate::measurement::TimedCommand;
use crate::session::Session;

/// By what the time between commands is taken to be longer than it was seen, ns: the drive reads on
/// until it has understood the next command (guess).
const COMMAND_NS: f64 = 50_000.0;
/// By what share sectors may pass more densely than it was thought.
const SLACK: f64 = 1.1;
/// Sectors more than that time has room for.
const MORE: f64 = 2.0;

/// Sectors that the cache may hold in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    from: u64,
    end: u64,
}

/// The rows near some addresses, for questions that are put one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheModel {
    rows: Vec<Row>,
}

impl CacheModel {
    /// What may be held of the addresses from one up to but not including another, where so many
    /// sectors pass in a turn.
    pub(crate) fn near(session: &Session, from: u64, end: u64, density: f64) -> Self {
        if session.drive.hits.eviction_reads == 0 {
            return Self::default();
        }
        let ring = session.max_read_ahead();
        let around = if session.drive.hits.keeps_tracks { density as u64 + 1 } else { 0 };
        let mut rows: Vec<Row> = Vec::new();
        let mut before: Option<(TimedCommand, u64)> = None;
        for (answer, next) in session.recent() {
            let (start, last) = (answer.extent.start.get(), answer.extent.end().get());
            // Read on up to it from where the read before began.
            let row_from = match before {
                Some((earlier, row_from)) if is_read_ahead(&earlier, start, ring) => {
                    row_from.min(start)
                }
                _ => start,
            };
            before = Some((answer, row_from));
            if start > end.saturating_add(around) || last.saturating_add(ring + around) < from {
                continue;
            }
            let pause_ns =
                next.map_or(0.0, |next| next.saturating_since(answer.completed).as_ns() as f64);
            let ahead = ahead_in(session, pause_ns, density).min(ring);
            rows.push(Row { from: row_from.saturating_sub(around), end: last + ahead.max(around) });
        }
        Self { rows }
    }

    /// Sectors behind a read that are held where the next command follows at once.
    pub(crate) fn behind_one(session: &Session, density: f64) -> u64 {
        ahead_in(session, 0.0, density)
    }

    /// Whether it may be held.
    pub(crate) fn holds(&self, lba: u64) -> bool {
        self.rows.iter().any(|row| (row.from..row.end).contains(&lba))
    }
}

/// Sectors that the head may read on in a pause between two commands.
fn ahead_in(session: &Session, pause_ns: f64, density: f64) -> u64 {
    let command_ns = COMMAND_NS + session.drive.hits.hit_ns.unwrap_or(0.0);
    (MORE + SLACK * density * (pause_ns + command_ns) / session.drive.clock.period_ns().max(1.0))
        as u64
}

/// Whether a sector lies where the read-ahead behind a read comes to.
pub(crate) fn is_read_ahead(before: &TimedCommand, lba: u64, ring: u64) -> bool {
    let end = before.extent.end().get();
    (end..end + ring).contains(&lba)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::measurement::CommandOutcome;
    use crate::session::{CacheHits, DriveTiming};
    use headtime_units::{Extent, Instant};

    /// What may be held near 10,000 after reads, each with when it was issued and completed, us;
    /// 1,000 sectors pass in a turn of 6 ms.
    fn after(reads: &[(u64, u64, u64)], keeps_tracks: bool) -> CacheModel {
        let answer = |(lba, issued, completed): &(u64, u64, u64)| TimedCommand {
            extent: Extent::from_numbers(*lba, 1),
            issued: Instant::from_ns(issued * 1_000),
            completed: Instant::from_ns(completed * 1_000),
            outcome: CommandOutcome::Done,
        };
        let mut drive = DriveTiming {
            capacity: 1 << 30,
            clock: Clock::new(6e6, 1e3, Instant::ORIGIN),
            hits: CacheHits { eviction_reads: 8, keeps_tracks, ..CacheHits::default() },
            ..DriveTiming::default()
        };
        let answers: Vec<TimedCommand> = reads.iter().map(answer).collect();
        drive.note_recent(&answers);
        CacheModel::near(&Session::new(&[], &[], drive, 1), 9_000, 11_000, 1_000.0)
    }

    #[test]
    fn a_sector_and_what_passed_until_the_next_command_are_held_and_nothing_before() {
        // A sector passes in 6 us; the next command came after 300 us.
        let held = after(&[(10_000, 0, 5_000), (900_000, 5_300, 9_000)], false);
        assert!(
            held.holds(10_000) && held.holds(10_050) && !held.holds(9_999) && !held.holds(10_100)
        );
        let at_once = after(&[(10_000, 0, 5_000), (900_000, 5_001, 9_000)], false);
        assert!(at_once.holds(10_005) && !at_once.holds(10_020));
    }

    #[test]
    fn all_between_a_read_and_one_further_on_is_held() {
        assert!(after(&[(10_000, 0, 5_000), (10_600, 5_001, 8_600)], false).holds(10_300));
        assert!(!after(&[(10_600, 0, 5_000), (10_000, 5_001, 8_600)], false).holds(10_300));
    }

    #[test]
    fn where_tracks_are_kept_sectors_before_are_held_and_old_rows_are_forgotten() {
        assert!(after(&[(10_000, 0, 5_000)], true).holds(9_500));
        let elsewhere: Vec<(u64, u64, u64)> = (0..8)
            .map(|number| (900_000 + number * 50_000, 10_000 * number, 10_000 * number + 9_000))
            .collect();
        assert!(!after(&[&[(10_000, 0, 5)], elsewhere.as_slice()].concat(), false).holds(10_000));
    }
}
