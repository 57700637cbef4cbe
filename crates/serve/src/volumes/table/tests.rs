//! Volumes that come, change and go, in tables of made-up drives.

use headtime_units::SectorSize;

use super::*;

const MIB: u64 = 1 << 20;

fn table(mebibytes: u64) -> VolumeTable {
    VolumeTable::empty(
        DriveUuid([7; 16]),
        DriveShape { sector: SectorSize::B512, capacity: Sectors::new(mebibytes * 2048) },
    )
}

fn spec(name: &str, bytes: u64) -> VolumeSpec {
    VolumeSpec {
        name: name.to_string(),
        size: Some(ByteSize::new(bytes)),
        settings: SettingsChange::default(),
    }
}

#[test]
fn the_first_hole_that_is_large_enough_is_taken() {
    let mut table = table(100);
    for (name, size) in [("a", 10), ("b", 5), ("c", 20)] {
        assert_eq!(table.ensure(&spec(name, size * MIB)), Ok(Ensured::Created));
    }
    table.remove("b").unwrap();
    assert_eq!(table.ensure(&spec("large", 6 * MIB)), Ok(Ensured::Created));
    assert_eq!(table.ensure(&spec("small", 4 * MIB)), Ok(Ensured::Created));
    let starts: Vec<(&str, u64)> = table
        .volumes()
        .iter()
        .map(|volume| (volume.name.as_str(), volume.extents.start().get() / 2048))
        .collect();
    assert_eq!(starts, [("a", 1), ("small", 11), ("c", 16), ("large", 36)]);
    assert_eq!(table.find("small").unwrap().id, VolumeId(5), "the number of b is not reused");
    table.check().unwrap();
}

#[test]
fn a_volume_that_exists_is_reused_or_changed_and_keeps_its_size() {
    let mut table = table(100);
    table.ensure(&spec("rec", 10 * MIB)).unwrap();
    assert_eq!(table.ensure(&spec("rec", 10 * MIB)), Ok(Ensured::Reused));
    let mut changed = VolumeSpec { size: None, ..spec("rec", 0) };
    changed.settings.deadline = Some(Some(Nanos::from_ms(100)));
    assert_eq!(table.ensure(&changed), Ok(Ensured::Changed));
    assert_eq!(table.find("rec").unwrap().settings.ordinary.deadline, Some(Nanos::from_ms(100)));
    let before = table.clone();
    assert_eq!(table.ensure(&spec("rec", 20 * MIB)), Ok(Ensured::Reused));
    assert_eq!(
        table.kept_size_note(&spec("rec", 20 * MIB)).unwrap(),
        "rec keeps its size on the drive of 10 MiB (10485760 bytes); the requested size of 20 MiB \
            (20971520 bytes) counts for a new volume only. Request 10485760 bytes or leave the \
            size out, or resize the volume while it is served (`headtime volume grow rec 20971520`)"
    );
    let smaller = table.kept_size_note(&spec("rec", MIB)).unwrap();
    assert!(smaller.contains("volume set rec size=1048576 --cut-data"), "{smaller}");
    assert_eq!(table, before);
}

#[test]
fn refusals_say_what_is_possible() {
    let mut table = table(100);
    table.ensure(&spec("a", 50 * MIB)).unwrap();
    table.ensure(&spec("b", 9 * MIB)).unwrap();
    table.remove("a").unwrap();
    let text =
        |table: &mut VolumeTable, spec: VolumeSpec| table.ensure(&spec).unwrap_err().to_string();
    assert_eq!(
        text(&mut table, spec("c", 90 * MIB)),
        "volume c: 90 MiB (94371840 bytes) does not fit: 89 MiB is free on the drive, and a \
            volume has at most 8 extents, so it can have at most 93323264 bytes; request \
            that, or remove or shrink other volumes first"
    );
    assert_eq!(
        text(&mut table, VolumeSpec { size: None, ..spec("c", 0) }),
        "volume c does not exist; give a size to create it, such as c=10GiB; the drive has the \
            volumes b"
    );
    for name in ["", "a b", "ä", "../x", "-x", ".x", &"x".repeat(65)] {
        assert_eq!(
            table.ensure(&spec(name, MIB)),
            Err(VolumeError::Name { name: name.to_string() }),
            "{name}"
        );
    }
    assert!(matches!(table.ensure(&spec("c", 0)), Err(VolumeError::Empty { .. })));
}

