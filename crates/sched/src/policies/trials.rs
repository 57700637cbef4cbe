//! [`Trials`]: which of two orders of requests costs less, by trials.

use core::cell::Cell;

use headtime_units::{Instant, Nanos};

use crate::command::Finished;

/// The order of the last requests, and what it cost.
#[derive(Debug)]
pub(crate) struct Trials {
    /// The shortest time of a trial.
    shortest: Nanos,
    /// The last time at which the drive could order.
    possible: Cell<Option<Instant>>,
    by: Orderer,
    /// The mean disk time of a request in the order of each, at its last trial.
    costs: [Option<f64>; 2],
    /// The begin of the trial that is on, its requests, and their disk time after the first ones.
    begun: Option<Instant>,
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

/// The policy orders if that costs less than this part. Measured on `nearline-20tb` and
/// `barracuda-2tb`, with 24 to 32 writers at random whose writes are forced or not: with the same
/// cost, the 99th percentile doubles. On four drives, 189 pairs of few readers and writers have
/// 6 % more progress with 0.93 or 0.95 than where a half was asked for.
const BETTER: f64 = 0.93;
/// The number of requests in a trial, after those that were submitted before it and some that the
/// writes in the drive's cache hinder (guess: their mean disk time is off by some 6 %).
const TRIAL: u32 = 64;
const BEFORE_TRIAL: u32 = 40;
/// A trial of an order that costs so many times as much as the other ends after a quarter of its
/// time (guess: the rest changes little).
const MUCH: f64 = 2.0;
/// The other order is tried again after so many trials, and after twice as many each time, up to a
/// maximum (guess: loads change).
const PAUSE: u32 = 32;
const LONGEST_PAUSE: u32 = 512;
/// Trials start again after this time without such requests (guess: the load is another one).
const OTHER_LOAD: Nanos = Nanos::from_secs(5);

impl Trials {
    pub(crate) fn new(shortest: Nanos) -> Self {
        Self {
            shortest,
            possible: Cell::new(None),
            by: Orderer::default(),
            costs: [None; 2],
            begun: None,
            requests: 0,
            time: 0.0,
            left: 0,
            pause: 0,
        }
    }

    /// Returns whether the drive orders, where it may.
    pub(crate) fn by_drive(&self, now: Instant) -> bool {
        self.possible.set(Some(now));
        !self.are_by_policy()
    }

    /// Returns whether the policy orders where the drive might.
    pub(crate) fn are_by_policy(&self) -> bool {
        self.by == Orderer::Policy
    }

    /// Begins the trial that is on again.
    pub(crate) fn again(&mut self) {
        (self.begun, self.requests, self.time) = (None, 0, 0.0);
    }

    /// Notes a request that is over.
    pub(crate) fn finished(&mut self, finished: &Finished) {
        let Some(possible) = self.possible.get() else { return };
        if possible + OTHER_LOAD < finished.finished {
            *self = Self::new(self.shortest);
            return;
        }
        let begun = *self.begun.get_or_insert(finished.finished);
        if finished.submitted < begun {
            return;
        }
        self.requests += 1;
        if self.requests > BEFORE_TRIAL {
            self.time += finished.disk_time.as_ns() as f64;
        }
        if self.requests < BEFORE_TRIAL + TRIAL {
            return;
        }
        let mean = self.time / f64::from(self.requests - BEFORE_TRIAL);
        let other = self.costs[1 - self.by as usize];
        let shortest = match other.is_some_and(|other| mean >= other * MUCH) {
            true => self.shortest / 4,
            false => self.shortest,
        };
        if begun + shortest <= finished.finished {
            self.costs[self.by as usize] = Some(mean);
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
        self.again();
    }
}

#[cfg(test)]
mod tests {
    use headtime_units::Extent;

    use super::*;
    use crate::command::Outcome;
    use crate::request::{ClassId, Op, Request, RequestId, StreamId, VolumeId};

    fn trials() -> Trials {
        Trials::new(Nanos::ZERO)
    }

    /// The number of requests that the drive and the policy order, of so many, where a request
    /// costs that much in the order of each.
    fn ordered(requests: u32, drive_ms: u64, policy_ms: u64) -> [u32; 2] {
        let (mut trials, mut now, mut of) = (trials(), Instant::ORIGIN, [0, 0]);
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
            submitted: finished.saturating_back(disk_time),
            dispatched: finished.saturating_back(disk_time),
            finished,
            disk_time,
            other_arms: Nanos::ZERO,
            overlapped: Nanos::ZERO,
            forced: false,
            outcome: Outcome::Success,
        }
    }

    #[test]
    fn the_order_that_costs_less_is_used_and_the_other_tried_rarely() {
        let [_, by_policy] = ordered(100_000, 20, 19);
        assert!((100..1_000).contains(&by_policy), "{by_policy} in an order that is little better");
        let [by_drive, _] = ordered(100_000, 14, 5);
        assert!((100..1_000).contains(&by_drive), "{by_drive} in an order that costs thrice");
    }

    #[test]
    fn requests_of_before_a_trial_do_not_count() {
        let mut trials = trials();
        let mut now = Instant::ORIGIN;
        let mut finish = |submitted: Instant, ms| {
            now += Nanos::from_ms(ms);
            assert!(trials.by_drive(now), "the policy orders after {ms} ms");
            trials.finished(&Finished { submitted, ..read(now, Nanos::from_ms(ms)) });
        };
        finish(Instant::ORIGIN, 5);
        (0..1_000).for_each(|_| finish(Instant::ORIGIN, 5));
    }

    #[test]
    fn after_a_pause_the_drive_orders_until_trials_show_otherwise() {
        let mut trials = trials();
        let mut now = Instant::ORIGIN;
        while trials.by_drive(now) {
            now += Nanos::from_ms(14);
            trials.finished(&read(now, Nanos::from_ms(14)));
        }
        now += OTHER_LOAD + Nanos::from_ms(14);
        trials.finished(&read(now, Nanos::from_ms(14)));
        assert!(trials.by_drive(now));
    }

    #[test]
    fn a_trial_of_an_order_that_costs_twice_as_much_is_short() {
        let mut trials = Trials::new(Nanos::from_secs(2));
        let mut now = Instant::ORIGIN;
        let mut times = [Nanos::ZERO; 2];
        while now < Instant::ORIGIN + Nanos::from_secs(20) {
            let by_drive = trials.by_drive(now);
            let disk_time = Nanos::from_ms(if by_drive { 1 } else { 3 });
            now += disk_time;
            times[usize::from(!by_drive)] += disk_time;
            trials.finished(&read(now, disk_time));
        }
        let by_policy = times[1].as_secs_f64();
        assert!((0.4..0.7).contains(&by_policy), "{by_policy} s of a trial of 2 s");
    }
}
