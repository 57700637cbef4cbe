//! What the scheduler knows of the drive beside positions: [`DriveTraits`], the caller's
//! [`QueueLimits`], and its outstanding [`Commands`].

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

use crate::command::CommandId;
use crate::positioning::Target;
use crate::queue::{Queued, Ticket};
use crate::request::Op;
use crate::shares::Charge;

/// The properties of a drive beside positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveTraits {
    /// The maximum number of commands at the drive; at least 1.
    pub queue_depth: usize,
    /// True if the drive honors force unit access on writes itself; otherwise a flush follows each
    /// such write. Zeroes and discards have no such bit on any drive and are always followed by a
    /// flush.
    pub fua: bool,
}

/// Bounds the caller sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The maximum number of requests held, queued and at the drive together.
    pub requests: usize,
    /// The number of commands at the drive whatever the policy prefers, flushes included; `None`
    /// leaves it to the policy.
    pub outstanding: Option<usize>,
}

impl Default for QueueLimits {
    /// 65,536 requests (about 20 MiB), the depth left to the policy.
    fn default() -> Self {
        Self { requests: 65_536, outstanding: None }
    }
}

/// The predicted service of a command, most likely, at its dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictedService {
    /// Time until the head departs, from the dispatch or, if later, from the end of the previous
    /// access.
    pub overhead: Nanos,
    /// The minimum arm time.
    pub seek: Nanos,
    /// The rest of positioning: rotation, and arm time beyond the minimum.
    pub rotation: Nanos,
    /// Media time.
    pub transfer: Nanos,
}

impl PredictedService {
    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.overhead + self.seek + self.rotation + self.transfer
    }
}

/// The commands at the drive, in the order they were sent; each is an [`Outstanding`].
///
/// What a decision needs of all of them is kept beside: reading it from each of many commands costs
/// more than the rest of the decision.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// In the order of their ids.
    commands: VecDeque<Outstanding>,
    worst: Nanos,
    /// Commands that do not read.
    not_reads: usize,
    /// The deadlines that a policy with a chain protects, in any order.
    deadlines: Vec<(Ticket, Instant)>,
    /// The earliest of them.
    first_due: Option<Instant>,
}

impl Commands {
    /// The sum of their worst-case service times.
    #[must_use]
    pub fn worst(&self) -> Nanos {
        self.worst
    }

    /// The command with this id.
    #[must_use]
    pub fn by_id(&self, id: CommandId) -> Option<&Outstanding> {
        self.commands.get(self.place_of(id)?)
    }

    pub(crate) fn place_of(&self, id: CommandId) -> Option<usize> {
        // The drive often completes the oldest first.
        if self.commands.front().is_some_and(|oldest| oldest.command == id) {
            return Some(0);
        }
        self.commands.binary_search_by_key(&id, |command| command.command).ok()
    }

    /// Returns whether all of them read.
    pub(crate) fn only_read(&self) -> bool {
        self.not_reads == 0
    }

    /// Returns whether one of their requests whose deadlines count for a policy that guarantees
    /// deadlines is due in this time.
    pub(crate) fn any_due_in(&self, time: Range<Instant>) -> bool {
        self.first_due.is_some_and(|first| first < time.end)
            && self.deadlines.iter().any(|(_, due)| time.contains(due))
    }

    pub(crate) fn push(&mut self, command: Outstanding) {
        self.count(&command);
        self.commands.push_back(command);
    }

    pub(crate) fn remove(&mut self, index: usize) -> Outstanding {
        let removed = match index {
            0 => self.commands.pop_front(),
            _ => self.commands.remove(index),
        };
        let command = removed.expect("a command is removed once");
        self.worst -= command.worst;
        self.not_reads -= usize::from(command.target.op != Op::Read);
        for queued in &command.requests {
            let place = self.deadlines.iter().position(|(ticket, _)| *ticket == queued.ticket);
            let removed = place.map(|place| self.deadlines.swap_remove(place).1);
            if removed.is_some() && removed == self.first_due {
                self.first_due = self.deadlines.iter().map(|(_, due)| *due).min();
            }
        }
        command
    }

