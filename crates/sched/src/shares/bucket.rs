//! [`Bucket`]: tokens that arrive at a steady rate and are spent by requests, exact to the last
//! grain.
//!
//! A token is a nanosecond of disk time, a request or a sector; a grain is a billionth of a token,
//! so that a share in billionths fills a bucket by whole grains every nanosecond, and nothing is
//! ever rounded.
//!
//! Worked example: a reservation of 30 % and a burst of 1 s fill a bucket of 300 ms at 0.3 ms a
//! millisecond. A request estimated at 20 ms takes it from 0 to −20 ms; it took 12 ms, so 8 ms are
//! returned; 40 ms later the bucket is at 0 again.
//!
//! A debt is paid by a certain time. If the rate is reduced that time stays, and the debt shrinks
//! in proportion: it was incurred at a higher rate. If the rate rises the debt stays, and is paid
//! earlier. Example: −80 ms at 80 % are paid in 100 ms; at 20 % from now on they are −20 ms.
//!
//! Guarantees `level = filled − taken + returned − spilled + forgiven`, exactly. Spilled is the
//! inflow of a full bucket. Forgiven is what was taken at the minimum level, and what a reduced
//! rate takes off a debt.

use headtime_units::Instant;

/// Grains of one token.
pub(crate) const GRAINS: i128 = 1_000_000_000;

/// A bucket of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Grains a nanosecond.
    rate: u64,
    most: i128,
    least: i128,
    /// The level at `at`.
    level: i128,
    at: Instant,
    /// Grains beyond the maximum, and grains forgiven, since the beginning.
    spilled: i128,
    forgiven: i128,
}

