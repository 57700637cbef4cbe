//! [`StallMeter`]: write stalls of a drive, as shingled drives show them that manage themselves.
//!
//! Such a drive acknowledges random writes from a media cache. When that is full, a write waits
//! until the drive has rewritten a band: it reads tens of MiB, and writes them again. Nothing tells
//! the host. This meter counts the writes and reads that took much longer than predicted, by minute
//! of the last ten, and [`StallCounts::suggest_shingling`] judges the counts.
//!
//! Worked example: in ten minutes 900 random writes, of which 40 took 0.8 s longer than predicted
//! in nine of the minutes, and 500 reads, of which two did: 4.4 % of the writes and 0.4 % of the
//! reads, which is less than a quarter. The drive is suspected. A drive whose worn surface makes it
//! repeat reads would have stalled at reads at least as often.
//!
//! - Counted: a random write (it does not continue the write before) that succeeded while no flush
//!   was at the drive, and a read that succeeded while no flush and no write was. A read beside a
//!   write may wait for the band that the *write* has to wait for. A write beside reads counts: the
//!   drive finished it first, so that it waited for nothing but itself.
//! - Not counted: commands that follow a pause of [`PAUSE`]. They may find the platters or the
//!   heads at rest, or a drive that rewrites bands because it was idle.
//! - Not recognised: drives that rewrite in steps shorter than [`STALL`], mixed loads in which
//!   reads always wait beside writes, and other causes of stalls that prefer writes. Strong
//!   vibration is one: a head that is off its track may still read, and must not write.
//!
//! Cost: a few comparisons for each completion with a recorded prediction.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos};

use crate::request::Op;

/// The excess over the prediction that makes a stall. A conventional drive gives up to repeat a
/// write after 0.15 s (manual of the Cheetah 15K.5: six attempts in 148 ms), and waits some tens of
/// milliseconds for a full write cache or a recalibration. To rewrite a band takes 0.5 s and more:
/// its 15 to 40 MiB (Aghayev and Desnoyers, Skylight, FAST 2015) pass at some 150 MB/s, at least
/// twice, and once more where a copy protects them from a power cut.
pub const STALL: Nanos = Nanos::from_ms(500);
/// Stalls that make a suspicion (chosen): more than resets of a link or growing defects cause.
const STALLS: u64 = 10;
/// The number of different minutes with stalls (chosen): a full media cache makes itself felt
/// continually, a disturbance from outside passes. There is no minimum of writes. A drive that
/// rewrites a band for every write serves one or two writes in a second.
const MINUTES: usize = 4;
/// The share of writes that stall must be this multiple of that of reads (chosen). A worn surface
/// (a read of the Cheetah is repeated for up to 1.3 s), a busy host and a bad cable stall reads at
/// least as often. With equal shares and as many reads as writes, ten stalls beside at most two
/// have a probability of 0.3 %.
const WRITES_OVER_READS: u64 = 4;
/// The pause after which a command is not counted (guess). Drives start work of their own after
/// about a second without commands; Cheetah drives after half a second.
const PAUSE: Nanos = Nanos::from_secs(1);
/// Minutes that the counts cover, the present one included.
const WINDOW: usize = 10;
const MINUTE: Nanos = Nanos::from_secs(60);

/// The commands of the last ten minutes, and those among them that stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallCounts {
    /// Random writes.
    pub writes: u64,
    /// Of these, writes that took [`STALL`] longer than predicted.
    pub write_stalls: u64,
    /// The number of different minutes in which writes stalled.
    pub minutes: usize,
    /// The longest excess over the prediction, of these writes.
    pub longest: Nanos,
    /// Reads.
    pub reads: u64,
    /// Of these, reads that took [`STALL`] longer than predicted.
    pub read_stalls: u64,
}

impl StallCounts {
    /// Returns true if writes stall often, again and again, and much more often than reads.
    #[must_use]
    pub fn suggest_shingling(&self) -> bool {
        self.write_stalls >= STALLS
            && self.minutes >= MINUTES
            && WRITES_OVER_READS * self.read_stalls * self.writes <= self.write_stalls * self.reads
    }

    fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.write_stalls += other.write_stalls;
        self.minutes += usize::from(other.write_stalls > 0);
        self.longest = self.longest.max(other.longest);
        self.reads += other.reads;
        self.read_stalls += other.read_stalls;
    }
}

/// One completed command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedCommand {
    pub(crate) arm: usize,
    pub(crate) op: Op,
    pub(crate) extent: Extent,
    /// The end of the access before.
    pub(crate) before: Instant,
    pub(crate) dispatched: Instant,
    pub(crate) finished: Instant,
    pub(crate) predicted: Nanos,
}

/// Counts stalls by arm and minute.
#[derive(Debug, Default)]
pub(crate) struct StallMeter {
    /// For each arm that has served a command, the minute of each count, from 1, and the counts.
    arms: Vec<[(u64, StallCounts); WINDOW]>,
    /// The end of the last write.
    write_end: u64,
}

impl StallMeter {
    /// Counts a command that succeeded. `others` are the operations at its arm that have not
    /// completed.
    pub(crate) fn observe(&mut self, done: TimedCommand, others: impl Iterator<Item = Op>) {
        let TimedCommand { arm, op, extent, before, dispatched, finished, predicted } = done;
        let mut hinders = others.map(|other| match op {
            Op::Read => other != Op::Read,
            _ => other == Op::Flush,
        });
        let continues = op == Op::Write && extent.start.get() == self.write_end;
        if op == Op::Write {
            self.write_end = extent.end().get();
        }
        if !matches!(op, Op::Read | Op::Write)
            || continues
            || dispatched.saturating_since(before) >= PAUSE
            || hinders.any(|hinders| hinders)
        {
            return;
        }
        let excess = finished.saturating_since(before.max(dispatched)).saturating_sub(predicted);
        let stalls = u64::from(excess >= STALL);
        let number = minute_of(finished);
        if self.arms.len() <= arm {
            self.arms.resize(arm + 1, Default::default());
        }
        let (minute, counts) = &mut self.arms[arm][(number % WINDOW as u64) as usize];
        if *minute != number {
            (*minute, *counts) = (number, StallCounts::default());
        }
        if op == Op::Read {
            counts.reads += 1;
            counts.read_stalls += stalls;
        } else {
            counts.writes += 1;
            counts.write_stalls += stalls;
            counts.longest = counts.longest.max(excess);
        }
    }

    /// The counts of the last ten minutes at `now`, by arm.
    pub(crate) fn counts(&self, now: Instant) -> Vec<StallCounts> {
        let in_window = |minute: u64| minute + WINDOW as u64 > minute_of(now);
        let of_arm = |minutes: &[(u64, StallCounts); WINDOW]| {
            let mut sum = StallCounts::default();
            let recent = minutes.iter().filter(|(minute, _)| in_window(*minute));
            recent.for_each(|(_, counts)| sum.add(counts));
            sum
        };
        self.arms.iter().map(of_arm).collect()
    }
}

