//! Shares of disk time: terms change while the scheduler runs.

use headtime_units::Instant;

use super::Scheduler;
use crate::shares::{ShareChange, ShareRefusal, Shares, Tenant, Terms};

impl Scheduler {
    /// The terms, levels and usage of all tenants, with checks of changes ([`Shares::check`]) and
    /// the unreserved share.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Returns whether the policy enforces the terms of tenants, also one that tracks no shares
    /// while no tenant has terms.
    #[must_use]
    pub fn uses_shares(&self) -> bool {
        self.policy.enforces_limits()
    }

    /// Changes terms at run time, all of `changes` or none. Queued requests stay queued under the
    /// new terms; commands at the drive are charged to their tenants. Levels stay as far as the new
    /// bounds allow, but a debt is paid no later than before. Whether terms are enforced depends on
    /// the policy.
    ///
    /// Call [`Scheduler::next`] again afterwards, as after a submission: throttled requests may be
    /// eligible now, and an earlier decision to wait is outdated.
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
        // Shares are kept from the first change on, which costs time at every completion.
        if changes.is_empty() {
            return Ok(());
        }
        self.shares.check(changes)?;
        self.advance(now);
        self.keep_shares();
        self.shares.change(now, changes);
        self.arms.change_shares(now, changes, &self.flushes);
        Ok(())
    }

    /// Starts to track the shares of the drive, and with them those of each arm.
    pub(super) fn keep_shares(&mut self) {
        self.shares.keep(self.now, self.queue.by_arrival(), &self.flushes);
        self.arms.change_shares(self.now, &[], &self.flushes);
    }

    /// A flush of a tenant, or a write that waits for one, does not wait any more.
    pub(super) fn flush_leaves(&mut self, tenant: Tenant) {
        self.shares.flush_leaves(self.now, tenant);
        if let Some(shares) = self.arms.shares_of_flushes() {
            shares.flush_leaves(self.now, tenant);
        }
    }

    /// Gives the shares of new arms the terms of all tenants, and the commands at the drive.
    pub(super) fn renew_shares_of_arms(&mut self) {
        if !self.shares.are_kept() {
            return;
        }
        self.arms.change_shares(self.now, &self.shares.all_terms(), &self.flushes);
        for command in self.outstanding.iter() {
            for (queued, charge) in command.requests.iter().zip(&command.charges) {
                if let Some(shares) = self.arms.shares_of(command.target.op, queued) {
                    shares.sent(self.now, queued, *charge, command.target.op);
                }
            }
        }
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
}
