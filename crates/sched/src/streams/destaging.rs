//! Writes that the drive has taken into its cache, and the owners that pay for destaging them.
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

use super::Owner;

/// The writes since the last flush.
#[derive(Clone, Debug, Default)]
pub(super) struct Destaging {
    /// The time charged for writes beyond what they took so far.
    paid_ahead: Nanos,
    /// The owners of the writes, with an estimate of what it costs to destage those.
    writers: Vec<(Owner, Nanos)>,
    /// The number of requests held, and the last completion.
    held: usize,
    last_finished: Instant,
}

/// The maximum number of writers between two flushes; with more, they are forgotten (guess: far
/// more than owners that write at the same time).
const WRITERS: usize = 256;

impl Destaging {
    /// The time charged for writes that the drive has still to destage.
    pub(super) fn paid_ahead(&self) -> Nanos {
        self.paid_ahead
    }

    /// Notes a request: while the drive had none, it has destaged.
    pub(super) fn submitted(&mut self, now: Instant) {
        if self.held == 0 {
            let idle = now.saturating_since(self.last_finished);
            self.paid_ahead = self.paid_ahead.saturating_sub(idle);
        }
        self.held += 1;
    }

    /// Forgets a request.
    pub(super) fn gone(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// Notes a completion.
    pub(super) fn finished(&mut self, finished: Instant) {
        self.last_finished = finished;
    }

    /// The time to charge for a write into the cache that took `took`, if its transfer to the
    /// medium takes `transfer` and its way there `positioning`.
    pub(super) fn wrote(
        &mut self,
        owner: Owner,
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
    pub(super) fn waited(&mut self, took: Nanos, most: Nanos) -> Nanos {
        let paid = took.saturating_sub(most).min(self.paid_ahead);
        self.paid_ahead = self.paid_ahead.saturating_sub(paid);
        took.saturating_sub(paid)
    }

    /// The times to charge to owners for a flush of `flusher` that took `took`.
    pub(super) fn flushed(&mut self, flusher: Owner, took: Nanos) -> Vec<(Owner, Nanos)> {
        let left = self.waited(took, Nanos::ZERO).as_ns() as f64;
        self.paid_ahead = Nanos::ZERO;
        let writers = core::mem::take(&mut self.writers);
        let all = writers.iter().map(|(_, cost)| *cost).sum::<Nanos>().as_ns() as f64;
        if all == 0.0 {
            return alloc::vec![(flusher, Nanos::from_ns(left as u64))];
        }
        let part = |cost: Nanos| Nanos::from_ns((left * cost.as_ns() as f64 / all) as u64);
        writers.into_iter().map(|(owner, cost)| (owner, part(cost))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::VolumeId;

    const DATABASE: Owner = Owner::Rest(VolumeId(1));
    const COPY: Owner = Owner::Writes(VolumeId(2));

    fn ms(ms: u64) -> Nanos {
        Nanos::from_ms(ms)
    }

    #[test]
    fn a_flush_is_paid_by_those_whose_writes_it_destages() {
        let mut destaging = Destaging::default();
        // The copy: 40 ms for what takes 200 on the medium. The commit: 8 KiB.
        assert_eq!(destaging.wrote(COPY, ms(40), ms(200), Nanos::ZERO), ms(200));
        assert_eq!(destaging.wrote(DATABASE, Nanos::ZERO, Nanos::ZERO, ms(10)), Nanos::ZERO);
        assert_eq!(destaging.paid_ahead(), ms(160));
        // A read beside it takes 30 ms instead of at most 12.
        assert_eq!(destaging.waited(ms(30), ms(12)), ms(12));
        // 142 of the 163 ms that the flush takes are paid; of the others the copy pays 20.
        let charged = destaging.flushed(DATABASE, ms(163));
        assert_eq!(charged, [(COPY, ms(20)), (DATABASE, ms(1))]);
        assert_eq!(destaging.flushed(DATABASE, ms(9)), [(DATABASE, ms(9))], "nobody has written");
    }

    #[test]
    fn an_idle_drive_destages() {
        let mut destaging = Destaging::default();
        destaging.submitted(Instant::ORIGIN);
        destaging.gone();
        destaging.wrote(COPY, ms(10), ms(50), Nanos::ZERO);
        destaging.finished(Instant::ORIGIN + ms(10));
        destaging.submitted(Instant::ORIGIN + ms(35));
        assert_eq!(destaging.paid_ahead(), ms(15));
        destaging.submitted(Instant::ORIGIN + ms(90));
        assert_eq!(destaging.paid_ahead(), ms(15), "a request was held");
    }
}
