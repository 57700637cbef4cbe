//! Command-line arguments that several commands take.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use headtime_mechanics::NoiseLevel;

/// The parser of a level of noise.
pub fn noise_level() -> impl TypedValueParser<Value = NoiseLevel> {
    PossibleValuesParser::new(NoiseLevel::ALL.map(NoiseLevel::name))
        .try_map(|name| name.parse::<NoiseLevel>())
}
