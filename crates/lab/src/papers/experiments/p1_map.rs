//! `p1.map` and `p1.drives`: the causes of a map's gain over an order by addresses, one at a time,
//! and the gain of the maps that the program recommends on each drive of the catalog.
//!
//! Every line of `p1.map` changes one thing against the published conditions: the entries of the
//! matrix, its collection, the insertion, the order, or the drive. Both orders by address are
//! measured on the same drive and positions.

use std::collections::BTreeMap;
use std::sync::Arc;

use headtime_belief::matrix::{Directions, EntryBits, MatrixSettings};
use headtime_mechanics::catalog::{self, CATALOG};
use headtime_units::ByteSize;

use super::p1::{self, Collect, DRIVE, Knows, LearnCompact, LearnFrom, Run, Ways};
use crate::papers::load::{UnitOf, iops};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, FixedParameter, Judged, PaperExperiment,
    Plot, Point, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.map",
    title: "gain of a map over orders by address, with one condition changed at a time",
    source: "P1, section V-C (up to 28 %; 17 % and 13 % on average with a frozen queue)",
    takes: "15 min",
    find,
};

/// The line of the drives.
pub(crate) const ON_DRIVES: PaperExperiment = PaperExperiment {
    id: "p1.drives",
    title: "gain of the maps in use over orders by address on every drive of the catalog",
    source: "P1, section V-C (the same degree on all drives)",
    takes: "15 min",
    find: on_drives,
};

const QUEUES: [u32; 5] = [8, 16, 32, 64, 128];
const REQUESTS: u64 = 20_000;
/// Pairs of positions, against the paper's.
const SHARE: f64 = 0.1;

/// The published conditions with one change.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    live: &'static str,
    frozen: &'static str,
    drive: &'static str,
    unit: UnitOf,
    settings: MatrixSettings,
    ways: Ways,
}

/// As published: half a matrix of 4 bits for cells of 128 KiB, insertion in the order of the queue.
fn published() -> Variant {
    Variant {
        name: "as published",
        live: "satf-map",
        frozen: "fsatf-map",
        drive: DRIVE,
        unit: UnitOf::Drawn,
        settings: MatrixSettings::default(),
        ways: Ways::Both,
    }
}

fn variants() -> Vec<Variant> {
    let base = published();
    let both = MatrixSettings { directions: Directions::Both, ..base.settings };
    let bits = |bits| MatrixSettings { bits, ..base.settings };
    let cell = |kib: u64| MatrixSettings { cell: ByteSize::new(kib << 10), ..base.settings };
    let greedy = Variant { live: p1::GREEDY, frozen: "fsatf-map:nearest_first=2", ..base };
    vec![
        base,
        Variant { name: "entries of 8 bits", settings: bits(EntryBits::Eight), ..base },
        Variant { name: "cells of 16 KiB", settings: cell(16), ..base },
        Variant { name: "each pair collected in one direction", ways: Ways::One, ..base },
        Variant { name: "no noise", unit: UnitOf::Nominal, ..base },
        Variant { name: "no cache", drive: UNCACHED, ..base },
        Variant {
            name: "path built again at each decision",
            live: "satf-map:rebuild_after=1",
            ..base
        },
        Variant {
            name: "nearest first, built again at each decision",
            live: "satf-map:rebuild_after=1,nearest_first=1",
            frozen: "fsatf-map:nearest_first=1",
            ..base
        },
        Variant { name: "nearest neighbor", ..greedy },
        Variant { name: "both directions", settings: both, ..base },
        Variant {
            name: "both directions, 8 bits",
            settings: MatrixSettings { bits: EntryBits::Eight, ..both },
            ..base
        },
        Variant {
            name: "both directions, nearest first, built again at each decision",
            live: "satf-map:rebuild_after=1,nearest_first=1",
            frozen: "fsatf-map:nearest_first=1",
            settings: both,
            ..base
        },
        Variant { name: "both directions, nearest neighbor", settings: both, ..greedy },
        Variant {
            name: "both directions, 8 bits, nearest neighbor",
            settings: MatrixSettings { bits: EntryBits::Eight, ..both },
            ..greedy
        },
        Variant {
            name: "both directions, 8 bits, nearest neighbor, no noise",
            settings: MatrixSettings { bits: EntryBits::Eight, ..both },
            unit: UnitOf::Nominal,
            ..greedy
        },
    ]
}

