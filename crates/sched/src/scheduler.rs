//! The scheduler: the mechanism around one policy.
//!
//! Call order: `submit` and `complete` as events occur, then `next` until it no longer returns
//! [`Decision::Dispatch`]; after [`Decision::WaitUntil`] call `next` again at that time or at the
//! next event. `now` never runs back.
//!
//! The scheduler guarantees, whatever the policy chooses (see the invariants in ARCHITECTURE.md):
//! - Each accepted request is finished exactly once, unless it was cancelled.
//! - Of two overlapping requests with a write among them, the later is not sent before the earlier
//!   has completed, and the earlier inherits the deadline of the later while that one waits.
//! - A completed flush covers every write that completed before the flush was submitted. A flush is
//!   sent as soon as the drive takes it, though not right after another flush while other requests
//!   are eligible. One command may serve all waiting flushes. If volumes have terms and the policy
//!   enforces them, a flush is sent when it is its tenant's turn.
//! - A write with force unit access completes only when it is durable: through the drive's own FUA,
//!   or through a flush after it.
//! - The drive never holds more commands than its queue depth, nor more than the caller allows.
//! - A failed command with several requests is sent again in parts, so that an error reaches only
//!   the request it belongs to.
//! - The scheduler's own commands (discards, parts of failed commands) alternate with those of the
//!   policy.
//! - A sector of a scan is read once, fails no request, and is never overwritten before it is
//!   delivered.
//!
//! It guarantees nothing about *when* a request goes: that is decided by the policy.

mod check;
mod complete;
mod decide;
mod dispatch;
mod exchange;
mod feasible;
mod idle;
mod idle_time;
mod inherit;
mod scans;
mod shares;
mod timed;

pub(crate) use decide::{Ahead, Committed, ExpectedStart};

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use self::dispatch::view;
use self::idle_time::IdleTime;
use crate::account::Accounts;
use crate::arms::{ArmStates, LastAccess, MeanResponse};
use crate::command::{Cancelled, Decision, Done, Finished, Outcome, Waits};
use crate::drive::{Commands, DriveTraits, Outstanding, QueueLimits};
use crate::freeblock::Fill;
use crate::ids::Ids;
use crate::overlap::OverlapOrder;
use crate::policies::auto::PolicySwitch;
use crate::policy::Policy;
use crate::positioning::{Belief, Head, Target};
use crate::queue::{Queue, Queued, Ticket};
use crate::request::{Admission, Op, Promise, Refusal, Request, RequestId, StreamId};
use crate::shares::Shares;
use crate::stalls::{StallCounts, StallMeter};
use crate::taken::TakenWrites;
use crate::tunables::{IoPriority, TunableError, Tunables};

/// The maximum number of reads that are known to be in the drive's cache (guess: they go at once).
const CACHED: usize = 64;

/// One drive's scheduler.
pub struct Scheduler {
    belief: Box<dyn Belief + Send>,
    policy: Box<dyn Policy>,
    drive: DriveTraits,
    limits: QueueLimits,
    now: Instant,
    next_ticket: u64,
    next_command: u64,
    tickets: Ids,
    queue: Queue,
    /// Requests that wait for an overlapping earlier one.
    waiting: BTreeMap<Ticket, Queued>,
    overlap: OverlapOrder,
    /// Commands that bypass the policy: parts of failed commands and discards, in order.
    own: VecDeque<Queued>,
    /// True if the last command was a flush, so that another kind goes next.
    flushed_last: bool,
    /// True if the last command other than a flush came from `own`, so that the policy is next.
    own_went_last: bool,
    /// Flushes, and completed writes that become durable only by one.
    flushes: Vec<Queued>,
    outstanding: Commands,
    /// Requests at the drive that were cancelled: they complete unreported.
    cancelled: Vec<Ticket>,
    /// Disk time already charged for requests that continue after a command: parts of failed
    /// commands, writes that wait for a flush.
    charged_before: BTreeMap<Ticket, Nanos>,
    arms: ArmStates,
    /// The last access, and the time of the last completion of any kind.
    last: LastAccess,
    /// The last completion, but for those of writes into the drive's cache.
    arm_until: Instant,
    taken: TakenWrites,
    mean_response: MeanResponse,
    idle_time: IdleTime,
    /// The time in which the drive had no command, up to the last one sent.
    idle: Nanos,
    /// Reads in the queue that the drive's cache probably held when they came, at most
    /// [`CACHED`] of them.
    cached: SmallVec<[Ticket; 8]>,
    accounts: Accounts,
    keeps_predicted: bool,
    /// `None` unless stalls are counted.
    stalls: Option<Box<StallMeter>>,
    shares: Shares,
    tunables: Tunables,
    /// The waits of earlier policies.
    waits_before: Waits,
    /// Completions reported before that of a command sent earlier.
    reordered: u64,
    /// The completion of the last write that no flush has covered, unless it was forced. At the
    /// beginning the drive may hold writes of others.
    unflushed: Option<Instant>,
    /// Background reading; `None` before its first use.
    fill: Option<Box<Fill>>,
}

