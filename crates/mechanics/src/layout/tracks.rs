//! Whole tracks and their order, for the search of background work in rotational gaps.

use alloc::vec::Vec;

use headtime_units::{Angle, Extent, Lba, Sectors};

use super::{Layout, LayoutKind, angle_of, turns};
use crate::place::Track;

/// LBAs on adjacent sectors of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackRun {
    /// The sector of the first LBA.
    pub first_sector: u32,
    /// The LBAs, one per sector.
    pub extent: Extent,
}

/// The extent of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneExtent {
    /// The mapped LBAs; those past the capacity do not exist.
    pub extent: Extent,
    /// The first of its cylinders.
    pub first_cylinder: u32,
    /// The number of cylinders.
    pub cylinders: u32,
    /// Sectors per track; the mean, rounded down, if surfaces differ.
    pub sectors_per_track: u32,
}

impl Layout {
    /// Sectors of the track, including slipped, spare and reserved ones. A track without data
    /// counts as one of the next zone's, an unmeasured track as the nearest measured one of its
    /// surface.
    ///
    /// # Panics
    /// If the drive has no such track.
    #[must_use]
    pub fn sectors_per_track(&self, track: Track) -> u32 {
        self.check_track(track);
        match &self.map {
            LayoutKind::Zones(zones) => {
                zones.of_cylinder(track.cylinder).tracks.sectors_of(track.head)
            }
            LayoutKind::Runs(runs) => runs.sectors_per_track(track),
        }
    }

    /// The LBAs whose home is on a track: one run of addresses, possibly with slipped sectors in
    /// between and remapped ones elsewhere (see [`Layout::track_runs`]). Empty if the track holds
    /// only spares, no data, or sectors past the capacity. In a layout of runs a track may hold
    /// several runs of addresses; this is the lowest one, up to the first gap.
    ///
    /// # Panics
    /// If the drive has no such track.
    #[must_use]
    pub fn track_extent(&self, track: Track) -> Extent {
        self.check_track(track);
        let (start, end) = match &self.map {
            LayoutKind::Zones(zones) => {
                let zone = zones.of_cylinder(track.cylinder);
                match track.cylinder.checked_sub(zone.first_cylinder) {
                    None => (zone.first_lba, zone.first_lba),
                    Some(cylinder) => {
                        let first = zone.tracks.first_sector(cylinder, track.head);
                        let end = first + u64::from(zone.tracks.sectors_of(track.head));
                        (zone.first_lba_from(first), zone.first_lba_from(end))
                    }
                }
            }
            LayoutKind::Runs(runs) => {
                let mut parts: Vec<(u64, u64)> = runs
                    .parts(track)
                    .map(|part| (part.first_lba, part.first_lba + u64::from(part.lbas)))
                    .collect();
                parts.sort_unstable();
                let (start, end) = parts.first().copied().unwrap_or((0, 0));
                (
                    start,
                    parts
                        .iter()
                        .skip(1)
                        .fold(end, |end, part| if part.0 == end { part.1 } else { end }),
                )
            }
        };
        let (start, end) = (start.min(self.capacity), end.min(self.capacity));
        Extent::new(Lba::new(start), Sectors::new(end - start))
    }

