//! [`Destaging`]: writes that the drive has taken into its cache, and the owners that pay for
//! destaging them: tenants, or streams.
//!
//! A drive acknowledges such a write after its transfer to the cache, and destages it later: while
//! it is idle, between other commands, which take longer then, or for a flush, which waits for all
//! writes before it. Charged as measured, a copy would pay a tenth of its time and a database the
//! rest with each commit. So a cached write is charged the transfer to the medium at least, and
//! what others wait for is taken from that: the time of a flush, and that of a request beyond a
//! change to another owner. What a flush takes beyond it is charged to the owners of the writes
//! since the last flush.

use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

/// The writes since the last flush, by owners `O`.
#[derive(Clone, Debug)]
pub(crate) struct Destaging<O> {
    /// The time charged for writes beyond what they took so far.
    paid_ahead: Nanos,
    /// The owners of the writes, with an estimate of what it costs to destage those.
    writers: Vec<(O, Nanos)>,
    /// The same before the last flush, and its completion.
    flushed: (Vec<(O, Nanos)>, Option<Instant>),
    last_finished: Instant,
    /// The time, so far, in which the drive had no command.
    idle: Nanos,
}

impl<O> Default for Destaging<O> {
    fn default() -> Self {
        Self {
            paid_ahead: Nanos::ZERO,
            writers: Vec::new(),
            flushed: (Vec::new(), None),
            last_finished: Instant::ORIGIN,
            idle: Nanos::ZERO,
        }
    }
}

/// The maximum number of writers between two flushes; with more, they are forgotten (guess: far
/// more than owners that write at the same time).
const WRITERS: usize = 256;

impl<O: Copy + PartialEq> Destaging<O> {
    /// The time charged for writes that the drive has still to destage.
    pub(crate) fn paid_ahead(&self) -> Nanos {
        self.paid_ahead
    }

    /// Notes that the drive had no command for `idle` in all so far, and has destaged meanwhile.
    pub(crate) fn was_idle(&mut self, idle: Nanos) {
        let since = idle.saturating_sub(self.idle);
        self.paid_ahead = self.paid_ahead.saturating_sub(since);
        self.idle = idle;
    }

    /// Notes a command, or a part of one.
    pub(crate) fn served(&mut self, finished: Instant) {
        if self.flushed.1 == Some(self.last_finished) && finished > self.last_finished {
            self.paid_ahead = Nanos::ZERO;
        }
        self.last_finished = self.last_finished.max(finished);
    }

    /// The time to charge for a write into the cache that took `took`, if its transfer to the
    /// medium takes `transfer` and its way there `positioning`.
    pub(crate) fn wrote(
        &mut self,
        owner: O,
        took: Nanos,
        transfer: Nanos,
        positioning: Nanos,
    ) -> Nanos {
        let cost = transfer + positioning;
        match self.writers.iter_mut().find(|(writer, _)| *writer == owner) {
            Some((_, all)) => *all += cost,
            None => {
                if self.writers.len() >= WRITERS {
                    self.writers.clear();
                }
                self.writers.push((owner, cost));
            }
        }
        self.paid_ahead += transfer.saturating_sub(took);
        took.max(transfer)
    }

    /// The time to charge for another command that took `took`, where `most` is the longest that
    /// one of its kind takes alone: beyond that it has waited for writes, as far as they are paid.
    pub(crate) fn waited(&mut self, took: Nanos, most: Nanos) -> Nanos {
        let paid = took.saturating_sub(most).min(self.paid_ahead);
        self.paid_ahead = self.paid_ahead.saturating_sub(paid);
        took.saturating_sub(paid)
    }

    /// The times to charge to owners for a flush of `flusher`, or its part of one, that took
    /// `took`; it is the command last [`served`](Self::served).
    pub(crate) fn flushed(&mut self, flusher: O, took: Nanos) -> Vec<(O, Nanos)> {
        let left = self.waited(took, Nanos::ZERO);
        if self.flushed.1 != Some(self.last_finished) {
            self.flushed = (core::mem::take(&mut self.writers), Some(self.last_finished));
        }
        let writers = &self.flushed.0;
        let all = writers.iter().map(|(_, cost)| *cost).sum::<Nanos>().as_ns() as f64;
        if all == 0.0 {
            return alloc::vec![(flusher, left)];
        }
        let part = |cost: Nanos| left.as_ns() as f64 * cost.as_ns() as f64 / all;
        writers.iter().map(|(owner, cost)| (*owner, Nanos::from_ns(part(*cost) as u64))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &str = "database";
    const COPY: &str = "copy";
    const LOG: &str = "log";

    fn ms(ms: u64) -> Nanos {
        Nanos::from_ms(ms)
    }

    #[test]
    fn a_flush_is_paid_by_those_whose_writes_it_destages() {
        let (mut destaging, at) = (Destaging::default(), |time| Instant::ORIGIN + ms(time));
        // The copy: 40 ms for what takes 200 on the medium. The commit: 8 KiB.
        assert_eq!(destaging.wrote(COPY, ms(40), ms(200), Nanos::ZERO), ms(200));
        assert_eq!(destaging.wrote(DATABASE, Nanos::ZERO, Nanos::ZERO, ms(10)), Nanos::ZERO);
        assert_eq!(destaging.paid_ahead(), ms(160));
        // A read beside it takes 30 ms instead of at most 12.
        assert_eq!(destaging.waited(ms(30), ms(12)), ms(12));
        // 142 of the 162 ms that the flush takes are paid; of the others the copy pays 20 for each
        // 21. Two have waited for it, half of it each.
        destaging.served(at(162));
        assert_eq!(destaging.flushed(DATABASE, ms(81)), [(COPY, ms(0)), (DATABASE, ms(0))]);
        destaging.served(at(162));
        assert_eq!(destaging.flushed(LOG, ms(82)), [(COPY, ms(20)), (DATABASE, ms(1))]);
        destaging.served(at(179));
        assert_eq!(destaging.flushed(LOG, ms(9)), [(LOG, ms(9))], "nobody has written");
    }

    #[test]
    fn an_idle_drive_destages() {
        let mut destaging = Destaging::default();
        destaging.was_idle(ms(1_000));
        destaging.wrote(COPY, ms(10), ms(50), Nanos::ZERO);
        destaging.was_idle(ms(1_025));
        assert_eq!(destaging.paid_ahead(), ms(15));
        destaging.was_idle(ms(1_025));
        assert_eq!(destaging.paid_ahead(), ms(15), "it has not been idle");
    }
}
