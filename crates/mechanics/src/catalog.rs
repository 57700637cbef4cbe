//! The profiles that ship, as one table.
//!
//! The files are `crates/mechanics/profiles/NAME.toml`; each figure in them says where it comes
//! from or that it is a guess. `docs/drives.md` has a row for each of them: what is known, what is
//! guessed, what measurements it may be compared with.

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
    CatalogEntry { name: "barracuda-2tb", toml: include_str!("../profiles/barracuda-2tb.toml") },
    CatalogEntry {
        name: "barracuda7200-7",
        toml: include_str!("../profiles/barracuda7200-7.toml"),
    },
    CatalogEntry { name: "cheetah10k7", toml: include_str!("../profiles/cheetah10k7.toml") },
    CatalogEntry { name: "cheetah15k5", toml: include_str!("../profiles/cheetah15k5.toml") },
    CatalogEntry { name: "deskstar34gxp", toml: include_str!("../profiles/deskstar34gxp.toml") },
    CatalogEntry { name: "diamondmax9", toml: include_str!("../profiles/diamondmax9.toml") },
    CatalogEntry { name: "exos-2x18", toml: include_str!("../profiles/exos-2x18.toml") },
    CatalogEntry { name: "maxtor-20gb", toml: include_str!("../profiles/maxtor-20gb.toml") },
    CatalogEntry { name: "nearline-20tb", toml: include_str!("../profiles/nearline-20tb.toml") },
    CatalogEntry { name: "savvio10k2", toml: include_str!("../profiles/savvio10k2.toml") },
    CatalogEntry { name: "savvio15k2", toml: include_str!("../profiles/savvio15k2.toml") },
    CatalogEntry {
        name: "ultrastar-hc570",
        toml: include_str!("../profiles/ultrastar-hc570.toml"),
    },
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
/// [`ProfileError::UnknownProfile`] and [`ProfileError::UnknownSetup`], each with the names that
/// are known.
pub fn load(text: &str) -> Result<DriveProfile, ProfileError> {
    let (name, setup) =
        text.split_once('@').map_or((text, None), |(name, setup)| (name, Some(setup)));
    let Some(entry) = CATALOG.iter().find(|entry| entry.name == name) else {
        let known: Vec<&str> = CATALOG.iter().map(|entry| entry.name).collect();
        return Err(ProfileError::UnknownProfile {
            name: name.to_string(),
            known: known.join(", "),
        });
    };
    let profile = entry.load()?;
    setup.map_or(Ok(profile.clone()), |setup| profile.with_setup(setup))
}
