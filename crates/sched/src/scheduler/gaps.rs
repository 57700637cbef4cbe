//! What goes next while scans run: clients first, in their policy's order, and what fits in
//! between.
//!
//! The policy chooses B as ever. Then the gap before B is searched. What is found goes at once, as
//! a command of its own, and B is *committed*: it goes next, as a second command behind it, also
//! where the policy would have one at a time. Before it goes the rest of the gap is searched again.
//! What lies right before B on its track goes with B, as one command. B stays in the queue until it
//! goes, so that it can be cancelled, and so that anything that comes in between (a flush, another
//! policy) only ends the commitment: the policy chooses again.
//!
//! A fill takes a place at the drive for a while. What goes behind B is chosen at the moment at
//! which it would be without scans all the same, and sent when there is room. Otherwise each choice
//! beside a scan would be made later and among more: clients would gain in the mean, and those that
//! wait longest would wait longer (measured on an Atlas 10K under transactions, sptf-sw: −1.7 % and
//! +4.9 % of p99).
//!
//! There is a gap only between two places at two times that are known. What the drive takes into
//! its cache has none, and behind it the head may be anywhere: before such a write nothing is read,
//! and behind it not until the head has been seen again.
//!
//! Each request chosen while scans want something is *predicted*: when its media access would begin
//! without a fill, computed again from where the command before it really ended. By how much it is
//! later is what the fill cost (`freeblock/governor.rs`).

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use super::send::view;
use super::{Decision, Done, Op, Outcome, Outstanding, Queued, Scheduler, Ticket};
use crate::background::FillSource;
use crate::command::{Command, CommandId, HoldReason};
use crate::freeblock::{Ahead, Committed, ExpectedStart, Fill, Gap, Piece, Rules, hull, search};
use crate::policy::Choice;

/// A gap is filled with so many commands at most.
const PIECES: u8 = 4;

/// With more than so many commands at the drive nobody knows which comes next, so that there is no
/// gap to be known.
const DEPTH: usize = 2;

/// Part of the margin for the arm that is kept between two commands on one track, where only the
/// start of a command is uncertain (guess).
const FOLLOW: u64 = 8;

/// The same where firmware is imitated: less than a sector, more than rounding.
const FIRMWARE_FOLLOW: Nanos = Nanos::from_us(2);

/// While the drive waits for a command, this part of the tracks is looked at.
const HASTE: u32 = 4;

/// What goes together with a request, or before it.
enum Filled {
    /// A command of its own, and the request behind it.
    Before(Extent),
    /// The request, with this right before it as one command.
    With(Extent),
    /// The request as it is.
    Not,
}

