//! [`Tuning`]: what is changed of a running drive in one go.

use headtime_sched::Tunables;

use crate::options::PolicyChoice;

/// A set of changes; whatever is `None` stays as it is. Given to
/// [`DriveHandle::tune`](crate::DriveHandle::tune).
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// The scheduler's tunables, all of them.
    pub tunables: Option<Tunables>,
    /// The policy; it begins again, also where it is the one at work.
    pub policy: Option<PolicyChoice>,
    /// The number of commands the drive holds, `Some(None)` as many as the policy likes. Commands
    /// at the drive stay there.
    pub outstanding: Option<Option<usize>>,
}
