//! Layouts: the place and angle of each LBA.

use super::*;

#[test]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "a case is a row of ranges, of which there may be one"
)]
fn every_sparing_scheme_puts_each_lba_where_it_was_computed_to_be() {
    // Two surfaces, 4 sectors per track, 8 per cylinder; physical sectors are numbered in filling
    // order.
    let cases: &[(&str, u32, &str, &[std::ops::Range<u64>])] = &[
        ("0", 1, "", &[0..16]),
        ("1", 1, "Number of spares = 1, slips = [ 1 ]", &[0..4, 8..16]),
        ("1", 1, "Number of spares = 2, defects = [ 0, 3 ]", &[12..16, 4..8]),
        ("2", 1, "Number of spares = 1, slips = [ 2 ]", &[0..2, 3..8, 8..15]),
        ("3", 1, "Number of spares = 1, slips = [ 1 ]", &[0..1, 2..4, 4..7, 8..11, 12..15]),
        ("4", 1, "Number of spares = 1, slips = [ 2 ]", &[0..2, 3..7, 8..15]),
        ("5", 1, "Number of spares = 1", &[1..8, 9..16]),
        ("5", 1, "Number of spares = 2, slips = [ 5 ]", &[1..5, 6..8, 10..16]),
        ("6", 1, "Number of spares = 1, slips = [ 2 ]", &[1..2, 3..8, 9..16]),
        ("7", 1, "Number of spares = 0, slips = [ 2 ]", &[0..2, 3..16]),
        ("8, Rangesize for sparing = 2", 1, "Number of spares = 3, slips = [ 2 ]", &[0..2, 3..14]),
        (
            "8, Rangesize for sparing = 2",
            3,
            "Number of spares = 3, slips = [ 20 ]",
            &[0..13, 16..20, 21..30],
        ),
        // A shorter last range has no spares.
        ("8, Rangesize for sparing = 2", 2, "Number of spares = 3", &[0..13, 16..24]),
        (
            "9",
            1,
            "Number of spares = 3, slips = [ 5 ], defects = [ 7, 15 ]",
            &[0..5, 6..7, 15..16, 8..14],
        ),
        // Two mapped sectors are kept free, sector 2 is not mapped.
        ("9", 1, "Number of spares = 3, slips = [ 2 ], Empty space at zone front = 2", &[3..14]),
        ("3", 1, "Number of spares = 1, Empty space at zone front = 4", &[5..7, 8..11, 12..15]),
        ("10", 1, "Number of spares = 2, slips = [ 2 ]", &[0..2, 3..14]),
    ];
    for (scheme, last, keys, expected) in cases {
        let layout = format!("LBN-to-PBN mapping scheme = 0, Sparing scheme used = {scheme}");
        let imported = read(&[("drive.model", &disk(2, &layout, &zone(0, *last, keys)))]);
        let found: Vec<u64> = places(&imported.profile)
            .iter()
            .map(|(c, h, s)| u64::from(*c) * 8 + u64::from(*h) * 4 + u64::from(*s))
            .collect();
        let expected: Vec<u64> = expected.iter().cloned().flatten().collect();
        assert_eq!(found, expected, "scheme {scheme}, {keys}");
    }
}

#[test]
fn cylinders_are_filled_upwards_or_in_turn_and_gaps_between_zones_hold_nothing() {
    let zones = format!("{}, {}", zone(1, 2, ""), zone(5, 6, ""));
    let heads = |mapping: u32| -> Vec<(u32, u16)> {
        let layout = format!("LBN-to-PBN mapping scheme = {mapping}, Sparing scheme used = 0");
        let imported = read(&[("drive.model", &disk(2, &layout, &zones))]);
        assert_eq!(notes(&imported).contains("odd cylinder"), mapping == 2, "{}", notes(&imported));
        places(&imported.profile)
            .iter()
            .step_by(4)
            .map(|(cylinder, head, _)| (*cylinder, *head))
            .collect()
    };
    assert_eq!(heads(0), [(1, 0), (1, 1), (2, 0), (2, 1), (5, 0), (5, 1), (6, 0), (6, 1)]);
    assert_eq!(heads(1), [(1, 0), (1, 1), (2, 1), (2, 0), (5, 0), (5, 1), (6, 1), (6, 0)]);
    assert_eq!(
        heads(2),
        heads(1),
        "a zone that starts downwards has its heads numbered the other way round, which is noted"
    );
}

