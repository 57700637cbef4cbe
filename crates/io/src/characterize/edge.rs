//! [`Edge`]: a drive as the characterization sees it. Each command has a time stamp at its
//! submission and at its completion.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headtime_sched::Op;
use headtime_units::{Extent, Instant, SectorSize, Sectors};

use crate::clock::RealClock;
use crate::kernel_settings::KnobGuard;
use crate::notifier::SPIN;

/// The opened drive.
pub(super) struct Found {
    pub(super) edge: Box<dyn Edge>,
    pub(super) model: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) capacity: Sectors,
    pub(super) sector_size: SectorSize,
    pub(super) fua: bool,
    pub(super) depth: usize,
    pub(super) notices: Vec<String>,
    pub(super) knobs: Option<KnobGuard>,
}

/// A command to the drive.
#[derive(Clone, Debug)]
pub(crate) struct EdgeCommand {
    /// Its number until its completion.
    pub(crate) token: u64,
    pub(crate) op: Op,
    pub(crate) extent: Extent,
    /// The data of a write, as long as the extent; empty otherwise.
    pub(crate) data: Bytes,
    /// Makes a write durable before it completes. Only for a drive that has such writes.
    pub(crate) fua: bool,
}

/// A completed command.
#[derive(Clone, Debug)]
pub(crate) struct EdgeCompletion {
    pub(crate) token: u64,
    /// The time at which its completion was observed.
    pub(crate) completed: Instant,
    /// The data read, if the edge keeps it, or the system's error code.
    pub(crate) result: Result<Bytes, i32>,
    /// Details of an error beyond its code.
    pub(crate) explanation: Option<Arc<str>>,
}

/// The drive is gone. Commands at the drive are not reported.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    /// The reason, as the end of a sentence.
    pub(crate) why: String,
}

/// A drive with a clock. Each command that was sent completes once, unless the drive is lost.
pub(crate) trait Edge: Send {
    /// The time on the clock of all time stamps.
    fn now(&self) -> Instant;

    /// Sends a command; returns the time right before.
    fn send(&mut self, command: EdgeCommand) -> Instant;

    /// The next completed command. `None` if none completes by `until`.
    ///
    /// # Errors
    /// [`Lost`] if the drive is gone.
    fn next_completion(&mut self, until: Instant) -> Result<Option<EdgeCompletion>, Lost>;

    /// Waits until `at`. No command is at the drive.
    fn wait_until(&mut self, at: Instant);

    /// After a loss or an unanswered command: makes the drive release all commands, reopens it, and
    /// waits for that.
    ///
    /// # Errors
    /// The reason why it cannot be reopened, as the end of a sentence.
    fn reopen(&mut self) -> Result<(), String>;

    /// Returns true if waiting takes real time.
    fn is_real(&self) -> bool {
        true
    }
}

/// Sleeps until shortly before `at` and polls the clock for the rest.
pub(crate) fn sleep_until(at: Instant) {
    let left = at.saturating_since(RealClock.now());
    if left > SPIN {
        std::thread::sleep(Duration::from_nanos((left - SPIN).as_ns()));
    }
    while RealClock.now() < at {
        std::hint::spin_loop();
    }
}
