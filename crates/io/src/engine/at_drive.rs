//! The commands at the drive and the time since each was sent.
//!
//! Example with a limit of 30 s: a write sent at 0 s is *slow* at 5 s, which is logged. It is
//! *given up* at 30 s, when its requests are answered. A flush or discard sent at 0 s is given up
//! at 60 s. A given-up command stays in this table, and so in the drive's queue, until the backend
//! reports it, because the drive may still execute it.

use std::collections::VecDeque;

use headtime_sched::{Command, CommandId, Op, Request, RequestId};
use headtime_units::{Instant, Nanos};

use crate::options::CommandTimeout;
use crate::snapshot::HungCounts;

/// Commands that were sent and not reported.
pub(super) struct AtDrive {
    /// The oldest first. Command numbers only increase, and the oldest is often reported first.
    commands: VecDeque<Sent>,
    slow_after: Nanos,
    limit: Option<Nanos>,
    /// The time of the next check. No command becomes slow or is given up before.
    next_check: Option<Instant>,
    /// The number of slow commands since the drive was opened.
    slow_ever: u64,
    given_up_ever: u64,
    came_back: u64,
    /// The number of given-up commands that the backend has not reported.
    given_up: usize,
}

/// A command at the drive.
pub(super) struct Sent {
    pub(super) command: Command,
    pub(super) since: Instant,
    /// For a flush, the count of answered writes that it covers, see
    /// [`super::unflushed::Unflushed`].
    pub(super) covers: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Awaited,
    Slow,
    GivenUp,
}

/// A command that exceeded a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// The command is slow, which is logged.
    Slow(CommandId),
    /// The command is given up, and its requests are answered.
    GivenUp(CommandId),
}

impl AtDrive {
    pub(super) fn new(timeout: CommandTimeout) -> Self {
        let slow_after = timeout.limit().map_or(LONGEST_SILENCE, |limit| {
            LONGEST_SILENCE.min(Nanos::from_ns(limit.as_ns() / SLOW_SHARE))
        });
        Self {
            commands: VecDeque::new(),
            slow_after,
            limit: timeout.limit(),
            next_check: None,
            slow_ever: 0,
            given_up_ever: 0,
            came_back: 0,
            given_up: 0,
        }
    }

    pub(super) fn send(&mut self, now: Instant, command: Command, covers: u64) {
        let check = now + self.slow_after;
        self.next_check = Some(self.next_check.map_or(check, |next| next.min(check)));
        self.commands.push_back(Sent { command, since: now, covers, stage: Stage::Awaited });
    }

    /// Removes a command that the backend reports.
    pub(super) fn take(&mut self, now: Instant, id: CommandId) -> Option<Sent> {
        let sent = self.commands.remove(self.place_of(id)?)?;
        if sent.stage == Stage::GivenUp {
            self.came_back += 1;
            self.given_up -= 1;
            tracing::info!(
                "a {} that was given up came back from the drive after {}",
                name(&sent.command),
                now.saturating_since(sent.since)
            );
        }
        Some(sent)
    }

