//! [`Destaging`]: writes that the drive has taken into its cache, and the owners that pay for
//! destaging them: tenants, or streams.
//!
//! A drive acknowledges such a write after its transfer to the cache, and destages it later: while
//! it is idle, between other commands, which take longer then, or for a flush, which waits for all
//! writes before it. Charged as measured, a copy would pay a tenth of its time and a database the
//! rest with each commit. So a cached write is charged the transfer to the medium at least, and
//! what others wait for is taken from that: the time of a flush, and that of a request beyond a
//! change to another owner. What a flush takes beyond it is charged to the owners of the writes
//! since the last flush was sent: the drive takes those of others meanwhile, and destages most of
//! them for the next.

use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

/// The writes since the last flush was sent, by owners `O`.
#[derive(Clone, Debug)]
pub(crate) struct Destaging<O> {
    /// The time charged for writes beyond what they took so far.
    paid_ahead: Nanos,
    /// The writes, in the order of their completions.
    writes: Vec<Writes<O>>,
    /// The owners of those before the last flush, with what they cost, and its completion.
    flushed: (Vec<(O, Nanos)>, Option<Instant>),
    last_finished: Instant,
    /// The time, so far, in which the drive had no command.
    idle: Nanos,
}

/// Writes of one owner that completed within [`SLICE`].
#[derive(Clone, Copy, Debug)]
struct Writes<O> {
    owner: O,
    since: Instant,
    until: Instant,
    /// An estimate of what it costs to destage them.
    cost: Nanos,
    /// The time charged for them beyond what they took.
    ahead: Nanos,
}

impl<O> Default for Destaging<O> {
    fn default() -> Self {
        Self {
            paid_ahead: Nanos::ZERO,
            writes: Vec::new(),
            flushed: (Vec::new(), None),
            last_finished: Instant::ORIGIN,
            idle: Nanos::ZERO,
        }
    }
}

