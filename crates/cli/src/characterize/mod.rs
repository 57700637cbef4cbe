//! What `headtime characterize` is made of: the work beside which it is saved and shown, what was
//! found as a table and as JSON.

mod progress;
mod summary;
mod work;

pub use headtime_io::characterize::annotated;
pub use progress::Showing;
pub use summary::{CharacterizeOutput, Cost, text};
pub use work::{CharacterizeReport, characterize};
