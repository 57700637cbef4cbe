//! The compact map: how long from any sector of a whole drive to any other, in megabytes, learned
//! from what the drive does.
//!
//! [`CompactMap`] holds the locations of sectors around the platter (by a profile and what differs
//! from it, or by segments found without one), arm times by distance, and worst cases by region.
//! [`DriveModel::of_map`](crate::DriveModel::of_map) predicts with it.
//!
//! - *Started from a profile* ([`CompactMap::of_profile`]): the shifts of slipped sectors are found
//!   by a search over all samples, arm and angles by region as they differ.
//! - *Started from nothing* ([`CompactMap::unknown`]): from the drive's size and nominal speed.
//!   Slopes, tracks and skews are found segment by segment.
//!
//! Source: spec M4; P1 section 3.1 (what it replaces).

mod angle_samples;
mod arm;
mod budget;
mod codec;
mod curve;
mod frame;
mod gather;
mod locations;
mod map;
mod pairs;
mod recheck;
mod refit;
mod scan;
mod searching;
mod segments;
mod shifts;
mod skew_terms;
mod slips;
mod survey;
mod worst;

pub use codec::{COMPACT_MAGIC, CompactDecodeError};
pub use map::{CompactError, CompactMap, CompactSettings, PairTime};
pub use searching::Learning;

pub(crate) use angle_samples::AngleSample;
pub(crate) use budget::MOST as MAX_OPERATIONS;
pub(crate) use locations::{LayoutLocations, Locations, is_unknown};
pub(crate) use map::{ArmTimes, Moves, share};
pub(crate) use searching::Search;
