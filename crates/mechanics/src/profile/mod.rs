//! [`DriveProfile`]: a drive model as a readable TOML file.
//!
//! A profile describes a drive model: rotation, geometry, zones, seek curve, interface, firmware,
//! and the spread between drives of the model ([`VariationSpec`]). It has no state and no
//! randomness. Named setups ([`Setup`]) overlay the interface and firmware keys, because the same
//! mechanics have been measured with different buses; `NAME@SETUP` selects one.
//!
//! Reading is strict: an unknown key is refused with its line and column, an invalid value with
//! key, value, expectation and remedy ([`ProfileError`]). Times are decimal milliseconds or
//! microseconds in the file, as the key's name says, and integer nanoseconds in memory.

mod accuracy;
mod check;
mod error;
mod read;
mod slip_list;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use headtime_units::{RotationPeriod, SectorSize, Sectors};
use serde::{Deserialize, Serialize};

pub use accuracy::{Accuracy, Reliability, ZoneAccuracy};
pub use error::ProfileError;

/// A drive model. Fields may be changed after reading; [`DriveProfile::validate`] and every
/// constructor that takes a profile check it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveProfile {
    /// Short name for command lines: lower case, digits, `-`, `.`, `_`; a selected setup is
    /// appended after `@`.
    pub name: String,
    /// Maker and model.
    pub model: String,
    /// The figures and their sources, for people.
    #[serde(default)]
    pub description: String,
    /// Bytes of a logical sector: a power of two from 512 to 65,536.
    pub sector_bytes: u32,
    /// Bytes of a physical sector if it is larger (4,096 on 512e drives): a partial write reads the
    /// sector first and costs a revolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_sector_bytes: Option<u32>,
    /// Logical sectors that the drive declares; later ones do not exist, though the zones may map
    /// more. Default: all mapped sectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_sectors: Option<u64>,
    /// The spindle.
    pub rotation: Rotation,
    /// Heads and track order.
    pub geometry: Geometry,
    /// Zones from the outer edge inwards, `[[zone]]` in the file. Exclusive with runs.
    #[serde(default, rename = "zone", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Zone>,
    /// A layout measured track by track, `[[run]]` in the file, in LBA order. Exclusive with zones.
    #[serde(default, rename = "run", skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<MeasuredRun>,
    /// The arm.
    pub seek: Seek,
    /// The path between host and drive.
    pub interface: Interface,
    /// The drive's own queue.
    pub firmware: Firmware,
    /// The drive's buffer memory. Default: none, so that every read comes from the media and every
    /// write completes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// The spread between drives of this model. Default: none.
    #[serde(default)]
    pub variation: VariationSpec,
    /// The accuracy of a measured profile's predictions. Default: none, as of a description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<Accuracy>,
    /// The second arm, if it differs from the first; only with two arms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_actuator: Option<Box<SecondActuator>>,
    /// Named overlays of interface and firmware keys, `[setup.NAME]` in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, Setup>,
}

/// The spindle speed, in one of two forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Revolutions per minute, 60 to 600,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpm: Option<f64>,
    /// Microseconds per revolution, 100 to 1,000,000; preferable for a measured period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_us: Option<f64>,
}

/// Heads and track order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Surfaces with a head, 1 to 1,024.
    pub heads: u16,
    /// The filling order of a zone's tracks.
    pub layout: TrackOrder,
    /// Cylinders of one band; only for [`TrackOrder::SurfaceSerpentine`] and
    /// [`TrackOrder::Banded`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_cylinders: Option<u32>,
    /// Independent arms over one spindle, 1 or 2. Default: 1. The rest of the profile describes one
    /// arm with its heads and zones; the drive has the LBAs of the first arm followed by those of
    /// the second, and twice the capacity. The second arm is like the first, or as
    /// [`DriveProfile::second_actuator`] describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actuators: Option<u16>,
}

