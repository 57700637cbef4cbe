//! A table of drives and what is found of them; minutes for each:
//! `cargo run --release -p headtime-probe --example survey -- atlas10k@nocache:nominal:1 deskstar34gxp:drawn:2`. `ZONES=1` and `UNLIKE=1` in the environment print more.
#![allow(clippy::unwrap_used)] // A table for whoever works on the probe; whatever is wrong ends it.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Bench, borders, settings, tracks_alike};
use headtime_mechanics::catalog;
use headtime_probe::Probe;
use headtime_sim::DriveTruth;

fn main() {
    for drive in std::env::args().skip(1) {
        let mut words = drive.split(':');
        let (name, kind, seed) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap().parse::<u64>().unwrap());
        let profile = catalog::load(name).unwrap();
        let truth = if kind == "nominal" { DriveTruth::nominal(&profile, seed) } else { DriveTruth::draw(&profile, seed) }.unwrap();
        let mut probe = Probe::new(settings(&profile, seed));
        let mut bench = Bench::new(truth.clone());
        let mut stage = (probe.stage(), 0.0, 0);
        let (mut reads, began) = (0, std::time::Instant::now());
        while bench.step(&mut probe) {
            reads += 1;
            if probe.stage() != stage.0 {
                let now = bench.now.as_secs_f64();
                println!("  {:?}: {:.1} s, {} reads", stage.0, now - stage.1, reads - stage.2);
                stage = (probe.stage(), now, reads);
                if std::env::var("ZONES").is_ok() && matches!(stage.0, headtime_probe::Stage::Skews | headtime_probe::Stage::Done) {
                    let json = serde_json::to_value(&probe).unwrap();
                    println!("  pattern {} {}", json["know"]["pattern"], json["know"]["remarks"]);
                    for zone in json["know"]["zones"].as_array().unwrap().iter().take(20) {
                        let skips = zone["skips"].as_array().unwrap();
                        let skips = format!(
                            "{} {:?}",
                            skips.len(),
                            skips.iter().take(6).map(|s| (s["lba"].as_u64().unwrap(), s["sectors"].as_u64().unwrap())).collect::<Vec<_>>()
                        );
                        println!(
                            "  {}..{} spt {} res {} steps {} last {} groups {} checked {} skips {skips}",
                            zone["first_lba"],
                            zone["end_lba"],
                            zone["sectors_per_track"],
                            zone["reserved"],
                            zone["steps"],
                            zone["last_band"],
                            zone["groups"],
                            zone["checked"]
                        );
                    }
                }
            }
        }
        let finding = probe.finding();
        let finding = match finding {
            Ok(finding) => finding,
            Err(error) => {
                println!("{drive}: NO PROFILE {error}");
                println!("{}", serde_json::to_value(&probe).unwrap()["know"]["remarks"]);
                continue;
            }
        };
        println!(
            "{drive}: {:.1} s of drive time, {} reads, {:.1} s of ours",
            finding.drive_time.as_secs_f64(),
            finding.reads,
            began.elapsed().as_secs_f64()
        );
        let period = truth.mechanism().period().as_ns_f64() / 1e3;
        if let Some(figure) = finding.figures.first() {
            println!("  period {} us, off by {:.3} ppm", figure.value, (figure.value / period - 1.0) * 1e6);
        }
        if let Some(found) = &finding.profile {
            println!("  geometry {:?}; {} zones", found.geometry, found.zones.len());
            let (real, seen) = (borders(&profile), borders(found));
            println!("  borders real {real:?}\n  borders seen {seen:?}");
            for zone in found.zones.iter().take(3) {
                let slips = zone.slips.len();
                println!(
                    "    zone {}+{} spt {} skews {:.2} {:.2} {:.2} spares {} by {:?} slips {slips}",
                    zone.first_cylinder,
                    zone.cylinders,
                    zone.sectors_per_track,
                    zone.track_skew,
                    zone.cylinder_skew,
                    zone.band_skew.unwrap_or(0.0),
                    zone.spares,
                    zone.spare_cylinders
                );
            }
            if std::env::var("UNLIKE").is_ok() {
                let (one, two) = (headtime_mechanics::Layout::new(found).unwrap(), truth.mechanism().layout());
                let capacity = two.capacity().get();
                let mut shown = 0;
                for number in 0..4000_u128 {
                    let lba = headtime_units::Lba::new((u128::from(capacity - 1) * number / 3999) as u64);
                    let (a, b) = (one.track_extent(one.track_of(lba)), two.track_extent(two.track_of(lba)));
                    if a != b && shown < 12 {
                        shown += 1;
                        println!("   unlike at {}: found {:?} {a}, real {:?} {b}", lba.get(), one.lba_to_physical(lba), two.lba_to_physical(lba));
                    }
                }
            }
            println!(
                "  tracks alike {:.4}, within 2 {:.4}, 100 {:.4}",
                tracks_alike(found, &truth, 0),
                tracks_alike(found, &truth, 2),
                tracks_alike(found, &truth, 100)
            );
            let curve = headtime_mechanics::SeekCurve::from_profile(found);
            let real = truth.mechanism().seek_curve();
            let mut off: Vec<f64> = (0..2000)
                .map(|n| 1 + n * (real.last_distance() - 1) / 2000)
                .map(|d| (curve.time(d).as_us_f64() - real.time(d).as_us_f64()).abs())
                .collect();
            off.sort_by(f64::total_cmp);
            println!(
                "  seek: {} points, error median {:.1} us, 95 % {:.1} us; head switch {:.3} ms; command {:.1} us, bus {:.1} MB/s, zero latency {}",
                found.seek.points.len(),
                off[1000],
                off[1900],
                found.seek.head_switch_ms,
                found.interface.read_command_us,
                found.interface.bus_mb_per_s,
                found.firmware.zero_latency_read
            );
        }
        println!("  check {:?}", finding.check);
        for remark in finding.remarks.iter().take(8) {
            println!("  remark: {remark}");
        }
    }
}
