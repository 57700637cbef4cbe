//! The catalog: each shipped profile agrees with its source figures, loses no revolution in a
//! sequential stream, and names the source of each figure. `docs/drives.md` rates those figures.

use std::collections::BTreeSet;

use headtime_mechanics::profile::TrackOrder;
use headtime_mechanics::{Direction, DriveProfile, HeadPosition, Mechanism, catalog};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

/// The expected properties of a profile.
struct Sheet {
    name: &'static str,
    /// Declared sectors of all arms together.
    sectors: u64,
    /// Streaming read rate in the outermost and innermost zone, skews included, millions of bytes
    /// per second.
    outer: Figure,
    inner: Figure,
    /// Read arm time in milliseconds: mean over uniform pairs of sectors, over one cylinder, over
    /// all cylinders.
    mean_ms: Figure,
    single_ms: Figure,
    full_ms: Figure,
}

/// A figure, its tolerance in per cent, and its source.
struct Figure(f64, f64, &'static str);

const SHEETS: &[Sheet] = &[
    Sheet {
        name: "atlas10k",
        sectors: 17_938_986,
        outer: Figure(23.54, 0.2, "recorded skews and sectors of zone 0"),
        inner: Figure(16.13, 0.2, "recorded skews and sectors of zone 23"),
        mean_ms: Figure(5.551, 0.4, "200,000 random reads of DiskSim's model"),
        single_ms: Figure(1.245, 0.1, "recorded"),
        full_ms: Figure(
            10.828,
            3.5,
            "recorded over 10,021 of 10,041 cylinders; the last line is steep",
        ),
    },
    Sheet {
        name: "barracuda-2tb",
        sectors: 3_907_029_168,
        outer: Figure(210.0, 1.0, "review, ST1000DM010"),
        inner: Figure(102.0, 1.0, "computed from the average of 156 of the ST2000DM001"),
        mean_ms: Figure(8.5, 3.0, "review, ST2000DM001"),
        single_ms: Figure(0.28, 1.0, "class"),
        full_ms: Figure(17.0, 1.0, "guess"),
    },
    Sheet {
        name: "barracuda7200-7",
        sectors: 156_301_488,
        outer: Figure(58.0, 1.0, "cited"),
        inner: Figure(33.0, 1.0, "guess"),
        mean_ms: Figure(8.5, 3.0, "P1, Table I"),
        single_ms: Figure(0.8, 1.0, "guess"),
        full_ms: Figure(17.0, 1.0, "guess"),
    },
    Sheet {
        name: "cheetah10k7",
        sectors: 143_374_744,
        outer: Figure(80.0, 1.0, "cited"),
        inner: Figure(39.0, 1.0, "cited"),
        mean_ms: Figure(4.7, 3.0, "cited; P1's 4.9 less 0.2 of controller overhead"),
        single_ms: Figure(0.2, 1.0, "guess: Savvio 10K.1 manual"),
        full_ms: Figure(9.6, 1.0, "guess"),
    },
    Sheet {
        name: "cheetah15k5",
        sectors: 286_749_487,
        outer: Figure(
            134.0,
            2.0,
            "computed from recorded sectors and angles: 1,200 in 1.1417 turns but for surface \
                changes",
        ),
        inner: Figure(
            79.0,
            4.0,
            "computed from recorded sectors and angles: 720 in about 1.17 turns",
        ),
        mean_ms: Figure(3.5, 10.0, "cited: maker's average"),
        single_ms: Figure(0.5525, 0.1, "recorded"),
        full_ms: Figure(6.914, 1.0, "recorded over 72,000 cylinders"),
    },
    Sheet {
        name: "deskstar34gxp",
        sectors: 40_088_160,
        outer: Figure(22.9, 1.0, "cited"),
        inner: Figure(13.7, 1.0, "guess"),
        mean_ms: Figure(9.0, 3.0, "review (Red Hill)"),
        single_ms: Figure(2.2, 1.0, "cited"),
        full_ms: Figure(15.5, 1.0, "cited"),
    },
    Sheet {
        name: "diamondmax9",
        sectors: 398_297_088,
        outer: Figure(51.8, 1.0, "computed from the Barracuda 7200.7"),
        inner: Figure(29.5, 1.0, "computed from the Barracuda 7200.7"),
        mean_ms: Figure(9.3, 3.0, "P1, Table I"),
        single_ms: Figure(0.9, 1.0, "guess"),
        full_ms: Figure(18.6, 1.0, "guess"),
    },
    Sheet {
        name: "exos-2x18",
        sectors: 35_156_656_128,
        outer: Figure(277.0, 1.0, "half of 554, review (Tom's Hardware)"),
        inner: Figure(138.5, 1.0, "class"),
        mean_ms: Figure(8.0, 3.0, "class"),
        single_ms: Figure(0.28, 1.0, "class"),
        full_ms: Figure(16.0, 1.0, "guess"),
    },
    Sheet {
        name: "maxtor-20gb",
        sectors: 39_062_500,
        outer: Figure(38.46, 1.0, "measured: DiskPerf"),
        inner: Figure(22.40, 1.0, "measured: DiskPerf"),
        mean_ms: Figure(8.7, 3.0, "cited"),
        single_ms: Figure(1.0, 1.0, "guess"),
        full_ms: Figure(17.4, 1.0, "guess"),
    },
    Sheet {
        name: "nearline-20tb",
        sectors: 39_063_650_304,
        outer: Figure(285.0, 1.0, "class"),
        inner: Figure(142.5, 1.0, "class"),
        mean_ms: Figure(8.0, 3.0, "class"),
        single_ms: Figure(0.28, 1.0, "class"),
        full_ms: Figure(16.0, 1.0, "guess"),
    },
    Sheet {
        name: "savvio10k2",
        sectors: 286_749_488,
        outer: Figure(84.1, 1.0, "computed between two manuals"),
        inner: Figure(56.5, 1.0, "computed between two manuals"),
        mean_ms: Figure(4.1, 3.0, "class"),
        single_ms: Figure(0.2, 1.0, "guess: Savvio 10K.1 manual"),
        full_ms: Figure(8.3, 1.0, "guess: Savvio 10K.1 manual"),
    },
    Sheet {
        name: "savvio15k2",
        sectors: 286_749_488,
        outer: Figure(160.0, 1.0, "cited"),
        inner: Figure(122.0, 1.0, "cited"),
        mean_ms: Figure(2.9, 3.0, "P1, Table I"),
        single_ms: Figure(0.2, 1.0, "guess: Savvio 15K.1 manual"),
        full_ms: Figure(5.5, 1.0, "guess: Savvio 15K.1 manual"),
    },
    Sheet {
        name: "ultrastar-hc570",
        sectors: 42_970_644_480,
        outer: Figure(291.0, 1.0, "cited"),
        inner: Figure(145.5, 1.0, "class"),
        mean_ms: Figure(7.4, 3.0, "guess: Ultrastar HC310 manual"),
        single_ms: Figure(0.23, 1.0, "guess: Ultrastar HC310 manual"),
        full_ms: Figure(15.0, 1.0, "guess"),
    },
];

/// Drives whose layout was extracted from a real drive, with zone ends and their lost revolutions.
const RECORDED: [&str; 2] = ["atlas10k", "cheetah15k5"];

/// Source keywords, explained in docs/drives.md; "own" refers to the recorded drive's own lists.
const SOURCE_WORDS: [&str; 19] = [
    "recorded",
    "recording",
    "measured",
    "p1",
    "p2",
    "p3",
    "p4",
    "p5",
    "manual",
    "log",
    "review",
    "cited",
    "class",
    "usual",
    "maker",
    "computed",
    "chosen",
    "guess",
    "own",
];

#[test]
fn every_shipped_profile_has_one_sheet() {
    let sheets: Vec<&str> = SHEETS.iter().map(|sheet| sheet.name).collect();
    let shipped: Vec<&str> = catalog::CATALOG.iter().map(|entry| entry.name).collect();
    assert_eq!(sheets, shipped, "sheets and catalog are in the order of names");
    assert!(shipped.is_sorted());
}

#[test]
fn capacities_are_exactly_what_the_drives_declare() {
    for (sheet, profile) in sheets() {
        assert_eq!(profile.capacity_sectors, Some(sheet.sectors), "{}", sheet.name);
        let spare =
            profile.mapped().get() as f64 / profile.capacity_per_actuator().get() as f64 - 1.0;
        assert!(spare < 0.002, "{} maps {:.3} % more than it declares", sheet.name, spare * 100.0);
    }
}

#[test]
fn streaming_rates_are_the_sheets_outside_and_inside() {
    for (sheet, profile) in sheets() {
        let mechanism = mechanism(&profile);
        let zones = profile.zones.len();
        sheet.outer.check(sheet.name, "MB/s outside", streaming_mb_per_s(&mechanism, &profile, 0));
        sheet.inner.check(
            sheet.name,
            "MB/s inside",
            streaming_mb_per_s(&mechanism, &profile, zones - 1),
        );
        let rates: Vec<f64> =
            (0..zones).map(|zone| f64::from(profile.zones[zone].sectors_per_track)).collect();
        assert!(
            rates.is_sorted_by(|outer, inner| outer >= inner),
            "{}: zones grow inwards",
            sheet.name
        );
    }
}

#[test]
fn seeks_are_the_sheets_on_average_over_one_cylinder_and_over_all() {
    for (sheet, profile) in sheets() {
        let mechanism = mechanism(&profile);
        let curve = mechanism.seek_curve();
        sheet.mean_ms.check(sheet.name, "ms mean arm time", mechanism.mean_arm_time().as_ms_f64());
        sheet.single_ms.check(sheet.name, "ms over one cylinder", curve.time(1).as_ms_f64());
        sheet.full_ms.check(
            sheet.name,
            "ms over all cylinders",
            curve.time(curve.last_distance()).as_ms_f64(),
        );
    }
}

#[test]
fn computed_seek_curves_rise_and_join_without_a_step() {
    for (sheet, profile) in sheets() {
        let Some(formula) = profile.seek.formula else { continue };
        let mechanism = mechanism(&profile);
        let curve = mechanism.seek_curve();
        let step = curve
            .time(formula.long_from)
            .as_ns()
            .abs_diff(curve.time(formula.long_from - 1).as_ns());
        assert!(step < 2_000, "{}: a step of {step} ns where root and line meet", sheet.name);
        let mut before = Nanos::ZERO;
        for distance in (1..=curve.last_distance()).step_by(97) {
            assert!(
                curve.time(distance) >= before,
                "{}: {distance} cylinders take less than fewer",
                sheet.name
            );
            before = curve.time(distance);
        }
    }
}

#[test]
fn skews_cover_each_switch_and_waste_less_than_a_quarter_of_a_turn() {
    for (sheet, profile) in sheets() {
        let mechanism = mechanism(&profile);
        let quarter = mechanism.period().as_ns_f64() / 4.0;
        for boundary in boundaries(&mechanism, &profile, !RECORDED.contains(&sheet.name)) {
            for op in [Direction::Read, Direction::Write] {
                let last = Extent::new(Lba::new(boundary - 1), Sectors::new(1));
                let done = mechanism.access(
                    HeadPosition { cylinder: 0, head: 0 },
                    Instant::ORIGIN,
                    op,
                    last,
                    Instant::ORIGIN,
                );
                let way = mechanism.positioning(done.end, done.finish, op, Lba::new(boundary));
                let wait = way.rotate.as_ns() as f64;
                assert!(
                    wait < quarter,
                    "{}: {op:?} from LBA {} to the next waits {} ns of a quarter turn's {quarter}",
                    sheet.name,
                    boundary - 1,
                    wait
                );
            }
        }
    }
}

#[test]
fn taking_the_cache_away_leaves_none_and_every_cached_profile_has_that_setup() {
    for (sheet, profile) in sheets() {
        if profile.cache.is_none() {
            continue;
        }
        let bare = catalog::load(&format!("{}@nocache", sheet.name))
            .expect("each profile with a cache has the setup `nocache`");
        assert_eq!(bare.cache, None, "{}@nocache", sheet.name);
    }
}

#[test]
fn the_setups_for_published_experiments_complete_writes_on_the_media() {
    for name in [
        "barracuda7200-7",
        "cheetah10k7",
        "deskstar34gxp",
        "diamondmax9",
        "savvio10k2",
        "savvio15k2",
    ] {
        let (shipped, papers) = (load(name), load(&format!("{name}@papers")));
        let (shipped, papers) =
            (shipped.cache.expect("it has a cache"), papers.cache.expect("it keeps its cache"));
        assert!(shipped.write_back && !papers.write_back, "{name}");
        assert_eq!(
            (shipped.segments, shipped.segment_sectors),
            (papers.segments, papers.segment_sectors),
            "{name}"
        );
    }
    assert_eq!(
        (
            load("cheetah10k7@papers").firmware.queue_depth,
            load("cheetah10k7@tcq4").firmware.queue_depth
        ),
        (64, 4)
    );
    assert_eq!(
        (
            load("maxtor-20gb@papers").firmware.queue_depth,
            load("deskstar34gxp@papers").firmware.queue_depth
        ),
        (1, 1)
    );
}

/// P1, section V: NOOP, which is first come first served, serves "slightly higher than 130"
/// requests per second at any queue length.
#[test]
fn the_latency_maps_drive_serves_about_as_many_random_reads_as_published() {
    let profile = load("cheetah10k7@papers");
    let mechanism = mechanism(&profile);
    let service = profile.interface.read_command_us / 1e3
        + mechanism.mean_arm_time().as_ms_f64()
        + mechanism.period().as_ns_f64() / 2e6;
    let rate = 1e3 / service;
    assert!((rate / 130.0 - 1.0).abs() < 0.05, "{rate} requests per second");
}

#[test]
fn each_figure_in_each_file_names_its_source_or_says_guess() {
    let named = |comment: &str| {
        comment.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SOURCE_WORDS.contains(&word))
    };
    for entry in catalog::CATALOG {
        let mut above = String::new();
        let mut of_zones = String::new();
        let mut in_zones = false;
        let mut in_array = false;
        for (number, line) in entry.toml.lines().enumerate() {
            let (trimmed, place) =
                (line.trim(), format!("{}.toml line {}", entry.name, number + 1));
            if let Some(comment) = trimmed.strip_prefix('#') {
                above.push_str(&comment.to_lowercase());
                continue;
            }
            if trimmed.is_empty() {
                of_zones = if above.is_empty() { of_zones } else { above.clone() };
                above.clear();
                continue;
            }
            if trimmed.starts_with('[') && !in_array {
                in_zones = trimmed.starts_with("[[");
                assert!(
                    !in_zones || named(&of_zones),
                    "{place}: nothing above the zones says where they come from"
                );
                continue;
            }
            if !in_array
                && !in_zones
                && !["name", "model", "description"]
                    .iter()
                    .any(|key| trimmed.starts_with(&format!("{key} =")))
            {
                let own = line.split_once(" # ").map_or("", |(_, comment)| comment).to_lowercase();
                let comment = if own.is_empty() || own.contains("see above") {
                    format!("{above} {own}")
                } else {
                    own
                };
                assert!(
                    named(&comment),
                    "{place}: `{trimmed}` names no source and does not say guess"
                );
            }
            in_array = if in_array {
                !trimmed.ends_with(']') || trimmed.ends_with("],")
            } else {
                trimmed.ends_with('[')
            };
            if !in_array && !in_zones && line.contains(" # ") && !line.contains("see above") {
                above.clear();
            }
        }
    }
}

