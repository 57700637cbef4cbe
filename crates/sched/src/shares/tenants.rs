//! [`Shares`]: the state of all tenants of one drive: terms, buckets, queues, and the check of
//! changes.
//!
//! Each tenant has two buckets, as published: one fills with its reservation, one with its limit,
//! each up to its burst. A request is charged an estimate at dispatch, which is corrected at
//! completion to the measured time: completion − max(previous completion, dispatch), seeks
//! included. Caps in requests and sectors a second are two more buckets.
//!
//! A tenant without terms (a guest) has no reservation and no limit. It has a state of its own from
//! its first request on, and its fair share of unreserved time.
//!
//! Bounds: the bucket of a reservation stays within ± share × burst (P5, section 2.1: `0 ± u`).
//! Beyond that, used slack is no debt, and unused time is no claim. A limit is a debt until it is
//! paid ([`Gate`]), but for at most a minute: a drive that hangs does not block a tenant for ever.

use alloc::vec::Vec;

use headtime_units::{Instant, Lba, Nanos, Share};

use super::bucket::{Bucket, GRAINS};
use super::gate::Gate;
use super::terms::{ShareChange, ShareRefusal, Tenant, Terms};
use super::usage::{Recent, Usage, WINDOW};
use crate::destaging::Destaging;
use crate::queue::{Queue, Queued, Ticket};
use crate::request::{Op, VolumeId};

/// The number of requests in the mean of those that continue a tenant's own, and of the rarer ones
/// after another tenant's (guess: some ten seconds of each).
const GOING_ON: u32 = 256;
const RETURNING: u32 = 16;
/// A guest without requests for this long is removed when another tenant arrives.
const FORGOTTEN: Nanos = Nanos::from_ns(WINDOW.as_ns() * 20);

/// The charge of a request at dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Disk time it is expected to take.
    pub estimate: Nanos,
    /// True if the charge is final whatever the request takes: the unit of a policy that counts
    /// requests instead of time.
    pub fixed: bool,
    /// The time for which the drive has waited for the request, charged whatever it takes.
    pub waited: Nanos,
}

/// Terms, buckets and requests of all tenants of one drive. Read-only for policies and people;
/// [`Scheduler::change_shares`](crate::Scheduler::change_shares) changes terms.
#[derive(Clone, Debug)]
pub struct Shares {
    /// True if a tenant has or had terms, or the policy uses shares: before that nothing is
    /// tracked.
    kept: bool,
    reservable: Share,
    /// By tenant.
    tenants: Vec<TenantState>,
    /// The index of the last look-up.
    last: usize,
    /// The tenant of the last read, write or flush.
    served_last: Option<Tenant>,
    destaging: Destaging<Tenant>,
}

/// The state of one tenant.
#[derive(Clone, Debug)]
pub(crate) struct TenantState {
    tenant: Tenant,
    terms: Option<Terms>,
    queue: Queue,
    reserve: Bucket,
    limit: Gate,
    requests: Gate,
    sectors: Gate,
    usage: Usage,
    disk_time: Nanos,
    /// Recent disk time of a request that follows one of the same tenant, and of one that follows
    /// another tenant's.
    going_on: Recent,
    returning: Recent,
    /// True if its last request is a write that the drive has taken into its cache at once, in
    /// sequence with the one before.
    extends_cached: bool,
    /// All estimates, and all charges as they have been corrected by now; the latter may fall.
    estimated: Nanos,
    charged_ns: i64,
    at_drive: usize,
    /// Flushes that wait, and writes that wait for one.
    flushes: usize,
    /// The recent cost of a flush, and whether the last command for it was one.
    flush: Recent,
    flushed_last: bool,
    /// The address after the last request sent, and after the last write into the drive's cache.
    next_lba: Option<Lba>,
    next_cached: Option<Lba>,
    /// The time at which it last had something queued or at the drive.
    last_held: Instant,
}

/// The treatment of tenants that wait for a flush alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushTurns {
    Count,
    Ignore,
}

/// The service of a request at the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// The operation of the command that served it.
    pub(crate) op: Op,
    /// True if the drive did without the head.
    pub(crate) cached: bool,
    /// Its part of the command's disk time.
    pub(crate) disk_time: Nanos,
    /// Its transfer: of striped members, which transfer at the same time, the part of each.
    pub(crate) transfer: Nanos,
    /// The dispatch of the command.
    pub(crate) sent: Instant,
    /// Its completion.
    pub(crate) finished: Instant,
    /// The time, so far, in which the drive had no command.
    pub(crate) idle: Nanos,
}

