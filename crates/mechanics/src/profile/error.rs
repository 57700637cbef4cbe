//! [`ProfileError`]: errors in a drive profile. Every message names the profile, the key, the
//! value, the expectation and the remedy.

use alloc::string::{String, ToString};
use core::fmt::Display;

use super::DriveProfile;

/// The reason why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The text is not TOML, or has an unknown key, a missing key, or a value of the wrong type.
    #[error("profile {profile}: line {line}, column {column}: {message}")]
    Text {
        /// The name under which the text was read.
        profile: String,
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error, from 1, in characters.
        column: usize,
        /// The error and its correction.
        message: String,
    },
    /// A value that is not valid.
    #[error("profile {profile}: {key} is {value}, expected {expected}; {remedy}")]
    Value {
        /// The profile's name.
        profile: String,
        /// The key with its section, and the zone's number for a zone.
        key: String,
        /// The value.
        value: String,
        /// The accepted values.
        expected: String,
        /// The remedy.
        remedy: String,
    },
    /// A zone does not start at the end of the previous one.
    #[error(
        "profile {profile}: zone {zone} starts at cylinder {starts}, {side} zone {before} ends at \
            {expected}; set first_cylinder = {expected}",
        before = zone - 1,
        side = if starts < expected { "before" } else { "after" }
    )]
    ZoneStart {
        /// The profile's name.
        profile: String,
        /// The zone, from 0.
        zone: usize,
        /// Its start.
        starts: u32,
        /// The expected start.
        expected: u32,
    },
    /// More sectors are declared than the zones map.
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
        /// The distance.
        distance: u32,
        /// The time at that distance, rounded down to a microsecond.
        microseconds: i64,
    },
    /// The profile has no setup of that name.
    #[error("profile {profile} has no setup `{setup}`; it has: {known}")]
    UnknownSetup {
        /// The profile's name.
        profile: String,
        /// The requested setup.
        setup: String,
        /// The existing setups.
        known: String,
    },
    /// No shipped profile has that name.
    #[error("no profile is called `{name}`; known are: {known}")]
    UnknownProfile {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
}

impl DriveProfile {
    /// The error for one value.
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
