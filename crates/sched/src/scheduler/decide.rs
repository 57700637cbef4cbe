//! The next decision: [`Scheduler::next`].
//!
//! A decision takes these steps, all in this file unless a step names another:
//! 1. flushes go first, except where they take turns by shares ([`Scheduler::next`]);
//! 2. the scheduler's own commands (discards, parts of failed commands, urgent background jobs)
//!    alternate with the choices of the policy ([`Scheduler::next_request`]);
//! 3. the policy chooses a request B (`policies/`);
//! 4. while a scan runs, the gap before B is searched (`freeblock/search.rs`);
//! 5. the command is dispatched (`dispatch.rs`).
//!
//! # Beside a scan
//!
//! A piece found in the gap is sent at once as a command of its own, and B is *committed*: it goes
//! next, as a second command after it, also where the policy would have one at a time. Before B
//! goes the rest of the gap is searched again. Sectors right before B on its track are read with B
//! as one command. B stays in the queue until it is sent, so that it can be cancelled. Anything
//! that comes in between (a flush, another policy) only ends the commitment: the policy chooses
//! again.
//!
//! A fill occupies a place at the drive. The request after B is chosen at the moment at which it
//! would be chosen without scans, and sent when there is room ([`Scheduler::choose_ahead`]).
//! Otherwise each choice beside a scan would be made later and among more requests: the mean
//! response would fall and the longest would grow (measured on an Atlas 10K under transactions,
//! sptf-sw: −1.7 % and +4.9 % of p99).
//!
//! A gap exists only between two known positions at two known times. A write that the drive takes
//! into its cache has neither: no gap before it is filled, and none after it until the head has
//! been seen again.
//!
//! The start of each request chosen while scans have pending sectors is *predicted*: the time at
//! which its media access would begin without a fill. It is computed again from the measured end of
//! the command before it. The delay against it is the cost of the fill (`freeblock/governor.rs`).

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use super::dispatch::view;
use super::{Decision, Op, Queued, Scheduler, Target, Ticket};
use crate::background::{FillSource, UnusedGap};
use crate::command::{Command, CommandId, HoldReason};
use crate::freeblock::{Fill, Gap, GapUse, Piece, Rules, hull, search};
use crate::policy::Choice;

/// The maximum number of commands that fill one gap.
const PIECES: u8 = 4;

/// With more commands at the drive than this their order is unknown, and so is the gap.
const DEPTH: usize = 2;

/// The fraction of the arm's margin kept between two commands on one track, where only the start of
/// a command is uncertain (guess).
const FOLLOW: u64 = 8;

/// The same where firmware is imitated: less than a sector, more than rounding.
const FIRMWARE_FOLLOW: Nanos = Nanos::from_us(2);

/// A gap is left alone if the request after it is a revolution early with a chance of more than one
/// in so many (measured on a simulated 20 TB drive: with none, clients lose 3 times as much).
const EARLY: u64 = 100;

/// While the drive is idle and waits for a command, the search effort is divided by this.
const HASTE: u32 = 4;

/// A request that goes next, after the command that fills the gap before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) ticket: Ticket,
    /// The command that was sent last for the gap.
    pub(crate) last: CommandId,
    /// The number of commands sent for the gap.
    pub(crate) pieces: u8,
}

/// A choice of the policy made while a fill occupied the drive's place for it.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    pub(crate) tickets: SmallVec<[Ticket; 1]>,
    pub(crate) chosen: Instant,
    /// The command that goes next: with any other sent in between, the policy chooses again.
    pub(crate) next: CommandId,
}

/// A request and when it would be served without a fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedStart {
    pub(crate) ticket: Ticket,
    pub(crate) target: Target,
    /// The time at which the policy chose it, which is when it would have been sent.
    pub(crate) chosen: Instant,
    /// The command before it, as long as that is at the drive.
    pub(crate) before: Option<CommandId>,
    /// The time at which its first sector would come by.
    pub(crate) begin: Instant,
    /// The use of the gap before it; `None` if there was nothing to read in it.
    pub(crate) used: Option<GapUse>,
}

/// The command to send for a chosen request.
enum Filled {
    /// A command of its own before the request.
    Before(Extent),
    /// The request, with this right before it as one command.
    With(Extent),
    /// The request as it is.
    Not,
}

impl Scheduler {
    /// The next step.
    pub fn next(&mut self, now: Instant) -> Decision {
        self.advance(now);
        if let Some(step) = self.next_timed() {
            return step;
        }
        if self.outstanding.len() >= self.max_outstanding() {
            let _ = self.choose_ahead();
            return Decision::Idle;
        }
        if !self.flush_may_go() || self.flushes_have_turns() {
            return self.next_request();
        }
        if !self.flushed_last {
            return Decision::Dispatch(self.send_flush());
        }
        match self.next_request() {
            Decision::Idle | Decision::WaitUntil { .. } => Decision::Dispatch(self.send_flush()),
            decision @ Decision::Dispatch(_) => decision,
        }
    }

