//! Exchanging the belief while requests wait and commands are at the drive.
//!
//! A target says where a request lies as the belief of its submission saw it. Another belief sees
//! other places, so every target that is held is asked for again, and the orders by place are made
//! again when somebody asks for them. Where the head is nobody knows in the new belief's places; the
//! address is known, and the new belief says where that is. The next completion teaches nothing,
//! because what it is measured against was not predicted by who is to learn from it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::Extent;

use super::{Belief, Head, Op, Queued, Scheduler, Target, Ticket};

impl Scheduler {
    /// Believes something else of the drive from now on; what is queued stays queued, what is at
    /// the drive stays there. Returns what was believed before.
    ///
    /// # Panics
    /// When the belief is of a drive of another size.
    pub fn set_belief(&mut self, belief: Box<dyn Belief + Send>) -> Box<dyn Belief + Send> {
        assert_eq!(
            belief.capacity(),
            self.belief.capacity(),
            "a belief of a drive of another size"
        );
        let before = core::mem::replace(&mut self.belief, belief);
        let held: Vec<Ticket> = self.queue.by_arrival().map(|queued| queued.ticket).collect();
        self.queue.forget_orders();
        self.shares.forget_orders();
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
        let at_drive = self.outstanding.iter_mut();
        elsewhere.for_each(|Queued { target, .. }| again(target));
        for command in at_drive {
            again(&mut command.target);
            command.requests.iter_mut().for_each(|queued| again(&mut queued.target));
        }
        let next = self.last_head.next_lba;
        if next.get() > 0 {
            let place = belief.target(Op::Read, Extent::from_numbers(next.get() - 1, 1)).end;
            self.last_head = Head { place, ..self.last_head };
        }
        self.head_certain = false;
        self.policy.belief_changed();
        if let Some(fill) = &mut self.fill {
            fill.predicted.clear();
            fill.ahead = None;
        }
        before
    }

    /// What was believed of the drive in the end, for whoever wants to keep what it learned.
    #[must_use]
    pub fn into_belief(self) -> Box<dyn Belief + Send> {
        self.belief
    }
}
