//! Timed reads: reads of a characterization beside clients, each alone at the drive.
//!
//! A timed read is sent in one of three cases:
//! - No request of a client is held, the drive has been without one for [`GRACE`], and the bound on
//!   impact ([`FillSettings::max_impact`](crate::FillSettings::max_impact)) is kept. After
//!   [`IdleSettings::away`](crate::IdleSettings::away) without a request it is sent at once.
//! - It has to follow the one before, for which the drive was held.
//! - The bound has saved up as much as the read will delay clients. Then nothing more is sent to
//!   the drive until it is empty, and the read goes first. Only while no requests have deadlines.
//!
//! Requests that arrive while it is at the drive wait for its end, and those after them until the
//! drive is idle. That delay is charged to the bound that scans have, too. A read after which
//! another must follow is sent beside clients only if both are saved up for.
//!
//! Worked example, six clients that wait 30 ms between requests of 9 ms, a bound of 1 %: some 155
//! requests a second lend 13 ms of delay. A read of 9 ms in an idle moment delays one client by
//! some 5 ms, so that two or three such reads go in a second.
//!
//! Guarantees: between two reads of which the second follows, no other command is sent, unless the
//! second is requested later than [`HELD`] after the first; [`TimedReadDone::others`] shows it.
//! Does not guarantee progress: beside clients that are never idle, with a bound of 0, or with
//! deadlines, timed reads wait. [`Scheduler::timed_wait`] names the reason.

use alloc::boxed::Box;

use headtime_units::{Instant, Nanos};
use smallvec::SmallVec;

use super::{Decision, Done, Op, Outstanding, Scheduler};
use crate::command::{CommandId, HoldReason};
use crate::positioning::mean_positioning;
use crate::timed::{TimedAtDrive, TimedRead, TimedReadDone, TimedReads, TimedSuccessor, TimedWait};

/// The time without a request before a timed read (guess: longer than a client takes from one
/// request of a sequence to the next. Clients that think cannot be waited for).
const GRACE: Nanos = Nanos::from_ms(2);

/// The time for which the drive waits for a read that has to follow (guess: longer than the
/// computation of the next read takes on a busy host).
const HELD: Nanos = Nanos::from_ms(5);

/// The minimum time that a timed read takes (guess: for a model that does not know the arm).
const MIN_READ: Nanos = Nanos::from_ms(10);

/// The time after a request with a deadline in which no time is taken from clients (guess: as for
/// scans).
const DEADLINES: Nanos = Nanos::from_secs(30);

impl Scheduler {
    /// Begins timed reads.
    pub fn timed_start(&mut self, now: Instant) {
        self.advance(now);
        let held = !self.tickets.is_empty();
        let last_finished = Some(self.last.finished).filter(|at| *at > Instant::ORIGIN);
        let fill = self.fill.get_or_insert_with(Box::default);
        if !fill.is_active() {
            // Clients were not observed before.
            last_finished.into_iter().for_each(|at| fill.governor.seen(at));
            if held {
                fill.clients_since.get_or_insert(now);
                fill.governor.seen(now);
            }
            fill.governor.stop_measuring();
        }
        fill.timed = Some(TimedReads::default());
    }

    /// Requests the next timed read.
    ///
    /// # Panics
    /// When timed reads were not begun, or one is requested or at the drive.
    pub fn timed_read(&mut self, now: Instant, read: TimedRead) {
        self.advance(now);
        let timed = self.fill.as_deref_mut().and_then(|fill| fill.timed.as_mut());
        let timed = timed.expect("timed reads were begun");
        assert!(
            timed.requested.is_none() && timed.at_drive.is_none(),
            "a timed read is requested while another is in progress"
        );
        timed.requested = Some(read);
        if let Some(until) = timed.held_until.filter(|until| now <= *until) {
            timed.held_until = Some(until.max(read.not_before + HELD));
        }
    }

    /// Ends timed reads. One at the drive is not reported.
    pub fn timed_stop(&mut self, now: Instant) {
        self.advance(now);
        if let Some(fill) = &mut self.fill {
            fill.timed = None;
        }
    }

    /// The result of the last timed read, once.
    pub fn take_timed(&mut self) -> Option<TimedReadDone> {
        self.fill.as_mut()?.timed.as_mut()?.done.take()
    }

    /// The timed read at the drive.
    #[must_use]
    pub fn timed_command(&self) -> Option<CommandId> {
        Some(self.fill.as_ref()?.timed.as_ref()?.at_drive?.command)
    }

    /// The reason why the requested timed read is not sent, if it is not.
    #[must_use]
    pub fn timed_wait(&self) -> Option<TimedWait> {
        self.fill.as_ref()?.timed.as_ref()?.wait
    }