#[test]
fn sizes_are_rounded_up_to_whole_sectors() {
    let mut table = table(100);
    let odd = spec("a", 10_000_000);
    assert_eq!(table.ensure(&odd), Ok(Ensured::Created));
    let size = |table: &VolumeTable| table.size_of(table.find("a").unwrap()).get();
    assert_eq!(size(&table), 10_000_384);
    assert_eq!(table.ensure(&odd), Ok(Ensured::Reused), "the same after a restart");
    assert_eq!(table.kept_size_note(&odd), None);
    let other = spec("a", 10_000_385);
    assert_eq!((table.ensure(&other), size(&table)), (Ok(Ensured::Reused), 10_000_384));
    let note = table.kept_size_note(&other).unwrap();
    assert!(note.contains("keeps its size") && note.contains("volume grow a 10000385"), "{note}");
    table.change(&spec("a", 20_000_001), false).unwrap();
    assert_eq!(size(&table), 20_000_256);
    table.change(&spec("a", 20_000_000), false).expect("nothing is cut off");
    assert_eq!(size(&table), 20_000_256);
}

#[test]
fn a_full_drive_and_a_full_table_are_refused() {
    let mut small = table(3);
    small.ensure(&spec("a", MIB)).unwrap();
    assert_eq!(small.free(), FreeSpace::default());
    assert!(matches!(small.ensure(&spec("b", 512)), Err(VolumeError::NoSpace { .. })));
    let mut many = table(4096);
    for index in 0..slot::MAX_ENTRIES {
        many.ensure(&spec(&format!("v{index}"), 512)).unwrap();
    }
    assert_eq!(
        many.ensure(&spec("more", 512)),
        Err(VolumeError::TooMany { name: "more".to_string() })
    );
    many.check().unwrap();
}

#[test]
fn a_table_that_breaks_an_invariant_is_found_out() {
    let volume = |id: u32, name: &str, start: u64, len: u64| Volume {
        id: VolumeId(id),
        name: name.to_string(),
        extents: Extent::from_numbers(start, len).into(),
        settings: VolumeSettings::default(),
    };
    let shape = DriveShape { sector: SectorSize::B512, capacity: Sectors::new(20_480) };
    let check = |volumes: Vec<Volume>| {
        VolumeTable::from_parts(VolumeOrigin::Own, DriveUuid([0; 16]), shape, 10, volumes)
            .map(|_| ())
    };
    assert_eq!(check(vec![volume(1, "a", 2048, 2048), volume(2, "b", 4096, 5)]), Ok(()));
    assert!(matches!(
        check(vec![volume(1, "a", 2048, 2049), volume(2, "b", 4096, 5)]),
        Err(TableError::Overlap { .. })
    ));
    assert!(matches!(
        check(vec![volume(1, "a", 2048, 1), volume(1, "b", 4096, 5)]),
        Err(TableError::Twice { .. })
    ));
    assert!(matches!(
        check(vec![volume(1, "a", 2048, 1), volume(2, "a", 4096, 5)]),
        Err(TableError::Twice { .. })
    ));
    assert!(matches!(check(vec![volume(10, "a", 2048, 1)]), Err(TableError::Number { .. })));
    assert!(matches!(check(vec![volume(0, "a", 2048, 1)]), Err(TableError::Number { .. })));
    let apart = |extents: Vec<Extent>| {
        let volume = volume(1, "a", 2048, 2048);
        check(vec![Volume { extents: Extents::new(extents), ..volume }])
    };
    let extent = Extent::from_numbers;
    assert_eq!(apart(vec![extent(8192, 2048), extent(2048, 5)]), Ok(()));
    assert!(matches!(
        apart(vec![extent(8192, 5), extent(2048, 2048)]),
        Err(TableError::Extent { .. })
    ));
    assert!(matches!(
        apart(vec![extent(2048, 4096), extent(4096, 5)]),
        Err(TableError::Overlap { .. })
    ));
    let nine = (1..10).map(|nth| extent(nth * 2048, 2048)).collect();
    assert!(matches!(apart(nine), Err(TableError::Extents { count: 9, .. })));
    for (start, len) in [(0, 1), (2049, 1), (2048, 0), (2048, 20_000), (2048, u64::MAX)] {
        assert!(
            matches!(check(vec![volume(1, "a", start, len)]), Err(TableError::Extent { .. })),
            "{start} {len}"
        );
    }
}

