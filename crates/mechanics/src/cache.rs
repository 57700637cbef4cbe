//! [`SegmentCache`]: the drive's buffer memory, divided into segments that each hold one row of
//! LBAs.
//!
//! A read from the media fills a segment, and the read-ahead after it continues in the same
//! segment, a ring that keeps the newest sectors. A write-back drive keeps written data in segments
//! of their own until they reach the media. The drive decides *when* sectors are read and written;
//! the cache tracks contents, replacement and unsaved data.
//!
//! Worked example, three segments of 100 sectors, at most one for writes:
//!
//! 1. A read of LBAs 40–47 misses. It takes the first segment; the drive reads on to 140: the row
//!    is 40–139, and a read of 48–55 is a hit.
//! 2. It reads on to 160: the segment holds 100, so the row is 60–159, and a read of 48–55 is a
//!    miss again.
//! 3. A write of 70–77 waits in the second segment. The first keeps the longer part of its row,
//!    78–159; 70–77 are read from the second.
//! 4. A write of 78–85 continues the second segment's row, now 70–85; the first segment keeps
//!    86–159.
//! 5. A write of 500–507 is refused: only one segment may hold written data. When 70–85 are on the
//!    media the row stays readable, and the write may come again.
//! 6. A read at 900 misses and takes the third segment. The next, at 2,000, takes the first, the
//!    least recently used.
//!
//! Guarantees: no sector is both in a clean row and in a written one, so the cache holds the latest
//! version; written rows are not replaced before they are on the media; two written rows never
//! overlap.
//!
//! - Modelled: one row per segment, least recently used replacement, rings, written rows that
//!   combine if they touch and fit, a bound on written segments, and marks that tell a flush when
//!   all earlier data are on the media.
//! - Not modelled: adaptive segment sizes, read data apart from written data of the same row,
//!   compression, media caches.
//! - Differs from a drive: a write that overlaps waiting written data joins their row or, if it
//!   does not fit, waits for them; drives may keep several versions. A row that a write cuts in two
//!   keeps only its longer part.
//!
//! Cost: each call visits every segment, some tens of nanoseconds for 16; nothing is allocated
//! after construction.

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::interface::{CommandOverheads, nanos_of_us};
use crate::place::Direction;
use crate::profile::Cache;

/// The segments and their contents.
#[derive(Clone, Debug)]
pub struct SegmentCache {
    segments: Vec<CacheSegment>,
    segment_sectors: u64,
    max_written: usize,
    /// Segments with written data.
    written: usize,
    /// The number of uses so far, for the order of replacement.
    uses: u64,
}

/// A row in a segment; without effect once the segment holds another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId {
    segment: usize,
    row: u64,
}

/// Written data that wait for the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenRow {
    /// The row.
    pub id: RowId,
    /// Its sectors.
    pub extent: Extent,
    /// The time at which the last of its data arrives.
    pub arrived: Instant,
    /// The mark of its oldest data.
    pub mark: u64,
    /// True if a command waits for it to reach the media.
    pub urgent: bool,
}

/// The cached first part of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPrefix {
    /// The number of leading sectors without a gap.
    pub sectors: Sectors,
    /// The time at which the last of them is available.
    pub complete: Instant,
}

/// The reason why the cache refuses a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteRefused {
    /// It is longer than a segment and must go to the media.
    #[error("the write is longer than a segment; send it to the media")]
    TooLong,
    /// It overlaps written data that it cannot join; those are urgent now.
    #[error("the write overlaps written data; bring them to the media first")]
    Overlaps,
    /// The bound on written segments is reached, or no segment is free.
    #[error("no segment is free for written data; bring some to the media first")]
    Full,
}

#[derive(Clone, Copy, Debug)]
struct CacheSegment {
    start: u64,
    end: u64,
    state: SegmentState,
    /// The time at which the sectors from `recent` on are available; earlier ones already are.
    complete: Instant,
    recent: u64,
    /// The end of the last read served from this segment.
    read_until: u64,
    used: u64,
    row: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    /// Identical to the media.
    Clean,
    /// Not yet on the media.
    Written { mark: u64, urgent: bool },
    /// On its way to the media.
    Leaving { mark: u64 },
}

