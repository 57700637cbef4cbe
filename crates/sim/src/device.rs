//! [`Device`]: what the engine drives: the simulated drive, or faults wrapped around one.

use headtime_sched::{Command, CommandId, Outcome};
use headtime_units::{Instant, Nanos, Sectors};

use crate::disk_time::DiskTime;

/// A drive that holds commands and reports completions; it knows no clock but the times it is told.
///
/// Call order: [`Device::submit`] as commands go out; [`Device::advance`] at (or, in real time,
/// after) each [`Device::next_event`]. `now` never runs back over all calls. What happens inside
/// happens at its own time, however late `advance` is called.
pub trait Device {
    /// The most commands held at once.
    fn queue_depth(&self) -> usize;

    /// The size in logical sectors.
    fn capacity(&self) -> Sectors;

    /// Arms that work independently: of one drive, or of all drives of an array.
    fn arms(&self) -> usize {
        1
    }

    /// Takes a command.
    ///
    /// # Panics
    /// When the drive is full, the extent does not lie on it, or time ran back: the caller is at
    /// fault.
    fn submit(&mut self, now: Instant, command: &Command);

    /// When something happens next, if anything is under way.
    fn next_event(&self) -> Option<Instant>;

    /// Lets everything happen that is due by `now` and appends the completions reported since the
    /// last call, in the order in which they were reported.
    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>);

    /// Gives a command up: its slot is free at once and it is not reported any more (a drive with
    /// faults may break that promise). One that waits in the drive's queue is never begun; one that
    /// the mechanism is at work on runs to its end.
    fn abort(&mut self, now: Instant, command: CommandId);

    /// Where the drive's time went from the origin until `now`, which is no earlier than the last
    /// call; no further than to the next event that is due and has not been advanced to, so that
    /// readings never run back. Each of the [`Device::arms`] accounts for all of the time, and what
    /// is answered is the sum.
    fn disk_time(&self, now: Instant) -> DiskTime;
}

/// One command that the drive reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCompletion {
    /// Which.
    pub command: CommandId,
    /// When the host saw it; no earlier than those reported before it.
    pub finished: Instant,
    /// Whether the drive did it.
    pub outcome: Outcome,
    /// What it cost, for reports only: schedulers learn from `finished`.
    pub breakdown: Breakdown,
}

/// Where one command's time went. The parts add up to the time from submission to the true
/// completion; a noisy report comes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Command and completion overhead, and the bus before and after the media; whether or not it
    /// hid behind another command's media access.
    pub overhead: Nanos,
    /// Waiting in the drive for the mechanism, ready to go.
    pub waited: Nanos,
    /// Arm, head switches and settles.
    pub seek: Nanos,
    /// Waiting for sectors to come round or for a write's data, and time lost in rare outliers.
    pub rotate: Nanos,
    /// Sectors passing under the head.
    pub transfer: Nanos,
}

impl Breakdown {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.overhead + self.waited + self.seek + self.rotate + self.transfer
    }
}
