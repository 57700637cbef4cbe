//! `simulated:PROFILE[@SETUP][?seed=N][&noise=LEVEL]`: the model of a drive whose time jumps, its
//! bytes in memory.

use std::fmt;

use headtime_mechanics::NoiseLevel;

use super::{LocatorError, ProfileSource, print_noise, read_noise, read_seed};

/// The parts of a `simulated:` locator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedLocator {
    /// The profile.
    pub profile: ProfileSource,
    /// The named setup of the profile, when one is chosen.
    pub setup: Option<String>,
    /// The seed of the simulated drive [default: 0].
    pub seed: u64,
    /// The level of noise [default: typical].
    pub noise: NoiseLevel,
}

impl SimulatedLocator {
    /// Parses the text after `simulated:` in `text`.
    pub(super) fn parse(text: &str, rest: &str) -> Result<Self, LocatorError> {
        let (drive, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let (profile, setup) = ProfileSource::parse(text, drive)?;
        let (mut seed, mut noise) = (None, None);
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=').unwrap_or((setting, "")) {
                ("seed", value) if seed.is_none() => seed = Some(read_seed(text, value)?),
                ("noise", value) if noise.is_none() => noise = Some(read_noise(text, value)?),
                (key, _) => {
                    return Err(LocatorError::UnknownSetting {
                        text: text.to_owned(),
                        key: key.to_owned(),
                    });
                }
            }
        }
        Ok(Self { profile, setup, seed: seed.unwrap_or(0), noise: noise.unwrap_or_default() })
    }
}

impl fmt::Display for SimulatedLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated:{}?seed={}", self.profile.print(self.setup.as_deref()), self.seed)?;
        print_noise(f, self.noise)
    }
}
