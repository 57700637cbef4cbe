//! The layout against a slow one of single sectors, on small random drives; and samples of it on
//! the shipped ones.

mod common;

use std::collections::BTreeMap;

use common::slow::SlowLayout;
use common::{catalog_profiles, for_drawn_drives, for_seeds};
use headtime_mechanics::{DriveProfile, Layout, PhysicalAddress, Track, ZoneSlip, draw};
use headtime_units::{Angle, Extent, Lba, Sectors};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;

/// Additional defects, as many as the spares and some more.
fn random_defects(rng: &mut impl Rng, profile: &DriveProfile) -> Vec<ZoneSlip> {
    let mut extra = Vec::new();
    let heads = profile.geometry.heads;
    for (number, zone) in profile.zones.iter().enumerate() {
        let sectors = zone.physical_sectors(heads);
        let expected = rng.random_range(0..=(zone.spares * zone.groups(heads)).min(12) + 1);
        extra.extend(
            (0..expected).map(|_| ZoneSlip { zone: number, sector: rng.random_range(0..sectors) }),
        );
    }
    extra
}

/// Gives some of the zones without groups some with their own spares, of any number of tracks.
fn divide_into_groups_of_tracks(rng: &mut impl Rng, profile: &mut DriveProfile) {
    let heads = profile.geometry.heads;
    let declared = profile.capacity_sectors.is_some();
    for zone in profile.zones.iter_mut().filter(|zone| zone.sectors_by_head.is_empty()) {
        if declared || zone.spare_cylinders.is_some() || rng.random_bool(0.5) {
            continue;
        }
        zone.spare_tracks = Some(rng.random_range(1..=3 * u32::from(heads)));
        (zone.slips, zone.remaps) = (Vec::new(), Vec::new());
        let group = zone.group_sectors(heads);
        let last = zone.physical_sectors(heads) - (zone.groups(heads) - 1) * group;
        zone.spares = rng.random_range(0..last);
        zone.reserved = zone.reserved.min(group - zone.spares - 1);
    }
}

#[test]
fn every_sector_of_a_drawn_drive_lies_where_a_slow_layout_puts_it() {
    for_drawn_drives(
        "every_sector_of_a_drawn_drive_lies_where_a_slow_layout_puts_it",
        1_500,
        |rng, mut profile| {
            divide_into_groups_of_tracks(rng, &mut profile);
            let extra = if rng.random_bool(0.5) {
                Layout::absorbed(&profile, &random_defects(rng, &profile))
            } else {
                Vec::new()
            };
            let layout = Layout::with_slips(&profile, &extra).expect("a drawn drive has a layout");
            let slow = SlowLayout::new(&profile, &extra);
            assert_eq!(
                layout.capacity(),
                Sectors::new(slow.places.len() as u64),
                "{}",
                profile.to_toml()
            );
            for (place, lba) in slow.places.iter().zip(0..) {
                assert_eq!(
                    layout.lba_to_physical(Lba::new(lba)),
                    *place,
                    "LBA {lba} of\n{}",
                    profile.to_toml()
                );
                let spot = layout.spot(Lba::new(lba));
                assert_eq!(
                    (spot.position.track(), spot.angle),
                    (place.track(), layout.sector_angle(*place)),
                    "LBA {lba} of\n{}",
                    profile.to_toml()
                );
            }
            let lbas = slow.lbas();
            for (track, start) in &slow.tracks {
                let spt = layout.sectors_per_track(*track);
                for sector in 0..spt {
                    let address = track.sector(sector);
                    let expected = lbas.get(&address).copied().map(Lba::new);
                    assert_eq!(
                        layout.physical_to_lba(address),
                        expected,
                        "{address} of\n{}",
                        profile.to_toml()
                    );
                    if let Some(start) = start {
                        let angle = Angle::from_turns(slow.sector_turns(*track, *start, sector));
                        let error = layout.sector_angle(address).signed_turns_from(angle);
                        // The fast layout rounds the start of each zone to 2⁻³² revolution, the
                        // slow one uses floats.
                        assert!(
                            error.abs() < 2e-9,
                            "{address} starts {error} turns off in\n{}",
                            profile.to_toml()
                        );
                        assert_eq!(spt, slow.sectors_per_track[track]);
                    }
                }
                assert_eq!(layout.physical_to_lba(track.sector(spt)), None);
            }
        },
    );
}