const UNCACHED: &str = "cheetah10k7@nocache";

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let positions = p1::positions(context, SHARE);
    let variants = variants();
    let collect = |of: &Variant| Collect {
        unit: of.unit,
        ways: of.ways,
        ..Collect::of(of.drive, positions, of.settings)
    };
    let mut required: Vec<Collect> = Vec::new();
    for variant in &variants {
        if !required.contains(&collect(variant)) {
            required.push(collect(variant));
        }
    }
    let maps = context.run(&required)?;
    let map = |of: &Variant| {
        let place = required.iter().position(|other| *other == collect(of));
        Arc::clone(&maps[place.expect("one for each variant")])
    };
    let run = |of: &Variant, policy: &str, knows: Knows, queue: u32| Run {
        unit: of.unit,
        outstanding: Some(1),
        ..Run::of(of.drive, policy, knows, positions, queue, requests)
    };
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    let key = |of: &Variant, policy: &str, queue: u32| match BY_ADDRESS.contains(&policy) {
        true => format!("{policy} {} {:?} {queue}", of.drive, of.unit),
        false => format!("{policy} {} {queue}", of.name),
    };
    for variant in &variants {
        for queue in QUEUES {
            for policy in BY_ADDRESS {
                let run = || run(variant, policy, Knows::Model, queue);
                runs.entry(key(variant, policy, queue)).or_insert_with(run);
            }
            for policy in [variant.live, variant.frozen] {
                let run = || run(variant, policy, Knows::Map(map(variant)), queue);
                runs.entry(key(variant, policy, queue)).or_insert_with(run);
            }
        }
    }
    let measured = context.run(&runs.values().cloned().collect::<Vec<_>>())?;
    let rates: BTreeMap<&String, Estimated> =
        runs.keys().zip(&measured).map(|(key, measured)| (key, iops(measured))).collect();
    let gain = |of: &Variant, policy: &str, over: &str, queue: u32| {
        rates[&key(of, policy, queue)].gain(rates[&key(of, over, queue)])
    };

    let mut findings = Findings::new(
        p1::parameters(positions, requests),
        p1::notes(),
        Plot::new("processes", "gain", Axis::PowersOfTwo),
    );
    for (title, over, at_most, mean) in
        [("SATF", BY_ADDRESS[0], 0.28, None), ("FSATF", BY_ADDRESS[1], 0.17, Some(0.13))]
    {
        let mut series = Vec::new();
        for variant in &variants {
            let policy = if over == BY_ADDRESS[0] { variant.live } else { variant.frozen };
            let gains = QUEUES.map(|queue| gain(variant, policy, over, queue));
            let most = gains.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value));
            let what = |text: &str| {
                format!(
                    "{}: gain over {title}-LBN, {text} ({})",
                    variant.name,
                    variant.unit.words()
                )
            };
            for (queue, gain) in QUEUES.iter().zip(gains) {
                let why = "Not published as a number; the figure has it.";
                findings.rows.push(Row::unpublished(
                    what(&format!("{queue} processes")),
                    gain,
                    "gain",
                    why,
                ));
            }
            for (text, published, gain) in
                [("maximum", Some(at_most), most), ("mean", mean, Some(average(&gains)))]
            {
                let (Some(published), Some(gain)) = (published, gain) else { continue };
                findings.rows.push(Row::new(
                    what(text),
                    "gain",
                    Judged::effect(published, gain, OF_GAIN * published, A_QUARTER),
                    "these conditions are not those of the paper's drive.",
                ));
            }
            let points = QUEUES
                .iter()
                .zip(gains)
                .map(|(queue, gain)| Point::of(f64::from(*queue), gain))
                .collect();
            series.push(Series::measured(variant.name, points));
        }
        findings.add_panel(format!("over {title}-LBN"), series);
    }
    Ok(findings)
}

/// The paper's SATF-LBN and FSATF-LBN.
const BY_ADDRESS: [&str; 2] = ["satf-lbn", "fsatf-lbn"];
/// Required agreement of a gain, as a share of it.
const OF_GAIN: f64 = 0.25;
const A_QUARTER: &str = "a quarter of the gain, a guess";

