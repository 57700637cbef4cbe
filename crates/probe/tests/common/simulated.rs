//! A driver in virtual time: carries asks out at a simulated drive. The probe's own tests use it
//! too, by way of `tests/unit/bench.rs`.

use headtime_sched::{Command, CommandId, Op};
use headtime_sim::{Device, DriveTruth, SimulatedDrive};
use headtime_units::{Instant, Nanos};

use super::probe::{BatchCommand, CommandBatch, CommandKind, CommandOutcome, TimedCommand};

/// A simulated drive and a clock.
pub(super) struct Simulated {
    drive: SimulatedDrive,
    pub now: Instant,
    next_id: u64,
}

/// From a completion until the next command is at the drive: what a quick host takes.
const HOST: Nanos = Nanos::from_ns(1_000);

impl Simulated {
    pub(super) fn new(truth: DriveTruth) -> Self {
        Self {
            drive: SimulatedDrive::new(truth).expect("the truth is a drive"),
            now: Instant::ORIGIN,
            next_id: 0,
        }
    }

    /// Carries an ask out; each command ends as `outcome` says of it. The drive gets no more
    /// commands than it holds; the others wait outside.
    pub(super) fn carry_out(
        &mut self,
        mut batch: CommandBatch,
        outcome: impl Fn(&BatchCommand) -> CommandOutcome,
    ) -> Vec<TimedCommand> {
        let mut under_way: Vec<(CommandId, BatchCommand)> = Vec::new();
        loop {
            let now = (self.now + HOST).max(batch.not_before());
            while self.drive.held() < self.drive.queue_depth()
                && let Some(issue) = batch.next(now)
            {
                let (op, fua) = match issue.kind {
                    CommandKind::Read | CommandKind::ReadAndKeep => (Op::Read, false),
                    CommandKind::WriteBack { fua } => (Op::Write, fua),
                };
                let id = CommandId(self.next_id);
                self.next_id += 1;
                self.drive.submit(
                    now,
                    &Command {
                        id,
                        op,
                        extent: issue.extent,
                        fua,
                        background: None,
                        requests: Default::default(),
                    },
                );
                under_way.push((id, issue));
                self.now = now;
            }
            if batch.is_over() {
                return batch.into_results();
            }
            let mut completions = Vec::new();
            while completions.is_empty() {
                let at = self.drive.next_event().expect("a command is under way");
                self.drive.advance(at, &mut completions);
                self.now = self.now.max(at);
            }
            for completion in completions {
                let place = under_way
                    .iter()
                    .position(|(id, _)| *id == completion.command)
                    .expect("only what was submitted completes");
                let (_, issue) = under_way.swap_remove(place);
                batch.completed(issue.id, completion.finished, outcome(&issue));
            }
        }
    }
}
