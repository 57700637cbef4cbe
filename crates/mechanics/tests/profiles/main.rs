//! Profiles: what ships agrees with its sources, text and profile agree.

#[path = "../common/mod.rs"]
mod common;
mod texts;

use common::{catalog_profiles, for_drawn_drives};
use headtime_mechanics::profile::Algorithm;
use headtime_mechanics::{DriveProfile, Layout, Mechanism, ProfileError, catalog};
use headtime_units::RotationPeriod;
use texts::GOOD;

/// First and last LBA of each zone of the Atlas 10K, as DiskSim lays it out.
const ATLAS_ZONES: [(u64, u64); 24] = [
    (0, 867_642),
    (867_643, 1_701_222),
    (1_701_223, 2_534_799),
    (2_534_800, 3_358_970),
    (3_358_971, 4_167_590),
    (4_167_591, 4_976_209),
    (4_976_210, 5_784_829),
    (5_784_830, 6_608_993),
    (6_608_994, 7_417_610),
    (7_417_611, 8_226_229),
    (8_226_230, 9_034_848),
    (9_034_849, 9_813_233),
    (9_813_234, 10_576_920),
    (10_576_921, 11_330_624),
    (11_330_625, 12_061_879),
    (12_061_880, 12_794_466),
    (12_794_467, 13_513_242),
    (13_513_243, 14_212_045),
    (14_212_046, 14_885_899),
    (14_885_900, 15_552_361),
    (15_552_362, 16_188_775),
    (16_188_776, 16_802_731),
    (16_802_732, 17_394_223),
    (17_394_224, 17_966_952),
];

fn atlas() -> DriveProfile {
    catalog::load("atlas10k").expect("a shipped profile is valid")
}

fn zone_ranges(profile: &DriveProfile) -> Vec<(u64, u64)> {
    let layout = Layout::new(profile).expect("a shipped profile has a layout");
    layout.zones().map(|zone| (zone.extent.start.get(), zone.extent.last().get())).collect()
}

#[test]
fn the_atlas_10k_maps_each_zone_where_the_recording_does() {
    let profile = atlas();
    assert_eq!(zone_ranges(&profile), ATLAS_ZONES);
    let layout = Layout::new(&profile).expect("a shipped profile has a layout");
    assert_eq!((layout.mapped().get(), layout.capacity().get()), (17_966_953, 17_938_986));
    assert_eq!((layout.cylinders(), layout.heads()), (10_042, 6));
    assert_eq!(profile.zones.iter().map(|zone| zone.slips.len()).sum::<usize>(), 64);
}

#[test]
fn the_atlas_10k_agrees_with_the_extracted_facts_file_where_it_is_present() {
    let Some(folder) = std::env::var_os("HEADTIME_DRIVES") else {
        eprintln!(
            "skipped: HEADTIME_DRIVES is not set, so there is no atlas10k_facts.md to compare with"
        );
        return;
    };
    let path = std::path::Path::new(&folder).join("atlas10k_facts.md");
    let Ok(facts) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} cannot be read", path.display());
        return;
    };
    let profile = atlas();
    let mut rows = 0;
    for cells in facts
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 14)
    {
        let Ok(number) = cells[1].parse::<usize>() else { continue };
        let zone = &profile.zones[number];
        let pair = |text: &str, by: &str| -> (u64, u64) {
            let (first, last) = text.split_once(by).expect("a range");
            (first.parse().expect("a number"), last.parse().expect("a number"))
        };
        assert_eq!(
            pair(cells[2], "-"),
            (u64::from(zone.first_cylinder), u64::from(zone.first_cylinder + zone.cylinders - 1)),
            "zone {number}"
        );
        let figures: Vec<u64> =
            [3, 4, 5, 8].iter().map(|cell| cells[*cell].parse().expect("a number")).collect();
        assert_eq!(
            figures,
            [
                u64::from(zone.sectors_per_track),
                zone.track_skew as u64,
                zone.cylinder_skew as u64,
                zone.spares
            ],
            "zone {number}"
        );
        assert_eq!(pair(cells[9], ".."), zone_ranges(&profile)[number], "zone {number}");
        let slips: Vec<u64> =
            cells[12].split(',').filter_map(|slip| slip.trim().parse().ok()).collect();
        assert_eq!(slips, zone.slips, "zone {number}");
        rows += 1;
    }
    assert_eq!(rows, 24, "the facts have a table of 24 zones");
    let curve = facts
        .split("## Read seek curve")
        .nth(1)
        .and_then(|rest| rest.split("Outliers").next())
        .expect("the facts have a seek curve");
    let points: Vec<(u32, f64)> = curve
        .split([',', '\n'])
        .filter_map(|point| point.trim().split_once(": "))
        .filter_map(|(distance, ms)| Some((distance.parse().ok()?, ms.parse().ok()?)))
        .collect();
    assert_eq!(points, profile.seek.points);
}

