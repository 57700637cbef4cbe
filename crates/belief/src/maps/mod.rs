//! Latency maps of either kind: what a drive is believed by, and what is kept of it between runs.
//!
//! - [`MapBelief`] is a belief that goes by a map, the published matrix or the compact one;
//!   [`MapSettings::begin`] makes one of nothing, of a profile, or of a map that was kept.
//! - [`KeptMap`] is a map of either kind as bytes and back, with the drive that it is of.
//!
//! No files here: `headtime-io` reads and writes them.

mod belief;
mod kept;
mod settings;

pub use belief::MapBelief;
pub use kept::{KeptMap, KeptMapError};
pub use settings::{BeginError, MapKind, MapSettings, mapped_drive};
