//! The shipped profiles.
//!
//! The files are `crates/mechanics/profiles/NAME.toml`; each figure states its source, or that it
//! is a guess. `docs/drives.md` lists for each profile the known figures, the guesses, and
//! comparable measurements.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::draw;
use crate::profile::{DriveProfile, ProfileError};

/// One shipped profile.
#[derive(Clone, Copy, Debug)]
pub struct CatalogEntry {
    /// The name, which is also that of its file.
    pub name: &'static str,
    /// The file's text.
    pub toml: &'static str,
}

/// All shipped profiles by name.
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
    /// Parses the profile.
    ///
    /// # Errors
    /// None for the entries of [`CATALOG`], as a test verifies.
    pub fn load(&self) -> Result<DriveProfile, ProfileError> {
        DriveProfile::from_toml(self.name, self.toml)
    }
}

/// Loads `NAME` or `NAME@SETUP`. A name is that of a shipped profile, or `drawn-SEED`, `worn-SEED`
/// or `varied-SEED` for a drive drawn at random ([`draw`]).
///
/// # Errors
/// [`ProfileError::UnknownProfile`] and [`ProfileError::UnknownSetup`], each with the known names.
pub fn load(text: &str) -> Result<DriveProfile, ProfileError> {
    let (name, setup) =
        text.split_once('@').map_or((text, None), |(name, setup)| (name, Some(setup)));
    let profile = match CATALOG.iter().find(|entry| entry.name == name) {
        Some(entry) => entry.load()?,
        None => draw::by_name(name).ok_or_else(|| unknown(name))?,
    };
    match setup {
        Some(setup) => profile.with_setup(setup),
        None => Ok(profile),
    }
}

fn unknown(name: &str) -> ProfileError {
    let known: Vec<&str> =
        CATALOG.iter().map(|entry| entry.name).chain(draw::NAMES.iter().copied()).collect();
    ProfileError::UnknownProfile { name: name.to_string(), known: known.join(", ") }
}
