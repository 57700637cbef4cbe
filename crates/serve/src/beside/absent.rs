//! The characterization in a program that was built without it: every request is refused.

use std::path::Path;
use std::sync::Arc;

use headtime_io::{DriveHandle, Locator};

use super::{BesideError, BesideStatus, RememberedUse, StartBeside};
use crate::scans::Scans;

/// No characterization.
pub struct BesideClients;

#[allow(clippy::unused_self, reason = "the same methods as with characterization")]
impl BesideClients {
    pub(crate) fn open(
        _: DriveHandle,
        _: Locator,
        _: [u8; 16],
        _: Option<&Path>,
        _: Arc<Scans>,
        _: RememberedUse,
    ) -> Self {
        Self
    }

    /// Refused.
    ///
    /// # Errors
    /// [`BesideError::NotBuilt`].
    pub fn start(&self, _: StartBeside) -> Result<BesideStatus, BesideError> {
        Err(BesideError::NotBuilt)
    }

    /// Refused.
    ///
    /// # Errors
    /// [`BesideError::NotBuilt`].
    pub fn pause(&self) -> Result<BesideStatus, BesideError> {
        Err(BesideError::NotBuilt)
    }

    /// Refused.
    ///
    /// # Errors
    /// [`BesideError::NotBuilt`].
    pub fn resume(&self, _: Option<f64>) -> Result<BesideStatus, BesideError> {
        Err(BesideError::NotBuilt)
    }

    /// Refused.
    ///
    /// # Errors
    /// [`BesideError::NotBuilt`].
    pub fn cancel(&self) -> Result<BesideStatus, BesideError> {
        Err(BesideError::NotBuilt)
    }

    /// None.
    #[must_use]
    pub fn status(&self) -> Option<BesideStatus> {
        None
    }

    pub(crate) fn close(&self) {}
}