#[test]
fn every_shipped_profile_has_its_row_in_the_list_of_drives() {
    let page = include_str!("../../../docs/drives.md");
    let rows: BTreeSet<&str> = page
        .lines()
        .take_while(|line| *line != "## Noise")
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|rest| rest.split_once('`'))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with('@') && !name.ends_with("-SEED"))
        .collect();
    let shipped: BTreeSet<&str> = catalog::CATALOG.iter().map(|entry| entry.name).collect();
    assert_eq!(rows, shipped, "docs/drives.md has one row for each entry of CATALOG and no other");
    for entry in catalog::CATALOG {
        let profile = entry.load().expect("a shipped profile is valid");
        for setup in profile.setup.keys() {
            assert!(
                page.contains(&format!("`@{setup}`")),
                "docs/drives.md does not explain the setup `@{setup}` of {}",
                entry.name
            );
        }
    }
}

impl Figure {
    fn check(&self, profile: &str, what: &str, value: f64) {
        let Self(expected, percent, source) = *self;
        let off = (value / expected - 1.0) * 100.0;
        assert!(
            off.abs() <= percent,
            "{profile}: {value:.3} {what}, {off:+.2} % off {expected} ({source}); at most \
                {percent} % are allowed"
        );
    }
}

fn sheets() -> impl Iterator<Item = (&'static Sheet, DriveProfile)> {
    SHEETS.iter().map(|sheet| (sheet, load(sheet.name)))
}

