//! Shares of disk time: terms change while the scheduler runs.

use headtime_units::Instant;

use super::Scheduler;
use crate::shares::{ShareChange, ShareRefusal, Shares, Tenant, Terms};

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
}
