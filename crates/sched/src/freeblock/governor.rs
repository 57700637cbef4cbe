//! [`Governor`]: what background reading costs clients, measured, and how much of that is allowed.
//!
//! Clients lend time. Each response adds `max_impact` times its length to a balance, and whatever a
//! client waits for a background read is taken off, once for everybody whom it holds up. With a
//! balance below zero no gap is filled and nothing is taken from clients, until later responses
//! have paid it back.
//!
//! Whom a delay holds up: the drive is so much behind from then on, until it has nothing to do. All
//! requests that are held wait for it, and so do those that come later from clients who are
//! thinking at that moment and find a queue that would be over sooner. Who has waited for it comes
//! back so much later, and does not wait for it again. So each client waits for it once, whatever
//! he is doing at the moment; and how many there are shows the most requests that were held at once
//! lately. (On a simulated Atlas 10K under transactions, with one request in 25 held back by a
//! turn, the mean response of 10 and 14 tasks grew by 1.42 and 1.40 times what the requests held at
//! that moment came to.) Where a drive has been idle, it will be again: what is read then holds up
//! only who is held when it is over.
//!
//! What gaps leave of it is *saved* for the tail of a scan and for what failed: time that is taken
//! from clients outright. It is spent slower than it could be, so that clients never lose more than
//! `tail_share` of the drive's time at once.
//!
//! What a filled gap cost is how many turns later its request ended than predicted without the fill,
//! computed from the end of the command before it as measured. Only whole turns count: the request
//! begins where its sector lies, so a fill costs it a turn or nothing, and what is less is the
//! noise of reports. One that is a turn early, because the report before it was late, makes up for
//! one whose own report was.
//!
//! Worked example, 1 %: a hundred responses of 8 ms bring 8 ms. A gap is missed by a revolution of
//! 6 ms with two requests held, and of late it were up to four: −24 ms, the balance is −16 ms, and
//! two hundred responses go by before the next gap is filled.
//!
//! A fill is a *risk*: the share of fills lately that cost a turn, times a turn. All that is left
//! of a track would take a turn outright, however little that is; where the part of it that could
//! be read in a gap is less than the risk, it is left. Example: of a hundred fills two were late,
//! and 300 sectors of a track are wanted: what is less than 6 of them is not worth the risk. Of
//! five that are left, one is.
//!
//! Guarantees: since the first scan began the mean response has grown by no more than `max_impact`,
//! as far as predictions are right on average and no single read costs more than what has been
//! saved up; while the tail of a scan is read it may grow by about `tail_share`. Gaps are never
//! paid for out of what is saved for the tail: when they begin to fail they stop. Does *not* bound
//! any single response: a missed gap costs that one a revolution.

use headtime_units::{Instant, Nanos};

/// The most that may be saved up for gaps, in waiting added up over all requests (guess: ten
/// requests that all wait for half a second, once).
const MAX_SAVED_NS: i64 = 5_000_000_000;

/// Over so many filled gaps their lateness is averaged (guess: some seconds).
const LATELY: f64 = 1_024.0;

/// Over so many of clients' requests what was held at most is forgotten (guess: a minute of a busy
/// drive; that all of a dozen clients wait at once, who think a third of their time, comes once in
/// some hundreds of requests).
const FORGOTTEN: f64 = 8_192.0;

/// The balance of background reading with clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Governor {
    balance_ns: i64,
    /// What the balance had no room for.
    saved_ns: i64,
    delay_ns: i64,
    /// The share of filled gaps lately behind which a request was late.
    late: f64,
    response_ns: u64,
    /// The most requests that were held at once lately.
    max_held: f64,
    /// When a client's request came or was over last.
    last_seen: Option<Instant>,
}

impl Governor {
    /// A client's request is over.
    pub(crate) fn responded(&mut self, at: Instant, response: Nanos, max_impact: f64) {
        self.seen(at);
        self.response_ns = self.response_ns.saturating_add(response.as_ns());
        self.lend((response.as_ns() as f64 * max_impact) as i64);
    }

    /// A client has asked, which makes it `held` requests that wait for the drive.
    pub(crate) fn came(&mut self, held: usize) {
        let held = held as f64;
        self.max_held = held.max(self.max_held + (held - self.max_held) / FORGOTTEN);
    }

