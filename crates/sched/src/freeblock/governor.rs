//! [`Governor`]: what background reading costs clients, measured, and how much of that is allowed.
//!
//! Clients lend time. Each response adds `max_impact` times its length to a balance, and whatever a client waits for a background read is taken off, once for
//! each request that is held at that moment, because all of them wait. With a balance below zero no gap is filled and nothing is taken from clients, until
//! later responses have paid it back.
//!
//! What a filled gap cost is how many turns later its request ended than foreseen without the fill, reckoned from the end of the command before it as measured. Only
//! whole turns count: the request begins where its sector lies, so a fill costs it a turn or nothing, and what is less is the noise of reports. One that is a
//! turn early, because the report before it was late, makes up for one whose own report was.
//!
//! Worked example, 1 %: a hundred responses of 8 ms bring 8 ms. A gap is missed by a revolution of 6 ms with four requests held: −24 ms, the balance is −16 ms,
//! and two hundred responses go by before the next gap is filled.
//!
//! Guarantees: over any long stretch the mean response is longer by no more than `max_impact`, as far as predictions are right on average and no single
//! read costs more than what has been saved up. Does *not* bound any single response: a missed gap costs that one a revolution.

use headtime_units::{Instant, Nanos};

/// The most that may be saved up, in waiting added up over all requests (guess: ten requests that all wait for half a second, once).
const MOST_SAVED_NS: i64 = 5_000_000_000;

/// The balance of background reading with clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Governor {
    balance_ns: i64,
    delay_ns: i64,
    response_ns: u64,
    /// When a client's request came or was over last.
    last_seen: Option<Instant>,
}

impl Governor {
    /// A client's request is over.
    pub(crate) fn responded(&mut self, at: Instant, response: Nanos, max_impact: f64) {
        self.seen(at);
        self.response_ns = self.response_ns.saturating_add(response.as_ns());
        self.balance_ns = (self.balance_ns + (response.as_ns() as f64 * max_impact) as i64).min(MOST_SAVED_NS);
    }

    /// A client asks.
    pub(crate) fn seen(&mut self, at: Instant) {
        self.last_seen = Some(self.last_seen.map_or(at, |last| last.max(at)));
    }

    /// When a client's request came or was over last.
    pub(crate) fn last_seen(&self) -> Option<Instant> {
        self.last_seen
    }

    /// Whether a gap may be filled.
    pub(crate) fn may_fill(&self) -> bool {
        self.balance_ns >= 0
    }

    /// Whether clients may be kept waiting by so much; for what is more than can be saved up, whether all has been.
    pub(crate) fn affords(&self, delay: Nanos) -> bool {
        self.balance_ns >= i64::try_from(delay.as_ns()).unwrap_or(i64::MAX).min(MOST_SAVED_NS)
    }

    /// A request behind a filled gap ended `late_ns` later than foreseen without the fill (negative: earlier), with `held` requests waiting, itself
    /// included; answers whether it was late.
    ///
    /// More than one turn is nobody's fault here: a fill that fails costs one.
    pub(crate) fn judged(&mut self, late_ns: i64, held: usize, revolution: Nanos) -> bool {
        let turn = i64::try_from(revolution.as_ns()).unwrap_or(i64::MAX);
        let turns = if late_ns > turn / 2 { 1 } else { -i64::from(late_ns < -turn / 2) };
        self.charge(turns * turn, held);
        turns > 0
    }

    /// Clients, `held` of them, waited for a background read.
    pub(crate) fn kept_waiting(&mut self, delay: Nanos, held: usize) {
        self.charge(i64::try_from(delay.as_ns()).unwrap_or(i64::MAX), held);
    }

    /// How long clients waited in all, and how long their responses took.
    pub(crate) fn totals(&self) -> (Nanos, Nanos) {
        (Nanos::from_ns(self.delay_ns.max(0) as u64), Nanos::from_ns(self.response_ns))
    }

    fn charge(&mut self, delay_ns: i64, held: usize) {
        let all = delay_ns.saturating_mul(i64::try_from(held).unwrap_or(i64::MAX));
        self.balance_ns = self.balance_ns.saturating_sub(all).min(MOST_SAVED_NS);
        self.delay_ns = self.delay_ns.saturating_add(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Nanos = Nanos::from_ms(6);

    #[test]
    fn a_missed_gap_is_paid_back_by_responses() {
        let mut governor = Governor::default();
        for _ in 0..100 {
            governor.responded(Instant::ORIGIN, Nanos::from_ms(8), 0.01);
        }
        assert!(governor.may_fill() && governor.affords(Nanos::from_ms(8)) && !governor.affords(Nanos::from_ms(9)));
        assert!(governor.judged(5_900_000, 4, TURN));
        let mut responses = 0;
        while !governor.may_fill() {
            governor.responded(Instant::ORIGIN, Nanos::from_ms(8), 0.01);
            responses += 1;
        }
        assert_eq!(responses, 200);
        assert_eq!(governor.totals(), (Nanos::from_ms(24), Nanos::from_ms(2_400)));
    }

    #[test]
    fn less_than_half_a_turn_is_noise_and_one_early_makes_up_for_one_late() {
        let mut governor = Governor::default();
        for late_ns in [300_000, -300_000, 2_900_000, 6_100_000, -6_100_000] {
            assert_eq!(governor.judged(late_ns, 5, TURN), late_ns == 6_100_000);
        }
        assert_eq!(governor.totals().0, Nanos::ZERO);
        assert!(governor.may_fill());
    }

    #[test]
    fn a_drive_that_stood_still_for_a_second_is_charged_as_one_turn() {
        let mut governor = Governor::default();
        governor.judged(1_000_000_000, 1, TURN);
        assert_eq!(governor.totals().0, TURN);
    }
}
