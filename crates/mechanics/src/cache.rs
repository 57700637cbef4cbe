//! [`SegmentCache`]: the drive's buffer memory, cut into segments that each hold one row of LBAs.
//!
//! A read that has to go to the media fills a segment, and what the drive reads ahead of it goes on
//! in the same segment, which keeps the newest sectors as a ring does. A write-back drive lets
//! written data wait in segments of their own and brings them to the media later. Which sector is
//! read *when* is the drive's business; the cache knows what it holds, who may be replaced, and
//! what must not be lost.
//!
//! Worked example, three segments of 100 sectors, at most one for writes:
//!
//! 1. A read of LBAs 40–47 misses. It takes the first segment; the drive reads on to 140: the row
//!    is 40–139, and a read of 48–55 is a hit.
//! 2. It reads on to 160: the segment holds 100, so the row is 60–159, and a read of 48–55 is a
//!    miss again.
//! 3. A write of 70–77 waits in the second segment. The first keeps the longer part of its row,
//!    78–159; 70–77 are read from the second.
//! 4. A write of 78–85 continues the second segment's row, which is 70–85 now; the first segment
//!    keeps 86–159.
//! 5. A write of 500–507 is refused: one segment may hold written data. When 70–85 are on the media
//!    the row stays readable, and the write may come again.
//! 6. A read at 900 misses and takes the third segment. The next, at 2,000, takes the first: it was
//!    used the longest ago.
//!
//! Promises: no sector is in a clean row and in a written one, so what the cache says it holds is
//! what was written last; written rows are replaced by nothing before they are on the media; two
//! written rows never overlap.
//!
//! - Modelled: rows by segment, least recently used replacement, ring-like rows, written rows that
//!   combine when they touch and fit, a bound on written segments, and marks that let a flush know
//!   when everything before it is on the media.
//! - Not modelled: segments whose size adapts to the load, read data kept apart from written data
//!   of the same row, compression, media caches.
//! - Differs from a drive: a write that overlaps written data waiting here joins their row or,
//!   where it does not fit, waits for them; drives may keep several versions. A row that a write
//!   cuts in two keeps its longer part only.
//!
//! Cost: each question looks at every segment, some tens of nanoseconds for 16; nothing is
//! allocated after the beginning.

use alloc::vec;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use crate::place::Direction;
use crate::profile::Cache;

/// The segments and what they hold.
#[derive(Clone, Debug)]
pub struct SegmentCache {
    segments: Vec<CacheSegment>,
    segment_sectors: u64,
    max_written: usize,
    /// Segments with written data.
    written: usize,
    /// Counts uses, for the order of replacement.
    uses: u64,
}

/// A row in a segment; of no effect once the segment is used for another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowId {
    segment: usize,
    row: u64,
}

/// Written data that wait for the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenRow {
    /// Which row.
    pub id: RowId,
    /// Its sectors.
    pub extent: Extent,
    /// When the last of its data will have arrived.
    pub arrived: Instant,
    /// The mark of its oldest data.
    pub mark: u64,
    /// Whether somebody waits for it to be on the media.
    pub urgent: bool,
}

/// Sectors that the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedPrefix {
    /// How many of those asked for, from the first on, without a gap.
    pub sectors: Sectors,
    /// When the last of them is there.
    pub complete: Instant,
}

/// Why the cache does not take a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteRefused {
    /// It is longer than a segment; it must go to the media itself.
    #[error("the write is longer than a segment; send it to the media")]
    TooLong,
    /// It overlaps written data that it cannot join; those are urgent now.
    #[error("the write overlaps written data; bring them to the media first")]
    Overlaps,
    /// As many segments hold written data as may, or none is free.
    #[error("no segment is free for written data; bring some to the media first")]
    Full,
}

#[derive(Clone, Copy, Debug)]
struct CacheSegment {
    start: u64,
    end: u64,
    state: SegmentState,
    /// When the sectors from `recent` on are there; those before it have been for longer.
    complete: Instant,
    recent: u64,
    /// Where the last read that was served from here ended.
    asked: u64,
    used: u64,
    row: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    /// What the media hold too.
    Clean,
    /// What the media do not hold yet.
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
            asked: 0,
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

