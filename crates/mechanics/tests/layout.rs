//! The layout against a slow one that lays sector after sector, on small drawn drives; and samples of it on the shipped ones.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{catalog_profiles, for_drawn_drives, for_seeds};
use headtime_mechanics::profile::{TrackOrder, Zone};
use headtime_mechanics::{DriveProfile, Layout, PhysicalAddress, Track, ZoneSlip};
use headtime_units::{Angle, Extent, Lba, Sectors};
use rand::{Rng, RngExt};

/// The layout as the profile's words say it, walked step by step.
struct SlowLayout {
    /// Tracks in the order in which LBAs fill them, with the angle of each one's sector 0.
    tracks: Vec<(Track, Angle)>,
    /// Place of each LBA.
    places: Vec<PhysicalAddress>,
}

impl SlowLayout {
    fn new(profile: &DriveProfile, extra: &[ZoneSlip]) -> Self {
        let mut slow = Self { tracks: Vec::new(), places: Vec::new() };
        let mut next_start = Angle::ZERO;
        for (number, zone) in profile.zones.iter().enumerate() {
            let start = zone.first_angle_turns.map_or(next_start, Angle::from_turns);
            let slips: BTreeSet<u64> =
                zone.slips.iter().copied().chain(extra.iter().filter(|slip| slip.zone == number).map(|slip| slip.sector)).collect();
            next_start = slow.lay_zone(profile, zone, start, &slips);
        }
        slow.places.truncate(profile.capacity().get() as usize);
        slow
    }

    fn lay_zone(&mut self, profile: &DriveProfile, zone: &Zone, start: Angle, slips: &BTreeSet<u64>) -> Angle {
        let spt = u64::from(zone.sectors_per_track);
        let order = track_order(profile, zone);
        let band = profile.geometry.band_cylinders.unwrap_or(u32::MAX);
        let band_skew = if profile.geometry.layout == TrackOrder::SurfaceSerpentine { zone.band_skew } else { None };
        let mut skew = 0_u64;
        let mut sectors = Vec::new();
        for (index, (cylinder, head)) in order.iter().copied().enumerate() {
            if let Some((before, _)) = index.checked_sub(1).map(|before| order[before]) {
                skew += u64::from(match () {
                    () if before / band != cylinder / band => band_skew.unwrap_or(zone.cylinder_skew),
                    () if before == cylinder => zone.track_skew,
                    () => zone.cylinder_skew,
                });
            }
            let track = Track { cylinder: zone.first_cylinder + cylinder, head };
            self.tracks.push((track, start + Angle::from_fraction(skew, spt)));
            sectors.extend((0..zone.sectors_per_track).map(|sector| track.sector(sector)));
        }
        let usable = sectors.iter().enumerate().filter(|(index, _)| !slips.contains(&(*index as u64))).map(|(_, address)| *address);
        self.places.extend(usable.take(sectors.len() - zone.spares as usize));
        start + Angle::from_fraction(skew + u64::from(band_skew.unwrap_or(zone.cylinder_skew)), spt)
    }
}

/// The zone's tracks in order, cylinders counted from its first.
fn track_order(profile: &DriveProfile, zone: &Zone) -> Vec<(u32, u16)> {
    let heads = profile.geometry.heads;
    let up_or_down = |down: bool| -> Vec<u16> { if down { (0..heads).rev().collect() } else { (0..heads).collect() } };
    let mut order = Vec::new();
    match profile.geometry.layout {
        TrackOrder::Cylinder => (0..zone.cylinders).for_each(|cylinder| order.extend((0..heads).map(|head| (cylinder, head)))),
        TrackOrder::Serpentine => {
            (0..zone.cylinders).for_each(|cylinder| order.extend(up_or_down(cylinder % 2 == 1).into_iter().map(|head| (cylinder, head))));
        }
        TrackOrder::SurfaceSerpentine => {
            let band = profile.geometry.band_cylinders.expect("a surface-serpentine profile has bands");
            for (number, first) in (0..zone.cylinders).step_by(band as usize).enumerate() {
                let cylinders: Vec<u32> = (first..zone.cylinders.min(first + band)).collect();
                for (surface, head) in up_or_down(number % 2 == 1).into_iter().enumerate() {
                    let inwards: Vec<u32> = if surface % 2 == 1 { cylinders.iter().rev().copied().collect() } else { cylinders.clone() };
                    order.extend(inwards.into_iter().map(|cylinder| (cylinder, head)));
                }
            }
        }
    }
    order
}

/// As many further slips as the zones' spares still hold, or fewer.
fn random_extra_slips(rng: &mut impl Rng, profile: &DriveProfile) -> Vec<ZoneSlip> {
    let mut extra = Vec::new();
    for (number, zone) in profile.zones.iter().enumerate() {
        let room = zone.spares - zone.slips.len() as u64;
        let sectors = zone.physical_sectors(profile.geometry.heads);
        extra.extend((0..rng.random_range(0..=room)).map(|_| ZoneSlip { zone: number, sector: rng.random_range(0..sectors) }));
    }
    extra
}

