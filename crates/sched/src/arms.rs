//! The arms of a drive: [`Arms`] says which one serves an address, and [`ArmState`] is what the
//! scheduler holds for each of several.
//!
//! Worked example, two arms over 100 sectors, the first for LBAs 0–49: the unit is 50, and LBA 60
//! is served by arm 60 / 50 mod 2 = 1. An array of three members with stripes of 4 has a unit of 4:
//! LBA 14 is on member 14 / 4 mod 3 = 0. If each member has two arms, of 8 sectors each, LBA 38 is
//! in stripe 9, the fourth of member 0, at its sector 14: arm 14 / 8 = 1 of that member, arm 1 of
//! six.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use smallvec::SmallVec;

use crate::command::{CommandId, Finished};
use crate::drive::{Commands, Outstanding};
use crate::positioning::{AccessKind, Head, Target};
use crate::queue::{Queue, Queued};
use crate::request::Op;
use crate::room::WrittenOfArm;
use crate::shares::{ShareChange, Shares};

/// The arms of a drive, or of the members of an array, that work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arms {
    count: usize,
    /// The sectors after which the next arm, or the next member of an array, serves; `None` where
    /// that is not known.
    unit: Option<Sectors>,
    /// The arms of each member of an array, and the sectors of each arm.
    of_member: (usize, Sectors),
}

impl Arms {
    /// One arm.
    pub const ONE: Self = Self { count: 1, unit: None, of_member: ONE_OF_MEMBER };

    /// Arms that serve `unit` sectors in turn.
    ///
    /// # Panics
    /// Without an arm, or when `unit` is empty.
    #[must_use]
    pub fn in_turn(count: usize, unit: Sectors) -> Self {
        assert!(count > 0 && !unit.is_zero(), "{count} arms in turn of {unit}");
        Self { count, unit: (count > 1).then_some(unit), of_member: ONE_OF_MEMBER }
    }

    /// The arms of an array of `members` drives with these arms each, striped by `stripe`. Of
    /// drives whose arms are not known by address, or are members of arrays, each counts as one.
    ///
    /// # Panics
    /// Without a member, or when `stripe` is empty.
    #[must_use]
    pub fn striped(self, members: usize, stripe: Sectors) -> Self {
        let each = Self::in_turn(members, stripe);
        match self.unit {
            Some(unit) if members > 1 && self.of_member == ONE_OF_MEMBER => {
                Self { count: members * self.count, of_member: (self.count, unit), ..each }
            }
            _ => each,
        }
    }

    /// Arms of which it is not known which one serves an address.
    #[must_use]
    pub fn unknown(count: usize) -> Self {
        Self { count: count.max(1), ..Self::ONE }
    }

    /// The number of arms, at least 1.
    #[must_use]
    pub const fn count(self) -> usize {
        self.count
    }

    /// The arm that serves an address; `None` for a single arm, and where it is not known.
    #[must_use]
    pub fn arm_of(self, lba: Lba) -> Option<usize> {
        let unit = self.unit?.get();
        let members = self.members() as u64;
        let (stripe, (arms, sectors)) = (lba.get() / unit, self.of_member);
        let local = stripe / members * unit + lba.get() % unit;
        let arm = local.checked_div(sectors.get()).unwrap_or(0).min(arms as u64 - 1);
        Some((stripe % members) as usize * arms + arm as usize)
    }

    /// The number of blocks of addresses, on the drive or on each member of an array, each with an
    /// arm of its own.
    pub(crate) fn in_blocks(self, capacity: Sectors) -> usize {
        let whole = self.unit.is_some_and(|unit| unit.get() >= capacity.get() / self.count as u64);
        if whole { self.count } else { self.of_member.0 }
    }

    /// The other arms of the same drive, or of the same member of an array.
    pub(crate) fn beside(self, arm: usize, capacity: Sectors) -> impl Iterator<Item = usize> {
        let of_drive = self.in_blocks(capacity);
        let first = arm / of_drive * of_drive;
        (first..first + of_drive).filter(move |other| *other != arm)
    }

    fn members(self) -> usize {
        self.count / self.of_member.0
    }

    /// The arms that serve sectors of `extent`, the first one first; none where it is not known.
    pub(crate) fn serving(self, extent: Extent) -> impl Iterator<Item = usize> {
        let unit = self.unit.filter(|_| !extent.len.is_zero()).map_or(0, Sectors::get);
        let stripe_of = |lba: Lba| lba.get().checked_div(unit).unwrap_or(0);
        let end = if extent.len.is_zero() { extent.start } else { extent.last() };
        let (first, last) = (stripe_of(extent.start), stripe_of(end));
        let members = self.members() as u64;
        // The first and the last stripe of each member: its arms between them serve.
        let begins = (first..=last).take(if unit == 0 { 0 } else { self.members() });
        begins.flat_map(move |begin| {
            let last_of_member = begin + (last - begin) / members * members;
            let from = Lba::new(extent.start.get().max(begin * unit));
            let to = Lba::new(end.get().min(last_of_member * unit + unit - 1));
            self.arm_of(from).unwrap_or(0)..self.arm_of(to).map_or(0, |arm| arm + 1)
        })
    }
}

