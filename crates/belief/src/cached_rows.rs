//! [`CachedRows`]: the sectors that the drive's cache probably holds.
//!
//! A read from the medium leaves its sectors in a segment of the cache, and the drive reads on
//! after it until a command needs the arm elsewhere or the segment is full. A read that begins in
//! such a row continues it. The row that was used the longest ago is replaced, and one that is
//! written into is forgotten.
//!
//! Worked example, 8,192 sectors in a segment, 2 us a sector: a read of 1,000–1,127 ends at 10 ms,
//! and the next command that needs the arm is sent at 12 ms. The drive has read 1,000 sectors on
//! by then: a read of 1,928–2,027 is probably held, one of 2,100–2,199 is not.
//!
//! A drive that holds less than its profile says costs a seek for each wrong prediction. So nothing
//! is predicted while less than half of the recent predictions were right. A read predicted to be
//! held that ends more than 2 ms later counts as one from the medium: the drive may have gone
//! there, and has not read on before.
//!
//! A drive that has read on as far as it does may then answer a read from a row of which less than
//! half of what it reads ahead is left. It goes there and reads on again. So clients that read in
//! sequence and pause may need no command that moves the arm.
//!
//! *Not modelled*: rows of written data, which are not used for reads; segments of several sizes;
//! drives that give up reading ahead for random reads.

use std::collections::VecDeque;

use headtime_mechanics::DriveProfile;
use headtime_units::{Extent, Instant, Nanos, Sectors};

/// The rows of the segments, the last used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedRows {
    max_rows: usize,
    row_sectors: u64,
    read_ahead: u64,
    rows: VecDeque<Row>,
    /// The share of wrong predictions among the last 16 or so.
    wrong: f64,
}

/// The rate of the medium is that of so many sectors (guess: more than a track, so that changes of
/// track count).
const RATE_SECTORS: u64 = 4_096;

/// The outcome of a predicted hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prediction {
    Right,
    Wrong,
}

/// A row of sectors.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u64,
    /// The end of the last read from the medium.
    end: u64,
    /// The time for which the drive has read on after that.
    ahead: Nanos,
    /// The end of what the drive reads ahead, if no command needs the arm before.
    limit: u64,
    /// The end of the last read.
    used: u64,
    reads_on: Option<ReadsOn>,
}

/// The drive reads on in a row until a command needs the arm, or a hit makes the drive go to
/// another row.
#[derive(Clone, Copy, Debug)]
struct ReadsOn {
    /// The time at which the arm was free for it.
    begun: Instant,
    /// The time at which the arm was there.
    since: Instant,
}

impl CachedRows {
    pub(crate) fn of(profile: &DriveProfile) -> Self {
        let Some(cache) = profile.cache.as_ref().filter(|cache| !cache.whole_track) else {
            return Self::default();
        };
        Self {
            max_rows: cache.segments as usize,
            row_sectors: u64::from(cache.segment_sectors),
            read_ahead: u64::from(cache.read_ahead_sectors.min(cache.segment_sectors)),
            ..Self::default()
        }
    }

    /// Returns false while too many predictions were wrong.
    pub(crate) fn are_trusted(&self) -> bool {
        self.wrong < 0.5
    }

    /// Notes how a predicted hit turned out.
    pub(crate) fn predicted(&mut self, outcome: Prediction) {
        let wrong = f64::from(u8::from(outcome == Prediction::Wrong));
        self.wrong += (wrong - self.wrong) / 16.0;
    }

    /// Notes that the arm was needed at `dispatched`. A drive with a command has not gone to
    /// another row, though its hit was reported before that command.
    fn arm_needed(&mut self, dispatched: Instant) {
        for place in 0..self.rows.len() {
            self.rows[place].ahead = self.ahead(place, dispatched);
        }
        self.rows.iter_mut().for_each(|row| row.reads_on = None);
    }

    /// The time for which the drive will have read on in a row by `until`, if no command needs the
    /// arm before.
    fn ahead(&self, place: usize, until: Instant) -> Nanos {
        let row = &self.rows[place];
        let Some(ReadsOn { begun, since }) = row.reads_on else { return row.ahead };
        let left = self.rows.iter().filter_map(|row| row.reads_on).map(|other| other.begun);
        let left = left.filter(|other| *other > begun).min().unwrap_or(until);
        until.min(left).saturating_since(since)
    }

    /// Notes a read from the medium, or one that the cache may have answered late: then what a
    /// row holds beyond it is `held` still.
    pub(crate) fn read(
        &mut self,
        extent: Extent,
        [dispatched, media_end]: [Instant; 2],
        held: Prediction,
        time_of: impl Fn(Extent) -> Nanos,
    ) {
        if self.max_rows == 0 {
            return;
        }
        self.arm_needed(dispatched);
        let (start, end) = (extent.start.get(), extent.end().get());
        let known = self
            .row_of(start, end)
            .filter(|place| self.holds_to(*place, start, dispatched, time_of))
            .and_then(|place| self.rows.remove(place));
        if self.rows.len() == self.max_rows {
            self.rows.pop_front();
        }
        let end = match (known, held) {
            (Some(row), Prediction::Right) => row.end.max(end),
            _ => end,
        };
        let first = end.saturating_sub(self.row_sectors);
        let start = known.map_or(start, |row| row.start).max(first);
        let reads_on = Some(ReadsOn { begun: media_end, since: media_end });
        let limit = end + self.read_ahead;
        self.rows.push_back(Row { start, end, ahead: Nanos::ZERO, limit, used: end, reads_on });
    }

