//! [`ControlHandler`]: the parts of a server that control verbs act on.

use std::sync::Arc;

use super::{ErrorReply, bad_request};
use crate::beside::BesideClients;
use crate::maps::MapKeeper;
use crate::reload::Reloader;
use crate::scans::Scans;
use crate::stats::Stats;
use crate::status::StatusSource;
use crate::tuner::Tuner;
use crate::volumes::Volumes;

/// The scans of a drive, and the server around them if there is one.
pub(crate) struct ControlHandler {
    pub(crate) scans: Arc<Scans>,
    /// `None` for a scan without a server.
    pub(crate) server: Option<ServerParts>,
}

/// The parts of a server beside its scans.
pub(crate) struct ServerParts {
    pub(crate) tuner: Arc<Tuner>,
    pub(crate) maps: Arc<MapKeeper>,
    pub(crate) beside: Arc<BesideClients>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) status: Arc<StatusSource>,
    pub(crate) reloader: Reloader,
}

impl ControlHandler {
    pub(super) fn server(&self) -> Result<&ServerParts, ErrorReply> {
        self.server.as_ref().ok_or_else(|| {
            bad_request(
                "a scan without a server uses the drive and accepts only verbs of scans; serve the \
                    drive with `headtime serve`",
            )
        })
    }
}
