//! [`ControlHandler`]: what orders over the control socket are carried out on.

use std::sync::Arc;

use super::{ErrorReply, ErrorReplyKind};
use crate::maps::MapKeeper;
use crate::reload::Reloader;
use crate::scans::Scans;
use crate::stats::Stats;
use crate::status::StatusSource;
use crate::tuner::Tuner;
use crate::volumes::Volumes;

/// Scans, and the server around them where there is one.
pub(crate) struct ControlHandler {
    pub(super) scans: Arc<Scans>,
    server: Option<ServerParts>,
}

/// What a server can be told and bad_request beside its scans.
pub(crate) struct ServerParts {
    pub(crate) tuner: Arc<Tuner>,
    pub(crate) maps: Arc<MapKeeper>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) status: StatusSource,
    pub(crate) reloader: Reloader,
}

impl ControlHandler {
    /// Of a scan that has a drive without a server.
    pub(crate) fn of_scans(scans: Arc<Scans>) -> Self {
        Self { scans, server: None }
    }

    /// Of a server.
    pub(crate) fn of_server(scans: Arc<Scans>, server: ServerParts) -> Self {
        Self { scans, server: Some(server) }
    }

    pub(super) fn server(&self) -> Result<&ServerParts, ErrorReply> {
        self.server.as_ref().ok_or_else(|| {
            ErrorReply::new(
                ErrorReplyKind::BadRequest,
                "no server has this drive, but a scan without one, which takes orders for scans \
                    only; serve the drive with `headtime serve`",
            )
        })
    }
}
