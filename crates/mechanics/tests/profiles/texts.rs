//! Texts of profiles: mistakes are refused with a remedy; measured layouts and second arms are read
//! as they are written.

use headtime_mechanics::{DriveProfile, Layout, Mechanism, Track, draw};
use headtime_units::{Angle, Lba, Nanos};

pub(crate) const GOOD: &str = r#"name = "exos"
model = "Exos"
sector_bytes = 512

[rotation]
rpm = 7200

[geometry]
heads = 2
layout = "serpentine"

[seek]
head_switch_ms = 0.8
write_settle_ms = 0.1
points = [[1, 0.8], [100, 2.0], [1000, 9.0]]

[interface]
read_command_us = 50
write_command_us = 50
completion_us = 10
bus_mb_per_s = 550

[firmware]
queue_depth = 32
algorithm = "sptf"

[[zone]]
first_cylinder = 0
cylinders = 600
sectors_per_track = 100
track_skew = 20
cylinder_skew = 30
spares = 10
slips = [7, 9]

[[zone]]
first_cylinder = 600
cylinders = 400
sectors_per_track = 50
track_skew = 10
cylinder_skew = 15

[setup.slow.interface]
bus_mb_per_s = 5
"#;

/// A text of the valid profile, its replacement, and the expected message.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        "rpm = 7200",
        "rmp = 7200",
        "line 6, column 1: unknown field `rmp`, expected `rpm` or `period_us`",
    ),
    (
        "heads = 2",
        "heads = \"two\"",
        "line 9, column 9: invalid type: string \"two\", expected u16",
    ),
    ("heads = 2\n", "", "line 8, column 1: missing field `heads`"),
    (
        "layout = \"serpentine\"",
        "layout = \"zigzag\"",
        "line 10, column 10: unknown variant `zigzag`, expected one of `cylinder`, `serpentine`, \
            `surface-serpentine`, `banded`",
    ),
    ("[interface]", "[interface", "line 17, column 11: unclosed table, expected `]`"),
    (
        "name = \"exos\"",
        "name = \"Exos X\"",
        "name is \"Exos X\", expected lower-case letters, digits, `-`, `.` and `_`; choose a name \
            such as `exos-x20`",
    ),
    (
        "sector_bytes = 512",
        "sector_bytes = 520",
        "sector_bytes is 520, expected a power of two from 512 to 65536; 512 is usual",
    ),
    (
        "sector_bytes = 512",
        "sector_bytes = 4096\nphysical_sector_bytes = 512",
        "physical_sector_bytes is 512, expected a power of two from 4096 to 65536; 512e drives \
            have 4096; remove the key where both sectors are the same",
    ),
    (
        "rpm = 7200",
        "rpm = 7",
        "rotation.rpm is 7, expected 60 to 600000 rpm, which is 100 to 1000000 us per \
            revolution; write \
            7200 rpm as `rpm = 7200`",
    ),
    (
        "rpm = 7200",
        "rpm = nan",
        "rotation.rpm is NaN, expected 60 to 600000 rpm, which is 100 to 1000000 us per \
            revolution; write \
            7200 rpm as `rpm = 7200`",
    ),
    ("rpm = 7200", "", "rotation is empty, expected rpm or period_us; add `rpm = 7200`"),
    (
        "rpm = 7200",
        "rpm = 7200\nperiod_us = 8333.3",
        "rotation is rpm and period_us, expected one of the two; remove rpm, the period is finer",
    ),
    (
        "rpm = 7200",
        "period_us = 8.3",
        "rotation.period_us is 8.3, expected 60 to 600000 rpm, which is 100 to 1000000 us per \
            revolution; \
            write 7200 rpm as `rpm = 7200`",
    ),
    (
        "heads = 2",
        "heads = 0",
        "geometry.heads is 0, expected 1 to 1024; count the surfaces that hold data",
    ),
    (
        "layout = \"serpentine\"",
        "layout = \"surface-serpentine\"",
        "geometry.band_cylinders is missing, expected the cylinders of a band; add it, or choose \
            layout = \"serpentine\"",
    ),
    (
        "heads = 2",
        "heads = 2\nband_cylinders = 100",
        "geometry.band_cylinders is 100, expected nothing in this layout; remove it, or choose \
            layout = \"surface-serpentine\"",
    ),
    (
        "layout = \"serpentine\"",
        "layout = \"surface-serpentine\"\nband_cylinders = 0",
        "geometry.band_cylinders is 0, expected at least 1; one band is often some hundred \
            cylinders",
    ),
    (
        "first_cylinder = 600",
        "first_cylinder = 512",
        "zone 1 starts at cylinder 512, before zone 0 ends at 600; set first_cylinder = 600",
    ),
    (
        "first_cylinder = 600",
        "first_cylinder = 601",
        "zone 1 starts at cylinder 601, after zone 0 ends at 600; set first_cylinder = 600",
    ),
    (
        "first_cylinder = 600",
        "first_cylinder = 605\nskipped_cylinders = 4",
        "zone 1 first_cylinder is 605, expected 604: 4 cylinders are skipped from cylinder 600 on; \
            correct it, or skipped_cylinders",
    ),
    (
        "first_cylinder = 600",
        "first_cylinder = 600\nskipped_cylinders = 4000000000",
        "zone 1 skipped_cylinders is 4000000000, expected at most 2147483647 in all zones; lower \
            it",
    ),
    (
        "first_cylinder = 0",
        "first_cylinder = 1",
        "zone 0 first_cylinder is 1, expected 0; cylinders are counted from the outer edge, from \
            0; set skipped_cylinders where some hold no data",
    ),
    (
        "cylinders = 600",
        "cylinders = 0",
        "zone 0 cylinders is 0, expected at least 1; remove the zone",
    ),
    (
        "cylinders = 400",
        "cylinders = 4000000000",
        "zone 1 cylinders is 4000000000, expected at most 2147483647 in all zones; lower it",
    ),
    (
        "sectors_per_track = 100",
        "sectors_per_track = 0",
        "zone 0 sectors_per_track is 0, expected 1 to 65535; correct it",
    ),
    (
        "sectors_per_track = 100",
        "sectors_per_track = 100\nsectors_by_head = [90, 95, 100]",
        "zone 0 sectors_by_head is a list of 3, expected one number for each of the 2 heads; \
            complete it, or remove it where all surfaces are alike",
    ),
    (
        "sectors_per_track = 100",
        "sectors_per_track = 100\nsectors_by_head = [90, 65536]",
        "zone 0 sectors_by_head is 65536 for head 1, expected 1 to 65535; correct it",
    ),
    (
        "sectors_per_track = 100",
        "sectors_per_track = 100\nsectors_by_head = [0, 90]",
        "zone 0 sectors_by_head is 0 for head 0, expected 1 to 65535; correct it",
    ),
    (
        "track_skew = 20",
        "track_skew = -0.5",
        "zone 0 track_skew is -0.5, expected at least 0 and less than the track's 100 sectors; add \
            whole revolutions",
    ),
    (
        "track_skew = 20",
        "track_skew = nan",
        "zone 0 track_skew is NaN, expected less than the track's 100 sectors; subtract whole \
            revolutions",
    ),
    (
        "track_skew = 20",
        "track_skew = 100.25",
        "zone 0 track_skew is 100.25, expected less than the track's 100 sectors; subtract whole \
            revolutions",
    ),
    (
        "track_skew = 20",
        "track_skew = 100",
        "zone 0 track_skew is 100, expected less than the track's 100 sectors; subtract whole \
            revolutions",
    ),
    (
        "cylinder_skew = 15",
        "cylinder_skew = 55",
        "zone 1 cylinder_skew is 55, expected less than the track's 50 sectors; subtract whole \
            revolutions",
    ),
    (
        "cylinder_skew = 15",
        "cylinder_skew = 15\nband_skew = 5",
        "zone 1 band_skew is 5, expected nothing in this layout; remove it, or choose layout = \
            \"surface-serpentine\"",
    ),
    (
        "spares = 10",
        "spares = 10\nfirst_angle_turns = 1.0",
        "zone 0 first_angle_turns is 1, expected 0 up to but not including 1; subtract whole \
            revolutions",
    ),
    (
        "spares = 10",
        "spares = 120000",
        "zone 0 spares is 120000, expected less than the zone's 120000 sectors; lower it",
    ),
    (
        "slips = [7, 9]",
        "slips = [7, 120000]",
        "zone 0 slips is 120000, expected less than the zone's 120000 sectors; numbers count from \
            the zone's start",
    ),
    (
        "spares = 10",
        "spares = 10\nspare_cylinders = 0",
        "zone 0 spare_cylinders is 0, expected at least 1; remove it where the whole zone shares \
            its spares",
    ),
    (
        "spares = 10",
        "spares = 10\nspare_tracks = 0",
        "zone 0 spare_tracks is 0, expected at least 1; remove it where the whole zone shares its \
            spares",
    ),
    (
        "spares = 10",
        "spares = 10\nspare_cylinders = 50\nspare_tracks = 3",
        "zone 0 spare_tracks is 3, expected nothing beside spare_cylinders; remove one of the two",
    ),
    (
        "spares = 10",
        "spares = 100\nspare_tracks = 1",
        "zone 0 spares is 100, expected less than the 100 sectors of the last group; lower it, or \
            change spare_tracks",
    ),
    (
        "spares = 10",
        "spares = 200\nspare_cylinders = 599",
        "zone 0 spares is 200, expected less than the 200 sectors of the last group; lower it, or \
            change spare_cylinders",
    ),
    (
        "spares = 10",
        "spares = 1\nspare_cylinders = 100",
        "zone 0 slips is 2 in the group of cylinders from 0 on, expected at most its 1 spares; \
            raise spares, or remove slips",
    ),
    (
        "layout = \"serpentine\"",
        "layout = \"banded\"",
        "geometry.band_cylinders is missing, expected the cylinders of a band; add it, or choose \
            layout = \"serpentine\"",
    ),
    (
        "spares = 10",
        "spares = 10\nreserved = 119990",
        "zone 0 reserved is 119990, expected less than the 119990 sectors that the spares leave of \
            the zone's first group; lower it",
    ),
    (
        "spares = 10",
        "spares = 10\nreserved = 9990\nspare_cylinders = 50",
        "zone 0 reserved is 9990, expected less than the 9990 sectors that the spares leave of the \
            zone's first group; lower it",
    ),
    (
        "slips = [7, 9]",
        "remaps = [[7, 120000]]",
        "zone 0 remaps is 120000, expected less than the zone's 120000 sectors; numbers count from \
            the zone's start",
    ),
    (
        "slips = [7, 9]",
        "remaps = [[7, 119999], [8, 119999]]",
        "zone 0 remaps is 119999 twice, expected each sector once, as defective or as spare; \
            remove one of the two",
    ),
    (
        "slips = [7, 9]",
        "slips = [7]\nremaps = [[7, 119999]]",
        "zone 0 remaps is 7, which is slipped, expected sectors that are not among the slips; \
            remove it from slips or from remaps",
    ),
    (
        "slips = [7, 9]",
        "slips = [119999]\nremaps = [[7, 119999]]",
        "zone 0 remaps is 119999, which is slipped, expected sectors that are not among the slips; \
            remove it from slips or from remaps",
    ),
    (
        "slips = [7, 9]",
        "remaps = [[7, 8]]",
        "zone 0 remaps is [7, 8], expected a spare that holds no LBA; choose a sector among the \
            spares, at the end of the group",
    ),
    (
        "slips = [7, 9]",
        "remaps = [[119995, 119999]]",
        "zone 0 remaps is [119995, 119999], expected a defective sector that would hold an LBA; \
            remove the remap: a defective spare or reserved sector moves nothing",
    ),
    (
        "heads = 2",
        "heads = 2\nactuators = 3",
        "geometry.actuators is 3, expected 1 to 2; count the arms that move independently; remove \
            the key for one",
    ),
    (
        "slips = [7, 9]",
        "slips = [9, 7, 9]",
        "zone 0 slips is 9 twice, expected each sector once; remove one",
    ),
    (
        "spares = 10",
        "spares = 1",
        "zone 0 has 2 slips but only 1 spares to absorb them; raise spares, or remove slips",
    ),
    (
        "sector_bytes = 512",
        "sector_bytes = 512\ncapacity_sectors = 159991",
        "capacity_sectors is 159991, but the zones map only 159990 sectors; lower it, or add \
            cylinders",
    ),
    (
        "sector_bytes = 512",
        "sector_bytes = 512\ncapacity_sectors = 0",
        "capacity_sectors is 0, expected at least 1; remove the key to declare all that the zones \
            map",
    ),
    (
        "head_switch_ms = 0.8",
        "head_switch_ms = -0.8",
        "seek.head_switch_ms is -0.8, expected a number from 0 to 600000; correct it",
    ),
    (
        "write_settle_ms = 0.1",
        "write_settle_ms = inf",
        "seek.write_settle_ms is inf, expected a number from 0 to 600000; correct it",
    ),
    (
        "points = [[1, 0.8], [100, 2.0], [1000, 9.0]]",
        "",
        "seek is without a curve, expected points or [seek.formula]; add `points = [[1, 0.8], \
            [10000, 9.0]]`",
    ),
    (
        "[1, 0.8], ",
        "",
        "seek.points is 100 cylinders first, expected the first point at 1 cylinder; add the \
            single-cylinder seek; no seek at all takes no time",
    ),
    (
        "[100, 2.0]",
        "[100, nan]",
        "seek.points at 100 cylinders is NaN, expected a number from 0 to 600000; correct it",
    ),
    (
        "[100, 2.0]",
        "[100, -2.0]",
        "seek.points at 100 cylinders is -2, expected a number from 0 to 600000; correct it",
    ),
    (
        "[100, 2.0], [1000, 9.0]",
        "[1000, 9.0], [100, 2.0]",
        "seek.points is 100 cylinders after 1000, expected rising distances; sort the points, one \
            for each distance",
    ),
    (
        "[100, 2.0], [1000, 9.0]",
        "[100, 2.0], [200, 1.5]",
        "the seek curve is -2495 us at 999 cylinders, expected no less than 0; correct the points \
            or the formula near there",
    ),
    (
        "[100, 2.0], [1000, 9.0]",
        "[2, 2.0], [3, 500000]",
        "seek is 498498008 ms at its highest, expected at most 600000 ms; correct the points or \
            the formula; the curve is prolonged to the last cylinder",
    ),
    (
        "[interface]",
        "[seek.formula]\nshort_ms = 1\nshort_sqrt_ms = 0.1\nlong_from = 10\nlong_ms = \
            1\nlong_us_per_cylinder = 1\n[interface]",
        "seek is points and formula, expected one of the two; remove the formula, points are \
            measured",
    ),
    (
        "points = [[1, 0.8], [100, 2.0], [1000, 9.0]]",
        "[seek.formula]\nshort_ms = 1\nshort_sqrt_ms = nan\nlong_from = 10\nlong_ms = \
            1\nlong_us_per_cylinder = 1",
        "seek.formula.short_sqrt_ms is NaN, expected a number, at most ten minutes either way; \
            correct it",
    ),
    (
        "points = [[1, 0.8], [100, 2.0], [1000, 9.0]]",
        "[seek.formula]\nshort_ms = 1\nshort_sqrt_ms = -0.5\nlong_from = 10\nlong_ms = \
            1\nlong_us_per_cylinder = 1",
        "the seek curve is -500 us at 9 cylinders, expected no less than 0; correct the points or \
            the formula near there",
    ),
    (
        "read_command_us = 50",
        "read_command_us = -1",
        "interface.read_command_us is -1, expected a number from 0 to 600000000; correct it",
    ),
    (
        "bus_mb_per_s = 550",
        "bus_mb_per_s = 0",
        "interface.bus_mb_per_s is 0, expected 0.001 to 1000000; 6 Gbit/s SATA carries about 550",
    ),
    (
        "queue_depth = 32",
        "queue_depth = 0",
        "firmware.queue_depth is 0, expected 1 to 65536; 1 is a drive without a queue, 32 is NCQ",
    ),
    (
        "[setup.slow.interface]",
        "[variation]\njitter_us = -5\n[setup.slow.interface]",
        "variation.jitter_us is -5, expected a number from 0 to 600000; correct it",
    ),
    (
        "bus_mb_per_s = 5\n",
        "bus_mb_per_s = -5\n",
        "setup.slow.interface.bus_mb_per_s is -5, expected 0.001 to 1000000; 6 Gbit/s SATA carries \
            about 550",
    ),
];

