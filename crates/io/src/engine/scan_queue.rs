//! The bounded queue between the engine and the reader of a scan.
//!
//! The bound is in bytes. While the reader is slow the scan waits, and nothing else does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use headtime_sched::{FillSource, PendingSectors, ScanPriority};
use headtime_units::{Extent, Lba, Nanos, Sectors};

/// The longest time for which a write waits for a scan of a point in time to keep what it has read,
/// beyond the time of reading it.
pub const MAX_HELD: Nanos = Nanos::from_secs(1);

/// The options of a scan.
#[derive(Clone, Debug)]
pub struct ScanStart {
    /// The sectors, of a drive of this one's capacity.
    pub requested: PendingSectors,
    /// The scan reads the sectors as they are now.
    pub point_in_time: bool,
    /// With `point_in_time`, writes wait until the overwritten sectors are saved.
    pub hold_writes: bool,
    /// The scan starts paused.
    pub paused: bool,
    /// The priority among the scans of the drive.
    pub priority: ScanPriority,
    /// The marks of written regions, if the scan needs them. Every event then lies within one
    /// region.
    pub marks: Option<Arc<WriteMarks>>,
    /// The approximate number of bytes that wait in the queue before the scan pauses.
    pub queue_bytes: u64,
}

/// An event of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanEvent {
    /// Sectors were read.
    Read {
        /// The sectors.
        extent: Extent,
        /// Their contents.
        bytes: Bytes,
        /// The source of the disk time.
        source: FillSource,
        /// The region was written since its last event; always `false` without marks.
        written: bool,
    },
    /// Sectors could not be read, in pieces as small as the drive's physical block. They are not
    /// tried again.
    Failed {
        /// The sectors.
        extent: Extent,
        /// The system's code.
        errno: i32,
        /// The source of the disk time.
        source: FillSource,
        /// As for [`ScanEvent::Read`].
        written: bool,
    },
    /// All requested sectors have been delivered.
    Exhausted,
    /// Sectors of a point in time were overwritten before they were kept, and later sectors would
    /// be of another time. The scan has stopped.
    Overtaken {
        /// The sectors.
        extent: Extent,
    },
    /// The drive was closed or its engine failed. No event follows.
    Closed,
}

/// The queue that the engine shares with the feed.
pub(crate) struct ScanQueue {
    pub(crate) number: u32,
    pub(crate) point_in_time: bool,
    pub(crate) starts_paused: bool,
    /// The priority at the start.
    pub(crate) priority: ScanPriority,
    pub(crate) marks: Option<Arc<WriteMarks>>,
    hold_writes: bool,
    queue_bytes: u64,
    state: Mutex<FeedState>,
    changed: Condvar,
}

#[derive(Default)]
struct FeedState {
    events: VecDeque<ScanEvent>,
    bytes: u64,
    /// For a point in time, the delivered sectors that are not kept, with a flag that is true if
    /// they never will be.
    unkept: Vec<(Extent, bool)>,
    /// The engine has paused the scan because of the bound.
    held_back: bool,
    /// A write is held until something is kept.
    write_held: bool,
    over: bool,
}

/// The state of sectors read for a point in time that a write overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// It may go.
    Yes,
    /// Not yet.
    NotYet,
    /// And it will not be.
    Never,
}

