//! Reading and writing of profiles, and setups.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{DriveProfile, Interface, InterfaceOverlay, ProfileError, Setup};

impl DriveProfile {
    /// Parses and validates a profile. `name` is its name in messages: that of the file or of a
    /// shipped profile.
    ///
    /// # Errors
    /// [`ProfileError::Text`] for text that is not a profile, the other kinds for an invalid drive.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ProfileError> {
        let mut profile: Self =
            toml::from_str(text).map_err(|error| text_error(name, text, &error))?;
        // Messages name the file, not the name written in it.
        let own_name = core::mem::replace(&mut profile.name, name.to_string());
        profile.check_name(&own_name)?;
        profile.check_values()?;
        profile.name = own_name;
        Ok(profile)
    }

    /// The profile as text that [`DriveProfile::from_toml`] reads back to the same profile, without
    /// comments.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile has only keys and values that TOML can write")
    }

    /// The profile with the named setup applied, called `NAME@SETUP`.
    ///
    /// # Errors
    /// [`ProfileError::UnknownSetup`] with the existing setups; any other if the overlaid values
    /// are not valid.
    pub fn with_setup(&self, setup: &str) -> Result<Self, ProfileError> {
        let Some(overlay) = self.setup.get(setup) else {
            let known: Vec<&str> = self.setup.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            return Err(ProfileError::UnknownSetup {
                profile: self.name.clone(),
                setup: setup.to_string(),
                known,
            });
        };
        let mut profile = self.clone();
        let base = self.name.split_once('@').map_or(self.name.as_str(), |(base, _)| base);
        profile.name = alloc::format!("{base}@{setup}");
        profile.lay(overlay);
        profile.validate()?;
        Ok(profile)
    }

    pub(super) fn lay(&mut self, setup: &Setup) {
        lay_interface(&mut self.interface, &setup.interface);
        self.firmware.queue_depth = setup.firmware.queue_depth.unwrap_or(self.firmware.queue_depth);
        self.firmware.algorithm = setup.firmware.algorithm.unwrap_or(self.firmware.algorithm);
        self.firmware.sequential_hold_ms =
            setup.firmware.sequential_hold_ms.or(self.firmware.sequential_hold_ms);
        self.firmware.zero_latency_read =
            setup.firmware.zero_latency_read.unwrap_or(self.firmware.zero_latency_read);
        self.firmware.zero_latency_write =
            setup.firmware.zero_latency_write.unwrap_or(self.firmware.zero_latency_write);
        self.cache = setup.cache.or(self.cache).filter(|cache| cache.segments != 0);
    }
}

fn lay_interface(interface: &mut Interface, overlay: &InterfaceOverlay) {
    for (target, source) in [
        (&mut interface.read_command_us, overlay.read_command_us),
        (&mut interface.write_command_us, overlay.write_command_us),
        (&mut interface.completion_us, overlay.completion_us),
        (&mut interface.bus_mb_per_s, overlay.bus_mb_per_s),
    ] {
        *target = source.unwrap_or(*target);
    }
    interface.read_after_write_us = overlay.read_after_write_us.or(interface.read_after_write_us);
    interface.write_completion_us = overlay.write_completion_us.or(interface.write_completion_us);
    interface.read_buffered = overlay.read_buffered.unwrap_or(interface.read_buffered);
    interface.write_after_write_us =
        overlay.write_after_write_us.or(interface.write_after_write_us);
}

fn text_error(name: &str, text: &str, error: &toml::de::Error) -> ProfileError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
    ProfileError::Text {
        profile: name.to_string(),
        line,
        column,
        message: error.message().replace('\n', " "),
    }
}
