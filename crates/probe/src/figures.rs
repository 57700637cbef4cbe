//! Each figure that was found, with its uncertainty.
//!
//! The error is the standard error of the estimate for several readings, half a unit for a count,
//! half the bracket for a bisection, and infinite for an assumption.

use crate::cache::CacheResult;
use crate::finding::Figure;
use crate::layout::{LayoutResult, Pattern};
use crate::overhead::InterfaceResult;
use crate::queue::QueueResult;
use crate::results::Results;
use crate::seek::SeekResult;
use crate::session::DriveTiming;
use crate::writes::WriteResult;

/// All figures; none of a drive that does not rotate.
pub(crate) fn of(
    drive: &DriveTiming,
    results: &Results,
    second_arm: Option<&Results>,
    sector_bytes: u32,
) -> Vec<Figure> {
    if !results.rotation.rotates() {
        return Vec::new();
    }
    let (period_ns, error_ns) = drive.clock.mean_period_ns();
    let noise_ns = drive.clock.deviation_ns();
    let mut figures = vec![
        figure("period (us)", period_ns / 1e3, error_ns / 1e3),
        figure("noise of a completion (us)", noise_ns / 1e3, noise_ns / 8e3),
    ];
    zones(&results.layout, &mut figures);
    arm(&results.seek, &mut figures);
    interface(&results.seek, &results.interface, sector_bytes, &mut figures);
    cache(&results.cache, &mut figures);
    writes(&results.writes, &results.seek, &mut figures);
    queue(&results.queue, &mut figures);
    if let Some(second) = second_arm {
        let own = figures.len();
        zones(&second.layout, &mut figures);
        arm(&second.seek, &mut figures);
        figures[own..].iter_mut().for_each(|figure| figure.name.insert_str(0, "second arm: "));
    }
    figures
}

fn zones(layout: &LayoutResult, figures: &mut Vec<Figure>) {
    for (number, zone) in layout.zones.iter().enumerate().filter(|(_, zone)| !zone.unknown) {
        let spt = zone.sectors_per_track as f64;
        let steps = match (zone.pattern.in_bands(), zone.pattern.unit < Pattern::NEVER) {
            (true, _) => ["cylinder skew", "track skew", "band skew"].as_slice(),
            (false, true) => ["track skew", "cylinder skew"].as_slice(),
            (false, false) => ["cylinder skew"].as_slice(),
        };
        figures.push(figure(&format!("zone {number} sectors per track"), spt, 0.5));
        // Without a fit, the skews are known no better than a reading.
        let error = spt * if zone.fitted { zone.step_error } else { zone.deviation };
        for (name, step) in steps.iter().zip(zone.steps) {
            figures.push(figure(&format!("zone {number} {name} (sectors)"), step * spt, error));
        }
        let skipped: u64 = zone.skips.iter().map(|skip| skip.sectors).sum();
        figures.push(figure(&format!("zone {number} sectors stepped over"), skipped as f64, 0.5));
    }
}

fn arm(seek: &SeekResult, figures: &mut Vec<Figure>) {
    let base_ns = seek.same_track_ns.unwrap_or(0.0);
    // A seek time is a difference to a read on the same track.
    let error_ms = |error_ns: Option<f64>| both(error_ns, seek.same_track_error_ns) / 1e6;
    if let Some(ns) = seek.other_head_ns {
        figures.push(figure(
            "head switch (ms)",
            (ns - base_ns).max(0.0) / 1e6,
            error_ms(seek.other_head_error_ns),
        ));
    }
    for (distance, found) in &seek.curve.points {
        figures.push(figure(
            &format!("seek of {distance} cylinders (ms)"),
            (found.ns - base_ns).max(0.0) / 1e6,
            error_ms(found.error_ns),
        ));
    }
}

/// The standard error of a sum or difference; infinite if one is not known.
fn both(one: Option<f64>, two: Option<f64>) -> f64 {
    one.zip(two).map_or(f64::INFINITY, |(one, two)| libm::sqrt(one * one + two * two))
}