    /// Notes a read that the cache answered at `at`. `arm_at` returns the time at which the arm is
    /// at the second sector if it leaves the first at `at`.
    pub(crate) fn hit(
        &mut self,
        extent: Extent,
        at: Instant,
        time_of: impl Fn(Extent) -> Nanos,
        arm_at: impl Fn([u64; 2]) -> Instant,
    ) {
        let (start, end) = (extent.start.get(), extent.end().get());
        let Some(place) = self.row_of(start, end) else { return };
        let free_at = self.free_at(at, &time_of);
        let ahead = self.ahead(place, at);
        let Some(mut row) = self.rows.remove(place) else { return };
        row.used = row.used.max(end);
        let held = row.held_to(ahead, &time_of);
        let used_half = held.saturating_sub(row.used) <= self.read_ahead / 2;
        match free_at {
            Some(head) if used_half => {
                let reads_on = Some(ReadsOn { begun: at, since: arm_at([head, held]) });
                let limit = (row.used + self.read_ahead).max(held);
                let start = row.start.max(limit.saturating_sub(self.row_sectors));
                row = Row { start, end: held, ahead: Nanos::ZERO, limit, reads_on, ..row };
            }
            None if row.reads_on.is_some() => {
                row.limit = row.limit.max(row.used + self.read_ahead);
            }
            _ => {}
        }
        self.rows.push_back(row);
    }

    /// The sector where the head is at a time, if no command has needed the arm; `None` while the
    /// drive reads ahead. After writes it is not known: it counts as where the last row ends.
    fn free_at(&self, at: Instant, time_of: impl Fn(Extent) -> Nanos) -> Option<u64> {
        match self.reading() {
            None => self.rows.back().map(|row| row.limit),
            Some(place) => {
                let (row, ahead) = (&self.rows[place], self.ahead(place, at));
                (row.held_to(ahead, time_of) >= row.limit).then_some(row.limit)
            }
        }
    }

    /// The row in which the drive reads on.
    fn reading(&self) -> Option<usize> {
        let begun = |place: &usize| self.rows[*place].reads_on.map(|reads_on| reads_on.begun);
        (0..self.rows.len()).filter(|place| begun(place).is_some()).max_by_key(begun)
    }

    /// The sectors from `from` on that the drive reads ahead.
    pub(crate) fn reads_on(&self, from: u64) -> Sectors {
        let row = self.reading().map(|place| &self.rows[place]);
        let within = row.filter(|row| (row.start..=row.limit).contains(&from));
        within.map_or(Sectors::ZERO, |row| Sectors::new(row.limit - from))
    }

    /// Notes a write.
    pub(crate) fn written(&mut self, extent: Extent, dispatched: Instant) {
        self.arm_needed(dispatched);
        let (start, end) = (extent.start.get(), extent.end().get());
        self.rows.retain(|row| row.limit <= start || end <= row.start);
    }

    /// Returns whether a read is probably held, if no command has needed the arm before `until`.
    /// `time_of` is the time in which the medium transfers sectors.
    pub(crate) fn holds(
        &self,
        extent: Extent,
        until: Instant,
        time_of: impl Fn(Extent) -> Nanos,
    ) -> bool {
        let (start, end) = (extent.start.get(), extent.end().get());
        self.row_of(start, end).is_some_and(|place| self.holds_to(place, end, until, time_of))
    }

    /// Returns whether a row is probably held up to `end`.
    fn holds_to(
        &self,
        place: usize,
        end: u64,
        until: Instant,
        time_of: impl Fn(Extent) -> Nanos,
    ) -> bool {
        let (row, ahead) = (self.rows[place], self.ahead(place, until));
        end <= row.end || time_of(Extent::from_numbers(row.end, end - row.end)) <= ahead
    }

    /// The row that a read begins in and does not leave.
    fn row_of(&self, start: u64, end: u64) -> Option<usize> {
        let begins_in = |row: &Row| row.start <= start && start.max(end) <= row.limit;
        self.rows.iter().rposition(begins_in)
    }
}

