//! [`Device`]: the interface between the engine and a simulated drive, array or faulty drive.

use headtime_sched::{Command, CommandId, Outcome};
use headtime_units::{Instant, Nanos, Sectors};

use headtime_mechanics::DiskTime;

/// A drive that holds commands and reports completions. All times come from the caller.
///
/// Call order: [`Device::submit`] for each command; [`Device::advance`] at (or, in real time,
/// after) each [`Device::next_event`]. `now` never decreases. Internal events happen at their own
/// times, however late `advance` is called.
pub trait Device {
    /// The maximum number of commands held at once.
    fn queue_depth(&self) -> usize;

    /// The size in logical sectors.
    fn capacity(&self) -> Sectors;

    /// Independent arms of a drive or of all drives of an array.
    fn arms(&self) -> usize {
        1
    }

    /// Submits a command.
    ///
    /// # Panics
    /// If the drive is full, the extent does not lie on it, or time decreased.
    fn submit(&mut self, now: Instant, command: &Command);

    /// The time of the next event, if anything is in progress.
    fn next_event(&self) -> Option<Instant>;

    /// Processes all events up to `now` and appends the completions reported since the last call,
    /// in report order.
    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>);

    /// Gives a command up: its slot is free at once and it is not reported (a faulty drive may
    /// break this). A queued command never starts; a command in service runs to its end.
    fn abort(&mut self, now: Instant, command: CommandId);

    /// The drive's time by activity from the origin until `now`, which is no earlier than the last
    /// call, and no later than the next due event, so that readings never decrease. Each of the
    /// [`Device::arms`] accounts for all of the time; the result is the sum.
    fn disk_time(&self, now: Instant) -> DiskTime;
}

/// One command that the drive reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCompletion {
    /// The command.
    pub command: CommandId,
    /// The time at which the host saw it; reports are in this order.
    pub finished: Instant,
    /// The result.
    pub outcome: Outcome,
    /// The time by activity, for statistics only: schedulers learn from `finished`.
    pub breakdown: Breakdown,
}

/// One command's time by activity. The parts add up to the time from submission to the true
/// completion; a noisy report comes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Command and completion overhead and the bus outside the media access, overlapped or not.
    pub overhead: Nanos,
    /// Ready and waiting for the mechanism.
    pub waited: Nanos,
    /// Arm, head switches and settles.
    pub seek: Nanos,
    /// Rotational latency, waiting for a write's data, and the time of outliers.
    pub rotate: Nanos,
    /// Sectors passing under the head.
    pub transfer: Nanos,
}

impl Breakdown {
    /// The sum of all parts.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.overhead + self.waited + self.seek + self.rotate + self.transfer
    }
}