/// A drive without arms that are told apart by address.
const ONE_OF_MEMBER: (usize, Sectors) = (1, Sectors::ZERO);

/// The last access of an arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastAccess {
    /// The head after it.
    pub(crate) head: Head,
    /// True if the head is known to be there, so that the next completion can be learned from.
    pub(crate) certain: bool,
    /// The time at which it was reported.
    pub(crate) finished: Instant,
}

impl LastAccess {
    pub(crate) const NONE: Self =
        Self { head: Head::UNKNOWN, certain: false, finished: Instant::ORIGIN };

    /// An access has ended at `finished` with the arm at `head`.
    pub(crate) fn ended(&mut self, after: Self) {
        self.certain = after.certain && after.finished > self.finished;
        if after.finished >= self.finished {
            (self.head, self.finished) = (after.head, after.finished);
        }
    }
}

/// A moving mean of the response times of the last 64 requests or so; the first request sets it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeanResponse(Nanos);

impl MeanResponse {
    pub(crate) fn add(&mut self, response: Nanos) {
        self.0 = match self.0 {
            Nanos::ZERO => response,
            mean => mean - mean / 64 + response / 64,
        };
    }

    /// Zero before the first request.
    pub(crate) fn get(self) -> Nanos {
        self.0
    }
}

/// The requests, the commands, the last access and the shares of one of several arms.
pub(crate) struct ArmState {
    pub(crate) queue: Queue,
    /// The commands at the drive that this arm serves, also those that others serve too: all serve
    /// a flush.
    pub(crate) commands: Commands,
    /// The shares of its time. Each tenant has the same terms for each arm; flushes have their
    /// turns, and are charged, on the first.
    pub(crate) shares: Shares,
    pub(crate) last: LastAccess,
    /// The mean response time of its requests: those of another arm say nothing about their age.
    pub(crate) mean_response: MeanResponse,
    pub(crate) written: WrittenOfArm,
    /// The id after that of the last command that this arm serves, flushes included.
    pub(crate) next_command: CommandId,
    /// The last completion, and that of a command that was not taken into the drive's cache.
    finished: Instant,
    busy_until: Instant,
}

/// The states of several arms that are known by address; empty for one arm.
pub(crate) struct ArmStates {
    arms: Arms,
    states: Vec<ArmState>,
    /// Queued requests that lie on several arms, each in the queue of its first.
    on_several: usize,
}

impl ArmStates {
    pub(crate) fn of(arms: Arms) -> Self {
        let count = if arms.unit.is_some() { arms.count } else { 0 };
        let state = |_| ArmState {
            queue: Queue::default(),
            commands: Commands::default(),
            shares: Shares::new(),
            last: LastAccess::NONE,
            mean_response: MeanResponse::default(),
            written: WrittenOfArm::default(),
            next_command: CommandId(0),
            finished: Instant::ORIGIN,
            busy_until: Instant::ORIGIN,
        };
        Self { arms, states: (0..count).map(state).collect(), on_several: 0 }
    }

    pub(crate) fn all(&self) -> &[ArmState] {
        &self.states
    }

    /// Returns whether a queued request lies on several arms.
    pub(crate) fn any_on_several(&self) -> bool {
        self.on_several > 0
    }

    fn is_on_several(&self, queued: &Queued) -> bool {
        self.arms.serving(queued.request.extent).nth(1).is_some()
    }

    fn serving(&mut self, queued: &Queued) -> Option<&mut ArmState> {
        let arm = self.arms.arm_of(queued.request.extent.start)?;
        self.states.get_mut(arm)
    }

    /// The shares in which a request is charged.
    pub(crate) fn shares_of(&mut self, op: Op, queued: &Queued) -> Option<&mut Shares> {
        let state = if op == Op::Flush { self.states.first_mut() } else { self.serving(queued) };
        state.map(|state| &mut state.shares)
    }

    /// The shares in which flushes wait for their turns.
    pub(crate) fn shares_of_flushes(&mut self) -> Option<&mut Shares> {
        self.states.first_mut().map(|state| &mut state.shares)
    }

    /// Makes changes of terms that have been checked, and starts tracking.
    pub(crate) fn change_shares(
        &mut self,
        now: Instant,
        changes: &[ShareChange],
        flushes: &[Queued],
    ) {
        for (arm, state) in self.states.iter_mut().enumerate() {
            let flushes = if arm == 0 { flushes } else { &[] };
            state.shares.keep(now, state.queue.by_arrival(), flushes);
            state.shares.change(now, changes);
        }
    }

