//! The reservation that an application needs: [`Need::reservation`].
//!
//! An application with runs of consecutive requests costs, for each run, a seek, half a revolution,
//! and the transfer of each block: t = s + p/2 + n x. It makes r / n runs a second, so it needs the
//! share u = (r / n) · t. The paper prints u = r / (s_max/2 + p/2 + n x), which is no share: it
//! divides where it must multiply, and counts requests as runs. `n` is the length of the
//! application's runs, or the number of requests that the scheduler serves of it in one run,
//! whichever is less.
//!
//! The paper uses half the longest seek for s. That is not conservative: arms accelerate, so that
//! seeks between random positions take more than half of the longest on most drives (9.0 of 15.5 ms
//! on the paper's own). A known mean seek should be given instead ([`DriveCosts::seek`]).
//!
//! Worked example: 200 requests a second of 4 KiB in runs of 32, on a drive with a mean seek of 9
//! ms, 8.33 ms a revolution and 0.2 ms for 4 KiB: 6.25 runs a second, 9 + 4.17 + 6.4 = 19.6 ms
//! each: a share of 12.2 %. At random it would be 200 · 13.4 ms: 267 %, more than the drive has.
//!
//! Not computed: track and cylinder switches within a run, unless they are in the transfer; cache
//! hits; how a queue shortens random positioning. Source: P5 section 2.4.

use headtime_units::{Nanos, Share};

/// The load of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Requests a second; above 0.
    pub requests_per_second: f64,
    /// Requests that follow each other before it goes elsewhere; 1 for random ones.
    pub run_requests: u64,
}

/// The costs of a request on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCosts {
    /// The cost of reaching a run without rotation: the mean seek between random positions and a
    /// command's overhead. As published: half the longest seek.
    pub seek: Nanos,
    /// The time of one revolution.
    pub revolution: Nanos,
    /// The transfer of one request: from the medium or over the bus with its overhead, whichever
    /// takes longer.
    pub transfer: Nanos,
    /// The maximum time that the scheduler serves one tenant at a time; [`Nanos::MAX`] for no
    /// bound.
    pub longest_run: Nanos,
}

/// The reason why no reservation is enough.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum NeedError {
    #[error("{per_second} requests a second are no rate; ask for more than 0 and at most 10^9")]
    Rate { per_second: f64 },
    /// A run without requests.
    #[error("a run of 0 requests is none; a run of 1 is random")]
    Run,
    #[error(
        "that takes {:.1} % of the drive's time, more than it has; ask for fewer requests, longer \
            runs, or a faster drive",
        required * 100.0
    )]
    MoreThanTheDrive { required: f64 },
}

impl Need {
    /// The share of disk time to reserve.
    ///
    /// # Errors
    /// [`NeedError`].
    pub fn reservation(&self, drive: &DriveCosts) -> Result<Share, NeedError> {
        let per_second = self.requests_per_second;
        if !(per_second > 0.0 && per_second <= 1e9) {
            return Err(NeedError::Rate { per_second });
        }
        let of_application = self.run_requests;
        if of_application == 0 {
            return Err(NeedError::Run);
        }
        let (lost_ns, transfer_ns) = (drive.lost_ns(), drive.transfer.as_ns() as f64);
        // The requests that fit after the seek in the scheduler's run; at least one.
        let of_scheduler = (drive.longest_run.as_ns() as f64 - lost_ns) / transfer_ns.max(1.0);
        let requests = (of_application as f64).min(libm::floor(of_scheduler).max(1.0));
        let run_ns = lost_ns + requests * transfer_ns;
        let required = per_second / requests * run_ns / 1e9;
        Share::from_fraction(required).ok_or(NeedError::MoreThanTheDrive { required })
    }

    /// The minimum share of disk time if each tenant has one run in a `period`, of its share of
    /// that: a smaller share has shorter runs and needs more of them. [`DriveCosts::longest_run`]
    /// bounds them too.
    ///
    /// # Errors
    /// [`NeedError`].
    pub fn reservation_per_period(
        &self,
        drive: &DriveCosts,
        period: Nanos,
    ) -> Result<Share, NeedError> {
        let needed = |share: Share| {
            self.reservation(&DriveCosts {
                longest_run: drive.longest_run.min(share.of(period)),
                ..*drive
            })
        };
        needed(Share::WHOLE)?;
        // The requirement falls as the share grows: the minimum is where they meet.
        let (mut too_little, mut enough) = (0, Share::WHOLE.as_billionths());
        while enough - too_little > 1 {
            let middle = too_little + (enough - too_little) / 2;
            let share = Share::from_billionths(middle).expect("it lies between two shares");
            if needed(share).is_ok_and(|needed| needed <= share) {
                enough = middle
            } else {
                too_little = middle
            }
        }
        Ok(Share::from_billionths(enough).expect("it is a share or less"))
    }
}

