//! What is known of a drive: implementations of [`headtime_sched::Belief`].
//!
//! A belief starts from what someone says of the drive (its profile, or only its size) and is
//! taught by measured completions. It never sees the truth of a simulated drive; that the crate
//! cannot even name it is part of the layering test.
//!
//! - [`DriveModel`]: locations, arm, spindle and cache of a drive, starting from its profile, from
//!   a compact map ([`compact`]) or from nothing.
//! - [`matrix::MatrixBelief`]: the published latency matrix.
//! - [`LinearBelief`]: cost by distance, for drives of which only the capacity is known.
//! - [`ArrayModel`]: the same for drives striped into one, with worst cases from its members.
//!
//! [`of_profile`] makes the usual model of a profile; [`maps`] keeps maps between runs.

mod angles;
mod array;
mod arrival;
mod cache;
mod cached_rows;
pub mod compact;
mod linear;
pub mod maps;
pub mod matrix;
mod model;
mod moved;
mod normal;
mod remaps;
mod seeks;
mod spindle;
mod trust;

pub use array::ArrayModel;
pub use linear::LinearBelief;
pub use model::DriveModel;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::Belief;

/// The model of a drive of which the profile is known and nothing learned; watched, so that a wrong
/// profile does not mislead for long.
///
/// # Errors
/// Whatever is wrong with the profile.
pub fn of_profile(profile: &DriveProfile) -> Result<Box<dyn Belief + Send>, ProfileError> {
    Ok(Box::new(DriveModel::of_profile(profile)?.watched()))
}
