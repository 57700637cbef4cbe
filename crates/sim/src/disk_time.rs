//! [`Ledger`]: the accounting of a drive's [`DiskTime`].

use headtime_mechanics::DiskTime;
use headtime_units::{Instant, Nanos};

/// The time accounting of one drive. Events arrive in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    spent: DiskTime,
    /// All time before it is accounted for.
    cursor: Instant,
    /// Commands in the drive.
    held: u32,
    /// The rest of the current media access from `cursor` on, in this order of activities.
    access: [Nanos; 3],
    /// True if no command waits for that access.
    unsolicited: bool,
    /// The end of read-ahead that serves commands.
    demand_until: Instant,
    /// The end of read-ahead that serves no command.
    ahead_until: Instant,
}

impl Ledger {
    /// A command arrives.
    pub(crate) fn enter(&mut self, at: Instant) {
        self.settle(at);
        self.held += 1;
    }

    /// A command is reported or given up.
    pub(crate) fn leave(&mut self, at: Instant) {
        self.settle(at);
        self.held -= 1;
    }

    /// The mechanism starts an access; `unsolicited` if no command waits for it.
    pub(crate) fn begin(
        &mut self,
        at: Instant,
        seek: Nanos,
        rotate: Nanos,
        transfer: Nanos,
        unsolicited: bool,
    ) {
        self.settle(at);
        self.unsolicited = unsolicited;
        debug_assert!(
            self.access.iter().all(|part| part.is_zero()),
            "the mechanism serves one command at a time"
        );
        self.access = [seek, rotate, transfer];
        (self.demand_until, self.ahead_until) = (at, at);
    }

    /// The mechanism reads ahead after the current access: for commands until `demand_until`, in
    /// the background until `until`.
    pub(crate) fn read_ahead(&mut self, at: Instant, demand_until: Instant, until: Instant) {
        self.settle(at);
        (self.demand_until, self.ahead_until) = (demand_until, until);
    }

    /// The reading at `now`, which is not before the last event.
    pub(crate) fn at(&self, now: Instant) -> DiskTime {
        let mut until_now = self.clone();
        until_now.settle(now);
        until_now.spent
    }

    fn settle(&mut self, now: Instant) {
        let mut passed = now.saturating_since(self.cursor);
        if passed.is_zero() {
            return;
        }
        self.cursor = now;
        let spent = &mut self.spent;
        if self.access != [Nanos::ZERO; 3] {
            for (left, part) in self.access.iter_mut().zip([
                &mut spent.seek,
                &mut spent.rotate,
                &mut spent.transfer,
            ]) {
                let now_spent = passed.min(*left);
                *if self.unsolicited { &mut spent.background } else { part } += now_spent;
                *left -= now_spent;
                passed -= now_spent;
            }
        }
        // The rest of the time passed after the access.
        if !passed.is_zero()
            && self.demand_until.max(self.ahead_until) > now.saturating_back(passed)
        {
            let mut after = now.saturating_back(passed);
            for (until, part) in [
                (self.demand_until, &mut spent.transfer),
                (self.ahead_until, &mut spent.background),
            ] {
                let now_spent = until.min(now).saturating_since(after);
                *part += now_spent;
                after += now_spent;
                passed -= now_spent;
            }
        }
        *if self.held > 0 { &mut spent.overhead } else { &mut spent.idle } += passed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    #[test]
    fn overhead_counts_only_where_it_is_not_overlapped() {
        let mut ledger = Ledger::default();
        ledger.enter(us(100));
        ledger.begin(
            us(300),
            Nanos::from_us(1_000),
            Nanos::from_us(2_000),
            Nanos::from_us(500),
            false,
        );
        ledger.enter(us(3_750));
        ledger.leave(us(3_900));
        ledger.begin(us(3_950), Nanos::ZERO, Nanos::from_us(10), Nanos::from_us(40), false);
        ledger.leave(us(4_100));
        let expected = DiskTime {
            seek: Nanos::from_us(1_000),
            rotate: Nanos::from_us(2_010),
            transfer: Nanos::from_us(540),
            // 100–300, 3800–3950 and 4000–4100.
            overhead: Nanos::from_us(450),
            // 0–100 and 4100–5000.
            idle: Nanos::from_us(1_000),
            background: Nanos::ZERO,
        };
        assert_eq!(ledger.at(us(5_000)), expected);
        assert_eq!(expected.total(), Nanos::from_ms(5));
    }

    #[test]
    fn a_reading_in_the_middle_of_an_access_counts_what_has_passed() {
        let mut ledger = Ledger::default();
        ledger.enter(us(0));
        ledger.begin(us(0), Nanos::from_us(10), Nanos::from_us(20), Nanos::from_us(30), false);
        let reading = ledger.at(us(15));
        assert_eq!(
            (reading.seek, reading.rotate, reading.transfer),
            (Nanos::from_us(10), Nanos::from_us(5), Nanos::ZERO)
        );
        assert_eq!(ledger.at(us(60)).since(&reading).total(), Nanos::from_us(45));
    }
}
