//! Shares as the scheduler keeps them: terms are changed, and what is sent is charged.

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use super::send::view;
use super::{Op, Queued, Scheduler};
use crate::shares::{Charge, ShareChange, ShareRefusal, Shares, Tenant, TenantState, Terms};

impl Scheduler {
    /// Terms, levels and use of all tenants; also answers whether a change would be made
    /// ([`Shares::check`]) and what is left to reserve.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Whether the policy at work goes by the terms of tenants: also one that keeps no books while
    /// nobody has any.
    #[must_use]
    pub fn uses_shares(&self) -> bool {
        self.policy.enforces_limits()
    }

    /// Changes terms while running, all of `changes` or none. What is queued stays queued and goes
    /// by the new terms; what is at the drive is charged to whom it was sent for. Levels stay as
    /// far as the new bounds allow, except that a debt is paid no later than it would have been
    /// before. Whether anybody goes by terms is the policy's business.
    ///
    /// Ask [`Scheduler::next`] again afterwards, as after a submission: who was held back may go
    /// now, and an earlier answer to wait is out of date.
    ///
    /// # Errors
    /// [`ShareRefusal`]; nothing is changed then.
    ///
    /// # Panics
    /// When `now` is before an earlier call's.
    pub fn change_shares(
        &mut self,
        now: Instant,
        changes: &[ShareChange],
    ) -> Result<(), ShareRefusal> {
        self.shares.check(changes)?;
        self.advance(now);
        self.shares.keep(now, self.queue.by_arrival(), &self.flushes);
        self.shares.change(now, changes);
        Ok(())
    }

    /// Gives a tenant terms, whether or not it had others; as [`Scheduler::change_shares`].
    ///
    /// # Errors
    /// [`ShareRefusal`]; nothing is changed then.
    ///
    /// # Panics
    /// When `now` is before an earlier call's.
    pub fn set_share(
        &mut self,
        now: Instant,
        tenant: Tenant,
        terms: Terms,
    ) -> Result<(), ShareRefusal> {
        self.change_shares(now, &[ShareChange::Set(tenant, terms)])
    }

    /// Takes a tenant's terms away; what it has asked for is served as what nobody pays for in
    /// advance. As [`Scheduler::change_shares`].
    ///
    /// # Errors
    /// [`ShareRefusal::Unknown`] for one that has none.
    ///
    /// # Panics
    /// When `now` is before an earlier call's.
    pub fn remove_share(&mut self, now: Instant, tenant: Tenant) -> Result<(), ShareRefusal> {
        self.change_shares(now, &[ShareChange::Remove(tenant)])
    }

    /// Whether flushes take their turns as requests do: with a policy that goes by terms, where
    /// anybody has some. Else they go at once.
    pub(super) fn flushes_have_turns(&self) -> bool {
        !self.flushes.is_empty() && self.policy.enforces_limits() && self.shares.any_terms()
    }

    /// Whether a flush may go now as far as the drive is concerned: one at a time, because two at
    /// once promise nothing more.
    pub(super) fn flush_may_go(&self) -> bool {
        !self.flushes.is_empty()
            && !self.outstanding.iter().any(|command| command.target.op == Op::Flush)
    }

    /// Puts down a request that waits for a flush.
    pub(super) fn wait_for_flush(&mut self, queued: Queued) {
        self.shares.flush_waits(self.now, queued.request.tenant());
        self.flushes.push(queued);
    }

    /// Charges what is about to be sent by a command of this kind; answers what each request was
    /// charged, in their order. A discard is charged when it is known what it took.
    pub(super) fn charge(&mut self, op: Op, requests: &[Queued]) -> SmallVec<[Charge; 1]> {
        if !self.shares.are_kept() {
            return SmallVec::new();
        }
        let view = view!(self);
        let charge = |queued: &Queued| match op {
            Op::Read | Op::Write | Op::Zero => self.policy.charge(&view, queued),
            Op::Flush => {
                let estimate = self
                    .shares
                    .line(queued.request.tenant())
                    .map_or(Nanos::ZERO, TenantState::flush_cost);
                Charge { estimate, fixed: false }
            }
            Op::Discard => Charge::default(),
        };
        let charges: SmallVec<[Charge; 1]> = requests.iter().map(charge).collect();
        for (queued, charge) in requests.iter().zip(&charges) {
            self.shares.sent(self.now, queued, *charge, op == Op::Flush);
        }
        charges
    }
}