#[test]
fn each_mistake_is_refused_with_place_value_expectation_and_remedy() {
    DriveProfile::from_toml("exos.toml", GOOD).expect("the good profile is valid");
    for (from, to, expected) in BROKEN {
        assert!(GOOD.contains(from), "`{from}` is in the good profile");
        let text = GOOD.replacen(from, to, 1);
        let error = DriveProfile::from_toml("exos.toml", &text)
            .expect_err(&format!("`{to}` makes no drive"));
        assert_eq!(error.to_string(), format!("profile exos.toml: {expected}"));
    }
}

/// A measured layout: cylinder 0 in two parts with a gap between, then inwards and outwards on two
/// surfaces.
const RUNS: &str = r#"
[[run]]
first_lba = 0
tracks = 1
lbas = 40
sectors_per_track = 100
cylinder = 0
head = 0
angle_turns = 0.25

[[run]]
first_lba = 40
tracks = 1
lbas = 50
sectors_per_track = 100
first_sector = 50
cylinder = 0
head = 0
angle_turns = 0.75

[[run]]
first_lba = 90
tracks = 4
lbas = 99
sectors_per_track = 99
cylinder = 1
head = 0
angle_turns = 0.3
angle_step_turns = 0.125

[[run]]
first_lba = 486
tracks = 5
lbas = 90
sectors_per_track = 100
cylinder = 4
cylinder_step = -1
head = 1
angle_turns = 0.875
angle_step_turns = 0.125
"#;