impl Scheduler {
    /// As [`Scheduler::next_but_flushes`], with scans.
    pub(super) fn next_beside_scans(&mut self) -> Decision {
        let allowed = self.drive.queue_depth.min(self.limits.outstanding.unwrap_or(usize::MAX));
        if let Some(committed) = self.still_committed() {
            return self.go_on(committed);
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
                _ => self.send_chosen(&tickets),
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

    /// Asks the policy for what it would send at this moment if a fill did not hold its place at
    /// the drive; answers until when all who wait are at a limit, if they are.
    pub(super) fn choose_ahead(&mut self) -> Option<Instant> {
        if self.fill_at_work().is_none() || self.queue.is_empty() {
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

    /// What goes next by the policy, and when it was chosen.
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

    /// The commitment, if it still stands: the request is there, and nothing was sent since but
    /// what fills its gap.
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

    /// A request is committed: it goes as soon as the drive has room for it, unless the gap has
    /// room for more.
    fn go_on(&mut self, committed: Committed) -> Decision {
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

    /// The policy has chosen a request: sends it, or what fills the gap before it.
    fn send_with_fill(&mut self, ticket: Ticket, chosen: Instant, allowed: usize) -> Command {
        let held = self.tickets.len();
        let fill = self.fill.as_ref().expect("a scan is at work");
        let wanted = fill.scans.want() && held >= fill.settings.waiting_needed;
        // What the policy chose wrongly is said where it is sent.
        let Some(queued) =
            self.queue.get(ticket).filter(|queued| wanted && self.is_behind_a_gap(queued))
        else {
            return self.send_chosen(&[ticket]);
        };
        let view = view!(self);
        let likely = view.belief.likely(view.head(), chosen, &queued.target);
        let predicted = ExpectedStart {
            ticket,
            target: queued.target,
            chosen,
            before: self.outstanding.last().map(|command| command.command),
            begin: likely.depart + likely.positioning,
            filled: false,
        };
        let fill = self.fill.as_mut().expect("a scan is at work");
        fill.report.gaps += 1;
        fill.predict(predicted);
        let filled = if fill.governor.may_fill() {
            self.fill_gap(ticket, allowed >= DEPTH)
        } else {
            Filled::Not
        };
        self.send_filled(ticket, filled, 0)
    }

    /// Whether it is known from where and when the head comes to a request, and when it must be
    /// there.
    fn is_behind_a_gap(&self, queued: &Queued) -> bool {
        let cached = |op: Op| self.belief.takes_into_cache(op);
        // Nothing speaks against what is computed before the first completion.
        let seen = self.head_certain || self.last_finished == Instant::ORIGIN;
        let known = seen && self.belief.tracks().is_some_and(|map| !map.may_stray());
        known
            && !cached(queued.request.op)
            && !self.outstanding.iter().any(|command| cached(command.target.op))
    }

    fn send_filled(&mut self, ticket: Ticket, filled: Filled, pieces: u8) -> Command {
        let fill = self.fill.as_mut().expect("a scan is at work");
        fill.committed = None;
        if !matches!(filled, Filled::Not) {
            fill.report.filled += u64::from(pieces == 0);
            fill.predicted
                .iter_mut()
                .filter(|predicted| predicted.ticket == ticket)
                .for_each(|predicted| predicted.filled = true);
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

    /// One command that reads `extent` for scans and the request right behind it.
    fn send_merged(&mut self, ticket: Ticket, extent: Extent) -> Command {
        self.own_went_last = false;
        let job = self.claim_job(extent, FillSource::Merged);
        let queued = self
            .take_from_queue(ticket)
            .expect("the request whose gap was searched is in the queue");
        let target = self.belief.target(Op::Read, hull(extent, queued.request.extent));
        self.dispatch(Op::Read, target, SmallVec::from_buf([queued]), Some((job, extent)))
    }

    /// SearchCounts for what fits before a request that was predicted.
    fn fill_gap(&mut self, ticket: Ticket, alone: bool) -> Filled {
        let Some(Queued { target, .. }) = self.queue.get(ticket).copied() else {
            return Filled::Not;
        };
        let view = view!(self);
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
            behind: settings.merge_back,
            merge: settings.merge_front,
            alone,
        };
        let (head, overhead) = (*view.head(), map.read_overhead());
        let ready = head.free_at.max(self.now + overhead);
        // With a command before the gap the request is sent when that is reported, which takes
        // about as long as a dispatch.
        let next_sent = if idle { self.now } else { (head.free_at + overhead).max(self.now) };
        let gap = Gap {
            map,
            belief: &*self.belief,
            scans: &fill.scans,
            rules,
            now: self.now,
            head,
            ready,
            next_sent,
            next: &target,
            begin,
        };
        let effort = if idle { settings.effort / HASTE } else { settings.effort };
        let governor = &fill.governor;
        let free = |piece: &Piece| {
            // All that is left of its track would take a turn outright, however little that is.
            let left =
                fill.scans.count_in(map.track_of(piece.extent.start).extent).max(piece.value);
            let part = piece.value as f64 / left as f64;
            governor.worth_the_risk(part) && self.overlap.read_is_free(piece.extent)
        };
        let Some(found) = search(&gap, effort, &mut fill.looks).filter(free) else {
            return Filled::Not;
        };
        if !found.merged {
            return Filled::Before(found.extent);
        }
        // What is left of the gap before both together.
        let together = self.belief.target(Op::Read, hull(found.extent, target.extent));
        let likely = self.belief.likely(&head, self.now, &together);
        let begin = likely.depart + likely.positioning;
        let gap = Gap { next: &together, begin, rules: Rules { merge: false, ..rules }, ..gap };
        match search(&gap, effort, &mut fill.looks).filter(free) {
            Some(before) => Filled::Before(before.extent),
            None => Filled::With(found.extent),
        }
    }

    /// A command is done: those that were predicted to follow it are predicted again, from where it
    /// really ended, and those it served are judged.
    pub(super) fn judge(&mut self, command: &Outstanding, done: &Done) {
        let held = self.tickets.len();
        let Some(fill) = self.fill.as_deref_mut() else { return };
        if fill.predicted.is_empty() {
            return;
        }
        let well = done.outcome == Outcome::Success && self.head_certain;
        let (belief, head) = (&*self.belief, self.last_head);
        let is = |command: CommandId| move |before: Option<CommandId>| before == Some(command);
        let behind = is(command.command);
        fill.predicted.retain_mut(|predicted| {
            if behind(predicted.before) {
                let likely = belief.likely(&head, predicted.chosen, &predicted.target);
                (predicted.begin, predicted.before) = (likely.depart + likely.positioning, None);
                return well;
            }
            true
        });
        for served in &command.requests {
            let Some(place) =
                fill.predicted.iter().position(|predicted| predicted.ticket == served.ticket)
            else {
                continue;
            };
            let predicted = fill.predicted.swap_remove(place);
            if !well || predicted.before.is_some() {
                continue;
            }
            let revolution = belief.revolution();
            let late_ns = head.free_at.signed_since(predicted.begin + predicted.target.transfer);
            fill.report.late +=
                u64::from(predicted.filled && fill.governor.judged(late_ns, held, revolution));
        }
    }
}