    /// The LBAs actually on a track, in runs of adjacent sectors, in passing order from sector 0
    /// on. Remapped sectors are in the runs of their spare's track, not of their home's.
    ///
    /// # Panics
    /// If the drive has no such track.
    pub fn track_runs(&self, track: Track) -> impl Iterator<Item = TrackRun> + '_ {
        let mut others = self.other_runs(track).into_iter().peekable();
        // A measured track is already listed by part.
        let mut rest = if matches!(self.map, LayoutKind::Runs(_)) {
            Extent::from_numbers(0, 0)
        } else {
            self.track_extent(track)
        };
        let mut homes = core::iter::from_fn(move || {
            while !rest.len.is_zero() {
                let stretch = self.stretch(rest.start, rest.len.get());
                let extent =
                    Extent::new(rest.start, Sectors::new(self.unbroken(rest.start, stretch.lbas)));
                rest = Extent::new(extent.end(), rest.len - extent.len);
                if !stretch.moved {
                    return Some(TrackRun { first_sector: stretch.at.sector, extent });
                }
            }
            None
        });
        let mut next_home = homes.next();
        core::iter::from_fn(move || match (next_home, others.peek()) {
            (Some(home), Some(other)) if other.first_sector < home.first_sector => others.next(),
            (None, _) => others.next(),
            _ => core::mem::replace(&mut next_home, homes.next()),
        })
    }

    /// The runs outside [`Layout::track_extent`]: remapped sectors on the track; all parts of a
    /// measured track.
    fn other_runs(&self, track: Track) -> Vec<TrackRun> {
        let within = |first_sector: u32, lba: u64, lbas: u64| {
            let lbas = lbas.min(self.capacity.saturating_sub(lba));
            (lbas > 0).then(|| TrackRun { first_sector, extent: Extent::from_numbers(lba, lbas) })
        };
        match &self.map {
            LayoutKind::Zones(zones) => {
                let zone = zones.of_cylinder(track.cylinder);
                if !zone.has_remaps() || track.cylinder < zone.first_cylinder {
                    return Vec::new();
                }
                let first =
                    zone.tracks.first_sector(track.cylinder - zone.first_cylinder, track.head);
                let remapped =
                    zone.remapped_to(first, first + u64::from(zone.tracks.sectors_of(track.head)));
                remapped.filter_map(|(spare, lba)| within((spare - first) as u32, lba, 1)).collect()
            }
            LayoutKind::Runs(runs) => runs
                .parts(track)
                .filter_map(|part| within(part.first_sector, part.first_lba, u64::from(part.lbas)))
                .collect(),
        }
    }

    /// The number of `lbas` from an address on that are on adjacent sectors.
    fn unbroken(&self, start: Lba, lbas: u64) -> u64 {
        match &self.map {
            LayoutKind::Zones(zones) => zones.of_lba(start.get()).unbroken(start.get(), lbas),
            LayoutKind::Runs(_) => lbas,
        }
    }

    /// The first sector of the track that starts at or after `angle`.
    ///
    /// # Panics
    /// If the drive has no such track.
    #[must_use]
    pub fn first_sector_from(&self, track: Track, angle: Angle) -> u32 {
        self.check_track(track);
        match &self.map {
            LayoutKind::Zones(zones) => {
                let zone = zones.of_cylinder(track.cylinder);
                let turn = zone.sector_turn_at(track.cylinder, track.head, 0);
                first_in_row(
                    angle,
                    turn,
                    0,
                    zone.tracks.sectors_of(track.head),
                    zone.tracks.sectors_of(track.head),
                )
                .1
            }
            LayoutKind::Runs(runs) => {
                // Each part has its own measured angle; the first also applies to the sectors
                // before it.
                let sectors = runs.sectors_per_track(track);
                let starts: Vec<u32> = core::iter::once(0)
                    .chain(runs.parts(track).map(|part| part.first_sector).skip(1))
                    .collect();
                let ends = starts.iter().copied().skip(1).chain(core::iter::once(sectors));
                let rows = starts.iter().zip(ends).filter(|(first, end)| **first < *end);
                let nearest = rows
                    .map(|(first, end)| {
                        first_in_row(
                            angle,
                            runs.sector_turn_at(track, *first),
                            *first,
                            end,
                            sectors,
                        )
                    })
                    .min();
                nearest.map_or(0, |(_, sector)| sector)
            }
        }
    }

    /// Tracks of the drive, including those with only spares and those without data.
    #[must_use]
    pub fn track_count(&self) -> u64 {
        match &self.map {
            LayoutKind::Zones(zones) => zones.zones.last().map_or(0, |zone| {
                zone.tracks_before
                    + self.skipped_tracks(zone.skipped_cylinders)
                    + zone.tracks.count()
            }),
            LayoutKind::Runs(runs) => runs.track_count(),
        }
    }

    /// The track's number in filling order. Tracks without data come before those of the next zone,
    /// unmeasured tracks last, surface by surface.
    ///
    /// # Panics
    /// If the drive has no such track.
    #[must_use]
    pub fn track_number(&self, track: Track) -> u64 {
        self.check_track(track);
        match &self.map {
            LayoutKind::Zones(zones) => {
                let zone = zones.of_cylinder(track.cylinder);
                let skipped = self.skipped_tracks(zone.skipped_cylinders);
                match track.cylinder.checked_sub(zone.first_cylinder) {
                    Some(cylinder) => {
                        zone.tracks_before + skipped + zone.tracks.number(cylinder, track.head)
                    }
                    None => {
                        let before_zone = self.skipped_tracks(zone.first_cylinder - track.cylinder);
                        zone.tracks_before + skipped - before_zone + u64::from(track.head)
                    }
                }
            }
            LayoutKind::Runs(runs) => runs.track_number(track),
        }
    }

    /// The track with a number, `None` past the last.
    #[must_use]
    pub fn track_by_number(&self, number: u64) -> Option<Track> {
        match &self.map {
            LayoutKind::Zones(zones) => {
                let zone = &zones.zones[zones
                    .zones
                    .partition_point(|zone| zone.tracks_before <= number)
                    .checked_sub(1)?];
                let within = number - zone.tracks_before;
                let Some(within) = within.checked_sub(self.skipped_tracks(zone.skipped_cylinders))
                else {
                    let cylinder = zone.first_cylinder - zone.skipped_cylinders
                        + (within / u64::from(self.heads)) as u32;
                    return Some(Track { cylinder, head: (within % u64::from(self.heads)) as u16 });
                };
                (within < zone.tracks.count()).then(|| {
                    let (cylinder, head) = zone.tracks.track(within);
                    Track { cylinder: zone.first_cylinder + cylinder, head }
                })
            }
            LayoutKind::Runs(runs) => runs.track_by_number(number),
        }
    }

    fn skipped_tracks(&self, cylinders: u32) -> u64 {
        u64::from(cylinders) * u64::from(self.heads)
    }

    /// The zones from the outer edge inwards. In a layout of runs, consecutive runs with the same
    /// sectors per track are one zone; its cylinders range from the outermost to the innermost, and
    /// may overlap other zones.
    pub fn zones(&self) -> impl Iterator<Item = ZoneExtent> + '_ {
        let zones: Vec<ZoneExtent> = match &self.map {
            LayoutKind::Zones(zones) => zones
                .zones
                .iter()
                .map(|zone| ZoneExtent {
                    extent: Extent::from_numbers(zone.first_lba, zone.end_lba - zone.first_lba),
                    first_cylinder: zone.first_cylinder,
                    cylinders: zone.end_cylinder - zone.first_cylinder,
                    sectors_per_track: (zone.tracks.sectors() / zone.tracks.count()) as u32,
                })
                .collect(),
            LayoutKind::Runs(runs) => {
                let mut zones: Vec<ZoneExtent> = Vec::new();
                for run in runs.extents() {
                    match zones
                        .last_mut()
                        .filter(|zone| zone.sectors_per_track == run.sectors_per_track)
                    {
                        Some(zone) => {
                            let end = (zone.first_cylinder + zone.cylinders).max(run.end_cylinder);
                            zone.first_cylinder = zone.first_cylinder.min(run.first_cylinder);
                            zone.cylinders = end - zone.first_cylinder;
                            zone.extent.len = Sectors::new(run.end_lba - zone.extent.start.get());
                        }
                        None => zones.push(ZoneExtent {
                            extent: Extent::from_numbers(
                                run.first_lba,
                                run.end_lba - run.first_lba,
                            ),
                            first_cylinder: run.first_cylinder,
                            cylinders: run.end_cylinder - run.first_cylinder,
                            sectors_per_track: run.sectors_per_track,
                        }),
                    }
                }
                zones
            }
        };
        zones.into_iter()
    }
}

/// The first sector to arrive at or after `angle` among those from `first` up to but not including
/// `end`, evenly spaced from `turn` on, and its distance.
fn first_in_row(
    angle: Angle,
    turn: u64,
    first: u32,
    end: u32,
    sectors_per_track: u32,
) -> (Angle, u32) {
    let sector_turn = turns::of_one_sector(sectors_per_track);
    let way = |sector: u32| {
        angle
            .until(angle_of(turn.wrapping_add(u64::from(sector - first).wrapping_mul(sector_turn))))
    };
    let ahead = u64::from(angle_of(turn).until(angle).as_raw());
    // The last one that starts before `angle` or, rounded, at it; after the last of the row comes
    // the first.
    let candidate = (u64::from(first) + ((ahead * u64::from(sectors_per_track)) >> 32)) as u32;
    let candidates =
        (candidate..candidate + 3).filter(|sector| *sector < end).chain(core::iter::once(first));
    candidates.map(|sector| (way(sector), sector)).min().unwrap_or((Angle::ZERO, first))
}