const BROKEN_RUNS: &[(&str, &str, &str)] = &[
    (
        "first_lba = 0",
        "first_lba = 1",
        "run 0 first_lba is 1, expected 0; runs are in the order of their LBAs, from LBA 0 on",
    ),
    (
        "first_lba = 90",
        "first_lba = 91",
        "run 2 first_lba is 91, expected 90, where run 1 ends; set first_lba = 90",
    ),
    (
        "first_lba = 90",
        "first_lba = 89",
        "run 2 first_lba is 89, expected 90, where run 1 ends; set first_lba = 90",
    ),
    ("tracks = 4", "tracks = 0", "run 2 tracks is 0, expected at least 1; remove the run"),
    ("lbas = 99", "lbas = 0", "run 2 lbas is 0, expected at least 1; remove the run"),
    (
        "sectors_per_track = 99",
        "sectors_per_track = 65536",
        "run 2 sectors_per_track is 65536, expected 1 to 65535; correct it",
    ),
    (
        "lbas = 90",
        "lbas = 90\nfirst_sector = 11",
        "run 3 sectors_per_track is 100, expected at least first_sector + lbas = 101; lower lbas, \
            or raise it",
    ),
    (
        "head = 1",
        "head = 2",
        "run 3 head is 2, expected less than geometry.heads = 2; count heads from 0, or raise \
            geometry.heads",
    ),
    (
        "cylinder_step = -1",
        "cylinder_step = -2",
        "run 3 cylinder_step is -2, expected 1 (inwards) or -1 (outwards); split the run into \
            single tracks",
    ),
    (
        "cylinder = 4",
        "cylinder = 3",
        "run 3 tracks is 5, which leads to cylinder -1, expected cylinders from 0 to 2147483646; \
            correct it",
    ),
    (
        "cylinder = 1",
        "cylinder = 2147483647",
        "run 2 cylinder is 2147483647, which leads to cylinder 2147483647, expected cylinders from \
            0 to 2147483646; correct it",
    ),
    (
        "angle_turns = 0.75",
        "angle_turns = 1.0",
        "run 1 angle_turns is 1, expected 0 up to but not including 1; subtract whole \
            revolutions; add \
            one to a negative angle",
    ),
    (
        "angle_step_turns = 0.125",
        "angle_step_turns = -0.125",
        "run 2 angle_step_turns is -0.125, expected 0 up to but not including 1; subtract whole \
            revolutions; add one to a negative angle",
    ),
    (
        "first_sector = 50",
        "first_sector = 39",
        "run 1 sectors is 39 to 88 on cylinder 0, head 0, expected sectors that run 0 does not \
            hold there; correct cylinder, head, first_sector or lbas of one of the two",
    ),
    (
        "head = 1",
        "head = 0",
        "run 3 sectors is 0 to 89 on cylinder 0, head 0, expected sectors that run 0 does not hold \
            there; correct cylinder, head, first_sector or lbas of one of the two",
    ),
    (
        "sectors_per_track = 100\nfirst_sector",
        "sectors_per_track = 101\nfirst_sector",
        "run 1 sectors_per_track is 101, expected 100, as in run 0 for cylinder 0, head 0; \
            correct one of the two",
    ),
];

