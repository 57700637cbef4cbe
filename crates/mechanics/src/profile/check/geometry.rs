//! Checks of `[geometry]` and the declared capacity.

use alloc::format;

use super::super::{DriveProfile, ProfileError, TrackOrder};
use super::within;

/// Maximum number of heads; today's drives have at most 24.
const MAX_HEADS: u16 = 1_024;
/// Maximum number of arms; no drive has had more than two.
const MAX_ACTUATORS: u16 = 2;

impl DriveProfile {
    pub(super) fn check_geometry(&self) -> Result<(), ProfileError> {
        let geometry = &self.geometry;
        if geometry.heads == 0 || geometry.heads > MAX_HEADS {
            return Err(self.refuse(
                "geometry.heads",
                geometry.heads,
                format!("1 to {MAX_HEADS}"),
                "count the surfaces that hold data",
            ));
        }
        if let Some(actuators) =
            geometry.actuators.filter(|actuators| !(1..=MAX_ACTUATORS).contains(actuators))
        {
            let remedy = "count the arms that move independently; remove the key for one";
            return Err(self.refuse(
                "geometry.actuators",
                actuators,
                format!("1 to {MAX_ACTUATORS}"),
                remedy,
            ));
        }
        match (geometry.layout, geometry.band_cylinders) {
            (TrackOrder::SurfaceSerpentine | TrackOrder::Banded, None) => Err(self.refuse(
                "geometry.band_cylinders",
                "missing",
                "the cylinders of a band",
                "add it, or choose layout = \"serpentine\"",
            )),
            (TrackOrder::SurfaceSerpentine | TrackOrder::Banded, Some(0)) => Err(self.refuse(
                "geometry.band_cylinders",
                0,
                "at least 1",
                "one band is often some hundred cylinders",
            )),
            (TrackOrder::Cylinder | TrackOrder::Serpentine, Some(band)) => Err(self.refuse(
                "geometry.band_cylinders",
                band,
                "nothing in this layout",
                "remove it, or choose layout = \"surface-serpentine\"",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn check_second_actuator(&self) -> Result<(), ProfileError> {
        let Some(second) = &self.second_actuator else { return Ok(()) };
        if self.actuators() < 2 {
            return Err(self.refuse(
                "second_actuator",
                "given",
                "nothing for a drive with one arm",
                "add `actuators = 2` to [geometry], or remove the table",
            ));
        }
        if let Some(actuators) = second.geometry.actuators {
            return Err(self.refuse(
                "second_actuator.geometry.actuators",
                actuators,
                "nothing: it is that of the drive",
                "remove it",
            ));
        }
        let own = self.of_actuator(1);
        own.check_geometry()
            .and_then(|()| own.check_places())
            .and_then(|()| own.check_seek())
            .map_err(|error| within("second_actuator", error))
    }

    pub(super) fn check_capacity(&self) -> Result<(), ProfileError> {
        let arms = u64::from(self.actuators());
        let mapped = self.mapped().get().saturating_mul(arms);
        match self.capacity_sectors {
            Some(0) => Err(self.refuse(
                "capacity_sectors",
                0,
                "at least 1",
                "remove the key to declare all that the zones map",
            )),
            Some(declared) if declared > mapped => {
                Err(ProfileError::Capacity { profile: self.name.clone(), declared, mapped })
            }
            Some(declared) if declared % arms != 0 => {
                let expected = format!(
                    "a multiple of geometry.actuators = {arms}, as each arm serves as many"
                );
                Err(self.refuse(
                    "capacity_sectors",
                    declared,
                    expected,
                    format!("set capacity_sectors = {}", declared - declared % arms),
                ))
            }
            _ => Ok(()),
        }
    }
}