impl Bucket {
    /// A bucket that is empty at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { rate: 0, most: 0, least: 0, level: 0, at: now, spilled: 0, forgiven: 0 }
    }

    /// Changes the rate and the bounds; the level stays as far as they allow, and a debt is paid no
    /// later than before.
    pub(crate) fn set(&mut self, now: Instant, rate: u64, least: i128, most: i128) {
        debug_assert!(least <= 0 && most >= 0, "a bucket may stand at nothing");
        self.fill(now);
        if self.level < 0 && rate < self.rate {
            let debt = self.level * i128::from(rate) / i128::from(self.rate);
            self.forgiven += debt - self.level;
            self.level = debt;
        }
        (self.rate, self.least, self.most) = (rate, least, most);
        self.settle();
    }

    /// Fills the bucket; the difference counts as forgiven.
    pub(crate) fn top_up(&mut self, now: Instant) {
        self.fill(now);
        self.forgiven += self.most - self.level;
        self.level = self.most;
    }

    /// The level in grains, negative for a debt; `now` is no earlier than any time before.
    pub(crate) fn level(&self, now: Instant) -> i128 {
        let since = i128::from(now.saturating_since(self.at).as_ns());
        (self.level + since * i128::from(self.rate)).min(self.most)
    }

    /// The maximum level.
    pub(crate) fn most(&self) -> i128 {
        self.most
    }

    /// Grains a nanosecond.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Takes so many tokens.
    pub(crate) fn take(&mut self, now: Instant, tokens: u64) {
        self.fill(now);
        self.level -= i128::from(tokens) * GRAINS;
        self.settle();
    }

    /// Returns so many tokens.
    pub(crate) fn give_back(&mut self, now: Instant, tokens: u64) {
        self.fill(now);
        self.level += i128::from(tokens) * GRAINS;
        self.settle();
    }

    /// Returns the time at which it will hold so many grains if nothing is taken; the end of time
    /// when never.
    pub(crate) fn reaches(&self, grains: i128) -> Instant {
        if grains <= self.level {
            return self.at;
        }
        if grains > self.most || self.rate == 0 {
            return Instant::NEVER;
        }
        let ns = (grains - self.level + i128::from(self.rate) - 1) / i128::from(self.rate);
        u64::try_from(ns).map_or(Instant::NEVER, |ns| self.at + headtime_units::Nanos::from_ns(ns))
    }

    /// Returns the time at which it held, or will hold, so many grains, at its rate before and
    /// after, as nanoseconds from `now`; the largest number when never.
    pub(crate) fn due_in_ns(&self, now: Instant, grains: i128) -> i128 {
        if self.rate == 0 { i128::MAX } else { (grains - self.level(now)) / i128::from(self.rate) }
    }

    /// Forgiven less spilled grains since the beginning.
    #[cfg(test)]
    pub(crate) fn let_off(&self) -> i128 {
        self.forgiven - self.spilled
    }

    fn fill(&mut self, now: Instant) {
        let since = i128::from(now.saturating_since(self.at).as_ns());
        self.level += since * i128::from(self.rate);
        self.at = self.at.max(now);
        self.settle();
    }

    fn settle(&mut self) {
        self.spilled += (self.level - self.most).max(0);
        self.forgiven += (self.least - self.level).max(0);
        self.level = self.level.clamp(self.least, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use headtime_units::Nanos;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_ms(ms)
    }

    const MS: i128 = 1_000_000 * GRAINS;

    #[test]
    fn the_example_of_the_header_holds() {
        let mut bucket = Bucket::new(at(0));
        bucket.set(at(0), 300_000_000, -300 * MS, 300 * MS);
        bucket.take(at(0), 20_000_000);
        assert_eq!(bucket.level(at(0)), -20 * MS);
        bucket.give_back(at(0), 8_000_000);
        assert_eq!(
            (bucket.level(at(0)), bucket.reaches(0), bucket.level(at(40))),
            (-12 * MS, at(40), 0)
        );
        assert_eq!((bucket.level(at(5_000)), bucket.reaches(301 * MS)), (300 * MS, Instant::NEVER));
        assert_eq!(
            (bucket.due_in_ns(at(0), 0), bucket.due_in_ns(at(60), 0)),
            (40_000_000, -20_000_000)
        );
    }

    #[test]
    fn a_debt_is_paid_when_it_would_have_been_or_earlier() {
        let mut bucket = Bucket::new(at(0));
        bucket.set(at(0), 800_000_000, -800 * MS, 800 * MS);
        bucket.take(at(0), 80_000_000);
        bucket.set(at(0), 200_000_000, -200 * MS, 200 * MS);
        assert_eq!((bucket.level(at(0)), bucket.reaches(0)), (-20 * MS, at(100)));
        bucket.set(at(50), 800_000_000, -800 * MS, 800 * MS);
        assert_eq!((bucket.level(at(50)), bucket.level(at(60))), (-10 * MS, -2 * MS));
        // Unused grains are kept up to the maximum.
        bucket.set(at(562), 200_000_000, -200 * MS, 200 * MS);
        assert_eq!(bucket.level(at(562)), 200 * MS);
    }

    #[test]
    fn what_never_fills_is_never_due() {
        let bucket = Bucket::new(at(0));
        assert_eq!(
            (bucket.reaches(0), bucket.reaches(1), bucket.due_in_ns(at(9), 1)),
            (at(0), Instant::NEVER, i128::MAX)
        );
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Pass(u64),
        Take(u64),
        GiveBack(u64),
        Set(u64, u64, u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0_u64..3_000_000_000).prop_map(Event::Pass),
            (0_u64..100_000_000).prop_map(Event::Take),
            (0_u64..100_000_000).prop_map(Event::GiveBack),
            (0_u64..=1_000_000_000, 0_u64..1_000_000_000, 0_u64..1_000_000_000)
                .prop_map(|(rate, least, most)| Event::Set(rate, least, most)),
        ]
    }

    proptest! {
        /// Compared with separate sums: filled, taken, returned, and the effect of the bounds.
        #[test]
        fn no_grain_is_lost_and_none_is_made(events in proptest::collection::vec(event(), 0..40)) {
            let mut bucket = Bucket::new(Instant::ORIGIN);
            let (mut now, mut filled, mut taken, mut returned) =
                (Instant::ORIGIN, 0_i128, 0_i128, 0_i128);
            let mut levels = Vec::new();
            for event in events {
                match event {
                    Event::Pass(ns) => {
                        filled += i128::from(ns) * i128::from(bucket.rate());
                        now += Nanos::from_ns(ns);
                    }
                    Event::Take(tokens) => {
                        bucket.take(now, tokens);
                        taken += i128::from(tokens) * GRAINS;
                    }
                    Event::GiveBack(tokens) => {
                        bucket.give_back(now, tokens);
                        returned += i128::from(tokens) * GRAINS;
                    }
                    Event::Set(rate, least, most) => bucket.set(
                        now,
                        rate,
                        -i128::from(least) * GRAINS,
                        i128::from(most) * GRAINS,
                    ),
                }
                levels.push(bucket.level(now));
            }
            // Updates the level.
            bucket.take(now, 0);
            prop_assert_eq!(
                bucket.level(now),
                filled - taken + returned - bucket.spilled + bucket.forgiven
            );
            prop_assert!(
                levels
                    .iter()
                    .all(|level| *level <= 1_000_000_000 * GRAINS
                        && *level >= -1_000_000_000 * GRAINS)
            );
            prop_assert!(bucket.spilled >= 0 && bucket.forgiven >= 0);
        }

        /// It has the stated level at that time, and not a nanosecond before.
        #[test]
        fn it_reaches_a_level_when_it_says(
            rate in 1_u64..=1_000_000_000,
            debt in 0_u64..100_000_000,
            level in 0_i128..100_000_000,
        ) {
            let mut bucket = Bucket::new(Instant::ORIGIN);
            bucket.set(Instant::ORIGIN, rate, -GRAINS * 100_000_000, GRAINS * 100_000_000);
            bucket.take(Instant::ORIGIN, debt);
            let level = level * GRAINS / 3;
            let reached = bucket.reaches(level);
            prop_assert!(bucket.level(reached) >= level);
            prop_assert!(
                reached == Instant::ORIGIN
                    || bucket.level(reached.saturating_back(Nanos::from_ns(1))) < level
            );
        }
    }
}