fn average(gains: &[Estimated]) -> Estimated {
    let sum = gains.iter().copied().reduce(Estimated::plus).expect("one for each queue");
    sum.times(1.0 / gains.len() as f64)
}

/// Orders by address and by map on each drive.
const ON_EACH: [u32; 3] = [8, 32, 128];
const BOTH_BY_ADDRESS: [&str; 3] = ["satf-lbn", "sstf", "clook"];
const BY_MAP: [&str; 2] = ["sptf-expected", "headtime"];
/// So many positions that neither a cache nor a cell holds two of them.
const ANYWHERE: u64 = 10_000_019;

fn on_drives(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let requests = context.requests(REQUESTS);
    let learned_from = context.requests(p1::LEARNED_FROM);
    let one_arm = |drive: &&str| catalog::load(drive).is_ok_and(|drive| drive.actuators() == 1);
    let drives: Vec<&str> = CATALOG.iter().map(|entry| entry.name).filter(one_arm).collect();
    let mut learn = Vec::new();
    for drive in &drives {
        for from in [LearnFrom::Nothing, LearnFrom::Model] {
            learn.push(LearnCompact { drive, unit: UnitOf::Drawn, from, requests: learned_from });
        }
    }
    let maps = context.run(&learn)?;
    let names = ["compact map from nothing", "compact map from the profile"];
    let mut runs = Vec::new();
    for (drive, maps) in drives.iter().zip(maps.chunks(names.len())) {
        for queue in ON_EACH {
            let run = |policy: &str, knows| Run {
                outstanding: Some(2),
                ..Run::of(drive, policy, knows, ANYWHERE, queue, requests)
            };
            runs.extend(BOTH_BY_ADDRESS.map(|policy| run(policy, Knows::Model)));
            for map in maps {
                runs.extend(BY_MAP.map(|policy| run(policy, Knows::Compact(Arc::clone(map)))));
            }
        }
    }
    let measured = context.run(&runs)?;
    let mut findings = Findings::new(
        vec![
            FixedParameter::new("requests", "reads of 1 to 4 KiB anywhere, no think time"),
            FixedParameter::new("at the drive", "two commands, by map as by address"),
            FixedParameter::new(
                "maps",
                format!("compact, learned from {learned_from} random reads on the same drive"),
            ),
            FixedParameter::new("requests counted", format!("{requests} a point")),
        ],
        vec!["A drive with two arms has no compact map: each half would need its own.".to_string()],
        Plot::new("requests held", "gain", Axis::PowersOfTwo),
    );
    let each = BOTH_BY_ADDRESS.len() + names.len() * BY_MAP.len();
    for (place, drive) in drives.iter().enumerate() {
        let of_drive = &measured[place * ON_EACH.len() * each..][..ON_EACH.len() * each];
        let mut lines = vec![Vec::new(); each - BOTH_BY_ADDRESS.len()];
        for (queue, measured) in ON_EACH.iter().zip(of_drive.chunks(each)) {
            let rates: Vec<Estimated> = measured.iter().map(iops).collect();
            let (by_address, by_map) = rates.split_at(BOTH_BY_ADDRESS.len());
            let best = by_address.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value));
            let best = best.expect("there are orders by address");
            for (column, rate) in by_map.iter().enumerate() {
                let gain = rate.gain(best);
                let (map, policy) = (names[column / BY_MAP.len()], BY_MAP[column % BY_MAP.len()]);
                findings.rows.push(Row::new(
                    format!(
                        "{drive}, queue {queue}: gain of {policy} by a {map} over the best order \
                            by address (simulated drive with noise)"
                    ),
                    "gain",
                    Judged::ordering(gain, 0.0, "a target of this project: beats it").target(),
                    "the map does not know this drive well enough; docs/map.md says when not to \
                        use one.",
                ));
                lines[column].push(Point::of(f64::from(*queue), gain));
            }
        }
        let series = lines.into_iter().enumerate().map(|(column, points)| {
            let name =
                format!("{}, {}", BY_MAP[column % BY_MAP.len()], names[column / BY_MAP.len()]);
            Series::measured(name, points)
        });
        findings.add_panel(*drive, series.collect());
    }
    Ok(findings)
}
