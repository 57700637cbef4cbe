//! The think time of a client, and how long its next request is worth waiting for.

use headtime_units::{Instant, Nanos};

use crate::command::Finished;

/// The think time of a client: from a completion to its next submission.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Think {
    /// The mean, and the mean deviation; `None` before the first.
    pub(super) mean_ns: Option<(f64, f64)>,
    /// The last completion, as long as no request was submitted after it.
    pub(super) idle_since: Option<Instant>,
    /// True if the process or connection of the last request has ended.
    pub(super) ended: bool,
    /// The probability that another process continues after that.
    pub(super) inherited: f64,
}

/// The outcome of a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    Yes,
    No,
}

impl Think {
    /// The time by which the next request is expected, if no request was submitted after the last
    /// completion and it is worth waiting for, which is at most `most` after that.
    ///
    /// It is the mean think time with four mean deviations (as TCP's retransmission timer) and a
    /// margin, or `most` before the first think time is known.
    pub(crate) fn expected_by(&self, most: Nanos) -> Option<Instant> {
        Some(self.idle_since? + self.within(most)?)
    }

    /// The same without a margin, once the think time is known: a wait that saves little.
    pub(super) fn returns_by(&self, most: Nanos) -> Option<Instant> {
        let (mean, deviation) = self.mean_ns?;
        let wait = Nanos::from_ns((mean + 4.0 * deviation) as u64);
        (!self.has_ended() && wait <= most).then_some(self.idle_since? + wait)
    }

    /// Returns whether a request was submitted after the last completion.
    pub(crate) fn has_gone_on(&self) -> bool {
        self.idle_since.is_none()
    }

    /// The time before which the next request is not expected: the mean less two mean deviations.
    pub(crate) fn not_before(&self) -> Option<Instant> {
        let (mean, deviation) = self.mean_ns?;
        Some(self.idle_since? + Nanos::from_ns((mean - 2.0 * deviation).max(0.0) as u64))
    }

    /// The time until which the next request is worth waiting for, if no request was submitted
    /// after the last completion.
    pub(crate) fn awaited_until(&self, saved: Nanos) -> Option<Instant> {
        Some(self.idle_since? + self.worth(saved)?)
    }

    /// The time after a completion during which a wait pays that saves `saved`: until the next
    /// request is expected, at most `saved`. A think time without memory, an exponential one, is
    /// worth that wait as long as its mean is shorter (guess: by a quarter).
    pub(crate) fn worth(&self, saved: Nanos) -> Option<Nanos> {
        let (mean, _) = self.mean_ns.unwrap_or_default();
        let pays = !self.has_ended() && mean <= 0.75 * saved.as_ns() as f64;
        self.within(saved).or_else(|| pays.then_some(saved))
    }

    /// The time after a completion within which a request is expected, if at most `most`.
    pub(crate) fn within(&self, most: Nanos) -> Option<Nanos> {
        let wait = match self.mean_ns {
            Some((mean, deviation)) => Nanos::from_ns((mean + 4.0 * deviation) as u64) + MARGIN,
            None => most,
        };
        (!self.has_ended() && wait <= most).then_some(wait)
    }

    /// The mean; zero before the first.
    pub(crate) fn mean(&self) -> Nanos {
        Nanos::from_ns(self.mean_ns.map_or(0.0, |(mean, _)| mean) as u64)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended && self.inherited < 0.5
    }

    /// Notes the outcome of a wait for the next request.
    pub(super) fn waited(&mut self, came: Came) {
        if self.ended && came == Came::No {
            self.inherited /= 2.0;
        }
    }

    /// Notes a submission.
    pub(crate) fn submitted(&mut self, now: Instant) {
        let ended = core::mem::take(&mut self.ended);
        let Some(since) = self.idle_since.take() else { return };
        let sample = now.saturating_since(since).as_ns() as f64;
        if ended {
            self.inherited += (1.0 - self.inherited) / 2.0;
        }
        self.mean_ns = Some(match self.mean_ns {
            Some((mean, deviation)) => (
                mean + (sample - mean) / 8.0,
                deviation + ((sample - mean).abs() - deviation) / 4.0,
            ),
            None => (sample, sample / 2.0),
        });
    }

    /// Notes a completion.
    pub(crate) fn finished(&mut self, finished: &Finished) {
        self.idle_since = Some(finished.finished);
    }
}

/// The addition to the expected think time (guess: the way of a completion to its client and of
/// the next request back, when that is slow).
const MARGIN: Nanos = Nanos::from_us(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_other_processes_continue_is_waited_for_when_its_process_has_ended() {
        let mut think = Think::default();
        let change = Nanos::from_ms(12);
        think.ended = true;
        assert_eq!(think.within(change), None, "nothing is known of what follows");
        think.idle_since = Some(Instant::ORIGIN);
        think.submitted(Instant::ORIGIN + Nanos::from_ms(1));
        think.ended = true;
        assert!(think.within(change).is_some(), "another process continued");
        think.waited(Came::No);
        assert_eq!(think.within(change), None, "none continued");
    }

    #[test]
    fn a_think_time_is_learned_and_one_that_is_too_long_is_not_waited_for() {
        let mut think = Think::default();
        let (ms, change) = (Nanos::from_ms, Nanos::from_ms(12));
        assert_eq!(think.within(change), Some(change), "nothing is known yet");
        let mut now = Instant::ORIGIN;
        let mut learn = |think: &mut Think, time: Nanos| {
            for _ in 0..40 {
                think.idle_since = Some(now);
                now += time;
                think.submitted(now);
            }
            think.idle_since = Some(now);
            now
        };
        let since = learn(&mut think, ms(2));
        let until = think.expected_by(change).expect("it comes soon");
        assert!(until >= since + ms(2) && until < since + ms(3), "{until} after {since}");
        let earliest = think.not_before().expect("a think time is known");
        assert!(earliest > since + ms(1) && earliest <= since + ms(2), "{earliest} after {since}");
        learn(&mut think, ms(20));
        assert_eq!(think.expected_by(change), None);
        learn(&mut think, ms(2));
        think.ended = true;
        assert_eq!(think.expected_by(change), None, "its process has ended");
    }
}
