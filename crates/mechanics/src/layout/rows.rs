//! Rows: the contents of a track as one run of addresses, for background reads while the head is
//! there.
//!
//! A row lists the track's addresses in passing order by the position of the first one. In zones it
//! is the whole track, ignoring slipped sectors in between; on a track that starts with a remapped
//! sector, and in a measured layout, it is the longest run without a gap.
//!
//! Example, the layout of the module's example: the row of the first track holds LBAs 0 to 8 from
//! sector 0 on, though LBA 3 lies on sector 4.
//!
//! Cost: in zones a look-up by position and one by address, some 60 ns; in a measured layout a
//! visit of each part of the track. Nothing is allocated, except in zones if the first sector of
//! the track is remapped.

use headtime_units::{Angle, Extent, Lba, Sectors};

use super::{Layout, LayoutKind};
use crate::place::Track;

/// A run of addresses on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackRow {
    /// The track.
    pub track: Track,
    /// The addresses, at least one.
    pub extent: Extent,
    /// The start angle of the first one.
    pub angle: Angle,
    /// Sectors of the track.
    pub sectors_per_track: u32,
}

impl TrackRow {
    /// The angle of one sector, in units of 2⁻⁶⁴ revolution. On a track of one sector the whole
    /// revolution does not fit, and is one unit less.
    #[must_use]
    pub fn sector_turn(&self) -> u64 {
        (u64::MAX / u64::from(self.sectors_per_track.max(1))).saturating_add(1)
    }
}

impl Layout {
    /// The longest row of a track; `None` if it is empty or does not exist.
    #[must_use]
    pub fn row_at(&self, track: Track) -> Option<TrackRow> {
        if track.cylinder >= self.cylinders || track.head >= self.heads {
            return None;
        }
        if matches!(self.map, LayoutKind::Zones(_)) {
            let extent = self.track_extent(track);
            let first = (!extent.len.is_zero())
                .then(|| self.spot(extent.start))
                .filter(|first| first.position.track() == track);
            if let Some(first) = first {
                return Some(self.row(track, extent, first.angle));
            }
        }
        self.longest_row(track, |extent| extent.len.get())
    }

    /// The row that contains an address, on its actual track.
    ///
    /// # Panics
    /// If the address is past the capacity.
    #[must_use]
    pub fn row_of(&self, lba: Lba) -> TrackRow {
        let spot = self.spot(lba);
        let track = spot.position.track();
        let longest = self.row_at(track).filter(|row| row.extent.contains(lba));
        let row =
            longest.or_else(|| self.longest_row(track, |extent| u64::from(extent.contains(lba))));
        row.unwrap_or_else(|| self.row(track, Extent::new(lba, Sectors::new(1)), spot.angle))
    }

    /// The run of a track with the maximum `weight`, unless that is 0.
    fn longest_row(&self, track: Track, weight: impl Fn(Extent) -> u64) -> Option<TrackRow> {
        let run = match &self.map {
            LayoutKind::Zones(_) => self
                .track_runs(track)
                .max_by_key(|run| weight(run.extent))
                .map(|run| (run.first_sector, run.extent)),
            LayoutKind::Runs(runs) => {
                let within =
                    |lba: u64, lbas: u32| u64::from(lbas).min(self.capacity.saturating_sub(lba));
                let parts = runs.parts(track).map(|part| {
                    (part.first_sector, part.first_lba, within(part.first_lba, part.lbas))
                });
                let parts = parts
                    .filter(|(_, _, lbas)| *lbas > 0)
                    .map(|(sector, lba, lbas)| (sector, Extent::from_numbers(lba, lbas)));
                parts.max_by_key(|(_, extent)| weight(*extent))
            }
        };
        let (first_sector, extent) = run.filter(|(_, extent)| weight(*extent) > 0)?;
        Some(self.row(track, extent, self.sector_angle(track.sector(first_sector))))
    }

    fn row(&self, track: Track, extent: Extent, angle: Angle) -> TrackRow {
        TrackRow { track, extent, angle, sectors_per_track: self.sectors_per_track(track) }
    }
}