#[test]
fn the_atlas_10k_seeks_as_long_on_average_as_was_measured_with_its_model() {
    // dsbox, 200,000 random reads: 5.551 ms.
    let mean = Mechanism::nominal(&atlas())
        .expect("a shipped profile is valid")
        .mean_arm_time()
        .as_ms_f64();
    assert!((mean - 5.551).abs() < 0.02, "{mean} ms");
    assert_eq!(atlas().rotation_period().ok(), RotationPeriod::from_rpm(10_025.0));
}

#[test]
fn the_20_tb_drive_is_what_its_class_is() {
    let profile = catalog::load("nearline-20tb").expect("a shipped profile is valid");
    let mechanism = Mechanism::nominal(&profile).expect("a shipped profile is valid");
    let bytes = mechanism.layout().sector_size().bytes_of(mechanism.layout().capacity());
    assert_eq!(bytes, 20_000_588_955_648);
    assert_eq!((mechanism.layout().heads(), profile.physical_sector_bytes), (20, Some(4_096)));
    let mean = mechanism.mean_arm_time().as_ms_f64();
    assert!((7.8..8.2).contains(&mean), "mean seek {mean} ms");
    assert!((0.25..0.3).contains(&mechanism.seek_curve().time(1).as_ms_f64()));
    let streaming = |zone: usize| {
        let zone = &profile.zones[zone];
        f64::from(zone.sectors_per_track) * 512.0
            / (mechanism.period().as_ns_f64() / 1e9
                * (f64::from(zone.sectors_per_track) + zone.cylinder_skew)
                / f64::from(zone.sectors_per_track))
            / 1e6
    };
    assert!((streaming(0) - 285.0).abs() < 1.0, "outside {} MB/s", streaming(0));
    assert!((streaming(23) / streaming(0) - 0.5).abs() < 0.01, "inside {} MB/s", streaming(23));
}

#[test]
fn the_recorded_setup_replaces_bus_overheads_queue_and_cache_and_nothing_else() {
    let (profile, recorded) =
        (atlas(), catalog::load("atlas10k@recorded").expect("a shipped setup is valid"));
    assert_eq!(recorded.name, "atlas10k@recorded");
    assert_eq!((recorded.firmware.queue_depth, recorded.firmware.algorithm), (1, Algorithm::Fcfs));
    assert_eq!(
        (recorded.interface.write_command_us, recorded.interface.write_after_write_us),
        (344.92, Some(496.73))
    );
    assert!(
        profile.cache.is_none()
            && recorded.cache.is_some_and(|cache| cache.whole_track && cache.segments == 10)
    );
    let same = DriveProfile {
        name: profile.name.clone(),
        interface: profile.interface,
        firmware: profile.firmware,
        cache: profile.cache,
        ..recorded
    };
    assert_eq!(same, profile);
}

