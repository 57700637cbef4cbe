//! [`Governor`]: the measured cost of background reading for clients, and its limit.
//!
//! Clients lend time. Each response adds `max_impact` / (1 + `max_impact`) times its length to a
//! balance: as much as it may be delayed. The time by which background reads have delayed it is
//! subtracted. With a negative balance no gap is filled and no time is taken from clients, until
//! later responses have paid it back.
//!
//! *Control gaps.* One gap in `controls` in which something was found is left unfilled, and all
//! are while the balance is negative. The cost of a filled gap is the number of revolutions by
//! which its request ended later than predicted, less the mean of that number over control gaps.
//! Only whole revolutions count: the request begins where its sector lies, and smaller differences
//! are noise of reports. So what the drive does by itself (reads a sector again, loses the track)
//! is not charged to fills. What a fill takes away is: without it the arm would at times have
//! arrived early enough to save a revolution.
//!
//! *Lag.* A delay lasts until the drive is idle: the later requests wait for it as well. The
//! *lag* is the time by which the drive is later than it would be without background reads. Each
//! response is charged the lag at its end. The lag shrinks by the time that the drive is idle. It
//! also shrinks by one part in the number of clients at each response: a client that has waited
//! returns later by the same time, and does not wait for that delay again. The maximum number of
//! requests held lately stands for the number of clients. (On a simulated Atlas 10K under
//! transactions, with one request in 25 delayed by a revolution, the mean response of 10 and 14
//! tasks grew by 1.42 and 1.40 times the delay of the requests held at that moment.) A read in idle
//! time affects only the requests held at its end.
//!
//! Unused balance is *saved* for the tail of a scan, for retries, and for scans that get little
//! otherwise, which take time from clients outright. For the tail and for retries it is spent
//! slowly, so that clients never lose more than `tail_share` of the drive's time at once; for the
//! others as fast as the bound allows, if that is more.
//!
//! Worked example, 1 %, four clients: a hundred responses of 8 ms bring 7.9 ms. A gap is missed by
//! a revolution of 6 ms. The next four responses are charged 6, 4.5, 3.4 and 2.5 ms, and all later
//! ones 7.6 ms together, if the drive does not become idle. The balance falls to −16 ms, and two
//! hundred responses pass before the next gap is filled.
//!
//! What this accounting does not see is measured by stretches without reads (`stretches.rs`). The
//! first read between two responses is charged for it.
//!
//! A fill is a *risk*: the mean number of revolutions that recent fills cost. Reading the rest of a
//! track outright would cost a revolution, however little is left. If the fraction of it that fits
//! into a gap is less than the risk, the gap is not filled. Example: of a hundred fills two were
//! late, and 300 sectors of a track are pending: fewer than 6 of them are not worth the risk. Of
//! five that are left, one is.
//!
//! Guarantees: since the first scan began the mean response has grown by at most `max_impact`, as
//! far as control gaps are like the others and no single read costs more than the savings. While
//! the tail of a scan is read it may grow by about `tail_share`. Gaps never use the savings of the
//! tail: when they begin to fail they stop. Does *not* bound a single response: a missed gap costs
//! it a revolution.

use headtime_units::{Instant, Nanos};

use super::stretches::Stretches;
use crate::background::MeasuredImpact;

/// The maximum balance for gaps, in delay summed over all requests (guess: ten requests that all
/// wait for half a second, once).
const MAX_SAVED_NS: i64 = 5_000_000_000;

/// Gaps after controls that must have been seen until controls are rare; before, they are
/// [`OFTEN`] times as frequent (guess: a minute or so of a busy drive).
const RARE_AFTER: u32 = 2_048;

/// As [`RARE_AFTER`].
const OFTEN: u64 = 4;

/// The number of gaps over which the lateness after them is averaged, with and without a fill
/// (guess: long enough that its error, a tenth of a revolution by the square root of this, is below
/// a hundredth of a response).
const LATELY: u32 = 16_384;

/// Gaps that count as seen, all in time, before the first (guess).
const IN_TIME: u32 = 16;

/// The maximum number of revolutions charged for a gap (guess: more is a drive that stood still).
const MAX_TURNS: i64 = 4;

/// The number of requests over which the maximum number held decays (guess: a minute of a busy
/// drive; all of a dozen clients that think a third of their time wait at once only every few
/// hundred requests).
const FORGOTTEN: f64 = 8_192.0;