impl ScanQueue {
    pub(crate) fn new(number: u32, start: &ScanStart) -> Self {
        Self {
            number,
            point_in_time: start.point_in_time,
            starts_paused: start.paused,
            priority: start.priority,
            marks: start.marks.clone(),
            hold_writes: start.point_in_time && start.hold_writes,
            queue_bytes: start.queue_bytes,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Queues the result of a read, split by region if there are marks. Returns true if the queue
    /// is full.
    pub(crate) fn tell(
        &self,
        extent: Extent,
        read: &Result<Bytes, i32>,
        sector_bytes: u64,
        source: FillSource,
    ) -> bool {
        let mut at = extent.start;
        let mut state = self.lock();
        while at < extent.end() && !state.over {
            let (part, written) = match &self.marks {
                Some(marks) => marks.take_region(Extent::new(at, extent.end() - at)),
                None => (extent, false),
            };
            if self.hold_writes {
                state.unkept.push((part, false));
            }
            let event = match read {
                Ok(bytes) => {
                    let from = ((part.start - extent.start).get() * sector_bytes) as usize;
                    let bytes = bytes.slice(from..from + (part.len.get() * sector_bytes) as usize);
                    state.bytes += bytes.len() as u64;
                    ScanEvent::Read { extent: part, bytes, source, written }
                }
                Err(errno) => {
                    state.bytes += FAILURE_COSTS;
                    ScanEvent::Failed { extent: part, errno: *errno, source, written }
                }
            };
            state.events.push_back(event);
            at = part.end();
        }
        self.changed.notify_one();
        if state.bytes > self.queue_bytes {
            state.held_back = true;
        }
        state.held_back
    }

    /// Queues the last event. Later events are discarded.
    pub(crate) fn end(&self, with: Option<ScanEvent>) {
        let mut state = self.lock();
        if !state.over {
            state.events.extend(with);
            state.over = true;
            state.unkept.clear();
            self.changed.notify_one();
        }
    }

    pub(crate) fn tell_exhausted(&self) {
        let mut state = self.lock();
        if !state.over {
            state.events.push_back(ScanEvent::Exhausted);
            self.changed.notify_one();
        }
    }

    /// Returns true if far more bytes wait than a paused scan can cause: clients overwrite sectors
    /// faster than the reader takes them.
    pub(crate) fn overflows(&self) -> bool {
        self.lock().bytes > self.queue_bytes.saturating_mul(OVERFLOW).saturating_add(MIN_OVERFLOW)
    }

    /// Returns true if the scan is paused because of the bound and may continue.
    pub(crate) fn has_room_again(&self) -> bool {
        let mut state = self.lock();
        let room = state.held_back && state.bytes <= self.queue_bytes / 2;
        state.held_back &= !room;
        room
    }

    /// Returns whether the delivered sectors of this extent are kept. If not, the feed informs the
    /// engine when that changes.
    pub(crate) fn is_kept(&self, extent: Extent) -> Retention {
        let mut state = self.lock();
        let mut kept = Retention::Yes;
        for (delivered, lost) in &state.unkept {
            if delivered.overlaps(extent) {
                kept = if *lost { Retention::Never } else { Retention::NotYet };
                if *lost {
                    break;
                }
            }
        }
        state.write_held |= kept == Retention::NotYet;
        kept
    }

    /// Withdraws the delivery of sectors that are requested again: they need not be kept before
    /// they arrive.
    pub(crate) fn request_again(&self, requested: &PendingSectors) {
        let mut state = self.lock();
        for (delivered, lost) in std::mem::take(&mut state.unkept) {
            if !lost {
                state.unkept.push((delivered, lost));
                continue;
            }
            // A part of a delivered extent may be requested again; the rest stays lost.
            let mut from = None;
            for lba in (delivered.start.get()..delivered.end().get()).map(headtime_units::Lba::new)
            {
                if !requested.contains(lba) {
                    from.get_or_insert(lba);
                } else if let Some(from) = from.take() {
                    state.unkept.push((Extent { start: from, len: from.distance(lba) }, true));
                }
            }
            if let Some(from) = from {
                state
                    .unkept
                    .push((Extent { start: from, len: from.distance(delivered.end()) }, true));
            }
        }
    }

    pub(crate) fn take(&self, patience: Duration) -> (Option<ScanEvent>, bool) {
        let state = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(state, patience, |state| state.events.is_empty() && !state.over);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let event = state.events.pop_front();
        match &event {
            Some(ScanEvent::Read { bytes, .. }) => state.bytes -= bytes.len() as u64,
            Some(ScanEvent::Failed { .. }) => state.bytes -= FAILURE_COSTS,
            _ => {}
        }
        let room = state.held_back && state.bytes <= self.queue_bytes / 2;
        let event = if event.is_none() && state.over { Some(ScanEvent::Closed) } else { event };
        (event, room)
    }

    pub(crate) fn keep(&self, is_kept: impl Fn(Extent) -> bool) -> bool {
        let mut state = self.lock();
        let before = state.unkept.len();
        state.unkept.retain(|(delivered, _)| !is_kept(*delivered));
        let wake = state.write_held && state.unkept.len() < before;
        state.write_held &= !wake;
        wake
    }

    pub(crate) fn not_kept(&self, extent: Extent) -> bool {
        let mut state = self.lock();
        state
            .unkept
            .iter_mut()
            .filter(|(delivered, _)| delivered.overlaps(extent))
            .for_each(|(_, lost)| *lost = true);
        std::mem::take(&mut state.write_held)
    }

    /// Locks the state, which is consistent between any two statements.
    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sectors that are read before a write overwrites them arrive even while the scan is paused. When
/// this many times the bound waits, the point in time is given up.
const OVERFLOW: u64 = 8;
/// The bytes that a failure counts towards the bound. A missing drive fails a whole scan as fast as
/// its sectors are requested.
const FAILURE_COSTS: u64 = 512;
const MIN_OVERFLOW: u64 = 16 << 20;

/// Marks of the written regions of extents, one bit each. The engine sets a bit when it
/// receives a change of sectors and again when the change completes. The reader of a region clears
/// its bit.
///
/// Register it with `DriveHandle::watch_writes`. The engine drops its reference when no other is
/// left.
#[derive(Debug)]
pub struct WriteMarks {
    /// With the number of sectors before each.
    extents: Vec<(Extent, u64)>,
    region: u64,
    words: Vec<AtomicU64>,
}

impl WriteMarks {
    /// Nothing of these extents was written; in regions of `region` sectors from the start of the
    /// first. They count on from one extent to the next.
    ///
    /// # Panics
    /// When `region` is zero.
    #[must_use]
    pub fn new(extents: impl IntoIterator<Item = Extent>, region: Sectors) -> Self {
        let mut sectors = 0;
        let placed = extents.into_iter().map(|extent| {
            let before = sectors;
            sectors += extent.len.get();
            (extent, before)
        });
        let extents = placed.collect();
        let regions = sectors.div_ceil(region.get());
        Self {
            extents,
            region: region.get(),
            words: (0..regions.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Everything may have been written.
    pub fn mark_all(&self) {
        self.words.iter().for_each(|word| word.store(u64::MAX, Ordering::Release));
    }

    /// These sectors were written, as far as they belong here.
    pub fn mark(&self, written: Extent) {
        for (extent, before) in &self.extents {
            let Some(inside) = written.intersection(*extent) else { continue };
            let number = |lba: Lba| (before + (lba - extent.start).get()) / self.region;
            for region in number(inside.start)..=number(inside.last()) {
                self.words[(region / 64) as usize].fetch_or(1 << (region % 64), Ordering::AcqRel);
            }
        }
    }

    /// The bits, for keeping: bit `r % 64` of word `r / 64` is region `r`.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Acquire)).collect()
    }

    /// Sets what [`WriteMarks::words`] gave; `false` when it is of another length.
    #[must_use]
    pub fn set_words(&self, words: &[u64]) -> bool {
        let fits = words.len() == self.words.len();
        self.words.iter().zip(words).filter(|_| fits).for_each(|(word, value)| {
            word.fetch_or(*value, Ordering::AcqRel);
        });
        fits
    }

    /// Returns the marked regions, which are not marked any more. What is read of them afterwards
    /// has every change that was complete before, and any other one marks its region again.
    #[must_use]
    pub fn take(&self) -> Vec<Extent> {
        let mut taken = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let region = index as u64 * 64 + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                let marked = Extent::from_numbers(region * self.region, self.region);
                taken.extend(self.extents.iter().filter_map(|(extent, before)| {
                    let part = Extent::from_numbers(*before, extent.len.get());
                    let part = part.intersection(marked)?;
                    let skipped = Sectors::new(part.start.get() - before);
                    Some(Extent::new(extent.start + skipped, part.len))
                }));
            }
        }
        taken
    }

    /// The part of `extent` that lies in one region with its beginning, and whether that region was
    /// marked; it is not any more. What lies outside is in no region.
    fn take_region(&self, extent: Extent) -> (Extent, bool) {
        let within = self.extents.iter().find(|(own, _)| own.contains(extent.start));
        let Some((own, before)) = within else {
            let after = self.extents.iter().map(|(own, _)| own.start);
            let next = after.filter(|start| *start > extent.start).min();
            let end = extent.end().min(next.unwrap_or(extent.end()));
            return (Extent::new(extent.start, end - extent.start), false);
        };
        let region = (before + (extent.start - own.start).get()) / self.region;
        let rest = Sectors::new((region + 1) * self.region - before);
        let end = extent.end().min(own.end()).min(own.start + rest);
        let bit = 1 << (region % 64);
        let marked = self.words[(region / 64) as usize].fetch_and(!bit, Ordering::AcqRel);
        (Extent::new(extent.start, end - extent.start), marked & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(point_in_time: bool, queue_bytes: u64, marks: Option<Arc<WriteMarks>>) -> ScanQueue {
        let requested = PendingSectors::new(Sectors::new(100), Sectors::new(1));
        ScanQueue::new(
            0,
            &ScanStart {
                requested,
                point_in_time,
                hold_writes: true,
                paused: false,
                priority: ScanPriority::DEFAULT,
                marks,
                queue_bytes,
            },
        )
    }

    fn read(count: usize) -> Result<Bytes, i32> {
        Ok(Bytes::from(vec![1; count * 512]))
    }

    #[test]
    fn a_full_queue_says_so_and_has_room_again_when_half_of_it_is_taken() {
        let feed = feed(false, 2048, None);
        assert!(!feed.tell(Extent::from_numbers(0, 4), &read(4), 512, FillSource::Idle));
        assert!(feed.tell(Extent::from_numbers(4, 1), &read(1), 512, FillSource::Idle));
        assert!(!feed.has_room_again());
        let (event, room) = feed.take(Duration::ZERO);
        assert!(
            matches!(
                event,
                Some(ScanEvent::Read { extent, .. }) if extent == Extent::from_numbers(0, 4)
            ) && room
        );
        assert!(feed.has_room_again() && !feed.has_room_again(), "once");
    }

    #[test]
    fn a_part_of_a_delivered_extent_that_was_not_kept_may_be_requested_again() {
        let feed = feed(true, u64::MAX, None);
        feed.tell(Extent::from_numbers(0, 64), &read(64), 512, FillSource::Idle);
        feed.not_kept(Extent::from_numbers(0, 64));
        let mut requested = PendingSectors::new(Sectors::new(100), Sectors::new(8));
        requested.insert(Extent::from_numbers(10, 1));
        feed.request_again(&requested);
        let kept = |start, len| feed.is_kept(Extent::from_numbers(start, len));
        assert_eq!(
            [kept(0, 8), kept(7, 2), kept(8, 8), kept(15, 2), kept(16, 48)],
            [
                Retention::Never,
                Retention::Never,
                Retention::Yes,
                Retention::Never,
                Retention::Never
            ]
        );
        // It comes again, and may be kept now.
        feed.tell(Extent::from_numbers(8, 8), &read(8), 512, FillSource::Idle);
        assert_eq!(kept(10, 1), Retention::NotYet);
    }

    #[test]
    fn each_event_lies_in_one_region_and_reports_a_write_once() {
        let marks = Arc::new(WriteMarks::new([Extent::from_numbers(10, 25)], Sectors::new(10)));
        marks.mark(Extent::from_numbers(0, 12));
        marks.mark(Extent::from_numbers(30, 100));
        let feed = feed(false, u64::MAX, Some(marks));
        let tell = |start, len| {
            feed.tell(Extent::from_numbers(start, len), &read(len as usize), 512, FillSource::Gap);
            let mut delivered = Vec::new();
            while let (Some(ScanEvent::Read { extent, bytes, written, .. }), _) =
                feed.take(Duration::ZERO)
            {
                assert_eq!(bytes.len() as u64, extent.len.get() * 512);
                delivered.push((extent.start.get(), extent.len.get(), written));
            }
            delivered
        };
        assert_eq!(
            tell(5, 35),
            [(5, 5, false), (10, 10, true), (20, 10, false), (30, 5, true), (35, 5, false)]
        );
        assert_eq!(tell(10, 25), [(10, 10, false), (20, 10, false), (30, 5, false)]);
    }

    #[test]
    fn a_region_over_the_end_of_an_extent_goes_on_in_the_next() {
        let extents = [Extent::from_numbers(40, 15), Extent::from_numbers(10, 10)];
        let marks = WriteMarks::new(extents, Sectors::new(10));
        marks.mark(Extent::from_numbers(12, 1));
        assert_eq!(marks.words(), [0b010]);
        let take = |start, len| {
            let (part, marked) = marks.take_region(Extent::from_numbers(start, len));
            (part.start.get(), part.len.get(), marked)
        };
        assert_eq!(take(30, 20), (30, 10, false), "before the extent");
        assert_eq!(take(40, 20), (40, 10, false));
        assert_eq!(take(50, 20), (50, 5, true), "the first part of the region");
        assert_eq!(take(10, 20), (10, 5, false), "the rest of it");
        assert_eq!(take(15, 20), (15, 5, false));
    }

    #[test]
    fn marked_regions_are_taken_once() {
        let extents = [Extent::from_numbers(40, 15), Extent::from_numbers(1000, 1000)];
        let marks = WriteMarks::new(extents, Sectors::new(10));
        for start in [52, 1004, 1999] {
            marks.mark(Extent::from_numbers(start, 1));
        }
        let regions = [(50, 5), (1000, 5), (1995, 5)];
        assert_eq!(marks.take(), regions.map(|(start, len)| Extent::from_numbers(start, len)));
        assert_eq!(marks.take(), []);
    }

    #[test]
    fn a_write_waits_for_what_is_not_kept_and_not_for_what_never_will_be() {
        let feed = feed(true, u64::MAX, None);
        feed.tell(Extent::from_numbers(0, 8), &read(8), 512, FillSource::BeforeWrite);
        feed.tell(Extent::from_numbers(8, 8), &Err(5), 512, FillSource::Gap);
        assert_eq!(feed.is_kept(Extent::from_numbers(20, 5)), Retention::Yes);
        assert_eq!(feed.is_kept(Extent::from_numbers(7, 1)), Retention::NotYet);
        assert!(
            feed.keep(|extent| extent.start.get() == 0),
            "a write is held, so the engine is to be informed"
        );
        assert_eq!(
            (feed.is_kept(Extent::from_numbers(0, 8)), feed.is_kept(Extent::from_numbers(0, 9))),
            (Retention::Yes, Retention::NotYet)
        );
        assert!(feed.not_kept(Extent::from_numbers(15, 1)));
        assert_eq!(feed.is_kept(Extent::from_numbers(8, 1)), Retention::Never);
        feed.end(Some(ScanEvent::Closed));
        assert_eq!(
            feed.is_kept(Extent::from_numbers(8, 1)),
            Retention::Yes,
            "no write waits for a scan that is over"
        );
    }
}
