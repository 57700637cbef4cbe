//! What is known of a drive: implementations of [`headtime_sched::Belief`].
//!
//! A belief starts from what someone says of the drive (its profile, or only its size) and is
//! taught by measured completions. It never sees the truth of a simulated drive; that the crate
//! cannot even name it is part of the layering test.
//!
//! - [`ProfileBelief`]: the nominal mechanics of a profile with a fitted period, phase and arrival
//!   offset.
//! - [`WatchedBelief`]: the same, as long as its predictions hold; by distance while they do not.
//! - [`ArmsBelief`]: the same for each arm of a drive that has several.
//! - [`LinearBelief`]: cost by distance, for drives of which only the capacity is known.
//! - [`compact::CompactBelief`] and [`matrix::MatrixBelief`]: a latency map, the compact one or the
//!   published matrix, which can be kept and resumed ([`maps`]).
//!
//! [`of_profile`] takes the right one for a model of drive.

mod angles;
mod arms;
mod arrival;
pub mod compact;
mod hits;
mod learning;
mod linear;
pub mod maps;
pub mod matrix;
mod moved;
mod normal;
mod profile;
mod remaps;
mod seeks;
mod spindle;
mod tracks;
mod trust;
mod watched;

pub use arms::ArmsBelief;
pub use linear::LinearBelief;
pub use profile::ProfileBelief;
pub use watched::WatchedBelief;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::Belief;

/// What is believed of a drive of this model before it has been seen: its mechanics, those of each
/// arm where it has several.
///
/// # Errors
/// Whatever is wrong with the profile.
pub fn of_profile(profile: &DriveProfile) -> Result<Box<dyn Belief + Send>, ProfileError> {
    if profile.actuators() > 1 {
        return Ok(Box::new(ArmsBelief::new(profile)?));
    }
    Ok(Box::new(WatchedBelief::new(profile)?))
}