/// The terms, use and queue of one tenant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareReport {
    /// The tenant.
    pub tenant: Tenant,
    /// Its terms; `None` for a guest.
    pub terms: Option<Terms>,
    /// Disk time it has taken since it came, measured.
    pub disk_time: Nanos,
    /// The share of the drive that it has been charged over the last few seconds: a moving average
    /// that weighs by age.
    pub recent: f64,
    /// The level of the bucket of its reservation: positive for an entitlement.
    pub reserve_level_ns: i64,
    /// The level of the bucket of its limit; `None` without a limit.
    pub limit_level_ns: Option<i64>,
    /// The time until which a limit or cap holds it back.
    pub held_until: Option<Instant>,
    /// Requests that may go as far as their order is concerned, flushes included.
    pub waiting: usize,
    /// Requests at the drive.
    pub at_drive: usize,
}

impl Shares {
    /// No terms, everything reservable.
    pub(crate) fn new() -> Self {
        Self {
            kept: false,
            reservable: Share::WHOLE,
            tenants: Vec::new(),
            last: 0,
            served_last: None,
            destaging: Destaging::default(),
        }
    }

    /// The total that may be reserved.
    #[must_use]
    pub fn reservable(&self) -> Share {
        self.reservable
    }

    /// The total reservation.
    #[must_use]
    pub fn reserved(&self) -> Share {
        sum(self.tenants.iter().filter_map(|state| state.terms))
    }

    /// The share that may still be reserved.
    #[must_use]
    pub fn unreserved(&self) -> Share {
        difference(self.reservable, self.reserved())
    }

    /// The terms of a tenant; `None` for one that has none.
    #[must_use]
    pub fn terms(&self, tenant: Tenant) -> Option<Terms> {
        self.tenant(tenant)?.terms
    }

    /// Returns whether these changes together are valid; returns the unreserved share after them.
    /// If a tenant occurs several times, the last change counts.
    ///
    /// # Errors
    /// [`ShareRefusal`], for the first invalid change.
    pub fn check(&self, changes: &[ShareChange]) -> Result<Share, ShareRefusal> {
        let mut after: Vec<(Tenant, Terms)> =
            self.tenants.iter().filter_map(|state| Some((state.tenant, state.terms?))).collect();
        let mut reservable = self.reservable;
        for change in changes {
            match *change {
                ShareChange::Set(tenant, terms) => {
                    terms.check(tenant)?;
                    match after.binary_search_by_key(&tenant, |entry| entry.0) {
                        Ok(place) => after[place].1 = terms,
                        Err(_) if after.len() >= Terms::MAX_TENANTS => {
                            return Err(ShareRefusal::TooMany { tenant });
                        }
                        Err(place) => after.insert(place, (tenant, terms)),
                    }
                }
                ShareChange::Remove(tenant) => {
                    let place = after
                        .binary_search_by_key(&tenant, |entry| entry.0)
                        .map_err(|_| ShareRefusal::Unknown { tenant })?;
                    after.remove(place);
                }
                ShareChange::Reservable(share) => reservable = share,
            }
        }
        let total: u64 =
            after.iter().map(|(_, terms)| u64::from(terms.reserve.as_billionths())).sum();
        let Some(too_much) =
            total.checked_sub(u64::from(reservable.as_billionths())).filter(|more| *more > 0)
        else {
            return Ok(difference(reservable, sum(after.into_iter().map(|entry| entry.1))));
        };
        // The error names the last change that increases a reservation.
        let grows = |change: &&ShareChange| {
            matches!(change, ShareChange::Set(tenant, terms)
                if self.terms(*tenant).is_none_or(|had| had.reserve < terms.reserve))
        };
        Err(match changes.iter().rev().find(grows) {
            Some(ShareChange::Set(tenant, terms)) => {
                let left = u64::from(terms.reserve.as_billionths()).saturating_sub(too_much);
                ShareRefusal::TooMuch {
                    tenant: *tenant,
                    requested: terms.reserve,
                    available: share_of(left),
                    reservable,
                }
            }
            _ => ShareRefusal::Reserved { requested: reservable, reserved: share_of(total) },
        })
    }

    /// The report of one tenant at `now`, which is no earlier than the scheduler's last event;
    /// `None` for a tenant without terms and recent requests.
    #[must_use]
    pub fn report(&self, tenant: Tenant, now: Instant) -> Option<ShareReport> {
        self.tenant(tenant).map(|state| state.report(now))
    }

