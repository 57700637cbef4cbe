//! A table of drives and what is found of them; a second or a few for each: `cargo run --release -p
//! headtime-probe --example survey -- atlas10k@nocache:nominal:1 deskstar34gxp:typical:2`; the
//! second word is a level of noise, or `nominal` for the profile itself. Beside the share of reads
//! within 50 us stands that of an oracle that knows the truth's means (`of all`).
//! `all:typical:1` is every profile as it ships, `all@nocache:typical:1` with the cache off
//! where it has such a setup, `drawn:quiet:1-20` (or `worn`, `varied`) drives drawn at random by
//! these seeds, and `FILE.toml:nominal` the profile in a file. In the environment: `STAGES=1`,
//! `ZONES=1`, `LOSS=1` (to the oracle), `TRACE=1000` (the zones after each thousand reads),
//! `UNLIKE=1`, `SEEK=1`, `ANGLES=1` print more; `@nocache` removes the cache. `SEGMENTS=1` and
//! `READ_AHEAD=0` in the environment change those of the cache.
#![allow(clippy::unwrap_used)] // A table for developers; any error ends it.

#[path = "../tests/common/mod.rs"]
mod common;

use common::wall::Case;
use common::{Bench, borders, load, settings, tracks_alike};
use headtime_mechanics::{DriveProfile, NoiseLevel, catalog};
use headtime_probe::{CommandOutcome, Finding, Measurement, Probe, Stage, TimedCommand};
use headtime_sim::DriveTruth;

fn main() {
    println!(
        "drive                            drive s  limit  reads  zones   alike  ±2     50 us  \
            of all 150 us missed hits  heads order     remarks"
    );
    for words in std::env::args().skip(1) {
        let mut words = words.split(':');
        let (names, kind, seeds) =
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or("1"));
        let probe_seeds = words.next();
        for seed in range(seeds) {
            for (name, mut profile) in profiles(names, seed) {
                change_cache(&mut profile);
                let drive = format!("{name}:{kind}:{seed}");
                let Some(probe_seeds) = probe_seeds else {
                    look_at(&drive, &profile, kind.parse().ok(), seed, seed);
                    continue;
                };
                for probe_seed in range(probe_seeds) {
                    let drive = format!("{drive}:{probe_seed}");
                    look_at(&drive, &profile, kind.parse().ok(), seed, probe_seed);
                }
            }
        }
    }
}

fn range(text: &str) -> std::ops::RangeInclusive<u64> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    first.parse().unwrap()..=last.parse().unwrap()
}

fn profiles(names: &str, seed: u64) -> Vec<(String, DriveProfile)> {
    let (name, setup) =
        names.split_once('@').map_or((names, None), |(name, setup)| (name, Some(setup)));
    if ["drawn", "worn", "varied"].contains(&name) {
        let setup = setup.map_or(String::new(), |setup| format!("@{setup}"));
        return vec![(names.into(), load(&format!("{name}-{seed}{setup}")))];
    }
    if names.ends_with(".toml") {
        let text = std::fs::read_to_string(names).unwrap();
        return vec![(names.into(), DriveProfile::from_toml(names, &text).unwrap())];
    }
    if name != "all" {
        return vec![(names.into(), load(names))];
    }
    let named = catalog::CATALOG.iter().map(|entry| {
        let name = setup.map_or(entry.name.to_string(), |setup| format!("{}@{setup}", entry.name));
        catalog::load(&name).map_or_else(
            |_| (entry.name.to_string(), entry.load().unwrap()),
            |profile| (name, profile),
        )
    });
    named.collect()
}

/// Changes segments and read-ahead of the cache as the environment says.
fn change_cache(profile: &mut DriveProfile) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap());
    let Some(cache) = &mut profile.cache else { return };
    cache.segments = number("SEGMENTS").unwrap_or(cache.segments);
    cache.read_ahead_sectors = number("READ_AHEAD").unwrap_or(cache.read_ahead_sectors);
}

