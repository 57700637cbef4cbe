//! Import of DiskSim descriptions: positions, times and errors, computed by hand on drives of a few
//! sectors.

mod arms;
mod layouts;

use std::path::Path;

use headtime_mechanics::import::{ImportError, ImportOptions, Imported, SourceText, import};
use headtime_mechanics::profile::{Algorithm, TrackOrder};
use headtime_mechanics::{DriveProfile, Mechanism};
use headtime_units::Lba;

/// Arm times that no test checks.
const ARM: &str = "dm_mech_g1 { Seek type = constant, Constant seek time = 1.0, Head switch time = \
    0.5, Rotation speed (in rpms) = 6000 }";

fn read_with(files: &[(&str, &str)], options: &ImportOptions) -> Result<Imported, ImportError> {
    let files: Vec<SourceText> = files
        .iter()
        .map(|(name, text)| SourceText { name: (*name).to_string(), text: (*text).to_string() })
        .collect();
    import(&files, options, &mut |_, name| Err(format!("there is no {name} here")))
}

fn read(files: &[(&str, &str)]) -> Imported {
    read_with(files, &ImportOptions::default())
        .unwrap_or_else(|error| panic!("{error}\n{files:#?}"))
}

fn refused(text: &str) -> String {
    match read_with(&[("drive.model", text)], &ImportOptions::default()) {
        Ok(imported) => panic!("{text} was read as {:#?}", imported.profile),
        Err(error) => error.to_string(),
    }
}

/// A disk of `heads` surfaces with these layout keys and zones.
fn disk(heads: u32, layout: &str, zones: &str) -> String {
    format!(
        "dm_disk tiny {{ Number of data surfaces = {heads}, Mechanical Model = {ARM}, Layout Model \
            = dm_layout_g1 {{ {layout}, Zones = [ {zones} ] }} }}"
    )
}

/// A zone of 4 sectors a track from `first` to `last` cylinder.
fn zone(first: u32, last: u32, more: &str) -> String {
    format!(
        "dm_layout_g1_zone {{ First cylinder number = {first}, Last cylinder number = {last}, \
            Blocks per track = 4, {more} }}"
    )
}

fn mechanism(profile: &DriveProfile) -> Mechanism {
    Mechanism::nominal(profile).unwrap_or_else(|error| panic!("{error}"))
}

/// Cylinder, head and sector of every LBA.
fn places(profile: &DriveProfile) -> Vec<(u32, u16, u32)> {
    let mechanism = mechanism(profile);
    let place = |lba| mechanism.layout().lba_to_physical(Lba::new(lba));
    (0..mechanism.layout().capacity().get())
        .map(|lba| (place(lba).cylinder, place(lba).head, place(lba).sector))
        .collect()
}

fn turns(profile: &DriveProfile, lba: u64) -> f64 {
    mechanism(profile).layout().spot(Lba::new(lba)).angle.as_turns()
}

#[track_caller]
fn assert_turns(profile: &DriveProfile, lba: u64, expected: f64) {
    let apart = (turns(profile, lba) - expected + 0.5).rem_euclid(1.0) - 0.5;
    assert!(
        apart.abs() < 2e-6,
        "LBA {lba} starts at {} turns, expected {expected}",
        turns(profile, lba)
    );
}

fn notes(imported: &Imported) -> String {
    imported.notes.iter().map(|note| format!("{note}\n")).collect()
}

/// A disk with the smallest model.
fn whole(keys: &str) -> String {
    format!(
        "disksim_disk whole {{ Model = {}, {keys} }}",
        disk(1, "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0", &zone(0, 9, ""))
    )
}

