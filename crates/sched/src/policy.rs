//! The interface of a policy: it sees queue, outstanding commands and head read-only, and returns
//! what to send next.
//!
//! A policy orders no flushes except those that take turns by shares. It never sees a request that
//! must wait for an overlapping earlier one, keeps no counts and measures nothing: the
//! [`Scheduler`](crate::Scheduler) does. One policy is one file in `policies/`, one page in
//! `docs/policies/`, and one line in the [list](crate::POLICIES).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::OnceCell;

use headtime_units::{Extent, Instant, Lba, Nanos};
use smallvec::SmallVec;

use crate::arms::{ArmState, Arms, LastAccess};
use crate::command::{Finished, HoldReason, Waits};
use crate::drive::{Commands, Outstanding};
use crate::policies::auto::PolicySwitch;
use crate::positioning::{
    Estimate, Head, Likely, Overhead, PairCost, Position, Positioning, Target,
};
use crate::queue::{Queue, Queued, Ticket};
use crate::request::{Op, Request, RequestId, StreamId};
use crate::room::OtherArms;
use crate::shares::{Charge, Shares, TenantState};
use crate::tunables::Tunables;

/// The state that a policy may use when it chooses.
pub struct View<'a> {
    /// The time of the decision.
    pub now: Instant,
    /// The eligible requests, in every order that is kept.
    pub queue: &'a Queue,
    /// Commands at the drive, in the order they were sent.
    pub outstanding: &'a Commands,
    /// The maximum number of commands at the drive.
    pub max_outstanding: usize,
    /// The drive model: positions and times.
    pub belief: &'a dyn Positioning,
    /// The mean response time of recent reads and writes that succeeded, in the view of one arm of
    /// its own; zero before the first.
    pub mean_response: Nanos,
    /// The share of the last second or so in which no request was held, 0 to 1; 0 once requests
    /// have been held for half a second without a pause.
    pub idle_share: f64,
    /// The time, so far, in which the drive had no command.
    pub idle: Nanos,
    /// Settings that may change at run time.
    pub tunables: &'a Tunables,
    /// The shares of volumes and classes, and their state.
    pub shares: &'a Shares,
    /// The number of flushes that wait to be sent.
    pub(crate) flushes: usize,
    /// True if a flush has sectors to save: not all writes since the last were forced.
    pub(crate) unflushed: bool,
    /// Requests that the drive's cache may answer, by ticket: those that it held when they came.
    pub(crate) cached: &'a [Ticket],
    /// Each of several arms that are known by address; empty for one arm, and in the view of one.
    pub(crate) arms: &'a [ArmState],
    /// The use that the other arms make of the cache, in the view of one.
    pub(crate) other_arms: OtherArms,
    pub(crate) last: LastAccess,
    pub(crate) head: OnceCell<Head>,
    /// The predicted head of each arm, as `head`.
    pub(crate) arm_heads: OnceCell<Vec<Head>>,
}

impl<'a> View<'a> {
    /// The same view of the requests of one tenant alone.
    pub(crate) fn of(&self, state: &'a TenantState) -> View<'a> {
        let (head, arm_heads) = (self.head.clone(), self.arm_heads.clone());
        View { queue: state.queue(), head, arm_heads, ..*self }
    }

    /// The same view of one of several arms.
    pub(crate) fn of_arm(&self, arm: usize) -> View<'a> {
        let ArmState { queue, commands, last, shares, mean_response, .. } = &self.arms[arm];
        View {
            queue,
            outstanding: commands,
            shares,
            last: *last,
            mean_response: mean_response.get(),
            head: OnceCell::new(),
            arm_heads: OnceCell::new(),
            arms: &[],
            other_arms: OtherArms::of(self, arm),
            ..*self
        }
    }

    /// The read in the queue that the drive's cache probably answers without the arm, the oldest of
    /// several. One that continues the last access is none: it goes with its run.
    pub(crate) fn probable_hit(&self) -> Option<&'a Queued> {
        let mut held = self.cached.iter().filter_map(|ticket| self.queue.get(*ticket));
        held.find(|queued| self.is_probable_hit(queued.request.extent))
    }
}

