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
//! Where the policy decides for each of several arms by itself, all of this happens for each arm:
//! its instance of the policy chooses B, the gap is the one between the arm's last command and B,
//! and B goes next on that arm. Example, two arms: a piece is at the drive for arm 0, whose B0 is
//! committed. Arm 1 is free: its instance chooses B1, and a piece before B1 is sent, while B0 still
//! goes next on arm 0. Where the policy decides for several arms as a whole, no gap is filled.
//!
//! The start of each request chosen while scans have pending sectors is *predicted*: the time at
//! which its media access would begin without a fill. It is computed again from the measured end of
//! the command before it. The delay against it is the cost of the fill (`freeblock/governor.rs`).

use alloc::boxed::Box;

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use super::dispatch::view;
use super::{Commands, Decision, Op, Queue, Queued, Scheduler, Target, Ticket};
use crate::background::{FillSource, UnusedGap};
use crate::command::{Command, CommandId, HoldReason};
use crate::freeblock::{Fill, Gap, GapUse, Piece, Rules, hull, search};
use crate::policy::{Choice, Policy};

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

/// The arm that a decision is about; `None` where it is about the whole drive.
pub(crate) type Arm = Option<usize>;

/// A request that goes next, after the command that fills the gap before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) arm: Arm,
    pub(crate) ticket: Ticket,
    /// The command that was sent last for the gap.
    pub(crate) last: CommandId,
    /// The number of commands sent for the gap.
    pub(crate) pieces: u8,
}

/// A choice of the policy made while a fill occupied the drive's place for it.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    pub(crate) arm: Arm,
    pub(crate) tickets: SmallVec<[Ticket; 1]>,
    pub(crate) chosen: Instant,
    /// The command of the arm that goes next: with any other sent in between, the policy chooses
    /// again.
    pub(crate) next: CommandId,
}

