//! Replacing the drive model while requests are queued and commands are at the drive.
//!
//! A target holds the position of a request in the model of its submission. Another model has other
//! positions, so every target is computed again, and the orders by position are rebuilt on their
//! next use. The head's position in the new model follows from its address. The next completion is
//! not learned from, because another model predicted it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::Extent;

use super::{ArmStates, Belief, Head, LastAccess, Op, Queued, Scheduler, Target, Ticket};

impl Scheduler {
    /// Replaces the drive model; queued requests stay queued, commands at the drive stay there.
    /// Returns the previous model.
    ///
    /// # Panics
    /// When the model is of a drive of another size.
    pub fn set_belief(&mut self, belief: Box<dyn Belief + Send>) -> Box<dyn Belief + Send> {
        assert_eq!(
            belief.capacity(),
            self.belief.capacity(),
            "the drive model is of a drive of another size"
        );
        let before = core::mem::replace(&mut self.belief, belief);
        if self.belief.arms() != before.arms() {
            self.policy.arms(self.belief.arms());
        }
        let mut arms_before = core::mem::replace(&mut self.arms, ArmStates::of(self.belief.arms()));
        let same_arms = self.arms.take_shares(&mut arms_before);
        let held: Vec<Ticket> = self.queue.by_arrival().map(|queued| queued.ticket).collect();
        self.queue.forget_orders();
        self.shares.forget_orders();
        self.arms.forget_orders();
        for ticket in held {
            if let Some(mut queued) = self.take_from_queue(ticket) {
                queued.target = self.belief.target(queued.target.op, queued.target.extent);
                self.make_eligible(queued);
            }
        }
        let belief = &*self.belief;
        let again = |target: &mut Target| {
            if target.op != Op::Flush {
                *target = belief.target(target.op, target.extent);
            }
        };
        let elsewhere = self.waiting.values_mut().chain(&mut self.own).chain(&mut self.flushes);
        elsewhere.for_each(|Queued { target, .. }| again(target));
        self.outstanding.change(|command| {
            again(&mut command.target);
            command.requests.iter_mut().for_each(|queued| again(&mut queued.target));
        });
        self.arms.renew_commands(&self.outstanding);
        let next = self.last.head.next_lba;
        if next.get() > 0 {
            let place = belief.target(Op::Read, Extent::from_numbers(next.get() - 1, 1)).end;
            self.last.head.place = place;
        }
        for state in arms_before.all() {
            let next = state.last.head.next_lba;
            if next.get() > 0 {
                let target = self.belief.target(Op::Read, Extent::from_numbers(next.get() - 1, 1));
                let head = Head { place: target.end, ..state.last.head };
                self.arms.ended(&target, LastAccess { head, certain: false, ..state.last });
            }
        }
        if !same_arms {
            self.renew_shares_of_arms();
        }
        self.last.certain = false;
        self.policy.belief_changed();
        self.renew_worst_cases();
        if let Some(fill) = &mut self.fill {
            fill.predicted.clear();
            fill.ahead.clear();
        }
        before
    }

    /// Returns the drive model, so that what it learned can be saved.
    #[must_use]
    pub fn into_belief(self) -> Box<dyn Belief + Send> {
        self.belief
    }
}