impl SegmentCache {
    /// An empty cache of the profile's segments.
    #[must_use]
    pub fn new(cache: &Cache) -> Self {
        let empty = CacheSegment {
            start: 0,
            end: 0,
            state: SegmentState::Clean,
            complete: Instant::ORIGIN,
            recent: 0,
            read_until: 0,
            used: 0,
            row: 0,
        };
        let max_written =
            cache.write_segments.unwrap_or((cache.segments / 2).max(1)).min(cache.segments);
        Self {
            segments: vec![empty; cache.segments as usize],
            segment_sectors: u64::from(cache.segment_sectors),
            max_written: max_written as usize,
            written: 0,
            uses: 0,
        }
    }

    /// The leading sectors of the extent that are cached, across rows.
    #[must_use]
    pub fn held(&self, extent: Extent) -> CachedPrefix {
        let end = extent.end().get();
        let mut reached = extent.start.get();
        let mut complete = Instant::ORIGIN;
        while reached < end {
            let Some(segment) = self
                .segments
                .iter()
                .find(|segment| segment.start <= reached && reached < segment.end)
            else {
                break;
            };
            reached = segment.end.min(end);
            if reached > segment.recent {
                complete = complete.max(segment.complete);
            }
        }
        CachedPrefix { sectors: Sectors::new(reached - extent.start.get()), complete }
    }

    /// True if all of the extent's sectors are cached.
    #[must_use]
    pub fn holds(&self, extent: Extent) -> bool {
        self.held(extent).sectors == extent.len
    }

    /// Records a read of the extent: its rows were used just now. If the read continues the
    /// previous read from the clean row of its last sector, returns that row and its end: reading
    /// ahead is then worthwhile.
    pub fn touch(&mut self, extent: Extent) -> Option<(RowId, Lba)> {
        self.uses += 1;
        let (start, last, uses) = (extent.start.get(), extent.last().get(), self.uses);
        let mut follows = None;
        for (index, segment) in
            self.segments.iter_mut().enumerate().filter(|(_, segment)| segment.overlaps(extent))
        {
            segment.used = uses;
            if segment.start <= last && last < segment.end {
                if segment.read_until == start && segment.state == SegmentState::Clean {
                    follows =
                        Some((RowId { segment: index, row: segment.row }, Lba::new(segment.end)));
                }
                segment.read_until = last + 1;
            }
        }
        follows
    }

    /// Records that a read up to `end` uses sectors which will be added to the row.
    pub fn note_read_until(&mut self, id: RowId, end: Lba) {
        if self.segments[id.segment].row == id.row {
            self.segments[id.segment].read_until = end.get();
        }
    }

    /// Sets the time at which all written data of a row have arrived.
    pub fn arrives(&mut self, id: RowId, at: Instant) {
        let segment = &mut self.segments[id.segment];
        if segment.row == id.row {
            segment.complete = segment.complete.max(at);
        }
    }

    /// The row for sectors read from `start` on: the clean row that ends there, else a new one in
    /// place of the least recently used clean row. `None` if no segment is clean.
    pub fn begin_read(&mut self, start: Lba) -> Option<RowId> {
        self.uses += 1;
        let continued = self.segments.iter().position(|segment| {
            segment.end == start.get()
                && !segment.is_empty()
                && matches!(segment.state, SegmentState::Clean)
        });
        let index = match continued {
            Some(index) => index,
            None => {
                let index = self.replaceable()?;
                self.segments[index].renew(start.get());
                index
            }
        };
        self.segments[index].used = self.uses;
        Some(self.id(index))
    }

