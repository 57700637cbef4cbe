//! Completions: what the drive model learns, how each request continues, and the cost of a fill.

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use super::{
    Done, Finished, Head, LastAccess, Op, Outcome, Outstanding, Queued, Scheduler, Ticket,
};
use crate::command::CommandId;
use crate::freeblock::GapUse;
use crate::positioning::Target;
use crate::positioning::{AccessKind, MeasuredAccess, mean_positioning};
use crate::shares::Took;
use crate::stalls::TimedCommand;

impl Scheduler {
    /// Records a measured completion; returns the finished requests.
    ///
    /// # Panics
    /// When the command is not outstanding, or its completion is in the future: a fault of the
    /// engine.
    pub fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        self.advance(now);
        assert!(
            done.finished <= now,
            "command {} is reported at {now} to finish only at {}",
            done.command.0,
            done.finished
        );
        let index = self.outstanding.place_of(done.command).unwrap_or_else(|| {
            panic!("command {} completed but is not outstanding", done.command.0)
        });
        let mut command = self.outstanding.remove(index);
        self.arms.done(&command);
        let before = self.last.finished;
        let disk_time = done.finished.saturating_since(before.max(command.dispatched));
        let before_on_arm = match command.job {
            Some(_) => self.arms.last_of(&command.target).map_or(before, |last| last.finished),
            None => before,
        };
        let moves =
            |command: &Outstanding| command.target.op.moves_head() && !command.probably_cached;
        self.reordered +=
            u64::from(moves(&command) && self.outstanding.iter().take(index).any(moves));
        self.count_stall(&command, &done);
        let cached = self.learn(&command, &done);
        self.last.finished = self.last.finished.max(done.finished);
        let goes_into_cache = cached && command.target.op != Op::Read;
        let kind = if cached { AccessKind::CacheHit } else { AccessKind::Media };
        self.taken.done(&command, kind);
        if !goes_into_cache {
            command.overlapped = before.saturating_since(self.arm_until.max(command.dispatched));
            self.arm_until = self.last.finished;
        }
        if self.arms.are_several() {
            let revolution = self.belief.revolution();
            self.arms.note_times(&mut command, done.finished, kind, disk_time, revolution);
        }