/// The second arm of a drive: what it does not share with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecondActuator {
    /// Its heads and their track order; without the number of arms.
    pub geometry: Geometry,
    /// Its zones, `[[second_actuator.zone]]` in the file.
    #[serde(rename = "zone")]
    pub zones: Vec<Zone>,
    /// The arm.
    pub seek: Seek,
}

/// The filling order of a zone's tracks; every zone starts at its first cylinder on head 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackOrder {
    /// All heads of a cylinder from 0 up, then the next cylinder from head 0 again.
    Cylinder,
    /// All heads of a cylinder, alternately upwards and downwards, so that a step to the next
    /// cylinder stays on its surface.
    Serpentine,
    /// All cylinders of a band on one surface, alternately inwards and outwards by surface, then
    /// the next band; bands use the surfaces alternately upwards and downwards, so that the step to
    /// the next band stays on its surface.
    SurfaceSerpentine,
    /// All cylinders of a band on one surface, always inwards, then the same cylinders on the next
    /// surface, then the next band from head 0.
    Banded,
}

/// Cylinders with the same layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The first cylinder; zones are contiguous (except for [`Zone::skipped_cylinders`]), the first
    /// starts at 0.
    pub first_cylinder: u32,
    /// The number of cylinders.
    pub cylinders: u32,
    /// Cylinders before the first one that hold no data.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_cylinders: u32,
    /// Sectors of every track, 1 to 65,535; the unit of the skews.
    pub sectors_per_track: u32,
    /// Sectors per track of each surface, one number for each head. Default:
    /// [`Zone::sectors_per_track`] on all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sectors_by_head: Vec<u32>,
    /// The offset of the next track's sector 0 on another surface of the same cylinder, in sectors
    /// of [`Zone::sectors_per_track`] (fractions allowed), less than a track.
    pub track_skew: f64,
    /// The same for a step to the next cylinder; in a banded layout also for the step back to the
    /// band's first cylinder on the next surface.
    pub cylinder_skew: f64,
    /// The same for the step to the next band. Default: the cylinder skew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_skew: Option<f64>,
    /// The angle of the first track's sector 0 in revolutions, if measured. Default: as after one
    /// more cylinder step from the last track of the previous zone (the first zone: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_angle_turns: Option<f64>,
    /// Sectors at the start of the zone without an LBA.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub reserved: u64,
    /// Sectors kept free at the end of the zone (or of each group of [`Zone::spare_cylinders`] or
    /// [`Zone::spare_tracks`]); slipped sectors use them up.
    #[serde(default)]
    pub spares: u64,
    /// Cylinders of a group with its own spares; a shorter last group has as many. Default: the
    /// whole zone is one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_cylinders: Option<u32>,
    /// The same in tracks, in filling order, for groups that are no whole cylinders; 1: each track
    /// has its own spares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_tracks: Option<u32>,
    /// Defective sectors that the mapping skips, as numbers of physical sectors from the start of
    /// the zone in filling order; in a file also runs of them as `[first, count]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "slip_list")]
    pub slips: Vec<u64>,
    /// Defective sectors with their spares, as pairs of physical sectors of the zone in the
    /// numbering of slips: `[defective, spare]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<(u64, u64)>,
}

/// Measured consecutive tracks of one surface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    /// The first LBA; runs are contiguous, the first starts at 0.
    pub first_lba: u64,
    /// The number of tracks.
    pub tracks: u32,
    /// LBAs of each track.
    pub lbas: u32,
    /// Sectors of a whole revolution of each track, 1 to 65,535, at least
    /// [`MeasuredRun::first_sector`] + [`MeasuredRun::lbas`].
    pub sectors_per_track: u32,
    /// The sector of each track that holds its first LBA.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sector: u32,
    /// The first track's cylinder.
    pub cylinder: u32,
    /// The step from track to track: 1 inwards, −1 outwards. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cylinder_step: i32,
    /// The surface.
    pub head: u16,
    /// The angle of the first track's first LBA in revolutions, 0 up to but not including 1.
    pub angle_turns: f64,
    /// The angle step of the first LBA from track to track in revolutions, 0 up to but not
    /// including 1.
    #[serde(default)]
    pub angle_step_turns: f64,
}

