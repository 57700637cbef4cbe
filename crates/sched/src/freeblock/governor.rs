//! [`Governor`]: the measured cost of background reading for clients, and its limit.
//!
//! Clients lend time. Each response adds `max_impact` times its length to a balance. The delay by a
//! background read is subtracted, once for each client it affects. With a negative balance no gap
//! is filled and no time is taken from clients, until later responses have paid it back.
//!
//! *Affected clients.* A delay lasts until the drive is idle. All held
//! requests wait for it, and so do requests that arrive later from clients that are thinking at
//! that moment. A client that has waited returns later by the same time, and does not wait for the
//! delay again. So each client waits for it once, and the maximum number of requests held lately
//! shows how many clients there are. (On a simulated Atlas 10K under transactions, with one request
//! in 25 delayed by a revolution, the mean response of 10 and 14 tasks grew by 1.42 and 1.40 times
//! the delay of the requests held at that moment.) A drive that has been idle will be idle again: a
//! read in idle time affects only the requests held at its end.
//!
//! Unused balance is *saved* for the tail of a scan and for retries, which take time from clients
//! outright. It is spent slowly, so that clients never lose more than `tail_share` of the drive's
//! time at once.
//!
//! The cost of a filled gap is the number of revolutions by which its request ended later than
//! predicted without the fill, computed from the measured end of the command before it. Only whole
//! revolutions count: the request begins where its sector lies, so a fill costs a revolution or
//! nothing, and smaller differences are noise of reports. A request that is a revolution early,
//! because the report before it was late, offsets one whose own report was late.
//!
//! Worked example, 1 %: a hundred responses of 8 ms bring 8 ms. A gap is missed by a revolution of
//! 6 ms with two requests held, and lately up to four were held: −24 ms. The balance is −16 ms, and
//! two hundred responses pass before the next gap is filled.
//!
//! A fill is a *risk*: the share of recent fills that cost a revolution, times a revolution.
//! Reading the rest of a track outright would cost a revolution, however little is left. If the
//! fraction of it that fits into a gap is less than the risk, the gap is not filled. Example: of a
//! hundred fills two were late, and 300 sectors of a track are pending: fewer than 6 of them are
//! not worth the risk. Of five that are left, one is.
//!
//! Guarantees: since the first scan began the mean response has grown by at most `max_impact`, as
//! far as predictions are right on average and no single read costs more than the savings. While
//! the tail of a scan is read it may grow by about `tail_share`. Gaps never use the savings of the
//! tail: when they begin to fail they stop. Does *not* bound a single response: a missed gap costs
//! it a revolution.

use headtime_units::{Instant, Nanos};

/// The maximum balance for gaps, in delay summed over all requests (guess: ten requests that all
/// wait for half a second, once).
const MAX_SAVED_NS: i64 = 5_000_000_000;

/// The number of filled gaps over which lateness is averaged (guess: some seconds).
const LATELY: f64 = 1_024.0;

/// The number of requests over which the maximum number held decays (guess: a minute of a busy
/// drive; all of a dozen clients that think a third of their time wait at once only every few
/// hundred requests).
const FORGOTTEN: f64 = 8_192.0;

/// The balance of background reading with clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Governor {
    balance_ns: i64,
    /// Time beyond the maximum balance.
    saved_ns: i64,
    delay_ns: i64,
    /// The recent share of filled gaps with a late request after them.
    late: f64,
    response_ns: u64,
    /// The maximum number of requests held at once lately.
    max_held: f64,
    /// The time of the last arrival or completion of a client's request.
    last_seen: Option<Instant>,
}

impl Governor {
    /// A request of a client has finished.
    pub(crate) fn responded(&mut self, at: Instant, response: Nanos, max_impact: f64) {
        self.seen(at);
        self.response_ns = self.response_ns.saturating_add(response.as_ns());
        self.lend((response.as_ns() as f64 * max_impact) as i64);
    }

    /// A request of a client has arrived, so that `held` requests wait for the drive.
    pub(crate) fn arrived(&mut self, held: usize) {
        let held = held as f64;
        self.max_held = held.max(self.max_held + (held - self.max_held) / FORGOTTEN);
    }

    /// The number of clients that a delay affects while the drive is busy, with `held` requests
    /// waiting now.
    pub(crate) fn held_up(&self, held: usize) -> usize {
        held.max(libm::round(self.max_held) as usize)
    }

    /// Records activity of a client.
    pub(crate) fn seen(&mut self, at: Instant) {
        self.last_seen = Some(self.last_seen.map_or(at, |last| last.max(at)));
    }

    /// The time of the last arrival or completion of a client's request.
    pub(crate) fn last_seen(&self) -> Option<Instant> {
        self.last_seen
    }

    /// Returns whether a gap may be filled.
    pub(crate) fn may_fill(&self) -> bool {
        self.balance_ns >= 0
    }

    /// Returns whether clients may be delayed by this much; for more than the maximum balance,
    /// whether the balance is full.
    pub(crate) fn affords(&self, delay: Nanos) -> bool {
        self.balance_ns.saturating_add(self.saved_ns)
            >= i64::try_from(delay.as_ns()).unwrap_or(i64::MAX).min(MAX_SAVED_NS)
    }

    /// A request after a filled gap ended `late_ns` later than predicted without the fill
    /// (negative: earlier), with `held` requests waiting, itself included. Returns whether it was
    /// late. The delay is charged for all affected clients.
    ///
    /// Only one revolution is charged: a failed fill costs one.
    pub(crate) fn record_fill(&mut self, late_ns: i64, held: usize, revolution: Nanos) -> bool {
        let turn = i64::try_from(revolution.as_ns()).unwrap_or(i64::MAX);
        let turns = if late_ns > turn / 2 { 1 } else { -i64::from(late_ns < -turn / 2) };
        self.charge(turns * turn, self.held_up(held));
        self.late += (f64::from(u8::from(turns > 0)) - self.late) / LATELY;
        turns > 0
    }

