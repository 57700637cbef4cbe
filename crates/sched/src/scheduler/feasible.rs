//! Deadlines that are answered at submission: guaranteed, best effort, or refused.
//!
//! A request is *guaranteed* where the policy keeps a chain of submission deadlines and the chain
//! with the request allows its first to begin when everything outstanding is done, by the sum of
//! the worst cases (P4, theorem 2). One answered *best effort* is left out of the chain, so that it
//! delays no guaranteed request. A request with a deadline that was submitted without asking is in
//! the chain whether it can be met or not, as in the paper, and may break what was guaranteed
//! before: do not mix the two.
//!
//! Worked example: nothing is outstanding, and each worst case is 3 ms. A request due in 4 ms is
//! guaranteed. The next, due in 5 ms, is not, because the first would have to begin 1 ms ago; due
//! in 6 ms it is.
//!
//! No guarantee is given where the scheduler sends commands that no policy orders: while a request
//! waits for an overlapping earlier one, while flushes, discards or parts of failed commands are
//! held, and beside a scan. If such commands come later, they may break it. Where the policy
//! decides for each arm by itself, each arm has its chain, and nothing is guaranteed to a request
//! that lies on several arms, nor beside one.
//! [`PromiseCounts::broken`](crate::PromiseCounts::broken) counts that.
//!
//! Source: P4, Analysis ("feasible"); the answer to the caller is this project's.

use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};

use super::dispatch::view;
use super::{Queued, Refusal, Request, Scheduler, Target, Ticket};
use crate::policy::{Policy, View};
use crate::positioning::Belief;
use crate::request::{IfInfeasible, Promise};
use crate::tunables::IoPriority;

impl Scheduler {
    /// As [`Scheduler::submit_with_priority`], or without a priority [`Scheduler::submit`], for a
    /// request whose deadline is answered: either it is guaranteed, or what `if_infeasible` says. A
    /// request without a deadline is answered best effort, or refused, and not counted.
    ///
    /// # Errors
    /// Any [`Refusal`]; nothing changed then, except for the count.
    ///
    /// # Panics
    /// As [`Scheduler::submit`].
    pub fn submit_answered(
        &mut self,
        now: Instant,
        request: Request,
        priority: Option<IoPriority>,
        if_infeasible: IfInfeasible,
    ) -> Result<Promise, Refusal> {
        self.advance(now);
        let request = priority.map_or(request, |own| self.with_deadline_of(request, own));
        let priority = priority.unwrap_or_else(|| self.priority_of(&request));
        let Some(deadline) = request.deadline else {
            return match if_infeasible {
                IfInfeasible::BestEffort => {
                    self.enter(request, priority, None).map(|()| Promise::BestEffort)
                }
                IfInfeasible::Refuse => Err(Refusal::NoDeadline),
            };
        };
        let promise = match if_infeasible {
            _ if self.is_feasible(&request, deadline) => Promise::Guaranteed,
            IfInfeasible::BestEffort => Promise::BestEffort,
            IfInfeasible::Refuse => {
                self.accounts.promises(request.volume, priority.class()).refused += 1;
                return Err(Refusal::Infeasible { within: deadline.saturating_since(now) });
            }
        };
        self.enter(request, priority, Some(promise))?;
        let counts = self.accounts.promises(request.volume, priority.class());
        match promise {
            Promise::Guaranteed => counts.guaranteed += 1,
            Promise::BestEffort => counts.best_effort += 1,
        }
        Ok(promise)
    }

    /// Returns whether the deadline can be guaranteed beside everything held.
    fn is_feasible(&mut self, request: &Request, deadline: Instant) -> bool {
        let bypassed = !self.flushes.is_empty()
            || !self.own.is_empty()
            || self.active_fill().is_some()
            || self.outstanding.iter().any(|command| !command.target.op.moves_head());
        let ends = request.extent.checked_end().map(|end| end.get());
        let on_drive = ends.is_some_and(|end| end <= self.belief.capacity().get());
        if bypassed
            || !on_drive
            || request.extent.len.is_zero()
            || !request.op.moves_head()
            || self.needs_flush(request)
        {
            return false;
        }
        if request.op.changes_sectors() && !self.overlap.is_active() {
            self.activate_order();
        }
        if !self.overlap.is_free(request.extent, request.op) {
            return false;
        }
        let target = self.belief.target(request.op, request.extent);
        let Some(worst) = self.policy.worst_service(&*self.belief, self.now, &target) else {
            return false;
        };
        let key = (deadline, request.extent.start, Ticket(self.next_ticket));
        let view = view!(self);
        let holds =
            |view: &View<'_>| view.queue.chain().allows_with(&key, worst, view.outstanding_until());
        if !self.policy.decides_by_arm(&view) {
            return holds(&view);
        }
        // Each arm has a chain of its own. A request on several is in that of the first alone.
        let mut serving = self.belief.arms().serving(request.extent);
        match (serving.next(), serving.next()) {
            (Some(arm), None) if !self.arms.any_on_several() => holds(&view.of_arm(arm)),
            _ => false,
        }
    }

    /// The worst-case service time of a command for `target`; zero where the policy has none.
    pub(super) fn worst_of(&self, target: &Target) -> Nanos {
        worst_of(&*self.policy, &*self.belief, self.now, target)
    }

    /// Computes the worst cases of everything held again, for another policy or drive model.
    pub(super) fn renew_worst_cases(&mut self) {
        let queued = self.queue.by_arrival().copied();
        let changed: Vec<Queued> = queued
            .map(|queued| Queued { worst: self.worst_of(&queued.target), ..queued })
            .filter(|renewed| self.queue.get(renewed.ticket) != Some(renewed))
            .collect();
        for queued in changed {
            self.take_from_queue(queued.ticket);
            self.make_eligible(queued);
        }
        let (policy, belief, now) = (&*self.policy, &*self.belief, self.now);
        let worst = |target: &Target| worst_of(policy, belief, now, target);
        let elsewhere = self.waiting.values_mut().chain(&mut self.own);
        elsewhere.for_each(|queued| queued.worst = worst(&queued.target));
        self.outstanding.change(|command| command.worst = worst(&command.target));
        self.arms.renew_commands(&self.outstanding);
    }

    /// Counts a guaranteed request that has completed after its deadline.
    pub(super) fn count_broken(&mut self, queued: &Queued, finished: Instant) {
        let missed = queued.request.deadline.is_some_and(|deadline| finished > deadline);
        if missed && queued.promise == Some(Promise::Guaranteed) {
            let Queued { request, priority, .. } = queued;
            self.accounts.promises(request.volume, priority.class()).broken += 1;
        }
    }
}

fn worst_of(policy: &dyn Policy, belief: &dyn Belief, now: Instant, target: &Target) -> Nanos {
    let moves = target.op.moves_head();
    let worst = moves.then(|| policy.worst_service(belief, now, target)).flatten();
    worst.unwrap_or_default()
}
