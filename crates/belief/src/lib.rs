//! What is known of a drive: implementations of [`headtime_sched::Belief`].
//!
//! A belief starts from what someone says of the drive (its profile, or only its size) and is taught by measured completions. It never sees
//! the truth of a simulated drive; that the crate cannot even name it is part of the layering test.
//!
//! - [`ProfileBelief`]: the nominal mechanics of a profile with a fitted period, phase and arrival offset.
//! - [`LinearBelief`]: cost by distance, for drives of which only the capacity is known.

mod angles;
mod arrival;
mod linear;
mod profile;
mod spindle;

pub use linear::LinearBelief;
pub use profile::ProfileBelief;
