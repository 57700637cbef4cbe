//! Deadlines that are handed on: who stands in the way of a request with a deadline has that
//! deadline too.
//!
//! The deadline that counts for a request is the earliest of its own and of all that wait for it,
//! directly or through others. It is kept, not computed when asked: a request that must wait hands
//! its deadline on to everyone ahead, and when it is taken back, those ahead are given what is left
//! to them.
//!
//! Worked example: write A (no deadline) of sectors 0..8, write B (deadline 9 s) of 4..12, read C
//! (deadline 5 s) of 8..16. C waits for B and B for A: A and B count as due at 5 s. C is cancelled:
//! B is due at 9 s again, and so is A.
//!
//! Cost: handing on stops at whoever is due as early already, because he has handed that on when he
//! got it.

use alloc::collections::BTreeSet;

use headtime_units::Instant;

use super::{Queued, Scheduler, Ticket};

impl Scheduler {
    /// Hands the deadline of a request that must wait on to everyone ahead of it.
    pub(super) fn pass_deadline_on(&mut self, queued: &Queued) {
        let Some(deadline) = queued.deadline else { return };
        let mut open = self.overlap.waits_for(queued.ticket).to_vec();
        while let Some(earlier) = open.pop() {
            let before = self.deadline_of(earlier);
            if before.is_none_or(|before| deadline < before) {
                self.set_deadline(earlier, Some(deadline));
                open.extend_from_slice(self.overlap.waits_for(earlier));
            }
        }
    }

    /// Gives those that were ahead of a request which is gone the deadlines that are left to them.
    pub(super) fn withdraw_deadline(&mut self, ahead: &BTreeSet<Ticket>) {
        // The latest first: what it is left with is what it hands on to those before it.
        for earlier in ahead.iter().rev() {
            let own = self.find(*earlier).and_then(|queued| queued.request.deadline);
            let inherited = self
                .overlap
                .awaited_by(*earlier)
                .iter()
                .filter_map(|later| self.deadline_of(*later))
                .min();
            self.set_deadline(*earlier, own.into_iter().chain(inherited).min());
        }
    }

    /// The deadline that counts for a request on sectors, wherever it is held.
    pub(super) fn deadline_of(&self, ticket: Ticket) -> Option<Instant> {
        self.find(ticket).map_or_else(
            || self.fill.as_ref()?.jobs.get(&ticket)?.deadline,
            |queued| queued.deadline,
        )
    }

    fn find(&self, ticket: Ticket) -> Option<&Queued> {
        let same = |queued: &&Queued| queued.ticket == ticket;
        (self.waiting.get(&ticket).or_else(|| self.queue.get(ticket)))
            .or_else(|| self.own.iter().find(same))
            .or_else(|| {
                self.outstanding.iter().flat_map(|command| command.requests.iter()).find(same)
            })
    }

    fn set_deadline(&mut self, ticket: Ticket, deadline: Option<Instant>) {
        if let Some(queued) = self.queue.get(ticket) {
            self.shares.set_deadline(self.now, queued.request.tenant(), ticket, deadline);
            self.queue.set_deadline(ticket, deadline);
            return;
        }
        if let Some(job) = self.fill.as_mut().and_then(|fill| fill.jobs.get_mut(&ticket)) {
            job.deadline = deadline;
            return;
        }
        let same = |queued: &&mut Queued| queued.ticket == ticket;
        let found = (self.waiting.get_mut(&ticket))
            .or_else(|| self.own.iter_mut().find(same))
            .or_else(|| {
                self.outstanding
                    .iter_mut()
                    .flat_map(|command| command.requests.iter_mut())
                    .find(same)
            });
        found.expect("who is waited for is held").deadline = deadline;
    }
}
