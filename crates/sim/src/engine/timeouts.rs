//! Commands that the drive may never answer: when each is given up, and which answers still count.

use std::collections::{BTreeSet, VecDeque};

use headtime_sched::CommandId;
use headtime_units::{Instant, Nanos};

/// All commands wait equally long, so the order of sending is the order of giving up.
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

    /// The drive answers; whether anybody still waits for it.
    pub(super) fn answered(&mut self, command: CommandId) -> bool {
        let expected = self.unanswered.remove(&command);
        self.forget_answered();
        expected
    }

    /// When the next command is given up.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// A command to give up by `now`, if there is one.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<CommandId> {
        let (at, command) = *self.queue.front()?;
        if at > now {
            return None;
        }
        self.unanswered.remove(&command);
        self.forget_answered();
        Some(command)
    }

    /// Keeps an unanswered command, or none, at the front.
    fn forget_answered(&mut self) {
        while self.queue.front().is_some_and(|(_, command)| !self.unanswered.contains(command)) {
            self.queue.pop_front();
        }
    }
}