fn good_with_runs() -> String {
    let zones = GOOD.find("[[zone]]").expect("the good profile has zones")
        ..GOOD.find("[setup").expect("it has a setup");
    format!("{}{RUNS}\n{}", &GOOD[..zones.start], &GOOD[zones.end..])
}

#[test]
fn each_error_of_a_measured_layout_names_position_value_expectation_and_remedy() {
    let good = good_with_runs();
    DriveProfile::from_toml("exos.toml", &good).expect("the measured profile is valid");
    for (from, to, expected) in BROKEN_RUNS {
        assert!(good.contains(from), "`{from}` is in the measured profile");
        let error = DriveProfile::from_toml("exos.toml", &good.replacen(from, to, 1))
            .expect_err(&format!("`{to}` makes no drive"));
        assert_eq!(error.to_string(), format!("profile exos.toml: {expected}"));
    }
}

#[test]
fn groups_of_spares_are_whole_bands() {
    let banded = GOOD.replacen("\"serpentine\"", "\"banded\"\nband_cylinders = 40", 1).replacen(
        "spares = 10",
        "spares = 10\nspare_cylinders = 50",
        1,
    );
    let expected = "zone 0 spare_cylinders is 50, expected a multiple of geometry.band_cylinders = \
        40, as a band is filled as a whole; round it";
    let error = DriveProfile::from_toml("exos.toml", &banded)
        .expect_err("a group cannot end within a band");
    assert_eq!(error.to_string(), format!("profile exos.toml: {expected}"));
    DriveProfile::from_toml(
        "exos.toml",
        &banded.replacen("spare_cylinders = 50", "spare_cylinders = 80", 1),
    )
    .expect("two bands make a group");
}