#[test]
fn what_lies_on_each_track_of_a_drawn_drive_is_what_a_slow_layout_says() {
    for_drawn_drives(
        "what_lies_on_each_track_of_a_drawn_drive_is_what_a_slow_layout_says",
        400,
        |rng, profile| {
            let layout = Layout::new(&profile).expect("a drawn drive has a layout");
            let slow = SlowLayout::new(&profile, &[]);
            let mut homes: BTreeMap<Track, Vec<u64>> = BTreeMap::new();
            slow.homes
                .iter()
                .zip(0..)
                .for_each(|(home, lba)| homes.entry(home.track()).or_default().push(lba));
            assert_eq!(layout.track_count(), slow.tracks.len() as u64);
            for (number, (track, _)) in slow.tracks.iter().enumerate() {
                let numbers = (layout.track_number(*track), layout.track_by_number(number as u64));
                assert_eq!(numbers, (number as u64, Some(*track)), "{}", profile.to_toml());
                let homes = homes.get(track).map_or(&[][..], Vec::as_slice);
                let first_row =
                    homes.chunk_by(|before, after| before + 1 == *after).next().unwrap_or(&[]);
                let extent = layout.track_extent(*track);
                assert_eq!(
                    extent.len.get(),
                    first_row.len() as u64,
                    "{track} of\n{}",
                    profile.to_toml()
                );
                assert!(first_row.is_empty() || first_row[0] == extent.start.get());
                assert!(
                    first_row.len() == homes.len() || !profile.runs.is_empty(),
                    "only measured tracks hold several rows of addresses"
                );

                let on_track: Vec<(u32, Lba)> = (0..layout.sectors_per_track(*track))
                    .filter_map(|sector| {
                        Some((sector, layout.physical_to_lba(track.sector(sector))?))
                    })
                    .collect();
                let runs: Vec<_> = layout.track_runs(*track).collect();
                let from_runs: Vec<(u32, Lba)> = runs
                    .iter()
                    .flat_map(|run| {
                        (0..run.extent.len.get()).map(move |step| {
                            (run.first_sector + step as u32, run.extent.start + Sectors::new(step))
                        })
                    })
                    .collect();
                assert_eq!(from_runs, on_track, "{track} of\n{}", profile.to_toml());

                let angle = Angle::from_raw(rng.random());
                let next = (0..layout.sectors_per_track(*track))
                    .min_by_key(|sector| angle.until(layout.sector_angle(track.sector(*sector))))
                    .expect("a track has sectors");
                assert_eq!(
                    layout.first_sector_from(*track, angle),
                    next,
                    "{track} from {angle} of\n{}",
                    profile.to_toml()
                );
                assert_eq!(
                    layout.first_sector_from(*track, layout.sector_angle(track.sector(next))),
                    next
                );
            }
            assert_eq!(layout.track_by_number(layout.track_count()), None);
        },
    );
}

#[test]
fn the_zones_of_a_drawn_drive_hold_each_address_once_and_their_cylinders_hold_them() {
    for_drawn_drives(
        "the_zones_of_a_drawn_drive_hold_each_address_once_and_their_cylinders_hold_them",
        300,
        |_, profile| {
            let layout = Layout::new(&profile).expect("a drawn drive has a layout");
            let mut next = 0;
            for zone in layout.zones() {
                assert_eq!(zone.extent.start.get(), next);
                next = zone.extent.end().get();
                for lba in
                    (zone.extent.start.get()..next).filter(|lba| *lba < layout.capacity().get())
                {
                    let place = layout.lba_to_physical(Lba::new(lba));
                    assert!(
                        (zone.first_cylinder..zone.first_cylinder + zone.cylinders)
                            .contains(&place.cylinder),
                        "{}",
                        profile.to_toml()
                    );
                    let even = profile.zones.iter().all(|zone| zone.sectors_by_head.is_empty());
                    assert!(
                        !even
                            || layout.sectors_per_track(place.track()) == zone.sectors_per_track
                            || !profile.runs.is_empty()
                    );
                }
            }
            assert_eq!(next, layout.mapped().get());
        },
    );
}

#[test]
fn a_measured_drive_maps_each_address_where_the_drive_itself_does() {
    for_drawn_drives(
        "a_measured_drive_maps_each_address_where_the_drive_itself_does",
        400,
        |_, profile| {
            let measured = draw::measured(&profile);
            measured.validate().expect("what was measured is a profile");
            let (layout, again) = (
                Layout::new(&profile).expect("it is valid"),
                Layout::new(&measured).expect("it is valid"),
            );
            assert_eq!(layout.capacity(), again.capacity());
            for lba in (0..layout.capacity().get()).map(Lba::new) {
                assert_eq!(
                    layout.lba_to_physical(lba),
                    again.lba_to_physical(lba),
                    "LBA {lba} of\n{}",
                    profile.to_toml()
                );
                let error = layout.spot(lba).angle.signed_turns_from(again.spot(lba).angle);
                assert!(
                    error.abs() < 1e-9,
                    "LBA {lba} is {error} turns off in\n{}",
                    profile.to_toml()
                );
            }
        },
    );
}

