//! The parts of `headtime map` that study maps: learning one from a recording, and drawing one.

pub mod learn;
pub mod plot;
mod replay;
