//! [`Adjusted`]: the selected part of a trace, in order, from time zero, at the requested speed.
//!
//! Steps: sort ([`Reordered`]); select a time range, counted from the trace's first record; select
//! devices and processes; skip the first records and stop after a number of records; shift the
//! first remaining record to time zero; scale times.
//!
//! Worked example: times 10 s, 12 s, 15 s, 17 s, from 1 s on, scaled by ½: the record at 10 s lies
//! before 1 s and is dropped; the others are issued at 0 s, 1.5 s and 2.5 s.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::counts::Counts;
use super::order::{REORDER_WINDOW, Reordered};
use super::record::TraceRecord;

/// The factor of all times, in millionths: 2 makes a trace last twice as long, ½ half as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale(u64);

impl TimeScale {
    /// As recorded.
    pub const ONE: Self = Self(1_000_000);

    /// `millionths` of the recorded times.
    #[must_use]
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// The factor in millionths.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// A scaled span of the trace, at most [`Nanos::MAX`].
    #[must_use]
    pub fn stretch(self, span: Nanos) -> Nanos {
        let ns = u128::from(span.as_ns()) * u128::from(self.0) / 1_000_000;
        Nanos::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// The selected part of a trace, and its speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjust {
    /// The start, as a time after the trace's first record.
    pub from: Nanos,
    /// The end, as a time after the trace's first record.
    pub until: Option<Nanos>,
    /// Only these devices; all when empty.
    pub devices: Vec<u32>,
    /// Only these processes; all when empty.
    pub processes: Vec<u32>,
    /// The number of selected records to skip.
    pub skip: u64,
    /// The maximum number of records after that.
    pub take: Option<u64>,
    /// The factor of all times, including response and think times.
    pub scale: TimeScale,
    /// The number of records that are buffered for sorting.
    pub window: usize,
}

impl Default for Adjust {
    /// All of it, as recorded, from time zero.
    fn default() -> Self {
        Self {
            from: Nanos::ZERO,
            until: None,
            devices: Vec::new(),
            processes: Vec::new(),
            skip: 0,
            take: None,
            scale: TimeScale::ONE,
            window: REORDER_WINDOW,
        }
    }
}

/// The selected records, in order, from time zero.
#[derive(Debug)]
pub struct Adjusted<I> {
    records: Reordered<I>,
    adjust: Adjust,
    counts: Arc<Counts>,
    /// The time of the trace's first record.
    zero: Option<Instant>,
    /// The time of the first selected record.
    origin: Option<Instant>,
    skipped: u64,
    taken: u64,
    over: bool,
}

impl<I: Iterator<Item = TraceRecord>> Adjusted<I> {
    /// Adjusts `records` and counts the changes in `counts`.
    pub fn new(records: I, adjust: Adjust, counts: Arc<Counts>) -> Self {
        let records = Reordered::new(records, adjust.window, Arc::clone(&counts));
        Self {
            records,
            adjust,
            counts,
            zero: None,
            origin: None,
            skipped: 0,
            taken: 0,
            over: false,
        }
    }

    /// Tests whether the record is selected; ends the iteration when no later one can be.
    fn selects(&mut self, record: &TraceRecord) -> bool {
        let zero = *self.zero.get_or_insert(record.at);
        let since = record.at.saturating_since(zero);
        let Adjust { from, until, devices, processes, skip, .. } = &self.adjust;
        if until.is_some_and(|until| since >= until) {
            self.over = true;
            return false;
        }
        let chosen = |numbers: &[u32], number| numbers.is_empty() || numbers.contains(&number);
        if since < *from || !chosen(devices, record.device) || !chosen(processes, record.process) {
            return false;
        }
        if self.skipped < *skip {
            self.skipped += 1;
            return false;
        }
        true
    }
}

impl<I: Iterator<Item = TraceRecord>> Iterator for Adjusted<I> {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        while !self.over && self.adjust.take.is_none_or(|take| self.taken < take) {
            let record = self.records.next()?;
            self.counts.read.add();
            if !self.selects(&record) {
                self.counts.not_chosen.add();
                continue;
            }
            self.taken += 1;
            let origin = *self.origin.get_or_insert(record.at);
            let scale = self.adjust.scale;
            let stretch = |span: Option<Nanos>| span.map(|span| scale.stretch(span));
            let at = Instant::ORIGIN + scale.stretch(record.at.saturating_since(origin));
            return Some(TraceRecord {
                at,
                response: stretch(record.response),
                think: stretch(record.think),
                ..record
            });
        }
        None
    }
}
