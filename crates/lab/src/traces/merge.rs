//! [`Merged`]: the records of several files of one trace, by time.
//!
//! blktrace writes one file for each processor, and other traces come one file a day or a disk.
//! Each file is read as far as its next record, and the earliest of these is handed out, so as many
//! records are held as there are files. Files that are not in order themselves are put in order
//! further on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use headtime_units::Instant;
use headtime_workload::trace::TraceRecord;

use super::report::Damage;

/// Records of all files by time; those of one time in the order of the files.
pub(super) struct Merged<R> {
    readers: Vec<R>,
    /// The next record of each file that has one.
    next: BinaryHeap<Reverse<(Instant, usize)>>,
    records: Vec<Option<TraceRecord>>,
    started: bool,
    damage: Arc<Damage>,
}

impl<R: Iterator<Item = TraceRecord>> Merged<R> {
    pub(super) fn new(readers: Vec<R>, damage: Arc<Damage>) -> Self {
        let records = readers.iter().map(|_| None).collect();
        Self { readers, next: BinaryHeap::new(), records, started: false, damage }
    }

    fn read(&mut self, file: usize) {
        if let Some(record) = self.readers[file].next() {
            self.next.push(Reverse((record.at, file)));
            self.records[file] = Some(record);
        }
    }
}

impl<R: Iterator<Item = TraceRecord>> Iterator for Merged<R> {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        if let [reader] = &mut self.readers[..] {
            return reader.next();
        }
        if !std::mem::replace(&mut self.started, true) {
            (0..self.readers.len()).for_each(|file| self.read(file));
        }
        let Reverse((_, file)) = self.next.pop()?;
        let record = self.records[file].take();
        self.read(file);
        // If one file cannot be read further, the order of the others is no longer known.
        record.filter(|_| !self.damage.is_fatal())
    }
}

impl<R> Drop for Merged<R> {
    fn drop(&mut self) {
        self.damage.say_rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_workload::Operation;

    #[test]
    fn files_are_merged_by_time_and_then_by_their_order() {
        let file = |places: std::ops::Range<u64>, times: [u64; 3]| {
            let record = |(place, ns)| {
                TraceRecord::new(place, Instant::from_ns(ns), Operation::Read, 0, 512)
                    .expect("it ends below 2^64")
            };
            places.zip(times).map(record).collect::<Vec<_>>().into_iter()
        };
        let files = vec![file(10..13, [1, 5, 9]), file(20..20, [0; 3]), file(30..33, [0, 5, 6])];
        let merged = Merged::new(files, Arc::new(Damage::new(false, false)));
        assert_eq!(merged.map(|record| record.place).collect::<Vec<_>>(), [30, 10, 11, 31, 32, 12]);
    }
}
