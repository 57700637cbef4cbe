//! The interface between the engine and a drive.
//!
//! A backend lives on the engine's thread and never blocks there. It notifies the engine through
//! the [`Notifier`](crate::notifier::Notifier) when a command completed on another thread, and
//! names the next time at which it must be polled without a notification.

pub(crate) mod array;
#[cfg(feature = "simulation")]
pub(crate) mod backing;
#[cfg(feature = "simulation")]
pub(crate) mod emulated;
pub(crate) mod file;
pub(crate) mod file_drive;
pub(crate) mod inspect;
pub(crate) mod memory;
pub(crate) mod nbd;
pub(crate) mod open;
pub(crate) mod pool;
pub(crate) mod raw;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
pub(crate) mod store;
pub(crate) mod threads;
pub(crate) mod uring;

use std::sync::Arc;

use bytes::Bytes;
use headtime_belief::LinearBelief;
use headtime_mechanics::DiskTime;
use headtime_sched::{Belief, Command, CommandId};
use headtime_units::{Instant, Nanos, SectorSize, Sectors};

use crate::drive_identity::DriveIdentity;
use crate::kernel_settings::KernelWatch;
use crate::new_files::NewFiles;
use crate::power::PowerProbe;
use crate::profile::ReportedModel;
use crate::snapshot::LinkSnapshot;

/// A command with the data that it writes.
#[derive(Debug)]
pub struct BackendCommand {
    /// The command.
    pub command: Command,
    /// The data of a write in the order of addresses, as long as the command's extent. Empty for
    /// other commands.
    pub pieces: Vec<Bytes>,
}

/// A completed command.
#[derive(Debug)]
pub struct BackendCompletion {
    /// The command's number.
    pub command: CommandId,
    /// The completion time of an emulated drive's model. `None` on other drives, and if the bytes
    /// completed after the model.
    pub due: Option<Instant>,
    /// The sectors of a read, nothing for others, or the system's error code.
    pub result: Result<Bytes, i32>,
}

/// Counters of an emulated drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmulationCounts {
    /// Completions whose bytes came after the model's time.
    pub bytes_late: u64,
    /// The longest such delay.
    pub bytes_late_max: Nanos,
    /// The model's time by activity.
    pub disk_time: DiskTime,
}

/// A drive as the engine sees it.
pub trait Backend: Send {
    /// Describes the drive for people.
    fn describe(&self) -> String;

    /// Sends a command. `now` never decreases between calls of `start` and `collect`.
    fn start(&mut self, now: Instant, command: BackendCommand);

    /// Appends the commands completed by `now`, each once.
    fn collect(&mut self, now: Instant, completed: &mut Vec<BackendCompletion>);

    /// The time of the next completion that comes without a notification, to the microsecond.
    fn next_event(&self) -> Option<Instant>;

    /// Returns true if [`start`](Backend::start) and [`collect`](Backend::collect) never wait for
    /// the system, not even for a place in a device's queue. A thread that submits a request may
    /// then do the engine's work.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Returns true if the times of commands are those of a rotating drive, real or emulated, with
    /// no file system, page cache or network in between.
    fn is_rotating_drive(&self) -> bool {
        false
    }

    /// The members of an array, as their numbers and locators; empty for other drives.
    fn members(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the counters of an emulated drive at `now`.
    fn emulation(&self, now: Instant) -> Option<EmulationCounts> {
        let _ = now;
        None
    }

    /// Reports that the command's requests failed because it took too long. The backend must still
    /// report the command. If it can make the drive release the command, it does so now.
    fn give_up(&mut self, now: Instant, command: CommandId) {
        let _ = (now, command);
    }

    /// Explains the failure of a command that the last call of `collect` reported, beyond its
    /// code.
    fn explanation(&mut self, command: CommandId) -> Option<Arc<str>> {
        let _ = command;
        None
    }

    /// The number of times that reported, unflushed writes may have been lost. A loss is counted
    /// in a call of `collect` that reports nothing from before the loss.
    fn losses(&self) -> u64 {
        0
    }

    /// The state of the connection to the drive, if it has one.
    fn link(&self) -> Option<LinkSnapshot> {
        None
    }

    /// Sets the test that recognizes the drive when it returns after an absence. A backend that
    /// never reopens its drive ignores it.
    fn identify_by(&mut self, identity: Arc<DriveIdentity>) {
        let _ = identity;
    }

    /// Releases the drive without waiting for outstanding commands. Buffers that the kernel may
    /// still use stay allocated.
    fn abandon(self: Box<Self>);
}

/// An opened drive that has no engine yet.
pub struct OpenedDrive {
    /// The files that were created for it. They are removed if the drive does not start.
    pub new_files: NewFiles,
    /// The drive.
    pub backend: Box<dyn Backend>,
    /// The drive model to schedule by, if the options do not choose another.
    pub belief: Box<dyn Belief + Send>,
    /// The model that the drive reports.
    pub model: ReportedModel,
    /// The size.
    pub capacity: Sectors,
    /// The size of a logical sector.
    pub sector_size: SectorSize,
    /// Bytes of a physical sector.
    pub physical_block: u32,
    /// The maximum number of commands at the drive.
    pub queue_depth: usize,
    /// The drive honors force unit access. Otherwise the scheduler flushes after such writes.
    pub fua: bool,
    /// Completions come at a known time instead of with a notification.
    pub precise: bool,
    /// The kernel settings of the block devices that it consists of.
    pub kernel: Vec<KernelWatch>,
    /// The drives that it consists of, as far as they tell their power state.
    pub power: Vec<Arc<dyn PowerProbe>>,
}

impl OpenedDrive {
    /// A drive that honors force unit access, notifies of completions, reports nothing else, and is
    /// scheduled by distance.
    #[must_use]
    pub fn new(
        backend: Box<dyn Backend>,
        capacity: Sectors,
        sector_size: SectorSize,
        queue_depth: usize,
    ) -> Self {
        Self {
            backend,
            belief: Box::new(LinearBelief::new(capacity)),
            model: ReportedModel::Unknown,
            capacity,
            sector_size,
            physical_block: sector_size.bytes(),
            queue_depth,
            fua: true,
            precise: false,
            kernel: Vec::new(),
            power: Vec::new(),
            new_files: NewFiles::default(),
        }
    }
}