#[test]
fn every_sector_of_a_drawn_drive_lies_where_a_slow_layout_puts_it() {
    for_drawn_drives("every_sector_of_a_drawn_drive_lies_where_a_slow_layout_puts_it", 1_000, |rng, profile| {
        let extra = if rng.random_bool(0.5) { random_extra_slips(rng, &profile) } else { Vec::new() };
        let layout = Layout::with_slips(&profile, &extra).expect("a drawn drive has a layout");
        let slow = SlowLayout::new(&profile, &extra);
        assert_eq!(layout.capacity(), Sectors::new(slow.places.len() as u64), "{}", profile.to_toml());
        let lbas: BTreeMap<PhysicalAddress, Lba> = slow.places.iter().copied().zip((0..).map(Lba::new)).collect();
        for (place, lba) in &lbas {
            assert_eq!(layout.lba_to_physical(*lba), *place, "LBA {lba} of\n{}", profile.to_toml());
        }
        for (track, start) in &slow.tracks {
            let spt = layout.sectors_per_track(*track);
            for sector in 0..spt {
                let address = track.sector(sector);
                assert_eq!(layout.physical_to_lba(address), lbas.get(&address).copied(), "{address} of\n{}", profile.to_toml());
                let angle = *start + Angle::from_fraction(u64::from(sector), u64::from(spt));
                let error = layout.sector_angle(address).signed_turns_from(angle);
                // The slow layout rounds the skews and the sector apart, the fast one together.
                assert!(error.abs() < 1e-9, "{address} starts {error} turns off in\n{}", profile.to_toml());
            }
            assert_eq!(layout.physical_to_lba(track.sector(spt)), None);
        }
    });
}

#[test]
fn what_lies_on_each_track_of_a_drawn_drive_is_what_a_slow_layout_says() {
    for_drawn_drives("what_lies_on_each_track_of_a_drawn_drive_is_what_a_slow_layout_says", 300, |rng, profile| {
        let layout = Layout::new(&profile).expect("a drawn drive has a layout");
        let slow = SlowLayout::new(&profile, &[]);
        assert_eq!(layout.track_count(), slow.tracks.len() as u64);
        for (number, (track, start)) in slow.tracks.iter().enumerate() {
            assert_eq!((layout.track_number(*track), layout.track_by_number(number as u64)), (number as u64, Some(*track)));
            let on_track: Vec<(u32, Lba)> =
                (0..layout.sectors_per_track(*track)).filter_map(|sector| Some((sector, layout.physical_to_lba(track.sector(sector))?))).collect();
            let extent = layout.track_extent(*track);
            assert_eq!(extent.len.get(), on_track.len() as u64);
            assert_eq!(on_track.first().map(|(_, lba)| *lba), (!on_track.is_empty()).then_some(extent.start));
            let from_runs: Vec<(u32, Lba)> = layout
                .track_runs(*track)
                .flat_map(|run| (0..run.extent.len.get()).map(move |step| (run.first_sector + step as u32, run.extent.start + Sectors::new(step))))
                .collect();
            assert_eq!(from_runs, on_track, "{track} of\n{}", profile.to_toml());
            let angle = Angle::from_raw(rng.random());
            let next = (0..layout.sectors_per_track(*track))
                .min_by_key(|sector| angle.until(layout.sector_angle(track.sector(*sector))))
                .expect("a track has sectors");
            assert_eq!(layout.first_sector_from(*track, angle), next, "{track}, which starts at {start}, from {angle} of\n{}", profile.to_toml());
            assert_eq!(layout.first_sector_from(*track, layout.sector_angle(track.sector(next))), next);
        }
        assert_eq!(layout.track_by_number(layout.track_count()), None);
    });
}

#[test]
fn neighbours_of_a_track_are_those_before_and_after_it_and_end_at_the_drives_ends() {
    for_drawn_drives("neighbours_of_a_track_are_those_before_and_after_it_and_end_at_the_drives_ends", 100, |rng, profile| {
        let layout = Layout::new(&profile).expect("a drawn drive has a layout");
        let slow = SlowLayout::new(&profile, &[]);
        let middle = rng.random_range(0..slow.tracks.len());
        let reach = rng.random_range(0..5);
        let expected: Vec<Track> =
            slow.tracks[middle.saturating_sub(reach)..slow.tracks.len().min(middle + reach + 1)].iter().map(|(track, _)| *track).collect();
        assert_eq!(layout.tracks_near(slow.tracks[middle].0, reach as u64).collect::<Vec<_>>(), expected);
        let (from, to) = (rng.random_range(0..layout.cylinders()), rng.random_range(0..layout.cylinders()));
        let between: Vec<Track> = layout.tracks_between(from, to).collect();
        assert_eq!(between.len(), (from.abs_diff(to) as usize + 1) * usize::from(layout.heads()));
        assert_eq!((between[0].cylinder, between[between.len() - 1].cylinder), (from, to));
        assert!(between.iter().all(|track| (from.min(to)..=from.max(to)).contains(&track.cylinder)));
    });
}