    /// The next step if timed reads decide about it.
    pub(super) fn next_timed(&mut self) -> Option<Decision> {
        let now = self.now;
        self.end_hold();
        let timed = self.fill.as_ref()?.timed.as_ref()?;
        if timed.at_drive.is_some() {
            return Some(Decision::Idle);
        }
        let wait = |at: Instant| Decision::WaitUntil { at, reason: HoldReason::Idleness };
        let held_until = timed.held_until;
        let Some(read) = timed.requested else { return held_until.map(wait) };
        let throttled = if self.policy.enforces_limits() { self.shares.held_back(now) } else { 0 };
        let held = self.tickets.len() - throttled;
        if now < read.not_before {
            let nothing_else = held == 0 && self.outstanding.is_empty() && throttled == 0;
            return (held_until.is_some() || nothing_else).then(|| wait(read.not_before));
        }
        let is_free = self.outstanding.is_empty();
        if held_until.is_some() && is_free {
            return Some(self.send_timed(read, false));
        }
        let reads = match read.next {
            TimedSuccessor::Independent => 1,
            TimedSuccessor::Follows => 2,
        };
        let fill = self.fill.as_deref()?;
        let last_seen = fill.governor.last_seen();
        let away_at = last_seen.map_or(now, |last| last + fill.settings.idle.away);
        if held == 0 && now >= away_at {
            return Some(if is_free { self.send_timed(read, false) } else { Decision::Idle });
        }
        let affords = fill.governor.affords(self.timed_cost(held) * reads);
        let reason = if !fill.governor.allows_reads() {
            TimedWait::Measuring
        } else if held > 0 && fill.deadline_at.is_some_and(|at| now < at + DEADLINES) {
            TimedWait::Deadlines
        } else if held > 0 && !affords {
            TimedWait::Clients
        } else if !fill.governor.may_fill() || (reads > 1 && !affords) {
            TimedWait::Bound
        } else if held > 0 {
            // Time is taken from clients: the drive becomes empty first.
            if is_free {
                return Some(self.send_timed(read, true));
            }
            let timed = self.fill.as_deref_mut()?.timed.as_mut()?;
            timed.since.get_or_insert(now);
            return Some(Decision::Idle);
        } else if !is_free {
            return Some(Decision::Idle);
        } else if last_seen.is_none_or(|last| now >= last + GRACE) {
            return Some(self.send_timed(read, false));
        } else {
            TimedWait::Clients
        };
        let timed = self.fill.as_deref_mut()?.timed.as_mut()?;
        (timed.wait, timed.since) = (Some(reason), None);
        // Scans share the bound, and a throttled request has its own time.
        let again = match reason {
            TimedWait::Clients => last_seen.map_or(now, |last| last + GRACE),
            _ => away_at,
        };
        (held == 0 && throttled == 0 && is_free).then(|| wait(again.max(now + Nanos::from_ns(1))))
    }

    /// Ends the wait for a read that had to follow and did not come in time, and charges it.
    fn end_hold(&mut self) {
        let now = self.now;
        let Some(fill) = self.fill.as_deref_mut() else { return };
        let Some(timed) = fill.timed.as_mut() else { return };
        if timed.held_until.is_some_and(|until| now >= until) {
            timed.held_until = None;
            if let Some((since, from)) = fill.clients_since.zip(timed.since.take()) {
                fill.governor.delayed_drive(now.saturating_since(since.max(from)));
            }
        }
    }

    /// The time by which a timed read delays clients, if it delays all that wait.
    fn timed_cost(&self, held: usize) -> Nanos {
        let read = mean_positioning(&*self.belief).max(MIN_READ);
        let fill = self.fill.as_ref().expect("timed reads were begun");
        read * fill.governor.held_up(held) as u64
    }

    fn send_timed(&mut self, read: TimedRead, taken: bool) -> Decision {
        let now = self.now;
        let target = self.belief.target(Op::Read, read.extent);
        let command = self.dispatch(Op::Read, target, SmallVec::new(), None);
        let fill = self.fill.as_deref_mut().expect("timed reads were begun");
        let away =
            fill.governor.last_seen().is_none_or(|last| now >= last + fill.settings.idle.away);
        if away {
            fill.governor.reads_while_away();
        } else {
            fill.governor.read_beside_clients();
        }
        let timed = fill.timed.as_mut().expect("timed reads were begun");
        (timed.requested, timed.held_until, timed.wait) = (None, None, None);
        timed.since.get_or_insert(now);
        timed.at_drive = Some(TimedAtDrive {
            command: command.id,
            next: read.next,
            others: core::mem::take(&mut timed.others),
            taken,
        });
        Decision::Dispatch(command)
    }

    /// Records a completed command: of a timed read, its result and its cost to clients; otherwise
    /// that there was another one.
    pub(super) fn note_timed(&mut self, command: &Outstanding, done: &Done, disk_time: Nanos) {
        let Some(timed) = self.fill.as_deref_mut().and_then(|fill| fill.timed.as_mut()) else {
            return;
        };
        let Some(sent) = timed.at_drive.filter(|sent| sent.command == done.command) else {
            timed.others = timed.others.saturating_add(1);
            return;
        };
        timed.at_drive = None;
        timed.done = Some(TimedReadDone {
            dispatched: command.dispatched,
            finished: done.finished,
            outcome: done.outcome,
            predicted: command
                .predicted
                .filter(|_| !self.belief.revolution().is_zero())
                .map(|predicted| command.dispatched + predicted.total()),
            others: sent.others,
        });
        self.accounts.charge_background(disk_time, command.target.extent.len, done.outcome);
        let held = self.tickets.len()
            - if self.policy.enforces_limits() { self.shares.held_back(done.finished) } else { 0 };
        let cost = self.timed_cost(held);
        let fill = self.fill.as_deref_mut().expect("timed reads were begun");
        let timed = fill.timed.as_mut().expect("timed reads were begun");
        let from = timed.since.take().unwrap_or(command.dispatched);
        let waited = fill
            .clients_since
            .map_or(Nanos::ZERO, |since| done.finished.saturating_since(since.max(from)));
        let holds = sent.next == TimedSuccessor::Follows;
        if sent.taken {
            fill.governor.delayed_for_tail(waited, fill.governor.held_up(held));
        } else {
            fill.governor.delayed_drive(waited);
        }
        if holds && (held == 0 || fill.governor.affords(cost)) {
            timed.held_until = Some(done.finished + HELD);
            timed.since = Some(done.finished);
        }
    }
}
