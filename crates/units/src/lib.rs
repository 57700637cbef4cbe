//! The units of a disk's time and place, as types.
//!
//! Points and spans are different types: [`Instant`] is a point in time and [`Nanos`] a span,
//! [`Lba`] is a place on the drive and [`Sectors`] a length, [`Angle`] is a part of one turn. Bare
//! numbers appear only at text edges, with the unit as a suffix. Everything is an integer, so that
//! the same inputs give the same bytes on every machine.
#![no_std]

extern crate alloc;

mod angle;
mod extent;
mod range;
mod share;
mod text;
mod time;

pub use angle::{Angle, RotationPeriod};
pub use extent::{ByteSize, Extent, Lba, SectorSize, Sectors};
pub use range::{ByteRange, ParseRangeError};
pub use share::Share;
pub use text::{ParseUnitError, parse_bytes, parse_nanos, parse_share};
pub use time::{Instant, Nanos};