/// The use of a gap in which something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GapUse {
    /// Something was read.
    Filled,
    /// It was left as it is.
    Control,
}

/// The balance of background reading with clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Governor {
    balance_ns: i64,
    /// Time beyond the maximum balance.
    saved_ns: i64,
    delay_ns: i64,
    /// The time by which the drive is later than without background reads, in nanoseconds.
    lag_ns: f64,
    /// Gaps with something to read.
    gaps: u64,
    filled: Lateness,
    control: Lateness,
    response_ns: u64,
    /// The maximum number of requests held at once lately.
    max_held: f64,
    /// The time of the last arrival or completion of a client's request.
    last_seen: Option<Instant>,
    /// The impact as clients see it.
    stretches: Stretches,
}

/// The mean number of revolutions by which requests after gaps are late.
#[derive(Clone, Debug, Default)]
struct Lateness {
    gaps: u32,
    turns: f64,
}

impl Lateness {
    fn note(&mut self, turns: i64) {
        self.gaps = (self.gaps + 1).min(LATELY);
        self.turns += (turns as f64 - self.turns) / f64::from((self.gaps + IN_TIME).min(LATELY));
    }
}

impl Governor {
    /// A request of a client has finished.
    pub(crate) fn responded(&mut self, at: Instant, response: Nanos, max_impact: f64) {
        self.seen(at);
        self.response_ns = self.response_ns.saturating_add(response.as_ns());
        // Infinity, no bound, stays what it is.
        let share =
            if max_impact < f64::INFINITY { max_impact / (1.0 + max_impact) } else { max_impact };
        self.lend((response.as_ns() as f64 * share) as i64);
        self.charge(self.lag_ns as i64);
        self.lag_ns -= self.lag_ns / self.max_held.max(1.0);
    }

    /// Measures the impact by a response, while a scan reads.
    pub(crate) fn measure(&mut self, at: Instant, response: Nanos, max_impact: f64) {
        let (held, charged_ns) = (self.max_held, self.delay_ns);
        self.stretches.responded(at, response, held, charged_ns, max_impact);
    }

    /// Interrupts the measurement: no scan reads.
    pub(crate) fn stop_measuring(&mut self) {
        self.stretches.restart();
    }

    /// A scan reads at full rate, because clients are away.
    pub(crate) fn reads_while_away(&mut self) {
        self.stretches.away(self.max_held);
    }

    /// A background read was sent beside clients.
    pub(crate) fn read_beside_clients(&mut self) {
        let correction_ns = self.stretches.read();
        self.lend(-correction_ns as i64);
    }

    /// The impact as clients see it; `None` if it is not known yet.
    pub(crate) fn measured(&self) -> Option<MeasuredImpact> {
        self.stretches.measured()
    }