#[test]
fn overheads_bus_cache_and_queue_are_taken_over() {
    let text = whole(
        "Per-request overhead time = 0.05, Time scale for overheads = 2.0, Bulk sector transfer \
            time = 0.1,
         Read miss over. after read = 0.2, Read miss over. after write = 0.3, Write miss over. \
         after read = 0.4, Write miss over. after write = 0.4,
         Read hit over. after read = 0.1, Read hit over. after write = 0.15, Write hit over. after \
         read = 0.12, Write hit over. after write = 0.12,
         Read completion overhead = 0.01, Write completion overhead = 0.02, Max queue length = 8,
         Scheduler = disksim_ioqueue { Scheduling policy = 8, Cylinder mapping strategy = 4, \
         Sequential stream scheme = 0 },
         Number of buffer segments = 10, Segment size (in blks) = 300, Maximum number of write \
         segments = 3, Enable caching in buffer = 1,
         Buffer continuous read = 3, Maximum read-ahead (blks) = 200, Fast write level = 2, \
         Immediate buffer read = 1, Immediate buffer write = 0,
         Print stats = 1, Preseeking level = 0",
    );
    let imported = read(&[("drive.diskspecs", &text)]);
    assert_eq!(notes(&imported), "");
    let (profile, interface) = (&imported.profile, &imported.profile.interface);
    assert_eq!((interface.read_command_us, interface.read_after_write_us), (500.0, Some(700.0)));
    assert_eq!((interface.write_command_us, interface.write_after_write_us), (900.0, None));
    assert_eq!((interface.completion_us, interface.write_completion_us), (20.0, Some(40.0)));
    assert!((interface.bus_mb_per_s - 5.12).abs() < 1e-9);
    assert_eq!((profile.firmware.queue_depth, profile.firmware.algorithm), (8, Algorithm::Sptf));
    assert_eq!(
        (profile.firmware.zero_latency_read, profile.firmware.zero_latency_write),
        (true, false)
    );
    let cache = profile.cache.expect("there is a cache");
    assert_eq!((cache.segments, cache.segment_sectors, cache.write_segments), (10, 300, Some(3)));
    assert_eq!((cache.read_ahead_sectors, cache.write_back), (200, true));
    assert_eq!(
        (
            cache.read_hit_us,
            cache.read_hit_after_write_us,
            cache.write_hit_us,
            cache.write_hit_after_write_us
        ),
        (300.0, Some(400.0), 340.0, None)
    );
    assert_eq!(
        (profile.name.as_str(), profile.model.as_str(), profile.geometry.layout),
        ("whole", "whole", TrackOrder::Cylinder)
    );
    assert!(profile.description.contains("drive.diskspecs"), "{}", profile.description);
}

#[test]
fn what_a_profile_has_no_key_for_is_named_with_its_place() {
    let text = whole(
        "\nMax queue length = 4,\nPreseeking level = 2, Minimum seek delay = 0.6, Calc sector by \
            sector = 1,\nSheen = matt",
    );
    let imported = read(&[("drive.diskspecs", &text)]);
    assert_eq!(
        notes(&imported),
        "drive.diskspecs:3:1: left out of disksim_disk whole, as a profile has nothing for it: \
            Preseeking level = 2; Minimum seek delay = 0.6; Sheen = matt\n"
    );
    for (keys, expected) in [
        (
            "Max queue length = 2, Scheduler = disksim_ioqueue { Scheduling policy = 4 }",
            "policy 4 becomes its nearest in a profile: the shortest",
        ),
        (
            "Max queue length = 2, Scheduler = disksim_ioqueue { Scheduling policy = 1, Priority \
                scheme = 3 }",
            "Priority scheme = 3",
        ),
        (
            "Fast write level = 1, Number of buffer segments = 2, Segment size (in blks) = 8, \
                Enable caching in buffer = 1",
            "only where it goes on",
        ),
        (
            "Fast write level = 2, Number of buffer segments = 2, Segment size (in blks) = 8",
            "as the buffer does not cache",
        ),
        (
            "Extra write disconnect = 1, Extradisc command overhead = 0.5",
            "leaves the bus between a write's command and its data",
        ),
    ] {
        let imported = read(&[("drive.diskspecs", &whole(keys))]);
        assert!(notes(&imported).contains(expected), "{keys}: {}", notes(&imported));
    }
    // A single command leaves no choice.
    let imported = read(&[(
        "drive.diskspecs",
        &whole(
            "Max queue length = 1, Scheduler = disksim_ioqueue { Scheduling policy = 4, Priority \
                scheme = 3 }",
        ),
    )]);
    assert_eq!(notes(&imported), "");
}