    /// The time of the next check.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.next_check
    }

    /// Returns the commands that became slow or timed out by now, each once for each limit.
    pub(super) fn check(&mut self, now: Instant) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        if self.next_check.is_none_or(|next| now < next) {
            return overdue;
        }
        self.next_check = None;
        for sent in &mut self.commands {
            let slow_at = sent.since + self.slow_after;
            let give_up_at = self.limit.map(|limit| sent.since + limit_of(sent.command.op, limit));
            if sent.stage == Stage::Awaited && slow_at <= now {
                sent.stage = Stage::Slow;
                self.slow_ever += 1;
                overdue.push(Overdue::Slow(sent.command.id));
            }
            if sent.stage < Stage::GivenUp && give_up_at.is_some_and(|at| at <= now) {
                sent.stage = Stage::GivenUp;
                self.given_up_ever += 1;
                self.given_up += 1;
                overdue.push(Overdue::GivenUp(sent.command.id));
            }
            let next = match sent.stage {
                Stage::Awaited => Some(slow_at),
                Stage::Slow => give_up_at,
                Stage::GivenUp => None,
            };
            self.next_check = self.next_check.into_iter().chain(next).min();
        }
        overdue
    }

    pub(super) fn get(&self, id: CommandId) -> Option<&Sent> {
        self.commands.get(self.place_of(id)?)
    }

    fn place_of(&self, id: CommandId) -> Option<usize> {
        self.commands.binary_search_by_key(&id, |sent| sent.command.id).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns true if a command at the drive serves this request.
    pub(super) fn serves(&self, id: RequestId) -> bool {
        self.commands.iter().any(|sent| sent.command.requests.contains(&id))
    }

    /// The requests of all commands.
    pub(super) fn requests(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.commands.iter().flat_map(|sent| sent.command.requests.iter().copied())
    }

    pub(super) fn any_given_up(&self) -> bool {
        self.given_up > 0
    }

    /// Returns true if a request that is not at the drive cannot go there before a given-up command
    /// has come back.
    pub(super) fn in_the_way_of(&self, request: &Request) -> bool {
        let given_up = self.commands.iter().filter(|sent| sent.stage == Stage::GivenUp);
        given_up.map(|sent| &sent.command).any(|command| match (command.op, request.op) {
            // Flushes run one at a time, and durable writes may wait for a flush.
            (Op::Flush, Op::Flush) => true,
            (Op::Flush, op) => request.fua && op.changes_sectors(),
            (_, Op::Flush) => false,
            (earlier, op) => {
                (earlier.changes_sectors() || op.changes_sectors())
                    && command.extent.overlaps(request.extent)
            }
        })
    }

    pub(super) fn counts(&self) -> HungCounts {
        HungCounts {
            slow: self.commands.iter().filter(|sent| sent.stage >= Stage::Slow).count(),
            given_up: self.given_up,
            slow_ever: self.slow_ever,
            given_up_ever: self.given_up_ever,
            came_back: self.came_back,
        }
    }
}

/// The time limit of a command if reads and writes have `limit`.
pub(super) fn limit_of(op: Op, limit: Nanos) -> Nanos {
    match op {
        Op::Flush | Op::Discard => limit.saturating_mul(UNBOUNDED_SHARE),
        Op::Read | Op::Write | Op::Zero => limit,
    }
}

/// Returns a readable name of a command, such as `write of LBA 8..+8`.
pub(super) fn name(command: &Command) -> String {
    match command.op {
        Op::Flush => "flush".to_owned(),
        op => format!("{} of {}", op.name(), command.extent),
    }
}

