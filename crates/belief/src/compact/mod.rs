//! The compact map: how long from any sector of a whole drive to any other, in megabytes, learned
//! from what the drive does.
//!
//! [`CompactMap`] is the map: where sectors lie around the platter (by a profile and what differs
//! from it, or by strips found without one), arm times by distance, and worst cases by region.
//! [`CompactBelief`] is what a scheduler believes that has one. It stands where
//! [`crate::matrix::MatrixBelief`] stands, and answers the same questions.
//!
//! - *Started from a profile*: [`CompactBelief::of_profile`]. What the unit's slipped sectors move
//!   is found by a search over all sights, arm and angles by region as they differ.
//! - *Started from nothing*: [`CompactBelief::unknown`] is told the drive's size and nominal speed.
//!   Slopes, tracks and skews are found strip by strip.
//!
//! Source: spec M4; P1 section 3.1 (what it replaces).

mod arm;
mod belief;
mod budget;
mod codec;
mod curve;
mod elsewhere;
mod frame;
mod gather;
mod grow;
mod map;
mod pairs;
mod places;
mod recheck;
mod refit;
mod scan;
mod searching;
mod shifts;
mod sights;
mod slips;
mod strips;
mod teeth;
mod worst;

pub use belief::{CompactBelief, Learning};
pub use codec::{COMPACT_MAGIC, CompactDecodeError};
pub use map::{CompactError, CompactMap, CompactSettings, PairTime};
