//! [`Counts`]: statistics of the records of a trace on their way to a drive.
//!
//! A replay holds only the end of the pipeline. The counts are shared, so that they can be read
//! during the replay and after it.

use core::sync::atomic::{AtomicU64, Ordering};

use super::record::TraceRecord;

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Statistics of records.
#[derive(Debug, Default)]
pub struct Counts {
    /// Read from the trace.
    pub read: Count,
    /// Outside of the selected part, or of a device or process that is not selected.
    pub not_chosen: Count,
    /// Later in the trace than the window of sorting allows: their times were changed.
    pub clamped: Count,
    /// Reads, writes, discards of no bytes: dropped.
    pub empty: Count,
    /// Past the end of the drive: dropped.
    pub dropped: Count,
    /// Longer than the drive, or across its end: shortened or moved.
    pub clipped: Count,
    /// Widened to whole sectors.
    pub widened: Count,
    /// Of devices or processes beyond the maximum number of streams: they share the last stream.
    pub sharing: Count,
    /// Without a response time in a replay by think times: they follow at their recorded distance.
    pub without_response: Count,
    /// Issued to the drive.
    pub issued: Count,
    misfit: FirstMisfit,
}

/// The first refused record, stored without a lock.
#[derive(Debug, Default)]
struct FirstMisfit {
    known: AtomicU64,
    place: AtomicU64,
    offset_bytes: AtomicU64,
    len_bytes: AtomicU64,
    capacity_bytes: AtomicU64,
}

/// A record that does not fit the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request of line or record {place} is for {len_bytes} bytes from {offset_bytes}, but the \
        drive ends at {capacity_bytes}; \
     take a larger drive, let addresses wrap, scale or be packed, or leave out what does not fit"
)]
pub struct Misfit {
    /// The position in the trace.
    pub place: u64,
    /// The first byte.
    pub offset_bytes: u64,
    /// The length.
    pub len_bytes: u64,
    /// The drive's size.
    pub capacity_bytes: u64,
}

impl Misfit {
    pub(super) fn of(record: &TraceRecord, capacity_bytes: u64) -> Self {
        Self {
            place: record.place,
            offset_bytes: record.offset_bytes,
            len_bytes: record.len_bytes,
            capacity_bytes,
        }
    }
}

impl Counts {
    /// The record at which a replay ended that refuses records outside of the drive.
    #[must_use]
    pub fn refused(&self) -> Option<Misfit> {
        let misfit = &self.misfit;
        (misfit.known.load(Ordering::Acquire) == 1).then(|| Misfit {
            place: misfit.place.load(Ordering::Relaxed),
            offset_bytes: misfit.offset_bytes.load(Ordering::Relaxed),
            len_bytes: misfit.len_bytes.load(Ordering::Relaxed),
            capacity_bytes: misfit.capacity_bytes.load(Ordering::Relaxed),
        })
    }

    /// Stores the record at which a replay ends. The pipeline that owns the counts calls this once.
    pub(super) fn refuse(&self, misfit: Misfit) {
        self.misfit.place.store(misfit.place, Ordering::Relaxed);
        self.misfit.offset_bytes.store(misfit.offset_bytes, Ordering::Relaxed);
        self.misfit.len_bytes.store(misfit.len_bytes, Ordering::Relaxed);
        self.misfit.capacity_bytes.store(misfit.capacity_bytes, Ordering::Relaxed);
        self.misfit.known.store(1, Ordering::Release);
    }
}
