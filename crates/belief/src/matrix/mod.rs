//! The latency map as published: a matrix of service times, one for each pair of cells of
//! addresses, learned from what the drive does.
//!
//! [`LatencyMatrix`] is the map: it keeps the worst time ever observed from one cell to another, in
//! 4, 8 or 16 bits, in half a matrix, within a bound of memory. [`SharedMatrix`] is a handle to one
//! map for several drives of one model. [`MatrixBelief`] is what a scheduler believes that has a
//! map and nothing else: no geometry, no rotation, no seek curve.
//!
//! - *Which cells*: all of a drive, a region of it, or those that requests have touched, as many as
//!   memory allows ([`Coverage`]).
//! - *What is kept*: the positioning time, measured from completion to completion where nothing was
//!   idle between, less the media time of the sectors.
//! - *What it outlives*: [`LatencyMatrix::encode`] and [`LatencyMatrix::decode`] turn a map into
//!   bytes and back; maps of identical drives are merged, the worse time of each pair wins.
//!
//! Where it helps and where it hurts: half a matrix keeps the worse of two directions, which hides
//! most of rotation ([`Directions`]); cells that are as long as a track average the rest away
//! (docs/limits.md 5); a map of a whole drive grows with the square of the drive. All three are the
//! published design, the first is a setting here.
//!
//! Source: P1 sections 3.1 and 4.

mod belief;
mod calibration;
mod cells;
mod codec;
mod distance;
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
pub use exceedance::{Exceedance, ExceedanceRow};
pub use map::{LatencyMatrix, Recorded};
pub use merge::{MergeError, Merged};
pub use scale::{EntryBits, Scale};
pub use shape::{
    Coverage, Directions, MappedDrive, MatrixSettings, MatrixShape, ShapeError, entries_of,
    table_bytes,
};
pub use shared::SharedMatrix;