fn look_at(
    drive: &str,
    profile: &DriveProfile,
    noise: Option<NoiseLevel>,
    seed: u64,
    probe_seed: u64,
) {
    if std::env::var("STAGES").is_ok() {
        let (geometry, zone) = (profile.geometry, &profile.zones[0]);
        println!(
            "  {}; {:?}/{:?}, {} sectors, skews {}, {}, {:?}",
            profile.description,
            geometry.layout,
            geometry.band_cylinders,
            zone.sectors_per_track,
            zone.track_skew,
            zone.cylinder_skew,
            zone.band_skew
        );
    }
    let truth = match noise {
        None => DriveTruth::nominal(profile, seed),
        Some(level) => DriveTruth::draw(&level.apply(profile), seed),
    };
    let truth = match truth {
        Ok(truth) => truth,
        Err(error) => return println!("{drive:32} no such drive: {error}"),
    };
    let settings = settings(profile, probe_seed);
    let mut probe = Probe::new(settings);
    let mut bench = Bench::new(truth.clone());
    let mut stage = (probe.stage(), 0.0, 0);
    let (mut reads, mut quick, mut before) = (0, 0, bench.now());
    let mut checked: Vec<TimedCommand> = Vec::new();
    while let Some(batch) = probe.next_batch() {
        let single = matches!(probe.next_measurement(), Some(Measurement::Read { .. }));
        let answers = bench.carry_out(batch, |_| CommandOutcome::Done);
        if single && probe.stage() == Stage::SelfCheck {
            checked.extend(&answers);
        }
        probe.batch_completed(answers);
        reads += 1;
        quick +=
            usize::from(bench.now().saturating_since(before) < headtime_units::Nanos::from_us(300));
        before = bench.now();
        if std::env::var("TRACE").is_ok_and(|every| reads % every.parse::<i32>().unwrap() == 0) {
            println!("  after {reads} reads, {:.1} s:", bench.now().as_secs_f64());
            print_zones(&probe);
        }
        if probe.stage() != stage.0 {
            let now = bench.now().as_secs_f64();
            if std::env::var("STAGES").is_ok() {
                println!(
                    "  {:?}: {:.1} s, {} reads, {} quick",
                    stage.0,
                    now - stage.1,
                    reads - stage.2,
                    quick
                );
                quick = 0;
            }
            stage = (probe.stage(), now, reads);
            if let Ok(file) = std::env::var("DUMP")
                && matches!(stage.0, Stage::Interface | Stage::SelfCheck)
            {
                std::fs::write(
                    format!("{file}.{:?}", stage.0),
                    serde_json::to_string(&probe).unwrap(),
                )
                .unwrap();
            }
            if std::env::var("ZONES").is_ok() && matches!(stage.0, Stage::Interface | Stage::Done) {
                print_zones(&probe);
            }
        }
    }
    let finding = probe.finding();
    let noisy = noise.is_some();
    let case = Case { name: drive.into(), profile: profile.clone(), truth, noisy, seed };
    let (_, (predictable, _)) = case.oracles(&checked);
    let oracle = case.errors_of_means(&checked);
    let truth = case.truth;
    let remarks = finding
        .remarks
        .iter()
        .map(|remark| remark.chars().take(70).collect::<String>())
        .collect::<Vec<_>>()
        .join(" | ");
    let check = finding.check.unwrap_or_default();
    let real = borders(profile);
    let (seen, alike, within) = finding.profile.as_ref().map_or((Vec::new(), 0.0, 0.0), |found| {
        (
            borders(found),
            tracks_alike(found, truth.mechanism().layout(), 0),
            tracks_alike(found, truth.mechanism().layout(), 2),
        )
    });
    let found_zones = real.iter().filter(|border| seen.contains(border)).count();
    let geometry = finding.profile.as_ref().map(|found| found.geometry);
    println!(
        "{drive:32} {:7.1} {:6.0} {:7} {found_zones:2}/{:2}+{:<3} {alike:.3} {within:.3} {:.4} \
            {predictable:.4} {:.4} {:.4} {:4} {:4} {:10} {remarks}",
        finding.drive_time.as_secs_f64(),
        settings.budget.as_secs_f64(),
        finding.reads,
        real.len(),
        seen.len() as i64 - found_zones as i64,
        check.within_50_us,
        check.within_150_us,
        check.turn_missed,
        check.hits,
        geometry.as_ref().map_or(0, |geometry| geometry.heads),
        geometry.as_ref().map_or(String::new(), |geometry| format!(
            "{:?}/{:?}",
            geometry.layout, geometry.band_cylinders
        )),
    );
    if std::env::var("ANGLES").is_ok() {
        println!(
            "  errors of 4 KiB reads (us) at {:?} %: {:.1?}",
            headtime_probe::PredictionErrors::PERCENTILES,
            check.short.percentiles_us
        );
    }
    if std::env::var("LOSS").is_ok() {
        print_loss(&probe, &oracle, truth.mechanism().period().as_ns_f64() / 1e3);
    }
    if std::env::var("UNLIKE").is_ok() {
        print_unlike(&finding, &truth);
    }
    if std::env::var("SEEK").is_ok() {
        print_seek(&finding, &truth);
    }
    if std::env::var("ANGLES").is_ok() {
        print_angles(&finding, &truth);
    }
}

