//! What is known of a drive: implementations of [`headtime_sched::Belief`].
//!
//! A belief starts from what someone says of the drive (its profile, or only its size) and is taught by measured completions. It never sees
//! the truth of a simulated drive; that the crate cannot even name it is part of the layering test.
//!
//! - [`ProfileBelief`]: the nominal mechanics of a profile with a fitted period, phase and arrival offset.
//! - [`LinearBelief`]: cost by distance, for drives of which only the capacity is known, and for drives with two arms, whose mechanics no belief follows yet.
//!
//! [`of_profile`] takes the right one for a model of drive.

mod angles;
mod arrival;
mod linear;
mod profile;
mod spindle;

pub use linear::LinearBelief;
pub use profile::ProfileBelief;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::Belief;

/// What is believed of a drive of this model before it has been seen: its mechanics, or, where it has more than one arm, its size alone.
///
/// # Errors
/// Whatever is wrong with the profile.
pub fn of_profile(profile: &DriveProfile) -> Result<Box<dyn Belief + Send>, ProfileError> {
    if profile.actuators() > 1 {
        profile.validate()?;
        return Ok(Box::new(LinearBelief::new(profile.capacity())));
    }
    Ok(Box::new(ProfileBelief::new(profile)?))
}
