//! Which sector lies where: tracks, the pattern of their angles, zones.
//!
//! The angle of a sector less its part of the track is the same for all sectors of a track, and
//! jumps by a skew where the next track begins. Everything here is built on that: *where* it jumps
//! gives the tracks' borders, to the sector and whatever the noise, as long as a skew is longer
//! than the noise; *by how much* gives the skews, and their order which tracks share a cylinder.
//! What has been found is extrapolated over ever more tracks and verified by a few reads at the
//! borders of some (`border`, `walk`). Where that fails, bisection finds the first track that is
//! not as predicted, and `explain` what it is: spares, a narrower last band, or the next zone, whose
//! sectors per track `stair` or the counts themselves tell. What is not explained is lost, and the
//! layout taken up again behind it (`piece`). Slips are counted on the way, and looked for
//! afterwards (`slips`). So the reads are as many as there are zones and defects times the
//! logarithm of their tracks, and hardly any sector is read twice, so that a cache does not get in
//! the way.
//!
//! - Found: sectors per track, track, cylinder and band skews, bands, zones, spares by zone or by
//!   group, slipped sectors (to the track where they are few, else their number by region).
//! - Not found: surfaces with different sectors per track, remapped sectors, cylinders without
//!   data.
//! - Falls short: a drive whose very first zone is not understood has no rhythm that could be taken
//!   up again further on.

mod border;
mod explain;
mod pattern;
mod recovery;
mod sector_count;
mod skew_fit;
mod slips;
mod track;
mod walk;
mod zone_model;

use serde::{Deserialize, Serialize};

pub(crate) use border::MIN_DEVIATION;
pub(crate) use pattern::{begin_first, find_pattern, goes_on, track_angle};
pub(crate) use recovery::unknown_ranges;
pub(crate) use skew_fit::fit_skews;
pub(crate) use slips::locate_slips;
pub(crate) use walk::extend;
pub(crate) use zone_model::{MAX_HEADS, Pattern, ZoneModel};

use slips::SlipInterval;

use crate::seek::SurfaceSearch;

/// The layout, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LayoutResult {
    pub(crate) pattern: Option<Pattern>,
    pub(crate) surfaces: SurfaceSearch,
    pub(crate) zones: Vec<ZoneModel>,
    /// Numbers of sectors by which tracks ended early, the latest last.
    spares_seen: Vec<u64>,
    /// Slips that were counted, and the number of sectors that they were among.
    slips: (u64, u64),
    /// Intervals in which to locate slips next, the first of them last.
    slip_plan: Vec<SlipInterval>,
}

impl LayoutResult {
    /// Slips per sector; one in a million before any were counted.
    fn slip_rate(&self) -> f64 {
        (self.slips.0 as f64 + 1.0) / (self.slips.1 as f64 + 1e6)
    }

    fn note_slips(&mut self, slips: u64, sectors: u64) {
        self.slips = (self.slips.0 + slips, self.slips.1 + sectors);
    }
}