    /// The reports of all tenants, by volume and class.
    pub fn reports(&self, now: Instant) -> impl Iterator<Item = ShareReport> + '_ {
        self.tenants.iter().map(move |state| state.report(now))
    }

    /// The changes that give another drive, or arm, the terms of all tenants.
    pub(crate) fn all_terms(&self) -> Vec<ShareChange> {
        let set = |state: &TenantState| Some(ShareChange::Set(state.tenant, state.terms?));
        let reservable = ShareChange::Reservable(self.reservable);
        core::iter::once(reservable).chain(self.tenants.iter().filter_map(set)).collect()
    }

    /// Returns whether a tenant has a cap in requests or sectors a second.
    pub(crate) fn any_caps(&self) -> bool {
        let capped = |terms: Terms| {
            terms.requests_per_second.is_some() || terms.sectors_per_second.is_some()
        };
        self.tenants.iter().any(|state| state.terms.is_some_and(capped))
    }

    /// Returns whether a tenant has terms.
    pub(crate) fn any_terms(&self) -> bool {
        self.tenants.iter().any(|state| state.terms.is_some())
    }

    /// Returns whether shares are tracked.
    pub(crate) fn are_kept(&self) -> bool {
        self.kept
    }

    /// Starts tracking; these requests are queued, and these wait for a flush.
    pub(crate) fn keep<'a>(
        &mut self,
        now: Instant,
        waiting: impl Iterator<Item = &'a Queued>,
        for_flush: &[Queued],
    ) {
        if !self.kept {
            self.kept = true;
            waiting.for_each(|queued| self.enter(now, queued));
            for_flush.iter().for_each(|queued| self.flush_waits(now, queued.request.tenant()));
        }
    }

    /// Makes changes that have been checked.
    pub(crate) fn change(&mut self, now: Instant, changes: &[ShareChange]) {
        for change in changes {
            match *change {
                ShareChange::Set(tenant, terms) => {
                    self.tenant_mut(now, tenant).set(now, Some(terms))
                }
                ShareChange::Remove(tenant) => self.tenant_mut(now, tenant).set(now, None),
                ShareChange::Reservable(share) => self.reservable = share,
            }
        }
    }

    /// Takes a request in that may go.
    pub(crate) fn enter(&mut self, now: Instant, queued: &Queued) {
        if self.kept {
            self.tenant_mut(now, queued.request.tenant()).queue.insert(queued);
        }
    }

    /// A request does not wait any more: it goes to the drive, or was taken back.
    pub(crate) fn leave(&mut self, now: Instant, queued: &Queued) {
        if self.kept {
            let state = self.tenant_mut(now, queued.request.tenant());
            let removed = state.queue.remove(queued.ticket);
            debug_assert!(removed.is_some(), "a request was in no state");
        }
    }

    /// A flush waits, or a write for one.
    pub(crate) fn flush_waits(&mut self, now: Instant, tenant: Tenant) {
        if self.kept {
            self.tenant_mut(now, tenant).flushes += 1;
        }
    }

    /// One of those does not wait any more: it goes to the drive, or was taken back.
    pub(crate) fn flush_leaves(&mut self, now: Instant, tenant: Tenant) {
        if self.kept {
            self.tenant_mut(now, tenant).flushes -= 1;
        }
    }

    /// Another deadline counts for a request that waits.
    pub(crate) fn set_deadline(
        &mut self,
        now: Instant,
        tenant: Tenant,
        ticket: Ticket,
        deadline: Option<Instant>,
    ) {
        if self.kept {
            self.tenant_mut(now, tenant).queue.set_deadline(ticket, deadline);
        }
    }

    /// Drops the orders of all queues that not every policy uses.
    pub(crate) fn forget_orders(&mut self) {
        self.tenants.iter_mut().for_each(|state| state.queue.forget_orders());
    }

    /// Charges a dispatched request; a write that waits for a flush counts as one.
    pub(crate) fn sent(&mut self, now: Instant, queued: &Queued, charge: Charge, op: Op) {
        if !self.kept {
            return;
        }
        let for_flush = op == Op::Flush;
        let waited = self.destaging.waited_for_request(charge.waited);
        let state = self.tenant_mut(now, queued.request.tenant());
        state.at_drive += 1;
        state.flushed_last = for_flush;
        if !for_flush && queued.request.op.moves_head() {
            state.next_lba = Some(queued.request.extent.end());
            state.sectors.take(now, queued.request.extent.len.get());
        }
        // A write that waits for a flush was one request when it went to the drive.
        if !for_flush || queued.request.op == Op::Flush {
            state.requests.take(now, 1);
        }
        state.estimated += charge.estimate;
        state.charge(now, (charge.estimate + waited).as_ns() as i64);
    }

    /// Corrects the charge of a completed request: to its disk time, less what it has waited for
    /// cached writes that are paid, and more if it is one ([`Destaging`]). `positioning` is the
    /// mean time to reach a random position. A request sent before tracking began was not charged.
    pub(crate) fn done(
        &mut self,
        now: Instant,
        queued: &Queued,
        took: Took,
        charge: Option<Charge>,
        positioning: impl FnOnce() -> Nanos,
    ) {
        if !self.kept {
            return;
        }
        let Took { op, cached, disk_time, transfer, sent, finished, idle } = took;
        let tenant = queued.request.tenant();
        // A cache hit leaves the head at another tenant's position: the way back is still to come.
        let goes_on = cached || self.served_last == Some(tenant);
        if !cached {
            self.served_last = Some(tenant);
        }
        self.destaging.was_idle(idle);
        self.destaging.served(finished);
        // A write at random into the cache says nothing about what a change of tenants costs.
        let mut at_random = false;
        let time = match op {
            _ if charge.is_some_and(|charge| charge.fixed) => disk_time,
            Op::Write if cached => {
                let extent = queued.request.extent;
                let before = self.tenant_mut(now, tenant).next_cached.replace(extent.end());
                at_random = before != Some(extent.start);
                let positioning = if at_random { positioning() } else { Nanos::ZERO };
                self.destaging.wrote(tenant, disk_time, transfer, positioning)
            }
            Op::Flush => self.flushed(now, tenant, sent, disk_time),
            Op::Read | Op::Write | Op::Zero if !self.destaging.paid_ahead().is_zero() => {
                self.destaging.waited(disk_time, positioning() + transfer)
            }
            Op::Read | Op::Write | Op::Zero | Op::Discard => disk_time,
        };
        let state = self.tenant_mut(now, tenant);
        state.disk_time += disk_time;
        state.extends_cached = op == Op::Write && cached && !at_random;
        match op {
            Op::Write if at_random => (),
            Op::Read | Op::Write | Op::Zero if goes_on => state.going_on.note(time),
            Op::Read | Op::Write | Op::Zero => state.returning.note(time),
            Op::Flush => state.flush.note(time),
            Op::Discard => (),
        }
        state.last_held = now;
        let Some(charge) = charge else { return };
        state.at_drive -= 1;
        if !charge.fixed {
            state.charge(now, time.as_ns() as i64 - charge.estimate.as_ns() as i64);
        }
    }

    /// Charges a flush to the other tenants whose writes it has destaged; returns the rest.
    fn flushed(&mut self, now: Instant, tenant: Tenant, sent: Instant, took: Nanos) -> Nanos {
        let mut own = Nanos::ZERO;
        for (writer, part) in self.destaging.flushed(tenant, sent, took) {
            if writer == tenant {
                own += part;
            } else if let Some(state) = self.tenants.iter_mut().find(|it| it.tenant == writer) {
                state.charge(now, part.as_ns() as i64);
            }
        }
        own
    }

    /// The tenants with queued requests; with [`FlushTurns::Count`] also those that wait for a
    /// flush alone.
    pub(crate) fn waiting(&self, flushes: FlushTurns) -> impl Iterator<Item = &TenantState> + '_ {
        self.tenants.iter().filter(move |state| {
            !state.queue.is_empty() || (flushes == FlushTurns::Count && state.flushes > 0)
        })
    }

    /// The number of queued requests of tenants at a limit.
    pub(crate) fn held_back(&self, now: Instant) -> usize {
        self.tenants
            .iter()
            .filter(|state| state.opens() > now)
            .map(|state| state.queue.len() + state.flushes)
            .sum()
    }

    /// The tenants with something queued or at the drive now or within this span.
    pub(crate) fn asking(
        &self,
        now: Instant,
        within: Nanos,
    ) -> impl Iterator<Item = &TenantState> + '_ {
        self.tenants.iter().filter(move |state| {
            !state.queue.is_empty()
                || state.flushes > 0
                || state.at_drive > 0
                || now.saturating_since(state.last_held) < within
        })
    }

    /// The state of [`VolumeId::INTERNAL`] while it has requests: the highest number, so always the
    /// last.
    pub(crate) fn own_waiting(&self) -> Option<&TenantState> {
        self.tenants.last().filter(|state| {
            state.tenant.volume == VolumeId::INTERNAL
                && (!state.queue.is_empty() || state.flushes > 0)
        })
    }

    /// The number of tenants tracked.
    pub(crate) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// The state of one tenant.
    pub(crate) fn tenant(&self, tenant: Tenant) -> Option<&TenantState> {
        let place = self.tenants.binary_search_by_key(&tenant, |state| state.tenant).ok()?;
        Some(&self.tenants[place])
    }

    /// Checks that the tenants' queues contain the requests of the queue.
    ///
    /// # Panics
    /// When they do not: a fault of the scheduler.
    pub(crate) fn self_check(&self, queue: &Queue, flushes: usize, at_drive: usize) {
        if !self.kept {
            return;
        }
        assert!(
            self.tenants.is_sorted_by(|one, other| one.tenant < other.tenant),
            "two tenants of one tenant"
        );
        self.tenants.iter().for_each(|state| state.queue.self_check());
        assert_eq!(
            self.tenants.iter().map(|state| state.queue.len()).sum::<usize>(),
            queue.len(),
            "a state lost or kept a request"
        );
        assert_eq!(
            self.tenants.iter().map(|state| state.flushes).sum::<usize>(),
            flushes,
            "a state lost or kept a flush"
        );
        for queued in queue.by_arrival() {
            let state =
                self.tenant(queued.request.tenant()).expect("a tenant with requests has a state");
            assert_eq!(
                state.queue.get(queued.ticket),
                Some(queued),
                "ticket {} differs between queue and state",
                queued.ticket.0
            );
        }
        assert!(
            self.tenants.iter().map(|state| state.at_drive).sum::<usize>() <= at_drive,
            "more is charged for than is at the drive"
        );
        assert!(self.reserved() <= self.reservable, "more is reserved than there is");
    }

    fn tenant_mut(&mut self, now: Instant, tenant: Tenant) -> &mut TenantState {
        if self.tenants.get(self.last).is_none_or(|state| state.tenant != tenant) {
            self.last = match self.tenants.binary_search_by_key(&tenant, |state| state.tenant) {
                Ok(place) => place,
                Err(_) => {
                    self.tenants.retain(|state| !state.is_forgotten(now));
                    let place = self.tenants.partition_point(|state| state.tenant < tenant);
                    self.tenants.insert(place, TenantState::new(now, tenant));
                    place
                }
            };
        }
        &mut self.tenants[self.last]
    }
}