impl Scheduler {
    /// A scheduler for one drive with nothing queued.
    ///
    /// # Panics
    /// When the drive takes no command at all or the caller allows none.
    #[must_use]
    pub fn new(
        belief: Box<dyn Belief + Send>,
        policy: Box<dyn Policy>,
        drive: DriveTraits,
        limits: QueueLimits,
    ) -> Self {
        assert!(
            drive.queue_depth >= 1 && limits.outstanding != Some(0),
            "a drive holds at least one command"
        );
        let mut policy = policy;
        policy.arms(belief.arms());
        let mut arms = ArmStates::of(belief.arms());
        let mut shares = Shares::new();
        if policy.uses_shares() {
            shares.keep(Instant::ORIGIN, core::iter::empty(), &[]);
            arms.change_shares(Instant::ORIGIN, &[], &[]);
        }
        Self {
            belief,
            policy,
            drive,
            limits,
            now: Instant::ORIGIN,
            next_ticket: 0,
            next_command: 0,
            tickets: Ids::default(),
            queue: Queue::default(),
            waiting: BTreeMap::new(),
            overlap: OverlapOrder::default(),
            own: VecDeque::new(),
            flushed_last: false,
            own_went_last: false,
            flushes: Vec::new(),
            outstanding: Commands::default(),
            cancelled: Vec::new(),
            charged_before: BTreeMap::new(),
            arms,
            last: LastAccess::NONE,
            arm_until: Instant::ORIGIN,
            mean_response: MeanResponse::default(),
            idle_time: IdleTime::default(),
            idle: Nanos::ZERO,
            taken: TakenWrites::default(),
            cached: SmallVec::new(),
            accounts: Accounts::default(),
            keeps_predicted: false,
            stalls: None,
            shares,
            tunables: Tunables::default(),
            waits_before: Waits::default(),
            reordered: 0,
            unflushed: Some(Instant::ORIGIN),
            fill: None,
        }
    }

    /// Submits a request. Its extent lies on the drive, and is empty for a flush and only for it:
    /// the caller checks that.
    ///
    /// # Panics
    /// When `now` is before an earlier call's, here and in `next`, `complete` and `cancel`. In
    /// debug builds, when the extent is not as above.
    pub fn submit(&mut self, now: Instant, request: Request) -> Admission {
        self.submit_as(now, request, self.priority_of(&request))
    }

    /// The priority of a request that has none of its own.
    #[must_use]
    pub fn priority_of(&self, request: &Request) -> IoPriority {
        let terms = self.shares.terms(request.tenant());
        terms.map_or(IoPriority::DEFAULT, |terms| IoPriority::default_of(terms.priority))
    }

    fn submit_as(&mut self, now: Instant, request: Request, priority: IoPriority) -> Admission {
        self.advance(now);
        self.enter(request, priority, None)
            .map_or_else(Admission::Refused, |()| Admission::Accepted)
    }

