//! Deadline inheritance: a request that blocks a request with a deadline has that deadline too.
//!
//! The effective deadline of a request is the earliest of its own and of all requests that wait for
//! it, directly or through others. It is stored: a request that must wait passes its deadline to
//! all requests ahead of it. When it is cancelled, their deadlines are computed again.
//!
//! Worked example: write A (no deadline) of sectors 0..8, write B (deadline 9 s) of 4..12, read C
//! (deadline 5 s) of 8..16. C waits for B and B for A: A and B count as due at 5 s. C is cancelled:
//! B is due at 9 s again, and so is A.
//!
//! Cost: inheritance stops at a request that is due as early already, because it has passed that
//! deadline on before.

use alloc::collections::BTreeSet;

use headtime_units::Instant;

use super::{Queued, Scheduler, Ticket};

impl Scheduler {
    /// Passes the deadline of a waiting request to all requests ahead of it.
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

    /// Computes the deadlines of the requests ahead of a cancelled one again.
    pub(super) fn withdraw_deadline(&mut self, ahead: &BTreeSet<Ticket>) {
        // The latest first: its remaining deadline is passed on to those before it.
        for earlier in ahead.iter().rev() {
            let own = self.find(*earlier).and_then(Queued::own_deadline);
            let inherited = self
                .overlap
                .awaited_by(*earlier)
                .iter()
                .filter_map(|later| self.deadline_of(*later))
                .min();
            self.set_deadline(*earlier, own.into_iter().chain(inherited).min());
        }
    }

    /// The effective deadline of a request on sectors, wherever it is held.
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
            self.arms.set_deadline(self.now, queued, deadline);
            self.queue.set_deadline(ticket, deadline);
            return;
        }
        if let Some(job) = self.fill.as_mut().and_then(|fill| fill.jobs.get_mut(&ticket)) {
            job.deadline = deadline;
            return;
        }
        let same = |queued: &&mut Queued| queued.ticket == ticket;
        let waits = self.waiting.get_mut(&ticket).or_else(|| self.own.iter_mut().find(same));
        let mut found = false;
        let mut change = |queued: &mut Queued| (queued.deadline, found) = (deadline, true);
        match waits {
            Some(queued) => change(queued),
            None => {
                self.outstanding.change(|command| {
                    command.requests.iter_mut().filter(same).for_each(&mut change);
                });
                self.arms.renew_commands(&self.outstanding);
            }
        }
        assert!(found, "a request that others wait for is held");
    }
}