/// The time after which a command is slow (guess). A healthy disk answers in well under a second.
/// Error recovery of a bad sector usually takes up to about 7 s. An operator needs the log message
/// before the requests fail.
const LONGEST_SILENCE: Nanos = Nanos::from_secs(5);
/// The factor for the limit of a flush or discard, whose work does not depend on its own length.
/// Linux uses twice the usual limit for a flush as well.
const UNBOUNDED_SHARE: u64 = 2;
/// With a shorter limit, a command is slow after this share of it.
const SLOW_SHARE: u64 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::{ClassId, StreamId, VolumeId};
    use headtime_units::Extent;
    use smallvec::smallvec;

    fn command(id: u64, op: Op, start: u64, len: u64) -> Command {
        Command {
            id: CommandId(id),
            op,
            extent: Extent::from_numbers(start, len),
            fua: false,
            background: None,
            requests: smallvec![RequestId(id)],
        }
    }

    fn request(op: Op, start: u64, len: u64, fua: bool) -> Request {
        let extent = Extent::from_numbers(start, len);
        Request {
            id: RequestId(99),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op,
            extent,
            fua,
            deadline: None,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_secs(seconds)
    }

    #[test]
    fn each_command_is_slow_once_and_given_up_once_at_its_time() {
        let mut drive = AtDrive::new(CommandTimeout::after(Nanos::from_secs(30)));
        assert_eq!(drive.next_check(), None);
        drive.send(at(0), command(0, Op::Read, 0, 8), 0);
        drive.send(at(3), command(1, Op::Write, 8, 8), 0);
        assert_eq!((drive.next_check(), drive.check(at(4))), (Some(at(5)), vec![]));
        assert_eq!(drive.check(at(5)), [Overdue::Slow(CommandId(0))]);
        assert_eq!(drive.next_check(), Some(at(8)));
        assert_eq!(
            drive.check(at(31)),
            [Overdue::GivenUp(CommandId(0)), Overdue::Slow(CommandId(1))]
        );
        assert_eq!(drive.next_check(), Some(at(33)));
        assert_eq!(drive.check(at(33)), [Overdue::GivenUp(CommandId(1))]);
        assert_eq!((drive.next_check(), drive.check(at(1000))), (None, vec![]));
        assert_eq!(
            drive.counts(),
            HungCounts { slow: 2, given_up: 2, slow_ever: 2, given_up_ever: 2, came_back: 0 }
        );
        assert!(
            drive.take(at(40), CommandId(0)).is_some()
                && drive.take(at(40), CommandId(0)).is_none()
        );
        assert_eq!(
            drive.counts(),
            HungCounts { slow: 1, given_up: 1, slow_ever: 2, given_up_ever: 2, came_back: 1 }
        );
    }

    #[test]
    fn flushes_and_discards_have_twice_the_time() {
        let mut drive = AtDrive::new(CommandTimeout::after(Nanos::from_secs(30)));
        drive.send(at(0), command(0, Op::Flush, 0, 0), 0);
        drive.send(at(0), command(1, Op::Discard, 0, 8), 0);
        assert_eq!(drive.check(at(59)), [Overdue::Slow(CommandId(0)), Overdue::Slow(CommandId(1))]);
        assert_eq!(drive.next_check(), Some(at(60)));
        assert_eq!(
            drive.check(at(60)),
            [Overdue::GivenUp(CommandId(0)), Overdue::GivenUp(CommandId(1))]
        );
    }

    #[test]
    fn without_a_limit_slow_commands_are_reported_and_never_given_up() {
        let mut drive = AtDrive::new(CommandTimeout::NEVER);
        drive.send(at(0), command(0, Op::Read, 0, 8), 0);
        assert_eq!(drive.check(at(100_000)), [Overdue::Slow(CommandId(0))]);
        assert_eq!(drive.next_check(), None);
    }

    #[test]
    fn a_given_up_command_blocks_overlapping_changes_and_a_flush_blocks_flushes() {
        let mut drive = AtDrive::new(CommandTimeout::after(Nanos::from_secs(6)));
        drive.send(at(0), command(0, Op::Write, 8, 8), 0);
        assert!(!drive.in_the_way_of(&request(Op::Read, 8, 8, false)), "it is not given up yet");
        drive.check(at(6));
        assert!(
            drive.in_the_way_of(&request(Op::Read, 15, 1, false))
                && drive.in_the_way_of(&request(Op::Write, 0, 9, false))
        );
        assert!(
            !drive.in_the_way_of(&request(Op::Write, 16, 8, true))
                && !drive.in_the_way_of(&request(Op::Flush, 0, 0, false))
        );
        drive.take(at(7), CommandId(0));
        drive.send(at(7), command(1, Op::Read, 8, 8), 0);
        drive.send(at(7), command(2, Op::Flush, 0, 0), 0);
        drive.check(at(19));
        assert!(
            !drive.in_the_way_of(&request(Op::Read, 8, 8, false))
                && drive.in_the_way_of(&request(Op::Zero, 8, 8, false))
        );
        assert!(
            drive.in_the_way_of(&request(Op::Flush, 0, 0, false))
                && drive.in_the_way_of(&request(Op::Write, 100, 1, true))
        );
        assert!(!drive.in_the_way_of(&request(Op::Write, 100, 1, false)));
    }
}
