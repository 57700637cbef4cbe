//! Which sector lies where: tracks, the pattern of their angles, zones.
//!
//! The angle of a sector less its part of the track is the same for all sectors of a track, and jumps by a skew where the next track begins. Everything here is
//! built on that: *where* it jumps gives the tracks' borders, to the sector and whatever the noise, as long as a skew is longer than the noise; *by how much*
//! gives the skews, and their order which tracks share a cylinder. What has been found is extrapolated over ever more tracks and verified by three reads at a
//! time (the middle of a track, and both sides of its end). Where that fails, bisection finds the first track that is not as foretold: a slipped sector, spares, a
//! narrower last band, or the next zone. So the reads are as many as there are zones and defects times the logarithm of their tracks.
//!
//! - Found: sectors per track, track, cylinder and band skews, bands, zones, spares by zone or by group, slipped sectors (to the track).
//! - Not found: surfaces with different sectors per track, remapped sectors, cylinders without data, slipped sectors where they are too many to be told apart in
//!   the time there is (then they stay as an error of some tens of microseconds).
//! - Falls short: a drive whose cache is on is measured too slowly, because a sector that was read lately has to be driven out of the cache by tens of other reads before it can
//!   be read again; and under noise a zone may be cut where none ends, behind which the rhythm is out of step until the next real border.

mod extend;
mod pattern;
mod sketch;
mod track;

pub(crate) use extend::extend;
pub(crate) use pattern::{begin_first, settle};
pub(crate) use sketch::{MOST_HEADS, Pattern, ZoneSketch};