#[test]
fn angles_are_the_offset_the_skews_and_the_sectors_before() {
    let keys =
        "Offset of first block = 1, Skew for track switch = 1.5, Skew for cylinder switch = 2.25";
    let imported = read(&[(
        "drive.model",
        &disk(2, "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0", &zone(0, 1, keys)),
    )]);
    // In quarter revolutions: 1 at the start, 1.5 to the next surface, 2.25 to the next cylinder.
    for (lba, quarters) in [(0, 1.0), (1, 2.0), (4, 2.5), (8, 4.75), (12, 6.25), (15, 9.25)] {
        assert_turns(&imported.profile, lba, quarters / 4.0);
    }
    let keys = "Skew units = revolutions, Offset of first block = 0.25, Skew for track switch = \
        0.375, Skew for cylinder switch = 0.5625";
    let same = read(&[(
        "drive.model",
        &disk(2, "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0", &zone(0, 1, keys)),
    )]);
    assert_eq!(same.profile.zones, imported.profile.zones);
    let whole = "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0, Skew units = revolutions";
    let keys = "Offset of first block = -0.75, Skew for track switch = 1.375, Skew for cylinder \
        switch = 0.5625";
    assert_eq!(
        read(&[("drive.model", &disk(2, whole, &zone(0, 1, keys)))]).profile.zones,
        imported.profile.zones
    );
}

#[test]
fn with_spares_by_cylinder_a_slip_rotates_later_cylinders() {
    let keys = "Number of spares = 1, slips = [ 2, 9 ], Skew for track switch = 1, Skew for \
        cylinder switch = 2";
    let imported = read(&[(
        "drive.model",
        &disk(2, "LBN-to-PBN mapping scheme = 0, Sparing scheme used = 2", &zone(0, 3, keys)),
    )]);
    assert_eq!(
        (imported.profile.zones.len(), imported.notes.len()),
        (3, 1),
        "{}",
        notes(&imported)
    );
    // 7 LBAs per cylinder; a cylinder is 3 sectors of skew after the previous one, plus one sector
    // for each slip before.
    for (lba, quarters) in [(0, 0.0), (2, 3.0), (7, 3.0 + 1.0), (14, 6.0 + 2.0), (21, 9.0 + 2.0)] {
        assert_turns(&imported.profile, lba, quarters / 4.0);
    }
    // In an alternating layout only every other cylinder starts on the first surface: the first
    // slip rotates later tracks one cylinder late.
    let imported = read(&[(
        "drive.model",
        &disk(2, "LBN-to-PBN mapping scheme = 1, Sparing scheme used = 2", &zone(0, 3, keys)),
    )]);
    assert!(
        notes(&imported).contains("zone 0: 1 of its slips turn what follows them"),
        "{}",
        notes(&imported)
    );
    for (lba, quarters) in [(0, 0.0), (7, 3.0), (14, 6.0 + 2.0)] {
        assert_turns(&imported.profile, lba, quarters / 4.0);
    }
}

/// Two surfaces. Block 0: two tracks inwards on head 0, two back on head 1. Block 1, the root:
/// block 0 twice, then a short track on head 1.
const TREE: &str = "dm_layout_g4 {
    TP = [ 0, 3, 4,  1, 2, 4 ],
    IDX = [
        [ 0, 0, 0.0, 4, 1, 0.25, 8, 2, TRACK, 0, 0,
          8, 1, 0.5, 4, 1, 0.125, 8, -2, TRACK, 0, 1 ],
        [ 0, 0, 0.0, 16, 2, 0.0625, 32, 4, IDX, 0,
          32, 4, 0.75, 2, 1, 0.0, 2, 1, TRACK, 1, 1 ]
    ],
    SLIPS
    Remaps = [ REMAPS ]
}";

pub(crate) fn tree(slips: &str, remaps: &str) -> Imported {
    let layout = TREE.replace("SLIPS", slips).replace("REMAPS", remaps);
    let model = format!(
        "dm_disk tree {{ Number of data surfaces = 2, Mechanical Model = {ARM}, Layout Model = \
            source tree.layout }}"
    );
    read(&[("tree.layout", &layout), ("tree.model", &model)])
}

