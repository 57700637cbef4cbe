//! Drives with spares of each track, or of every few tracks or cylinders.
//!
//! Each case is a small drive without noise: a few zones of a catalog drive with its layout
//! changed.

mod common;

use common::small::{expect_predicted, expect_recognized, small};
use common::{characterize, tracks_alike};
use headtime_mechanics::profile::TrackOrder;
use headtime_mechanics::{DriveProfile, NoiseLevel};
use headtime_sim::DriveTruth;

#[test]
fn zones_that_begin_anywhere_in_a_cylinder_with_spares_are_recognized() {
    let mut cases = Vec::new();
    for (heads, reserved, spares_part) in [(8, 1, 17), (2, 0, 14), (1, 0, 14)] {
        let mut profile = small("deskstar34gxp@nocache", heads, 3, 600);
        let spares = u64::from(profile.zones[0].sectors_per_track) / spares_part;
        for (number, zone) in (0..).zip(&mut profile.zones) {
            let sectors = u64::from(zone.sectors_per_track);
            (zone.spare_cylinders, zone.spares) = (Some(1), spares);
            zone.reserved = if number == 0 { 0 } else { reserved * sectors };
        }
        cases.push((format!("{heads} heads, {reserved} tracks before each zone"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn zones_that_begin_in_the_middle_of_cylinders_with_spares_are_recognized() {
    let mut profile = small("deskstar34gxp@nocache", 30, 4, 100);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        (zone.spares, zone.spare_cylinders) = (36, Some(1));
        zone.reserved = 18 * u64::from(zone.sectors_per_track) * u64::from(number > 0);
    }
    expect_recognized(&[("18 tracks reserved of cylinders of 30".into(), profile)]);
}

#[test]
fn spares_after_every_few_cylinders_are_recognized() {
    let mut cases = Vec::new();
    for (heads, group, spares) in
        [(5, 2, 30), (5, 3, 100), (5, 8, 30), (6, 20, 250), (1, 4, 40), (13, 2, 300), (40, 3, 30)]
    {
        let mut profile = small("deskstar34gxp@nocache", heads, 2, 600);
        for zone in &mut profile.zones {
            (zone.spares, zone.spare_cylinders) = (spares, Some(group));
        }
        cases.push((format!("{heads} heads, {spares} spares after {group} cylinders"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn spares_after_each_cylinder_are_recognized() {
    let mut cases = Vec::new();
    for (heads, spares) in [(1, 12), (2, 40), (5, 7)] {
        let mut profile = small("deskstar34gxp@nocache", heads, 2, 600);
        for zone in &mut profile.zones {
            (zone.spares, zone.spare_cylinders) = (spares, Some(1));
        }
        cases.push((format!("{heads} heads, {spares} spares after each cylinder"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn with_noise_a_zone_goes_on_after_spares_of_nearly_a_track_and_of_more() {
    // The next zones of the first begin after a track of a group.
    for (name, heads, group, part, reserved) in
        [("deskstar34gxp@nocache", 1, 15, 0.55, 1), ("cheetah10k7@nocache", 4, 250, 1.3, 0)]
    {
        let mut profile = small(name, heads, 3, 1_500);
        if let Some(band) = &mut profile.geometry.band_cylinders {
            *band = 125;
        }
        for (number, zone) in (0..).zip(&mut profile.zones) {
            let sectors = u64::from(zone.sectors_per_track);
            zone.reserved = reserved * sectors * u64::from(number > 0);
            (zone.spare_cylinders, zone.spares) = (Some(group), (part * sectors as f64) as u64);
        }
        let noisy = NoiseLevel::Typical.apply(&profile);
        let truth = DriveTruth::draw(&noisy, 1).expect("a drive");
        let finding = characterize(&noisy, truth.clone(), 1);
        let found = finding.profile.as_ref().expect("a profile");
        let alike = tracks_alike(found, truth.mechanism().layout(), 2);
        let zones = found.zones.len();
        assert!(
            alike > 0.99 && zones <= 4,
            "{name}, seed 1: {alike:.3} of tracks, {zones} zones, {:?}",
            finding.remarks
        );
    }
}

#[test]
fn with_noise_many_slips_of_a_long_zone_are_neither_its_end_nor_spares() {
    for (heads, cylinders, slips, seed) in [(2, 20_000, 100.0, 2), (1, 40_000, 60.0, 3)] {
        let mut profile = small("deskstar34gxp@nocache", heads, 1, cylinders);
        profile.variation.slips_per_million = slips;
        profile.zones[0].spares = 8_000;
        let noisy = NoiseLevel::Typical.apply(&profile);
        let truth = DriveTruth::draw(&noisy, seed).expect("a drive");
        let finding = characterize(&noisy, truth.clone(), seed);
        let found = finding.profile.as_ref().expect("a profile");
        let zones = found.zones.len();
        let alike = tracks_alike(found, truth.mechanism().layout(), 2);
        assert!(
            zones == 1 && alike > 0.99,
            "{heads} heads, seed {seed}: {alike:.3} of tracks, {zones} zones, {:?}",
            finding.remarks
        );
    }
}

#[test]
fn spares_on_each_track_are_counted_once_in_the_next_zone() {
    let mut profile = small("deskstar34gxp@nocache", 1, 2, 600);
    for zone in &mut profile.zones {
        (zone.spares, zone.spare_cylinders) = (12, Some(1));
    }
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let real: Vec<u32> = profile.zones.iter().map(|zone| zone.sectors_per_track).collect();
    for seed in 1..=3 {
        let found = characterize(&profile, truth.clone(), seed).profile.expect("a profile");
        let sectors: Vec<u32> = found.zones.iter().map(|zone| zone.sectors_per_track).collect();
        let are_real = sectors.iter().all(|sectors| real.contains(sectors));
        assert!(are_real, "seed {seed}: {sectors:?} sectors per track, not {real:?}");
    }
}

#[test]
fn spares_on_each_track_or_after_every_few_tracks_are_recognized() {
    let mut cases = Vec::new();
    for (name, heads, cylinders, tracks, spares) in [
        ("deskstar34gxp@nocache", 5, 500, 1, 12),
        ("deskstar34gxp@nocache", 5, 600, 7, 30),
        ("cheetah10k7@nocache", 4, 500, 1, 12),
    ] {
        let mut profile = small(name, heads, 2, cylinders);
        if let Some(band) = &mut profile.geometry.band_cylinders {
            *band = 125;
        }
        for zone in &mut profile.zones {
            (zone.spares, zone.spare_tracks) = (spares, Some(tracks));
            zone.band_skew = zone.band_skew.map(|_| zone.cylinder_skew + 60.0);
        }
        cases.push((format!("{heads} heads, {spares} spares after {tracks} tracks"), profile));
    }
    expect_recognized(&cases);
}

/// A drive with so many spares on each track.
fn with_spares_on_each_track(
    name: &str,
    heads: u16,
    (zones, cylinders): (usize, u32),
    band: u32,
    spares: u64,
) -> DriveProfile {
    let mut profile = small(name, heads, zones, cylinders);
    if let Some(cylinders) = &mut profile.geometry.band_cylinders {
        *cylinders = band;
    }
    for zone in &mut profile.zones {
        (zone.spares, zone.spare_tracks) = (spares, Some(1));
        zone.band_skew = zone.band_skew.map(|_| zone.cylinder_skew + 60.0);
    }
    profile
}

#[test]
fn long_zones_with_spares_on_each_track_are_recognized() {
    // Over so many tracks the error of the first steps adds up.
    let profile = with_spares_on_each_track("deskstar34gxp@nocache", 3, (2, 9_000), 0, 57);
    expect_recognized(&[("3 heads".into(), profile)]);
}

#[test]
fn bands_with_many_spares_on_each_track_are_recognized() {
    let profile = with_spares_on_each_track("cheetah10k7@nocache", 3, (3, 1_000), 200, 60);
    expect_recognized(&[("bands of 200 cylinders".into(), profile)]);
}

#[test]
fn spares_on_each_track_are_recognized_if_the_drive_keeps_whole_tracks() {
    let mut profile = with_spares_on_each_track("deskstar34gxp", 3, (2, 900), 0, 40);
    let cache = profile.cache.as_mut().expect("a cache");
    (cache.segments, cache.segment_sectors) = (16, 1_000);
    (cache.whole_track, cache.read_ahead_sectors) = (true, 0);
    expect_recognized(&[("3 heads".into(), profile)]);
}

#[test]
fn tracks_with_spares_of_their_own_are_resumed_after_an_irregular_band() {
    let mut profile = with_spares_on_each_track("cheetah10k7@nocache", 3, (4, 400), 100, 60);
    profile.geometry.layout = TrackOrder::Banded;
    for zone in &mut profile.zones {
        (zone.band_skew, zone.track_skew) = (None, 2.0 * zone.cylinder_skew);
    }
    // A last band of one cylinder has the step between heads.
    (profile.zones[0].cylinders, profile.zones[1].first_cylinder) = (301, 301);
    (profile.zones[1].cylinders, profile.zones[2].first_cylinder) = (401, 702);
    (profile.zones[2].cylinders, profile.zones[3].first_cylinder) = (398, 1_100);
    expect_predicted(&[("a band of one cylinder".into(), profile)]);
}

#[test]
fn groups_of_bands_with_spares_are_recognized_although_many_sectors_are_slipped() {
    let band = 130;
    for (reserved, apart) in [(0, 30_000), (1_100, 12_000)] {
        let mut profile = small("cheetah10k7@nocache", 3, 2, 0);
        profile.geometry.band_cylinders = Some(band);
        for (number, zone) in (0..).zip(&mut profile.zones) {
            (zone.first_cylinder, zone.cylinders) = (number * 8 * band, 8 * band);
            let sectors = f64::from(zone.sectors_per_track);
            zone.cylinder_skew = (0.19 * sectors).round();
            zone.track_skew = zone.cylinder_skew + 10.0;
            zone.band_skew = None;
            (zone.spares, zone.spare_cylinders) = (240, Some(2 * band));
            zone.reserved = if number == 0 { reserved } else { 0 };
            // At uneven distances, fewer than half of a group's spares.
            let slips = zone.physical_sectors(3) / apart;
            zone.slips = (1..slips).map(|slip| slip * apart - slip * 7_919 % 8_009).collect();
        }
        let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
        let finding = characterize(&profile, truth, 1);
        let found = finding.profile.expect("a profile");
        let groups = found.zones.iter().map(|zone| (zone.spares, zone.spare_cylinders));
        let expected = (240, Some(2 * band));
        assert_eq!(groups.collect::<Vec<_>>(), [expected; 2], "a slip in {apart}");
        let within = finding.check.expect("a check").within_50_us;
        assert!(within >= 0.975, "a slip in {apart}: {within} within 50 us");
    }
}

#[test]
fn spares_of_half_a_track_and_more_after_each_group_are_recognized() {
    let mut cases = Vec::new();
    for (name, heads, group, tracks) in [
        ("deskstar34gxp@nocache", 5, 40, 0.77),
        ("deskstar34gxp@nocache", 5, 40, 2.5),
        ("cheetah10k7@nocache", 2, 85, 0.63),
        ("cheetah10k7@nocache", 4, 85, 1.2),
    ] {
        let mut profile = small(name, heads, 2, 5 * group);
        if let Some(band) = &mut profile.geometry.band_cylinders {
            *band = group;
        }
        for zone in &mut profile.zones {
            zone.spares = (tracks * f64::from(zone.sectors_per_track)) as u64;
            zone.spare_cylinders = Some(group);
            zone.band_skew = zone.band_skew.map(|_| zone.cylinder_skew + 90.0);
        }
        cases.push((format!("{heads} heads, {tracks} tracks after {group} cylinders"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn spares_of_as_many_tracks_in_each_zone_are_recognized_in_time() {
    let mut profile = small("cheetah10k7", 4, 7, 20 * 60);
    profile.geometry.band_cylinders = Some(60);
    for zone in &mut profile.zones {
        zone.spares = 2 * u64::from(zone.sectors_per_track);
        zone.spare_cylinders = Some(120);
    }
    // If each group is examined as one of its own, the time does not suffice.
    expect_recognized(&[("2 tracks after 2 bands".into(), profile)]);
}

#[test]
fn zones_that_begin_some_cylinders_into_a_group_with_spares_are_recognized() {
    // 27 tracks: a cylinder and a part of the next. Groups have a power of two of tracks, so that
    // tracks at doubling distances lie at the same place of theirs.
    let mut profile = small("deskstar34gxp@nocache", 16, 4, 640);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        (zone.spares, zone.spare_cylinders) = (37, Some(4));
        zone.reserved = 27 * u64::from(zone.sectors_per_track) * u64::from(number > 0);
    }
    expect_recognized(&[("27 tracks reserved in each zone".into(), profile)]);
}

#[test]
fn zones_after_one_whose_first_track_is_misread_are_recognized_although_cylinders_have_spares() {
    let mut profile = small("deskstar34gxp@nocache", 2, 6, 400);
    for zone in &mut profile.zones {
        (zone.spares, zone.spare_cylinders) = (57, Some(1));
    }
    // With the slip, the first track looks like the last one of the zone before, with spares.
    profile.zones[2].slips = vec![100];
    expect_recognized(&[("a slip in the first track".into(), profile)]);
}

#[test]
fn groups_that_begin_before_a_zone_are_recognized_where_all_steps_are_alike() {
    for spares in [12, 80] {
        let mut profile = small("cheetah10k7@nocache", 3, 3, 600);
        profile.geometry.layout = TrackOrder::Banded;
        profile.geometry.band_cylinders = Some(100);
        for (number, zone) in (0..).zip(&mut profile.zones) {
            (zone.track_skew, zone.band_skew) = (zone.cylinder_skew, None);
            (zone.spares, zone.spare_tracks) = (spares, Some(30));
            zone.reserved = 16 * u64::from(zone.sectors_per_track) * u64::from(number > 0);
        }
        let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
        let found = characterize(&profile, truth, 1).profile.expect("a profile");
        let groups = |profile: &DriveProfile| -> Vec<(u64, u64)> {
            profile.zones.iter().map(|zone| (zone.spares, zone.reserved)).collect()
        };
        assert_eq!(groups(&found), groups(&profile), "{spares} spares");
    }
}