/// A request and when it would be served without a fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedStart {
    pub(crate) arm: Arm,
    pub(crate) ticket: Ticket,
    pub(crate) target: Target,
    /// The time at which the policy chose it, which is when it would have been sent.
    pub(crate) chosen: Instant,
    /// The command before it on its arm, as long as that is at the drive.
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
            self.choose_ahead_of_all();
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

    /// The arms that the policy decides for by itself, beside scans.
    fn decided_arms(&self) -> SmallVec<[Arm; 2]> {
        if self.policy.decides_by_arm(&view!(self)) {
            (0..self.arms.all().len()).map(Some).collect()
        } else {
            SmallVec::from_slice(&[None])
        }
    }

    /// The commands at the drive that an arm serves.
    fn commands_of(&self, arm: Arm) -> &Commands {
        arm.map_or(&self.outstanding, |arm| &self.arms.all()[arm].commands)
    }

    /// The requests of an arm that the policy may choose from.
    fn queue_of(&self, arm: Arm) -> &Queue {
        arm.map_or(&self.queue, |arm| &self.arms.all()[arm].queue)
    }

    /// The id after that of the last command that an arm serves.
    fn next_command_of(&self, arm: Arm) -> CommandId {
        arm.map_or(CommandId(self.next_command), |arm| self.arms.all()[arm].next_command)
    }

    /// The number of commands that an arm should hold now.
    fn depth_of(&mut self, arm: Arm) -> usize {
        let view = view!(self, arm);
        let limit = self.limits.outstanding.filter(|_| arm.is_none());
        limit.unwrap_or_else(|| instance(&mut self.policy, arm).depth(&view).max(1))
    }

    /// As [`Scheduler::next_request`], with scans.
    pub(super) fn next_beside_scans(&mut self) -> Decision {
        let allowed = self.max_outstanding();
        let mut free: SmallVec<[Arm; 2]> = SmallVec::new();
        for arm in self.decided_arms() {
            match self.still_committed(arm) {
                Some(committed) if self.commands_of(arm).len() < DEPTH => {
                    return Decision::Dispatch(self.step_committed(committed));
                }
                Some(_) => {}
                None => free.push(arm),
            }
        }
        if free.is_empty() {
            return Decision::Idle;
        }
        let urgent = self.fill.as_ref().and_then(|fill| fill.urgent());
        let own_any = !self.own.is_empty() || urgent.is_some();
        let any = self.any_for_policy();
        if !any && !own_any {
            return self.next_when_idle(allowed);
        }
        let (mut held_back, mut open) = (None, SmallVec::<[(Arm, usize); 2]>::new());
        for arm in free {
            let depth = self.depth_of(arm);
            if self.commands_of(arm).len() >= depth {
                held_back = self.choose_ahead(arm, depth).or(held_back);
            } else if arm.is_none()
                || !self.queue_of(arm).is_empty()
                || arm == Some(0) && self.flush_may_go() && self.flushes_have_turns()
            {
                open.push((arm, depth));
            }
        }
        open.sort_by_key(|(arm, _)| self.commands_of(*arm).len());
        if open.is_empty() && !self.outstanding.is_empty() {
            return held_back
                .map_or(Decision::Idle, |until| self.next_while_held_back(until, allowed));
        }
        let share = if own_any || self.own_went_last { None } else { self.send_share() };
        if let Some(command) = share {
            self.own_went_last = true;
            return Decision::Dispatch(command);
        }
        let own_turn = own_any && (!any || !self.own_went_last);
        let (mut hold, mut flush) = (None, false);
        for (arm, depth) in open.into_iter().filter(|_| !own_turn) {
            match self.choose_beside_scans(arm) {
                (Choice::Send(tickets), chosen) => {
                    return Decision::Dispatch(
                        self.send_beside_scans(arm, depth, &tickets, chosen),
                    );
                }
                (Choice::Hold { until, reason }, _) => {
                    hold = hold.filter(|(earlier, _)| *earlier <= until).or(Some((until, reason)));
                }
                (Choice::Flush, _) => flush = true,
                (Choice::Nothing, _) => {}
            }
        }
        match hold {
            _ if flush => Decision::Dispatch(self.send_chosen_flush()),
            _ if own_any => Decision::Dispatch(match urgent {
                Some(urgent) if self.own.front().is_none_or(|queued| urgent < queued.ticket) => {
                    self.own_went_last = true;
                    self.send_urgent(urgent)
                }
                _ => self.send_own(),
            }),
            Some((until, HoldReason::Throttled)) => self.next_while_held_back(until, allowed),
            Some((until, reason)) => {
                Decision::WaitUntil { at: until.max(self.now + Nanos::from_ns(1)), reason }
            }
            None => Decision::Idle,
        }
    }

    /// Sends what the policy chose for an arm, or a command that fills the gap before it.
    fn send_beside_scans(
        &mut self,
        arm: Arm,
        depth: usize,
        tickets: &[Ticket],
        chosen: Instant,
    ) -> Command {
        // For several arms as a whole it is not known which gap is which.
        let one_arm = arm.is_some() || !self.arms.are_several();
        let in_order = one_arm && self.commands_of(arm).len() < DEPTH;
        match tickets {
            [ticket] if in_order && depth <= DEPTH => self.send_with_fill(arm, *ticket, chosen),
            _ => {
                self.note_unused(UnusedGap::Policy);
                self.send_chosen(tickets)
            }
        }
    }

    /// Lets the policy choose what each arm would do now if a fill did not occupy its place at the
    /// drive.
    fn choose_ahead_of_all(&mut self) {
        if self.active_fill().is_some() {
            for arm in self.decided_arms() {
                let depth = self.depth_of(arm);
                let _ = self.choose_ahead(arm, depth);
            }
        }
    }

    /// Lets the policy choose what it would send now if a fill did not occupy its place at the
    /// drive, which holds up to `depth` commands. Returns until when all queued requests are
    /// throttled, if they are.
    fn choose_ahead(&mut self, arm: Arm, depth: usize) -> Option<Instant> {
        if self.queue_of(arm).is_empty() {
            return None;
        }
        let of_clients =
            self.commands_of(arm).iter().filter(|command| !command.requests.is_empty()).count();
        let next = self.next_command_of(arm);
        let is_chosen = |fill: &Fill| {
            fill.committed.iter().any(|committed| committed.arm == arm)
                || fill.ahead.iter().any(|ahead| ahead.arm == arm && ahead.next == next)
        };
        if depth > DEPTH || of_clients >= depth || self.fill.as_deref().is_some_and(is_chosen) {
            return None;
        }
        let view = view!(self, arm);
        match instance(&mut self.policy, arm).choose(&view) {
            Choice::Send(tickets) => {
                let ahead = &mut self.fill.as_mut().expect("a scan is at work").ahead;
                ahead.retain(|ahead| ahead.arm != arm);
                ahead.push(Ahead { arm, tickets, chosen: self.now, next });
            }
            Choice::Hold { until, reason: HoldReason::Throttled } => return Some(until),
            Choice::Hold { .. } | Choice::Flush | Choice::Nothing => (),
        }
        None
    }

    /// The next choice of the policy, and the time of the choice.
    fn choose_beside_scans(&mut self, arm: Arm) -> (Choice, Instant) {
        let next = self.next_command_of(arm);
        let ahead = self.fill.as_mut().and_then(|fill| {
            let place = fill.ahead.iter().position(|ahead| ahead.arm == arm)?;
            Some(fill.ahead.swap_remove(place))
        });
        match ahead.filter(|ahead| {
            ahead.next == next
                && ahead.tickets.iter().all(|ticket| self.queue.get(*ticket).is_some())
        }) {
            Some(ahead) => (Choice::Send(ahead.tickets), ahead.chosen),
            None => {
                let view = view!(self, arm);
                (instance(&mut self.policy, arm).choose(&view), self.now)
            }
        }
    }

    /// The commitment of an arm, if it is still valid: the request is queued, and only commands
    /// that fill its gap were sent to the arm since.
    fn still_committed(&mut self, arm: Arm) -> Option<Committed> {
        let next = self.next_command_of(arm);
        let fill = self.fill.as_mut()?;
        let place = fill.committed.iter().position(|committed| committed.arm == arm)?;
        let committed = fill.committed[place];
        if self.queue.get(committed.ticket).is_some() && next.0 == committed.last.0 + 1 {
            return Some(committed);
        }
        fill.committed.swap_remove(place);
        fill.predicted.retain(|predicted| predicted.ticket != committed.ticket);
        None
    }

    /// Advances a commitment: the request goes as soon as the drive has room for it, unless the gap
    /// has room for another piece.
    fn step_committed(&mut self, committed: Committed) -> Command {
        let Committed { arm, ticket, pieces, .. } = committed;
        let filled = if pieces < PIECES { self.fill_gap(arm, ticket, true) } else { Filled::Not };
        self.send_filled(arm, ticket, filled, pieces)
    }

    /// Sends a request that the policy chose, or a command that fills the gap before it.
    fn send_with_fill(&mut self, arm: Arm, ticket: Ticket, chosen: Instant) -> Command {
        let held = self.tickets.len();
        let fill = self.fill.as_ref().expect("a scan is at work");
        let pending = fill.scans.has_pending() && held >= fill.settings.waiting_needed;
        // Dispatch reports an invalid choice of the policy.
        let Some(queued) = self.queue.get(ticket).filter(|_| pending) else {
            return self.send_chosen(&[ticket]);
        };
        if !self.has_gap_before(arm, queued) {
            self.note_unused(UnusedGap::Position);
            return self.send_chosen(&[ticket]);
        }
        let view = view!(self, arm);
        let estimate = view.belief.estimate(view.head(), chosen, &queued.target);
        let predicted = ExpectedStart {
            arm,
            ticket,
            target: queued.target,
            chosen,
            before: view.outstanding.back().map(|command| command.command),
            begin: estimate.depart + estimate.positioning,
            used: None,
        };
        // A fill takes away the chance that the arm is early and catches the sector a revolution
        // before.
        let chance = estimate.positioning.saturating_sub(estimate.expected);
        let early = chance * EARLY > view.belief.revolution();
        // A command of its own takes a place at the drive from no other arm.
        let alone = self.max_outstanding() >= DEPTH * self.arms.all().len().max(1);
        let fill = self.fill.as_mut().expect("a scan is at work");
        fill.report.gaps += 1;
        fill.predict(predicted);
        let mut filled = if early { Filled::Not } else { self.fill_gap(arm, ticket, alone) };
        let fill = self.fill.as_mut().expect("a scan is at work");
        if matches!(filled, Filled::Not) {
            self.note_unused(if early { UnusedGap::Early } else { UnusedGap::NothingFits });
        } else if fill.governor.next_use(fill.settings.controls) == GapUse::Control {
            let allowed = fill.governor.may_fill();
            fill.mark(ticket, GapUse::Control);
            filled = Filled::Not;
            self.note_unused(if allowed { UnusedGap::Control } else { UnusedGap::Bound });
        }
        self.send_filled(arm, ticket, filled, 0)
    }

    /// Counts a gap that stays unused while a scan has pending sectors.
    fn note_unused(&mut self, reason: UnusedGap) {
        if let Some(fill) = self.fill.as_mut().filter(|fill| fill.scans.has_pending()) {
            fill.report.unused[reason as usize] += 1;
        }
    }

    /// Returns whether it is known from where and when the head comes to a request, and when it
    /// must be there.
    fn has_gap_before(&self, arm: Arm, queued: &Queued) -> bool {
        let cached = |op: Op, forced: bool| !forced && self.belief.takes_into_cache(op);
        let last = arm.map_or(self.last, |arm| self.arms.all()[arm].last);
        // Before the first completion computed positions are trusted.
        let seen = last.certain || last.finished == Instant::ORIGIN;
        let map = self.belief.tracks(queued.target.extent.start);
        seen && map.is_some_and(|map| !map.may_destage())
            && !cached(queued.request.op, self.is_forced(queued))
            && !self.commands_of(arm).iter().any(|command| cached(command.target.op, command.fua))
    }

    /// Searches the gap before a request with a predicted start.
    fn fill_gap(&mut self, arm: Arm, ticket: Ticket, alone: bool) -> Filled {
        let Some(Queued { target, .. }) = self.queue.get(ticket).copied() else {
            return Filled::Not;
        };
        let (head, idle) = (*view!(self, arm).head(), self.commands_of(arm).is_empty());
        let map = self.belief.tracks(target.extent.start);
        let (Some(map), Some(fill)) = (map, self.fill.as_deref_mut()) else {
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
        let settings = fill.settings;
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

    fn send_filled(&mut self, arm: Arm, ticket: Ticket, filled: Filled, pieces: u8) -> Command {
        let fill = self.fill.as_mut().expect("a scan is at work");
        fill.committed.retain(|committed| committed.arm != arm);
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
                let (last, pieces) = (command.id, pieces + 1);
                fill.committed.push(Committed { arm, ticket, last, pieces });
                command
            }
        }
    }
}

/// The instance of the policy that decides for an arm.
fn instance(policy: &mut Box<dyn Policy>, arm: Arm) -> &mut Box<dyn Policy> {
    match arm {
        Some(arm) => policy.of_arm(arm).expect("the policy decides for each arm"),
        None => policy,
    }
}