impl DriveCosts {
    /// A seek and half a revolution.
    fn lost_ns(&self) -> f64 {
        self.seek.as_ns() as f64 + self.revolution.as_ns() as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const DRIVE: DriveCosts = DriveCosts {
        seek: Nanos::from_us(9_000),
        revolution: Nanos::from_us(8_333),
        transfer: Nanos::from_us(200),
        longest_run: Nanos::from_secs(1),
    };

    fn need(requests_per_second: f64, run_requests: u64) -> Result<f64, NeedError> {
        Need { requests_per_second, run_requests }.reservation(&DRIVE).map(Share::as_fraction)
    }

    #[test]
    fn the_example_of_the_header_holds() {
        let share = need(200.0, 32).expect("there is room");
        assert!((share - 6.25 * 0.019_566_5).abs() < 1e-6, "{share}");
        let Err(NeedError::MoreThanTheDrive { required }) = need(200.0, 1) else {
            panic!("random ones are too many")
        };
        assert!((required - 2.67).abs() < 0.01, "{required}");
        assert!(
            need(200.0, 1)
                .expect_err("as before")
                .to_string()
                .starts_with("that takes 267.3 % of the drive's time")
        );
    }

    /// As printed, a higher rate of longer runs would need less; and a rate of 0.02 a second would
    /// be a share of 1.6.
    #[test]
    fn it_grows_with_the_rate_and_falls_with_the_length_of_runs_as_the_printed_formula_does_not() {
        let share = |rate, run| need(rate, run).expect("there is room");
        assert!((share(40.0, 1) - 2.0 * share(20.0, 1)).abs() < 1e-8);
        assert!((1..1_000).all(|run| share(50.0, run) > share(50.0, run + 1)));
        // Long runs cost the transfer alone.
        assert!((share(1_000.0, 4_000) - 0.2).abs() < 0.01);
    }

    #[test]
    fn longer_runs_than_the_scheduler_serves_at_once_bring_nothing() {
        let drive = DriveCosts { longest_run: Nanos::from_ms(20), ..DRIVE };
        let share = |run_requests| {
            Need { requests_per_second: 50.0, run_requests }
                .reservation(&drive)
                .expect("there is room")
        };
        // 6.83 ms remain after the seek: 34 requests.
        assert!(share(33) > share(34) && share(34) == share(35) && share(34) == share(1_000_000));
        let drive = DriveCosts { longest_run: Nanos::ZERO, ..DRIVE };
        let each = Need { requests_per_second: 50.0, run_requests: 9 }.reservation(&drive);
        assert_eq!(
            each,
            Need { requests_per_second: 50.0, run_requests: 1 }.reservation(&drive),
            "a run has one request at least"
        );
    }

    /// An endless sequential load, 200 a second: each second has one run, so a seek and half a
    /// revolution, and 200 transfers. With half the period the former count twice.
    #[test]
    fn where_runs_come_round_once_in_a_period_a_share_is_enough_for_the_runs_that_it_makes() {
        let endless = Need { requests_per_second: 200.0, run_requests: 1 << 40 };
        let share = |need: Need, period| {
            need.reservation_per_period(&DRIVE, period).expect("there is room").as_fraction()
        };
        let expected = |period: f64| 0.04 + (0.009 + 0.008_333 / 2.0) / period;
        for (period, tolerance) in
            [(Nanos::from_secs(1), 3e-4), (Nanos::from_secs(2), 3e-4), (Nanos::from_ms(250), 1e-3)]
        {
            let (found, expected) = (share(endless, period), expected(period.as_secs_f64()));
            assert!((found - expected).abs() < tolerance, "{period}: {found}, expected {expected}");
        }
        let random = Need { requests_per_second: 20.0, run_requests: 1 };
        assert!(
            (share(random, Nanos::from_secs(1))
                - random.reservation(&DRIVE).expect("there is room").as_fraction())
            .abs()
                < 1e-8,
            "one is a run"
        );
        let too_many = Need { requests_per_second: 80.0, run_requests: 1 }
            .reservation_per_period(&DRIVE, Nanos::from_secs(1));
        assert!(matches!(too_many, Err(NeedError::MoreThanTheDrive { .. })));
    }

    #[test]
    fn what_is_no_need_is_refused() {
        assert_eq!(need(0.0, 1), Err(NeedError::Rate { per_second: 0.0 }));
        assert!(matches!(need(f64::NAN, 1), Err(NeedError::Rate { .. })));
        assert_eq!(need(1.0, 0), Err(NeedError::Run));
    }
}