#[test]
fn a_system_is_searched_for_its_disk_its_bus_and_the_files_it_names() {
    let system = "
        disksim_bus SLOW { type = 1, Read block transfer time = 0.05, Write block transfer time = \
        0.05 } # half of it
        source whole.diskspecs
        whole spare { Max queue length = 3 } # built on the other
        instantiate [ bus0 ] as SLOW
        instantiate [ d0 .. d3, d9 ] as whole
        topology disksim_bus bus0 [ disksim_disk d0 [], disksim_disk d1 [] ]";
    let specs = whole("Max queue length = 7, Bulk sector transfer time = 0.01");
    let files = [("a/system.parv", system), ("b/whole.diskspecs", specs.as_str())];
    let imported = read(&files);
    assert_eq!(
        (imported.profile.name.as_str(), imported.profile.firmware.queue_depth),
        ("whole", 7)
    );
    assert!((imported.profile.interface.bus_mb_per_s - 10.24).abs() < 1e-9);
    assert!(
        notes(&imported).contains("`Read block transfer time` of disksim_bus SLOW"),
        "{}",
        notes(&imported)
    );
    assert_eq!(imported.files, ["a/system.parv", "b/whole.diskspecs"]);
    let choose = |disk: &str| {
        read_with(
            &files,
            &ImportOptions { disk: Some(disk.to_string()), name: Some("mine".to_string()) },
        )
    };
    assert_eq!(choose("d2").expect("an instance has a disk").profile.firmware.queue_depth, 7);
    let spare = choose("spare").expect("a disk that is built on another").profile;
    assert_eq!((spare.name.as_str(), spare.firmware.queue_depth), ("mine", 3));
    assert_eq!(
        choose("none").expect_err("nothing is called so").to_string(),
        "no disk is called `none`; described are: whole, spare"
    );
    let both = format!("{system}\ninstantiate [ e0 ] as spare");
    let error = read_with(&[("system.parv", both.as_str()), files[1]], &ImportOptions::default())
        .expect_err("two disks")
        .to_string();
    assert_eq!(
        error,
        "several disks are described: whole, spare; choose one by its name (--disk NAME)"
    );
    let error = read_with(&[("x.parv", "disksim_bus B { type = 1 }")], &ImportOptions::default())
        .expect_err("no disk")
        .to_string();
    assert!(error.starts_with("no disk is described in x.parv;"), "{error}");
}

#[test]
fn the_grammar_is_read_as_it_is_written() {
    let text = "# a comment\n  dm_disk \"quoted\" {\n Number   of data\tsurfaces=0x2 ,\n  [ \
        Mechanical Model, Spare Arm ] = ARM ,Layout Model=dm_layout_g1{\n\
                LBN-to-PBN mapping scheme=1, Sparing scheme used=0#none\n, Zones=[ZONE,],},}"
        .replace("[ Mechanical Model, Spare Arm ]", "Mechanical Model")
        .replace("ARM", ARM)
        .replace("ZONE", &zone(0, 1, ""));
    let imported = read_with(&[("drive.model", &text)], &ImportOptions::default());
    // `0#none` is one word: a comment starts where a word could.
    let error = imported.expect_err("a comment needs a blank before it").to_string();
    assert!(error.contains("drive.model:5:50: `Sparing scheme used` is 0#none"), "{error}");
    let imported = read(&[("drive.model", &text.replace("0#none", "0 #none"))]);
    assert_eq!((imported.profile.model.as_str(), imported.profile.geometry.heads), ("quoted", 2));
}

