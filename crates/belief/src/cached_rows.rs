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
//! *Not modelled*: rows of written data, which are not used for reads; segments of several sizes;
//! drives that give up reading ahead for random reads; read-ahead that begins again when cached
//! sectors are read. The last makes some hits unexpected.

use std::collections::VecDeque;

use headtime_mechanics::DriveProfile;
use headtime_units::{Extent, Instant, Nanos};

/// The rows of the segments, the last used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedRows {
    max_rows: usize,
    row_sectors: u64,
    read_ahead: u64,
    rows: VecDeque<Row>,
    /// The time since when the drive reads on in the last row.
    reads_on_since: Option<Instant>,
    /// The share of wrong predictions among the last 16 or so.
    wrong: f64,
}

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
    /// The end of the last read.
    used: u64,
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

    /// Notes that the arm was needed at `dispatched`.
    fn arm_needed(&mut self, dispatched: Instant) {
        if let (Some(since), Some(row)) = (self.reads_on_since.take(), self.rows.back_mut()) {
            row.ahead = dispatched.saturating_since(since);
        }
    }

    /// Notes a read from the medium.
    pub(crate) fn read(
        &mut self,
        extent: Extent,
        [dispatched, media_end]: [Instant; 2],
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
        let end = known.map_or(end, |row| row.end.max(end));
        let first = end.saturating_sub(self.row_sectors);
        let start = known.map_or(start, |row| row.start).max(first);
        self.rows.push_back(Row { start, end, ahead: Nanos::ZERO, used: end });
        self.reads_on_since = Some(media_end);
    }

    /// Notes a read that the cache answered.
    pub(crate) fn hit(&mut self, extent: Extent) {
        let (start, end) = (extent.start.get(), extent.end().get());
        let Some(place) = self.row_of(start, end) else { return };
        let last = self.rows.len() - 1;
        if let Some(mut row) = self.rows.remove(place) {
            row.used = row.used.max(end);
            // The row in which the drive reads on stays the last.
            self.rows.insert(if place == last { last } else { last - 1 }, row);
        }
    }

    /// Notes a write.
    pub(crate) fn written(&mut self, extent: Extent, dispatched: Instant) {
        self.arm_needed(dispatched);
        let (start, end) = (extent.start.get(), extent.end().get());
        let read_ahead = self.read_ahead;
        self.rows.retain(|row| row.reach(read_ahead) <= start || end <= row.start);
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
        let row = self.rows[place];
        let reads_on = self.reads_on_since.filter(|_| place + 1 == self.rows.len());
        let ahead = reads_on.map_or(row.ahead, |since| until.saturating_since(since));
        end <= row.end || time_of(Extent::from_numbers(row.end, end - row.end)) <= ahead
    }

    /// The row that a read begins in and does not leave.
    fn row_of(&self, start: u64, end: u64) -> Option<usize> {
        let reach = |row: &Row| row.reach(self.read_ahead);
        let begins_in = |row: &Row| row.start <= start && start.max(end) <= reach(row);
        self.rows.iter().rposition(begins_in)
    }
}

impl Row {
    /// The end of what may have been read on: a drive begins again where half was used.
    fn reach(&self, read_ahead: u64) -> u64 {
        (self.end + read_ahead).max(self.used + read_ahead / 2)
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
        rows.read(extent, us.map(at), time_of);
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

    #[test]
    fn the_row_that_was_used_the_longest_ago_is_replaced() {
        let mut rows = rows();
        for number in 0..64 {
            read(&mut rows, row(number << 20, (number << 20) + 8), [number, number]);
        }
        rows.hit(row(0, 8));
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
