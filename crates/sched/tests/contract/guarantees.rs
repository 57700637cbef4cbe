//! Guaranteed deadlines: theorems 1 and 2 of P4 over random arrivals, and what each condition of
//! the policies is for.
//!
//! The drive here is the one of the theorems: it serves what is outstanding in any order, one
//! request after the other, each in any time up to its worst case. A request that was answered
//! *guaranteed* must be done by its deadline. The same policies with one condition left out must
//! miss some: otherwise the property could not fail.

use std::collections::BTreeMap;

use headtime_sched::{
    Choice, CommandId, Decision, Done, DriveTraits, Finished, IfInfeasible, IoPriority, Outcome,
    Policy, PolicyEntry, Positioning, PriorityClass, Promise, PromiseCounts, QueueLimits, Queued,
    Refusal, Request, RequestId, Scheduler, Target, View,
};
use headtime_units::{Instant, Nanos};

use crate::session::{Setup, due, flush, read, write};
use crate::tiny::TinyBelief;

/// Numbers from a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A condition of the policies, or a misprint in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// A request goes before its turn only if the chain of submission deadlines still holds.
    Chain,
    /// Submission deadlines are `min(s, d) − e`, not `min(s, d − e)` (Algorithm 1 as printed).
    ChainSum,
    /// The worst case of the request itself counts.
    OwnWorst,
    /// The worst cases of what is outstanding count.
    Outstanding,
    /// Time already spent counts from the last completion, not from the oldest dispatch.
    LastCompletion,
    /// A deadline at the drive is not endangered.
    AtDrive,
    /// ... but by a request with a completion deadline as early, not a submission deadline
    /// (Algorithm 3 as printed).
    CompletionDeadline,
}

const CONDITIONS: [Condition; 7] = [
    Condition::Chain,
    Condition::ChainSum,
    Condition::OwnWorst,
    Condition::Outstanding,
    Condition::LastCompletion,
    Condition::AtDrive,
    Condition::CompletionDeadline,
];

/// The rule of the policies as the paper has it, by sorting, with a condition left out.
struct Rule {
    policy: Box<dyn Policy>,
    without: Option<Condition>,
}

impl Rule {
    fn select(&self, view: &View<'_>) -> Choice {
        let keeps = |condition| self.without != Some(condition);
        let now = view.now;
        let worst: Nanos = view.outstanding.iter().map(|command| command.worst).sum();
        let until = match view.outstanding.front() {
            Some(_) if !keeps(Condition::Outstanding) => now,
            Some(oldest) if !keeps(Condition::LastCompletion) => {
                (oldest.dispatched + worst).max(now)
            }
            _ => view.outstanding_until(),
        };
        let from = view.next_lba();
        let sweep = |queued: &&Queued| {
            let start = queued.request.extent.start;
            (start < from, start, queued.ticket)
        };
        let Some(in_sweep) = view.queue.by_arrival().min_by_key(sweep) else {
            return Choice::Nothing;
        };
        let own = if keeps(Condition::OwnWorst) { in_sweep.worst } else { Nanos::ZERO };
        let mut chain: Vec<&Queued> =
            view.queue.with_deadline().filter(|queued| protected(queued).is_some()).collect();
        chain.sort_by_key(|queued| (queued.deadline, queued.request.extent.start, queued.ticket));
        let number = |at: Instant| i128::from(at.as_ns());
        let others = chain.iter().filter(|queued| queued.ticket != in_sweep.ticket);
        let begin = others.rev().fold(i128::MAX, |begin, queued| {
            let (due, worst) =
                (number(protected(queued).expect("it is in the chain")), queued.worst.as_ns());
            if keeps(Condition::ChainSum) {
                begin.min(due) - i128::from(worst)
            } else {
                begin.min(due - i128::from(worst))
            }
        });
        let holds = !keeps(Condition::Chain) || number(until + own) <= begin;
        let earliest = chain.first().map(|queued| queued.deadline);
        let urgent = chain
            .into_iter()
            .filter(|queued| Some(queued.deadline) == earliest)
            .min_by_key(sweep)
            .filter(|_| !holds);
        let next = urgent.unwrap_or(in_sweep);
        let mut until_due = protected(next).unwrap_or(Instant::NEVER);
        if !keeps(Condition::CompletionDeadline) && until_due != Instant::NEVER {
            until_due = until_due.saturating_back(next.worst);
        }
        let at_drive = view.outstanding.iter().flat_map(|command| &command.requests);
        let endangered = at_drive
            .filter_map(protected)
            .filter(|due| *due >= now)
            .any(|due| due < until_due && due < until + next.worst);
        if endangered && keeps(Condition::AtDrive) {
            Choice::Nothing
        } else {
            Choice::one(Some(next.ticket))
        }
    }
}

fn protected(queued: &Queued) -> Option<Instant> {
    queued.deadline.filter(|_| queued.promise != Some(Promise::BestEffort))
}

