//! [`SlowLayout`]: the layout by its definition, track by track and sector by sector.

use std::collections::{BTreeMap, BTreeSet};

use headtime_mechanics::profile::{TrackOrder, Zone};
use headtime_mechanics::{DriveProfile, PhysicalAddress, Track, ZoneSlip};

/// All sectors of a small drive.
pub(crate) struct SlowLayout {
    /// Tracks in order, with the angle of sector 0 in revolutions if they hold data.
    pub tracks: Vec<(Track, Option<f64>)>,
    /// Sectors of each track with data.
    pub sectors_per_track: BTreeMap<Track, u32>,
    /// The position of each LBA without remapping.
    pub homes: Vec<PhysicalAddress>,
    /// The position of each LBA.
    pub places: Vec<PhysicalAddress>,
    /// Start angles of the measured parts of tracks in revolutions, by first sector; from runs
    /// only.
    pub parts: BTreeMap<PhysicalAddress, f64>,
    /// Free spares by zone and group.
    pub free: Vec<Vec<Vec<PhysicalAddress>>>,
}

impl SlowLayout {
    pub(crate) fn new(profile: &DriveProfile, extra: &[ZoneSlip]) -> Self {
        let mut slow = Self {
            tracks: Vec::new(),
            sectors_per_track: BTreeMap::new(),
            homes: Vec::new(),
            places: Vec::new(),
            parts: BTreeMap::new(),
            free: Vec::new(),
        };
        let mut next_start = 0.0;
        for (number, zone) in profile.zones.iter().enumerate() {
            let start = zone.first_angle_turns.unwrap_or(next_start);
            let extra: Vec<u64> =
                extra.iter().filter(|slip| slip.zone == number).map(|slip| slip.sector).collect();
            next_start = slow.lay_zone(profile, zone, start, &extra);
        }
        slow.lay_runs(profile);
        slow.homes.truncate(profile.capacity().get() as usize);
        slow.places.truncate(profile.capacity().get() as usize);
        slow
    }

    fn lay_zone(&mut self, profile: &DriveProfile, zone: &Zone, start: f64, extra: &[u64]) -> f64 {
        let heads = profile.geometry.heads;
        for cylinder in zone.first_cylinder - zone.skipped_cylinders..zone.first_cylinder {
            self.tracks.extend((0..heads).map(|head| (Track { cylinder, head }, None)));
        }
        let in_bands =
            matches!(profile.geometry.layout, TrackOrder::SurfaceSerpentine | TrackOrder::Banded);
        let band = profile.geometry.band_cylinders.filter(|_| in_bands).unwrap_or(u32::MAX);
        let next_band = if in_bands {
            zone.band_skew.unwrap_or(zone.cylinder_skew)
        } else {
            zone.cylinder_skew
        };
        let (mut skew, mut sectors) = (0.0, Vec::new());
        let mut before: Option<u32> = None;
        for (cylinder, head) in track_order(profile, zone) {
            skew += match before {
                None => 0.0,
                Some(before) if before / band != cylinder / band => next_band,
                Some(before) if before == cylinder => zone.track_skew,
                Some(_) => zone.cylinder_skew,
            };
            before = Some(cylinder);
            let track = Track { cylinder: zone.first_cylinder + cylinder, head };
            let spt = zone
                .sectors_by_head
                .get(usize::from(head))
                .copied()
                .unwrap_or(zone.sectors_per_track);
            self.tracks
                .push((track, Some((start + skew / f64::from(zone.sectors_per_track)).fract())));
            self.sectors_per_track.insert(track, spt);
            sectors.extend((0..spt).map(|sector| (cylinder, track.sector(sector))));
        }
        self.lay_sectors(zone, &sectors, extra);
        (start + (skew + next_band) / f64::from(zone.sectors_per_track)).fract()
    }

    /// Assigns the zone's LBAs to its sectors, given with their cylinders from the zone's first.
    fn lay_sectors(&mut self, zone: &Zone, sectors: &[(u32, PhysicalAddress)], extra: &[u64]) {
        let moved: BTreeMap<u64, u64> = zone.remaps.iter().copied().collect();
        let extra = extra.iter().copied().filter(|sector| !moved.contains_key(sector));
        let stepped_over: BTreeSet<u64> =
            zone.slips.iter().copied().chain(extra).chain(moved.values().copied()).collect();
        let group_of = |sector: u64| match zone.spare_tracks {
            Some(tracks) => (sector / u64::from(zone.sectors_per_track) / u64::from(tracks)) as u32,
            None => sectors[sector as usize].0 / zone.spare_cylinders.unwrap_or(u32::MAX),
        };
        let mut free = Vec::new();
        for group in 0..=group_of(sectors.len() as u64 - 1) {
            let all: Vec<u64> =
                (0..sectors.len() as u64).filter(|sector| group_of(*sector) == group).collect();
            let reserved = all.iter().filter(|sector| **sector < zone.reserved).count();
            let mut usable: Vec<u64> = all
                .iter()
                .copied()
                .filter(|sector| *sector >= zone.reserved && !stepped_over.contains(sector))
                .collect();
            let spares = usable.split_off(all.len() - reserved - zone.spares as usize);
            self.homes.extend(usable.iter().map(|sector| sectors[*sector as usize].1));
            self.places.extend(
                usable
                    .iter()
                    .map(|sector| sectors[*moved.get(sector).unwrap_or(sector) as usize].1),
            );
            free.push(spares.iter().map(|sector| sectors[*sector as usize].1).collect());
        }
        self.free.push(free);
    }