#[test]
fn a_measured_layout_of_fifty_thousand_runs_matches_its_zones() {
    let profile =
        headtime_mechanics::catalog::load("atlas10k").expect("a shipped profile is valid");
    let measured = draw::measured(&profile);
    assert!(measured.runs.len() > 50_000, "{} runs", measured.runs.len());
    let (layout, again) =
        (Layout::new(&profile).expect("it is valid"), Layout::new(&measured).expect("it is valid"));
    for_seeds("a_measured_layout_of_fifty_thousand_runs_matches_its_zones", 1, |rng| {
        for _ in 0..20_000 {
            let lba = Lba::new(rng.random_range(0..layout.capacity().get()));
            let place = layout.lba_to_physical(lba);
            assert_eq!(
                (again.lba_to_physical(lba), again.physical_to_lba(place)),
                (place, Some(lba))
            );
            assert!(
                layout.spot(lba).angle.signed_turns_from(again.spot(lba).angle).abs() < 1e-9,
                "LBA {lba}"
            );
            assert_eq!(
                (layout.track_extent(place.track()), layout.track_number(place.track())),
                (again.track_extent(place.track()), again.track_number(place.track()))
            );
        }
    });
    let mean = |profile: &DriveProfile| {
        headtime_mechanics::Mechanism::nominal(profile)
            .expect("it is valid")
            .mean_arm_time()
            .as_ms_f64()
    };
    assert!(
        (mean(&profile) - mean(&measured)).abs() < 0.002,
        "strips and spares change the mean by a fraction of a permille"
    );
}

#[test]
fn a_sector_that_goes_bad_moves_to_the_next_spare_and_nothing_else_moves() {
    for_drawn_drives(
        "a_sector_that_goes_bad_moves_to_the_next_spare_and_nothing_else_moves",
        300,
        |rng, profile| {
            let mut layout = Layout::new(&profile).expect("a drawn drive has a layout");
            let mut slow = SlowLayout::new(&profile, &[]);
            let zone_of: Vec<usize> = profile
                .zones
                .iter()
                .enumerate()
                .flat_map(|(zone, z)| vec![zone; z.mapped_sectors(profile.geometry.heads) as usize])
                .collect();
            for _ in 0..rng.random_range(1..30) {
                let lba = rng.random_range(0..slow.places.len());
                let moved_to = layout.remap(Lba::new(lba as u64));
                let expected = (profile.runs.is_empty())
                    .then(|| take_spare(&profile, &mut slow, zone_of[lba], lba))
                    .flatten();
                assert_eq!(moved_to, expected, "LBA {lba} of\n{}", profile.to_toml());
                let old = slow.places[lba];
                let Some(place) = moved_to else { continue };
                slow.places[lba] = place;
                assert_eq!(
                    layout.physical_to_lba(old),
                    None,
                    "the bad sector holds nothing any more"
                );
                assert_eq!(layout.physical_to_lba(place), Some(Lba::new(lba as u64)));
            }
            for (place, lba) in slow.places.iter().zip(0..) {
                assert_eq!(
                    layout.lba_to_physical(Lba::new(lba)),
                    *place,
                    "LBA {lba} of\n{}",
                    profile.to_toml()
                );
            }
            let lbas = slow.lbas();
            for (track, _) in &slow.tracks {
                let on_track: Vec<(u32, u64)> = lbas
                    .range(track.sector(0)..=track.sector(u32::MAX))
                    .map(|(place, lba)| (place.sector, *lba))
                    .collect();
                let runs = layout.track_runs(*track);
                let from_runs: Vec<(u32, u64)> = runs
                    .flat_map(|run| {
                        (0..run.extent.len.get()).map(move |step| {
                            (run.first_sector + step as u32, run.extent.start.get() + step)
                        })
                    })
                    .collect();
                assert_eq!(from_runs, on_track, "{track} of\n{}", profile.to_toml());
            }
        },
    );
}

/// The first free spare of the group of an LBA's home, else of the nearest group, the earlier one
/// first.
fn take_spare(
    profile: &DriveProfile,
    slow: &mut SlowLayout,
    zone: usize,
    lba: usize,
) -> Option<PhysicalAddress> {
    let group_cylinders = profile.zones[zone].spare_cylinders.unwrap_or(u32::MAX);
    let own = ((slow.homes[lba].cylinder - profile.zones[zone].first_cylinder) / group_cylinders)
        as usize;
    let groups = &mut slow.free[zone];
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|group| (group.abs_diff(own), *group));
    let group = order.into_iter().find(|group| !groups[*group].is_empty())?;
    Some(groups[group].remove(0))
}