/// The shares of reads that the oracle predicts within 50 us and the result does not, less those of
/// the reverse, by the distance of the two predictions: near, elsewhere in the revolution, or a
/// revolution and more.
fn print_loss(probe: &Probe, oracle: &[(headtime_units::Lba, f64)], period_us: f64) {
    let json = serde_json::to_value(probe).unwrap();
    let oracle: std::collections::BTreeMap<u64, f64> =
        oracle.iter().map(|(lba, error_ns)| (lba.get(), error_ns / 1e3)).collect();
    let (mut all, mut near, mut lost) = (0, Vec::new(), [0; 3]);
    for read in json["results"]["check"]["errors"].as_array().unwrap() {
        let Some(other) = oracle.get(&read[0].as_u64().unwrap()) else { continue };
        let error = read[1].as_f64().unwrap();
        let apart = error - other;
        let kind = usize::from(apart.abs() > 100.0) + usize::from(apart.abs() > period_us / 2.0);
        if kind == 0 {
            near.push(apart);
        }
        all += 1;
        lost[kind] += i32::from(other.abs() <= 50.0) - i32::from(error.abs() <= 50.0);
    }
    let count = near.len().max(1) as f64;
    let mean = near.iter().sum::<f64>() / count;
    let deviation = (near.iter().map(|off| (off - mean).powi(2)).sum::<f64>() / count).sqrt();
    let [near, elsewhere, turned] =
        lost.map(|lost| 100.0 * f64::from(lost) / f64::from(all.max(1)));
    println!(
        "  lost to the oracle: near {near:.1} % (later by {:.1} us, deviation {deviation:.1}), \
            elsewhere {elsewhere:.1} %, a revolution {turned:.1} %",
        -mean
    );
}

/// The mean error of predicted track angles, zone by zone.
fn print_angles(finding: &Finding, truth: &DriveTruth) {
    let Some(found) = &finding.profile else { return };
    let (one, two) = (headtime_mechanics::Layout::new(found).unwrap(), truth.mechanism().layout());
    let period_us = truth.mechanism().period().as_ns_f64() / 1e3;
    let wrap = |turns: f64| (turns + 0.5).rem_euclid(1.0) - 0.5;
    let middle = |values: &[f64], share: f64| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
            .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or(0.0)
    };
    let mut zones = Vec::new();
    let mut first = None;
    for zone in two.zones() {
        let (start, sectors) = (zone.extent.start.get(), zone.extent.len.get());
        let off = (0..200).map(|number| {
            // Spares at the drive's end count as the last zone's.
            let last = (start + sectors).min(two.capacity().get()) - 1;
            let lba =
                headtime_units::Lba::new(start + (u128::from(last - start) * number / 199) as u64);
            let off = one.spot(lba).angle.signed_turns_from(two.spot(lba).angle);
            wrap(off - *first.get_or_insert(off)) * period_us
        });
        zones.push((start, zone.sectors_per_track, off.collect::<Vec<f64>>()));
    }
    let all: Vec<f64> = zones.iter().flat_map(|zone| zone.2.iter().copied()).collect();
    let usual = middle(&all, 0.5);
    for (start, spt, off) in &zones {
        let shares = [0.05, 0.25, 0.5, 0.75, 0.95].map(|share| middle(off, share) - usual);
        let mean =
            off.iter().map(|off| off - usual).filter(|off| off.abs() < 200.0).sum::<f64>() / 200.0;
        if std::env::var("ANGLES").is_ok_and(|value| value == "all") {
            println!("   {:.0?}", off.iter().map(|off| off - usual).collect::<Vec<_>>());
        }
        println!(
            "  angles from {start} ({spt} a track, {:.1} us each): {shares:.1?} us, mean {mean:.1}",
            period_us / f64::from(*spt)
        );
    }
    let interface = |profile: &DriveProfile| {
        let times = headtime_mechanics::InterfaceTimes::from_profile(profile).unwrap();
        let read = headtime_mechanics::Direction::Read;
        let after = times.bus_time(headtime_units::Sectors::new(1)) + times.completion_overhead();
        (times.command_overhead(read, Some(read)) + after).as_us_f64()
    };
    let jitter_us = truth.noise().jitter_ns / 1e3;
    println!(
        "  command and completion {:.1} us, real {:.1} and jitter of {jitter_us:.1}",
        interface(found),
        interface(truth.profile())
    );
}