fn interface(
    seek: &SeekResult,
    interface: &InterfaceResult,
    sector_bytes: u32,
    figures: &mut Vec<Figure>,
) {
    if let Some(ns) = seek.same_track_ns {
        figures.push(figure(
            "command overhead and a sector on the bus (us)",
            ns / 1e3,
            seek.same_track_error_ns.map_or(f64::INFINITY, |error| error / 1e3),
        ));
    }
    if let Some(ns) = interface.bus_ns_per_sector {
        let value = f64::from(sector_bytes) * 1e3 / ns;
        let error = interface.bus_error_ns.map_or(f64::INFINITY, |error_ns| value * error_ns / ns);
        figures.push(figure("bus (MB/s)", value, error));
    } else if let Some(ns) = interface.max_bus_ns {
        figures.push(lower_bound("bus (MB/s)", f64::from(sector_bytes) * 1e3 / ns));
    }
}

fn cache(found: &CacheResult, figures: &mut Vec<Figure>) {
    let Some((hit_ns, error_ns)) = found.hit_ns else { return };
    figures.push(figure("cache hit (us)", hit_ns / 1e3, error_ns / 1e3));
    if let Some(segments) = found.segments() {
        let least = found.rows.iter().copied().min().unwrap_or(segments);
        let most = found.rows.iter().copied().max().unwrap_or(segments);
        figures.push(figure(
            "cache segments",
            segments as f64,
            ((most - least) as f64 / 2.0).max(0.5),
        ));
    }
    if let Some(sectors) = found.segment_sectors {
        figures.push(figure("cache segment (sectors)", sectors as f64, 1.0));
    }
    if let Some([near, far]) = found.ahead {
        let error = if found.within_track || found.whole_track {
            1.0
        } else {
            (near.abs_diff(far) as f64 / 2.0).max(1.0)
        };
        figures.push(figure("read-ahead (sectors)", near.max(far) as f64, error));
    }
}

fn writes(found: &WriteResult, seek: &SeekResult, figures: &mut Vec<Figure>) {
    if let Some((ns, error_ns)) = found.hit_ns {
        figures.push(figure("write into the cache (us)", ns / 1e3, error_ns / 1e3));
    }
    if let Some((ns, error_ns)) = seek.same_track_ns.and_then(|same_ns| found.settle_ns(same_ns)) {
        figures.push(figure("write settle (ms)", ns / 1e6, error_ns / 1e6));
    }
}

fn queue(queue: &QueueResult, figures: &mut Vec<Figure>) {
    let Some(found) = queue.behavior() else {
        return;
    };
    // A command that overtakes all others is seen every few choices, so the depth is found to one
    // or two.
    let (name, depth) = ("firmware queue (commands)", f64::from(found.depth));
    figures.push(match found.depth {
        1 => figure(name, depth, 0.5),
        _ if found.depth_is_lower_bound => lower_bound(name, depth),
        _ => figure(name, depth, 1.0_f64.max(depth / 16.0)),
    });
    figures.push(figure("random read alone (ms)", found.alone_ms, f64::INFINITY));
    let name = "longest wait of a random read beside a stream (ms)";
    let longest = found.longest_wait_ms - found.median_wait_ms;
    figures.push(if found.until_stopped {
        lower_bound(name, found.longest_wait_ms)
    } else {
        figure(name, found.longest_wait_ms, longest)
    });
}

fn figure(name: &str, value: f64, error: f64) -> Figure {
    Figure { name: name.into(), value, error, is_lower_bound: false }
}

fn lower_bound(name: &str, value: f64) -> Figure {
    Figure { is_lower_bound: true, ..figure(name, value, f64::INFINITY) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Timed;

    #[test]
    fn arm_times_are_as_sure_as_both_ends_of_the_difference() {
        let mut results = Results::default();
        results.rotation.rotates = Some(true);
        (results.seek.same_track_ns, results.seek.same_track_error_ns) = (Some(3e5), Some(3e3));
        results.seek.curve.points = vec![
            (1, Timed { ns: 1.3e6, error_ns: Some(4e3) }),
            (9, Timed { ns: 2e6, error_ns: None }),
        ];
        let figures = of(&DriveTiming::default(), &results, None, 512);
        let of = |name: &str| {
            figures.iter().find(|figure| figure.name == name).unwrap_or_else(|| panic!("no {name}"))
        };
        let one = of("seek of 1 cylinders (ms)");
        assert!((one.value - 1.0).abs() < 1e-9 && (one.error - 0.005).abs() < 1e-9, "{one:?}");
        assert!(of("seek of 9 cylinders (ms)").error.is_infinite());
        assert!((of("command overhead and a sector on the bus (us)").error - 3.0).abs() < 1e-9);
    }
}
