//! Each figure that was found, with how sure it is.
//!
//! Where several readings were taken the error is the standard error of what was taken from them; where something was counted it is half a unit; where it was bracketed,
//! half the bracket; where it was taken for granted it is infinite.

use crate::finding::Figure;
use crate::knowledge::Knowledge;
use crate::layout::Pattern;
use crate::numbers::spread;

/// All figures; none of a drive that does not turn.
pub(crate) fn of(know: &Knowledge, sector_bytes: u32) -> Vec<Figure> {
    if know.turns != Some(true) {
        return Vec::new();
    }
    let (period_ns, error_ns) = know.clock.mean_period_ns();
    let noise_ns = know.clock.noise_ns();
    let mut figures =
        vec![figure("period (us)", period_ns / 1e3, error_ns / 1e3), figure("noise of a completion (us)", noise_ns / 1e3, noise_ns / 8e3)];
    zones(know, &mut figures);
    arm(know, &mut figures);
    interface(know, sector_bytes, &mut figures);
    cache(know, &mut figures);
    writes(know, &mut figures);
    queue(know, &mut figures);
    figures
}

fn zones(know: &Knowledge, figures: &mut Vec<Figure>) {
    for (number, zone) in know.zones.iter().enumerate().filter(|(_, zone)| !zone.lost) {
        let spt = zone.sectors_per_track as f64;
        let deviation = zone.deviation * spt / libm::sqrt(zone.readings.len().max(1) as f64);
        let steps = match (zone.pattern.in_bands(), zone.pattern.unit < Pattern::NEVER) {
            (true, _) => ["cylinder skew", "track skew", "band skew"].as_slice(),
            (false, true) => ["track skew", "cylinder skew"].as_slice(),
            (false, false) => ["cylinder skew"].as_slice(),
        };
        figures.push(figure(&format!("zone {number} sectors per track"), spt, 0.5));
        for (name, step) in steps.iter().zip(zone.steps) {
            figures.push(figure(&format!("zone {number} {name} (sectors)"), step * spt, deviation));
        }
        let skipped: u64 = zone.skips.iter().map(|skip| skip.sectors).sum();
        figures.push(figure(&format!("zone {number} sectors stepped over"), skipped as f64, 0.5));
    }
}

fn arm(know: &Knowledge, figures: &mut Vec<Figure>) {
    let seek = &know.seek;
    let base_ns = seek.same_track_ns.unwrap_or(0.0);
    let error_ns = arm_error_ns(know);
    if let Some(ns) = seek.other_head_ns {
        figures.push(figure("head switch (ms)", (ns - base_ns).max(0.0) / 1e6, error_ns / 1e6));
    }
    for (distance, ns) in &seek.points {
        figures.push(figure(&format!("seek of {distance} cylinders (ms)"), (ns - base_ns).max(0.0) / 1e6, error_ns / 1e6));
    }
}

/// The standard error of one measured arm time, from how far the points of the curve lie off the lines between their neighbours, ns: its curvature counts as error too.
/// Infinite where there are too few of them. Head switch and command overhead are measured in the same way, so the error is taken for theirs.
fn arm_error_ns(know: &Knowledge) -> f64 {
    let points = &know.seek.points;
    if points.len() < LEAST_POINTS {
        return f64::INFINITY;
    }
    let off = points.windows(3).map(|three| {
        let share = (three[1].0 - three[0].0) as f64 / (three[2].0 - three[0].0).max(1) as f64;
        let line = three[0].1 + share * (three[2].1 - three[0].1);
        // The error of the point and the errors of both ends, each by its share.
        (three[1].1 - line) / libm::sqrt(1.0 + share * share + (1.0 - share) * (1.0 - share))
    });
    spread(&off.collect::<Vec<_>>())
}

/// Points of the seek curve that tell how far each is off.
const LEAST_POINTS: usize = 8;

fn interface(know: &Knowledge, sector_bytes: u32, figures: &mut Vec<Figure>) {
    if let Some(ns) = know.seek.same_track_ns {
        figures.push(figure("command overhead and a sector on the bus (us)", ns / 1e3, arm_error_ns(know) / 1e3));
    }
    if let Some(ns) = know.interface.bus_ns_per_sector {
        figures.push(figure("bus (MB/s)", f64::from(sector_bytes) * 1e3 / ns, f64::INFINITY));
    }
}

fn cache(know: &Knowledge, figures: &mut Vec<Figure>) {
    let Some(found) = &know.cache else { return };
    let Some((hit_ns, error_ns)) = found.hit_ns else { return };
    figures.push(figure("cache hit (us)", hit_ns / 1e3, error_ns / 1e3));
    if let Some(segments) = found.segments() {
        let least = found.rows.iter().copied().min().unwrap_or(segments);
        let most = found.rows.iter().copied().max().unwrap_or(segments);
        figures.push(figure("cache segments", segments as f64, ((most - least) as f64 / 2.0).max(0.5)));
    }
    if let Some(sectors) = found.segment_sectors {
        figures.push(figure("cache segment (sectors)", sectors as f64, 1.0));
    }
    if let Some([near, far]) = found.ahead {
        let error = if found.within_track || found.whole_track { 1.0 } else { (near.abs_diff(far) as f64 / 2.0).max(1.0) };
        figures.push(figure("read-ahead (sectors)", near.max(far) as f64, error));
    }
}

fn writes(know: &Knowledge, figures: &mut Vec<Figure>) {
    let Some(found) = &know.writes else { return };
    if let Some((ns, error_ns)) = found.hit_ns {
        figures.push(figure("write into the cache (us)", ns / 1e3, error_ns / 1e3));
    }
    if let Some((ns, error_ns)) = know.seek.same_track_ns.and_then(|same_ns| found.settle_ns(same_ns)) {
        figures.push(figure("write settle (ms)", ns / 1e6, error_ns / 1e6));
    }
}

fn queue(know: &Knowledge, figures: &mut Vec<Figure>) {
    let Some(found) = know.queue.as_ref().and_then(crate::queue::QueueFound::behaviour) else { return };
    // A command that goes first of all that wait is seen every few choices, so that the depth is found to one or two.
    let error = if found.depth_is_least { f64::INFINITY } else { 1.0_f64.max(f64::from(found.depth) / 16.0) };
    figures.push(figure("firmware queue (commands)", f64::from(found.depth), if found.depth == 1 { 0.5 } else { error }));
    figures.push(figure("random read alone (ms)", found.alone_ms, f64::INFINITY));
    let longest = if found.until_stopped { f64::INFINITY } else { found.longest_wait_ms - found.median_wait_ms };
    figures.push(figure("longest wait of a random read beside a stream (ms)", found.longest_wait_ms, longest));
}

fn figure(name: &str, value: f64, error: f64) -> Figure {
    Figure { name: name.into(), value, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn the_error_of_arm_times_is_what_scatters_them() {
        let mut know = Knowledge::default();
        assert!(arm_error_ns(&know).is_infinite());
        let mut draw = Draw::new(1, 0);
        for number in 0..100_u64 {
            let noise = (0..12).map(|_| draw.part()).sum::<f64>() - 6.0;
            know.seek.points.push((1 + number * 40, 1e6 + number as f64 * 5e4 + 20_000.0 * noise));
        }
        let error = arm_error_ns(&know);
        assert!((error / 20_000.0 - 1.0).abs() < 0.3, "{error}");
    }
}
