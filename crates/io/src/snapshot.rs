//! How a drive is doing: [`DriveSnapshot`], cheap enough to be taken many times a second for a live
//! view.

use std::collections::BTreeMap;

use headtime_sched::{
    BackgroundAccount, BeliefReport, FillReport, ShareReport, Tunables, VolumeAccount, VolumeId,
};
#[cfg(feature = "simulation")]
use headtime_sim::DiskTime;
use headtime_units::{Instant, Nanos};

use crate::lateness::LatenessSummary;

/// One drive at one moment. Counts are over the life of the opened drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSnapshot {
    /// The time at which it was taken, by [`RealClock`](crate::RealClock); an engine that does not
    /// answer in 200 ms leaves the last one standing.
    pub taken: Instant,
    /// The policy at work.
    pub policy: &'static str,
    /// The values of the tunables.
    pub tunables: Tunables,
    /// The number of commands the drive may hold, whatever the policy would like; `None` leaves it
    /// to the policy.
    pub outstanding_most: Option<usize>,
    /// By what places and times are believed: `profile`, `distance`, `matrix` or `compact`.
    pub believes: &'static str,
    /// The backend, such as `io_uring, direct`.
    pub backend: String,
    /// Requests held that are not at the drive.
    pub queued: usize,
    /// Commands at the drive.
    pub outstanding: usize,
    /// Disk time and counts of each volume that has requested anything.
    pub accounts: Vec<(VolumeId, VolumeAccount)>,
    /// The guarantees, the use and the waiting requests of each tenant; empty while nobody was
    /// ever promised anything.
    pub shares: Vec<ShareReport>,
    /// True if the policy at work goes by what volumes are promised; the others keep the books
    /// only.
    pub goes_by_shares: bool,
    /// The report of the drive model.
    pub belief: BeliefReport,
    /// Scans that are not over.
    pub scans: usize,
    /// The yield and the cost of background reads.
    pub fill: FillReport,
    /// Disk time that reading for scans took; no volume is charged with it.
    pub background: BackgroundAccount,
    /// Of an emulated drive only.
    pub emulation: Option<EmulationSnapshot>,
    /// The errors.
    pub errors: ErrorCounts,
    /// Commands that the drive leaves without an answer.
    pub hung: HungCounts,
    /// The connection, of a drive behind NBD only.
    pub link: Option<LinkSnapshot>,
}

/// Commands that the drive leaves without an answer, against
/// [`DriveOptions::command_timeout`](crate::DriveOptions::command_timeout).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HungCounts {
    /// Commands at the drive now that have been there for 5 s, or a sixth of a shorter limit.
    pub slow: usize,
    /// Of these, those given up: who waited for them is answered, and they still take places in the
    /// drive's queue.
    pub given_up: usize,
    /// Commands that were ever slow.
    pub slow_ever: u64,
    /// Commands that were ever given up.
    pub given_up_ever: u64,
    /// Of the latter, those that came back from the drive later, with whatever result.
    pub came_back: u64,
}

/// The connection to a drive behind NBD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSnapshot {
    /// The state of the connection.
    pub state: LinkState,
    /// The number of lost connections.
    pub losses: u64,
    /// Attempts to connect since it was last lost.
    pub attempts: u64,
}

/// The state of the connection to an NBD drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is connected.
    Connected,
    /// It is not, and is called again and again.
    Away {
        /// Since when.
        since: Instant,
        /// Why, in words: what ended the connection, or what the last attempt met.
        cause: String,
    },
}

/// The figures of an emulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmulationSnapshot {
    /// The lateness of completion reports against the model's time.
    pub lateness: LatenessSummary,
    /// Completions that the model had ready before the backing file had done the bytes: there the
    /// file was the slower drive.
    pub bytes_late: u64,
    /// The longest time by which the bytes came after the model's time.
    pub bytes_late_max: Nanos,
    /// The place where the emulated drive spent its time since it was opened. Truth, for reports:
    /// nothing that schedules sees it.
    #[cfg(feature = "simulation")]
    pub disk_time: DiskTime,
}

/// Errors by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Requests that ended in an error of the system, by its code.
    pub by_errno: BTreeMap<i32, u64>,
    /// Requests taken back.
    pub cancelled: u64,
}

impl ErrorCounts {
    /// Requests that failed for whatever reason of the drive's.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.by_errno.values().sum()
    }
}
