//! The layout: tracks, the pattern of their angles, zones.
//!
//! The angle of a sector, less its offset within the track, is the same for all sectors of a track.
//! It jumps by a skew at the beginning of the next track. Everything here uses this. The *address*
//! of a jump gives a track boundary, to the sector, as long as a skew exceeds the noise. The *size*
//! of a jump gives the skew, and the order of skews shows which tracks share a cylinder. The layout
//! found so far is extrapolated over ever more tracks and verified by a few reads at the boundaries
//! of some (`border`, `walk`). If that fails, bisection finds the first track that deviates, and
//! `explain` finds the reason: spares, a narrower last band, or the next zone. Its sectors per
//! track come from `sector_count` or from the counts themselves. What cannot be explained is marked
//! as unknown, and the layout resumes after it (`recovery`). Slips are counted on the way and
//! located afterwards (`slips`). So the number of reads grows with the zones and defects, times the
//! logarithm of their tracks. Hardly any sector is read twice, so that a cache does not interfere.
//!
//! - Found: sectors per track, track, cylinder and band skews, bands, zones, spares by zone or by
//!   group, slipped sectors (to the track where they are few, else their number by region), tracks
//!   reserved at the start of the drive and of zones (`track_list`).
//! - Not found: surfaces with different sectors per track, remapped sectors, cylinders without
//!   data; with noise, groups of cylinders of several tracks whose spares fill more than half of a
//!   track, except short ones of the first zone.
//! - Limitation: a drive whose first zone is not understood gives no pattern to resume with.

mod border;
mod counts;
mod explain;
mod groups;
mod last_band;
mod pattern;
mod recovery;
mod rejoin;
mod rows;
mod sector_count;
mod skew_fit;
mod slips;
mod small_step;
mod track;
mod track_angle;
mod track_list;
mod walk;
mod zone_model;
mod zone_start;

use serde::{Deserialize, Serialize};

pub(crate) use border::MIN_DEVIATION;
pub(crate) use pattern::{begin_first, find_pattern};
pub(crate) use recovery::unknown_ranges;
pub(crate) use rows::step_after_band;
pub(crate) use skew_fit::fit_skews;
pub(crate) use slips::locate_slips;
pub(crate) use track_angle::{continues, track_angle};
pub(crate) use walk::extend;
pub(crate) use zone_model::{MAX_HEADS, Pattern, SpareGroups, ZoneModel};

use rows::ThirdStep;
use slips::SlipInterval;
use track_list::TrackList;
use zone_model::UsualGroups;

use crate::surfaces::SurfaceSearch;

/// The layout, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LayoutResult {
    pub(crate) pattern: Option<Pattern>,
    pub(crate) surfaces: SurfaceSearch,
    /// The first tracks of the drive, until they have shown the pattern.
    #[serde(default)]
    first_tracks: TrackList,
    /// The search for a step between bands, which is the last of a pattern.
    #[serde(default)]
    third_step: Option<ThirdStep>,
    pub(crate) zones: Vec<ZoneModel>,
    /// The beginning of the last unknown range, and how often one began there.
    #[serde(default)]
    lost_at: (u64, u32),
    /// The numbers of sectors by which tracks ended early, the latest last.
    spares_seen: Vec<u64>,
    /// The number of slips counted, and the number of sectors that they were among.
    slips: (u64, u64),
    /// Intervals in which to locate slips next, the first of them last.
    slip_plan: Vec<SlipInterval>,
}

/// The number of slips is at least what was counted less so many deviations.
const SURE_SLIPS: f64 = 2.0;

impl LayoutResult {
    /// Slips per sector; one in a million before any were counted. Many slips among few sectors
    /// tell more than that does.
    fn slip_rate(&self) -> f64 {
        let (slips, sectors) = (self.slips.0 as f64, self.slips.1 as f64);
        let least = (slips - SURE_SLIPS * libm::sqrt(slips)) / sectors.max(1.0);
        ((slips + 1.0) / (sectors + 1e6)).max(least)
    }

    /// The groups of the last zone that has some.
    fn usual_groups(&self) -> Option<UsualGroups> {
        self.groups().next()
    }

    /// The groups of the zones that have some, the last first.
    fn groups(&self) -> impl Iterator<Item = UsualGroups> {
        let of_zone = |zone: &ZoneModel| {
            let (SpareGroups { lbas, spares }, length) = (zone.groups?, zone.sectors_per_track);
            Some(UsualGroups { tracks: (lbas + spares) / length, spares, length })
        };
        self.zones.iter().rev().filter_map(of_zone)
    }

    fn note_slips(&mut self, slips: u64, sectors: u64) {
        self.slips = (self.slips.0 + slips, self.slips.1 + sectors);
    }
}