    fn lay_runs(&mut self, profile: &DriveProfile) {
        for run in &profile.runs {
            for step in 0..run.tracks {
                let cylinder = (i64::from(run.cylinder)
                    + i64::from(step) * i64::from(run.cylinder_step))
                    as u32;
                let track = Track { cylinder, head: run.head };
                let turns = run.angle_turns + f64::from(step) * run.angle_step_turns;
                if self.sectors_per_track.insert(track, run.sectors_per_track).is_none() {
                    self.tracks.push((
                        track,
                        Some(
                            (turns
                                - f64::from(run.first_sector) / f64::from(run.sectors_per_track))
                            .rem_euclid(1.0),
                        ),
                    ));
                }
                self.parts.insert(track.sector(run.first_sector), turns.fract());
                self.homes
                    .extend((0..run.lbas).map(|sector| track.sector(run.first_sector + sector)));
            }
        }
        if !profile.runs.is_empty() {
            self.places.clone_from(&self.homes);
            for head in 0..profile.geometry.heads {
                let empty = (0..profile.cylinders())
                    .map(|cylinder| Track { cylinder, head })
                    .filter(|track| !self.sectors_per_track.contains_key(track));
                self.tracks.extend(empty.map(|track| (track, None)));
            }
        }
    }

    /// The start angle of a sector of a track with data, in revolutions.
    pub(crate) fn sector_turns(&self, track: Track, start: f64, sector: u32) -> f64 {
        let turn = |from: f64, sectors: i64| {
            from + sectors as f64 / f64::from(self.sectors_per_track[&track])
        };
        let parts = self.parts.range(track.sector(0)..=track.sector(u32::MAX));
        let part = parts
            .clone()
            .rfind(|(address, _)| address.sector <= sector)
            .or_else(|| parts.clone().next());
        part.map_or_else(
            || turn(start, i64::from(sector)),
            |(address, from)| turn(*from, i64::from(sector) - i64::from(address.sector)),
        )
    }

    /// The LBA at each position that holds one.
    pub(crate) fn lbas(&self) -> BTreeMap<PhysicalAddress, u64> {
        self.places.iter().copied().zip(0..).collect()
    }
}

/// The zone's tracks in order, cylinders counted from its first.
fn track_order(profile: &DriveProfile, zone: &Zone) -> Vec<(u32, u16)> {
    let heads = profile.geometry.heads;
    let up_or_down = |down: bool| -> Vec<u16> {
        if down { (0..heads).rev().collect() } else { (0..heads).collect() }
    };
    let mut order = Vec::new();
    match profile.geometry.layout {
        TrackOrder::Cylinder => (0..zone.cylinders)
            .for_each(|cylinder| order.extend((0..heads).map(|head| (cylinder, head)))),
        TrackOrder::Serpentine => {
            (0..zone.cylinders).for_each(|cylinder| {
                order.extend(up_or_down(cylinder % 2 == 1).into_iter().map(|head| (cylinder, head)))
            });
        }
        TrackOrder::SurfaceSerpentine | TrackOrder::Banded => {
            let serpentine = profile.geometry.layout == TrackOrder::SurfaceSerpentine;
            let band =
                profile.geometry.band_cylinders.expect("a profile in bands says how wide they are");
            for (number, first) in (0..zone.cylinders).step_by(band as usize).enumerate() {
                let cylinders: Vec<u32> = (first..zone.cylinders.min(first + band)).collect();
                for (surface, head) in
                    up_or_down(serpentine && number % 2 == 1).into_iter().enumerate()
                {
                    let outwards = serpentine && surface % 2 == 1;
                    let steps: Vec<u32> = if outwards {
                        cylinders.iter().rev().copied().collect()
                    } else {
                        cylinders.clone()
                    };
                    order.extend(steps.into_iter().map(|cylinder| (cylinder, head)));
                }
            }
        }
    }
    order
}
