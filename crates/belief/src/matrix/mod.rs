//! The published latency map: a matrix of service times, one for each pair of cells of addresses,
//! learned from completions.
//!
//! [`LatencyMatrix`] is the map: it keeps the worst time observed from one cell to another, in 4, 8
//! or 16 bits, in half a matrix, within a memory limit. [`SharedMatrix`] is a handle to one map for
//! several drives of one model. [`MatrixBelief`] is a drive model that uses only a map: no
//! geometry, no rotation, no seek curve.
//!
//! - *Covered cells*: all of a drive, a region of it, or those that requests have touched, as many
//!   as memory allows ([`Coverage`]). In a full map, cells that are used replace those that no
//!   longer are ([`WhenFull`]).
//! - *Entries*: the positioning time, measured from completion to completion without idle time
//!   between, less the media time of the sectors.
//! - *Persistence*: [`LatencyMatrix::encode`] and [`LatencyMatrix::decode`] convert a map to bytes
//!   and back. Maps of identical drives are merged; the worse time of each pair wins.
//!
//! Limits: half a matrix keeps the worse of two directions, which masks most of the rotation
//! ([`Directions`]). Cells as long as a track average the rest away (docs/limits.md 5). A map of a
//! whole drive grows with the square of its size. All three are the published design; the first is
//! a setting here.
//!
//! Source: P1 sections 3.1 and 4.

mod belief;
mod calibration;
mod cells;
mod codec;
mod distance;
mod eviction;
mod exceedance;
mod map;
mod merge;
mod pace;
mod plane;
mod scale;
mod shape;
mod shared;

pub use belief::{Exploration, MatrixBelief, MatrixOptions};
pub use codec::{DecodeError, RestoreError};
pub use eviction::WhenFull;
pub use exceedance::{Exceedance, ExceedanceRow};
pub use map::{LatencyMatrix, Recorded};
pub use merge::{MergeError, Merged};
pub use scale::{EntryBits, Scale};
pub use shape::{
    Coverage, Directions, MappedDrive, MatrixSettings, MatrixShape, ShapeError, entries_of,
};
pub use shared::SharedMatrix;
