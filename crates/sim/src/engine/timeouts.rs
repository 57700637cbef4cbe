//! Time limits of commands that the drive may never answer.

use std::collections::{BTreeSet, VecDeque};

use headtime_sched::CommandId;
use headtime_units::{Instant, Nanos};

/// All commands have the same time limit, so they expire in dispatch order.
pub(super) struct Timeouts {
    after: Nanos,
    queue: VecDeque<(Instant, CommandId)>,
    unanswered: BTreeSet<CommandId>,
}

impl Timeouts {
    pub(super) fn new(after: Nanos) -> Self {
        Self { after, queue: VecDeque::new(), unanswered: BTreeSet::new() }
    }

    pub(super) fn sent(&mut self, now: Instant, command: CommandId) {
        self.queue.push_back((now + self.after, command));
        self.unanswered.insert(command);
    }

    /// Records an answer; returns whether the command was still expected.
    pub(super) fn answered(&mut self, command: CommandId) -> bool {
        let expected = self.unanswered.remove(&command);
        self.forget_answered();
        expected
    }

    /// The next expiry.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// The next command that expired by `now`.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<CommandId> {
        let (at, command) = *self.queue.front()?;
        if at > now {
            return None;
        }
        self.unanswered.remove(&command);
        self.forget_answered();
        Some(command)
    }

    /// Drops answered commands from the front.
    fn forget_answered(&mut self) {
        while self.queue.front().is_some_and(|(_, command)| !self.unanswered.contains(command)) {
            self.queue.pop_front();
        }
    }
}
