//! Latency maps of either kind, the published matrix and the compact map: how a drive is modelled
//! by one, and how it is kept between runs.
//!
//! - [`MapSettings::begin`] makes a model from nothing or from a profile, [`MapSettings::resume`]
//!   from a map that was kept.
//! - [`KeptMap`] encodes and decodes a map of either kind, with the drive that it belongs to.
//!
//! No file access here: `headtime-io` reads and writes map files.

mod kept;
mod settings;

pub use kept::{KeptMap, KeptMapError};
pub use settings::{BeginError, MapKind, MapSettings, mapped_drive};