impl Policy for Rule {
    fn name(&self) -> &'static str {
        "rule"
    }

    fn depth(&self, view: &View<'_>) -> usize {
        self.policy.depth(view)
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        let choice = self.select(view);
        if self.without.is_none() {
            assert_eq!(choice, self.policy.choose(view), "the policy differs from its rule");
        }
        choice
    }

    fn worst_service(&self, belief: &dyn Positioning, now: Instant, at: &Target) -> Option<Nanos> {
        self.policy.worst_service(belief, now, at)
    }
}

/// The counts of some cases.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    guaranteed: u64,
    missed: u64,
    /// Commands sent while others were at the drive.
    concurrent: u64,
}

/// Some requests at times of their own: half without a deadline, some deadlines equal.
fn arrivals(numbers: &mut Numbers) -> Vec<(Instant, Request)> {
    let mut at = Instant::ORIGIN;
    let mut deadline = Nanos::ZERO;
    let spread = [0, 2, 30][numbers.below(3) as usize];
    let room = [60, 120, 240][numbers.below(3) as usize];
    (0..1 + numbers.below(11))
        .map(|id| {
            at += Nanos::from_us(numbers.below(1 + spread * 1_000));
            let operation = [read, write][usize::from(numbers.below(4) == 0)];
            let plain = operation(id, numbers.below(180), 1 + numbers.below(3));
            if numbers.below(3) > 0 {
                deadline = Nanos::from_us(numbers.below(room * 1_000));
            }
            let deadline = (numbers.below(2) == 0).then_some(at + deadline);
            (at, Request { deadline, ..plain })
        })
        .collect()
}

/// One case: random arrivals at the drive of the theorems.
fn case(policy: Box<dyn Policy>, numbers: &mut Numbers, counts: &mut Counts) {
    let traits = DriveTraits { queue_depth: 64, fua: true };
    let belief = Box::new(TinyBelief::default());
    let mut scheduler = Scheduler::new(belief, policy, traits, QueueLimits::default());
    let arrivals = arrivals(numbers);
    let mut arriving = arrivals.iter().peekable();
    let mut guaranteed = BTreeMap::new();
    let mut serving: Option<(Instant, CommandId)> = None;
    let mut now = Instant::ORIGIN;
    let lazy = numbers.below(4);
    loop {
        while let Decision::Dispatch(_) = scheduler.next(now) {
            counts.concurrent += u64::from(scheduler.outstanding().len() > 1);
        }
        let at_drive = scheduler.outstanding();
        if serving.is_none() && !at_drive.is_empty() {
            let command = &at_drive[numbers.below(at_drive.len() as u64) as usize];
            let worst = command.worst.as_ns();
            let takes = if numbers.below(4) < lazy { worst } else { numbers.below(worst) + 1 };
            serving = Some((now + Nanos::from_ns(takes), command.command));
        }
        let next = arriving.peek().map(|(at, _)| *at);
        match (next, serving) {
            (Some(at), done) if done.is_none_or(|(done, _)| at < done) => {
                let (at, request) = *arriving.next().expect("it was seen");
                now = at;
                let answer = scheduler.submit_answered(
                    now,
                    request,
                    Some(IoPriority::DEFAULT),
                    IfInfeasible::BestEffort,
                );
                if answer == Ok(Promise::Guaranteed) {
                    guaranteed.insert(request.id, request.deadline);
                }
            }
            (_, Some((finished, command))) => {
                (now, serving) = (finished, None);
                let done = Done { command, finished, outcome: Outcome::Success };
                for Finished { request, finished, .. } in scheduler.complete(now, done) {
                    if let Some(deadline) = guaranteed.remove(&request.id) {
                        counts.guaranteed += 1;
                        counts.missed += u64::from(deadline.is_some_and(|due| finished > due));
                    }
                }
            }
            (None, None) | (Some(_), None) => break,
        }
    }
    assert!(arriving.next().is_none() && scheduler.held() == 0, "something was never served");
    let promises = scheduler.accounts().volume(headtime_sched::VolumeId(0)).promises.total();
    assert!(promises.broken <= promises.guaranteed && guaranteed.is_empty());
}

fn policy(text: &str) -> Box<dyn Policy> {
    let (entry, parameters) = PolicyEntry::parse(text).expect("a policy of the table");
    (entry.build)(&parameters)
}

fn cases(text: &str, without: Option<Condition>, count: u64) -> Counts {
    let mut counts = Counts::default();
    for seed in 0..count {
        let before = counts.missed;
        let rule = Rule { policy: policy(text), without };
        case(Box::new(rule), &mut Numbers(seed), &mut counts);
        if without.is_none() {
            assert_eq!(counts.missed, before, "{text}, seed {seed}");
        }
    }
    counts
}

/// Theorem 1: one outstanding.
#[test]
fn ds_scan_misses_no_guaranteed_deadline_in_a_hundred_thousand_cases() {
    let counts = cases("ds-scan", None, 100_000);
    assert!(counts.guaranteed > 100_000 && counts.concurrent == 0, "{counts:?}");
}

