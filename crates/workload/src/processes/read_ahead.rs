//! [`FileRead`]: one process reads one file from start to end through the page cache.
//!
//! The process calls read for a few sectors at a time and thinks between its calls. A call whose
//! data is not in the cache waits for it. Read-ahead fetches windows: the first has a quarter of
//! the largest, each later one twice the length of the one before it. The first call into the
//! newest window submits the next one, so at most one read is pending.
//!
//! Worked example with calls of 4 KiB, a think time of 1 ms, windows of at most 128 KiB and a file
//! of 100 KiB: at 0 ms the process submits 0–32 KiB and waits. The data is there at 9 ms. The first
//! call takes its 4 KiB and submits 32–96 KiB. Seven calls later, at 17 ms, the process waits for
//! the second window if that is still pending. The first call into it submits the last 4 KiB.
//!
//! A process that waits continues [`WAKE_UP`] after its data is there. A drive that has other
//! requests gets the next one before that: without anticipation, synchronous readers alternate.
//!
//! The model is the read-ahead of Linux 2.6 for a sequential reader. *Not modelled*: windows that
//! shrink under memory pressure, and reads that are not sequential.

use headtime_units::{Extent, Instant, Nanos};

use crate::check::Check;
use crate::error::StreamFault;

/// The time from a completion to the first instruction of the process that waits for it: interrupt,
/// wake-up and context switch. A guess.
pub(crate) const WAKE_UP: Nanos = Nanos::from_us(10);

/// The lengths of read-ahead windows in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    first: u64,
    max: u64,
}

impl Windows {
    /// The windows up to a length of `max` sectors.
    pub(crate) fn up_to(max: u64) -> Self {
        Self { first: max.div_ceil(4), max }
    }

    /// No read-ahead: each call reads what it lacks.
    pub(crate) const NONE: Self = Self { first: 0, max: 0 };

    /// The windows up to a length in bytes.
    pub(crate) fn checked(max_bytes: Option<u64>, check: &Check) -> Result<Self, StreamFault> {
        max_bytes
            .map_or(Ok(Self::NONE), |bytes| check.sectors("read_ahead", bytes).map(Self::up_to))
    }
}

/// A process that reads a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRead {
    /// The first sector that no call has taken.
    next: u64,
    /// The end of the file.
    end: u64,
    /// The end of the call that waits, and the think time after it; the end is 0 for none.
    call_end: u64,
    think: Nanos,
    /// The start of the newest window, and the end of all windows.
    newest: u64,
    submitted: u64,
    window: u64,
    max_window: u64,
    /// The time of the next call.
    at: Instant,
}

/// The next event of a [`FileRead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadStep {
    /// The read to submit and its time.
    pub(crate) request: Option<(Instant, Extent)>,
    /// The time of the end of the file, if the process reaches it without waiting again.
    pub(crate) done: Option<Instant>,
}

impl FileRead {
    /// The process that begins to read `file` at `at`.
    pub(crate) fn new(file: Extent, windows: Windows, at: Instant) -> Self {
        let start = file.start.get();
        Self {
            next: start,
            end: file.end().get(),
            call_end: 0,
            think: Nanos::ZERO,
            newest: start,
            submitted: start,
            window: windows.first,
            max_window: windows.max,
            at,
        }
    }

    /// Advances from `now`, when all submitted reads are complete, until the process waits again
    /// or the file ends. `call` returns the length of a call and the think time after it.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        mut call: impl FnMut() -> (u64, Nanos),
    ) -> ReadStep {
        let in_cache = self.submitted;
        if self.at < now {
            self.at = now + WAKE_UP;
        }
        let mut request = None;
        while self.next < self.end {
            if self.call_end == 0 {
                let (len, think) = call();
                self.call_end = (self.next + len).min(self.end);
                self.think = think;
            }
            if self.call_end > in_cache {
                if request.is_none() {
                    request = Some(self.submit());
                }
                return ReadStep { request, done: None };
            }
            if request.is_none() && self.max_window > 0 && self.call_end > self.newest {
                // The first call into the newest window.
                request = (self.submitted < self.end).then(|| self.submit());
            }
            self.next = self.call_end;
            self.call_end = 0;
            self.at += self.think;
        }
        ReadStep { request, done: Some(self.at) }
    }

    /// The next window.
    fn submit(&mut self) -> (Instant, Extent) {
        let len = self.window.max(self.call_end.saturating_sub(self.submitted));
        let extent = Extent::from_numbers(self.submitted, len.min(self.end - self.submitted));
        self.newest = self.submitted;
        self.submitted = extent.end().get();
        self.window = (self.window * 2).min(self.max_window);
        (self.at, extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const KIB: u64 = 2;

    fn ms(ms: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_ms(ms)
    }

    /// Runs a process whose reads each take `service_ms`; the reads as submission time, start and
    /// length in ms and KiB, and the end.
    fn run(file_kib: u64, windows: Windows, service_ms: u64) -> (Vec<(u64, u64, u64)>, Instant) {
        let mut process =
            FileRead::new(Extent::from_numbers(0, file_kib * KIB), windows, Instant::ORIGIN);
        let mut reads = Vec::new();
        let mut now = Instant::ORIGIN;
        loop {
            let step = process.advance(now, || (4 * KIB, Nanos::from_ms(1)));
            match step {
                ReadStep { request: Some((at, extent)), .. } => {
                    let start = extent.start.get() / KIB;
                    reads.push((at.as_ns() / 1_000_000, start, extent.len.get() / KIB));
                    now = at + Nanos::from_ms(service_ms);
                }
                ReadStep { request: None, done } => {
                    return (reads, done.expect("a process without a read is at its end"));
                }
            }
        }
    }

    #[test]
    fn windows_double_and_are_submitted_at_the_first_call_into_the_newest() {
        // The example above, with a drive that needs 9 ms for each read: the second window is
        // there at 18 ms, one after the process asks for it.
        let (reads, end) = run(100, Windows::up_to(128 * KIB), 9);
        assert_eq!(reads, [(0, 0, 32), (9, 32, 64), (18, 96, 4)]);
        assert_eq!(end, ms(18 + 16 + 1) + WAKE_UP * 2);
    }

    #[test]
    fn windows_stay_at_the_maximum() {
        let (reads, _) = run(1_024, Windows::up_to(128 * KIB), 1);
        let lengths: Vec<u64> = reads.iter().map(|(_, _, len)| *len).collect();
        assert_eq!(lengths, [32, 64, 128, 128, 128, 128, 128, 128, 128, 32]);
        assert_eq!(reads.iter().map(|(_, _, len)| len).sum::<u64>(), 1_024);
    }

    #[test]
    fn without_read_ahead_each_call_waits_for_its_own_read() {
        let (reads, end) = run(10, Windows::NONE, 5);
        assert_eq!(reads, [(0, 0, 4), (6, 4, 4), (12, 8, 2)]);
        assert_eq!(end, ms(18) + WAKE_UP * 3);
    }

    #[test]
    fn a_slow_process_never_waits_for_a_fast_drive_after_the_first_read() {
        let (reads, end) = run(256, Windows::up_to(128 * KIB), 3);
        assert_eq!(end, ms(3 + 64) + WAKE_UP, "one wait, then 64 calls of 1 ms");
        assert_eq!(reads[1..], [(3, 32, 64), (11, 96, 128), (27, 224, 32)]);
    }
}