impl TenantState {
    fn new(now: Instant, tenant: Tenant) -> Self {
        Self {
            tenant,
            terms: None,
            queue: Queue::default(),
            reserve: Bucket::new(now),
            limit: Gate::open(),
            requests: Gate::open(),
            sectors: Gate::open(),
            usage: Usage::new(now),
            disk_time: Nanos::ZERO,
            going_on: Recent::of(GOING_ON),
            returning: Recent::of(RETURNING),
            extends_cached: false,
            estimated: Nanos::ZERO,
            charged_ns: 0,
            at_drive: 0,
            flushes: 0,
            flush: Recent::of(RETURNING),
            flushed_last: false,
            next_lba: None,
            next_cached: None,
            last_held: now,
        }
    }

    /// The tenant.
    pub(crate) fn tenant(&self) -> Tenant {
        self.tenant
    }

    /// Its terms; those of a guest where it has none.
    pub(crate) fn terms(&self) -> Terms {
        self.terms.unwrap_or_default()
    }

    /// Its requests that may go.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The number of its requests at the drive.
    pub(crate) fn at_drive(&self) -> usize {
        self.at_drive
    }

    /// Returns whether it waits for a flush.
    pub(crate) fn wants_flush(&self) -> bool {
        self.flushes > 0
    }