impl View<'_> {
    /// Returns whether no two arms of the drive have addresses of their own.
    pub(crate) fn has_one_arm(&self) -> bool {
        self.belief.arms().in_blocks(self.belief.capacity()) <= 1
    }

    /// Returns whether this is a view of several arms with alternate stripes.
    pub(crate) fn is_striped(&self) -> bool {
        !self.arms.is_empty() && self.has_one_arm()
    }

    /// The number of arms that serve the requests of this view.
    pub(crate) fn arm_count(&self) -> usize {
        let arms = self.belief.arms();
        let of_one = self.arms.is_empty() && arms.arm_of(Lba::new(0)).is_some();
        if of_one { 1 } else { arms.count() }
    }

    /// Returns whether the drive can take a flush: no other flush is at the drive.
    pub(crate) fn flush_may_go(&self) -> bool {
        !self.outstanding.iter().any(|command| command.target.op == Op::Flush)
    }

    /// The predicted head after everything outstanding that moves it now, most likely; computed on
    /// first use.
    pub fn head(&self) -> &Head {
        self.head.get_or_init(|| {
            let mut moving = self.moving().filter(|command| !command.probably_taken);
            let Some(first) = moving.next() else { return self.last.head };
            let mut head = self.after(&self.last.head, first);
            head.free_at += self.overdue(first, head.free_at);
            moving.fold(head, |head, command| self.after(&head, command))
        })
    }

    /// The position after the last command sent: as [`View::head`], but without computing times.
    #[must_use]
    pub fn head_position(&self) -> Position {
        self.moving().next_back().map_or(self.last.head.place, |command| command.target.end)
    }

    /// The first address after the last command sent: as [`View::head`], but without computing
    /// times.
    #[must_use]
    pub fn next_lba(&self) -> Lba {
        self.moving()
            .next_back()
            .map_or(self.last.head.next_lba, |command| command.target.extent.end())
    }

    /// The latest time at which everything outstanding is done, by the sum of the worst cases; now,
    /// while nothing is.
    ///
    /// The drive has worked on one of the commands since the last completion, or since the oldest
    /// command ended its idleness. That time is subtracted; what is left is never negative (P4,
    /// `estimate_outstanding`; here an absolute time, because deadlines are).
    #[must_use]
    pub fn outstanding_until(&self) -> Instant {
        let Some(oldest) = self.outstanding.front() else { return self.now };
        let since = self.last.finished.max(oldest.dispatched);
        (since + self.outstanding.worst()).max(self.now)
    }

    /// The cost of sending `queued` now.
    pub fn estimate(&self, queued: &Queued) -> Estimate {
        if self.arms.is_empty() {
            return self.belief.estimate(self.head(), self.now, &queued.target);
        }
        self.estimate_of_arm(&queued.target)
    }

    /// The estimate from the head of the arm that serves `target`, with the time for which that arm
    /// is busy, so that of requests on several arms one on an idle arm is cheaper.
    #[cold]
    fn estimate_of_arm(&self, target: &Target) -> Estimate {
        let heads = self.arm_heads.get_or_init(|| {
            let arms = 0..self.arms.len();
            arms.map(|arm| *self.of_arm(arm).head()).collect()
        });
        let arm = self.belief.arms().arm_of(target.extent.start);
        let head = arm.and_then(|arm| heads.get(arm)).unwrap_or(self.head());
        let estimate = self.belief.estimate(head, self.now, target);
        let wait = head.free_at.saturating_since(self.now);
        Estimate { expected: estimate.expected + wait, ..estimate }
    }

    /// The most likely part of the cost of sending `queued` now.
    pub fn likely(&self, queued: &Queued) -> Likely {
        self.belief.likely(self.head(), self.now, &queued.target)
    }

    /// The earliest time at which the drive could begin another command: time before it is not
    /// charged to a request.
    pub fn ready_at(&self) -> Instant {
        self.now.max(self.head().free_at)
    }

    /// The cost of serving `target` next, counted from [`View::ready_at`] to its end.
    pub fn next(&self, target: &Target) -> PairCost {
        let estimate = self.belief.estimate(self.head(), self.now, target);
        let lost = estimate.depart.saturating_since(self.ready_at()) + estimate.transfer;
        let known = self.belief.known(self.head(), self.now, target);
        PairCost { expected: lost + estimate.expected, worst: lost + estimate.worst, known }
    }

    /// The cost of serving `to` straight after `from`, with its overhead overlapped if the drive
    /// holds a command now.
    #[must_use]
    pub fn pair(&self, from: &Target, to: &Target) -> PairCost {
        self.belief.pair(from, to, self.now, self.overhead())
    }

    /// [`View::pair`] of `hub` and each of `others`, and of each of them and `hub`, in their order.
    pub fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        each: &mut dyn FnMut(PairCost, PairCost),
    ) {
        self.belief.pairs(hub, others, self.now, self.overhead(), each);
    }

    fn overhead(&self) -> Overhead {
        if self.outstanding.is_empty() { Overhead::Exposed } else { Overhead::Overlapped }
    }

    /// Returns whether the drive's cache probably answers a read of `extent` that is sent now, and
    /// that does not continue the last access.
    pub(crate) fn is_probable_hit(&self, extent: Extent) -> bool {
        extent.start != self.next_lba() && self.may_be_cached(extent)
    }

    /// Returns whether the drive's cache probably holds `extent`.
    pub(crate) fn may_be_cached(&self, extent: Extent) -> bool {
        let needs_arm = self.moving().next().map_or(self.now, |command| command.dispatched);
        self.belief.probably_cached(extent, needs_arm)
    }

    /// The outstanding commands that move the head.
    pub(crate) fn moving(&self) -> impl DoubleEndedIterator<Item = &Outstanding> {
        let moves =
            |command: &&Outstanding| command.target.op.moves_head() && !command.probably_cached;
        self.outstanding.iter().filter(moves)
    }

    fn after(&self, head: &Head, command: &Outstanding) -> Head {
        let Likely { depart, positioning } =
            self.belief.likely(head, command.dispatched, &command.target);
        Head::after(&command.target, depart + positioning + command.target.transfer)
    }

    /// Whole revolutions by which the command in service must be late, because its report is
    /// overdue.
    ///
    /// A report that is an eighth of a revolution overdue is more likely a sector just missed than
    /// a slow report; with less the prediction stands. Whole revolutions leave the angles between
    /// the end of this command and the candidates unchanged.
    fn overdue(&self, in_service: &Outstanding, expected_end: Instant) -> Nanos {
        let revolution = self.belief.revolution();
        let late =
            self.belief.media_end(&in_service.target, self.now).saturating_since(expected_end);
        if revolution.is_zero() || late < revolution / 8 {
            return Nanos::ZERO;
        }
        revolution.saturating_mul(late.as_ns().div_ceil(revolution.as_ns()))
    }
}

