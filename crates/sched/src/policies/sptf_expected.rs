#![doc = include_str!("../../../../docs/policies/sptf-expected.md")]

use alloc::boxed::Box;

use headtime_units::{Extent, Instant, Nanos};

use crate::command::Finished;
use crate::policies::per_arm::PerArm;
use crate::policies::sptf::lost_before;
use crate::policies::written::{Gathered, Written, is_cached_write};
use crate::policy::{Choice, Policy, View};
use crate::positioning::{Estimate, Head};
use crate::queue::{Queued, Ticket};
use crate::request::{Op, Request};
use crate::search;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "sptf-expected",
    summary: "shortest expected positioning time first, with ageing; one or two outstanding",
    source: "docs/limits.md 1, 3 and 4, on P2 section 4.1.2 (SPTF)",
    oracle: false,
    parameters: &SptfExpected::PARAMETERS,
    build: |parameters| {
        Box::new(PerArm::new(parameters, |parameters| Box::new(SptfExpected::new(parameters))))
    },
};

/// The order by expected cost with ageing, for every policy that starts from it.
pub(crate) struct SptfExpected {
    horizon_responses: f64,
    power: f64,
    two_from: usize,
    written: Written,
}

impl SptfExpected {
    /// The parameters, shared by policies that choose by this order.
    pub(crate) const PARAMETERS: [Parameter; 3] = [
        Parameter {
            name: "ageing_horizon_responses",
            summary: "age at which the cost of a request is zero, in mean response times",
            default: 12.0,
            min: 1.0,
            max: 1000.0,
            whole: false,
            origin: "docs/limits.md 3",
        },
        Parameter {
            name: "ageing_power",
            summary: "exponent of ageing: the cost falls with this power of the remaining age; 0 \
                turns ageing off",
            default: 2.0,
            min: 0.0,
            max: 16.0,
            whole: false,
            origin: "docs/limits.md 3",
        },
        Parameter {
            name: "two_from_requests",
            summary: "two commands are outstanding from this many requests on, queued or at the \
                drive, one below; 0 computes it from overhead and mean response",
            default: 0.0,
            min: 0.0,
            max: 65536.0,
            whole: true,
            origin: "docs/limits.md 1",
        },
    ];

    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            horizon_responses: parameters.get("ageing_horizon_responses"),
            power: parameters.get("ageing_power"),
            two_from: parameters.get("two_from_requests") as usize,
            written: Written::default(),
        }
    }

    /// The request it would send now.
    pub(crate) fn cheapest_or_run(&self, view: &View<'_>) -> Option<Ticket> {
        self.cheapest(view, search::anyone)
            .map(|ticket| first_of_run(view, ticket).unwrap_or(ticket))
    }

    /// The cheapest by expected cost, with ageing, of the requests for which `among` holds; writes
    /// are gathered where the drive's cache is full.
    pub(crate) fn cheapest(
        &self,
        view: &View<'_>,
        among: impl Fn(&Queued) -> bool,
    ) -> Option<Ticket> {
        let age = |queued: &Queued| view.now.saturating_since(queued.submitted).as_ns() as f64;
        let oldest_age = view.queue.oldest().map_or(0.0, age);
        // From that age on, the oldest goes first.
        if self.horizon_ns(view).is_some_and(|horizon| horizon <= oldest_age) {
            return self.cheapest_of_all(view, among);
        }
        match self.written.next(view, &among) {
            Gathered::Any => self.cheapest_of_all(view, among),
            Gathered::Write(write) => Some(write),
            Gathered::NoWrite => self
                .cheapest_of_all(view, |queued| !is_cached_write(&queued.request) && among(queued)),
        }
    }

    /// Notes a write that extended what the drive's cache holds, which shows no room for others.
    pub(crate) fn extended_cached(&mut self, write: &Finished) {
        self.written.count(write);
    }

    /// The last writes and flushes.
    pub(crate) fn written(&self) -> &Written {
        &self.written
    }

    /// The cheapest by expected cost, with ageing, of the requests for which `among` holds.
    fn cheapest_of_all(&self, view: &View<'_>, among: impl Fn(&Queued) -> bool) -> Option<Ticket> {
        let ready = view.ready_at();
        let cost = |estimate: &Estimate| lost_before(estimate.depart, ready) + estimate.expected;
        let Some(horizon_ns) = self.horizon_ns(view) else {
            return search::cheapest(view, among, cost);
        };
        search::cheapest_aged(view, among, cost, |age| factor(age, horizon_ns, self.power))
    }

    /// The age at which the cost of a request is zero; `None` without ageing, and before the first
    /// completion, when there is no mean response to compare ages with.
    fn horizon_ns(&self, view: &View<'_>) -> Option<f64> {
        let horizon_ns = self.horizon_responses * view.mean_response.as_ns() as f64;
        (self.power != 0.0 && horizon_ns != 0.0).then_some(horizon_ns)
    }
}