/// The arm. An arm time is the greater of seek and head switch, plus the write settle when writing
/// after any movement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// Head switch within a cylinder, milliseconds.
    pub head_switch_ms: f64,
    /// Added to a nonzero arm time for a write, milliseconds.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// The read seek curve as points `[cylinders, milliseconds]`: the first at 1 cylinder, straight
    /// lines between, the last line extended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<(u32, f64)>,
    /// The read seek curve as a formula, instead of points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<SeekFormula>,
}

/// The two-part seek curve of Ruemmler and Wilkes: the arm accelerates (square root), then coasts
/// (linear).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekFormula {
    /// Below [`SeekFormula::long_from`]: `short_ms + short_sqrt_ms · √cylinders`; this is the
    /// constant part, milliseconds.
    pub short_ms: f64,
    /// The factor of the square root, milliseconds.
    pub short_sqrt_ms: f64,
    /// The first long distance, in cylinders.
    pub long_from: u32,
    /// From there: `long_ms + long_us_per_cylinder · cylinders`; this is the constant part,
    /// milliseconds.
    pub long_ms: f64,
    /// Microseconds for each cylinder of a long seek.
    pub long_us_per_cylinder: f64,
}

/// The path between host and drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// From the host's dispatch of a read until its media access may start, microseconds.
    pub read_command_us: f64,
    /// The same for a write, until its data may cross the bus.
    pub write_command_us: f64,
    /// The same for a read after a write. Default: `read_command_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_after_write_us: Option<f64>,
    /// The same for a write after a write. Default: `write_command_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_after_write_us: Option<f64>,
    /// From the last byte across the bus (a read) or on the media (a write) until the host sees the
    /// completion, microseconds.
    pub completion_us: f64,
    /// The same for a write. Default: `completion_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_completion_us: Option<f64>,
    /// The bus rate in millions of bytes per second.
    pub bus_mb_per_s: f64,
    /// True if a read's data cross the bus only after its last sector has been read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_buffered: bool,
}

/// The drive's own queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// Maximum number of commands in the drive, 1 to 65,536, including the one in service.
    pub queue_depth: u32,
    /// The scheduling algorithm.
    pub algorithm: Algorithm,
    /// Time for which sequential commands go before all others, milliseconds; users see random
    /// reads that starve for seconds beside a sequential stream. Default: no preference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_hold_ms: Option<f64>,
    /// Time after which a waiting command goes before all others (ageing), milliseconds. Default:
    /// none, so that SPTF may starve commands far from the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<f64>,
    /// True if a read transfers sectors as they come by once the head is on their track, instead of
    /// from the first one on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zero_latency_read: bool,
    /// The same for a write.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zero_latency_write: bool,
}

/// The drive's buffer memory, in segments. Each holds one row of LBAs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The number of segments.
    pub segments: u32,
    /// Sectors of a segment.
    pub segment_sectors: u32,
    /// Maximum number of segments with written data. Default: half, at least one. Without
    /// write-back it has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_segments: Option<u32>,
    /// Maximum number of sectors read after a read's end while the drive is idle; 0 is no
    /// read-ahead. A segment's size limits it.
    pub read_ahead_sectors: u32,
    /// True if read-ahead ends with the track on which the read ended. Then a segment's size does
    /// not limit it: the newest sectors replace the oldest.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_ahead_within_track: bool,
    /// True if a read miss continues until the whole of its last track is in the segment, including
    /// the sectors before the read, and no further: from the sector under the head at arrival, one
    /// revolution. If another command takes the arm, the sectors read after the requested ones are
    /// kept. Then `read_ahead_sectors` has no effect. The Atlas 10K works this way: in its
    /// recording 98.7 % of reads are hits or misses by this rule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub whole_track: bool,
    /// True if a write completes when its data have arrived, and reaches the media later.
    pub write_back: bool,
    /// From the host's dispatch of a cached read until its data may cross the bus, microseconds.
    pub read_hit_us: f64,
    /// The same after a write. Default: `read_hit_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_hit_after_write_us: Option<f64>,
    /// From the host's dispatch of a write to the cache until its data may cross the bus,
    /// microseconds.
    pub write_hit_us: f64,
    /// The same after a write. Default: `write_hit_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hit_after_write_us: Option<f64>,
    /// Time that written data wait in the cache while the drive is idle, milliseconds. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_delay_ms: Option<f64>,
}

