//! The verbs of the characterization beside clients.

use serde::{Deserialize, Serialize};

use super::ControlHandler;
use super::verbs::{Answer, Arguments, to_json};
use crate::beside::{BesideClients, BesideError, BesideStatus, StartBeside};

/// The arguments of `characterize.resume`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeBeside {
    /// The bound on the growth of the clients' mean response time by all background work while it
    /// runs, as a share; unchanged if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_impact: Option<f64>,
}

pub(super) fn start(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let beside = &handler.server()?.beside;
    to_json(&beside.start(arguments.parse::<StartBeside>()?)?)
}

pub(super) fn resume(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let beside = &handler.server()?.beside;
    to_json(&beside.resume(arguments.parse::<ResumeBeside>()?.max_impact)?)
}

/// Carries out a verb without arguments.
pub(super) fn change(
    handler: &ControlHandler,
    arguments: Arguments,
    change: fn(&BesideClients) -> Result<BesideStatus, BesideError>,
) -> Answer {
    arguments.none()?;
    to_json(&change(&handler.server()?.beside)?)
}