    /// The next step apart from flushes that go at once.
    pub(super) fn next_request(&mut self) -> Decision {
        if self.active_fill().is_some() {
            return self.next_beside_scans();
        }
        let any = self.any_for_policy();
        if !any && self.own.is_empty() {
            return Decision::Idle;
        }
        let view = view!(self);
        let depth = self.limits.outstanding.unwrap_or_else(|| self.policy.depth(&view).max(1));
        if self.outstanding.len() >= depth {
            return Decision::Idle;
        }
        let own_turn = !self.own.is_empty() && (!any || !self.own_went_last);
        match if own_turn { Choice::Nothing } else { self.policy.choose(&view) } {
            Choice::Send(tickets) => Decision::Dispatch(self.send_chosen(&tickets)),
            Choice::Flush => Decision::Dispatch(self.send_chosen_flush()),
            // Held requests do not block the scheduler's own commands.
            Choice::Hold { .. } | Choice::Nothing if !self.own.is_empty() => {
                Decision::Dispatch(self.send_own())
            }
            Choice::Hold { until, reason } => {
                Decision::WaitUntil { at: until.max(self.now + Nanos::from_ns(1)), reason }
            }
            Choice::Nothing => Decision::Idle,
        }
    }

    /// Returns whether there is anything for the policy to decide.
    pub(super) fn any_for_policy(&self) -> bool {
        !self.queue.is_empty() || (self.flush_may_go() && self.flushes_have_turns())
    }

    /// Returns whether flushes take turns as requests do: with a policy that enforces limits, while
    /// a tenant has terms. Otherwise they go at once.
    pub(super) fn flushes_have_turns(&self) -> bool {
        !self.flushes.is_empty() && self.policy.enforces_limits() && self.shares.any_terms()
    }

    /// Returns whether a flush may go now as far as the drive is concerned: one at a time, because
    /// two at once promise nothing more.
    pub(super) fn flush_may_go(&self) -> bool {
        !self.flushes.is_empty()
            && !self.outstanding.iter().any(|command| command.target.op == Op::Flush)
    }

    /// The maximum number of commands at the drive.
    pub(super) fn max_outstanding(&self) -> usize {
        self.drive.queue_depth.min(self.limits.outstanding.unwrap_or(usize::MAX))
    }

    /// As [`Scheduler::next_request`], with scans.
    pub(super) fn next_beside_scans(&mut self) -> Decision {
        let allowed = self.max_outstanding();
        if let Some(committed) = self.still_committed() {
            return self.step_committed(committed);
        }
        let urgent = self.fill.as_ref().and_then(|fill| fill.urgent());
        let own_any = !self.own.is_empty() || urgent.is_some();
        let any = self.any_for_policy();
        if !any && !own_any {
            return self.next_when_idle(allowed);
        }
        let view = view!(self);
        let depth = self.limits.outstanding.unwrap_or_else(|| self.policy.depth(&view).max(1));
        if self.outstanding.len() >= depth {
            return self
                .choose_ahead()
                .map_or(Decision::Idle, |until| self.next_while_held_back(until, allowed));
        }
        let share = if own_any || self.own_went_last { None } else { self.send_share() };
        if let Some(command) = share {
            self.own_went_last = true;
            return Decision::Dispatch(command);
        }
        let own_turn = own_any && (!any || !self.own_went_last);
        let (choice, chosen) =
            if own_turn { (Choice::Nothing, self.now) } else { self.choose_beside_scans() };
        match choice {
            Choice::Send(tickets) => Decision::Dispatch(match tickets.as_slice() {
                [ticket] if depth <= DEPTH && self.outstanding.len() < DEPTH => {
                    self.send_with_fill(*ticket, chosen, allowed)
                }
                _ => {
                    self.note_unused(UnusedGap::Policy);
                    self.send_chosen(&tickets)
                }
            }),
            Choice::Flush => Decision::Dispatch(self.send_chosen_flush()),
            Choice::Hold { .. } | Choice::Nothing if own_any => Decision::Dispatch(match urgent {
                Some(urgent) if self.own.front().is_none_or(|queued| urgent < queued.ticket) => {
                    self.own_went_last = true;
                    self.send_urgent(urgent)
                }
                _ => self.send_own(),
            }),
            Choice::Hold { until, reason: HoldReason::Throttled } => {
                self.next_while_held_back(until, allowed)
            }
            Choice::Hold { until, reason } => {
                Decision::WaitUntil { at: until.max(self.now + Nanos::from_ns(1)), reason }
            }
            Choice::Nothing => Decision::Idle,
        }
    }