    /// Takes a request in that arrives now.
    pub(super) fn enter(
        &mut self,
        request: Request,
        priority: IoPriority,
        promise: Option<Promise>,
    ) -> Result<(), Refusal> {
        let now = self.now;
        let changes = request.op.changes_sectors();
        // A read before a write also precedes it in the order of arrival.
        let before = (changes && self.active_fill().is_some()).then_some(Ticket(self.next_ticket));
        let ticket = Ticket(self.next_ticket + u64::from(before.is_some()));
        self.admit(&request, ticket)?;
        self.next_ticket = ticket.0 + 1;
        self.policy.submitted(now, &request);
        let target = if request.op == Op::Flush {
            no_target()
        } else {
            self.belief.target(request.op, request.extent)
        };
        let (deadline, worst) = (None, self.worst_of(&target));
        let queued =
            Queued { ticket, request, submitted: now, target, deadline, priority, promise, worst };
        let queued = Queued { deadline: queued.own_deadline(), ..queued };
        if changes && !self.overlap.is_active() {
            self.activate_order();
        }
        if self.fill.is_some() {
            self.client_request_arrived(&request, before);
        }
        if request.op == Op::Flush {
            self.wait_for_flush(queued);
        } else if self.overlap.enter(ticket, request.extent, request.op) {
            self.make_eligible(queued);
        } else {
            self.waiting.insert(ticket, queued);
            self.pass_deadline_on(&queued);
            self.make_jobs_urgent(ticket);
        }
        Ok(())
    }

    /// Checks a request and registers `ticket` for its id.
    pub(super) fn admit(&mut self, request: &Request, ticket: Ticket) -> Result<(), Refusal> {
        debug_assert!(
            request.extent.len.is_zero() == (request.op == Op::Flush),
            "a {} request of {} is submitted",
            request.op.name(),
            request.extent.len
        );
        debug_assert!(
            request.op == Op::Flush
                || request
                    .extent
                    .checked_end()
                    .is_some_and(|end| end.get() <= self.belief.capacity().get()),
            "{} does not lie on the drive, which has {}",
            request.extent,
            self.belief.capacity()
        );
        if self.tickets.get(request.id).is_some() {
            return Err(Refusal::DuplicateId { id: request.id });
        }
        let held = self.tickets.len();
        if held >= self.limits.requests {
            return Err(Refusal::QueueFull { held });
        }
        self.tickets.insert(request.id, ticket);
        Ok(())
    }

    /// Makes a request eligible that waits for no other: for the policy, or as a command that
    /// bypasses it.
    pub(super) fn make_eligible(&mut self, queued: Queued) {
        if queued.request.op.moves_head() {
            if queued.request.op == Op::Read && view!(self).may_be_cached(queued.request.extent) {
                let queue = &self.queue;
                self.cached.retain(|ticket| queue.get(*ticket).is_some());
                self.cached.truncate(CACHED - 1);
                self.cached.push(queued.ticket);
            }
            self.queue.insert(&queued);
            self.shares.enter(self.now, &queued);
            self.arms.enter(self.now, &queued);
        } else {
            self.own.push_back(queued);
        }
    }

    /// Adds a request that waits for a flush.
    pub(super) fn wait_for_flush(&mut self, queued: Queued) {
        let (now, tenant) = (self.now, queued.request.tenant());
        self.shares.flush_waits(now, tenant);
        self.arms.shares_of_flushes().iter_mut().for_each(|shares| shares.flush_waits(now, tenant));
        self.flushes.push(queued);
    }

    /// Returns whether a write is durable only after a flush.
    pub(super) fn needs_flush(&self, request: &Request) -> bool {
        request.fua && request.op.changes_sectors() && !(self.drive.fua && request.op == Op::Write)
    }

