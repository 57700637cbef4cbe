//! [`CacheModel`]: the sectors that the drive's cache may hold after the recent reads. Experiments
//! use it to read sectors that come from the media.
//!
//! A hit gives no angle. Each read leaves a row in the cache: its sectors, and those that the head
//! passed until the next command moved it away. These are some tens of sectors if commands follow
//! at once. A read that lies a little further on, within the read-ahead, causes no new access: the
//! head reads on up to it, and the row becomes that long. If a drive keeps whole tracks, the row is
//! the track. The rows of the last reads may still be cached; older ones are evicted.
//!
//! The model is an estimate that errs on the side of "cached". If it errs on the other side, the
//! response shows the hit.

use crate::measurement::TimedCommand;
use crate::session::Session;

/// The time added to a pause between commands, ns: the drive reads on until it has decoded the next
/// command (guess).
const COMMAND_NS: f64 = 50_000.0;
/// The factor by which sectors may be denser than estimated.
const SLACK: f64 = 1.1;
/// The number of sectors added.
const MORE: f64 = 2.0;

/// A row of sectors that may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    from: u64,
    end: u64,
}

/// The cached rows near some addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheModel {
    rows: Vec<Row>,
}

impl CacheModel {
    /// The rows that may be cached of the addresses from `from` to `end`, where `density` sectors
    /// pass in a revolution.
    pub(crate) fn near(session: &Session, from: u64, end: u64, density: f64) -> Self {
        if session.drive.hits.eviction_reads == 0 {
            return Self::default();
        }
        let ring = session.max_read_ahead();
        let around = if session.drive.hits.keeps_tracks { density as u64 + 1 } else { 0 };
        let mut rows: Vec<Row> = Vec::new();
        let mut before: Option<(TimedCommand, u64)> = None;
        for (command, next) in session.recent() {
            let (start, last) = (command.extent.start.get(), command.extent.end().get());
            // The head read on up to it from where the previous row began.
            let row_from = match before {
                Some((earlier, row_from)) if is_read_ahead(&earlier, start, ring) => {
                    row_from.min(start)
                }
                _ => start,
            };
            before = Some((command, row_from));
            if start > end.saturating_add(around) || last.saturating_add(ring + around) < from {
                continue;
            }
            let pause_ns =
                next.map_or(0.0, |next| next.saturating_since(command.completed).as_ns() as f64);
            let ahead = ahead_in(session, pause_ns, density).min(ring);
            rows.push(Row { from: row_from.saturating_sub(around), end: last + ahead.max(around) });
        }
        Self { rows }
    }

    /// The sectors after a read that are cached if the next command follows at once.
    pub(crate) fn after_read(session: &Session, density: f64) -> u64 {
        ahead_in(session, 0.0, density)
    }

    /// True if a sector may be cached.
    pub(crate) fn holds(&self, lba: u64) -> bool {
        self.rows.iter().any(|row| (row.from..row.end).contains(&lba))
    }
}

/// The sectors that the head may pass in a pause between two commands.
fn ahead_in(session: &Session, pause_ns: f64, density: f64) -> u64 {
    let command_ns = COMMAND_NS + session.drive.hits.hit_ns.unwrap_or(0.0);
    (MORE + SLACK * density * (pause_ns + command_ns) / session.drive.clock.period_ns().max(1.0))
        as u64
}

/// True if a sector lies within the read-ahead after a read.
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

    /// The rows near 10,000 after reads, each with its times of issue and completion, us; 1,000
    /// sectors pass in a revolution of 6 ms.
    fn after(reads: &[(u64, u64, u64)], keeps_tracks: bool) -> CacheModel {
        let command = |(lba, issued, completed): &(u64, u64, u64)| TimedCommand {
            extent: Extent::from_numbers(*lba, 1),
            issued: Instant::from_ns(issued * 1_000),
            completed: Instant::from_ns(completed * 1_000),
            outcome: CommandOutcome::Done,
            others: 0,
        };
        let mut drive = DriveTiming {
            capacity: 1 << 30,
            clock: Clock::new(6e6, 1e3, Instant::ORIGIN),
            hits: CacheHits { eviction_reads: 8, keeps_tracks, ..CacheHits::default() },
            ..DriveTiming::default()
        };
        let commands: Vec<TimedCommand> = reads.iter().map(command).collect();
        drive.note_recent(&commands);
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
