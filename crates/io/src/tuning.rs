//! [`Tuning`]: changes of a running drive that apply together.

use headtime_sched::Tunables;

use crate::options::PolicyChoice;

/// A set of changes for [`DriveHandle::tune`](crate::DriveHandle::tune). `None` leaves a setting as
/// it is.
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// The scheduler's tunables, all of them.
    pub tunables: Option<Tunables>,
    /// The policy, which starts again even if it is the present one.
    pub policy: Option<PolicyChoice>,
    /// The maximum number of commands at the drive; `Some(None)` leaves it to the policy. Commands
    /// at the drive stay there.
    pub outstanding: Option<Option<usize>>,
}
