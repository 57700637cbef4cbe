//! Beliefs that are wrong in one known way, for experiments that ask what an error costs.

mod cells;
mod nominal;

pub use cells::{CellPositioning, CellTime};
pub use nominal::NominalPositioning;