#[test]
fn a_profile_has_either_zones_or_runs() {
    let error = |text: &str| {
        DriveProfile::from_toml("exos.toml", text)
            .expect_err("it is neither the one nor the other")
            .to_string()
    };
    let both = format!("{GOOD}{RUNS}");
    assert_eq!(
        error(&both),
        "profile exos.toml: run is 4 runs besides zones, expected zones or runs; remove one of the \
            two"
    );
    let neither = good_with_runs().replace(RUNS, "");
    let expected = "zone is empty, expected at least one [[zone]], or the [[run]]s of a measured \
        layout; add a zone that starts at first_cylinder = 0";
    assert_eq!(error(&neither), format!("profile exos.toml: {expected}"));
}

#[test]
fn a_measured_layout_maps_what_was_measured_and_nothing_between() {
    let profile = DriveProfile::from_toml("exos.toml", &good_with_runs())
        .expect("the measured profile is valid");
    let layout = Layout::new(&profile).expect("it is valid");
    assert_eq!((layout.capacity().get(), layout.cylinders(), layout.heads()), (936, 5, 2));
    let track = |cylinder, head| Track { cylinder, head };
    for (lba, place, turns) in [
        (0, track(0, 0).sector(0), 0.25),
        (39, track(0, 0).sector(39), 0.64),
        (40, track(0, 0).sector(50), 0.75),
        (90 + 3 * 99 + 33, track(4, 0).sector(33), 0.3 + 3.0 * 0.125 + 1.0 / 3.0 - 1.0),
        (486, track(4, 1).sector(0), 0.875),
        (935, track(0, 1).sector(89), 0.375 + 0.89 - 1.0),
    ] {
        assert_eq!(layout.lba_to_physical(Lba::new(lba)), place);
        assert_eq!(layout.physical_to_lba(place), Some(Lba::new(lba)));
        assert!(
            layout.spot(Lba::new(lba)).angle.signed_turns_from(Angle::from_turns(turns)).abs()
                < 1e-9,
            "LBA {lba}"
        );
    }
    for free in [
        track(0, 0).sector(40),
        track(0, 0).sector(49),
        track(2, 1).sector(90),
        track(2, 0).sector(99),
    ] {
        assert_eq!(layout.physical_to_lba(free), None, "{free}");
    }
    let zones: Vec<(u64, u64, u32, u32)> = layout
        .zones()
        .map(|zone| {
            (
                zone.extent.start.get(),
                zone.extent.len.get(),
                zone.first_cylinder,
                zone.sectors_per_track,
            )
        })
        .collect();
    assert_eq!(zones, [(0, 90, 0, 100), (90, 396, 1, 99), (486, 450, 0, 100)]);
}