fn print_zones(probe: &Probe) {
    let json = serde_json::to_value(probe).unwrap();
    let layout = &json["results"]["layout"];
    println!("  pattern {} {}", layout["pattern"], json["remarks"]);
    let zones = layout["zones"].as_array().unwrap();
    let shown = if std::env::var("TRACE").is_ok() { 2 } else { 30 };
    for zone in zones.iter().rev().take(shown).rev() {
        let skips = zone["skips"].as_array().unwrap();
        let shown: Vec<_> = skips
            .iter()
            .take(6)
            .map(|s| (s["lba"].as_u64().unwrap(), s["sectors"].as_u64().unwrap()))
            .collect();
        println!(
            "  {}..{} spt {} res {} steps {} last {} groups {} checked {} dev {} skips {} \
                {shown:?}",
            zone["first_lba"],
            zone["end_lba"],
            zone["sectors_per_track"],
            zone["reserved"],
            zone["steps"],
            zone["last_band"],
            zone["groups"],
            zone["checked"],
            zone["deviation"],
            skips.len()
        );
    }
}

fn print_unlike(finding: &Finding, truth: &DriveTruth) {
    let Some(found) = &finding.profile else { return };
    let (one, two) = (headtime_mechanics::Layout::new(found).unwrap(), truth.mechanism().layout());
    let capacity = two.capacity().get();
    let mut shown = 0;
    let (seen, real) = (borders(found), borders(truth.profile()));
    for border in real.iter().filter(|border| !seen.contains(border)).take(12) {
        println!("   border not found: {border:?}");
    }
    for border in seen.iter().filter(|border| !real.contains(border)).take(12) {
        println!("   no border: {border:?}");
    }
    for number in 0..4000_u128 {
        let lba = headtime_units::Lba::new((u128::from(capacity - 1) * number / 3999) as u64);
        let (a, b) = (one.track_extent(one.track_of(lba)), two.track_extent(two.track_of(lba)));
        if a != b && shown < 12 {
            shown += 1;
            println!(
                "   unlike at {}: found {:?} {a}, real {:?} {b}",
                lba.get(),
                one.lba_to_physical(lba),
                two.lba_to_physical(lba)
            );
        }
    }
}

fn print_seek(finding: &Finding, truth: &DriveTruth) {
    let Some(found) = &finding.profile else { return };
    let curve = headtime_mechanics::SeekCurve::from_profile(found);
    let real = truth.mechanism().seek_curve();
    let later = |distance| curve.time(distance).as_us_f64() - real.time(distance).as_us_f64();
    let mut off: Vec<f64> = (0..2000)
        .map(|n| 1 + n * (real.last_distance() - 1) / 2000)
        .map(|distance| later(distance).abs())
        .collect();
    off.sort_by(f64::total_cmp);
    let at: Vec<_> = found
        .seek
        .points
        .iter()
        .step_by(4)
        .map(|point| (point.0, later(point.0).round()))
        .collect();
    println!("  seek errors (us) at {at:?}");
    println!(
        "  seek: {} points, error median {:.1} us, 95 % {:.1} us; head switch {:.3} ms; command \
            {:.1} us, bus {:.1} MB/s, zero latency {}",
        found.seek.points.len(),
        off[1000],
        off[1900],
        found.seek.head_switch_ms,
        found.interface.read_command_us,
        found.interface.bus_mb_per_s,
        found.firmware.zero_latency_read
    );
    for remark in &finding.remarks {
        println!("  remark: {remark}");
    }
}
