//! [`ProfileError`]: errors in a drive profile. Every message names the profile, the key, the
//! value, the expectation and the remedy.

use alloc::string::{String, ToString};
use core::fmt::Display;

use super::DriveProfile;

/// The reason why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ProfileError {
    /// The text is not TOML, or has an unknown key, a missing key, or a value of the wrong type.
    #[error("profile {profile}: line {line}, column {column}: {message}")]
    Text { profile: String, line: usize, column: usize, message: String },
    /// A value that is not valid.
    #[error("profile {profile}: {key} is {value}, expected {expected}; {remedy}")]
    Value { profile: String, key: String, value: String, expected: String, remedy: String },
    /// A zone does not start at the end of the previous one.
    #[error(
        "profile {profile}: zone {zone} starts at cylinder {starts}, {side} zone {before} ends at \
            {expected}; set first_cylinder = {expected}",
        before = zone - 1,
        side = if starts < expected { "before" } else { "after" }
    )]
    ZoneStart { profile: String, zone: usize, starts: u32, expected: u32 },
    #[error(
        "profile {profile}: capacity_sectors is {declared}, but the zones map only {mapped} \
            sectors; lower it, or add cylinders"
    )]
    Capacity { profile: String, declared: u64, mapped: u64 },
    /// A zone's defects need more spares than it has.
    #[error(
        "profile {profile}: zone {zone} has {slips} slips but only {spares} spares to absorb them; \
            raise spares, or remove slips"
    )]
    Slips { profile: String, zone: usize, slips: u64, spares: u64 },
    /// The seek curve passes below zero.
    #[error(
        "profile {profile}: the seek curve is {microseconds} us at {distance} cylinders, expected \
            no less than 0; correct the points or the formula near there"
    )]
    SeekBelowZero { profile: String, distance: u32, microseconds: i64 },
    /// The profile has no setup of that name.
    #[error("profile {profile} has no setup `{setup}`; it has: {known}")]
    UnknownSetup { profile: String, setup: String, known: String },
    /// No shipped profile has that name.
    #[error("no profile is called `{name}`; known are: {known}")]
    UnknownProfile { name: String, known: String },
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
