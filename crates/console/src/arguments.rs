//! Command-line arguments that several commands take.

use clap::ValueEnum;
use serde::Serialize;

/// The switch for differences between the simulated instance and its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NoiseSwitch {
    /// Vary the instance as the profile specifies, drawn by the seed
    On,
    /// Follow the profile exactly, except for the phase of the spindle
    Off,
}
