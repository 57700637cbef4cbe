//! Whole tracks: what lies on one, which lie around it. What a search for background work in rotational gaps walks over.

use headtime_units::{Angle, Extent, Lba, Sectors};

use super::Layout;
use crate::place::Track;

/// A run of LBAs that lie side by side on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackRun {
    /// The sector that holds the first of them.
    pub first_sector: u32,
    /// The LBAs; as many sectors as LBAs.
    pub extent: Extent,
}

/// What a zone holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneExtent {
    /// The LBAs that it maps; those past the capacity do not exist.
    pub extent: Extent,
    /// The first of its cylinders.
    pub first_cylinder: u32,
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors of each of its tracks.
    pub sectors_per_track: u32,
}

impl Layout {
    /// Sectors of the track, slipped and spare ones counted.
    ///
    /// # Panics
    /// When the drive has no such cylinder.
    #[must_use]
    pub fn sectors_per_track(&self, track: Track) -> u32 {
        self.zone_of(track.cylinder).sectors_per_track()
    }

    /// The LBAs of a track; always one run of addresses, though slipped sectors may lie between them (see [`Layout::track_runs`]), empty when the
    /// track holds spares only or lies past the capacity.
    ///
    /// # Panics
    /// When the drive has no such track.
    #[must_use]
    pub fn track_extent(&self, track: Track) -> Extent {
        let (zone, number) = self.zone_and_number(track);
        let first = number * u64::from(zone.sectors_per_track());
        let start = zone.first_lba_from(first).min(self.capacity);
        let end = zone.first_lba_from(first + u64::from(zone.sectors_per_track())).min(self.capacity);
        Extent::new(Lba::new(start), Sectors::new(end - start))
    }

    /// The LBAs of a track in runs without a slipped sector, in the order in which they pass under the head.
    ///
    /// # Panics
    /// When the drive has no such track.
    pub fn track_runs(&self, track: Track) -> impl Iterator<Item = TrackRun> + '_ {
        let mut rest = self.track_extent(track);
        core::iter::from_fn(move || {
            if rest.len.is_zero() {
                return None;
            }
            let first = self.locate(rest.start);
            let run = first.unbroken(rest.len.get());
            let extent = Extent::new(rest.start, Sectors::new(run));
            rest = Extent::new(extent.end(), rest.len - extent.len);
            Some(TrackRun { first_sector: first.sector, extent })
        })
    }

    /// The first sector of the track that starts at `angle` or after it in the turn, up to but not including the track's number of sectors.
    ///
    /// # Panics
    /// When the drive has no such track.
    #[must_use]
    pub fn first_sector_from(&self, track: Track, angle: Angle) -> u32 {
        let (zone, number) = self.zone_and_number(track);
        let sectors = u64::from(zone.sectors_per_track());
        let skew = zone.tracks.place(number).skew;
        let ahead = u64::from(zone.angle(skew).until(angle).as_raw());
        // The first whose start, rounded down to the angle's grain, is not before `ahead`.
        let candidate = (ahead * sectors) >> 32;
        let starts = |sector: u64| u64::from((zone.angle(skew + sector) - zone.angle(skew)).as_raw());
        let first = (candidate..candidate + 2).find(|sector| *sector >= sectors || starts(*sector) >= ahead).unwrap_or(candidate + 2);
        (first % sectors) as u32
    }

    /// Tracks of the drive, those with spares only counted.
    #[must_use]
    pub fn track_count(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.first_track + zone.tracks.count())
    }

    /// The track's number in the order in which LBAs fill tracks.
    ///
    /// # Panics
    /// When the drive has no such track.
    #[must_use]
    pub fn track_number(&self, track: Track) -> u64 {
        let (zone, number) = self.zone_and_number(track);
        zone.first_track + number
    }

    /// The track of a number, `None` past the last.
    #[must_use]
    pub fn track_by_number(&self, number: u64) -> Option<Track> {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_track <= number).checked_sub(1)?];
        (number - zone.first_track < zone.tracks.count()).then(|| {
            let place = zone.tracks.place(number - zone.first_track);
            Track { cylinder: zone.first_cylinder + place.cylinder, head: place.head }
        })
    }

    /// The track itself and up to `reach` tracks before and after it in the order in which LBAs fill tracks.
    ///
    /// # Panics
    /// When the drive has no such track.
    pub fn tracks_near(&self, track: Track, reach: u64) -> impl Iterator<Item = Track> + '_ {
        let number = self.track_number(track);
        let last = number.saturating_add(reach).min(self.track_count() - 1);
        (number.saturating_sub(reach)..=last).filter_map(|number| self.track_by_number(number))
    }

    /// Every track of the cylinders from one to the other, both included, cylinder by cylinder from the first towards the second.
    pub fn tracks_between(&self, from_cylinder: u32, to_cylinder: u32) -> impl Iterator<Item = Track> + '_ {
        let last = self.cylinders().saturating_sub(1);
        let (from, to) = (from_cylinder.min(last), to_cylinder.min(last));
        let at = move |step: u32| if from <= to { from + step } else { from - step };
        (0..=from.abs_diff(to)).flat_map(move |step| (0..self.heads).map(move |head| Track { cylinder: at(step), head }))
    }

    /// The zones from the outer edge inwards.
    pub fn zones(&self) -> impl Iterator<Item = ZoneExtent> + '_ {
        self.zones.iter().map(|zone| ZoneExtent {
            extent: Extent::from_numbers(zone.first_lba, zone.end_lba - zone.first_lba),
            first_cylinder: zone.first_cylinder,
            cylinders: zone.end_cylinder - zone.first_cylinder,
            sectors_per_track: zone.sectors_per_track(),
        })
    }
}