/// The choice of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send these as one command. Several must be of one operation and abut or overlap, so that
    /// together they are one run of sectors.
    Send(SmallVec<[Ticket; 1]>),
    /// Send a flush, for all requests that wait for one. Only valid for a policy that [enforces
    /// limits](Policy::enforces_limits), while a tenant has terms, no flush is at the drive, and a
    /// request waits for one.
    Flush,
    /// Let the drive wait until `until`, or until something happens.
    Hold {
        /// The time of the next decision; at the earliest a nanosecond from now, so that time
        /// advances.
        until: Instant,
        /// The reason.
        reason: HoldReason,
    },
    /// Send nothing. With eligible requests and nothing outstanding this is a fault, because no
    /// event would cause another decision; the contract tests detect it.
    Nothing,
}

impl Choice {
    /// Send one request as a command of its own, or nothing without one.
    #[must_use]
    pub fn one(ticket: Option<Ticket>) -> Self {
        ticket.map_or(Self::Nothing, |ticket| Self::Send(SmallVec::from_buf([ticket])))
    }
}

/// A scheduling policy.
pub trait Policy: Send {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// The name of the policy that decides at the moment: another one where this one chooses.
    fn active(&self) -> &'static str {
        self.name()
    }

    /// The last switches between policies, the latest last; none where this policy does not switch.
    fn switches(&self) -> &[PolicySwitch] {
        &[]
    }

    /// The number of commands the drive should hold now, at least 1; the scheduler bounds it by the
    /// drive's queue depth. It also bounds the scheduler's own commands (discards and parts of
    /// failed commands), so it is used even when no request is eligible.
    fn depth(&self, view: &View<'_>) -> usize;

    /// The next command. Called only while the drive holds fewer commands of clients than
    /// [`Policy::depth`] and at least one request, or a flush that takes turns, is eligible. The
    /// choice may be sent a little later, or not at all if another event comes first; then the
    /// policy chooses again.
    fn choose(&mut self, view: &View<'_>) -> Choice;

    /// Returns whether a write is to be sent with force unit access although it need not be
    /// durable, so that the drive writes it to the medium now instead of another from its cache.
    /// Called only where the drive has a write cache and honors force unit access.
    fn forces(&self, view: &View<'_>, write: &Request) -> bool {
        let _ = (view, write);
        false
    }

    /// Returns whether the policy uses shares, so that they are tracked even while no tenant has
    /// terms.
    fn uses_shares(&self) -> bool {
        false
    }

    /// Returns whether the policy enforces terms where a tenant has some: then it holds back
    /// tenants at a limit and decides when a flush goes ([`Choice::Flush`]). Otherwise flushes go
    /// at once.
    fn enforces_limits(&self) -> bool {
        self.uses_shares()
    }

    /// The initial charge of `queued` at dispatch, until its measured time is known. Called only
    /// while shares are tracked.
    fn charge(&mut self, view: &View<'_>, queued: &Queued) -> Charge {
        Charge { estimate: view.next(&queued.target).expected, ..Charge::default() }
    }

    /// The worst-case service time of `target` alone at the drive, if the policy guarantees
    /// deadlines by a chain of submission deadlines; the scheduler then keeps it with each request
    /// and each command ([`Queued::worst`], [`Outstanding::worst`]).
    fn worst_service(
        &self,
        belief: &dyn Positioning,
        now: Instant,
        target: &Target,
    ) -> Option<Nanos> {
        let _ = (belief, now, target);
        None
    }

    /// Returns whether the policy decides for each arm by itself at the moment, so that a deadline
    /// depends on the requests of its arm alone.
    fn decides_by_arm(&self, view: &View<'_>) -> bool {
        let _ = view;
        false
    }

    /// Returns whether one instance of the policy is to decide for all arms at the moment, where
    /// others could decide for each.
    fn needs_all_arms(&self, view: &View<'_>) -> bool {
        let _ = view;
        false
    }

    /// The instance that decides for an arm, where the policy [decides for each by
    /// itself](Policy::decides_by_arm).
    fn of_arm(&mut self, arm: usize) -> Option<&mut Box<dyn Policy>> {
        let _ = arm;
        None
    }

    /// The policy decides for a drive with these arms from now on.
    fn arms(&mut self, arms: Arms) {
        let _ = arms;
    }

    /// Another drive model is in use from now on: positions and times that the policy has stored
    /// are no longer valid.
    fn belief_changed(&mut self) {}

    /// A read, write, zeroing, discard or flush was accepted at `now`; for policies with
    /// statistics, as are `cancelled`,
    /// `stream_ended` and `finished`. It may have to wait for another before it is eligible.
    fn submitted(&mut self, now: Instant, request: &Request) {
        let _ = (now, request);
    }

    /// A request was cancelled: it will not be reported.
    fn cancelled(&mut self, id: RequestId) {
        let _ = id;
    }

    /// The waits for expected requests so far.
    fn waits(&self) -> Waits {
        Waits::default()
    }

    /// The process or connection of `stream` has ended: no request of it will follow.
    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        let _ = (now, stream);
    }

    /// A request has finished.
    fn finished(&mut self, finished: &Finished) {
        let _ = finished;
    }
}
