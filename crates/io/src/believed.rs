//! The belief of a drive that a profile is given for.

use headtime_sched::Belief;
use headtime_units::{SectorSize, Sectors};

use crate::backend::emulated;
use crate::locator::{Locator, ProfileSource};
use crate::open_error::OpenError;

/// What is believed of the drive by this profile, which must be of a drive of its size.
///
/// # Errors
/// [`OpenError::Profile`] and [`OpenError::OtherProfile`].
pub(crate) fn from_profile(
    source: &ProfileSource,
    locator: &Locator,
    capacity: Sectors,
    sector_size: SectorSize,
) -> Result<Box<dyn Belief + Send>, OpenError> {
    let wrong = |error: headtime_mechanics::ProfileError| OpenError::Profile { locator: locator.to_string(), message: error.to_string() };
    let profile = emulated::load(source, None, true, locator)?;
    let (own, here) = (profile.sector_size().map_err(wrong)?.bytes_of(profile.capacity()), sector_size.bytes_of(capacity));
    if own != here || profile.capacity() != capacity {
        return Err(OpenError::OtherProfile { profile: profile.name, believed: own, locator: locator.to_string(), bytes: here });
    }
    headtime_belief::of_profile(&profile).map_err(wrong)
}
