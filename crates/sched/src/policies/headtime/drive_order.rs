//! Requests whose order is left to the drive.

use core::cell::Cell;

use headtime_units::{Instant, Nanos};

use super::{Headtime, OLDEST};
use crate::command::Finished;
use crate::policies::stream_turns::LONGEST_TURN;
use crate::policies::written::is_cached_write;
use crate::policy::View;
use crate::queue::Queued;
use crate::request::Op;

/// The drive orders with these numbers of requests held, all at random. Measured on three drives:
/// with 4, it gains where 0.7 are reads and loses where 0.9 are; with more than its queue of 32
/// holds, the order of all gains.
const DRIVE_ORDERS: core::ops::Range<usize> = 5..40;
/// The drive orders if all deadlines are at least so many mean responses long. Measured on
/// `nearline-20tb` with a recorder beside 8 to 32 clients and deadlines of 60 to 400 ms: none is
/// missed.
const TIMELY_RESPONSES: u64 = 2;

/// The order of the last requests, and what it cost.
///
/// A drive that orders well in one mixture may serve a write between any two reads in another.
/// Which of the two orders costs less is measured in trials.
#[derive(Debug, Default)]
pub(super) struct OrderTrials {
    /// The last time at which the drive could order.
    possible: Cell<Option<Instant>>,
    by: Orderer,
    /// The mean disk time of a request in the order of each, at its last trial.
    costs: [Option<f64>; 2],
    /// The requests of the trial that is on, and their disk time after the first ones.
    requests: u32,
    time: f64,
    /// The trials until the other order is tried again, and those after that.
    left: u32,
    pause: u32,
}

/// The order of requests: the drive's or the policy's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Orderer {
    #[default]
    Drive,
    Policy,
}

/// The number of requests in a trial, after those that began before it (guess: their mean disk
/// time is off by some 6 %).
const TRIAL: u32 = 64;
const BEFORE_TRIAL: u32 = DRIVE_ORDERS.end as u32;
/// The policy orders if that costs less than this part. Measured on `nearline-20tb`: beside eight
/// random readers, a client that waits for each write has a third of its rate in the order of the
/// policy, which costs 0.6 of the drive's; two readers beside sixteen writers have 2.6 times theirs
/// in one that costs 0.4.
const BETTER: f64 = 0.5;
/// The other order is tried again after so many trials, and after twice as many each time, up to a
/// maximum (guess: loads change).
const PAUSE: u32 = 32;
const LONGEST_PAUSE: u32 = 512;
/// Trials start again after this time without such requests (guess: the load is another one).
const OTHER_LOAD: Nanos = Nanos::from_secs(5);

impl OrderTrials {
    /// Returns whether the drive orders, where it may.
    fn by_drive(&self, now: Instant) -> bool {
        self.possible.set(Some(now));
        self.by == Orderer::Drive
    }

    /// Notes a request that is over.
    pub(super) fn finished(&mut self, finished: &Finished) {
        let Some(possible) = self.possible.get() else { return };
        if possible + OTHER_LOAD < finished.finished {
            *self = Self::default();
            return;
        }
        self.requests += 1;
        if self.requests > BEFORE_TRIAL {
            self.time += finished.disk_time.as_ns() as f64;
        }
        if self.requests == BEFORE_TRIAL + TRIAL {
            self.costs[self.by as usize] = Some(self.time / f64::from(TRIAL));
            self.next_trial();
        }
    }

    fn next_trial(&mut self) {
        let other = match self.by {
            Orderer::Drive => Orderer::Policy,
            Orderer::Policy => Orderer::Drive,
        };
        let better = match self.costs {
            [Some(drive), Some(policy)] if policy < drive * BETTER => Orderer::Policy,
            [Some(_), Some(_)] => Orderer::Drive,
            _ => other,
        };
        self.left = self.left.saturating_sub(1);
        if better != self.by {
            self.by = better;
            self.pause = (self.pause * 2).clamp(PAUSE, LONGEST_PAUSE);
            self.left = self.pause;
        } else if self.left == 0 {
            self.by = other;
        }
        (self.requests, self.time) = (0, 0.0);
    }
}