    /// Lets the policy choose what it would send now if a fill did not occupy its place at the
    /// drive. Returns until when all queued requests are throttled, if they are.
    pub(super) fn choose_ahead(&mut self) -> Option<Instant> {
        if self.active_fill().is_none() || self.queue.is_empty() {
            return None;
        }
        let depth =
            self.limits.outstanding.unwrap_or_else(|| self.policy.depth(&view!(self)).max(1));
        let of_clients =
            self.outstanding.iter().filter(|command| !command.requests.is_empty()).count();
        let next = CommandId(self.next_command);
        let is_chosen = |fill: &Fill| {
            fill.committed.is_some() || fill.ahead.as_ref().is_some_and(|ahead| ahead.next == next)
        };
        if depth > DEPTH || of_clients >= depth || self.fill.as_deref().is_some_and(is_chosen) {
            return None;
        }
        match self.policy.choose(&view!(self)) {
            Choice::Send(tickets) => {
                self.fill.as_mut().expect("a scan is at work").ahead =
                    Some(Ahead { tickets, chosen: self.now, next })
            }
            Choice::Hold { until, reason: HoldReason::Throttled } => return Some(until),
            Choice::Hold { .. } | Choice::Flush | Choice::Nothing => (),
        }
        None
    }

    /// The next choice of the policy, and the time of the choice.
    fn choose_beside_scans(&mut self) -> (Choice, Instant) {
        let next = CommandId(self.next_command);
        let ahead = self.fill.as_mut().and_then(|fill| fill.ahead.take());
        match ahead.filter(|ahead| {
            ahead.next == next
                && ahead.tickets.iter().all(|ticket| self.queue.get(*ticket).is_some())
        }) {
            Some(ahead) => (Choice::Send(ahead.tickets), ahead.chosen),
            None => (self.policy.choose(&view!(self)), self.now),
        }
    }

    /// The commitment, if it is still valid: the request is queued, and only commands that fill its
    /// gap were sent since.
    fn still_committed(&mut self) -> Option<Committed> {
        let fill = self.fill.as_mut()?;
        let committed = fill.committed?;
        if self.queue.get(committed.ticket).is_some() && self.next_command == committed.last.0 + 1 {
            return Some(committed);
        }
        fill.committed = None;
        fill.predicted.retain(|predicted| predicted.ticket != committed.ticket);
        None
    }

    /// Advances a commitment: the request goes as soon as the drive has room for it, unless the gap
    /// has room for another piece.
    fn step_committed(&mut self, committed: Committed) -> Decision {
        if self.outstanding.len() >= DEPTH {
            return Decision::Idle;
        }
        let filled = if committed.pieces < PIECES {
            self.fill_gap(committed.ticket, true)
        } else {
            Filled::Not
        };
        Decision::Dispatch(self.send_filled(committed.ticket, filled, committed.pieces))
    }

    /// Sends a request that the policy chose, or a command that fills the gap before it.
    fn send_with_fill(&mut self, ticket: Ticket, chosen: Instant, allowed: usize) -> Command {
        let held = self.tickets.len();
        let fill = self.fill.as_ref().expect("a scan is at work");
        let pending = fill.scans.has_pending() && held >= fill.settings.waiting_needed;
        // Dispatch reports an invalid choice of the policy.
        let Some(queued) = self.queue.get(ticket).filter(|_| pending) else {
            return self.send_chosen(&[ticket]);
        };
        if !self.has_gap_before(queued) {
            self.note_unused(UnusedGap::Position);
            return self.send_chosen(&[ticket]);
        }
        let view = view!(self);
        let estimate = view.belief.estimate(view.head(), chosen, &queued.target);
        let predicted = ExpectedStart {
            ticket,
            target: queued.target,
            chosen,
            before: self.outstanding.back().map(|command| command.command),
            begin: estimate.depart + estimate.positioning,
            used: None,
        };
        // A fill takes away the chance that the arm is early and catches the sector a revolution
        // before.
        let chance = estimate.positioning.saturating_sub(estimate.expected);
        let early = chance * EARLY > view.belief.revolution();
        let fill = self.fill.as_mut().expect("a scan is at work");
        fill.report.gaps += 1;
        fill.predict(predicted);
        let mut filled = if early { Filled::Not } else { self.fill_gap(ticket, allowed >= DEPTH) };
        let fill = self.fill.as_mut().expect("a scan is at work");
        if matches!(filled, Filled::Not) {
            self.note_unused(if early { UnusedGap::Early } else { UnusedGap::NothingFits });
        } else if fill.governor.next_use(fill.settings.controls) == GapUse::Control {
            let allowed = fill.governor.may_fill();
            fill.mark(ticket, GapUse::Control);
            filled = Filled::Not;
            self.note_unused(if allowed { UnusedGap::Control } else { UnusedGap::Bound });
        }
        self.send_filled(ticket, filled, 0)
    }

