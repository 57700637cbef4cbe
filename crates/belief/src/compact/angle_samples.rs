//! [`AngleSamples`]: the newest observations of the platter, as many as memory allows.
//!
//! An angle sample is one completion: the time at which the end of a sector passed under the head.
//! The angle of that sector is not known yet; the searches find it from the agreement of many
//! samples.
//!
//! Cost: 16 bytes each.

use std::collections::VecDeque;
use std::ops::Range;

use headtime_units::{Instant, Lba};

/// One completion: the time at which the end of a sector passed under the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AngleSample {
    pub(crate) at: Instant,
    pub(crate) last: Lba,
}

/// The newest angle samples, in the order of time.
#[derive(Clone, Debug)]
pub(super) struct AngleSamples {
    kept: VecDeque<AngleSample>,
    most: usize,
    taken: u64,
}

impl AngleSamples {
    /// Creates an empty buffer for at most `most` samples.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: VecDeque::new(), most: most.max(1), taken: 0 }
    }

    /// Adds a sample; drops the oldest one if the buffer is full.
    pub(super) fn take(&mut self, angle_sample: AngleSample) {
        if self.kept.len() == self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(angle_sample);
        self.taken += 1;
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.kept.capacity() * size_of::<AngleSample>()) as u64
    }

    /// The number of samples ever added.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Drops all but the newest `count`.
    pub(super) fn keep_newest(&mut self, count: usize) {
        let over = self.kept.len().saturating_sub(count);
        self.kept.drain(..over);
    }

    /// The numbers of the newest `count` samples, counted over all that were ever added; the
    /// argument of [`AngleSamples::get`].
    pub(super) fn newest_numbers(&self, count: usize) -> Range<u64> {
        self.taken - self.kept.len().min(count) as u64..self.taken
    }

    /// The angle sample of that number, if it is still kept.
    pub(super) fn get(&self, number: u64) -> Option<AngleSample> {
        let first = self.taken - self.kept.len() as u64;
        self.kept.get(usize::try_from(number.checked_sub(first)?).ok()?).copied()
    }

    /// The newest `count` samples, oldest first.
    pub(super) fn newest(&self, count: usize) -> Vec<AngleSample> {
        self.kept.iter().skip(self.kept.len().saturating_sub(count)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_samples_are_dropped_first() {
        let mut angle_samples = AngleSamples::new(3);
        (0..5).for_each(|number| {
            angle_samples.take(AngleSample { at: Instant::from_ns(number), last: Lba::new(number) })
        });
        let kept = |angle_samples: &AngleSamples, count| {
            angle_samples
                .newest(count)
                .iter()
                .map(|angle_sample| angle_sample.last.get())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (kept(&angle_samples, 9), kept(&angle_samples, 2), angle_samples.taken()),
            (vec![2, 3, 4], vec![3, 4], 5)
        );
        let by_number = |angle_samples: &AngleSamples| {
            (0..7)
                .map(|number| angle_samples.get(number).map(|angle_sample| angle_sample.last.get()))
                .collect::<Vec<_>>()
        };
        assert_eq!(by_number(&angle_samples), [None, None, Some(2), Some(3), Some(4), None, None]);
        assert_eq!(angle_samples.newest_numbers(2), 3..5);
        angle_samples.keep_newest(1);
        assert_eq!(kept(&angle_samples, 9), [4]);
        assert_eq!(by_number(&angle_samples), [None, None, None, None, Some(4), None, None]);
    }
}