    /// Returns whether a flush goes before its requests: they alternate.
    pub(crate) fn flush_is_next(&self) -> bool {
        self.flushes > 0 && (self.queue.is_empty() || !self.flushed_last)
    }

    /// The recent cost of a flush; at least a nanosecond, so that it counts.
    pub(crate) fn flush_cost(&self) -> Nanos {
        self.flush.mean().max(Nanos::from_ns(1))
    }

    /// The address after its last request.
    pub(crate) fn next_lba(&self) -> Option<Lba> {
        self.next_lba
    }

    /// All that it was charged when requests were sent, and all that it has been charged with
    /// corrections, in nanoseconds.
    pub(crate) fn charged(&self) -> (u64, i64) {
        (self.estimated.as_ns(), self.charged_ns)
    }

    /// The recent share of the drive that it was charged.
    pub(crate) fn recent(&self, now: Instant) -> f64 {
        self.usage.share(now)
    }

    /// The time, in nanoseconds from `now`, at which its reservation has or had enough for a
    /// request of this cost; never for one without a reservation.
    ///
    /// A bucket that cannot hold that much has enough when it is full.
    pub(crate) fn due_in_ns(&self, now: Instant, cost: Nanos) -> i128 {
        let enough = (i128::from(cost.as_ns()) * GRAINS).min(self.reserve.most());
        self.reserve.due_in_ns(now, enough)
    }