/// The firmware's scheduling algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Shortest positioning time first; ties in order of arrival.
    Sptf,
}

/// The spread between drives of one model. The simulator draws an instance from these figures; the
/// nominal drive does not use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VariationSpec {
    /// Spindle speed: standard deviation from nominal, parts per million.
    pub spindle_ppm: f64,
    /// Amplitude of the spindle's slow drift around its own mean, parts per million.
    pub spindle_drift_ppm: f64,
    /// Period of that drift, seconds; 0: no drift.
    pub spindle_drift_period_s: f64,
    /// Error of a track's angle: standard deviation, microseconds of rotation.
    pub track_angle_us: f64,
    /// Error of the angle that neighboring tracks share, as wrong skews leave it: standard
    /// deviation, microseconds of rotation.
    pub region_angle_us: f64,
    /// Error of a seek time by region of the stroke: standard deviation, microseconds.
    pub seek_residual_us: f64,
    /// Error of the seek curve, the head switch, the settle, the bus rate and each overhead:
    /// standard deviation as a fraction of the value, 0 to 0.2.
    pub extraction_error: f64,
    /// Unpredictable part of each arm time: standard deviation, microseconds.
    pub arm_jitter_us: f64,
    /// Amplitude of the arm times' slow drift with temperature, microseconds; its period is that of
    /// the spindle's drift.
    pub arm_drift_us: f64,
    /// Idle time after which the drive may do work of its own, milliseconds.
    pub idle_work_after_ms: f64,
    /// Fraction of accesses (0 to 1) after so much idle time that find the arm elsewhere.
    pub idle_work_share: f64,
    /// Additional defective sectors per million sectors; the zones' spares must hold them.
    pub slips_per_million: f64,
    /// Noise of each completion: standard deviation, microseconds.
    pub jitter_us: f64,
    /// Fraction of accesses (0 to 1) that take much longer without a visible reason.
    pub outlier_share: f64,
    /// Extra time of those, milliseconds.
    pub outlier_ms: f64,
    /// Fraction of accesses (0 to 1) that lose a revolution: the arm has not settled, or a sector
    /// is read again.
    pub retry_share: f64,
    /// Recalibrations, on average per hour; each delays the access during which it is due.
    pub recalibrations_per_hour: f64,
    /// Time of a recalibration, milliseconds.
    pub recalibration_ms: f64,
    /// Fraction of reports (0 to 1) that a busy host sees late.
    pub stall_share: f64,
    /// Mean extra time of those, milliseconds.
    pub stall_ms: f64,
    /// Sectors that become defective and are remapped at run time, on average per hour.
    pub grown_defects_per_hour: f64,
}

/// A named overlay: its keys replace the profile's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// A description for people.
    #[serde(default)]
    pub description: String,
    /// Replaced interface keys.
    #[serde(default)]
    pub interface: InterfaceOverlay,
    /// Replaced firmware keys.
    #[serde(default)]
    pub firmware: FirmwareOverlay,
    /// The cache in place of the profile's; `segments = 0` removes it. Default: the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}

