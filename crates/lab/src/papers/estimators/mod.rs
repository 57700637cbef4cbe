//! Beliefs that are wrong in one known way, for experiments that ask what an error costs.

mod cells;
mod nominal;

pub(crate) use cells::{CellPositioning, CellTime};
pub(crate) use nominal::NominalPositioning;