fn load(name: &str) -> DriveProfile {
    catalog::load(name).expect("a shipped profile is valid")
}

fn mechanism(profile: &DriveProfile) -> Mechanism {
    Mechanism::nominal(profile).expect("a shipped profile is valid")
}

/// One read over all kinds of steps: two bands, or 32 cylinders without bands.
fn streaming_mb_per_s(mechanism: &Mechanism, profile: &DriveProfile, zone: usize) -> f64 {
    let extent =
        mechanism.layout().zones().nth(zone).expect("the layout has the profile's zones").extent;
    let cylinders = 2 * u64::from(profile.geometry.band_cylinders.unwrap_or(16));
    let sectors = cylinders
        * u64::from(profile.geometry.heads)
        * u64::from(profile.zones[zone].sectors_per_track);
    let len = Sectors::new(
        sectors.min(extent.len.get()).min(mechanism.layout().capacity().get() - extent.start.get()),
    );
    let start = mechanism
        .positioning(
            HeadPosition { cylinder: 0, head: 0 },
            Instant::ORIGIN,
            Direction::Read,
            extent.start,
        )
        .total();
    let read = mechanism.access(
        HeadPosition { cylinder: 0, head: 0 },
        Instant::ORIGIN,
        Direction::Read,
        Extent::new(extent.start, len),
        Instant::ORIGIN,
    );
    let took = read.finish.saturating_since(Instant::ORIGIN + start);
    (len.get() * u64::from(profile.sector_bytes)) as f64 / took.as_ns() as f64 * 1e3
}