    /// How many clients a delay holds up while the drive has enough to do, with `held` requests
    /// waiting at the moment.
    pub(crate) fn held_up(&self, held: usize) -> usize {
        held.max(libm::round(self.max_held) as usize)
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

    /// Whether clients may be kept waiting by so much; for what is more than the balance holds at
    /// most, whether it is full.
    pub(crate) fn affords(&self, delay: Nanos) -> bool {
        self.balance_ns.saturating_add(self.saved_ns)
            >= i64::try_from(delay.as_ns()).unwrap_or(i64::MAX).min(MAX_SAVED_NS)
    }

    /// A request behind a filled gap ended `late_ns` later than predicted without the fill
    /// (negative: earlier), with `held` requests waiting, itself included; answers whether it was
    /// late. It is taken off for all whom that holds up.
    ///
    /// More than one turn is nobody's fault here: a fill that fails costs one.
    pub(crate) fn judged(&mut self, late_ns: i64, held: usize, revolution: Nanos) -> bool {
        let turn = i64::try_from(revolution.as_ns()).unwrap_or(i64::MAX);
        let turns = if late_ns > turn / 2 { 1 } else { -i64::from(late_ns < -turn / 2) };
        self.charge(turns * turn, self.held_up(held));
        self.late += (f64::from(u8::from(turns > 0)) - self.late) / LATELY;
        turns > 0
    }

    /// Whether reading `part` of what takes a turn is worth the risk that the request behind it is
    /// late.
    pub(crate) fn worth_the_risk(&self, part: f64) -> bool {
        part >= self.late
    }

    /// Clients, `held` of them, waited for a background read.
    pub(crate) fn kept_waiting(&mut self, delay: Nanos, held: usize) {
        self.charge(i64::try_from(delay.as_ns()).unwrap_or(i64::MAX), held);
    }

    /// The same for what was read in time taken from them.
    pub(crate) fn kept_waiting_for_the_tail(&mut self, delay: Nanos, held: usize) {
        let before = self.balance_ns;
        self.kept_waiting(delay, held);
        // The balance is left as it was, as far as the savings go.
        let paid = (before - self.balance_ns).min(self.saved_ns);
        self.saved_ns -= paid;
        self.balance_ns += paid;
    }

    /// How long clients waited in all, and how long their responses took.
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
        governor.came(4);
        assert!(governor.judged(5_900_000, 2, TURN));
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
        (1..=10).for_each(|held| governor.came(held));
        (0..2_000).for_each(|_| governor.came(6));
        assert!(governor.judged(6_000_000, 5, TURN));
        assert_eq!(governor.totals().0, TURN * 9, "ten, of whom less is remembered by now");
        assert_eq!(governor.held_up(12), 12, "all who wait, if they are more than ever");
        (0..100_000).for_each(|_| governor.came(3));
        assert_eq!(governor.held_up(1), 3, "those who went away are forgotten");
        governor.kept_waiting(TURN, 1);
        assert_eq!(
            governor.totals().0,
            TURN * 10,
            "and who comes into an idle drive holds up himself"
        );
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
    fn the_tail_is_paid_out_of_savings_and_gaps_are_not() {
        let mut governor = Governor::default();
        // 20 s lent: 5 for gaps, 15 saved.
        for _ in 0..2_000 {
            governor.responded(Instant::ORIGIN, Nanos::from_secs(1), 0.01);
        }
        for _ in 0..10 {
            governor.kept_waiting_for_the_tail(Nanos::from_ms(100), 10);
        }
        assert_eq!(
            governor.balance_ns, MAX_SAVED_NS,
            "10 s of 15 are spent, and gaps have what they had"
        );
        governor.kept_waiting(Nanos::from_ms(510), 10);
        assert!(
            !governor.may_fill(),
            "5.1 s of 5 are spent, and the 5 s for the tail are not for gaps"
        );
        assert!(governor.affords(Nanos::from_secs(4)), "the tail has them yet");
        governor.kept_waiting_for_the_tail(Nanos::from_ms(600), 10);
        assert_eq!((governor.balance_ns, governor.saved_ns), (-1_100_000_000, 0));
        assert_eq!(governor.totals().0, Nanos::from_ms(21_100));
    }

    #[test]
    fn what_is_less_than_fills_lately_lost_is_not_worth_the_risk() {
        let mut governor = Governor::default();
        assert!(governor.worth_the_risk(1.0 / 300.0), "nothing was late so far");
        for fill in 0..10_000 {
            governor.judged(if fill % 50 == 0 { 6_100_000 } else { 0 }, 1, TURN);
        }
        assert!(!governor.worth_the_risk(5.0 / 300.0) && governor.worth_the_risk(7.0 / 300.0));
    }

    #[test]
    fn a_drive_that_stood_still_for_a_second_is_charged_as_one_turn() {
        let mut governor = Governor::default();
        governor.judged(1_000_000_000, 1, TURN);
        assert_eq!(governor.totals().0, TURN);
    }
}