    /// How many of the extent's sectors are here, from the first on, whatever rows they lie in.
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

    /// Whether all of the extent's sectors are here.
    #[must_use]
    pub fn holds(&self, extent: Extent) -> bool {
        self.held(extent).sectors == extent.len
    }

    /// A read of the extent is served: the rows that hold any of its sectors were used just now.
    /// Answers the clean row of its last sector, and where that row ends, if the read goes on where
    /// the last read from there ended: then it is worth reading ahead.
    pub fn touch(&mut self, extent: Extent) -> Option<(RowId, Lba)> {
        self.uses += 1;
        let (start, last, uses) = (extent.start.get(), extent.last().get(), self.uses);
        let mut follows = None;
        for (index, segment) in
            self.segments.iter_mut().enumerate().filter(|(_, segment)| segment.overlaps(extent))
        {
            segment.used = uses;
            if segment.start <= last && last < segment.end {
                if segment.asked == start && segment.state == SegmentState::Clean {
                    follows =
                        Some((RowId { segment: index, row: segment.row }, Lba::new(segment.end)));
                }
                segment.asked = last + 1;
            }
        }
        follows
    }

    /// A read that ends at `end` is served from sectors that will come into the row.
    pub fn note_read_until(&mut self, id: RowId, end: Lba) {
        if self.segments[id.segment].row == id.row {
            self.segments[id.segment].asked = end.get();
        }
    }

    /// The written data of a row will all have arrived at `at`.
    pub fn arrives(&mut self, id: RowId, at: Instant) {
        let segment = &mut self.segments[id.segment];
        if segment.row == id.row {
            segment.complete = segment.complete.max(at);
        }
    }

    /// A row for sectors that will be read from `start` on: the clean one that ends there, else a
    /// new one in place of the clean row that was used the longest ago. `None` when no segment is
    /// clean.
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

    /// Sectors `from` up to `to` were read into the row, complete at `at`; the row drops its oldest
    /// sectors where they do not fit. Whatever was cut from the row's end meanwhile makes it start
    /// again. False when the segment holds another row by now, so that the sectors are lost.
    ///
    /// # Panics
    /// When written data lie in between: the media do not hold what was written last.
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

    /// All sectors of a track have come by at `at`: the row is those, or as many of the last of
    /// them as a segment holds. False, and nothing has changed, when the segment holds another row
    /// by now, or written data lie among them.
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

    /// Takes a write in that is complete at `arrived`; `mark` is that of the flushes before it.
    ///
    /// # Errors
    /// [`WriteRefused`], and nothing has changed but, for [`WriteRefused::Overlaps`], the urgency
    /// of the rows that are in the way.
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

    /// The written row that a write became part of, if it touches or overlaps any.
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
            // Sequential writes go on in the row that ends where this one starts.
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

    /// Somebody waits for the written rows that hold any of the extent's sectors to be on the
    /// media.
    pub fn mark_urgent(&mut self, extent: Extent) {
        for segment in self.segments.iter_mut().filter(|segment| segment.overlaps(extent)) {
            if let SegmentState::Written { urgent, .. } = &mut segment.state {
                *urgent = true;
            }
        }
    }

    /// Somebody waits for every written row to be on the media.
    pub fn mark_all_urgent(&mut self) {
        for segment in &mut self.segments {
            if let SegmentState::Written { urgent, .. } = &mut segment.state {
                *urgent = true;
            }
        }
    }

    /// Clean rows lose the extent's sectors: something else is written there. A row that is cut in
    /// two keeps its longer part.
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

    /// Whether any of the extent's sectors are written data that the media do not hold yet.
    #[must_use]
    pub fn overlaps_written(&self, extent: Extent) -> bool {
        self.unsaved().any(|segment| segment.overlaps(extent))
    }

