//! Whose turn it is: not a policy, but what those share that go by the books of [`Shares`](crate::Shares).
//!
//! What the server asks for on its own account ([`VolumeId::OWN`](crate::VolumeId::OWN)) goes before everything. Payers at a limit or with nothing waiting are left out. A payer whose bucket has enough for its first request is *owed* that. Who is owed something goes next, the earliest deadline first. Where each
//! request is a turn, the deadline is when the payer's bucket has, or would have, enough for it, as published; where turns are runs, it is when the bucket was, or would be, level, and of those within one period the one goes that
//! had its run the longest ago. When nothing is owed to anybody there is *slack*: it is offered to whoever was charged the least of late, by the moving average alone (*fair*) or by
//! that over the reservation (*proportional*). Where those who wait have reserved all of the drive there is none, and the earliest deadline goes though it is still to come (not so where each request is a turn: as published). Priority comes
//! before either: real time, then best effort, then idle.
//!
//! Who is chosen keeps the drive for a *run*, so that seeks from one payer's sectors to another's stay few: its reservation's part of a period, or, of slack, as much of the period as comes to it
//! among those who wait. A run also ends when the payer has nothing more, comes to a limit, has another reservation, or something is owed to a payer of higher priority; one of slack, once it has had a sixteenth of the
//! period, when something is owed to anybody. While its last request is at the drive,
//! nobody else is sent beside it: whoever asks for one thing after the other asks again when that is done. What a run has used is what was charged for it, estimates for what is at
//! the drive and corrected for the rest.
//!
//! Worked example, period 1 s: A has reserved 70 %, B 30 %, and both always want more. A runs for 700 ms; by then its bucket is 210 ms lower and B's as much higher. B's deadline is the
//! earlier; B runs for 300 ms, and both are where they were.
//!
//! Cost: O(payers) for each decision, and one cost of a request for each of those who wait when a run is over.

use alloc::collections::BTreeMap;

use headtime_units::{Instant, Nanos, Share};

use crate::policy::View;
use crate::queue::Queued;
use crate::shares::{Line, Payer, Shares, Terms};
use crate::table::{Parameter, Parameters};
use crate::tunables::PriorityClass;

/// How slack is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slack {
    /// To whoever was charged least.
    Fair,
    /// To whoever was charged least in proportion to its reservation.
    Proportional,
}

/// Whose turn it is.
pub(crate) enum Turn<'a> {
    /// This payer's; it has requests waiting.
    Of(&'a Line),
    /// That of one who waits for a flush.
    Flush,
    /// Nobody's until something at the drive is done.
    AtDrive,
    /// Nobody's until then: all who wait are at a limit.
    Throttled(Instant),
}

/// A run of slack gives way once it has had this part of the period (guess: long against a seek, short against the second that shares are promised by).
const GIVES_WAY: u64 = 16;

/// Of what it gets nobody is to lose more than one in so many by changing between payers (the project's target is one in twenty).
const LOST: f64 = 20.0;
/// A period is shortened to one that would do at so much of its length.
const TO_SPARE: f64 = 0.75;
/// ... and after so long (guess).
const SPARED: Nanos = Nanos::from_secs(10);

/// Who goes by turns keeps this.
pub(crate) struct Turns {
    /// The shortest and the longest period; the one that counts at the moment.
    shortest: Nanos,
    longest: Nanos,
    period: Nanos,
    /// Since when a shorter one would do.
    spare_since: Option<Instant>,
    slack: Slack,
    run: Option<Run>,
    /// The last run of each payer that has had one, and how many there were before it.
    past: BTreeMap<Payer, (u64, Run)>,
    runs: u64,
}

/// The run that is on.
#[derive(Clone, Copy, Debug)]
struct Run {
    payer: Payer,
    priority: PriorityClass,
    /// What was reserved for the payer: with another reservation another run begins.
    reserve: Share,
    owed: bool,
    budget: Nanos,
    /// What the payer had been charged when it began.
    began: (u64, i64),
}

