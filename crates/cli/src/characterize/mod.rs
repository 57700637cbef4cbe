//! What `headtime characterize` is made of: the work beside which it is saved and shown, what was
//! found as a table and as JSON.

mod summary;
mod work;

pub(crate) use headtime_io::characterize::annotated;
pub(crate) use summary::{CharacterizeOutput, Cost, text};
pub(crate) use work::{CharacterizeReport, StageProgress, characterize};