    /// Goes on with the shares of `before`; returns false if those are of other arms.
    pub(crate) fn take_shares(&mut self, before: &mut Self) -> bool {
        let same = self.arms == before.arms;
        if same {
            for (state, before) in self.states.iter_mut().zip(&mut before.states) {
                core::mem::swap(&mut state.shares, &mut before.shares);
            }
        }
        same
    }

    pub(crate) fn enter(&mut self, now: Instant, queued: &Queued) {
        if self.states.is_empty() {
            return;
        }
        self.on_several += usize::from(self.is_on_several(queued));
        if let Some(state) = self.serving(queued) {
            state.queue.insert(queued);
            state.shares.enter(now, queued);
        }
    }

    pub(crate) fn leave(&mut self, now: Instant, queued: &Queued) {
        if self.states.is_empty() {
            return;
        }
        self.on_several -= usize::from(self.is_on_several(queued));
        if let Some(state) = self.serving(queued) {
            state.queue.remove(queued.ticket);
            state.shares.leave(now, queued);
        }
    }

    pub(crate) fn are_several(&self) -> bool {
        !self.states.is_empty()
    }

    /// The states of the arms that serve a command: all for a flush.
    fn of_command(&mut self, command: &Outstanding) -> impl Iterator<Item = &mut ArmState> {
        let serving: SmallVec<[usize; 4]> = match command.target.op {
            Op::Flush => (0..self.states.len()).collect(),
            _ => self.arms.serving(command.target.extent).collect(),
        };
        let states = self.states.iter_mut().enumerate();
        states.filter(move |(arm, _)| serving.contains(arm)).map(|(_, state)| state)
    }

    /// A command was sent.
    pub(crate) fn sent(&mut self, command: &Outstanding) {
        let next_command = CommandId(command.command.0 + 1);
        self.of_command(command).for_each(|state| {
            state.commands.push(command.clone());
            state.next_command = next_command;
        });
    }

    /// A command is done.
    pub(crate) fn done(&mut self, command: &Outstanding) {
        if self.states.is_empty() {
            return;
        }
        self.of_command(command).for_each(|state| {
            state.commands.remove_command(command.command);
        });
    }

    /// Notes in a command that is done at `finished` the times on the first of its arms, where
    /// `disk_time` is that of the drive. A write with [`AccessKind::CacheHit`] was taken into the
    /// cache.
    #[inline(never)]
    pub(crate) fn note_times(
        &mut self,
        command: &mut Outstanding,
        finished: Instant,
        kind: AccessKind,
        disk_time: Nanos,
        revolution: Nanos,
    ) {
        let goes_into_cache = kind == AccessKind::CacheHit && command.target.op != Op::Read;
        let mut times = None;
        for state in self.of_command(command) {
            let before = state.finished;
            state.finished = before.max(finished);
            if command.target.op == Op::Write && !command.fua {
                state.written.wrote(command, finished, revolution);
            }
            let on_arm = finished.saturating_since(before.max(command.dispatched));
            let mut overlapped = Nanos::ZERO;
            if !goes_into_cache {
                overlapped = before.saturating_since(state.busy_until.max(command.dispatched));
                state.busy_until = state.finished;
            }
            times = times.or(Some((on_arm.saturating_sub(disk_time), overlapped)));
        }
        (command.other_arms, command.overlapped) = times.unwrap_or_default();
    }

    /// The commands at the drive have changed.
    pub(crate) fn renew_commands(&mut self, commands: &Commands) {
        self.states.iter_mut().for_each(|state| state.commands = Commands::default());
        commands.iter().for_each(|command| self.sent(command));
    }

    pub(crate) fn set_deadline(
        &mut self,
        now: Instant,
        queued: &Queued,
        deadline: Option<Instant>,
    ) {
        if let Some(state) = self.serving(queued) {
            state.queue.set_deadline(queued.ticket, deadline);
            let tenant = queued.request.tenant();
            state.shares.set_deadline(now, tenant, queued.ticket, deadline);
        }
    }

    /// The last access of the arm that serves the first sector of `target`.
    pub(crate) fn last_of(&mut self, target: &Target) -> Option<&mut LastAccess> {
        let arm = self.arms.arm_of(target.extent.start)?;
        self.states.get_mut(arm).map(|state| &mut state.last)
    }

    /// The arms have served `target`; of several, each ended somewhere on it.
    pub(crate) fn ended(&mut self, target: &Target, after: LastAccess) {
        let alone = self.arms.serving(target.extent).nth(1).is_none();
        for arm in self.arms.serving(target.extent) {
            if let Some(state) = self.states.get_mut(arm) {
                state.last.ended(LastAccess { certain: after.certain && alone, ..after });
            }
        }
    }

