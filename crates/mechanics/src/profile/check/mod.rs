//! Validation of profiles, in the order of the file.

mod drive;
mod geometry;
mod runs;
mod seek;
mod zones;

use alloc::format;
use alloc::string::String;

use super::{DriveProfile, ProfileError};

/// Maximum number of cylinders, so that a distance fits a signed 32-bit number.
const MAX_CYLINDERS: u32 = i32::MAX as u32;
/// Maximum number of sectors per track, so that a sector's angle is exact to the last bit; today's
/// drives have about 5,000.
const MAX_SECTORS_PER_TRACK: u32 = u16::MAX as u32;
/// Maximum number of zones and of points of a seek curve: the range of the look-up indices.
const MAX_ZONES_OR_POINTS: usize = 60_000;
/// Maximum time anywhere in a profile: ten minutes.
const MAX_MS: f64 = 600_000.0;

impl DriveProfile {
    /// Performs all checks of reading, for profiles that were changed in memory.
    ///
    /// # Errors
    /// The first error in the order of the file.
    pub fn validate(&self) -> Result<(), ProfileError> {
        self.check_name(&self.name)?;
        self.check_values()
    }

    pub(super) fn check_name(&self, own_name: &str) -> Result<(), ProfileError> {
        let plain = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| {
                    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_')
                })
        };
        if own_name.splitn(2, '@').all(plain) {
            return Ok(());
        }
        Err(self.refuse(
            "name",
            format!("\"{own_name}\""),
            "lower-case letters, digits, `-`, `.` and `_`",
            "choose a name such as `exos-x20`",
        ))
    }

    pub(super) fn check_values(&self) -> Result<(), ProfileError> {
        self.sector_size()?;
        self.check_physical_sector()?;
        self.rotation_period()?;
        self.check_geometry()?;
        self.check_places()?;
        self.check_capacity()?;
        self.check_seek()?;
        self.check_second_actuator()?;
        self.check_interface()?;
        self.check_firmware()?;
        self.check_cache()?;
        self.check_variation()?;
        self.check_accuracy()?;
        self.check_setups()
    }

    fn check_physical_sector(&self) -> Result<(), ProfileError> {
        match self.physical_sector_bytes {
            Some(bytes)
                if !bytes.is_power_of_two() || bytes < self.sector_bytes || bytes > 65_536 =>
            {
                Err(self.refuse(
                    "physical_sector_bytes",
                    bytes,
                    format!("a power of two from {} to 65536", self.sector_bytes),
                    "512e drives have 4096; remove the key where both sectors are the same",
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_setups(&self) -> Result<(), ProfileError> {
        for (name, overlay) in &self.setup {
            let mut with_setup =
                Self { setup: alloc::collections::BTreeMap::new(), ..self.clone() };
            with_setup.apply(overlay);
            with_setup
                .check_interface()
                .and_then(|()| with_setup.check_firmware())
                .and_then(|()| with_setup.check_cache())
                .map_err(|error| within(&format!("setup.{name}"), error))?;
        }
        Ok(())
    }

    fn check_time(&self, key: &str, value: f64, max: f64) -> Result<(), ProfileError> {
        if is_time(value, max) {
            return Ok(());
        }
        Err(self.refuse(key, value, format!("a number from 0 to {max}"), "correct it"))
    }
}

fn is_time(value: f64, max: f64) -> bool {
    (0.0..=max).contains(&value)
}

/// The error of a key of this table.
fn within(table: &str, error: ProfileError) -> ProfileError {
    match error {
        ProfileError::Value { profile, key, value, expected, remedy } => {
            let key: String = format!("{table}.{key}");
            ProfileError::Value { profile, key, value, expected, remedy }
        }
        other => other,
    }
}