#[test]
fn mistakes_in_a_text_are_named_with_their_line_and_column() {
    for (text, expected) in [
        ("", "no disk is described in drive.model"),
        ("dm_disk x {", "drive.model:1:11: found the end of the file after this, expected a key"),
        (
            "dm_disk x\n{ A = 1\n  B = 2 }",
            "drive.model:3:3: found `B`, expected `,` or `}` after a value; put a comma between \
                two keys",
        ),
        ("dm_disk x { A 1 }", "drive.model:1:17: found `}`, expected `=` after a key"),
        (
            "dm_disk x { A = }",
            "drive.model:1:17: found `}`, expected a number, a word, a list or a block",
        ),
        ("dm_disk x { A = [ 1 2 ] }", "drive.model:1:21: found `2`, expected `,` or `]` in a list"),
        ("dm_disk x { A = 1, A = 2 }", "drive.model:1:20: found the key `A` again"),
        ("} dm_disk x { }", "drive.model:1:1: found `}`, expected a block"),
        ("source", "drive.model:1:1: found `source` at the end of the file"),
        (
            "source other.model",
            "drive.model:1:8: `other.model` cannot be read: there is no other.model here",
        ),
        ("source drive.model", "drive.model:1:8: found `source drive.model` inside 32 files"),
        ("instantiate [ d3 .. d1 ] as x", "drive.model:1:18: found `d3 .. d1`"),
        ("instantiate d as x", "drive.model:1:13: found `d`, expected `[` after `instantiate`"),
        ("topology a b [ [ ]", "expected `]`, as many as `[`"),
        ("dm_disk \"x { }", "drive.model:1:9: found a double quote that is not closed"),
        (
            "dm_disk x { Number of data surfaces = two }",
            "`Number of data surfaces` is two, expected a whole number from 1 to 1024",
        ),
        (
            "dm_disk x { Number of data surfaces = 2 }",
            "drive.model:1:1: block dm_disk x has no `Mechanical Model`",
        ),
    ] {
        let error = refused(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let deep = format!("dm_disk x {{ A = {} }}", "[".repeat(100_000));
    assert!(refused(&deep).contains("at most 64 lists within each other"));
}

#[test]
fn mistakes_in_zones_are_named() {
    let fine = "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 9";
    let two = |first: u32| format!("{}, {}", zone(0, 4, ""), zone(first, 9, ""));
    for (layout, zones, expected) in [
        (fine, two(4), "`First cylinder number` is 4, expected at least 5"),
        (fine, String::new(), "has no `Zones`; add at least one dm_layout_g1_zone"),
        (fine, zone(3, 2, ""), "`Last cylinder number` is 2, expected a whole number from 3"),
        (
            fine,
            zone(0, 0, "Number of spares = 1, slips = [ 2, 3 ]"),
            "`Number of spares` is 1, expected at least the 2 sectors slipped in zone 0",
        ),
        (fine, zone(0, 0, "slips = [ 8 ]"), "`slips` is 8, expected a whole number from 0 to 7"),
        (
            "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 3",
            zone(0, 4_000_000, "Number of spares = 1"),
            "at most 4000000 of a zone are listed",
        ),
        (fine, zone(0, 0, "defects = [ 1, 2, 3 ]"), "`defects` is 3, expected pairs"),
        (
            fine,
            zone(0, 0, "Skew units = degrees"),
            "`Skew units` is degrees, expected sectors or revolutions",
        ),
        (
            "LBN-to-PBN mapping scheme = 3, Sparing scheme used = 0",
            zone(0, 0, ""),
            "`LBN-to-PBN mapping scheme` is 3",
        ),
        (
            "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 11",
            zone(0, 0, ""),
            "`Sparing scheme used` is 11",
        ),
        (
            "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 3",
            zone(0, 0, "Number of spares = 4"),
            "`Number of spares` is 4",
        ),
    ] {
        let error = refused(&disk(2, layout, &zones));
        assert!(error.contains(expected), "{zones}: {error}");
    }
    let other = format!(
        "dm_disk x {{ Number of data surfaces = 2, Mechanical Model = {ARM}, Layout Model = \
            dm_layout_g2 {{ Zones = [ ] }} }}"
    );
    assert!(
        refused(&other).contains(
            "the layout is a dm_layout_g2; only dm_layout_g1 and dm_layout_g4 are imported"
        )
    );
}

#[test]
fn the_declared_capacity_counts_where_the_layout_holds_it() {
    let with = |count: u32| {
        let text =
            disk(1, "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0", &zone(0, 9, ""))
                .replacen('{', &format!("{{ Block count = {count},"), 1);
        let imported = read(&[("drive.model", &text)]);
        (
            imported.profile.capacity_sectors,
            mechanism(&imported.profile).layout().capacity().get(),
            imported.notes.len(),
        )
    };
    assert_eq!((with(40), with(30), with(50)), ((None, 40, 1), (Some(30), 30, 2), (None, 40, 2)));
}

#[test]
fn an_imported_profile_is_read_back_as_it_was_written() {
    for imported in [
        layouts::tree("Slips = [ 5, 2 ],", "9, 2, 1, 0, 1, 4"),
        read(&[("drive.diskspecs", &whole("Max queue length = 4"))]),
    ] {
        let profile = imported.profile;
        assert_eq!(
            DriveProfile::from_toml(&profile.name, &profile.to_toml()).as_ref(),
            Ok(&profile)
        );
    }
}

#[test]
fn the_layout_and_curve_of_a_real_cheetah_are_imported_where_they_are_present() {
    let Some(folder) = std::env::var_os("HEADTIME_DRIVES") else {
        eprintln!(
            "skipped: HEADTIME_DRIVES is not set, so there is no cheetah15k5.layout to import"
        );
        return;
    };
    let text = |name: &str| std::fs::read_to_string(Path::new(&folder).join(name));
    let (Ok(layout), Ok(curve)) = (text("cheetah15k5.layout"), text("cheetah15k5.seeks")) else {
        eprintln!(
            "skipped: cheetah15k5.layout and cheetah15k5.seeks cannot be read in {}",
            Path::new(&folder).display()
        );
        return;
    };
    let model =
        "dm_disk cheetah { Number of data surfaces = 4, Number of cylinders = 72170, Block \
        count = 286749487,
        Layout Model = source cheetah15k5.layout, Mechanical Model = dm_mech_g1 { Seek type = \
        extracted, Full seek curve = cheetah15k5.seeks,
        Head switch time = 0.001, Rotation speed (in rpms) = 15020, Percent error in rpms = \
        0.035147 } }";
    let imported = read(&[
        ("cheetah15k5.seeks", &curve),
        ("cheetah15k5.layout", &layout),
        ("cheetah.model", model),
    ]);
    let profile = &imported.profile;
    let mechanism = mechanism(profile);
    assert_eq!(
        (mechanism.layout().mapped().get(), mechanism.layout().capacity().get()),
        (286_749_488, 286_749_487)
    );
    assert_eq!(profile.seek.points.len(), 342);
    // The first band: 65 tracks of 1200 sectors inwards on head 0, 65 back on head 1; angles as the
    // first entries of the layout say.
    let place = |lba: u64| {
        let place = mechanism.layout().lba_to_physical(Lba::new(lba));
        (place.cylinder, place.head, place.sector)
    };
    for (lba, expected) in [
        (0, (0, 0, 0)),
        (1_199, (0, 0, 1_199)),
        (1_200, (1, 0, 0)),
        (77_999, (64, 0, 1_199)),
        (78_000, (64, 1, 0)),
        (79_200, (63, 1, 0)),
        (624_000, (130, 0, 0)),
    ] {
        assert_eq!(place(lba), expected, "LBA {lba}");
    }
    for (lba, turns) in [
        (0, 0.0),
        (600, 0.5),
        (1_200, 0.141_669),
        (78_000, 0.2562),
        (79_200, 0.2562 + 0.141_666),
        (624_000, 0.425_06),
    ] {
        assert_turns(profile, lba, turns);
    }
    // The first slip is sector 1,874,137 of the tree: 1117 sectors into a track.
    let before = place(1_874_136);
    assert_eq!((place(1_874_137), before.2), ((before.0, before.1, before.2 + 2), 936));
    let mean = mechanism.mean_arm_time().as_ms_f64();
    assert!((3.6..3.9).contains(&mean), "mean seek {mean} ms");
}
