//! The named model of a drive: `PROFILE`, `PROFILE@SETUP`, `FILE.toml` or `FILE.toml@SETUP`.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use headtime_mechanics::{DriveProfile, catalog};

use crate::Failure;

/// Loads the profile that `text` names: from the catalog, or from a file when the name contains a
/// `/` or ends in `.toml`.
///
/// # Errors
/// When there is no such profile, setup or file, or the file describes no drive; the message says
/// which, and what would do.
pub fn load(text: &str) -> Result<DriveProfile, Failure> {
    let (name, setup) =
        text.rsplit_once('@').map_or((text, None), |(name, setup)| (name, Some(setup)));
    if !(name.contains('/') || name.ends_with(".toml")) {
        return catalog::load(text).map_err(|error| {
            Failure::Usage(anyhow!(
                "{error}; see `headtime profiles`, or give the path of a profile file (NAME.toml)"
            ))
        });
    }
    let toml = std::fs::read_to_string(Path::new(name))
        .with_context(|| format!("profile {name} cannot be read"))
        .map_err(Failure::Usage)?;
    let profile = DriveProfile::from_toml(name, &toml).map_err(Failure::usage)?;
    setup.map_or(Ok(profile.clone()), |setup| profile.with_setup(setup)).map_err(Failure::usage)
}