    /// The segments to look at for written data: none at all where there are none, which is the
    /// usual case.
    fn where_written(&self) -> &[CacheSegment] {
        if self.written == 0 { &[] } else { &self.segments }
    }

    fn unsaved(&self) -> impl Iterator<Item = &CacheSegment> {
        self.where_written().iter().filter(|segment| segment.is_unsaved())
    }

    /// The first sector at `from` or behind it that the media do not hold yet.
    #[must_use]
    pub fn next_unsaved(&self, from: Lba) -> Option<Lba> {
        let unsaved = self.unsaved().filter(|segment| segment.end > from.get());
        unsaved.map(|segment| Lba::new(segment.start.max(from.get()))).min()
    }

    /// The written rows that are not on their way to the media yet, by segment.
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

    /// The smallest mark of all data that the media do not hold yet; `None` when they hold
    /// everything.
    #[must_use]
    pub fn oldest_mark(&self) -> Option<u64> {
        let marks = self.where_written().iter().filter_map(|segment| match segment.state {
            SegmentState::Clean => None,
            SegmentState::Written { mark, .. } | SegmentState::Leaving { mark } => Some(mark),
        });
        marks.min()
    }

    /// A written row sets out for the media.
    ///
    /// # Panics
    /// When the row is no written row.
    pub fn begin_save(&mut self, id: RowId) {
        let segment = &mut self.segments[id.segment];
        match segment.state {
            SegmentState::Written { mark, .. } if segment.row == id.row => {
                segment.state = SegmentState::Leaving { mark }
            }
            _ => panic!("only a written row can be brought to the media"),
        }
    }

    /// The row is on the media; it stays readable.
    ///
    /// # Panics
    /// When the row is not on its way.
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

    /// Sectors that a segment holds.
    #[must_use]
    pub fn segment_sectors(&self) -> Sectors {
        Sectors::new(self.segment_sectors)
    }

    /// An empty segment, else the clean one that was used the longest ago.
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

    /// Checks the promises of the file's head.
    ///
    /// # Panics
    /// When one does not hold.
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

    /// An empty clean row at `start`, under a new name.
    fn renew(&mut self, start: u64) {
        *self = Self {
            start,
            end: start,
            state: SegmentState::Clean,
            complete: Instant::ORIGIN,
            recent: start,
            asked: start,
            used: 0,
            row: self.row + 1,
        };
    }
}

/// The times of a cache, from its keys in the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheTimes {
    read_after_read: Nanos,
    read_after_write: Nanos,
    write_after_read: Nanos,
    write_after_write: Nanos,
    /// How long written data may wait while the drive has nothing else to do.
    pub write_delay: Nanos,
}

impl CacheTimes {
    /// The times of a validated cache.
    #[must_use]
    pub fn new(cache: &Cache) -> Self {
        // Validated times are finite and not negative, so the conversion cannot fail.
        let nanos = |us: f64| Nanos::from_ms_f64(us / 1e3).unwrap_or(Nanos::ZERO);
        Self {
            read_after_read: nanos(cache.read_hit_us),
            read_after_write: nanos(cache.read_hit_after_write_us.unwrap_or(cache.read_hit_us)),
            write_after_read: nanos(cache.write_hit_us),
            write_after_write: nanos(cache.write_hit_after_write_us.unwrap_or(cache.write_hit_us)),
            write_delay: nanos(cache.write_delay_ms.unwrap_or(0.0) * 1e3),
        }
    }

    /// From dispatch until the data of a hit may cross the bus; `before` is the direction of the
    /// command that the drive received before this one, if any.
    #[must_use]
    pub fn hit_overhead(&self, op: Direction, before: Option<Direction>) -> Nanos {
        match (op, before) {
            (Direction::Read, Some(Direction::Write)) => self.read_after_write,
            (Direction::Read, _) => self.read_after_read,
            (Direction::Write, Some(Direction::Write)) => self.write_after_write,
            (Direction::Write, _) => self.write_after_read,
        }
    }
}

#[cfg(test)]
mod tests;