    /// Adds sectors `from` up to `to`, complete at `at`, to the row; the oldest sectors drop out if
    /// they do not fit. If the row's end was cut meanwhile, it starts again. Returns false if the
    /// segment holds another row by now: the sectors are lost.
    ///
    /// # Panics
    /// If written data lie in between: the media do not hold the latest version.
    pub fn append(&mut self, id: RowId, from: Lba, to: Lba, at: Instant) -> bool {
        let (from, to) = (from.get(), to.get());
        if self.segments[id.segment].row != id.row {
            return false;
        }
        let read = Extent::from_numbers(from, to - from);
        assert!(!self.overlaps_written(read), "sectors {read} were read past written data");
        let longest = self.segment_sectors;
        let segment = &mut self.segments[id.segment];
        if segment.end != from {
            segment.start = from;
        }
        segment.end = to;
        segment.start = segment.start.max(to.saturating_sub(longest));
        (segment.recent, segment.complete) = (from, at);
        true
    }

    /// Sets the row to a whole track that has passed at `at`, or to its last sectors if a segment
    /// holds less. Returns false, without a change, if the segment holds another row by now or
    /// written data lie on the track.
    pub fn fill(&mut self, id: RowId, track: Extent, at: Instant) -> bool {
        if self.segments[id.segment].row != id.row || self.overlaps_written(track) {
            return false;
        }
        let longest = self.segment_sectors;
        let segment = &mut self.segments[id.segment];
        segment.end = track.end().get();
        segment.start = track.start.get().max(segment.end.saturating_sub(longest));
        (segment.recent, segment.complete) = (segment.start, at);
        true
    }

    /// Accepts a write that is complete at `arrived`; `mark` counts the flushes before it.
    ///
    /// # Errors
    /// [`WriteRefused`], without a change except that [`WriteRefused::Overlaps`] marks the
    /// overlapped rows urgent.
    pub fn write(
        &mut self,
        extent: Extent,
        arrived: Instant,
        mark: u64,
    ) -> Result<RowId, WriteRefused> {
        if extent.len.get() > self.segment_sectors {
            return Err(WriteRefused::TooLong);
        }
        let joined = self.join(extent)?;
        let index = match joined {
            Some(index) => index,
            None if self.written >= self.max_written => return Err(WriteRefused::Full),
            None => {
                let index = self.replaceable().ok_or(WriteRefused::Full)?;
                self.segments[index].renew(extent.start.get());
                self.segments[index].end = extent.end().get();
                self.segments[index].state = SegmentState::Written { mark, urgent: false };
                self.written += 1;
                index
            }
        };
        self.uses += 1;
        let segment = &mut self.segments[index];
        segment.used = self.uses;
        (segment.recent, segment.complete) = (segment.start, segment.complete.max(arrived));
        self.forget(extent);
        Ok(self.id(index))
    }

    /// The written row that the write joined, if it touches or overlaps one.
    fn join(&mut self, extent: Extent) -> Result<Option<usize>, WriteRefused> {
        let (start, end) = (extent.start.get(), extent.end().get());
        let (mut row_start, mut row_end, mut marked) = (start, end, u64::MAX);
        let mut is_urgent = false;
        let mut first = None;
        for index in 0..self.segments.len() {
            let segment = &self.segments[index];
            match segment.state {
                SegmentState::Clean => {}
                SegmentState::Leaving { .. } if segment.overlaps(extent) => {
                    return Err(self.refuse_overlap(extent));
                }
                SegmentState::Leaving { .. } => {}
                SegmentState::Written { mark, urgent } if segment.overlaps(extent) => {
                    (row_start, row_end) = (row_start.min(segment.start), row_end.max(segment.end));
                    (marked, is_urgent) = (marked.min(mark), is_urgent || urgent);
                    first = first.or(Some(index));
                }
                SegmentState::Written { .. } => {}
            }
        }
        if first.is_some() {
            if row_end - row_start > self.segment_sectors {
                return Err(self.refuse_overlap(extent));
            }
        } else {
            // Sequential writes continue the row that ends where this one starts.
            let continued = self.segments.iter().position(|segment| {
                matches!(segment.state, SegmentState::Written { .. })
                    && segment.end == start
                    && end - segment.start <= self.segment_sectors
            });
            let Some(index) = continued else { return Ok(None) };
            if let SegmentState::Written { mark, urgent } = self.segments[index].state {
                (row_start, marked, is_urgent) = (self.segments[index].start, mark, urgent);
            }
            first = Some(index);
        }
        let Some(kept) = first else { return Ok(None) };
        for index in (0..self.segments.len()).filter(|index| *index != kept) {
            let segment = &mut self.segments[index];
            if segment.is_written() && segment.overlaps(extent) {
                let complete = segment.complete;
                segment.renew(0);
                self.written -= 1;
                self.segments[kept].complete = self.segments[kept].complete.max(complete);
            }
        }
        let segment = &mut self.segments[kept];
        (segment.start, segment.end) = (row_start, row_end);
        segment.state = SegmentState::Written { mark: marked, urgent: is_urgent };
        Ok(Some(kept))
    }