/// The minute of a time, from 1.
fn minute_of(at: Instant) -> u64 {
    at.as_ns() / MINUTE.as_ns() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A meter whose commands follow each other, predicted to take 10 ms.
    #[derive(Default)]
    struct Drive {
        meter: StallMeter,
        now: Instant,
        commands: u64,
    }

    impl Drive {
        fn does(&mut self, op: Op, took_ms: u64, others: &[Op]) {
            self.commands += 1;
            let before = self.now;
            self.now += Nanos::from_ms(took_ms);
            let done = TimedCommand {
                arm: 0,
                op,
                extent: Extent::from_numbers(self.commands * 7_919 % 100_000, 8),
                before,
                dispatched: before,
                finished: self.now,
                predicted: Nanos::from_ms(10),
            };
            self.meter.observe(done, others.iter().copied());
        }

        fn counts(&self) -> StallCounts {
            self.meter.counts(self.now).first().copied().unwrap_or_default()
        }

        /// `minutes` with four stalls each of `stalls`, among commands of both kinds without.
        fn minutes(&mut self, minutes: u64, stalls: &[(Op, u64)]) {
            for _ in 0..minutes {
                let end = self.now + MINUTE;
                for _ in 0..4 {
                    stalls.iter().for_each(|(op, ms)| self.does(*op, *ms, &[]));
                    (0..50).for_each(|_| self.does(Op::Read, 10, &[]));
                    (0..50).for_each(|_| self.does(Op::Write, 10, &[]));
                }
                self.now = self.now.max(end);
            }
        }
    }

    #[test]
    fn stalls_of_writes_alone_suggest_shingling_and_are_forgotten_after_ten_minutes() {
        let mut drive = Drive::default();
        drive.minutes(3, &[(Op::Write, 900)]);
        assert_eq!(drive.counts().write_stalls, 12);
        assert!(!drive.counts().suggest_shingling(), "three minutes may be a disturbance");
        drive.minutes(1, &[(Op::Write, 1_400)]);
        let counts = drive.counts();
        assert!(counts.suggest_shingling(), "{counts:?}");
        assert_eq!((counts.minutes, counts.longest), (4, Nanos::from_ms(1_390)));
        assert_eq!((counts.writes, counts.reads), (816, 800));
        drive.minutes(9, &[]);
        assert!(!drive.counts().suggest_shingling());
    }

    #[test]
    fn stalls_of_reads_too_suggest_another_fault() {
        let mut drive = Drive::default();
        drive.minutes(6, &[(Op::Write, 900), (Op::Read, 900)]);
        assert!(!drive.counts().suggest_shingling(), "{:?}", drive.counts());
        // A read that waits now and then for a band changes nothing.
        let mut drive = Drive::default();
        drive.minutes(5, &[(Op::Write, 900), (Op::Write, 900)]);
        drive.minutes(1, &[(Op::Write, 900), (Op::Read, 900)]);
        assert!(drive.counts().suggest_shingling(), "{:?}", drive.counts());
    }

    #[test]
    fn shorter_waits_are_no_stalls() {
        let mut drive = Drive::default();
        drive.minutes(6, &[(Op::Write, 509)]);
        assert_eq!(drive.counts().write_stalls, 0);
        drive.does(Op::Write, 510, &[]);
        assert_eq!(drive.counts().write_stalls, 1);
    }

    #[test]
    fn what_waits_for_others_or_after_a_pause_is_not_counted() {
        let mut drive = Drive::default();
        drive.does(Op::Write, 900, &[Op::Flush]);
        drive.does(Op::Read, 900, &[Op::Write]);
        drive.does(Op::Zero, 900, &[]);
        drive.does(Op::Flush, 900, &[]);
        drive.now += PAUSE;
        let idle = TimedCommand {
            arm: 0,
            op: Op::Write,
            extent: Extent::from_numbers(0, 8),
            before: Instant::ORIGIN,
            dispatched: drive.now,
            finished: drive.now + Nanos::from_secs(8),
            predicted: Nanos::ZERO,
        };
        drive.meter.observe(idle, core::iter::empty());
        let next = Extent::from_numbers(8, 8);
        let continues =
            TimedCommand { extent: next, before: idle.finished, dispatched: idle.finished, ..idle };
        drive.meter.observe(continues, core::iter::empty());
        assert_eq!(drive.counts(), StallCounts::default());
        drive.does(Op::Write, 900, &[Op::Read]);
        assert_eq!((drive.counts().writes, drive.counts().write_stalls), (1, 1));
    }
    #[test]
    fn each_arm_is_judged_by_itself() {
        let mut drive = Drive::default();
        drive.minutes(4, &[(Op::Write, 900)]);
        let on_other_arm = TimedCommand {
            arm: 2,
            op: Op::Read,
            extent: Extent::from_numbers(0, 8),
            before: drive.now,
            dispatched: drive.now,
            finished: drive.now + Nanos::from_ms(900),
            predicted: Nanos::from_ms(10),
        };
        (0..20).for_each(|_| drive.meter.observe(on_other_arm, core::iter::empty()));
        let counts = drive.meter.counts(on_other_arm.finished);
        assert_eq!(counts.len(), 3);
        assert!(counts[0].suggest_shingling(), "stalled reads elsewhere change nothing");
        assert_eq!((counts[1], counts[2].read_stalls), (StallCounts::default(), 20));
    }
}
