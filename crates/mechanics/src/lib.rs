//! The mechanics of a rotating drive: geometry, layout, seek curve, rotation, interface and
//! firmware queue, without a clock, a file or a thread.
//!
//! A [`DriveProfile`] is the data (a TOML file; [`catalog`] has the shipped ones). A [`Layout`]
//! maps addresses to positions. A [`Mechanism`] computes the duration of an access from a position
//! and a time. The crate is used twice: by the simulated drive with its drawn truth (`V` of
//! [`Mechanism`] varies), and by drive models with the nominal profile ([`Nominal`]).
//!
//! ```
//! use headtime_mechanics::{Direction, HeadPosition, Mechanism, catalog};
//! use headtime_units::{Extent, Instant};
//!
//! let mechanism = Mechanism::nominal(&catalog::load("atlas10k")?)?;
//! let (start, extent) = (Instant::ORIGIN, Extent::from_numbers(1_000_000, 8));
//! let access = mechanism.access(HeadPosition::PARKED, start, Direction::Read, extent, start);
//! assert_eq!(start + access.seek + access.rotate + access.transfer, access.finish);
//! # Ok::<(), headtime_mechanics::ProfileError>(())
//! ```
#![no_std]

extern crate alloc;

pub mod cache;
pub mod catalog;
mod disk_time;
pub mod draw;
mod firmware;
pub mod import;
pub mod interface;
mod layout;
mod mean;
mod mechanism;
mod noise;
mod place;
pub mod profile;
mod seek;
mod shingles;
mod stripes;
mod variation;

pub use disk_time::DiskTime;
pub use firmware::{FirmwareCommand, FirmwareQueue, QueueFull};
pub use interface::{Bus, InterfaceTimes};
pub use layout::{Layout, TrackRow, TrackRun, ZoneExtent, ZoneSlip};
pub use mechanism::{Access, Mechanism, PositioningTime};
pub use noise::{NoiseLevel, UnknownNoise};
pub use place::{Direction, HeadPosition, PhysicalAddress, Spot, Track};
pub use profile::{DriveProfile, ProfileError};
pub use seek::SeekCurve;
pub use shingles::Shingles;
pub use stripes::Stripes;
pub use variation::{Nominal, Variation};