#[test]
fn a_volume_grows_into_free_space_and_shrinks_only_with_permission() {
    let mut table = table(100);
    for (name, size) in [("a", 10), ("b", 5), ("c", 20)] {
        table.add(&spec(name, size * MIB)).unwrap();
    }
    table.remove("b").unwrap();
    let size =
        |table: &VolumeTable, name: &str| table.size_of(table.find(name).unwrap()).get() / MIB;
    table.change(&spec("a", 15 * MIB), false).unwrap();
    assert_eq!(size(&table, "a"), 15);
    let before = table.clone();
    assert_eq!(
        table.change(&spec("a", 79 * MIB), true).unwrap_err().to_string(),
        "volume a cannot grow to 79 MiB (82837504 bytes): 63 MiB is free on the drive, and a \
            volume has at most 8 extents, so it can have at most 81788928 bytes; request \
            that, or remove or shrink other volumes first"
    );
    assert!(matches!(table.change(&spec("a", 14 * MIB), false), Err(VolumeError::Cuts { .. })));
    assert!(matches!(table.change(&spec("a", 0), true), Err(VolumeError::Empty { .. })));
    assert!(matches!(table.change(&spec("x", MIB), true), Err(VolumeError::Unknown { .. })));
    assert!(matches!(table.add(&spec("a", MIB)), Err(VolumeError::Exists { .. })));
    assert_eq!(table, before, "invalid changes change nothing");
    table.change(&spec("a", 3 * MIB), true).unwrap();
    table.change(&spec("c", 83 * MIB), false).unwrap();
    assert_eq!(
        (size(&table, "a"), size(&table, "c"), table.free().longest.get() / MIB),
        (3, 83, 12)
    );
    table.check().unwrap();
}

/// A table of 100 MiB with volumes of these names, sizes in MiB, one after the other.
fn filled(volumes: &[(&str, u64)]) -> VolumeTable {
    let mut table = table(100);
    for (name, size) in volumes {
        table.add(&spec(name, size * MIB)).unwrap();
    }
    table
}

/// The extents of a volume in MiB.
fn extents(table: &VolumeTable, name: &str) -> Vec<(u64, u64)> {
    let extents = table.find(name).unwrap().extents.clone();
    let mib = |extent: &Extent| (extent.start.get() / 2048, extent.len.get() / 2048);
    extents.as_slice().iter().map(mib).collect()
}

