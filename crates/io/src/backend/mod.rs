//! What stands behind the engine: something that carries out commands and says when each is done.
//!
//! A backend lives on the engine's thread and never blocks there. It rings the engine's
//! [`Notifier`](crate::notifier::Notifier) when something was done elsewhere, and names the next time at which
//! it wants to be asked although no notifier rings.

#[cfg(feature = "simulation")]
pub(crate) mod backing;
#[cfg(feature = "simulation")]
pub(crate) mod emulated;
pub(crate) mod file;
pub(crate) mod file_drive;
pub(crate) mod memory;
pub(crate) mod nbd;
pub(crate) mod pool;
pub mod power_cut;
pub(crate) mod raw;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
pub(crate) mod store;
pub(crate) mod threads;
pub(crate) mod uring;

use std::sync::Arc;

use bytes::Bytes;
use headtime_sched::{Belief, Command, CommandId};
#[cfg(feature = "simulation")]
use headtime_sim::DiskTime;
use headtime_units::{Instant, Nanos, SectorSize, Sectors};

use crate::drive_identity::DriveIdentity;
use crate::profile::ReportedModel;
use crate::snapshot::LinkSnapshot;

/// A command with the bytes it writes.
#[derive(Debug)]
pub(crate) struct BackendCommand {
    pub(crate) command: Command,
    /// The data of a write, by address, together as long as the command's extent; empty otherwise.
    pub(crate) pieces: Vec<Bytes>,
}

/// A command that is over.
#[derive(Debug)]
pub(crate) struct BackendCompletion {
    pub(crate) command: CommandId,
    /// When an emulated drive's model says it was over; `None` on other drives, and when the bytes
    /// were the later part.
    pub(crate) due: Option<Instant>,
    /// The sectors of a read, nothing for others, or the system's error code.
    pub(crate) result: Result<Bytes, i32>,
}

/// What only an emulated drive counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EmulationCounts {
    pub(crate) bytes_late: u64,
    pub(crate) bytes_late_max: Nanos,
    #[cfg(feature = "simulation")]
    pub(crate) disk_time: DiskTime,
}

/// A drive as the engine sees it.
pub(crate) trait Backend: Send {
    /// What it is, for people.
    fn describe(&self) -> String;

    /// Sends a command on its way. `now` never runs back between calls of `start` and `collect`.
    fn start(&mut self, now: Instant, work: BackendCommand);

    /// Appends what is over by `now`, each command once.
    fn collect(&mut self, now: Instant, ended: &mut Vec<BackendCompletion>);

    /// When something will be over that no notifier announces; wanted to the microsecond.
    fn next_event(&self) -> Option<Instant>;

    /// Whether [`start`](Backend::start) and [`collect`](Backend::collect) never wait for the
    /// system, not even as long as it takes to find room in a device's queue: then whoever submits
    /// may do the engine's work.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Of an emulated drive, what it counts at `now`.
    fn emulation(&self, now: Instant) -> Option<EmulationCounts> {
        let _ = now;
        None
    }

    /// The engine has answered those who waited for this command, because it took too long. It has
    /// still to be reported; a backend that can make the drive let go of it does so now.
    fn give_up(&mut self, now: Instant, command: CommandId) {
        let _ = (now, command);
    }

    /// What there is to say about a command that the last call of `collect` reported as failed,
    /// beyond its code.
    fn explanation(&mut self, command: CommandId) -> Option<Arc<str>> {
        let _ = command;
        None
    }

    /// How often writes that were reported and not flushed may have been lost. A loss is counted in
    /// a call of `collect` that reports nothing from before it.
    fn losses(&self) -> u64 {
        0
    }

    /// The connection to the drive, where there is one.
    fn link(&self) -> Option<LinkSnapshot> {
        None
    }

    /// By what the drive is known when it comes back from an absence; of no use to a backend that
    /// never opens its drive again.
    fn identify_by(&mut self, identity: Arc<DriveIdentity>) {
        let _ = identity;
    }

    /// Lets go of the drive without waiting for what is still on its way. Buffers that the kernel
    /// may still use stay allocated for good.
    fn abandon(self: Box<Self>);
}

/// A drive ready for an engine, with what the engine's surroundings must know of it.
pub(crate) struct OpenedDrive {
    pub(crate) backend: Box<dyn Backend>,
    /// What is believed of it unless its owner wants something else.
    pub(crate) belief: Box<dyn Belief + Send>,
    /// Which model it is, as far as it says.
    pub(crate) model: ReportedModel,
    pub(crate) capacity: Sectors,
    pub(crate) sector_size: SectorSize,
    pub(crate) physical_block: u32,
    /// The most commands the drive holds at once.
    pub(crate) queue_depth: usize,
    /// Whether the drive honors force unit access itself; where it does not, the scheduler flushes
    /// behind such writes.
    pub(crate) fua: bool,
    /// Whether completions are announced by time rather than by the notifier.
    pub(crate) precise: bool,
}