/// Writes that complete within this time count as sent with the same flush (guess: about a
/// change).
const SLICE: Nanos = Nanos::from_ms(10);
/// The maximum number of slices between two flushes. With more, those of an owner become one; with
/// more owners than half of it, they are forgotten (guess: far more than write at the same time).
const SLICES: usize = 256;

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

    /// The time to charge for a wait of the idle drive for a request, less what it has destaged
    /// meanwhile.
    pub(crate) fn waited_for_request(&mut self, waited: Nanos) -> Nanos {
        self.idle += waited;
        self.waited(waited, Nanos::ZERO)
    }

    /// Notes a command, or a part of one.
    pub(crate) fn served(&mut self, finished: Instant) {
        if self.flushed.1 == Some(self.last_finished) && finished > self.last_finished {
            let since_sent = self.writes.iter().map(|writes| writes.ahead).sum();
            self.paid_ahead = self.paid_ahead.min(since_sent);
        }
        self.last_finished = self.last_finished.max(finished);
    }

    /// The time to charge for a write into the cache that took `took`, if its transfer to the
    /// medium takes `transfer` and its way there `positioning`. It is the command last
    /// [`served`](Self::served).
    pub(crate) fn wrote(
        &mut self,
        owner: O,
        took: Nanos,
        transfer: Nanos,
        positioning: Nanos,
    ) -> Nanos {
        let at = self.last_finished;
        let (cost, ahead) = (transfer + positioning, transfer.saturating_sub(took));
        self.add(Writes { owner, since: at, until: at, cost, ahead });
        self.paid_ahead += ahead;
        took.max(transfer)
    }

    fn add(&mut self, new: Writes<O>) {
        if self.writes.len() >= SLICES {
            let slices = core::mem::take(&mut self.writes);
            slices.into_iter().for_each(|slice| self.merge(slice, Nanos::MAX));
            if self.writes.len() > SLICES / 2 {
                self.writes.clear();
            }
        }
        self.merge(new, SLICE);
    }

    /// Adds writes to those of the same owner that began less than `slice` before.
    fn merge(&mut self, new: Writes<O>, slice: Nanos) {
        let same = |of: &&mut Writes<O>| {
            of.owner == new.owner && new.until.saturating_since(of.since) < slice
        };
        match self.writes.iter_mut().rfind(same) {
            Some(of) => {
                of.until = new.until;
                of.cost += new.cost;
                of.ahead += new.ahead;
            }
            None => self.writes.push(new),
        }
    }

    /// The time to charge for another command that took `took`, where `most` is the longest that
    /// one of its kind takes alone: beyond that it has waited for writes, as far as they are paid.
    pub(crate) fn waited(&mut self, took: Nanos, most: Nanos) -> Nanos {
        let paid = took.saturating_sub(most).min(self.paid_ahead);
        self.paid_ahead = self.paid_ahead.saturating_sub(paid);
        took.saturating_sub(paid)
    }

    /// The times to charge to owners for a flush of `flusher`, or its part of one, that was sent at
    /// `sent` and took `took`; it is the command last [`served`](Self::served).
    pub(crate) fn flushed(&mut self, flusher: O, sent: Instant, took: Nanos) -> Vec<(O, Nanos)> {
        let left = self.waited(took, Nanos::ZERO);
        if self.flushed.1 != Some(self.last_finished) {
            let (before, after): (Vec<_>, Vec<_>) =
                self.writes.drain(..).partition(|writes| writes.until <= sent);
            before.into_iter().for_each(|slice| self.merge(slice, Nanos::MAX));
            let costs = self.writes.drain(..).map(|writes| (writes.owner, writes.cost)).collect();
            self.flushed = (costs, Some(self.last_finished));
            self.writes = after;
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
        assert_eq!(destaging.flushed(DATABASE, at(81), ms(81)), [(COPY, ms(0)), (DATABASE, ms(0))]);
        destaging.served(at(162));
        assert_eq!(destaging.flushed(LOG, at(80), ms(82)), [(COPY, ms(20)), (DATABASE, ms(1))]);
        destaging.served(at(179));
        assert_eq!(destaging.flushed(LOG, at(170), ms(9)), [(LOG, ms(9))], "nobody has written");
    }

    #[test]
    fn writes_beside_a_flush_pay_for_the_next() {
        let (mut destaging, at) = (Destaging::default(), |time| Instant::ORIGIN + ms(time));
        destaging.wrote(DATABASE, Nanos::ZERO, Nanos::ZERO, ms(10));
        // While the drive flushes that, it takes what needs 100 ms on the medium.
        (2..52).for_each(|time| {
            destaging.served(at(time));
            destaging.wrote(COPY, ms(1), ms(2), Nanos::ZERO);
        });
        destaging.served(at(60));
        assert_eq!(destaging.flushed(DATABASE, at(1), ms(8)), [(DATABASE, ms(0))]);
        destaging.served(at(61));
        destaging.wrote(DATABASE, ms(1), Nanos::ZERO, ms(10));
        assert_eq!(destaging.paid_ahead(), ms(42), "the copy's writes are in the cache");
        // Of the 75 ms of the next flush the copy has paid 42. Of the rest it pays ten elevenths.
        destaging.served(at(136));
        assert_eq!(
            destaging.flushed(DATABASE, at(61), ms(75)),
            [(COPY, ms(30)), (DATABASE, ms(3))]
        );
    }

    #[test]
    fn slices_of_many_writes_become_one() {
        let mut destaging = Destaging::default();
        for number in 0..10_000 {
            destaging.served(Instant::ORIGIN + ms(number));
            destaging.wrote(COPY, ms(1), ms(2), Nanos::ZERO);
        }
        assert!(destaging.writes.len() <= SLICES, "{}", destaging.writes.len());
        let cost: Nanos = destaging.writes.iter().map(|writes| writes.cost).sum();
        assert_eq!(cost, ms(20_000));
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