    /// The loss by a change of tenants: the additional time of the first request compared with
    /// those after it. Zero unless it takes twice as long, as for random requests.
    pub(crate) fn lost_by_change(&self) -> Nanos {
        let (going_on, returning) = (self.going_on.mean(), self.returning.mean());
        if !going_on.is_zero() && returning >= going_on * 2 {
            returning - going_on
        } else {
            Nanos::ZERO
        }
    }

    /// Returns whether the drive probably takes its next request into its cache at once, and next
    /// to the ones before.
    pub(crate) fn extends_cached(&self) -> bool {
        self.extends_cached
    }

    /// The same of this request.
    pub(crate) fn extends_cached_with(&self, queued: &Queued) -> bool {
        self.extends_cached && self.next_cached == Some(queued.request.extent.start)
    }

    /// The number of its returns to the drive so far, at most [`RETURNING`].
    pub(crate) fn returns(&self) -> u32 {
        self.returning.count()
    }

    /// Returns whether nothing of it is queued, at the drive or waiting for a flush.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.at_drive == 0 && self.flushes == 0
    }

    /// Returns whether anything is reserved for it.
    pub(crate) fn has_reserve(&self) -> bool {
        self.reserve.rate() > 0
    }

    /// Returns the time at which limit and caps let it send: `now` or earlier when they do now.
    pub(crate) fn opens(&self) -> Instant {
        self.limit.opens().max(self.requests.opens()).max(self.sectors.opens())
    }

    fn charge(&mut self, now: Instant, ns: i64) {
        self.charged_ns += ns;
        self.usage.note(now, ns);
        if ns < 0 {
            self.reserve.give_back(now, ns.unsigned_abs());
            self.limit.give_back(now, ns.unsigned_abs());
        } else {
            self.reserve.take(now, ns.unsigned_abs());
            self.limit.take(now, ns.unsigned_abs());
        }
    }

    fn set(&mut self, now: Instant, terms: Option<Terms>) {
        self.terms = terms;
        let Terms { reserve, limit, burst, requests_per_second, sectors_per_second, .. } =
            self.terms();
        let most = i128::from(reserve.as_billionths()) * i128::from(burst.as_ns());
        self.reserve.set(now, u64::from(reserve.as_billionths()), -most, most);
        self.limit.set(
            now,
            (limit < Share::WHOLE).then_some(u64::from(limit.as_billionths())),
            burst,
        );
        self.requests.set(now, requests_per_second.map(u64::from), burst);
        self.sectors.set(now, sectors_per_second, burst);
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        self.terms.is_none()
            && self.queue.is_empty()
            && self.flushes == 0
            && self.at_drive == 0
            && now.saturating_since(self.last_held) > FORGOTTEN
    }

    fn report(&self, now: Instant) -> ShareReport {
        let level_ns = |level: i128| (level / GRAINS) as i64;
        ShareReport {
            tenant: self.tenant,
            terms: self.terms,
            disk_time: self.disk_time,
            recent: self.recent(now),
            reserve_level_ns: level_ns(self.reserve.level(now)),
            limit_level_ns: self.limit.level(now).map(level_ns),
            held_until: Some(self.opens()).filter(|opens| *opens > now),
            waiting: self.queue.len() + self.flushes,
            at_drive: self.at_drive,
        }
    }
}

fn sum(terms: impl Iterator<Item = Terms>) -> Share {
    share_of(terms.map(|terms| u64::from(terms.reserve.as_billionths())).sum())
}

fn difference(from: Share, what: Share) -> Share {
    share_of(u64::from(from.as_billionths().saturating_sub(what.as_billionths())))
}

/// A share of so many billionths; of more than there are, the whole.
fn share_of(billionths: u64) -> Share {
    u32::try_from(billionths).ok().and_then(Share::from_billionths).unwrap_or(Share::WHOLE)
}

#[cfg(test)]
mod tests;