#[test]
fn a_tree_of_index_blocks_becomes_runs() {
    let imported = tree("", "");
    let profile = &imported.profile;
    let row =
        |c: u32, h: u16, sectors: std::ops::Range<u32>| sectors.map(move |sector| (c, h, sector));
    let tracks = [(0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (3, 0), (3, 1), (2, 1)];
    let expected: Vec<(u32, u16, u32)> =
        tracks.iter().flat_map(|(c, h)| row(*c, *h, 0..4)).chain(row(4, 1, 1..3)).collect();
    assert_eq!(places(profile), expected);
    for (lba, expected) in [
        (0, 0.0),
        (1, 0.25),
        (4, 0.25),
        (8, 0.5),
        (12, 0.625),
        (15, 0.375),
        (16, 0.0625),
        (28, 0.6875),
        (32, 0.75),
        (33, 0.0),
    ] {
        assert_turns(profile, lba, expected);
    }
    assert_eq!(profile.runs.len(), 5);
}

#[test]
fn slips_and_remaps_cut_the_runs_of_a_tree() {
    // Sectors 5, 6 and 32 hold no LBA: 5 and 6 are the second and third of the second track.
    let imported = tree("Slips = [ 5, 2, 32, 1 ],", "");
    let found = places(&imported.profile);
    assert_eq!(found.len(), 31);
    assert_eq!(&found[3..8], &[(0, 0, 3), (1, 0, 0), (1, 0, 3), (1, 1, 0), (1, 1, 1)]);
    assert_eq!(found[30], (4, 1, 2));
    for (lba, expected) in [(4, 0.25), (5, 0.0), (6, 0.5), (30, 0.0)] {
        assert_turns(&imported.profile, lba, expected);
    }
    // LBAs 9 and 10 are on the two slipped sectors.
    let imported = tree("Slips = [ 5, 2, 32, 1 ],", "9, 2, 1, 0, 1, 4");
    let moved = places(&imported.profile);
    assert_eq!(
        (moved.len(), &moved[8..12]),
        (31, &[found[8], (1, 0, 1), (1, 0, 2), found[11]][..])
    );
    for (lba, expected) in
        [(9, 0.5), (10, 0.75), (11, turns(&tree("Slips = [ 5, 2, 32, 1 ],", "").profile, 11))]
    {
        assert_turns(&imported.profile, lba, expected);
    }
    // The angle of a track outside the description is unknown.
    let imported = tree("", "9, 2, 77, 0, 1, 4");
    assert!(
        notes(&imported).contains("LBA 9 is remapped to a track whose angle is not described"),
        "{}",
        notes(&imported)
    );
}

#[test]
fn mistakes_in_trees_are_named() {
    let model = format!(
        "dm_disk tree {{ Number of data surfaces = 2, Mechanical Model = {ARM}, Layout Model = \
            source tree.layout }}"
    );
    for (from, to, expected) in [
        ("TRACK, 0, 1 ]", "TRACK, 0 ]", "an entry that starts here is cut off"),
        ("TRACK, 0, 1 ]", "TRACK, 0, 2 ]", "`IDX` is 2, expected a whole number from 0 to 1"),
        ("TRACK, 0, 1 ]", "TRACK, 2, 1 ]", "`IDX` is 2, expected a whole number from 0 to 1"),
        ("4, IDX, 0,", "4, IDX, 1,", "`IDX` is 1, expected a whole number from 0 to 0"),
        ("8, 1, 0.5, 4", "9, 1, 0.5, 4", "sectors up to 8, then from 9"),
        ("8, 1, 0.5, 4", "8, 0, 0.5, 4", "tracks from cylinder 0 to -1"),
        (
            "0, 0, 0.0, 4, 1, 0.25, 8, 2",
            "5, 0, 0.0, 4, 1, 0.25, 8, 2",
            "sectors up to 0, then from 5",
        ),
        (
            "0, 3, 4,  1, 2, 4",
            "0, 4, 4,  1, 2, 4",
            "`TP` is 4, expected a whole number from 0 to 3",
        ),
        ("0, 3, 4,  1, 2, 4", "0, 2, 4,  1, 2, 4", "at most the 3 sectors of pattern 0"),
        ("SLIPS", "Slips = [ 6, 2, 7, 1 ],", "sectors that rise and do not overlap"),
        ("REMAPS", "1, 2, 3", "groups of six numbers"),
    ] {
        let layout = TREE.replace(from, to).replace("SLIPS", "").replace("REMAPS", "");
        let error = read_with(
            &[("tree.layout", &layout), ("tree.model", &model)],
            &ImportOptions::default(),
        )
        .expect_err(to)
        .to_string();
        assert!(error.contains(expected) && error.starts_with("tree.layout:"), "{to}: {error}");
    }
    // A repeated block whose entries all start after its end.
    let layout = TREE
        .replace("[ 0, 0, 0.0, 4, 1", "[ 9, 0, 0.0, 4, 1")
        .replace("16, 2, 0.0625", "8, 2, 0.0625")
        .replace("SLIPS", "")
        .replace("REMAPS", "");
    let error =
        read_with(&[("tree.layout", &layout), ("tree.model", &model)], &ImportOptions::default())
            .expect_err("nothing")
            .to_string();
    assert!(error.contains("a repetition without a track"), "{error}");
}
