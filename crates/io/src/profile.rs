//! The model of a drive, and the profile that a locator names.

use std::path::Path;

use headtime_mechanics::{DriveProfile, catalog};

use crate::locator::{Locator, ProfileSource};
use crate::open_error::OpenError;

/// The model of a drive, as far as the drive reports it.
pub enum ReportedModel {
    /// A profile describes it.
    Profile(Box<DriveProfile>),
    /// It reports a name.
    Named(String),
    /// It reports nothing.
    Unknown,
}

/// Loads a profile from the catalog or a file and applies `setup`.
///
/// # Errors
/// [`OpenError::Profile`], which names the drive.
pub fn load(
    source: &ProfileSource,
    setup: Option<&str>,
    locator: &Locator,
) -> Result<DriveProfile, OpenError> {
    let wrong = |message: String| OpenError::Profile { locator: locator.to_string(), message };
    let profile = match source {
        ProfileSource::Catalog(name) => {
            catalog::load(name).map_err(|error| wrong(error.to_string()))?
        }
        ProfileSource::File(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| wrong(format!("reading {} failed: {error}", path.display())))?;
            DriveProfile::from_toml(&file_name(path), &text)
                .map_err(|error| wrong(error.to_string()))?
        }
    };
    match setup {
        Some(setup) => profile.with_setup(setup).map_err(|error| wrong(error.to_string())),
        None => Ok(profile),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