    /// A request of a client has arrived, so that `held` requests wait for the drive.
    pub(crate) fn arrived(&mut self, at: Instant, held: usize) {
        if let (0..=1, Some(last)) = (held, self.last_seen) {
            let idle_ns = at.saturating_since(last).as_ns() as f64;
            self.lag_ns -= self.lag_ns.clamp(-idle_ns, idle_ns);
        }
        self.seen(at);
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

    /// Returns whether reading in idle time may begin or go on: once the arm has left the clients,
    /// reading on hardly costs more.
    pub(crate) fn may_read_in_idle_time(&self) -> bool {
        self.allows_reads() && (self.may_fill() || self.stretches.has_read())
    }

    /// Returns whether this is no stretch without reads.
    pub(crate) fn allows_reads(&self) -> bool {
        self.stretches.allows_reads()
    }

    /// Returns whether clients may be delayed by this much; for more than the maximum balance,
    /// whether the balance is full.
    pub(crate) fn affords(&self, delay: Nanos) -> bool {
        self.balance_ns.saturating_add(self.saved_ns)
            >= i64::try_from(delay.as_ns()).unwrap_or(i64::MAX).min(MAX_SAVED_NS)
    }

    /// The use of a gap in which something was found: one in `controls` is left as it is, and all
    /// are in a stretch without reads.
    pub(crate) fn next_use(&mut self, controls: u64) -> GapUse {
        self.gaps += 1;
        let often = if self.control.gaps < RARE_AFTER { OFTEN } else { 1 };
        // The high bits of a product with the golden ratio: no period of a load agrees with it.
        let place = self.gaps.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let control = !self.allows_reads() || controls > 0 && place * controls < often << 32;
        if self.may_fill() && !control { GapUse::Filled } else { GapUse::Control }
    }

    /// A request after a gap with something to read ended `late_ns` later than predicted (negative:
    /// earlier). Returns whether it was late.
    pub(crate) fn record_gap(&mut self, used: GapUse, late_ns: i64, revolution: Nanos) -> bool {
        let turn = revolution.as_ns() as f64;
        let turns = (libm::round(late_ns as f64 / turn) as i64).clamp(-1, MAX_TURNS);
        match used {
            GapUse::Filled => {
                self.filled.note(turns);
                self.lag_ns += (turns as f64 - self.control.turns) * turn;
            }
            GapUse::Control => self.control.note(turns),
        }
        turns > 0
    }

    /// Returns whether reading the fraction `part` of a revolution's work is worth the risk that
    /// the next request is late.
    pub(crate) fn worth_the_risk(&self, part: f64) -> bool {
        part >= self.filled.turns - self.control.turns
    }

    /// A background read delayed `held` clients.
    pub(crate) fn delayed(&mut self, delay: Nanos, held: usize) {
        let delay_ns = i64::try_from(delay.as_ns()).unwrap_or(i64::MAX);
        self.charge(delay_ns.saturating_mul(i64::try_from(held).unwrap_or(i64::MAX)));
    }

    /// The drive is later by this time than without a background read, which is charged to each
    /// response as long as it lasts.
    pub(crate) fn delayed_drive(&mut self, delay: Nanos) {
        self.lag_ns += delay.as_ns() as f64;
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

    fn charge(&mut self, delay_ns: i64) {
        self.lend(delay_ns.saturating_neg());
        self.delay_ns = self.delay_ns.saturating_add(delay_ns);
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

    /// Four clients that wait together, and the balance of a hundred responses of 8 ms.
    fn of_four() -> Governor {
        let mut governor = Governor::default();
        governor.arrived(Instant::ORIGIN, 4);
        (0..100).for_each(|_| respond(&mut governor));
        governor
    }

    fn respond(governor: &mut Governor) {
        governor.responded(Instant::ORIGIN, Nanos::from_ms(8), 0.01);
    }

    fn delay_us(governor: &Governor) -> u64 {
        governor.totals().0.as_ns() / 1_000
    }

    #[test]
    fn a_missed_gap_is_paid_back_by_responses() {
        let mut governor = of_four();
        assert!(
            governor.may_fill()
                && governor.affords(Nanos::from_us(7_920))
                && !governor.affords(Nanos::from_ms(8))
        );
        assert!(governor.record_gap(GapUse::Filled, 5_900_000, TURN));
        respond(&mut governor);
        assert_eq!(delay_us(&governor), 6_000);
        respond(&mut governor);
        assert_eq!(delay_us(&governor), 10_500);
        let mut responses = 2;
        while !governor.may_fill() {
            assert_eq!(governor.next_use(16), GapUse::Control);
            respond(&mut governor);
            responses += 1;
        }
        assert_eq!(responses, 204);
        assert_eq!(delay_us(&governor), 23_999);
    }

    #[test]
    fn a_delay_lasts_until_the_drive_has_been_idle_for_as_long() {
        let mut governor = of_four();
        governor.record_gap(GapUse::Filled, 5_900_000, TURN);
        governor.arrived(Instant::ORIGIN + Nanos::from_ms(2), 1);
        respond(&mut governor);
        assert_eq!(delay_us(&governor), 4_000, "the drive was idle for 2 ms");
        governor.arrived(Instant::ORIGIN + Nanos::from_ms(20), 1);
        respond(&mut governor);
        assert_eq!(delay_us(&governor), 4_000, "and then for longer than the delay");
    }

    #[test]
    fn a_delay_of_the_drive_is_charged_to_the_requests_that_it_holds_up() {
        let mut governor = of_four();
        governor.delayed_drive(Nanos::from_ms(4));
        assert_eq!(delay_us(&governor), 0, "no request has ended");
        (0..40).for_each(|_| respond(&mut governor));
        assert_eq!(delay_us(&governor), 15_999, "each of four, if the drive is never idle");
        governor.delayed_drive(Nanos::from_ms(4));
        respond(&mut governor);
        governor.arrived(Instant::ORIGIN + Nanos::from_ms(20), 1);
        respond(&mut governor);
        assert_eq!(delay_us(&governor), 19_999, "one, if the drive is idle afterwards");
    }

    #[test]
    fn a_delay_holds_up_as_many_as_waited_at_once_lately() {
        let mut governor = Governor::default();
        (1..=10).for_each(|held| governor.arrived(Instant::ORIGIN, held));
        (0..2_000).for_each(|_| governor.arrived(Instant::ORIGIN, 6));
        assert_eq!(governor.held_up(5), 9, "ten, decayed to nine by now");
        assert_eq!(governor.held_up(12), 12, "all waiting requests, if there are more than ever");
        (0..100_000).for_each(|_| governor.arrived(Instant::ORIGIN, 3));
        assert_eq!(governor.held_up(1), 3, "clients that left are forgotten");
        governor.delayed(TURN, 1);
        assert_eq!(governor.totals().0, TURN, "a delay on an idle drive affects one request");
    }

    #[test]
    fn less_than_half_a_turn_is_noise_and_one_early_makes_up_for_one_late() {
        let mut governor = of_four();
        for late_ns in [300_000, -300_000, 2_900_000, 6_100_000, -6_100_000] {
            assert_eq!(governor.record_gap(GapUse::Filled, late_ns, TURN), late_ns == 6_100_000);
        }
        respond(&mut governor);
        assert_eq!(delay_us(&governor), 0);
    }

    /// The delay measured over many gaps after which every `late`th request is late, and after
    /// every `control_late`th control gap.
    fn measured(late: u32, control_late: u32) -> f64 {
        let mut governor = Governor::default();
        governor.arrived(Instant::ORIGIN, 1);
        for gap in 1..=200_000 {
            let used = governor.next_use(16);
            let one_in = if used == GapUse::Filled { late } else { control_late };
            governor.record_gap(used, i64::from(gap % one_in == 0) * 6_000_000, TURN);
            governor.responded(Instant::ORIGIN, Nanos::from_secs(1), 0.01);
        }
        governor.totals().0.as_ns() as f64 / (200_000.0 * 15.0 / 16.0)
    }

    #[test]
    fn misses_of_the_drive_itself_are_not_charged() {
        let (own, caused) = (measured(50, 50), measured(50, 100));
        assert!(own < 6e6 / 500.0, "{own} ns each, of a fiftieth of 6 ms");
        assert!((caused / (6e6 / 100.0) - 1.0).abs() < 0.15, "{caused} ns each, of 60 us");
    }

    #[test]
    fn one_gap_in_sixteen_is_a_control_in_the_end() {
        let mut governor = Governor::default();
        let mut filled = |gaps: u32| {
            let fill = |_: &u32| {
                let used = governor.next_use(16);
                governor.record_gap(used, 0, TURN);
                used == GapUse::Filled
            };
            (0..gaps).filter(fill).count()
        };
        assert_eq!((filled(4_000), filled(8_000)), (2_999, 6_715));
    }

    #[test]
    fn the_tail_is_paid_out_of_savings_and_gaps_are_not() {
        let mut governor = Governor::default();
        // 20 s lent: 5 for gaps, 15 saved.
        for _ in 0..100 {
            governor.responded(Instant::ORIGIN, Nanos::from_secs(1), 0.25);
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
            governor.record_gap(GapUse::Filled, if fill % 50 == 0 { 6_100_000 } else { 0 }, TURN);
        }
        assert!(!governor.worth_the_risk(5.0 / 300.0) && governor.worth_the_risk(7.0 / 300.0));
    }

    #[test]
    fn without_a_bound_no_delay_stops_reads() {
        let mut governor = of_four();
        governor.delayed(Nanos::from_secs(1_000), 4);
        assert!(!governor.may_fill());
        governor.responded(Instant::ORIGIN, Nanos::from_ms(8), f64::INFINITY);
        assert!(governor.may_fill());
    }

    #[test]
    fn a_drive_that_stood_still_for_a_second_is_charged_as_four_turns() {
        let mut governor = of_four();
        governor.record_gap(GapUse::Filled, 1_000_000_000, TURN);
        respond(&mut governor);
        assert_eq!(governor.totals().0, TURN * 4);
    }
}
