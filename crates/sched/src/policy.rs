//! What a policy is: it sees queue, outstanding commands and head read-only, and answers what to
//! send next.
//!
//! A policy orders no flushes but those that have turns by shares, never sees a request that must
//! wait for an overlapping earlier one, never counts, never measures: that is the
//! [`Scheduler`](crate::Scheduler)'s. One policy = one file in `policies/`, one page in
//! `docs/policies/`, one line in the [table](crate::POLICIES).

use core::cell::OnceCell;

use headtime_units::{Instant, Lba, Nanos};
use smallvec::SmallVec;

use crate::command::{Finished, HoldReason};
use crate::drive::Outstanding;
use crate::positioning::{
    Estimate, Head, Likely, Overhead, PairCost, Position, Positioning, Target,
};
use crate::queue::{Queue, Queued, Ticket};
use crate::request::Op;
use crate::shares::{Charge, Shares, TenantState};
use crate::tunables::Tunables;

/// What a policy may look at when it chooses.
pub struct View<'a> {
    /// The time of the decision.
    pub now: Instant,
    /// The requests that may go now, in every order that is kept.
    pub queue: &'a Queue,
    /// Commands at the drive, in the order they were sent.
    pub outstanding: &'a [Outstanding],
    /// Places and times as they are believed to be.
    pub belief: &'a dyn Positioning,
    /// The mean response time of recent reads and writes that succeeded; zero before the first.
    pub mean_response: Nanos,
    /// What may be changed while running.
    pub tunables: &'a Tunables,
    /// What volumes and classes are promised, and where they stand.
    pub shares: &'a Shares,
    pub(crate) last_head: Head,
    pub(crate) head: OnceCell<Head>,
}

impl<'a> View<'a> {
    /// The same view of one tenant's requests alone.
    pub(crate) fn of(&self, line: &'a TenantState) -> View<'a> {
        View { queue: line.queue(), head: self.head.clone(), ..*self }
    }
}

impl View<'_> {
    /// Whether a flush may be sent as far as the drive is concerned: none is there.
    pub(crate) fn flush_may_go(&self) -> bool {
        !self.outstanding.iter().any(|command| command.target.op == Op::Flush)
    }

    /// Where the head will be when everything outstanding is done, most likely; computed on first
    /// use.
    pub fn head(&self) -> &Head {
        self.head.get_or_init(|| {
            let mut moving = self.moving();
            let Some(first) = moving.next() else { return self.last_head };
            let mut head = self.after(&self.last_head, first);
            head.free_at += self.overdue(first, head.free_at);
            moving.fold(head, |head, command| self.after(&head, command))
        })
    }

    /// Where the last command sent leaves the head: as [`View::head`] says, but without asking the
    /// belief for times.
    #[must_use]
    pub fn head_position(&self) -> Position {
        self.moving().next_back().map_or(self.last_head.place, |command| command.target.end)
    }

    /// The first address after the last command sent: as [`View::head`] says, but without asking
    /// the belief for times.
    #[must_use]
    pub fn next_lba(&self) -> Lba {
        self.moving()
            .next_back()
            .map_or(self.last_head.next_lba, |command| command.target.extent.end())
    }

    /// What sending `queued` now would cost.
    pub fn estimate(&self, queued: &Queued) -> Estimate {
        self.belief.estimate(self.head(), self.now, &queued.target)
    }

    /// The most likely part of what sending `queued` now would cost.
    pub fn likely(&self, queued: &Queued) -> Likely {
        self.belief.likely(self.head(), self.now, &queued.target)
    }

    /// When the drive could turn to another command at the earliest: nothing before can be blamed
    /// on a request.
    pub fn ready_at(&self) -> Instant {
        self.now.max(self.head().free_at)
    }

    /// What serving `target` next takes, counted from [`View::ready_at`] to its end.
    pub fn next(&self, target: &Target) -> PairCost {
        let estimate = self.belief.estimate(self.head(), self.now, target);
        let lost = estimate.depart.saturating_since(self.ready_at()) + estimate.transfer;
        let known = self.belief.known(self.head(), self.now, target);
        PairCost { expected: lost + estimate.expected, worst: lost + estimate.worst, known }
    }

    /// What serving `to` straight after `from` takes, once that is served: with its overhead hidden
    /// where the drive holds something now.
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

    fn moving(&self) -> impl DoubleEndedIterator<Item = &Outstanding> {
        self.outstanding.iter().filter(|command| command.target.op.moves_head())
    }

    fn after(&self, head: &Head, command: &Outstanding) -> Head {
        let Likely { depart, positioning } =
            self.belief.likely(head, command.dispatched, &command.target);
        Head::after(&command.target, depart + positioning + command.target.transfer)
    }

    /// Whole revolutions by which the command in service must be late, because it should have been
    /// reported by now.
    ///
    /// A report that is an eighth of a revolution overdue is more likely a sector just missed than
    /// a slow report; with fewer than that the prediction stands. Whole revolutions leave the
    /// angles between this command's end and the candidates as they are.
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

/// A policy's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Send these as one command. Several must be of one operation and abut or overlap, so that
    /// together they are one run of sectors.
    Send(SmallVec<[Ticket; 1]>),
    /// Send a flush, for everybody who waits for one. Only of a policy that [keeps
    /// limits](Policy::enforces_limits), where anybody has terms, none is at the drive, and somebody
    /// waits.
    Flush,
    /// Let the drive wait until `until`, or until something happens.
    Hold {
        /// When to ask again; at the earliest a nanosecond from now, so that time goes on.
        until: Instant,
        /// Why.
        reason: HoldReason,
    },
    /// Send nothing. With requests eligible and nothing outstanding this is a fault (nobody would
    /// ask again), and the contract tests say so.
    Nothing,
}

impl Choice {
    /// Send one request as a command of its own, or nothing when there is none.
    #[must_use]
    pub fn one(ticket: Option<Ticket>) -> Self {
        ticket.map_or(Self::Nothing, |ticket| Self::Send(SmallVec::from_buf([ticket])))
    }
}

/// A scheduling policy.
pub trait Policy: Send {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// How many commands the drive should hold now, at least 1; the scheduler bounds it by what the
    /// drive takes. Also asked when no request may go, because it bounds what the scheduler sends
    /// on its own account: discards and the parts of failed commands.
    fn depth(&self, view: &View<'_>) -> usize;

    /// What to send next. Asked only when the drive holds fewer commands of clients than
    /// [`Policy::depth`] and at least one request, or a flush that has turns, may go. What is
    /// chosen may be sent a little later, or not at all where something comes in between: then it
    /// is asked again.
    fn choose(&mut self, view: &View<'_>) -> Choice;

    /// Whether it goes by the books of shares, so that they are kept though nobody has terms.
    fn uses_shares(&self) -> bool {
        false
    }

    /// Whether it goes by terms where anybody has some: then it holds back who is at a limit, and
    /// says when it is a flush's turn ([`Choice::Flush`]). Else flushes go at once.
    fn enforces_limits(&self) -> bool {
        self.uses_shares()
    }

    /// What `queued` is charged when it is sent, until it is known what it took. Asked only while
    /// books of shares are kept.
    fn charge(&self, view: &View<'_>, queued: &Queued) -> Charge {
        Charge { estimate: view.next(&queued.target).expected, fixed: false }
    }

    /// Another belief is at work from now on: places and times of the one before, where a policy
    /// has kept any, mean nothing any more.
    fn belief_changed(&mut self) {}

    /// A request is over; for policies that keep statistics.
    fn finished(&mut self, finished: &Finished) {
        let _ = finished;
    }
}