#[test]
fn a_setup_replaces_each_key_that_it_names_and_no_other() {
    let keys = [
        ("read_command_us", "interface"),
        ("write_command_us", "interface"),
        ("read_after_write_us", "interface"),
        ("write_after_write_us", "interface"),
        ("completion_us", "interface"),
        ("bus_mb_per_s", "interface"),
        ("queue_depth", "firmware"),
    ];
    for (key, section) in keys {
        let text = GOOD.replace(
            "[setup.slow.interface]\nbus_mb_per_s = 5\n",
            &format!("[setup.slow.{section}]\n{key} = 77\n"),
        );
        let base = DriveProfile::from_toml("exos.toml", &text).expect("the setup is valid");
        let mut expected = base.clone();
        expected.name = "exos@slow".to_string();
        match key {
            "read_command_us" => expected.interface.read_command_us = 77.0,
            "write_command_us" => expected.interface.write_command_us = 77.0,
            "read_after_write_us" => expected.interface.read_after_write_us = Some(77.0),
            "write_after_write_us" => expected.interface.write_after_write_us = Some(77.0),
            "completion_us" => expected.interface.completion_us = 77.0,
            "bus_mb_per_s" => expected.interface.bus_mb_per_s = 77.0,
            _ => expected.firmware.queue_depth = 77,
        }
        assert_eq!(base.with_setup("slow"), Ok(expected), "{key}");
    }
}

#[test]
fn every_shipped_profile_carries_its_catalog_name_and_says_where_each_figure_is_from() {
    for entry in catalog::CATALOG {
        let profile = entry.load().expect("a shipped profile is valid");
        assert_eq!(profile.name, entry.name);
        // Rows of tables are sourced by the comment above them.
        let zones_start = entry.toml.find("[[zone]]").expect("a profile has zones");
        for line in entry.toml[..zones_start]
            .lines()
            .filter(|line| line.contains('=') && !line.starts_with('#'))
        {
            let figure = line
                .split('=')
                .nth(1)
                .is_some_and(|value| value.trim().starts_with(|c: char| c.is_ascii_digit()));
            let exempt = line.starts_with("capacity_sectors");
            assert!(
                !figure || exempt || line.contains('#'),
                "{}: `{line}` has no source",
                entry.name
            );
        }
    }
}

#[test]
fn unknown_profiles_and_setups_are_refused_with_those_there_are() {
    let message =
        |name: &str| catalog::load(name).expect_err("there is no such profile").to_string();
    let mut known: Vec<&str> = catalog::CATALOG.iter().map(|entry| entry.name).collect();
    known.extend(["drawn-SEED", "worn-SEED", "varied-SEED"]);
    assert_eq!(
        message("atlas"),
        format!("no profile is called `atlas`; known are: {}", known.join(", "))
    );
    for entry in catalog::CATALOG {
        let profile = entry.load().expect("a shipped profile is valid");
        let setups: Vec<&str> = profile.setup.keys().map(String::as_str).collect();
        let setups = if setups.is_empty() { "none".to_string() } else { setups.join(", ") };
        let name = entry.name;
        assert_eq!(
            message(&format!("{name}@no-such")),
            format!("profile {name} has no setup `no-such`; it has: {setups}")
        );
    }
}

#[test]
fn a_profile_written_and_read_again_is_the_same_profile() {
    for profile in catalog_profiles() {
        let again = DriveProfile::from_toml(&profile.name, &profile.to_toml())
            .expect("a written profile can be read");
        assert_eq!(again, profile);
    }
    for_drawn_drives("a_profile_written_and_read_again_is_the_same_profile", 300, |_, profile| {
        profile.validate().expect("a drawn profile is valid");
        let again = DriveProfile::from_toml("drawn", &profile.to_toml())
            .expect("a written profile can be read");
        assert_eq!(again, profile);
    });
}

#[test]
fn a_profile_changed_in_memory_is_checked_again_by_constructors() {
    let mut profile = atlas();
    profile.zones[3].first_cylinder = 1;
    let expected = ProfileError::ZoneStart {
        profile: "atlas10k".to_string(),
        zone: 3,
        starts: 1,
        expected: 1_265,
    };
    assert_eq!(Layout::new(&profile).err(), Some(expected.clone()));
    assert_eq!(Mechanism::nominal(&profile).err(), Some(expected));
}
