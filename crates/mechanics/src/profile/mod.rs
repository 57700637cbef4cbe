//! [`DriveProfile`]: the data of a drive model, as a readable TOML file.
//!
//! A profile says what a model of drive is: rotation, geometry, zones, seek curve, interface, firmware, and by how much units of the model
//! differ ([`UnitVariation`]). It holds no state and no randomness. Named setups ([`Setup`]) overlay the interface and firmware keys,
//! because the same mechanics have been measured behind different buses; `NAME@SETUP` selects one.
//!
//! Reading is strict: a key that does not exist is refused with its line and column, a value that makes no drive with the key, the
//! value, what was expected and what to do ([`ProfileError`]). All times are decimal milliseconds or microseconds in the file, as the key's
//! name says, and integer nanoseconds inside.

mod check;
mod error;
mod read;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use headtime_units::{RotationPeriod, SectorSize, Sectors};
use serde::{Deserialize, Serialize};

pub use error::ProfileError;

/// What a model of drive is. Fields may be changed after reading; [`DriveProfile::validate`] and every constructor that takes a profile check again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveProfile {
    /// Short name, as used on command lines: lower-case letters, digits, `-`, `.`, `_`; a chosen setup is appended behind `@`.
    pub name: String,
    /// Maker and model.
    pub model: String,
    /// What the figures are and where they come from, for people.
    #[serde(default)]
    pub description: String,
    /// Bytes of a logical sector: a power of two from 512 to 65,536.
    pub sector_bytes: u32,
    /// Bytes of a physical sector where it is larger (4,096 on 512e drives). Recorded only: a partial write's extra revolution is not modelled yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_sector_bytes: Option<u32>,
    /// Logical sectors that the drive declares; addresses past it do not exist, though the zones may map more. Left out: all that the zones map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_sectors: Option<u64>,
    /// The spindle.
    pub rotation: Rotation,
    /// Heads, and the order in which tracks are filled.
    pub geometry: Geometry,
    /// Zones from the outer edge inwards, `[[zone]]` in the file.
    #[serde(rename = "zone")]
    pub zones: Vec<Zone>,
    /// The arm.
    pub seek: Seek,
    /// The way between host and drive.
    pub interface: Interface,
    /// The drive's own queue.
    pub firmware: Firmware,
    /// How units of this model differ from each other; nothing by default.
    #[serde(default)]
    pub variation: UnitVariation,
    /// Named overlays of interface and firmware keys, `[setup.NAME]` in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, Setup>,
}

/// The spindle's speed, written one way or the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Turns per minute, 60 to 600,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpm: Option<f64>,
    /// Microseconds per turn, 100 to 1,000,000; the better choice where the period was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_us: Option<f64>,
}

/// Heads, and the order of tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Surfaces with a head, 1 to 1,024.
    pub heads: u16,
    /// The order in which a zone's tracks are filled.
    pub layout: TrackOrder,
    /// Cylinders of one band; for [`TrackOrder::SurfaceSerpentine`], and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_cylinders: Option<u32>,
}

/// The order in which the tracks of a zone are filled; every zone starts at its first cylinder on head 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackOrder {
    /// All heads of a cylinder from 0 up, then the next cylinder from head 0 again.
    Cylinder,
    /// All heads of a cylinder, upwards and downwards in turn, so that a step to the next cylinder stays on its surface.
    Serpentine,
    /// All cylinders of a band on one surface, inwards and outwards in turn from surface to surface, then the next band; bands take the
    /// surfaces upwards and downwards in turn, so that the step to the next band stays on its surface.
    SurfaceSerpentine,
}

/// A run of cylinders with the same number of sectors on each track.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The first cylinder; zones follow each other without gap, the first at 0.
    pub first_cylinder: u32,
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors of every track, 1 to 65,535.
    pub sectors_per_track: u32,
    /// How much further the next track's sector 0 is when the next track is another surface of the same cylinder, in sectors, less than a track.
    pub track_skew: u32,
    /// The same for a step to the next cylinder, in sectors, less than a track.
    pub cylinder_skew: u32,
    /// The same for the step to the next band of a surface-serpentine layout; left out: the cylinder skew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_skew: Option<u32>,
    /// The angle of the first track's sector 0 in turns, where it was measured. Left out: as after one more cylinder step from the last track of
    /// the zone before (the first zone: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_angle_turns: Option<f64>,
    /// Sectors kept free at the end of the zone; slipped sectors use them up.
    #[serde(default)]
    pub spares: u64,
    /// Defective sectors that the mapping steps over, as numbers of physical sectors from the start of the zone in the order tracks are filled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
}

/// The arm. An arm time is the greater of seek and head switch, plus the write settle when writing after any movement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// Switching to another head of the same cylinder, milliseconds.
    pub head_switch_ms: f64,
    /// Added to an arm time that is not zero when the access writes, milliseconds.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// The read seek curve as points `[cylinders, milliseconds]`: the first at 1 cylinder, straight lines between, the last line prolonged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<(u32, f64)>,
    /// The read seek curve as a formula, instead of points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<SeekFormula>,
}

/// The two-part seek curve of Ruemmler and Wilkes: the arm accelerates (square root), then coasts (linear).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekFormula {
    /// Below [`SeekFormula::long_from`]: `short_ms + short_sqrt_ms · √cylinders`; this is the constant part, milliseconds.
    pub short_ms: f64,
    /// The factor of the square root, milliseconds.
    pub short_sqrt_ms: f64,
    /// The first distance, in cylinders, that counts as long.
    pub long_from: u32,
    /// From there: `long_ms + long_us_per_cylinder · cylinders`; this is the constant part, milliseconds.
    pub long_ms: f64,
    /// Microseconds for each cylinder of a long seek.
    pub long_us_per_cylinder: f64,
}

