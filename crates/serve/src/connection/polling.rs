//! [`Polling`]: whether the next requests of a client are awaited without sleeping.
//!
//! To sleep and to be woken takes a thread of a virtual machine 30 to 40 µs when its processor was
//! halted meanwhile. A client that sends the next request as soon as it has a reply waits for that
//! each time. So the task polls for a short time after a reply, if the client was that fast before.

use headtime_units::{Instant, Nanos};

/// The maximum time of polling after a reply: about the cost of sleeping that it saves, as in
/// adaptive polling before a processor is halted.
const POLL_TIME: Nanos = Nanos::from_us(50);
/// Requests within this time after a reply are those of a fast client: [`POLL_TIME`] and the time
/// of being woken.
const FAST: Nanos = Nanos::from_us(100);

#[derive(Debug, Default)]
pub(super) struct Polling {
    /// The time of the last reply, until the next request is received.
    sent_at: Option<Instant>,
    /// The last request came soon after the reply before it.
    is_fast: bool,
}

impl Polling {
    /// A reply was sent.
    pub(super) fn sent(&mut self, now: Instant) {
        self.sent_at = Some(now);
    }

    /// Requests were received.
    pub(super) fn received(&mut self, now: Instant) {
        if let Some(sent_at) = self.sent_at.take() {
            self.is_fast = now.saturating_since(sent_at) < FAST;
        }
    }

    /// Returns whether the task polls now.
    pub(super) fn is_on(&self, now: Instant) -> bool {
        let is_due = |sent_at| now.saturating_since(sent_at) < POLL_TIME;
        self.is_fast && self.sent_at.is_some_and(is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_client_is_polled_for_a_short_time_after_each_reply() {
        let mut polling = Polling::default();
        let at = |us| Instant::ORIGIN + Nanos::from_us(us);
        polling.sent(at(0));
        assert!(!polling.is_on(at(1)), "nothing is known of the client");
        polling.received(at(99));
        assert!(!polling.is_on(at(99)), "no reply was sent since");
        polling.sent(at(200));
        assert!(polling.is_on(at(249)));
        assert!(!polling.is_on(at(250)));
        polling.received(at(300));
        polling.sent(at(400));
        assert!(!polling.is_on(at(401)), "the last request came late");
        // Requests that arrive one after another are of the same reply.
        polling.received(at(420));
        polling.received(at(900));
        polling.sent(at(1000));
        assert!(polling.is_on(at(1001)));
    }
}