    /// A read or write has succeeded.
    pub(crate) fn responded(&mut self, finished: &Finished) {
        let arm = self.arms.arm_of(finished.request.extent.start);
        if let Some(state) = arm.and_then(|arm| self.states.get_mut(arm)) {
            state.mean_response.add(finished.response());
        }
    }

    /// The writes that were done at `sent` have been flushed.
    pub(crate) fn saved(&mut self, sent: Instant) {
        self.states.iter_mut().for_each(|state| state.written.flushed(sent));
    }

    /// The arms may be anywhere, since a flush that ended at `finished`.
    pub(crate) fn flushed(&mut self, finished: Instant) {
        for ArmState { last, .. } in &mut self.states {
            (last.certain, last.finished) = (false, last.finished.max(finished));
        }
    }

    /// Checks that each request of `queue` is in the queue of its arm, and no other is, and that
    /// each arm has those of `commands` that it serves.
    ///
    /// # Panics
    /// When it is not so: a fault of the scheduler.
    pub(crate) fn self_check(&self, queue: &Queue, commands: &Commands, flushes: usize) {
        if self.states.is_empty() {
            return;
        }
        for queued in queue.by_arrival() {
            let arm = self.arms.arm_of(queued.request.extent.start).unwrap_or_default();
            let same = self.states[arm].queue.get(queued.ticket);
            assert_eq!(same, Some(queued), "arm {arm} does not hold a request of its own");
        }
        self.states.iter().for_each(|state| state.queue.self_check());
        let held: usize = self.states.iter().map(|state| state.queue.len()).sum();
        assert_eq!(held, queue.len(), "an arm holds a request that is gone");
        let several = queue.by_arrival().filter(|queued| self.is_on_several(queued)).count();
        assert_eq!(self.on_several, several, "requests on several arms");
        for (arm, state) in self.states.iter().enumerate() {
            let serves = |command: &&Outstanding| {
                command.target.op == Op::Flush
                    || self.arms.serving(command.target.extent).any(|serving| serving == arm)
            };
            let ids = |command: &Outstanding| (command.command, command.worst);
            let own: Vec<_> = state.commands.iter().map(ids).collect();
            let expected: Vec<_> = commands.iter().filter(serves).map(ids).collect();
            assert_eq!(own, expected, "commands of arm {arm}");
            state.commands.self_check();
            let at_drive = state.commands.iter().map(|command| command.requests.len()).sum();
            let flushes = if arm == 0 { flushes } else { 0 };
            state.shares.self_check(&state.queue, flushes, at_drive);
        }
    }

    pub(crate) fn forget_orders(&mut self) {
        for state in &mut self.states {
            state.queue.forget_orders();
            state.shares.forget_orders();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_examples_are_served_as_they_say() {
        let two = Arms::in_turn(2, Sectors::new(50));
        assert_eq!((two.arm_of(Lba::new(49)), two.arm_of(Lba::new(60))), (Some(0), Some(1)));
        assert_eq!(Arms::in_turn(3, Sectors::new(4)).arm_of(Lba::new(14)), Some(0));
        assert_eq!(Arms::in_turn(1, Sectors::new(4)).arm_of(Lba::new(14)), None);
        assert_eq!((Arms::unknown(3).count(), Arms::unknown(3).arm_of(Lba::new(9))), (3, None));
        let each = Arms::in_turn(2, Sectors::new(8)).striped(3, Sectors::new(4));
        assert_eq!((each.count(), each.arm_of(Lba::new(38))), (6, Some(1)));
    }

    #[test]
    fn an_extent_is_served_by_the_arms_of_its_units() {
        let serving = |start, len| -> Vec<usize> {
            let three = Arms::in_turn(3, Sectors::new(4));
            three.serving(Extent::from_numbers(start, len)).collect()
        };
        assert_eq!(
            [serving(8, 4), serving(11, 2), serving(7, 90)],
            [Vec::from([2]), Vec::from([2, 0]), Vec::from([1, 2, 0])]
        );
        assert_eq!(Arms::ONE.serving(Extent::from_numbers(0, 9)).count(), 0);
        // Every sector is served by an arm of its extent, and every arm serves a sector of it.
        let each = Arms::in_turn(2, Sectors::new(8)).striped(3, Sectors::new(4));
        for (start, len) in (0..48).flat_map(|start| (1..=48 - start).map(move |len| (start, len)))
        {
            let extent = Extent::from_numbers(start, len);
            let mut by_sector: Vec<usize> =
                (start..start + len).filter_map(|lba| each.arm_of(Lba::new(lba))).collect();
            let mut serving: Vec<usize> = each.serving(extent).collect();
            assert_eq!(serving.first(), by_sector.first(), "{extent}");
            by_sector.sort_unstable();
            by_sector.dedup();
            serving.sort_unstable();
            assert_eq!(serving, by_sector, "{extent}");
        }
    }
}