/// The way between host and drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// From the host's dispatch of a read until its media work may start, microseconds.
    pub read_command_us: f64,
    /// The same for a write, until its data may cross the bus.
    pub write_command_us: f64,
    /// The same for a read that follows a write; left out: `read_command_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_after_write_us: Option<f64>,
    /// The same for a write that follows a write; left out: `write_command_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_after_write_us: Option<f64>,
    /// From the last byte across the bus (a read) or on the media (a write) until the host sees the completion, microseconds.
    pub completion_us: f64,
    /// What the bus carries, in millions of bytes per second.
    pub bus_mb_per_s: f64,
}

/// The drive's own queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// Commands that the drive holds at once, 1 to 65,536; the one in service counts.
    pub queue_depth: u32,
    /// How it chooses among them.
    pub algorithm: Algorithm,
}

/// How firmware chooses the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// In the order of arrival.
    Fcfs,
    /// The shortest positioning time first; ties in the order of arrival.
    Sptf,
}

/// How units of one model differ. The simulator draws a unit from these figures; nothing here changes the nominal drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnitVariation {
    /// Spindle speed: standard deviation from nominal, parts per million.
    pub spindle_ppm: f64,
    /// Where a track's sector 0 really is: standard deviation per track, microseconds of rotation.
    pub track_angle_us: f64,
    /// What a seek really takes: standard deviation of the deviation by region of the stroke, microseconds.
    pub seek_residual_us: f64,
    /// Further defective sectors of a unit, per million sectors; the zones' spares must hold them.
    pub slips_per_million: f64,
    /// Noise of each completion: standard deviation, microseconds.
    pub jitter_us: f64,
    /// Share of accesses (0 to 1) that take much longer for no visible reason.
    pub outlier_share: f64,
    /// How much longer those take, milliseconds.
    pub outlier_ms: f64,
}

/// A named overlay: keys that are given replace the profile's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// What this setup is, for people.
    #[serde(default)]
    pub description: String,
    /// Replaced interface keys.
    #[serde(default)]
    pub interface: InterfaceOverlay,
    /// Replaced firmware keys.
    #[serde(default)]
    pub firmware: FirmwareOverlay,
}

/// Interface keys that a setup replaces; each as in [`Interface`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceOverlay {
    /// Replaces [`Interface::read_command_us`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_command_us: Option<f64>,
    /// Replaces [`Interface::write_command_us`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_command_us: Option<f64>,
    /// Replaces [`Interface::read_after_write_us`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_after_write_us: Option<f64>,
    /// Replaces [`Interface::write_after_write_us`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_after_write_us: Option<f64>,
    /// Replaces [`Interface::completion_us`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_us: Option<f64>,
    /// Replaces [`Interface::bus_mb_per_s`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_mb_per_s: Option<f64>,
}

/// Firmware keys that a setup replaces; each as in [`Firmware`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareOverlay {
    /// Replaces [`Firmware::queue_depth`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Replaces [`Firmware::algorithm`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
}

impl DriveProfile {
    /// The logical sector's size.
    ///
    /// # Errors
    /// When [`DriveProfile::sector_bytes`] is no power of two from 512 to 65,536.
    pub fn sector_size(&self) -> Result<SectorSize, ProfileError> {
        SectorSize::new(self.sector_bytes)
            .ok_or_else(|| self.refuse("sector_bytes", self.sector_bytes, "a power of two from 512 to 65536", "512 is usual"))
    }

    /// The time of one nominal revolution.
    ///
    /// # Errors
    /// When the speed is missing, given twice, or no disk's.
    pub fn rotation_period(&self) -> Result<RotationPeriod, ProfileError> {
        let (key, value, period) = match (self.rotation.rpm, self.rotation.period_us) {
            (Some(rpm), None) => ("rotation.rpm", rpm, RotationPeriod::from_rpm(rpm)),
            (None, Some(us)) => ("rotation.period_us", us, period_from_us(us)),
            (None, None) => return Err(self.refuse("rotation", "empty", "rpm or period_us", "add `rpm = 7200`")),
            (Some(_), Some(_)) => return Err(self.refuse("rotation", "rpm and period_us", "one of the two", "remove rpm, the period is finer")),
        };
        period.ok_or_else(|| self.refuse(key, value, "60 to 600000 rpm, which is 100 to 1000000 us a turn", "write 7200 rpm as `rpm = 7200`"))
    }

    /// Cylinders of all zones together.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.zones.iter().fold(0, |sum, zone| sum.saturating_add(zone.cylinders))
    }

    /// Sectors that the zones map: all but the spares.
    #[must_use]
    pub fn mapped(&self) -> Sectors {
        Sectors::new(self.zones.iter().map(|zone| zone.physical_sectors(self.geometry.heads).saturating_sub(zone.spares)).sum())
    }

    /// Logical sectors there are: what is declared, else all that the zones map.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.capacity_sectors.map_or_else(|| self.mapped(), Sectors::new)
    }
}

impl Zone {
    /// Sectors of all the zone's tracks on `heads` surfaces, spares and slips counted.
    #[must_use]
    pub fn physical_sectors(&self, heads: u16) -> u64 {
        u64::from(self.cylinders) * u64::from(heads) * u64::from(self.sectors_per_track)
    }
}

fn period_from_us(us: f64) -> Option<RotationPeriod> {
    let femtos = libm::round(us * 1e9);
    if femtos.is_finite() && femtos >= 0.0 { RotationPeriod::from_fs(femtos as u64) } else { None }
}