#[test]
fn the_defects_that_spares_absorb_are_as_many_as_possible_and_no_more() {
    for_drawn_drives(
        "the_defects_that_spares_absorb_are_as_many_as_possible_and_no_more",
        300,
        |rng, profile| {
            let drawn = random_defects(rng, &profile);
            let absorbed = Layout::absorbed(&profile, &drawn);
            Layout::with_slips(&profile, &absorbed).expect("absorbed defects fit");
            for left_out in drawn.iter().filter(|slip| !absorbed.contains(slip)) {
                let mut one_more = absorbed.clone();
                one_more.push(*left_out);
                assert!(
                    Layout::with_slips(&profile, &one_more).is_err(),
                    "{left_out:?} fits into\n{}",
                    profile.to_toml()
                );
            }
        },
    );
}

#[test]
fn addresses_and_places_of_the_shipped_drives_undo_each_other() {
    for profile in catalog_profiles() {
        let layout = Layout::new(&profile).expect("a shipped profile has a layout");
        let capacity = layout.capacity().get();
        let there_and_back = |lba: u64| {
            let place = layout.lba_to_physical(Lba::new(lba));
            assert_eq!(
                layout.physical_to_lba(place),
                Some(Lba::new(lba)),
                "{}: {place}",
                profile.name
            );
            place
        };
        for zone in layout.zones() {
            let borders = [zone.extent.start.get(), zone.extent.end().get()];
            for lba in borders
                .iter()
                .flat_map(|border| border.saturating_sub(300)..border + 300)
                .filter(|lba| *lba < capacity)
            {
                there_and_back(lba);
            }
        }
        for_seeds("addresses_and_places_of_the_shipped_drives_undo_each_other", 4, |rng| {
            for _ in 0..50_000 {
                there_and_back(rng.random_range(0..capacity));
            }
        });
        assert_eq!(
            layout.physical_to_lba(PhysicalAddress {
                cylinder: layout.cylinders(),
                head: 0,
                sector: 0
            }),
            None
        );
        assert_eq!(
            layout.physical_to_lba(PhysicalAddress {
                cylinder: 0,
                head: layout.heads(),
                sector: 0
            }),
            None
        );
    }
}

#[test]
fn around_each_slip_of_a_shipped_drive_addresses_step_over_exactly_the_slipped_sectors() {
    let mut tried = 0;
    for profile in catalog_profiles() {
        let layout = Layout::new(&profile).expect("a shipped profile has a layout");
        for (zone, extent) in profile.zones.iter().zip(layout.zones()) {
            assert_eq!(extent.extent.len.get(), zone.mapped_sectors(profile.geometry.heads));
            // Groups, reserved sectors, remaps and surfaces that differ are covered by random
            // drives.
            if zone.groups(profile.geometry.heads) > 1
                || zone.reserved > 0
                || !zone.remaps.is_empty()
                || !zone.sectors_by_head.is_empty()
            {
                continue;
            }
            let sectors = zone.physical_sectors(profile.geometry.heads);
            for slip in zone.slips.iter().take(100) {
                tried += 1;
                for physical in slip.saturating_sub(5)..(slip + 6).min(sectors) {
                    let before =
                        zone.slips.iter().filter(|other| **other < physical).count() as u64;
                    let expected = (!zone.slips.contains(&physical))
                        .then(|| extent.extent.start.get() + physical - before);
                    let expected = expected.filter(|lba| *lba < layout.capacity().get());
                    let number = physical / u64::from(zone.sectors_per_track);
                    let first_track =
                        layout.track_number(Track { cylinder: zone.first_cylinder, head: 0 });
                    let track = layout
                        .track_by_number(first_track + number)
                        .expect("the zone has the track");
                    let address =
                        track.sector((physical % u64::from(zone.sectors_per_track)) as u32);
                    assert_eq!(
                        layout.physical_to_lba(address),
                        expected.map(Lba::new),
                        "{}: physical sector {physical}",
                        profile.name
                    );
                }
            }
        }
    }
    assert!(tried >= 64, "the Atlas 10K alone has 64 slips");
}

