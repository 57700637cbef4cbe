//! The freeblock room: what scans want, and what of it fits in between what clients ask for.

mod fill;
mod governor;
mod jobs;
mod scans;
mod search;
mod settings;
mod wanted;

pub(crate) use fill::Fill;
pub(crate) use jobs::Job;
pub(crate) use scans::{Claim, Scan, hull, without};
pub(crate) use search::{Gap, Piece, Rules, search};
pub use settings::{FillSettings, IdleSettings, ReadAhead};
pub use wanted::PendingSectors;
