//! Background reading: the pending sectors of scans, and how they fit between the requests of
//! clients.

mod fill;
mod governor;
mod jobs;
mod pending;
mod scans;
mod search;
mod settings;
mod stretches;

pub(crate) use fill::Fill;
pub(crate) use governor::GapUse;
pub(crate) use jobs::Job;
pub use pending::PendingSectors;
pub(crate) use scans::{Claim, Scan, hull, without};
pub(crate) use search::{Gap, Piece, Rules, search};
pub use settings::{FillSettings, IdleSettings, ReadAhead};
