//! [`BesideClients`]: the characterization of a drive while it serves clients.
//!
//! One thread runs the probe over timed reads of the drive's engine (`runner`). Its state is in the
//! server's state directory (`stored`) and is resumed when the server starts. At the end the
//! profile is written, and used from then on where it predicts better than the model in use; then
//! it is remembered, and the next start uses it.
//!
//! ```text
//! start ─► running ─► complete
//!            │  ▲  └─► failed ── resume: tries the end again
//!       pause▼  │resume
//!           paused
//! ```

#[cfg(not(feature = "characterize"))]
mod absent;
#[cfg(feature = "characterize")]
mod clients;
mod error;
#[cfg(feature = "characterize")]
mod runner;
mod status;
#[cfg(feature = "characterize")]
mod stored;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(not(feature = "characterize"))]
pub use absent::BesideClients;
#[cfg(feature = "characterize")]
pub use clients::BesideClients;
pub use error::BesideError;
pub use status::{BesideResult, BesideState, BesideStatus};

/// A request to characterize the drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartBeside {
    /// The file for the profile, an absolute path; none to keep it in the state directory alone.
    #[serde(default)]
    pub out: Option<PathBuf>,
    /// The name of the profile.
    pub name: String,
    /// The drive time that it may use; the usual one if absent.
    #[serde(default)]
    pub seconds: Option<u32>,
    /// The seed of the random choice of sectors.
    pub seed: u64,
    /// Only writes the profile, and goes on scheduling by the model in use.
    #[serde(default)]
    pub keep_model: bool,
    /// Replaces an existing file, and discards the state of an earlier characterization.
    #[serde(default)]
    pub force: bool,
    /// The bound on the growth of the clients' mean response time by all background work while it
    /// runs, as a share; that of the drive if absent.
    #[serde(default)]
    pub max_impact: Option<f64>,
}

/// The use of a remembered profile at the start of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RememberedUse {
    /// It is the drive model.
    Yes,
    /// The configuration names another profile or a map.
    Named,
}