/// What can be set.
pub(crate) const RUN: Parameter = Parameter {
    name: "run_ms",
    summary: "period in which every payer has its run; 0 lets each request be one",
    default: 1_000.0,
    least: 0.0,
    most: 10_000.0,
    whole: false,
    origin: "P5 section 2.4 (granularity)",
};

/// What can be set.
pub(crate) const SLACK: Parameter = Parameter {
    name: "slack",
    summary: "what nobody has reserved goes to the least charged of late: 0 as such, 1 in proportion to reservations",
    default: 0.0,
    least: 0.0,
    most: 1.0,
    whole: true,
    origin: "P5 section 4.4 (fair)",
};

impl Turns {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let period = Nanos::from_ms_f64(parameters.get(RUN.name)).expect("its bounds are those of a time");
        Self { shortest: period, longest: period, period, spare_since: None, slack: Slack::of(parameters), run: None, past: BTreeMap::new(), runs: 0 }
    }

    /// The same with longer periods, up to this, where shorter ones would cost somebody more than a part of what it gets.
    pub(crate) fn up_to(self, longest: Nanos) -> Self {
        Self { longest: longest.max(self.shortest), ..self }
    }

    /// Turns of one request each.
    pub(crate) fn by_request(slack: Slack) -> Self {
        Self { shortest: Nanos::ZERO, longest: Nanos::ZERO, period: Nanos::ZERO, spare_since: None, slack, run: None, past: BTreeMap::new(), runs: 0 }
    }

    /// Whose turn it is. `cost` is what a payer's bucket must have for a request.
    pub(crate) fn next<'a>(&mut self, view: &View<'a>, cost: impl Fn(&Queued) -> Nanos) -> Turn<'a> {
        let (shares, now) = (view.shares, view.now);
        let flushes = view.flush_may_go() && shares.any_terms();
        // Whose run it is does not change by it.
        if let Some(own) = shares.own_waiting() {
            return Turn::of(own, flushes);
        }
        if let Some(run) = self.run {
            let line = shares.line(run.payer).filter(|line| line.opens() <= now && line.terms().reserve == run.reserve && !run.is_spent(line));
            match line.filter(|line| !run.is_interrupted(line, self.period, view, &cost)) {
                Some(line) if !line.queue().is_empty() || line.at_drive() > 0 || line.wants_flush() => return Turn::of(line, flushes),
                _ => self.run = None,
            }
        }
        self.period = self.fitting_period(view);
        let mut opens = Instant::NEVER;
        let (mut weights, mut reserved) = (0_u64, Share::NONE);
        let mut first: Option<(Owed, &'a Line)> = None;
        let mut least: Option<(Offered, &'a Line)> = None;
        for line in shares.waiting(flushes) {
            if line.opens() > now {
                opens = opens.min(line.opens());
                continue;
            }
            let weight = self.slack.weight(line);
            weights += weight;
            let Terms { priority, reserve, .. } = line.terms();
            reserved = reserved.checked_add(reserve).unwrap_or(Share::WHOLE);
            let key = Owed::of(line, self.period, now, &cost).after(self.last_run_of(line));
            if key.due_in_ns < i128::MAX && first.as_ref().is_none_or(|(first, _)| key < *first) {
                first = Some((key, line));
            }
            let key = Offered { priority, used: line.recent(now) / weight as f64 };
            if least.as_ref().is_none_or(|(least, _)| key.is_before(least)) {
                least = Some((key, line));
            }
        }
        let owed = first.filter(|(key, _)| key.owed || (reserved == Share::WHOLE && !self.period.is_zero()));
        let (line, is_owed) = match (owed, least) {
            (Some((_, line)), _) => (line, true),
            (None, Some((_, line))) => (line, false),
            (None, None) => return Turn::Throttled(opens),
        };
        let Terms { priority, reserve, .. } = line.terms();
        let budget = if is_owed { self.with_carry(line, reserve.of(self.period)) } else { part(self.period, self.slack.weight(line), weights) };
        let run = Run { payer: line.payer(), priority, reserve, owed: is_owed, budget, began: line.charged() };
        self.note(shares, run);
        Turn::of(line, flushes)
    }

    /// What a run may use, given what the payer's last one used more or less than it was to: nothing of it is lost, though half a run at most is made up for at once.
    fn with_carry(&self, line: &Line, budget: Nanos) -> Nanos {
        let is_whole = |last: &Run| last.owed && last.reserve == line.terms().reserve && last.is_spent(line);
        let Some((_, last)) = self.past.get(&line.payer()).filter(|(_, last)| is_whole(last)) else {
            return budget;
        };
        let half = budget.as_ns() as i64 / 2;
        let carry = (last.budget.as_ns() as i64 - (line.charged().1 - last.began.1)).clamp(-half, half);
        Nanos::from_ns(budget.as_ns().saturating_add_signed(carry))
    }

    /// The shortest period in which nobody who asks loses more than a part of what it gets by changing, of the shortest one and its doubles; no longer than the longest.
    ///
    /// Doubles, so that any second has whole periods of a length that divides it. It grows at once, and shrinks when there has been room to spare for a while, because
    /// in the second in which it changes shares are not as they should be.
    fn fitting_period(&mut self, view: &View<'_>) -> Nanos {
        if self.longest == self.shortest || self.shortest.is_zero() {
            return self.shortest;
        }
        let needed = |line: &Line| {
            let reserve = line.terms().reserve.as_fraction();
            if reserve > 0.0 { line.lost_by_change().as_ns() as f64 * LOST / reserve } else { 0.0 }
        };
        let needed = view.shares.asking(view.now, self.longest).map(needed).fold(0.0, f64::max);
        let mut fitting = self.shortest;
        while fitting < self.longest && needed > fitting.as_ns() as f64 * if fitting < self.period { TO_SPARE } else { 1.0 } {
            fitting = (fitting * 2).min(self.longest);
        }
        if fitting >= self.period {
            self.spare_since = None;
            return fitting;
        }
        let since = *self.spare_since.get_or_insert(view.now);
        if view.now.saturating_since(since) < SPARED { self.period } else { fitting }
    }

    /// The number of a payer's last run; where each request is a run, all count alike.
    fn last_run_of(&self, line: &Line) -> Option<u64> {
        self.past.get(&line.payer()).filter(|_| !self.period.is_zero()).map(|(number, _)| *number)
    }

    /// Of the payers whose turn it is not, the one that is owed something and has the earliest deadline of all that fall within a period from now.
    pub(crate) fn pressing<'a>(&self, view: &View<'a>, cost: impl Fn(&Queued) -> Nanos) -> Option<&'a Line> {
        if view.shares.own_waiting().is_some() {
            return None;
        }
        let due = |line: &&Line| line.queue().with_deadline().next().and_then(|queued| queued.deadline).filter(|due| *due < view.now + self.period);
        let open = view.shares.waiting(false).filter(|line| line.opens() <= view.now && self.run.is_none_or(|run| run.payer != line.payer()));
        let first = open.filter_map(|line| Some((due(&line)?, line))).min_by_key(|(due, line)| (*due, line.payer()));
        first.map(|(_, line)| line).filter(|line| Owed::of(line, self.period, view.now, &cost).owed)
    }

    fn note(&mut self, shares: &Shares, run: Run) {
        if self.past.len() > shares.lines() {
            self.past.retain(|payer, _| shares.line(*payer).is_some());
        }
        self.runs += 1;
        self.past.insert(run.payer, (self.runs, run));
        self.run = Some(run);
    }
}