        if self.fill.is_some() && !cached {
            self.measure_fill_cost(&command, &done);
        }
        self.note_timed(&command, &done, disk_time);
        let disk_time = if command.job.is_some() {
            self.background_done(&command, &done, disk_time, before_on_arm)
        } else {
            disk_time
        };
        let mut over = SmallVec::new();
        if let [only] = command.requests.as_slice() {
            self.accounts.charge_one(disk_time, only);
            over.extend(self.served(0, disk_time, cached, &command, &done));
        } else {
            let parts = self.accounts.charge(disk_time, command.target.op, &command.requests);
            for (place, disk_time) in parts.into_iter().enumerate() {
                over.extend(self.served(place, disk_time, cached, &command, &done));
            }
        }
        for finished in &over {
            self.record_finished(finished);
        }
        if let Some(fill) = self.fill.as_mut().filter(|_| self.tickets.is_empty()) {
            fill.clients_since = None;
        }
        over
    }

    /// Charges a request its part of a command, and continues it.
    fn served(
        &mut self,
        place: usize,
        disk_time: Nanos,
        cached: bool,
        command: &Outstanding,
        done: &Done,
    ) -> Option<Finished> {
        let queued = &command.requests[place];
        // All arms work at the same time.
        let arms = self.belief.arms().count().max(1) as u64;
        let took = Took {
            op: command.target.op,
            cached,
            disk_time,
            transfer: queued.target.transfer / arms,
            sent: command.dispatched,
            finished: done.finished,
            idle: self.idle,
        };
        let charge = command.charges.get(place).copied();
        let positioning = || mean_positioning(&*self.belief);
        self.shares.done(self.now, queued, took, charge, || positioning() / arms);
        if self.arms.are_several()
            && let Some(shares) = self.arms.shares_of(command.target.op, queued)
        {
            let other_arms = command.other_arms / command.requests.len() as u64;
            let transfer = queued.target.transfer;
            let of_arm = Took { disk_time: disk_time + other_arms, transfer, ..took };
            shares.done(self.now, queued, of_arm, charge, positioning);
        }
        self.finish_request(queued, disk_time, command, done)
    }

    /// Continues a request whose command is done: it is finished, is sent again alone, waits for a
    /// flush, or was cancelled.
    pub(super) fn finish_request(
        &mut self,
        queued: &Queued,
        disk_time: Nanos,
        command: &Outstanding,
        done: &Done,
    ) -> Option<Finished> {
        let Queued { ticket, request, submitted, .. } = *queued;
        let flushed = command.target.op == Op::Flush;
        let succeeded = done.outcome == Outcome::Success;
        let cancelled = self.forget_cancellation(ticket);
        if !succeeded
            && !cancelled
            && !flushed
            && (command.requests.len() > 1 || command.job.is_some())
        {
            *self.charged_before.entry(ticket).or_default() += disk_time;
            self.own.push_back(*queued);
            return None;
        }
        if !flushed {
            self.free_waiting(ticket);
            if succeeded && !cancelled && self.needs_flush(&request) {
                *self.charged_before.entry(ticket).or_default() += disk_time;
                self.wait_for_flush(*queued);
                return None;
            }
        }
        self.tickets.remove(request.id);
        self.count_broken(queued, done.finished);
        let before =
            if self.charged_before.is_empty() { None } else { self.charged_before.remove(&ticket) };
        let disk_time = disk_time + before.unwrap_or_default();
        let finished = Finished {
            request,
            submitted,
            dispatched: command.dispatched,
            finished: done.finished,
            disk_time,
            other_arms: command.other_arms / command.requests.len() as u64,
            overlapped: command.overlapped / command.requests.len() as u64,
            forced: command.fua,
            outcome: done.outcome,
        };
        (!cancelled).then_some(finished)
    }

    /// Removes a completed request from the list of cancelled ones; returns whether it was
    /// cancelled.
    pub(super) fn forget_cancellation(&mut self, ticket: Ticket) -> bool {
        let position = self.cancelled.iter().position(|cancelled| *cancelled == ticket);
        position.map(|position| self.cancelled.swap_remove(position)).is_some()
    }

    /// Counts the command as stalled or not, if stalls are counted.
    fn count_stall(&mut self, command: &Outstanding, done: &Done) {
        let Some(stalls) = self.stalls.as_deref_mut() else { return };
        let Some(predicted) = command.predicted.filter(|_| done.outcome == Outcome::Success) else {
            return;
        };
        let last = self.arms.last_of(&command.target).map_or(self.last, |last| *last);
        let arms = self.belief.arms();
        let arm_of = |target: &Target| arms.arm_of(target.extent.start).unwrap_or_default();
        let arm = arm_of(&command.target);
        let timed = TimedCommand {
            arm,
            op: command.target.op,
            extent: command.target.extent,
            before: last.finished,
            dispatched: command.dispatched,
            finished: done.finished,
            predicted: predicted.total(),
        };
        // Reads hinder nothing.
        let others = if self.outstanding.only_read() { 0 } else { self.outstanding.len() };
        let others = self.outstanding.iter().take(others).map(|other| &other.target);
        let beside = others.filter(|other| other.op == Op::Flush || arm_of(other) == arm);
        stalls.observe(timed, beside.map(|other| other.op));
    }

    /// Updates the drive model and the head; called before `last.finished` advances. Returns
    /// whether the drive's cache served the command without the head.
    pub(super) fn learn(&mut self, command: &Outstanding, done: &Done) -> bool {
        match command.target.op {
            Op::Discard => return true,
            Op::Flush => {
                self.flushed(command, done);
                return false;
            }
            Op::Write | Op::Zero if !command.fua => self.unflushed = Some(done.finished),
            Op::Read | Op::Write | Op::Zero => {}
        }
        let succeeded = done.outcome == Outcome::Success;
        let last = self.arms.last_of(&command.target).map_or(self.last, |last| *last);
        // Two reports of one instant, or handed in out of order, leave open which of the two
        // accesses was first.
        let in_order = done.finished > last.finished;
        let head_before = (last.certain && in_order).then_some(last.head);
        let time = self.tunables.timesource;
        let learned = self.belief.learn(&MeasuredAccess {
            target: command.target,
            dispatched: time.read(command.dispatched),
            finished: time.read(done.finished),
            head_before: head_before.map(|head| Head { free_at: time.read(head.free_at), ..head }),
            forced: command.fua,
            succeeded,
        });
        // A cache hit leaves the head where it was.
        if learned == AccessKind::CacheHit {
            self.last.certain &= done.finished > self.last.finished;
            if let Some(last) = self.arms.last_of(&command.target) {
                last.certain &= in_order;
            }
            return true;
        }
        // After an error the arm may be anywhere near; the target is the best guess, but nothing is
        // learned from it.
        let head =
            Head::after(&command.target, self.belief.media_end(&command.target, done.finished));
        let certain = succeeded && learned == AccessKind::Media;
        let after = LastAccess { head, certain, finished: done.finished };
        self.last.ended(after);
        self.arms.ended(&command.target, after);
        false
    }

    /// Updates the head after a flush. To empty its write cache the drive has taken the head to
    /// places unknown, unless all writes since the last flush were forced to the medium.
    fn flushed(&mut self, command: &Outstanding, done: &Done) {
        let may_be_cached = |other: &Outstanding| other.target.op.changes_sectors() && !other.fua;
        if self.unflushed.is_some() || self.outstanding.iter().any(may_be_cached) {
            self.last.certain = false;
            self.arms.flushed(done.finished);
        }
        if done.outcome == Outcome::Success {
            self.unflushed = self.unflushed.filter(|at| *at > command.dispatched);
            self.arms.saved(command.dispatched);
        }
    }

    /// A command is done: those that were predicted to follow it are predicted again, from where it
    /// really ended, and those it served are judged.
    pub(super) fn measure_fill_cost(&mut self, command: &Outstanding, done: &Done) {
        let Some(fill) = self.fill.as_deref_mut() else { return };
        if fill.predicted.is_empty() {
            return;
        }
        let last = self.arms.last_of(&command.target).map_or(self.last, |last| *last);
        let well = done.outcome == Outcome::Success && last.certain;
        let (belief, head) = (&*self.belief, last.head);
        let is = |command: CommandId| move |before: Option<CommandId>| before == Some(command);
        let after = is(command.command);
        fill.predicted.retain_mut(|predicted| {
            if after(predicted.before) {
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
            if done.outcome != Outcome::Success || predicted.before.is_some() {
                continue;
            }
            let Some(used) = predicted.used else { continue };
            let end = belief.media_end(&command.target, done.finished);
            let late_ns = end.signed_since(predicted.begin + predicted.target.transfer);
            let late = fill.governor.record_gap(used, late_ns, belief.revolution());
            fill.report.late += u64::from(used == GapUse::Filled && late);
        }
    }

    /// Notes a request that is over, for the accounts, the policy and the mean response time.
    pub(super) fn record_finished(&mut self, finished: &Finished) {
        if finished.request.op.moves_head() && finished.outcome == Outcome::Success {
            self.mean_response.add(finished.response());
            self.arms.responded(finished);
        }
        self.accounts.note(finished);
        if let Some(fill) = self.active_fill() {
            fill.governor.responded(
                finished.finished,
                finished.response(),
                fill.settings.max_impact,
            );
            if fill.measures_impact() {
                fill.governor.measure(
                    finished.finished,
                    finished.response(),
                    fill.settings.max_impact,
                );
            } else {
                fill.governor.stop_measuring();
            }
        }
        self.policy.finished(finished);
    }
}