#[test]
fn addresses_and_places_of_the_shipped_drives_undo_each_other() {
    for profile in catalog_profiles() {
        let layout = Layout::new(&profile).expect("a shipped profile has a layout");
        let capacity = layout.capacity().get();
        let there_and_back = |lba: u64| {
            let place = layout.lba_to_physical(Lba::new(lba));
            assert_eq!(layout.physical_to_lba(place), Some(Lba::new(lba)), "{}: {place}", profile.name);
            place
        };
        for zone in layout.zones() {
            let borders = [zone.extent.start.get(), zone.extent.end().get()];
            for lba in borders.iter().flat_map(|border| border.saturating_sub(300)..border + 300).filter(|lba| *lba < capacity) {
                there_and_back(lba);
            }
        }
        for_seeds("addresses_and_places_of_the_shipped_drives_undo_each_other", 4, |rng| {
            for _ in 0..50_000 {
                there_and_back(rng.random_range(0..capacity));
            }
        });
        assert_eq!(layout.physical_to_lba(PhysicalAddress { cylinder: layout.cylinders(), head: 0, sector: 0 }), None);
        assert_eq!(layout.physical_to_lba(PhysicalAddress { cylinder: 0, head: layout.heads(), sector: 0 }), None);
    }
}

#[test]
fn around_each_slip_of_a_shipped_drive_addresses_step_over_exactly_the_slipped_sectors() {
    for profile in catalog_profiles() {
        let layout = Layout::new(&profile).expect("a shipped profile has a layout");
        let mut first_lba = 0;
        for zone in &profile.zones {
            let sectors = zone.physical_sectors(profile.geometry.heads);
            for slip in &zone.slips {
                let around = slip.saturating_sub(5)..(slip + 6).min(sectors);
                for physical in around {
                    let before = zone.slips.iter().filter(|other| **other < physical).count() as u64;
                    let expected = (!zone.slips.contains(&physical)).then(|| first_lba + physical - before);
                    let number = physical / u64::from(zone.sectors_per_track);
                    let first_track = layout.track_number(Track { cylinder: zone.first_cylinder, head: 0 });
                    let track = layout.track_by_number(first_track + number).expect("the zone has the track");
                    let address = track.sector((physical % u64::from(zone.sectors_per_track)) as u32);
                    assert_eq!(layout.physical_to_lba(address), expected.map(Lba::new), "{}: physical sector {physical}", profile.name);
                }
            }
            first_lba += sectors - zone.spares;
        }
        assert_eq!(layout.mapped().get(), first_lba);
    }
}

#[test]
fn a_unit_with_more_defects_than_spares_is_refused_and_one_with_fewer_keeps_its_capacity() {
    let profile = headtime_mechanics::catalog::load("atlas10k").expect("a shipped profile is valid");
    let layout = Layout::new(&profile).expect("the profile has a layout");
    let slips = |count: u64| -> Vec<ZoneSlip> { (0..count).map(|sector| ZoneSlip { zone: 1, sector }).collect() };
    let full = Layout::with_slips(&profile, &slips(84)).expect("84 spares absorb 84 slips");
    assert_eq!((full.capacity(), full.mapped()), (layout.capacity(), layout.mapped()));
    assert_eq!(full.lba_to_physical(Lba::new(867_643)), Track { cylinder: 433, head: 0 }.sector(84), "zone 1 starts behind its 84 slips");
    assert_eq!(full.lba_to_physical(Lba::new(1_701_223)), layout.lba_to_physical(Lba::new(1_701_223)), "zone 2 stays where it was");
    let message = Layout::with_slips(&profile, &slips(85)).expect_err("84 spares do not absorb 85 slips").to_string();
    assert_eq!(message, "profile atlas10k: zone 1 has 85 slips but only 84 spares to absorb them; raise spares, or remove slips");
    for (slip, expected) in [
        (ZoneSlip { zone: 24, sector: 0 }, "profile atlas10k: extra slip's zone is 24, expected 0 to 23; draw from the profile's zones"),
        (
            ZoneSlip { zone: 1, sector: 833_664 },
            "profile atlas10k: extra slip in zone 1 is 833664, expected less than the zone's 833664 sectors; draw from the zone's sectors",
        ),
    ] {
        assert_eq!(Layout::with_slips(&profile, &[slip]).expect_err("there is no such sector").to_string(), expected);
    }
}

#[test]
#[should_panic(expected = "LBA 17938986 is past the drive's 17938986 sectors")]
fn an_address_past_the_declared_capacity_does_not_exist_though_the_zones_map_it() {
    let layout = Layout::new(&headtime_mechanics::catalog::load("atlas10k").expect("a shipped profile is valid")).expect("it has a layout");
    assert_eq!(layout.physical_to_lba(Track { cylinder: 10_041, head: 0 }.sector(0)), None);
    assert_eq!(layout.track_extent(Track { cylinder: 10_041, head: 0 }), Extent::new(Lba::new(17_938_986), Sectors::new(0)));
    let _ = layout.lba_to_physical(Lba::new(17_938_986));
}
