//! The compact map: the access times between all sectors of a drive, in megabytes, learned from
//! completions.
//!
//! [`CompactMap`] holds the angles of sectors (from a profile with corrections, or from segments
//! found without one), arm times by distance, and worst cases by region.
//! [`DriveModel::of_map`](crate::DriveModel::of_map) predicts with it.
//!
//! - *Started from a profile* ([`CompactMap::of_profile`]): a search over all samples finds
//!   the shifts of slipped sectors. Corrections of the arm and of angles are learned by region.
//! - *Started without a profile* ([`CompactMap::unknown`]): only the size and the nominal
//!   speed are known. Slopes, tracks and skews are found segment by segment.
//!
//! Source: spec M4; P1 section 3.1 (the table that it replaces).

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