    fn refuse_overlap(&mut self, extent: Extent) -> WriteRefused {
        self.mark_urgent(extent);
        WriteRefused::Overlaps
    }

    /// Marks the written rows that hold sectors of the extent as urgent.
    pub fn mark_urgent(&mut self, extent: Extent) {
        for segment in self.segments.iter_mut().filter(|segment| segment.overlaps(extent)) {
            if let SegmentState::Written { urgent, .. } = &mut segment.state {
                *urgent = true;
            }
        }
    }

    /// Marks every written row as urgent.
    pub fn mark_all_urgent(&mut self) {
        for segment in &mut self.segments {
            if let SegmentState::Written { urgent, .. } = &mut segment.state {
                *urgent = true;
            }
        }
    }

    /// Removes the extent's sectors from clean rows before they are overwritten. A row that is cut
    /// in two keeps its longer part.
    pub fn forget(&mut self, extent: Extent) {
        let (start, end) = (extent.start.get(), extent.end().get());
        for segment in self
            .segments
            .iter_mut()
            .filter(|segment| segment.state == SegmentState::Clean && segment.overlaps(extent))
        {
            let (before, after) =
                (start.saturating_sub(segment.start), segment.end.saturating_sub(end));
            if before > after {
                segment.end = start;
            } else {
                segment.start = end.min(segment.end);
            }
        }
    }

    /// True if any of the extent's sectors are not yet on the media.
    #[must_use]
    pub fn overlaps_written(&self, extent: Extent) -> bool {
        self.unsaved().any(|segment| segment.overlaps(extent))
    }

    /// The segments to search for written data; usually none.
    fn where_written(&self) -> &[CacheSegment] {
        if self.written == 0 { &[] } else { &self.segments }
    }

    fn unsaved(&self) -> impl Iterator<Item = &CacheSegment> {
        self.where_written().iter().filter(|segment| segment.is_unsaved())
    }

    /// The first sector from `from` on that is not yet on the media.
    #[must_use]
    pub fn next_unsaved(&self, from: Lba) -> Option<Lba> {
        let unsaved = self.unsaved().filter(|segment| segment.end > from.get());
        unsaved.map(|segment| Lba::new(segment.start.max(from.get()))).min()
    }