    /// Activates the order of overlapping requests, before a request that changes sectors is
    /// entered. Only reads are held so far.
    pub(super) fn activate_order(&mut self) {
        let at_drive = self
            .outstanding
            .iter()
            .filter(|command| command.target.op != Op::Flush)
            .flat_map(|command| &command.requests);
        let reads = self
            .queue
            .by_arrival()
            .chain(&self.own)
            .chain(at_drive)
            .map(|queued| (queued.ticket, queued.request.extent));
        let jobs = self
            .fill
            .iter()
            .flat_map(|fill| fill.jobs.iter().map(|(ticket, job)| (*ticket, job.extent)));
        self.overlap.activate(reads.chain(jobs));
    }

    /// Makes those requests eligible that waited for `gone` only.
    pub(super) fn free_waiting(&mut self, gone: Ticket) {
        if !self.overlap.is_active() {
            return;
        }
        for ticket in self.overlap.leave(gone) {
            match self.waiting.remove(&ticket) {
                Some(queued) => self.make_eligible(queued),
                None => {
                    let job = self.fill.as_mut().and_then(|fill| fill.jobs.get_mut(&ticket));
                    job.expect("a freed job was waiting").waits = false;
                }
            }
        }
    }

    /// Reports that the process or connection of `stream` has ended, so that no policy waits
    /// for its next request. Requests that it submitted are still served.
    ///
    /// # Panics
    /// As [`Scheduler::submit`].
    pub fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.advance(now);
        self.policy.stream_ended(now, stream);
    }

    /// Cancels a request: removes it from the queue or, if it is at the drive, suppresses its
    /// report.
    ///
    /// A write on the drive that only waits for its flush, and a part of a failed command, have
    /// been at the drive: they leave at once, but the result is [`Cancelled::AtDrive`], because
    /// their effect may show. The id of a request at the drive stays in use until its completion.
    pub fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled {
        self.advance(now);
        let Some(ticket) = self.tickets.get(id) else { return Cancelled::Unknown };
        if self.cancelled.contains(&ticket) {
            return Cancelled::Unknown;
        }
        self.policy.cancelled(id);
        if !self.remove_request(ticket) {
            self.cancelled.push(ticket);
            return Cancelled::AtDrive;
        }
        self.tickets.remove(id);
        if self.charged_before.remove(&ticket).is_some() {
            Cancelled::AtDrive
        } else {
            Cancelled::Removed
        }
    }

    /// Removes a request that is not at the drive from every list; `false` when it is at the drive.
    pub(super) fn remove_request(&mut self, ticket: Ticket) -> bool {
        let same = |queued: &Queued| queued.ticket == ticket;
        if let Some(index) = self.flushes.iter().position(same) {
            let gone = self.flushes.remove(index);
            self.flush_leaves(gone.request.tenant());
            return true;
        }
        let own = self.own.iter().position(same).and_then(|index| self.own.remove(index));
        if own.is_some() || self.take_from_queue(ticket).is_some() {
            self.free_waiting(ticket);
            return true;
        }
        let Some(waited) = self.waiting.remove(&ticket) else { return false };
        let ahead = if waited.deadline.is_some() {
            self.overlap.ahead_of(ticket)
        } else {
            Default::default()
        };
        self.free_waiting(ticket);
        self.withdraw_deadline(&ahead);
        true
    }

    /// Changes the policy at run time; queued requests stay queued, commands at the drive stay
    /// there.
    pub fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.waits_before = self.waits();
        self.policy = policy;
        self.policy.arms(self.belief.arms());
        self.fill.iter_mut().for_each(|fill| fill.ahead.clear());
        self.queue.forget_orders();
        self.shares.forget_orders();
        self.arms.forget_orders();
        self.renew_worst_cases();
        if self.policy.uses_shares() {
            self.keep_shares();
        }
    }

    /// Changes the caller's limits at run time; requests already held stay held.
    ///
    /// # Panics
    /// When no command at all is allowed.
    pub fn set_limits(&mut self, limits: QueueLimits) {
        assert!(limits.outstanding != Some(0), "a drive holds at least one command");
        self.limits = limits;
    }

    /// The caller's limits.
    #[must_use]
    pub fn limits(&self) -> QueueLimits {
        self.limits
    }

    /// As [`Scheduler::submit`], for a request with an I/O priority, which policies see
    /// ([`Queued::priority`]). Without a deadline of its own it gets the deadline of its priority
    /// from the deadline table, counted from now.
    ///
    /// # Panics
    /// As [`Scheduler::submit`].
    pub fn submit_with_priority(
        &mut self,
        now: Instant,
        request: Request,
        priority: IoPriority,
    ) -> Admission {
        self.advance(now);
        let request = self.with_deadline_of(request, priority);
        self.submit_as(now, request, priority)
    }

    /// The request with the deadline of its priority if it has none, counted from now.
    pub(super) fn with_deadline_of(&self, request: Request, priority: IoPriority) -> Request {
        let by_table = || self.tunables.deadlines.within(priority).map(|within| self.now + within);
        Request { deadline: request.deadline.or_else(by_table), ..request }
    }

    /// The settings that may change at run time.
    #[must_use]
    pub fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    /// Changes the tunables; requests already held keep their deadlines.
    pub fn set_tunables(&mut self, tunables: Tunables) {
        self.tunables = tunables;
    }

    /// Changes one tunable, given by name and as text.
    ///
    /// # Errors
    /// See [`Tunables::set`]; nothing is changed then.
    pub fn tune(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.tunables.set(name, value)
    }

    /// The waits for expected requests, of all policies that were at work.
    #[must_use]
    pub fn waits(&self) -> Waits {
        self.waits_before + self.policy.waits()
    }

    /// The name of the policy at work.
    #[must_use]
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// The name of the policy that decides at the moment: with `auto`, the one it has chosen.
    #[must_use]
    pub fn active_policy(&self) -> &'static str {
        self.policy.active()
    }

    /// The last switches of the policy `auto`, the latest last.
    #[must_use]
    pub fn policy_switches(&self) -> &[PolicySwitch] {
        self.policy.switches()
    }

    /// The drive model.
    #[must_use]
    pub fn belief(&self) -> &dyn Belief {
        &*self.belief
    }

    /// The requests a policy may choose from at the moment.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Records the predicted service of each command at its dispatch from now on, which costs one
    /// estimate for each.
    pub fn record_predictions(&mut self) {
        self.keeps_predicted = true;
    }

    /// Counts commands that take much longer than predicted from now on, which records predictions.
    pub fn count_stalls(&mut self) {
        self.record_predictions();
        self.stalls.get_or_insert_default();
    }

    /// The counts of the last ten minutes by arm, up to the last arm that has served a command;
    /// where it is not known which arm serves an address, all count for the first. Empty unless
    /// stalls are counted.
    #[must_use]
    pub fn stalls(&self, now: Instant) -> Vec<StallCounts> {
        self.stalls.as_ref().map(|stalls| stalls.counts(now)).unwrap_or_default()
    }

    /// The commands at the drive, in the order they were sent.
    #[must_use]
    pub fn outstanding(&self) -> &Commands {
        &self.outstanding
    }

    /// Disk time and counts by volume.
    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Requests held: eligible, waiting for others, and at the drive.
    #[must_use]
    pub fn held(&self) -> usize {
        self.tickets.len()
    }

    pub(super) fn advance(&mut self, now: Instant) {
        assert!(now >= self.now, "time ran back from {} to {now}", self.now);
        let passed = now.saturating_since(self.now);
        if self.tickets.is_empty() {
            self.idle_time.idle(passed);
        } else {
            self.idle_time.busy(passed);
        }
        self.now = now;
    }
}

/// The target of a command that has no sectors.
fn no_target() -> Target {
    let Head { place, .. } = Head::UNKNOWN;
    Target {
        op: Op::Flush,
        extent: headtime_units::Extent::default(),
        start: place,
        end: place,
        transfer: Nanos::ZERO,
    }
}
