//! Command-line arguments that several commands take.

use clap::ValueEnum;
use serde::Serialize;

/// Whether the simulated unit differs from its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Drawn by the seed as the variation in the profile says
    On,
    /// Exactly as the profile says, but for the phase of the spindle
    Off,
}
