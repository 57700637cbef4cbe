//! [`Period`]: the time in which every tenant has one run, and how it changes without changing
//! shares.
//!
//! A short period reduces waits; a long one costs a sequential tenant fewer returns to its
//! position. So the period is the shortest in which no active tenant loses more than a set fraction
//! of its time: the minimum, or that doubled repeatedly up to a maximum, so that a second contains
//! whole periods.
//!
//! If it changed from one run to the next, one tenant would have two runs of the new length before
//! another had its first: in the second around the change a share of 50 % would be 75 %. So it
//! changes in steps. Of two *rounds* one becomes longer and the other shorter, for all tenants
//! alike, by a twenty-fifth each second. When the shorter one is almost empty, both are one round
//! of twice the length. A tenant new to the drive gets the required length at once: shares are not
//! exact then anyway.
//!
//! Worked example, A and B with 50 % each, 500 ms that change to a second: runs of 250, 250, 250,
//! 250 ms (A, B, A, B); a second later 260, 260, 240, 240; 24 seconds later 490, 490, 10, 10; then
//! 500 and 500.
//!
//! Guarantees, as far as runs have their planned lengths, that from one second to the next at most
//! a fiftieth of a tenant's time moves, and in ten seconds at most a tenth of a second.

use headtime_units::{Instant, Nanos};

/// A period is shortened to one that would do at so much of its length.
const TO_SPARE: f64 = 0.75;
/// ... and after so long (guess).
const SPARED: Nanos = Nanos::from_secs(10);
/// The time between two steps: the second that shares are promised by.
const STEP: Nanos = Nanos::from_secs(1);
/// The steps from a period to its double: enough to keep the share over ten seconds within one
/// percentage point (the project's target for shares).
const STEPS: u64 = 25;

/// The time in which every tenant has one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    shortest: Nanos,
    longest: Nanos,
    /// The mean length of a round is the shortest, doubled so often.
    doubled: u32,
    /// One round of two is longer by so many steps, the other shorter.
    steps: u64,
    /// The doublings of the required period.
    target: u32,
    stepped: Instant,
    /// Since when a shorter one would do.
    spare_since: Option<Instant>,
}

/// The longer or the shorter of two successive rounds, while a period changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Short,
    Long,
}

/// The way in which a period becomes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengthen {
    /// For a tenant that is new to the drive: its share is not exact yet.
    AtOnce,
    InSteps,
}

impl Period {
    /// A constant period; zero makes each request a run.
    pub(crate) fn fixed(period: Nanos) -> Self {
        Self {
            shortest: period,
            longest: period,
            doubled: 0,
            steps: 0,
            target: 0,
            stepped: Instant::ORIGIN,
            spare_since: None,
        }
    }

    /// The same or longer, up to this.
    pub(crate) fn up_to(self, longest: Nanos) -> Self {
        if self.is_zero() { self } else { Self { longest: longest.max(self.shortest), ..self } }
    }

    /// Returns whether each request is a run.
    pub(crate) fn is_zero(&self) -> bool {
        self.shortest.is_zero()
    }

    /// The longest it may become.
    pub(crate) fn longest(&self) -> Nanos {
        self.longest
    }

    /// The mean length of a round.
    pub(crate) fn mean(&self) -> Nanos {
        self.after(self.doubled)
    }

    /// The length of the longer round of two.
    pub(crate) fn long(&self) -> Nanos {
        self.mean() + self.mean() * self.steps / STEPS
    }

    /// The budget of a run in a round, given its budget in a round of mean length.
    pub(crate) fn run(&self, mean: Nanos, round: Round) -> Nanos {
        let more = mean * self.steps / STEPS;
        match round {
            Round::Long => mean + more,
            Round::Short => mean - more,
        }
    }

    /// The round that follows `last` for the same tenant.
    pub(crate) fn round_after(&self, last: Round) -> Round {
        if self.steps > 0 && last == Round::Short { Round::Long } else { Round::Short }
    }

    /// Sets the required period; for a new tenant it is lengthened at once.
    pub(crate) fn fit(&mut self, now: Instant, needed_ns: f64, lengthen: Lengthen) {
        let mut fitting = 0;
        while self.after(fitting) < self.longest {
            let would_do = self.after(fitting).as_ns() as f64
                * if fitting < self.doubled { TO_SPARE } else { 1.0 };
            if needed_ns <= would_do {
                break;
            }
            fitting += 1;
        }
        if fitting >= self.doubled {
            self.spare_since = None;
            self.target = fitting;
            if lengthen == Lengthen::AtOnce && fitting > self.doubled {
                (self.doubled, self.steps, self.stepped) = (fitting, 0, now);
            }
            return;
        }
        let since = *self.spare_since.get_or_insert(now);
        self.target = if now.saturating_since(since) < SPARED { self.doubled } else { fitting };
    }