/// Defines an overlay: the named keys of a section, each optional, and their application.
macro_rules! overlay {
    ($name:ident of $section:ident { $($key:ident: $type:ty),* $(,)? }) => {
        #[doc = concat!("Keys of [`", stringify!($section), "`] that a setup replaces.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                #[doc = concat!("Replaces [`", stringify!($section), "::", stringify!($key), "`].")]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*
        }

        impl $name {
            fn apply(&self, section: &mut $section) {
                $(if let Some(value) = self.$key {
                    section.$key = value.into();
                })*
            }
        }
    };
}

overlay!(InterfaceOverlay of Interface {
    read_command_us: f64,
    write_command_us: f64,
    read_after_write_us: f64,
    write_after_write_us: f64,
    completion_us: f64,
    write_completion_us: f64,
    read_buffered: bool,
    bus_mb_per_s: f64,
});

overlay!(FirmwareOverlay of Firmware {
    queue_depth: u32,
    algorithm: Algorithm,
    sequential_hold_ms: f64,
    max_wait_ms: f64,
    zero_latency_read: bool,
    zero_latency_write: bool,
});

impl DriveProfile {
    /// The logical sector size.
    ///
    /// # Errors
    /// If [`DriveProfile::sector_bytes`] is not a power of two from 512 to 65,536.
    pub fn sector_size(&self) -> Result<SectorSize, ProfileError> {
        SectorSize::new(self.sector_bytes).ok_or_else(|| {
            self.refuse(
                "sector_bytes",
                self.sector_bytes,
                "a power of two from 512 to 65536",
                "512 is usual",
            )
        })
    }

    /// The nominal rotation period.
    ///
    /// # Errors
    /// If the speed is missing, given twice, or out of range.
    pub fn rotation_period(&self) -> Result<RotationPeriod, ProfileError> {
        let (key, value, period) = match (self.rotation.rpm, self.rotation.period_us) {
            (Some(rpm), None) => ("rotation.rpm", rpm, RotationPeriod::from_rpm(rpm)),
            (None, Some(us)) => ("rotation.period_us", us, period_from_us(us)),
            (None, None) => {
                return Err(self.refuse(
                    "rotation",
                    "empty",
                    "rpm or period_us",
                    "add `rpm = 7200`",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(self.refuse(
                    "rotation",
                    "rpm and period_us",
                    "one of the two",
                    "remove rpm, the period is finer",
                ));
            }
        };
        period.ok_or_else(|| {
            self.refuse(
                key,
                value,
                "60 to 600000 rpm, which is 100 to 1000000 us per revolution",
                "write 7200 rpm as `rpm = 7200`",
            )
        })
    }

    /// Cylinders of the drive, including those without data.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        let zones = self.zones.iter().fold(0_u32, |sum, zone| {
            sum.saturating_add(zone.skipped_cylinders).saturating_add(zone.cylinders)
        });
        self.runs
            .iter()
            .map(|run| run.cylinder.max(run.last_cylinder()).saturating_add(1))
            .fold(zones, u32::max)
    }

    /// The number of independent arms.
    #[must_use]
    pub fn actuators(&self) -> u16 {
        self.geometry.actuators.unwrap_or(1).max(1)
    }

    /// Sectors that the zones or runs map under one arm: all except spares and reserved ones; of
    /// two different arms, those of the smaller.
    #[must_use]
    pub fn mapped(&self) -> Sectors {
        let of_zones = |zones: &[Zone], heads| {
            zones.iter().map(|zone| zone.mapped_sectors(heads)).fold(0, u64::saturating_add)
        };
        let runs = self.runs.iter().map(MeasuredRun::sectors);
        let first = runs.fold(of_zones(&self.zones, self.geometry.heads), u64::saturating_add);
        let second = self.second_actuator.as_deref();
        Sectors::new(
            second.map_or(first, |arm| first.min(of_zones(&arm.zones, arm.geometry.heads))),
        )
    }

    /// The profile of one arm alone, counted from 0, with the sectors that it serves.
    #[must_use]
    pub fn of_actuator(&self, number: usize) -> Self {
        let capacity_sectors = Some(self.capacity_per_actuator().get());
        let mut own = Self { capacity_sectors, second_actuator: None, ..self.clone() };
        if let Some(second) = self.second_actuator.as_deref().filter(|_| number > 0) {
            let SecondActuator { geometry, zones, seek } = second.clone();
            own = Self { geometry, zones, runs: Vec::new(), seek, ..own };
        }
        own.geometry.actuators = None;
        own
    }

    /// Logical sectors of the drive: the declared ones, else all that are mapped under all arms.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.capacity_sectors.map_or_else(
            || Sectors::new(self.mapped().get().saturating_mul(u64::from(self.actuators()))),
            Sectors::new,
        )
    }

    /// Logical sectors under one arm: those of a [`Layout`](crate::Layout).
    #[must_use]
    pub fn capacity_per_actuator(&self) -> Sectors {
        Sectors::new(self.capacity().get() / u64::from(self.actuators()))
    }
}