impl<'a> Turn<'a> {
    /// The turn of one that has something waiting or at the drive; `flushes` says whether a flush may go.
    fn of(line: &'a Line, flushes: bool) -> Self {
        if flushes && line.flush_is_next() {
            Self::Flush
        } else if line.queue().is_empty() {
            Self::AtDrive
        } else {
            Self::Of(line)
        }
    }
}

impl Slack {
    pub(crate) fn of(parameters: &Parameters) -> Self {
        if parameters.get(SLACK.name) == 0.0 { Self::Fair } else { Self::Proportional }
    }

    /// What a payer's part of slack is in proportion to.
    fn weight(self, line: &Line) -> u64 {
        match self {
            Self::Fair => 1,
            // Who has reserved nothing counts as having reserved a thousandth: it has little, but something.
            Self::Proportional => u64::from(line.terms().reserve.as_billionths()).max(1_000_000),
        }
    }
}

impl Run {
    /// Whether as much was used as the run may use; a run of no length is over with its first request.
    fn is_spent(&self, line: &Line) -> bool {
        let (estimated, charged) = self.used(line);
        // Whatever comes back of what was sent before, a run has its first request.
        estimated > 0 && charged >= self.budget.as_ns()
    }

    /// Nanoseconds that were charged when requests were sent, and as they have been corrected; of the latter, what comes back of what was sent before is no use.
    fn used(&self, line: &Line) -> (u64, u64) {
        let (estimated, charged) = line.charged();
        (estimated - self.began.0, u64::try_from(charged - self.began.1).unwrap_or(0))
    }