/// Theorem 2: several outstanding, served in any order.
#[test]
fn cds_scan_misses_no_guaranteed_deadline_in_a_hundred_thousand_cases() {
    let counts = cases("cds-scan", None, 80_000);
    let few = cases("cds-scan:max_out=3,lost_revolutions=0", None, 20_000);
    for counts in [counts, few] {
        assert!(counts.guaranteed > 20_000 && counts.concurrent > 20_000, "{counts:?}");
    }
}

#[test]
fn a_rule_without_any_one_of_its_conditions_misses_guaranteed_deadlines() {
    for without in CONDITIONS {
        let counts = cases("cds-scan", Some(without), 4_000);
        assert!(counts.missed > 0, "nothing is missed without {without:?}: {counts:?}");
    }
}

#[test]
fn the_example_of_the_paper_is_guaranteed_as_far_as_the_chain_holds() {
    let setup = |policy| Setup::of(policy).start();
    let mut session = setup("ds-scan:estimate_ms=3");
    let idle = IoPriority::default_of(PriorityClass::Idle);
    let mut answer = |id, ms, otherwise| {
        let request = due(read(id, id * 9, 1), ms);
        let priority = if id == 3 { idle } else { IoPriority::DEFAULT };
        session.scheduler.submit_answered(session.now, request, Some(priority), otherwise)
    };
    assert_eq!(answer(0, 4, IfInfeasible::Refuse), Ok(Promise::Guaranteed));
    let refused = Refusal::Infeasible { within: Nanos::from_ms(5) };
    assert_eq!(answer(1, 5, IfInfeasible::Refuse), Err(refused));
    assert_eq!(answer(2, 5, IfInfeasible::BestEffort), Ok(Promise::BestEffort));
    assert_eq!(answer(3, 6, IfInfeasible::Refuse), Ok(Promise::Guaranteed));
    let plain = session.scheduler.submit_answered(
        session.now,
        read(4, 0, 1),
        Some(IoPriority::DEFAULT),
        IfInfeasible::Refuse,
    );
    assert_eq!(plain, Err(Refusal::NoDeadline));
    let promises = session.scheduler.accounts().volume(headtime_sched::VolumeId(0)).promises;
    let counts = |class| {
        let PromiseCounts { guaranteed, best_effort, refused, broken } = promises.of(class);
        [guaranteed, best_effort, refused, broken]
    };
    assert_eq!(PriorityClass::ALL.map(counts), [[0; 4], [1, 1, 1, 0], [1, 0, 0, 0]]);
    assert_eq!(session.scheduler.held(), 3, "the refused request left no trace");

    // A policy without a chain guarantees nothing.
    let mut session = setup("headtime");
    let far = due(read(0, 0, 1), 1_000);
    let answer = |session: &mut crate::session::Session, request| {
        let now = session.now;
        let priority = IoPriority::DEFAULT;
        session.scheduler.submit_answered(now, request, Some(priority), IfInfeasible::BestEffort)
    };
    assert_eq!(answer(&mut session, far), Ok(Promise::BestEffort));
    // Nor is a request guaranteed that waits for another, or beside a flush.
    let mut session = setup("cds-scan");
    assert_eq!(answer(&mut session, write(0, 0, 8)), Ok(Promise::BestEffort));
    assert_eq!(answer(&mut session, due(read(1, 4, 1), 1_000)), Ok(Promise::BestEffort));
    assert_eq!(answer(&mut session, due(read(2, 20, 1), 1_000)), Ok(Promise::Guaranteed));
    assert_eq!(answer(&mut session, flush(3)), Ok(Promise::BestEffort));
    assert_eq!(answer(&mut session, due(read(4, 40, 1), 1_000)), Ok(Promise::BestEffort));
}

/// Request 1 is alone with a deadline that no order could meet; nothing best-effort is queued.
#[test]
fn a_lone_request_with_a_deadline_goes_and_one_without_is_never_urgent() {
    for policy in ["ds-scan", "cds-scan"] {
        let mut session = Setup::of(policy).start();
        session.accept(due(read(1, 50, 1), 1));
        session.run_to_end();
        session.accept(read(2, 60, 1));
        session.accept(due(read(3, 10, 1), 500));
        session.run_to_end();
        assert_eq!(session.served(), [1, 2, 3], "{policy}");
    }
}

#[test]
fn each_level_of_best_effort_requests_is_served_in_one_sweep() {
    let idle = |level| format!("be/{level}").parse().expect("a priority");
    let mut session = Setup::of("ds-scan").start();
    session.accept(read(0, 72, 1));
    session.pump();
    for (id, level, lba) in [(1, 7, 80), (2, 4, 10), (3, 4, 90), (4, 7, 20), (5, 0, 5)] {
        session.accept_as(idle(level), read(id, lba, 1));
    }
    // A deadline far ahead shares the queue of the default level.
    session.accept_as(idle(7), due(read(6, 60, 1), 10_000));
    session.run_to_end();
    assert_eq!(session.served(), [0, 5, 2, 6, 3, 4, 1]);
    assert_eq!(session.finished[1].request.id, RequestId(5));
}
