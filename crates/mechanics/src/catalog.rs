//! The profiles that ship, as one table.
//!
//! The files are `crates/mechanics/profiles/NAME.toml`; each figure in them says where it comes from or that it is a guess.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::profile::{DriveProfile, ProfileError};

/// One profile that ships.
#[derive(Clone, Copy, Debug)]
pub struct CatalogEntry {
    /// The name it is loaded by; its file is `NAME.toml` and says the same name.
    pub name: &'static str,
    /// The file's text.
    pub toml: &'static str,
}

/// Every profile that ships, by name.
pub const CATALOG: &[CatalogEntry] = &[
    CatalogEntry { name: "atlas10k", toml: include_str!("../profiles/atlas10k.toml") },
    CatalogEntry { name: "nearline-20tb", toml: include_str!("../profiles/nearline-20tb.toml") },
];

impl CatalogEntry {
    /// Reads the entry.
    ///
    /// # Errors
    /// None for the entries of [`CATALOG`], as a test makes sure.
    pub fn load(&self) -> Result<DriveProfile, ProfileError> {
        DriveProfile::from_toml(self.name, self.toml)
    }
}

/// Loads `NAME` or `NAME@SETUP`.
///
/// # Errors
/// [`ProfileError::UnknownProfile`] and [`ProfileError::UnknownSetup`], each with the names that are known.
pub fn load(text: &str) -> Result<DriveProfile, ProfileError> {
    let (name, setup) = text.split_once('@').map_or((text, None), |(name, setup)| (name, Some(setup)));
    let Some(entry) = CATALOG.iter().find(|entry| entry.name == name) else {
        let known: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
        return Err(ProfileError::UnknownProfile { name: name.to_string(), known: known.join(", ") });
    };
    let profile = entry.load()?;
    setup.map_or(Ok(profile.clone()), |setup| profile.with_setup(setup))
}