    /// Whether somebody may not wait until it is over.
    fn is_interrupted(&self, line: &Line, period: Nanos, view: &View<'_>, cost: &impl Fn(&Queued) -> Nanos) -> bool {
        let had_enough = !self.owed && self.used(line).1 >= period.as_ns() / GIVES_WAY;
        if self.priority == PriorityClass::RealTime && !had_enough {
            return false;
        }
        let others = || view.shares.waiting(view.flush_may_go()).filter(|line| line.payer() != self.payer && line.opens() <= view.now);
        others().any(|line| {
            let higher = line.terms().priority < self.priority;
            (higher && !self.owed) || ((higher || had_enough) && Owed::of(line, period, view.now, cost).owed)
        })
    }
}

/// Who is owed something, the earliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    priority: PriorityClass,
    /// Whether there is enough for the first request.
    owed: bool,
    /// The deadline, in nanoseconds from now; the largest number for never.
    due_in_ns: i128,
    /// The same in whole periods, to the nearest; zero where a run is one request.
    periods: i128,
    /// How many runs there had been at its last.
    last: u64,
}

impl Owed {
    fn of(line: &Line, period: Nanos, now: Instant, cost: &impl Fn(&Queued) -> Nanos) -> Self {
        let priority = line.terms().priority;
        let first = if line.flush_is_next() { Some(line.flush_cost()) } else { line.queue().oldest().map(cost) };
        let Some(first) = first.filter(|_| line.has_reserve()) else {
            return Self { priority, owed: false, due_in_ns: i128::MAX, periods: i128::MAX, last: 0 };
        };
        // Where a run is more than a request, the time at which nothing was owed tells most: periods change.
        let due_in_ns = line.due_in_ns(now, if period.is_zero() { first } else { Nanos::ZERO });
        let (period, half) = (i128::from(period.as_ns()), i128::from(period.as_ns() / 2));
        let periods = if period == 0 { 0 } else { (due_in_ns + half).div_euclid(period) };
        Self { priority, owed: line.due_in_ns(now, first) <= 0, due_in_ns, periods, last: 0 }
    }

    /// The same of one whose last run was this.
    fn after(self, last: Option<u64>) -> Self {
        Self { last: last.unwrap_or(0), ..self }
    }

    /// Who is owed something goes before who is not; among those by priority, among the others by time alone: whole periods first, and within one who had its run the longest ago.
    fn rank(&self) -> (bool, Option<PriorityClass>, i128, u64, i128) {
        (!self.owed, self.owed.then_some(self.priority), self.periods, self.last, self.due_in_ns)
    }
}

impl PartialOrd for Owed {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.rank().cmp(&other.rank()))
    }
}

/// Who is offered slack, the least charged first.
struct Offered {
    priority: PriorityClass,
    used: f64,
}

impl Offered {
    fn is_before(&self, other: &Self) -> bool {
        self.priority.cmp(&other.priority).then(self.used.total_cmp(&other.used)).is_lt()
    }
}

/// So much of `span` as `weight` is of all `weights`.
fn part(span: Nanos, weight: u64, weights: u64) -> Nanos {
    Nanos::from_ns((u128::from(span.as_ns()) * u128::from(weight) / u128::from(weights.max(1))) as u64)
}