#[test]
fn a_volume_grows_after_its_end_first_then_to_the_closest_extent_that_is_long_enough() {
    let mut table =
        filled(&[("a", 10), ("x", 5), ("b", 1), ("y", 20), ("c", 1), ("z", 8), ("d", 1)]);
    for name in ["x", "y", "z"] {
        table.remove(name).unwrap();
    }
    let mut extend = |name: &str, size: u64| {
        table.change(&spec(name, size), false).unwrap();
        table.check().unwrap();
        extents(&table, name)
    };
    // After an odd end, its mebibyte is filled up before anything else.
    assert_eq!(extend("a", 10 * MIB + 512), [(1, 10)]);
    assert_eq!(extend("a", 21 * MIB), [(1, 15), (17, 6)], "the closest with 6 MiB");
    assert_eq!(extend("a", 22 * MIB), [(1, 15), (17, 7)], "after its end");
    assert_eq!(extend("d", 60 * MIB), [(46, 53), (38, 7)]);
    // No free extent has 14 MiB.
    assert_eq!(extend("a", 36 * MIB), [(1, 15), (17, 20), (45, 1)]);
    let free = table.free();
    assert_eq!(free, FreeSpace::default());
    table.remove("a").unwrap();
    assert_eq!(table.free().total, ByteSize::new(36 * MIB), "all of its extents are free");
    table.change(&spec("d", 10 * MIB), true).unwrap();
    assert_eq!(extents(&table, "d"), [(46, 10)], "a shrinking volume gives back its last ones");
}

#[test]
fn a_new_volume_has_several_extents_only_if_none_is_long_enough() {
    let mut table = filled(&[("a", 10), ("b", 1), ("c", 20), ("d", 1), ("e", 66)]);
    for name in ["a", "c"] {
        table.remove(name).unwrap();
    }
    let mut with = table.clone();
    with.add(&spec("new", 20 * MIB)).unwrap();
    assert_eq!(extents(&with, "new"), [(12, 20)]);
    table.add(&spec("new", 25 * MIB + 512)).unwrap();
    assert_eq!(extents(&table, "new"), [(1, 10), (12, 15)], "in order of address");
    table.check().unwrap();
    assert_eq!(table.volumes()[0].name, "new", "volumes stay in order of address");
}

#[test]
fn a_volume_has_up_to_eight_extents() {
    let names: Vec<String> = (0..40).map(|nth| format!("v{nth}")).collect();
    let mut table = table(100);
    for name in &names {
        table.add(&spec(name, MIB)).unwrap();
    }
    table.add(&spec("rest", table.free().longest.get())).unwrap();
    for name in names.iter().step_by(2) {
        table.remove(name).unwrap();
    }
    assert_eq!(
        table.free(),
        FreeSpace {
            total: ByteSize::new(20 * MIB),
            longest: ByteSize::new(MIB),
            largest: ByteSize::new(8 * MIB)
        }
    );
    assert!(matches!(table.add(&spec("a", 8 * MIB + 512)), Err(VolumeError::NoSpace { .. })));
    table.add(&spec("a", 7 * MIB)).unwrap();
    assert!(matches!(
        table.change(&spec("a", 9 * MIB), false),
        Err(VolumeError::CannotGrow { largest, .. }) if largest.get() == 8 * MIB
    ));
    table.change(&spec("a", 8 * MIB), false).unwrap();
    assert_eq!(extents(&table, "a").len(), 8);
    table.check().unwrap();
}

#[test]
fn settings_that_cannot_be_kept_together_are_refused_with_both() {
    let mut table = table(100);
    let share = |fraction: f64| Share::from_fraction(fraction).unwrap();
    let mut requested = spec("a", MIB);
    requested.settings.reserve = Some(share(0.5));
    requested.settings.limit = Some(Some(share(0.25)));
    assert_eq!(
        table.add(&requested).unwrap_err().to_string(),
        "volume a: a reserve of 50 % is more than its limit of 25 %; lower the reserve, or \
            raise the limit"
    );
    requested.settings.limit = Some(Some(Share::NONE));
    requested.settings.reserve = None;
    assert!(
        table.add(&requested).unwrap_err().to_string().contains("a limit of 0 allows no request")
    );
    requested.settings.limit = None;
    requested.settings.reserve = Some(share(0.5));
    table.add(&requested).unwrap();
    assert_eq!(table.reserved_billionths(), 500_000_000);
    let lower = VolumeSpec {
        size: None,
        settings: SettingsChange { limit: Some(Some(share(0.4))), ..SettingsChange::default() },
        ..spec("a", 0)
    };
    assert!(matches!(table.change(&lower, false), Err(VolumeError::ReserveAboveLimit { .. })));
}