    /// Returns whether reading the fraction `part` of a revolution's work is worth the risk that
    /// the next request is late.
    pub(crate) fn worth_the_risk(&self, part: f64) -> bool {
        part >= self.late
    }

    /// A background read delayed `held` clients.
    pub(crate) fn delayed(&mut self, delay: Nanos, held: usize) {
        self.charge(i64::try_from(delay.as_ns()).unwrap_or(i64::MAX), held);
    }

    /// A background read in time taken from clients delayed them.
    pub(crate) fn delayed_for_tail(&mut self, delay: Nanos, held: usize) {
        let before = self.balance_ns;
        self.delayed(delay, held);
        // The balance stays the same, as far as the savings go.
        let paid = (before - self.balance_ns).min(self.saved_ns);
        self.saved_ns -= paid;
        self.balance_ns += paid;
    }

    /// The total delay of clients, and the total of their responses.
    pub(crate) fn totals(&self) -> (Nanos, Nanos) {
        (Nanos::from_ns(self.delay_ns.max(0) as u64), Nanos::from_ns(self.response_ns))
    }

    fn charge(&mut self, delay_ns: i64, held: usize) {
        let all = delay_ns.saturating_mul(i64::try_from(held).unwrap_or(i64::MAX));
        self.lend(all.saturating_neg());
        self.delay_ns = self.delay_ns.saturating_add(all);
    }

    fn lend(&mut self, ns: i64) {
        let balance = self.balance_ns.saturating_add(ns);
        self.balance_ns = balance.min(MAX_SAVED_NS);
        self.saved_ns = self.saved_ns.saturating_add(balance - self.balance_ns);
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
        assert!(
            governor.may_fill()
                && governor.affords(Nanos::from_ms(8))
                && !governor.affords(Nanos::from_ms(9))
        );
        governor.arrived(4);
        assert!(governor.record_fill(5_900_000, 2, TURN));
        let mut responses = 0;
        while !governor.may_fill() {
            governor.responded(Instant::ORIGIN, Nanos::from_ms(8), 0.01);
            responses += 1;
        }
        assert_eq!(responses, 200);
        assert_eq!(governor.totals(), (Nanos::from_ms(24), Nanos::from_ms(2_400)));
    }

    #[test]
    fn a_delay_holds_up_as_many_as_asked_at_once_lately() {
        let mut governor = Governor::default();
        (1..=10).for_each(|held| governor.arrived(held));
        (0..2_000).for_each(|_| governor.arrived(6));
        assert!(governor.record_fill(6_000_000, 5, TURN));
        assert_eq!(governor.totals().0, TURN * 9, "ten, decayed to nine by now");
        assert_eq!(governor.held_up(12), 12, "all waiting requests, if there are more than ever");
        (0..100_000).for_each(|_| governor.arrived(3));
        assert_eq!(governor.held_up(1), 3, "clients that left are forgotten");
        governor.delayed(TURN, 1);
        assert_eq!(governor.totals().0, TURN * 10, "a delay on an idle drive affects one request");
    }

    #[test]
    fn less_than_half_a_turn_is_noise_and_one_early_makes_up_for_one_late() {
        let mut governor = Governor::default();
        for late_ns in [300_000, -300_000, 2_900_000, 6_100_000, -6_100_000] {
            assert_eq!(governor.record_fill(late_ns, 5, TURN), late_ns == 6_100_000);
        }
        assert_eq!(governor.totals().0, Nanos::ZERO);
        assert!(governor.may_fill());
    }

    #[test]
    fn the_tail_is_paid_out_of_savings_and_gaps_are_not() {
        let mut governor = Governor::default();
        // 20 s lent: 5 for gaps, 15 saved.
        for _ in 0..2_000 {
            governor.responded(Instant::ORIGIN, Nanos::from_secs(1), 0.01);
        }
        for _ in 0..10 {
            governor.delayed_for_tail(Nanos::from_ms(100), 10);
        }
        assert_eq!(
            governor.balance_ns, MAX_SAVED_NS,
            "10 s of 15 are spent, and gaps have what they had"
        );
        governor.delayed(Nanos::from_ms(510), 10);
        assert!(
            !governor.may_fill(),
            "5.1 s of 5 are spent, and the 5 s for the tail are not for gaps"
        );
        assert!(governor.affords(Nanos::from_secs(4)), "the tail has them yet");
        governor.delayed_for_tail(Nanos::from_ms(600), 10);
        assert_eq!((governor.balance_ns, governor.saved_ns), (-1_100_000_000, 0));
        assert_eq!(governor.totals().0, Nanos::from_ms(21_100));
    }

    #[test]
    fn what_is_less_than_fills_lately_lost_is_not_worth_the_risk() {
        let mut governor = Governor::default();
        assert!(governor.worth_the_risk(1.0 / 300.0), "nothing was late so far");
        for fill in 0..10_000 {
            governor.record_fill(if fill % 50 == 0 { 6_100_000 } else { 0 }, 1, TURN);
        }
        assert!(!governor.worth_the_risk(5.0 / 300.0) && governor.worth_the_risk(7.0 / 300.0));
    }

    #[test]
    fn a_drive_that_stood_still_for_a_second_is_charged_as_one_turn() {
        let mut governor = Governor::default();
        governor.record_fill(1_000_000_000, 1, TURN);
        assert_eq!(governor.totals().0, TURN);
    }
}
