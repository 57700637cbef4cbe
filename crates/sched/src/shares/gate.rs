//! [`Gate`]: a limit or a cap, which is a bucket that shuts when nothing is left in it and opens
//! again when there is enough for a run.
//!
//! Worked example: a limit of 20 % with a burst of 1 s fills a bucket of 200 ms. A tenant that has
//! used them up is shut out until a quarter of that, 50 ms, is there, which takes 250 ms; then it
//! has a run of 50 ms and what comes in meanwhile, and not one request after each few milliseconds.

use headtime_units::{Instant, Nanos};

use super::bucket::{Bucket, GRAINS};

/// No debt takes longer than this to pay (guess: twice the time that a drive is usually given to
/// answer).
const LONGEST_DEBT: Nanos = Nanos::from_secs(60);
/// Which part of its burst a tenant at its limit waits for.
const LET_IN: i128 = 4;

/// A limit: a bucket that shuts when it is empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    bucket: Option<Bucket>,
    /// Shut until then; not after the time it was looked at: open.
    opens: Instant,
}

impl Gate {
    /// One that lets everything through.
    pub(crate) fn open() -> Self {
        Self { bucket: None, opens: Instant::ORIGIN }
    }

    /// When it lets the next one through: `now` or earlier when it does now.
    pub(crate) fn opens(&self) -> Instant {
        self.opens
    }

    /// How many grains it holds; `None` where nothing is limited.
    pub(crate) fn level(&self, now: Instant) -> Option<i128> {
        self.bucket.as_ref().map(|bucket| bucket.level(now))
    }

    /// Lets so many grains a nanosecond through, or everything; what is owed already stays owed,
    /// and is paid no later than it would have been.
    pub(crate) fn set(&mut self, now: Instant, rate: Option<u64>, burst: Nanos) {
        let Some(rate) = rate else {
            *self = Self::open();
            return;
        };
        let new = self.bucket.is_none();
        let bucket = self.bucket.get_or_insert_with(|| Bucket::new(now));
        // One token at least, or a slow rate with a short burst would let nothing through.
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

    /// Shuts when nothing is left, and says when it opens.
    fn update(&mut self, now: Instant) {
        let Some(bucket) = &self.bucket else { return };
        if self.opens > now || bucket.level(now) <= 0 {
            self.opens = bucket.reaches((bucket.most() / LET_IN).max(1));
        }
    }
}