impl Policy for SptfExpected {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    /// A command at the drive is no longer a candidate; with few requests that choice is worth more
    /// than the overlapped overhead. But if the next request continues at the end of the last
    /// command, overhead that is not overlapped costs a whole revolution; and an arm without a
    /// command is idle. Several arms that are known by address have as many times the commands.
    /// Requests do not wait for a flush.
    fn depth(&self, view: &View<'_>) -> usize {
        let arms = view.arm_count();
        if arms > 1 && view.arms.is_empty() {
            return arms;
        }
        let held = (view.queue.len() + view.outstanding.len()) / arms;
        let two = match self.two_from {
            0 => two_are_worth_it(held, overhead(view), view.mean_response),
            from => held >= from,
        };
        let moving = if two || (arms == 1 && continues(view).is_some()) { 2 * arms } else { arms };
        // Where volumes have shares, flushes take turns with requests.
        let beside = !view.flush_may_go() && !view.shares.any_terms();
        moving
            + match beside {
                true if view.unflushed => BESIDE_FLUSH,
                true => 1,
                false => 0,
            }
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        Choice::one(self.cheapest_or_run(view))
    }

    fn submitted(&mut self, now: Instant, request: &Request) {
        self.written.submitted(now, request);
    }

    fn finished(&mut self, finished: &Finished) {
        self.written.finished(finished);
    }
}

/// The request that starts where the last command ends.
pub(crate) fn continues<'a>(view: &View<'a>) -> Option<&'a Queued> {
    let next = view.next_lba();
    view.queue.from_lba(next).next().filter(|queued| queued.request.extent.start == next)
}

/// The first of the reads that follow each other without a gap from where the drive reads on by
/// itself, if they are more than half of the queue and either `cheapest` or the oldest request is
/// one of them. The drive keeps its read-ahead; a sector passed over has to come by once more.
fn first_of_run(view: &View<'_>, cheapest: Ticket) -> Option<Ticket> {
    let mut end = view.next_lba();
    let near = view.belief.reads_on(end);
    if near.is_zero() {
        return None;
    }
    let oldest = view.queue.oldest().map(|queued| queued.ticket);
    let (mut first, mut length, mut eligible) = (None, 0, false);
    for queued in view.queue.from_lba(end).take(LONGEST_RUN) {
        let Extent { start, .. } = queued.request.extent;
        let goes_on = if first.is_none() { start.distance(end) < near } else { start <= end };
        if !goes_on || queued.request.op != Op::Read {
            break;
        }
        first.get_or_insert(queued.ticket);
        length += 1;
        eligible |= queued.ticket == cheapest || Some(queued.ticket) == oldest;
        end = end.max(queued.request.extent.end());
    }
    first.filter(|_| eligible && 2 * length > view.queue.len().min(LONGEST_RUN))
}

/// The overhead of each command that is not overlapped, by the oldest request; zero if unknown.
fn overhead(view: &View<'_>) -> Nanos {
    let Some(queued) = view.queue.oldest() else { return Nanos::ZERO };
    let idle = Head { free_at: view.now, ..view.last.head };
    let before =
        view.belief.likely(&idle, view.now, &queued.target).depart.saturating_since(view.now);
    before + view.now.saturating_since(view.belief.media_end(&queued.target, view.now))
}

/// Returns whether hiding the overhead gains more than one candidate more.
fn two_are_worth_it(held: usize, overhead: Nanos, mean_response: Nanos) -> bool {
    if overhead.is_zero() || mean_response.is_zero() {
        return held >= TWO_FROM;
    }
    let held = held as f64;
    overhead.as_ns() as f64 * held * held >= GAIN * mean_response.as_ns() as f64
}

/// The maximum number of reads examined in a run (guess: more than one reader keeps outstanding).
const LONGEST_RUN: usize = 64;
/// The additional number of commands during a flush, itself included: the drive saves written
/// sectors between them, so that its own queue knows better where the arm is. Measured with
/// `drawn-51` at equal load on `nearline-20tb`: the 99th percentile is 184 ms with none, 148 with
/// one, 112 with five and 104 with 33.
const BESIDE_FLUSH: usize = 5;
/// The exponent with which service times fall with the number of candidates (docs/limits.md, the
/// table: 0.14 to 0.26).
const GAIN: f64 = 0.22;
/// The limit without a known overhead, and before the first completion (docs/limits.md 1: up to 8 a
/// modern drive does better with one).
const TWO_FROM: usize = 9;

/// (1 − age / M)^p, and 0 from M on.
fn factor(age: Nanos, horizon_ns: f64, power: f64) -> f64 {
    let left = 1.0 - age.as_ns() as f64 / horizon_ns;
    match power {
        _ if left <= 0.0 => 0.0,
        // The default, without the cost of a power.
        2.0 => left * left,
        _ => libm::pow(left, power),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_given_where_overhead_costs_more_than_a_candidate() {
        let (ms, us) = (Nanos::from_ms, Nanos::from_us);
        // The example of the header, and a modern drive: 80 us, 8 ms a request at 8 held, 5.3 at
        // 32.
        assert!(two_are_worth_it(8, us(190), ms(46)) && !two_are_worth_it(4, us(190), ms(26)));
        assert!(!two_are_worth_it(8, us(80), ms(64)) && two_are_worth_it(32, us(80), ms(170)));
        assert!(
            !two_are_worth_it(8, Nanos::ZERO, ms(64)) && two_are_worth_it(9, Nanos::ZERO, ms(64))
        );
    }

    #[test]
    fn the_factor_falls_from_one_to_zero_at_the_horizon() {
        let at = |ms| factor(Nanos::from_ms(ms), 600e6, 2.0);
        assert_eq!((at(0), at(300), at(600), at(700)), (1.0, 0.25, 0.0, 0.0));
        assert!((0..600).all(|ms| at(ms) > at(ms + 1)));
    }
}