    /// Counts a gap that stays unused while a scan has pending sectors.
    fn note_unused(&mut self, reason: UnusedGap) {
        if let Some(fill) = self.fill.as_mut().filter(|fill| fill.scans.has_pending()) {
            fill.report.unused[reason as usize] += 1;
        }
    }

    /// Returns whether it is known from where and when the head comes to a request, and when it
    /// must be there.
    fn has_gap_before(&self, queued: &Queued) -> bool {
        let cached = |op: Op, forced: bool| !forced && self.belief.takes_into_cache(op);
        // Before the first completion computed positions are trusted.
        let seen = self.last.certain || self.last.finished == Instant::ORIGIN;
        let known = seen && self.belief.tracks().is_some_and(|map| !map.may_destage());
        known
            && !cached(queued.request.op, self.is_forced(queued))
            && !self.outstanding.iter().any(|command| cached(command.target.op, command.fua))
    }

    /// Searches the gap before a request with a predicted start.
    fn fill_gap(&mut self, ticket: Ticket, alone: bool) -> Filled {
        let Some(Queued { target, .. }) = self.queue.get(ticket).copied() else {
            return Filled::Not;
        };
        let head = *view!(self).head();
        let (Some(map), Some(fill)) = (self.belief.tracks(), self.fill.as_deref_mut()) else {
            return Filled::Not;
        };
        let Some(begin) = fill
            .predicted
            .iter()
            .find(|predicted| predicted.ticket == ticket)
            .map(|predicted| predicted.begin)
        else {
            return Filled::Not;
        };
        let (settings, idle) = (fill.settings, self.outstanding.is_empty());
        let conservatism = fill.conservatism(map.spread());
        let firmware = settings.in_firmware;
        let rules = Rules {
            conservatism,
            follow: if firmware { FIRMWARE_FOLLOW } else { conservatism / FOLLOW },
            edge: if firmware { 0 } else { settings.edge.get() },
            several_per_track: settings.several_per_track(),
            after: settings.merge_back,
            merge: settings.merge_front,
            alone,
        };
        let overhead = map.read_overhead();
        let ready = head.free_at.max(self.now + overhead);
        // With a command before the gap the request is sent when that is reported, which takes
        // about as long as a dispatch.
        let next_sent = if idle { self.now } else { (head.free_at + overhead).max(self.now) };
        let gap = Gap {
            map,
            belief: &*self.belief,
            scans: fill.scans.reading(),
            rules,
            now: self.now,
            head,
            ready,
            next_sent,
            next: &target,
            begin,
        };
        let effort = if idle { settings.effort / HASTE } else { settings.effort };
        let (governor, counts) = (&fill.governor, &mut fill.counts);
        // Less urgent scans get the gaps in which there is nothing for those before.
        let mut best = |gap: Gap<'_>| {
            fill.scans.by_priority().find_map(|scans| {
                let free = |piece: &Piece| {
                    // Reading the rest of its track later would cost a whole revolution, however
                    // little that is.
                    let track = map.track_of(piece.extent.start).extent;
                    let part = piece.value as f64 / scans.count_in(track).max(piece.value) as f64;
                    governor.worth_the_risk(part) && self.overlap.read_is_free(piece.extent)
                };
                search(&Gap { scans, ..gap }, effort, counts).filter(free)
            })
        };
        let Some(found) = best(gap) else { return Filled::Not };
        if !found.merged {
            return Filled::Before(found.extent);
        }
        // The rest of the gap before both together.
        let together = self.belief.target(Op::Read, hull(found.extent, target.extent));
        let likely = self.belief.likely(&head, self.now, &together);
        let begin = likely.depart + likely.positioning;
        let rules = Rules { merge: false, ..rules };
        match best(Gap { next: &together, begin, rules, ..gap }) {
            Some(before) => Filled::Before(before.extent),
            None => Filled::With(found.extent),
        }
    }

    fn send_filled(&mut self, ticket: Ticket, filled: Filled, pieces: u8) -> Command {
        let fill = self.fill.as_mut().expect("a scan is at work");
        fill.committed = None;
        if !matches!(filled, Filled::Not) {
            fill.report.filled += u64::from(pieces == 0);
            fill.mark(ticket, GapUse::Filled);
            fill.governor.read_beside_clients();
        }
        match filled {
            Filled::Not => self.send_chosen(&[ticket]),
            Filled::With(extent) => self.send_merged(ticket, extent),
            Filled::Before(extent) => {
                let command = self.send_new_job(extent, FillSource::Gap);
                let fill = self.fill.as_mut().expect("a scan is at work");
                fill.committed = Some(Committed { ticket, last: command.id, pieces: pieces + 1 });
                command
            }
        }
    }
}
