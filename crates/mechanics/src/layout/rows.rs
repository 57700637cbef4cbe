//! Rows: what lies on a track as one run of addresses, for whoever looks for something to read
//! while the head is there.
//!
//! A row is the track's addresses in the order in which they pass, told by the place of the first.
//! In zones it is all of the track, with slipped sectors between them left out of account; where
//! the track begins with a remapped sector, and in a measured layout, it is the longest run without
//! a gap.
//!
//! Example, the layout of the module's example: the row of the first track holds LBAs 0 to 8 from
//! sector 0 on, though LBA 3 lies on sector 4.
//!
//! Cost: in zones a look-up by place and one by address, some 60 ns; in a measured layout a look at
//! each part of the track. Nothing is allocated, but in zones where the first sector of the track
//! has been remapped.

use headtime_units::{Angle, Extent, Lba, Sectors};

use super::{Layout, LayoutKind};
use crate::place::Track;

/// A run of addresses on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackRow {
    /// The track.
    pub track: Track,
    /// The addresses; never empty.
    pub extent: Extent,
    /// The angle at which the first of them starts.
    pub angle: Angle,
    /// Sectors of the track, of which each takes as much of the turn.
    pub sectors_per_track: u32,
}

impl TrackRow {
    /// What one sector takes, in units of 2⁻⁶⁴ turn. The whole turn of a track of one sector is a
    /// unit too much to be told, and is one unit less.
    #[must_use]
    pub fn sector_turn(&self) -> u64 {
        (u64::MAX / u64::from(self.sectors_per_track.max(1))).saturating_add(1)
    }
}

impl Layout {
    /// The row of a track, the longest where there are several; `None` where it holds nothing, or
    /// where there is no such track.
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

    /// The row that holds an address, on the track where it really lies.
    ///
    /// # Panics
    /// When the address lies past the capacity.
    #[must_use]
    pub fn row_of(&self, lba: Lba) -> TrackRow {
        let spot = self.spot(lba);
        let track = spot.position.track();
        let longest = self.row_at(track).filter(|row| row.extent.contains(lba));
        let row =
            longest.or_else(|| self.longest_row(track, |extent| u64::from(extent.contains(lba))));
        row.unwrap_or_else(|| self.row(track, Extent::new(lba, Sectors::new(1)), spot.angle))
    }

    /// Of the runs of a track that are `wanted` at all the one that is wanted most.
    fn longest_row(&self, track: Track, wanted: impl Fn(Extent) -> u64) -> Option<TrackRow> {
        let run = match &self.map {
            LayoutKind::Zones(_) => self
                .track_runs(track)
                .max_by_key(|run| wanted(run.extent))
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
                parts.max_by_key(|(_, extent)| wanted(*extent))
            }
        };
        let (first_sector, extent) = run.filter(|(_, extent)| wanted(*extent) > 0)?;
        Some(self.row(track, extent, self.sector_angle(track.sector(first_sector))))
    }

    fn row(&self, track: Track, extent: Extent, angle: Angle) -> TrackRow {
        TrackRow { track, extent, angle, sectors_per_track: self.sectors_per_track(track) }
    }
}
