//! Reading and writing of profiles, and setups.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{DriveProfile, ProfileError, Setup};

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
        profile.apply(overlay);
        profile.validate()?;
        Ok(profile)
    }

    pub(super) fn apply(&mut self, setup: &Setup) {
        setup.interface.apply(&mut self.interface);
        setup.firmware.apply(&mut self.firmware);
        self.cache = setup.cache.or(self.cache).filter(|cache| cache.segments != 0);
    }
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