#[test]
fn a_second_arm_may_differ_and_is_checked_as_the_first() {
    let two = draw::with_another_arm(&DriveProfile::from_toml("good.toml", GOOD).unwrap());
    let text = two.to_toml();
    let read = DriveProfile::from_toml("two.toml", &text).expect("a valid drive");
    assert_eq!(read.to_toml(), text);
    let second = read.of_actuator(1);
    assert_eq!(second.seek, two.second_actuator.as_ref().unwrap().seek);
    assert_eq!(second.capacity(), read.capacity_per_actuator());
    assert_eq!(second.mapped(), read.mapped(), "the second arm has fewer sectors");
    assert_eq!(read.capacity().get(), 2 * second.mapped().get());
    assert!(read.of_actuator(0).mapped() > second.mapped());
    assert_eq!((second.actuators(), &second.second_actuator), (1, &None));
    for (from, to, expected) in [
        (
            "actuators = 2\n",
            "",
            "second_actuator is given, expected nothing for a drive with one arm",
        ),
        (
            "[second_actuator.geometry]\n",
            "[second_actuator.geometry]\nactuators = 2\n",
            "second_actuator.geometry.actuators is 2, expected nothing",
        ),
        (
            "[second_actuator.geometry]\nheads = 1",
            "[second_actuator.geometry]\nheads = 0",
            "second_actuator.geometry.heads is 0, expected 1 to 1024",
        ),
    ] {
        assert!(text.contains(from), "{from:?} in {text}");
        let error = DriveProfile::from_toml("two.toml", &text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}, expected {expected}");
    }
}

