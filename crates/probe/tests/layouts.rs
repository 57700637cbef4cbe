//! Layouts that differ from those of the catalog, class by class: drives that begin in the middle
//! of a cylinder or band, and rows of tracks. Those with spares of few tracks are in `spares`.
//!
//! Each case is a small drive without noise: a few zones of a catalog drive with its layout
//! changed. Whole drives over all classes are drawn by seed: `cargo run --release -p headtime-probe
//! --example wall -- varied-7:nominal:7`.

mod common;

use common::small::{expect_predicted, expect_recognized, in_rows, slip_one_in, small};
use common::{characterize, tracks_alike};
use headtime_mechanics::catalog;
use headtime_mechanics::profile::TrackOrder;
use headtime_sim::DriveTruth;

#[test]
fn a_drive_that_begins_in_the_middle_of_a_cylinder_is_recognized() {
    let mut cases = Vec::new();
    for (heads, order, reserved, spares, group) in [
        (5, TrackOrder::Cylinder, 1.0, 0, 1),
        (5, TrackOrder::Serpentine, 3.0, 0, 1),
        (7, TrackOrder::Cylinder, 17.0, 0, 1),
        (5, TrackOrder::Cylinder, 2.4, 0, 1),
        (34, TrackOrder::Serpentine, 33.0, 0, 1),
        // The second track has the spares of the first cylinder.
        (3, TrackOrder::Cylinder, 1.4, 18, 1),
        // Only the spares show which of two steps is that between cylinders.
        (2, TrackOrder::Cylinder, 1.75, 130, 12),
    ] {
        let mut profile = small("deskstar34gxp@nocache", heads, 3, 600);
        profile.geometry.layout = order;
        let sectors = f64::from(profile.zones[0].sectors_per_track);
        profile.zones[0].reserved = (reserved * sectors) as u64;
        for zone in profile.zones.iter_mut().filter(|_| spares > 0) {
            (zone.spares, zone.spare_cylinders) = (spares, Some(group));
        }
        cases.push((format!("{heads} heads, {reserved} tracks reserved"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn a_drive_that_begins_in_the_middle_of_a_band_is_recognized() {
    let mut profile = small("cheetah10k7@nocache", 4, 2, 0);
    let band = profile.geometry.band_cylinders.expect("in bands");
    for (number, zone) in (0..).zip(&mut profile.zones) {
        (zone.first_cylinder, zone.cylinders) = (number * 8 * band, 8 * band);
        // Otherwise only the arm shows the surfaces.
        zone.band_skew = Some(zone.cylinder_skew + 60.0);
    }
    profile.zones[0].reserved = u64::from(profile.zones[0].sectors_per_track);
    expect_recognized(&[("cheetah10k7@nocache, 1 track reserved".into(), profile)]);
}

#[test]
fn zones_that_begin_in_the_middle_of_a_cylinder_are_recognized() {
    let mut profile = small("deskstar34gxp@nocache", 5, 4, 600);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        zone.reserved = 3 * number * u64::from(zone.sectors_per_track);
    }
    expect_recognized(&[("3, 6 and 9 tracks reserved".into(), profile)]);
}

#[test]
fn zones_that_begin_in_the_middle_of_a_band_are_recognized() {
    let (band, mut cases) = (130, Vec::new());
    // The steps between rows and between cylinders may be nearly alike.
    for nearly_alike in [false, true] {
        let mut profile = small("cheetah10k7@nocache", 4, 4, 0);
        profile.geometry.band_cylinders = Some(band);
        for (number, zone) in (0..).zip(&mut profile.zones) {
            (zone.first_cylinder, zone.cylinders) = (number * 6 * band, 6 * band);
            if nearly_alike {
                zone.track_skew = zone.cylinder_skew + 7.0;
            }
            zone.band_skew = Some(zone.cylinder_skew + 60.0);
            zone.reserved = 16 * u64::from(zone.sectors_per_track) * u64::from(number > 0);
        }
        cases.push((format!("16 tracks reserved in bands, nearly alike: {nearly_alike}"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn bands_are_recognized_although_many_sectors_are_slipped() {
    let mut profile = small("cheetah10k7@nocache", 4, 1, 0);
    let band = 220;
    profile.geometry.band_cylinders = Some(band);
    let zone = &mut profile.zones[0];
    (zone.cylinders, zone.sectors_per_track) = (6 * band, 330);
    (zone.track_skew, zone.cylinder_skew, zone.band_skew) = (42.0, 25.0, Some(60.0));
    // One in some 10,000 sectors, at uneven distances.
    let (sectors, apart) = (zone.physical_sectors(4), 10_000);
    zone.slips = (1..sectors / apart).map(|slip| slip * apart - slip * 7_919 % 8_009).collect();
    zone.spares = zone.slips.len() as u64;
    expect_recognized(&[("100 slips per million".into(), profile)]);
}

#[test]
fn cylinders_with_spares_of_one_step_are_recognized_although_many_sectors_are_slipped() {
    let (heads, cylinders) = (27, 100);
    let mut profile = small("deskstar34gxp@nocache", heads, 2, cylinders);
    profile.geometry.layout = TrackOrder::Serpentine;
    for (number, zone) in (0..).zip(&mut profile.zones) {
        let sectors = u64::from(zone.sectors_per_track);
        zone.track_skew = (0.2 * sectors as f64).round();
        zone.cylinder_skew = zone.track_skew;
        (zone.spares, zone.spare_cylinders) = (42, Some(1));
        zone.reserved = if number == 0 { 0 } else { 6 * sectors };
        // One in some 20,000 sectors, at uneven distances.
        let (all, apart) = (zone.physical_sectors(heads), 20_000);
        zone.slips = (3..all / apart).map(|slip| slip * apart - slip * 7_919 % 17_009).collect();
    }
    expect_predicted(&[("27 heads, 50 slips per million".into(), profile)]);
}

#[test]
fn zones_that_begin_in_the_middle_of_a_band_are_recognized_although_sectors_are_slipped() {
    let (heads, band) = (12, 60);
    let mut profile = small("cheetah10k7@nocache", heads, 3, 0);
    profile.geometry.band_cylinders = Some(band);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        (zone.first_cylinder, zone.cylinders) = (number * 4 * band, 4 * band);
        zone.band_skew = Some(zone.cylinder_skew + 60.0);
        zone.reserved = 40 * u64::from(zone.sectors_per_track) * u64::from(number > 0);
        let (all, apart) = (zone.physical_sectors(heads), 40_000);
        zone.slips = (2..all / apart).map(|slip| slip * apart - slip * 7_919 % 17_009).collect();
        zone.spares = zone.slips.len() as u64;
    }
    expect_recognized(&[("40 tracks reserved, 25 slips per million".into(), profile)]);
}

#[test]
fn a_narrower_last_band_is_recognized_although_surfaces_differ_little_from_cylinders() {
    let mut cases = Vec::new();
    // By 0.035 revolutions a boundary seems to be as predicted, by 0.01 a track too. With three
    // rows of 80, no track is off by more than one such difference.
    for (heads, further, last) in [(7, 0.035, 55), (10, 0.01, 55), (3, 0.012, 80)] {
        let mut profile = small("cheetah10k7@nocache", heads, 2, 5 * 120 + last);
        profile.geometry.band_cylinders = Some(120);
        for zone in &mut profile.zones {
            let sectors = f64::from(zone.sectors_per_track);
            zone.cylinder_skew = (0.09 * sectors).round();
            zone.track_skew = zone.cylinder_skew + (further * sectors).round();
            zone.band_skew = None;
        }
        cases.push((format!("{heads} heads, {further} revolutions"), profile));
    }
    expect_recognized(&cases);
}

#[test]
fn bands_whose_surfaces_have_the_step_of_a_cylinder_are_recognized() {
    let mut cases = Vec::new();
    // The band shows by its spares alone, or by its step; never the number of surfaces.
    for (heads, band, further, spares) in [(16, 150, 0.0, 135), (6, 17, 0.02, 18)] {
        let mut profile = small("cheetah10k7@nocache", heads, 2, 4 * band);
        profile.geometry.layout = TrackOrder::Banded;
        profile.geometry.band_cylinders = Some(band);
        for zone in &mut profile.zones {
            let sectors = f64::from(zone.sectors_per_track);
            zone.cylinder_skew = (0.1 * sectors).round();
            zone.track_skew = zone.cylinder_skew;
            zone.band_skew = Some(zone.cylinder_skew + (further * sectors).round());
            (zone.spares, zone.spare_cylinders) = (spares, Some(band));
            if further == 0.0 {
                zone.slips = (0..6).map(|slip| 200_000 + 7_000 * slip).collect();
            }
        }
        cases.push((format!("{heads} heads, bands of {band}"), profile));
    }
    expect_predicted(&cases);
}

#[test]
fn rows_of_many_tracks_are_recognized_although_many_sectors_are_slipped() {
    for (heads, band, reserved, apart) in [(6, 43, 7, 2_850), (5, 233, 0, 5_800)] {
        let mut profile = in_rows(heads, 2, band, 4);
        for zone in &mut profile.zones {
            slip_one_in(apart, heads, zone);
            zone.spares = zone.slips.len() as u64;
        }
        profile.zones[0].reserved = reserved * u64::from(profile.zones[0].sectors_per_track);
        let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
        let finding = characterize(&profile, truth, 1);
        let case = format!("rows of {heads} x {band} tracks, a slip in {apart}");
        // All surfaces of a band are one row.
        let found = finding.profile.expect("a profile").geometry.band_cylinders;
        assert_eq!(found, Some(u32::from(heads) * band), "{case}");
        let within = finding.check.expect("a check").within_50_us;
        assert!(within >= 0.975, "{case}: {within} within 50 us");
    }
}

#[test]
fn rows_with_spares_of_their_own_are_recognized_although_many_sectors_are_slipped() {
    let (heads, band) = (7, 150);
    let mut profile = in_rows(heads, 3, band, 3);
    for zone in &mut profile.zones {
        slip_one_in(5_000, heads, zone);
        (zone.spares, zone.spare_cylinders) = (240, Some(band));
    }
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let finding = characterize(&profile, truth, 1);
    let groups: Vec<_> = finding
        .profile
        .iter()
        .flat_map(|found| found.zones.iter().map(|zone| (zone.spares, zone.group_sectors(1))))
        .collect();
    let within = finding.check.expect("a check").within_50_us;
    assert!(within >= 0.975, "{within} within 50 us, groups {groups:?}");
    assert_eq!(groups.len(), 3, "{groups:?}");
}

#[test]
fn long_rows_are_recognized_although_few_slips_distort_the_common_step() {
    let (heads, band) = (16, 276);
    let mut profile = in_rows(heads, 1, band, 5);
    // With the tracks that the drive keeps, a count costs too much to be made at each reading.
    profile.cache = catalog::load("cheetah10k7").expect("a profile that ships").cache;
    let cache = profile.cache.as_mut().expect("a cache");
    (cache.segments, cache.whole_track, cache.read_ahead_sectors) = (4, true, 0);
    let zone = &mut profile.zones[0];
    (zone.spares, zone.spare_cylinders) = (11, Some(band));
    zone.slips =
        [74, 192, 536, 959, 1_340, 2_757, 2_819, 3_160, 4_215].map(|slip| 1_000 * slip).into();
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let finding = characterize(&profile, truth, 1);
    let found = finding.profile.expect("a profile").geometry.band_cylinders;
    // All surfaces of a band are one row.
    assert_eq!(found, Some(u32::from(heads) * band));
    let within = finding.check.expect("a check").within_50_us;
    assert!(within >= 0.975, "{within} within 50 us");
}

#[test]
fn rows_are_recognized_in_the_second_zone_if_the_first_has_less_than_two() {
    let (heads, band) = (40, 264);
    let mut profile = in_rows(heads, 3, band, 2);
    profile.zones[0].cylinders = 500;
    profile.zones[1].first_cylinder = 500;
    profile.zones[2].first_cylinder = 500 + 2 * band;
    let sectors = u64::from(profile.zones[0].sectors_per_track);
    profile.zones[0].reserved = 35 * sectors;
    expect_predicted(&[("rows of 10,560 tracks, 35 of them reserved".into(), profile)]);
}

#[test]
fn rows_are_recognized_if_the_first_zone_ends_in_the_third() {
    let (heads, band) = (5, 142);
    let mut profile = in_rows(heads, 2, band, 4);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        zone.cylinders = 2 * band + 80;
        zone.first_cylinder = number * zone.cylinders;
        (zone.spares, zone.spare_cylinders) = (9, Some(band));
    }
    profile.zones[0].reserved = u64::from(profile.zones[0].sectors_per_track);
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let found = characterize(&profile, truth, 1).profile.expect("a profile");
    assert_eq!(found.geometry.band_cylinders, Some(u32::from(heads) * band));
}

#[test]
fn groups_of_spares_are_not_slips_where_all_steps_are_alike() {
    let (heads, band) = (4, 101);
    let mut profile = in_rows(heads, 2, band, 26);
    for zone in &mut profile.zones {
        zone.band_skew = Some(zone.cylinder_skew);
        (zone.spares, zone.spare_cylinders) = (29, Some(band));
    }
    profile.zones[0].reserved = 7 * u64::from(profile.zones[0].sectors_per_track);
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let finding = characterize(&profile, truth, 1);
    let found = finding.profile.expect("a profile");
    let groups: Vec<_> = found.zones.iter().map(|zone| zone.group_sectors(1)).collect();
    assert!(found.zones.iter().all(|zone| zone.spares == 29), "groups of {groups:?}");
    assert_eq!(found.zones.len(), 2);
}

#[test]
fn rows_with_spares_are_recognized_in_time() {
    let mut profile = in_rows(2, 2, 45, 80);
    profile.cache = catalog::load("cheetah10k7").expect("a profile that ships").cache;
    profile.cache.as_mut().expect("a cache").segments = 4;
    for zone in &mut profile.zones {
        (zone.spares, zone.spare_cylinders) = (33, Some(45));
    }
    profile.zones[0].reserved = 5 * u64::from(profile.zones[0].sectors_per_track);
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let found = characterize(&profile, truth.clone(), 1).profile.expect("a profile");
    let alike = tracks_alike(&found, truth.mechanism().layout(), 1);
    assert!(alike >= 0.99, "{alike} of the tracks");
}

#[test]
fn zones_that_end_with_a_narrower_band_are_kept_whole_where_nothing_shows_the_surfaces() {
    const ZONES: usize = 6;
    let mut profile = small("cheetah10k7@nocache", 6, ZONES, 0);
    profile.geometry.layout = TrackOrder::Banded;
    profile.geometry.band_cylinders = Some(17);
    let mut first = 0;
    for (number, zone) in (0..).zip(&mut profile.zones) {
        // Two bands, spares and a narrower band; or one band and a narrower one.
        (zone.first_cylinder, zone.cylinders) = (first, [45, 28][number % 2]);
        first += zone.cylinders;
        let sectors = f64::from(zone.sectors_per_track);
        zone.cylinder_skew = (0.1 * sectors).round();
        zone.track_skew = zone.cylinder_skew;
        zone.band_skew = Some(zone.cylinder_skew + (0.035 * sectors).round());
        (zone.spares, zone.spare_cylinders) = (18, Some(34));
    }
    let truth = DriveTruth::nominal(&profile, 1).expect("a drive");
    let found = characterize(&profile, truth.clone(), 1).profile.expect("a profile");
    assert_eq!(found.zones.len(), ZONES);
    let alike = tracks_alike(&found, truth.mechanism().layout(), 1);
    assert!(alike >= 0.99, "{alike} of the tracks");
}

#[test]
fn a_drive_that_keeps_many_whole_tracks_is_recognized_in_time() {
    let mut profile = small("deskstar34gxp", 4, 8, 300);
    for (number, zone) in (0..).zip(&mut profile.zones) {
        (zone.spares, zone.reserved) = (500, 5 * u64::from(zone.sectors_per_track));
        zone.reserved *= u64::from(number > 0);
    }
    let cache = profile.cache.as_mut().expect("a cache");
    (cache.segments, cache.segment_sectors) = (60, 1_000);
    (cache.whole_track, cache.read_ahead_sectors) = (true, 0);
    // With an eviction for each reading, five minutes are not enough for the zones.
    expect_recognized(&[("60 tracks kept".into(), profile)]);
}
