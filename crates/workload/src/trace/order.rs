//! [`Reordered`]: sorts the records of a trace that is almost in order of time.
//!
//! Traces are written from the buffers of several processors, or at completion, so neighbors may be
//! swapped. A window of records is buffered and the earliest is returned. A record that comes later
//! than the window allows is a straggler: its time becomes that of the record before it, and is
//! counted.
//!
//! Worked example, with a window of 2: times 5 3 9 4 1 come out as 3 4 4* 5 9. When 4 arrives, 5
//! and 9 are held and 3 is out; when 1 arrives, 3 and then 4 are out, so it becomes 4.
//!
//! Cost: a heap of as many records as the window has, and its logarithm for each record.

use alloc::collections::BinaryHeap;
use alloc::sync::Arc;
use core::cmp::Reverse;

use headtime_units::Instant;

use super::counts::Counts;
use super::record::TraceRecord;

/// The default number of records that are buffered for sorting. A guess: several times the deepest
/// queue whose completions could be out of order.
pub const REORDER_WINDOW: usize = 4096;

/// Records by time; those of one time in their order in the trace.
#[derive(Debug)]
pub struct Reordered<I> {
    records: I,
    held: BinaryHeap<Reverse<Held>>,
    window: usize,
    came: u64,
    last: Instant,
    counts: Arc<Counts>,
}

/// A buffered record.
#[derive(Debug)]
struct Held {
    at: Instant,
    came: u64,
    record: TraceRecord,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.came) == (other.at, other.came)
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.came).cmp(&(other.at, other.came))
    }
}

impl<I: Iterator<Item = TraceRecord>> Reordered<I> {
    /// Buffers `window` records and counts stragglers in `counts`.
    pub fn new(records: I, window: usize, counts: Arc<Counts>) -> Self {
        Self { records, held: BinaryHeap::new(), window, came: 0, last: Instant::ORIGIN, counts }
    }
}

impl<I: Iterator<Item = TraceRecord>> Iterator for Reordered<I> {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        while self.held.len() <= self.window {
            let Some(record) = self.records.next() else { break };
            self.held.push(Reverse(Held { at: record.at, came: self.came, record }));
            self.came += 1;
        }
        let Reverse(Held { mut record, .. }) = self.held.pop()?;
        if record.at < self.last {
            record.at = self.last;
            self.counts.clamped.add();
        }
        self.last = record.at;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Operation;
    use alloc::vec::Vec;

    fn at(ns: u64, place: u64) -> TraceRecord {
        TraceRecord::new(place, Instant::from_ns(ns), Operation::Read, 0, 512).unwrap()
    }

    #[test]
    fn neighbors_are_put_in_order_and_stragglers_are_moved_and_counted() {
        let counts = Arc::new(Counts::default());
        let records = [5, 3, 9, 4, 1].into_iter().zip(1..).map(|(ns, place)| at(ns, place));
        let out: Vec<(u64, u64)> = Reordered::new(records, 2, Arc::clone(&counts))
            .map(|record| (record.at.as_ns(), record.place))
            .collect();
        assert_eq!(out, [(3, 2), (4, 4), (4, 5), (5, 1), (9, 3)]);
        assert_eq!(counts.clamped.get(), 1);
    }

    #[test]
    fn records_of_one_time_keep_their_order() {
        let records = (1..=100).map(|place| at(7, place));
        let out: Vec<u64> =
            Reordered::new(records, 8, Arc::default()).map(|record| record.place).collect();
        assert_eq!(out, (1..=100).collect::<Vec<_>>());
    }
}