    /// Advances one step towards the required period, once per [`STEP`]. `last` is the round of the
    /// tenant whose run is about to begin.
    pub(crate) fn step(&mut self, now: Instant, last: Round) {
        if (self.target == self.doubled && self.steps == 0)
            || now.saturating_since(self.stepped) < STEP
        {
            return;
        }
        match (self.target > self.doubled, self.steps) {
            // The two rounds merge at a tenant whose longer round comes next.
            (true, steps) if steps + 1 == STEPS && last == Round::Long => return,
            (true, steps) if steps + 1 == STEPS => {
                (self.doubled, self.steps) = (self.doubled + 1, 0)
            }
            (true, steps) => self.steps = steps + 1,
            (false, 0) => (self.doubled, self.steps) = (self.doubled - 1, STEPS - 1),
            (false, steps) => self.steps = steps - 1,
        }
        self.stepped = now;
    }

    fn after(&self, doubled: u32) -> Nanos {
        self.shortest.saturating_mul(1 << doubled.min(63)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_ms(ms)
    }

    fn ms(needed: f64) -> f64 {
        needed * 1e6
    }

    /// Two tenants with 50 % each that alternate from now on; A's and B's runs in ms, until `until`
    /// seconds.
    fn runs(period: &mut Period, from: u64, until: u64, needed: f64) -> Vec<(usize, u64)> {
        let (mut now, mut last, mut runs) = (at(from), [Round::Short; 2], Vec::new());
        while now < at(until) {
            for (tenant, last) in last.iter_mut().enumerate() {
                period.fit(now, ms(needed), Lengthen::InSteps);
                period.step(now, *last);
                *last = period.round_after(*last);
                let run = period.run(period.mean() / 2, *last);
                runs.push((tenant, run.as_ns() / 1_000_000));
                now += run;
            }
        }
        runs
    }

    /// The maximum deviation of A from half of any such span, in ms.
    fn worst(runs: &[(usize, u64)], span: usize) -> i64 {
        let mut of_a = vec![0];
        for (tenant, ms) in runs {
            (0..*ms).for_each(|_| of_a.push(of_a[of_a.len() - 1] + i64::from(*tenant == 0)));
        }
        (span..of_a.len())
            .map(|end| (of_a[end] - of_a[end - span] - span as i64 / 2).abs())
            .max()
            .expect("they are longer")
    }

    #[test]
    fn the_example_of_the_header_holds() {
        let mut period = Period::fixed(Nanos::from_ms(250)).up_to(Nanos::from_secs(1));
        period.fit(at(0), ms(499.0), Lengthen::AtOnce);
        assert_eq!(period.mean(), Nanos::from_ms(500));
        let runs = runs(&mut period, 1_000, 30_000, 999.0);
        assert_eq!(runs[..4], [(0, 260), (1, 260), (0, 240), (1, 240)]);
        assert_eq!(
            runs[92..100],
            [(0, 490), (1, 490), (0, 10), (1, 10), (0, 500), (1, 500), (0, 500), (1, 500)]
        );
    }

    #[test]
    fn shares_stay_as_they_are_while_it_gets_longer_and_shorter_again() {
        let mut period = Period::fixed(Nanos::from_ms(250)).up_to(Nanos::from_secs(1));
        let mut all = runs(&mut period, 1_000, 60_000, 600.0);
        assert_eq!(period.mean(), Nanos::from_secs(1));
        all.extend(runs(&mut period, 60_000, 130_000, 100.0));
        assert_eq!((period.mean(), period.long()), (Nanos::from_ms(250), Nanos::from_ms(250)));
        let worst_of = (worst(&all, 1_000), worst(&all, 10_000));
        assert!(worst_of.0 <= 20 && worst_of.1 <= 100, "{worst_of:?} ms");
        // At once it is a quarter of a second.
        assert_eq!(
            worst(&[(0, 250), (1, 250), (0, 250), (1, 250), (0, 500), (1, 500)], 1_000),
            250
        );
    }

    #[test]
    fn it_shrinks_after_a_while_with_room_to_spare_and_not_for_less() {
        let mut period = Period::fixed(Nanos::from_ms(250)).up_to(Nanos::from_secs(1));
        period.fit(at(0), ms(400.0), Lengthen::AtOnce);
        for second in 0..30 {
            // 188 of 250 ms are not enough to spare, nor is a moment with more.
            period.fit(
                at(second * 1_000),
                ms(if second == 20 { 100.0 } else { 188.0 }),
                Lengthen::InSteps,
            );
            period.step(at(second * 1_000), Round::Short);
            assert_eq!((period.mean(), period.long()), (Nanos::from_ms(500), Nanos::from_ms(500)));
        }
        period.fit(at(30_000), ms(187.0), Lengthen::InSteps);
        period.fit(at(40_000), ms(187.0), Lengthen::InSteps);
        period.step(at(40_000), Round::Short);
        assert_eq!((period.mean(), period.long()), (Nanos::from_ms(250), Nanos::from_ms(490)));
    }

    #[test]
    fn one_that_is_no_run_stays_none_and_one_that_is_fixed_stays_as_it_is() {
        for period in [Nanos::ZERO, Nanos::from_secs(1)] {
            let mut fixed = Period::fixed(period);
            fixed.fit(at(0), ms(5_000.0), Lengthen::AtOnce);
            fixed.step(at(5_000), Round::Short);
            assert_eq!(
                (fixed.mean(), fixed.long(), fixed.is_zero()),
                (period, period, period.is_zero())
            );
        }
    }
}