impl Row {
    /// The end of what is held after the drive has read on for `ahead`.
    fn held_to(&self, ahead: Nanos, time_of: impl Fn(Extent) -> Nanos) -> u64 {
        let sectors = self.end.min(RATE_SECTORS);
        let time = time_of(Extent::from_numbers(self.end - sectors, sectors)).as_ns().max(1);
        let read = u128::from(sectors) * u128::from(ahead.as_ns()) / u128::from(time);
        self.limit.min(self.end.saturating_add(read.try_into().unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog::load;

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_us(us)
    }

    fn row(start: u64, end: u64) -> Extent {
        Extent::from_numbers(start, end - start)
    }

    fn holds(rows: &CachedRows, extent: Extent, until: Instant) -> bool {
        rows.holds(extent, until, time_of)
    }

    fn time_of(ahead: Extent) -> Nanos {
        Nanos::from_us(2 * ahead.len.get())
    }

    fn read(rows: &mut CachedRows, extent: Extent, us: [u64; 2]) {
        rows.read(extent, us.map(at), Prediction::Wrong, time_of);
    }

    fn rows() -> CachedRows {
        CachedRows::of(&load("nearline-20tb").expect("it ships"))
    }

    /// The example of the module.
    #[test]
    fn what_was_read_and_what_was_read_ahead_are_held() {
        let mut rows = rows();
        read(&mut rows, row(1_000, 1_128), [0, 10_000]);
        assert!(holds(&rows, row(1_000, 1_100), at(10_000)));
        assert!(!holds(&rows, row(1_128, 1_200), at(10_000)), "nothing was read ahead yet");
        read(&mut rows, row(900_000, 900_008), [12_000, 20_000]);
        assert!(holds(&rows, row(1_928, 2_028), at(30_000)));
        assert!(!holds(&rows, row(2_100, 2_200), at(30_000)));
        assert!(!holds(&rows, row(900, 1_010), at(30_000)), "it begins before the row");
        read(&mut rows, row(4_000, 4_008), [32_000, 40_000]);
        assert!(!holds(&rows, row(3_000, 3_008), at(50_000)), "nothing was read in between");
        rows.written(row(1_050, 1_060), at(31_000));
        assert!(!holds(&rows, row(1_000, 1_010), at(32_000)));
    }

    /// Rows from 1,000 and 900,000 on; the drive reads on in the second from 40 to 56.4 ms.
    fn two_rows() -> CachedRows {
        let mut rows = rows();
        read(&mut rows, row(1_000, 1_128), [0, 10_000]);
        read(&mut rows, row(900_000, 900_128), [30_000, 40_000]);
        rows
    }

    /// A read that the cache answers, after which the arm needs 5 ms to the end of the row.
    fn hit(rows: &mut CachedRows, extent: Extent, us: u64) {
        rows.hit(extent, at(us), time_of, |_| at(us + 5_000));
    }

    #[test]
    fn a_drive_that_is_done_reads_on_in_a_row_of_which_half_was_used() {
        let mut rows = two_rows();
        assert!(holds(&rows, row(9_300, 9_320), at(50_000)));
        hit(&mut rows, row(5_300, 5_400), 60_000);
        assert!(!holds(&rows, row(9_320, 9_420), at(65_100)));
        assert!(holds(&rows, row(9_320, 9_420), at(65_300)));
        assert!(holds(&rows, row(13_500, 13_592), at(80_000)));
        assert!(!holds(&rows, row(13_592, 13_600), at(90_000)), "it is as far as it goes");
        assert_eq!(rows.reads_on(9_592).get(), 4_000);
        assert!(holds(&rows, row(908_000, 908_320), at(80_000)), "it was done there");
    }

    #[test]
    fn a_drive_stays_before_it_is_done_and_before_half_was_used() {
        for (used, us) in [(5_400, 50_000), (5_000, 60_000)] {
            let mut rows = two_rows();
            hit(&mut rows, row(used - 100, used), us);
            assert!(!holds(&rows, row(9_320, 9_420), at(90_000)));
        }
    }

    #[test]
    fn a_drive_with_a_command_does_not_go_to_another_row() {
        let mut rows = two_rows();
        hit(&mut rows, row(5_300, 5_400), 60_000);
        read(&mut rows, row(500_000, 500_008), [50_000, 70_000]);
        assert!(!holds(&rows, row(9_320, 9_420), at(90_000)));
        assert!(holds(&rows, row(905_000, 905_100), at(90_000)));
        assert!(!holds(&rows, row(905_200, 905_300), at(90_000)), "5,000 sectors by 50 ms");
    }

    #[test]
    fn a_read_that_needed_the_medium_ends_what_was_held() {
        let mut rows = two_rows();
        read(&mut rows, row(5_000, 5_008), [60_000, 70_000]);
        assert!(!holds(&rows, row(5_008, 5_100), at(70_000)));
    }

    #[test]
    fn the_row_that_was_used_the_longest_ago_is_replaced() {
        let mut rows = rows();
        for number in 0..64 {
            read(&mut rows, row(number << 20, (number << 20) + 8), [number, number]);
        }
        hit(&mut rows, row(0, 8), 69);
        read(&mut rows, row(1 << 30, (1 << 30) + 8), [70, 71]);
        assert!(holds(&rows, row(0, 8), at(72)));
        assert!(!holds(&rows, row(1 << 20, (1 << 20) + 8), at(72)));
        assert!(holds(&rows, row(2 << 20, (2 << 20) + 8), at(72)));
    }

    #[test]
    fn a_drive_without_a_cache_holds_nothing() {
        let mut rows = CachedRows::of(&load("nearline-20tb@nocache").expect("it ships"));
        read(&mut rows, row(0, 8), [0, 1]);
        assert!(!holds(&rows, row(0, 8), at(2)));
    }
}
