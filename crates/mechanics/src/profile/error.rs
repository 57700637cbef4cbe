//! Why a text is no drive profile: [`ProfileError`]. Every message names the profile, the key, the
//! value, what was expected and the remedy.

use alloc::string::{String, ToString};
use core::fmt::Display;

use super::DriveProfile;

/// Why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The text is no TOML, has a key that does not exist, lacks one, or has a value of the wrong
    /// kind.
    #[error("profile {profile}: line {line}, column {column}: {message}")]
    Text {
        /// The name that the text was read under.
        profile: String,
        /// Line of the mistake, from 1.
        line: usize,
        /// Column of the mistake, from 1, in characters.
        column: usize,
        /// What is wrong there and what would be right.
        message: String,
    },
    /// A value that makes no drive.
    #[error("profile {profile}: {key} is {value}, expected {expected}; {remedy}")]
    Value {
        /// The profile's name.
        profile: String,
        /// The key, with its section, and the zone's number where it is a zone's.
        key: String,
        /// The value as it stands.
        value: String,
        /// What would be accepted.
        expected: String,
        /// What to do about it.
        remedy: String,
    },
    /// A zone does not start where the one before it ends.
    #[error("profile {profile}: zone {zone} starts at cylinder {starts}, {side} zone {before} ends at {expected}; set first_cylinder = {expected}", before = zone - 1, side = if starts < expected { "before" } else { "after" })]
    ZoneStart {
        /// The profile's name.
        profile: String,
        /// The zone, from 0.
        zone: usize,
        /// Where it starts.
        starts: u32,
        /// Where it has to.
        expected: u32,
    },
    /// More sectors are declared than the zones hold.
    #[error(
        "profile {profile}: capacity_sectors is {declared}, but the zones map only {mapped} \
            sectors; lower it, or add cylinders"
    )]
    Capacity {
        /// The profile's name.
        profile: String,
        /// Declared sectors.
        declared: u64,
        /// Mapped sectors.
        mapped: u64,
    },
    /// A zone's defects need more spares than it has.
    #[error(
        "profile {profile}: zone {zone} has {slips} slips but only {spares} spares to absorb them; \
            raise spares, or remove slips"
    )]
    Slips {
        /// The profile's name.
        profile: String,
        /// The zone, from 0.
        zone: usize,
        /// Its slipped sectors.
        slips: u64,
        /// Its spares.
        spares: u64,
    },
    /// The seek curve passes below zero.
    #[error(
        "profile {profile}: the seek curve is {microseconds} us at {distance} cylinders, expected \
            no less than 0; correct the points or the formula near there"
    )]
    SeekBelowZero {
        /// The profile's name.
        profile: String,
        /// Where.
        distance: u32,
        /// The time there, rounded to a microsecond downwards.
        microseconds: i64,
    },
    /// The profile has no setup of that name.
    #[error("profile {profile} has no setup `{setup}`; it has: {known}")]
    UnknownSetup {
        /// The profile's name.
        profile: String,
        /// The setup asked for.
        setup: String,
        /// Those there are.
        known: String,
    },
    /// No profile of that name ships.
    #[error("no profile is called `{name}`; known are: {known}")]
    UnknownProfile {
        /// The name asked for.
        name: String,
        /// Those there are.
        known: String,
    },
}

impl DriveProfile {
    /// The refusal of one value.
    pub(crate) fn refuse(
        &self,
        key: impl Display,
        value: impl Display,
        expected: impl Display,
        remedy: impl Display,
    ) -> ProfileError {
        ProfileError::Value {
            profile: self.name.clone(),
            key: key.to_string(),
            value: value.to_string(),
            expected: expected.to_string(),
            remedy: remedy.to_string(),
        }
    }
}
