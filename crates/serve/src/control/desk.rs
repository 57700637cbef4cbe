//! [`Desk`]: what orders over the control socket are carried out on.

use std::sync::Arc;

use super::{Refused, RefusedKind};
use crate::maps::MapKeeper;
use crate::reload::Reloader;
use crate::scans::Scans;
use crate::stats::Stats;
use crate::status::StatusSource;
use crate::tuner::Tuner;
use crate::volumes::Volumes;

/// Scans, and the server around them where there is one.
pub(crate) struct Desk {
    pub(super) scans: Arc<Scans>,
    server: Option<ServerDesk>,
}

/// What a server can be told and asked beside its scans.
pub(crate) struct ServerDesk {
    pub(crate) tuner: Arc<Tuner>,
    pub(crate) maps: Arc<MapKeeper>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) status: StatusSource,
    pub(crate) reloader: Reloader,
}

impl Desk {
    /// Of a scan that has a drive without a server.
    pub(crate) fn of_scans(scans: Arc<Scans>) -> Self {
        Self { scans, server: None }
    }

    /// Of a server.
    pub(crate) fn of_server(scans: Arc<Scans>, server: ServerDesk) -> Self {
        Self { scans, server: Some(server) }
    }

    pub(super) fn server(&self) -> Result<&ServerDesk, Refused> {
        self.server.as_ref().ok_or_else(|| {
            Refused::new(
                RefusedKind::Asked,
                "no server has this drive, but a scan without one, which takes orders for scans \
                    only; serve the drive with `headtime serve`",
            )
        })
    }
}
