//! The state of a running drive: [`DriveSnapshot`], cheap enough to be taken many times a second
//! for a live view.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_mechanics::DiskTime;
use headtime_sched::{
    BackgroundAccount, BeliefReport, FillReport, PolicySwitch, ShareReport, StallCounts, TimedWait,
    Tunables, VolumeAccount, VolumeId, Waits,
};
use headtime_units::{Instant, Nanos};

use crate::lateness::LatenessSummary;
use crate::service_parts::ServiceParts;
use crate::shingling;

/// The state of one drive at one moment. Counts cover the time since the drive was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSnapshot {
    /// The time of the snapshot, by [`RealClock`](crate::RealClock). If an engine does not answer
    /// within 200 ms, the previous snapshot is returned.
    pub taken: Instant,
    /// The active policy.
    pub policy: &'static str,
    /// The policy that decides at the moment: with `auto`, the one that it has chosen.
    pub active_policy: &'static str,
    /// The last switches of the policy `auto`, the latest last.
    pub switches: Vec<PolicySwitch>,
    /// The values of the tunables.
    pub tunables: Tunables,
    /// The maximum number of commands at the drive, regardless of the policy. `None` leaves it to
    /// the policy.
    pub outstanding_most: Option<usize>,
    /// The drive model: `profile`, `distance`, `matrix` or `compact`.
    pub drive_model: &'static str,
    /// The backend, such as `io_uring, direct`.
    pub backend: String,
    /// Queued requests that are not at the drive.
    pub queued: usize,
    /// Commands at the drive.
    pub outstanding: usize,
    /// Disk time and counts of each volume that has submitted a request.
    pub accounts: Vec<(VolumeId, VolumeAccount)>,
    /// The guarantees, the use and the waiting requests of each tenant. Empty while no tenant was
    /// ever promised a share.
    pub shares: Vec<ShareReport>,
    /// The active policy enforces the shares of volumes. Other policies only account for them.
    pub enforces_shares: bool,
    /// The report of the drive model.
    pub belief: BeliefReport,
    /// The waits of policies for requests that were expected soon.
    pub waits: Waits,
    /// Scans that are not over.
    pub scans: usize,
    /// The reason why a timed read of a characterization waits, if one does.
    pub timed_wait: Option<TimedWait>,
    /// The yield and the cost of background reads.
    pub fill: FillReport,
    /// Disk time of background reads, which no volume is charged with.
    pub background: BackgroundAccount,
    /// The figures of an emulated drive; `None` for other drives.
    pub emulation: Option<EmulationSnapshot>,
    /// The split of the time that commands took, those of scans included.
    pub service: ServiceParts,
    /// The errors.
    pub errors: ErrorCounts,
    /// Commands that the drive has not answered in time.
    pub hung: HungCounts,
    /// The connection of an NBD drive; `None` for other drives.
    pub link: Option<LinkSnapshot>,
    /// Commands of a rotating drive that took much longer than predicted, by arm; empty for other
    /// drives.
    pub stalls: Vec<StallCounts>,
    /// The members of an array whose members are scheduled by themselves, by arm; empty for other
    /// drives.
    pub members: Arc<[String]>,
}

impl DriveSnapshot {
    /// The warnings about drives that seem to record in shingles and to hide it, which is judged by
    /// the last ten minutes: the drive, or members of an array.
    #[must_use]
    pub fn shingling_warnings(&self) -> Vec<String> {
        let warnings = shingling::warnings(&self.stalls, &self.members);
        warnings.into_iter().map(|(_, warning)| warning).collect()
    }
}

/// Commands that the drive leaves without an answer, against
/// [`DriveOptions::command_timeout`](crate::DriveOptions::command_timeout).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HungCounts {
    /// Commands at the drive now that have been there for 5 s, or a sixth of a shorter limit.
    pub slow: usize,
    /// Of these, the commands given up: their requests were answered, and they still occupy slots
    /// in the drive's queue.
    pub given_up: usize,
    /// The number of commands that became slow since the drive was opened.
    pub slow_ever: u64,
    /// The number of commands given up since the drive was opened.
    pub given_up_ever: u64,
    /// Of the latter, the commands that the drive completed later with any result.
    pub came_back: u64,
}

/// The connection to an NBD drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSnapshot {
    /// The state of the connection.
    pub state: LinkState,
    /// The number of lost connections.
    pub losses: u64,
    /// The number of attempts to connect since the last loss.
    pub attempts: u64,
}

/// The state of the connection to an NBD drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is connected.
    Connected,
    /// The drive is disconnected, and attempts to connect are repeated.
    Away {
        /// The time of the loss.
        since: Instant,
        /// The cause as text: the reason for the loss, or the result of the last attempt.
        cause: String,
    },
}

/// The figures of an emulated drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmulationSnapshot {
    /// The lateness of completion reports against the model's time.
    pub lateness: LatenessSummary,
    /// Completions for which the backing file was slower than the model.
    pub bytes_late: u64,
    /// The maximum delay of the backing file relative to the model.
    pub bytes_late_max: Nanos,
    /// The split of the time of the emulated drive since it was opened. Exact data for reports,
    /// which the scheduler does not see.
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