/// First LBAs of tracks after each kind of step in each zone: a cylinder, a head, a band, a group
/// of spares, and the zone's own first if `ends`.
fn boundaries(mechanism: &Mechanism, profile: &DriveProfile, ends: bool) -> BTreeSet<u64> {
    let layout = mechanism.layout();
    let heads = u64::from(profile.geometry.heads);
    let mut firsts = BTreeSet::new();
    for (zone, data) in layout.zones().zip(&profile.zones) {
        let first = layout.track_number(layout.track_of(zone.extent.start));
        let tracks = u64::from(data.cylinders) * heads;
        let width = match profile.geometry.layout {
            TrackOrder::SurfaceSerpentine | TrackOrder::Banded => {
                u64::from(profile.geometry.band_cylinders.unwrap_or(1))
            }
            TrackOrder::Cylinder | TrackOrder::Serpentine => 1,
        };
        let mut numbers: BTreeSet<u64> = (1..4)
            .chain((1..=2 * heads + 1).flat_map(|surface| [surface * width, surface * width + 1]))
            .collect();
        if let Some(group) = data.spare_cylinders {
            numbers.extend([u64::from(group) * heads, u64::from(group) * heads + 1]);
        }
        for number in numbers.into_iter().filter(|number| *number < tracks) {
            let track = layout.track_by_number(first + number).expect("the zone has this track");
            let (extent, zone_end) =
                (layout.track_extent(track), zone.extent.start.get() + zone.extent.len.get());
            if extent.start.get() > zone.extent.start.get()
                && extent.start.get() < zone_end.min(layout.capacity().get())
            {
                firsts.insert(extent.start.get());
            }
        }
        if ends && zone.extent.start.get() > 0 {
            firsts.insert(zone.extent.start.get());
        }
    }
    firsts
}
