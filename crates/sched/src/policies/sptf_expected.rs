//! Shortest positioning time first by expected cost, with ageing: what `sptf` should be when estimates are not exact.
//!
//! What it does. Requests are compared by their *expected* positioning time, in which a sector that might just be missed counts with the chance of
//! losing a revolution. The cost shrinks as a request grows old, so that nobody waits for ever: cost × (1 − age / M)^p, with M a multiple of the mean
//! response time. With few requests held the drive is given one command at a time, with more two; a drive
//! with several arms always one for each.
//!
//! Worked example, 10 ms a revolution: request A is most likely reached in 2 ms but missed one time in four, its expected time is 4.5 ms; B is
//! reached in 3 ms for certain. `sptf` sends A, this policy B. Now let the mean response be 50 ms, so that M = 12 × 50 = 600 ms, and A be 300 ms old
//! and B new: A costs 4.5 × (1 − 0.5)² = 1.125 ms, and goes.
//!
//! Guarantees that a request older than M is preceded only by older ones. Does *not* guarantee any particular deadline: they are ignored, and M grows
//! with the mean response time when the drive is overloaded. When expected and most likely times agree and nobody has aged, the order is that of
//! `sptf`.
//!
//! What it brings in the prototype (docs/limits.md 4 and 3): of SPTF's gain over the best order by address it keeps 92–94 % at an error of 50 µs and 80 %
//! at 150 µs, and with ageing the longest response falls from 35.6 s to 3.7 s at 256 queued for 0–1.2 % of throughput.
//!
//! Cost per decision: as `sptf`, but the search also walks from the oldest: 17 estimates for 256 random requests on a model of 100,000 cylinders, one
//! for each request at worst.
//!
//! | parameter | unit | default | origin |
//! |---|---|---|---|
//! | `ageing_horizon_responses` | mean response times | 12 | docs/limits.md 3 |
//! | `ageing_power` | none; 0 turns ageing off | 2 | docs/limits.md 3 |
//! | `two_from_requests` | requests held | 9 | docs/limits.md 1: up to 8 a modern drive does better with one |
//!
//! Source: docs/limits.md 1, 3 and 4; the base is P2 section 4.1.2.

use alloc::boxed::Box;

use headtime_units::Nanos;

use crate::policies::sptf::lost_before;
use crate::policy::{Choice, Policy, View};
use crate::positioning::Estimate;
use crate::queue::Ticket;
use crate::search;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The line in the table.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf-expected",
    summary: "shortest expected positioning time first, with ageing; one or two outstanding",
    source: "docs/limits.md 1, 3 and 4, on P2 section 4.1.2 (SPTF)",
    oracle: false,
    parameters: &SptfExpected::PARAMETERS,
    build: |parameters| Box::new(SptfExpected::new(parameters)),
};

/// The order by expected cost with ageing, for every policy that starts from it.
pub(crate) struct SptfExpected {
    horizon_responses: f64,
    power: f64,
    two_from: usize,
}

impl SptfExpected {
    /// What can be set; shared by policies that choose by it.
    pub(crate) const PARAMETERS: [Parameter; 3] = [
        Parameter {
            name: "ageing_horizon_responses",
            summary: "age at which a request costs nothing any more, in mean response times",
            default: 12.0,
            least: 1.0,
            most: 1000.0,
            whole: false,
            origin: "docs/limits.md 3",
        },
        Parameter {
            name: "ageing_power",
            summary: "how late ageing sets in: cost falls with this power of the age left; 0 turns ageing off",
            default: 2.0,
            least: 0.0,
            most: 16.0,
            whole: false,
            origin: "docs/limits.md 3",
        },
        Parameter {
            name: "two_from_requests",
            summary: "with this many requests queued or at the drive two commands are outstanding, with fewer one",
            default: 9.0,
            least: 1.0,
            most: 65536.0,
            whole: true,
            origin: "docs/limits.md 1",
        },
    ];

    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            horizon_responses: parameters.get("ageing_horizon_responses"),
            power: parameters.get("ageing_power"),
            two_from: parameters.get("two_from_requests") as usize,
        }
    }

    /// The request it would send now.
    pub(crate) fn favourite(&self, view: &View<'_>) -> Option<Ticket> {
        let ready = view.ready_at();
        let cost = |estimate: &Estimate| lost_before(estimate.depart, ready) + estimate.expected;
        let horizon_ns = self.horizon_responses * view.mean_response.as_ns() as f64;
        // Before the first completion there is no mean response to measure age by.
        if self.power == 0.0 || horizon_ns == 0.0 {
            return search::cheapest(view, cost);
        }
        search::cheapest_aged(view, cost, |age| factor(age, horizon_ns, self.power))
    }
}

impl Policy for SptfExpected {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    /// At the drive a command is no candidate any more; with few requests that choice is worth more than the overhead hidden. But where the very next
    /// sectors are wanted, overhead that does not hide costs a whole revolution; and an arm without a command does nothing at all.
    fn depth(&self, view: &View<'_>) -> usize {
        let arms = view.belief.arms();
        if arms > 1 {
            return arms;
        }
        let continues = || view.queue.from_lba(view.next_lba()).next().is_some_and(|queued| queued.request.extent.start == view.next_lba());
        if view.queue.len() + view.outstanding.len() >= self.two_from || continues() { 2 } else { 1 }
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(self.favourite(view))
    }
}

/// (1 − age / M)^p, and 0 from M on.
fn factor(age: Nanos, horizon_ns: f64, power: f64) -> f64 {
    let left = 1.0 - age.as_ns() as f64 / horizon_ns;
    match power {
        _ if left <= 0.0 => 0.0,
        // What is set where nobody says otherwise, without the cost of a power.
        2.0 => left * left,
        _ => libm::pow(left, power),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_falls_from_one_to_zero_at_the_horizon() {
        let at = |ms| factor(Nanos::from_ms(ms), 600e6, 2.0);
        assert_eq!((at(0), at(300), at(600), at(700)), (1.0, 0.25, 0.0, 0.0));
        assert!((0..600).all(|ms| at(ms) > at(ms + 1)));
    }
}
