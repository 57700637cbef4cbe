//! [`Gate`]: a limit or a cap. It is a bucket that closes when it is empty and opens again when it
//! has enough for a run.
//!
//! Worked example: a limit of 20 % with a burst of 1 s fills a bucket of 200 ms. A tenant that has
//! used them up waits until a quarter, 50 ms, is available again, which takes 250 ms. Then it has a
//! run of 50 ms and the inflow meanwhile, rather than one request every few milliseconds.

use headtime_units::{Instant, Nanos};

use super::bucket::{Bucket, GRAINS};

/// The maximum time to pay a debt (guess: twice the usual command time-out of a drive).
const LONGEST_DEBT: Nanos = Nanos::from_secs(60);
/// The reciprocal of the fraction of its burst that a tenant at its limit waits for.
const LET_IN: i128 = 4;

/// A limit: a bucket that shuts when it is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    bucket: Option<Bucket>,
    /// Closed until then; open if not after the last update.
    opens: Instant,
}

impl Gate {
    /// One that lets everything through.
    pub(crate) fn open() -> Self {
        Self { bucket: None, opens: Instant::ORIGIN }
    }

    /// Returns the time at which it lets the next one through: `now` or earlier when it does now.
    pub(crate) fn opens(&self) -> Instant {
        self.opens
    }

    /// The level in grains; `None` without a limit.
    pub(crate) fn level(&self, now: Instant) -> Option<i128> {
        self.bucket.as_ref().map(|bucket| bucket.level(now))
    }

    /// Sets the rate in grains a nanosecond, or no limit; a debt stays, and is paid no later than
    /// before.
    pub(crate) fn set(&mut self, now: Instant, rate: Option<u64>, burst: Nanos) {
        let Some(rate) = rate else {
            *self = Self::open();
            return;
        };
        let new = self.bucket.is_none();
        let bucket = self.bucket.get_or_insert_with(|| Bucket::new(now));
        // At least one token, or a low rate with a short burst would block everything.
        let most = (i128::from(rate) * i128::from(burst.as_ns())).max(GRAINS);
        bucket.set(now, rate, -i128::from(rate) * i128::from(LONGEST_DEBT.as_ns()), most);
        if new {
            bucket.top_up(now);
        }
        self.update(now);
    }

    /// Lets so many tokens through.
    pub(crate) fn take(&mut self, now: Instant, tokens: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now, tokens);
            self.update(now);
        }
    }

    /// Returns so many tokens.
    pub(crate) fn give_back(&mut self, now: Instant, tokens: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.give_back(now, tokens);
            self.update(now);
        }
    }

    /// [`Bucket::let_off`]; nothing where nothing is limited.
    #[cfg(test)]
    pub(crate) fn let_off(&self) -> i128 {
        self.bucket.map_or(0, |bucket| bucket.let_off())
    }

    /// Closes the gate when the bucket is empty, and computes when it opens.
    fn update(&mut self, now: Instant) {
        let Some(bucket) = &self.bucket else { return };
        if self.opens > now || bucket.level(now) <= 0 {
            self.opens = bucket.reaches((bucket.most() / LET_IN).max(1));
        }
    }
}