#[test]
fn a_unit_with_more_defects_than_spares_is_refused_and_one_with_fewer_keeps_its_capacity() {
    let profile =
        headtime_mechanics::catalog::load("atlas10k").expect("a shipped profile is valid");
    let layout = Layout::new(&profile).expect("the profile has a layout");
    let slips = |count: u64| -> Vec<ZoneSlip> {
        (0..count).map(|sector| ZoneSlip { zone: 1, sector }).collect()
    };
    let full = Layout::with_slips(&profile, &slips(84)).expect("84 spares absorb 84 slips");
    assert_eq!((full.capacity(), full.mapped()), (layout.capacity(), layout.mapped()));
    assert_eq!(
        full.lba_to_physical(Lba::new(867_643)),
        Track { cylinder: 433, head: 0 }.sector(84),
        "zone 1 starts behind its 84 slips"
    );
    assert_eq!(
        full.lba_to_physical(Lba::new(1_701_223)),
        layout.lba_to_physical(Lba::new(1_701_223)),
        "zone 2 stays where it was"
    );
    let message = Layout::with_slips(&profile, &slips(85))
        .expect_err("84 spares do not absorb 85 slips")
        .to_string();
    assert_eq!(
        message,
        "profile atlas10k: zone 1 has 85 slips but only 84 spares to absorb them; raise spares, or \
            remove slips"
    );
    for (slip, expected) in [
        (
            ZoneSlip { zone: 24, sector: 0 },
            "profile atlas10k: extra slip's zone is 24, expected 0 to 23; draw from the profile's \
                zones",
        ),
        (
            ZoneSlip { zone: 1, sector: 833_664 },
            "profile atlas10k: extra slip in zone 1 is 833664, expected less than the zone's \
                833664 sectors; draw from the zone's sectors",
        ),
    ] {
        assert_eq!(
            Layout::with_slips(&profile, &[slip]).expect_err("there is no such sector").to_string(),
            expected
        );
    }
}

#[test]
#[should_panic(expected = "LBA 17938986 is past the drive's 17938986 sectors")]
fn an_address_past_the_declared_capacity_does_not_exist_though_the_zones_map_it() {
    let layout = Layout::new(
        &headtime_mechanics::catalog::load("atlas10k").expect("a shipped profile is valid"),
    )
    .expect("it has a layout");
    assert_eq!(layout.physical_to_lba(Track { cylinder: 10_041, head: 0 }.sector(0)), None);
    assert_eq!(
        layout.track_extent(Track { cylinder: 10_041, head: 0 }),
        Extent::new(Lba::new(17_938_986), Sectors::new(0))
    );
    let _ = layout.lba_to_physical(Lba::new(17_938_986));
}

#[test]
fn a_row_is_the_longest_of_what_a_track_holds_and_each_address_has_one_that_holds_it() {
    for seed in 0..100 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let profile = draw::random_profile(&mut rng);
        for profile in [draw::measured(&profile), profile] {
            let Ok(layout) = Layout::new(&profile) else { continue };
            for _ in 0..50 {
                let track = Track {
                    cylinder: rng.random_range(0..layout.cylinders()),
                    head: rng.random_range(0..layout.heads()),
                };
                let longest = layout.track_runs(track).map(|run| run.extent.len.get()).max();
                let row = layout.row_at(track);
                assert_eq!(
                    row.is_some(),
                    longest.is_some(),
                    "drawn drive {seed}: {track} holds {longest:?} sectors in a run, and the \
                        row is {row:?}"
                );
                if let Some(row) = row {
                    // In zones a row continues over slipped sectors.
                    assert!(
                        row.extent.len.get() >= longest.unwrap_or(0) && row.track == track,
                        "drawn drive {seed}: {row:?}"
                    );
                    assert_eq!(
                        row.angle,
                        layout.spot(row.extent.start).angle,
                        "drawn drive {seed}: {row:?}"
                    );
                }
                let lba = Lba::new(rng.random_range(0..layout.capacity().get()));
                let row = layout.row_of(lba);
                assert!(
                    row.extent.contains(lba) && row.track == layout.spot(lba).position.track(),
                    "drawn drive {seed}: {lba} in {row:?}"
                );
            }
        }
    }
}

#[test]
fn there_is_no_row_where_there_is_no_track() {
    let layout = Layout::new(&headtime_mechanics::catalog::load("atlas10k").expect("it ships"))
        .expect("it is valid");
    assert_eq!(layout.row_at(Track { cylinder: layout.cylinders(), head: 0 }), None);
    assert_eq!(layout.row_at(Track { cylinder: 0, head: layout.heads() }), None);
    let row = layout.row_at(Track { cylinder: 100, head: 2 }).expect("it holds data");
    assert_eq!((row.extent.len.get(), row.sector_turn()), (334, u64::MAX / 334 + 1));
}