impl Headtime {
    /// Returns whether the drive gets all requests as they come, because it orders writes into its
    /// cache when it destages them, whatever the policy does: no run lasts, and all were writes for
    /// a while. If the drive had time to spare lately, half are enough, or a fifth beside few
    /// reads: turns would take longer for a burst than the drive alone. Not if requests had
    /// deadlines: they would have to wait for all that is at the drive. Nor if the drive takes one
    /// command at a time: that would be order of arrival. Nor if it has several arms: the writes
    /// for one would take all room in its cache from those for the others.
    pub(super) fn drive_gets_all(&self, view: &View<'_>) -> bool {
        let (written, streams) = (self.best.written(), self.streams.streams());
        let lately =
            |last: Option<Instant>| last.is_some_and(|last| view.now < last + Nanos::from_secs(1));
        let most = written.are_most()
            || written.are_destaged_meanwhile() && written.are_beside_few_reads(view.now);
        let with_reads = most && lately(self.had_time) && !lately(self.had_deadline);
        let goes = |queued: &Queued| {
            let read = with_reads && queued.request.op == Op::Read;
            (read || is_cached_write(&queued.request)) && queued.deadline.is_none()
        };
        (with_reads || written.are_all(view.now))
            && view.max_outstanding > 1
            && view.belief.arms().in_blocks(view.belief.capacity()) <= 1
            && !written.are_forced()
            && !view.shares.any_terms()
            && view.belief.takes_into_cache(Op::Write)
            && !streams.any_run_of(self.streams.change(view) * LONGEST_TURN)
            && view.queue.by_arrival().take(OLDEST).all(goes)
    }

    /// Returns whether the drive's own queue orders better: between commands the drive destages
    /// writes, for which others wait, and only it knows where its arm is then. With many requests
    /// writes are forced instead; where most are writes, the drive would destage all the time.
    pub(super) fn drive_orders(&self, view: &View<'_>) -> bool {
        let held = view.queue.len() + view.outstanding.len();
        let in_time = |shortest| shortest >= view.mean_response * TIMELY_RESPONSES;
        DRIVE_ORDERS.contains(&held)
            && self.streams.streams().shortest_deadline().is_none_or(in_time)
            && !self.best.written().are_forced()
            && !self.best.written().are_most()
            && !view.shares.any_terms()
            && self.best.written().are_destaged_meanwhile()
            && self.are_cached_at_random(view)
            && self.orders.by_drive(view.now)
    }

    /// Returns whether the drive caches writes, and all requests are at random.
    pub(super) fn are_cached_at_random(&self, view: &View<'_>) -> bool {
        // Of several arms that are decided for together, nothing else needs it.
        self.streams.change(view);
        let streams = self.streams.streams();
        let at_random = |queued: &Queued| {
            streams.is_of_slow_writer(&queued.request)
                || queued.deadline.is_none() && streams.is_at_random(&queued.request)
        };
        view.belief.takes_into_cache(Op::Write)
            && !streams.any_long_run()
            && view.queue.by_arrival().take(OLDEST).all(at_random)
    }
}

#[cfg(test)]
mod tests {
    use headtime_units::Extent;

    use super::*;
    use crate::command::Outcome;
    use crate::request::{ClassId, Request, RequestId, StreamId, VolumeId};

    /// The number of requests that the drive and the policy order, of so many, where a request
    /// costs that much in the order of each.
    fn ordered(requests: u32, drive_ms: u64, policy_ms: u64) -> [u32; 2] {
        let (mut trials, mut now, mut of) = (OrderTrials::default(), Instant::ORIGIN, [0, 0]);
        for _ in 0..requests {
            let by_drive = trials.by_drive(now);
            of[usize::from(!by_drive)] += 1;
            let disk_time = Nanos::from_ms(if by_drive { drive_ms } else { policy_ms });
            now += disk_time;
            trials.finished(&read(now, disk_time));
        }
        of
    }

    fn read(finished: Instant, disk_time: Nanos) -> Finished {
        Finished {
            request: Request {
                id: RequestId(0),
                volume: VolumeId(0),
                class: ClassId(0),
                stream: StreamId(0),
                op: Op::Read,
                extent: Extent::from_numbers(0, 8),
                fua: false,
                deadline: None,
            },
            submitted: Instant::ORIGIN,
            dispatched: Instant::ORIGIN,
            finished,
            disk_time,
            other_arms: Nanos::ZERO,
            overlapped: Nanos::ZERO,
            forced: false,
            outcome: Outcome::Success,
        }
    }

    #[test]
    fn the_order_that_costs_less_by_half_is_used_and_the_other_tried_rarely() {
        let [_, by_policy] = ordered(100_000, 6, 5);
        assert!((100..1_000).contains(&by_policy), "{by_policy} in an order that is little better");
        let [by_drive, _] = ordered(100_000, 14, 5);
        assert!((100..1_000).contains(&by_drive), "{by_drive} in an order that costs thrice");
    }

    #[test]
    fn after_a_pause_the_drive_orders_until_trials_show_otherwise() {
        let mut trials = OrderTrials::default();
        let mut now = Instant::ORIGIN;
        while trials.by_drive(now) {
            now += Nanos::from_ms(14);
            trials.finished(&read(now, Nanos::from_ms(14)));
        }
        now += OTHER_LOAD + Nanos::from_ms(14);
        trials.finished(&read(now, Nanos::from_ms(14)));
        assert!(trials.by_drive(now));
    }
}