#[test]
fn the_capacity_of_a_drive_with_two_arms_is_twice_that_of_one() {
    let two = GOOD.replacen("heads = 2", "heads = 2\nactuators = 2", 1);
    let profile = DriveProfile::from_toml("exos.toml", &two).expect("two arms make a drive");
    assert_eq!(
        (profile.mapped().get(), profile.capacity().get(), profile.capacity_per_actuator().get()),
        (159_990, 319_980, 159_990)
    );
    let declared = |sectors: u64| {
        two.replacen(
            "sector_bytes = 512",
            &format!("sector_bytes = 512\ncapacity_sectors = {sectors}"),
            1,
        )
    };
    let profile = DriveProfile::from_toml("exos.toml", &declared(300_000))
        .expect("each arm serves half of it");
    assert_eq!(Layout::new(&profile).expect("it is valid").capacity().get(), 150_000);
    for (sectors, expected) in [
        (
            300_001,
            "capacity_sectors is 300001, expected a multiple of geometry.actuators = 2, as each \
                arm serves as many; set capacity_sectors = 300000",
        ),
        (
            319_982,
            "capacity_sectors is 319982, but the zones map only 319980 sectors; lower it, or add \
                cylinders",
        ),
    ] {
        let error = DriveProfile::from_toml("exos.toml", &declared(sectors))
            .expect_err("it cannot be divided so");
        assert_eq!(error.to_string(), format!("profile exos.toml: {expected}"));
    }
}

#[test]
fn a_profile_without_declared_capacity_has_all_that_its_zones_map() {
    let profile = DriveProfile::from_toml("exos.toml", GOOD).expect("the good profile is valid");
    assert_eq!(profile.capacity().get(), 600 * 2 * 100 - 10 + 400 * 2 * 50);
    assert_eq!(
        Mechanism::nominal(&profile).expect("it is valid").seek_curve().time(1_000),
        Nanos::from_ms(9)
    );
}