    /// Removes a command that is there.
    pub(crate) fn remove_command(&mut self, id: CommandId) {
        self.remove(self.place_of(id).expect("a command is removed where it was sent"));
    }

    pub(crate) fn change(&mut self, change: impl FnMut(&mut Outstanding)) {
        let mut commands = core::mem::take(self).commands;
        commands.iter_mut().for_each(change);
        *self = commands.into_iter().collect();
    }

    /// Checks that what is kept beside the commands is what they say.
    ///
    /// # Panics
    /// When it is not: a fault of this module.
    pub(crate) fn self_check(&self) {
        let by_ticket = |commands: &Self| {
            let mut deadlines = commands.deadlines.clone();
            deadlines.sort_unstable();
            deadlines
        };
        let again: Self = self.commands.iter().cloned().collect();
        assert_eq!(
            (self.worst, self.not_reads, self.first_due, by_ticket(self)),
            (again.worst, again.not_reads, again.first_due, by_ticket(&again)),
            "worst cases, operations or deadlines of the commands at the drive"
        );
        assert!(self.commands.iter().is_sorted_by_key(|command| command.command), "their order");
    }

    fn count(&mut self, command: &Outstanding) {
        self.worst += command.worst;
        self.not_reads += usize::from(command.target.op != Op::Read);
        for queued in &command.requests {
            if let Some(due) = queued.protected_deadline() {
                self.deadlines.push((queued.ticket, due));
                self.first_due = Some(self.first_due.map_or(due, |first| first.min(due)));
            }
        }
    }
}

impl Deref for Commands {
    type Target = VecDeque<Outstanding>;

    fn deref(&self) -> &VecDeque<Outstanding> {
        &self.commands
    }
}

impl FromIterator<Outstanding> for Commands {
    fn from_iter<I: IntoIterator<Item = Outstanding>>(commands: I) -> Self {
        let mut all = Self::default();
        commands.into_iter().for_each(|command| all.push(command));
        all
    }
}

/// A command at the drive.
#[derive(Clone, Debug)]
pub struct Outstanding {
    /// Its id.
    pub command: CommandId,
    /// Its sectors; for a flush those of an empty run at the start of the drive.
    pub target: Target,
    /// True for a write that is complete only when it is on the medium (force unit access).
    pub fua: bool,
    /// The time at which it was sent.
    pub dispatched: Instant,
    /// The requests it serves; none where everything is read for scans.
    pub requests: SmallVec<[Queued; 1]>,
    /// The run of sectors that is read for scans, if any.
    pub background: Option<Extent>,
    /// Its predicted service; recorded only on request
    /// ([`Scheduler::record_predictions`](crate::Scheduler::record_predictions)), never for a flush
    /// or discard.
    pub predicted: Option<PredictedService>,
    /// Its end, as predicted at its dispatch; recorded with `predicted`.
    pub(crate) ends: Option<Instant>,
    /// Its worst-case service time; zero where the policy has none
    /// ([`Policy::worst_service`](crate::Policy::worst_service)) and for flushes and discards.
    pub worst: Nanos,
    /// True if the drive's cache probably answers it, so that the head stays where it is.
    pub(crate) probably_cached: bool,
    /// True for a write that the drive's cache probably takes at once, so that the head does not go
    /// there now.
    pub(crate) probably_taken: bool,
    /// The sums of [`Finished::other_arms`](crate::Finished::other_arms) and
    /// [`Finished::overlapped`](crate::Finished::overlapped), once it is done.
    pub(crate) other_arms: Nanos,
    pub(crate) overlapped: Nanos,
    /// The charge of each of `requests` at dispatch; empty while no shares are tracked.
    pub(crate) charges: SmallVec<[Charge; 1]>,
    /// The job that the `background` run belongs to.
    pub(crate) job: Option<Ticket>,
}