    /// The written rows whose write to the media has not started, by segment.
    pub fn written_rows(&self) -> impl Iterator<Item = WrittenRow> + '_ {
        self.where_written().iter().enumerate().filter_map(|(index, segment)| match segment.state {
            SegmentState::Written { mark, urgent } => Some(WrittenRow {
                id: self.id(index),
                extent: segment.extent(),
                arrived: segment.complete,
                mark,
                urgent,
            }),
            SegmentState::Clean | SegmentState::Leaving { .. } => None,
        })
    }

    /// The smallest mark of all data that are not on the media; `None` if there are none.
    #[must_use]
    pub fn oldest_mark(&self) -> Option<u64> {
        let marks = self.where_written().iter().filter_map(|segment| match segment.state {
            SegmentState::Clean => None,
            SegmentState::Written { mark, .. } | SegmentState::Leaving { mark } => Some(mark),
        });
        marks.min()
    }

    /// Starts the write of a row to the media.
    ///
    /// # Panics
    /// If the row is not a written row.
    pub fn begin_save(&mut self, id: RowId) {
        let segment = &mut self.segments[id.segment];
        match segment.state {
            SegmentState::Written { mark, .. } if segment.row == id.row => {
                segment.state = SegmentState::Leaving { mark }
            }
            _ => panic!("only a written row can be brought to the media"),
        }
    }

    /// Ends the write of a row to the media; the row stays readable.
    ///
    /// # Panics
    /// If the row's write has not started.
    pub fn end_save(&mut self, id: RowId) {
        let segment = &mut self.segments[id.segment];
        match segment.state {
            SegmentState::Leaving { .. } if segment.row == id.row => {
                segment.state = SegmentState::Clean
            }
            _ => panic!("only a row on its way arrives at the media"),
        }
        self.written -= 1;
    }

    /// Sectors of a segment.
    #[must_use]
    pub fn segment_sectors(&self) -> Sectors {
        Sectors::new(self.segment_sectors)
    }

    /// An empty segment, else the least recently used clean one.
    fn replaceable(&self) -> Option<usize> {
        let mut oldest: Option<(u64, usize)> = None;
        for (index, segment) in self.segments.iter().enumerate() {
            // Uses count from 1, so an empty segment is older than any.
            let used = if segment.is_empty() { 0 } else { segment.used };
            if matches!(segment.state, SegmentState::Clean)
                && oldest.is_none_or(|(least, _)| used < least)
            {
                oldest = Some((used, index));
            }
        }
        oldest.map(|(_, index)| index)
    }

    fn id(&self, segment: usize) -> RowId {
        RowId { segment, row: self.segments[segment].row }
    }

    /// Checks the guarantees of the module.
    ///
    /// # Panics
    /// If one is violated.
    pub fn self_check(&self) {
        let written = self.segments.iter().filter(|segment| segment.is_unsaved());
        assert_eq!(written.clone().count(), self.written, "written segments are miscounted");
        assert!(
            self.written <= self.max_written,
            "{} segments hold written data, more than {}",
            self.written,
            self.max_written
        );
        for segment in &self.segments {
            assert!(
                segment.start <= segment.end && segment.end - segment.start <= self.segment_sectors,
                "a row of {}",
                segment.extent()
            );
        }
        for unsaved in written {
            let row = unsaved.extent();
            let sharing = self.segments.iter().filter(|other| other.overlaps(row)).count();
            assert!(sharing == 1, "the written sectors {row} lie in {sharing} rows");
        }
    }
}

impl CacheSegment {
    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn is_written(&self) -> bool {
        matches!(self.state, SegmentState::Written { .. })
    }

    fn is_unsaved(&self) -> bool {
        self.state != SegmentState::Clean
    }

    fn overlaps(&self, extent: Extent) -> bool {
        !self.is_empty() && self.start < extent.end().get() && extent.start.get() < self.end
    }

    fn extent(&self) -> Extent {
        Extent::from_numbers(self.start, self.end - self.start)
    }

    /// Empties the row at `start` under a new identity.
    fn renew(&mut self, start: u64) {
        *self = Self {
            start,
            end: start,
            state: SegmentState::Clean,
            complete: Instant::ORIGIN,
            recent: start,
            read_until: start,
            used: 0,
            row: self.row + 1,
        };
    }
}

/// The times of a cache from its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheTimes {
    hit: CommandOverheads,
    /// Time that written data wait while the drive is idle.
    pub write_delay: Nanos,
}

impl CacheTimes {
    /// The times of a validated cache.
    #[must_use]
    pub fn new(cache: &Cache) -> Self {
        Self {
            hit: CommandOverheads::from_us(
                (cache.read_hit_us, cache.read_hit_after_write_us),
                (cache.write_hit_us, cache.write_hit_after_write_us),
            ),
            write_delay: nanos_of_us(cache.write_delay_ms.unwrap_or(0.0) * 1e3),
        }
    }

    /// The time from dispatch until the data of a hit may cross the bus; `before` is the direction
    /// of the previous command, if any.
    #[must_use]
    pub fn hit_overhead(&self, op: Direction, before: Option<Direction>) -> Nanos {
        self.hit.get(op, before)
    }
}

#[cfg(test)]
mod tests;