impl MeasuredRun {
    /// LBAs of all tracks.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        u64::from(self.tracks) * u64::from(self.lbas)
    }

    /// The cylinder of the last track, clamped to 32 bits.
    #[must_use]
    pub fn last_cylinder(&self) -> u32 {
        let steps = i64::from(self.tracks.saturating_sub(1)) * i64::from(self.cylinder_step);
        (i64::from(self.cylinder) + steps).clamp(0, i64::from(u32::MAX)) as u32
    }
}

impl Zone {
    /// Sectors of all the zone's tracks on `heads` surfaces, including spares, slips and reserved
    /// ones.
    #[must_use]
    pub fn physical_sectors(&self, heads: u16) -> u64 {
        u64::from(self.cylinders) * self.cylinder_sectors(heads)
    }

    /// Sectors of one cylinder on `heads` surfaces.
    #[must_use]
    pub fn cylinder_sectors(&self, heads: u16) -> u64 {
        if self.sectors_by_head.is_empty() {
            return u64::from(heads) * u64::from(self.sectors_per_track);
        }
        self.sectors_by_head.iter().map(|sectors| u64::from(*sectors)).sum()
    }

    /// Sectors of a group with its own spares ([`Zone::spare_cylinders`], [`Zone::spare_tracks`]),
    /// at most the zone's; the last group may have fewer.
    #[must_use]
    pub fn group_sectors(&self, heads: u16) -> u64 {
        let all = self.physical_sectors(heads);
        let group = match (self.spare_cylinders, self.spare_tracks) {
            (Some(cylinders), _) => u64::from(cylinders) * self.cylinder_sectors(heads),
            (None, Some(tracks)) => u64::from(tracks) * u64::from(self.sectors_per_track),
            (None, None) => all,
        };
        group.min(all).max(1)
    }

    /// The number of groups with their own spares.
    #[must_use]
    pub fn groups(&self, heads: u16) -> u64 {
        self.physical_sectors(heads).div_ceil(self.group_sectors(heads)).max(1)
    }

    /// Sectors of the zone that hold LBAs.
    #[must_use]
    pub fn mapped_sectors(&self, heads: u16) -> u64 {
        let kept = self.groups(heads).saturating_mul(self.spares).saturating_add(self.reserved);
        self.physical_sectors(heads).saturating_sub(kept)
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn is_zero_u64(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn one() -> i32 {
    1
}

fn is_one(value: &i32) -> bool {
    *value == 1
}

fn period_from_us(us: f64) -> Option<RotationPeriod> {
    let femtos = libm::round(us * 1e9);
    if femtos.is_finite() && femtos >= 0.0 { RotationPeriod::from_fs(femtos as u64) } else { None }
}
