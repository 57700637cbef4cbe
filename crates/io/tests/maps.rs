//! Latency maps as beliefs of drives in one process: shared between identical drives, refused by
//! others.

use std::path::Path;

use headtime_belief::maps::{KeptMap, MapKind, MapSettings};
use headtime_belief::matrix::{MatrixSettings, SharedMatrix};
use headtime_io::{
    Drive, DriveOptions, Io, LoadMapError, Locator, MapLoad, MapLoading, MapStart, ModelChoice,
    NoMap, OpenError, PolicyChoice, RunningMap,
};
use headtime_units::{ByteSize, Extent};

/// Four mebibytes at 60,000 rpm.
const SMALL: &str = r#"
name = "small"
model = "SMALL 60K"
sector_bytes = 512
capacity_sectors = 8192

[rotation]
rpm = 60000

[geometry]
heads = 1
layout = "cylinder"

[seek]
head_switch_ms = 0.05
write_settle_ms = 0.01

[seek.formula]
short_ms = 0.4
short_sqrt_ms = 0.01
long_from = 400
long_ms = 0.5
long_us_per_cylinder = 0.1

[interface]
read_command_us = 5.0
write_command_us = 5.0
completion_us = 5.0
bus_mb_per_s = 2000.0

[firmware]
queue_depth = 4
algorithm = "fcfs"

[[zone]]
first_cylinder = 0
cylinders = 64
sectors_per_track = 128
track_skew = 40
cylinder_skew = 60
"#;

fn settings() -> MapSettings {
    let matrix = MatrixSettings { cell: ByteSize::new(64 << 10), ..MatrixSettings::default() };
    MapSettings { matrix, memory: ByteSize::new(8 << 20), ..MapSettings::default() }
}

fn open(folder: &Path, unit: u32, belief: ModelChoice) -> Result<Drive, OpenError> {
    let profile = folder.join("small.toml");
    std::fs::write(&profile, SMALL).expect("the folder is ours");
    let text = format!(
        "emulated:{}?backing={}&seed={unit}",
        profile.display(),
        folder.join(format!("{unit}.img")).display()
    );
    let policy = PolicyChoice::parse("fcfs").expect("a policy");
    let options = DriveOptions {
        belief: belief.with(settings()),
        policy,
        outstanding: Some(1),
        ..DriveOptions::default()
    };
    Drive::open(&Locator::parse(&text).expect("a locator"), options)
}

/// Reads at scattered locations, one read directly after the other.
fn read(drive: &Drive, requests: u64) {
    let started: Vec<_> = (0..requests)
        .map(|number| {
            drive
                .handle()
                .start(Io::read(Extent::from_numbers(number * 5 % 16 * 500, 8)))
                .expect("there is room")
        })
        .collect();
    started.into_iter().for_each(|pending| assert!(pending.wait().result.is_ok()));
}

fn shared(drive: &Drive) -> SharedMatrix {
    match drive.handle().map().expect("it uses one") {
        RunningMap::Matrix(shared) => shared,
        RunningMap::Compact(_) => panic!("it is a matrix"),
    }
}

#[test]
fn identical_drives_share_what_each_learns() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = open(folder.path(), 1, ModelChoice::map(MapKind::Matrix, MapStart::Again))
        .expect("it can be mapped");
    let map = shared(&one);
    let other =
        open(folder.path(), 2, ModelChoice::map(MapKind::Matrix, MapStart::Shared(map.clone())))
            .expect("it is of the same model");
    read(&one, 48);
    let known = map.inspect(|map| map.known());
    assert!(known > 4, "{known} pairs");
    assert_eq!(
        shared(&other).inspect(|map| map.known()),
        known,
        "what the one has learned the other knows"
    );
    let kept = one.handle().map().expect("it uses one").keep();
    read(&other, 24);
    let learned = map.inspect(|map| map.observations());
    assert!(learned > 0);
    // What replaces it replaces it for both.
    assert_eq!(other.handle().load_map(kept.clone(), MapLoading::Replace), Ok(MapLoad::Replaced));
    assert_eq!(shared(&one).inspect(|map| map.known()), known);
    assert!(matches!(
        one.handle().load_map(kept, MapLoading::Merge),
        Ok(MapLoad::Merged(merged)) if merged.new == 0 && merged.kept == known
    ));
    // A drive of another size is another drive, whatever it is called.
    let memory = Locator::parse("memory:1MiB").expect("a locator");
    let options = DriveOptions {
        belief: ModelChoice::map(MapKind::Matrix, MapStart::Shared(map)),
        ..DriveOptions::default()
    };
    let refused = Drive::open(&memory, options).map(drop).expect_err("another drive").to_string();
    assert!(refused.contains("SMALL 60K") && refused.contains("'memory'"), "{refused}");
    assert!(one.shutdown().is_clean() && other.shutdown().is_clean());
}

/// The belief is exchanged while requests wait and commands are at the drive; each is answered
/// once.
#[test]
fn a_map_is_loaded_while_requests_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let drive = open(folder.path(), 1, ModelChoice::map(MapKind::Compact, MapStart::Again))
        .expect("it can be mapped");
    let kept = drive.handle().map().expect("it uses one").keep();
    let handle = drive.handle();
    let started: Vec<_> = (0..40_u64)
        .map(|number| {
            handle
                .start(Io::read(Extent::from_numbers(number * 7 % 16 * 500, 8)))
                .expect("there is room")
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(handle.load_map(kept.clone(), MapLoading::Replace), Ok(MapLoad::Replaced));
        handle.set_policy(PolicyChoice::parse("satf-map").expect("a policy")).expect("it is open");
    }
    assert_eq!(handle.load_map(kept, MapLoading::Merge), Err(LoadMapError::NotMerged));
    started.into_iter().for_each(|pending| assert!(pending.wait().result.is_ok()));
    let KeptMap::Compact(map) = drive.handle().map().expect("it uses one").keep() else {
        panic!("it is a compact map")
    };
    assert!(map.is_of_profile());
    assert!(drive.shutdown().is_clean());
    let plain = open(folder.path(), 1, ModelChoice::default()).expect("a profile");
    assert_eq!(plain.handle().map().err(), Some(NoMap::NoMapModel { by: "profile" }));
    assert!(plain.shutdown().is_clean());
}
